r"""An interior-point method for quadratic programs on which exchanges of pairs make slow progress.

The variables b = U x of a problem lie s above their lower bounds and t below their upper ones. The
sums A x are given. With multipliers y of the sums and u, v >= 0 of the bounds, a minimum solves

.. math:: U K x + c + A^\top y - u + v = 0, \qquad A x = d, \qquad s u = t v = 0 .

The path s u = t v = mu is followed by the predictor and corrector of Mehrotra [1]_. The equations
of a step have the matrix U K + D with a positive diagonal D, and take one Cholesky factor of a
matrix over the rows. At the end each variable is at a bound or free, and one more system in the
free variables gives the solution to rounding.

.. [1] S. Mehrotra (1992). On the implementation of a primal-dual interior point method. SIAM
   Journal on Optimization 2(4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from mercer.arrays import Float64Array as Array
from mercer.exceptions import ValidityError
from mercer.parallel import single_blas
from mercer.solvers.box_qp.problem import EPS, BoxQP, Flags, Positions, extremes, reduced
from mercer.solvers.newton.curvature import factorised

# Largest number of steps.
_STEPS = 100
# Largest step, as a share of the distance to the boundary.
_SHORT = 0.995
# Mean complementarity at which the path ends, relative to its scale.
_END = 1e-16
# Shortest step that counts as progress.
_SHORTEST = 1e-6
# Addition to the diagonal of the last system, relative to the mean diagonal.
_RIDGE = 1e-13
# Number of steps of iterative refinement of the last system.
_REFINEMENTS = 3


def minimum(
    qp: BoxQP, values: NDArray[Any], rows: Positions, poll: Callable[[], None] | None = None
) -> Array | None:
    """A feasible point close to the minimum of one problem, or None if the method fails.

    `values` is a matrix that holds the kernel values of row i at ``rows[i]``, one for each
    variable.
    """
    if not (qp.upper > qp.lower).all():
        return None
    distinct, places = np.unique(rows, return_inverse=True)
    gram = np.array(values[np.ix_(distinct, distinct)], dtype=np.float64)
    path = _Path(qp, gram, places)
    try:
        with single_blas():  # vectors are short, and factors use the threads of the engine
            for _ in range(_STEPS):
                if poll is not None:
                    poll()
                if not path.step():
                    break
            return path.finished()
    except (ValidityError, np.linalg.LinAlgError):  # the matrix is not positive semi-definite
        return None


@dataclass
class _System:
    """The matrix E G E' + D over variables, where E repeats the rows of G, and sums A."""

    gram: Array  # (n, n): G
    places: Positions  # (m,): the row of each variable
    sums: Array  # (m, n_sums): A', of zeros and ones
    diagonal: Array  # (m,): D

    def __post_init__(self) -> None:
        self._stiff = 1 / self._by_row(1 / self.diagonal)
        shifted = self.gram.copy()
        shifted.flat[:: len(shifted) + 1] += self._stiff
        self._factor = factorised(shifted)
        self._responses = self._inverse(self.sums)
        self._corner = self.sums.T @ self._responses

    def _by_row(self, values: Array) -> Array:
        return np.bincount(self.places, values, len(self.gram)).astype(np.float64)

    def _inverse(self, right: Array) -> Array:
        """The inverse times some columns."""
        solved = np.empty_like(right)
        for column, out in zip(right.T, solved.T, strict=True):
            weighted = self._by_row(column / self.diagonal)
            of_rows = cho_solve(self._factor, self._stiff * weighted, check_finite=False)
            products = self.gram @ of_rows
            out[:] = (column - products[self.places]) / self.diagonal
            # The sum of the variables of a row is known better than each of them.
            missing = of_rows - self._by_row(out)
            out += (self._stiff * missing)[self.places] / self.diagonal
        return solved

    def solve(self, right: Array, totals: Array) -> tuple[Array, Array]:
        """The x and y with (E G E' + D) x + A' y = right and A x = totals."""
        alone = self._inverse(right[:, None])[:, 0]
        levels = np.linalg.lstsq(self._corner, self.sums.T @ alone - totals, rcond=None)[0]
        return alone - self._responses @ levels, levels.astype(np.float64)


