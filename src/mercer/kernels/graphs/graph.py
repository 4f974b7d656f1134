"""One graph, as kernels read it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.checks import is_count
from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.graphs.labels import label_codes
from mercer.kernels.parameters import digest, same

#: Values of nodes or edges, in their order or by name.
Values = Sequence[Any] | dict[Any, Any] | Array | None


class Graph:
    """A graph of numbered nodes, with labels, attributes and weights where it has them.

    Edges are a set: a pair that is given twice, or in both directions of an undirected graph, is
    one edge. A self-loop makes a node its own neighbour, once. A graph may have no edges, or no
    nodes at all.

    Parameters
    ----------
    edges : sequence or set of pairs, array of shape (m, 2), or sparse matrix
        Pairs of node numbers from 0, or a square sparse adjacency matrix. Entries of the matrix
        that are not 1 are weights.
    n_nodes : int, optional
        Number of nodes. By default that of the labels or attributes, otherwise the largest node
        number plus 1.
    node_labels : sequence or dict, optional
        A label for each node: a number, a string, bytes, or a tuple of these.
    edge_labels : sequence or dict, optional
        A label for each edge, in the order of the edges; or by pair of nodes.
    node_attributes : array of shape (n_nodes, d), optional
        Numbers for each node.
    edge_weights : sequence or dict, optional
        A weight >= 0 for each edge.
    directed : bool, default=False
        Whether an edge leads from its first to its second node only.

    Attributes
    ----------
    edges : ndarray of shape (m, 2)
        Pairs of node numbers, as given.
    n_nodes : int
        Number of nodes.
    node_labels, edge_labels : ndarray of uint64, or None
        Codes of the labels.
    node_attributes : ndarray of shape (n_nodes, d), or None
        Numbers for each node.
    edge_weights : ndarray of shape (m,), or None
        Weights of the edges; None if all are 1.
    directed : bool
        Whether edges have a direction.
    names : tuple, or None
        Names of the nodes of a graph that was read from networkx.

    Examples
    --------
    >>> import mercer as mc
    >>> water = mc.Graph([(0, 1), (0, 2)], node_labels=["O", "H", "H"])
    >>> water
    Graph(3 nodes, 2 edges, node_labels)
    >>> mc.WeisfeilerLehman(depth=1)([water]).tolist()
    [[10.0]]
    """

    __slots__ = (
        "directed",
        "edge_labels",
        "edge_weights",
        "edges",
        "n_nodes",
        "names",
        "node_attributes",
        "node_labels",
    )

    def __init__(
        self,
        edges: Any,
        n_nodes: int | None = None,
        node_labels: Values = None,
        edge_labels: Values = None,
        node_attributes: Any = None,
        edge_weights: Values = None,
        directed: bool = False,
    ) -> None:
        self.names: tuple[Hashable, ...] | None = None
        self.directed = bool(directed)
        if sp.issparse(edges):
            edges, n_nodes, edge_weights = _of_matrix(edges, edge_weights, self.directed)
        self.edges = _pairs(edges)
        self.node_attributes = None if node_attributes is None else _attributes(node_attributes)
        self.n_nodes = self._count(n_nodes, node_labels)
        if isinstance(node_labels, dict):
            node_labels = _looked_up(node_labels, range(self.n_nodes), "node")
        self.node_labels = None
        if node_labels is not None:
            self.node_labels = label_codes(node_labels, "Graph: node_labels")
        self.edge_labels = None
        if edge_labels is not None:
            labels = self._by_edge(edge_labels)
            self.edge_labels = label_codes(labels, "Graph: edge_labels")
        self.edge_weights = None
        if edge_weights is not None:
            self.edge_weights = _weights(self._by_edge(edge_weights))
        self._check_lengths()

    def _count(self, n_nodes: int | None, node_labels: Any) -> int:
        """The number of nodes, which all edges fit."""
        # A negative number, read as unsigned, is larger than all others.
        least = int(self.edges.view(np.uint64).max()) + 1 if len(self.edges) else 0
        if n_nodes is None:
            given = [x for x in (node_labels, self.node_attributes) if x is not None]
            n_nodes = len(given[0]) if given else least
        elif not is_count(n_nodes, 0):
            raise DataError(f"Graph: n_nodes = {n_nodes!r} is not a count; pass an integer >= 0.")
        if not least <= n_nodes < 2**62:
            extreme = np.uint64(least - 1).astype(np.int64)
            raise DataError(
                f"Graph: an edge has node {extreme}, but the {n_nodes} nodes are numbered from 0; "
                "pass a larger n_nodes, or a label for every node."
            )
        return int(n_nodes)

    def _by_edge(self, values: Any) -> Any:
        """Values in the order of the edges, from that order or by pair of nodes."""
        if not isinstance(values, dict):
            return values
        pairs = [tuple(edge) for edge in self.edges.tolist()]
        if not self.directed:
            values = {(v, u): value for (u, v), value in values.items()} | dict(values)
        return _looked_up(values, pairs, "edge")

    def _check_lengths(self) -> None:
        nodes, edges = (self.n_nodes, "nodes"), (len(self.edges), "edges")
        for name, (count, what) in (
            ("node_labels", nodes),
            ("node_attributes", nodes),
            ("edge_labels", edges),
            ("edge_weights", edges),
        ):
            values = getattr(self, name)
            if values is not None and len(values) != count:
                raise DataError(
                    f"Graph: {name} has length {len(values)}, but there are {count} {what}; pass "
                    "one for each."
                )
        if self.edge_weights is not None and (self.edge_weights == 1).all():
            self.edge_weights = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Graph):
            return NotImplemented
        return all(same(getattr(self, name), getattr(other, name)) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash((self.n_nodes, self.directed, digest(self.edges)))

    def __repr__(self) -> str:
        names = ("node_labels", "edge_labels", "node_attributes", "edge_weights")
        parts = [name for name in names if getattr(self, name) is not None]
        counts = f"{self.n_nodes} nodes", f"{len(self.edges)} edges"
        return f"Graph({', '.join([*counts, *parts, *['directed'] * self.directed])})"


def _of_matrix(matrix: Any, weights: Any, directed: bool) -> tuple[Array, int, Array]:
    """Edges, number of nodes and weights of an adjacency matrix."""
    if matrix.shape[0] != matrix.shape[1]:
        raise DataError(
            f"Graph: the adjacency matrix has shape {matrix.shape}; it must be square, with a row "
            "and a column for each node."
        )
    if weights is not None:
        raise DataError(
            "Graph: edge_weights are given beside an adjacency matrix; store them in the matrix."
        )
    matrix = sp.csr_array(matrix)
    if not directed and (abs(matrix - matrix.T) > 0).nnz:
        raise DataError(
            "Graph: the adjacency matrix is not symmetric; pass directed=True, or A + A.T."
        )
    entries = matrix.tocoo()
    present = entries.data != 0
    edges = np.column_stack([entries.row[present], entries.col[present]])
    return edges, matrix.shape[0], entries.data[present]


def _pairs(edges: Any) -> Array:
    try:
        pairs = np.asarray(edges if isinstance(edges, np.ndarray) else list(edges))
    except (TypeError, ValueError):
        pairs = np.empty(0, object)
    if not pairs.size and pairs.dtype != object:
        return np.empty((0, 2), np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise DataTypeError(
            f"Graph: edges = {edges!r:.60} are not pairs of node numbers; pass for example "
            "[(0, 1), (1, 2)]."
        )
    return pairs.astype(np.int64, copy=False)


def _attributes(values: Any) -> Array:
    try:
        attributes = np.ascontiguousarray(values, dtype=float)
    except (TypeError, ValueError):
        attributes = np.empty(0)
    if attributes.ndim == 1 and attributes.size:
        attributes = attributes[:, None]
    if attributes.ndim != 2:
        raise DataTypeError(
            "Graph: node_attributes are not a table of numbers; pass one row for each node."
        )
    if not np.isfinite(attributes).all():
        row = int(np.flatnonzero(~np.isfinite(attributes).all(axis=1))[0])
        raise DataError(
            f"Graph: the attributes of node {row} hold NaN or infinity; impute them, or drop the "
            "graph."
        )
    return attributes


def _weights(values: Any) -> Array:
    try:
        weights = np.asarray(values, dtype=float).reshape(-1)
    except (TypeError, ValueError):
        raise DataTypeError(
            "Graph: edge_weights are not numbers; pass one for each edge."
        ) from None
    if not (np.isfinite(weights) & (weights >= 0)).all():
        wrong = weights[~(np.isfinite(weights) & (weights >= 0))][0]
        raise DataError(
            f"Graph: an edge has weight {wrong:g}; weights must be finite and at least 0."
        )
    return weights


def _looked_up(values: dict[Any, Any], keys: Any, what: str) -> list[Any]:
    try:
        return [values[key] for key in keys]
    except KeyError as error:
        raise DataError(
            f"Graph: {what} {error.args[0]!r} has no value in {what}_labels or {what}_weights; "
            "pass one for each."
        ) from None
