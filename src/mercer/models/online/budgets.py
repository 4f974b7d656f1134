r"""Budgets: which points an online model keeps.

An online model adds a term a k(x, .) for every row that teaches it something. A budget bounds how
many terms there are, at every moment:

========================  =======================================================
``None``                  keep every point
``Remove(size)``          drop the oldest point, or the one with the smallest term
``Project(size)``         drop the point that is least missed when its term is
                          projected on the span of the others
``Quantize(radius)``      give the term of a point to a centre close to it
========================  =======================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg.cholesky import factorise
from mercer.models.online.expansion import Batch, DictionarySchedule

if TYPE_CHECKING:
    from mercer.models.online.expansion import BudgetedRowPass

__all__ = ["Budget", "Project", "Quantize", "Remove"]


# Ridge of the Gram matrix in a projection, relative to its mean diagonal.
_RIDGE = 1e-10


class Budget(ABC):
    """Base of budgets: ``insert`` puts a term into the dictionary and keeps it bounded.

    Examples
    --------
    >>> import mercer as mc
    >>> isinstance(mc.budgets.Remove(100), mc.budgets.Budget)
    True
    """

    #: Whether points leave the dictionary.
    forgets: bool = True

    def plan(self, batch: Batch) -> DictionarySchedule | None:
        """Plan a mini-batch, if what happens in it does not depend on the coefficients.

        Parameters
        ----------
        batch : Batch
            The rows, each of which adds a term.

        Returns
        -------
        DictionarySchedule or None
            None if the dictionary depends on the coefficients.
        """
        return None

    @abstractmethod
    def insert(self, row_pass: BudgetedRowPass, row: int, column: int, increment: Array) -> None:
        """Add increment * k(x, .) to the function.

        Parameters
        ----------
        row_pass : BudgetedRowPass
            The mini-batch, with its dictionary.
        row : int
            The row of x in the mini-batch.
        column : int
            The column that x has, or would have, in the dictionary.
        increment : ndarray of shape (n_outputs,)
            The coefficient.
        """


@dataclass(frozen=True)
class Remove(Budget):
    """Keep at most `size` points: before one comes in, another is dropped with its term.

    Parameters
    ----------
    size : int
        The number of points, at least 1.
    which : {"oldest", "smallest"}
        Whether the point that came first is dropped, or the one whose term has the smallest norm,
        ``|a_i| sqrt(k(x_i, x_i))``; a point that comes in is not compared.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.KernelLMS(mc.RBF(), budget=mc.budgets.Remove(2))
    >>> model.fit([[0.0], [1.0], [2.0]], [1.0, 2.0, 3.0]).points_.data.ravel().tolist()
    [1.0, 2.0]
    """

    size: int
    which: Literal["oldest", "smallest"] = "oldest"

    def __post_init__(self) -> None:
        checks.require_count(type(self).__name__, "size", self.size)
        checks.require_choice("Remove", "which", self.which, ("oldest", "smallest"))

    def plan(self, batch: Batch) -> DictionarySchedule | None:
        """Plan when the oldest points leave."""
        if self.which == "smallest":
            return None
        b, m = len(batch.known), len(batch.columns) - len(batch.known)
        target, gone = np.array(batch.known), np.full(m + b, b, dtype=np.intp)
        members = deque(range(m))
        for i, place in enumerate(batch.known):
            if place < 0 or gone[place] < b:
                while len(members) >= self.size:
                    gone[members.popleft()] = i
                target[i] = m + i
                members.append(m + i)
        return DictionarySchedule(target, gone, np.array(members, dtype=np.intp))

    def insert(self, row_pass: BudgetedRowPass, row: int, column: int, increment: Array) -> None:
        """Drop a point if the dictionary is full, then add the term."""
        if column not in row_pass.members:
            while len(row_pass.members) >= self.size:
                row_pass.drop(self._column_to_drop(row_pass))
            row_pass.members.append(column)
        row_pass.change(column, increment)

    def _column_to_drop(self, row_pass: BudgetedRowPass) -> int:
        if self.which == "oldest":
            return row_pass.members[0]
        coef, diagonal = row_pass.coef[row_pass.members], row_pass.diagonal[row_pass.members]
        return row_pass.members[int(np.argmin((coef * coef).sum(axis=1) * diagonal))]


@dataclass(frozen=True)
class Project(Budget):
    r"""Keep at most `size` points: one is dropped after its term went to the others.

    Of the points and the one that comes in, that is dropped whose projection on the span of the
    others changes the function least: with G their Gram matrix, the norm of the change is
    ``|a_p| / sqrt((G^-1)_pp)``, and the others receive ``-(G^-1)_qp / (G^-1)_pp`` times ``a_p``.

    Parameters
    ----------
    size : int
        The number of points m, at least 1. A step costs O(m^3).

    References
    ----------
    .. [1] F. Orabona, J. Keshet, B. Caputo (2009). Bounded kernel-based online learning. JMLR 10.
    .. [2] Z. Wang, K. Crammer, S. Vucetic (2012). Breaking the curse of kernelization: budgeted
       stochastic gradient descent for large-scale SVM training. JMLR 13.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.KernelLMS(mc.Linear(), step_size=0.1, budget=mc.budgets.Project(1))
    >>> whole = mc.KernelLMS(mc.Linear(), step_size=0.1)
    >>> X, y = [[1.0], [2.0], [3.0]], [1.0, 2.0, 3.0]
    >>> bool(abs(model.fit(X, y).predict([[1.0]]) - whole.fit(X, y).predict([[1.0]])) < 1e-6)
    True
    """

    size: int

    def __post_init__(self) -> None:
        checks.require_count(type(self).__name__, "size", self.size)

    def insert(self, row_pass: BudgetedRowPass, row: int, column: int, increment: Array) -> None:
        """Add the term; if the dictionary is full, project one term on the others."""
        if column not in row_pass.members:
            while len(row_pass.members) > self.size:  # a dictionary from before a smaller budget
                self._replace(row_pass, row_pass.members, np.zeros_like(increment), None)
            if len(row_pass.members) == self.size:
                self._replace(row_pass, [*row_pass.members, column], increment, column)
                return
            row_pass.members.append(column)
        row_pass.change(column, increment)

    def _replace(
        self, row_pass: BudgetedRowPass, candidates: list[int], increment: Array, new: int | None
    ) -> None:
        """Drop one candidate and share its term among the others."""
        inverse = _inverse(row_pass.gram(candidates))
        coef = row_pass.coef[candidates]
        if new is not None:
            coef[-1] = increment
        losses = (coef * coef).sum(axis=1) / inverse.diagonal()
        place = int(np.argmin(losses))
        rest = candidates[:place] + candidates[place + 1 :]
        shares = np.delete(-inverse[place] / inverse[place, place], place)
        additions = np.multiply.outer(shares, coef[place])
        if candidates[place] != new:
            row_pass.drop(candidates[place])
            if new is not None:
                additions[-1] += increment
                row_pass.members.append(new)
        row_pass.change_all(rest, additions)


@dataclass(frozen=True)
class Quantize(Budget):
    r"""Keep centres that are apart: the term of a point goes to a centre within `radius` of it.

    The distance is that of the feature space, ``sqrt(k(x, x) + k(c, c) - 2 k(x, c))``, so that it
    has a meaning for every kernel; for the RBF it is ``sqrt(2 - 2 exp(-r^2 / 2))``. A point
    farther than `radius` from every centre becomes a centre. In a bounded region there is room for
    finitely many.

    Parameters
    ----------
    radius : float
        The distance, positive.

    References
    ----------
    .. [1] B. Chen, S. Zhao, P. Zhu, J. C. Principe (2012). Quantized kernel least mean square
       algorithm. IEEE Transactions on Neural Networks and Learning Systems 23(1).

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.KernelLMS(mc.RBF(), budget=mc.budgets.Quantize(0.5))
    >>> model.fit([[0.0], [0.1], [2.0]], [1.0, 2.0, 3.0]).points_.data.ravel().tolist()
    [0.0, 2.0]
    """

    radius: float

    forgets = False

    def __post_init__(self) -> None:
        checks.require_number("Quantize", "radius", self.radius, example=0.1)

    def plan(self, batch: Batch) -> DictionarySchedule:
        """Plan which centre receives the term of each row."""
        b, m = len(batch.known), len(batch.columns) - len(batch.known)
        own = batch.diagonal[m:, None]
        squares = own + batch.diagonal - 2 * batch.block
        centres, target = list(range(m)), np.array(batch.known)
        # The nearest of the centres before the batch, for all rows; then those within it.
        nearest = squares[:, :m].argmin(axis=1) if m else np.full(b, -1)
        least = squares[:, :m].min(axis=1, initial=np.inf)
        for i in np.flatnonzero(batch.known < 0):
            place, square = int(nearest[i]), float(least[i])
            if len(centres) > m:
                among = squares[i, centres[m:]]
                if among.min() < square:
                    place, square = centres[m + int(among.argmin())], float(among.min())
            if square > self.radius**2:
                place = m + int(i)
                centres.append(place)
            target[i] = place
        return DictionarySchedule(target, np.full(m + b, b), np.array(centres, dtype=np.intp))

    def insert(self, row_pass: BudgetedRowPass, row: int, column: int, increment: Array) -> None:
        """Add the term at the nearest centre, or at a new one."""
        centres = row_pass.members
        if column not in centres:
            similar, own = row_pass.block[row, centres], row_pass.diagonal[column]
            squares = own + row_pass.diagonal[centres] - 2 * similar
            nearest = int(np.argmin(squares)) if centres else -1
            if nearest >= 0 and squares[nearest] <= self.radius**2:
                column = centres[nearest]
            else:
                centres.append(column)
        row_pass.change(column, increment)


def _inverse(gram: Array) -> Array:
    """The inverse of a Gram matrix, with a ridge that is negligible in the function."""
    m = len(gram)
    mean = float(gram.diagonal().mean())
    relative = max(_RIDGE, 10 * m * float(np.finfo(gram.dtype).eps))
    try:
        factor = factorise(gram.astype(float), relative * (mean if mean > 0 else 1.0))
    except ValidityError:
        raise ValidityError(
            f"Project: the Gram matrix of the {m} points to choose from is not positive "
            "semi-definite; use a kernel whose is_psd is True, or the budget Remove."
        ) from None
    return factor.solve(np.eye(m))
