r"""Models in an explicit feature space: f(x) = phi(x)' v + b.

If k(x, z) = phi(x)' phi(z) with p features, the n x n dual problem has a p x p primal problem with
the same solution, v = sum_i a_i phi(x_i). `Primal` uses the kernel's own features (linear,
polynomial, spectrum and the like), and recovers the dual coefficients from the optimality condition

.. math:: \alpha a_i = w_i (y_i - f(x_i)) ;

`RandomFeatures` uses a map whose inner products approximate the kernel. Ridge regression is solved
here; machines of other losses use the features alone (`newton.on_features`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.features.fourier import RandomFourier
from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import FeatureMoments, blocks_of
from mercer.solvers import kernel_features
from mercer.solvers.kernel_features import KernelFeatures, no_frequencies
from mercer.solvers.newton.machine import MachineTask
from mercer.solvers.newton.on_features import FeatureMachine
from mercer.solvers.protocol import (
    Cost,
    FeatureFunction,
    FitProblem,
    FitTask,
    PathAnswer,
    RidgeAnswer,
    RidgeTask,
    Solver,
)
from mercer.solvers.ridge.features import FeatureEquations, choose, criteria, feature_equations
from mercer.solvers.ridge.mixed_precision import feature_ridge

# Number of features of the default map.
_FEATURES = 1000


class FeatureSolver(Solver):
    """Base of solvers in an explicit feature space."""

    has_features = True

    @abstractmethod
    def width(self, problem: FitProblem) -> int | None:
        """The number of features, or None if it is unknown."""

    @abstractmethod
    def features(self, task: FitTask) -> KernelFeatures:
        """The features for a task."""

    def cost(self, problem: FitProblem) -> Cost:
        """The cost of sums over pairs of features, in one pass per linear system."""
        width = self.width(problem)
        if width is None:
            return Cost(self, None, None)
        return Cost(self, *problem.features(width, approximate=self.is_approximate))

    def machine(self, task: MachineTask, candidates: RowSource) -> FeatureMachine:
        """The problem of a machine on the features."""
        return FeatureMachine(task, self.features(task))

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        return _solve(task, self._ridge_features(task))

    def _path(self, task: RidgeTask) -> PathAnswer:
        features = self._ridge_features(task)
        fit = _fit(task, features, every=True)
        measures = criteria(task, fit.problem, features.features)
        return PathAnswer(fit.points, fit.dual, fit.intercept, *measures, fit.function)

    def _ridge_features(self, task: RidgeTask) -> KernelFeatures:
        """The features, for positive alphas."""
        if not task.alphas.min() > 0:
            raise ParameterError(
                f"{task.owner}: alpha = 0 determines no coefficients of the rows in feature space; "
                "pass a positive one, or solver=solvers.Spectral()."
            )
        return self.features(task)


@dataclass(eq=False)
class Primal(FeatureSolver, name="primal"):
    """The kernel's own features: exact, for kernels with fewer features than rows.

    Notes
    -----
    The model predicts by coefficients of features, which are accurate for any alpha. The dual
    coefficients, ``dual_coef_``, are residuals divided by alpha: if alpha is below 1e-6 of k(x, x)
    and residuals are small, rounding errors show in them and in the contributions of rows.
    `Cholesky` computes them directly. For a machine of another smooth loss, fitted by Newton's
    method on the features, they are derivatives of the loss divided by alpha.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> model = mc.KernelRidge(mc.Polynomial(2), alpha=1e-6, solver=mc.solvers.Primal()).fit(X, y)
    >>> model.predict([[2.0, 3.0]]).round(3)
    array([6.])
    """

    def width(self, problem: FitProblem) -> int | None:
        """The number of the kernel's own features; None if it is infinite."""
        return problem.own_features[0]

    def _impractical(self, problem: FitProblem) -> str:
        width = problem.own_features[0]
        return "" if width is None else problem.feature_obstacle(width)

    def features(self, task: FitTask) -> KernelFeatures:
        """The kernel's own features."""
        return kernel_features.of_kernel(task)


