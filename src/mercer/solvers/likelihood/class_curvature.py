r"""The Hessian W of -log p(y | f) of classes, with determinants and traces for Laplace's method.

All is computed from (K + W^-1)^-1, which needs no inverse of K: it is well-conditioned even if K is
close to singular. Every class has `log_determinant`, that of I + K W, and the methods `product`,
`resolvent` and `covariance`; those with a whole matrix K also have `trace_part`, which serves the
gradient. Vectors have one column per latent function.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.linalg.blas import dsyrk, dtrmm, dtrsm
from scipy.linalg.lapack import dlauum, dpotrf, dpotri, dpotrs, dtpqrt, dtrtri, dtrtrs
from scipy.special import expit, softmax

from mercer.arrays import Array
from mercer.exceptions import ValidityError
from mercer.linalg.blocked import cholesky, multiply
from mercer.linalg.symmetric import mirror
from mercer.solvers.newton.curvature import softmax_product

# Columns of a block in LAPACK's QR factorisation of stacked triangles.
_QR_BLOCK = 32


class LogisticCurvature:
    """Two classes: W is diagonal, w sigma(f) sigma(-f), and B = I + W^1/2 K W^1/2."""

    def __init__(self, gram: Array, latent: Array, weights: Array) -> None:
        values = latent[:, 0]
        self._mean = expit(values)
        self._root = np.sqrt(weights * self._mean * expit(-values))
        self._factor = _factorised(gram, self._root)
        self.log_determinant = _log_determinant(self._factor)

    def product(self, values: Array) -> Array:
        """W v."""
        return np.asarray((self._root**2)[:, None] * values)

    def resolvent(self, values: Array) -> Array:
        """(K + W^-1)^-1 v = W^1/2 B^-1 W^1/2 v."""
        root = self._root[:, None]
        return np.asarray(root * dpotrs(self._factor, root * values, lower=True)[0])

    def trace_part(self) -> tuple[Array, Array]:
        """(K + W^-1)^-1 in Fortran order, zero above the diagonal, and d log Z / d f.

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

    Where K is large, E_c and S have eigenvalues as small as those of K^-1. So neither is formed:
    E_c = V_c' V_c with the triangle V_c = L_c^-1 D_c^1/2, L_c the factor of I + D_c^1/2 K D_c^1/2,
    and S = V' V for all V_c stacked, whose QR factor loses half as many digits as S itself would.
    """

    def __init__(self, gram: Array, latent: Array, weights: Array) -> None:
        self._mean = softmax(latent, axis=1)
        self._weights = weights
        self._halves: list[Array] = []
        self.log_determinant = -float(np.sum(np.log(weights)))
        for mean in self._mean.T:
            root = np.sqrt(weights * mean)
            factor = _factorised(gram, root)
            self.log_determinant += _log_determinant(factor)
            half = np.asarray(dtrtri(factor, lower=True, overwrite_c=True)[0])
            half *= root
            self._halves.append(half)
        self._sum = _Sum(self._halves)
        self.log_determinant += self._sum.log_determinant

    def product(self, values: Array) -> Array:
        """W v."""
        return np.asarray(self._weights[:, None] * softmax_product(self._mean, values))

    def resolvent(self, values: Array) -> Array:
        """(K + W^-1)^-1 v."""
        columns = zip(self._halves, values.T[:, :, None], strict=True)
        parts = np.hstack([_squared(half, column) for half, column in columns])
        common = self._sum.solve(parts.sum(axis=1, keepdims=True))
        return parts - np.hstack([_squared(half, common) for half in self._halves])

    def trace_part(self) -> tuple[Array, Array]:
        """The sum of the diagonal blocks T_c of (K + W^-1)^-1, and d log Z / d f.

        The sum is in Fortran order, and zero above the diagonal. As W S W = W - (K + W^-1)^-1 for
        S = (K^-1 + W)^-1, and D^-1 is a generalised inverse of W, only
        q_c = 1 - pi_c - diag(T_c) / (w pi_c) is needed of S:
        d log Z / d f_c = -(q_c - pi_c sum_d q_d) / 2.
        """
        total = np.zeros(self._halves[0].shape, order="F")
        curved = self._weights[:, None] * self._mean
        share = np.empty_like(curved)
        for c, triangle in enumerate(self._halves):
            block = np.asarray(dlauum(triangle, lower=True)[0])
            total += block
            share[:, c] = block.diagonal()
            mirror(block.T)
            half = self._sum.half_solve(block)
            dsyrk(-1.0, half, trans=True, beta=1.0, c=total, lower=True, overwrite_c=True)
            share[:, c] -= np.einsum("ij,ij->j", half, half)
        # Where a class is impossible, B_c is the identity in that row and nothing is left of q.
        share = np.divide(share, curved, out=1 - self._mean, where=curved > 0)
        rest = 1 - self._mean - share
        shift = -0.5 * (rest - self._mean * rest.sum(axis=1, keepdims=True))
        return total, shift

    def covariance(self, cross: Array, prior: Array) -> Array:
        """The matrix diag(k(x, x) - k' E_c k) + (k' E_c S^-1 E_d k)."""
        halves = []
        own = np.empty((len(prior), len(self._halves)))
        for c, triangle in enumerate(self._halves):
            part = dtrmm(1.0, triangle, cross, lower=True)
            own[:, c] = np.clip(prior - np.einsum("im,im->m", part, part), 0, None)
            part = dtrmm(1.0, triangle, part, lower=True, trans_a=True, overwrite_b=True)
            halves.append(self._sum.half_solve(part).T)
        half = np.stack(halves, axis=1)
        covariance: Array = half @ half.transpose(0, 2, 1)
        diagonal = np.arange(len(halves))
        covariance[:, diagonal, diagonal] += own
        return covariance


class _Sum:
    """S = M' M with M a lower triangle: the QR factor of lower triangles V_c, stacked."""

    def __init__(self, halves: list[Array]) -> None:
        # LAPACK stacks upper triangles; a lower one is upper with rows and columns in reverse.
        upper = _reversed(halves[0])
        n, block = len(upper), min(_QR_BLOCK, len(upper))
        for half in halves[1:]:
            upper = dtpqrt(n, block, upper, _reversed(half), overwrite_a=True, overwrite_b=True)[0]
        self._lower = _reversed(upper)
        self.log_determinant = _log_determinant(self._lower)

    def half_solve(self, right: Array) -> Array:
        """M'^-1 b, in the memory of b; its squared norm is b' S^-1 b."""
        half: Array = dtrsm(1.0, self._lower, right, lower=True, trans_a=True, overwrite_b=True)
        return half

    def solve(self, right: Array) -> Array:
        """S^-1 b."""
        half = self.half_solve(right)
        return np.asarray(dtrsm(1.0, self._lower, half, lower=True, overwrite_b=True))


