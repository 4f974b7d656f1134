"""Kernel least mean squares: gradient descent on squared errors, row by row or all at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import memory
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.points import Points
from mercer.models.budgets import Budget
from mercer.models.expansion import FeatureExpansion, KernelExpansion, Rows
from mercer.models.iterative import Report
from mercer.models.online import OnlineModel, Progress, can_see_more, silent
from mercer.models.steps import Steps
from mercer.solvers.descent import Descent, dual_descent, largest_eigenvalue, primal_descent

Array = NDArray[np.floating[Any]]

_METHODS = ("stochastic", "batch")
_PASSES, _STEPS = 1, 1000


@dataclass(frozen=True, eq=False)
class _Lesson:
    """Rows to learn from: in the pool they stand from `first` on."""

    points: Points
    targets: Array
    weights: Array
    is_vector: bool
    first: int = 0

    @property
    def rows(self) -> Rows:
        """The rows of the pool that count."""
        return np.asarray(self.first + np.flatnonzero(self.weights > 0), dtype=np.intp)


class KernelLMS(MultiOutputMixin, RegressorMixin, OnlineModel):
    r"""Kernel least mean squares: steps of gradient descent on squared errors.

    A step goes down the gradient of half the squared errors of the rows that it sees, plus
    ``alpha / 2`` times the squared norm of f:

    .. math:: f := (1 - \eta \alpha)\, f + \eta \sum_i w_i (y_i - f(x_i))\, k(x_i, \cdot) .

    With ``method="stochastic"`` a step sees one row, the sum has one term, and `fit` goes through
    the rows in their order (with ``alpha > 0`` this is NORMA, whose coefficients decay). With
    ``method="batch"`` every step sees all rows: beta := beta + eta (y - K beta) if alpha is 0.

    Parameters
    ----------
    kernel : Kernel, optional
        Any kernel; by default ``RBF(length_scale="scale")``. It says what X may be.
    step_size : float or "auto", default="auto"
        The step size eta. Too large a step is refused: it has to be less than
        2 / (lambda_max(K) + alpha) for a batch, and than 2 / (max k(x, x) + alpha) for single rows
        (times their weights). "auto" is 1 / (lambda_max + alpha) for a batch, half of
        1 / (max k(x, x) + alpha) for single rows, of those of the first call; a later
        `partial_fit` makes it smaller where its rows ask for that.
    alpha : float, default=0.0
        Weight of the squared norm, beside the rows that one step sees. The limit of a batch is
        kernel ridge with this alpha, and for alpha = 0 the interpolant of least norm; single rows
        approach kernel ridge with n times this alpha, within a distance that shrinks with eta.
    method : {"stochastic", "batch"}, default="stochastic"
        Whether a step sees one row or all.
    budget : Budget, optional
        What bounds the number of points, such as ``mercer.budgets.Remove(100)``; by default nothing
        does. For single rows only.
    feature_map : callable, transformer or Kernel, optional
        Explicit features phi, in place of `kernel`: a function of the data that returns an array
        with a row for each, an object whose ``transform`` does, or a kernel with finitely many
        features. The same steps are taken on coefficients of features, for the kernel
        <phi(x), phi(z)>, and no point is kept.
    batch_size : int, optional
        Rows computed together when steps see one row each, by default 512, with a budget 128. It
        changes the time, not the result.
    max_iter : int, optional
        Passes over the rows, 1 by default; for ``method="batch"`` the largest number of steps, 1000
        by default.
    tol : float, default=1e-4
        A batch is done when the norm of the gradient, a function, is `tol` times that at the start;
        with 0 it takes all steps.
    shuffle : bool, default=False
        Whether each pass of `fit` takes the rows in a new random order.
    random_state : int, RandomState or None, default=None
        For the order.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (m,) or (m, n_targets)
        The coefficients of the points. Not with `feature_map`.
    points_ : Points
        The points that carry coefficients, oldest first. Not with `feature_map`.
    coef_ : ndarray of shape (p,) or (p, n_targets)
        The coefficients of the features. Only with `feature_map`.
    intercept_ : float
        Always 0.0; add a ``Constant`` to the kernel for an offset.
    kernel_ : Kernel
        The kernel used, with length-scales resolved to numbers by the rows of the first call.
    step_size_ : float
        The step size used.
    learning_curve_ : ndarray
        The error of each row before it was learned, y_i - f(x_i), of shape (rows seen,) or
        (rows seen, n_targets); for a batch the root mean square error before each step.
    n_iter_ : int
        Passes of the last `fit` or `partial_fit`, or steps of a batch.
    converged_ : bool
        False if a fit was interrupted, or a batch did not reach `tol`.
    residual_ : float
        Norm of the gradient relative to that at the start. Only for a batch.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    KernelRidge : The limit of batch descent, at once.
    KernelPerceptron : Online classification.

    Notes
    -----
    Mini-batches give what a loop over single rows gives. The errors e of b rows that are met one
    after another solve a triangular system: with rho = 1 - eta alpha, f the function before them
    and K_b their Gram matrix,

    .. math:: e_i + \eta \sum_{j < i} \rho^{i - 1 - j} (K_b)_{ij} w_j e_j = y_i - \rho^i f(x_i) .

    Under a budget this stays so while it is known who leaves when (the oldest) or who takes which
    term (quantization). If that depends on the coefficients, the kernel values of a mini-batch
    are computed together and its rows taken one by one.

    References
    ----------
    .. [1] W. Liu, P. P. Pokharel, J. C. Principe (2008). The kernel least-mean-square algorithm.
       IEEE Transactions on Signal Processing 56(2).
    .. [2] J. Kivinen, A. J. Smola, R. C. Williamson (2004). Online learning with kernels. IEEE
       Transactions on Signal Processing 52(8).
    .. [3] Y. Yao, L. Rosasco, A. Caponnetto (2007). On early stopping in gradient descent learning.
       Constructive Approximation 26(2).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).uniform(0, 6, size=(400, 1))
    >>> y = np.sin(X).ravel()
    >>> model = mc.KernelLMS(mc.RBF(length_scale=1.0)).fit(X[:200], y[:200])
    >>> model.partial_fit(X[200:], y[200:]).learning_curve_.shape
    (400,)
    >>> bool(np.abs(model.learning_curve_[-50:]).max() < 0.2)
    True
    """

    step_size_: float
    learning_curve_: Array
    coef_: Array

    def __init__(
        self,
        kernel: Kernel | None = None,
        step_size: float | Literal["auto"] = "auto",
        alpha: float = 0.0,
        *,
        method: Literal["stochastic", "batch"] = "stochastic",
        budget: Budget | None = None,
        feature_map: Any = None,
        batch_size: int | None = None,
        max_iter: int | None = None,
        tol: float = 1e-4,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            budget=budget,
            batch_size=batch_size,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
        )
        self.step_size = step_size
        self.alpha = alpha
        self.method = method
        self.feature_map = feature_map
        self.tol = tol

    # Public methods -------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from the rows, beginning with the function zero.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,) or (n, n_targets)
            Targets.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows: factors of their steps. 0 is a row removed; for a
            batch 2 is a row repeated.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            lesson = self._first_lesson(X, y, sample_weight)
            if self.method == "batch":
                self._fit_batch(lesson, X, y)
            else:
                passes = self.max_iter or _PASSES
                with self._iterations(X, y, self._steps(len(lesson.rows), passes)) as report:
                    self._fit_rows(lesson, passes, report)
        return self

    def _takes_single_rows(self) -> bool:
        if self.method == "batch":
            raise AttributeError('partial_fit needs method="stochastic"')
        return can_see_more(self)

    @available_if(_takes_single_rows)  # type: ignore[untyped-decorator]
    def partial_fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from further rows, once each; the function so far is where it begins.

        It is done as a whole: if it fails or is interrupted, the model is as it was before.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those of the first call.
        y : array-like of shape (n,) or (n, n_targets)
            Targets.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows.

        Returns
        -------
        self
            The estimator.
        """
        with self._as_a_whole():
            self._check_parameters()
            first = not hasattr(self, "kernel_")
            lesson = (self._first_lesson if first else self._next_lesson)(X, y, sample_weight)
            self._fit_rows(lesson, 1, silent)
        return self

    def predict(self, X: Any) -> Array:
        """Predict targets, in chunks: no m x n matrix is stored.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,) or (m, n_targets)
            The predictions.
        """
        check_is_fitted(self)
        if not hasattr(self, "coef_"):
            return self._function_values(X)
        points = self._validate_points(self.kernel_, X, reset=False)
        return np.asarray(self._features(points) @ self.coef_)

    # Data -----------------------------------------------------------------------------------------

    def _first_lesson(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> _Lesson:
        kernel = self._kernel_of_model()
        points = self._validate_points(kernel, X, reset=True)
        lesson = self._lesson(points, y, sample_weight)
        given = None if sample_weight is None else lesson.weights
        self.kernel_ = kernel.resolve(points, given)
        self.intercept_ = 0.0
        self._is_vector = lesson.is_vector
        return lesson

    def _next_lesson(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> _Lesson:
        if (self.feature_map is not None) != hasattr(self, "coef_"):
            raise ParameterError(
                "KernelLMS.partial_fit: feature_map was changed after the first call; keep it, or "
                "fit anew."
            )
        points = self._validate_points(self.kernel_, X, reset=False)
        lesson = self._lesson(points, y, sample_weight)
        known = self.coef_ if self.feature_map is not None else self.dual_coef_
        width = known.shape[1] if known.ndim == 2 else 1
        if lesson.targets.shape[1] != width or lesson.is_vector != self._is_vector:
            raise DataError(
                f"KernelLMS: y has shape {np.asarray(y).shape}, but the targets seen before have "
                f"{'one dimension' if self._is_vector else f'{width} columns'}; pass the same kind."
            )
        return lesson

    def _lesson(self, points: Points, y: ArrayLike, sample_weight: ArrayLike | None) -> _Lesson:
        n = len(points)
        targets = self._validate_targets(y, n)
        weights = self._validate_weights(sample_weight, targets)
        if weights is None:
            weights = np.ones(n)
        columns = targets.reshape(n, -1).astype(float)
        return _Lesson(points, columns, weights, targets.ndim == 1)

    def _kernel_of_model(self) -> Kernel:
        """The kernel, or that of the feature map."""
        if self.feature_map is None:
            return self._kernel_or_default(self.kernel)
        if isinstance(self.feature_map, Kernel):
            return self.feature_map
        return Linear().warp(getattr(self.feature_map, "transform", self.feature_map))

    def _features(self, points: Points) -> Any:
        features = self.kernel_.feature_map(points)
        known = getattr(self, "coef_", None)
        if known is not None and features.shape[1] != len(known):
            raise DataError(
                f"KernelLMS: the feature map returned {features.shape[1]} columns, but "
                f"{len(known)} before; it must return the same features for all data."
            )
        return features

    # Single rows ----------------------------------------------------------------------------------

    def _fit_rows(self, lesson: _Lesson, passes: int, report: Report) -> None:
        progress, lesson = self._start(lesson, passes)
        self.step_size_ = self._row_step(progress.expansion, lesson)
        advance = partial(self._advance, lesson=lesson)
        progress = self._learn(progress, lesson.rows, passes, advance, report)
        self.__dict__.update(self._fitted(progress))
        self.__dict__.pop("residual_", None)  # of a batch before

    def _is_done(self, progress: Progress, n: int, passes: int) -> bool:
        return progress.n_iter == passes

    def _start(self, lesson: _Lesson, passes: int) -> tuple[Progress, _Lesson]:
        """The function so far, over a pool that ends with the rows of the lesson."""
        outputs = lesson.targets.shape[1]
        curve: tuple[Array, ...] = ()
        if hasattr(self, "learning_curve_") and not hasattr(self, "residual_"):
            curve = (self.learning_curve_.reshape(-1, outputs),)
        if self.feature_map is not None:
            features = self._features(lesson.points)
            zero = np.zeros((features.shape[1], outputs))
            weights = getattr(self, "coef_", zero).reshape(-1, outputs)
            return Progress(FeatureExpansion(features, weights), curve), lesson
        pool, first = self._pooled(lesson.points)
        coef = self.dual_coef_.reshape(-1, outputs) if first else np.zeros((0, outputs))
        expansion = KernelExpansion(self.kernel_, pool, np.arange(first, dtype=np.intp), coef)
        if passes > 1:
            expansion = expansion.keeping_matrix()
        return Progress(expansion, curve), replace(lesson, points=pool, first=first)

    def _advance(self, progress: Progress, rows: Rows, lesson: _Lesson) -> Progress:
        """One mini-batch."""
        targets, weights = lesson.targets[rows - lesson.first], lesson.weights[rows - lesson.first]
        steps = Steps(self.step_size_, float(self.alpha), self.budget)
        expansion, errors = steps.learn(progress.expansion, rows, targets, weights)
        if not np.isfinite(errors).all():
            raise ParameterError(
                f"KernelLMS: the errors overflow with step_size = {self.step_size_:.6g} and "
                f"targets up to {np.abs(lesson.targets).max():.3g}; pass a smaller step_size, or "
                "scale the targets."
            )
        return progress.after(expansion, errors)

    def _row_step(self, f: KernelExpansion | FeatureExpansion, lesson: _Lesson) -> float:
        rows = lesson.rows
        curvature = float((lesson.weights[rows - lesson.first] * f.diagonal(rows)).max())
        self._check_finite(curvature)
        if self.step_size != "auto":
            name = "the largest k(x, x)" + ("" if (lesson.weights == 1).all() else " times weight")
            step = self._checked_step(curvature, name)
            if step * self.alpha >= 1:
                raise ParameterError(
                    f"KernelLMS: step_size = {step:.6g} times alpha = {self.alpha:.6g} is not "
                    "below 1, so that a step would forget everything; make one of them smaller."
                )
            return step
        total = curvature + self.alpha
        return min(getattr(self, "step_size_", np.inf), 0.5 / total if total > 0 else 1.0)

    def _check_finite(self, value: float) -> None:
        if not np.isfinite(value):
            raise DataError(
                f"KernelLMS: {self.kernel_!r} gives values with NaN or infinity; scale the data, "
                "or use a kernel that grows less fast."
            )

    def _checked_step(self, curvature: float, name: str) -> float:
        """The step size given, if steps of this size come to rest."""
        step, total = float(self.step_size), curvature + float(self.alpha)
        if total > 0 and step >= 2 / total:
            alpha = f" plus alpha = {self.alpha:.6g}" if self.alpha else ""
            raise ParameterError(
                f"KernelLMS: step_size = {step:.6g} would make the errors grow, because it is not "
                f"below {2 / total:.6g}, which is 2 / ({name} = {curvature:.6g}{alpha}); pass a "
                f'smaller one, such as {1 / total:.3g}, or "auto".'
            )
        return step

    def _fitted(self, progress: Progress) -> dict[str, Any]:
        f = progress.expansion
        found: dict[str, Any] = {
            "learning_curve_": self._shaped(progress.whole_curve),
            "n_iter_": progress.n_iter,
            "converged_": progress.converged,
        }
        if isinstance(f, FeatureExpansion):
            return found | {"coef_": self._shaped(f.weights)}
        return found | {"points_": f.points, "dual_coef_": self._shaped(f.coef)}

    def _shaped(self, values: Array) -> Array:
        """Values with one column for each target, in the shape of y."""
        return values[:, 0] if self._is_vector else values

    # All rows at once -----------------------------------------------------------------------------

    def _fit_batch(self, lesson: _Lesson, X: Any, y: Any) -> None:
        scale = float(np.abs(lesson.targets).max()) or 1.0
        descent = self._descent(lesson, lesson.targets / scale)
        limit = self.max_iter or _STEPS
        curve: list[float] = []
        with self._iterations(X, y, limit) as report:
            state = start = next(descent)
            for following in islice(descent, limit):
                if state.gradient <= self.tol * start.gradient:
                    break
                curve.append(scale * _root_mean_square(state.errors, lesson.weights))
                state = following
                fitted = partial(self._batch_fitted, lesson, state, start, scale, tuple(curve))
                if report(fitted):
                    break
        self.__dict__.update(self._batch_fitted(lesson, state, start, scale, tuple(curve)))
        if self.n_iter_ == limit and self.tol and not self.converged_:
            warn(
                f"KernelLMS: after {limit} steps the gradient is {self.residual_:.2g} of that at "
                f"the start, not yet tol = {self.tol:g}; raise max_iter or alpha, or pass tol=0 "
                "to stop early on purpose.",
                NumericalWarning,
            )

    def _descent(self, lesson: _Lesson, targets: Array) -> Iterator[Descent]:
        n = len(lesson.points)
        weights = lesson.weights[:, None]
        if self.feature_map is not None:
            features = self._features(lesson.points)
            with np.errstate(over="ignore"):
                self._check_finite(float((features * features).sum()))
            curvature = largest_eigenvalue(
                features.shape[1], lambda v: features.T @ (_columns(weights, v) * (features @ v))
            )
            self.step_size_ = self._batch_step(curvature)
            return primal_descent(features, targets, weights, self.step_size_, self.alpha)
        memory.require(int(1.1 * n * n * 8), f"KernelLMS on {n} rows", 'use method="stochastic"')
        gram = self.kernel_(lesson.points)
        self._check_finite(float(gram.sum()))
        root = np.sqrt(weights)
        curvature = largest_eigenvalue(
            n, lambda v: _columns(root, v) * (gram @ (_columns(root, v) * v))
        )
        self.step_size_ = self._batch_step(curvature)
        return dual_descent(gram, targets, weights, self.step_size_, self.alpha)

    def _batch_step(self, curvature: float) -> float:
        if self.step_size != "auto":
            return self._checked_step(curvature, "the largest eigenvalue of K")
        total = curvature + self.alpha
        return 1 / total if total > 0 else 1.0

    def _batch_fitted(
        self,
        lesson: _Lesson,
        state: Descent,
        start: Descent,
        scale: float,
        curve: tuple[float, ...],
    ) -> dict[str, Any]:
        residual = state.gradient / (start.gradient or 1.0)
        coef = self._shaped(scale * state.coef)
        found = {
            "learning_curve_": np.array(curve),
            "n_iter_": max(len(curve), 1),
            "residual_": residual,
            "converged_": residual <= self.tol or self.tol == 0,
        }
        if self.feature_map is not None:
            return found | {"coef_": coef}
        return found | {"points_": lesson.points, "dual_coef_": coef}

    # Parameters -----------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_online_parameters()
        if self.step_size != "auto" and not (_is_number(self.step_size) and self.step_size > 0):
            raise ParameterError(
                f'KernelLMS: step_size = {self.step_size!r} is neither "auto" nor a positive '
                'number; pass "auto" or for example 0.5.'
            )
        for name in ("alpha", "tol"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise ParameterError(
                    f"KernelLMS: {name} = {value!r} is not a finite number >= 0; pass for example "
                    "0.01, or 0."
                )
        if self.method not in _METHODS:
            raise ParameterError(
                f"KernelLMS: method = {self.method!r} is unknown; pass one of "
                f"{', '.join(map(repr, _METHODS))}."
            )
        if self.budget is not None and (self.method == "batch" or self.feature_map is not None):
            other = "feature_map" if self.feature_map is not None else 'method="batch"'
            raise ParameterError(
                f"KernelLMS: budget = {self.budget!r} has no meaning with {other}; leave one of "
                "them out."
            )
        if self.feature_map is not None:
            self._check_feature_map()

    def _check_feature_map(self) -> None:
        given = self.feature_map
        if self.kernel is not None:
            raise ParameterError(
                "KernelLMS: kernel and feature_map are both given; pass one, because features "
                "define the kernel <phi(x), phi(z)>."
            )
        if isinstance(given, Kernel):
            if not given.input_tags()["two_d"]:
                raise ParameterError(
                    f"KernelLMS: the features of {given!r} depend on the data at hand, so that "
                    "coefficients would not fit later rows; pass it as kernel."
                )
        elif not callable(getattr(given, "transform", given)):
            raise ParameterError(
                f"KernelLMS: feature_map = {given!r} is not a map; pass a function of the data, an "
                "object with a method transform, or a kernel with finitely many features."
            )


def _is_number(value: object) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and bool(np.isfinite(float(value)))  # type: ignore[arg-type]


def _columns(weights: Array, vectors: Array) -> Array:
    """Weights of shape (n, 1) in the number of dimensions of the vectors."""
    return weights if vectors.ndim == 2 else weights[:, 0]


def _root_mean_square(errors: Array, weights: Array) -> float:
    return float(np.sqrt(np.average((errors * errors).mean(axis=1), weights=weights)))
