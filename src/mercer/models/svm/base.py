"""What support vector machines share: kernels by name, the dual problems, what is kept of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.utils.validation import check_is_fitted

from mercer import validity
from mercer.estimator import checks
from mercer.estimator.iterative import IterativeEstimator
from mercer.exceptions import ParameterError, ShortFitWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.points import Points
from mercer.kernels.views import EVERYTHING, Numbers
from mercer.linalg.cholesky import Advice
from mercer.models.representer import RepresenterModel
from mercer.models.svm import kernel_names
from mercer.models.svm.duals import Dual
from mercer.models.svm.functions import Machines, Rows
from mercer.models.svm.solving import Options, solved, with_rounding
from mercer.models.svm.training import (
    Training,
    as_attribute,
    in_double_precision,
    sparse_rows,
    without_negative,
)
from mercer.sampling import spread
from mercer.solvers.box_qp.kernel_matrix import is_seen_invalid, kernel_matrix
from mercer.solvers.box_qp.problem import StoredMatrix, SymmetricMatrix
from mercer.validity.required import gram_matrix, require_positive

Array = NDArray[np.float64]
Similarity = Literal["raise", "clip", "flip", "shift", "ignore"]

_SIMILARITIES = ("raise", "clip", "flip", "shift", "ignore")
# Up to so many rows the whole matrix of a kernel that may not be valid is checked, of more rows
# that of so many of them.
_CHECKED = 4096
_UNCHECKED = 'take the matrix as it is with psd="ignore"'
_ADVICE = Advice(
    "C",
    'repair it with psd="clip", "flip" or "shift", take it as it is with psd="ignore", or use a '
    "kernel whose is_psd is True",
)


class SupportVectorMachine(IterativeEstimator, RepresenterModel):
    """Base of support vector machines.

    A subclass states dual problems over the rows, and what their solutions mean.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A kernel, or one by scikit-learn's name.
    degree, gamma, coef0 : int, "scale", "auto" or float, float
        The arguments of a kernel that is named.
    tol : float
        How far a row may be from its condition of optimality.
    shrinking, verbose : bool
        For code written for scikit-learn.
    cache_size : float or None
        Megabytes for kernel values that are kept.
    max_iter : int
        The largest number of steps; -1 for the solver's own limit.
    psd : {"raise", "clip", "flip", "shift", "ignore"} or None
        What to do with a kernel matrix that is not positive semi-definite.
    """

    def __init__(
        self,
        kernel: Any,
        *,
        degree: int,
        gamma: float | str,
        coef0: float,
        tol: float,
        shrinking: bool,
        cache_size: float | None,
        max_iter: int,
        verbose: bool,
        psd: Similarity | None,
    ) -> None:
        super().__init__(kernel)
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.verbose = verbose
        self.psd = psd

    kernel: Any

    # Kernels by name ------------------------------------------------------------------------------

    def _tagged_kernel(self) -> object:
        is_name = kernel_names.is_name(self.kernel)
        return kernel_names.outline(self.kernel) if is_name else super()._tagged_kernel()

    def _read_points(self, X: Any) -> tuple[Kernel, Points]:
        """The kernel, and the rows as it takes them; a fitted machine has copies of some."""
        is_name = kernel_names.is_name(self.kernel)
        outline = (
            kernel_names.outline(self.kernel) if is_name else self._kernel_or_default(self.kernel)
        )
        points = self._validate_points(outline, in_double_precision(X), reset=True, copy=False)
        return self._kernel_for(points), points

    def _kernel_for(self, points: Points) -> Kernel:
        """The kernel; one that is named may take its gamma from the rows."""
        owner = type(self).__name__
        arguments = {name: getattr(self, name) for name in kernel_names.DEFAULTS}
        if kernel_names.is_name(self.kernel):
            return kernel_names.named_kernel(owner, self.kernel, points, **arguments)
        kernel = self._kernel_or_default(self.kernel)
        kernel_names.require_no_arguments(owner, kernel, arguments)
        return kernel

    # Fitting --------------------------------------------------------------------------------------

    def _training(
        self, kernel: Kernel, points: Points, sample_weight: ArrayLike | None, targets: Any
    ) -> Training:
        """The rows that count; the kernel is resolved from them."""
        sample_weight = without_negative(type(self).__name__, sample_weight)
        given = self._validate_weights(sample_weight, targets)
        weights = np.ones(len(points)) if given is None else given.astype(np.float64)
        self.kernel_ = kernel.resolve(points, given)
        return Training.of(points, weights)

    def _fit_duals(
        self, X: Any, y: Any, data: Training, dual: Dual
    ) -> tuple[SymmetricMatrix, Machines]:
        """Solve the dual problems, and keep what they say."""
        matrix, repair = self._matrix(data.points)
        bounded = self._is_bounded_by_gap(matrix)
        with self._iterations(X, y, None, "round") as report:

            def told(machines: Callable[[], Machines]) -> bool:
                return report(lambda: self._kept(data, machines(), repair, bounded))

            machines = solved(matrix, dual, self._options, report=told)
            honest = with_rounding(matrix, machines, self._options)
            self.__dict__.update(self._kept(data, honest, repair, bounded))
        lost = int(honest.is_rounded.sum())
        if lost and not self._has_other_lacks(machines):
            self._warn_of_rounding(lost, len(machines))
        else:
            self._warn_of_lacks(machines)
        return matrix, machines

    def _has_other_lacks(self, machines: Machines) -> bool:
        """Whether there is a reason to stop short that is not rounding."""
        if machines.converged.all():
            return False
        has_margins = bool(machines.has_margin.all())
        return self.max_iter != -1 or self._allows_no_errors or not has_margins

    def _matrix(
        self, points: Points, *, reused: bool = False
    ) -> tuple[SymmetricMatrix, validity.Repair | None]:
        """Where kernel values come from, for one fit or several, and how they were mended."""
        kernel, method = self.kernel_, self._similarity
        if kernel.is_psd is True or method == "ignore":
            return kernel_matrix(kernel, points, self._cache_bytes, reused=reused), None
        if method == "raise":
            some = spread(len(points), _CHECKED)
            gram = gram_matrix(self, kernel, points[some], 1.0, method, _UNCHECKED)
            require_positive(self, kernel, gram, _ADVICE)
            if len(some) == len(points):
                return StoredMatrix(gram), None
            return kernel_matrix(kernel, points, self._cache_bytes, reused=reused), None
        repair = validity.repair(gram_matrix(self, kernel, points, 1.0, method, _UNCHECKED), method)
        return StoredMatrix(repair.matrix), repair

    def _is_bounded_by_gap(self, matrix: SymmetricMatrix) -> bool:
        """Whether the problem is convex, for all that is known: else its gap bounds nothing."""
        known = self.kernel_.is_psd
        if known is True or self._similarity != "ignore":
            return True  # by its rules, by a check or by a repair
        return known is None and not is_seen_invalid(matrix)

    @property
    def _cache_bytes(self) -> float | None:
        return None if self.cache_size is None else 2.0**20 * float(self.cache_size)

    @property
    def _similarity(self) -> Similarity:
        """What is done with a matrix that is not valid: scikit-learn takes it as it is."""
        if self.psd is not None:
            return self.psd
        return "ignore" if kernel_names.is_name(self.kernel) else "raise"

    @property
    def _options(self) -> Options:
        return Options(float(self.tol), None if self.max_iter == -1 else int(self.max_iter))

    def _kept(
        self,
        data: Training,
        machines: Machines,
        repair: validity.Repair | None,
        bounded: bool,
    ) -> dict[str, Any]:
        """The fitted attributes."""
        n = len(data.points)
        coefficients = machines.coefficients(n)
        support = np.flatnonzero(np.diff(coefficients.indptr))
        support = support[self._order_of_support(data, support)]
        own = self._expanded(coefficients[support])
        # A function without support vectors is a constant, which one point carries.
        carriers = support if len(support) else np.arange(1)
        expansion = own if len(support) else self._expanded(coefficients[carriers])
        if repair is not None:
            # A repair multiplies rows of kernel values; here it multiplies the coefficients.
            expansion = repair.transform(coefficients.toarray().T).T.astype(np.float64)
            carriers = np.arange(n)
        if not bounded:
            # What is found may be far from the minimum.
            machines = replace(machines, gap=np.full(len(machines), np.nan))
        converged = bool(machines.converged.all())
        return {
            "support_": data.numbers[support].astype(np.int32),
            "support_vectors_": self._rows_as_given(data.points, support),
            "points_": data.points[carriers].detached(),
            "rows_": data.numbers[carriers],
            "converged_": converged,
            "fit_status_": int(not converged),
            "shape_fit_": data.shape,
            "_expansion": expansion,
        } | self._as_given(data, self._meaning(data, support, own, machines))

    def _expanded(self, coefficients: csr_array) -> Any:
        """Coefficients of points for all functions, as they are kept."""
        return coefficients.toarray()

    @staticmethod
    def _as_given(data: Training, found: dict[str, Any]) -> dict[str, Any]:
        """Coefficients are sparse where the rows are, as in scikit-learn."""
        if issparse(data.points.data):
            found["dual_coef_"] = sparse_rows(found["dual_coef_"])
        return found

    @abstractmethod
    def _meaning(
        self, data: Training, support: Rows, coefficients: Any, machines: Machines
    ) -> dict[str, Any]:
        """Coefficients of support vectors, intercepts and quality, as the model calls them."""

    def _order_of_support(self, data: Training, support: Rows) -> Rows:
        """How support vectors are put in order."""
        return np.arange(len(support))

    def _warn_of_lacks(self, machines: Machines) -> None:
        """Tell what the machines do not have."""
        limit = np.inf if self.max_iter == -1 else self.max_iter
        without = int((~machines.has_margin & (machines.n_iter < limit)).sum())
        if without:
            self._warn_of_no_margin(without, len(machines))
        elif not self.converged_:
            self._warn_of_short_fit()
        elif np.any(self.dual_gap_ > np.abs(self.objective_)):
            self._warn_of_wide_gap()

    def _warn_of_rounding(self, lost: int, n_machines: int) -> None:
        which = "" if n_machines == 1 else f" of {lost} of {n_machines} functions"
        softer = "lower C, " if hasattr(self, "C") else ""
        warn(
            f"{type(self).__name__}: rounding of kernel values may move values{which} by more than "
            f"tol = {self.tol:g}, so that the solution is not known as exactly; subtract the means "
            f"of the columns and scale them, as scikit-learn's StandardScaler does, {softer}or "
            "raise tol.",
            ShortFitWarning,
        )

    def _warn_of_wide_gap(self) -> None:
        gaps, objectives = np.ravel(self.dual_gap_), np.ravel(self.objective_)
        worst = int(np.argmax(gaps - np.abs(objectives)))
        softer = "lower C" if hasattr(self, "C") else "raise nu"
        warn(
            f"{type(self).__name__}: every row is within tol = {self.tol:g} of its condition, but "
            f"the duality gap of {gaps[worst]:.3g} is more than the objective itself, "
            f"{objectives[worst]:.3g}; lower tol, scale the data, or {softer}.",
            ShortFitWarning,
        )

    def _warn_of_no_margin(self, without: int, n_machines: int) -> None:
        which = "" if n_machines == 1 else f" for {without} of {n_machines} functions"
        if np.isnan(self.dual_gap_).any():
            warn(
                f"{type(self).__name__}: the matrix of {self.kernel_!r} is not positive "
                f"semi-definite, and the solution found{which} has no positive squared length, "
                "from which a margin would follow: values of the function have no unit, and other "
                'programs may find another function; repair the matrix with psd="clip", "flip" or '
                '"shift", or use a kernel whose is_psd is True.',
                ShortFitWarning,
            )
            return
        warn(
            f"{type(self).__name__} found no margin between the classes at nu = "
            f"{self.get_params()['nu']:g}{which}, so that values of the function have no unit: "
            "a smaller share of errors than there are is asked for; raise nu, scale the data, or "
            "take another kernel.",
            ShortFitWarning,
        )

    def _warn_of_short_fit(self) -> None:
        owner, steps, gap = type(self).__name__, np.max(self.n_iter_), np.max(self.dual_gap_)
        more = [] if self.max_iter == -1 else [f"raise max_iter ({self.max_iter})"]
        if self._allows_no_errors:
            # A function that was not begun, because a callback said so, has no steps.
            certain = np.any(np.isposinf(self.dual_gap_) & (np.asarray(self.n_iter_) > 0))
            sure = "" if certain else "perhaps " if more else "most likely "
            why = f": C is infinite, and {sure}{self._infeasible}"
            remedies = [*more, "pass a finite C, which allows errors", "or take another kernel"]
        else:
            exact = f"before it was as exact as tol = {self.tol:g} asks"
            why = f" with a duality gap of {gap:.3g}, {exact}"
            softer = "lower C" if hasattr(self, "C") else "raise nu"
            remedies = [*more, "scale the data", softer, "or raise tol"]
        warn(f"{owner} stopped after {steps} steps{why}; {', '.join(remedies)}.", ShortFitWarning)

    @property
    def _allows_no_errors(self) -> bool:
        C = getattr(self, "C", 1.0)
        return bool(np.isinf(list(C.values()) if isinstance(C, Mapping) else C).any())

    n_iter_: Any
    dual_gap_: Any
    objective_: Any
    #: What an infinite C asks for in vain.
    _infeasible = "no function separates the classes"

    # The function ---------------------------------------------------------------------------------

    #: Coefficients of the points for each function, of shape (n_points, n_functions); sparse where
    #: a function has few of the points.
    _expansion: Any

    @property
    def _coefficients(self) -> Array:
        found = self._expansion
        return np.asarray(found.toarray() if issparse(found) else found)

    def _machine_values(self, X: Any) -> Array:
        """The values of the machines, of shape (m, n_machines)."""
        return np.asarray(super()._function_values(X), dtype=np.float64)

    def _function_values(self, X: Any) -> Array:
        return self._machine_values(X)[:, 0]

    @property
    def _n_functions(self) -> int:
        return 1

    def _rows_as_given(self, points: Points, rows: Rows) -> Any:
        """Some rows as scikit-learn returns them, where it takes them; none of a matrix."""
        if self.kernel_.input_tags()["pairwise"]:
            return np.empty((0, 0))
        if isinstance(self.kernel, str):  # reads every column as numbers, whatever its name
            return as_attribute(self._numbers_of(points)[rows])
        return as_attribute(points[rows].detached().data)

    def _numbers_of(self, points: Points) -> Any:
        """All columns of points, as a matrix."""
        return points.matrix(EVERYTHING.read_by(Numbers(type(self).__name__)))

    @property
    def coef_(self) -> Any:
        """The normal of the plane, for a linear kernel: one row for each function.

        Returns
        -------
        ndarray or sparse matrix of shape (n_functions, n_features)
            The functions are ``X @ coef_.T + intercept_``. Sparse if the training rows were.
        """
        check_is_fitted(self)
        if not isinstance(self.kernel_, Linear):
            raise AttributeError(
                f"{type(self).__name__} has no coef_: kernel = {self.kernel_!r} is not linear; use "
                "dual_coef_, the coefficients of the support vectors."
            )
        rows = self._numbers_of(self.points_)
        if issparse(rows):
            return sparse_rows((rows.T @ csr_array(self._expansion)).T)
        return np.asarray((rows.T @ self._coefficients).T)

    # Parameters -----------------------------------------------------------------------------------

    def _check_shared(self) -> None:
        checks.require_flags(self, "shrinking")
        if not isinstance(self.verbose, bool | np.bool_ | Integral):
            raise ParameterError(
                f"{type(self).__name__}: verbose = {self.verbose!r} is neither True nor False; "
                "pass one of them, or a whole number."
            )
        self._require_number("tol", low=0.0, example="1e-3")
        if self.cache_size is not None:
            self._require_number("cache_size", low=0.0, example="200")
        whole = isinstance(self.max_iter, Integral) and not isinstance(self.max_iter, bool)
        if not (whole and self.max_iter >= -1):
            raise ParameterError(
                f"{type(self).__name__}: max_iter = {self.max_iter!r} is neither -1 nor a whole "
                "number >= 0; pass -1 to leave the limit to the solver."
            )
        if self.psd is not None and self.psd not in _SIMILARITIES:
            raise ParameterError(
                f"{type(self).__name__}: psd = {self.psd!r} is unknown; pass one of "
                f"{', '.join(map(repr, _SIMILARITIES))}."
            )

    def _require_number(
        self,
        name: str,
        *,
        low: float,
        example: str,
        high: float = float(np.finfo(np.float64).max),
        closed: bool = False,
    ) -> float:
        """Refuse a parameter that is not a number above (or at) a limit, up to another."""
        value = getattr(self, name)
        number = isinstance(value, Real) and not isinstance(value, bool)
        inside = number and float(value) <= high
        if not (inside and (float(value) > low or (closed and float(value) == low))):
            rule = f">= {low:g}" if closed else f"> {low:g}"
            rule = rule if high > 1e300 else f"{rule} and <= {high:g}"
            kind = "a number" if np.isinf(high) else "a finite number"
            raise ParameterError(
                f"{type(self).__name__}: {name} = {value!r} is not {kind} {rule}; pass for example "
                f"{example}."
            )
        return float(value)
