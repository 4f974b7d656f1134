r"""Ridge regression in an explicit feature space: f(x) = phi(x)' v + b.

Where k(x, z) = phi(x)' phi(z) with p features, the n x n problem has a p x p twin with the same
solution, v = sum_i a_i phi(x_i). `Primal` takes the kernel's own features (linear, polynomial,
spectrum and the like), and recovers the coefficients of the rows from the condition for a minimum,

.. math:: \alpha a_i = w_i (y_i - f(x_i)) ;

`RandomFeatures` takes a map whose inner products approximate the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from mercer import memory
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.solvers.moments import FeatureRidge, Moments
from mercer.solvers.paths import PathAnswer, feature_path
from mercer.solvers.refined import feature_ridge
from mercer.solvers.task import FeatureFunction, RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]
Features = Callable[[Any], Any]

# Feature values that are in memory at a time.
_BLOCK_BYTES = 2**24
# Features that may be held all at once.
_IN_MEMORY = 2**30


@dataclass(frozen=True)
class Primal:
    """The kernel's own features, exactly: for kernels with fewer features than there are rows.

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

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve a ridge task.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        RidgeAnswer
            Coefficients of all rows, and of the features.
        """
        _require_positive(task)
        features = _OwnFeatures.of(task.kernel, task.points)
        return _solve(task, features, len(features.names), {})

    def path(self, task: RidgeTask) -> PathAnswer:
        """Solve a ridge task at each of its alphas.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        PathAnswer
            Coefficients of all rows, and of the features.
        """
        _require_positive(task)
        features = _OwnFeatures.of(task.kernel, task.points)
        return feature_path(task, features, len(features.names))


@dataclass(frozen=True, eq=False)
class _OwnFeatures:
    """The features of a kernel, in the columns that the training rows have.

    Rows of strings or graphs have the features that occur in them: columns are matched by name,
    and what does not occur in training counts for nothing, as its coefficient is zero.
    """

    kernel: Kernel
    names: list[str]

    @classmethod
    def of(cls, kernel: Kernel, points: Points) -> _OwnFeatures:
        fixed = not sp.issparse(kernel.feature_map(points[:1]))
        return cls(kernel, kernel.feature_names(points[:1] if fixed else points))

    def __call__(self, points: Points) -> Any:
        found, names = self.kernel.feature_map(points), self.kernel.feature_names(points)
        if names == self.names:
            return found
        place = {name: column for column, name in enumerate(self.names)}
        shared = [(i, place[name]) for i, name in enumerate(names) if name in place]
        own, columns = np.array(shared, dtype=np.intp).reshape(-1, 2).T
        ones = np.ones(len(shared), dtype=found.dtype)
        turn = sp.csr_array((ones, (own, columns)), shape=(len(names), len(self.names)))
        return found @ turn


@dataclass(frozen=True)
class RandomFeatures:
    """Features whose inner products approximate the kernel.

    Parameters
    ----------
    map : transformer
        Such as ``mc.RandomFourier(kernel, n_components=1000)``; it is cloned, and fitted to the
        rows.

    Notes
    -----
    The model's function is that of the map's own kernel phi(x)' phi(z).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> fourier = mc.RandomFourier(mc.RBF(1.0), n_components=100, random_state=0)
    >>> solver = mc.solvers.RandomFeatures(fourier)
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.predict([[np.pi / 2]]).round(2)
    array([1.])
    """

    map: Any

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve a ridge task.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        RidgeAnswer
            Coefficients of the features.
        """
        transform = self._fitted(task)
        first = transform(task.points[:1])
        found = {"feature_map_": transform.fitted}
        in_memory = task.n * first.shape[1] * 8 <= min(_IN_MEMORY, memory.available() // 4)
        if in_memory and task.weights is None and not (task.compares or sp.issparse(first)):
            return _solve_in_memory(task, transform, found)
        return _solve(task, transform, first.shape[1], found)

    def path(self, task: RidgeTask) -> PathAnswer:
        """Solve a ridge task at each of its alphas.

        Parameters
        ----------
        task : RidgeTask
            The problem.

        Returns
        -------
        PathAnswer
            Coefficients of the features.
        """
        transform = self._fitted(task)
        return feature_path(task, transform, transform(task.points[:1]).shape[1])

    def _fitted(self, task: RidgeTask) -> _Transform:
        if not (hasattr(self.map, "fit") and hasattr(self.map, "transform")):
            raise ParameterError(
                f"RandomFeatures: map = {self.map!r} is not a transformer; pass for example "
                "mc.RandomFourier(kernel, n_components=1000)."
            )
        _require_positive(task)
        return _Transform(clone(self.map).fit(task.points.data))


@dataclass(frozen=True)
class _Transform:
    """A fitted transformer, on points."""

    fitted: Any

    def __call__(self, points: Any) -> Any:
        return self.fitted.transform(points.data)


def _solve(task: RidgeTask, features: Features, width: int, quality: dict[str, Any]) -> RidgeAnswer:
    """Ridge on features, and the coefficients of the rows that go with it."""
    sums = Moments.of(_blocks(task, features, width), width, task.middle)
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    alpha, errors = task.choose(problem, lambda: _blocks(task, features, width))
    coefficients, intercept = problem.solve(alpha)
    quality = quality | {"effective_dof_": problem.effective_dof(alpha)}
    function = FeatureFunction(features, coefficients)
    dual = _rows(task, function, intercept, alpha)
    return RidgeAnswer(task.points, dual, intercept, alpha, quality, errors, function=function)


def _solve_in_memory(task: RidgeTask, features: Features, quality: dict[str, Any]) -> RidgeAnswer:
    """The same at one alpha with all features at hand, where half the precision does the work."""
    alpha = float(task.alphas[0])
    phi = np.asarray(features(task.points))
    found = feature_ridge(phi, task.targets, alpha, fit_intercept=task.fit_intercept)
    function = FeatureFunction(features, found.coef)
    dual = _residual_dual(task, phi @ found.coef, found.intercept, alpha)
    quality = quality | {"residual_": found.residual}
    return RidgeAnswer(task.points, dual, found.intercept, alpha, quality, function=function)


def _rows(task: RidgeTask, function: FeatureFunction, intercept: Array, alpha: float) -> Array:
    """The coefficients of the rows, in blocks."""
    step = max(256, _BLOCK_BYTES // (8 * max(1, len(function.coef))))
    parts = [function(task.points[start : start + step]) for start in range(0, task.n, step)]
    return _residual_dual(task, np.concatenate(parts), intercept, alpha)


def _residual_dual(task: RidgeTask, values: Array, intercept: Array, alpha: float) -> Array:
    """The coefficients a_i = w_i (y_i - f(x_i)) / alpha."""
    found: Array = task.mass[:, None] * (task.targets - values - intercept) / alpha
    return found


def _require_positive(task: RidgeTask) -> None:
    if not task.alphas.min() > 0:
        raise ParameterError(
            f"{task.owner}: alpha = 0 determines no coefficients of the rows in feature space; "
            "pass a positive one, or solver=solvers.Spectral()."
        )


def _blocks(
    task: RidgeTask, features: Features, width: int
) -> Iterator[tuple[Array, Array, Array | None]]:
    step = max(256, _BLOCK_BYTES // (8 * max(1, width)))
    for start in range(0, task.n, step):
        rows = slice(start, min(start + step, task.n))
        phi = features(task.points[rows])
        dense = phi.toarray() if sp.issparse(phi) else np.array(phi)
        weights = None if task.weights is None else task.weights[rows]
        yield dense, task.targets[rows], weights
