"""Expressions: one object for each meaning, which lives as long as it is used."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.program.expression import DIFFERENCE, TraceError, X, Z, constant, parameter


def test_kernels_are_not_kept_alive_by_caches() -> None:
    class Marker:
        """Something whose life can be watched."""

    marker = Marker()
    watched = weakref.ref(marker)
    kernel = mc.FunctionKernel(lambda A, B, held=marker: A @ B.T) * mc.RBF()
    kernel(np.ones((3, 1)))
    kernel.warp(lambda X, held=marker: X)(np.ones((3, 1)))
    del kernel, marker
    gc.collect()  # the expressions, whose table of all expressions then lets the kernels go
    gc.collect()
    assert watched() is None


def test_expressions_are_interned_and_simplified() -> None:
    p = parameter("p")
    assert X * Z is X * Z
    assert X - Z is DIFFERENCE
    assert X + 0 is X
    assert X * 1 is X
    assert X / 1 is X
    assert X * 0 is constant(0.0)
    assert constant(2.0) * 3 is constant(6.0)
    assert (X * p) * 2 is X * (p * 2)
    assert X**1 is X
    assert X - X is constant(0.0)


@pytest.mark.parametrize(
    "act",
    [
        lambda: bool(X > 0),
        lambda: float(X),
        lambda: np.asarray(X),
        lambda: list(X),
        lambda: len(X),
        lambda: X[0],
        lambda: np.add(X, Z, where=True),
        lambda: np.add.reduce(X),
        lambda: np.special if hasattr(np, "special") else np.cbrt(X),
        lambda: X + np.ones(3),
        lambda: X + "a",
    ],
)
def test_what_needs_numbers_cannot_be_traced(act: Callable[[], Any]) -> None:
    with pytest.raises((TraceError, TypeError)):
        act()
