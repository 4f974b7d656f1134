"""Kernel ridge regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.iterative import IterativeEstimator, Report, with_callbacks
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.models.length_scales import candidates, checked_alphas, end_of_alphas, end_of_lengths
from mercer.models.representer import FeatureRepresenterModel
from mercer.models.results import RidgePath
from mercer.models.ridge.default_kernels import COMPARED_ROWS, compared_rows, default_kernels
from mercer.models.ridge.diagnostics import RidgeDiagnostics, Training
from mercer.rows.left_out import LeftOut, group_codes, left_out
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.solvers.dense import Cholesky, Spectral
from mercer.solvers.forecast import Forecast, RidgeFit, choose, forecast, priced, widest
from mercer.solvers.protocol import RidgeAnswer, RidgeTask, Solver, as_solver, checked_solver
from mercer.streams.sources import Given, named_columns
from mercer.streams.targets import NoTargets, Numbers

_CRITERIA = ("loo", "cv", "gcv")
_REPAIRS = ("raise", "clip", "flip", "shift")


class KernelRidge(FeatureRepresenterModel, RidgeDiagnostics, IterativeEstimator):
    r"""Kernel ridge regression: least squares with a penalty on the norm of the function.

    The function f(x) = sum_i a_i k(x, x_i) + b minimises

    .. math:: \tfrac12 \sum_i w_i (y_i - f(x_i))^2 + \tfrac{\alpha}{2} \|f - b\|_k^2 ,

    so that, without weights and intercept, (K + alpha I) a = y.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be. Without a
        kernel, "loo" and "cv" compare two: the RBF with a Laplacian kernel, or the kernel of a
        table with that of its decorrelated numbers. Of more than 300 rows, 300 decide.
    alpha : float or {"loo", "cv", "gcv"}, default=1.0
        Weight of the squared norm. 0 gives the interpolant of least norm (least squares where no
        function interpolates). "loo" takes the alpha of `alphas` with the least mean squared
        leave-one-out error, "cv" that with the least error over five folds, which are the same at
        every fit, and "gcv" that with the least generalised cross-validation error. All of them
        reduce the matrix once for all alphas. Errors of several targets are averaged, each divided
        by the variance of the target.
    fit_intercept : bool, default=True
        Whether to fit the constant b, which is not penalised.
    alphas : array-like of float, optional
        The grid for "loo", "cv" and "gcv". By default 25 values, evenly spaced in logarithm, from
        1e-8 (or n times the rounding unit of the data, if that is more) to n times the mean of
        w_i K_ii, the same for all kernels of a search: K is that of the first.
    length_scales : "auto", sequence or dict, optional
        Length-scales searched together with alpha, by the criterion of alpha, or by leave-one-out
        if alpha is a number. "auto" multiplies every ``length_scale`` in the kernel that is not
        `Fixed` by eleven factors from 1/8 to 4, the same for all; a kernel that has none is left as
        it is. A sequence holds values tried in turn for
        all of them; a dictionary maps paths such as ``"rbf__length_scale"`` to values, of which
        all combinations are tried.
    psd : {"raise", "clip", "flip", "shift"}, default="raise"
        What to do if the Gram matrix of a kernel that is not known to be valid has negative
        eigenvalues: refuse it, or repair it as `mercer.validity.repair` does, with test rows
        treated alike.
    solver : "auto", str or a solver, default="auto"
        How the coefficients are computed: one of `mercer.solvers.Cholesky`, `Spectral`, `Primal`,
        `ConjugateGradient`, `NystromSolver`, `Falkon` and `RandomFeatures`. The names "cholesky",
        "spectral", "primal", "conjugate_gradient", "nystrom", "falkon" and "random_features" stand
        for these with their defaults. "auto" takes
        `Primal` where the kernel has few features, otherwise `Cholesky` or `ConjugateGradient`,
        whichever costs less, up to 100,000 rows; `mercer.forecast` says what it takes and why.
    warm_start : bool, default=False
        Whether a fit by `mercer.solvers.ConjugateGradient` goes on from where the last one of this
        model stopped. On the same data it is as if it had not stopped, so that more iterations can
        be added, also after Ctrl-C; on others the last solution is where it begins. One by
        `mercer.solvers.Falkon` goes on over the same landmarks if alpha is the same.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (n,) or (n, n_targets)
        The coefficients a; zero for a row of weight zero, unless the matrix was repaired. There
        are none from explicit features of rows that come in blocks: see `primal_coef`.
    intercept_ : float or ndarray of shape (n_targets,)
        The constant b; 0.0 without an intercept.
    kernel_ : Kernel
        The kernel used, with length-scales resolved to numbers and chosen from the grid.
    points_ : Points
        The points that carry coefficients, as the kernel prepared them: the training points, or
        the landmarks of a solver that has some.
    rows_ : ndarray of shape (n_landmarks,)
        Which rows of X the points are. Only if they are some of them, such as chosen landmarks.
    solver_ : solver
        The solver used.
    alpha_ : float
        The alpha used.
    jitter_ : float
        What was added to the diagonal beyond alpha because the matrix was numerically singular.
    rank_ : int
        Numerical rank of the (centred, weighted) Gram matrix. Only if ``alpha_`` is 0.
    alphas_ : ndarray of shape (n_alphas,)
        The alphas compared. Only after a search.
    search_kernels_ : tuple of Kernel
        The kernels compared. Only after a search.
    search_errors_ : ndarray of shape (n_kernels, n_alphas)
        The criterion for every pair, infinite where it is not defined or exceeds float64. For
        several targets it is an average, weighted by the inverse of their variances. Only after a
        search.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.
    loo_residuals_ : ndarray of shape (n,) or (n, n_targets)
        Leave-one-out residuals: y_i minus what the model predicts for row i if it is fitted
        without row i, its copies, or its group. Computed when first asked for.
    shrinkage_ : ndarray
        s / (s + alpha), descending, s being the eigenvalues of the (centred, weighted) Gram matrix:
        how much of the target along each eigenvector is kept. Computed when first asked for.
    effective_dof_ : float
        Effective degrees of freedom, [1 +] the sum of `shrinkage_`. Computed when first asked for.

    See Also
    --------
    sklearn.kernel_ridge.KernelRidge : Without intercept, one alpha.

    Notes
    -----
    With an intercept, leave-one-out residuals are a_i / (G_ii - 1/(n alpha)), where
    G = (HKH + alpha I)^-1 and H = I - 11'/n. The squared norm is weighted by alpha, not n alpha:
    doubling all rows is the same as halving alpha, and as weights of 2.

    Leaving a row out leaves out all rows that are equal to it for the kernel: a row that its copies
    predict would make the least alpha seem best. So repeated rows choose what one row chooses with
    the sum of their weights. If rows belong together without being equal, such as the repeated
    measurements of a person, pass ``groups``: whole groups are then left out. Rows in blocks are
    left out one by one. The folds of "cv" keep copies and groups together.

    If the least alpha of the default grid wins, the data seem to have no noise; there is a warning
    if near copies of rows may be the reason. If the largest wins, the data show nothing but noise
    to this kernel, and predictions are nearly the mean of the targets.

    Rows need not be in memory: `fit` and `predict` take blocks (`mercer.Blocks`), arrays in files
    and Dask collections. Solvers are then `NystromSolver`, `Falkon`, `Primal` and `RandomFeatures`;
    diagnostics that need all rows are refused.

    With `RandomFeatures` the model is one of the kernel phi(x)' phi(z) of these features, and so
    are all diagnostics, contributions and coefficients.

    References
    ----------
    .. [1] C. Saunders, A. Gammerman, V. Vovk (1998). Ridge regression learning algorithm in dual
       variables. ICML.
    .. [2] G. H. Golub, M. Heath, G. Wahba (1979). Generalized cross-validation as a method for
       choosing a good ridge parameter. Technometrics 21(2).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X).ravel() + 5
    >>> model = mc.KernelRidge(mc.RBF(length_scale=1.0), alpha="loo").fit(X, y)
    >>> model.predict([[np.pi / 2]]).round(3)
    array([6.])
    >>> bool(model.effective_dof_ < 40)
    True
    """

    rank_: int
    alphas_: NDArray[Any]
    search_kernels_: tuple[Kernel, ...]
    search_errors_: NDArray[Any]

    def __init__(
        self,
        kernel: KernelLike = None,
        alpha: float | Literal["loo", "cv", "gcv"] = 1.0,
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Literal["auto"] | Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
        psd: Literal["raise", "clip", "flip", "shift"] = "raise",
        solver: Any = "auto",
        warm_start: bool = False,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(kernel, degree, gamma, coef0)
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.alphas = alphas
        self.length_scales = length_scales
        self.psd = psd
        self.solver = solver
        self.warm_start = warm_start

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data of the kind the kernel takes; or blocks of rows with their targets, as `Blocks`
            takes them, from a file or an iterator.
        y : array-like of shape (n,) or (n, n_targets), Dask collection or str
            Targets, or the name of their column in data frames, blocks of these and Dask
            collections; None if blocks hold them.
        sample_weight : array-like of shape (n,), float, Dask collection or str, optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.
        groups : array-like of shape (n,), optional
            Labels of groups of rows, such as persons, that are left out together when alpha and
            length-scales are chosen, and in `loo_residuals_`. For rows in memory.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            rows = self._prepare(X, y, sample_weight, groups)
            kernels = _candidates(self, rows, X, chooses=True)
            self.solver_ = self._chosen_solver(rows, kernels, searches=self._searches)
            with self._iterations(X, y, None) as report:
                groups = self._training.groups
                folds = self.alpha == "cv"
                out = left_out(self.kernel_, rows, groups, folds) if self._searches else None
                tasks = [self._task(kernel, rows, report, out) for kernel in kernels]
                if self._searches:
                    searched = self.solver_.search(tasks)
                    answer, best = searched.answer, searched.best
                    self.search_kernels_, self.alphas_ = kernels, searched.alphas
                    self.search_errors_ = searched.errors
                    _warn_of_ends(self, tasks, best, answer.alpha)
                else:
                    answer, best = self.solver_.ridge(tasks[0]), 0
                _require_finite(tasks[best], answer.dual, answer.intercept)
                self.__dict__.update(self._attributes(kernels[best], answer))
                if answer.warning:
                    warn(f"{type(self).__name__}: {answer.warning}.", NumericalWarning)
        return self

    def path(
        self,
        X: Any,
        y: Any,
        alphas: ArrayLike,
        sample_weight: Any = None,
        *,
        groups: Any = None,
    ) -> RidgePath:
        """Fit at every alpha at once, by the solver; the estimator itself is left as it is.

        The kernel is used as given: `length_scales` is not searched. The matrix is decomposed once;
        sums over rows are made once (`NystromSolver`, `Primal`, `RandomFeatures`); products with
        the matrix are shared (`ConjugateGradient`).

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data of the kind the kernel takes; or blocks of rows, as `fit` takes them.
        y : array-like of shape (n,) or (n, n_targets), Dask collection or str
            Targets; None if blocks hold them, or the name of a column, as in `fit`.
        alphas : array-like of shape (n_alphas,)
            Weights of the squared norm, 0 or more.
        sample_weight : array-like of shape (n,), float, Dask collection or str, optional
            Non-negative weights of the rows.
        groups : array-like of shape (n,), optional
            Labels of groups of rows that are left out together, as in `fit`.

        Returns
        -------
        RidgePath
            Coefficients, errors and predictions at each alpha.
        """
        given, _ = named_columns(type(self).__name__, Given(X, y, sample_weight))
        X, y, sample_weight = given
        model = type(self)(**self.get_params(deep=False))
        model._check_parameters()
        model.alpha, model.alphas = "loo", checked_alphas(alphas)
        rows = model._prepare(X, y, sample_weight, groups)
        solver = model._chosen_solver(rows, (model.kernel_,), searches=True)
        out = left_out(model.kernel_, rows, model._training.groups)
        task = model._task(model.kernel_, rows, out=out)
        task = replace(task, compares=False, state=None)
        answer = solver.path(task)
        _require_finite(task, answer.dual, answer.intercept)
        if answer.warning:
            warn(f"{type(self).__name__}: {answer.warning}.", NumericalWarning)
        vector = model._is_vector
        return RidgePath(
            alphas=task.alphas,
            dual_coef=answer.dual[:, :, 0] if vector else answer.dual,
            intercept=answer.intercept[:, 0] if vector else answer.intercept,
            loo_errors=answer.loo,
            gcv_errors=answer.gcv,
            effective_dof=answer.dof,
            kernel=model.kernel_,
            points=answer.points.detached(),
            solver=Spectral() if solver.is_dense else solver,
            function=answer.function,
            feature_names=model._names_seen,
        )

    @property
    def _searches(self) -> bool:
        return self.length_scales is not None or isinstance(self.alpha, str)

    def _prepare(self, X: Any, y: Any, sample_weight: Any, groups: Any = None) -> RowSource:
        """Validate the data; resolve the kernel."""
        kernel, owner = self._kernel_or_default(self.kernel, X), type(self).__name__
        stream, given = self._stream(
            kernel, X, y, sample_weight, Numbers(owner), whole=_rows_in_memory(self.solver)
        )
        rows: RowSource
        targets = weights = codes = None
        if groups is not None and self.alpha == "gcv":
            raise ParameterError(
                f'{owner}: alpha = "gcv" averages over rows, and leaves out no groups; pass '
                'alpha="loo", or leave groups out.'
            )
        if stream is not None:
            if groups is not None:
                raise DataError(f"{owner}: groups need rows in memory; pass arrays.")
            if self.alpha == "cv":
                raise DataError(
                    f'{owner}: alpha = "cv" leaves out folds of rows in memory, and they come in '
                    'blocks; pass alpha="loo", or arrays.'
                )
            rows = stream
            self._is_vector = getattr(stream.survey.targets, "shape", None) == ()
            statistics = stream.statistics
            checks.require_weight_range(
                owner, statistics.min_positive_weight, statistics.max_weight
            )
            largest = float(statistics.largest.max(initial=0.0))
        else:
            points = self._validate_points(kernel, given.X, reset=True)
            targets = self._validate_targets(given.y, len(points))
            self._is_vector = targets.ndim == 1
            weights = self._validate_weights(given.sample_weight, targets)
            # Diagnostics are computed later, and must see what was fitted: hence the copies.
            targets = targets.reshape(len(points), -1).copy()
            weights = None if weights is None else weights.copy()
            codes = None if groups is None else group_codes(owner, groups, len(points))
            rows = InMemory(RowBlock(points, targets, weights))
            largest = float(np.abs(targets).max(initial=0.0))
        checks.require_target_range(owner, largest)
        fit_intercept = bool(self.fit_intercept)
        self._training = Training(targets, weights, len(rows), fit_intercept, self.psd, codes)
        self.kernel_ = rows.resolve(kernel)
        return rows

    def _task(
        self,
        kernel: Kernel,
        rows: RowSource,
        report: Report | None = None,
        out: LeftOut | None = None,
    ) -> RidgeTask:
        """The problem that is given to the solver."""
        return RidgeTask(
            type(self).__name__,
            kernel,
            rows,
            self._training.fit_intercept,
            _given_alphas(self),
            self.alpha if isinstance(self.alpha, str) else "loo",
            compares=self._searches,
            report=None
            if report is None
            else lambda answer: report(lambda: self._attributes(kernel, answer())),
            resumes=self.warm_start,
            state=getattr(self, "_state", None) if self.warm_start else None,
            psd=self._training.psd,
            left_out=out,
        )

    def _attributes(self, kernel: Kernel, answer: RidgeAnswer) -> dict[str, Any]:
        """The fitted attributes that belong to an answer."""
        vector = self._is_vector
        attributes = {
            "kernel_": kernel,
            "points_": answer.points.detached(),
            "alpha_": answer.alpha,
            "intercept_": float(answer.intercept[0]) if vector else answer.intercept,
            "jitter_": 0.0,
            "_function": answer.function,
            "_state": answer.state,
            "_training": self._training,
            "_is_vector": vector,
            "solver_": self.solver_,
        }
        if len(answer.dual):
            attributes["dual_coef_"] = answer.dual[:, 0] if vector else answer.dual
        if answer.rows is not None:
            attributes["rows_"] = answer.rows
        return attributes | answer.quality

    def _fit_problem(
        self, rows: RowSource, kernels: Sequence[Kernel], *, searches: bool
    ) -> RidgeFit:
        """The fit, as solvers price it."""
        smallest = float(_given_alphas(self).min(initial=np.inf))
        kernel = kernels[0] if len(kernels) == 1 else widest(kernels, rows)
        chooses = searches and self.kernel is None and self.length_scales is None
        pilot = (2, COMPARED_ROWS) if chooses and len(kernels) == 1 < len(rows) else (0, 0)
        folds = self.alpha == "cv"
        return RidgeFit(kernel, rows, smallest, searches, len(kernels), pilot, folds)

    def _chosen_solver(
        self, rows: RowSource, kernels: Sequence[Kernel], *, searches: bool
    ) -> Solver:
        """The solver of the user, or the first of the list of "auto" that fits."""
        solver: Solver = as_solver(self.solver)
        if self.solver == "auto":
            solver = choose(self._fit_problem(rows, kernels, searches=searches)).solver
        if not solver.is_dense and self.kernel_.is_psd is False:
            raise ParameterError(
                f"{type(self).__name__}: {solver!r} needs a valid kernel, and {self.kernel_!r}"
                " is not one; pass solver=mercer.solvers.Cholesky() with psd=."
            )
        return solver

    def _forecast_for(self, X: Any, y: Any = None) -> Forecast:
        """The cost of each solver; for one target, if none are given."""
        self._check_parameters()
        if y is not None:
            rows = self._prepare(X, y, None)
        else:
            kernel, whole = self._kernel_or_default(self.kernel, X), _rows_in_memory(self.solver)
            stream, given = self._stream(kernel, X, None, None, NoTargets(), whole=whole)
            if stream is None:
                points = self._validate_points(kernel, given.X, reset=True)
                rows = InMemory(RowBlock(points, np.zeros((len(points), 1))))
            else:
                rows = stream
            self.kernel_ = rows.resolve(kernel)
        problem = self._fit_problem(rows, _candidates(self, rows, X), searches=self._searches)
        asked = None if self.solver == "auto" else priced(problem, as_solver(self.solver))
        return forecast(problem, asked)

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        if isinstance(self.alpha, str):
            if self.alpha not in _CRITERIA:
                raise ParameterError(
                    f"{owner}: alpha = {self.alpha!r} is unknown; pass a number >= 0, "
                    '"loo", "cv" or "gcv".'
                )
        else:
            example = '1.0, 0 to interpolate, or "loo" to have it chosen'
            checks.require_number(owner, "alpha", self.alpha, closed=True, example=example)
        checks.require_flags(self, "fit_intercept", "warm_start")
        solver = checked_solver(owner, self.solver)
        if solver != "auto":
            solver.check(owner)
        if self.psd not in _REPAIRS:
            raise ParameterError(
                f"{owner}: psd = {self.psd!r} is unknown; "
                f"pass one of {', '.join(map(repr, _REPAIRS))}."
            )
        if self.alphas is not None:
            checked_alphas(self.alphas)


def _rows_in_memory(solver: Any) -> float:
    """Rows of an array in a file, or of blocks, up to which they are wanted in memory."""
    if solver == "auto":
        return RidgeFit.product_rows
    return np.inf if as_solver(solver).needs_all_rows else 0


def _require_finite(task: RidgeTask, dual: Array, intercept: Array) -> None:
    """Refuse coefficients that are not finite in the type of predictions."""
    largest = float(np.finfo(task.dtype).max)
    if not (np.abs(dual).max(initial=0) <= largest and np.abs(intercept).max() <= largest):
        raise DataError(
            f"{task.owner}: the coefficients exceed the range of {task.dtype}; divide y by a "
            "constant, or raise alpha."
        )


def _warn_of_ends(model: KernelRidge, tasks: Sequence[RidgeTask], best: int, alpha: float) -> None:
    """Warn if the best candidate is at an end of its grid, and others may be better."""
    errors = model.search_errors_[best]
    compared = model.alphas_[np.isfinite(errors)]
    if len(tasks) == 1 and compared.min() < alpha < compared.max():
        return
    warning = end_of_alphas(
        model.alphas_, errors, tasks[best], model.alphas is not None
    ) or end_of_lengths(model.search_kernels_, model.search_errors_.min(axis=1), best)
    if warning:
        warn(f"{type(model).__name__}: {warning}.", NumericalWarning)


def _candidates(
    model: KernelRidge, rows: RowSource, X: Any, *, chooses: bool = False
) -> tuple[Kernel, ...]:
    """The kernels to compare, resolved; of many rows, one default kernel, chosen by some."""
    if model.length_scales is not None:
        kernel = model.kernel_
        if model.kernel is not None:
            kernel = model._kernel_or_default(model.kernel, rows.first_row)
        given = candidates(kernel, model.length_scales, model.kernel_)
        return tuple(map(rows.resolve, given))
    if model.kernel is not None or model.alpha not in ("loo", "cv"):
        return (model.kernel_,)
    kernels = default_kernels(model.kernel_, X, rows)
    some = compared_rows(rows) if len(kernels) > 1 else None
    if some is None:
        return kernels
    if not chooses:
        return kernels[-1:]
    part, groups = InMemory(rows.rows_at(some)), model._training.groups
    groups = None if groups is None else groups[some]
    out = left_out(model.kernel_, part, groups, model.alpha == "cv")
    tasks = [model._task(kernel, part, out=out) for kernel in kernels]
    return (kernels[Cholesky().search(tasks).best],)


def _given_alphas(model: KernelRidge) -> Array:
    """The alphas of the parameters; none for the default grid."""
    if not isinstance(model.alpha, str):
        return np.array([float(model.alpha)])
    return np.empty(0) if model.alphas is None else checked_alphas(model.alphas)
