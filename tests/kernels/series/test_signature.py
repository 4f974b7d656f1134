"""Signature kernels against explicit tensors, closed forms and invariances."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import iv

import mercer as mc
from mercer.exceptions import DataError, NumericalWarning, ParameterError
from mercer.kernels.series import signature as signature_module
from mercer.testing import check_kernel
from series_oracles import matrix, random_series, signature, static_equation, static_signature

X = [0.3 * x for x in random_series(9, 2, seed=0)]
Y = [0.3 * x for x in random_series(37, 2, seed=1)]


def tensors(series: list[np.ndarray], depth: int) -> np.ndarray:
    return np.array([signature(x, depth) for x in series])


@pytest.mark.parametrize("depth", range(1, 7))
def test_truncated_kernels_are_inner_products_of_tensors(depth: int) -> None:
    k = mc.Signature(depth, layout="time,channels")
    wanted = tensors(X, depth) @ tensors(Y, depth).T
    assert_allclose(k(X, Y), wanted, rtol=1e-10, atol=1e-10)
    assert_allclose(k(X), tensors(X, depth) @ tensors(X, depth).T, rtol=1e-10, atol=1e-10)
    assert_allclose(k.diag(X), np.square(tensors(X, depth)).sum(axis=1), rtol=1e-10)


def test_the_equation_sums_all_levels() -> None:
    wanted = tensors(X, 9) @ tensors(Y, 9).T
    errors = []
    for refinement in (2, 3, 4):
        k = mc.Signature(method="pde", refinement=refinement, layout="time,channels")
        errors.append(np.abs(k(X, Y) - wanted).max())
    assert errors[2] < errors[1] / 3 < errors[0] / 9
    assert errors[2] < 1e-3


@pytest.mark.parametrize("product", [-0.5, 0.1, 2.0])
def test_straight_lines_have_a_bessel_function(product: float) -> None:
    lines = [[0.0, 1.0]], [[0.0, product]]
    root = np.sqrt(complex(product))
    wanted = iv(0, 2 * root).real
    assert_allclose(mc.Signature(6)(*lines), [[wanted]], rtol=2e-5)
    assert_allclose(mc.Signature(method="pde", refinement=8)(*lines), [[wanted]], rtol=1e-5)


@pytest.mark.parametrize("static", [mc.Linear(), mc.RBF(1.0)])
def test_repeated_points_and_shifts_change_nothing(static: mc.Kernel) -> None:
    k = mc.Signature(static=static, layout="time,channels")
    slow = [np.repeat(x, 1 + np.arange(len(x)) % 3, axis=0) for x in X]
    assert_allclose(k(slow, Y), k(X, Y), rtol=1e-12)
    if static == mc.Linear():
        assert_allclose(k([x + 5.0 for x in X], Y), k(X, Y), rtol=1e-10, atol=1e-12)
    whole = mc.Signature(method="pde", refinement=2, static=static, layout="time,channels")
    assert_allclose(whole(slow, Y), whole(X, Y), rtol=1e-12)


STATIC = {
    "rbf": (mc.RBF(1.5), lambda a, b: np.exp(-((a - b) @ (a - b)) / 4.5)),
    "matern": (mc.Matern(2.0, nu=0.5), lambda a, b: np.exp(-np.linalg.norm(a - b) / 2)),
    "one channel": (mc.RBF(1.0).on(1), lambda a, b: np.exp(-((a[1] - b[1]) ** 2) / 2)),
    "sum": (
        2.0 * mc.Linear() + mc.RBF(1.0),
        lambda a, b: 2 * a @ b + np.exp(-(a - b) @ (a - b) / 2),
    ),
}


@pytest.mark.parametrize("name", STATIC)
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_static_kernels_are_sums_over_words(name: str, depth: int) -> None:
    static, function = STATIC[name]
    short, other = random_series(4, 2, seed=2, high=6), random_series(35, 2, seed=3, high=5)
    k = mc.Signature(depth, static=static, layout="time,channels")
    wanted = matrix(static_signature, short, other, function, depth)
    assert_allclose(k(short, other), wanted, rtol=1e-9, atol=1e-9)
    both = [*short, *other[:3]]
    wanted = matrix(static_signature, both, both, function, depth)
    assert_allclose(k(both), wanted, rtol=1e-9, atol=1e-9)
    assert_allclose(k.diag(both), wanted.diagonal(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("refinement", [0, 2])
def test_static_kernels_solve_the_equation(refinement: int) -> None:
    static, function = STATIC["matern"]
    k = mc.Signature(method="pde", refinement=refinement, static=static, layout="time,channels")
    wanted = matrix(static_equation, X, Y, function, refinement)
    assert_allclose(k(X, Y), wanted, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:Signature. steps of length:mercer.exceptions.NumericalWarning")
@pytest.mark.parametrize("method", ["truncated", "pde"])
def test_static_kernels_are_those_of_their_features(method: str) -> None:
    k = mc.Signature(method=method, layout="time,channels")
    options = {"time": 1.0, "lead_lag": True}
    linear = k.replace(static=mc.Polynomial(1, offset=0.0, gain=1.0))
    assert_allclose(linear(X, Y), k(X, Y), rtol=1e-10)
    assert_allclose(linear.replace(**options)(X), k.replace(**options)(X), rtol=1e-9)
    lifted = [[np.column_stack([x**2, np.sqrt(2) * x]) for x in Z] for Z in (X, Y)]
    square = k.replace(static=mc.Polynomial(2, offset=1.0, gain=1.0).on(0))
    lifted = [[z[:, [0, 2]] for z in Z] for Z in lifted]
    assert_allclose(square(X, Y), k(*lifted), rtol=1e-9)


def test_values_of_static_kernels_are_held_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    series = random_series(70, 1, seed=5, high=30)
    k = mc.Signature(3, static=mc.RBF(1.0))
    whole, cross = k(series), k(series[:3], series)
    monkeypatch.setattr(signature_module, "_STATIC_VALUES", 1)
    monkeypatch.setattr(signature_module, "_SERIES", 33)
    # The static kernel measures distances from the centre of each part, which rounds differently.
    assert_allclose(k(series), whole, rtol=1e-11)
    assert_allclose(k(series[:3], series), cross, rtol=1e-11)
    assert_array_equal(whole, whole.T)


def test_static_kernels_say_whether_they_are_valid() -> None:
    assert mc.Signature(static=mc.RBF(1.0)).is_psd is True
    assert mc.Signature(static=mc.Sigmoid()).is_psd is None
    with pytest.raises(ParameterError, match=r"static = 'rbf' is not a kernel"):
        mc.Signature(static="rbf")
    with pytest.raises(ParameterError, match="numbers as parameters"):
        mc.Signature(static=mc.RBF("median"))
    k = mc.Signature(static=mc.RBF(1.0), layout="time,channels")
    with pytest.raises(DataError, match="series of 2 channels cannot be compared"):
        k(X, [np.ones((3, 1))])


def test_errors_of_static_kernels_reach_the_caller() -> None:
    class Refusing(mc.PairKernel):
        """A kernel that fails."""

        psd = True

        def pairs(self, A: list, B: list) -> np.ndarray:
            raise RuntimeError("no values today")

    with pytest.raises(RuntimeError, match="no values today"):
        mc.Signature(static=Refusing())([[1.0, 2.0]])


def test_time_and_lead_lag_are_channels() -> None:
    timed = [np.column_stack([x, np.linspace(0.0, 2.0, len(x))]) for x in X]
    k = mc.Signature(3, layout="time,channels")
    assert_allclose(k.replace(time=2.0)(X), k(timed))
    pairs = []
    for x in X:
        path = [(x[0], x[0])]
        for before, after in pairwise(x):
            path += [(after, before), (after, after)]
        pairs.append(np.array([np.concatenate(point) for point in path]))
    assert_allclose(k.replace(lead_lag=True)(X), k(pairs))


def test_series_of_one_time_have_the_trivial_signature() -> None:
    for method in ("truncated", "pde"):
        assert_array_equal(mc.Signature(method=method)([[1.0], [3.0]]), np.ones((2, 2)))


@pytest.mark.parametrize("seed", range(4))
def test_signature_kernels_are_positive_semi_definite(seed: int) -> None:
    rng = np.random.default_rng(seed)
    series = random_series(30, int(rng.integers(1, 4)), seed, high=25)
    depth, static = int(rng.integers(1, 6)), (mc.Linear(), mc.Matern(1.0))[seed % 2]
    k = mc.Signature(depth, static=static, length_scale=3.0, layout="time,channels").normalized()
    assert np.linalg.eigvalsh(k(series))[0] > -1e-9
    assert k.is_psd is True
    check_kernel(k, series[:8])


def test_long_series_need_memory_for_one_row() -> None:
    t = np.linspace(0.0, 1.0, 3000)
    circle = np.column_stack([np.cos(6 * t), np.sin(6 * t)])
    K = mc.Signature(layout="time,channels")([circle, circle[::2], circle[::-1]])
    # Every second point of a fine curve is nearly the same path.
    assert_allclose(K[0, 0], K[0, 1], rtol=1e-3)


def test_the_median_scales_series() -> None:
    series = [np.arange(5.0), np.zeros(3)]
    assert mc.Signature(length_scale="median").resolve(series).length_scale == 2.0
    with pytest.raises(ParameterError, match="depth"):
        mc.Signature(7)


def test_long_steps_of_the_equation_give_a_warning_with_the_remedy() -> None:
    zigzag = [[0.0, 2.0] * 5 + [0.0]]
    with pytest.warns(NumericalWarning, match="pass refinement=2"):
        mc.Signature(method="pde", refinement=1)(zigzag)
    assert mc.Signature(method="pde", refinement=2)(zigzag).item() == pytest.approx(1, abs=0.5)
    assert mc.Signature(method="pde").is_psd is None
    assert mc.Signature().is_psd


def test_norms_without_digits_are_refused() -> None:
    rng = np.random.default_rng(5)
    rough = 100 * rng.normal(size=(20, 200))
    rough[:, -1] = rough[:, 0] + rng.normal(size=20)
    with pytest.raises(DataError, match="raise length_scale"):
        mc.Signature()(rough)
    with pytest.raises(DataError, match="at least 1"):
        mc.Signature().diag(rough)
