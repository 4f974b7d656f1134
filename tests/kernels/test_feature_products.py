"""Products through explicit features: equal to those of all pairs, and only where they are few."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

import mercer as mc
from mercer.kernels import feature_products

RNG = np.random.default_rng(21)
X, Z = RNG.normal(size=(700, 3)), RNG.normal(size=(500, 3))
LETTERS = np.array(list("abcd"))
WORDS = ["".join(RNG.choice(LETTERS, 12)) for _ in range(700)]
OTHERS = ["".join(RNG.choice(np.array(list("bcde")), 12)) for _ in range(500)]

FEW_FEATURES: dict[str, tuple[mc.Kernel, Any, Any]] = {
    "linear": (mc.Linear(), X, Z),
    "float32": (mc.Linear(), X.astype(np.float32), Z.astype(np.float32)),
    "sparse": (mc.Linear(), sp.csr_array(X), sp.csr_array(Z)),
    "polynomial": (mc.Polynomial(2, offset=0.3), X, Z),
    "composition": (2.0 * mc.Linear().on(0, 1) * mc.Polynomial(2) + 0.5, X, Z),
    "cosine": (mc.Polynomial(2).normalized() + mc.Cosine(2.0), X, Z),
    "strings": (mc.Spectrum(2), WORDS, OTHERS),
    "cosine of strings": (mc.Spectrum(2).normalized() + 1.0, WORDS, OTHERS),
}


@pytest.mark.parametrize("name", FEW_FEATURES)
@pytest.mark.parametrize("block", [2**21, 200])
def test_products_equal_those_of_the_matrix(
    name: str, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_products, "_BLOCK", block)
    kernel, rows, cols = FEW_FEATURES[name]
    single = getattr(rows, "dtype", None) == np.float32
    for other in (None, cols):
        gram = kernel.gram(rows, other)
        assert gram._through_features is not None
        K = gram.toarray().astype(float)
        V, U = RNG.normal(size=(K.shape[1], 2)), RNG.normal(size=(K.shape[0], 2))
        sizes = np.abs(K) @ np.abs(V), np.abs(K).T @ np.abs(U)
        rtol = 1e-6 if single else 1e-13
        assert (gram @ V).dtype == gram.dtype
        assert (np.abs(gram @ V - K @ V) <= rtol * sizes[0]).all()
        assert (np.abs(gram.T @ U - K.T @ U) <= rtol * sizes[1]).all()
        assert_allclose(gram.rmatvec(U[:, 0]), K.T @ U[:, 0], rtol=1e-4 if single else 1e-8)
        normal = K.T @ (K @ V)
        assert_allclose(gram.normal_matmat(V), normal, rtol=1e-4 if single else 1e-9)
        assert_allclose(gram.against(U, V), np.sum(U * (K @ V)), rtol=1e-4 if single else 1e-8)


def through_features(kernel: mc.Kernel, *data: Any) -> bool:
    return kernel.gram(*data)._through_features is not None


def test_many_features_or_few_pairs_are_left_to_the_engine() -> None:
    wide = RNG.normal(size=(700, 200))
    assert not through_features(mc.Linear(), wide)
    assert not through_features(mc.Polynomial(3), wide)
    assert not through_features(mc.Monomials(2), wide)  # 3^200 features
    assert not through_features(mc.Anova(5), wide)
    assert not through_features(mc.Linear(), X[:100])
    assert not through_features(mc.RBF() + mc.Linear(), X)
    assert not through_features(mc.Linear() + mc.White(), X)
    assert not through_features(mc.Linear().exp(), X)


def test_no_more_features_than_a_block_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    made = mc.Polynomial._features

    def counted(self: Any, scope: Any, points: Any) -> Any:
        columns = made(self, scope, points)
        sizes.append(columns.values.size)
        return columns

    monkeypatch.setattr(mc.Polynomial, "_features", counted)
    monkeypatch.setattr(feature_products, "_BLOCK", 1000)
    mc.Polynomial(2).gram(X) @ np.ones(700)
    assert max(sizes) <= 1000
