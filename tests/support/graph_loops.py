"""Random graphs, and kernels on graphs as loops from their definitions.

A case is a plain dict: n nodes, a list of edges, labels of nodes, and labels and weights of edges.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations
from typing import Any

import numpy as np

import mercer as mc


def random_case(rng: np.random.Generator, most: int = 8, loops: bool = False) -> dict[str, Any]:
    n = int(rng.integers(0, most + 1))
    pairs = [(u, v) for u in range(n) for v in range(u if loops else u + 1, n)]
    share = rng.uniform(0, 0.8)
    edges = [pair for pair in pairs if rng.uniform() < share]
    return {
        "n": n,
        "edges": edges,
        "labels": rng.choice(["a", "b", "c"], size=n).tolist(),
        "edge_labels": rng.integers(2, size=len(edges)).tolist(),
        "weights": rng.integers(1, 4, size=len(edges)).astype(float).tolist(),
        "attributes": rng.normal(size=(n, 2)),
    }


def random_cases(seed: int, count: int = 12, **options: Any) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    return [random_case(rng, **options) for _ in range(count)]


def as_graph(case: dict[str, Any], *parts: str, directed: bool = False) -> mc.Graph:
    """A graph with some parts of a case: labels, edge_labels, weights, attributes."""
    return mc.Graph(
        case["edges"],
        case["n"],
        case["labels"] if "labels" in parts else None,
        case["edge_labels"] if "edge_labels" in parts else None,
        case["attributes"] if "attributes" in parts else None,
        case["weights"] if "weights" in parts else None,
        directed,
    )


def permuted(case: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """The same graph with other numbers of nodes, and edges in another order and direction."""
    place = rng.permutation(case["n"])
    order = rng.permutation(len(case["edges"]))
    edges = [tuple(place[list(case["edges"][i])].tolist()) for i in order]
    back = np.argsort(place)
    return {
        "n": case["n"],
        "edges": [e[::-1] if rng.uniform() < 0.5 else e for e in edges],
        "labels": [case["labels"][i] for i in back],
        "edge_labels": [case["edge_labels"][i] for i in order],
        "weights": [case["weights"][i] for i in order],
        "attributes": case["attributes"][back],
    }


def product(counts: list[Counter[Any]]) -> np.ndarray:
    """Inner products of counts."""
    return np.array([[sum(a[key] * b[key] for key in a) for b in counts] for a in counts], float)


def minima(counts: list[Counter[Any]]) -> np.ndarray:
    """Sums of minima of counts."""
    return np.array([[sum((a & b).values()) for b in counts] for a in counts], float)


def arcs(case: dict[str, Any], directed: bool = False) -> list[tuple[int, int, int]]:
    """All (from, to, edge); edges of undirected graphs both ways."""
    forward = [(u, v, i) for i, (u, v) in enumerate(case["edges"])]
    return forward if directed else forward + [(v, u, i) for u, v, i in forward if u != v]


def refined(
    case: dict[str, Any], depth: int, edge_labels: bool = False, directed: bool = False
) -> list[list[Any]]:
    """Labels of the rounds as nested tuples, which cannot be confused."""
    near = [(u, v, i, "out" if directed else "") for u, v, i in arcs(case, directed)]
    if directed:
        near += [(v, u, i, "in") for u, v, i in arcs(case, True) if u != v]
    rounds = [list(case["labels"])]
    for _ in range(depth):
        old = rounds[-1]
        around: list[list[Any]] = [[] for _ in range(case["n"])]
        for u, v, i, way in near:
            code = case["edge_labels"][i] if edge_labels else None
            around[u].append((way, code, old[v]))
        rounds.append([(old[u], tuple(sorted(around[u], key=repr))) for u in range(case["n"])])
    return rounds


def label_counts(rounds: list[list[Any]]) -> Counter[Any]:
    return Counter((t, label) for t, labels in enumerate(rounds) for label in labels)


def distances(case: dict[str, Any], weighted: bool = False, directed: bool = False) -> np.ndarray:
    """Floyd and Warshall's method."""
    d = np.full((case["n"], case["n"]), np.inf)
    np.fill_diagonal(d, 0)
    for u, v, i in arcs(case, directed):
        d[u, v] = min(d[u, v], case["weights"][i] if weighted else 1)
    for k in range(case["n"]):
        d = np.minimum(d, d[:, [k]] + d[[k], :])
    return d


def path_counts(case: dict[str, Any], labels: list[Any], d: np.ndarray) -> Counter[Any]:
    return Counter(
        (labels[u], labels[v], d[u, v])
        for u, v in permutations(range(case["n"]), 2)
        if np.isfinite(d[u, v])
    )


def adjacency(case: dict[str, Any], weighted: bool = False) -> np.ndarray:
    A = np.zeros((case["n"], case["n"]))
    for u, v, i in arcs(case):
        A[u, v] = case["weights"][i] if weighted else 1
    return A


def graphlet_counts(case: dict[str, Any], size: int) -> Counter[Any]:
    """Induced subgraphs by the smallest of their matrices."""
    A = adjacency(case)
    np.fill_diagonal(A, 0)
    orders = [list(order) for order in permutations(range(size))]
    types: Counter[Any] = Counter()
    for nodes in combinations(range(case["n"]), size):
        part = A[np.ix_(nodes, nodes)]
        types[min(part[np.ix_(order, order)].tobytes() for order in orders)] += 1
    return types
