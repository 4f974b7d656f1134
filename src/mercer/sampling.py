"""Which rows to draw, where rows may be in many parts; blocks of rows of bounded size.

A draw without weights needs the number of rows alone. One with weights gives each row a random key,
which depends on the seed and on the number of the row, and takes the rows with the largest keys:
the parts of the data can be gone through in any number, anywhere, and the rows are the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from mercer.exceptions import ParameterError

Array = NDArray[np.floating[Any]]
RowNumbers = NDArray[np.intp]

# Random numbers per step of the counter of Philox.
_STEP = 4
# Bytes of a block of rows of float64, and the fewest rows of a block.
_BLOCK_BYTES = 2**24
_FEWEST_ROWS = 256


def blocks(n: int, width: int, n_bytes: int = _BLOCK_BYTES) -> Iterator[slice]:
    """Slices of n rows, so that `width` float64 values per row take at most `n_bytes` at a time."""
    step = max(_FEWEST_ROWS, n_bytes // (8 * max(1, width)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


@dataclass(frozen=True, eq=False)
class Draw:
    """Rows that are drawn in proportion to weights, without replacement: the largest keys so far.

    The keys are log(u) / w with u uniform (Efraimidis and Spirakis, 2006). Draws of parts add up to
    that of the whole.
    """

    size: int  # how many rows to keep at most
    rows: RowNumbers  # their numbers, in the order in which they are drawn
    keys: Array  # their keys, descending

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
    """Draw rows that all count alike, without replacement, in memory that does not grow with n."""
    return np.asarray(sample_without_replacement(n, size, random_state=rng), dtype=np.intp)


def random_numbers(random_state: Any, owner: str) -> np.random.RandomState:
    """Where random numbers come from."""
    if isinstance(random_state, np.random.Generator):
        return np.random.RandomState(random_state.bit_generator)
    try:
        found: np.random.RandomState = check_random_state(random_state)
    except ValueError:
        raise ParameterError(
            f"{owner}: random_state = {random_state!r:.80} gives no random numbers; pass a whole "
            "number >= 0, a numpy.random.Generator or RandomState, or None."
        ) from None
    return found


def seed_from(rng: np.random.RandomState) -> int:
    """A seed for draws by key."""
    return int(rng.randint(2**31 - 1))


def _uniforms(seed: int, start: int, count: int) -> Array:
    """The uniform numbers that belong to rows, whichever part of the data they are in."""
    counter = np.random.Philox(key=seed)
    counter.advance(start // _STEP)
    skipped = start % _STEP
    found: Array = np.random.Generator(counter).random(skipped + count)[skipped:]
    return found


def spread(n: int, most: int) -> NDArray[np.int64]:
    """Rows from the first to the last at equal distances, all if there are few."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
