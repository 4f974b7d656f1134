r"""Ridge regression in an explicit feature space: f(x) = phi(x)' v + b.

Where k(x, z) = phi(x)' phi(z) with p features, the n x n problem has a p x p twin with the same
solution, v = sum_i a_i phi(x_i). `Primal` takes the kernel's own features (linear, polynomial,
spectrum and the like), and recovers the coefficients of the rows from the condition for a minimum,

.. math:: \alpha a_i = w_i (y_i - f(x_i)) ;

`RandomFeatures` takes a map whose inner products approximate the kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from mercer import memory
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.sampling import random_numbers, seed_from, uniform_rows
from mercer.solvers import representers
from mercer.solvers.feature_ridge import FeatureRidge
from mercer.solvers.paths import PathAnswer, feature_path
from mercer.solvers.refined import feature_ridge
from mercer.solvers.representers import Representers
from mercer.solvers.rows import InMemory, Part
from mercer.solvers.settings import RidgeSolver
from mercer.solvers.summands import FeatureMoments, Features
from mercer.solvers.task import FeatureFunction, RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]

# Feature values that are in memory at a time.
_BLOCK_BYTES = 2**24
# Features that may be held all at once.
_IN_MEMORY = 2**30
# Features of a map that is not given.
_FEATURES = 1000
# Rows on the pairs of which features are compared with the kernel, and two kernels with each other.
_SAMPLE = 256
_COMPARED = 32
# Features of another library are those of another kernel if the error is so many times what chance
# leaves; with fewer than so many features, chance is not known from their spread. Of 100 samplers
# of the right kernel with 100 features or more none exceeds three times.
_BY_CHANCE = 4.0
_SPREAD_FROM = 30


@dataclass(frozen=True, eq=False)
class Primal(RidgeSolver):
    """The kernel's own features, exactly: for kernels with fewer features than there are rows.

    Notes
    -----
    The model predicts by coefficients of features, which keep their digits however small alpha is.
    Those of rows, ``dual_coef_``, are residuals divided by alpha: where alpha is below 1e-6 of
    k(x, x) and residuals are small too, rounding can be seen in them, and in the contributions of
    rows that are made of them. `Cholesky` computes them directly.

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

    def features(self, task: RidgeTask) -> _OwnFeatures:
        """The features of a task's kernel.

        Parameters
        ----------
        task : RidgeTask
            Kernel and rows.

        Returns
        -------
        callable
            ``features(points)``.
        """
        _require_positive(task)
        return _OwnFeatures.of(task)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        features = self.features(task)
        return _solve(task, features, len(features.names))

    def _path(self, task: RidgeTask) -> PathAnswer:
        features = self.features(task)
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
    def of(cls, task: RidgeTask) -> _OwnFeatures:
        kernel, head = task.kernel, task.rows.head
        if not sp.issparse(kernel.feature_map(head)):
            return cls(kernel, kernel.feature_names(head))
        if isinstance(task.rows, InMemory):
            return cls(kernel, kernel.feature_names(task.rows.part.points))
        raise DataError(
            f"{task.owner}: which features {kernel!r:.80} has depends on the rows, and these come "
            "in blocks; take solvers.Nystrom(), or pass all rows at once."
        )

    def __call__(self, points: Points) -> Any:
        found, names = self.kernel.feature_map(points), self.kernel.feature_names(points)
        if names == self.names:
            return found if sp.issparse(found) else np.array(found)
        place = {name: column for column, name in enumerate(self.names)}
        shared = [(i, place[name]) for i, name in enumerate(names) if name in place]
        own, columns = np.array(shared, dtype=np.intp).reshape(-1, 2).T
        ones = np.ones(len(shared), dtype=found.dtype)
        turn = sp.csr_array((ones, (own, columns)), shape=(len(names), len(self.names)))
        return found @ turn


