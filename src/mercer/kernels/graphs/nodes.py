"""Kernels on the nodes of one graph: functions of its Laplacian."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.graphs.batch import GraphBatch
from mercer.kernels.graphs.graph import Graph
from mercer.kernels.graphs.reading import Names, as_graph
from mercer.kernels.parameters import Choice, Integer, Part, Positive
from mercer.kernels.structured import FeatureKernel

Laplacian = Literal["combinatorial", "normalized"]

#: Most nodes: the Laplacian is decomposed as a dense matrix.
_MOST = 10_000
#: Eigenvalues of a Laplacian at most this share of the largest one are zeros.
_ZERO = 1e-12


class _GraphPart(Part):
    """An undirected graph of any library, not too large, stored as a `Graph`."""

    def validate(self, owner: str, given: object) -> Graph:
        try:
            graph = as_graph(given, Names(edge_weight="weight"))
        except DataError as error:
            message = str(error).removeprefix("Graph: ")
            raise type(error)(f"{owner}: graph: {message}") from None
        if graph.directed or graph.edge_labels is not None:
            what = "directed edges" if graph.directed else "edge labels"
            raise DataError(
                f"{owner}: the graph has {what}, which this kernel does not use; pass a graph "
                "without them."
            )
        if not 1 <= graph.n_nodes <= _MOST:
            raise DataError(
                f"{owner}: the graph has {graph.n_nodes} nodes; the kernel takes 1 to {_MOST:,}, "
                "because it decomposes a dense matrix. Pass a part of the graph."
            )
        return graph


class NodeKernel(FeatureKernel):
    """Base of kernels on the nodes of one graph: a function f of the eigenvalues of its Laplacian.

    K = U f(Lambda) U', where U Lambda U' is the Laplacian. Write ``spectrum(self, values)``.
    """

    graph = _GraphPart()

    #: Which Laplacian: "combinatorial" or "normalized".
    laplacian: Any

    @abstractmethod
    def spectrum(self, values: Array) -> Any:
        """Return f of the eigenvalues."""

    def features(self, objects: list[Any]) -> Any:
        """Return rows of U f(Lambda)^1/2."""
        names = self.graph.names or range(self.graph.n_nodes)
        numbers = {name: i for i, name in enumerate(names)}
        try:
            nodes = [numbers[name] for name in objects]
        except (KeyError, TypeError) as error:
            raise DataError(
                f"{type(self).__name__}: {error.args[0]!s:.60} is not a node of the graph; pass "
                "names of its nodes, or numbers from 0 if they have no names."
            ) from None
        values, vectors = _eigenvectors(self.graph, self.laplacian == "normalized")
        return vectors[nodes] * np.sqrt(self.spectrum(values))


@lru_cache(maxsize=4)
def _eigenvectors(graph: Graph, normalized: bool) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the Laplacian; kept, because searches use them again."""
    values, vectors = np.linalg.eigh(_laplacian(graph, normalized))
    return np.where(values <= _ZERO * max(values[-1], 1.0), 0.0, values), vectors


def _laplacian(graph: Graph, normalized: bool) -> Array:
    """D - A, or D^-1/2 (D - A) D^-1/2; self-loops cancel in the first, as they do in D - A."""
    batch = GraphBatch.of([graph])
    rows = np.repeat(np.arange(graph.n_nodes), np.diff(batch.indptr))
    adjacency = np.zeros((graph.n_nodes, graph.n_nodes))
    adjacency[rows, batch.neighbours] = 1.0 if batch.weights is None else batch.weights
    degrees = adjacency.sum(axis=1)
    matrix = np.diag(degrees) - adjacency
    if normalized:
        scale = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)), 0.0)
        matrix *= np.outer(scale, scale)
    return matrix


