"""Random samples of rows that may be in many parts, and blocks of rows of bounded size.

A draw without weights needs only the number of rows. A weighted draw gives each row a random key,
which depends on the seed and on the row number, and takes the rows with the largest keys. So the
drawn rows do not depend on how the data are divided into parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from mercer.arrays import Array
from mercer.exceptions import ParameterError

RowNumbers = NDArray[np.intp]

# Number of random numbers per step of the Philox counter.
_STEP = 4
# Size of a block of float64 rows, in bytes.
_BLOCK_BYTES = 2**24
# Smallest number of rows of a block.
_FEWEST_ROWS = 256


def blocks(
    n: int,
    width: float = 1,
    n_bytes: int = _BLOCK_BYTES,
    *,
    least: int = _FEWEST_ROWS,
    step: int | None = None,
) -> Iterator[slice]:
    """Slices of n rows, `step` rows each.

    By default `width` float64 values per row take at most `n_bytes`, unless `least` rows take more.
    """
    if step is None:
        step = max(1, least, int(n_bytes // (8 * max(1, width))))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


@dataclass(frozen=True, eq=False)
class Draw:
    """Rows drawn in proportion to weights, without replacement: those with the largest keys.

    The keys are log(u) / w with u uniform (Efraimidis and Spirakis, 2006). The sum of the draws of
    parts is the draw of all rows.
    """

    size: int  # the largest number of rows to keep
    rows: RowNumbers  # the row numbers, in the order of the draw
    keys: Array  # the keys of these rows, descending

    @classmethod
    def of(cls, weights: Array, size: int, seed: int, start: int = 0) -> Draw:
        """Draw among some rows."""
        counted = np.flatnonzero(weights)
        u = _uniforms(seed, start, len(weights))[counted]
        with np.errstate(divide="ignore"):
            keys = np.log(u) / weights[counted]
        return cls(size, counted + start, keys)._largest()

    def __add__(self, other: Self) -> Draw:
        """The draw among the rows of both."""
        rows = np.concatenate([self.rows, other.rows])
        return Draw(self.size, rows, np.concatenate([self.keys, other.keys]))._largest()

    def _largest(self) -> Draw:
        order = np.lexsort((self.rows, -self.keys))[: self.size]
        return Draw(self.size, self.rows[order], self.keys[order])


def uniform_rows(n: int, size: int, rng: np.random.RandomState) -> RowNumbers:
    """Draw rows with equal probability, without replacement, in memory independent of n."""
    return np.asarray(sample_without_replacement(n, size, random_state=rng), dtype=np.intp)


def random_numbers(random_state: Any, owner: str) -> np.random.RandomState:
    """The source of random numbers of a parameter ``random_state``."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    try:
        rng: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise ParameterError(
            f"{owner}: random_state = {random_state!r:.80} gives no random numbers; pass a whole "
            "number >= 0, a numpy.random.Generator or RandomState, or None."
        ) from None
    return rng


def seed_from(rng: np.random.RandomState) -> int:
    """A seed for draws by keys."""
    return int(rng.randint(2**31 - 1))


def _uniforms(seed: int, start: int, count: int) -> Array:
    """The uniform numbers of rows, which depend only on the seed and the row numbers."""
    counter = np.random.Philox(key=seed)
    counter.advance(start // _STEP)
    skipped = start % _STEP
    uniforms: Array = np.random.Generator(counter).random(skipped + count)[skipped:]
    return uniforms


def spread(n: int, most: int) -> NDArray[np.int64]:
    """Evenly spaced rows from the first to the last; all rows if there are few."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
