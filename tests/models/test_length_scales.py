"""Candidates of a search over length-scales."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import (
    ParameterError,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40) + 7
Z = RNG.normal(size=(9, 3))


def test_length_scales_are_searched_together_with_alpha() -> None:
    scales, alphas = [0.2, 1.5, 20.0], [1e-3, 1e-1, 10.0]
    model = mc.KernelRidge(mc.RBF(), alpha="loo", alphas=alphas, length_scales=scales).fit(X, Y)
    expected = np.array(
        [
            mc.KernelRidge(mc.RBF(length_scale=s), alpha="loo", alphas=alphas)
            .fit(X, Y)
            .search_errors_[0]
            for s in scales
        ]
    )
    np.testing.assert_allclose(model.search_errors_, expected, rtol=1e-9)
    row, column = np.unravel_index(np.argmin(expected), expected.shape)
    assert model.kernel_ == mc.RBF(length_scale=scales[row]) == model.search_kernels_[row]
    assert model.alpha_ == alphas[column]
    direct = mc.KernelRidge(model.kernel_, alpha=model.alpha_).fit(X, Y)
    np.testing.assert_allclose(model.predict(Z), direct.predict(Z), rtol=1e-8)
    np.testing.assert_allclose(model.loo_residuals_, direct.loo_residuals_, rtol=1e-6, atol=1e-9)


def test_a_fixed_alpha_with_length_scales_uses_leave_one_out() -> None:
    model = mc.KernelRidge(alpha=0.1, length_scales=[0.1, 2.0]).fit(X, Y)
    assert (model.alpha_, model.search_errors_.shape) == (0.1, (2, 1))
    assert model.kernel_ == mc.RBF(length_scale=2.0)


def test_which_length_scales_a_grid_reaches() -> None:
    kernel = mc.RBF(length_scale=mc.Fixed(3.0)) + mc.Laplacian(length_scale=1.0)
    model = mc.KernelRidge(kernel, length_scales=[0.5, 2.0]).fit(X, Y)
    assert {k.get_params()["laplacian__length_scale"] for k in model.search_kernels_} == {0.5, 2.0}
    assert {k.get_params()["rbf__length_scale"] for k in model.search_kernels_} == {mc.Fixed(3.0)}
    grid = {"rbf__length_scale": [1.0, 2.0], "laplacian__length_scale": [1.0, 2.0, "median"]}
    free = mc.RBF() + mc.Laplacian()
    both = mc.KernelRidge(free, length_scales=grid).fit(X, Y)
    assert len(both.search_kernels_) == 6
    assert len(set(both.search_kernels_)) == 6


def test_automatic_length_scales_are_multiples_within_bounds() -> None:
    kernel = (
        mc.RBF(length_scale=mc.Bounded(1.0, 0.5, 2.0))
        + mc.Laplacian(length_scale=mc.Fixed(3.0))
        + mc.Matern(length_scale=[1.0] * X.shape[1])
    )
    model = mc.KernelRidge(kernel, 0.1, length_scales="auto").fit(X, Y)
    factors = 2.0 ** np.linspace(-3, 2, 11)
    found = [k.get_params() for k in model.search_kernels_]
    assert [p["rbf__length_scale"].value for p in found] == list(np.clip(factors, 0.5, 2.0))
    assert {p["laplacian__length_scale"] for p in found} == {mc.Fixed(3.0)}
    for params, factor in zip(found, factors, strict=True):
        np.testing.assert_allclose(params["matern__length_scale"], factor)
    resolved = mc.KernelRidge(alpha=0.1).fit(X, Y).kernel_.length_scale
    chosen = mc.KernelRidge(alpha=0.1, length_scales="auto").fit(X, Y)
    lengths = [k.length_scale for k in chosen.search_kernels_]
    np.testing.assert_allclose(lengths, resolved * factors)
    with pytest.raises(ParameterError, match="no length_scale that is not Fixed"):
        mc.KernelRidge(mc.Linear(), length_scales="auto").fit(X, Y)


@pytest.mark.parametrize("length_scales", [[], {}, "median", {"length_scale": []}])
def test_empty_grids_of_length_scales(length_scales: Any) -> None:
    with pytest.raises(ParameterError, match=r"KernelRidge: length_scales = .*no values"):
        mc.KernelRidge(length_scales=length_scales).fit(X, Y)
