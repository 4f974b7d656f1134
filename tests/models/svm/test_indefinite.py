"""Matrices that are no kernel's: what is refused, and where no gap is claimed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.svm import SVC

import mercer as mc
from mercer import memory
from mercer.exceptions import MemoryForecastError, ValidityError
from mercer.models.svm import base as svm_base
from mercer.solvers.box_qp.kernel_matrix import is_seen_invalid
from mercer.solvers.box_qp.problem import StoredMatrix

X, Y = make_moons(160, noise=0.25, random_state=0)


def indefinite(n: int) -> Any:
    values = np.random.default_rng(0).normal(size=(n, n))
    return values + values.T


@pytest.mark.parametrize(
    ("kernel", "data"),
    [
        ("precomputed", indefinite(60)),
        ("precomputed", indefinite(1000)),
        ("precomputed", -rbf_kernel(np.arange(60.0)[:, None], gamma=0.1)),
        (lambda a, b: -a @ b.T, np.arange(120.0).reshape(60, 2)),
    ],
)
def test_no_gap_is_claimed_of_a_matrix_that_is_seen_to_be_invalid(kernel: Any, data: Any) -> None:
    labels = np.arange(len(data)) % 2
    assert np.isnan(mc.SVC(kernel, max_iter=2000).fit(data, labels).dual_gap_).all()
    targets = labels + 0.5
    assert np.isnan(mc.SVR(kernel, C=10.0, max_iter=2000).fit(data, targets).dual_gap_)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e306])
def test_the_unit_of_a_matrix_makes_no_difference(scale: float) -> None:
    assert is_seen_invalid(StoredMatrix(scale * indefinite(60)))
    assert not is_seen_invalid(StoredMatrix(scale * rbf_kernel(X)))
    assert not is_seen_invalid(StoredMatrix(scale * np.zeros((60, 60))))


@pytest.mark.parametrize("shift", [0.0, -1.0, 1e4])
def test_the_gap_of_a_matrix_that_is_valid_where_sums_are_kept(shift: float) -> None:
    """A constant does not change the problem; the gap is primal minus dual, by NumPy."""
    data, dtype = X[:150], np.float64 if shift else np.float32
    gram = rbf_kernel(data, gamma=0.5)
    model = mc.SVC("precomputed", C=10.0).fit((gram + shift).astype(dtype), Y[:150])
    b, signs = np.zeros(len(data)), np.where(Y[:150] == model.classes_[1], 1.0, -1.0)
    b[model.support_] = model.dual_coef_[0]
    square = b @ gram @ b
    losses = np.maximum(0, 1 - signs * (gram @ b + model.intercept_[0]))
    gap = square / 2 + 10 * losses.sum() + square / 2 - np.abs(b).sum()
    assert model.dual_gap_[0] == pytest.approx(gap, rel=1e-3, abs=1e-5 * np.abs(b).sum())


def test_a_matrix_that_is_not_symmetric_is_refused_by_name_too() -> None:
    skew = np.random.default_rng(0).normal(size=(60, 60))
    with pytest.raises(ValidityError, match=r"Precomputed\(\) is not symmetric.*pass \(K \+ K.T\)"):
        mc.SVC("precomputed").fit(skew, np.arange(60) % 2)
    gram = rbf_kernel(X, gamma=0.5)
    rounded = gram + 1e-7 * np.triu(np.ones_like(gram), 1)
    np.testing.assert_allclose(
        mc.SVC("precomputed", tol=1e-8).fit(rounded, Y).intercept_,
        mc.SVC("precomputed", tol=1e-8).fit(gram, Y).intercept_,
        atol=1e-4,
    )


class Cauchy(mc.Stationary):
    """A kernel of which mercer knows nothing."""

    def profile(self, r2: Any) -> Any:
        return 1 / (1 + r2)


class Parabola(mc.Stationary):
    """No kernel."""

    def profile(self, r2: Any) -> Any:
        return 1 - r2 * r2


def test_of_many_rows_some_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(svm_base, "_CHECKED", 50)
    monkeypatch.setattr(memory, "available", lambda: 10_000.0 * 50)
    peer = SVC(kernel=lambda a, b: 1 / (1 + euclidean_distances(a, b, squared=True)), tol=1e-6)
    model = mc.SVC(Cauchy(length_scale=1.0), tol=1e-6).fit(X, Y)
    np.testing.assert_allclose(
        model.decision_function(X), peer.fit(X, Y).decision_function(X), atol=1e-4
    )
    with pytest.raises(ValidityError, match="n = 50"):
        mc.SVC(Parabola(length_scale=1.0)).fit(X, Y)


def test_a_matrix_without_room_can_be_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 8.0 * len(X) ** 2)
    kernel = Cauchy(length_scale=1.0)
    for psd in (None, "clip"):
        with pytest.raises(MemoryForecastError, match=r'with psd="ignore"\.') as caught:
            mc.SVC(kernel, psd=psd).fit(X, Y)
        assert "float32" not in str(caught.value)
    assert mc.SVC(kernel, psd="ignore").fit(X, Y).converged_


def test_a_margin_that_an_indefinite_matrix_hides_is_told_as_such() -> None:
    rng = np.random.default_rng(0)
    data = 2 * rng.normal(size=(120, 4))
    y = (data[:, 0] + data[:, 1] ** 2 > 1).astype(int)
    with pytest.warns(ConvergenceWarning, match="is not positive semi-definite.*psd="):
        model = mc.NuSVC(kernel="sigmoid", nu=0.3).fit(data, y)
    # The squared length of the function, by definition, is negative.
    gram = np.tanh(data @ data.T / (4 * data.var()))[np.ix_(model.support_, model.support_)]
    dual = model.dual_coef_[0]
    assert dual @ gram @ dual < 0
    assert np.isnan(model.dual_gap_).all()
