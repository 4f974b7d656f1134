"""Spectral measures: their cosines have the kernel as their mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import ndtri

import mercer as mc
from mercer.exceptions import NoFeatureMapError, ParameterError
from mercer.features.spectral_measures import (
    EitherSign,
    GaussianMixture,
    PointMass,
    independent,
    spectral_measure,
)
from monte_carlo import points


@pytest.mark.parametrize(
    "kernel",
    [
        mc.RBF(0.7),
        mc.Matern(length_scale=2.0, nu=2.5),
        mc.Matern(length_scale=2.0, nu=np.inf),
        mc.Laplacian(3.0),
        mc.RationalQuadratic(2.0, alpha=1.5),
        mc.SpectralMixture([1.0], [[0.3]], [[2.0]]),
        mc.Cosine(0.5),
        mc.Periodic(period=3.0, length_scale=0.8),
    ],
    ids=repr,
)
def test_the_mean_cosine_over_quantiles_is_the_kernel(kernel: Any) -> None:
    """The expectation of cos(w t) as a sum over quantiles of the draws: no chance is involved."""
    measure, places = spectral_measure(kernel), (np.arange(600) + 0.5) / 600
    normals, uniforms = (part.reshape(-1, 1) for part in np.meshgrid(ndtri(places), places))
    w = measure.frequencies(normals, uniforms[:, : measure.n_uniforms(1)])
    for t in (0.0, 0.3, 1.1):
        exact = kernel(np.array([[t]]), np.zeros((1, 1)))[0, 0]
        # A quantile stands for 1 / 600 of the draws; cosines jump by 2 at most between harmonics.
        assert_allclose(np.cos(w * t).mean(), exact, atol=2 * 2 / 600)


def test_a_product_of_kernels_adds_frequencies_with_random_signs() -> None:
    measures = independent([PointMass(1.0), GaussianMixture(1.0), PointMass(2.0)])
    assert [isinstance(measure, EitherSign) for measure in measures] == [False, False, True]
    # cos(t) cos(2 t) is the mean of cos(3 t) and cos(t), that is of both signs of the second.
    signs = np.array([[0.2], [0.7]])
    w = PointMass(1.0).frequencies(signs, signs) + measures[2].frequencies(signs, signs)
    assert_allclose(np.cos(0.4 * w).mean(), np.cos(0.4) * np.cos(0.8), rtol=1e-12)


class Cauchy(mc.Stationary):
    """1 / (1 + r^2)."""

    psd = True

    def profile(self, r2: Any) -> Any:
        """1 / (1 + r^2)."""
        return 1 / (1 + r2)


def test_a_registered_measure_serves_a_users_kernel() -> None:
    X = points(40, 3)
    with pytest.raises(NoFeatureMapError, match=r"Cauchy.*register its measure"):
        mc.RandomFourier(Cauchy(), 10).fit(X)

    @spectral_measure.register
    def _(kernel: Cauchy) -> GaussianMixture:
        return GaussianMixture(kernel.length_scale, lambda u: np.sqrt(-2 * np.log(u)))

    kernel = 2.0 * Cauchy(length_scale=2.0)
    Phi = mc.RandomFourier(kernel, 20_000, random_state=0).fit_transform(X)
    # The largest of 780 estimates, each of standard deviation at most 2 / sqrt(10,000).
    assert abs(Phi @ Phi.T - kernel(X)).max() < 6 * 2 / 100


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (mc.Linear(), r"Linear\(\) has no spectral measure.*TensorSketch"),
        (mc.RBF() + mc.White(), "leave the noise out of the kernel"),
        (mc.RBF() * mc.Wendland().on(0), "Wendland.* has no spectral measure"),
        ((mc.RBF() + mc.Linear()).normalized(), r"normalized\(\) has no spectral measure.*Nystrom"),
        (0.0 * mc.RBF(), "is zero and has no features"),
        ((mc.RBF() + mc.Matern()) ** 20, "1048576 products"),
    ],
)
def test_kernels_without_a_spectral_measure(kernel: mc.Kernel, message: str) -> None:
    with pytest.raises((NoFeatureMapError, ParameterError), match=message):
        mc.RandomFourier(kernel, 100).fit(points())
