"""The peer that every user has: products with a kernel matrix in NumPy, in cache-sized tiles.

Written as well as NumPy allows. The exponent of a Gaussian is one matrix product of augmented rows,
[x, -|x|^2/2, 1] . [z, 1, -|z|^2/2] = -|x - z|^2 / 2, and everything after it works in place.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Fills the first tile with the kernel of some rows and columns; the others are scratch.
Fill = Callable[[slice, slice, list[Array]], None]

ROWS, COLUMNS = 256, 1024


def product(n: int, v: Array, scratch: int, fill: Fill) -> Array:
    """Sum over the tiles of a row, without ever holding the matrix."""
    m = len(v)
    out = np.zeros(n, v.dtype)
    buffers = [np.empty(ROWS * COLUMNS, v.dtype) for _ in range(1 + scratch)]
    for i in range(0, n, ROWS):
        rows = slice(i, min(i + ROWS, n))
        for j in range(0, m, COLUMNS):
            columns = slice(j, min(j + COLUMNS, m))
            shape = (rows.stop - i, columns.stop - j)
            tiles = [buffer[: shape[0] * shape[1]].reshape(shape) for buffer in buffers]
            fill(rows, columns, tiles)
            out[rows] += tiles[0] @ v[columns]
    return out


def rbf_product(X: Array, Z: Array, v: Array, length_scale: float) -> Array:
    """K @ v of the RBF."""
    left, right = negative_half_distances(X / length_scale, Z / length_scale)

    def fill(rows: slice, columns: slice, tiles: list[Array]) -> None:
        (tile,) = tiles
        np.dot(left[rows], right[:, columns], out=tile)
        np.exp(tile, out=tile)

    return product(len(X), v, 0, fill)


def composed_product(X: Array, Z: Array, v: Array, *, length_scale: float, period: float) -> Array:
    """K @ v of 0.5 * RBF * Periodic + Matern(1.5) + Linear ** 2.

    RBF and Periodic share one exponential, and all of their exponent is one matrix product: the
    periodic distance sum_j sin^2(pi (x_j - z_j) / p) is that of points on circles.
    """
    x, z = X / length_scale, Z / length_scale
    smooth_left, smooth_right = negative_half_distances(
        np.hstack([x, _circles(X, period)]), np.hstack([z, _circles(Z, period)])
    )
    # sqrt(3) r for the Matern: its square is -2 * 3 times the half distance.
    root = X.dtype.type(math.sqrt(6.0))
    left, right = negative_half_distances(x * root, z * root)
    left = -left
    linear = np.ascontiguousarray(Z.T)

    def fill(rows: slice, columns: slice, tiles: list[Array]) -> None:
        total, r, work = tiles
        np.dot(smooth_left[rows], smooth_right[:, columns], out=total)
        np.exp(total, out=total)
        total *= 0.5
        np.dot(left[rows], right[:, columns], out=r)
        np.maximum(r, 0, out=r)
        np.sqrt(r, out=r)
        np.negative(r, out=work)
        np.exp(work, out=work)
        r += 1
        r *= work
        total += r
        np.dot(X[rows], linear[:, columns], out=work)
        work *= work
        total += work

    return product(len(X), v, 2, fill)


def negative_half_distances(X: Array, Z: Array) -> tuple[Array, Array]:
    """Factors whose product is -|x - z|^2 / 2."""
    left = np.empty((len(X), X.shape[1] + 2), X.dtype)
    right = np.empty((Z.shape[1] + 2, len(Z)), Z.dtype)
    left[:, :-2], right[:-2] = X, Z.T
    left[:, -2], right[-2] = np.einsum("ij,ij->i", X, X) / -2, 1
    left[:, -1], right[-1] = 1, np.einsum("ij,ij->i", Z, Z) / -2
    return left, right


def _circles(X: Array, period: float) -> Array:
    """Points u with |u - u'|^2 / 2 = 2 sum_j sin^2(pi (x_j - z_j) / period)."""
    angles = X * X.dtype.type(2 * math.pi / period)
    return np.hstack([np.cos(angles), np.sin(angles)])
