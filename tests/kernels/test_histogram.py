"""Kernels of histograms and sets against naive loops, scikit-learn and their set meaning."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import additive_chi2_kernel, chi2_kernel

import mercer as mc
import references as ref
from mercer import validity
from mercer.exceptions import DataError
from references import label

RNG = np.random.default_rng(2)
X, Z = RNG.random((15, 4)), RNG.random((8, 4))
X[0], X[1, :2], Z[0] = 0.0, 0.0, 0.0

LOOPS: list[tuple[mc.Kernel, Any, dict[str, Any]]] = [
    (mc.Chi2(), ref.chi2, {}),
    (mc.Chi2(gain=0.3), ref.chi2, {"gain": 0.3}),
    (mc.AdditiveChi2(), ref.additive_chi2, {}),
    (mc.HistogramIntersection(), ref.intersection, {}),
    (mc.Tanimoto(), ref.tanimoto, {}),
    (mc.Tanimoto(form="minmax"), ref.tanimoto, {"form": "minmax"}),
    (mc.MinMax(), ref.tanimoto, {"form": "minmax"}),
]


@pytest.mark.parametrize(("kernel", "loop", "parameters"), LOOPS, ids=label)
def test_kernel_equals_its_loop(kernel: mc.Kernel, loop: Any, parameters: dict[str, Any]) -> None:
    """Empty bins and empty histograms included."""
    assert_allclose(kernel(X), ref.matrix(loop, X, **parameters), rtol=1e-12, atol=1e-14)
    assert_allclose(kernel(X, Z), ref.matrix(loop, X, Z, **parameters), rtol=1e-12, atol=1e-14)
    assert_allclose(kernel.diag(X), [loop(x, x, **parameters) for x in X], rtol=1e-12)


def test_scikit_learn_agrees() -> None:
    assert_allclose(mc.Chi2(gain=0.7)(X, Z), chi2_kernel(X, Z, gamma=0.7), rtol=1e-12)


def test_additive_chi2_is_psd_and_scikit_learns_is_not() -> None:
    assert validity.check(mc.AdditiveChi2(), X).valid is True
    assert validity.check(additive_chi2_kernel(X)).valid is False


def test_both_forms_of_tanimoto_are_the_jaccard_index_of_sets() -> None:
    sets = [set(np.flatnonzero(row)) for row in RNG.integers(0, 2, (12, 7))]
    bits = np.array([[j in s for j in range(7)] for s in sets], dtype=float)
    wanted = [[len(a & b) / len(a | b) if a | b else 1.0 for b in sets] for a in sets]
    for form in ("dot", "minmax"):
        assert_allclose(mc.Tanimoto(form)(bits), wanted, rtol=1e-14)
        assert_allclose(mc.Tanimoto(form)(bits.astype(int)), wanted, rtol=1e-14)
        assert_allclose(mc.Tanimoto(form)(bits.astype(bool)), wanted, rtol=1e-14)


@pytest.mark.parametrize("kernel", [k for k, _, p in LOOPS if not p], ids=label)
def test_negative_values_are_refused(kernel: mc.Kernel) -> None:
    name = type(kernel).__name__
    with pytest.raises(DataError, match=rf"Negative values .* {name} .* got -0\.5; shift or clip"):
        kernel([[1.0, -0.5]])
    assert kernel.input_tags()["positive_only"]


def test_the_negative_chi2_distance_is_no_kernel_but_the_harmonic_sum_is() -> None:
    histograms = RNG.random((20, 4))
    assert validity.check(additive_chi2_kernel(histograms)).valid is False
    assert validity.check(mc.AdditiveChi2(), histograms).valid is True


def test_squares_beyond_the_range_are_refused() -> None:
    for size in (1e200, 1e-200):
        with pytest.raises(DataError, match="divide all data by one number"):
            mc.Tanimoto()([[size, 0.0], [0.0, size]])
    assert mc.Tanimoto()([[1.0, 1e-200], [0.0, 0.0]])[0, 0] == 1.0
