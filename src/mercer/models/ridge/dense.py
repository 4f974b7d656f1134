"""Kernel ridge with the Gram matrix in memory: exact, for one alpha or a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import validity
from mercer.exceptions import DataError, NumericalWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.linalg.cholesky import RIDGE
from mercer.models.length_scales import Search, candidates, checked_alphas, default_alphas
from mercer.models.ridge.diagnostics import RidgeDiagnostics
from mercer.models.ridge.path import folded
from mercer.rows.rows import RowBlock
from mercer.solvers import RidgeProblem, Solution, Spectral
from mercer.solvers.ridge import rounding
from mercer.solvers.ridge.feature_problem import FeatureProblem, feature_problem
from mercer.solvers.task import FeatureFunction
from mercer.validity.required import gram_matrix, require_positive

Array = NDArray[np.floating[Any]]

# In Gram matrices: the factor replaces the matrix; eigenvectors need a copy and two of workspace.
_CHOLESKY_MATRICES = 1.1
_SPECTRAL_MATRICES = 4.1

_Prepared = tuple[RidgeProblem, validity.Repair | None]


@dataclass(frozen=True)
class _Fit:
    """What a fit found, before any of it is stored."""

    kernel: Kernel
    alpha: float
    solution: Solution
    rank: int | None = None


class DenseRidge(RidgeDiagnostics):
    """The fits of kernel ridge that see the matrix of all pairs.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.
    """

    alpha: Any
    alphas: Any
    length_scales: Any
    solver_: Any
    kernel_: Kernel
    points_: Points
    _targets: Array | None
    _weights: Array | None
    _n_rows: int
    _function: Any
    _state: Any

    @property
    def _searches(self) -> bool:
        return self.length_scales is not None or isinstance(self.alpha, str)

    def _problem(self, kernel: Kernel, matrices: float = _SPECTRAL_MATRICES) -> _Prepared:
        """The Gram matrix with the targets, after a forecast of memory and a check of validity."""
        part = self._all_rows()
        gram = gram_matrix(self, kernel, part.points, matrices, self._settings[1])
        gram, repair = self._positive(kernel, gram)
        return RidgeProblem(gram, part.targets, part.weights, self._settings[0]), repair

    def _diagnosed(self, kernel: Kernel) -> RidgeProblem | FeatureProblem:
        function: FeatureFunction | None = self._function
        if function is None:
            return self._problem(kernel)[0]
        # Features have a kernel of their own, which need not be the one that they approximate.
        return feature_problem(
            type(self).__name__,
            self._all_rows(),
            function.features,
            len(function.coef),
            fit_intercept=self._settings[0],
        )

    def _all_rows(self) -> RowBlock:
        """The rows that were fitted, if all of them were kept."""
        if self._targets is None or len(self.points_) != self._n_rows:
            nothing = " and no targets" if self._targets is None else ""
            remedy = "fit with solver=mercer.solvers.Cholesky()"
            if self._function is not None:
                remedy = "pass arrays to fit"
            raise DataError(
                f"{type(self).__name__}: {self.solver_!r} kept {len(self.points_)} of the "
                f"{self._n_rows} rows{nothing}, and this diagnostic needs all of them; {remedy}."
            )
        return RowBlock(self.points_, self._targets, self._weights)

    def _positive(self, kernel: Kernel, gram: Array) -> tuple[Array, validity.Repair | None]:
        """Check or repair the matrix of a kernel that is not known to be valid."""
        if kernel.is_psd is True:
            return gram, None
        method = self._settings[1]
        if method != "raise":
            repair = validity.repair(gram, method)
            return repair.matrix, repair
        require_positive(self, kernel, gram, RIDGE)
        return gram, None

    def _fit_dense(self) -> None:
        """The matrix in memory."""
        if not self._searches:
            self._store(self._fit_one(self.kernel_, float(self.alpha)))
            return
        search = self._search()
        self._store(self._fit_one(*search.best))
        self.search_kernels_, self.alphas_ = search.kernels, search.alphas
        self.search_errors_ = search.errors

    def _fit_one(self, kernel: Kernel, alpha: float) -> _Fit:
        rank = None
        by_factor = alpha > 0 and not isinstance(self.solver_, Spectral)
        problem, repair = self._problem(
            kernel, _CHOLESKY_MATRICES if by_factor else _SPECTRAL_MATRICES
        )
        largest = problem.largest
        with np.errstate(over="ignore", invalid="ignore"):
            if by_factor:
                solution = problem.solve(alpha)
            else:
                spectrum = problem.spectrum()
                solution = problem.expand(spectrum.solve(problem.targets, alpha))
                rank = spectrum.rank
        self._require_finite(solution.dual, solution.intercept, solution.dual.dtype)
        doubt = rounding.of_predictions(
            largest,
            solution.dual,
            problem.targets,
            problem.weights,
            fit_intercept=problem.fit_intercept,
        )
        if doubt:
            warn(f"{type(self).__name__}: {doubt}.", NumericalWarning)
        return _Fit(kernel, alpha, folded(solution, repair), rank)

    def _require_finite(self, dual: Array, intercept: Array, dtype: np.dtype[Any]) -> None:
        """Refuse coefficients that are no numbers in the type of predictions."""
        largest = float(np.finfo(dtype).max)
        if not (np.abs(dual).max(initial=0) <= largest and np.abs(intercept).max() <= largest):
            raise DataError(
                f"{type(self).__name__}: the coefficients exceed the range of {dtype}; "
                "divide y by a constant, or raise alpha."
            )

    def _search(self) -> Search:
        """Compare every length-scale with every alpha, from one reduction for each kernel."""
        criterion = "gcv" if self.alpha == "gcv" else "loo"
        if len(self.points_) < 2:
            raise DataError(
                f"{type(self).__name__}: a choice by leaving rows out needs at least two rows, got "
                "1 sample; pass a number as alpha."
            )
        kernels = self._candidates(lambda kernel: kernel.resolve(self.points_, self._weights))
        alphas: Array = np.empty(0)
        errors = []
        for kernel in kernels:
            problem, _ = self._problem(kernel)
            alphas = alphas if alphas.size else self._grid(problem)
            errors.append(problem.errors(alphas, criterion))
        search = Search(kernels, alphas, np.stack(errors))
        if not np.isfinite(search.errors).any():
            raise DataError(
                f"{type(self).__name__}: no candidate has a finite {criterion} error, so that none "
                "can be chosen; pass more rows of positive weight, or a number as alpha."
            )
        return search

    def _candidates(self, resolve: Callable[[Kernel], Kernel]) -> tuple[Kernel, ...]:
        """The kernels to compare, resolved."""
        given = candidates(self._kernel_or_default(self.kernel), self.length_scales, self.kernel_)
        return tuple(map(resolve, given))

    def _grid(self, problem: RidgeProblem) -> Array:
        """The alphas to compare."""
        if not isinstance(self.alpha, str):
            return np.array([float(self.alpha)])
        if self.alphas is not None:
            return checked_alphas(self.alphas)
        return default_alphas(problem.mean_diagonal, problem.n_rows, problem.dtype)

    def _store(self, found: _Fit) -> None:
        self.kernel_, self.alpha_ = found.kernel, found.alpha
        self.dual_coef_ = self._shaped(found.solution.dual)
        intercept = self._shaped(found.solution.intercept[None])[0]
        self.intercept_ = float(intercept) if np.ndim(intercept) == 0 else intercept
        self.jitter_ = found.solution.jitter
        self._function = self._state = None
        if found.rank is not None:
            self.rank_ = found.rank
