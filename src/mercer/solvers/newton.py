r"""Newton's method for a smooth convex loss of the values of a function in the span of a kernel.

With F = G T + 1 b', G = K / alpha, the coefficients T (n by k, alpha times those of the kernel) and
the intercepts b minimise

.. math:: L(F) + \tfrac12 \operatorname{tr} T^\top G\, T .

At the minimum T = -D, the derivative of L. With W the second derivative of L and R = T + D, a step
(dT, db) solves dT = -R + C (G R - 1 db'), where C = (G + W^-1)^-1. For a loss of single values C is
W^1/2 B^-1 W^1/2 with B = I + W^1/2 G W^1/2, whose eigenvalues are at least 1; for a softmax it
takes such a factor for each class and one more for what ties the classes. The intercepts follow
from the condition that columns of T sum to zero (bordering). A whole step is taken if it lowers the
objective by a fraction of what its slope promises (Armijo) and does not lead up again on the other
side; else the step that leads to the minimum along the line, which convexity makes easy to find.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, lapack

from mercer.exceptions import ValidityError

Array = NDArray[np.floating[Any]]
Operator = Callable[[Array], Array]

_SUFFICIENT = 1e-4
_FLAT = 0.9
_RESOLUTION = 1e-6
_IDLE_STEPS = 3
_MOST_JITTER = 1e-3
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class State:
    """Where a solver stands after a step.

    Attributes
    ----------
    scaled : ndarray of shape (n, k)
        alpha times the coefficients over the points.
    intercept : ndarray of shape (k,)
        The constants.
    loss : float
        The weighted sum of losses.
    error : float
        How far from the minimum: the norm of the gradient, or the duality gap.
    converged : bool
        Whether that is as little as was asked for.
    """

    scaled: Array
    intercept: Array
    loss: float
    error: float
    converged: bool


class Curvature(Protocol):
    """The second derivative of a loss of n rows and k outputs."""

    def size(self, values: Array) -> Array:
        """W applied to the absolute values: what rounding of the values does to the derivative."""

    def operator(self, gram: Array) -> Operator:
        """C = (G + W^-1)^-1, as a function of n by k matrices."""


class SmoothLoss(Protocol):
    """A smooth convex function of the values of k functions at n points."""

    def value(self, values: Array) -> float:
        """The weighted sum of losses."""

    def derivative(self, values: Array) -> Array:
        """Its derivative in every value."""

    def curvature(self, values: Array) -> Curvature:
        """Its second derivative."""


@dataclass(frozen=True)
class Diagonal:
    """The curvature of a loss of single values.

    Attributes
    ----------
    weights : ndarray of shape (n,)
        The second derivatives, 0 or more.
    """

    weights: Array

    def size(self, values: Array) -> Array:
        """W applied to the absolute values."""
        return self.weights[:, None] * np.abs(values)

    def operator(self, gram: Array) -> Operator:
        """C as a function of n by 1 matrices; rows without curvature are left out."""
        rows = np.flatnonzero(self.weights > 0)
        root = np.sqrt(self.weights[rows])[:, None]
        inner = gram if len(rows) == len(gram) else gram[np.ix_(rows, rows)]
        factor = _factor(inner, root[:, 0])

        def apply(columns: Array) -> Array:
            found = np.zeros_like(columns)
            found[rows] = root * cho_solve(factor, root * columns[rows], check_finite=False)
            return found

        return apply


@dataclass(frozen=True)
class Softmax:
    """The curvature of the multinomial log-likelihood, w_i (diag(p_i) - p_i p_i').

    Attributes
    ----------
    weights : ndarray of shape (n,)
        Positive weights of the rows.
    probabilities : ndarray of shape (n, k)
        The p_i.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian Processes for Machine Learning,
       section 3.5.
    """

    weights: Array
    probabilities: Array

    def size(self, values: Array) -> Array:
        """A bound of W applied to the absolute values."""
        return self.weights[:, None] * self.probabilities * np.abs(values)

    def operator(self, gram: Array) -> Operator:
        """C = E - E R (R' E R)^-1 R' E, with E that of the diagonal part; R stacks identities."""
        roots = np.sqrt(self.weights[:, None] * self.probabilities)
        factors = [_factor(gram, root) for root in roots.T]
        total = np.zeros_like(gram)
        for root, (lower, _) in zip(roots.T, factors, strict=True):
            inverse, _ = lapack.dpotri(lower, lower=True)
            inverse *= root[:, None]
            inverse *= root
            total += inverse
        # Only lower triangles were set, and only they are read.
        tie = cho_factor(total, lower=True, overwrite_a=True, check_finite=False)

        def diagonal_part(columns: Array) -> Array:
            solved = [
                root * cho_solve(factor, root * column, check_finite=False)
                for root, factor, column in zip(roots.T, factors, columns.T, strict=True)
            ]
            return np.column_stack(solved)

        def apply(columns: Array) -> Array:
            first = diagonal_part(columns)
            shared = cho_solve(tie, first.sum(axis=1), check_finite=False)
            return first - diagonal_part(np.repeat(shared[:, None], columns.shape[1], axis=1))

        return apply


def minimise(
    gram: Array,
    loss: SmoothLoss,
    alpha: float,
    start: tuple[Array, Array],
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield the state after every Newton step, until the gradient is small.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semi-definite, float64.
    loss : SmoothLoss
        The loss.
    alpha : float
        Positive weight of half the squared norm.
    start : tuple of ndarray of shapes (n, k) and (k,)
        alpha times coefficients and intercepts to begin with; with an intercept, the columns of
        the first sum to zero.
    fit_intercept : bool
        Whether the intercepts are fitted, or stay as they are.
    tol : float
        The gradient may be this part of its two terms, the loss's and the penalty's.
    max_iter : int
        The largest number of steps.

    Yields
    ------
    State
        At least one; the last is converged or there were `max_iter`, or rounding allows no more.
    """
    problem = _Problem(gram / alpha, loss, fit_intercept)
    point = problem.at(*start)
    idle = 0
    for _ in range(max_iter):
        moved = problem.step(point)
        idle = 0 if moved.objective < point.objective - problem.rounding(point) else idle + 1
        point = moved
        state = problem.state(point, alpha, tol, excused=idle > 0)
        yield state
        if state.converged or idle >= _IDLE_STEPS:
            return


@dataclass(frozen=True)
class _Point:
    """Coefficients, intercepts and what follows from them."""

    scaled: Array
    intercept: Array
    spread: Array
    values: Array
    derivative: Array
    loss: float

    @property
    def objective(self) -> float:
        return self.loss + float(np.sum(self.scaled * self.spread)) / 2

    @property
    def gradient(self) -> Array:
        """The gradient of the objective, as coefficients over the points."""
        return self.scaled + self.derivative


class _Problem:
    def __init__(self, gram: Array, loss: SmoothLoss, fit_intercept: bool) -> None:
        self.gram, self.loss, self.fit_intercept = gram, loss, fit_intercept

    def at(self, scaled: Array, intercept: Array, spread: Array | None = None) -> _Point:
        spread = self.gram @ scaled if spread is None else spread
        values = spread + intercept
        derivative = self.loss.derivative(values)
        return _Point(scaled, intercept, spread, values, derivative, self.loss.value(values))

    def rounding(self, point: _Point) -> float:
        """What rounding can do to a difference of objectives."""
        return 4 * _EPS * abs(point.objective)

    def step(self, point: _Point) -> _Point:
        """The point after one step; the same if no step lowers the objective."""
        scaled, intercept = self._direction(point)
        spread = self.gram @ scaled

        def along(length: float) -> _Point:
            return self.at(
                point.scaled + length * scaled,
                point.intercept + length * intercept,
                point.spread + length * spread,
            )

        def slope(there: _Point) -> float:
            change = there.derivative * (spread + intercept) + there.scaled * spread
            return float(np.sum(change))

        full, first = along(1.0), slope(point)
        allowed = point.objective + _SUFFICIENT * first + self.rounding(point)
        if full.objective <= allowed and slope(full) <= _FLAT * abs(first):
            return full
        # The objective is convex along the line: where it still falls, it is lower than before.
        low, high, best = 0.0, 1.0, point
        while high - low > _RESOLUTION * high and high > _EPS:
            middle = along((low + high) / 2)
            if slope(middle) <= 0:
                low, best = (low + high) / 2, middle
            else:
                high = (low + high) / 2
        return best

    def _direction(self, point: _Point) -> tuple[Array, Array]:
        gradient = point.gradient
        apply = self.loss.curvature(point.values).operator(self.gram)
        scaled = -gradient + apply(self.gram @ gradient)
        intercept = np.zeros_like(point.intercept)
        if self.fit_intercept:
            k = len(intercept)
            sums = np.empty((k, k))
            borders = []
            for output in range(k):
                unit = np.zeros_like(scaled)
                unit[:, output] = 1
                borders.append(apply(unit))
                sums[:, output] = borders[-1].sum(axis=0)
            target = scaled.sum(axis=0) + point.scaled.sum(axis=0)
            # A softmax, the one loss of several outputs, does not see a constant added to all of
            # them: least squares leaves it 0, but for rounding.
            intercept = np.linalg.lstsq(sums, target, rcond=1e-12)[0]
            intercept -= (k > 1) * intercept.mean()
            for output, border in enumerate(borders):
                scaled = scaled - intercept[output] * border
        return scaled, intercept

    def state(self, point: _Point, alpha: float, tol: float, excused: bool) -> State:
        """The point with the norm of its gradient, measured against the terms that cancel.

        Where steps no longer lower the objective, rounding is an excuse.
        """
        gradient, derivative = point.gradient, point.derivative
        curvature = self.loss.curvature(point.values)
        lost = curvature.size(rounding(self.gram, point.scaled, point.values))
        lost = 8 * excused * (lost + _EPS * np.abs(derivative))
        parts = curvature.size(np.abs(point.values)) + np.abs(derivative)
        root = float(np.sqrt(alpha * np.trace(self.gram)))
        error = self._norm(gradient, alpha)
        terms = self._norm(point.scaled, alpha) + self._norm(derivative, alpha)
        norms = [root * float(np.linalg.norm(part)) for part in (parts, lost)]
        small = _small(error, terms, norms[0], norms[1], tol)
        if self.fit_intercept:
            total = float(np.linalg.norm(derivative.sum(axis=0)))
            sums = [float(part.sum()) for part in (np.abs(derivative), parts, lost)]
            small = small and _small(total, sums[0], sums[1], sums[2], tol)
            error = float(np.hypot(error, total))
        return State(point.scaled, point.intercept, point.loss, error, bool(small))

    def _norm(self, coefficients: Array, alpha: float) -> float:
        square = alpha * float(np.sum(coefficients * (self.gram @ coefficients)))
        return float(np.sqrt(max(square, 0.0)))


def _small(error: float, terms: float, parts: float, lost: float, tol: float) -> bool:
    """Whether an error is little beside the terms it is a difference of, or beside their rounding.

    Rounding excuses no more than a hundred times the tolerance, of the parts that make up the
    terms: beyond that, what was found is not the solution, even if no arithmetic finds a better.
    """
    return error <= tol * terms + min(lost, 100 * tol * parts)


def rounding(gram: Array, scaled: Array, values: Array) -> Array:
    """What rounding may change in the values of functions, from the sizes of what is added up.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The matrix G that takes `scaled` to values up to a constant; positive semi-definite.
    scaled : ndarray of shape (n, k)
        Coefficients.
    values : ndarray of shape (n, k)
        The values.

    Returns
    -------
    ndarray of shape (n, k)
        A typical error, since abs(G_ij) is at most sqrt(G_ii G_jj).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.newton import rounding
    >>> bool(rounding(np.eye(2), np.ones((2, 1)), np.ones((2, 1))).max() < 1e-15)
    True
    """
    diagonal = np.maximum(gram.diagonal(), 0.0)
    terms = np.sqrt(diagonal[:, None] * (diagonal @ scaled**2))
    return np.asarray(_EPS * (np.abs(values) + terms))


def _factor(gram: Array, root: Array) -> Any:
    """The Cholesky factor of I + W^1/2 G W^1/2."""
    matrix = root[:, None] * gram
    matrix *= root
    matrix.flat[:: len(matrix) + 1] += 1
    return factorised(matrix)


def factorised(matrix: Array) -> Any:
    """The Cholesky factor of a matrix that is positive definite up to rounding.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric. Where it has no factor, as little as it takes is added to its diagonal: a solver
        that uses the factor measures elsewhere how good its solution is.

    Returns
    -------
    tuple
        What `scipy.linalg.cho_solve` takes.

    Raises
    ------
    ValidityError
        If a thousandth of the mean diagonal is not enough.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.linalg import cho_solve
    >>> from mercer.solvers.newton import factorised
    >>> cho_solve(factorised(np.ones((2, 2))), np.array([2.0, 2.0])).round(6)
    array([1., 1.])
    """
    mean = float(matrix.diagonal().mean()) if matrix.size else 0.0
    jitter = 0.0
    while jitter <= _MOST_JITTER:
        trial = matrix.copy()
        trial.flat[:: len(matrix) + 1] += jitter * mean
        try:
            return cho_factor(trial, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            jitter = max(100 * jitter, len(matrix) * _EPS)
    raise ValidityError(
        "the Gram matrix is not positive semi-definite: no small multiple of the identity makes it "
        "so; raise alpha, or use a kernel whose is_psd is True."
    )
