from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.inference import mean_embedding, witness

rng = np.random.default_rng(0)
X, Y, T = rng.normal(size=(7, 2)), rng.normal(size=(5, 2)), rng.normal(size=(4, 2))


def test_a_mean_embedding_is_a_mean_of_kernel_values() -> None:
    w = np.arange(1.0, 8.0)
    mu, weighted = mean_embedding(X, mc.RBF()), mean_embedding(X, mc.RBF(), sample_weight=w)
    K = mc.RBF()(T, X)
    np.testing.assert_allclose(mu(T), K.mean(axis=1))
    np.testing.assert_allclose(weighted(T), K @ w / w.sum())
    assert mu.norm == pytest.approx(np.sqrt(mc.RBF()(X).mean()))
    assert mu.inner(mean_embedding(Y, mc.RBF())) == pytest.approx(mc.RBF()(X, Y).mean())
    assert repr(mu) == "Embedding(7 rows, RBF())"


def test_the_witness_is_the_difference_and_its_norm_the_discrepancy() -> None:
    f = witness(X, Y, mc.RBF())
    difference = mean_embedding(X, mc.RBF()) - mean_embedding(Y, mc.RBF())
    np.testing.assert_allclose(f(T), difference(T))
    k = mc.RBF()
    squared = k(X).mean() + k(Y).mean() - 2 * k(X, Y).mean()
    assert f.norm == pytest.approx(np.sqrt(squared))
    pooled = np.vstack([X, Y])
    assert witness(X, Y).kernel == mc.RBF("columns").resolve(pooled)


def test_different_kernels_are_refused() -> None:
    with pytest.raises(mc.exceptions.DataError, match="different spaces"):
        mean_embedding(X, mc.RBF()).inner(mean_embedding(Y, mc.RBF(2.0)))
