r"""Seeds by k-means++ in the feature space of a kernel: points that are far apart.

The first seed is drawn by weight, each next one in proportion to weight times squared distance to
the nearest seed (Arthur and Vassilvitskii 2007), where

.. math:: \lVert \varphi(x) - \varphi(z) \rVert^2 = k(x, x) + k(z, z) - 2 k(x, z) .

Seeds are proposed in blocks. A proposal is accepted with a probability equal to the ratio of its
distance given the seeds accepted before it to its distance when proposed (rejection sampling), so
that blocks do not change the distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.linalg.pivoted_cholesky import Columns, Entries, Indices, generator_of

# Number of seeds per proposed block.
_BLOCK = 64
# Squared distances up to this many rounding units of their terms count as zero.
_ROUNDING = 32


def far_seeds(
    columns: Columns,
    diagonal: Array,
    size: int,
    *,
    weights: Array | None = None,
    rng: Any = None,
    entries: Entries | None = None,
) -> Indices:
    """Draw seeds by k-means++ with the distances of a kernel.

    Parameters
    ----------
    columns : callable
        Maps indices of shape (b,) to these columns of K, of shape (n, b).
    diagonal : ndarray of shape (n,)
        The diagonal of K.
    size : int
        The number of seeds.
    weights : ndarray of shape (n,), optional
        Weights of the rows; rows of weight 0 are never drawn.
    rng : int, Generator or RandomState, optional
        The random numbers.
    entries : callable, optional
        Maps rows and columns to this block of K. Without it, whole columns are computed even for
        rejected proposals.

    Returns
    -------
    ndarray of shape (size,)
        Distinct rows; fewer than `size` if all other rows have distance 0 from them.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.landmarks.kmeans_plus_plus import far_seeds
    >>> K = np.outer([1.0, 1.0, 5.0], [1.0, 1.0, 5.0])
    >>> len(far_seeds(lambda rows: K[:, rows], K.diagonal(), 3, rng=0))
    2
    """
    generator = generator_of(rng)
    get: Entries = entries or (lambda rows, cols: columns(cols)[rows])
    mass = np.ones(len(diagonal)) if weights is None else np.asarray(weights, dtype=np.float64)
    diagonal = np.asarray(diagonal, dtype=np.float64)
    seeds = np.asarray(generator.choice(len(mass), size=1, p=mass / mass.sum()), dtype=np.intp)
    distances = _distances(columns(seeds), diagonal, diagonal[seeds]).min(axis=1)
    while len(seeds) < size:
        chances = mass * distances
        if not chances.any():
            break
        proposed = generator.choice(len(mass), size=_BLOCK, p=chances / chances.sum())
        draws = generator.random(_BLOCK) * distances[proposed]
        square = _distances(get(proposed, proposed), diagonal[proposed], diagonal[proposed])
        new = proposed[_accepted(square, distances[proposed], draws)][: size - len(seeds)]
        nearest = _distances(columns(new), diagonal, diagonal[new]).min(axis=1)
        distances = np.minimum(distances, nearest)
        distances[new] = 0.0  # exactly, whatever the rounding
        seeds = np.concatenate([seeds, new])
    return seeds


def _distances(block: Array, rows: Array, cols: Array) -> Array:
    """Squared distances in feature space; distances within rounding error are 0."""
    sums = rows[:, None] + cols
    distances = sums - 2 * block
    distances[distances <= _ROUNDING * np.finfo(block.dtype).eps * sums] = 0.0
    return distances


def _accepted(square: Array, distances: Array, draws: Array) -> list[int]:
    """Accept proposals whose distance, given those accepted before, is above their draws."""
    nearest = distances.copy()
    chosen: list[int] = []
    for j, draw in enumerate(draws):
        if nearest[j] > draw:
            np.minimum(nearest, square[:, j], out=nearest)
            nearest[j] = 0.0
            chosen.append(j)
    return chosen
