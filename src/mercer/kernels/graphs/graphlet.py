"""Counts of small subgraphs."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.kernels.graphs.base import Name, encoded
from mercer.kernels.parameters import Integer
from mercer.kernels.structured import FeatureKernel
from mercer.parallel import thread_count


class Graphlet(FeatureKernel):
    """Graphlet kernel: the inner product of the counts of induced subgraphs of one size.

    k(G, H) = sum over types t of n_G(t) n_H(t), where the types are all graphs of ``size`` nodes up
    to isomorphism, connected or not: 4 types for 3 nodes, 11 for 4, and 34 for 5. Counts grow with
    the size of a graph, so that ``.normalized()`` is usual.

    Counts for 3 and 4 nodes are exact, from degrees, triangles, cycles and cliques. Those for 5
    nodes are estimates from random subsets of nodes, unless there are at most ``samples`` subsets.
    Estimates depend on the order of the nodes. Labels of nodes and self-loops do not count.

    Parameters
    ----------
    size : int
        Number of nodes: 3, 4 or 5.
    samples : int
        Number of random subsets of 5 nodes of each graph.
    random_state : int
        Seed of the subsets.
    edge_weight : str or None
        The edge attribute of networkx graphs that holds weights, which are refused.

    References
    ----------
    Shervashidze et al., Efficient graphlet kernels for large graph comparison, 2009. Ahmed et al.,
    Efficient graphlet counting for large networks, 2015.

    Examples
    --------
    >>> import mercer as mc
    >>> square = mc.Graph([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> kite = mc.Graph([(0, 1), (1, 2), (2, 0), (2, 3)])
    >>> mc.Graphlet(3).feature_map([square, kite]).tolist()
    [[0.0, 0.0, 4.0, 0.0], [0.0, 1.0, 2.0, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            size: int = 4,
            samples: int = 2000,
            random_state: int = 0,
            edge_weight: Any = "weight",
        ) -> None: ...

    size = Integer(4, low=3, high=5)
    samples = Integer(2000, low=1)
    random_state = Integer(0, low=0)
    edge_weight = Name("weight")

    def features(self, objects: list[Any]) -> Any:
        """Return the counts of each type, those with fewer edges first."""
        batch = encoded(self, objects, ())
        seed = self.random_state % 2**64
        counts = _core.graphlets(batch.arrays, self.size, self.samples, seed, thread_count())
        return counts if self.size == 5 else counts @ _induced(self.size)


#: The types of the engine, as edges: subgraphs of 3 and of 4 nodes.
_TYPES: dict[int, list[str]] = {
    3: ["", "01", "01 12", "01 12 02"],
    4: [
        "",
        "01",
        "01 23",
        "01 12",
        "01 12 02",
        "01 02 03",
        "01 12 23",
        "01 12 02 03",
        "01 12 23 03",
        "01 12 23 03 02",
        "01 12 23 03 02 13",
    ],
}


@cache
def _induced(size: int) -> Array:
    """The matrix that turns counts of subgraphs into counts of induced subgraphs.

    Type j has M[i, j] subgraphs of type i with all of its nodes. Counts of subgraphs are M times
    counts of induced ones.
    """
    types = [frozenset(frozenset(map(int, pair)) for pair in t.split()) for t in _TYPES[size]]
    orders = list(permutations(range(size)))
    number = {
        frozenset(frozenset(order[u] for u in edge) for edge in edges): i
        for i, edges in enumerate(types)
        for order in orders
    }
    matrix = np.zeros((len(types), len(types)))
    for j, edges in enumerate(types):
        for count in range(len(edges) + 1):
            for part in combinations(edges, count):
                matrix[number[frozenset(part)], j] += 1
    return np.linalg.inv(matrix).T.round()
