"""Operations on one kernel: functions of it, and functions of its rows."""

from __future__ import annotations

import cProfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer import memory, validity
from mercer.exceptions import DataError, MemoryForecastError
from mercer.program import reference

RNG = np.random.default_rng(10)

PLANE = RNG.normal(size=(25, 2))


def test_the_exponential_of_an_unbounded_kernel_is_a_kernel() -> None:
    kernel = mc.Linear().exp()
    assert kernel.is_psd
    assert validity.check(kernel, 2 * PLANE).valid is True


def test_feature_names_are_those_of_the_data() -> None:
    X = RNG.normal(size=(4, 3))
    assert mc.Linear().on(2).feature_names(X) == ["x2"]
    assert mc.Polynomial(2, offset=0.0).on(0, 2).feature_names(X) == ["x0^2", "x0*x2", "x2^2"]


def test_functions_cannot_write_into_the_data() -> None:
    def scribble(X: Any) -> Any:
        X[:] = 0.0
        return X

    X = np.ones((3, 1))
    with pytest.raises(ValueError, match="read-only"):
        mc.Linear().warp(scribble)(X)
    assert (X == 1).all()


X, Z = RNG.normal(size=(12, 3)), RNG.normal(size=(7, 3))

A, B, C = mc.RBF(0.7), mc.Linear(), mc.Periodic(1.3)

KA, KB, KC = A(X, Z), B(X, Z), C(X, Z)


def test_normalized_is_the_cosine_in_feature_space() -> None:
    kernel = (mc.Polynomial(2) * A).normalized()
    K = (mc.Polynomial(2) * A)(X)
    assert_allclose(kernel(X), K / np.sqrt(np.outer(np.diag(K), np.diag(K))), rtol=1e-13)
    assert_allclose(kernel.diag(X), 1.0, rtol=1e-14)
    with_zero = np.vstack([X, np.zeros(3)])
    K = mc.Linear().normalized()(with_zero)
    assert (K[-1] == 0).all()
    assert np.isfinite(K).all()


def test_scaled_by_and_warp_call_the_function_on_all_rows() -> None:
    f = lambda rows: 1 + rows[:, 0] ** 2  # noqa: E731
    assert_allclose(A.scaled_by(f)(X, Z), f(X)[:, None] * A(X, Z) * f(Z), rtol=1e-13)
    g = lambda rows: np.column_stack([rows[:, 0] * rows[:, 1], np.sin(rows[:, 2])])  # noqa: E731
    assert_allclose(A.warp(g)(X, Z), A(g(X), g(Z)), rtol=1e-13)
    assert_allclose(A.warp(g).on(2, 1, 0)(X, Z), A(g(X[:, ::-1]), g(Z[:, ::-1])), rtol=1e-13)
    with pytest.raises(DataError, match=r"scaled_by: .* returned 2 numbers for 12 rows; it must"):
        A.scaled_by(lambda rows: np.ones(2))(X)
    with pytest.raises(DataError, match=r"warp: .* returned 2 rows for 12; it must"):
        A.warp(lambda rows: rows[:2])(X)


def test_normalising_twice_is_normalising_once() -> None:
    once = mc.Linear().normalized()
    assert once.normalized() is once


def test_a_standardised_kernel_is_that_of_standardised_columns() -> None:
    X = RNG.normal(size=(30, 3)) * [1.0, 1e3, 1e-4] + [5.0, -1e4, 0.0]
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    kernel = mc.Polynomial(2, offset=1.0).standardized()
    assert repr(kernel) == "Polynomial(degree=2).standardized()"
    assert kernel.resolve(X)(X).shape == (30, 30)
    assert_allclose(kernel.resolve(X)(X), mc.Polynomial(2, offset=1.0)(Z), rtol=1e-9, atol=1e-9)
    assert_allclose(kernel.resolve(X).feature_map(X), mc.Polynomial(2).feature_map(Z), atol=1e-9)
    scale = mc.RBF("scale").standardized().resolve(X)
    assert_allclose(scale(X), mc.RBF("columns").resolve(X)(X), rtol=1e-9)
    assert len(scale.theta) == 1
    assert eval(repr(scale), {"RBF": mc.RBF}) == scale
    single = X.astype(np.float32)
    assert scale(single).dtype == np.float32
    assert_allclose(scale(single), scale(X), rtol=1e-2, atol=1e-4)


