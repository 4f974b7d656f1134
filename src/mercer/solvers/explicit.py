r"""Models in an explicit feature space: f(x) = phi(x)' v + b.

Where k(x, z) = phi(x)' phi(z) with p features, the n x n problem has a p x p twin with the same
solution, v = sum_i a_i phi(x_i). `Primal` takes the kernel's own features (linear, polynomial,
spectrum and the like), and recovers the coefficients of the rows from the condition for a minimum,

.. math:: \alpha a_i = w_i (y_i - f(x_i)) ;

`RandomFeatures` takes a map whose inner products approximate the kernel. Ridge regression is solved
here; machines of other losses take the features alone (`feature_machine`).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from mercer.exceptions import ParameterError
from mercer.features.fourier import RandomFourier
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import FeatureMoments
from mercer.solvers import kernel_features
from mercer.solvers.kernel_features import FeatureTask, KernelFeatures, no_frequencies
from mercer.solvers.newton.machine import MachineTask
from mercer.solvers.newton.on_features import FeatureMachine
from mercer.solvers.protocol import (
    Cost,
    FeatureFunction,
    FitProblem,
    PathAnswer,
    RidgeAnswer,
    RidgeTask,
    Solver,
)
from mercer.solvers.ridge import representers
from mercer.solvers.ridge.features import FeatureRidge, choose_alpha
from mercer.solvers.ridge.mixed_precision import feature_ridge
from mercer.solvers.ridge.paths import feature_path
from mercer.solvers.ridge.representers import Representers

Array = NDArray[np.floating[Any]]

# Feature values that are in memory at a time.
_BLOCK_BYTES = 2**24
# Features of a map that is not given.
_FEATURES = 1000


class FeatureSolver(Solver):
    """Base of solvers in an explicit feature space."""

    has_features = True

    @abstractmethod
    def width(self, problem: FitProblem) -> int | None:
        """The number of features, as far as it is known."""

    @abstractmethod
    def features(self, task: FeatureTask) -> KernelFeatures:
        """The features that a task is solved with."""

    def cost(self, problem: FitProblem) -> Cost:
        """Sums over pairs of features, in one pass for each linear system."""
        width = self.width(problem)
        if width is None:
            return Cost(self, None, None)
        return Cost(self, *problem.features(width, approximate=self.is_approximate))

    def machine(self, task: MachineTask, candidates: RowSource) -> FeatureMachine:
        """The problem of a machine on the features."""
        return FeatureMachine(task, self.features(task))


@dataclass(frozen=True, eq=False)
class Primal(FeatureSolver):
    """The kernel's own features, exactly: for kernels with fewer features than there are rows.

    Notes
    -----
    The model predicts by coefficients of features, which keep their digits however small alpha is.
    Those of rows, ``dual_coef_``, are residuals divided by alpha: where alpha is below 1e-6 of
    k(x, x) and residuals are small too, rounding can be seen in them, and in the contributions of
    rows that are made of them. `Cholesky` computes them directly. In a machine of another smooth
    loss, which takes Newton's method on the features, they are derivatives of the loss over alpha.

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
        """The number of the kernel's own features, None if there are not finitely many."""
        return problem.own_features[0]

    def _impossible(self, problem: FitProblem) -> str:
        return problem.restriction or problem.own_features[1]

    def _impractical(self, problem: FitProblem) -> str:
        width = problem.own_features[0]
        return "" if width is None else problem.feature_obstacle(width)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        _require_positive(task)
        return _solve(task, self.features(task))

    def _path(self, task: RidgeTask) -> PathAnswer:
        _require_positive(task)
        given = self.features(task)
        return feature_path(task, given.features, given.width)

    def features(self, task: FeatureTask) -> KernelFeatures:
        """The features that a task is solved with.

        Parameters
        ----------
        task : FeatureTask
            The kernel and the rows.

        Returns
        -------
        KernelFeatures
            The kernel's own.
        """
        return kernel_features.of_kernel(task)


