"""The propagation kernel of node attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import _core
from mercer.exceptions import ParameterError
from mercer.kernels.graphs.base import Name, encoded, sparse_counts
from mercer.kernels.parameters import Integer, Positive
from mercer.kernels.structured import FeatureKernel
from mercer.parallel import thread_count


class Propagation(FeatureKernel):
    """Propagation kernel: counts of nodes with similar attributes, while attributes spread.

    Attributes are replaced by their mean over the neighbours, ``depth`` times. Before each step, a
    node with attributes x falls in the bin floor((v'x + b) / width), with a random normal direction
    v and a random shift b. With the counts n_G(t, s) of bin s in step t,
    k(G, H) = sum over t and s of n_G(t, s) n_H(t, s).

    Edge weights are weights of the mean. A node without neighbours keeps its attributes. The
    kernel is 0 between graphs whose nodes have different numbers of attributes.

    Parameters
    ----------
    depth : int
        Number of steps.
    width : float
        Width of the bins, in the unit of the attributes.
    random_state : int
        Seed of directions and shifts.
    node_attributes : str or sequence of str
        The node attributes of networkx graphs that hold numbers or vectors.
    edge_weight : str or None
        The edge attribute of networkx graphs that holds weights, where there are any.

    References
    ----------
    Neumann et al., Propagation kernels: efficient graph kernels from propagated information, 2016.

    Examples
    --------
    >>> import mercer as mc
    >>> warm = mc.Graph([(0, 1), (1, 2)], node_attributes=[[20.0], [21.0], [22.0]])
    >>> cold = mc.Graph([(0, 1), (1, 2)], node_attributes=[[2.0], [1.0], [0.0]])
    >>> mc.Propagation(depth=2, width=100.0)([warm, cold]).tolist()
    [[27.0, 27.0], [27.0, 27.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            depth: int = 5,
            width: float = 1.0,
            random_state: int = 0,
            node_attributes: Any = "attributes",
            edge_weight: Any = "weight",
        ) -> None: ...

    depth = Integer(5, low=0, high=10_000)
    width = Positive(1.0, learned=False)
    random_state = Integer(0, low=0)
    node_attributes = Name("attributes")
    edge_weight = Name("weight")

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of bins, and their hashes."""
        if self.node_attributes is None:
            raise ParameterError(
                "Propagation: node_attributes = None, but the kernel compares attributes; name "
                "them, or use WeisfeilerLehman for labels."
            )
        batch = encoded(self, objects, ("edge_weights",))
        attributes = np.empty((0, 1)) if batch.attributes is None else batch.attributes
        rng = np.random.default_rng(self.random_state)
        shifts = rng.uniform(size=self.depth + 1)
        directions = rng.normal(size=(self.depth + 1, attributes.shape[1])) / self.width
        return sparse_counts(
            _core.graph_propagation(batch.arrays, attributes, directions, shifts, thread_count())
        )
