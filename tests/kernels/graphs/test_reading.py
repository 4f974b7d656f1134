"""Graphs of other libraries."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import graph_loops as loops
import mercer as mc
from mercer import _core
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


@pytest.mark.parametrize("kind", ["ints", "strings", "both"])
@pytest.mark.parametrize("form", [list, dict])
def test_plain_pairs_equal_graphs(kind: str, form: Any) -> None:
    """Pairs of lists are read by the engine, all at once."""
    pairs, graphs = [], []
    for i, case in enumerate(loops.random_cases(5, 30, loops=True)):
        labels = case["labels"] if kind != "ints" else [ord(label) for label in case["labels"]]
        labels = list(range(case["n"])) if kind == "both" and i % 2 else labels
        edges = [*case["edges"], *(edge[::-1] for edge in case["edges"][:2])]
        pairs.append((edges, dict(enumerate(labels)) if form is dict else labels))
        graphs.append(mc.Graph(case["edges"], case["n"], labels))
    assert _core.plain_graphs(pairs) is not None
    for kernel in (WL, mc.ShortestPath(), mc.VertexHistogram(), mc.Graphlet(3)):
        assert_array_equal(kernel(pairs), kernel(graphs))
        assert_array_equal(kernel(pairs, graphs), kernel(graphs))
    assert_array_equal(WL.replace(node_label=None)(pairs), WL.replace(node_label=None)(graphs))


@pytest.mark.parametrize(
    "item",
    [
        3,
        None,
        [],
        ([(0, 1)],),
        ([(0, 1)], {1: "a", 0: "b"}),
        ([(0, 1)], {0: "a", 2**70: "b"}),
        ([(0, 1)], ("a", "b")),
        ([(0, True)], ["a", "b"]),
        ([(0, 2)], ["a", "b"]),
        ([(0, -1)], ["a", "b"]),
        ([(0, 2**64)], ["a", "b"]),
        ([(0,)], ["a", "b"]),
        ([7], ["a", "b"]),
        ({(0, 1)}, ["a", "b"]),
    ],
)
def test_objects_that_are_no_plain_pairs_are_left_to_python(item: Any) -> None:
    assert _core.plain_graphs([([(0, 1)], ["a", "b"]), item]) is None


def test_arrays_of_two_columns_are_edges_unless_they_are_square_with_two_labels() -> None:
    triangle = mc.Graph([(0, 1), (1, 2), (2, 0)], node_labels="aba")
    assert_array_equal(WL([(triangle.edges, list("aba"))], [triangle]), WL([triangle]))
    path = mc.Graph([(0, 1), (1, 2)], node_labels="aba")
    assert_array_equal(WL([(path.edges, list("aba"))], [path]), WL([path]))
    assert_array_equal(WL([(path.edges, np.array(["a", "b", "a"]))], [path]), WL([path]))
    single = mc.Graph([(0, 1)], node_labels="ab")
    assert_array_equal(WL([(np.array([[0, 1], [1, 0]]), list("ab"))], [single]), WL([single]))
    plain = WL.replace(node_label=None)
    five = mc.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (0, 4)])
    assert_array_equal(plain([triangle.edges, five.edges]), plain([triangle, five]))


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


@pytest.mark.parametrize("values", [{0: "a", 1: "b"}, {0: [1.0], 1: [1.0, 2.0]}, {0: {}, 1: {}}])
def test_attributes_that_are_no_vectors_are_refused(values: Any) -> None:
    nx = pytest.importorskip("networkx")
    source = nx.Graph([(0, 1)])
    nx.set_node_attributes(source, values, "position")
    with pytest.raises(DataTypeError, match="graph 0: node_attributes are not numbers, or not vec"):
        mc.Propagation(node_attributes="position")([source])


def test_networkx_graphs_without_nodes_have_attributes_too() -> None:
    nx = pytest.importorskip("networkx")
    source = nx.Graph([(0, 1)])
    nx.set_node_attributes(source, {0: [0.0, 1.0], 1: [1.0, 1.0]}, "position")
    for kernel in (
        mc.Propagation(2, node_attributes="position"),
        mc.ShortestPath(None, node_attributes="position"),
    ):
        K = kernel([nx.Graph(), source])
        assert K[1, 1] > 0
        assert not K[0].any()


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
    with pytest.raises(DataError, match="graph 0 has no edge labels"):
        WL.replace(edge_label="edge_attr")([geometric(both, x=one_hot, num_nodes=3)])
    arrow = geometric([[0], [1]], x=None, num_nodes=2)
    k = mc.WeisfeilerLehman(1, node_label=None)
    assert_array_equal(k([arrow]), k([mc.Graph([(0, 1)], directed=True)]))
    with pytest.raises(DataError, match="no node labels"):
        WL([arrow])


def test_tensors_of_pytorch_geometric_are_read_by_name() -> None:
    parts = {"x": np.eye(2), "z": np.array([6, 8]), "pos": np.array([[0.0, 1.0], [2.0, 3.0]])}
    source = geometric([[0, 1], [1, 0]], **parts)
    k = mc.WeisfeilerLehman(2, node_label="z")
    named = mc.Graph([(0, 1)], node_labels=[6, 8])
    assert_array_equal(k([source], [named]), k([named]))
    k = mc.ShortestPath(None, node_attributes=["x", "pos"])
    wide = mc.Graph([(0, 1)], node_attributes=np.c_[parts["x"], parts["pos"]])
    assert_array_equal(k([source], [wide]), k([wide]))
    k = mc.ShortestPath("z", node_attributes="pos")
    full = mc.Graph([(0, 1)], node_labels=[6, 8], node_attributes=parts["pos"])
    assert_array_equal(k([source], [full]), k([full]))
    with pytest.raises(DataError, match="no node labels"):  # and not x again
        k.replace(node_label="label")([source])


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "an object of type int is not a graph"),
        ("abc", "an object of type str is not a graph"),
        (([(0, 1)], ["a"]), "an edge has node 1, but the 1 nodes are numbered from 0"),
        (([("x", "q")], LABELS), "node 'q' has an edge, but no label"),
        (([(0, 2**70)], ["a", "b"]), "are not pairs of node numbers"),
        (([(0, 1)], ["a", None]), "None is missing; labels are numbers, strings"),
        ((np.zeros((3, 2)), ["a"]), "are not pairs of node numbers"),
        (([(0, 1, 2, 3)], {0: 1}), "not a collection of pairs of nodes"),
        (([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "abc"), "pass tuples, or an adjacency matrix"),
        (([[0, 1, 1, 0]] * 4, "abcd"), "pass tuples, or an adjacency matrix"),
        ((7, {0: 1}), "not a collection of pairs of nodes"),
        (([(0, 1)], {0: [1], 1: [2]}), "node_labels: .*labels are numbers, strings"),
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
