r"""The curvature of the log-likelihood of classes, and what it makes of a kernel matrix.

W is the negative Hessian of log p(y | f) in the latent functions f. Everything is in terms of
(K + W^-1)^-1, which needs no inverse of K: it is well-conditioned however close to singular K is.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs, dtrtrs
from scipy.special import expit, softmax

from mercer.exceptions import ValidityError

Array = NDArray[np.floating[Any]]

_MIRROR_BLOCK = 256


class Curvature(Protocol):
    """What W, the curvature of -log p(y | f), makes of K. Vectors have one column per function."""

    log_determinant: float

    def weigh(self, values: Array) -> Array:
        """W v."""

    def shrink(self, values: Array) -> Array:
        """(K + W^-1)^-1 v."""

    def trace_part(self) -> tuple[Array, Array]:
        """The sum over functions of the diagonal blocks of (K + W^-1)^-1, and d log Z / d f.

        Of the matrix, which is in the order of Fortran, the strict upper triangle is zero.
        """

    def covariance(self, cross: Array, prior: Array) -> Array:
        """The posterior covariance of the functions at new points, (m, C, C)."""


class LogisticCurvature:
    """Two classes: W is diagonal, w sigma(f) sigma(-f), and B = I + W^1/2 K W^1/2.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The matrix K.
    latent : ndarray of shape (n, 1)
        The values f.
    weights : ndarray of shape (n,)
        Positive weights of the rows.
    """

    def __init__(self, gram: Array, latent: Array, weights: Array) -> None:
        values = latent[:, 0]
        self._mean = expit(values)
        self._root = np.sqrt(weights * self._mean * expit(-values))
        self._factor = _factorised(gram, self._root)
        self.log_determinant = _log_determinant(self._factor)

    def weigh(self, values: Array) -> Array:
        """W v."""
        weighted: Array = (self._root**2)[:, None] * values
        return weighted

    def shrink(self, values: Array) -> Array:
        """(K + W^-1)^-1 v = W^1/2 B^-1 W^1/2 v."""
        root = self._root[:, None]
        solved: Array = root * dpotrs(self._factor, root * values, lower=True)[0]
        return solved

    def trace_part(self) -> tuple[Array, Array]:
        """(K + W^-1)^-1, and d log Z / d f.

        The latter is -S_ii dW_i/df_i / 2 with S = (K^-1 + W)^-1. Since W S W = W - (K + W^-1)^-1,
        S_ii = (1 - B^-1_ii) / W_i, and since dW/df = W (1 - 2 sigma), the W cancels.
        """
        inverse = np.asarray(dpotri(self._factor, lower=True)[0])
        shift = -0.5 * (1 - inverse.diagonal()) * (1 - 2 * self._mean)
        inverse *= self._root[:, None]
        inverse *= self._root
        return inverse, shift[:, None]

    def covariance(self, cross: Array, prior: Array) -> Array:
        """The variance k(x, x) - k' (K + W^-1)^-1 k."""
        half = dtrtrs(self._factor, self._root[:, None] * cross, lower=True)[0]
        variance: Array = np.clip(prior - np.einsum("ij,ij->j", half, half), 0, None)
        return variance[:, None, None]


