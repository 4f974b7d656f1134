"""Seeds of k-means++ against their distribution."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import chisquare

from mercer.landmarks.kmeans_plus_plus import far_seeds

Array = NDArray[np.floating[Any]]
FALSE_ALARM = 1e-4


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
    points = np.random.default_rng(0).normal(size=(10, 2))
    square = np.exp(-cdist(points, points, "sqeuclidean") / 8)
    gram = square[np.ix_(repeated, repeated)]
    seeds = far_seeds(lambda cols: gram[:, cols], gram.diagonal(), 150, rng=0)
    assert sorted(repeated[seeds].tolist()) == list(range(10))
