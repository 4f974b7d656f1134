"""Counts of labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import _core
from mercer.kernels.graphs.base import Name, encoded, sparse_counts
from mercer.kernels.graphs.batch import GraphBatch
from mercer.kernels.structured import FeatureKernel
from mercer.parallel import thread_count


class VertexHistogram(FeatureKernel):
    """Vertex histogram kernel: the inner product of the counts of node labels.

    k(G, H) = sum over labels l of n_G(l) n_H(l). Edges do not count, whatever they carry.

    Parameters
    ----------
    node_label : str
        The node attribute of networkx graphs that holds the labels.

    Examples
    --------
    >>> import mercer as mc
    >>> water = mc.Graph([(0, 1), (0, 2)], node_labels=["O", "H", "H"])
    >>> oxygen = mc.Graph([(0, 1)], node_labels=["O", "O"])
    >>> mc.VertexHistogram()([water, oxygen]).tolist()
    [[5.0, 2.0], [2.0, 4.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, node_label: Any = "label") -> None: ...

    node_label = Name("label")

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of labels, and the codes of the labels."""
        batch = encoded(self, objects, ("edge_labels", "edge_weights", "directed"))
        return sparse_counts(_core.graph_labels(batch.arrays, 0, "subtree", thread_count()))


class EdgeHistogram(FeatureKernel):
    """Edge histogram kernel: the inner product of the counts of edge labels.

    k(G, H) = sum over labels l of m_G(l) m_H(l). An edge counts once, directed or not.

    Parameters
    ----------
    edge_label : str
        The edge attribute of networkx graphs that holds the labels.

    Examples
    --------
    >>> import mercer as mc
    >>> ethene = mc.Graph([(0, 1), (0, 2), (0, 3)], edge_labels=["double", "single", "single"])
    >>> mc.EdgeHistogram()([ethene]).tolist()
    [[5.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, edge_label: Any = "label") -> None: ...

    edge_label = Name("label")

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of labels, and the codes of the labels."""
        batch = encoded(self, objects, ("edge_labels", "directed"), "none")
        # Edges in the place of nodes.
        starts, ends = batch.indptr[batch.starts], batch.indptr[batch.ends]
        none, count = np.empty(0, np.int64), len(batch.neighbours)
        edges = GraphBatch(starts, ends, np.zeros(count + 1, np.int64), none, batch.codes)
        return sparse_counts(_core.graph_labels(edges.arrays, 0, "subtree", thread_count()))
