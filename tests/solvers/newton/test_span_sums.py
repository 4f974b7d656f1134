"""Sums over rows of losses and their derivatives, against finite differences; samples of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mercer as mc
from mercer.rows.rows import RowBlock
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.newton.span_sums import (
    Coefficients,
    ExplainedTrace,
    HessianProduct,
    HessianSums,
    LineSearch,
    LossesAt,
    WeightSums,
)
from span_problems import LOSSES, SPANS, M, W, X, name, part, span

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("kind", SPANS)
@pytest.mark.parametrize("loss", LOSSES, ids=name)
def test_gradients_and_second_derivatives(loss: RowLoss, kind: str) -> None:
    rows, k, here = part(loss), loss.n_outputs, SPANS[kind]
    whitened = here.whitened
    v, dv = 0.3 * RNG.normal(size=(2, len(here), k))
    b, db = RNG.normal(size=(2, k))

    def value(length: float) -> float:
        place = Coefficients(here.to_coefficients(v + length * dv), b + length * db)
        return float(LossesAt(here, loss, (place,))(rows)[0])

    start = Coefficients(here.to_coefficients(v), b)
    direction = Coefficients(here.to_coefficients(dv), db)
    found = LineSearch(here, loss, start, direction, (0.0, 0.5), needs_hessian=whitened)(rows)
    assert_allclose(found.losses, [value(0.0), value(0.5)])
    step = 1e-5
    slope = (value(step) - value(-step)) / (2 * step)
    assert found.slopes[0] == pytest.approx(slope, rel=1e-6)
    gradient = here.gradient_to_coordinates(found.grad_coef)
    assert np.sum(gradient * dv) + found.grad_intercept @ db == pytest.approx(slope, rel=1e-6)
    product = HessianProduct(here, loss, start, direction)(rows)
    hessians = HessianSums(here, loss, Coefficients(v, b))(rows)
    if whitened:
        assert_allclose(found.hessians, hessians, rtol=1e-9, atol=1e-9)
    both = np.vstack([dv, db])
    image = sum(
        np.outer(hessian @ (both @ factor), factor)
        for hessian, factor in zip(hessians, loss.hessian_factors, strict=True)
    )
    assert_allclose(here.gradient_to_coordinates(product.coef), image[:-1], atol=1e-6)
    assert_allclose(product.intercept, image[-1], atol=1e-7)


def test_samples_of_rows() -> None:
    loss, here = LOSSES[0], span()
    rows = part(loss)
    weights = np.concatenate([found for _, _, found in here.rows(rows, 7)])
    some = np.array([np.flatnonzero(weight == W)[0] for weight in weights])  # all are different
    assert_array_equal(some // 7, np.arange(-(-len(X) // 7)))
    assert len(set(some % 7)) > 1
    few = RowBlock(mc.Points(X[some]), rows.targets[some], W[some])
    place = Coefficients(RNG.normal(size=(M, 1)), np.zeros(1))
    for stride in (
        lambda s: HessianSums(here, loss, place, s),
        lambda s: WeightSums(here, s),
        lambda s: ExplainedTrace(here, s),
    ):
        assert_allclose(stride(7)(rows), stride(1)(few), rtol=1e-12)
    assert_allclose(WeightSums(here)(rows), [W.sum(), W.sum()])
    assert 0 < ExplainedTrace(here)(rows) < W.sum()
