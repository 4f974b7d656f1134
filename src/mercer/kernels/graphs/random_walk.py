"""The geometric random-walk kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError
from mercer.kernels.graphs.base import Name, encoded
from mercer.kernels.graphs.batch import GraphBatch
from mercer.kernels.parameters import Positive
from mercer.kernels.structured import EncodedKernel, Ragged
from mercer.parallel import thread_count


class RandomWalk(EncodedKernel):
    """Geometric random-walk kernel: common walks of two graphs, of every length.

    k(G, H) = sum over lengths l of weight^l times the number of pairs of walks of length l, one in
    each graph: 1' (I - weight W)^-1 1, where W is the adjacency matrix of the product graph. With
    labels, only pairs of walks with equal labels count. Edge weights multiply along a walk.

    The sum is finite if weight < 1 / r^2, where r is the largest eigenvalue of an adjacency matrix.
    It is at most the largest degree. Graphs for which the sum diverges are refused.

    Without labels, each graph is decomposed once, and a pair costs the product of the numbers of
    nodes. With labels, a system of equations is solved for each pair.

    Parameters
    ----------
    weight : float
        Factor of a walk that is longer by one edge. By default 0.01, enough for degrees below 10.
    node_label : str, optional
        The node attribute of networkx graphs that holds labels; any name for graphs of other
        libraries. None compares walks without labels.
    edge_label : str, optional
        The edge attribute of networkx graphs that holds labels.
    edge_weight : str or None
        The edge attribute of networkx graphs that holds weights, where there are any.

    References
    ----------
    Vishwanathan et al., Graph kernels, 2010.

    Examples
    --------
    >>> import mercer as mc
    >>> edge = mc.Graph([(0, 1)])
    >>> mc.RandomWalk(weight=0.5)([edge]).tolist()
    [[8.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            weight: float = 0.01,
            node_label: Any = None,
            edge_label: Any = None,
            edge_weight: Any = "weight",
        ) -> None: ...

    weight = Positive(0.01, learned=False)
    node_label = Name(None)
    edge_label = Name(None)
    edge_weight = Name("weight")
    psd = True

    def encode(self, objects: list[Any]) -> Ragged | GraphBatch:
        """Return eigenvalues with the squared sums of eigenvectors; labelled graphs as they are."""
        labelled = _is_labelled(self)
        uses = ("edge_weights", "edge_labels") if labelled else ("edge_weights",)
        batch = encoded(self, objects, uses)
        spectra = Ragged.joined([_spectrum(batch, g) for g in range(len(batch))], width=2)
        largest = float(np.abs(spectra.values[:, 0]).max(initial=0.0))
        if self.weight * largest**2 >= 1:
            raise DataError(
                f"RandomWalk: weight = {self.weight:g}, but the largest eigenvalue of an adjacency "
                f"matrix is {largest:.4g}, so that the sum over walks diverges; pass a weight "
                f"below {1 / largest**2:.3g}."
            )
        return batch if labelled else spectra

    def pairs(self, A: Any, B: Any) -> Any:
        if _is_labelled(self):
            run, sides = _core.labelled_graph_walks, [A.arrays, B.arrays]
        else:
            run, sides = _core.graph_walks, [_arrays(A), _arrays(B)]
        return run(sides[0], sides[1], self.weight, A is B, thread_count())


def _is_labelled(kernel: RandomWalk) -> bool:
    return kernel.node_label is not None or kernel.edge_label is not None


def _arrays(spectra: Ragged) -> tuple[Array, ...]:
    """What the engine reads of the spectra of graphs."""
    parts = (spectra.starts, spectra.ends, *spectra.values.T)
    return tuple(map(np.ascontiguousarray, parts))


def _spectrum(batch: GraphBatch, g: int) -> Any:
    """Eigenvalues of the adjacency matrix of a graph, and squared sums of its eigenvectors."""
    first, n = int(batch.starts[g]), int(batch.ends[g] - batch.starts[g])
    bounds = batch.indptr[first : first + n + 1]
    arcs = slice(int(bounds[0]), int(bounds[-1]))
    matrix = np.zeros((n, n))
    rows = np.repeat(np.arange(n), np.diff(bounds))
    weights = 1.0 if batch.weights is None else batch.weights[arcs]
    matrix[rows, batch.neighbours[arcs] - first] = weights
    values, vectors = np.linalg.eigh(matrix)
    return np.column_stack([values, vectors.sum(axis=0) ** 2])
