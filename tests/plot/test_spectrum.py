"""Displays of kernel ridge show the model's own numbers."""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=40)
RBF = mc.RBF(length_scale=1.5)


def test_shrinkage_factors_are_the_models() -> None:
    model = mc.KernelRidge(RBF, alpha=0.4).fit(X, Y)
    display = mc.plot.ShrinkageDisplay.from_estimator(model)
    ridge = np.linalg.eigvalsh(RBF(X) - RBF(X).mean(0) - RBF(X).mean(1)[:, None] + RBF(X).mean())
    expected = np.sort(ridge)[::-1][:39]
    np.testing.assert_allclose(display.line_.get_ydata(), expected / (expected + 0.4), atol=1e-10)
    assert list(display.line_.get_xdata()) == list(range(1, 40))  # type: ignore[arg-type]
    assert display.dof_line_.get_xdata()[0] == pytest.approx(model.effective_dof_)  # type: ignore[index]
    assert display.ax_.get_xscale() == "log"
    assert "eigenvector" in display.ax_.get_xlabel()
    assert "share kept" in display.ax_.get_ylabel()
    legend = display.ax_.get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text().startswith(r"$\alpha$ = 0.4: ")


def test_several_models_share_axes() -> None:
    _, ax = plt.subplots()
    for alpha, color in ((0.1, "C0"), (1.0, "C1")):
        model = mc.KernelRidge(RBF, alpha=alpha).fit(X, Y)
        mc.plot.ShrinkageDisplay.from_estimator(model, ax=ax, color=color, label=f"{alpha}")
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["0.1", "1.0"]


def test_the_path_shows_loo_gcv_and_degrees_of_freedom() -> None:
    model = mc.KernelRidge(RBF, alpha="loo").fit(X, Y)
    alphas = [10.0, 0.1, 1.0]
    display = mc.plot.RidgePathDisplay.from_estimator(model, alphas)
    np.testing.assert_array_equal(display.alphas, [0.1, 1.0, 10.0])
    grid = display.alphas
    np.testing.assert_allclose(display.loo_line_.get_ydata(), model.loo_path(grid))
    np.testing.assert_allclose(display.gcv_line_.get_ydata(), model.gcv_path(grid))
    np.testing.assert_allclose(display.dof_line_.get_ydata(), model.dof_path(grid))
    np.testing.assert_array_equal(display.dof_line_.get_xdata(), grid)
    assert display.ax_.get_xscale() == display.dof_ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "mean squared error"
    assert display.dof_ax_.get_ylabel() == "degrees of freedom"
    assert display.dof_ax_.get_xlabel() == r"$\alpha$"
    legend = display.ax_.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    least = [model.loo_path(grid).min(), model.gcv_path(grid).min()]
    names = ["leave-one-out", "GCV"]
    curves = [f"{name} (dot: least, {e:.3g})" for name, e in zip(names, least, strict=True)]
    assert texts == [*curves, "one standard error", rf"model, $\alpha$ = {model.alpha_:.3g}"]


def test_the_default_alphas_are_those_of_the_search_or_around_the_model() -> None:
    searched = mc.KernelRidge(RBF, alpha="loo").fit(X, Y)
    grid = mc.plot.RidgePathDisplay.from_estimator(searched).alphas
    np.testing.assert_array_equal(grid, searched.alphas_)
    given = mc.KernelRidge(RBF, alpha=2.0).fit(X, Y)
    grid = mc.plot.RidgePathDisplay.from_estimator(given).alphas
    np.testing.assert_allclose(grid[[0, -1]], [2e-3, 2e3])
    interpolant = mc.KernelRidge(RBF, alpha=0).fit(X, Y)
    grid = mc.plot.RidgePathDisplay.from_estimator(interpolant).alphas
    np.testing.assert_allclose(grid[[0, -1]], [1e-3, 1e3])


@pytest.mark.parametrize("repeats", [1, 2])
def test_the_dot_is_on_the_line_of_the_model(repeats: int) -> None:
    model = mc.KernelRidge(RBF, alpha="loo").fit(np.tile(X, (repeats, 1)), np.tile(Y, repeats))
    display = mc.plot.RidgePathDisplay.from_estimator(model)
    assert display.alphas[np.argmin(display.loo_errors)] == model.alpha_


