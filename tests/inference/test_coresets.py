from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.inference import coresets, herding, thin

X = np.random.default_rng(0).normal(size=(200, 2))


def discrepancy(K: Any, rows: Any) -> float:
    w = -np.full(len(K), 1 / len(K))
    np.add.at(w, rows, 1 / len(rows))
    return float(np.sqrt(w @ K @ w))


@pytest.mark.parametrize("choose", [thin, herding])
def test_discrepancies_are_those_of_the_matrix(choose: Any) -> None:
    coreset = choose(X, 12, mc.RBF(), random_state=0)
    K = mc.RBF()(X)
    assert coreset.discrepancy == pytest.approx(discrepancy(K, coreset.indices))
    assert coreset.discrepancy < 0.5 * coreset.random_discrepancy
    np.testing.assert_array_equal(coreset.points.data, X[coreset.indices])
    assert "12 rows with a maximum mean discrepancy of" in str(coreset)
    assert repr(coreset).startswith("Coreset(12 rows")


def test_herding_is_greedy() -> None:
    K = mc.RBF()(X[:30])
    chosen: list[int] = []
    for _ in range(6):
        rest = [i for i in range(30) if i not in chosen]
        chosen.append(min(rest, key=lambda i: discrepancy(K, [*chosen, i])))
    assert herding(X[:30], 6, mc.RBF(), random_state=0).indices.tolist() == chosen


def test_many_rows_are_compared_with_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coresets, "_REFERENCE", 150)
    full = thin(X, 12, mc.RBF(), random_state=0)
    assert full.discrepancy == pytest.approx(discrepancy(mc.RBF()(X), full.indices), abs=0.1)


def test_objects_and_bad_input() -> None:
    words = ["ab", "ba", "aab", "bab", "cc", "ccc"]
    assert len(thin(words, 3, mc.Spectrum(1).normalized(), random_state=0).points.data) == 3
    with pytest.raises(mc.exceptions.ParameterError, match="thin: k = 7 exceeds the 6 rows"):
        thin(words, 7, mc.Spectrum(1))
    with pytest.raises(mc.exceptions.ParameterError, match="herding: k = 0"):
        herding(words, 0, mc.Spectrum(1))
