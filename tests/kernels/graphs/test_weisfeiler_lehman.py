"""Weisfeiler-Lehman kernels against nested tuples."""

from __future__ import annotations

import os

import numpy as np
import pytest
from benchmarks.races.structured_graphs import load
from numpy.testing import assert_array_equal
from sklearn.model_selection import StratifiedKFold, cross_val_score

import graph_loops as loops
import mercer as mc

CASES = loops.random_cases(6, 20, loops=True)


@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("edge_labels", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_subtrees_and_assignments_equal_their_loops(
    depth: int, edge_labels: bool, directed: bool
) -> None:
    parts = ("labels", "edge_labels") if edge_labels else ("labels",)
    graphs = [loops.as_graph(case, *parts, directed=directed) for case in CASES]
    counts = [
        loops.label_counts(loops.refined(case, depth, edge_labels, directed)) for case in CASES
    ]
    k = mc.WeisfeilerLehman(depth)
    assert_array_equal(k(graphs), loops.product(counts))
    assert_array_equal(k(graphs[:3], graphs[3:]), loops.product(counts)[:3, 3:])
    assert_array_equal(k.replace(base="assignment")(graphs), loops.minima(counts))


@pytest.mark.parametrize("weighted", [False, True])
def test_shortest_paths_of_all_rounds_are_added(weighted: bool) -> None:
    wanted = np.zeros((len(CASES), len(CASES)))
    rounds = [loops.refined(case, 2) for case in CASES]
    lengths = [loops.distances(case, weighted) for case in CASES]
    for t in range(3):
        counts = [
            loops.path_counts(*item)
            for item in zip(CASES, [r[t] for r in rounds], lengths, strict=True)
        ]
        wanted += loops.product(counts)
    parts = ("labels", "weights") if weighted else ("labels",)
    graphs = [loops.as_graph(case, *parts) for case in CASES]
    assert_array_equal(mc.WeisfeilerLehman(2, "shortest_path")(graphs), wanted)


def test_without_labels_the_first_round_tells_degrees() -> None:
    k = mc.WeisfeilerLehman(1, node_label=None)
    star, path = mc.Graph([(0, 1), (0, 2), (0, 3)]), mc.Graph([(0, 1), (1, 2), (2, 3)])
    assert_array_equal(k([star, path]), [[16 + 10, 16 + 6], [16 + 6, 16 + 8]])
    labelled = mc.Graph(path.edges, node_labels="abcd")
    assert_array_equal(k([labelled], [star]), k([path], [star]))


def test_six_nodes_in_one_ring_or_in_two_are_not_told_apart() -> None:
    """The known limit of the test of Weisfeiler and Lehman; shortest paths see the difference."""
    ring = mc.Graph([(i, (i + 1) % 6) for i in range(6)], node_labels=[0] * 6)
    two = mc.Graph([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)], node_labels=[0] * 6)
    assert len(np.unique(mc.WeisfeilerLehman(5)([ring, two]))) == 1
    assert len(np.unique(mc.ShortestPath()([ring, two]))) > 1


@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA is not set: MUTAG")
def test_mutagenic_molecules_are_recognised() -> None:
    graphs, y = load("MUTAG")
    model = mc.SVC(mc.WeisfeilerLehman(2).normalized(), C=10.0)
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    assert cross_val_score(model, graphs, y, cv=folds).mean() >= 0.85
