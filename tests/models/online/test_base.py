"""Online models: passes, later rows, and interrupts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mercer as mc
from mercer.exceptions import DataError
from model_samples import STREAM

X, Y, BOTH, _, _, _ = STREAM
N = len(X)
RBF = mc.RBF(length_scale=1.5)


def test_partial_fits_are_one_fit() -> None:
    whole = mc.KernelLMS(RBF, 0.7, 0.1).fit(X, BOTH)
    parts = mc.KernelLMS(RBF, 0.7, 0.1)
    for rows in (slice(0, 1), slice(1, 20), slice(20, N)):
        parts.partial_fit(X[rows], BOTH[rows])
    np.testing.assert_allclose(parts.dual_coef_, whole.dual_coef_, rtol=1e-11)
    np.testing.assert_allclose(parts.learning_curve_, whole.learning_curve_, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(parts.points_.data, X)


def test_rows_of_weight_zero_are_left_out() -> None:
    weights = np.where(np.arange(N) % 3 == 0, 0.0, 1.0)
    model = mc.KernelLMS(RBF, 0.5, 0.1).fit(X, Y, weights)
    rest = mc.KernelLMS(RBF, 0.5, 0.1).fit(X[weights > 0], Y[weights > 0])
    np.testing.assert_allclose(model.dual_coef_, rest.dual_coef_, rtol=1e-12)


def test_shuffling_is_a_matter_of_the_random_state() -> None:
    first = mc.KernelLMS(RBF, shuffle=True, random_state=0).fit(X, Y)
    again = mc.KernelLMS(RBF, shuffle=True, random_state=0).fit(X, Y)
    other = mc.KernelLMS(RBF, shuffle=True, random_state=1).fit(X, Y)
    np.testing.assert_array_equal(first.dual_coef_, again.dual_coef_)
    assert not np.array_equal(first.points_.data, other.points_.data)
    order = np.random.RandomState(0).permutation(N)
    np.testing.assert_array_equal(first.points_.data, X[order])


@pytest.mark.filterwarnings("ignore:X has feature names:UserWarning")
def test_later_rows_in_another_container_are_refused_by_name() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    with pytest.raises(DataError, match=r"KernelLMS\.partial_fit: rows cannot be joined"):
        mc.KernelLMS().fit(X, Y).partial_fit(frame, Y)


def interrupt_after(calls: int, function: Callable[..., Any]) -> Callable[..., Any]:
    count = 0

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if count > calls:
            raise KeyboardInterrupt
        return function(*args, **kwargs)

    return interrupted


def test_an_interrupted_fit_keeps_the_rows_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mc.KernelLMS(RBF, 0.5, batch_size=10)
    monkeypatch.setattr(mc.KernelLMS, "_advance", interrupt_after(3, mc.KernelLMS._advance))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.converged_ is False
    monkeypatch.undo()
    expected = mc.KernelLMS(RBF, 0.5).fit(X[:30], Y[:30])
    np.testing.assert_allclose(model.dual_coef_, expected.dual_coef_, rtol=1e-11)
    assert model.partial_fit(X[30:], Y[30:]).learning_curve_.shape == (N,)


def test_an_interrupted_partial_fit_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = mc.KernelLMS(RBF, 0.5, batch_size=10).fit(X[:10], Y[:10])
    before = dict(vars(model))
    monkeypatch.setattr(mc.KernelLMS, "_advance", interrupt_after(2, mc.KernelLMS._advance))
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(X, Y)
    assert vars(model) == before
