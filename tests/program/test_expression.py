"""Expressions: one object for each meaning, which lives as long as it is used."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.program.expression import (
    DIFFERENCE,
    Interned,
    TraceError,
    X,
    Z,
    constant,
    hash_of,
    parameter,
)


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


class Node:
    def __init__(self, part: Any) -> None:
        self.part = part


def test_an_object_that_its_own_structure_holds_is_freed() -> None:
    table: Interned[Node] = Interned()
    node = table.add(hash("key"), Node("key"))
    other = table.add(hash("key"), Node("other"))
    node.part = [node]
    assert [known() for known in table.alike[hash("key")]] == [node, other]
    reference = weakref.ref(node)
    del node
    gc.collect()
    assert reference() is None
    assert [known() for known in table.alike[hash("key")]] == [other]
    del other
    assert not table.alike


def test_what_has_no_hash_has_that_of_its_type() -> None:
    assert hash_of([1]) == hash_of([2])
    assert hash_of("a") == hash("a")
