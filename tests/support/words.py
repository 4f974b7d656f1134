"""Random strings of a small alphabet, with the odd ones among them."""

from __future__ import annotations

import numpy as np

ODD = ["", "A", "AC", "AAAAAAAAAA", "ACGTACGTACGT"]


def random_words(n: int, longest: int, seed: int = 0, letters: str = "ACGT") -> list[str]:
    """n strings of 0 to `longest` letters."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(longest + 1, size=n)
    return ["".join(rng.choice(list(letters), size=size)) for size in sizes]


def least_eigenvalue(K: np.ndarray) -> float:
    """The least eigenvalue, relative to the largest in absolute value."""
    values = np.linalg.eigvalsh(K)
    return float(values[0] / np.abs(values).max())
