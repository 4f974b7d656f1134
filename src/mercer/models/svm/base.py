"""What support vector machines share: kernels by name, training rows, dual problems, attributes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Literal, get_args

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, csr_matrix, issparse
from sklearn import get_config
from sklearn.utils.validation import check_is_fitted

from mercer import checks, validity
from mercer.arrays import Float64Array as Array
from mercer.estimator.iterative import IterativeEstimator
from mercer.exceptions import DataError, DataWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.kernels.containers import as_table, by_narwhals
from mercer.kernels.dot_product import Linear
from mercer.kernels.points import Points
from mercer.kernels.views import EVERYTHING, Numbers
from mercer.linalg.cholesky import Advice
from mercer.models.representer import RepresenterModel
from mercer.models.svm.duals import Dual, DualSolutions, Options, Rows, TwoClassDual, solve_one
from mercer.models.svm.fit_warnings import warn_of_fit, warn_of_invalid_matrix
from mercer.models.svm.solving import solve_several
from mercer.sampling import spread
from mercer.solvers.box_qp.kernel_matrix import (
    StoredMatrix,
    SymmetricMatrix,
    is_seen_invalid,
    kernel_matrix,
)
from mercer.validity.required import gram_matrix, require_positive

Similarity = Literal["raise", "clip", "flip", "shift", "ignore"]

# Number of rows up to which the whole matrix of a kernel that may be invalid is checked; of more
# rows, the matrix of this number of them is.
_CHECKED = 4096
_UNCHECKED = 'take the matrix as it is with psd="ignore"'
_ADVICE = Advice(
    "C",
    'repair it with psd="clip", "flip" or "shift", take it as it is with psd="ignore", or use a '
    "kernel whose is_psd is True",
)
# Rounding errors of function values that are worth a warning, whatever the tolerance.
_NOTICEABLE = 1e-3
# Least cost or weight: squares of smaller ones, times kernel values, may underflow.
_LEAST = 1e-50
# Largest cost or weight: squares of larger ones, times kernel values, may overflow.
LARGEST_COST = 1e50


@dataclass(frozen=True, eq=False)
class Training:
    """The rows that a machine learns from."""

    points: Points  # all rows, in an order that suits the machine
    numbers: Rows  # (n_points,): the rows of X that they are
    rows: Rows  # (n,): the points that have a positive weight
    weights: Array  # (n,): their weights
    shape: tuple[int, ...]  # the shape of X, rows of weight 0 included
    codes: Rows  # (n,): their classes, as numbers; empty for machines without classes

    def subset(self, positions: Rows) -> Training:
        """Some of the rows of positive weight, of the same points."""
        return replace(
            self,
            rows=self.rows[positions],
            weights=self.weights[positions],
            codes=self.codes[positions],
        )

    def codes_of(self, points: Rows) -> Rows:
        """The classes of some of the points, all of which have a positive weight."""
        codes = np.full(len(self.points), -1)
        codes[self.rows] = self.codes
        return codes[points]


class SupportVectorMachine(IterativeEstimator, RepresenterModel):
    """Base of support vector machines.

    A subclass states dual problems over the rows, and names the attributes of their solutions.
    """

    support_: NDArray[Any]
    n_support_: NDArray[Any]
    support_vectors_: Any
    rows_: NDArray[Any]
    fit_status_: int
    shape_fit_: tuple[int, ...]

    kernel: Any  # A kernel, or one by scikit-learn's name
    tol: float
    shrinking: bool
    cache_size: float | None
    max_iter: int
    verbose: bool
    psd: Similarity | None
    n_iter_: Any
    dual_gap_: Any
    objective_: Any
    #: Parameters that are True or False: "no" would count as True.
    _flags: tuple[str, ...] = ("shrinking",)
    #: The reason, in messages, why the problem with an infinite C has no solution.
    _infeasible = "no function separates the classes"
    #: Coefficients of the points for each function, of shape (n_points, n_functions); sparse if
    #: `_has_pairs`.
    _expansion: Any
    #: Whether there is a function for each pair of classes, with few of the points.
    _has_pairs = False

    def _read_points(self, X: Any) -> tuple[Kernel, Points]:
        """The kernel, and the rows as it takes them; a fitted machine has copies of some."""
        kernel = self._kernel_or_default(self.kernel, X)
        points = self._validate_points(kernel, in_double_precision(X), reset=True, copy=False)
        return kernel_for(self, points), points

    def _training(
        self, kernel: Kernel, points: Points, sample_weight: ArrayLike | None, targets: Any
    ) -> Training:
        """The rows of positive weight; the kernel is resolved from them."""
        if sample_weight is not None:
            sample_weight = _without_negative(type(self).__name__, sample_weight)
        given = self._validate_weights(sample_weight, targets)
        weights = np.ones(len(points)) if given is None else given.astype(np.float64)
        self.kernel_ = kernel.resolve(points, given)
        rows = np.flatnonzero(weights > 0)
        require_range(type(self).__name__, "sample_weight", weights[rows])
        numbers, codes = np.arange(len(points)), np.empty(0, np.intp)
        return Training(points, numbers, rows, weights[rows], points.shape, codes)

    def _matrix(
        self, points: Points, *, reused: bool = False
    ) -> tuple[SymmetricMatrix, validity.Repair | None]:
        """The kernel matrix, for one fit or several, and how it was repaired."""
        kernel, method = self.kernel_, self._psd_method
        cache_bytes = None if self.cache_size is None else 2.0**20 * float(self.cache_size)
        if method == "ignore" or kernel.is_psd is True:
            return kernel_matrix(kernel, points, cache_bytes, reused=reused, tol=self.tol), None
        if method == "raise":
            sample = spread(len(points), _CHECKED)
            gram = gram_matrix(self, kernel, points[sample], 1.0, method, _UNCHECKED)
            require_positive(self, kernel, gram, _ADVICE)
            if len(sample) == len(points):
                return StoredMatrix(gram), None
            return kernel_matrix(kernel, points, cache_bytes, reused=reused, tol=self.tol), None
        repair = validity.repair(gram_matrix(self, kernel, points, 1.0, method, _UNCHECKED), method)
        return StoredMatrix(repair.matrix), repair

    @property
    def _psd_method(self) -> Similarity:
        """What is done with a matrix that is not valid; scikit-learn takes it as it is."""
        if self.psd is not None:
            return self.psd
        return "raise" if isinstance(self.kernel, Kernel | None) else "ignore"

    @property
    def _options(self) -> Options:
        return Options(float(self.tol), None if self.max_iter == -1 else int(self.max_iter))

    def _fit_duals(
        self, X: Any, y: Any, data: Training, dual: Dual
    ) -> tuple[SymmetricMatrix, DualSolutions]:
        """Solve the dual problems, and set the fitted attributes."""
        matrix, repair = self._matrix(data.points)
        # A checked or repaired matrix makes the problem convex; others are tested on some rows.
        is_convex = self._psd_method != "ignore" or self.kernel_.is_psd is True
        is_invalid = not is_convex and is_seen_invalid(matrix)
        if self.kernel_.is_psd is None:
            is_convex = not is_invalid
        with self._iterations(X, y, None, "round") as report:

            def report_solutions(solutions: Callable[[], DualSolutions]) -> bool:
                return report(lambda: self._fitted(data, solutions(), repair, is_convex))

            solutions = solve_duals(matrix, dual, self._options, report=report_solutions)
            # Kernel values are rounded: the error of f, and of the gap, that follows at most.
            sums = np.bincount(solutions.function_of_term, np.abs(solutions.dual), len(solutions))
            rounding = np.finfo(np.float64).eps * matrix.largest * sums
            is_exact = rounding <= max(self.tol, _NOTICEABLE)
            known = replace(
                solutions,
                gap=np.where(
                    is_exact, solutions.gap, np.maximum(solutions.gap, 0) + rounding * sums
                ),
                converged=solutions.converged & is_exact,
            )
            self.__dict__.update(self._fitted(data, known, repair, is_convex))
        if not self.converged_ or np.any(self.dual_gap_ > np.abs(self.objective_)):
            warn_of_fit(self, solutions, is_exact)
        elif is_invalid:
            warn_of_invalid_matrix(self)
        return matrix, solutions

    def _fitted(
        self,
        data: Training,
        solutions: DualSolutions,
        repair: validity.Repair | None,
        is_convex: bool,
    ) -> dict[str, Any]:
        """The fitted attributes; without convexity, the gap bounds nothing."""
        n = len(data.points)
        coefficients: Any
        if self._has_pairs:
            coefficients = solutions.coefficients(n)
            support = np.flatnonzero(np.diff(coefficients.indptr))
        else:
            coefficients = solutions.dense_coefficients(n)
            support = np.flatnonzero(coefficients.any(axis=1))
        if len(data.codes):  # class by class, as in scikit-learn
            support = support[np.argsort(data.codes_of(support), kind="stable")]
        # A function without support vectors is a constant, which one point carries.
        carriers = support if len(support) else np.arange(1)
        expansion, own = coefficients[carriers], coefficients[support]
        if repair is not None:
            # A repair multiplies rows of kernel values; here it multiplies the coefficients.
            dense = solutions.dense_coefficients(n)
            expansion = repair.transform(dense.T).T.astype(np.float64)
            carriers = np.arange(n)
        if not is_convex:
            solutions = replace(solutions, gap=np.full(len(solutions), np.nan))
        converged = bool(solutions.converged.all())
        attributes = {
            "support_": data.numbers[support].astype(np.int32),
            "support_vectors_": support_vectors(self, data.points, support),
            "points_": data.points[carriers].detached(),
            "rows_": data.numbers[carriers],
            "converged_": converged,
            "fit_status_": int(not converged),
            "shape_fit_": data.shape,
            "_expansion": expansion,
        } | self._attributes_of(data, support, own, solutions)
        if issparse(data.points.data):  # coefficients are sparse where the rows are
            attributes["dual_coef_"] = sparse_rows(attributes["dual_coef_"])
        return attributes

    def _attributes_of(
        self, data: Training, support: Rows, coefficients: Any, solutions: DualSolutions
    ) -> dict[str, Any]:
        """Coefficients of support vectors, intercepts and certificates, of a single function."""
        return {
            "dual_coef_": coefficients.T,
            "intercept_": solutions.intercept,
            "n_support_": np.array([len(support)], dtype=np.int32),
            "n_iter_": int(solutions.n_iter[0]),
            "dual_gap_": float(solutions.gap[0]),
            "objective_": float(solutions.objective[0]),
        }

    @property
    def _coefficients(self) -> Array:
        return np.asarray(self._expansion.toarray() if self._has_pairs else self._expansion)

    def _function_values(self, X: Any) -> Array:
        return np.asarray(super()._function_values(X), dtype=np.float64)[:, 0]

    @property
    def _n_functions(self) -> int:
        return 1

    @property
    def coef_(self) -> Any:
        """The normal of the plane, for a linear kernel: one row for each function.

        Returns
        -------
        ndarray or sparse matrix of shape (n_functions, n_features)
            The functions are ``X @ coef_.T + intercept_``. Sparse if the training rows were. The
            values follow from `dual_coef_` and cannot be written to.
        """
        check_is_fitted(self)
        if not isinstance(self.kernel_, Linear):
            raise AttributeError(
                f"{type(self).__name__} has no coef_: kernel = {self.kernel_!r} is not linear; use "
                "dual_coef_, the coefficients of the support vectors."
            )
        rows = _all_columns(self, self.points_)
        if issparse(rows):
            coef = sparse_rows((rows.T @ csr_array(self._expansion)).T)
            coef.data.flags.writeable = False
        else:
            coef = np.asarray((rows.T @ self._coefficients).T)
            coef.flags.writeable = False
        return coef

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        checks.require_flags(self, *self._flags)
        if not isinstance(self.verbose, Integral | np.bool_):
            raise ParameterError(
                f"{owner}: verbose = {self.verbose!r} is neither True nor False; pass one of "
                "them, or a whole number."
            )
        checks.require_number(owner, "tol", self.tol, example="1e-3")
        if self.cache_size is not None:
            checks.require_number(owner, "cache_size", self.cache_size, example=200)
        if not checks.is_count(self.max_iter, least=-1):
            raise ParameterError(
                f"{owner}: max_iter = {self.max_iter!r} is neither -1 nor a whole number >= 0; "
                "pass -1 to leave the limit to the solver."
            )
        if self.psd is not None:
            checks.require_choice(owner, "psd", self.psd, get_args(Similarity))


def solve_duals(
    matrix: SymmetricMatrix, dual: Dual, options: Options, **more: Any
) -> DualSolutions:
    """Solve dual problems: one with all threads, or several side by side.

    `warm_start` has coefficients of all rows, of shape (n, n_functions); the functions are
    evaluated at `eval_rows` of the matrix; `report` is called after steps.
    """
    if isinstance(dual, TwoClassDual) and len(dual.sizes) > 1:
        return solve_several(matrix, dual, options, **more)
    return solve_one(matrix, dual, options, **more)


def kernel_for(model: SupportVectorMachine, points: Points) -> Kernel:
    """The kernel of a machine; the gamma of a name counts each row once, as in scikit-learn."""
    kernel = model._kernel_or_default(model.kernel, points)
    return kernel.resolve(points) if isinstance(model.kernel, str) else kernel


# Rows and weights as they are given, and attributes as scikit-learn has them ----------------------


def in_double_precision(X: Any) -> Any:
    """Rows in float64: the gap is computed in it, and float32 is used where it serves."""
    if not isinstance(X, np.ndarray):
        X = as_table(X)
        frame = by_narwhals(X, "support vector machine")
        if isinstance(frame, nw.DataFrame):
            single = [name for name, dtype in frame.schema.items() if dtype == nw.Float32]
            return frame.with_columns(nw.col(*single).cast(nw.Float64)).to_native() if single else X
    single_array = getattr(X, "dtype", None) == np.float32 and getattr(X, "ndim", 0) == 2
    # Rows are read one by one: in this order a row is one piece.
    return X.astype(np.float64, order="C") if single_array else X


def _without_negative(owner: str, sample_weight: ArrayLike) -> ArrayLike:
    """Weights of 0 in place of negative ones, as in LIBSVM: these rows are left out."""
    try:
        weights = np.asarray(sample_weight)
        # Columns of data frames with missing values are arrays of objects.
        weights = weights.astype(np.float64) if weights.dtype.kind == "O" else weights
    except (TypeError, ValueError):  # which the check of weights reports
        return sample_weight
    known = weights.ndim == 1 and weights.dtype.kind in "if"
    if not known or not (negative := weights < 0).any():
        return sample_weight
    warn(
        f"{owner}: {negative.sum()} rows have a negative weight and are left out, as if it were 0.",
        DataWarning,
    )
    return np.where(negative, 0, weights)


def sparse_rows(values: Any) -> Any:
    """Sparse by rows: a matrix of scipy or an array, whichever scikit-learn is set to return."""
    kind = csr_array if get_config()["sparse_interface"] == "sparray" else csr_matrix
    return kind(values)


def support_vectors(model: SupportVectorMachine, points: Points, rows: Rows) -> Any:
    """Some rows as scikit-learn stores them, where it takes them; none of a kernel matrix."""
    if model.kernel_.input_tags()["pairwise"]:
        return np.empty((0, 0))
    # A kernel that is named reads every column as numbers, whatever its name.
    is_named = isinstance(model.kernel, str)
    vectors = _all_columns(model, points)[rows] if is_named else points[rows].detached().data
    if issparse(vectors):
        return sparse_rows(vectors.astype(np.float64))
    is_matrix = isinstance(vectors, np.ndarray) and vectors.ndim == 2
    if is_matrix and vectors.dtype.kind in "biuf":
        return vectors.astype(np.float64, copy=False)
    return vectors


def _all_columns(model: SupportVectorMachine, points: Points) -> Any:
    """All columns of points, as a matrix."""
    return points.matrix(EVERYTHING.read_by(Numbers(type(model).__name__)))


# Checks -------------------------------------------------------------------------------------------


def require_range(owner: str, what: str, values: Array) -> None:
    """Refuse costs or weights whose squares leave the range of float64."""
    sizes = np.abs(values[np.isfinite(values)])
    if len(sizes) and not _LEAST <= sizes.min() <= sizes.max() <= LARGEST_COST:
        raise DataError(
            f"{owner}: {what} has values from {sizes.min():.3g} to {sizes.max():.3g}, and those "
            f"below {_LEAST:g} or above {LARGEST_COST:g} leave the range of floating-point "
            "numbers; scale them."
        )
