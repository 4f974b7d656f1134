"""Propagation of attributes against dense matrices."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import graph_loops as loops
import mercer as mc
from mercer.exceptions import ParameterError

CASES = loops.random_cases(14, 15, loops=True)


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_of_bins_equal_their_loop(weighted: bool) -> None:
    depth, width = 3, 0.4
    rng = np.random.default_rng(5)
    shifts = rng.uniform(size=depth + 1)
    directions = rng.normal(size=(depth + 1, 2)) / width
    counts = []
    for case in CASES:
        A = loops.adjacency(case, weighted)
        isolated = A.sum(axis=1) == 0
        A[isolated, isolated] = 1
        T = A / A.sum(axis=1, keepdims=True)
        X, bins = case["attributes"], Counter()
        for t in range(depth + 1):
            bins.update((t, int(s)) for s in np.floor(X @ directions[t] + shifts[t]))
            X = T @ X
        counts.append(bins)
    parts = ("attributes", "weights") if weighted else ("attributes",)
    k = mc.Propagation(depth, width, random_state=5)
    assert_array_equal(k([loops.as_graph(c, *parts) for c in CASES]), loops.product(counts))


def test_wide_bins_hold_all_nodes_and_narrow_ones_tell_all_apart() -> None:
    graph = mc.Graph([], node_attributes=np.arange(4.0))
    assert mc.Propagation(0, 1e9)([graph]).item() == 16
    assert mc.Propagation(0, 1e-9)([graph]).item() == 4


def test_numbers_of_attributes_that_differ_have_nothing_in_common() -> None:
    one, two = (mc.Graph([], node_attributes=np.zeros((1, d))) for d in (1, 2))
    assert mc.Propagation(0, 1e9)([one], [two]).item() == 0


def test_attributes_have_to_be_named() -> None:
    with pytest.raises(ParameterError, match="node_attributes = None"):
        mc.Propagation(node_attributes=None)([mc.Graph([(0, 1)])])
