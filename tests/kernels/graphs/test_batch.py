"""Many graphs as one sparse matrix."""

from __future__ import annotations

import pytest
from numpy.testing import assert_array_equal

import mercer as mc
from mercer.exceptions import DataError
from mercer.kernels.graphs.batch import GraphBatch


def test_graphs_are_blocks_of_one_matrix() -> None:
    first = mc.Graph([(0, 1), (1, 0), (2, 2)], node_labels=[5, 6, 7], edge_weights=[2, 2, 3])
    second = mc.Graph([(1, 0)], node_labels=[8, 9], directed=True)
    batch = GraphBatch.of([first, mc.Graph([]), second], labels=True)
    assert_array_equal(batch.starts, [0, 3, 3])
    assert_array_equal(batch.ends, [3, 3, 5])
    assert_array_equal(batch.indptr, [0, 1, 2, 3, 3, 4])
    assert_array_equal(batch.neighbours, [1, 0, 2, 3])
    assert_array_equal(batch.labels, [5, 6, 7, 8, 9])
    assert_array_equal(batch.weights, [2, 2, 3, 1])
    assert batch.codes is None


def test_both_arcs_of_a_directed_edge_have_codes_of_their_own() -> None:
    arrows = mc.Graph([(0, 1), (1, 0)], directed=True)
    batch = GraphBatch.of([arrows], "all")
    assert_array_equal(batch.neighbours, [1, 1, 0, 0])
    assert batch.codes is not None
    assert len(set(batch.codes.tolist())) == 2
    assert set(batch.codes[:2].tolist()) == set(batch.codes[2:].tolist())
    assert_array_equal(GraphBatch.of([arrows], "none").neighbours, [1, 0])


def test_subsets_share_arrays() -> None:
    batch = GraphBatch.of([mc.Graph([(0, 1)]), mc.Graph([(0, 1), (1, 2)])])
    taken = batch.take([1])
    assert len(taken) == 1
    assert taken.neighbours is batch.neighbours
    assert_array_equal(taken.starts, [2])


@pytest.mark.parametrize(
    ("graph", "what"),
    [
        (mc.Graph([(0, 1), (1, 0)], edge_labels=[1, 2]), "labels"),
        (mc.Graph([(0, 1), (0, 1)], edge_weights=[1, 2]), "weights"),
    ],
)
def test_copies_of_an_edge_must_agree(graph: mc.Graph, what: str) -> None:
    with pytest.raises(DataError, match=f"graph 1 has an edge that is given twice .*{what}"):
        GraphBatch.of([mc.Graph([]), graph])
