"""The power of a test against the number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.inference.power import PowerCurve
from mercer.plot.canvas import BLUE, Display, legend_above

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(kw_only=True, eq=False, repr=False)
class PowerDisplay(Display):
    """The share of simulations in which a test rejects, by the number of rows.

    Parameters
    ----------
    sizes : ndarray of shape (m,)
        The numbers of rows, ascending.
    power : ndarray of shape (m,)
        The share of rejections.
    low, high : ndarray of shape (m,)
        The ends of 95% intervals.
    title : str
        The title.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The power.
    band_ : matplotlib PolyCollection
        The intervals.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    mercer.inference.power : The simulation.

    Examples
    --------
    >>> import mercer as mc
    >>> def draw(n, rng):
    ...     return rng.normal(size=(n, 1)), 3.0 + rng.normal(size=(n, 1))
    >>> curve = mc.inference.power(draw, [4, 10], n_simulations=20, n_resamples=99, random_state=0)
    >>> mc.plot.PowerDisplay.from_curve(curve).power.tolist()
    [0.55, 1.0]
    """

    sizes: Array
    power: Array
    low: Array
    high: Array

    @classmethod
    def from_curve(cls, curve: PowerCurve, *, ax: Axes | None = None) -> Self:
        """Draw the result of a simulation.

        Parameters
        ----------
        curve : PowerCurve
            The result of ``mercer.inference.power``.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        cls._require_matplotlib()
        if not isinstance(curve, PowerCurve):
            raise ParameterError(
                f"PowerDisplay: curve = {curve!r} is not a power curve; pass the result of "
                "mercer.inference.power(draw, sizes)."
            )
        order = np.argsort(curve.sizes, kind="stable")
        return cls(
            sizes=curve.sizes[order],
            power=curve.power[order],
            low=curve.low[order],
            high=curve.high[order],
            title="Power: how often the test rejects",
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, or on a new figure."""
        ax = self._draw_on(ax)
        (self.line_,) = ax.plot(self.sizes, self.power, "o-", color=BLUE, label="power")
        self.band_ = ax.fill_between(
            self.sizes,
            self.low,
            self.high,
            color=BLUE,
            alpha=0.2,
            linewidth=0,
            label="95% interval of the simulation",
        )
        ax.set(xlabel="number of rows", ylabel="share of rejections", ylim=(-0.03, 1.03))
        legend_above(ax)
        return self
