"""Weisfeiler-Lehman kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mercer import _core
from mercer.kernels.graphs.base import Name, encoded, sparse_counts
from mercer.kernels.parameters import Choice, Integer
from mercer.kernels.structured import FeatureKernel
from mercer.parallel import thread_count


class WeisfeilerLehman(FeatureKernel):
    """Weisfeiler-Lehman kernel: labels that describe larger and larger neighbourhoods.

    In each of ``depth`` rounds, a node gets a new label for its old one and the multiset of the
    labels around it. With the counts n_G(l) of the labels of all rounds, the round 0 included:

    - ``base="subtree"``: k(G, H) = sum over labels of n_G(l) n_H(l);
    - ``base="assignment"``: the optimal assignment kernel, sum of min(n_G(l), n_H(l));
    - ``base="shortest_path"``: the sum of the `ShortestPath` kernels of the rounds.

    Edge labels are part of a neighbourhood. A directed edge leads to a successor and, in the
    other direction, to a predecessor, which differ. Labels are hashes of 64 bits: two of m labels
    are confused with odds of about m^2 / 2^65. Labels of test graphs that no training graph has
    count in k(G, G), so that they count in ``.normalized()``.

    Parameters
    ----------
    depth : int
        Number of rounds.
    base : {"subtree", "assignment", "shortest_path"}
        How the labels of two graphs are compared. ``"shortest_path"`` takes weighted graphs, and
        the others directed ones.
    node_label : str or None
        The node attribute of networkx graphs that holds the labels. None compares graphs of any
        library without node labels: the label of a node after one round is then its degree.
    edge_label : str, optional
        The edge attribute of networkx graphs that holds labels.
    edge_weight : str or None
        The edge attribute of networkx graphs that holds weights, where there are any.

    References
    ----------
    Shervashidze et al., Weisfeiler-Lehman graph kernels, 2011. Kriege, Giscard and Wilson, On valid
    optimal assignment kernels and applications to graph classification, 2016.

    Examples
    --------
    >>> import mercer as mc
    >>> path = mc.Graph([(0, 1), (1, 2)], node_labels=["C", "C", "O"])
    >>> ring = mc.Graph([(0, 1), (1, 2), (2, 0)], node_labels=["C", "C", "O"])
    >>> mc.WeisfeilerLehman(depth=1)([path, ring]).tolist()
    [[8.0, 7.0], [7.0, 10.0]]
    >>> mc.WeisfeilerLehman(depth=1, base="assignment")([path, ring]).tolist()
    [[6.0, 4.0], [4.0, 6.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            depth: int = 5,
            base: Literal["subtree", "assignment", "shortest_path"] = "subtree",
            node_label: Any = "label",
            edge_label: Any = None,
            edge_weight: Any = "weight",
        ) -> None: ...

    depth = Integer(5, low=0, high=10_000)
    base = Choice("subtree", ("subtree", "assignment", "shortest_path"))
    node_label = Name("label")
    edge_label = Name(None)
    edge_weight = Name("weight")

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of labels, and the hashes of the labels."""
        other = "edge_weights" if self.base == "shortest_path" else "directed"
        batch = encoded(self, objects, ("edge_labels", other), "all")
        return sparse_counts(
            _core.graph_labels(batch.arrays, self.depth, self.base, thread_count())
        )