@dataclass(frozen=True, eq=False)
class RandomFeatures(FeatureSolver):
    """Features whose inner products approximate the kernel.

    Parameters
    ----------
    map : transformer, optional
        By default ``mc.RandomFourier(n_components=1000)``; it is cloned, and fitted to the rows.
        Its kernel is the model's: it is left out, or the same.

    Notes
    -----
    The model's function is that of the map's own kernel phi(x)' phi(z). The model gets
    ``kernel_error_``, the root mean square of what this kernel differs from k by, relative to that
    of k, on the pairs of up to 256 rows (a map of another library of 30 features or more is warned
    of where this is four times what chance would leave); ``feature_map_``, the fitted map; and
    ``residual_``, in `KernelRidge` if the equations were solved by iterations. What the model tells
    of itself (leave-one-out residuals, degrees of freedom, contributions of rows, coefficients of
    features) is that of the map's kernel too, and takes n p^2 operations for p features where they
    are fewer than the n rows.

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
        """The number of features, as far as the map says."""
        return _FEATURES if self.map is None else getattr(self.map, "n_components", None)

    def _impossible(self, problem: FitProblem) -> str:
        return problem.restriction or no_frequencies(problem.kernel, self.map)

    def features(self, task: FeatureTask) -> KernelFeatures:
        """The features that a task is solved with.

        Parameters
        ----------
        task : FeatureTask
            The kernel and the rows.

        Returns
        -------
        KernelFeatures
            Those of the map, fitted to the rows.
        """
        return kernel_features.of_map(self._map(), task)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        _require_positive(task)
        given = self.features(task)
        in_memory = kernel_features.may_hold(8.0 * task.n * given.width)
        sparse = sp.issparse(given.features(task.rows.first_row))
        plain = not (task.rows.statistics.weighted or task.compares or sparse)
        if isinstance(task.rows, InMemory) and in_memory and plain:
            return _solve_in_memory(task, task.rows.part, given)
        return _solve(task, given)

    def _path(self, task: RidgeTask) -> PathAnswer:
        _require_positive(task)
        transform = kernel_features.fitted_map(self._map(), task)
        return feature_path(task, transform, transform(task.rows.first_row).shape[1])

    def for_other_kernels(self, task: FeatureTask) -> RandomFeatures:
        """The same with a map that gets its kernel later, and draws the same numbers each time.

        Parameters
        ----------
        task : FeatureTask
            Rows, and the kernel that the map has, if it has one.

        Returns
        -------
        RandomFeatures
            A map of another library keeps its kernel.
        """
        return replace(self, map=kernel_features.unbound_map(self._map(), task))

    def _map(self) -> Any:
        if self.map is not None:
            return self.map
        return RandomFourier(n_components=_FEATURES)


def _solve(task: RidgeTask, given: KernelFeatures) -> RidgeAnswer:
    """Ridge on features, and the coefficients of points that go with it."""
    sums = task.rows.map_sum(FeatureMoments(given.features, given.width, task.middle)).terms[0]
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    alpha, errors = choose_alpha(task, problem, given.features)
    coefficients, intercept = problem.solve(alpha)
    function = FeatureFunction(given.features, coefficients)
    if isinstance(task.rows, InMemory):
        part = task.rows.part
        held = Representers(part.points, _rows(part, function, intercept, alpha))
    else:
        held = representers.of_few(task.rows, function, sums.squares)
    return RidgeAnswer(
        held.points,
        held.dual,
        intercept,
        alpha,
        {"effective_dof_": problem.effective_dof(alpha)} | given.quality,
        errors,
        doubt=held.doubt or given.doubt,
        function=function,
        rows=held.rows,
    )


def _solve_in_memory(task: RidgeTask, part: RowBlock, given: KernelFeatures) -> RidgeAnswer:
    """The same at one alpha with all features at hand, where half the precision does the work."""
    alpha = float(task.alphas[0])
    phi = np.asarray(given.features(part.points))
    found = feature_ridge(phi, part.targets, alpha, fit_intercept=task.fit_intercept)
    dual = representers.of_all(part, phi @ found.coef + found.intercept, alpha)
    return RidgeAnswer(
        part.points,
        dual,
        found.intercept,
        alpha,
        {"residual_": found.residual} | given.quality,
        doubt=given.doubt,
        function=FeatureFunction(given.features, found.coef),
    )


def _rows(part: RowBlock, function: FeatureFunction, intercept: Array, alpha: float) -> Array:
    """The coefficients of the rows, in blocks."""
    step = max(256, _BLOCK_BYTES // (8 * max(1, len(function.coef))))
    values = [function(part.points[start : start + step]) for start in range(0, len(part), step)]
    return representers.of_all(part, np.concatenate(values) + intercept, alpha)


def _require_positive(task: RidgeTask) -> None:
    if not task.alphas.min() > 0:
        raise ParameterError(
            f"{task.owner}: alpha = 0 determines no coefficients of the rows in feature space; "
            "pass a positive one, or solver=solvers.Spectral()."
        )
