"""The shortest-path kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import _core, memory
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.graphs.base import Name, encoded, sparse_counts
from mercer.kernels.graphs.batch import GraphBatch
from mercer.kernels.points import Points
from mercer.kernels.stationary import RBF
from mercer.kernels.structured import EncodedKernel, FeatureKernel, KernelParameter
from mercer.kernels.views import Columns, View
from mercer.parallel import thread_count
from mercer.program.expression import Expr

#: Most nodes on one side of a block of values of the kernel of attributes; one graph may have more.
_MOST_NODES = 2048


class ShortestPath(FeatureKernel, EncodedKernel):
    """Shortest-path kernel: pairs of nodes with equal labels at equal distances.

    With the number n_G(a, b, d) of ordered pairs of different nodes with labels a and b whose
    distance is d, k(G, H) = sum of n_G(a, b, d) n_H(a, b, d). Pairs without a path do not count.

    With attributes, k(G, H) = sum of kappa(u, s) kappa(v, t) over all pairs of nodes, (u, v) of G
    and (s, t) of H, at equal distances. The kernel of two nodes kappa is ``attribute_kernel`` of
    their attributes, or 0 if their labels differ. Graphs of n and m nodes take n m (n + m)
    operations, and there are no explicit features.

    The distance is the number of edges, or the sum of their weights, rounded to 10 digits.
    Distances in directed graphs follow the edges. Self-loops change nothing: no shortest path takes
    them.

    Parameters
    ----------
    node_label : str or None
        The node attribute of networkx graphs that holds the labels. None compares nodes without
        labels, in graphs of any library.
    edge_weight : str or None
        The edge attribute of networkx graphs that holds weights, where there are any.
    node_attributes : str or sequence of str, optional
        The node attributes of networkx graphs that hold numbers or vectors; any name for graphs of
        other libraries. None compares labels alone.
    attribute_kernel : Kernel
        The kernel of two vectors of attributes.

    References
    ----------
    Borgwardt and Kriegel, Shortest-path kernels on graphs, 2005.

    Examples
    --------
    >>> import mercer as mc
    >>> path = mc.Graph([(0, 1), (1, 2)], node_labels=["C", "C", "O"])
    >>> ring = mc.Graph([(0, 1), (1, 2), (2, 0)], node_labels=["C", "C", "O"])
    >>> mc.ShortestPath()([path, ring]).tolist()
    [[8.0, 8.0], [8.0, 12.0]]
    >>> near = mc.Graph([(0, 1)], node_attributes=[[0.0], [1.0]])
    >>> far = mc.Graph([(0, 1)], node_attributes=[[0.0], [2.0]])
    >>> k = mc.ShortestPath(node_label=None, node_attributes="x", attribute_kernel=mc.RBF(1.0))
    >>> k([near, far]).round(3).tolist()
    [[2.736, 1.377], [1.377, 2.037]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            node_label: Any = "label",
            edge_weight: Any = "weight",
            node_attributes: Any = None,
            attribute_kernel: Kernel = ...,
        ) -> None: ...

    node_label = Name("label")
    edge_weight = Name("weight")
    node_attributes = Name(None)
    attribute_kernel = KernelParameter(RBF())

    @property
    def is_psd(self) -> bool | None:
        """What is known of the kernel of attributes, if it is used."""
        known: bool | None = self.attribute_kernel.is_psd
        return True if self.node_attributes is None else known

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of triples, and their hashes."""
        batch = self.encode(objects)
        return sparse_counts(_core.graph_labels(batch.arrays, 0, "shortest_path", thread_count()))

    def encode(self, objects: list[Any]) -> GraphBatch:
        """Return the graphs as arrays."""
        return encoded(self, objects, ("edge_weights", "directed"))

    def pairs(self, A: GraphBatch, B: GraphBatch) -> Array:
        """Return the kernel of graphs with attributes."""
        rows, columns = _attributes(A), _attributes(B)
        total = np.zeros((len(A), len(B)))
        if not rows.size or not columns.size:
            return total
        if rows.shape[1] != columns.shape[1]:
            raise DataError(
                f"ShortestPath: graphs whose nodes have {rows.shape[1]} attributes cannot be "
                f"compared with graphs whose nodes have {columns.shape[1]}; give all nodes the "
                "same attributes."
            )
        _require_memory(A, B)
        for part, nodes in _parts(A):
            for other, others in _parts(B):
                if A is B and other.start > part.start:  # the mirror image of another block
                    continue
                values = self.attribute_kernel(rows[nodes], columns[others]).astype(float)
                mirrored = A is B and part == other
                block = A.take(part).arrays, B.take(other).arrays, values, mirrored
                total[part, other] = np.asarray(_core.attributed_paths(*block, thread_count()))
        return np.tril(total) + np.tril(total, -1).T if A is B else total

    # Counts are features of graphs without attributes. Others are compared by pairs.

    def _view(self, scope: Scope) -> View:
        return self._way._view(self, scope)

    def _trace(self, scope: Scope) -> Expr:
        return self._way._trace(self, scope)

    def _features(self, scope: Scope, points: Points) -> Columns:
        way = FeatureKernel if self.node_attributes is None else Kernel
        return way._features(self, scope, points)

    @property
    def _way(self) -> type[FeatureKernel | EncodedKernel]:
        return FeatureKernel if self.node_attributes is None else EncodedKernel


def _attributes(batch: GraphBatch) -> Array:
    """The attributes of the nodes of the graphs, one graph after another."""
    if batch.attributes is None:
        return np.empty((0, 0))
    spans = zip(batch.starts.tolist(), batch.ends.tolist(), strict=True)
    return np.concatenate([batch.attributes[first:last] for first, last in spans])


def _require_memory(A: GraphBatch, B: GraphBatch) -> None:
    """Refuse graphs whose distances between all nodes do not fit in memory."""
    squares = [(batch.ends - batch.starts) ** 2 for batch in (A, B)]
    largest = max(int(square.max()) for square in squares)
    memory.require(
        sum(4 * int(square.sum()) for square in squares) + 24 * largest,
        f"the distances between all nodes of the graphs (up to {int(largest**0.5):,} nodes)",
        "pass smaller graphs, or use Propagation, which needs no distances",
    )


def _parts(batch: GraphBatch) -> Iterator[tuple[slice, slice]]:
    """Graphs with few nodes together, one after another, and their nodes."""
    ends = np.cumsum(batch.ends - batch.starts)
    start = done = 0
    while start < len(batch):
        stop = max(start + 1, int(np.searchsorted(ends, done + _MOST_NODES, side="right")))
        yield slice(start, stop), slice(done, int(ends[stop - 1]))
        start, done = stop, int(ends[stop - 1])
