"""Data in every container: columns by position, slice and name; structured columns; points."""

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
from sklearn.model_selection import GridSearchCV

import mercer as mc
import references as ref
from mercer.exceptions import DataError, DataTypeError
from references import label

RNG = np.random.default_rng(4)
X, Z = RNG.normal(size=(12, 4)), RNG.normal(size=(7, 4))
NAMES = ["a", "b", "c", "d"]
FRAMES = {
    "pandas": lambda columns: pd.DataFrame(columns),
    "polars": lambda columns: pl.DataFrame(columns),
    "pyarrow": lambda columns: pa.table(columns),
}


@pytest.fixture(params=FRAMES)
def make(request: pytest.FixtureRequest) -> Any:
    return FRAMES[request.param]


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
        mc.Categorical().on("b", "c"),
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
    for kernel in (mc.RBF(), mc.Linear().on(-1), mc.Categorical()):
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


# Strings beside numbers ---------------------------------------------------------------------------

SEQUENCES = ["ACGTACGT", "ACGT", "TTTACG", "AC", "", "GTACGTTT", "CGTACG", "AAAA", "ACGTT", "TTTT"]
PH, TEMPERATURE = RNG.normal(size=10), RNG.normal(size=10)


def test_strings_compose_with_numbers(make: Any) -> None:
    frame = make({"sequence": SEQUENCES, "ph": PH, "temperature": TEMPERATURE})
    kernel = mc.Spectrum(3).on("sequence") * mc.RBF().on("ph", "temperature")
    numbers = np.column_stack([PH, TEMPERATURE])
    wanted = ref.matrix(ref.spectrum, SEQUENCES, k=3) * ref.matrix(ref.rbf, numbers)
    assert_allclose(kernel(frame), wanted, rtol=1e-13)
    assert_allclose(kernel.diag(frame), np.diag(wanted), rtol=1e-13)
    normal = kernel.normalized()(frame)
    assert_allclose(np.diag(normal), [float(len(s) >= 3) for s in SEQUENCES], rtol=1e-13)
    assert_allclose(kernel.gram(frame) @ np.ones(10), wanted.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_strings_beside_numbers_fit_and_search(make: Any) -> None:
    frame = make({"sequence": SEQUENCES, "ph": PH, "temperature": TEMPERATURE})
    kernel = mc.Spectrum(2).on("sequence") * mc.RBF(1.0).on("ph", "temperature")
    y = PH + np.array([s.count("AC") for s in SEQUENCES])
    grid = {"kernel__rbf__length_scale": [0.05, 1.0], "kernel__spectrum__k": [1, 2]}
    search = GridSearchCV(mc.KernelRidge(kernel, alpha=0.1), grid, cv=2).fit(frame, y)
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    assert search.predict(frame).shape == (10,)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_spectrum_equals_its_loop(k: int) -> None:
    others = ["GATTACA", "", "ÄÖ€𝄞ÄÖ"]
    kernel = mc.Spectrum(k)
    assert_array_equal(kernel(SEQUENCES), ref.matrix(ref.spectrum, SEQUENCES, k=k))
    assert_array_equal(kernel(SEQUENCES, others), ref.matrix(ref.spectrum, SEQUENCES, others, k=k))
    assert_array_equal(kernel(others, SEQUENCES), ref.matrix(ref.spectrum, others, SEQUENCES, k=k))


def test_spectrum_of_unknown_words_counts_in_the_diagonal_only() -> None:
    """A test string with substrings that training never showed still has its own length."""
    kernel = mc.Spectrum(2).normalized()
    K = kernel(["abxy"], ["abab", "ab"])
    assert_allclose(K, [[2 / np.sqrt(3 * 5), 1 / np.sqrt(3)]], rtol=1e-14)


def test_spectrum_refuses_what_is_not_text() -> None:
    with pytest.raises(DataTypeError, match=r"Spectrum: row 1 is a int, not a string; pass a list"):
        mc.Spectrum(2)(["ab", 3])
    with pytest.raises(DataTypeError, match="single string"):
        mc.Spectrum(2)("abc")


# Points -------------------------------------------------------------------------------------------

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
    points = mc.Categorical().prepare(series)
    series[0] = 2
    assert_array_equal(mc.Categorical()(points), mc.Categorical()([1, 2, 1]))


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


def test_lists_integers_and_series_are_data() -> None:
    rows = [[0, 1], [2, 3]]
    wanted = mc.RBF()(np.array(rows, dtype=float))
    for data in (rows, np.array(rows), np.array(rows, dtype=object), np.array(rows, np.float16)):
        assert_allclose(mc.RBF()(data), wanted, rtol=1e-6)
    for dtype in (">f8", np.longdouble, "<f8", ">i4"):
        assert_array_equal(mc.RBF()(np.array(rows, dtype)), wanted)
    assert mc.RBF()(X.astype(np.longdouble)).dtype == np.float64
    assert_array_equal(mc.Spectrum(2)(pd.Series(["ab", "abab"])), [[1, 2], [2, 5]])
    assert_array_equal(mc.Spectrum(2)(pl.Series(["ab", "abab"])), [[1, 2], [2, 5]])


def test_float32_stays_float32_and_mixtures_are_float64() -> None:
    single = X.astype(np.float32)
    for kernel in (mc.RBF(), mc.Linear() ** 2, mc.Laplacian() * mc.Matern(nu=1.3), mc.Cosine()):
        assert kernel(single).dtype == np.float32
        assert kernel.diag(single).dtype == np.float32
        assert kernel.gram(single).dtype == np.float32
        assert (kernel.gram(single) @ np.ones(12, np.float32)).dtype == np.float32
        assert kernel(X).dtype == np.float64
        assert kernel(single, Z).dtype == np.float64
