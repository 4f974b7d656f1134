from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta

import mercer as mc
from mercer.inference import power


def draw(n: int, rng: Any) -> tuple[Any]:
    return (np.full(n, rng.random_sample()),)


def test_power_is_the_share_of_rejections() -> None:
    """A test that rejects a uniform number below n / 10."""

    def test(x: Any, random_state: Any, shift: float) -> Any:
        return SimpleNamespace(reject=x[0] < len(x) / 10 + shift)

    curve = power(draw, [2, 7], test, n_simulations=2000, random_state=0, shift=0.1)
    # Five standard errors: a false alarm in a million runs.
    np.testing.assert_allclose(curve.power, [0.3, 0.8], atol=5 * 0.5 / np.sqrt(2000))
    hits = round(2000 * curve.power[0])
    assert curve.low[0] == pytest.approx(beta.ppf(0.025, hits, 2000 - hits + 1))
    assert curve.high[0] == pytest.approx(beta.ppf(0.975, hits + 1, 2000 - hits))
    assert str(curve).splitlines()[0] == "rows  power     low   high"
    assert repr(curve).startswith("PowerCurve(sizes=[2, 7]")


def test_bad_input() -> None:
    with pytest.raises(mc.exceptions.ParameterError, match="n_simulations = 0"):
        power(draw, [3], n_simulations=0)
