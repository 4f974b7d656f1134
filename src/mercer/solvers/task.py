"""What a model asks of a solver, and what it gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, Made, RowBlock, RowSource
from mercer.rows.sums import CountedDraw, Features

Array = NDArray[np.floating[Any]]
Report = Callable[[Callable[[], "RidgeAnswer"]], bool]


@dataclass(frozen=True, eq=False)
class RidgeTask:
    """Minimise sum_i w_i (y_i - f(x_i))^2 / 2 + alpha |f - b|^2 / 2.

    Attributes
    ----------
    owner : str
        The name of the model, for messages.
    kernel : Kernel
        The kernel, resolved.
    rows : RowSource
        Points, targets and weights.
    fit_intercept : bool
        Whether there is a constant b.
    alphas : ndarray of shape (a,)
        The candidates for alpha; one if it is given.
    criterion : {"loo", "gcv"}
        What chooses among several.
    compares : bool
        Whether the criterion is wanted even for one alpha: kernels are compared by it.
    report : callable, optional
        ``report(answer)``, with a function that makes an answer of what there is so far, after each
        iteration; True stops.
    resumes : bool
        Whether the answer is to hold what a solver can go on from.
    state : object, optional
        What an earlier answer held.
    ridge : str
        What the user calls alpha.
    """

    owner: str
    kernel: Kernel
    rows: RowSource
    fit_intercept: bool
    alphas: Array
    criterion: str = "loo"
    compares: bool = False
    report: Report | None = None
    resumes: bool = False
    state: Any = None
    ridge: str = "alpha"

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def n_targets(self) -> int:
        """The number of targets."""
        return len(self.rows.statistics.targets)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the kernel is computed."""
        found: np.dtype[Any] = self.kernel.gram(self.rows.first_row).dtype
        return found

    @property
    def middle(self) -> Array:
        """The weighted mean of the targets, zero without an intercept."""
        totals = self.rows.statistics
        if not self.fit_intercept:
            return np.zeros_like(totals.targets)
        found: Array = totals.targets / totals.weight
        return found

    @property
    def held(self) -> bool:
        """Whether all rows are in memory."""
        return isinstance(self.rows, InMemory)

    def part(self, solver: str) -> RowBlock:
        """All rows, for a solver that needs them in memory."""
        if isinstance(self.rows, InMemory):
            return self.rows.part
        raise DataError(
            f"{self.owner}: {solver} needs all {self.n} rows in memory, and they come in blocks; "
            "take solvers.NystromSolver(), which does with sums over them, or pass arrays."
        )

    def of_sample(self, size: int, function: Callable[[RowBlock], Made]) -> Made:
        """What a function makes of some rows, there where they are.

        They are evenly spaced, or drawn among those that count if not all do.
        """
        count = self.rows.statistics.rows
        size = min(size, count)
        if count == self.n:
            rows = np.linspace(0, self.n - 1, size).astype(np.intp)
        else:
            rows = np.sort(self.rows.map_sum(CountedDraw(size, 0)).rows)
        return self.rows.apply_to(rows, function)

    def type_with(self, points: Points) -> np.dtype[Any]:
        """The type of kernel values of rows with points."""
        found: np.dtype[Any] = self.kernel.gram(self.rows.first_row, points).dtype
        return found

    def at(self, alpha: float) -> RidgeTask:
        """The same task with nothing left to choose."""
        return replace(self, alphas=np.array([alpha]), compares=False)

    def the_alpha(self, solver: str) -> float:
        """The one alpha, for solvers that cannot choose among several."""
        if not self.compares:
            return float(self.alphas[0])
        raise DataError(
            f"{self.owner}: {solver} cannot compare candidates by {self.criterion!r}; pass a "
            "number as alpha, or take solvers.NystromSolver, which compares all of them in a pass."
        )


@dataclass(frozen=True, eq=False)
class FeatureFunction:
    """The function phi(x)' v of explicit features."""

    features: Features  # ``features(points)`` returns phi, of shape (n, p)
    coef: Array  # (p, t): the coefficients v

    def __call__(self, points: Points) -> Array:
        """The values at points."""
        return np.asarray(self.features(points) @ self.coef)


@dataclass(frozen=True, eq=False)
class RidgeAnswer:
    """Coefficients over points, and how good they are.

    Attributes
    ----------
    points : Points
        The points z_j of f(x) = sum_j a_j k(x, z_j) + b.
    dual : ndarray of shape (m, t)
        The coefficients a.
    intercept : ndarray of shape (t,)
        The constants b.
    alpha : float
        The alpha used.
    quality : dict
        Fitted attributes that say how good the answer is.
    errors : ndarray of shape (a,), optional
        The criterion for each candidate alpha, if there was a choice.
    doubt : str
        A clause for a warning; empty if all is well.
    function : FeatureFunction, optional
        The same function by explicit features, where that is the way to evaluate it.
    rows : ndarray of shape (m,), optional
        Which rows of the data the points are, where they are some of them and not all.
    state : object, optional
        What the solver can go on from, if it can and the task asks for it.
    """

    points: Points
    dual: Array
    intercept: Array
    alpha: float
    quality: dict[str, Any] = field(default_factory=dict)
    errors: Array | None = None
    doubt: str = ""
    function: FeatureFunction | None = None
    rows: NDArray[np.intp] | None = None
    state: Any = None


@dataclass(frozen=True, eq=False)
class PathAnswer:
    """Coefficients at each alpha."""

    points: Points  # the points that carry the coefficients
    dual: Array  # (a, m, t): the coefficients
    intercept: Array  # (a, t): the constants
    loo: Array  # (a,): leave-one-out errors; NaN where they cost more than the coefficients
    gcv: Array  # (a,): generalised cross-validation errors; NaN likewise
    dof: Array  # (a,): effective degrees of freedom; NaN likewise
    # the same functions by explicit features, one column for each alpha and target
    function: FeatureFunction | None = None
    doubt: str = ""  # a clause for a warning; empty if all is well
