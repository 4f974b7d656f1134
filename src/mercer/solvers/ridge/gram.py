r"""Kernel ridge on a Gram matrix: which decomposition to use, and rows of weight zero.

The coefficients a and the intercept b minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Ka)_i - b)^2 + \tfrac{\alpha}{2} a^\top K a .

With S = diag(sqrt(w)), s its diagonal and a = S c, the conditions for a minimum are

.. math:: (S K S + \alpha I)\, c = S y - b s, \qquad s^\top c = 0,

so one Cholesky factor of A = S K S + alpha I, in the memory of K, serves the targets and the
intercept (bordering): b = s' A^-1 S y / s' A^-1 s. Leaving row i out changes its residual to
c_i / (s_i P_ii), where P = A^-1 - A^-1 s s' A^-1 / s' A^-1 s (and P = A^-1 without an intercept).
Equal rows are merged before they are left out, and rows may be left out in groups: see
`rows.left_out`. For several alphas see `spectrum` and `tridiagonal`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.exceptions import NumericalWarning, warn
from mercer.linalg.centring import weigh
from mercer.linalg.cholesky import factorise
from mercer.linalg.symmetric import mirror
from mercer.parallel import single_blas
from mercer.rows.left_out import target_shares
from mercer.solvers.ridge import spectrum
from mercer.solvers.ridge.spectrum import EigenRidge, Solution
from mercer.solvers.ridge.tridiagonal import Tridiagonal

#: Rounding error that is warned of, as a share of the standard deviation of the targets, or of the
#: trace of the centred kernel.
LARGE_ERROR = 1e-2
#: What helps if kernel values are large beside their differences, as those far from zero are.
REMEDY = "subtract from each column of X its mean, raise alpha"
# Number of rows up to which eigenvectors are found in less time than a tridiagonal form is used in.
_EIGEN_ROWS = 200


@dataclass(frozen=True)
class LeaveOneOut:
    """Residuals of rows that are left out, each in turn, and the degrees of freedom."""

    residuals: Array  # (n, t): y_i minus the prediction for row i of the fit without row i
    effective_dof: float  # the trace of the matrix that maps targets to fitted values


@dataclass(frozen=True)
class TargetMaps:
    """The linear maps from targets to a fit: a = dual @ y, and b = intercept @ y."""

    dual: Array  # (n, n), symmetric; zero for rows of weight zero
    intercept: Array  # (n,); zero without an intercept

    def leave_one_out(self, dual: Array, groups: NDArray[np.intp] | None = None) -> Array:
        """Residuals of the fits without each row, or without its group, from the coefficients."""
        if groups is None:
            with np.errstate(divide="ignore", invalid="ignore"):
                return dual / self.dual.diagonal()[:, None]
        residuals = np.full_like(dual, np.nan)
        counted = self.dual.diagonal() > 0  # rows of positive weight
        for rows in spectrum.members_of(groups):
            rows = rows[counted[rows]]
            residuals[rows] = np.linalg.solve(self.dual[np.ix_(rows, rows)], dual[rows])
        return residuals


class RidgeProblem:
    """Kernel ridge on one Gram matrix, which the first answer uses up.

    Rows of weight zero are set aside, since the solvers divide by weights: their coefficients are
    zero, and as leaving them out changes nothing, their leave-one-out residual is the plain one.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semi-definite; it is overwritten.
    targets : ndarray of shape (n, n_targets)
        What to fit.
    weights : ndarray of shape (n,), optional
        Non-negative weights of the rows, not all zero.
    fit_intercept : bool
        Whether to fit a constant that is not penalised.
    groups : ndarray of int of shape (n,), optional
        Groups of rows that are left out together; by default each row alone.
    scatter : ndarray of shape (n_targets,) or float
        Mean square of what merging rows has taken from the targets, a part of every error.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.ridge.gram import RidgeProblem
    >>> x = np.arange(4.0)
    >>> y = np.array([[1.0], [2.0], [3.0], [99.0]])
    >>> problem = RidgeProblem(np.outer(x, x), y, np.array([1.0, 1.0, 1.0, 0.0]))
    >>> abs(problem.leave_one_out(1e-9).residuals).round(6).ravel()
    array([ 0.,  0.,  0., 95.])
    """

    def __init__(
        self,
        gram: Array,
        targets: Array,
        weights: Array | None = None,
        fit_intercept: bool = True,
        groups: NDArray[np.intp] | None = None,
        scatter: Array | float = 0.0,
    ) -> None:
        self.groups, self.scatter = groups, scatter
        self.targets, self.weights, self.fit_intercept = targets, weights, fit_intercept
        self._gram = gram
        self._rows: NDArray[np.intp] | None = None
        if weights is not None and np.any(weights == 0):
            self._rows, self._others = np.flatnonzero(weights > 0), np.flatnonzero(weights == 0)
            self._outside = gram[np.ix_(self._others, self._rows)]
            self._gram = gram[np.ix_(self._rows, self._rows)]
            self.targets, self.weights = targets[self._rows], weights[self._rows]
            self._other_targets = targets[self._others]
            if groups is not None:
                self.groups, self._other_groups = groups[self._rows], groups[self._others]
        #: Number of rows with a positive weight.
        self.n_rows = len(self.targets)
        #: The type of the Gram matrix and of every answer.
        self.dtype = gram.dtype
        #: The largest K_ii in absolute value; an answer uses the matrix up.
        self._largest = float(np.abs(self._gram.diagonal()).max(initial=0.0))

    @property
    def mean_diagonal(self) -> float:
        """Mean of w_i K_ii, the scale against which alpha is large or small."""
        weights = 1.0 if self.weights is None else self.weights
        return float(np.mean(weights * self._gram.diagonal()))

    @single_blas()
    def solve(self, alpha: float) -> Solution:
        """Coefficients at one positive alpha, by Cholesky."""
        system = _System(self._gram, alpha, self.weights)
        scaled, intercept, _ = system.solve(self.targets, self.fit_intercept)
        dual = system.root[:, None] * scaled
        return self.expand(Solution(dual, intercept, system.factor.jitter))

    @single_blas()
    def spectrum(self) -> EigenRidge:
        """The eigendecomposition, for the rows with a positive weight."""
        return EigenRidge.decompose(
            self._gram, weights=self.weights, fit_intercept=self.fit_intercept
        )

    @single_blas()
    def errors(self, alphas: Array, criterion: str) -> Array:
        """What a criterion minimises at each alpha: mean squared errors, averaged over targets.

        Each target counts in its own unit: by the inverse of its variance.
        """
        # Where alpha is below the rounding error, eigenvalues are needed: small ones are zero.
        largest = self.mean_diagonal * self.n_rows
        form: EigenRidge | Tridiagonal
        if self.groups is not None and criterion != "gcv":
            by_target = self.spectrum().loo_errors(self.targets, alphas, self.groups)
            return self.averaged(by_target)
        if (
            self.n_rows > _EIGEN_ROWS
            and np.min(alphas) > 3 * self.n_rows * np.finfo(self.dtype).eps * largest
        ):
            form = Tridiagonal(self._gram, weights=self.weights, fit_intercept=self.fit_intercept)
        else:
            form = self.spectrum()
        measure = form.gcv_errors if criterion == "gcv" else form.loo_errors
        return self.averaged(measure(self.targets, alphas))

    def averaged(self, errors: Array) -> Array:
        """Averages over targets of errors (n_alphas, n_targets), with the scatter of copies."""
        shares: Array = np.ones(1)
        if errors.shape[1] > 1:
            mass = np.ones(self.n_rows) if self.weights is None else self.weights
            means = np.average(self.targets, axis=0, weights=mass).astype(np.float64)
            middle = means if self.fit_intercept else 0.0
            variances = np.average((self.targets - middle) ** 2, axis=0, weights=mass)
            shares = target_shares(variances + self.scatter, means)
        averages: Array = (errors.astype(np.float64) + self.scatter) @ shares
        return np.where(np.isnan(averages), np.inf, averages)

    @single_blas()
    def eigenvalues(self) -> Array:
        """The eigenvalues of the spectrum alone, descending."""
        return spectrum.eigenvalues(
            self._gram, weights=self.weights, fit_intercept=self.fit_intercept
        )

    @single_blas()
    def leave_one_out(self, alpha: float) -> LeaveOneOut:
        """Residuals of all leave-one-out fits at one alpha.

        A row is left out together with its weight. The cost is that of the inverse, n^3.
        """
        if alpha == 0 or self._rows is not None or self.groups is not None:
            return self.leave_one_out_from(self.spectrum(), alpha)
        system = _System(self._gram, alpha, self.weights)
        scaled, _, border = system.solve(self.targets, self.fit_intercept)
        diagonal = system.factor.inverse(overwrite=True).diagonal().copy()
        if self.fit_intercept:
            diagonal -= border**2 / (system.root @ border)
        with np.errstate(divide="ignore", invalid="ignore"):
            residuals = scaled / (system.root * diagonal)[:, None]
        return LeaveOneOut(residuals, float(np.sum(1 - (alpha + system.factor.jitter) * diagonal)))

    @single_blas()
    def target_maps(self, alpha: float) -> TargetMaps:
        """The linear maps from targets to coefficients and intercept, at the cost of an inverse."""
        intercept = np.zeros(self.n_rows, self.dtype)
        if alpha == 0:
            spectrum = self.spectrum()
            root, inverse = spectrum.root, spectrum.precision(alpha)
            if spectrum.border is not None:
                intercept = root / (root @ root) - inverse @ spectrum.border
        else:
            system = _System(self._gram, alpha, self.weights)
            root, border = system.root, system.solve(self.targets, self.fit_intercept)[2]
            inverse = system.factor.inverse(overwrite=True)
            mirror(inverse)
            if self.fit_intercept:
                intercept = border / (root @ border)
                inverse -= intercept[:, None] * border
        maps = TargetMaps(root[:, None] * inverse * root, root * intercept)
        if self._rows is None:
            return maps
        n = len(self._rows) + len(self._others)
        everything = TargetMaps(np.zeros((n, n), self.dtype), np.zeros(n, self.dtype))
        everything.dual[np.ix_(self._rows, self._rows)] = maps.dual
        everything.intercept[self._rows] = maps.intercept
        return everything

    def leave_one_out_from(self, spectrum: EigenRidge, alpha: float) -> LeaveOneOut:
        """Leave-one-out residuals from a spectrum of this problem that was computed before."""
        at = np.array([alpha])
        residuals = spectrum.loo_residuals(self.targets, at, self.groups)[0]
        dof = float(spectrum.effective_dof(at)[0])
        if self._rows is None:
            return LeaveOneOut(residuals, dof)
        plain = self._residuals_of_others(spectrum, self.targets, alpha)
        for group in () if self.groups is None else np.intersect1d(self.groups, self._other_groups):
            # A fit without a group is one to the targets that this fit predicts for the group.
            inside, outside = self.groups == group, self._other_groups == group
            predicted = self.targets - np.where(inside[:, None], residuals, 0.0)
            plain[outside] = self._residuals_of_others(spectrum, predicted, alpha)[outside]
        return LeaveOneOut(self._scattered(residuals, plain), dof)

    def _residuals_of_others(self, spectrum: EigenRidge, targets: Array, alpha: float) -> Array:
        """Residuals of the rows of weight zero."""
        solution = spectrum.solve(targets, alpha)
        return self._other_targets - self._outside @ solution.dual - solution.intercept

    def expand(self, solution: Solution) -> Solution:
        """Give rows of weight zero their coefficients, which are zero."""
        if self._rows is None:
            return solution
        dual = self._scattered(solution.dual, np.zeros_like(solution.dual[:1]))
        return Solution(dual, solution.intercept, solution.jitter)

    def rounding_warning(self, dual: Array) -> str:
        """A warning if sums of coefficients times kernel values cancel.

        Such a sum is off by about the rounding unit times the largest value times |a|.
        """
        targets, lengths = self.targets.astype(np.float64), dual.astype(np.float64)
        mass = np.full(self.n_rows, 1.0) if self.weights is None else self.weights
        if self.fit_intercept:
            targets -= mass @ targets / mass.sum()
        spread = np.sqrt(mass @ targets**2 / mass.sum())
        lengths = np.sqrt(np.einsum("ij,ij->j", lengths, lengths))
        shares = np.divide(lengths, spread, out=np.zeros_like(spread), where=spread > 0)
        share = float(np.finfo(dual.dtype).eps) * self._largest * float(shares.max(initial=0.0))
        if not share > LARGE_ERROR:
            return ""
        return (
            f"kernel values of up to {self._largest:.2g} are rounded so that predictions are off "
            f"by about {share:.1g} of the spread of the targets; {REMEDY}, or take "
            "solvers.Primal() if the kernel has few features"
        )

    def _scattered(self, inside: Array, outside: Array) -> Array:
        assert self._rows is not None
        total = len(self._rows) + len(self._others)
        full = np.empty((total, inside.shape[1]), inside.dtype)
        full[self._rows], full[self._others] = inside, outside
        return full


class _System:
    """The factor of A = S K S + alpha I, held in the memory of K."""

    def __init__(self, gram: Array, alpha: float, weights: Array | None) -> None:
        self.root = weigh(gram, weights)
        self.factor = factorise(gram, alpha)
        if self.factor.jitter:
            warn(f"{self.factor.warning()}.", NumericalWarning)

    def solve(self, targets: Array, fit_intercept: bool) -> tuple[Array, Array, Array]:
        """The coefficients c, the intercept b and A^-1 s."""
        targets = targets.astype(self.root.dtype, copy=False)
        weights = self.root**2
        # Large offsets are removed first: they belong to the intercept and only cost digits here.
        offset = weights @ targets / weights.sum() if fit_intercept else np.zeros_like(targets[0])
        right = np.column_stack([self.root[:, None] * (targets - offset), self.root])
        solved = self.factor.solve(right)
        scaled, border = solved[:, :-1], solved[:, -1]
        if not fit_intercept:
            return scaled, offset, border
        shift = self.root @ scaled / (self.root @ border)
        return scaled - border[:, None] * shift, offset + shift, border
