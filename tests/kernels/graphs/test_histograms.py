"""Counts of labels."""

from __future__ import annotations

from collections import Counter

import pytest
from numpy.testing import assert_array_equal

import graph_loops as loops
import mercer as mc
from mercer.exceptions import DataError

CASES = loops.random_cases(5, 20, loops=True)


def test_vertex_histograms_equal_their_loop() -> None:
    wanted = loops.product([Counter(case["labels"]) for case in CASES])
    assert_array_equal(mc.VertexHistogram()([loops.as_graph(c, "labels") for c in CASES]), wanted)
    loaded = [loops.as_graph(c, "labels", "edge_labels", "weights", directed=True) for c in CASES]
    assert_array_equal(mc.VertexHistogram()(loaded), wanted)


def test_edge_histograms_equal_their_loop() -> None:
    wanted = loops.product([Counter(case["edge_labels"]) for case in CASES])
    for directed in (False, True):
        graphs = [loops.as_graph(c, "edge_labels", directed=directed) for c in CASES]
        assert_array_equal(mc.EdgeHistogram()(graphs), wanted)


def test_an_edge_counts_once() -> None:
    both = mc.Graph([(0, 1), (1, 0)], edge_labels=["x", "x"])
    assert mc.EdgeHistogram()([both]).tolist() == [[1.0]]
    arrows = mc.Graph([(0, 1), (1, 0)], edge_labels=["x", "x"], directed=True)
    assert mc.EdgeHistogram()([arrows]).tolist() == [[4.0]]


def test_edge_weights_of_networkx_are_refused_by_edge_histograms() -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(DataError, match="edge weights, which this kernel does not use"):
        mc.EdgeHistogram("bond")([nx.Graph([(0, 1, {"bond": 1, "weight": 2.5})])])
