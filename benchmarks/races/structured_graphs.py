"""Kernels on graphs against GraKeL, and on the data sets of the TU collection.

Data sets are part of the benchmarks where ``MERCER_DATA`` names a folder with ``graphs/NCI1.npz``
and others. Run alone, as

    MERCER_DATA=/path python -m benchmarks.races.structured_graphs [--only MUTAG,NCI1]

it prints accuracies of ten-fold cross-validation. One protocol serves all data sets: ten stratified
folds, and C and the depth chosen by five stratified folds of the rows that are not left out.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

import mercer as mc
from benchmarks.environment import installed
from benchmarks.harness import Contestant, Outcome, Settings, at_least, at_most, race, speedup

Array = NDArray[Any]
#: Edges and labels of a graph, as both libraries are given them.
Raw = tuple[list[tuple[int, int]], dict[int, int]]

N = 300
LABELS = 5
DEPTH = 5
WALK_WEIGHT = 0.005
SECONDS = 2.0
CS = (0.01, 0.1, 1.0, 10.0, 100.0)
DEPTHS = (0, 1, 2, 3, 4, 5)
#: The least accuracy wanted of ten folds, where there is one.
ACCURACIES = {"MUTAG": 0.85, "ENZYMES": 0.50, "IMDB-BINARY": None, "PROTEINS": 0.73, "NCI1": 0.84}


def available() -> bool:
    """Whether GraKeL is installed."""
    return installed("grakel")


def races(settings: Settings) -> Iterator[Outcome]:
    """All races of this group."""
    graphs = _graphs(settings.size(N))
    subtrees = mc.WeisfeilerLehman(DEPTH)
    yield _race("Weisfeiler-Lehman, subtrees", subtrees, graphs, settings, 20.0)
    assignment = mc.WeisfeilerLehman(DEPTH, "assignment")
    yield _race("Weisfeiler-Lehman, assignment", assignment, graphs, settings, 50.0)
    yield _race("ShortestPath", mc.ShortestPath(), graphs, settings, 20.0)
    yield _race("Graphlet, 4 nodes", mc.Graphlet(4), graphs, settings, 10.0)
    yield _race("RandomWalk", mc.RandomWalk(WALK_WEIGHT), graphs, settings, 50.0)
    if "MERCER_DATA" not in os.environ:
        return
    for name in ("NCI1", "IMDB-BINARY"):
        yield _seconds(name, settings)
    if not settings.quick:
        yield from map(_accuracy, ACCURACIES)


def _graphs(n: int) -> list[Raw]:
    """Connected graphs of 20 to 40 nodes: trees and about half as many edges more."""
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(n):
        size = int(rng.integers(20, 41))
        edges = {(int(rng.integers(v)), v) for v in range(1, size)}
        for u, v in np.sort(rng.integers(size, size=(size // 2, 2)), axis=1).tolist():
            edges |= {(u, v)} if u != v else set()
        graphs.append((sorted(edges), dict(enumerate(rng.integers(LABELS, size=size).tolist()))))
    return graphs


def _peers() -> dict[str, Callable[[], Any]]:
    """The kernels of GraKeL; samples of 4 nodes in the place of all."""
    from grakel import kernels

    walk = partial(kernels.RandomWalk, lamda=WALK_WEIGHT, method_type="fast")
    return {
        "Weisfeiler-Lehman, subtrees": partial(kernels.WeisfeilerLehman, n_iter=DEPTH),
        "Weisfeiler-Lehman, assignment": partial(
            kernels.WeisfeilerLehmanOptimalAssignment, n_iter=DEPTH
        ),
        "ShortestPath": kernels.ShortestPath,
        "Graphlet, 4 nodes": partial(
            kernels.GraphletSampling, k=4, sampling={"n_samples": 100}, random_state=0
        ),
        "RandomWalk": walk,
    }


def _race(
    name: str, kernel: mc.Kernel, graphs: list[Raw], settings: Settings, wanted: float
) -> Outcome:
    """One Gram matrix, with the graphs made from edges and labels."""
    contestants = [Contestant("mercer", lambda: kernel(graphs))]
    if available():
        peer = _peers()[name]
        sampled = name.startswith("Graphlet")

        def run() -> Array | None:
            from grakel import Graph

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = [
                    Graph({(u, v): 1 for a, b in edges for u, v in ((a, b), (b, a))}, labels)
                    for edges, labels in graphs
                ]
                matrix = peer().fit_transform(theirs)
            return None if sampled else np.asarray(matrix, float)

        contestants.append(Contestant("GraKeL", run))
    times = race(contestants, settings)
    parameters = f"{len(graphs)} graphs of 20 to 40 nodes"
    if not available():
        seconds = times["mercer"]
        return Outcome(name, parameters, seconds, "-", None, seconds, figure_unit="s")
    note = "against 100 samples" if name.startswith("Graphlet") else ""
    target = None if settings.quick else at_least(wanted)
    return speedup(name, parameters, times, "GraKeL", target, note=note)


def load(name: str) -> tuple[list[mc.Graph], Array]:
    """The graphs of a data set with their labels, and classes."""
    with np.load(Path(os.environ["MERCER_DATA"]) / "graphs" / f"{name}.npz") as file:
        data = dict(file)
    starts, edges = data["ptr"].astype(np.int64), data["edges"].astype(np.int64)
    owner = np.searchsorted(starts, edges[:, 0], side="right") - 1
    cuts = np.searchsorted(owner, np.arange(len(starts)))
    labels, edge_labels = data.get("node_label"), data.get("edge_label")
    graphs = []
    for g in range(len(starts) - 1):
        nodes, some = slice(starts[g], starts[g + 1]), slice(cuts[g], cuts[g + 1])
        graphs.append(
            mc.Graph(
                edges[some] - starts[g],
                int(starts[g + 1] - starts[g]),
                None if labels is None else labels[nodes],
                None if edge_labels is None else edge_labels[some],
            )
        )
    return graphs, data["y"]


def _kernel(graphs: list[mc.Graph]) -> mc.Kernel:
    labelled = any(graph.node_labels is not None for graph in graphs)
    return mc.WeisfeilerLehman(DEPTH, node_label="label" if labelled else None)


def _seconds(name: str, settings: Settings) -> Outcome:
    """The Gram matrix of all graphs of a data set, on two threads."""
    graphs, _ = load(name)
    kernel = _kernel(graphs)
    own = race([Contestant("mercer", lambda: kernel(graphs), threads=2)], settings)["mercer"]
    parameters = f"{name}, {len(graphs)} graphs, depth {DEPTH}"
    target = at_most(SECONDS)
    return Outcome(
        "Weisfeiler-Lehman, subtrees", parameters, own, "-", None, own, target, 2, figure_unit="s"
    )


def accuracies(name: str) -> Array:
    """Accuracies of all folds; C and depth are chosen by folds inside each."""
    graphs, y = load(name)
    kernel = _kernel(graphs).normalized()
    matrices = [kernel.replace(depth=depth)(graphs) for depth in DEPTHS]
    scores = []
    for train, test in _folds(10).split(y, y):
        machine = mc.SVC("precomputed")
        searches = [
            machine.path(K[np.ix_(train, train)], y[train], CS, cv=_folds(5)) for K in matrices
        ]
        best = int(np.argmax([search.best_score_ for search in searches]))
        values = matrices[best][np.ix_(test, train)]
        scores.append(searches[best].score(values, y[test]))
    return np.array(scores)


def _folds(count: int) -> StratifiedKFold:
    return StratifiedKFold(count, shuffle=True, random_state=0)


def _accuracy(name: str) -> Outcome:
    scores = accuracies(name)
    mean, wanted = float(scores.mean()), ACCURACIES[name]
    return Outcome(
        "SVC with WeisfeilerLehman, accuracy of 10 folds",
        f"{name}, C and depth by 5 inner folds",
        mean,
        "",
        None,
        mean,
        None if wanted is None else at_least(wanted),
        unit="",
        figure_unit="",
        note=f"standard deviation {scores.std():.3f}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the accuracies."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.races.structured_graphs")
    parser.add_argument("--only", default=",".join(ACCURACIES), help="a choice of the data")
    for name in parser.parse_args(arguments).only.split(","):
        scores = accuracies(name)
        print(f"{name}: {scores.mean():.4f} +- {scores.std():.4f}", flush=True)


if __name__ == "__main__":
    main()
