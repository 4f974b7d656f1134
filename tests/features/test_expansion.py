"""Kernels as sums of products."""

from __future__ import annotations

import mercer as mc
from mercer.features.expansion import expand, shares


def test_components_follow_the_weights() -> None:
    assert shares("map", [3.0, 1.0], [0, 0], 8) == [6, 2]
    assert shares("map", [1e9, 1.0, 1.0], [0, 0, 0], 5) == [3, 1, 1]
    assert shares("map", [1.0, 1.0, 7.0], [0, 0, 2], 5) == [2, 1, 2]
    kernel = (mc.RBF() + 2.0) * (mc.Matern() + 0 * mc.RBF()) + 5.0
    assert [term.weight for term in expand(kernel)] == [1.0, 2.0, 5.0]
