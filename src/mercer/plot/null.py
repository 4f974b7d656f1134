"""The null distribution of a test, with its statistic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.inference.results import TestResult
from mercer.plot.canvas import BLUE, GREY, VERMILION, Display, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class NullDisplay(Display):
    """The values of a statistic if the hypothesis holds, and the value that was observed.

    Parameters
    ----------
    null_distribution : ndarray of shape (n_resamples,)
        The values if the hypothesis holds.
    statistic : float
        The observed value.
    critical_value : float, optional
        The value beyond which the hypothesis is rejected; None if there are too few resamples for
        the level.
    alpha : float
        The level.
    xlabel : str
        The label of the statistic.
    title : str
        The title.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The histogram.
    line_ : matplotlib Line2D
        The line at the observed value.
    critical_line_ : matplotlib Line2D or None
        The line at the critical value.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    mercer.inference.TestResult : The result of a test, with these numbers.

    Examples
    --------
    >>> import mercer as mc
    >>> result = mc.inference.hsic_test([1, 2, 3, 4], [1, 4, 9, 16], random_state=0)
    >>> display = mc.plot.NullDisplay.from_result(result)
    >>> len(display.null_distribution)
    999
    """

    null_distribution: Array
    statistic: float
    critical_value: float | None = None
    alpha: float = 0.05
    xlabel: str = "statistic"

    @classmethod
    def from_result(cls, result: TestResult, *, ax: Axes | None = None) -> Self:
        """Draw the null distribution of the result of a test.

        Parameters
        ----------
        result : TestResult
            The result of a test of ``mercer.inference``.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        cls._require_matplotlib()
        if not isinstance(result, TestResult):
            raise ParameterError(
                f"NullDisplay: result = {result!r} is not the result of a test; pass that of "
                "mercer.inference.mmd_test(x, y), or of another test."
            )
        several = len(result.kernels) > 1
        is_gamma = result.details.get("null") == "gamma"  # whose p-values Bonferroni multiplies
        level = result.alpha / len(result.kernels) if is_gamma else result.alpha
        verdict = "rejected" if result.reject else "not rejected"
        return cls(
            null_distribution=result.null_distribution,
            statistic=result.statistic,
            critical_value=_critical_value(result.null_distribution, level),
            alpha=result.alpha,
            xlabel=r"$-\log_{10}$ of the smallest p-value of the kernels"
            if several and not is_gamma
            else "statistic",
            title=f"{result.owner}: p = {result.pvalue:.3g}\n{result.hypothesis}: {verdict}",
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, or on a new figure."""
        ax = self._draw_on(ax)
        _, _, self.bars_ = ax.hist(
            self.null_distribution, "sqrt", color=BLUE, alpha=0.6, label="if the hypothesis holds"
        )
        self.line_ = ax.axvline(
            self.statistic, color=VERMILION, linewidth=1.8, label=f"observed {self.statistic:.3g}"
        )
        self.critical_line_ = None
        if self.critical_value is not None:
            label = f"rejected beyond, at {self.alpha:.3g}"
            self.critical_line_ = ax.axvline(
                self.critical_value, color=GREY, linestyle="--", label=label
            )
        ax.set(xlabel=self.xlabel, ylabel="number of resamples")
        legend_above(ax)
        return self


def _critical_value(null: Array, alpha: float) -> float | None:
    """The largest null value that is not rejected: p = (1 + #{null >= t}) / (1 + B) > alpha."""
    rank = int(np.floor(alpha * (1 + len(null)) * (1 + 1e-12)))
    return float(np.sort(null)[-rank]) if rank else None
