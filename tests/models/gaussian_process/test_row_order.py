"""Orders of rows along which a kernel decays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import mercer as mc
from mercer.models.gaussian_process.exact import ExactObjective, ExactPosterior
from mercer.models.gaussian_process.row_order import order_of_decay
from mercer.models.gaussian_process.targets import Noise

RNG = np.random.default_rng(0)
N = 2_100
X = RNG.uniform(0, 100, size=(N, 2))
SHORT = 1.0 * mc.RBF([30.0, 0.5])


@pytest.mark.parametrize("kernel", [SHORT, mc.Matern([1e4, 0.1]), mc.Wendland([1e4, 3.0])])
def test_rows_are_sorted_by_the_column_of_the_shortest_length_scale(kernel: mc.Kernel) -> None:
    order = order_of_decay(kernel, kernel.prepare(X))
    assert order is not None
    np.testing.assert_array_equal(order, np.argsort(X[:, 1], kind="stable"))


def test_data_frames_are_sorted_as_arrays_are() -> None:
    kernel = 1.0 * mc.RBF(0.5).on("b")
    columns = {"a": X[:, 0], "b": X[:, 1], "name": np.repeat("x", N)}
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns)):
        order = order_of_decay(kernel, kernel.prepare(frame))
        assert order is not None
        np.testing.assert_array_equal(order, np.argsort(X[:, 1], kind="stable"))


def test_no_order_where_none_helps() -> None:
    few, smooth = X[:100], mc.RBF(30.0)
    assert order_of_decay(SHORT, SHORT.prepare(few)) is None
    assert order_of_decay(smooth, smooth.prepare(X)) is None
    spread = RNG.normal(size=(N, 30))
    far = mc.RBF(0.7)  # two rows in three are far from each other, but in no column alone
    assert order_of_decay(far, far.prepare(spread)) is None
    strings = ["ab" * (i % 9 + 1) for i in range(N)]
    kernel = mc.Spectrum(2)
    assert order_of_decay(kernel, kernel.prepare(strings)) is None
    given = mc.Precomputed()
    assert order_of_decay(given, given.prepare(np.eye(N))) is None


def test_the_posterior_does_not_depend_on_the_order_of_the_rows() -> None:
    y = np.sin(X[:, 1]) + 0.1 * RNG.normal(size=N)
    factors = RNG.uniform(0.5, 2.0, size=N)
    data = ExactObjective(SHORT, SHORT.prepare(X), y[:, None], Noise(0.01, True, factors), True)
    posterior = ExactPosterior.at(data, data.theta)
    plain = ExactPosterior(data, data.gaussian())
    assert posterior.gaussian.factor.order is not None
    assert posterior.log_likelihood() == pytest.approx(plain.log_likelihood(), rel=1e-10)
    np.testing.assert_allclose(posterior.gaussian.dual, plain.gaussian.dual, rtol=1e-7, atol=1e-7)
    new = SHORT.prepare(RNG.uniform(0, 100, size=(20, 2)))
    np.testing.assert_allclose(posterior.mean(new), plain.mean(new), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(posterior.variance(new), plain.variance(new), rtol=1e-8)
    covariances = posterior.covariance(new).matrix, plain.covariance(new).matrix
    np.testing.assert_allclose(*covariances, rtol=1e-8, atol=1e-12)
    left_out = zip(posterior.leave_one_out(), plain.leave_one_out(), strict=True)
    for mine, other in left_out:
        np.testing.assert_allclose(mine, other, rtol=1e-6, atol=1e-9)


def test_jitter_is_explained_by_rows_of_the_data() -> None:
    # Rounding may leave a positive pivot for one copy of a row, but not for each of many copies.
    copies = np.vstack([X, np.repeat(X[[7]], 30, axis=0)])
    ones = np.ones((len(copies), 1))
    data = ExactObjective(SHORT, SHORT.prepare(copies), ones, Noise(0.0, False))
    factor = ExactPosterior.at(data, data.theta).gaussian.factor
    assert factor.order is None
    assert f"such as rows 7 and {N}" in factor.warning()
