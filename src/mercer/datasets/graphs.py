"""Graphs in the format of the TU collection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError
from mercer.kernels.graphs.graph import Graph


def read_tu(folder: str | Path) -> tuple[list[Graph], Array | None]:
    r"""Read a data set of graphs in the format of the TU collection (MUTAG, NCI1, PROTEINS, ...).

    The folder holds ``NAME_A.txt`` with the edges and ``NAME_graph_indicator.txt`` with the graph
    of each node. Labels of nodes and edges, attributes of nodes, and targets are read where there
    are files of them. Attributes of edges are not read.

    Parameters
    ----------
    folder : str or Path
        The folder with the text files of one data set.

    Returns
    -------
    graphs : list of Graph
        The graphs, undirected.
    y : ndarray or None
        A class for each graph, or the targets of a regression.

    Examples
    --------
    >>> import mercer as mc
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     for name, text in {
    ...         "A": "1, 2\n2, 1\n",
    ...         "graph_indicator": "1\n1\n2\n",
    ...         "graph_labels": "1\n-1\n",
    ...     }.items():
    ...         _ = Path(folder, f"SMALL_{name}.txt").write_text(text)
    ...     mc.datasets.read_tu(folder)
    ([Graph(2 nodes, 2 edges), Graph(1 nodes, 0 edges)], array([ 1, -1]))
    """
    files = sorted(Path(folder).glob("*_A.txt"))
    if len(files) != 1:
        raise DataError(
            f"read_tu: {str(folder)!r} holds {len(files)} files *_A.txt; pass a folder with the "
            "text files of one data set."
        )
    stem = files[0].name.removesuffix("_A.txt")

    def table(part: str, kind: Any = np.int64) -> Any:
        path = Path(folder, f"{stem}_{part}.txt")
        if not path.exists():
            return None
        if not path.stat().st_size:
            return np.empty((0, 2), kind)
        return np.loadtxt(path, kind, delimiter=",", ndmin=2)

    owner = table("graph_indicator")
    if owner is None:
        raise DataError(f"read_tu: {stem}_graph_indicator.txt is missing in {str(folder)!r}.")
    owner, edges = owner[:, 0] - 1, table("A") - 1
    starts = np.searchsorted(owner, np.arange(owner[-1] + 2))
    if (np.diff(owner) < 0).any() or (owner[edges[:, 0]] != owner[edges[:, 1]]).any():
        raise DataError(f"read_tu: the nodes of {stem} are not sorted by graph, or edges cross.")
    order = np.argsort(owner[edges[:, 0]], kind="stable")
    cuts = np.searchsorted(owner[edges[order, 0]], np.arange(owner[-1] + 2))
    of_nodes = [_plain(table("node_labels")), table("node_attributes", float)]
    of_edges = _plain(table("edge_labels"))
    graphs = []
    for g in range(owner[-1] + 1):
        nodes, some = slice(starts[g], starts[g + 1]), order[cuts[g] : cuts[g + 1]]
        labels, attributes = (None if part is None else part[nodes] for part in of_nodes)
        edge_labels = None if of_edges is None else of_edges[some]
        count = int(starts[g + 1] - starts[g])
        graphs.append(Graph(edges[some] - starts[g], count, labels, edge_labels, attributes))
    classes, targets = table("graph_labels"), table("graph_attributes", float)
    return graphs, _plain(targets if classes is None else classes)


def _plain(values: Any) -> Any:
    """One column as a vector."""
    return values[:, 0] if values is not None and values.shape[1] == 1 else values