@dataclass(eq=False)
class RandomFeatures(FeatureSolver, name="random_features"):
    """Features whose inner products approximate the kernel.

    Parameters
    ----------
    map : transformer, optional
        By default ``mc.RandomFourier(n_components=1000)``; it is cloned, and fitted to the rows.
        Its kernel must be None or that of the model.

    Notes
    -----
    The model uses the kernel phi(x)' phi(z) of the map. It gets ``kernel_error_``, the root mean
    square error of this kernel relative to the root mean square of k, on the pairs of up to 256
    rows; ``feature_map_``, the fitted map; and ``residual_``, in `KernelRidge` if the equations
    were solved by iterations. A map of another library should have the parameters of the model's
    kernel: a large ``kernel_error_`` shows that it has not. Diagnostics of the model (leave-one-out
    residuals, degrees of freedom, contributions of rows, coefficients of features) also use the
    map's kernel. They take n p^2 operations if the p features are fewer than the n rows.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> solver = mc.solvers.RandomFeatures(mc.RandomFourier(n_components=100, random_state=0))
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.predict([[np.pi / 2]]).round(2), bool(model.kernel_error_ < 0.2)
    (array([1.]), True)
    """

    is_approximate = True

    map: Any = None

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Validate the transformer."""
        map_ = self._map()
        fits = hasattr(map_, "fit") and hasattr(map_, "transform")
        if not fits or isinstance(map_, type):
            what = "a class, and not an object of it" if fits else "not a transformer"
            raise ParameterError(
                f"RandomFeatures: map = {map_!r} is {what}; pass for example "
                "mc.RandomFourier(n_components=1000)."
            )

    def width(self, problem: FitProblem) -> int | None:
        """The number of features, or None if the map does not tell it before it is fitted."""
        return _FEATURES if self.map is None else getattr(self.map, "n_components", None)

    def _impossible(self, problem: FitProblem) -> str:
        return problem.restriction(self) or no_frequencies(problem.kernel, self.map)

    def features(self, task: FitTask) -> KernelFeatures:
        """The features of the map, fitted to the rows."""
        return kernel_features.of_map(self._map(), task)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        features = self._ridge_features(task)
        in_memory = kernel_features.may_hold(8.0 * task.n * features.width)
        sparse = sp.issparse(features.features(task.rows.first_row))
        plain = not (task.rows.statistics.weighted or task.compares or sparse)
        if isinstance(task.rows, InMemory) and in_memory and plain:
            return _solve_in_memory(task, task.rows.part, features)
        return _solve(task, features)

    def for_other_kernels(self, task: FitTask) -> RandomFeatures:
        """The solver with a map without kernel and with a fixed seed, for a search over kernels."""
        return replace(self, map=kernel_features.unbound_map(self._map(), task))

    def _map(self) -> Any:
        return RandomFourier(n_components=_FEATURES) if self.map is None else self.map


@dataclass(frozen=True, eq=False)
class _FeatureFit:
    """Coefficients of features at some alphas."""

    problem: FeatureEquations
    alphas: Array  # (a,)
    errors: Array | None  # the criterion at each alpha of the task, if they were compared
    intercept: Array  # (a, t)
    points: Points  # the rows; of a stream, the first row
    dual: Array  # (a, n, t): the dual coefficients; n is 0 for a stream
    function: FeatureFunction  # one column per alpha and target


def _fit(task: RidgeTask, features: KernelFeatures, *, every: bool) -> _FeatureFit:
    """Ridge on features from sums over rows, at every alpha of a task or at the best one."""
    moments = FeatureMoments(features.features, features.width, task.middle)
    sums = task.rows.map_sum(moments).terms[0]
    alpha = None if every or task.compares else float(task.alphas[0])
    eps = float(np.finfo(np.float64).eps)
    problem = feature_equations(sums, None, alpha, eps, fit_intercept=task.fit_intercept)
    alphas, errors = choose(task, problem, features.features, every=every)
    coef = np.stack([problem.solve(alpha) for alpha in alphas])
    intercept = np.stack([problem.intercept(at) for at in coef])
    columns = np.moveaxis(coef, 0, 1).reshape(features.width, -1)
    function = FeatureFunction(features.features, columns)
    points = task.rows.first_row
    dual: Array = np.zeros((len(alphas), 0, intercept.shape[1]))
    if isinstance(task.rows, InMemory):
        points, dual = task.rows.part.points, _dual(task.rows.part, function, intercept, alphas)
    return _FeatureFit(problem, alphas, errors, intercept, points, dual, function)


def _dual(part: RowBlock, function: FeatureFunction, intercept: Array, alphas: Array) -> Array:
    """The dual coefficients of all rows at each alpha, from the optimality condition."""
    blocks = blocks_of(part, function.features, len(function.coef))
    flat = np.concatenate([np.asarray(phi @ function.coef) for phi, _, _ in blocks])
    values = np.moveaxis(flat.reshape(len(part), *intercept.shape), 0, 1) + intercept[:, None]
    dual: Array = part.mass[:, None] * (part.targets - values) / alphas[:, None, None]
    return dual


def _solve(task: RidgeTask, features: KernelFeatures) -> RidgeAnswer:
    """Ridge on features at one alpha, with its dual coefficients."""
    fit = _fit(task, features, every=False)
    alpha = float(fit.alphas[0])
    return RidgeAnswer(
        fit.points,
        fit.dual[0],
        fit.intercept[0],
        alpha,
        {"effective_dof_": fit.problem.effective_dof(alpha)} | features.quality,
        fit.errors,
        function=fit.function,
    )


def _solve_in_memory(task: RidgeTask, part: RowBlock, features: KernelFeatures) -> RidgeAnswer:
    """Ridge at one alpha with all features in memory, in mixed precision."""
    alpha = float(task.alphas[0])
    phi = np.asarray(features.features(part.points))
    solution = feature_ridge(phi, part.targets, alpha, fit_intercept=task.fit_intercept)
    values = phi @ solution.coef + solution.intercept
    return RidgeAnswer(
        part.points,
        (part.targets - values) / alpha,
        solution.intercept,
        alpha,
        {"residual_": solution.residual} | features.quality,
        function=FeatureFunction(features.features, solution.coef),
    )