def test_a_missing_number_counts_as_the_mean() -> None:
    X = RNG.normal(size=(30, 2)) * [1.0, 50.0]
    X[::4, 1] = np.nan
    mean, deviation = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    filled = np.where(np.isnan(X), mean, X)
    kernel = mc.RBF(0.7).standardized().resolve(X)
    assert_allclose(kernel(X), mc.RBF(0.7)((filled - mean) / deviation), rtol=1e-12)
    assert_allclose(kernel(X[:3], X), kernel(X)[:3])
    gradient = kernel.gram(X).input_gradient(RNG.normal(size=(30, 30)))
    assert (gradient[::4, 1] == 0).all()
    assert (gradient[1::4] != 0).all()
    with pytest.raises(DataError, match="infinity"):
        kernel(np.where(np.isnan(X), np.inf, X))
    with pytest.raises(DataError, match="2 columns, and X has 3"):
        kernel(np.zeros((4, 3)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_cosine_of_an_exponential_does_not_overflow(dtype: Any) -> None:
    X = RNG.normal(size=(6, 3)) * (40 if dtype == np.float64 else 15)
    X[1] = X[0] + 0.5
    X = X.astype(dtype)
    D = ((X[:, None].astype(float) - X) ** 2).sum(axis=2)
    rtol, atol = (1e-9, 1e-12) if dtype == np.float64 else (1e-3, 1e-6)
    for kernel, factor in (
        (mc.Linear().exp(), 1.0),
        (3.0 * mc.Linear().exp(), 1.0),
        (mc.Linear().exp() ** 2, 2.0),
        (mc.Linear().exp() * mc.RBF(), 2.0),
    ):
        found = kernel.normalized()(X)
        assert_allclose(found, np.exp(-factor * D / 2), rtol=rtol, atol=atol)
    with_rest = (mc.Linear().exp() * (1.0 + mc.Linear())).normalized()(X)
    cosine = (1.0 + mc.Linear()).normalized()(X)
    assert_allclose(with_rest, cosine * np.exp(-D / 2), rtol=rtol, atol=atol)


def test_the_cosine_of_a_product_over_columns_does_not_overflow() -> None:
    X = RNG.normal(size=(4, 1000))
    t, own = X[:, None] * X, X * X
    columns = (1 + t + t**2) / np.sqrt((1 + own + own**2)[:, None] * (1 + own + own**2)[None])
    assert_allclose(mc.Monomials(2).normalized()(X), columns.prod(axis=2), rtol=1e-10, atol=1e-200)
    mc.testing.check_kernel(mc.Monomials(2).normalized(), X[:, :3])
    mc.testing.check_kernel((2.0 * mc.Linear().exp() * mc.RBF()).normalized(), X[:, :3])


def log_cosine(logarithms: Any) -> Any:
    """The cosine of a positive kernel from the logarithms of its values."""
    own = np.diagonal(logarithms) / 2
    return np.exp(logarithms - own[:, None] - own)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_cosine_of_a_sum_with_an_exponential_does_not_overflow(dtype: Any) -> None:
    X = (5 * RNG.normal(size=(20, 100))).astype(dtype)
    X[0] /= 1e3
    X[1] = X[2] + X.dtype.type(0.01)
    S = X.astype(float) @ X.astype(float).T
    rtol = 1e-10 if dtype == np.float64 else 1e-6
    plain = (mc.Linear().exp() + 1.0).normalized()
    assert_allclose(plain(X), log_cosine(np.logaddexp(S, 0.0)), rtol=rtol, atol=1e-20)
    assert_allclose(np.diagonal(plain(X)), 1.0, rtol=rtol)
    small = S / 1e3
    mixed = (mc.Linear().exp() * (2.0 + mc.RBF()) + 3.0 * mc.Polynomial(2)).normalized()
    X = X / X.dtype.type(np.sqrt(1e3))
    D = ((X[:, None].astype(float) - X) ** 2).sum(axis=2)
    terms = small + np.log(2 + np.exp(-D / 2)), np.log(3 * (1 + small) ** 2)
    assert_allclose(mixed(X), log_cosine(np.logaddexp(*terms)), rtol=10 * rtol, atol=1e-20)


def test_the_cosine_of_a_high_power_does_not_overflow() -> None:
    X = 5 * RNG.normal(size=(12, 1000))
    X[1] = X[0] + 0.1
    S = 1 + X @ X.T
    found = mc.Polynomial(200).normalized()(X)
    assert_allclose(found, log_cosine(200 * np.log(np.abs(S))), rtol=1e-9, atol=1e-200)
    assert_allclose(((mc.Linear() + 1.0) ** 200).normalized()(X), found, rtol=1e-9, atol=1e-200)
    X = (1e4 * RNG.normal(size=(12, 20))).astype(np.float32)
    S = 1 + X.astype(float) @ X.astype(float).T
    wanted = np.sign(S) * log_cosine(5 * np.log(np.abs(S)))
    assert_allclose(mc.Polynomial(5).normalized()(X), wanted, atol=1e-5)


def test_cosines_that_are_divided_in_parts() -> None:
    for kernel in (
        mc.Linear().exp() + 1.0,
        mc.Polynomial(5),
        mc.Polynomial(3) + 2.0 * mc.Linear().exp() + mc.RBF() + 1.0,
        mc.Linear().polynomial([1.0, 2.0, 3.0, 4.0]),
        mc.Monomials(2) + 1.0,
    ):
        mc.testing.check_kernel(kernel.normalized(), PLANE[:12])
        K = kernel(PLANE)
        size = np.sqrt(np.diagonal(K))
        assert_allclose(kernel.normalized()(PLANE), K / np.outer(size, size), rtol=1e-12)


def test_a_factor_that_is_negative_at_a_point_with_itself() -> None:
    class Shifted(mc.DotProduct):
        def profile(self, s: Any) -> Any:
            return (s - 1.0) ** 4 * (s + 1.0)

    X = np.array([[0.5, 0.0], [2.0, 0.5], [0.0, 3.0]])
    K = Shifted()(X)
    size = np.sqrt(np.diagonal(K))
    assert_allclose(Shifted().normalized()(X), K / np.outer(size, size), rtol=1e-12)


def test_a_kernel_of_differences_is_its_own_cosine() -> None:
    for kernel in (mc.RBF(), mc.Matern(), mc.Laplacian(), mc.Periodic()):
        assert kernel.normalized().expression is kernel.expression
    assert mc.RBF().normalized()(PLANE[:2])[0, 0] == 1.0


def nested(depth: int) -> mc.Kernel:
    kernel: mc.Kernel = mc.Linear()
    for _ in range(depth):
        kernel = (kernel + 1.0).normalized()
    return kernel


def test_nested_cosines_are_right_and_cost_little(monkeypatch: pytest.MonkeyPatch) -> None:
    K = PLANE @ PLANE.T
    for _ in range(3):
        K = K + 1.0
        size = np.sqrt(np.diagonal(K))
        K = K / np.outer(size, size)
    assert_allclose(nested(3)(PLANE), K, rtol=1e-12)
    mc.testing.check_kernel(nested(3), PLANE)
    counts = []
    value = reference._value
    for depth in (4, 8, 16):
        calls = 0

        def counted(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            return value(*args)

        monkeypatch.setattr(reference, "_value", counted)
        nested(depth)(PLANE)
        nested(depth).diag(PLANE)
        counts.append(calls)
    assert counts[2] - counts[1] <= 2.1 * (counts[1] - counts[0])  # linear: twice, not 3^8 times


def calls(function: Callable[[], Any]) -> int:
    """The number of calls, of Python and of C, that a function makes."""
    profile = cProfile.Profile()
    profile.runcall(function)
    return sum(entry.callcount for entry in profile.getstats())


def test_gradients_of_nested_cosines_cost_linear_time() -> None:
    first, second, values = [], [], []
    for depth in (10, 20, 40):
        kernel = nested(depth)
        values.append(calls(lambda kernel=kernel: kernel(PLANE)))
        first.append(calls(lambda kernel=kernel: kernel.gram(PLANE).gradient()))
        second.append(calls(lambda kernel=kernel: kernel.gram(PLANE).gradient()))
    for small, middle, large in (values, first, second):
        assert large - middle <= 2.3 * (middle - small)  # twice for linear, four times for squares


def test_bounds_of_a_scale_are_scaled_with_it() -> None:
    kernel = 5.0 * (mc.Bounded(1.0, 0.5, 2.0) * mc.RBF())
    assert kernel == mc.Bounded(5.0, 2.5, 10.0) * mc.RBF()
    assert_allclose((0.0 * (mc.Bounded(1.0, 0.5, 2.0) * mc.RBF()))(PLANE), 0.0)


def test_features_are_forecast_with_their_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = mc.Polynomial(2).on(0, 1), mc.Polynomial(2).on(2, 3)
    X = RNG.normal(size=(50, 4))
    size = (left * right).feature_map(X).nbytes
    free = iter([10 * size] * 3 + [size - 1] * 10)
    monkeypatch.setattr(memory, "available", lambda: next(free))
    with pytest.raises(MemoryForecastError, match="feature matrix of 50 rows and 36 columns"):
        (2.0 * (left * right)).feature_map(X)
    free = iter([10 * size] * 3 + [size - 1] * 10)
    with pytest.raises(MemoryForecastError):
        (left * right + mc.Linear()).feature_map(X)


def test_the_cosine_of_a_kernel_from_a_table() -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    plain = mc.Matern(nu=1.2)(X)  # k(x, x) = 1
    np.testing.assert_allclose(mc.Matern(nu=1.2).normalized()(X), plain, rtol=1e-12)
    mc.testing.check_kernel(mc.Matern(nu=1.2).normalized())