class SoftmaxCurvature:
    r"""More classes: W = D - D R w^-1 R' D, with D = diag(w pi_c) and R stacked identities.

    With E_c = (K + D_c^-1)^-1 and S = sum_c E_c, the blocks of (K + W^-1)^-1 are
    E_c delta_cd - E_c S^-1 E_d, and log |I + K W| = sum_c log |I + K D_c| + log |S| - log |w|.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The matrix K.
    latent : ndarray of shape (n, C)
        The values f.
    weights : ndarray of shape (n,)
        Positive weights of the rows.
    """

    def __init__(self, gram: Array, latent: Array, weights: Array) -> None:
        n, n_classes = latent.shape
        self._mean = softmax(latent, axis=1)
        self._weights = weights
        self._blocks = np.empty((n_classes, n, n))
        self.log_determinant = -float(np.sum(np.log(weights)))
        for block, mean in zip(self._blocks, self._mean.T, strict=True):
            root = np.sqrt(weights * mean)
            factor = _factorised(gram, root)
            self.log_determinant += _log_determinant(factor)
            dpotri(factor, lower=True, overwrite_c=True)
            np.multiply(_mirrored(factor), root, out=block)
            block *= root[:, None]
        self._factor = _factorised(self._blocks.sum(axis=0))
        self.log_determinant += _log_determinant(self._factor)

    def weigh(self, values: Array) -> Array:
        """W v."""
        centred = values - np.sum(self._mean * values, axis=1, keepdims=True)
        weighted: Array = self._weights[:, None] * self._mean * centred
        return weighted

    def shrink(self, values: Array) -> Array:
        """(K + W^-1)^-1 v."""
        parts = self._by_class(values.T[:, :, None])
        common: Array = dpotrs(self._factor, parts.sum(axis=1)[:, None], lower=True)[0]
        return parts - self._by_class(common)

    def trace_part(self) -> tuple[Array, Array]:
        """The sum of the diagonal blocks T_c of (K + W^-1)^-1, and d log Z / d f.

        As W S W = W - (K + W^-1)^-1 for S = (K^-1 + W)^-1, and D^-1 is a generalised inverse of W,
        only q_c = 1 - pi_c - diag(T_c) / (w pi_c) is needed of S:
        d log Z / d f_c = -(q_c - pi_c sum_d q_d) / 2.
        """
        # Symmetric, so the transpose is the same matrix in the order of Fortran.
        total = np.triu(self._blocks.sum(axis=0)).T
        curved = self._weights[:, None] * self._mean
        share = np.empty_like(curved)
        for c, block in enumerate(self._blocks):
            half = dtrtrs(self._factor, block, lower=True)[0]
            dsyrk(-1.0, half, trans=True, beta=1.0, c=total, lower=True, overwrite_c=True)
            share[:, c] = block.diagonal() - np.einsum("ij,ij->j", half, half)
        # Where a class is impossible, B_c is the identity in that row and nothing is left of q.
        share = np.divide(share, curved, out=1 - self._mean, where=curved > 0)
        rest = 1 - self._mean - share
        shift = -0.5 * (rest - self._mean * rest.sum(axis=1, keepdims=True))
        return total, shift

    def covariance(self, cross: Array, prior: Array) -> Array:
        """The matrix diag(k(x, x) - k' E_c k) + (k' E_c S^-1 E_d k)."""
        parts = self._blocks @ cross
        own = np.clip(prior - np.einsum("im,cim->cm", cross, parts), 0, None)
        half = np.stack([dtrtrs(self._factor, part, lower=True)[0] for part in parts])
        shared: Array = np.einsum("cim,dim->mcd", half, half, optimize=True)
        diagonal = np.arange(len(parts))
        shared[:, diagonal, diagonal] += own.T
        return shared

    def _by_class(self, columns: Array) -> Array:
        """E_c v_c, as columns."""
        products: Array = (self._blocks @ columns)[:, :, 0].T
        return products


def _factorised(gram: Array, root: Array | None = None) -> Array:
    """The Cholesky factor of I + diag(root) K diag(root), zero above; or of K, in its memory."""
    matrix = gram
    if root is not None:
        matrix = gram * root
        matrix *= root[:, None]
        matrix.flat[:: len(matrix) + 1] += 1
    # In the order of Fortran the same symmetric matrix is a transpose, not a copy.
    factor, info = dpotrf(matrix.T, lower=True, clean=True, overwrite_a=True)
    if info != 0:
        raise ValidityError(
            "the Gram matrix is not positive semi-definite: I + W^1/2 K W^1/2 has no Cholesky "
            "factor; use a kernel whose is_psd is True."
        )
    return np.asarray(factor)


def _log_determinant(factor: Array) -> float:
    return 2 * float(np.sum(np.log(factor.diagonal())))


def _mirrored(lower: Array) -> Array:
    """The symmetric matrix with this lower triangle, in place of it; above it is zero."""
    n = len(lower)
    for start in range(0, n, _MIRROR_BLOCK):
        stop = min(start + _MIRROR_BLOCK, n)
        lower[start:stop, stop:] = lower[stop:, start:stop].T
        corner = lower[start:stop, start:stop]
        diagonal = corner.diagonal().copy()
        corner += corner.T.copy()
        np.fill_diagonal(corner, diagonal)
    return lower
