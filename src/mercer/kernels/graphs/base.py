"""What all kernels on graphs share: which graphs they take, and sparse counts by key."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.containers import row_number
from mercer.kernels.graphs.batch import Both, Edges, GraphBatch
from mercer.kernels.graphs.graph import Graph
from mercer.kernels.graphs.labels import label_codes
from mercer.kernels.graphs.reading import Names, as_graph
from mercer.kernels.parameters import Declaration

#: What a graph may have: the attribute, its name in a sentence, and kernels that use it.
_PARTS = (
    ("edge_labels", "edge labels", "WeisfeilerLehman, EdgeHistogram or RandomWalk with labels"),
    ("edge_weights", "edge weights", "ShortestPath, RandomWalk or Propagation"),
    ("directed", "directed edges", "WeisfeilerLehman or ShortestPath"),
)


class Name(Declaration):
    """The name of an attribute of nodes or edges, several names, or None; never learned."""

    def validate(self, owner: str, given: object) -> Any:
        """Return the name; a list of names becomes a tuple."""
        self._refuse_wrapped(owner, given)
        name = tuple(given) if isinstance(given, list) else given
        if type(name).__hash__ is None:
            raise ParameterError(
                f"{owner}: {self.name} = {given!r:.60} is not the name of an attribute; pass a "
                "string, or None."
            )
        return name


def encoded(
    kernel: Kernel, objects: list[Any], uses: Collection[str], both: Both = "undirected"
) -> GraphBatch:
    """Encode graphs of any library for a kernel.

    `uses` are the parts of a graph that the kernel uses: edge_labels, edge_weights, directed. The
    others are refused by their names.
    """
    # Weights are read, and refused, also by kernels that have no name for them.
    defaults = {"edge_weight": "weight"}
    fields = Names.__dataclass_fields__
    names = Names(*(getattr(kernel, name, defaults.get(name)) for name in fields))
    batch = _of_plain_pairs(objects, names, both)
    if batch is not None:
        return batch if names.node_label is not None else replace(batch, labels=None)
    graphs = _as_graphs(type(kernel).__name__, objects, names, uses)
    labels, attributes = names.node_label is not None, names.node_attributes is not None
    try:
        return GraphBatch.of(graphs, both, labels=labels, attributes=attributes)
    except DataError as error:
        raise DataError(f"{type(kernel).__name__}: {error}") from None


def _of_plain_pairs(objects: list[Any], names: Names, both: Both) -> GraphBatch | None:
    """Encode pairs of edges and labels all at once; None if some object is anything else."""
    if names.edge_label is not None or names.node_attributes is not None:
        return None
    arrays = _core.plain_graphs(objects)
    if arrays is None:
        return None
    sizes, counts, ends, labels = arrays
    pairs = ends.reshape(-1, 2) + np.repeat(np.cumsum(sizes) - sizes, counts)[:, None]
    if labels is None:
        given = (x.values() if isinstance(x, dict) else x for _, x in objects)
        try:
            labels = label_codes(list(chain.from_iterable(given)), "")
        except DataTypeError:  # the other way tells which graph holds what is no label
            return None
    return GraphBatch.joined(sizes, Edges(pairs, counts), both, labels.view(np.uint64))


def _as_graphs(owner: str, objects: list[Any], names: Names, uses: Collection[str]) -> list[Graph]:
    """Read graphs of any library, and refuse what the kernel does not use or lacks."""
    graphs = []
    for i, item in enumerate(objects):
        try:
            graph = as_graph(item, names)
        except DataError as error:
            message = str(error).removeprefix("Graph: ")
            raise type(error)(f"{owner}: graph {row_number(i)}: {message}") from None
        objection = _objection(graph, names, uses)
        if objection:
            raise DataError(f"{owner}: graph {row_number(i)} has {objection}.")
        graphs.append(graph)
    return graphs


def _objection(graph: Graph, names: Names, uses: Collection[str]) -> str:
    """What a graph has that a kernel does not use, or lacks that it needs; "" if nothing."""
    for part, what, kernels in _PARTS:
        given = getattr(graph, part)
        if given is not None and given is not False and part not in uses:
            return (
                f"{what}, which this kernel does not use; pass graphs without them, or use "
                f"{kernels}"
            )
    if names.node_label is not None and graph.node_labels is None and graph.n_nodes:
        return (
            "no node labels; name their attribute by node_label=..., or pass node_label=None to "
            "compare nodes without labels"
        )
    if names.edge_label is not None and graph.edge_labels is None and len(graph.edges):
        return (
            "no edge labels; name their attribute by edge_label=..., or use a kernel without them"
        )
    if names.node_attributes is not None and graph.node_attributes is None and graph.n_nodes:
        return "no node attributes; name them by node_attributes=..., or use a kernel of labels"
    return ""


def sparse_counts(counts: tuple[Array, Array, Array]) -> tuple[sp.csr_array, Array]:
    """Counts by key as features: a sparse matrix and the key of each column."""
    indptr, keys, values = counts
    columns, places = np.unique(keys, return_inverse=True)
    return sp.csr_array((values, places, indptr), shape=(len(indptr) - 1, len(columns))), columns
