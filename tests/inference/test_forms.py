from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import mercer as mc
from mercer.inference import forms
from mercer.inference.forms import SymmetricBlocks, centred, permutation_moments


@pytest.mark.parametrize("n", [3, 200, 700])  # one block and several
def test_forms_and_sums_are_those_of_the_matrix(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "_BLOCK_BYTES", 8 * 700 * 100)
    rng = np.random.default_rng(0)
    X, V = rng.normal(size=(n, 2)), rng.normal(size=(n, 5))
    K = mc.RBF()(X)
    blocks = SymmetricBlocks.of(mc.RBF(), mc.Points(X))
    np.testing.assert_allclose(blocks.forms(V), np.diag(V.T @ K @ V), rtol=1e-10)
    summary = blocks.summary()
    np.testing.assert_allclose(summary.sums, K.sum(axis=1))
    np.testing.assert_allclose(summary.diagonal, 1.0)
    np.testing.assert_allclose(summary.squares, np.square(K).sum())
    H = np.eye(n) - 1 / n
    C = H @ K @ H
    expected = np.trace(C), np.square(C).sum(), np.square(C.diagonal()).sum()
    np.testing.assert_allclose(summary.centred(), expected, rtol=1e-9)
    np.testing.assert_allclose(centred(K.copy()), C, atol=1e-12)
    L = mc.Laplacian()(X)
    inner = blocks.centred_inner(SymmetricBlocks.of_array(L))
    assert inner == pytest.approx(np.sum(C * L), rel=1e-9)


@pytest.mark.parametrize("n", [3, 4, 5, 6])
def test_moments_are_those_over_all_permutations(n: int) -> None:
    rng = np.random.default_rng(n)
    A, B = (mc.RBF()(rng.normal(size=(n, 2))) for _ in range(2))
    summaries = [SymmetricBlocks.of_array(M).summary() for M in (A, B)]
    centred(A), centred(B)
    values = [np.sum(A * B[np.ix_(p, p)]) for p in permutations(range(n))]
    mean, variance = permutation_moments(*summaries)
    assert mean == pytest.approx(np.mean(values))
    assert variance == pytest.approx(np.var(values))


def test_values_that_are_not_finite_are_refused() -> None:
    points = mc.Points([[1.0], [1e3]])
    with pytest.raises(mc.exceptions.DataError, match="infinity"):
        SymmetricBlocks.of(mc.Linear().exp(), points).forms(np.ones((2, 1)))
