"""Graphs of other libraries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import mercer as mc
from mercer.exceptions import DataError, DataTypeError

LABELS = {"x": "a", "y": "b", "z": "a"}
GRAPH = mc.Graph([(0, 1), (1, 2)], node_labels=["a", "b", "a"], edge_labels=[7, 8])
WL = mc.WeisfeilerLehman(3)


@pytest.mark.parametrize(
    "item",
    [
        ([("x", "y"), ("y", "z")], LABELS, {("x", "y"): 7, ("z", "y"): 8}),
        ({("x", "y"), ("y", "z")}, LABELS, {("x", "y"): 7, ("y", "z"): 8}),
        ({"x": ["y"], "y": ["x", "z"], "z": ["y"]}, LABELS, {("x", "y"): 7, ("y", "z"): 8}),
        ({"x": {"y": 1.0}, "y": {"z": 1.0}}, LABELS, {("x", "y"): 7, ("y", "z"): 8}),
        ({("x", "y"): 1, ("y", "z"): 1}, LABELS, {("x", "y"): 7, ("y", "z"): 8}),
        ([(0, 1), (1, 2)], ["a", "b", "a"], [7, 8]),
        ([(0, 1, 1.0), (1, 2, 1.0)], {0: "a", 1: "b", 2: "a"}, [7, 8]),
        (sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), ["a", "b", "a"], [7, 7, 8, 8]),
        (np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]), ["a", "b", "a"], [7, 7, 8, 8]),
    ],
)
def test_pairs_of_edges_and_labels_are_graphs(item: Any) -> None:
    assert_array_equal(WL([item], [GRAPH]), WL([GRAPH]))
    assert_array_equal(WL([item, item]), np.full((2, 2), WL([GRAPH]).item()))


def test_adjacency_matrices_are_graphs() -> None:
    A = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    k = mc.WeisfeilerLehman(3, node_label=None)
    wanted = k([mc.Graph([(0, 1), (1, 2)])]).item()
    for matrices in ([A, A], [A.astype(float)] * 2, np.stack([A, A]), [sp.csr_array(A)] * 2):
        assert_array_equal(k(matrices), np.full((2, 2), wanted))
    directed = np.array([[0, 1], [0, 0]])
    assert_array_equal(k([directed]), k([mc.Graph([(0, 1)], directed=True)]))


def test_networkx_graphs_are_read_by_the_names_of_attributes() -> None:
    nx = pytest.importorskip("networkx")
    source = nx.Graph()
    for name, label in LABELS.items():
        source.add_node(name, label=label, kind=1, position=[0.0, 1.0], mass=2.0)
    source.add_edge("x", "y", bond=7)
    source.add_edge("y", "z", bond=8)
    plain = mc.Graph(GRAPH.edges, node_labels=["a", "b", "a"])
    assert_array_equal(WL([source]), WL([plain]))
    assert_array_equal(WL.replace(edge_label="bond")([source], [GRAPH]), WL([GRAPH]))
    alike = mc.Graph(GRAPH.edges, node_labels=[1, 1, 1])
    assert_array_equal(WL.replace(node_label="kind")([source]), WL([alike]))
    attributes = mc.Graph(GRAPH.edges, node_attributes=[[0.0, 1.0, 2.0]] * 3)
    k = mc.Propagation(node_attributes=["position", "mass"])
    assert_array_equal(k([source], [attributes]), k([attributes]))
    source["x"]["y"]["weight"] = 2.0
    weighted = mc.Graph(GRAPH.edges, node_labels=["a", "b", "a"], edge_weights=[2.0, 1.0])
    assert_array_equal(mc.ShortestPath()([source]), mc.ShortestPath()([weighted]))
    with pytest.raises(DataError, match="graph 0 has edge weights, which this kernel does not use"):
        WL([source])
    assert_array_equal(WL.replace(edge_weight=None)([source]), WL([plain]))
    arrows = mc.Graph([(0, 1)], node_labels=["a", "b"], directed=True)
    other = nx.DiGraph([("x", "y")])
    nx.set_node_attributes(other, LABELS, "label")
    assert_array_equal(WL([other]), WL([arrows]))


def test_networkx_graphs_that_are_incomplete_are_refused() -> None:
    nx = pytest.importorskip("networkx")
    source = nx.path_graph(3)
    with pytest.raises(DataError, match="graph 0 has no node labels; name their attribute"):
        WL([source])
    source.nodes[0]["label"] = "a"
    with pytest.raises(DataError, match="graph 0: node 1 has no attribute 'label', but others"):
        WL([source])
    with pytest.raises(DataTypeError, match=r"multigraph .*pass networkx\.Graph\(G\)"):
        WL([nx.MultiGraph([(0, 1), (0, 1)])])
    assert WL([nx.Graph(), nx.Graph()]).tolist() == [[0, 0], [0, 0]]


def geometric(edge_index: Any, **parts: Any) -> Any:
    return SimpleNamespace(edge_index=np.asarray(edge_index), **parts)


def test_data_of_pytorch_geometric_are_graphs() -> None:
    one_hot = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    both = [[0, 1, 1, 2], [1, 0, 2, 1]]
    source = geometric(both, x=one_hot, num_nodes=3, edge_attr=np.array([7, 7, 8, 8]))
    labelled = mc.Graph(GRAPH.edges, node_labels=one_hot)
    assert_array_equal(WL([source]), WL([labelled]))
    bonds = mc.Graph(GRAPH.edges, node_labels=one_hot, edge_labels=[7, 8])
    assert_array_equal(WL.replace(edge_label="edge_attr")([source], [bonds]), WL([bonds]))
    k = mc.Propagation(2)
    assert_array_equal(k([source]), k([mc.Graph(GRAPH.edges, node_attributes=one_hot)]))
    arrow = geometric([[0], [1]], x=None, num_nodes=2)
    k = mc.WeisfeilerLehman(1, node_label=None)
    assert_array_equal(k([arrow]), k([mc.Graph([(0, 1)], directed=True)]))
    with pytest.raises(DataError, match="no node labels"):
        WL([arrow])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "an object of type int is not a graph"),
        ("abc", "an object of type str is not a graph"),
        (([(0, 1)], ["a"]), "an edge has node 1, but the 1 nodes are numbered from 0"),
        (([("x", "q")], LABELS), "node 'q' has an edge, but no label"),
        (([(0, 1, 2, 3)], {0: 1}), "not a collection of pairs of nodes"),
        ((7, {0: 1}), "not a collection of pairs of nodes"),
        (([(0, 1)], {0: [1], 1: [2]}), "node_labels .*labels are numbers, strings"),
    ],
)
def test_what_is_no_graph_is_refused_by_its_place(item: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^WeisfeilerLehman: graph 1: .*{message}"):
        WL([GRAPH, item])


def test_a_list_may_hold_graphs_of_several_libraries() -> None:
    nx = pytest.importorskip("networkx")
    source = nx.Graph([("x", "y"), ("y", "z")])
    nx.set_node_attributes(source, LABELS, "label")
    plain = mc.Graph(GRAPH.edges, node_labels=["a", "b", "a"])
    K = WL([source, plain, ([("x", "y"), ("y", "z")], LABELS)])
    assert (K[0, 0] == K).all()
