"""Leading eigenpairs against the dense decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.exceptions import NumericalWarning
from mercer.linalg import eigenpairs
from mercer.linalg.eigenpairs import leading_eigenpairs

RNG = np.random.default_rng(0)


def matrix(values: np.ndarray) -> np.ndarray:
    axes = np.linalg.qr(RNG.normal(size=(len(values), len(values))))[0]
    return (axes * values) @ axes.T


@pytest.mark.parametrize(
    "values",
    [
        0.5 ** np.arange(300.0),
        1 / (1 + np.arange(300.0)),
        np.linspace(1, 2, 300),
        np.r_[np.ones(5), np.zeros(295)],
        np.linspace(-1, 1, 300),
    ],
    ids=["geometric", "harmonic", "even", "low rank", "indefinite"],
)
def test_values_and_vectors_are_those_of_the_matrix(values: np.ndarray) -> None:
    A = matrix(values)
    found, vectors = leading_eigenpairs(lambda V: A @ V, 300, 4, np.random.RandomState(0))
    np.testing.assert_allclose(found, np.sort(values)[::-1][:4], atol=1e-9)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-10)
    np.testing.assert_allclose(A @ vectors, vectors * found, atol=1e-8)


def test_few_rows_are_decomposed_as_a_whole() -> None:
    A = matrix(np.arange(1.0, 9.0))
    found, _ = leading_eigenpairs(lambda V: A @ V, 8, 3, np.random.RandomState(0))
    np.testing.assert_allclose(found, [8, 7, 6])


def test_a_search_that_stops_short_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eigenpairs, "_MAX_ITER", 2)
    A = matrix(np.linspace(1, 2, 300))
    with pytest.warns(NumericalWarning, match="after 2 products"):
        leading_eigenpairs(lambda V: A @ V, 300, 4, np.random.RandomState(0))
