r"""Weight a Gram matrix and remove the intercept from it, in place.

With S = diag(sqrt(w)) and s its diagonal, a fit with an unpenalised intercept happens in the
vectors orthogonal to s. The Householder reflection R = I - 2 v v' takes s to a multiple of the
first axis, so that R S K S R without its first row and column is S K S on those vectors. Unlike
H S K S H with H = I - s s'/|s|^2, this matrix has no null direction, whose 1/alpha would have to be
subtracted from diagonals of the inverse.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import get_blas_funcs

from mercer.arrays import Array


def weigh(gram: Array, weights: Array | None) -> Array:
    """Turn K into S K S in place, S = diag(sqrt(weights))."""
    if weights is None:
        return np.ones(len(gram), gram.dtype)
    root: Array = np.sqrt(weights).astype(gram.dtype)
    gram *= root[:, None]
    gram *= root
    return root


def reflector_of(root: Array) -> Array:
    """The vector v for which I - 2 v v' takes a positive vector to a multiple of the first axis."""
    v = root / np.linalg.norm(root)
    v[0] += 1  # no cancellation, as both are positive
    unit: Array = v / np.linalg.norm(v)
    return unit


def reflected(gram: Array, v: Array) -> Array:
    """Reflect a symmetric matrix in place, and drop its first row and column.

    The result is the lower triangle of a matrix in Fortran order.
    """
    product = gram @ v
    q = 2 * (product - (v @ product) * v)
    a = gram if gram.flags.f_contiguous else np.ascontiguousarray(gram).T
    syr2 = get_blas_funcs("syr2", (a,))
    updated: Array = syr2(-1.0, v, q, a=a, lower=True, overwrite_a=True)
    return updated[1:, 1:]


def lifted(reduced: Array, v: Array) -> Array:
    """Map columns from the reflected axes (without the first) back to the original axes."""
    vectors = np.empty((len(v), reduced.shape[1]), reduced.dtype, order="F")
    vectors[0], vectors[1:] = 0, reduced
    return lifted_in_place(vectors, v)


def lifted_in_place(vectors: Array, v: Array) -> Array:
    """Map columns in Fortran order, whose first entries are zero, back to the original axes."""
    if not vectors.size:
        return vectors
    ger = get_blas_funcs("ger", (vectors,))
    lifted: Array = ger(-2.0, v, v @ vectors, a=vectors, overwrite_a=True)
    return lifted