class FeatureMatrix:
    """The matrix F F', which is never formed."""

    def __init__(self, features: Array) -> None:
        self.features = features

    def __len__(self) -> int:
        """Number of rows."""
        return len(self.features)

    def __matmul__(self, right: Array) -> Array:
        """The product F F' v."""
        return np.asarray(self.features @ (self.features.T @ right))


class FeatureCurvature:
    r"""A kernel matrix of low rank, K = F F' with r features, and any number C of functions.

    All is computed from the matrix H = I + (I_C x F') W (I_C x F) of order C r:

    .. math:: |I + K W| = |H| , \qquad (K + W^{-1})^{-1} = W - W F H^{-1} F^\top W .
    """

    def __init__(self, gram: FeatureMatrix, latent: Array, weights: Array) -> None:
        self._features, self._weights = gram.features, weights
        binary = latent.shape[1] == 1
        self._mean = expit(latent) if binary else softmax(latent, axis=1)
        self._binary = binary
        r, c = gram.features.shape[1], latent.shape[1]
        matrix = np.empty((c, r, c, r))
        for i in range(c):
            for j in range(i + 1):
                weighted = self._entries(i, j)[:, None] * gram.features
                block = multiply(gram.features.T, weighted)
                matrix[i, :, j], matrix[j, :, i] = block, block.T
        square = matrix.reshape(c * r, c * r)
        square[np.diag_indices_from(square)] += 1
        self._upper = cholesky(square)
        self.log_determinant = 2 * float(np.sum(np.log(self._upper.diagonal())))

    def _entries(self, i: int, j: int) -> Array:
        """The diagonal of the block (i, j) of W."""
        mean, other = self._mean[:, i], 1 - self._mean[:, i] if i == j else -self._mean[:, j]
        return np.asarray(self._weights * mean * other)

    def product(self, values: Array) -> Array:
        """W v."""
        if self._binary:
            return np.asarray(self._entries(0, 0)[:, None] * values)
        return np.asarray(self._weights[:, None] * softmax_product(self._mean, values))

    def resolvent(self, values: Array) -> Array:
        """(K + W^-1)^-1 v."""
        curved = self.product(values)
        right = (self._features.T @ curved).T.reshape(-1)
        solved = cho_solve((self._upper, False), right, check_finite=False)
        return curved - self.product(self._features @ solved.reshape(values.shape[1], -1).T)

    def covariance(self, cross: Array, prior: Array) -> Array:
        """The posterior covariance of the functions at new points, (m, C, C).

        `cross` holds their features, (r, m), and `prior` the part of k(x, x) beyond the features.
        """
        r, m = cross.shape
        c = self._mean.shape[1]
        right = np.zeros((c, r, c, m))
        for i in range(c):
            right[i, :, i] = cross
        half = solve_triangular(
            self._upper, right.reshape(c * r, c * m), trans="T", check_finite=False
        ).reshape(c * r, c, m)
        covariance: Array = np.einsum("kim,kjm->mij", half, half, optimize=True)
        covariance[:, np.arange(c), np.arange(c)] += np.maximum(prior, 0.0)[:, None]
        return covariance

    def release(self) -> None:
        """Forget the features of the rows, which covariances do not need."""
        self._features = np.empty((0, 0))


def _reversed(triangle: Array) -> Array:
    """The matrix with rows and columns in reverse, in Fortran order."""
    return np.asfortranarray(triangle[::-1, ::-1])


def _squared(lower: Array, right: Array) -> Array:
    """V' V b for a lower triangle V."""
    half = dtrmm(1.0, lower, right, lower=True)
    return np.asarray(dtrmm(1.0, lower, half, lower=True, trans_a=True, overwrite_b=True))


def _factorised(gram: Array, root: Array) -> Array:
    """The lower Cholesky factor of I + diag(root) K diag(root), zero above the diagonal."""
    matrix = gram * root
    matrix *= root[:, None]
    matrix.flat[:: len(matrix) + 1] += 1
    # The transpose of a symmetric matrix is the matrix in Fortran order, without a copy.
    factor, info = dpotrf(matrix.T, lower=True, clean=True, overwrite_a=True)
    if info != 0:
        raise ValidityError(
            "the Gram matrix is not positive semi-definite, or so large that rounding makes it so: "
            "I + W^1/2 K W^1/2 has no Cholesky factor; lower the kernel's amplitude, or use a "
            "kernel whose is_psd is True."
        )
    return np.asarray(factor)


def _log_determinant(factor: Array) -> float:
    return 2 * float(np.sum(np.log(np.abs(factor.diagonal()))))
