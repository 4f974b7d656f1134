"""Coresets: a few rows that represent all rows, with their discrepancy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.checks import require_count
from mercer.exceptions import ParameterError
from mercer.inference.samples import kernels_for, sample
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks.selection import KernelColumns
from mercer.landmarks.thinning import thinned
from mercer.parallel import single_blas
from mercer.sampling import RowNumbers, random_numbers, uniform_rows

# Number of random subsets with which a coreset is compared.
_SUBSETS = 20
# Largest number of rows against which the discrepancy is measured.
_REFERENCE = 10_000


@dataclass(frozen=True, eq=False, repr=False)
class Coreset:
    """A few rows that represent all rows.

    Attributes
    ----------
    indices : ndarray of shape (k,)
        The row numbers.
    points : Points
        The rows; ``points.data`` has the type of the data.
    kernel : Kernel
        The kernel, with numbers in place of rules.
    discrepancy : float
        The maximum mean discrepancy between these rows and all rows, or at most 10,000 of them.
    random_discrepancy : float
        The root mean square discrepancy of 20 random subsets of the same size.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(500, 2))
    >>> coreset = mc.inference.thin(x, 10, random_state=0)
    >>> coreset.points.data.shape
    (10, 2)
    >>> coreset.discrepancy < 0.5 * coreset.random_discrepancy
    True
    """

    owner: str
    indices: RowNumbers
    points: Points
    kernel: Kernel
    discrepancy: float
    random_discrepancy: float

    def __len__(self) -> int:
        return len(self.indices)

    def __repr__(self) -> str:
        return f"Coreset({len(self)} rows, discrepancy={self.discrepancy:.4g})"

    def __str__(self) -> str:
        return (
            f"{self.owner}: {len(self)} rows with a maximum mean discrepancy of "
            f"{self.discrepancy:.3g}; random rows have {self.random_discrepancy:.3g}."
        )


@single_blas()
def thin(x: Any, k: int, kernel: Any = None, *, random_state: Any = None) -> Coreset:
    """Choose k rows whose mean embedding is close to that of all rows, by kernel thinning.

    Means of functions over these rows are close to means over all rows. Up to 2,048 rows are halved
    as a whole; more rows are halved in parts first, in near-linear time.

    Parameters
    ----------
    x : array-like, data frame, list or Points
        The rows.
    k : int
        The number of rows to choose.
    kernel : Kernel, str or callable, optional
        The kernel; ``RBF("columns")`` by default.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.

    Returns
    -------
    Coreset
        The rows, and their discrepancy beside that of random rows.

    References
    ----------
    Dwivedi and Mackey, Kernel thinning, 2021. Shetty, Dwivedi and Mackey, Distribution compression
    in near-linear time, 2022.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> len(mc.inference.thin(x, 16, random_state=0))
    16
    """
    points, made, rng = _prepared("thin", x, k, kernel, random_state)
    access = KernelColumns(made, points)
    chosen = thinned(access.entries, len(points), k, rng)
    return _coreset("thin", made, points, chosen, rng)


@single_blas()
def herding(x: Any, k: int, kernel: Any = None, *, random_state: Any = None) -> Coreset:
    """Choose k rows by kernel herding: each next row brings the mean embedding closest.

    Unlike `thin`, the rows have an order: the first ones represent the data best for their number.

    Parameters
    ----------
    x : array-like, data frame, list or Points
        The rows.
    k : int
        The number of rows to choose.
    kernel : Kernel, str or callable, optional
        The kernel; ``RBF("columns")`` by default.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers of the subsets for comparison; herding itself has none.

    Returns
    -------
    Coreset
        The rows in the order of their choice, and their discrepancy beside that of random rows.

    References
    ----------
    Chen, Welling and Smola, Super-samples from kernel herding, 2010.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.inference.herding([[0.0], [1.0], [2.0], [9.0]], 1, random_state=0).indices.tolist()
    [1]
    """
    points, made, rng = _prepared("herding", x, k, kernel, random_state)
    means = np.asarray(made.gram(points) @ np.full(len(points), 1.0 / len(points)))
    diagonal = np.asarray(made.diag(points), dtype=np.float64)
    sums, chosen = np.zeros(len(points)), np.empty(k, np.intp)
    for i in range(k):
        change = (2 * sums + diagonal) / (i + 1) - 2 * means
        change[chosen[:i]] = np.inf
        chosen[i] = int(np.argmin(change))
        sums += made(points, points[chosen[i : i + 1]])[:, 0]
    return _coreset("herding", made, points, chosen, rng)


def _prepared(
    owner: str, x: Any, k: int, kernel: Any, random_state: Any
) -> tuple[Points, Kernel, np.random.RandomState]:
    points = sample(owner, "x", x, least=1)
    require_count(owner, "k", k)
    if k > len(points):
        raise ParameterError(f"{owner}: k = {k} exceeds the {len(points)} rows; choose fewer.")
    rng = random_numbers(random_state, owner)
    return points, kernels_for(owner, kernel, points, rng, each=1, both=False)[0], rng


def _coreset(
    owner: str, kernel: Kernel, points: Points, chosen: RowNumbers, rng: np.random.RandomState
) -> Coreset:
    """The coreset with its discrepancy, and that of random rows, all from one product."""
    n, k = len(points), len(chosen)
    some = uniform_rows(n, _REFERENCE, rng) if n > _REFERENCE else np.arange(n)
    subsets = [chosen, *(uniform_rows(n, k, rng) for _ in range(_SUBSETS))]
    discrepancies = _discrepancies(kernel, points, subsets, some)
    typical = float(np.sqrt(np.mean(discrepancies[1:])))
    return Coreset(
        owner, chosen, points[chosen].detached(), kernel, float(np.sqrt(discrepancies[0])), typical
    )


def _discrepancies(
    kernel: Kernel, points: Points, subsets: list[RowNumbers], some: RowNumbers
) -> Array:
    """Squared discrepancies |mu_S - mu|^2 between subsets and some of the rows."""
    reference = points[some]
    ones = np.full(len(some), 1.0 / len(some))
    whole = float(np.mean(np.asarray(kernel.gram(reference) @ ones)))
    squares = []
    for rows in subsets:
        part = points[rows]
        across = float(np.mean(np.asarray(kernel.gram(part, reference) @ ones)))
        squares.append(float(np.mean(kernel(part))) - 2 * across + whole)
    return np.maximum(squares, 0.0)
