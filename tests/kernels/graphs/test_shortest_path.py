"""Shortest paths against Floyd and Warshall's method."""

from __future__ import annotations

import pytest
from numpy.testing import assert_array_equal

import graph_loops as loops
import mercer as mc

CASES = loops.random_cases(9, 25, loops=True)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_shortest_paths_equal_their_loop(labelled: bool, weighted: bool, directed: bool) -> None:
    parts = [p for p, use in (("labels", labelled), ("weights", weighted)) if use]
    graphs = [loops.as_graph(case, *parts, directed=directed) for case in CASES]
    counts = [
        loops.path_counts(
            case,
            case["labels"] if labelled else [0] * case["n"],
            loops.distances(case, weighted, directed),
        )
        for case in CASES
    ]
    k = mc.ShortestPath() if labelled else mc.ShortestPath(node_label=None)
    assert_array_equal(k(graphs), loops.product(counts))


def test_sums_of_weights_in_another_order_are_equal_lengths() -> None:
    ends = mc.ShortestPath()
    one = mc.Graph([(0, 1), (1, 2), (2, 3)], 4, "abba", edge_weights=[0.1, 0.2, 0.3])
    other = mc.Graph([(0, 1), (1, 2), (2, 3)], 4, "abba", edge_weights=[0.3, 0.2, 0.1])
    assert ends([one]).item() == ends([one], [other]).item()


def test_pairs_without_a_path_do_not_count() -> None:
    assert mc.ShortestPath()([mc.Graph([], 5, "aaaaa")]).tolist() == [[0.0]]
