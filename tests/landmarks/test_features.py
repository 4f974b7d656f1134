"""Whitened landmark features, with both policies for singular matrices."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.landmarks.features import LandmarkFeatures

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
Z = np.vstack([X[:8], X[:2]])  # two landmarks are duplicates
KERNEL = mc.RBF(1.0)
NYSTROM = KERNEL(X, X[:8]) @ np.linalg.solve(KERNEL(X[:8]), KERNEL(X[:8], X))


@pytest.mark.parametrize("policy", ["pivoted", "jitter"])
def test_inner_products_are_the_nystrom_approximation(policy: str) -> None:
    points, landmarks = mc.Points(X), mc.Points(Z)
    if policy == "pivoted":
        features = LandmarkFeatures.pivoted(KERNEL, landmarks)
        assert features.width == 8
    else:
        features = LandmarkFeatures.with_jitter(KERNEL, landmarks, points)
        assert features.width == 10
        assert features.whitening.jitter > 0
    phi = features.rows(points)
    assert_allclose(phi @ phi.T, NYSTROM, atol=1e-9)
    # Coordinates v and coefficients of all landmarks are the same function.
    v = RNG.normal(size=(features.width, 3))
    dual = features.of_all_landmarks(features.to_coefficients(v))
    assert dual.shape == (10, 3)
    assert_allclose(KERNEL(X, Z) @ dual, phi @ v, atol=1e-8)


def test_a_kernel_that_is_zero_has_one_feature() -> None:
    features = LandmarkFeatures.pivoted(mc.Linear(), mc.Points(np.zeros((3, 2))))
    assert_allclose(features.rows(mc.Points(X)), np.zeros((30, 1)))
