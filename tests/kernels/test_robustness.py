"""Situations in which a kernel could be wrong without saying so."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
    NumericalWarning,
    ParameterError,
    ValidityError,
)

RNG = np.random.default_rng(0)


def test_columns_by_position_need_no_names() -> None:
    frame = pd.DataFrame(RNG.normal(size=(5, 3)))
    assert_allclose(mc.RBF().on(0, 2)(frame), mc.RBF()(frame.to_numpy()[:, [0, 2]]))
    frame.columns = ["a", "a", "b"]
    with pytest.raises(DataError, match="unique column names"):
        mc.Linear().on(1)(frame)


def test_a_given_matrix_cannot_be_normalised() -> None:
    with pytest.raises(ParameterError, match="normalise the matrix itself"):
        mc.Precomputed().normalized()


def test_a_given_matrix_must_be_square_symmetric_and_numeric() -> None:
    with pytest.raises(DataError, match="should be a square kernel matrix"):
        (2.0 * mc.Precomputed())(np.ones((2, 5)))
    with pytest.raises(ValidityError, match="not symmetric"):
        mc.Precomputed([[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(DataTypeError, match="Precomputed"):
        mc.Precomputed("a")


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 1.3])
def test_distances_that_overflow_give_zero(nu: float) -> None:
    X = np.array([[0.0], [1e200], [-1e200]])
    assert_allclose(mc.Matern(nu=nu)(X), np.eye(3))
    for smoothness in range(4):
        assert_allclose(mc.Wendland(smoothness=smoothness)(X), np.eye(3))


def test_a_scale_beyond_the_floating_type_is_refused() -> None:
    X = RNG.normal(size=(4, 2)).astype(np.float32)
    with pytest.raises(DataError, match="exceed the range of float32"):
        mc.RBF(1e-60)(X)


def test_a_kernel_needs_its_method() -> None:
    class Nothing(mc.Stationary):
        """No profile."""

    with pytest.raises(TypeError, match="profile"):
        Nothing()


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
def test_none_and_complex_values_are_refused() -> None:
    class Silent(mc.Stationary):
        """Returns nothing."""

        def profile(self, r2: Any) -> Any:
            return None

    with pytest.raises(DataTypeError, match="None"):
        Silent()([[0.0], [1.0]])
    with pytest.raises(DataTypeError, match="complex"):
        mc.FunctionKernel(lambda X, Y: (X @ Y.T) * 1j)([[0.0], [1.0]])


def test_features_that_are_not_finite_are_refused() -> None:
    class Broken(mc.FeatureKernel):
        """NaN features."""

        def features(self, objects: list[Any]) -> Any:
            return np.full((len(objects), 1), np.nan)

    with pytest.raises(DataError, match="NaN"):
        Broken()(["a", "b"])


def test_check_kernel_finds_an_indefinite_kernel_that_claims_nothing() -> None:
    class Negative(mc.Stationary):
        """-r^2."""

        def profile(self, r2: Any) -> Any:
            return -r2

    with pytest.raises(AssertionError, match="positive"):
        mc.testing.check_kernel(Negative())


def test_feature_names_are_those_of_the_data() -> None:
    X = RNG.normal(size=(4, 3))
    assert mc.Linear().on(2).feature_names(X) == ["x2"]
    assert mc.Polynomial(2, offset=0.0).on(0, 2).feature_names(X) == ["x0^2", "x0*x2", "x2^2"]


def test_asymmetry_is_found_beyond_the_first_block() -> None:
    X = np.arange(1500.0)[:, None]
    kernel = mc.FunctionKernel(lambda A, B: (A > 1200) * 1.0 * (B.T < 100) + 0.0 * A * B.T)
    with pytest.raises(ValidityError, match="not symmetric"):
        kernel(X)


def test_blocks_of_a_symmetric_matrix_are_mirrored() -> None:
    X = RNG.normal(size=(1100, 2))
    calls = []

    def dot(A: Any, B: Any) -> Any:
        calls.append(A.shape[0] * B.shape[0])
        return A @ B.T

    K = mc.FunctionKernel(dot)(X)
    assert_allclose(K, X @ X.T, atol=1e-12)
    assert sum(calls) < 1.1 * 1100 * 1100 - 1024 * 70


def test_kernels_are_not_kept_alive_by_caches() -> None:
    class Marker:
        """Something whose life can be watched."""

    marker = Marker()
    watched = weakref.ref(marker)
    kernel = mc.FunctionKernel(lambda A, B, held=marker: A @ B.T) * mc.RBF()
    kernel(np.ones((3, 1)))
    kernel.warp(lambda X, held=marker: X)(np.ones((3, 1)))
    del kernel, marker
    gc.collect()  # the expressions, whose table of all expressions then lets the kernels go
    gc.collect()
    assert watched() is None


def test_functions_cannot_write_into_the_data() -> None:
    def scribble(X: Any) -> Any:
        X[:] = 0.0
        return X

    X = np.ones((3, 1))
    with pytest.raises(ValueError, match="read-only"):
        mc.Linear().warp(scribble)(X)
    assert (X == 1).all()


def test_frobenius_norm_of_small_float32_values() -> None:
    X = np.full((3, 1), 1e-12, dtype=np.float32)
    assert_allclose(mc.Linear().gram(X).frobenius(), 3e-24, rtol=1e-5)


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


def test_any_string_has_a_spectrum() -> None:
    assert mc.Spectrum(1)(["a\ud800", "\ud800"]).tolist() == [[2.0, 1.0], [1.0, 1.0]]


def test_mappings_and_sets_are_not_rows() -> None:
    for data in ({"a": [1.0]}, {1.0, 2.0}):
        with pytest.raises(DataTypeError, match="not a collection of rows"):
            mc.RBF()(data)


def test_a_ridged_matrix_has_blocks_and_adds() -> None:
    X = RNG.normal(size=(6, 2))
    identity = sp.identity(6)
    K = mc.RBF().gram(X) + 0.5 * identity + 0.25 * identity
    wanted = mc.RBF()(X) + 0.75 * np.eye(6)
    assert_allclose(K.toarray(), wanted)
    assert_allclose(K[1:4, [0, 2]], wanted[1:4][:, [0, 2]])
    for bad in (-1.0, np.nan, np.ones(3)):
        with pytest.raises(ParameterError, match=r"Gram\.ridge"):
            mc.RBF().gram(X).ridge(bad)


def test_sparse_distances_in_float32_keep_their_digits() -> None:
    counts = sp.csr_array(RNG.poisson(0.3, size=(30, 40)).astype(np.float32) * 50)
    K = mc.RBF(0.7)(counts, counts.copy())
    assert K.dtype == np.float32
    assert_allclose(K, mc.RBF(0.7)(counts.toarray()), atol=1e-6)


def test_the_scale_of_huge_data_is_a_number() -> None:
    X = np.array([[1e200], [-1e200], [5e199]])
    length = mc.RBF("scale").resolve(X).length_scale
    assert_allclose(length, 1e200 * mc.RBF("scale").resolve(X / 1e200).length_scale)


def test_sparse_rows_far_from_the_origin_are_warned_of() -> None:
    X = sp.csr_array([[1e6], [1e6 + 1e-3]])
    with pytest.warns(NumericalWarning, match="keep less than six digits"):
        mc.RBF(1e-3)(X)
