"""Which rows to draw, where rows may be in many parts.

A draw without weights needs the number of rows alone. One with weights gives each row a random key,
which depends on the seed and on the number of the row, and takes the rows with the largest keys:
the parts of the data can be gone through in any number, anywhere, and the rows are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement

from mercer.exceptions import ParameterError

Array = NDArray[np.floating[Any]]
RowNumbers = NDArray[np.intp]

# Numbers that a step of the counter of Philox yields.
_STEP = 4


@dataclass(frozen=True, eq=False)
class Draw:
    """Rows that are drawn in proportion to weights, without replacement: the largest keys so far.

    The keys are log(u) / w with u uniform (Efraimidis and Spirakis, 2006). Draws of parts add up to
    that of the whole.

    Attributes
    ----------
    size : int
        How many rows to keep at most.
    rows : ndarray of int
        Their numbers, in the order in which they are drawn.
    keys : ndarray
        Their keys, descending.
    """

    size: int
    rows: RowNumbers
    keys: Array

    @classmethod
    def of(cls, weights: Array, size: int, seed: int, start: int = 0) -> Draw:
        """Draw among some rows.

        Parameters
        ----------
        weights : ndarray of shape (n,)
            Weights of the rows; those of weight 0 are never drawn.
        size : int
            How many rows to draw.
        seed : int
            The seed.
        start : int
            The number of the first row.

        Returns
        -------
        Draw
            Fewer rows than `size` if fewer have a positive weight.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer.sampling import Draw
        >>> w = np.arange(6.0)
        >>> whole = Draw.of(w, 3, seed=0)
        >>> parts = Draw.of(w[:2], 3, seed=0) + Draw.of(w[2:], 3, seed=0, start=2)
        >>> bool((whole.rows == parts.rows).all())
        True
        """
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
    """Draw rows that all count alike, without replacement, in memory that does not grow with n.

    Parameters
    ----------
    n : int
        The number of rows.
    size : int
        How many to draw.
    rng : RandomState
        What to draw with.

    Returns
    -------
    ndarray of shape (size,)
        Their numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.sampling import uniform_rows
    >>> len(set(uniform_rows(10**12, 5, np.random.RandomState(0)).tolist()))
    5
    """
    return np.asarray(sample_without_replacement(n, size, random_state=rng), dtype=np.intp)


def random_numbers(random_state: Any, owner: str) -> np.random.RandomState:
    """Where random numbers come from.

    Parameters
    ----------
    random_state : int, RandomState, Generator or None
        What the user gave. A generator is drawn from, as a RandomState is.
    owner : str
        On whose behalf; errors are in its name.

    Returns
    -------
    RandomState
        What to draw with.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.sampling import random_numbers
    >>> a, b = (random_numbers(np.random.default_rng(0), "Model") for _ in range(2))
    >>> a.randint(100) == b.randint(100)
    True
    """
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
    """A seed for draws by key.

    Parameters
    ----------
    rng : RandomState
        What to draw with.

    Returns
    -------
    int
        The seed.
    """
    return int(rng.randint(2**31 - 1))


def _uniforms(seed: int, start: int, count: int) -> Array:
    """The uniform numbers that belong to rows, whichever part of the data they are in."""
    counter = np.random.Philox(key=seed)
    counter.advance(start // _STEP)
    skipped = start % _STEP
    found: Array = np.random.Generator(counter).random(skipped + count)[skipped:]
    return found


def spread(n: int, most: int) -> NDArray[np.int64]:
    """Rows from the first to the last at equal distances, all if there are few.

    Parameters
    ----------
    n : int
        How many rows there are.
    most : int
        How many are wanted at most.

    Returns
    -------
    ndarray of int64
        Their numbers, increasing.

    Examples
    --------
    >>> from mercer.sampling import spread
    >>> spread(9, 3).tolist()
    [0, 4, 8]
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
