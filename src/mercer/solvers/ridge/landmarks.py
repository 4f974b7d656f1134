r"""Ridge regression on landmarks by normal equations, with iterative refinement.

.. math:: (C^\top W C + \alpha M)\, c = C^\top W y , \qquad C = k(X, Z), \quad M = k(Z, Z) .

One pass over the rows computes the sums for all alphas. Squaring C loses half of the digits.
Iterative refinement recovers them: each step is a fused pass over all pairs for all alphas. If
landmarks are so close that refinement fails, rows are whitened before they are squared, which is
twice the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.linalg.whitening import whiten
from mercer.parallel import cached_property
from mercer.rows.moments import Moments, require_finite
from mercer.rows.rows import RowBlock
from mercer.rows.sums import (
    Columns,
    FeatureMoments,
    Features,
    NormalProduct,
    Trace,
    among,
    blocks_of,
)
from mercer.solvers.protocol import PathAnswer, RidgeAnswer, RidgeTask
from mercer.solvers.ridge.features import (
    FeatureEquations,
    FeatureRidge,
    choose,
    criteria,
    feature_equations,
)
from mercer.solvers.ridge.gram import LARGE_ERROR, REMEDY

# A landmark is left out if the others explain k(z, z) up to this many rounding units of float64.
_DEPENDENT = 32
# Largest number of refinement passes.
_PASSES = 3
_SINGLE, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
# Stop refining when the next step changes the norm of the function by less than this share.
_SMALL_CHANGE = {_SINGLE: 1e-3, _DOUBLE: 5e-9}
# Whiten rows first if the next step still changes the norm by more than this share.
_LARGE_CHANGE = {_SINGLE: 1e-2, _DOUBLE: 5e-9}
# Relative residual at which to stop refining.
_SMALL_RESIDUAL = {_SINGLE: np.inf, _DOUBLE: 1e-9}
# Relative residual that is warned of.
_LARGE_RESIDUAL = 1e-2
# The trace error from C'WC is used if it exceeds this many times the rounding error of C'WC.
_CLEAR = 100
# Number of rows from which the trace error is estimated otherwise.
_SAMPLE_ROWS = 2000


def solve(task: RidgeTask, points: Points) -> RidgeAnswer:
    """The best function over landmarks, at the alpha of the task or the best of several."""
    fit = _fit(task, points, every=False)
    return RidgeAnswer(
        points,
        fit.dual[0],
        fit.intercept[0],
        float(fit.alphas[0]),
        {
            "trace_error_": fit.trace_error,
            "residual_": float(fit.residuals[0]),
            "effective_dof_": fit.problem.effective_dof(float(fit.alphas[0])),
        },
        fit.errors,
        fit.warning,
    )


def path(task: RidgeTask, points: Points) -> PathAnswer:
    """The best functions over landmarks at every alpha of a task."""
    fit = _fit(task, points, every=True)
    known = criteria(task, fit.problem, fit.features)
    return PathAnswer(points, fit.dual, fit.intercept, *known, warning=fit.warning)


def _fit(task: RidgeTask, points: Points, *, every: bool) -> LandmarkFit:
    """Solve the normal equations; whiten rows first if rounding makes them unreliable."""
    equations = LandmarkEquations.of(task, points)
    fit = None
    if not equations.normal_equations_unreliable:
        fit = equations.solve_refined(every=every)
    return fit or equations.solve_whitened(every=every)


def normal_product(task: RidgeTask, points: Points, sums: Array, coefficients: Array) -> Array:
    """C'WC c by a pass over all pairs; with an intercept C is centred, from `sums` = C'w."""
    product = task.rows.map_sum(NormalProduct(task.kernel, points, coefficients))
    if task.fit_intercept:
        product = product - np.outer(sums, sums @ coefficients) / task.rows.statistics.weight
    return product


@dataclass(frozen=True, eq=False)
class LandmarkFit:
    """Coefficients of all landmarks at some alphas, with the equations that they solve."""

    equations: LandmarkEquations
    problem: FeatureEquations
    features: Features  # the features of the equations
    trace: float  # the sum of w_i k(x_i, x_i)
    alphas: Array  # (a,)
    errors: Array | None  # the criterion at each alpha of the task, if they were compared
    solutions: Array  # (a, k, t): coefficients of the features
    residuals: Array  # (a,): relative norms of the gradient

    @property
    def whitened(self) -> bool:
        """Whether rows were whitened before they were squared."""
        return self.features is self.equations.whitened

    @property
    def dual(self) -> Array:
        """The coefficients of all landmarks, (a, m, t)."""
        kept = self.equations.basis @ self.solutions if self.whitened else self.solutions
        return self.equations.whitened.of_all_landmarks(kept)

    @property
    def intercept(self) -> Array:
        """The intercepts, (a, t)."""
        return np.stack([self.problem.intercept(at) for at in self.solutions])

    @property
    def trace_error(self) -> float:
        """The share of the weighted trace of K outside the span of the landmarks."""
        if self.trace <= 0:
            return 0.0
        error = max(0.0, 1 - self._explained_trace / self.trace)
        return self.equations.sampled_trace_error() if self._is_rounded(error) else error

    @property
    def _explained_trace(self) -> float:
        """The trace of the whitened C'WC, with the part that centring has removed."""
        problem, sums = self.problem, self.problem.moments.plain_features
        if not problem.fit_intercept:
            return problem.explained_trace
        if not self.whitened:
            sums = self.equations.basis.T @ sums
        return problem.explained_trace + float(sums @ sums) / problem.moments.weight

    def _is_rounded(self, error: float) -> bool:
        """Whether a trace error from C'WC may be rounding error.

        Errors of entries are proportional to sqrt(d_i d_j), with d the diagonal of C'WC. So the
        error of the trace is at most proportional to the sum of d_i T_ij^2.
        """
        if self.whitened:
            return False
        lengths = np.square(self.equations.basis).sum(axis=1)
        noise = self.equations.eps * float(self.problem.moments.squares.diagonal() @ lengths)
        return error * self.trace < _CLEAR * noise

    @property
    def warning(self) -> str:
        """A warning, as a clause, that refinement failed or that landmarks only seem dependent."""
        hidden = self.equations.tol * self.trace
        clause = ""
        if self.problem.fit_intercept:
            clause = _warn_of_hidden_differences(hidden, self.problem.explained_trace)
        return clause or _warn_of_residual(float(self.residuals.max(initial=0.0)))


