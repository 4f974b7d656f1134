"""Many graphs as one block-diagonal sparse matrix, which the engine reads."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError
from mercer.kernels.containers import row_number
from mercer.kernels.graphs.graph import Graph

#: The code of an edge without a label, which the engine knows too.
_UNLABELLED = np.uint64(0x3C6EF372FE94F82B)
#: What tells the codes of the two arcs of a directed edge.
_FORWARD, _BACKWARD = np.uint64(0xA54FF53A5F1D36F1), np.uint64(0x510E527FADE682D1)


#: Which edges become two arcs.
Both = Literal["none", "undirected", "all"]


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """Graphs as blocks of one sparse matrix; subsets share the arrays.

    Graph g has the nodes from ``starts[g]`` to ``ends[g]``. Node u has the arcs from ``indptr[u]``
    to ``indptr[u + 1]``. An undirected edge is two arcs, and a self-loop is one.
    """

    starts: Array
    ends: Array
    indptr: Array
    neighbours: Array
    labels: Array | None = None
    codes: Array | None = None
    weights: Array | None = None
    attributes: Array | None = None

    @classmethod
    def of(cls, graphs: list[Graph], both: Both = "undirected") -> Self:
        """Join graphs; ``both`` says which edges are two arcs.

        The two arcs of a directed edge have different codes.
        """
        sizes = np.array([g.n_nodes for g in graphs], np.int64)
        counts = np.array([len(g.edges) for g in graphs], np.int64)
        ends = np.cumsum(sizes)
        starts = ends - sizes
        directed = np.repeat(np.array([g.directed for g in graphs], bool), counts)
        edges = np.concatenate([np.empty((0, 2), np.int64), *(g.edges for g in graphs)])
        edges += np.repeat(starts, counts)[:, None]
        codes = _of_edges([g.edge_labels for g in graphs], counts, _UNLABELLED)
        weights = _of_edges([g.edge_weights for g in graphs], counts, np.float64(1.0))
        once = _distinct(edges, directed, codes, weights, np.repeat(np.arange(len(graphs)), counts))
        edges, directed = edges[once], directed[once]
        # Positions of the edges of all arcs: those from first to second nodes, then the others.
        back = np.flatnonzero(edges[:, 0] != edges[:, 1]) if both != "none" else np.arange(0)
        if both == "undirected":
            back = back[~directed[back]]
        of = once[np.concatenate([np.arange(len(once)), back])]
        arcs = np.concatenate([edges, edges[back, ::-1]])
        order = np.argsort(_keys(arcs), kind="stable")
        marked = both == "all" and bool(directed.any())
        if codes is None and marked:
            codes = np.full(int(counts.sum()), _UNLABELLED)
        codes = None if codes is None else codes[of]
        if marked:
            mark = np.where(np.arange(len(of)) < len(once), _FORWARD, _BACKWARD)
            codes ^= mark * np.concatenate([directed, directed[back]])
        rows = np.bincount(arcs[:, 0], minlength=int(sizes.sum()))
        return cls(
            starts,
            ends,
            np.concatenate([[0], np.cumsum(rows)]),
            np.ascontiguousarray(arcs[order, 1]),
            _of_nodes([g.node_labels for g in graphs]),
            None if codes is None else codes[order],
            None if weights is None else weights[of][order],
            _of_nodes([g.node_attributes for g in graphs]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: Any) -> Self:
        """Some of the graphs."""
        some = (np.ascontiguousarray(x[rows]) for x in (self.starts, self.ends))
        return replace(self, starts=next(some), ends=next(some))

    @property
    def arrays(self) -> tuple[Array | None, ...]:
        """What the engine reads."""
        nodes = (self.starts, self.ends, self.indptr, self.neighbours)
        return (*nodes, self.labels, self.codes, self.weights)


def _of_edges(parts: list[Array | None], counts: Array, default: Any) -> Array | None:
    """Values of the edges of all graphs; None if no graph has any."""
    if all(part is None for part in parts):
        return None
    filled = (
        np.full(count, default) if part is None else part
        for part, count in zip(parts, counts.tolist(), strict=True)
    )
    return np.concatenate(list(filled))


def _of_nodes(parts: list[Array | None]) -> Array | None:
    present = [part for part in parts if part is not None and len(part)]
    return np.concatenate(present) if present else None


def _distinct(
    edges: Array, directed: Array, codes: Array | None, weights: Array | None, owners: Array
) -> Array:
    """Positions of edges that are no copies of others; copies must have equal values."""
    ends = np.where(directed[:, None], edges, np.sort(edges, axis=1))
    if codes is None and weights is None:
        return np.unique(_keys(ends), return_index=True)[1]
    _, first, copies = np.unique(_keys(ends), return_index=True, return_inverse=True)
    for values, what in ((codes, "labels"), (weights, "weights")):
        if values is not None and (values != values[first][copies]).any():
            wrong = int(np.flatnonzero(values != values[first][copies])[0])
            raise DataError(
                f"graph {row_number(owners[wrong])} has an edge that is given twice with different "
                f"{what}; give it once, or pass a directed graph."
            )
    return first


def _keys(pairs: Array) -> Array:
    """Pairs of nodes as numbers in the same order."""
    return pairs[:, 0] * (int(pairs.max(initial=0)) + 1) + pairs[:, 1]
