"""Graphs of other libraries: networkx, pairs as GraKeL takes them, adjacency, PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.graphs.graph import Graph


@dataclass(frozen=True)
class Names:
    """What is read of the graphs of other libraries."""

    node_label: Hashable = None
    edge_label: Hashable = None
    edge_weight: Hashable = None
    node_attributes: Any = None


def as_graph(item: Any, names: Names) -> Graph:
    """A graph of any library as a `Graph`."""
    if isinstance(item, Graph):
        return item
    if isinstance(item, list | tuple) and 1 <= len(item) <= 3:
        return _from_parts(item, names)
    if hasattr(item, "is_directed") and hasattr(item, "adj"):
        return _from_networkx(item, names)
    if hasattr(item, "edge_index"):
        return _from_geometric(item, names)
    if sp.issparse(item) or (isinstance(item, np.ndarray) and item.ndim == 2):
        return _from_parts((item,), names)
    raise DataTypeError(
        f"an object of type {type(item).__name__} is not a graph; pass a list of graphs: "
        "mercer.Graph, networkx graphs, (edges, labels), adjacency matrices, or Data of PyTorch "
        "Geometric."
    )


def _from_networkx(source: Any, names: Names) -> Graph:
    if source.is_multigraph():
        raise DataTypeError(
            "a networkx multigraph may have several edges between two nodes, which no kernel here "
            "takes; pass networkx.Graph(G)."
        )
    index = {name: i for i, name in enumerate(source)}
    edges = list(source.edges(data=True))
    ends = [(index[u], index[v]) for u, v, _ in edges]
    of_nodes = [values for _, values in source.nodes(data=True)]
    of_edges = [values for _, _, values in edges]
    weights = None
    if names.edge_weight is not None and any(names.edge_weight in values for values in of_edges):
        # The rule of networkx: an edge without a weight has weight 1.
        weights = [values.get(names.edge_weight, 1.0) for values in of_edges]
    graph = Graph(
        ends,
        len(index),
        _named(of_nodes, names.node_label, "node"),
        _named(of_edges, names.edge_label, "edge"),
        _attributes(of_nodes, names.node_attributes),
        weights,
        source.is_directed(),
    )
    graph.names = tuple(index)
    return graph


def _named(items: list[dict[Any, Any]], name: Hashable, what: str) -> list[Any] | None:
    """One attribute of all nodes or edges; None if none has it."""
    if name is None or not any(name in values for values in items):
        return [] if name is not None and not items else None
    for i, values in enumerate(items):
        if name not in values:
            raise DataError(
                f"{what} {i} has no attribute {name!r}, but others have; give it to all of them."
            )
    return [values[name] for values in items]


def _attributes(items: list[dict[Any, Any]], names: Any) -> Any:
    """Numbers of all nodes, from one attribute or from several."""
    parts = [_named(items, name, "node") for name in _listed(names)]
    return None if not parts or any(part is None for part in parts) else _table(parts)


def _listed(names: Any) -> list[Any]:
    """One name or several as a list; none for None."""
    return [] if names is None else list(names) if isinstance(names, tuple) else [names]


def _table(parts: list[Any]) -> Any:
    """Numbers or vectors of all nodes side by side."""
    try:
        columns = [np.asarray(part, dtype=float) for part in parts]
        if any(column.ndim not in (1, 2) for column in columns):
            raise ValueError
    except (TypeError, ValueError):
        raise DataTypeError(
            "node_attributes are not numbers, or not vectors of one length; pass such attributes, "
            "or use a kernel of labels."
        ) from None
    return np.concatenate([c if c.ndim == 2 else c[:, None] for c in columns], axis=1)


def _from_geometric(source: Any, names: Names) -> Graph:
    """A graph from tensors: those that the names say, otherwise `x` and `edge_attr`."""
    ends = np.asarray(source.edge_index).astype(np.int64).T
    held = set(map(tuple, ends.tolist()))

    def tensor(name: Any, default: str) -> Any:
        value = getattr(source, str(name), getattr(source, default, None))
        return None if name is None or value is None else np.asarray(value)

    # Where attributes are read, labels are not the same numbers again.
    default = "x" if names.node_attributes is None else ""
    parts = [tensor(name, "x") for name in _listed(names.node_attributes)]
    count = getattr(source, "num_nodes", None)
    return Graph(
        ends,
        None if count is None else int(count),
        tensor(names.node_label, default),
        tensor(names.edge_label, "edge_attr"),
        None if not parts or any(part is None for part in parts) else _table(parts),
        tensor(names.edge_weight, "edge_weight"),
        any((v, u) not in held for u, v in held),
    )


def _from_parts(parts: Any, names: Names) -> Graph:
    """A graph from (edges or adjacency, node labels, edge labels); labels are optional."""
    edges, labels, edge_labels = (*parts, None, None)[:3]
    directed, weights = False, None
    if _is_adjacency(edges, labels):
        edges = sp.csr_array(edges)
        directed = bool((abs(edges - edges.T) > 0).nnz)
        nodes: Any = range(edges.shape[0])
    else:
        pairs, weights = _edges(edges, labels)
        nodes = _nodes(pairs, labels)
        edges, edge_labels = _numbered(pairs, edge_labels, nodes)
    if isinstance(labels, dict):
        labels = [labels[name] for name in nodes]
    values = (labels, None) if names.node_attributes is None else (None, labels)
    count = len(nodes) if labels is None else None
    return Graph(edges, count, values[0], edge_labels, values[1], weights, directed)


def _is_adjacency(edges: Any, labels: Any) -> bool:
    """Whether an array is an adjacency matrix: a square one with a row for each label is."""
    if not isinstance(edges, np.ndarray) or edges.ndim != 2 or edges.shape[1] != 2:
        return hasattr(edges, "shape") and len(edges.shape) == 2
    return len(edges) == (2 if labels is None else len(labels)) == 2


def _edges(edges: Any, labels: Any) -> tuple[Any, list[float] | None]:
    """Pairs of nodes, and their weights, from a dict or a collection of pairs or triples."""
    if isinstance(edges, dict):
        if all(isinstance(key, tuple) and len(key) == 2 for key in edges):
            return list(edges), list(edges.values())
        return [(u, v) for u, near in edges.items() for v in near], [
            near[v] if isinstance(near, dict) else 1.0 for near in edges.values() for v in near
        ]
    if isinstance(edges, np.ndarray):
        edges = edges.tolist()
    items: list[Any] = list(edges) if isinstance(edges, list | tuple | set | frozenset) else [()]
    widths = set(map(len, items)) if set(map(type, items)) <= {list, tuple} else {0}
    # Three lists of three numbers, with three labels, may be a matrix as well.
    rows = len(items) if labels is not None and set(map(type, items)) == {list} else 0
    unclear = widths == {3} and rows == 3 == len(labels)
    if unclear or (not widths <= {2} and widths != {3}):
        raise DataTypeError(
            f"edges = {edges!r:.60} are not a collection of pairs of nodes, or of triples with a "
            "weight; pass tuples, or an adjacency matrix as an array."
        )
    if widths <= {2}:
        return items, None
    return [item[:2] for item in items], [item[2] for item in items]


def _nodes(pairs: list[Any], labels: Any) -> Any:
    """The nodes: those with a label, or those of the edges where there are no labels."""
    if isinstance(labels, dict):
        return list(labels)
    if labels is not None:
        return range(len(labels))
    return list(dict.fromkeys(chain.from_iterable(pairs)))


def _numbered(pairs: list[Any], edge_labels: Any, nodes: Any) -> tuple[Any, Any]:
    """Pairs, and labels by pair, with numbers in the place of the names of nodes."""
    if list(nodes) == list(range(len(nodes))):
        return pairs, edge_labels
    index = {name: i for i, name in enumerate(nodes)}
    try:
        if isinstance(edge_labels, dict):
            edge_labels = {(index[u], index[v]): c for (u, v), c in edge_labels.items()}
        return [(index[u], index[v]) for u, v in pairs], edge_labels
    except KeyError as error:
        raise DataError(
            f"node {error.args[0]!r} has an edge, but no label; give every node a label."
        ) from None
