r"""Weights and the intercept, taken out of a Gram matrix in its own memory.

With S = diag(sqrt(w)) and s its diagonal, a fit with an unpenalised intercept happens in the
vectors orthogonal to s. The Householder reflection R = I - 2 v v' takes s to a multiple of the
first axis, so that R S K S R without its first row and column is S K S on those vectors. Unlike
H S K S H with H = I - s s'/|s|^2, it has no direction to spare, whose 1/alpha would have to be
subtracted from every diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

Array = NDArray[np.floating[Any]]


def weigh(gram: Array, weights: Array | None) -> Array:
    """Turn K into S K S in place, S = diag(sqrt(weights)).

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The matrix K, overwritten if there are weights.
    weights : ndarray of shape (n,) or None
        Positive weights of the rows.

    Returns
    -------
    ndarray of shape (n,)
        The diagonal of S.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import centring
    >>> gram = np.ones((2, 2))
    >>> centring.weigh(gram, np.array([1.0, 4.0]))
    array([1., 2.])
    >>> gram
    array([[1., 2.],
           [2., 4.]])
    """
    if weights is None:
        return np.ones(len(gram), gram.dtype)
    root: Array = np.sqrt(weights).astype(gram.dtype)
    gram *= root[:, None]
    gram *= root
    return root


def reflector_of(root: Array) -> Array:
    """Find v such that I - 2 v v' takes a positive vector to a multiple of the first axis.

    Parameters
    ----------
    root : ndarray of shape (n,)
        Positive numbers.

    Returns
    -------
    ndarray of shape (n,)
        The unit vector v.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import centring
    >>> s = np.array([3.0, 4.0])
    >>> v = centring.reflector_of(s)
    >>> (s - 2 * v * (v @ s)).round(12) + 0.0
    array([-5.,  0.])
    """
    v = root / np.linalg.norm(root)
    v[0] += 1  # both are positive: no cancellation
    unit: Array = v / np.linalg.norm(v)
    return unit


def reflected(gram: Array, v: Array) -> Array:
    """Reflect a symmetric matrix without its first axis, in its own memory.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        A symmetric matrix K; it is overwritten.
    v : ndarray of shape (n,)
        The unit vector of the reflection R = I - 2 v v'.

    Returns
    -------
    ndarray of shape (n - 1, n - 1)
        R K R without its first row and column. Only the lower triangle is set, the one that
        eigen-solvers read.

    Examples
    --------
    A constant matrix is nothing but intercept:

    >>> import numpy as np
    >>> from mercer.linalg import centring
    >>> found = centring.reflected(np.ones((3, 3)), centring.reflector_of(np.ones(3)))
    >>> bool(np.allclose(np.tril(found), 0))
    True
    """
    product = gram @ v
    q = 2 * (product - (v @ product) * v)
    a = gram if gram.flags.f_contiguous else np.ascontiguousarray(gram).T
    syr2 = get_blas_funcs("syr2", (a,))
    # The view is transposed where `gram` is in C order: then its upper triangle is the lower one.
    transposed = a is not gram
    updated: Array = syr2(-1.0, v, q, a=a, lower=not transposed, overwrite_a=True)
    return (updated.T if transposed else updated)[1:, 1:]


def lifted(reduced: Array, v: Array) -> Array:
    """Take columns in the reflected axes without the first back to the original axes.

    Parameters
    ----------
    reduced : ndarray of shape (n - 1, r)
        Vectors in the axes of `reflected`.
    v : ndarray of shape (n,)
        The unit vector of the reflection.

    Returns
    -------
    ndarray of shape (n, r)
        The vectors, all orthogonal to the weights' roots.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import centring
    >>> v = centring.reflector_of(np.ones(3))
    >>> bool(np.allclose(centring.lifted(np.eye(2), v).sum(axis=0), 0))
    True
    """
    vectors = np.empty((len(v), reduced.shape[1]), reduced.dtype, order="F")
    vectors[0], vectors[1:] = 0, reduced
    if not vectors.size:
        return vectors
    ger = get_blas_funcs("ger", (vectors,))
    found: Array = ger(-2.0, v, v @ vectors, a=vectors, overwrite_a=True)
    return found
