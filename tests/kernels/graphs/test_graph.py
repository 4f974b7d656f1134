"""The class of graphs."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

import mercer as mc
from mercer.exceptions import DataError


def test_a_graph_says_what_it_has() -> None:
    graph = mc.Graph(
        [(0, 1)], 3, "abc", ["x"], [[0.0], [1.0], [2.0]], edge_weights=[2.0], directed=True
    )
    assert repr(graph) == (
        "Graph(3 nodes, 1 edges, node_labels, edge_labels, node_attributes, edge_weights, directed)"
    )


def test_the_number_of_nodes_comes_from_labels_attributes_or_edges() -> None:
    assert mc.Graph([(0, 1)], node_labels="abc").n_nodes == 3
    assert mc.Graph([], node_attributes=[1.0, 2.0]).n_nodes == 2
    assert mc.Graph([(0, 4)]).n_nodes == 5
    assert mc.Graph([]).n_nodes == 0
    assert mc.Graph(np.empty((0, 2))).n_nodes == 0


def test_labels_and_weights_may_be_given_by_node_and_by_pair() -> None:
    listed = mc.Graph([(0, 1), (1, 2)], 3, "abc", [5, 6], edge_weights=[2.0, 3.0])
    by_name = mc.Graph(
        [(0, 1), (1, 2)],
        3,
        {2: "c", 0: "a", 1: "b"},
        {(2, 1): 6, (0, 1): 5},
        edge_weights={(1, 0): 2.0, (1, 2): 3.0},
    )
    assert by_name == listed
    assert hash(by_name) == hash(listed)
    assert by_name != mc.Graph([(0, 1), (1, 2)], 3, "abd", [5, 6], edge_weights=[2.0, 3.0])


def test_weights_of_one_are_no_weights() -> None:
    assert mc.Graph([(0, 1)], edge_weights=[1.0]).edge_weights is None


def test_a_sparse_adjacency_matrix_is_a_graph() -> None:
    graph = mc.Graph(sp.csr_array([[0, 2, 0], [2, 0, 1], [0, 1, 0]]))
    assert graph.n_nodes == 3
    assert_array_equal(graph.edges, [[0, 1], [1, 0], [1, 2], [2, 1]])
    assert_array_equal(graph.edge_weights, [2, 2, 1, 1])


def test_graphs_are_pickled() -> None:
    graph = mc.Graph([(0, 1)], node_labels=["a", "b"])
    assert pickle.loads(pickle.dumps(graph)) == graph


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([(0, 1, 2)],), "are not pairs of node numbers"),
        (([("a", "b")],), "are not pairs of node numbers"),
        ((3,), "are not pairs of node numbers"),
        (([(0, 3)], 2), "an edge has node 3, but the 2 nodes are numbered from 0"),
        (([(-1, 0)],), "an edge has node -1"),
        (([], -1), "n_nodes = -1 is not a count"),
        (([(0, 1)], 2, ["a"]), "node_labels has length 1, but there are 2 nodes"),
        (([(0, 1)], 2, {0: "a"}), "node 1 has no value"),
        (([(0, 1)], 2, None, []), "edge_labels has length 0, but there are 1 edges"),
        (([(0, 1)], 2, None, {(0, 2): 1}), r"edge \(0, 1\) has no value"),
        (([(0, 1)], 2, None, None, [[np.nan], [0.0]]), "the attributes of node 0 hold NaN"),
        (([(0, 1)], 2, None, None, "ab"), "are not a table of numbers"),
        (([(0, 1)], 2, None, None, None, [-1.0]), "an edge has weight -1"),
        (([(0, 1)], 2, None, None, None, ["x"]), "are not numbers"),
        ((sp.csr_array([[0, 1]]),), "it must be square"),
        ((sp.csr_array([[0, 1], [0, 0]]),), "is not symmetric; pass directed=True"),
        ((sp.csr_array([[0, 1], [1, 0]]), None, None, None, None, [1.0]), "store them in"),
    ],
)
def test_what_is_no_graph_is_refused(arguments: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^Graph: .*{message}"):
        mc.Graph(*arguments)
