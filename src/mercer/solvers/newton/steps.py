"""Steps of Newton's method: what is to be solved, and how a matrix in memory solves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.newton.curvature import Curvature

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class Equations:
    """Newton's: dT + W (G dT + 1 db') = -R; with intercepts, the columns of T + dT sum to zero."""

    curvature: Curvature  # W
    gradient: Array  # (n, k): R
    # (k,): the sums of the columns of T; None if there are no intercepts, and db is zero
    sums: Array | None
    # how large the gradient is beside its terms: equations far from the minimum need no digits
    left: float


@dataclass(frozen=True, eq=False)
class Step:
    """A solution of these equations."""

    scaled: Array  # the changes dT and db
    intercept: Array  # the changes dT and db
    spread: Array  # (n, k): G dT
    doubt: str = ""  # why it is not as precise as was asked for, as a clause; empty if it is


class Matrix(Protocol):
    """The matrix G."""

    @property
    def least_tolerance(self) -> float:
        """The least relative gradient that its products can tell from zero."""
        ...

    def __matmul__(self, columns: Array) -> Array: ...

    def diagonal(self) -> Array:
        """Its diagonal."""
        ...

    def solve(self, equations: Equations) -> Step:
        """A step of Newton's method."""
        ...


class Scalable(Protocol):
    """A matrix K that is not an array."""

    def __truediv__(self, alpha: float) -> Matrix: ...


@dataclass(frozen=True, eq=False)
class Dense:
    """A matrix in memory, with steps from factors."""

    gram: Array  # (n, n): the matrix
    least_tolerance = 0.0

    def __matmul__(self, columns: Array) -> Array:
        return self.gram @ columns

    def diagonal(self) -> Array:
        """Its diagonal."""
        return self.gram.diagonal()

    def solve(self, equations: Equations) -> Step:
        """A step, exact but for rounding."""
        gradient = equations.gradient
        apply = equations.curvature.operator(self.gram)
        scaled = -gradient + apply(self.gram @ gradient)
        intercept = np.zeros(gradient.shape[1])
        if equations.sums is not None:
            k = len(intercept)
            sums = np.empty((k, k))
            borders = []
            for output in range(k):
                unit = np.zeros_like(scaled)
                unit[:, output] = 1
                borders.append(apply(unit))
                sums[:, output] = borders[-1].sum(axis=0)
            target = scaled.sum(axis=0) + equations.sums
            # A softmax, the one loss of several outputs, does not see a constant added to all of
            # them: least squares leaves it 0, but for rounding.
            intercept = np.linalg.lstsq(sums, target, rcond=1e-12)[0]
            intercept -= (k > 1) * intercept.mean()
            for output, border in enumerate(borders):
                scaled = scaled - intercept[output] * border
        return Step(scaled, intercept, self.gram @ scaled)
