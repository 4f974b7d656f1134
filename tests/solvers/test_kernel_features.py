"""Features that stand for a kernel: whose they are, and how near they come to it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_array
from sklearn.kernel_approximation import RBFSampler

import mercer as mc
from mercer.exceptions import NoFeatureMapError, ParameterError

S = mc.solvers
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]


def model(kernel: Any, map_kernel: Any, **settings: Any) -> mc.KernelRidge:
    fourier = mc.RandomFourier(map_kernel, n_components=300, random_state=0)
    return mc.KernelRidge(kernel, 0.1, solver=S.RandomFeatures(fourier), **settings)


@pytest.mark.parametrize("other", [mc.RBF(0.5), mc.Matern(2.0), 2 * mc.RBF(2.0), mc.RBF("median")])
def test_a_map_of_another_kernel_is_refused(other: Any) -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge: the map of RandomFeatures has kernel"):
        model(mc.RBF(2.0), other).fit(X, Y)
    with pytest.raises(ParameterError, match="leave the kernel of the map out"):
        model(mc.RBF(2.0), other).path(X, Y, [0.1, 1.0])


def test_a_map_without_a_kernel_takes_the_models() -> None:
    given = model(mc.Matern(2.0), mc.Matern(2.0)).fit(X, Y)
    left_out = model(mc.Matern(2.0), None).fit(X, Y)
    assert left_out.feature_map_.kernel_ == mc.Matern(2.0)
    assert_allclose(left_out.predict(X), given.predict(X))
    # The model's kernel is found by heuristics before the map is made.
    assert model(None, None).fit(X, Y).feature_map_.kernel_ == mc.KernelRidge().fit(X, Y).kernel_
    with pytest.raises(NoFeatureMapError):
        model(mc.Linear(), None).fit(X, Y)


def test_length_scales_are_searched_with_features_of_each() -> None:
    found = model(mc.RBF(1.0), None, length_scales=[0.01, 1.0, 100.0]).fit(X, Y)
    assert found.kernel_ == found.feature_map_.kernel_ == mc.RBF(1.0)
    assert len(set(found.search_errors_.min(axis=1).tolist())) == 3
    with pytest.raises(ParameterError, match="leave the kernel of the map out"):
        model(mc.RBF(1.0), mc.RBF(1.0), length_scales=[0.01, 1.0]).fit(X, Y)


def test_the_error_of_the_kernel_is_that_on_pairs_of_rows() -> None:
    found = model(mc.RBF(1.0), None).fit(X, Y)
    phi, kernel = found.feature_map_.transform(X), mc.RBF(1.0)(X)
    expected = np.linalg.norm(phi @ phi.T - kernel) / np.linalg.norm(kernel)
    assert found.kernel_error_ == pytest.approx(expected, rel=1e-10)  # 200 rows are no sample


def test_the_error_falls_as_the_features_grow_in_number() -> None:
    # Draws are independent, so that the error has mean about c / sqrt(m): ratio 4 from m to 16 m.
    # With 20 draws at each m, a ratio outside 3 to 5 is 5 standard errors away: below 1e-5.
    def error(m: int) -> float:
        maps = [mc.RandomFourier(None, m, method="iid", random_state=s) for s in range(20)]
        fits = [mc.KernelRidge(mc.RBF(1.0), solver=S.RandomFeatures(f)).fit(X, Y) for f in maps]
        return float(np.mean([fit.kernel_error_ for fit in fits]))

    assert 3 < error(20) / error(320) < 5


def test_a_map_of_another_library_is_judged_by_its_error() -> None:
    right, wrong = (RBFSampler(gamma=g, n_components=2000, random_state=0) for g in (0.5, 50.0))
    fits = [mc.KernelRidge(mc.RBF(1.0), solver=S.RandomFeatures(m)) for m in (right, wrong)]
    assert fits[0].fit(X, Y).kernel_error_ < 0.1
    assert fits[1].fit(X, Y).kernel_error_ > 0.5


# Graphs, as lists of neighbours of nodes, whose labels are those of all nodes that they reach.
Graph = list[list[int]]


class Labels(mc.FeatureKernel):
    """Counts of the labels of nodes after steps of Weisfeiler and Lehman."""

    def features(self, objects: list[Any]) -> Any:
        counts = [
            Counter(label for step in range(3) for label in relabelled(g, step)) for g in objects
        ]
        keys = sorted(set().union(*counts))
        table = csr_array([[float(count[key]) for key in keys] for count in counts])
        return table, np.array(keys)


def relabelled(graph: Graph, steps: int) -> list[str]:
    labels = ["." for _ in graph]
    for _ in range(steps):
        near = [sorted(labels[j] for j in neighbours) for neighbours in graph]
        labels = [f"{own}({','.join(n)})" for own, n in zip(labels, near, strict=True)]
    return labels


def random_graph(rng: np.random.Generator) -> Graph:
    n = int(rng.integers(2, 6))
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.5]
    return [[j for j in range(n) if (i, j) in edges or (j, i) in edges] for i in range(n)]


@pytest.mark.parametrize("kind", ["ridge", "process", "machine"])
def test_features_of_graphs_are_those_of_their_kernel(kind: str) -> None:
    rng = np.random.default_rng(3)
    graphs = [random_graph(rng) for _ in range(60)]
    others = [
        random_graph(rng) for _ in range(20)
    ]  # some have labels that do not occur in training
    y = np.array([sum(map(len, graph)) for graph in graphs]) + rng.normal(size=60)

    def fitted(solver: Any) -> Any:
        if kind == "ridge":
            return mc.KernelRidge(Labels(), 0.3, solver=solver).fit(graphs, y)
        if kind == "process":
            held = {"noise": 0.3, "learn": False}
            return mc.GaussianProcessRegressor(Labels(), **held, solver=solver).fit(graphs, y)
        return mc.KernelHuberRegressor(Labels(), alpha=0.3, solver=solver).fit(graphs, y)

    exact = fitted(S.Cholesky())
    assert_allclose(fitted(S.Primal()).predict(others), exact.predict(others), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("model", "arguments"),
    [
        (mc.KernelRidge, {}),
        (mc.KernelLogisticRegression, {}),
        (mc.KernelQuantileRegressor, {}),
        (mc.GaussianProcessRegressor, {"return_std": True}),
    ],
)
def test_a_model_that_holds_a_map_warns_of_missing_names_once(model: Any, arguments: Any) -> None:
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(float)
    solver = mc.solvers.RandomFeatures(mc.RandomFourier(n_components=10, random_state=0))
    fitted = model(mc.RBF(1.0), solver=solver).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    with pytest.warns(UserWarning, match="valid feature names") as caught:
        fitted.predict(X, **arguments)
    assert len(caught) == 1
