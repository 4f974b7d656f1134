"""Points that are joined, and points that are freed from where they came from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

import mercer as mc
from mercer.exceptions import DataError

A, B = np.arange(6.0).reshape(3, 2), np.arange(4.0).reshape(2, 2)


def joined(*parts: Any) -> Any:
    return mc.Points.concatenate([mc.Points(part) for part in parts]).data


def test_containers_are_joined_in_their_own_kind() -> None:
    both = np.concatenate([A, B])
    np.testing.assert_array_equal(joined(A, B), both)
    np.testing.assert_array_equal(joined(sp.csr_array(A), sp.csr_array(B)).toarray(), both)
    np.testing.assert_array_equal(joined(A, sp.csr_array(B)).toarray(), both)
    assert joined(["a"], ["b", "c"]) == ["a", "b", "c"]
    for frame in (pd.DataFrame, pl.DataFrame):
        parts = [frame({"x": part[:, 0], "y": part[:, 1]}) for part in (A, B)]
        found = joined(*parts)
        assert isinstance(found, frame)
        np.testing.assert_array_equal(found.to_numpy(), both)


def test_a_kernel_sees_joined_points_as_it_would_see_all() -> None:
    kernel = mc.RBF()
    points = mc.Points.concatenate([kernel.prepare(A)[1:], kernel.prepare(B)])
    np.testing.assert_allclose(kernel(points), kernel(np.concatenate([A[1:], B])))
    np.testing.assert_array_equal(points.ids, np.arange(4))


@pytest.mark.parametrize(
    "parts",
    [
        (A, ["a"]),
        (A, pd.DataFrame({"x": [1.0]})),
        (A, np.ones((2, 3))),
        (pd.DataFrame({"x": [1.0]}), pd.DataFrame({"y": [1.0]})),
        (pl.DataFrame({"x": [1.0]}), pd.DataFrame({"x": [1.0]})),
        (pl.DataFrame({"x": [1.0]}), pl.DataFrame({"x": ["a"]})),
    ],
)
def test_what_does_not_match_is_refused(parts: Any) -> None:
    with pytest.raises(DataError, match="rows cannot be joined"):
        joined(*parts)


def test_detached_points_keep_their_rows_and_nothing_else() -> None:
    data = A.copy()
    part = mc.Points(data)[[2, 0]]
    free = part.detached()
    data[:] = 0
    np.testing.assert_array_equal(free.data, A[[2, 0]])
    np.testing.assert_array_equal(free.ids, [2, 0])
    assert free.origin is free
