"""Embedding and repair of a similarity matrix by its eigenvectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eigh

from mercer.exceptions import DataError, ParameterError, ValidityError
from mercer.validity.matrix import (
    Floats,
    Standard,
    real,
    signed,
    standardise,
    unit_witness,
)

Method = Literal["clip", "flip", "shift"]


@dataclass(frozen=True, eq=False, repr=False)
class Repair:
    """A positive semi-definite matrix in place of K, and the repair of test rows.

    Attributes
    ----------
    matrix : ndarray of shape (n, n)
        The repaired matrix.
    method : str
        "clip", "flip" or "shift".
    min_eigenvalue : float
        The smallest eigenvalue before the repair.
    shift : float
        The addition to the diagonal by "shift"; 0 for the other methods.
    negative_directions : ndarray of shape (n, r)
        The orthonormal eigenvectors U- whose eigenvalues were negative beyond the tolerance.
    """

    matrix: NDArray[np.floating[Any]]
    method: Method
    min_eigenvalue: float
    shift: float
    negative_directions: Floats

    def __repr__(self) -> str:
        change = f"{self.negative_directions.shape[1]} negative eigenvalues are changed"
        if self.method == "shift":
            change = f"{self.shift:.3g} is added to the diagonal"
        return (
            f"Repair of {len(self.matrix)} rows by {self.method}: {change}; the smallest "
            f"eigenvalue was {self.min_eigenvalue:.3g}."
        )

    def transform(self, K_test: ArrayLike) -> NDArray[np.floating[Any]]:
        """Apply the repair to similarities between test points and the training points.

        "clip" gives K_t (I - U- U-'), "flip" gives K_t (I - 2 U- U-'); for rows in the range of K
        these are K_t U+ U+' and K_t U sign(S) U'. Applied to K itself they give ``matrix``.
        "shift" does not change similarities between *different* points, so the rows are returned
        unchanged; only the self-similarities k(x, x) increase by ``shift``.

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
        rows = real(K_test, "Repair.transform")
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


# The multiple of the negative part that a repair subtracts: "clip" leaves 0, "flip" -lambda.
_REMOVED: dict[Method, float] = {"clip": 1.0, "flip": 2.0}


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
    standard = standardise(real(K, "embed"), "embed")
    spectrum = _decompose(standard, "embed")
    if spectrum.values[0] < -spectrum.tau:
        raise _not_embeddable(standard, spectrum)
    kept = np.flatnonzero(spectrum.values > spectrum.tau)[::-1]
    Phi = signed(spectrum.vectors[:, kept]) * np.sqrt(spectrum.values[kept])
    return np.asarray(Phi.astype(standard.dtype, copy=False))


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
    standard = standardise(real(K, "repair"), "repair")
    spectrum = _decompose(standard, "repair")
    negative = spectrum.values < -spectrum.tau
    lambdas, directions = spectrum.values[negative], spectrum.vectors[:, negative]
    shift = -lambdas[0] if method == "shift" and len(lambdas) else 0.0
    if not len(lambdas):
        repaired = standard.symmetric
    elif method == "shift":
        repaired = standard.symmetric + shift * np.eye(standard.n)
    elif method == "clip" and -spectrum.values[0] > spectrum.values[-1]:
        # What would be subtracted is larger than what is left, and so might its rounding be.
        kept = spectrum.values > 0
        positive = spectrum.vectors[:, kept] * np.sqrt(spectrum.values[kept])
        repaired = positive @ positive.T
    else:
        removed = (directions * (_REMOVED[method] * lambdas)) @ directions.T
        repaired = standard.symmetric - (removed + removed.T) / 2
    return Repair(
        matrix=repaired.astype(standard.dtype, copy=False),
        method=method,
        min_eigenvalue=float(spectrum.values[0]),
        shift=float(shift),
        negative_directions=directions,
    )


class _Spectrum(NamedTuple):
    values: Floats
    vectors: Floats
    tau: float


def _decompose(K: Standard, owner: str) -> _Spectrum:
    values, vectors = eigh(K.symmetric, check_finite=False)
    tau = float(10 * K.n * K.eps * np.abs(values).max())
    if K.asymmetry > tau:
        raise ValidityError(
            f"{owner}: K is not symmetric: max |K - K.T| = {K.asymmetry:.3g} "
            f"exceeds the tolerance {tau:.2g}; "
            "pass (K + K.T) / 2 if that is what you mean."
        )
    return _Spectrum(values, vectors, tau)


def _not_embeddable(K: Standard, spectrum: _Spectrum) -> ValidityError:
    witness, quotient = unit_witness(K.symmetric, spectrum.vectors[:, 0], conditional=False)
    shown = np.array2string(witness, precision=3, threshold=6, edgeitems=2, separator=", ")
    return ValidityError(
        "embed: K is not positive semi-definite, so no feature map has these inner products: "
        f"a'Ka = {quotient:.3g} for the unit vector a = {shown}; "
        "pass repair(K).matrix for the nearest valid matrix."
    )
