"""The map of the errors of a search."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError

RNG = np.random.default_rng(0)

X = RNG.normal(size=(40, 3))

Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)

RBF = mc.RBF(length_scale=1.5)


def test_the_search_is_the_models() -> None:
    scales = [0.5, 2.0, 1.0]
    alphas = [1.0, 0.01, 0.1]
    model = mc.KernelRidge(mc.RBF(), alpha="gcv", alphas=alphas, length_scales=scales).fit(X, Y)
    display = mc.plot.SearchDisplay.from_estimator(model)
    np.testing.assert_array_equal(display.alphas, np.sort(alphas))
    np.testing.assert_array_equal(display.errors, model.search_errors_[:, [1, 2, 0]])
    np.testing.assert_array_equal(np.ma.getdata(display.image_.get_array()), display.errors)
    assert display.kernel_labels == ["0.5", "2", "1"]
    assert display.parameter == display.ax_.get_ylabel() == "length_scale"
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["0.5", "2", "1"]
    best = display.best_.get_xydata()[0]  # type: ignore[index]
    assert best[0] == model.alpha_
    assert scales[int(best[1])] == model.kernel_.length_scale  # type: ignore[attr-defined]
    colour_bar = display.figure_.axes[-1]
    assert colour_bar.get_ylabel() == "GCV error"


def test_a_search_over_several_parameters_names_them() -> None:
    kernel = mc.RBF().on(0) + mc.Matern().on(1)
    model = mc.KernelRidge(
        kernel,
        alpha=0.5,
        length_scales={"rbf__length_scale": [1.0, 2.0], "matern__length_scale": [3.0]},
    )
    display = mc.plot.SearchDisplay.from_estimator(model.fit(X, Y))
    assert display.parameter == "rbf__length_scale"
    assert display.errors.shape == (2, 1)
    assert display.figure_.axes[-1].get_ylabel() == "leave-one-out error"


def test_searches_that_are_no_map() -> None:
    with pytest.raises(ParameterError, match="RidgePathDisplay"):
        mc.plot.SearchDisplay.from_estimator(mc.KernelRidge(RBF, alpha="loo").fit(X, Y))
    only_zero = mc.KernelRidge(mc.RBF(), alpha=0, length_scales=[1.0, 2.0]).fit(X, Y)
    with pytest.raises(ParameterError, match="no alpha > 0"):
        mc.plot.SearchDisplay.from_estimator(only_zero)
