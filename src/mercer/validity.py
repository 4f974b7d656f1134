"""Mercer's condition for a given matrix: certificate, witness, embedding and repair.

A symmetric function k is a kernel when every matrix K with entries k(x_i, x_j) is positive
semi-definite: a'Ka >= 0 for all vectors a (Mercer 1909; Aronszajn 1950). One matrix with a
negative direction refutes k; a matrix without one shows that k is a kernel on those points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_solve, eigh, eigvalsh, solve_triangular
from scipy.linalg.lapack import dpotrf
from scipy.sparse.linalg import ArpackNoConvergence, eigsh

from mercer.exceptions import DataError, DataTypeError, ParameterError, ValidityError

__all__ = ["Repair", "Report", "check", "embed", "repair"]

# Up to this many points all eigenvalues are computed; beyond, one Cholesky factorisation decides.
_DENSE_LIMIT = 3000

Floats = NDArray[np.float64]
Method = Literal["clip", "flip", "shift"]


@dataclass(frozen=True, eq=False)
class Report:
    """The verdict of :func:`check`; its ``str`` is one sentence, its ``bool`` is ``valid is True``.

    Attributes
    ----------
    valid : bool or None
        True when no direction is negative beyond the tolerance, False when one is or when the
        matrix is not symmetric, None when rounding errors hide the answer.
    min_eigenvalue : float
        The smallest eigenvalue of the symmetric part, on the vectors that sum to zero if
        `conditional`. With `method` "cholesky" or "lanczos" it is an estimate from above.
    tolerance : float
        ``10 n eps ||K||_2``: what rounding may do to an eigenvalue. ``eps`` belongs to the data
        type of the matrix, the norm to its symmetric part.
    asymmetry : float
        The largest ``|K_ij - K_ji|``.
    witness : ndarray of shape (n,) or None
        A unit vector a with a'Ka < 0, if there is one beyond the tolerance.
    witness_value : float or None
        That a'Ka.
    n : int
        The number of points.
    conditional : bool
        Whether only vectors that sum to zero were considered.
    method : str
        How the verdict was found: "eigenvalues", "cholesky" or "lanczos".
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

    def __str__(self) -> str:
        kind = (
            "conditionally positive semi-definite"
            if self.conditional
            else ("positive semi-definite")
        )
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


@dataclass(frozen=True, eq=False)
class Repair:
    """A positive semi-definite matrix in place of K, and the same change for test rows.

    Attributes
    ----------
    matrix : ndarray of shape (n, n)
        The repaired matrix.
    method : str
        "clip", "flip" or "shift".
    min_eigenvalue : float
        The smallest eigenvalue before the repair.
    shift : float
        What "shift" added to the diagonal; 0 for the other methods.
    negative_directions : ndarray of shape (n, r)
        The orthonormal eigenvectors U- whose eigenvalues were negative beyond the tolerance.
    """

    matrix: NDArray[np.floating[Any]]
    method: Method
    min_eigenvalue: float
    shift: float
    negative_directions: Floats

    def transform(self, K_test: ArrayLike) -> NDArray[np.floating[Any]]:
        """Apply the repair to similarities between test points and the training points.

        "clip" gives K_t (I - U- U-'), "flip" gives K_t (I - 2 U- U-'); for rows in the range of K
        these are K_t U+ U+' and K_t U sign(S) U'. Applied to K itself they give ``matrix``.
        "shift" changes similarities between *different* points not at all, so the rows come back
        as they are; only the self-similarities k(x, x) rise, by ``shift``.

        Parameters
        ----------
        K_test : array-like of shape (m, n)
            Row i holds the similarities of test point i to the n training points.

        Returns
        -------
        ndarray of shape (m, n)
            The repaired rows.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import validity
        >>> K = np.array([[0.0, 1.0], [1.0, 0.0]])
        >>> validity.repair(K, method="clip").transform([[1.0, 0.0]])
        array([[0.5, 0.5]])
        """
        rows = _real(K_test, "Repair.transform")
        n = len(self.matrix)
        if rows.ndim != 2 or rows.shape[1] != n:
            raise DataError(
                f"Repair.transform: K_test has shape {rows.shape}, but needs one column for each "
                f"of the {n} training points; pass k(X_test, X_train)."
            )
        if self.method == "shift":
            return rows.copy()
        repaired = rows - _REMOVED[self.method] * (
            (rows @ self.negative_directions) @ self.negative_directions.T
        )
        return repaired.astype(rows.dtype, copy=False)


