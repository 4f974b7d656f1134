"""Counts of subgraphs against all subsets of nodes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import graph_loops as loops
import mercer as mc

CASES = loops.random_cases(10, 15, most=9, loops=True)


@pytest.mark.parametrize(("size", "types"), [(3, 4), (4, 11), (5, 34)])
def test_counts_equal_those_of_all_subsets(size: int, types: int) -> None:
    k = mc.Graphlet(size, samples=10_000)
    graphs = [loops.as_graph(case) for case in CASES]
    wanted = loops.product([loops.graphlet_counts(case, size) for case in CASES])
    assert_array_equal(k(graphs), wanted)
    assert k.feature_map(graphs).shape == (15, types)


def test_there_is_one_count_for_each_subset() -> None:
    rng = np.random.default_rng(11)
    graph = mc.Graph(rng.integers(200, size=(900, 2)), 200)
    for size, subsets in ((3, 1_313_400), (4, 64_684_950), (5, 2_535_650_040)):
        assert_allclose(mc.Graphlet(size).feature_map([graph]).sum(), subsets)


def test_samples_of_five_nodes_estimate_the_counts() -> None:
    rng = np.random.default_rng(12)
    pairs = [(u, v) for u in range(14) for v in range(u) if rng.uniform() < 0.4]
    graph = mc.Graph(pairs, 14)
    exact = mc.Graphlet(5, samples=2002).feature_map([graph])[0]
    drawn = mc.Graphlet(5, samples=2001).feature_map([graph])[0]
    assert (exact != drawn).any()
    shares = exact / exact.sum()
    errors = (drawn - exact) / exact.sum()
    assert (np.abs(errors) <= 6 * np.sqrt(shares * (1 - shares) / 2001) + 1e-12).all()
    other = mc.Graphlet(5, samples=2001, random_state=1).feature_map([graph])[0]
    assert (drawn != other).any()
