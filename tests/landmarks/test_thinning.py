from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.landmarks import thinning
from mercer.landmarks.thinning import halves, thinned


def discrepancy(K: Any, rows: Any) -> float:
    """The maximum mean discrepancy between some rows and all."""
    w = -np.full(len(K), 1 / len(K))
    w[rows] += 1 / len(rows)
    return float(np.sqrt(w @ K @ w))


def naive_halves(K: Any, rng: np.random.RandomState) -> list[int]:
    """Kernel halving of one set, with sums over the chosen signs."""
    m, kept, signs, variance = len(K), [], [], 0.0
    for i in range(m // 2):
        a, b = 2 * i, 2 * i + 1
        square = K[a, a] + K[b, b] - 2 * K[a, b]
        threshold = max(np.sqrt(square * variance * 2 * np.log(2 * m)), square)
        past = sum(
            s * (K[2 * j, a] - K[2 * j + 1, a] - K[2 * j, b] + K[2 * j + 1, b])
            for j, s in enumerate(signs)
        )
        first = rng.random_sample() < 0.5 * (1 - past / threshold)
        variance += square * max(0.0, 1 + (square - 2 * threshold) * variance / threshold**2)
        signs.append(1 if first else -1)
        kept.append(a if first else b)
    return kept


def test_halves_are_those_of_the_walk() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    K = mc.RBF()(X)
    one = halves(K[None], np.random.RandomState(1))[0]
    assert one.tolist() == naive_halves(K, np.random.RandomState(1))
    several = halves(np.stack([K, K[::-1, ::-1]]), np.random.RandomState(1))
    assert several.shape == (2, 20)
    assert all(len(set(rows // 2)) == 20 for rows in several)


@pytest.mark.parametrize("size", [1, 7, 32, 150, 299, 300])
def test_chosen_rows_are_distinct_and_close(size: int) -> None:
    X = np.random.default_rng(0).normal(size=(300, 2))
    K = mc.RBF()(X)
    rows = thinned(lambda i, j: K[np.ix_(i, j)], 300, size, np.random.RandomState(0))
    assert len(set(rows)) == len(rows) == size
    rng = np.random.default_rng(1)
    others = [discrepancy(K, rng.choice(300, size, replace=False)) for _ in range(50)]
    assert discrepancy(K, rows) <= min(others) + 1e-7


def test_many_rows_are_halved_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "_DENSE", 64)
    monkeypatch.setattr(thinning, "_VALUES_PER_ROW", 16)
    X = np.random.default_rng(0).normal(size=(3000, 2))
    K = mc.RBF()(X)
    values = 0

    def entries(i: Any, j: Any) -> Any:
        nonlocal values
        values += len(i) * len(j)
        return K[np.ix_(i, j)]

    rng = np.random.default_rng(1)
    rows = thinned(entries, 3000, 30, np.random.RandomState(0))
    assert len(set(rows)) == 30
    others = [discrepancy(K, rng.choice(3000, 30, replace=False)) for _ in range(50)]
    assert discrepancy(K, rows) < min(others)
    assert len(set(thinned(entries, 3000, 700, np.random.RandomState(0)))) == 700
    assert values < 3000**2 / 5


def test_copies_and_a_zero_kernel() -> None:
    for K in (np.ones((20, 20)), np.zeros((20, 20))):
        rows = thinned(lambda i, j: K[np.ix_(i, j)], 20, 5, np.random.RandomState(0))  # noqa: B023
        assert len(set(rows)) == 5
