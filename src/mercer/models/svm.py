"""What support vector machines share: kernels by name, the solver, and what is kept of a fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear, Polynomial, Sigmoid
from mercer.kernels.points import Points
from mercer.kernels.special import Precomputed
from mercer.kernels.stationary import RBF
from mercer.models.iterative import IterativeEstimator, Report
from mercer.models.kernel_matrix import is_costly, kernel_matrix
from mercer.models.representer import RepresenterModel
from mercer.solvers.boxes import BoxProgramme, BoxSolution, SymmetricMatrix
from mercer.solvers.smo import solve

Array = NDArray[np.floating[Any]]
Positions = NDArray[np.int64]

_NAMES = ("linear", "poly", "rbf", "sigmoid", "precomputed")
_DEGREE = 3
# Rows up to which the problems of all pairs of classes share one stored matrix.
_SHARED = 2048


class SupportVectorMachine(IterativeEstimator, RepresenterModel):
    """Base of support vector machines: duals with boxes, solved by exchanges between pairs.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Any kernel, or a name that scikit-learn gives one: "linear", "poly", "rbf", "sigmoid" or
        "precomputed"; by default an RBF with ``length_scale="scale"``.
    gamma : float, "scale" or "auto", optional
        Of a kernel by name: the factor of distances or inner products; "scale" by default.
    degree : int, optional
        Of "poly": the degree, 3 by default.
    coef0 : float, optional
        Of "poly" and "sigmoid": what is added, 0 by default.
    tol : float, default=1e-3
        Violation of the conditions of the optimum that is allowed.
    max_iter : int, optional
        The largest number of exchanges; None or -1 for ten million, or a hundred for each row.
    """

    points_: Points
    support_: NDArray[np.int32]

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        *,
        gamma: float | str | None = None,
        degree: int | None = None,
        coef0: float | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
    ) -> None:
        super().__init__(kernel)  # type: ignore[arg-type]
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.max_iter = max_iter

    @property
    def support_vectors_(self) -> Any:
        """The rows of X that carry coefficients."""
        return self.points_.data

    @property
    def _rows_of_points(self) -> NDArray[np.intp]:
        return self.support_.astype(np.intp)

    # Kernels by name
    # ---------------------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if isinstance(self.kernel, str):
            tags.input_tags.pairwise = self.kernel == "precomputed"
            tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    def _kernel_or_default(self, kernel: object) -> Kernel:
        """The kernel, a name standing for one whose parameters wait for the data."""
        if not isinstance(kernel, str):
            return super()._kernel_or_default(kernel)
        kernels: dict[str, Callable[[], Kernel]] = {
            "linear": Linear,
            "poly": partial(Polynomial, offset=0.0),
            "rbf": partial(RBF, length_scale="scale"),
            "sigmoid": Sigmoid,
            "precomputed": Precomputed,
        }
        if kernel not in kernels:
            raise ParameterError(
                f"{type(self).__name__}: kernel = {kernel!r} is not one of "
                f"{', '.join(map(repr, _NAMES))}; pass one of them, or a kernel object such as "
                "mercer.RBF()."
            )
        return kernels[kernel]()

    def _resolved_kernel(self, points: Points, weights: Array | None) -> Kernel:
        """The kernel with all of its parameters."""
        options = {name: getattr(self, name) for name in ("gamma", "degree", "coef0")}
        given = [name for name, value in options.items() if value is not None]
        kernel: object = self.kernel
        if not isinstance(kernel, str) and (kernel is not None or not given):
            if given:
                raise ParameterError(
                    f"{type(self).__name__}: {given[0]} = {options[given[0]]!r} goes with a kernel "
                    f"by name, not with {kernel!r}; set the parameters of the kernel instead."
                )
            return self._kernel_or_default(kernel).resolve(points, weights)
        return self._named_kernel(points)

    def _named_kernel(self, points: Points) -> Kernel:
        name = "rbf" if self.kernel is None else self.kernel
        kernel = self._kernel_or_default(name)
        if name in ("linear", "precomputed"):
            return kernel
        gamma = self._gamma_of(points)
        if name == "rbf":
            return RBF.from_gamma(gamma)
        offset = 0.0 if self.coef0 is None else self.coef0
        if name == "sigmoid":
            return Sigmoid(gain=gamma, offset=offset)
        degree = _DEGREE if self.degree is None else self.degree
        return Polynomial(degree=degree, offset=offset, gain=gamma)

    def _gamma_of(self, points: Points) -> float:
        gamma = "scale" if self.gamma is None else self.gamma
        if gamma == "auto":
            return 1.0 / points.shape[1]
        if gamma == "scale":
            kernel = RBF(length_scale="scale").resolve(points)
            return float(1.0 / (2.0 * kernel.length_scale**2))
        if isinstance(gamma, bool) or not isinstance(gamma, Real) or not 0 < gamma < np.inf:
            raise ParameterError(
                f"{type(self).__name__}: gamma = {gamma!r} is not a positive number, 'scale' or "
                "'auto'; pass for example 0.1."
            )
        return float(gamma)

    # Data and parameters
    # ------------------------------------------------------------------------------------

    def _training_points(self, X: Any) -> Points:
        """The data, checked; an array is not copied, for only support vectors are kept."""
        kernel = self._kernel_or_default(self.kernel)
        is_plain = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f" and len(X)
        return self._validate_points(kernel, Points(X) if is_plain else X, reset=True)

    def _check_parameters(self) -> None:
        self._require_number("tol", 0.0, np.inf, "0.001")
        limit = self.max_iter
        if limit is not None and limit != -1:
            is_whole = isinstance(limit, Integral) and not isinstance(limit, bool)
            if not is_whole or limit < 1:
                raise ParameterError(
                    f"{type(self).__name__}: max_iter = {limit!r} is not a whole number >= 1; pass "
                    "for example 100_000, or None for a limit that grows with the data."
                )

    def _require_number(
        self, name: str, low: float, high: float, example: str, *, closed: bool = False
    ) -> None:
        """Refuse a parameter that is not a number above `low` (or there, if closed)."""
        value = getattr(self, name)
        is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
        inside = is_number and (low <= value if closed else low < value) and value <= high
        if not inside or not np.isfinite(value):
            sign = ">=" if closed else ">"
            most = "" if np.isinf(high) else f" and <= {high:g}"
            raise ParameterError(
                f"{type(self).__name__}: {name} = {value!r} is not a number {sign} {low:g}{most}; "
                f"pass for example {example}."
            )

    # Solving
    # ---------------------------------------------------------------------------------------

    def _solve_all(
        self,
        kernel: Kernel,
        points: Points,
        programmes: Sequence[BoxProgramme],
        report: Report,
        fitted: Callable[[list[BoxSolution | None]], dict[str, Any]],
    ) -> list[BoxSolution]:
        """Solve one problem after the other.

        A callback that asks to stop ends the problem at hand, and those that follow stay at their
        start.
        """
        found: list[BoxSolution | None] = [None] * len(programmes)
        limit = None if self.max_iter == -1 else self.max_iter
        stopped = False
        for place, (programme, matrix) in enumerate(self._matrices(kernel, points, programmes)):

            def tell(current: Callable[[], BoxSolution], place: int = place) -> bool:
                nonlocal stopped
                stopped = report(lambda: fitted([*found[:place], current(), *found[place + 1 :]]))
                return stopped

            steps = 0 if stopped else limit
            found[place] = solve(programme, matrix, tol=self.tol, max_iter=steps, report=tell)
        solutions = [solution for solution in found if solution is not None]
        if not stopped:
            self._warn_of_short_fits(solutions)
        return solutions

    def _matrices(
        self, kernel: Kernel, points: Points, programmes: Sequence[BoxProgramme]
    ) -> Iterator[tuple[BoxProgramme, SymmetricMatrix]]:
        """The problems, each with the matrix of its rows: the same for all if it can be."""
        if len(programmes) == 1 or len(points) <= _SHARED or is_costly(kernel):
            matrix = kernel_matrix(self, kernel, points)
            yield from ((programme, matrix) for programme in programmes)
            return
        for programme in programmes:
            rows, own = np.unique(programme.rows, return_inverse=True)
            yield replace(programme, rows=own), kernel_matrix(self, kernel, points[rows])

    def _warn_of_short_fits(self, solutions: list[BoxSolution]) -> None:
        short = [solution for solution in solutions if not solution.converged]
        if not short:
            return
        worst = max(solution.violation for solution in short)
        steps = max(solution.n_iter for solution in short)
        warn(
            f"{type(self).__name__}: stopped after {steps} exchanges with a violation of "
            f"{worst:.1e}, above tol = {self.tol:g}; scale the data, lower C, or "
            "raise max_iter or tol.",
            NumericalWarning,
        )

    @staticmethod
    def _summary(solutions: Sequence[BoxSolution | None]) -> dict[str, Any]:
        """Attributes that say how good the solutions are."""
        known = [solution for solution in solutions if solution is not None]
        return {
            "objective_": float(sum(solution.objective for solution in known)),
            "dual_gap_": float(sum(solution.dual_gap for solution in known)),
            "violation_": float(max(solution.violation for solution in known)),
            "converged_": len(known) == len(solutions) and all(s.converged for s in known),
        }