def test_degenerate_problems_are_drawn() -> None:
    constant = mc.KernelRidge(RBF).fit(X, np.full(40, 3.0))
    mc.plot.RidgePathDisplay.from_estimator(constant).figure_.canvas.draw()
    single = mc.KernelRidge(RBF).fit(X[:1], Y[:1])
    mc.plot.RidgePathDisplay.from_estimator(single).figure_.canvas.draw()
    assert mc.plot.ShrinkageDisplay.from_estimator(single).shrinkage.size == 0


def test_a_path_is_drawn_without_its_interpolant() -> None:
    path = mc.KernelRidge(RBF).path(X, Y, alphas=[1.0, 0.0, 0.01])
    display = mc.plot.RidgePathDisplay.from_path(path)
    np.testing.assert_array_equal(display.alphas, [0.01, 1.0])
    np.testing.assert_array_equal(display.loo_errors, path.loo_errors[[2, 0]])
    np.testing.assert_array_equal(display.effective_dof, path.effective_dof[[2, 0]])
    with pytest.raises(ParameterError, match="numbers > 0"):
        mc.plot.RidgePathDisplay.from_path(mc.KernelRidge(RBF).path(X, Y, alphas=[0.0]))


@pytest.mark.parametrize("alphas", [[], [0.0, 1.0], [-1.0], [np.nan], "many"])
def test_alphas_that_a_logarithmic_axis_does_not_have(alphas: Any) -> None:
    model = mc.KernelRidge(RBF).fit(X, Y)
    with pytest.raises(ParameterError, match=r"RidgePathDisplay: alphas = .*; pass"):
        mc.plot.RidgePathDisplay.from_estimator(model, alphas)


def test_the_axes_of_a_grid_are_divided_and_loose_ones_refused() -> None:
    model = mc.KernelRidge(RBF).fit(X, Y)
    figure, axes = plt.subplots(1, 2, layout="constrained")
    display = mc.plot.RidgePathDisplay.from_estimator(model, ax=axes[0])
    figure.canvas.draw()
    above, below, beside = (ax.get_position() for ax in (display.ax_, display.dof_ax_, axes[1]))
    assert below.y1 < above.y0
    assert max(above.x1, below.x1) < beside.x0
    with pytest.raises(ParameterError, match="cannot be divided; pass"):
        display.plot(plt.figure().add_axes((0.1, 0.1, 0.8, 0.8)))


def test_the_band_is_one_standard_error_of_errors_by_brute_force() -> None:
    model = mc.KernelRidge(RBF, alpha=0.3).fit(X, Y)
    rows = np.arange(len(X))
    squares = [
        (Y[i] - mc.KernelRidge(RBF, alpha=0.3).fit(X[rows != i], Y[rows != i]).predict(X[[i]])[0])
        ** 2
        for i in rows
    ]
    display = mc.plot.RidgePathDisplay.from_estimator(model)
    assert display.band_ is not None
    assert display.band_.get_height() == pytest.approx(np.std(squares, ddof=1) / np.sqrt(len(X)))
    assert display.band_.get_y() == pytest.approx(display.loo_errors.min())
    weighted = mc.KernelRidge(RBF, alpha=0.3).fit(X, Y, np.linspace(1, 2, len(X)))
    assert mc.plot.RidgePathDisplay.from_estimator(weighted).band_ is None


def test_the_degrees_of_freedom_of_the_model_are_marked() -> None:
    model = mc.KernelRidge(RBF, alpha="loo").fit(X, Y)
    display = mc.plot.RidgePathDisplay.from_estimator(model)
    (text,) = display.dof_ax_.texts
    assert text.get_text() == f"{model.effective_dof_:.3g}"
    beyond = mc.plot.RidgePathDisplay.from_estimator(model, [1e3, 1e4])
    assert not beyond.dof_ax_.texts


def test_many_factors_have_few_dots() -> None:
    many = RNG.normal(size=(150, 2))
    model = mc.KernelRidge(RBF).fit(many, many[:, 0])
    line = mc.plot.ShrinkageDisplay.from_estimator(model).line_
    assert len(line.get_ydata()) == 149  # type: ignore[arg-type]
    assert len(line.get_markevery()) <= 40  # type: ignore[arg-type]
