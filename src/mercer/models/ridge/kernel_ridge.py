"""Kernel ridge regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import with_callbacks

from mercer.estimator.iterative import IterativeEstimator, Report
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.models.feature_representer import FeatureRepresenterModel
from mercer.models.length_scales import checked_alphas, default_alphas
from mercer.models.results import RidgePath
from mercer.models.ridge.dense import DenseRidge
from mercer.models.ridge.path import ridge_path
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import Trace
from mercer.solvers import (
    Cholesky,
    ConjugateGradient,
    RidgeAnswer,
    RidgeTask,
    Spectral,
    forecast,
)
from mercer.solvers.protocol import Settings
from mercer.streams.targets import NoTargets, Numbers

Array = NDArray[np.floating[Any]]

_CRITERIA = ("loo", "gcv")
_REPAIRS = ("raise", "clip", "flip", "shift")


class KernelRidge(FeatureRepresenterModel, DenseRidge, IterativeEstimator):
    r"""Kernel ridge regression: least squares with a penalty on the norm of the function.

    The function f(x) = sum_i a_i k(x, x_i) + b minimises

    .. math:: \tfrac12 \sum_i w_i (y_i - f(x_i))^2 + \tfrac{\alpha}{2} \|f - b\|_k^2 ,

    so that, without weights and intercept, (K + alpha I) a = y.

    Parameters
    ----------
    kernel : Kernel, optional
        Any kernel; by default ``RBF(length_scale="scale")``. It says what X may be.
    alpha : float or {"loo", "gcv"}, default=1.0
        Weight of the squared norm. 0 gives the interpolant of least norm (least squares where no
        function interpolates). "loo" takes the alpha of `alphas` with the least mean squared
        leave-one-out error, "gcv" that with the least generalised cross-validation error, averaged
        over targets; both reduce the matrix once for all alphas.
    fit_intercept : bool, default=True
        Whether to fit the constant b, which is not penalised.
    alphas : array-like of float, optional
        The grid for "loo" and "gcv". By default 25 values, evenly spaced in logarithm, from 1e-8
        (or n times the rounding unit of the data, if that is more) to n times the mean of w_i K_ii,
        the same for all kernels of a search: K is that of the first.
    length_scales : "auto", sequence or dict, optional
        Length-scales searched together with alpha, by GCV if ``alpha="gcv"``, by leave-one-out
        otherwise. "auto" multiplies every ``length_scale`` in the kernel that is not `Fixed` by
        eleven factors from 1/8 to 4, the same for all. A sequence holds values tried in turn for
        all of them; a dictionary maps paths such as ``"rbf__length_scale"`` to values, of which
        all combinations are tried.
    psd : {"raise", "clip", "flip", "shift"}, default="raise"
        What to do if the Gram matrix of a kernel that is not known to be valid has negative
        eigenvalues: refuse it, or repair it as `mercer.validity.repair` does, with test rows
        treated alike.
    solver : "auto" or a solver, default="auto"
        How the coefficients are computed: one of `mercer.solvers.Cholesky`, `Spectral`, `Primal`,
        `ConjugateGradient`, `NystromSolver`, `Falkon` and `RandomFeatures`. "auto" takes
        `Primal` where the kernel has few features, otherwise the dense one up to 15,000 rows, if
        they fit in memory; `mercer.forecast` says what it takes and why.
    warm_start : bool, default=False
        Whether a fit by `mercer.solvers.ConjugateGradient` goes on from where the last one of this
        model stopped. On the same data it is as if it had not stopped, so that more iterations can
        be added, also after Ctrl-C; on others the last solution is where it begins. One by
        `mercer.solvers.Falkon` goes on over the same landmarks if alpha is the same.

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
        The criterion for every pair, infinite where it is not defined or exceeds float64. Only
        after a search.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.
    loo_residuals_ : ndarray of shape (n,) or (n, n_targets)
        Leave-one-out residuals: y_i minus what the model fitted without row i (and its weight)
        predicts for it. Computed when first asked for.
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

    def __init__(
        self,
        kernel: Kernel | None = None,
        alpha: float | Literal["loo", "gcv"] = 1.0,
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Literal["auto"] | Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
        psd: Literal["raise", "clip", "flip", "shift"] = "raise",
        solver: Any = "auto",
        warm_start: bool = False,
    ) -> None:
        super().__init__(kernel)
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.alphas = alphas
        self.length_scales = length_scales
        self.psd = psd
        self.solver = solver
        self.warm_start = warm_start

    # Fitting ------------------------------------------------------------------------------------

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data of the kind the kernel takes; or blocks of rows with their targets, as `Blocks`
            takes them, from a file or an iterator.
        y : array-like of shape (n,) or (n, n_targets), Dask collection or str
            Targets; None if blocks hold them, or the name of a column of blocks or Dask collections
            that are data frames.
        sample_weight : array-like of shape (n,), float, Dask collection or str, optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            rows = self._prepare(X, y, sample_weight)
            self.solver_ = self._chosen_solver(rows)
            with self._iterations(X, y, None) as report:
                if self._is_dense:
                    self._fit_dense()
                else:
                    self._fit_by_solver(rows, report)
        return self

    def path(self, X: Any, y: Any, alphas: ArrayLike, sample_weight: Any = None) -> RidgePath:
        """Fit at every alpha at once, by the solver; the estimator itself is left as it is.

        The kernel is used as given: `length_scales` is not searched. The matrix is decomposed once;
        sums over rows are made once (`NystromSolver`, `Primal`, `RandomFeatures`); products with the
        matrix are shared (`ConjugateGradient`).

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

        Returns
        -------
        RidgePath
            Coefficients, errors and predictions at each alpha.
        """
        other = type(self)(**self.get_params(deep=False))
        other._check_parameters()
        grid = checked_alphas(alphas)
        return ridge_path(other, other._prepare(X, y, sample_weight), grid)

    # Solvers --------------------------------------------------------------------------------------

    @property
    def _is_dense(self) -> bool:
        return isinstance(self.solver_, Cholesky | Spectral)

    def _chosen_solver(self, rows: RowSource) -> Any:
        given = isinstance(self.solver, str)
        chosen = self._forecast(rows).chosen if given else self.solver
        if isinstance(chosen, Cholesky | Spectral):
            self._require_held(rows, chosen)
        elif self.kernel_.is_psd is False:
            raise ParameterError(
                f"{type(self).__name__}: {chosen!r} needs a valid kernel, and {self.kernel_!r}"
                " is not one; pass solver=mercer.solvers.Cholesky() with psd=."
            )
        return chosen

    def _require_held(self, rows: RowSource, solver: Any) -> None:
        """Refuse rows that come in blocks, where their matrix is needed."""
        self._task(self.kernel_, rows).part(type(solver).__name__)

    @property
    def _whole(self) -> float:
        """Rows of an array in a file, or of blocks, up to which they are wanted in memory."""
        if isinstance(self.solver, str):
            return forecast.WHOLE
        needs_all = isinstance(self.solver, Cholesky | Spectral | ConjugateGradient)
        return np.inf if needs_all else 0

    def _forecast_for(self, X: Any, y: Any = None) -> forecast.Forecast:
        """What each solver would cost; for one target, if none are given."""
        self._check_parameters()
        if y is not None:
            return self._forecast(self._prepare(X, y, None))
        kernel = self._kernel_or_default(self.kernel)
        self._settings = (self.fit_intercept, self.psd)
        stream, given = self._stream(kernel, X, None, None, NoTargets(), whole=self._whole)
        rows: RowSource
        if stream is None:
            points = self._validate_points(kernel, given.X, reset=True)
            rows = InMemory(RowBlock(points, np.zeros((len(points), 1))))
        else:
            rows = stream
        self.kernel_ = rows.resolve(kernel)
        return self._forecast(rows)

    def _forecast(self, rows: RowSource) -> forecast.Forecast:
        """What each solver would cost; the data have been prepared."""
        given = None if isinstance(self.solver, str) else self.solver
        kernels = self._candidates(rows.resolve) if self._searches else (self.kernel_,)
        alphas = self._solver_alphas(self.kernel_, rows)
        task = forecast.widest([self._task(kernel, rows, alphas) for kernel in kernels])
        return forecast.forecast(task, searches=self._searches, given=given)

    def _task(
        self,
        kernel: Kernel,
        rows: RowSource,
        alphas: Array | None = None,
        report: Report | None = None,
    ) -> RidgeTask:
        """The problem as solvers see it."""
        return RidgeTask(
            type(self).__name__,
            kernel,
            rows,
            self._settings[0],
            self._solver_alphas(kernel, rows) if alphas is None else alphas,
            "gcv" if self.alpha == "gcv" else "loo",
            compares=self._searches,
            report=None
            if report is None
            else lambda answer: report(lambda: self._attributes(kernel, answer())),
            resumes=self.warm_start,
            state=getattr(self, "_state", None) if self.warm_start else None,
        )

    def _solver_alphas(self, kernel: Kernel, rows: RowSource) -> Array:
        """The alphas to compare, without the matrix."""
        if not isinstance(self.alpha, str):
            return np.array([float(self.alpha)])
        if self.alphas is not None:
            return checked_alphas(self.alphas)
        count = rows.statistics.rows
        dtype = kernel.gram(rows.first_row).dtype
        with np.errstate(over="ignore"):
            scale = rows.map_sum(Trace(kernel)) / count
        if not np.isfinite(scale):
            raise DataError(
                f"{type(self).__name__}: values k(x, x) of {kernel!r} exceed the range of {dtype}, "
                "so that no alphas are on their scale; divide X or the kernel by a constant."
            )
        return default_alphas(scale, count, dtype)

    def _fit_by_solver(self, rows: RowSource, report: Report) -> None:
        """Let the solver find coefficients for every candidate kernel, and keep the best."""
        kernels = self._candidates(rows.resolve)
        alphas = self._solver_alphas(kernels[0], rows)  # the same for all: their errors are a table
        tasks = [self._task(kernel, rows, alphas, report) for kernel in kernels]
        if not self._searches:
            best, answer = 0, self.solver_.ridge(tasks[0])
        else:
            best, answer, self.search_errors_ = self._best_answer(tasks)
            self.search_kernels_, self.alphas_ = kernels, alphas
        self._require_finite(answer.dual, answer.intercept, tasks[best].dtype)
        self.__dict__.update(self._attributes(kernels[best], answer))
        if answer.doubt:
            warn(f"{type(self).__name__}: {answer.doubt}.", NumericalWarning)

    def _best_answer(self, tasks: list[RidgeTask]) -> tuple[int, RidgeAnswer, Array]:
        """The best of the candidates, its answer, and the errors of all."""
        if hasattr(self.solver_, "compare"):  # without solving for each
            errors = self.solver_.compare(tasks)
            row, column = divmod(int(np.argmin(errors)), errors.shape[1])
            task = tasks[row].at(float(tasks[row].alphas[column]))
            return row, self.solver_.ridge(task), errors
        answers = [self.solver_.ridge(task) for task in tasks]
        errors = np.stack([answer.errors for answer in answers])
        best = int(np.argmin(errors.min(axis=1)))
        return best, answers[best], errors

    def _attributes(self, kernel: Kernel, answer: RidgeAnswer) -> dict[str, Any]:
        """What is stored of an answer."""
        intercept = self._shaped(answer.intercept[None])[0]
        return (
            {
                "kernel_": kernel,
                "points_": answer.points.detached(),
                "alpha_": answer.alpha,
                "intercept_": float(intercept) if np.ndim(intercept) == 0 else intercept,
                "jitter_": 0.0,
                "_function": answer.function,
                "_state": answer.state,
                "_targets": self._targets,
                "_weights": self._weights,
                "_n_rows": self._n_rows,
                "_settings": self._settings,
                "_is_vector": self._is_vector,
                "solver_": self.solver_,
            }
            | ({"dual_coef_": self._shaped(answer.dual)} if len(answer.dual) else {})
            | ({} if answer.rows is None else {"rows_": answer.rows})
            | answer.quality
        )

    # The problem ----------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: Any, sample_weight: Any) -> RowSource:
        """Validate the data; resolve the kernel."""
        kernel = self._kernel_or_default(self.kernel)
        self._settings = (self.fit_intercept, self.psd)
        stream, given = self._stream(
            kernel, X, y, sample_weight, Numbers(type(self).__name__), whole=self._whole
        )
        rows: RowSource = stream or self._in_memory(kernel, *given)
        if stream is not None:
            self._is_vector = getattr(stream.survey.targets, "shape", None) == ()
            self._targets = self._weights = None
        self._n_rows = len(rows)
        self.kernel_ = rows.resolve(kernel)
        return rows

    def _in_memory(self, kernel: Kernel, X: Any, y: Any, sample_weight: Any) -> InMemory:
        self.points_ = self._validate_points(kernel, X, reset=True)
        targets = self._target_columns(y, len(self.points_))
        weights = self._validate_weights(sample_weight, targets)
        # Diagnostics are computed later: they must see what was fitted, not what became of it.
        self._targets = targets.copy()
        self._weights = None if weights is None else weights.copy()
        return InMemory(RowBlock(self.points_, self._targets, self._weights))

    # Parameters -----------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        if isinstance(self.alpha, str):
            if self.alpha not in _CRITERIA:
                raise ParameterError(
                    f"{owner}: alpha = {self.alpha!r} is unknown; pass a number >= 0, "
                    '"loo" or "gcv".'
                )
        elif not _is_weight(self.alpha):
            raise ParameterError(
                f"{owner}: alpha = {self.alpha!r} is not a finite number >= 0; pass for example "
                '1.0, 0 to interpolate, or "loo" to have it chosen.'
            )
        self._require_flags("fit_intercept", "warm_start")
        is_solver = isinstance(self.solver, Cholesky | Spectral) or hasattr(self.solver, "ridge")
        if not (isinstance(self.solver, str) and self.solver == "auto") and (
            not is_solver or isinstance(self.solver, type)
        ):
            raise ParameterError(
                f"{owner}: solver = {self.solver!r} is unknown; pass "
                '"auto" or an object such as mercer.solvers.NystromSolver(n_landmarks=1000).'
            )
        if isinstance(self.solver, Settings):
            self.solver.check(owner)
        if self.psd not in _REPAIRS:
            raise ParameterError(
                f"{owner}: psd = {self.psd!r} is unknown; "
                f"pass one of {', '.join(map(repr, _REPAIRS))}."
            )
        if self.alphas is not None:
            checked_alphas(self.alphas)


def _is_weight(value: object) -> bool:
    number = isinstance(value, Real) and not isinstance(value, bool)
    return number and bool(np.isfinite(float(value)) and float(value) >= 0)  # type: ignore[arg-type]
