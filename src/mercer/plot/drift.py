"""The columns that make two samples differ, as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.inference.attribution import Attribution
from mercer.inference.drift import Drift
from mercer.plot.canvas import BLUE, GREY, VERMILION, Display, draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "DriftDisplay"


@dataclass(kw_only=True, eq=False, repr=False)
class DriftDisplay(Display):
    """The share of each column in the squared discrepancy of two samples, as bars.

    The bars add up to the squared discrepancy, which the title states.

    Parameters
    ----------
    values : ndarray of shape (m,)
        The Shapley values of columns, largest first, and then the sum of the others.
    labels : list of str
        Their names.
    n_others : int
        The number of columns in the sum of the others.
    title : str
        The title.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars, from top to bottom.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x, new = np.random.default_rng(0).normal(size=(2, 100, 3))
    >>> drift = mc.inference.DriftDetector(x, random_state=0).predict(new + [0.0, 1.5, 0.0])
    >>> mc.plot.DriftDisplay.from_drift(drift, top=1).labels
    ['x1', '2 others']
    """

    values: Array
    labels: list[str]
    n_others: int = 0

    @classmethod
    def from_drift(cls, drift: Drift, *, top: int = 10, ax: Axes | None = None) -> Self:
        """Draw the columns that changed, and the p-value.

        Parameters
        ----------
        drift : Drift
            The result of ``DriftDetector.predict``.
        top : int, default=10
            The number of columns to show.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        if not isinstance(drift, Drift):
            raise ParameterError(
                f"{_OWNER}: drift = {drift!r} is not the result of DriftDetector.predict(x); pass "
                "it."
            )
        if drift.attribution is None:
            raise ParameterError(
                f"{_OWNER}: {drift.test.kernel!r} is not a product over columns, so that columns "
                "have no shares; use mercer.RBF, mercer.Laplacian or a product of kernels."
            )
        verdict = "Drift" if drift.is_drift else "No drift"
        name = f"{verdict}: p = {drift.pvalue:.3g}"
        return cls.from_attribution(drift.attribution, top=top, name=name, ax=ax)

    @classmethod
    def from_attribution(
        cls, attribution: Attribution, *, top: int = 10, name: str = "", ax: Axes | None = None
    ) -> Self:
        """Draw the columns that make two samples differ.

        Parameters
        ----------
        attribution : Attribution
            The result of ``mercer.inference.attribution``.
        top : int, default=10
            The number of columns to show.
        name : str, optional
            The first line of the title.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        cls._require_matplotlib()
        checks.require_count(_OWNER, "top", top, example=10)
        if not isinstance(attribution, Attribution):
            raise ParameterError(
                f"{_OWNER}: attribution = {attribution!r} is not an attribution; pass the result "
                "of mercer.inference.attribution(x, y)."
            )
        chosen, others = np.split(attribution.order, [top])
        values, labels = attribution.values[chosen], [attribution.names[j] for j in chosen]
        if len(others):
            values = np.append(values, attribution.values[others].sum())
            labels.append(f"{len(others)} other{'s' * (len(others) > 1)}")
        total = f"squared discrepancy {attribution.statistic:.3g}"
        title = f"{name}\n{total}" if name else total.capitalize()
        return cls(values=values, labels=labels, n_others=len(others), title=title).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, or on a new figure."""
        ax = self._draw_on(ax)
        colours = [BLUE if value >= 0 else VERMILION for value in self.values]
        if self.n_others:
            colours[-1] = GREY
        self.bars_ = draw_bars(ax, self.values, self.labels, colours)
        ax.set_xlabel("share of the column, blue: adds to the difference, orange: hides it")
        return self
