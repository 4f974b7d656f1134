"""Data sets of graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import mercer as mc
from mercer.exceptions import DataError

FILES = {
    "A": "1, 2\n2, 1\n2, 3\n3, 2\n4, 5\n5, 4\n",
    "graph_indicator": "1\n1\n1\n2\n2\n3\n",
    "graph_labels": "1\n-1\n1\n",
    "node_labels": "0\n1\n0\n2\n2\n0\n",
    "edge_labels": "7\n7\n8\n8\n7\n7\n",
    "node_attributes": "0.5, 1\n1, 2\n2, 3\n3, 4\n4, 5\n5, 6\n",
}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"SMALL_{name}.txt").write_text(text)
    return folder


def test_all_parts_of_a_data_set_are_read(tmp_path: Path) -> None:
    graphs, y = mc.datasets.read_tu(write(tmp_path, **FILES))
    assert_array_equal(y, [1, -1, 1])
    first = mc.Graph(
        [(0, 1), (1, 0), (1, 2), (2, 1)],
        3,
        np.array([0, 1, 0]),
        np.array([7, 7, 8, 8]),
        [[0.5, 1], [1, 2], [2, 3]],
    )
    assert graphs[0] == first
    assert [graph.n_nodes for graph in graphs] == [3, 2, 1]
    assert mc.WeisfeilerLehman(2)(graphs).shape == (3, 3)


def test_labels_and_targets_are_optional(tmp_path: Path) -> None:
    kept = {name: FILES[name] for name in ("A", "graph_indicator")}
    graphs, y = mc.datasets.read_tu(write(tmp_path, **kept))
    assert y is None
    assert graphs[0].node_labels is None
    assert graphs[0].node_attributes is None
    write(tmp_path, graph_attributes="0.5\n1.5\n2.5\n")
    assert_array_equal(mc.datasets.read_tu(tmp_path)[1], [0.5, 1.5, 2.5])
    write(tmp_path, A="")
    assert not len(mc.datasets.read_tu(tmp_path)[0][0].edges)


def test_folders_without_a_data_set_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"holds 0 files \*_A\.txt"):
        mc.datasets.read_tu(tmp_path)
    write(tmp_path, A="1, 2\n")
    with pytest.raises(DataError, match=r"SMALL_graph_indicator\.txt is missing"):
        mc.datasets.read_tu(tmp_path)
    write(tmp_path, graph_indicator="1\n2\n")
    with pytest.raises(DataError, match="edges cross"):
        mc.datasets.read_tu(tmp_path)
