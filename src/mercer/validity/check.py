"""A check of Mercer's condition by eigenvalues or a Cholesky factor, with a witness if it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, eigh, eigvalsh, solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mercer.exceptions import ParameterError
from mercer.kernels.names import kernel_of
from mercer.validity.matrix import (
    Floats,
    Standard,
    quadratic_form,
    real,
    standardise,
    unit_witness,
)

# Largest number of points for which all eigenvalues are computed; beyond it, Cholesky decides.
_DENSE_LIMIT = 3000


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """The verdict of :func:`check`; it is shown as one sentence, its ``bool`` is ``valid is True``.

    Attributes
    ----------
    valid : bool or None
        True when no direction is negative beyond the tolerance, False when one is or when the
        matrix is not symmetric, None when rounding errors hide the answer.
    min_eigenvalue : float
        The smallest eigenvalue of the symmetric part, on the vectors that sum to zero if
        `conditional`. With `method` "cholesky" or "lanczos" it is an estimate from above.
    tolerance : float
        ``10 n eps ||K||_2``: a bound of the rounding error of an eigenvalue. ``eps`` is that of the
        data type of the matrix, the norm that of its symmetric part.
    asymmetry : float
        The largest ``|K_ij - K_ji|``.
    witness : ndarray of shape (n,) or None
        A unit vector a with a'Ka < 0, if there is one beyond the tolerance.
    witness_value : float or None
        The value a'Ka of the witness.
    n : int
        The number of points.
    conditional : bool
        Whether only vectors that sum to zero were considered.
    method : str
        The method of the verdict: "eigenvalues", "cholesky" or "lanczos".
    """

    valid: bool | None
    min_eigenvalue: float
    tolerance: float
    asymmetry: float
    witness: Floats | None
    witness_value: float | None
    n: int
    conditional: bool
    method: str

    def __bool__(self) -> bool:
        return self.valid is True

    def __repr__(self) -> str:
        kind = "positive semi-definite"
        if self.conditional:
            kind = f"conditionally {kind}"
        facts = (
            f"smallest eigenvalue {self.min_eigenvalue:.3g}, tolerance {self.tolerance:.2g}, "
            f"n = {self.n}, by {self.method}"
        )
        if self.asymmetry > self.tolerance:
            return (
                f"Not symmetric, hence not a kernel matrix: max |K - K.T| = {self.asymmetry:.3g} "
                f"exceeds the tolerance {self.tolerance:.2g}{self._witness_clause()} "
                f"({facts} of the symmetric part)."
            )
        if self.valid:
            return f"{kind.capitalize()} on these points ({facts})."
        if self.valid is False:
            return f"Not {kind}{self._witness_clause()} ({facts})."
        return f"Undecided whether {kind}: rounding errors hide the answer ({facts})."

    def _witness_clause(self) -> str:
        if self.witness is None:
            return ""
        constraint = " with sum(a) = 0" if self.conditional else ""
        return f": the witness, a unit vector a{constraint}, has a'Ka = {self.witness_value:.3g}"


def check(
    kernel: Callable[[Any], ArrayLike] | ArrayLike,
    X: Any = None,
    *,
    conditional: bool = False,
) -> Report:
    """Check Mercer's condition, a'Ka >= 0 for all a, on a matrix or on a kernel at given points.

    Up to 3,000 points the eigenvalues decide. Beyond, a Cholesky factorisation of K + tolerance I
    certifies; if it breaks down, it yields a negative direction, which Lanczos improves.

    Parameters
    ----------
    kernel : callable, str or array-like of shape (n, n)
        A matrix, or anything for which ``kernel(X)`` is the matrix, or the name of a kernel, such
        as "sigmoid".
    X : object, optional
        The points, when `kernel` is a callable.
    conditional : bool, default=False
        Ask for a'Ka >= 0 only where sum(a) = 0 (conditional positive definiteness, which is what
        -|x - z|^2 has: Schoenberg 1938), by checking HKH with H = I - 11'/n.

    Returns
    -------
    Report
        Verdict, smallest eigenvalue, tolerance and, when refuted, a witness.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import validity
    >>> x = np.array([0.0, 1.0, 3.0])
    >>> K = -((x[:, None] - x) ** 2)
    >>> print(validity.check(K))
    Not positive semi-definite: the witness, a unit vector a, has a'Ka = -10.2 (smallest
    eigenvalue -10.2, tolerance 6.8e-14, n = 3, by eigenvalues).
    >>> bool(validity.check(K, conditional=True))
    True
    """
    K = standardise(_evaluate(kernel, X), "check")
    norm, eigenvalues = _spectral_norm(K.symmetric)
    tau = 10 * K.n * K.eps * norm
    if norm == 0 or (conditional and K.n == 1):
        finding = _Finding(certified=True, smallest=0.0, direction=None, method="eigenvalues")
    elif conditional:
        finding = _examine(_projected(K.symmetric, norm), tau, None)
    else:
        finding = _examine(K.symmetric, tau, eigenvalues)
    return _report(K, tau, finding, conditional)


def _evaluate(kernel: Callable[[Any], ArrayLike] | ArrayLike, X: Any) -> NDArray[Any]:
    if isinstance(kernel, str):
        named = kernel_of("check", kernel, X)
        kernel = named if X is None else named.resolve(X)
    # Test for a lazy Gram or sparse matrix first, because these are callable too.
    if hasattr(kernel, "toarray") or not callable(kernel):
        if X is not None:
            raise ParameterError(
                "check: got a matrix and points X; pass the matrix alone, or a kernel and X."
            )
        return real(kernel, "check")
    if X is None:
        raise ParameterError(
            "check: X is missing; a kernel is checked at points, so pass check(kernel, X)."
        )
    return real(kernel(X), "check")


class _Finding(NamedTuple):
    certified: bool
    smallest: float
    direction: Floats | None
    method: str


def _report(K: Standard, tau: float, finding: _Finding, conditional: bool) -> Report:
    witness, value = None, None
    if finding.direction is not None:
        candidate, quotient = unit_witness(K.symmetric, finding.direction, conditional)
        if quotient < 0 and finding.smallest < -tau:
            witness, value = candidate, quotient
    valid: bool | None = None
    if K.asymmetry > tau or witness is not None:
        valid = False
    elif finding.certified:
        valid = True
    return Report(
        valid=valid,
        min_eigenvalue=finding.smallest,
        tolerance=tau,
        asymmetry=K.asymmetry,
        witness=witness,
        witness_value=value,
        n=K.n,
        conditional=conditional,
        method=finding.method,
    )


def _spectral_norm(K: Floats) -> tuple[float, Floats | None]:
    """Return ||K||_2, and all eigenvalues if they were computed for it."""
    if len(K) > _DENSE_LIMIT:
        return _power_norm(K), None
    eigenvalues: Floats = eigvalsh(K, check_finite=False)
    return float(np.abs(eigenvalues).max()), eigenvalues


def _power_norm(K: Floats, relative_change: float = 1e-3, max_steps: int = 200) -> float:
    """Return ||K||_2 by the power method, to about the relative change: a tolerance needs no more.

    A Lanczos estimate would take fewer products, but may fail to converge.
    """
    v = _start(len(K))
    norm = 0.0
    for _ in range(max_steps):
        v = K @ v
        previous, norm = norm, float(np.linalg.norm(v))
        if norm - previous <= relative_change * norm:
            break
        v /= norm
    return norm


def _projected(K: Floats, norm: float) -> Floats:
    """Return HKH + norm 11'/n.

    Without the added term the direction 1 has the eigenvalue 0, which would hide a positive
    smallest eigenvalue.
    """
    means: Floats = K.mean(axis=0)
    return K - means - means[:, None] + (float(means.mean()) + norm / len(K))


def _examine(K: Floats, tau: float, eigenvalues: Floats | None) -> _Finding:
    if len(K) > _DENSE_LIMIT:
        return _by_cholesky(K, tau)
    if eigenvalues is None:
        eigenvalues = eigvalsh(K, check_finite=False)
    smallest = float(eigenvalues[0])
    if smallest >= -tau:
        return _Finding(True, smallest, None, "eigenvalues")
    _, vectors = eigh(K, subset_by_index=[0, 0], check_finite=False)
    return _Finding(False, smallest, vectors[:, 0], "eigenvalues")


def _by_cholesky(K: Floats, tau: float) -> _Finding:
    shifted = K.copy(order="F")
    shifted[np.diag_indices_from(shifted)] += tau
    factor, breakdown = dpotrf(shifted, lower=1, clean=0, overwrite_a=1)
    if breakdown == 0:
        return _Finding(True, _inverse_iteration(K, factor), None, "cholesky")
    return _refute(K, factor, breakdown - 1)


def _inverse_iteration(K: Floats, factor: Floats, steps: int = 30) -> float:
    """Estimate the smallest eigenvalue from above, given the Cholesky factor of K + tau I."""
    v = _start(len(K))
    for _ in range(steps):
        v = cho_solve((factor, True), v, check_finite=False)
        v /= np.linalg.norm(v)
    return quadratic_form(K, v)


def _refute(K: Floats, factor: Floats, order: int) -> _Finding:
    """Turn the breakdown of a Cholesky factorisation into a negative direction.

    Let A be the leading block that was factored, b the next column and c its diagonal entry. The
    factorisation breaks down because c - b'A^-1 b <= 0, which is the quadratic form of
    K + tau I at (-A^-1 b, 1, 0, ..., 0). Lanczos, started there, looks for a more negative one.
    """
    direction = np.zeros(len(K))
    direction[order] = 1.0
    if order:
        L = factor[:order, :order]
        half = solve_triangular(L, K[:order, order], lower=True, check_finite=False)
        direction[:order] = -solve_triangular(L, half, lower=True, trans=1, check_finite=False)
    direction /= np.linalg.norm(direction)
    try:
        _, vectors = eigsh(K, k=1, which="SA", v0=direction, tol=1e-6, maxiter=15)
    except ArpackNoConvergence:
        return _Finding(False, quadratic_form(K, direction), direction, "cholesky")
    return _Finding(False, quadratic_form(K, vectors[:, 0]), vectors[:, 0], "lanczos")


def _start(n: int) -> Floats:
    """Return a fixed pseudo-random unit vector."""
    v = np.random.default_rng(0).standard_normal(n)
    return v / float(np.linalg.norm(v))
