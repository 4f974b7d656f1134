"""Approximate leverage scores against exact ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from mercer.exceptions import ParameterError
from mercer.landmarks.leverage import inclusion_probabilities, leverage_scores

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
# A crowd and a few that stand apart, whose scores differ by far.
X = np.concatenate([RNG.normal(size=(290, 2)), RNG.uniform(-8, 8, size=(10, 2))])
K = np.exp(-cdist(X, X, "sqeuclidean") / 8)


def exact_scores(alpha: float) -> Array:
    return np.diag(np.linalg.solve(K + alpha * np.eye(300), K))


@pytest.mark.parametrize("by_entries", [False, True])
@pytest.mark.parametrize(("alpha", "n_samples"), [(0.1, 150), (1.0, 120), (10.0, 60)])
def test_estimates_are_within_the_theoretical_factors(
    alpha: float, n_samples: int, by_entries: bool
) -> None:
    # By Musco and Musco (2017) the factors hold if the weighted sample approximates the ridged
    # matrix within a half; the sizes here make failure unlikely, and the seeds are fixed.
    exact = exact_scores(alpha)
    entries = (lambda rows, cols: K[np.ix_(rows, cols)]) if by_entries else None
    for seed in range(5):
        found = leverage_scores(
            lambda cols: K[:, cols],
            K.diagonal(),
            alpha,
            n_samples=n_samples,
            rng=seed,
            entries=entries,
        )
        ratios = found / exact
        assert ratios.min() >= 2 / 3
        assert ratios.max() <= 2
        assert np.ptp(ratios) > 1e-6  # it is a sample, not all rows


def test_enough_samples_give_the_exact_scores() -> None:
    found = leverage_scores(lambda cols: K[:, cols], K.diagonal(), 0.5, n_samples=300, rng=0)
    np.testing.assert_allclose(found, exact_scores(0.5), rtol=1e-8)


def test_the_default_number_of_samples_grows_with_the_degrees_of_freedom() -> None:
    asked: list[int] = []

    def columns(cols: Any) -> Array:
        asked.append(len(cols))
        return K[:, cols]

    found = leverage_scores(columns, K.diagonal(), 100.0, rng=0)
    ratios = found / exact_scores(100.0)
    assert ratios.min() >= 2 / 3
    assert ratios.max() <= 2
    assert asked[-1] < 150


def test_degenerate_scores() -> None:
    zero = np.zeros((400, 400))
    assert not leverage_scores(lambda cols: zero[:, cols], zero.diagonal(), 1.0, rng=0).any()
    one = np.ones((1, 1))
    scores = leverage_scores(lambda cols: one[:, cols], one.diagonal(), 1.0, rng=0)
    assert scores.tolist() == pytest.approx([0.5])


@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf])
def test_the_ridge_is_positive(alpha: float) -> None:
    with pytest.raises(ParameterError, match="finite number > 0"):
        leverage_scores(lambda cols: K[:, cols], K.diagonal(), alpha)


def test_inclusion_probabilities_sum_to_the_size() -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        n = int(rng.integers(1, 30))
        scores = rng.gamma(0.3, size=n) * (rng.random(n) < 0.8)
        size = int(rng.integers(1, n + 1))
        chances = inclusion_probabilities(scores, size)
        assert chances.sum() == pytest.approx(min(size, np.count_nonzero(scores)))
        assert ((chances >= 0) & (chances <= 1)).all()
        open_ = (chances < 1) & (scores > 0)
        ratios = chances[open_] / scores[open_]
        assert not len(ratios) or np.allclose(ratios, ratios[0])
