"""Random walks against the inverse of the matrix of the product graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import graph_loops as loops
import mercer as mc
from mercer.exceptions import DataError

CASES = loops.random_cases(13, 15, loops=True)


def by_inverse(a: Any, b: Any, weight: float, labels: bool, weighted: bool) -> float:
    W = np.kron(loops.adjacency(a, weighted), loops.adjacency(b, weighted))
    if labels:
        alike = np.array([x == y for x in a["labels"] for y in b["labels"]], bool)
        W = W[np.ix_(alike, alike)]
    return float(np.linalg.solve(np.eye(len(W)) - weight * W, np.ones(len(W))).sum())


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_walks_equal_the_inverse_of_the_product_graph(labels: bool, weighted: bool) -> None:
    parts = [p for p, use in (("labels", labels), ("weights", weighted)) if use]
    graphs = [loops.as_graph(case, *parts) for case in CASES]
    kernel = mc.RandomWalk(0.002, node_label="label" if labels else None)
    wanted = [[by_inverse(a, b, 0.002, labels, weighted) for b in CASES] for a in CASES]
    assert_allclose(kernel(graphs), wanted, rtol=1e-12)
    assert_allclose(kernel(graphs[:4], graphs), wanted[:4], rtol=1e-12)
    assert_allclose(kernel.diag(graphs), np.diag(wanted), rtol=1e-12)


def test_walks_along_equal_edge_labels_count_alone() -> None:
    a = mc.Graph([(0, 1)], edge_labels=["x"])
    b = mc.Graph([(0, 1)], edge_labels=["y"])
    k = mc.RandomWalk(0.5, edge_label="label")
    assert_allclose(k([a, b]), [[8.0, 4.0], [4.0, 8.0]], rtol=1e-14)


def test_sums_that_diverge_are_refused() -> None:
    star = mc.Graph([(0, i) for i in range(1, 5)])  # the largest eigenvalue is 2
    assert mc.RandomWalk(0.2499)([star]).item() > 0
    with pytest.raises(DataError, match=r"the sum over walks diverges; pass a weight below 0\.25"):
        mc.RandomWalk(0.2501)([star])
    with pytest.raises(DataError, match=r"RandomWalk: weight = 0\.3"):
        mc.RandomWalk(0.3, node_label="label")([mc.Graph(star.edges, 5, "aaaaa")])
