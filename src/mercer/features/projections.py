"""Projections of rows on random vectors: by a dense matrix, or by Hadamard matrices.

A projection holds arrays in float64; `in_precision` converts them to the precision of the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import _core
from mercer.arrays import Array
from mercer.linalg.blocked import multiply
from mercer.parallel import thread_count

# A dense matrix, or a sparse one: scipy's classes are untyped.
Matrix = Any

# Smallest Hadamard matrix of `sorf`; smaller ones have too few directions.
_SMALLEST_SORF = 128


@dataclass(frozen=True, eq=False)
class Dense:
    """(x - centre) W."""

    matrix: Array  # (d, m): the matrix W
    centre: Array  # (d,): subtracted from the rows to keep the digits of the angles

    def write(self, rows: Matrix, out: Array) -> None:
        """Write the projections of the rows to `out`."""
        if isinstance(rows, np.ndarray):
            multiply(rows - self.centre, self.matrix, out)
        else:
            np.subtract(rows @ self.matrix, self.centre @ self.matrix, out=out)


@dataclass(frozen=True, eq=False)
class Structured:
    """S H D_s ... H D_2 P H D_1 applied to (x - centre) / lengths, in concatenated blocks.

    H is the Hadamard matrix of entries +-1. Its transform takes d log d additions, so that m
    projections cost m log d, and memory m.
    """

    diagonals: Array  # (blocks, stages, size): the diagonals D; size is a power of two
    scales: Array  # (blocks, size): the diagonals S
    permutations: NDArray[np.int64] | None  # (blocks, size): the permutations P
    centre: Array  # (d,): subtracted from the rows
    lengths: Array  # (d,): the length-scales by which columns are divided

    def write(self, rows: Matrix, out: Array) -> None:
        """Write the projections of the rows to `out`."""
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        rows = (dense - self.centre) / self.lengths
        _core.hadamard(rows, self.diagonals, self.permutations, self.scales, out, thread_count())


Projection = Dense | Structured


def sorf(count: int, width: int, rng: np.random.Generator) -> tuple[Array, None]:
    """Draw the diagonals of structured orthogonal random features: three diagonals of signs.

    H D3 H D2 H D1 is orthogonal, and its rows are nearly uniform on the sphere; the bias decreases
    with the size.

    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal random features, 2016.
    """
    size = max(_power_of_two(width), _SMALLEST_SORF)
    blocks = -(-count // size)
    signs = rng.integers(0, 2, size=(blocks, 3, size)) * 2.0 - 1.0
    return signs / np.sqrt(size), None


def fastfood(count: int, width: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.int64]]:
    """Draw the diagonals and permutations of Fastfood, H G P H B.

    B are signs, P a permutation, G normal numbers of length 1. Every row of the product has a
    direction that is exactly uniform; rows of one block depend on each other.

    Le, Sarlos and Smola, Fastfood: computing Hilbert space expansions in loglinear time, 2013.
    """
    size = _power_of_two(width)
    blocks = -(-count // size)
    signs = (rng.integers(0, 2, size=(blocks, size)) * 2.0 - 1.0) / np.sqrt(size)
    normals = rng.standard_normal((blocks, size))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    places = rng.permuted(np.tile(np.arange(size), (blocks, 1)), axis=1)
    return np.stack([signs, normals], axis=1), places


def project(projections: Sequence[Projection], parts: Sequence[Matrix], out: Array) -> None:
    """Write the sum of several projections, each of its own columns."""
    (first, *others), (block, *blocks) = projections, parts
    first.write(block, out)
    if others:
        more = np.empty_like(out)
        for projection, rows in zip(others, blocks, strict=True):
            projection.write(rows, more)
            out += more


def _power_of_two(width: int) -> int:
    return 1 << max(width - 1, 0).bit_length()
