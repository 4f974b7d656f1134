"""Shortest paths against Floyd and Warshall's method."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import graph_loops as loops
import mercer as mc
from mercer import memory
from mercer.exceptions import (
    DataError,
    MemoryForecastError,
    NoFeatureMapError,
    ParameterError,
)
from mercer.kernels.graphs import shortest_path

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


def attributed(left: dict[str, Any], right: dict[str, Any], kernel: Any, **kinds: bool) -> float:
    """The sum over all pairs of paths, one of each graph."""
    ends = kernel(np.r_[left["attributes"], right["attributes"]])[: left["n"], left["n"] :]
    if kinds.pop("labelled"):
        ends = ends * (np.array(left["labels"])[:, None] == np.array(right["labels"])[None, :])
    near, far = (loops.distances(case, **kinds) for case in (left, right))
    return sum(
        ends[u, s] * ends[v, t]
        for u, v in permutations(range(left["n"]), 2)
        for s, t in permutations(range(right["n"]), 2)
        if np.isfinite(near[u, v]) and near[u, v] == far[s, t]
    )


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("directed", [False, True])
def test_paths_with_attributes_equal_their_loop(
    labelled: bool, weighted: bool, directed: bool
) -> None:
    kernel = mc.RBF(0.7) + 0.3 * mc.Linear()
    kinds = {"labelled": labelled, "weighted": weighted, "directed": directed}
    cases = loops.random_cases(10, 8, most=6, loops=True)
    parts = [p for p, use in (("labels", labelled), ("weights", weighted)) if use]
    graphs = [loops.as_graph(case, "attributes", *parts, directed=directed) for case in cases]
    wanted = [[attributed(a, b, kernel, **kinds) for b in cases] for a in cases]
    label = "label" if labelled else None
    k = mc.ShortestPath(label, node_attributes="x", attribute_kernel=kernel)
    assert_allclose(k(graphs), wanted, atol=1e-12)
    assert_allclose(k(graphs[:3], graphs[3:]), np.array(wanted)[:3, 3:], atol=1e-12)
    assert_allclose(k.diag(graphs), np.diag(wanted), atol=1e-12)


def test_equal_attributes_are_labels() -> None:
    kinds = np.array([[0.0], [50.0], [100.0]])
    graphs, labelled = [], []
    for case in CASES:
        rows = [kinds["abc".index(label)] for label in case["labels"]]
        graphs.append(mc.Graph(case["edges"], case["n"], node_attributes=np.reshape(rows, (-1, 1))))
        labelled.append(loops.as_graph(case, "labels"))
    k = mc.ShortestPath(None, node_attributes="kind")
    assert_allclose(k(graphs), mc.ShortestPath()(labelled))


def test_attributes_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = [loops.as_graph(case, "attributes") for case in CASES]
    k = mc.ShortestPath(None, node_attributes="x")
    K, L = k(graphs), k(graphs[:9], graphs)
    monkeypatch.setattr(shortest_path, "_MOST_NODES", 20)
    assert_allclose(k(graphs), K, rtol=1e-13)
    assert_allclose(k(graphs[:9], graphs), L, rtol=1e-13)


def test_graphs_with_attributes_have_no_features_but_are_learned_from() -> None:
    rng = np.random.default_rng(11)
    graphs = [
        mc.Graph([(i, i + 1) for i in range(5)], node_attributes=rng.normal(size=(6, 2)) + (i % 2))
        for i in range(40)
    ]
    y = np.arange(40) % 2
    k = mc.ShortestPath(None, node_attributes="x")
    with pytest.raises(NoFeatureMapError):
        k.feature_map(graphs)
    model = mc.SVC(k.normalized()).fit(graphs[:30], y[:30])
    assert model.score(graphs[30:], y[30:]) == 1.0
    ridge = mc.KernelRidge(k.normalized(), solver=mc.solvers.NystromSolver(20))
    assert ridge.fit(graphs[:30], y[:30].astype(float)).score(graphs[30:], y[30:]) > 0.5


def test_what_is_known_of_the_kernel_of_attributes_holds_for_graphs() -> None:
    k = mc.ShortestPath(node_attributes="x", attribute_kernel=mc.Sigmoid())
    assert k.is_psd == mc.Sigmoid().is_psd
    assert k.replace(node_attributes=None).is_psd
    with pytest.raises(ParameterError, match="attribute_kernel = 'rbf' is not a kernel"):
        mc.ShortestPath(attribute_kernel="rbf")


def test_attributes_of_other_numbers_are_refused() -> None:
    k = mc.ShortestPath(None, node_attributes="x")
    one, two = (mc.Graph([(0, 1)], node_attributes=np.zeros((2, d))) for d in (1, 2))
    with pytest.raises(DataError, match=r"1 attributes cannot be compared with .* have 2"):
        k([one], [two])
    with pytest.raises(DataError, match="ShortestPath: nodes have from 1 to 2 attributes"):
        k([one, two])


def test_distances_that_do_not_fit_in_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    long = np.c_[np.arange(19_999), np.arange(1, 20_000)]
    graph = mc.Graph(long, node_attributes=np.zeros((20_000, 1)))
    with pytest.raises(
        MemoryForecastError, match=r"all nodes of the graphs \(up to 20,000 nodes\)"
    ):
        mc.ShortestPath(None, node_attributes="x")([graph])