class Diffusion(NodeKernel):
    """Diffusion kernel of nodes: heat that flows along the edges for a time beta.

    K = exp(-beta L), with the Laplacian L = D - A of the graph, or the normalised one. Points are
    nodes: names if the graph is from networkx, otherwise numbers from 0. Nodes with few neighbours
    have large values of k(u, u), unless the kernel is ``.normalized()``.

    Parameters
    ----------
    graph : Graph, networkx graph, (edges, labels) or adjacency matrix
        An undirected graph of at most 10,000 nodes. Edge weights count; labels do not.
    beta : float
        The time.
    laplacian : {"combinatorial", "normalized"}
        D - A, or D^-1/2 (D - A) D^-1/2.

    References
    ----------
    Kondor and Lafferty, Diffusion kernels on graphs and other discrete input spaces, 2002.

    Examples
    --------
    >>> import mercer as mc
    >>> path = mc.Graph([(0, 1), (1, 2)])
    >>> mc.Diffusion(path, beta=1.0)([0, 2]).round(3).tolist()
    [[0.526, 0.158], [0.158, 0.526]]
    """

    if TYPE_CHECKING:

        def __init__(
            self, graph: Any, beta: float = 1.0, laplacian: Laplacian = "combinatorial"
        ) -> None: ...

    beta = Positive(1.0, learned=False)
    laplacian = Choice("combinatorial", ("combinatorial", "normalized"))

    def spectrum(self, values: Array) -> Any:
        return np.exp(-self.beta * values)


class RegularizedLaplacian(NodeKernel):
    """Regularised Laplacian kernel of nodes: K = (I + beta L)^-1.

    Parameters
    ----------
    graph, laplacian
        As for `Diffusion`.
    beta : float
        The weight of the Laplacian L.

    References
    ----------
    Smola and Kondor, Kernels and regularization on graphs, 2003.

    Examples
    --------
    >>> import mercer as mc
    >>> path = mc.Graph([(0, 1), (1, 2)])
    >>> mc.RegularizedLaplacian(path, beta=1.0)([0, 2]).round(3).tolist()
    [[0.625, 0.125], [0.125, 0.625]]
    """

    if TYPE_CHECKING:

        def __init__(
            self, graph: Any, beta: float = 1.0, laplacian: Laplacian = "combinatorial"
        ) -> None: ...

    beta = Positive(1.0, learned=False)
    laplacian = Choice("combinatorial", ("combinatorial", "normalized"))

    def spectrum(self, values: Array) -> Any:
        return 1 / (1 + self.beta * values)


class CommuteTime(NodeKernel):
    """Commute-time kernel of nodes: the pseudo-inverse of the Laplacian, K = L^+.

    K(u, u) + K(v, v) - 2 K(u, v), times the sum of all degrees, is the mean time of a random walk
    from u to v and back. Nodes of different components have the kernel 0.

    Parameters
    ----------
    graph
        As for `Diffusion`.

    References
    ----------
    Fouss et al., Random-walk computation of similarities between nodes of a graph, 2007.

    Examples
    --------
    >>> import mercer as mc
    >>> path = mc.Graph([(0, 1), (1, 2)])
    >>> mc.CommuteTime(path)([0, 2]).round(3).tolist()
    [[0.556, -0.444], [-0.444, 0.556]]
    """

    if TYPE_CHECKING:

        def __init__(self, graph: Any) -> None: ...

    laplacian = "combinatorial"

    def spectrum(self, values: Array) -> Any:
        return np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)


class PStepRandomWalk(NodeKernel):
    """Random-walk kernel of nodes, of p steps: K = (a I - L)^steps with the normalised Laplacian L.

    Parameters
    ----------
    graph
        As for `Diffusion`.
    a : float
        At least 2, the largest eigenvalue that L can have. A larger value makes walks lazier.
    steps : int
        Number of steps.

    References
    ----------
    Smola and Kondor, Kernels and regularization on graphs, 2003.

    Examples
    --------
    >>> import mercer as mc
    >>> path = mc.Graph([(0, 1), (1, 2)])
    >>> mc.PStepRandomWalk(path, a=2.0, steps=2)([0, 2]).round(3).tolist()
    [[1.5, 0.5], [0.5, 1.5]]
    """

    if TYPE_CHECKING:

        def __init__(self, graph: Any, a: float = 2.0, steps: int = 2) -> None: ...

    a = Positive(2.0, learned=False)
    steps = Integer(2, low=1)
    laplacian = "normalized"

    def _check(self) -> None:
        if self.a < 2:
            raise ParameterError(
                f"PStepRandomWalk: a = {self.a:g} does not satisfy a >= 2; pass at least 2, so "
                "that a I - L is positive semi-definite."
            )

    def spectrum(self, values: Array) -> Any:
        return np.maximum(self.a - values, 0.0) ** self.steps
