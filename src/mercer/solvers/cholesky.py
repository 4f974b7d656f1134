r"""Kernel ridge for one alpha by a Cholesky factor, in the memory of the Gram matrix.

The coefficients a and the intercept b minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Ka)_i - b)^2 + \tfrac{\alpha}{2} a^\top K a .

With S = diag(sqrt(w)), s its diagonal and a = S c, the conditions for a minimum are

.. math:: (S K S + \alpha I)\, c = S y - b s, \qquad s^\top c = 0,

so one factor of A = S K S + alpha I serves the targets and the intercept (bordering):
b = s' A^-1 S y / s' A^-1 s. Leaving row i out changes its residual to c_i / (s_i P_ii), where
P = A^-1 - A^-1 s s' A^-1 / s' A^-1 s (and P = A^-1 without an intercept).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from mercer.exceptions import NumericalWarning, ValidityError, warn
from mercer.solvers.centring import weigh
from mercer.symmetry import asymmetry

Array = NDArray[np.floating[Any]]

LADDER = (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""Jitter tried in turn when none does not do, as a fraction of the mean diagonal."""

_BLOCK = 256


@dataclass(frozen=True)
class Solution:
    """Coefficients of a kernel ridge problem.

    Attributes
    ----------
    dual : ndarray of shape (n, n_targets)
        The coefficients a.
    intercept : ndarray of shape (n_targets,)
        The intercept b, zero if there is none.
    jitter : float
        What was added to the diagonal beyond alpha to make the factor exist.
    """

    dual: Array
    intercept: Array
    jitter: float = 0.0


@dataclass(frozen=True)
class LeaveOneOut:
    """What leaving out each row in turn would show.

    Attributes
    ----------
    residuals : ndarray of shape (n, n_targets)
        y_i minus the prediction for row i of the model fitted without row i.
    effective_dof : float
        Trace of the matrix that maps targets to fitted values.
    """

    residuals: Array
    effective_dof: float


def solve(
    gram: Array,
    targets: Array,
    alpha: float,
    *,
    weights: Array | None = None,
    fit_intercept: bool = True,
) -> Solution:
    """Solve kernel ridge by Cholesky; `gram` is overwritten.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Symmetric and positive semi-definite, float32 or float64. Its memory is used for the factor.
    targets : ndarray of shape (n, n_targets)
        What to fit.
    alpha : float
        Positive weight of the squared norm.
    weights : ndarray of shape (n,), optional
        Positive weights of the rows.
    fit_intercept : bool
        Whether to fit a constant that is not penalised.

    Returns
    -------
    Solution
        Coefficients, intercept and the jitter that was needed.

    Raises
    ------
    ValidityError
        If no jitter up to 1e-4 of the mean diagonal makes the matrix positive definite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import cholesky
    >>> x = np.arange(4.0)
    >>> found = cholesky.solve(np.outer(x, x), 3 * x[:, None] + 1, alpha=1e-9)
    >>> (x @ found.dual).round(6), found.intercept.round(6)
    (array([3.]), array([1.]))
    """
    system = _System(gram, alpha, weights)
    scaled, intercept, _ = system.solve(targets, fit_intercept)
    return Solution(system.root[:, None] * scaled, intercept, system.jitter)


def leave_one_out(
    gram: Array,
    targets: Array,
    alpha: float,
    *,
    weights: Array | None = None,
    fit_intercept: bool = True,
) -> LeaveOneOut:
    """Residuals of all leave-one-out fits at one alpha; `gram` is overwritten.

    Parameters
    ----------
    gram, targets, alpha, weights, fit_intercept
        As in `solve`.

    Returns
    -------
    LeaveOneOut
        The residuals and the effective degrees of freedom.

    Notes
    -----
    A row is left out together with its weight. The cost is that of the inverse, n^3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import cholesky
    >>> y = np.array([[1.0], [2.0], [6.0]])
    >>> found = cholesky.leave_one_out(np.zeros((3, 3)), y, alpha=1.0)  # f is a constant: the mean
    >>> found.residuals.ravel()
    array([-3. , -1.5,  4.5])
    >>> round(found.effective_dof, 12)
    1.0
    """
    system = _System(gram, alpha, weights)
    scaled, _, border = system.solve(targets, fit_intercept)
    diagonal = system.inverse_diagonal()
    if fit_intercept:
        diagonal -= border**2 / (system.root @ border)
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = scaled / (system.root * diagonal)[:, None]
    return LeaveOneOut(residuals, float(np.sum(1 - (alpha + system.jitter) * diagonal)))


def is_positive_definite(gram: Array, shift: float) -> bool:
    """Whether ``gram + shift * I`` is symmetric and has a Cholesky factor.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        A matrix. Its memory is used, and is afterwards as it was.
    shift : float
        What is added to the diagonal; asymmetry up to this is allowed for.

    Returns
    -------
    bool
        True if every eigenvalue of `gram` is above ``-shift``, up to rounding.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers import cholesky
    >>> cholesky.is_positive_definite(np.array([[1.0, 2.0], [2.0, 1.0]]), shift=1e-9)
    False
    """
    a = _fortran(gram)
    if asymmetry(a).size > shift:
        return False
    diagonal = a.diagonal().copy()
    found = _factorise(a, diagonal + a.dtype.type(shift))
    _restore(a, diagonal)
    return found