class _Path:
    """An iterate near the central path."""

    def __init__(self, qp: BoxQP, gram: Array, places: Positions) -> None:
        self._qp, self._places = qp, places
        width = qp.upper - qp.lower
        self._unit = float(width.max())
        # The sum of all variables is fixed, so that any constant may be added to the kernel. This
        # one keeps small systems regular if their rows differ only by a constant.
        self._gram = (gram + float(np.abs(gram.diagonal()).mean())) * self._unit
        starts, sizes = qp.groups[0], qp.group_sizes
        self._sums = np.repeat(np.eye(len(starts)), sizes, axis=0)
        self._totals = self._sums.T @ qp.start / self._unit
        self._low, self._high = qp.lower / self._unit, qp.upper / self._unit
        self._below, self._above = width / self._unit / 2, width / self._unit / 2
        gradient = self._gradient((self._low + self._high) / 2)
        self._levels = -reduced(np.add, gradient, starts) / sizes
        scale = float(np.abs(gradient + self._sums @ self._levels).max()) or 1.0
        self._up, self._down = np.full(len(width), scale), np.full(len(width), scale)
        # The size of the multipliers of a solution; a problem without a linear term has no unit.
        self._scale = float(np.abs(qp.linear).max()) or 0.01 * scale

    @property
    def _point(self) -> Array:
        """The variables, measured from the nearer bound."""
        nearer = self._below <= self._above
        return np.where(nearer, self._low + self._below, self._high - self._above)

    @property
    def _mean(self) -> float:
        """The mean complementarity."""
        return float((self._below * self._up + self._above * self._down).mean() / 2)

    def _gradient(self, point: Array) -> Array:
        by_row = np.bincount(self._places, point, len(self._gram))
        return np.asarray((self._gram @ by_row)[self._places] + self._qp.linear)

    def step(self) -> bool:
        """Take one step; return whether another one may help."""
        below, above, up, down = self._below, self._above, self._up, self._down
        point, mean = self._point, self._mean
        system = _System(self._gram, self._places, self._sums, up / below + down / above)
        residual = self._gradient(point) + self._sums @ self._levels - up + down
        missing = self._totals - self._sums.T @ point

        def direction(lower: Array, upper: Array) -> tuple[Array, Array, Array, Array]:
            """The step that changes the products of the bounds by these amounts."""
            right = lower / below - upper / above - residual
            move, levels = system.solve(right, missing)
            return move, levels, (lower - up * move) / below, (upper + down * move) / above

        move, _, rise, fall = direction(-below * up, -above * down)
        length = self._room(move, rise, fall)
        ahead = (below + length * move) * (up + length * rise)
        ahead += (above - length * move) * (down + length * fall)
        centre = (float(ahead.mean()) / 2 / mean) ** 3 * mean
        move, levels, rise, fall = direction(
            centre - below * up - move * rise, centre - above * down + move * fall
        )
        length = _SHORT * self._room(move, rise, fall)
        self._below, self._above = below + length * move, above - length * move
        self._up, self._down = up + length * rise, down + length * fall
        self._levels = self._levels + length * levels
        return length > _SHORTEST and self._mean > _END * self._scale

    def _room(self, move: Array, rise: Array, fall: Array) -> float:
        """The largest step in [0, 1] at which all parts stay positive."""
        length = 1.0
        for value, change in (
            (self._below, move),
            (self._above, -move),
            (self._up, rise),
            (self._down, fall),
        ):
            falls = change < 0
            length = min(length, float(np.min(-value[falls] / change[falls], initial=1.0)))
        return length

    def finished(self) -> Array | None:
        """The best of the iterate and of the solutions that it suggests."""
        width = self._high - self._low
        at_low = self._below * self._scale < self._up * width
        at_high = (self._above * self._scale < self._down * width) & ~at_low
        free = ~(at_low | at_high)
        plain = np.where(at_low, self._low, np.where(at_high, self._high, self._point))
        solved = plain.copy()
        if free.any():
            solved[free] += self._correction(plain, free)
        points = [self._feasible(point, free) for point in (solved, plain)]
        points.append(self._feasible(self._point, np.ones(len(free), bool)))
        known = [point for point in points if point is not None]
        return min(known, key=self._violation, default=None)

    def _violation(self, point: Array) -> float:
        """The largest slope of an exchange between two variables."""
        qp, ascents = self._qp, -self._gradient(point / self._unit)
        high, low = extremes(qp, ascents, point < qp.upper, point > qp.lower)
        return float((high - low).max())

    def _correction(self, point: Array, free: Flags) -> Array:
        """What free variables have to change by, as if they had no bounds."""
        places, sums = self._places[free], self._sums[free]
        rows, own = np.unique(places, return_inverse=True)
        gram = self._gram[np.ix_(rows, rows)]
        ridge = np.full(len(own), _RIDGE * float(np.trace(gram)) / len(gram))
        system = _System(gram, own, sums, ridge)
        change = np.zeros(len(own))
        trial, levels = point.copy(), self._levels
        for _ in range(_REFINEMENTS):
            trial[free] = point[free] + change
            residual = self._gradient(trial)[free] + sums @ levels
            more, shift = system.solve(-residual, self._totals - self._sums.T @ trial)
            change, levels = change + more, levels + shift
        return change

    def _feasible(self, point: Array, free: Flags) -> Array | None:
        """The point with its sums restored by the free variables; None if that is impossible."""
        inside = np.where(point >= self._high, self._qp.upper, point * self._unit)
        result = np.where(point <= self._low, self._qp.lower, inside)
        for number, own in enumerate(self._sums.T > 0):
            chosen = own & free if (own & free).any() else own
            missing = float(self._totals[number] * self._unit - result[own].sum())
            bound = self._qp.upper if missing > 0 else self._qp.lower
            room = (bound - result)[chosen]
            total = float(room.sum())
            if abs(missing) > abs(total) + EPS * float(np.abs(result).sum()):
                return None
            if total and abs(missing) > EPS * float(np.abs(result[own]).sum()):
                result[chosen] += room * min(missing / total, 1.0)
        return np.clip(result, self._qp.lower, self._qp.upper)
