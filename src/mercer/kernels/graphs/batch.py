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
class Edges:
    """Edges of many graphs, one graph after another."""

    pairs: Array  # of nodes, which are numbered through all graphs
    counts: Array  # of the edges of each graph
    directed: Array | None = None  # whether each edge is; None if none is
    codes: Array | None = None
    weights: Array | None = None

    def distinct(self) -> Array:
        """Positions of edges that are no copies of others; copies must have equal values."""
        first, second = self.pairs.T
        swapped = first > second
        if self.directed is not None:
            swapped &= ~self.directed
        low, high = np.where(swapped, second, first), np.where(swapped, first, second)
        keys = low * (int(high.max(initial=0)) + 1) + high
        ordered = np.sort(keys)
        if (ordered[1:] > ordered[:-1]).all():
            return np.arange(len(keys))
        _, once, copies = np.unique(keys, return_index=True, return_inverse=True)
        for values, what in ((self.codes, "labels"), (self.weights, "weights")):
            if values is not None and (values != values[once][copies]).any():
                wrong = np.flatnonzero(values != values[once][copies])[0]
                owner = np.searchsorted(np.cumsum(self.counts), wrong, side="right")
                raise DataError(
                    f"graph {row_number(owner)} has an edge that is given twice with different "
                    f"{what}; give it once, or pass a directed graph."
                )
        return once

    def arcs(self, both: Both) -> tuple[Array, Array, Array | None, Array | None]:
        """The first and second nodes of all arcs in their order, with codes and weights.

        The two arcs of a directed edge have different codes.
        """
        once = self.distinct()
        first, second = self.pairs[once].T
        back = first != second if both != "none" else np.zeros(len(once), bool)
        directed = None if self.directed is None else self.directed[once]
        if both == "undirected" and directed is not None:
            back &= ~directed
        nodes, others = np.append(first, second[back]), np.append(second, first[back])
        # Positions of the edges of all arcs: those from first to second nodes, then the others.
        of = np.append(once, once[back])
        codes = self.codes if self.codes is None else self.codes[of]
        if both == "all" and directed is not None:
            codes = np.full(len(of), _UNLABELLED) if codes is None else codes
            mark = np.where(np.arange(len(of)) < len(once), _FORWARD, _BACKWARD)
            codes ^= mark * np.append(directed, directed[back])
        weights = self.weights if self.weights is None else self.weights[of]
        width = int(others.max(initial=0)) + 1
        keys = nodes * width + others
        if codes is None and weights is None:  # values are sorted much faster than positions
            return *np.divmod(np.sort(keys), width), None, None
        order = np.argsort(keys, kind="stable")
        values = (None if part is None else part[order] for part in (codes, weights))
        return nodes[order], others[order], next(values), next(values)


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
    def of(
        cls,
        graphs: list[Graph],
        both: Both = "undirected",
        *,
        labels: bool = False,
        attributes: bool = False,
    ) -> Self:
        """Join graphs with what is used of their nodes; ``both`` says which edges are two arcs."""
        sizes = np.array([g.n_nodes for g in graphs], np.int64)
        counts = np.array([len(g.edges) for g in graphs], np.int64)
        pairs = np.concatenate([np.empty((0, 2), np.int64), *(g.edges for g in graphs)])
        directed = [g.directed for g in graphs]
        edges = Edges(
            pairs + np.repeat(np.cumsum(sizes) - sizes, counts)[:, None],
            counts,
            np.repeat(directed, counts) if any(directed) else None,
            _of_edges([g.edge_labels for g in graphs], counts, _UNLABELLED),
            _of_edges([g.edge_weights for g in graphs], counts, np.float64(1.0)),
        )
        codes = _of_nodes([g.node_labels for g in graphs]) if labels else None
        numbers = _of_nodes([g.node_attributes for g in graphs]) if attributes else None
        return cls.joined(sizes, edges, both, codes, numbers)

    @classmethod
    def joined(
        cls,
        sizes: Array,
        edges: Edges,
        both: Both,
        labels: Array | None,
        attributes: Array | None = None,
    ) -> Self:
        """A batch from the numbers of nodes of all graphs, and their edges."""
        ends = np.cumsum(sizes)
        nodes, neighbours, codes, weights = edges.arcs(both)
        rows = np.bincount(nodes, minlength=int(sizes.sum()))
        indptr = np.concatenate([[0], np.cumsum(rows)])
        return cls(ends - sizes, ends, indptr, neighbours, labels, codes, weights, attributes)

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
    widths = {part.shape[1:] for part in present}
    if len(widths) > 1:
        (least,), (most,) = min(widths), max(widths)
        raise DataError(
            f"nodes have from {least} to {most} attributes; give all nodes the same attributes."
        )
    return np.concatenate(present) if present else None
