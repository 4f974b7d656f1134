"""What a fit would cost: the model is left alone, and what cannot be forecast is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import DataTypeError, ParameterTypeError

X = np.random.default_rng(0).normal(size=(50, 2))


@pytest.mark.parametrize(
    "model",
    [mc.KernelRidge(), mc.KernelLogisticRegression(), mc.GaussianProcessRegressor()],
    ids=lambda model: type(model).__name__,
)
def test_the_model_is_not_fitted(model: Any) -> None:
    before = dict(vars(model))
    found = mc.forecast(model, X)
    assert found.chosen in [cost.solver for cost in found.costs]
    assert vars(model) == before


def test_what_cannot_be_forecast_is_refused() -> None:
    with pytest.raises(ParameterTypeError, match="model is a NadarayaWatson, which does not"):
        mc.forecast(mc.NadarayaWatson(), X)  # type: ignore[arg-type]
    rows = iter([(X, X[:, 0])])
    with pytest.raises(DataTypeError, match=r"gone through once.*pass mercer\.Blocks"):
        mc.forecast(mc.KernelRidge(), rows)
    assert len(list(rows)) == 1  # it was not used up
