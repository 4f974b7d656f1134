"""Approximate leverage scores against exact ones; seeds against their distribution."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import chisquare

from mercer.exceptions import ParameterError
from mercer.landmarks.kmeans_plus_plus import far_seeds
from mercer.landmarks.leverage import inclusion_probabilities, leverage_scores

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
# A crowd and a few that stand apart, whose scores differ by far.
X = np.concatenate([RNG.normal(size=(290, 2)), RNG.uniform(-8, 8, size=(10, 2))])
K = np.exp(-cdist(X, X, "sqeuclidean") / 8)

FALSE_ALARM = 1e-4


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


# Seeds --------------------------------------------------------------------------------------------


def ordered_seeds(distances: Array, weights: Array) -> dict[tuple[int, ...], float]:
    """The probability of every sequence of three seeds: the definition of k-means++."""
    chances = {}
    for triple in permutations(range(len(weights)), 3):
        chance = weights[triple[0]] / weights.sum()
        for step in (1, 2):
            mass = weights * distances[:, triple[:step]].min(axis=1)
            chance *= mass[triple[step]] / mass.sum()
        chances[triple] = chance
    return chances


@pytest.mark.parametrize("weights", [None, np.array([1.0, 2.0, 0.5, 0.0, 3.0])])
def test_seeds_have_the_distribution_of_kmeans_plus_plus(weights: Array | None) -> None:
    points = np.array([[0.0, 0.0], [1.0, 0.0], [4.0, 1.0], [4.0, 2.0], [-3.0, 0.5]])
    gram = points @ points.T
    mass = np.ones(5) if weights is None else weights
    chances = ordered_seeds(cdist(points, points, "sqeuclidean"), mass)
    assert sum(chances.values()) == pytest.approx(1)
    rng, draws = np.random.default_rng(2), 2000
    seen = Counter(
        tuple(
            far_seeds(
                lambda cols: gram[:, cols], gram.diagonal(), 3, weights=weights, rng=rng
            ).tolist()
        )
        for _ in range(draws)
    )
    assert set(seen) <= {triple for triple, chance in chances.items() if chance > 0}
    expected = np.array([draws * chance for chance in chances.values()])
    observed = np.array([seen[triple] for triple in chances])
    rare = expected < 5
    expected = np.append(expected[~rare], expected[rare].sum())
    observed = np.append(observed[~rare], observed[rare].sum())
    assert chisquare(observed, expected).pvalue > FALSE_ALARM


def test_seeds_are_different_points() -> None:
    repeated = np.repeat(np.arange(10), 20)
    gram = K[np.ix_(repeated, repeated)]
    seeds = far_seeds(lambda cols: gram[:, cols], gram.diagonal(), 150, rng=0)
    assert sorted(repeated[seeds].tolist()) == list(range(10))
