"""Compositions of feature maps: concatenated for sums of kernels, multiplied for products."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import reduce
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mercer.exceptions import DataError
from mercer.maps.forecast import count, forecast, require

Floats = NDArray[np.floating[Any]]
# A dense matrix, or a sparse one: scipy's classes are untyped.
Features = Any


def concatenate(*maps: Features) -> Features:
    """Concatenate feature maps: the map of a sum of kernels.

    Phi(x).Phi(z) is the sum of the inner products of the parts.

    Parameters
    ----------
    *maps : ndarray or sparse array of shape (n_samples, n_features_i)
        The features of the same points under each kernel.

    Returns
    -------
    ndarray or csr_array of shape (n_samples, n_features)
        The concatenated features; sparse if any part is.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import features
    >>> features.concatenate(np.ones((2, 1)), np.eye(2))
    array([[1., 1., 0.],
           [1., 0., 1.]])
    """
    parts = _same_rows("concatenate", maps)
    if any(sparse.issparse(part) for part in parts):
        return sparse.csr_array(sparse.hstack(parts, format="csr"))
    width = sum(part.shape[1] for part in parts)
    forecast("concatenate", len(parts[0]), width, np.result_type(*parts).itemsize)
    return np.concatenate(parts, axis=1)


def concatenate_names(*names: Sequence[str]) -> list[str]:
    """Name the columns of :func:`concatenate`.

    Parameters
    ----------
    *names : sequence of str
        The column names of each part.

    Returns
    -------
    list of str
        All of them, in order.

    Examples
    --------
    >>> from mercer import features
    >>> features.concatenate_names(["1"], ["x0", "x1"])
    ['1', 'x0', 'x1']
    """
    return list(chain.from_iterable(names))


def tensor_product(*maps: Features) -> Features:
    """Multiply every feature with every other: the map of a product of kernels.

    The row-wise Kronecker product; Phi(x).Phi(z) is the product of the inner products of the
    factors.

    Parameters
    ----------
    *maps : ndarray or sparse array of shape (n_samples, n_features_i)
        The features of the same points under each kernel.

    Returns
    -------
    ndarray or csr_array of shape (n_samples, product of n_features_i)
        The features; those of the last map vary fastest; sparse if any factor is.

    Raises
    ------
    MemoryForecastError
        If the features do not fit in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import features
    >>> features.tensor_product(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0, 5.0]]))
    array([[ 3.,  4.,  5.,  6.,  8., 10.]])
    """
    factors = _same_rows("tensor_product", maps)
    width = math.prod(factor.shape[1] for factor in factors)
    if any(sparse.issparse(factor) for factor in factors):
        return _sparse_tensor_product([sparse.csr_array(factor) for factor in factors], width)
    itemsize = np.result_type(*factors).itemsize
    forecast("tensor_product", len(factors[0]), width, itemsize)
    return reduce(row_products, factors)


def tensor_product_names(*names: Sequence[str]) -> list[str]:
    """Name the columns of :func:`tensor_product`.

    Parameters
    ----------
    *names : sequence of str
        The column names of each factor; "1" names a constant.

    Returns
    -------
    list of str
        The products, without factors 1.

    Examples
    --------
    >>> from mercer import features
    >>> features.tensor_product_names(["1", "x0"], ["1", "x1"])
    ['1', 'x1', 'x0', 'x0*x1']
    """
    return ["*".join(name for name in word if name != "1") or "1" for word in product(*names)]


def row_products(A: Floats, B: Floats) -> Floats:
    """Return the products of every column of A with every one of B."""
    return (A[:, :, None] * B[:, None, :]).reshape(len(A), A.shape[1] * B.shape[1])


def _sparse_tensor_product(factors: Sequence[Features], width: int) -> Features:
    if width > np.iinfo(np.int64).max:
        raise DataError(
            f"tensor_product: the product has {count(width)} columns, more than an index can "
            "count; use the kernel itself, which needs no features."
        )
    lengths = reduce(operator.mul, (np.diff(factor.indptr).astype(float) for factor in factors))
    entry = np.result_type(*(factor.dtype for factor in factors)).itemsize + 8
    require(
        int(lengths.sum()) * entry,
        float(lengths.mean()),
        f"tensor_product: a sparse feature matrix of {lengths.sum():.0f} entries",
    )
    return reduce(_sparse_product, factors)


def _sparse_product(A: Features, B: Features) -> Features:
    # Entry e of A, in row i, is multiplied with all entries of row i of B.
    row = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    lengths = np.diff(B.indptr)[row]
    left = np.repeat(np.arange(A.nnz), lengths)
    stops = np.cumsum(lengths, dtype=np.int64)
    right = np.arange(len(left)) + np.repeat(B.indptr[row] - (stops - lengths), lengths)
    columns = A.indices[left].astype(np.int64) * B.shape[1] + B.indices[right]
    indptr = np.concatenate([[0], stops])[A.indptr]
    shape = (A.shape[0], A.shape[1] * B.shape[1])
    return sparse.csr_array((A.data[left] * B.data[right], columns, indptr), shape=shape)


def _same_rows(owner: str, maps: Sequence[Features]) -> list[Features]:
    parts = [part if sparse.issparse(part) else np.asarray(part) for part in maps]
    shapes = [part.shape for part in parts]
    if not parts or any(len(shape) != 2 or shape[0] != shapes[0][0] for shape in shapes):
        raise DataError(
            f"{owner}: got feature matrices of shapes {shapes}; they must be at least one, "
            "two-dimensional, and have the same rows: pass features of the same points."
        )
    # Products of small integers, such as counts, would wrap around.
    return [part.astype(np.float64) if part.dtype.kind in "iub" else part for part in parts]
