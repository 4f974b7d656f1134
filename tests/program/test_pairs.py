"""Pairs of points: blocks, diagonals, scales and what a type cannot hold."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import (
    DataError,
)

RNG = np.random.default_rng(0)


def test_a_scale_beyond_the_floating_type_is_refused() -> None:
    X = RNG.normal(size=(4, 2)).astype(np.float32)
    with pytest.raises(DataError, match="exceed the range of float32"):
        mc.RBF(1e-60)(X)
