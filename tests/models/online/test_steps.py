"""Steps of least mean squares against a loop over single rows, and their size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from lms_loop import naive
from mercer.exceptions import ParameterError
from model_samples import STREAM
from references import matrix, rbf

Array = NDArray[np.floating[Any]]

X, Y, BOTH, Z, WEIGHTS, _ = STREAM
N = len(X)
RBF = mc.RBF(length_scale=1.5)
K = matrix(rbf, X, length_scale=1.5)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("batch_size", [1, 7, 256])
@pytest.mark.parametrize("y", [Y, BOTH])
@pytest.mark.parametrize("passes", [1, 3])
def test_mini_batches_are_the_loop(alpha: float, batch_size: int, y: Array, passes: int) -> None:
    model = mc.KernelLMS(RBF, 0.7, alpha, batch_size=batch_size, max_iter=passes).fit(X, y, WEIGHTS)
    coef, errors = naive(K, y, 0.7, alpha, WEIGHTS, passes)
    np.testing.assert_allclose(model.dual_coef_, coef, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(model.learning_curve_, errors, rtol=1e-10, atol=1e-13)
    cross = matrix(rbf, Z, X, length_scale=1.5)
    np.testing.assert_allclose(model.predict(Z), cross @ coef, rtol=1e-9, atol=1e-12)
    assert (model.n_iter_, model.converged_, model.intercept_) == (passes, True, 0.0)


def test_the_step_of_single_rows_is_checked_too() -> None:
    mc.KernelLMS(RBF, 1.99).fit(X, Y)
    with pytest.raises(ParameterError, match=r"step_size = 2 .*not below 2, .*k\(x, x\) = 1\)"):
        mc.KernelLMS(RBF, 2.0).fit(X, Y)
    with pytest.raises(ParameterError, match=r"largest k\(x, x\) times weight = 4"):
        mc.KernelLMS(RBF, 0.6).fit(X, Y, np.full(N, 4.0))
    with pytest.raises(ParameterError, match="forget everything"):
        mc.KernelLMS(RBF, 0.5, 2.0).fit(X, Y)
    # What the check prevents: one row, met again and again, drives the errors to infinity.
    gram = np.ones((40, 40))
    _, errors = naive(gram, np.ones(40), 2.1, 0.0, np.ones(40))
    assert abs(errors[-1]) > 10 * abs(errors[0])


def test_auto_follows_larger_rows() -> None:
    model = mc.KernelLMS(mc.Linear()).partial_fit([[1.0], [2.0]], [1.0, 2.0])
    assert model.step_size_ == pytest.approx(0.5 / 4)
    model.partial_fit([[10.0]], [10.0])
    assert model.step_size_ == pytest.approx(0.5 / 100)
    model.partial_fit([[1.0]], [1.0])
    assert model.step_size_ == pytest.approx(0.5 / 100)
    zero = mc.KernelLMS(mc.Linear()).fit([[0.0]], [1.0])
    assert (zero.step_size_, zero.predict([[5.0]])[0]) == (1.0, 0.0)
