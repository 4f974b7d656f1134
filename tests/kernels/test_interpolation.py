"""Tabulated profiles against extended precision."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc

SMOOTHNESS = [
    0.05,
    0.1,
    0.3,
    0.49,
    0.51,
    0.8,
    1.0,
    1.3,
    1.99,
    2.0,
    2.01,
    3.5,
    10,
    19.9,
    20,
    40,
    200,
]


@pytest.mark.parametrize("nu", SMOOTHNESS)
def test_matern_of_any_smoothness_is_good_to_twelve_digits(nu: float) -> None:
    mp = pytest.importorskip("mpmath")
    kernel = mc.Matern(nu=float(nu))
    with mp.workdps(40):
        order = mp.mpf(float(nu))
        for r in np.concatenate([np.geomspace(1e-12, 60.0, 20), np.linspace(0.01, 8.0, 15)]):
            z = mp.sqrt(2 * order) * mp.mpf(float(r))
            wanted = 2 ** (1 - order) / mp.gamma(order) * z**order * mp.besselk(order, z)
            # One pair at a time: rough kernels magnify the last bit of a distance.
            found = kernel([[0.0]], [[r]])[0, 0]
            assert abs(mp.mpf(float(found)) - wanted) < 1e-12
    assert kernel([[0.3]])[0, 0] == 1.0


@pytest.mark.parametrize("nu", [0.8, 1.3, 2.0, 3.5, 40.0])
def test_matern_of_any_smoothness_has_the_right_slope(nu: float) -> None:
    mp = pytest.importorskip("mpmath")
    points, origin = np.geomspace(0.05, 10, 12)[:, None], np.zeros((1, 1))
    for x in points:
        found = mc.Matern(nu=nu).gram(x[None], origin).gradient()[0]
        z = mp.sqrt(2 * nu) * mp.mpf(float(x[0]))
        # d/dr of z^nu K_nu(z) is -z^nu K_{nu-1}(z) dz/dr; theta = log(length_scale), so -r d/dr.
        wanted = (
            2 ** (1 - mp.mpf(nu)) / mp.gamma(nu) * z ** (mp.mpf(nu) + 1) * mp.besselk(nu - 1, z)
        )
        assert_allclose(found, float(wanted), rtol=1e-8, atol=1e-11)
