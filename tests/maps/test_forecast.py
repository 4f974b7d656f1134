"""Features that do not fit into memory are refused before they are made."""

from __future__ import annotations

import pytest
from scipy import sparse

from mercer import features, memory
from mercer.exceptions import MemoryForecastError
from monte_carlo import points


def test_features_that_do_not_fit_are_refused_with_the_bytes() -> None:
    X = points(1000, 100)
    with pytest.raises(MemoryForecastError, match=r"columns needs .* (T|P)iB, but only .* kernel"):
        features.polynomial_features(X, 8)
    with pytest.raises(MemoryForecastError, match=r"10\^48 columns"):
        features.monomial_features(X, 2)
    with pytest.raises(MemoryForecastError):
        features.monomial_features(points(2, 2000), 9)
    with pytest.raises(MemoryForecastError):
        features.polynomial_names(100, 8)
    with pytest.raises(MemoryForecastError):
        features.monomial_names(100, 2)
    with pytest.raises(MemoryForecastError):
        features.TaylorRBF(degree=10).fit(X).transform(X)


def test_the_forecast_asks_how_much_memory_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    A = points(100, 30)
    monkeypatch.setattr(memory, "available", lambda: 100 * 900 * 8 - 1)
    with pytest.raises(MemoryForecastError, match="900 columns"):
        features.tensor_product(A, A)
    with pytest.raises(MemoryForecastError, match="90000 entries"):
        features.tensor_product(sparse.csr_array(A), A)
    assert features.tensor_product(A[:50], A[:50]).shape == (50, 900)
