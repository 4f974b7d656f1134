"""What a model asks of a solver, and what it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import DataError
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.solvers.moments import Block, FeatureRidge

Array = NDArray[np.floating[Any]]
Report = Callable[[Callable[[], "RidgeAnswer"]], bool]

# Kernel values that are in memory at a time.
_BLOCK_BYTES = 2**24


@dataclass(frozen=True, eq=False)
class RidgeTask:
    """Minimise sum_i w_i (y_i - f(x_i))^2 / 2 + alpha |f - b|^2 / 2.

    Attributes
    ----------
    owner : str
        The name of the model, for messages.
    kernel : Kernel
        The kernel, resolved.
    points : Points
        The training points.
    targets : ndarray of shape (n, t)
        The targets, in the type to compute in.
    weights : ndarray of shape (n,) or None
        Non-negative weights of the rows.
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
    """

    owner: str
    kernel: Kernel
    points: Points
    targets: Array
    weights: Array | None
    fit_intercept: bool
    alphas: Array
    criterion: str = "loo"
    compares: bool = False
    report: Report | None = None

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.points)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the kernel is computed."""
        found: np.dtype[Any] = self.kernel.gram(self.points).dtype
        return found

    @property
    def mass(self) -> Array:
        """The weights, ones if there are none."""
        return np.ones(self.n) if self.weights is None else self.weights

    @property
    def middle(self) -> Array:
        """The weighted mean of the targets, zero without an intercept."""
        if not self.fit_intercept:
            return np.zeros(self.targets.shape[1])
        found: Array = self.mass @ self.targets.astype(np.float64) / self.mass.sum()
        return found

    def columns(self, points: Points) -> Gram:
        """The kernel between all rows and some points."""
        return self.kernel.gram(self.points, points)

    def blocks(self, points: Points) -> Iterator[Block]:
        """Kernel values of blocks of rows with some points, targets and weights."""
        step = max(256, _BLOCK_BYTES // (8 * max(1, len(points))))
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            weights = None if self.weights is None else self.weights[rows]
            yield self.kernel(self.points[rows], points), self.targets[rows], weights

    def choose(
        self, problem: FeatureRidge, blocks: Callable[[], Iterator[Block]]
    ) -> tuple[float, Array | None]:
        """The alpha, and the criterion for each candidate if there are several."""
        if not self.compares:
            return float(self.alphas[0]), None
        by_gcv = self.criterion == "gcv"
        errors = problem.gcv(self.alphas) if by_gcv else problem.loo(blocks(), self.alphas)
        if not np.isfinite(errors).any():
            raise DataError(
                f"{self.owner}: no candidate has a finite {self.criterion} error, so that none can "
                "be chosen; pass more rows of positive weight, or a number as alpha."
            )
        return float(self.alphas[int(np.argmin(errors))]), errors

    def at(self, alpha: float) -> RidgeTask:
        """The same task with nothing left to choose."""
        return replace(self, alphas=np.array([alpha]), compares=False)

    def the_alpha(self, solver: str) -> float:
        """The one alpha, for solvers that cannot choose among several."""
        if not self.compares:
            return float(self.alphas[0])
        raise DataError(
            f"{self.owner}: {solver} cannot compare candidates by {self.criterion!r}; pass a "
            "number as alpha, or take solvers.Nystrom, which compares all of them in a pass."
        )


@dataclass(frozen=True, eq=False)
class FeatureFunction:
    """The function phi(x)' v of explicit features.

    Attributes
    ----------
    features : callable
        ``features(points)`` returns phi, of shape (n, p).
    coef : ndarray of shape (p, t)
        The coefficients v.
    """

    features: Callable[[Points], Any]
    coef: Array

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
    """

    points: Points
    dual: Array
    intercept: Array
    alpha: float
    quality: dict[str, Any] = field(default_factory=dict)
    errors: Array | None = None
    doubt: str = ""
    function: FeatureFunction | None = None


class Solver(Protocol):
    """Anything that solves a ridge task; its parameters are its attributes."""

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve it."""
        ...
