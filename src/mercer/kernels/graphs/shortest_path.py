"""The shortest-path kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mercer import _core
from mercer.kernels.graphs.base import Name, encoded, sparse_counts
from mercer.kernels.structured import FeatureKernel
from mercer.parallel import thread_count


class ShortestPath(FeatureKernel):
    """Shortest-path kernel: pairs of nodes with equal labels at equal distances.

    With the number n_G(a, b, d) of ordered pairs of different nodes with labels a and b whose
    distance is d, k(G, H) = sum of n_G(a, b, d) n_H(a, b, d). Pairs without a path do not count.

    The distance is the number of edges, or the sum of their weights, rounded to 10 digits.
    Distances in directed graphs follow the edges. Self-loops change nothing: no shortest path takes
    them.

    Parameters
    ----------
    node_label : str or None
        The node attribute of networkx graphs that holds the labels. None compares distances alone,
        in graphs of any library.
    edge_weight : str or None
        The edge attribute of networkx graphs that holds weights, where there are any.

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
    """

    if TYPE_CHECKING:

        def __init__(self, node_label: Any = "label", edge_weight: Any = "weight") -> None: ...

    node_label = Name("label")
    edge_weight = Name("weight")

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of triples, and their hashes."""
        batch = encoded(self, objects, ("edge_weights", "directed"))
        return sparse_counts(_core.graph_labels(batch.arrays, 0, "shortest_path", thread_count()))