class _System:
    """The factor of A = S K S + alpha I, held in the memory of K."""

    def __init__(self, gram: Array, alpha: float, weights: Array | None) -> None:
        self.root = weigh(gram, weights)
        self.factor = _fortran(gram)
        self.jitter = _climb(self.factor, alpha)

    def solve(self, targets: Array, fit_intercept: bool) -> tuple[Array, Array, Array]:
        """The coefficients c, the intercept b and A^-1 s."""
        targets = targets.astype(self.factor.dtype, copy=False)
        weights = self.root**2
        # Large offsets are removed first: they belong to the intercept and only cost digits here.
        offset = weights @ targets / weights.sum() if fit_intercept else np.zeros_like(targets[0])
        right = np.column_stack([self.root[:, None] * (targets - offset), self.root])
        potrs = get_lapack_funcs("potrs", (self.factor,))
        solved, _ = potrs(self.factor, right, lower=True)
        scaled, border = solved[:, :-1], solved[:, -1]
        if not fit_intercept:
            return scaled, offset, border
        shift = self.root @ scaled / (self.root @ border)
        return scaled - border[:, None] * shift, offset + shift, border

    def inverse_diagonal(self) -> Array:
        """The diagonal of A^-1; the factor is used up."""
        potri = get_lapack_funcs("potri", (self.factor,))
        inverse, _ = potri(self.factor, lower=True, overwrite_c=True)
        diagonal: Array = inverse.diagonal().copy()
        return diagonal


def _climb(a: Array, alpha: float) -> float:
    """Factorise ``a + alpha * I`` in place with the least jitter on the ladder that works."""
    diagonal = a.diagonal().copy()
    if _factorise(a, diagonal + a.dtype.type(alpha)):
        return 0.0
    _restore(a, diagonal)
    cause, remedy = _cause(a)
    for jitter in _rungs(diagonal):
        if _factorise(a, diagonal + a.dtype.type(alpha + jitter)):
            warn(
                f"the Gram matrix is numerically singular: {cause}; {jitter:.3g} was added to its "
                f"diagonal (jitter_). To avoid this, {remedy}.",
                NumericalWarning,
            )
            return jitter
        _restore(a, diagonal)
    raise ValidityError(
        f"the Gram matrix is not positive semi-definite: even with alpha = {alpha:g} and a jitter "
        f"of {LADDER[-1]:g} of its mean diagonal it has no Cholesky factor ({cause}); repair it "
        'with psd="clip", "flip" or "shift", or use a kernel whose is_psd is True.'
    )


def _rungs(diagonal: Array) -> list[float]:
    """The jitters to try: those that change a digit in the type of the matrix."""
    mean = float(diagonal.mean())
    eps = float(np.finfo(diagonal.dtype).eps)
    return [fraction * mean for fraction in LADDER if fraction > eps and mean > 0]


def _factorise(a: Array, diagonal: Array) -> bool:
    """Overwrite the lower triangle of a Fortran-ordered matrix with its factor."""
    np.fill_diagonal(a, diagonal)
    potrf = get_lapack_funcs("potrf", (a,))
    _, info = potrf(a, lower=True, clean=False, overwrite_a=True)
    return bool(info == 0)


def _restore(a: Array, diagonal: Array) -> None:
    """Undo a factorisation: the strict upper triangle still holds the matrix."""
    n = len(a)
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        a[stop:, start:stop] = a[start:stop, stop:].T
        upper = np.triu(a[start:stop, start:stop], 1)
        a[start:stop, start:stop] = upper + upper.T
    np.fill_diagonal(a, diagonal)


def _fortran(gram: Array) -> Array:
    """The same symmetric matrix in the order LAPACK overwrites: a transpose, not a copy."""
    if gram.flags.f_contiguous:
        return gram
    return gram.T if gram.flags.c_contiguous else np.asfortranarray(gram)


def _cause(gram: Array) -> tuple[str, str]:
    """Why a Gram matrix is close to singular, and what to do, from its correlations."""
    n = len(gram)
    slack = np.sqrt(np.finfo(gram.dtype).eps) * 1e-4
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 1 / np.sqrt(gram.diagonal())
    total, equal, above = 0.0, 0, False
    for start in range(0, n, _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = np.nan_to_num(np.abs(gram[rows] * scale[rows, None] * scale), posinf=0.0)
        total += float(block.sum())
        equal += int(np.count_nonzero(block >= 1 - slack))
        above |= bool(block.max() > 1 + max(1e-3, slack))
    pairs, mean = (equal - n) // 2, (total - n) / max(1, n * (n - 1))
    if above or gram.diagonal().min() < 0:
        return "the kernel is indefinite: an entry exceeds sqrt(k(x, x) k(z, z))", "use psd="
    if mean > 0.95:
        return (
            f"the length-scale is too long: rows correlate at {mean:.4f} on average",
            "shorten the length-scale or raise alpha",
        )
    if pairs > 0:
        return (
            f"rows are duplicated: {pairs} pair{'s' if pairs > 1 else ''} cannot be told apart",
            "merge duplicates with sample_weight or raise alpha",
        )
    return "the kernel has fewer numerical dimensions than there are rows", "raise alpha"
