"""Points: prepared once, joined, freed from where they came from, and blind to later writes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
from mercer.exceptions import DataError
from references import label

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


RNG = np.random.default_rng(0)


def test_points_are_rows_for_scikit_learn() -> None:
    from sklearn.model_selection import cross_val_score

    X, y = RNG.normal(size=(20, 2)), RNG.normal(size=20)
    points = mc.RBF().prepare(X)
    assert points.shape == (20, 2)
    assert len(points[3]) == 1
    model = mc.KernelRidge(mc.RBF())
    assert_allclose(cross_val_score(model, points, y), cross_val_score(model, X, y))
    model.fit(X, y)
    assert_allclose(model.predict(model.points_), model.predict(X))


X, Z = RNG.normal(size=(12, 4)), RNG.normal(size=(7, 4))

NAMES = ["a", "b", "c", "d"]

KERNELS = [
    mc.RBF() + 0.5 * mc.White(),
    mc.Linear().normalized() * mc.Laplacian(),
    mc.FunctionKernel(lambda A, B: A @ B.T),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=label)
def test_points_stand_for_data_everywhere(kernel: mc.Kernel) -> None:
    points, others = kernel.prepare(X), kernel.prepare(Z)
    assert len(points) == 12
    assert_array_equal(kernel(points), kernel(X))
    assert_allclose(kernel(points, others), kernel(X, Z), rtol=1e-13)
    assert_array_equal(kernel.diag(points), kernel.diag(X))
    rows = [3, 0, 5]
    assert_allclose(kernel(points[rows]), kernel(X[rows]), rtol=1e-13)
    assert_allclose(kernel(points[2:5], Z), kernel(X[2:5], Z), rtol=1e-13, atol=1e-15)
    assert_allclose(kernel(points[np.arange(12) % 3 == 0]), kernel(X[::3]), rtol=1e-13)
    again = pickle.loads(pickle.dumps(points[rows]))
    assert_allclose(kernel(again), kernel(X[rows]), rtol=1e-13)


def test_prepared_points_and_lazy_matrices_do_not_see_later_writes() -> None:
    data = X.copy()
    points, gram = mc.RBF().prepare(data), mc.RBF().gram(data)
    wanted = mc.RBF()(X)
    data[:] = 0.0
    assert_array_equal(mc.RBF()(points), wanted)
    assert_array_equal(gram.toarray(), wanted)


WRITABLE = {
    "csr": (sp.csr_array(X), lambda data: data.data.__setitem__(slice(None), 0.0)),
    "csc": (sp.csc_array(X), lambda data: data.data.__setitem__(slice(None), 0.0)),
    "pandas": (pd.DataFrame(X, columns=NAMES), lambda data: data.loc.__setitem__((2, "b"), 9.0)),
    "polars": (pl.DataFrame(X, schema=NAMES), lambda data: data.__setitem__((2, "b"), 9.0)),
    "pyarrow": (pa.table(dict(zip(NAMES, X.T, strict=True))), lambda data: None),
    "list": (X.tolist(), lambda data: data.reverse()),
    "rows": (X.tolist(), lambda data: data[0].reverse()),
}


@pytest.mark.parametrize("case", WRITABLE)
def test_no_container_is_seen_again_after_it_was_read(case: str) -> None:
    original, write = WRITABLE[case]
    data = copy.deepcopy(original)
    model = mc.KernelRidge(mc.RBF(2.0)).fit(data, X[:, 0])
    points, gram = mc.RBF().prepare(data), mc.RBF().gram(data)
    fresh = copy.deepcopy(original)
    wanted, predicted = mc.RBF()(X), model.predict(fresh)
    write(data)
    assert_allclose(mc.RBF()(points), wanted, rtol=1e-12, atol=1e-14)
    assert_allclose(gram.toarray(), wanted, rtol=1e-12, atol=1e-14)
    assert_array_equal(model.predict(fresh), predicted)


@pytest.mark.parametrize("make_series", [pd.Series, pl.Series])
def test_a_series_is_not_seen_again_after_it_was_read(make_series: Any) -> None:
    series = make_series([1, 2, 1])
    points = mc.Categorical(1.0).prepare(series)
    series[0] = 2
    assert_array_equal(mc.Categorical(1.0)(points), mc.Categorical(1.0)([1, 2, 1]))


def test_a_warp_that_returns_a_view_of_a_frame_does_not_see_later_writes() -> None:
    kernel = mc.RBF().warp(lambda frame: frame.to_numpy())
    frame = pd.DataFrame(X.copy(), columns=NAMES, copy=False)
    points = kernel.prepare(frame)
    frame.loc[2, "b"] = 9.0
    assert_array_equal(kernel(points), mc.RBF()(X))


def test_an_ordinary_call_sees_the_data_as_they_are_now() -> None:
    data = X.copy()
    mc.RBF()(data)
    data[:] = 0.0
    assert (mc.RBF()(data) == 1.0).all()


def test_a_model_does_not_change_when_the_owner_of_a_read_only_array_writes(tmp_path: Any) -> None:
    data = X.copy()
    view = data.view()
    view.flags.writeable = False
    file = tmp_path / "rows.npy"
    np.save(file, X)
    mapped = np.load(file, mmap_mode="r")
    for given in (view, mapped):
        model = mc.KernelRidge(mc.RBF(1.0), alpha=0.1).fit(given, X[:, 0])
        gram, points = mc.RBF().gram(given), mc.Points(given)
        wanted = model.predict(Z)
        data[:] = 0.0
        np.load(file, mmap_mode="r+")[:] = 0.0
        assert_array_equal(pickle.loads(pickle.dumps(model)).predict(Z), wanted)
        assert_allclose(gram.diagonal(), np.diagonal(gram.toarray()))
        assert_array_equal(mc.Linear()(points), mc.Linear()(X))
        data[:] = X
        np.load(file, mmap_mode="r+")[:] = X


def test_points_are_a_copy_unless_asked_for() -> None:
    data = X.copy()
    kept, shared = mc.Points(data), mc.Points(data, copy=False)
    data[:] = 1.0
    assert_allclose(mc.Linear().diag(kept), (X * X).sum(axis=1))
    assert_allclose(mc.Linear().diag(shared), np.full(len(X), X.shape[1]))


def test_rows_of_a_table_are_taken_with_a_step() -> None:
    table = pa.table(dict(zip(NAMES, X.T, strict=True)))
    kernel = mc.FunctionKernel(lambda A, B: np.ones((len(A), len(B))))
    points = mc.Points(table)[::2]
    assert points.data.num_rows == 6
    assert kernel(points).shape == (6, 6)


def test_no_points_cannot_be_joined() -> None:
    with pytest.raises(DataError, match="there are no points; pass at least one"):
        mc.Points.concatenate([])