# The multiple of the negative part that a repair takes away: clip leaves 0, flip leaves -lambda.
_REMOVED: dict[Method, float] = {"clip": 1.0, "flip": 2.0}


def check(
    kernel: Callable[[Any], ArrayLike] | ArrayLike,
    X: Any = None,
    *,
    conditional: bool = False,
) -> Report:
    """Check Mercer's condition, a'Ka >= 0 for all a, on a matrix or on a kernel at given points.

    Up to 3,000 points the eigenvalues decide. Beyond, a Cholesky factorisation of K + tolerance I
    certifies; where it breaks down it yields a negative direction, which Lanczos sharpens.

    Parameters
    ----------
    kernel : callable or array-like of shape (n, n)
        A matrix, or anything for which ``kernel(X)`` is the matrix.
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
    K = _standardise(_evaluate(kernel, X), "check")
    norm, eigenvalues = _spectral_norm(K.symmetric)
    tau = 10 * K.n * K.eps * norm
    if norm == 0 or (conditional and K.n == 1):
        finding = _Finding(certified=True, smallest=0.0, direction=None, method="eigenvalues")
    elif conditional:
        finding = _examine(_projected(K.symmetric, norm), tau, None)
    else:
        finding = _examine(K.symmetric, tau, eigenvalues)
    return _report(K, tau, finding, conditional)


def embed(K: ArrayLike) -> NDArray[np.floating[Any]]:
    """Find points with the given inner products: Phi with ``Phi @ Phi.T == K``.

    The feature map reverse-engineered from the eigendecomposition K = U S U': Phi = U S^(1/2),
    without the directions whose eigenvalue is zero up to the tolerance of :func:`check`.

    Parameters
    ----------
    K : array-like of shape (n, n)
        A positive semi-definite matrix.

    Returns
    -------
    ndarray of shape (n, rank)
        One row for each point; columns in the order of decreasing eigenvalues.

    Raises
    ------
    ValidityError
        If K is not positive semi-definite; the sentence states the witness.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import validity
    >>> K = np.array([[2.0, 2.0], [2.0, 2.0]])
    >>> Phi = validity.embed(K)
    >>> Phi.shape
    (2, 1)
    >>> np.allclose(Phi @ Phi.T, K)
    True
    """
    standard = _standardise(_real(K, "embed"), "embed")
    spectrum = _decompose(standard, "embed")
    if spectrum.values[0] < -spectrum.tau:
        raise _not_embeddable(standard, spectrum)
    kept = np.flatnonzero(spectrum.values > spectrum.tau)[::-1]
    Phi = _signed(spectrum.vectors[:, kept]) * np.sqrt(spectrum.values[kept])
    # The exponent is even, so that half of it is a power of two again.
    return np.ldexp(Phi, standard.exponent // 2).astype(standard.dtype, copy=False)


def repair(K: ArrayLike, method: Method = "clip") -> Repair:
    """Replace an indefinite similarity matrix by a positive semi-definite one.

    With K = U S U', "clip" sets negative eigenvalues to zero (the nearest positive semi-definite
    matrix in the Frobenius norm: Higham 1988), "flip" takes their absolute values, and "shift"
    adds -min(S) to the diagonal (Chen, Garcia, Gupta, Rahimi and Cazzanti 2009). Eigenvalues that
    are negative only within the tolerance of :func:`check` count as zero, so that a valid matrix
    comes back unchanged.

    Parameters
    ----------
    K : array-like of shape (n, n)
        A symmetric matrix.
    method : {"clip", "flip", "shift"}, default="clip"
        What happens to the negative eigenvalues.

    Returns
    -------
    Repair
        The repaired ``matrix``, and ``transform`` for test rows.

    Raises
    ------
    ValidityError
        If K is not symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import validity
    >>> repaired = validity.repair(np.array([[0.0, 1.0], [1.0, 0.0]]), method="flip")
    >>> bool(np.allclose(repaired.matrix, np.eye(2)))
    True
    """
    if method not in get_args(Method):
        raise ParameterError(
            f"repair: method = {method!r} is unknown; choose 'clip', 'flip' or 'shift'."
        )
    standard = _standardise(_real(K, "repair"), "repair")
    spectrum = _decompose(standard, "repair")
    negative = spectrum.values < -spectrum.tau
    lambdas, directions = spectrum.values[negative], spectrum.vectors[:, negative]
    shift = -lambdas[0] if method == "shift" and len(lambdas) else 0.0
    if not len(lambdas):
        repaired = standard.symmetric
    elif method == "shift":
        repaired = standard.symmetric + shift * np.eye(standard.n)
    else:
        removed = (directions * (_REMOVED[method] * lambdas)) @ directions.T
        repaired = standard.symmetric - (removed + removed.T) / 2
    return Repair(
        matrix=np.ldexp(repaired, standard.exponent).astype(standard.dtype, copy=False),
        method=method,
        min_eigenvalue=_rescale(spectrum.values[0], standard.exponent),
        shift=_rescale(shift, standard.exponent),
        negative_directions=directions,
    )


# --------------------------------------------------------------------------------------------------
# The matrix, in a form in which nothing overflows


class _Standard(NamedTuple):
    """The symmetric part of K as float64, divided by an even power of two to entries near 1."""

    symmetric: Floats
    asymmetry: float
    exponent: int
    eps: float
    dtype: np.dtype[Any]

    @property
    def n(self) -> int:
        return len(self.symmetric)


def _evaluate(kernel: Callable[[Any], ArrayLike] | ArrayLike, X: Any) -> NDArray[Any]:
    # A lazy Gram or sparse matrix is callable too (scipy operators are), so it is asked first.
    if hasattr(kernel, "toarray") or not callable(kernel):
        if X is not None:
            raise ParameterError(
                "check: got a matrix and points X; pass the matrix alone, or a kernel and X."
            )
        return _real(kernel, "check")
    if X is None:
        raise ParameterError(
            "check: X is missing; a kernel is checked at points, so pass check(kernel, X)."
        )
    return _real(kernel(X), "check")


def _real(values: Any, owner: str) -> NDArray[Any]:
    """Return a finite array of a real floating type that LAPACK and NumPy both know."""
    dense = values.toarray() if hasattr(values, "toarray") else values
    try:
        array = np.asarray(dense)
        if array.dtype == object:
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"{owner}: the matrix cannot be read as numbers ({error}); pass a real array."
        ) from error
    if array.dtype.kind not in "fiub":
        raise DataTypeError(
            f"{owner}: the matrix has dtype {array.dtype}, but must be real; pass floats."
        )
    if array.dtype not in (np.float16, np.float32, np.float64):
        array = array.astype(np.float64)
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise DataError(
            f"{owner}: the matrix holds {array[where]} at {where}, but must be finite; "
            "remove missing values from the data, or look for overflow in the kernel."
        )
    return array


def _standardise(array: NDArray[Any], owner: str) -> _Standard:
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
        raise DataError(
            f"{owner}: the matrix has shape {array.shape}, but must be square with at least one "
            "row; pass similarities of all points to all points."
        )
    exponent = int(np.frexp(np.abs(array).max())[1])
    exponent += exponent % 2
    scaled = np.ldexp(array.astype(np.float64), -exponent)
    asymmetry = _asymmetry(scaled)
    symmetric = scaled if asymmetry == 0 else (scaled + scaled.T) / 2
    return _Standard(symmetric, asymmetry, exponent, float(np.finfo(array.dtype).eps), array.dtype)


def _asymmetry(K: Floats, block: int = 512) -> float:
    """Return max |K - K.T| without a second matrix in memory."""
    return max(
        float(np.abs(K[start : start + block] - K[:, start : start + block].T).max())
        for start in range(0, len(K), block)
    )


def _rescale(value: float, exponent: int) -> float:
    with np.errstate(over="ignore", under="ignore"):
        return float(np.ldexp(value, exponent))


# --------------------------------------------------------------------------------------------------
# The search for a negative direction


class _Finding(NamedTuple):
    certified: bool
    smallest: float
    direction: Floats | None
    method: str


def _report(K: _Standard, tau: float, finding: _Finding, conditional: bool) -> Report:
    witness, value = None, None
    if finding.direction is not None:
        candidate, quotient = _unit_witness(K.symmetric, finding.direction, conditional)
        if quotient < 0 and finding.smallest < -tau:
            witness, value = candidate, _rescale(quotient, K.exponent)
    valid: bool | None = None
    if K.asymmetry > tau or witness is not None:
        valid = False
    elif finding.certified:
        valid = True
    return Report(
        valid=valid,
        min_eigenvalue=_rescale(finding.smallest, K.exponent),
        tolerance=_rescale(tau, K.exponent),
        asymmetry=_rescale(K.asymmetry, K.exponent),
        witness=witness,
        witness_value=value,
        n=K.n,
        conditional=conditional,
        method=finding.method,
    )


def _unit_witness(K: Floats, direction: Floats, conditional: bool) -> tuple[Floats, float]:
    """Return the direction as a witness of K itself, not of a projected or factored copy."""
    if conditional:
        direction = direction - direction.mean()
    witness = _signed((direction / np.linalg.norm(direction))[:, None])[:, 0]
    return witness, _quotient(K, witness)


def _spectral_norm(K: Floats) -> tuple[float, Floats | None]:
    """Return ||K||_2 and, where they were computed on the way, all eigenvalues."""
    if len(K) > _DENSE_LIMIT:
        return _power_norm(K), None
    eigenvalues: Floats = eigvalsh(K, check_finite=False)
    return float(np.abs(eigenvalues).max()), eigenvalues


def _power_norm(K: Floats, relative_change: float = 1e-3, max_steps: int = 200) -> float:
    """Return ||K||_2 by the power method, to about the relative change: a tolerance needs no more.

    A Lanczos estimate would take fewer products but may fail to converge; this cannot.
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
    """Return HKH + norm 11'/n: the added term lifts the direction 1 out of the way.

    Without it that direction has the eigenvalue 0 and would hide a positive smallest one.
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
    return _quotient(K, v)


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
        return _Finding(False, _quotient(K, direction), direction, "cholesky")
    return _Finding(False, _quotient(K, vectors[:, 0]), vectors[:, 0], "lanczos")


def _start(n: int) -> Floats:
    """Return a unit vector that is the same in every run and special to no matrix."""
    v = np.random.default_rng(0).standard_normal(n)
    return v / float(np.linalg.norm(v))


def _quotient(K: Floats, unit: Floats) -> float:
    return float(unit @ (K @ unit))


# --------------------------------------------------------------------------------------------------
# The whole spectrum, for embedding and repair


class _Spectrum(NamedTuple):
    values: Floats
    vectors: Floats
    tau: float


def _decompose(K: _Standard, owner: str) -> _Spectrum:
    values, vectors = eigh(K.symmetric, check_finite=False)
    tau = float(10 * K.n * K.eps * np.abs(values).max())
    if K.asymmetry > tau:
        raise ValidityError(
            f"{owner}: K is not symmetric: max |K - K.T| = {_rescale(K.asymmetry, K.exponent):.3g} "
            f"exceeds the tolerance {_rescale(tau, K.exponent):.2g}; "
            "pass (K + K.T) / 2 if that is what you mean."
        )
    return _Spectrum(values, vectors, tau)


def _not_embeddable(K: _Standard, spectrum: _Spectrum) -> ValidityError:
    witness, quotient = _unit_witness(K.symmetric, spectrum.vectors[:, 0], conditional=False)
    shown = np.array2string(witness, precision=3, threshold=6, edgeitems=2, separator=", ")
    return ValidityError(
        "embed: K is not positive semi-definite, so no feature map has these inner products: "
        f"a'Ka = {_rescale(quotient, K.exponent):.3g} for the unit vector a = {shown}; "
        "pass repair(K).matrix for the nearest valid matrix."
    )


def _signed(vectors: Floats) -> Floats:
    """Fix the sign of each column: its entry of largest magnitude is positive."""
    if not vectors.size:
        return vectors
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=0)[None], axis=0)
    return vectors * np.where(largest < 0, -1.0, 1.0)
