"""Kernels on the nodes of one graph against functions of the Laplacian."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import expm
from sklearn.model_selection import GridSearchCV

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.testing import check_kernel

RNG = np.random.default_rng(15)
EDGES = [(u, v) for u in range(9) for v in range(u) if RNG.uniform() < 0.35]
WEIGHTS = RNG.uniform(0.5, 2.0, size=len(EDGES))
GRAPH = mc.Graph([*EDGES, (3, 3)], 10, edge_weights=[*WEIGHTS, 1.5])  # node 9 is alone
NODES = np.arange(10)[:, None]


def laplacians() -> tuple[np.ndarray, np.ndarray]:
    A = np.zeros((10, 10))
    for (u, v), w in zip(EDGES, WEIGHTS, strict=True):
        A[u, v] = A[v, u] = w
    A[3, 3] = 1.5
    d = A.sum(axis=1)
    L = np.diag(d) - A
    root = np.diag([x**-0.5 if x else 0.0 for x in d])
    return L, root @ L @ root


L, N = laplacians()
IDENTITY = np.eye(10)
KERNELS = [
    (mc.Diffusion(GRAPH, 0.7), expm(-0.7 * L)),
    (mc.Diffusion(GRAPH, 0.7, "normalized"), expm(-0.7 * N)),
    (mc.RegularizedLaplacian(GRAPH, 0.3), np.linalg.inv(IDENTITY + 0.3 * L)),
    (mc.RegularizedLaplacian(GRAPH, 0.3, "normalized"), np.linalg.inv(IDENTITY + 0.3 * N)),
    (mc.CommuteTime(GRAPH), np.linalg.pinv(L)),
    (mc.PStepRandomWalk(GRAPH, 2.5, 3), np.linalg.matrix_power(2.5 * IDENTITY - N, 3)),
]
kernels = pytest.mark.parametrize(("kernel", "wanted"), KERNELS, ids=lambda k: repr(k)[:40])


@kernels
def test_kernels_on_nodes_are_functions_of_the_laplacian(kernel: Any, wanted: Any) -> None:
    assert_allclose(kernel(NODES), wanted, atol=1e-12)
    assert_allclose(kernel([4, 0], [7]), wanted[np.ix_([4, 0], [7])], atol=1e-12)
    assert_allclose(kernel.diag(NODES), np.diag(wanted), atol=1e-12)
    check_kernel(kernel, NODES.astype(object))


def test_nodes_of_networkx_graphs_have_names() -> None:
    nx = pytest.importorskip("networkx")
    source = nx.Graph([("rome", "milan"), ("milan", "turin")])
    k = mc.Diffusion(source)
    path = mc.Diffusion(mc.Graph([(0, 1), (1, 2)]))
    assert_allclose(k(["turin", "rome"]), path([2, 0]))
    model = mc.KernelRidge(k, alpha=0.1).fit(["rome", "turin"], [1.0, -1.0])
    assert_allclose(model.predict(["milan"]), [0.0], atol=1e-12)


def test_the_time_of_diffusion_can_be_searched() -> None:
    y = np.sin(np.arange(10.0))
    search = GridSearchCV(mc.KernelRidge(mc.Diffusion(GRAPH)), {"kernel__beta": [0.1, 1.0]}, cv=2)
    assert search.fit(NODES, y).best_params_["kernel__beta"] in (0.1, 1.0)


def test_commute_times_of_a_path_are_known() -> None:
    """Between the ends of a path of n edges the commute time is 2 n^2."""
    K = mc.CommuteTime(mc.Graph([(i, i + 1) for i in range(6)]))([0, 6])
    assert_allclose(12 * (K[0, 0] + K[1, 1] - 2 * K[0, 1]), 2 * 36)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mc.Diffusion(mc.Graph([(0, 1)], directed=True)), "the graph has directed edges"),
        (lambda: mc.Diffusion(mc.Graph([(0, 1)], edge_labels=["x"])), "the graph has edge labels"),
        (lambda: mc.Diffusion(mc.Graph([])), "the graph has 0 nodes; the kernel takes 1 to 10,000"),
        (lambda: mc.Diffusion(mc.Graph([], 10_001)), "the graph has 10001 nodes"),
        (lambda: mc.Diffusion(3), "graph: an object of type int is not a graph"),
        (lambda: mc.Diffusion(GRAPH)([10]), "10 is not a node of the graph"),
        (lambda: mc.Diffusion(GRAPH)([[0.5]]), "0.5 is not a node of the graph"),
        (lambda: mc.Diffusion(GRAPH)(["rome"]), "rome is not a node of the graph"),
    ],
)
def test_what_is_no_graph_or_no_node_is_refused(make: Any, message: str) -> None:
    with pytest.raises(DataError, match=f"^Diffusion: .*{message}"):
        make()


def test_a_walk_must_stay_positive() -> None:
    with pytest.raises(ParameterError, match=r"a = 1\.5 does not satisfy a >= 2"):
        mc.PStepRandomWalk(GRAPH, 1.5)
