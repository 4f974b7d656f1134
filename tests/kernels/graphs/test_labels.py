"""Codes of labels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from mercer.exceptions import DataTypeError
from mercer.kernels.graphs.labels import label_codes


def test_equal_labels_have_equal_codes_whatever_their_type() -> None:
    codes = label_codes([3, 3.0, np.int16(3), np.float32(3)], "labels")
    assert codes.tolist() == [3, 3, 3, 3]
    assert label_codes(np.array([3, -1], np.int16), "labels").tolist() == [3, 2**64 - 1]
    large = np.array([2**63 + 5, 1], np.uint64)
    assert label_codes(large, "labels").tolist() == label_codes(large.tolist(), "").tolist()
    assert label_codes([True, -1], "labels").tolist() == [1, 2**64 - 1]
    assert label_codes(np.array(["a"]), "labels") == label_codes(["a"], "labels")
    assert label_codes(np.array([[1.0, 0.0]]), "labels") == label_codes([(1, 0)], "labels")


def test_different_labels_have_different_codes() -> None:
    labels = ["1", 1, 1.5, b"1", ("1",), (1,), (1, 1), "", (), "\ud800", 2**70, float("inf")]
    assert len(set(label_codes(labels, "labels").tolist())) == len(labels)


def test_codes_do_not_depend_on_the_process() -> None:
    source = (
        "from mercer.kernels.graphs.labels import label_codes as c; print(c(['C', (1, 'x')], ''))"
    )
    done = subprocess.run(
        [sys.executable, "-c", source], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(label_codes(["C", (1, "x")], ""))


@pytest.mark.parametrize("label", [None, float("nan"), [1], {1: 2}, object()])
def test_labels_that_cannot_be_compared_are_refused(label: object) -> None:
    with pytest.raises(DataTypeError, match="labels are numbers, strings, bytes, or tuples"):
        label_codes(["a", label], "Graph: node_labels")