@dataclass(frozen=True, eq=False)
class LandmarkEquations:
    """The normal equations of given landmarks; landmarks that others explain are left out."""

    task: RidgeTask
    whitened: LandmarkFeatures  # features of the landmarks that are kept
    columns: Columns  # kernel values with these landmarks
    penalty: Array  # (k, k): their matrix M
    basis: Array  # (k, k): T = R^-1, so that T' M T = I
    tol: float  # the share of k(z, z) up to which a landmark counts as explained

    @classmethod
    def of(cls, task: RidgeTask, points: Points) -> LandmarkEquations:
        """Whiten the landmarks."""
        square = among(task.kernel, points)
        require_finite(square)
        eps = float(np.finfo(task.type_with(points)).eps)
        tol = max(_DEPENDENT * float(np.finfo(np.float64).eps), eps)
        features = LandmarkFeatures.of(task.kernel, points, whiten(square, tol=tol))
        kept = features.whitening.kept
        columns = Columns(task.kernel, features.points)
        penalty = square[np.ix_(kept, kept)]
        return cls(task, features, columns, penalty, features.whitening.inverse(), tol)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of kernel values of rows with landmarks."""
        return self.task.type_with(self.whitened.points)

    @property
    def eps(self) -> float:
        """The rounding unit of these kernel values."""
        return float(np.finfo(self.dtype).eps)

    @property
    def normal_equations_unreliable(self) -> bool:
        """Whether rounding of C'WC, in coordinates where M is the identity, may exceed alpha.

        Landmarks that are close to one another make T large. By Cauchy and Schwarz a diagonal entry
        of C'WC is at most that of M times the sum of w k(x, x), estimated here from the landmarks.
        The bound is always exceeded in single precision; a single alpha is tried nevertheless,
        since its residual shows the error.
        """
        task = self.task
        if self.dtype == np.float32 and len(task.alphas) == 1:
            return False
        diagonal = self.penalty.diagonal()
        largest = task.rows.statistics.weight * float(diagonal.mean()) * diagonal
        sizes = np.abs(self.basis).T @ np.sqrt(np.maximum(largest, 0.0))
        return bool(task.alphas.min() <= self.eps * float(sizes @ sizes))

    def solve_refined(self, *, every: bool) -> LandmarkFit | None:
        """Solve with C'WC, and refine; None if rounding lost too many digits to recover."""
        task = self.task
        moments, trace = self._sums(self.columns)
        alpha = None if every or task.compares else float(task.alphas[0])
        problem = feature_equations(
            moments, self.basis, alpha, self.eps, fit_intercept=task.fit_intercept
        )
        alphas, errors = choose(task, problem, self.columns, every=every)
        solutions, residuals, lost = self.refine(problem, alphas)
        if lost.any():
            return None
        return LandmarkFit(self, problem, self.columns, trace, alphas, errors, solutions, residuals)

    def solve_whitened(self, *, every: bool) -> LandmarkFit:
        """Solve with rows that are whitened before they are squared."""
        task = self.task
        moments, trace = self._sums(self.whitened)
        problem = FeatureRidge.decompose(moments, None, fit_intercept=task.fit_intercept)
        alphas, errors = choose(task, problem, self.whitened, every=every)
        inner = np.stack([problem.solve(alpha) for alpha in alphas])
        sums = problem.moments
        gradients = sums.products - sums.squares @ inner - alphas[:, None, None] * inner
        residuals = sums.relative(gradients)
        return LandmarkFit(self, problem, self.whitened, trace, alphas, errors, inner, residuals)

    def _sums(self, features: Features) -> tuple[Moments, float]:
        """Sums of features and targets over the rows, and the weighted trace of K."""
        task = self.task
        summand = FeatureMoments(features, self.whitened.width, task.middle, task.kernel)
        moments, trace = task.rows.map_sum(summand).terms
        return moments, trace

    def refine(
        self, problem: FeatureEquations, alphas: Array
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Iterative refinement with residuals from the kernel itself; a pass covers all alphas.

        Returns the solutions, their relative residuals, and whether the next step is too large.
        """
        sums = problem.moments
        shape = (len(alphas), *sums.products.shape)
        solutions, best = np.zeros(shape), np.zeros(shape)
        residuals, least = np.full(len(alphas), np.inf), np.full(len(alphas), np.inf)
        steps = _apply(problem, np.broadcast_to(sums.products, shape), alphas)
        for _ in range(_PASSES):
            solutions = solutions + steps
            gradients = sums.products - self._image(sums, solutions, alphas)
            sizes = sums.relative(gradients)
            steps = _apply(problem, gradients, alphas)
            norms = self._norms(solutions)
            changes = self._norms(steps) / np.where(norms > 0, norms, 1.0)
            better = changes < least
            best[better], residuals[better] = solutions[better], sizes[better]
            least = np.where(better, changes, least)
            solved = residuals <= _SMALL_RESIDUAL[self.dtype]
            if (solved & (least <= _SMALL_CHANGE[self.dtype])).all() or not better.any():
                break
        return best, residuals, ~(least <= _LARGE_CHANGE[self.dtype])

    def _norms(self, coefficients: Array) -> Array:
        """Norms |T' M c| of functions with coefficients c."""
        norms: Array = np.linalg.norm(self.basis.T @ (self.penalty @ coefficients), axis=(1, 2))
        return norms

    def _image(self, sums: Moments, solutions: Array, alphas: Array) -> Array:
        """(C'WC + alpha M) c at each alpha, by one pass."""
        columns = np.hstack(list(solutions))
        product = normal_product(self.task, self.whitened.points, sums.plain_features, columns)
        parts = np.stack(np.split(product, len(alphas), axis=1))
        image: Array = parts + alphas[:, None, None] * (self.penalty @ solutions)
        return image

    def sampled_trace_error(self) -> float:
        """Estimate the share of the trace of K outside the landmarks' span, from some rows."""
        summand = _TraceError(self.task.kernel, self.whitened, self.whitened.width)
        return self.task.of_sample(_SAMPLE_ROWS, summand)


@dataclass(frozen=True, eq=False)
class _TraceError:
    """The share of the weighted trace of K that features do not explain."""

    kernel: Kernel
    features: Features
    width: int

    def __call__(self, part: RowBlock) -> float:
        blocks = blocks_of(part, self.features, self.width)
        explained = np.concatenate([np.einsum("ij,ij->i", phi, phi) for phi, _, _ in blocks])
        trace = Trace(self.kernel)(part)
        return max(0.0, 1 - float(part.mass @ explained) / trace) if trace > 0 else 0.0


def _warn_of_hidden_differences(rounding: float, explained_trace: float) -> str:
    """A warning if rounding may hide that landmarks differ, after an intercept centres them."""
    if explained_trace == 0 or not rounding > LARGE_ERROR * explained_trace:
        return ""
    share = min(1.0, rounding / explained_trace)
    return (
        f"rounding of kernel values hides what may be {share:.0%} of their "
        "differences between rows; subtract from each column of X its mean, or shorten the "
        "length-scale of the kernel"
    )


def _warn_of_residual(residual: float) -> str:
    """A warning if the relative residual of the equations is large."""
    if residual <= _LARGE_RESIDUAL:
        return ""
    return (
        f"the equations are solved up to a relative residual of {residual:.2g} only; {REMEDY}, or "
        "pass X in float64"
    )


def _apply(problem: FeatureEquations, right: Array, alphas: Array) -> Array:
    """Solutions for one right-hand side per alpha."""
    return np.stack([problem.apply(at, alpha) for at, alpha in zip(right, alphas, strict=True)])
