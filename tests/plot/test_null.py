"""The null distribution of a test."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.inference.resampling import upper_pvalue

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 1))
draw = mc.plot.NullDisplay.from_result


def test_the_histogram_counts_all_resamples() -> None:
    result = mc.inference.hsic_test(X, X**2, mc.RBF(), mc.RBF(), random_state=0)
    display = draw(result)
    assert sum(bar.get_height() for bar in display.bars_) == 999
    assert list(display.line_.get_xdata()) == [result.statistic] * 2  # type: ignore[arg-type]
    assert f"p = {result.pvalue:.3g}" in display.ax_.get_title()
    assert "x and y are independent: rejected" in display.ax_.get_title()
    assert display.ax_.get_xlabel() == "statistic"


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1, 0.3])
def test_the_hypothesis_is_rejected_beyond_the_critical_value(alpha: float) -> None:
    result = mc.inference.hsic_test(X, X**2, n_resamples=99, alpha=alpha, random_state=0)
    display = draw(result)
    critical = display.critical_value
    assert critical is not None
    null = result.null_distribution
    assert upper_pvalue(np.append(critical, null)) > alpha
    assert upper_pvalue(np.append(np.nextafter(critical, np.inf), null)) <= alpha
    assert "smallest p-value" in display.ax_.get_xlabel()


def test_too_few_resamples_have_no_critical_value() -> None:
    display = draw(mc.inference.mmd_test(X, X + 1, n_resamples=10, random_state=0))
    assert display.critical_value is None
    assert display.critical_line_ is None


def test_a_gamma_distribution() -> None:
    kernels = [mc.RBF(), mc.RBF(2.0)]
    result = mc.inference.mmd_test(X, X + 1, kernels, null="gamma", random_state=0)
    display = draw(result)
    assert display.ax_.get_xlabel() == "statistic"
    assert display.critical_value is not None
    # Bonferroni: half of the level for each of two kernels.
    assert np.mean(result.null_distribution >= display.critical_value) == pytest.approx(
        0.025, abs=0.001
    )


def test_anything_else_is_refused() -> None:
    with pytest.raises(ParameterError, match="is not the result of a test; pass"):
        draw(X)  # type: ignore[arg-type]
