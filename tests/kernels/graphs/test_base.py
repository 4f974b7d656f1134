"""What all kernels on graphs share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

import graph_loops as loops
import mercer as mc
from mercer.exceptions import DataError, ParameterError
from mercer.testing import check_kernel

#: Kernels with the parts of a graph that they read.
KERNELS = [
    (mc.VertexHistogram(), ("labels",)),
    (mc.EdgeHistogram(), ("edge_labels",)),
    (mc.WeisfeilerLehman(3), ("labels", "edge_labels")),
    (mc.WeisfeilerLehman(2, node_label=None), ()),
    (mc.WeisfeilerLehman(3, "assignment"), ("labels", "edge_labels")),
    (mc.WeisfeilerLehman(2, "shortest_path"), ("labels", "weights")),
    (mc.ShortestPath(), ("labels", "weights")),
    (mc.ShortestPath(None, node_attributes="x"), ("attributes", "weights")),
    (mc.ShortestPath(node_attributes="x"), ("labels", "attributes")),
    (mc.Graphlet(3), ()),
    (mc.Graphlet(4), ()),
    (mc.Graphlet(5, samples=10_000), ()),
    (mc.RandomWalk(0.001), ("weights",)),
    (mc.RandomWalk(0.001, node_label="label"), ("labels", "edge_labels", "weights")),
    (mc.Propagation(3, 0.5), ("attributes", "weights")),
]
kernels = pytest.mark.parametrize(("kernel", "parts"), KERNELS, ids=lambda k: repr(k)[:60])


def test_every_kernel_on_graphs_is_among_the_examples() -> None:
    public = (value for value in map(mc.__dict__.get, mc.__all__) if isinstance(value, type))
    of_graphs = {k for k in public if k.__module__.startswith("mercer.kernels.graphs")}
    nodes = {mc.Diffusion, mc.RegularizedLaplacian, mc.CommuteTime, mc.PStepRandomWalk}
    assert of_graphs - {mc.Graph} - nodes == {type(kernel) for kernel, _ in KERNELS}


def made(seed: int, parts: tuple[str, ...], count: int = 12) -> list[mc.Graph]:
    return [loops.as_graph(case, *parts) for case in loops.random_cases(seed, count, loops=True)]


@kernels
def test_kernels_on_graphs_keep_the_contract(kernel: mc.Kernel, parts: tuple[str, ...]) -> None:
    graphs = [*made(0, parts), loops.as_graph(loops.random_cases(1, 1)[0] | EMPTY, *parts)]
    check_kernel(kernel, graphs, Z=made(2, parts, 5))
    check_kernel(kernel.normalized(), graphs)


EMPTY: dict[str, Any] = {
    "n": 0,
    "edges": [],
    "labels": [],
    "edge_labels": [],
    "weights": [],
    "attributes": np.empty((0, 2)),
}


@kernels
@pytest.mark.parametrize("seed", range(5))
def test_the_numbers_of_nodes_do_not_matter(
    kernel: mc.Kernel, parts: tuple[str, ...], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    cases = loops.random_cases(seed, loops=True)
    K = kernel([loops.as_graph(case, *parts) for case in cases])
    L = kernel([loops.as_graph(loops.permuted(case, rng), *parts) for case in cases])
    assert_allclose(L, K, rtol=1e-12)


@kernels
def test_matrices_are_positive_semi_definite(kernel: mc.Kernel, parts: tuple[str, ...]) -> None:
    assert kernel.is_psd
    for seed in range(10):
        K = kernel(made(seed, parts, 20))
        values = np.linalg.eigvalsh(K)
        assert values[0] >= -1e-12 * max(values[-1], 1.0)


@kernels
def test_the_number_of_threads_changes_nothing(kernel: mc.Kernel, parts: tuple[str, ...]) -> None:
    graphs = [
        loops.as_graph(case, *parts)
        for case in loops.random_cases(8, 60, most=30)
        if len(case["edges"]) < 150
    ]
    # Enough for several threads: samples and walks cost more than labels and paths.
    expensive = isinstance(kernel, mc.RandomWalk) or getattr(kernel, "size", 0) == 5
    many = (10 if expensive else 100) * graphs
    with mc.threads(1):
        one = kernel(many, graphs[:5])
    with mc.threads(3):
        assert_array_equal(kernel(many, graphs[:5]), one)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_graphs_in_a_data_frame_beside_numbers(make: Any) -> None:
    graphs = made(3, ("labels",))
    size = np.arange(12.0)
    frame = make({"graph": np.array([*graphs, None], object)[:-1], "size": size})
    k = mc.WeisfeilerLehman(2).normalized().on("graph") * mc.RBF(2.0).on("size")
    wanted = mc.WeisfeilerLehman(2).normalized()(graphs) * mc.RBF(2.0)(size[:, None])
    assert_allclose(k(frame), wanted)


def test_estimators_and_searches_take_graphs() -> None:
    graphs = made(4, ("labels",), 40)
    y = np.array([len(graph.edges) > 4 for graph in graphs])
    kernel = mc.WeisfeilerLehman(1).normalized()
    grid = {"kernel__depth": [0, 2], "kernel__base": ["subtree", "assignment"], "C": [1.0, 10.0]}
    search = GridSearchCV(mc.SVC(kernel), grid, cv=3).fit(graphs, y)
    assert search.best_score_ > 0.7
    ridge = mc.KernelRidge(kernel, solver=mc.solvers.NystromSolver(10)).fit(graphs, y.astype(float))
    assert ridge.predict(graphs).shape == (40,)
    both = mc.KernelRidge(kernel + mc.RandomWalk(0.001)).fit(graphs, y.astype(float))
    assert both.predict(graphs[:3]).shape == (3,)


def test_labels_that_only_test_graphs_have_count_in_the_normalisation() -> None:
    train = mc.Graph([(0, 1)], node_labels=["a", "b"])
    test = mc.Graph([(0, 1)], node_labels=["a", "new"])
    assert_allclose(mc.VertexHistogram().normalized()([test], [train]), [[0.5]])
    for kernel in (mc.WeisfeilerLehman(2), mc.ShortestPath()):
        own = kernel([test]).item() * kernel([train]).item()
        K = kernel.normalized()([test], [train])
        assert_allclose(K, kernel([test], [train]) / np.sqrt(own))


#: GraKeL takes no isolated nodes in an edge dictionary.
CONNECTED = [
    case
    for case in loops.random_cases(7, 40, most=10)
    if case["n"] and len({u for edge in case["edges"] for u in edge}) == case["n"]
]


def pairs_of(parts: tuple[str, ...]) -> list[tuple[Any, ...]]:
    """The cases as GraKeL takes them: weights by arc, values of nodes, labels by arc."""
    pairs = []
    for case in CONNECTED:
        values = case["attributes"] if "attributes" in parts else case["labels"]
        arcs = [(u, v, i) for u, v, i in loops.arcs(case)]
        weights = {(u, v): case["weights"][i] if "weights" in parts else 1 for u, v, i in arcs}
        labels = {(u, v): case["edge_labels"][i] for u, v, i in arcs}
        pair = (weights, dict(enumerate(values)))
        pairs.append((*pair, labels) if "edge_labels" in parts else pair)
    return pairs


@pytest.mark.parametrize(
    ("kernel", "parts", "name", "options"),
    [
        (mc.VertexHistogram(), ("labels",), "VertexHistogram", {}),
        (mc.WeisfeilerLehman(3), ("labels",), "WeisfeilerLehman", {"n_iter": 3}),
        (
            mc.WeisfeilerLehman(3, "assignment"),
            ("labels",),
            "WeisfeilerLehmanOptimalAssignment",
            {"n_iter": 3},
        ),
        (mc.ShortestPath(), ("labels", "weights"), "ShortestPath", {}),
        (mc.ShortestPath(None), (), "ShortestPath", {"with_labels": False}),
        (
            mc.ShortestPath(None, node_attributes="x", attribute_kernel=mc.Linear()),
            ("attributes",),
            "ShortestPathAttr",
            {},
        ),
        (mc.RandomWalk(0.005), (), "RandomWalk", {"lamda": 0.005, "method_type": "baseline"}),
    ],
)
def test_matrices_equal_those_of_grakel(
    kernel: mc.Kernel, parts: tuple[str, ...], name: str, options: Any
) -> None:
    theirs = getattr(pytest.importorskip("grakel.kernels"), name)(**options)
    K = kernel([loops.as_graph(case, *parts) for case in CONNECTED])
    assert_allclose(K, theirs.fit_transform(pairs_of(parts)), rtol=1e-9, atol=1e-9)


def test_matrices_differ_from_those_of_grakel_by_known_terms() -> None:
    kernels = pytest.importorskip("grakel.kernels")
    # An edge is there counted once in each direction.
    K = mc.EdgeHistogram()([loops.as_graph(case, "edge_labels") for case in CONNECTED])
    assert_allclose(4 * K, kernels.EdgeHistogram().fit_transform(pairs_of(("edge_labels",))))
    # Pairs of nodes with different labels are there walks of length 0.
    graphs = [loops.as_graph(case, "labels") for case in CONNECTED]
    sizes = np.array([graph.n_nodes for graph in graphs])
    different = np.outer(sizes, sizes) - mc.VertexHistogram()(graphs)
    theirs = kernels.RandomWalkLabeled(lamda=0.005, method_type="baseline")
    L = theirs.fit_transform(pairs_of(("labels",)))
    assert_allclose(mc.RandomWalk(0.005, node_label="label")(graphs) + different, L)


PARTS = {
    "edge labels": mc.Graph([(0, 1)], node_labels="ab", edge_labels=[1]),
    "edge weights": mc.Graph([(0, 1)], node_labels="ab", edge_weights=[2.0]),
    "directed edges": mc.Graph([(0, 1)], node_labels="ab", directed=True),
}


@pytest.mark.parametrize(
    ("kernel", "refused"),
    [
        (mc.EdgeHistogram(), ["edge weights"]),
        (mc.WeisfeilerLehman(), ["edge weights"]),
        (mc.WeisfeilerLehman(base="assignment"), ["edge weights"]),
        (mc.WeisfeilerLehman(base="shortest_path"), ["directed edges"]),
        (mc.ShortestPath(), ["edge labels"]),
        (mc.Graphlet(), ["edge labels", "edge weights", "directed edges"]),
        (mc.RandomWalk(), ["edge labels", "directed edges"]),
        (mc.RandomWalk(node_label="label"), ["directed edges"]),
        (mc.Propagation(), ["edge labels", "directed edges"]),
    ],
)
def test_parts_that_a_kernel_does_not_use_are_refused(kernel: mc.Kernel, refused: Any) -> None:
    for what in refused:
        with pytest.raises(DataError, match=f"graph 0 has {what}, which this kernel does not use"):
            kernel([PARTS[what]])


def test_parts_that_a_kernel_needs_are_asked_for() -> None:
    plain = mc.Graph([(0, 1)])
    for kernel in (mc.VertexHistogram(), mc.WeisfeilerLehman(), mc.ShortestPath()):
        with pytest.raises(DataError, match="graph 0 has no node labels"):
            kernel([plain])
    with pytest.raises(DataError, match="graph 0 has no edge labels"):
        mc.EdgeHistogram()([plain])
    with pytest.raises(DataError, match="graph 0 has no node attributes"):
        mc.Propagation()([plain])
    with pytest.raises(DataError, match=r"^SVC: graph 1 has no node labels"):
        mc.SVC(mc.WeisfeilerLehman()).fit([mc.Graph([], 1, "a"), plain], [0, 1])
    with pytest.raises(DataError, match=r"graph 0 has an edge that is given twice"):
        mc.ShortestPath()([mc.Graph([(0, 1), (1, 0)], 2, "ab", edge_weights=[1, 2])])


def test_names_of_attributes_are_parameters() -> None:
    kernel = mc.WeisfeilerLehman()
    assert kernel.replace(node_label=None) == mc.WeisfeilerLehman(node_label=None)
    with pytest.raises(ParameterError, match=r"node_label = \{\} is not the name of an attribute"):
        mc.WeisfeilerLehman(node_label={})


def test_a_single_graph_is_no_collection() -> None:
    nx = pytest.importorskip("networkx")
    with pytest.raises(DataError, match="an object of type int64 is not a graph"):
        mc.WeisfeilerLehman()(nx.path_graph(3))
    assert_array_equal(mc.Graphlet(3)([nx.path_graph(3)]), [[1.0]])
