"""Columns by position, slice and name, in frames of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
)
from references import label

RNG = np.random.default_rng(4)
X, Z = RNG.normal(size=(12, 4)), RNG.normal(size=(7, 4))
NAMES = ["a", "b", "c", "d"]


def named(make: Any, values: np.ndarray) -> Any:
    return make(dict(zip(NAMES, values.T, strict=True)))


@pytest.mark.parametrize(
    ("columns", "positions"),
    [
        ((0,), [0]),
        ((2, 0), [2, 0]),
        ((-1,), [3]),
        ((slice(1, 3),), [1, 2]),
        ((slice(None, None, 2), 1), [0, 2, 1]),
        ((np.int64(1),), [1]),
        (([0, 3],), [0, 3]),
    ],
)
def test_columns_by_position_and_slice(columns: Any, positions: list[int], make: Any) -> None:
    kernel = mc.RBF().on(*columns)
    wanted = mc.RBF()(X[:, positions], Z[:, positions])
    assert_allclose(kernel(X, Z), wanted, rtol=1e-14)
    assert_allclose(kernel(named(make, X), named(make, Z)), wanted, rtol=1e-14)


def test_columns_by_name(make: Any) -> None:
    kernel = mc.RBF().on("c", "a") + mc.Linear().on("d")
    wanted = mc.RBF()(X[:, [2, 0]], Z[:, [2, 0]]) + mc.Linear()(X[:, [3]], Z[:, [3]])
    assert_allclose(kernel(named(make, X), named(make, Z)), wanted, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF([1.0, 2.0, 3.0, 4.0]),
        mc.RBF([1.0, 2.0]).on(0, 3).normalized() + mc.Linear(),
        mc.Categorical(1.0).on("b", "c"),
        mc.FunctionKernel(lambda A, B: np.asarray(A)[:, :1] @ np.asarray(B)[:, :1].T),
    ],
    ids=label,
)
def test_columns_of_two_frames_are_matched_by_name(kernel: mc.Kernel, make: Any) -> None:
    rows, cols = named(make, X.round()), named(make, Z.round())
    turned = make({name: Z[:, NAMES.index(name)].round() for name in ["c", "a", "d", "b"]})
    wanted = kernel(rows, cols)
    assert_array_equal(kernel(rows, turned), wanted)
    assert_array_equal(kernel.gram(rows, turned).toarray(), wanted)
    part = kernel.prepare(turned)[2:5]
    # The middle of three rows, which is subtracted, is not that of all.
    assert_allclose(kernel.gram(rows, part).toarray(), wanted[:, 2:5], rtol=1e-14)


def test_the_gradient_in_the_inputs_has_the_columns_of_the_rows(make: Any) -> None:
    kernel = mc.RBF([1.0, 2.0, 3.0, 4.0])
    turned = make({name: Z[:, NAMES.index(name)] for name in reversed(NAMES)})
    wanted = kernel.gram(X, Z).input_gradient()
    assert_allclose(kernel.gram(named(make, X), turned).input_gradient(), wanted, rtol=1e-12)


def test_columns_of_other_names_are_refused(make: Any) -> None:
    rows = named(make, X)
    others = make(dict(zip(["a", "b", "c", "e"], Z.T, strict=True)))
    for kernel in (mc.RBF(), mc.Linear().on(-1), mc.Categorical(1.0)):
        with pytest.raises(DataError, match=r"'d', but .*'e'; pass data frames with the same"):
            kernel(rows, others)
    assert_array_equal(mc.RBF().on("a", "c")(rows, others), mc.RBF()(X[:, [0, 2]], Z[:, [0, 2]]))


def test_columns_without_names_are_matched_by_position(make: Any) -> None:
    wanted = mc.RBF()(X, Z)
    assert_array_equal(mc.RBF()(named(make, X), Z), wanted)
    assert_array_equal(mc.RBF()(X, named(make, Z)), wanted)
    # Numbers are positions, not names.
    assert_array_equal(mc.RBF()(pd.DataFrame(X), named(make, Z)), wanted)
    assert_array_equal(mc.RBF()(pd.DataFrame(X), pd.DataFrame(Z, columns=[3, 2, 1, 0])), wanted)


def test_selections_nest(make: Any) -> None:
    kernel = mc.RBF().on(1).on("c", "a")
    assert_allclose(kernel(named(make, X)), mc.RBF()(X[:, [0]]), rtol=1e-14)


def test_unknown_columns_are_refused(make: Any) -> None:
    with pytest.raises(
        DataError, match=r"column 'colour' is not in the data frame; did you mean 'color'"
    ):
        mc.RBF().on("colour")(make({"color": [1.0, 2.0]}))
    with pytest.raises(DataError, match=r"column 'a' .* no column names; pass a data frame, or"):
        mc.RBF().on("a")(X)
    with pytest.raises(DataError, match=r"column 4 was asked for, but the data have 4 columns"):
        mc.RBF().on(4)(X)


def test_a_vector_kernel_refuses_a_column_of_strings(make: Any) -> None:
    frame = make({"a": [1.0, 2.0], "name": ["x", "y"]})
    with pytest.raises(
        DataTypeError, match=r"RBF .* column 'name' .*Categorical\(\)\.on\('name'\)"
    ):
        mc.RBF()(frame)


def test_columns_by_position_need_no_names() -> None:
    frame = pd.DataFrame(RNG.normal(size=(5, 3)))
    assert_allclose(mc.RBF().on(0, 2)(frame), mc.RBF()(frame.to_numpy()[:, [0, 2]]))
    frame.columns = ["a", "a", "b"]
    with pytest.raises(DataError, match="unique column names"):
        mc.Linear().on(1)(frame)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fields_of_packed_records(dtype: Any) -> None:
    records = np.zeros(12, dtype=[("flag", "i1"), ("x", dtype, 4), ("y", dtype)])
    records["x"], records["y"] = X, X[:, 0]
    packed, plain = records["x"], X.astype(dtype)
    assert not packed.flags.aligned
    kernel = mc.RBF()
    for _ in range(2):  # the second call goes straight to the engine
        assert_array_equal(kernel(packed), kernel(plain))
        assert_array_equal(kernel(packed, plain[:5]), kernel(plain, plain[:5]))
        assert_array_equal(kernel(plain[:5], packed), kernel(plain[:5], plain))
    model = mc.KernelRidge(kernel, alpha=0.1)
    expected = model.fit(plain, plain[:, 0]).predict(plain)
    assert_array_equal(model.fit(packed, records["y"]).predict(packed), expected)
    one = mc.RBF().on(1)
    assert_array_equal(one(packed), one(plain))
