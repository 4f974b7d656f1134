"""Large products, factors and solutions on all cores.

The engine's threads share the blocks of a matrix, and each block is one call of SciPy's BLAS on one
thread. Blocks are fixed by sizes, so that results depend on the number of threads by the rounding
of BLAS at most. Ctrl-C is noticed between blocks.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.linalg import cython_blas, cython_lapack

from mercer import _core
from mercer.arrays import Array
from mercer.parallel import single_blas, thread_count

Triangle = Literal["all", "lower", "upper"]

_core.set_blas(
    *(
        {
            name: module.__pyx_capi__[letter + name]
            for module, names in (
                (cython_blas, ("gemm", "gemv", "syrk", "trsm")),
                (cython_lapack, ("potrf", "larft")),
            )
            for name in names
        }
        for letter in "sd"
    )
)


def multiply(
    a: Array,
    b: Array,
    out: Array | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    triangle: Triangle = "all",
) -> Array:
    """The product ``alpha * a @ b`` of two matrices, plus ``beta * out`` if `out` is given.

    Of a symmetric product, one triangle is enough. The other one is then undefined.
    """
    if out is None:
        out = np.zeros((a.shape[0], b.shape[1]), np.result_type(a, b))
    # A product in C order is the transposed product of the transposed matrices.
    turned = out.shape[1] == 1 or out.strides[1] == out.itemsize
    left, right, target = (b.T, a.T, out.T) if turned else (a, b, out)
    if turned and triangle != "all":
        triangle = "upper" if triangle == "lower" else "lower"
    left, right = (_in_order(side, out.dtype) for side in (left, right))
    with single_blas() as threads:
        _core.matmul(left, right, target, alpha, beta, triangle, threads)
    return out


def factorise(a: Array) -> bool:
    """Overwrite the upper triangle of a matrix in Fortran order with its Cholesky factor.

    The strict lower triangle keeps its values. False if the matrix is not positive definite.
    """
    with single_blas() as threads:
        return _core.cholesky(a, threads)


def cholesky(matrix: Array) -> Array:
    """The upper Cholesky factor of a symmetric matrix, which is overwritten.

    Raises `numpy.linalg.LinAlgError` if there is none.
    """
    upper = matrix if matrix.flags.f_contiguous else matrix.T
    if not factorise(upper):
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return np.tril(upper.T).T  # in Fortran order


def scaled_triangle(gram: Array, scales: Array, shift: float, out: Array) -> Array:
    """Write the upper triangle of s K s + shift I to `out`, in Fortran order; s is diagonal."""
    gram = gram if gram.strides[1] == gram.itemsize else np.ascontiguousarray(gram)
    _core.scaled_triangle(gram, scales, shift, out, thread_count())
    return out


def solve_triangular(upper: Array, right: Array, *, transposed: bool = False) -> Array:
    """Solve U x = b or U'x = b for an upper triangle; b, in Fortran order, is overwritten."""
    with single_blas() as threads:
        _core.triangular_solve(np.asfortranarray(upper), right, transposed, threads)
    return right


def tridiagonalise(a: Array, basis: Array) -> tuple[Array, Array]:
    """The diagonals of T, for A = Q T Q'; `a` (lower triangle, Fortran order) is used up.

    Q is written to `basis`, in Fortran order.
    """
    diagonal, beside = np.empty(len(a), a.dtype), np.empty(len(a), a.dtype)
    with single_blas() as threads:
        _core.tridiagonalise(a, diagonal, beside, basis, threads)
    return diagonal, beside[:-1]


def leverages(basis: Array, pivots: Array, links: Array) -> Array:
    """The diagonals of Q (L D L')^-1 Q' for factors with pivots D and subdiagonals of L.

    Factors are columns of `pivots` and `links`, and rows of the result.
    """
    out = np.empty((pivots.shape[1], len(basis)), basis.dtype)
    weights = np.ascontiguousarray(1 / pivots)
    _core.leverages(basis, np.ascontiguousarray(links), weights, out, thread_count())
    return out


def _in_order(matrix: Array, dtype: np.dtype[Any]) -> Array:
    """A matrix whose rows or columns are contiguous."""
    matrix = matrix.astype(dtype, copy=False)
    unit = matrix.itemsize
    rows, columns = matrix.strides
    whole = (columns == unit and rows >= unit * matrix.shape[1]) or (
        rows == unit and columns >= unit * matrix.shape[0]
    )
    return matrix if whole else np.ascontiguousarray(matrix)