@dataclass(frozen=True, eq=False)
class RandomFeatures(RidgeSolver):
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
    ``residual_`` if the equations were solved by iterations. What the model tells of itself
    (leave-one-out residuals,
    degrees of freedom, contributions of rows, coefficients of features) is that of the map's kernel
    too, and takes n p^2 operations for p features where they are fewer than the n rows.

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

    map: Any = None

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse a map that is none."""
        map_ = self._map()
        fits = hasattr(map_, "fit") and hasattr(map_, "transform")
        if not fits or isinstance(map_, type):
            what = "a class, and not an object of it" if fits else "not a transformer"
            raise ParameterError(
                f"RandomFeatures: map = {map_!r} is {what}; pass for example "
                "mc.RandomFourier(n_components=1000)."
            )

    @property
    def n_features(self) -> int | None:
        """The number of features, as far as the map says."""
        return _FEATURES if self.map is None else getattr(self.map, "n_components", None)

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        transform = self.features(task)
        first = transform(task.rows.head)
        in_memory = task.n * first.shape[1] * 8 <= min(_IN_MEMORY, memory.available() // 4)
        plain = not (task.rows.totals.weighted or task.compares or sp.issparse(first))
        if isinstance(task.rows, InMemory) and in_memory and plain:
            answer = _solve_in_memory(task, task.rows.part, transform)
        else:
            answer = _solve(task, transform, first.shape[1])
        found, doubt = self.compared(task, transform)
        return replace(answer, quality=answer.quality | found, doubt=answer.doubt or doubt)

    def _path(self, task: RidgeTask) -> PathAnswer:
        transform = self.features(task)
        return feature_path(task, transform, transform(task.rows.head).shape[1])

    def features(self, task: RidgeTask) -> _Transform:
        """The map of a task's kernel, fitted to its rows.

        Parameters
        ----------
        task : RidgeTask
            Kernel and rows.

        Returns
        -------
        callable
            ``features(points)``.
        """
        _require_positive(task)
        return _Transform(_fitted(_of_the_kernel(clone(self._map()), task), task))

    def compared(self, task: RidgeTask, transform: Any) -> tuple[dict[str, Any], str]:
        """Compare inner products of features with the kernel.

        Parameters
        ----------
        task : RidgeTask
            Kernel and rows.
        transform : callable
            The features.

        Returns
        -------
        found : dict
            The fitted attributes ``feature_map_`` and ``kernel_error_``.
        doubt : str
            A clause for a warning, where features seem to be those of another kernel.
        """
        some = np.sort(uniform_rows(task.n, min(task.n, _SAMPLE), np.random.RandomState(0)))
        error, by_chance = task.rows.made_of(some, _KernelError(task.kernel, transform))
        width = transform(task.rows.head).shape[1]
        taken_at_its_word = not _is_of_a_kernel(transform.fitted) and width >= _SPREAD_FROM
        doubt = _other_kernel(error, by_chance) if taken_at_its_word else ""
        return {"feature_map_": transform.fitted, "kernel_error_": error}, doubt

    def for_other_kernels(self, task: RidgeTask) -> RandomFeatures:
        """The same with a map that gets its kernel later, and draws the same numbers each time.

        Parameters
        ----------
        task : RidgeTask
            Rows, and the kernel that the map has, if it has one.

        Returns
        -------
        RandomFeatures
            A map of another library keeps its kernel.
        """
        map_ = _of_the_kernel(clone(self._map()), task)
        known = map_.get_params(deep=False) if hasattr(map_, "get_params") else {}
        others: dict[str, Any] = {"kernel": None} if _is_of_a_kernel(map_) else {}
        if not isinstance(known.get("random_state", 0), Integral):
            others["random_state"] = seed_from(random_numbers(known["random_state"], task.owner))
        return replace(self, map=map_.set_params(**others) if others else map_)

    def _map(self) -> Any:
        if self.map is not None:
            return self.map
        # Maps are made with the base of the models, so that they come after solvers.
        from mercer.features.fourier import RandomFourier

        return RandomFourier(n_components=_FEATURES)


def _of_the_kernel(map_: Any, task: RidgeTask) -> Any:
    """The map of the model's kernel; one of another kernel is refused.

    What is not known to be made from a kernel, such as a transformer of another library, is taken
    at its word: ``kernel_error_`` tells, and a warning where that is no matter of chance.
    """
    own = _kernel_of(map_)
    if own is None:
        return map_.set_params(kernel=task.kernel)
    if isinstance(own, Kernel) and not _are_same(task.rows.resolve(own), task):
        raise ParameterError(
            f"{task.owner}: the map of RandomFeatures has kernel = {own!r:.80}, and the model "
            f"{task.kernel!r:.80}; leave the kernel of the map out, or pass the same."
        )
    return map_


def _kernel_of(map_: Any) -> Any:
    """The parameter `kernel` of a map; a string if it has none, or one of another library."""
    known = map_.get_params(deep=False) if hasattr(map_, "get_params") else {}
    return known.get("kernel", "")


def _is_of_a_kernel(map_: Any) -> bool:
    return isinstance(_kernel_of(map_), Kernel)


def _other_kernel(error: float, by_chance: float) -> str:
    """Whether features seem to be those of another kernel, as a clause."""
    if error <= _BY_CHANCE * by_chance:
        return ""
    return (
        f"the features of the map seem to be those of another kernel: kernel_error_ = {error:.2g}, "
        f"where so many random features of this one would leave about {by_chance:.2g}; give the "
        "map the parameters of the model's kernel, or leave it to mc.RandomFourier(), which gets "
        "them"
    )


def _are_same(kernel: Kernel, task: RidgeTask) -> bool:
    """Whether kernels are equal, or have the same values on some rows: 2 * k and Fixed(2) * k."""
    if kernel == task.kernel:
        return True
    few = np.arange(0, task.n, -(-task.n // _COMPARED))
    return task.rows.made_of(few, _Agreement(kernel, task.kernel))


@dataclass(frozen=True, eq=False)
class _Agreement:
    """Whether two kernels have the same values, up to rounding, on some rows."""

    kernel: Kernel
    other: Kernel

    def __call__(self, part: Part) -> bool:
        wanted = self.other(part.points)
        tol = 16 * float(np.finfo(wanted.dtype).eps)
        close = np.allclose(
            self.kernel(part.points), wanted, rtol=tol, atol=tol * np.abs(wanted).max()
        )
        return bool(close)


def _fitted(map_: Any, task: RidgeTask) -> Any:
    """The map, fitted to rows wherever they are."""
    if hasattr(map_, "_fit_rows"):
        return map_._fit_rows(task.rows)
    if isinstance(task.rows, InMemory):
        return map_.fit(task.rows.part.points.data)
    raise ParameterError(
        f"RandomFeatures: map = {map_!r:.80} cannot be fitted to rows that come in blocks; pass "
        "one of mercer's own, such as mc.RandomFourier(n_components=1000)."
    )


@dataclass(frozen=True)
class _Transform:
    """A fitted transformer, on points."""

    fitted: Any

    @property
    def names(self) -> list[str]:
        return [str(name) for name in self.fitted.get_feature_names_out()]

    def __call__(self, points: Any) -> Any:
        found = self.fitted.transform(points.data)
        return found if sp.issparse(found) else np.array(found)


@dataclass(frozen=True, eq=False)
class _KernelError:
    r"""How far inner products of features are from the kernel, relative to it, on some pairs.

    Of random features it is known how far chance takes them: a product is a sum of m terms
    t_j = phi_j(x) phi_j(z), which if they are independent has about the variance

    .. math:: \frac{m}{m - 1} \Bigl( \sum_j t_j^2 - \tfrac1m \bigl(\sum_j t_j\bigr)^2 \Bigr) ;

    a sine beside its cosine makes it less.
    """

    kernel: Kernel
    features: Features

    def __call__(self, part: Part) -> tuple[float, float]:
        """The error, and what chance leaves of it, both relative."""
        some = part.points
        phi = self.features(some)
        products = phi @ phi.T
        found = products.toarray() if sp.issparse(products) else products
        wanted = np.asarray(self.kernel(some, some), dtype=np.float64)
        # In units of the largest value, since squares of large ones are no numbers.
        unit = float(np.abs(wanted).max(initial=0.0)) or 1.0
        length = float(np.linalg.norm(wanted / unit)) or 1.0
        error = float(np.linalg.norm(found / unit - wanted / unit)) / length
        return error, self._spread(phi, found, unit) / length

    @staticmethod
    def _spread(phi: Any, products: Array, unit: float) -> float:
        m, scaled = phi.shape[1], phi.astype(np.float64) / np.sqrt(unit)
        squares = scaled.multiply(scaled) if sp.issparse(scaled) else np.square(scaled)
        columns = np.asarray(squares.sum(axis=0)).ravel()
        total = float(columns @ columns) - float(np.sum(np.square(products / unit))) / m
        return float(np.sqrt(max(total, 0.0) * m / max(m - 1, 1)))


def _solve(task: RidgeTask, features: Features, width: int) -> RidgeAnswer:
    """Ridge on features, and the coefficients of points that go with it."""
    sums = task.rows.total(FeatureMoments(features, width, task.middle)).terms[0]
    problem = FeatureRidge.of(sums, None, fit_intercept=task.fit_intercept)
    alpha, errors = task.choose(problem, features)
    coefficients, intercept = problem.solve(alpha)
    quality = {"effective_dof_": problem.effective_dof(alpha)}
    function = FeatureFunction(features, coefficients)
    if isinstance(task.rows, InMemory):
        part = task.rows.part
        held = Representers(part.points, _rows(part, function, intercept, alpha))
    else:
        held = representers.of_few(task, function, sums.squares)
    return RidgeAnswer(
        held.points,
        held.dual,
        intercept,
        alpha,
        quality,
        errors,
        doubt=held.doubt,
        function=function,
        rows=held.rows,
    )


def _solve_in_memory(task: RidgeTask, part: Part, features: Features) -> RidgeAnswer:
    """The same at one alpha with all features at hand, where half the precision does the work."""
    alpha = float(task.alphas[0])
    phi = np.asarray(features(part.points))
    found = feature_ridge(phi, part.targets, alpha, fit_intercept=task.fit_intercept)
    function = FeatureFunction(features, found.coef)
    dual = representers.of_all(part, phi @ found.coef + found.intercept, alpha)
    quality = {"residual_": found.residual}
    return RidgeAnswer(part.points, dual, found.intercept, alpha, quality, function=function)


def _rows(part: Part, function: FeatureFunction, intercept: Array, alpha: float) -> Array:
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
