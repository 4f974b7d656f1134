"""The witness function of two samples over one column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer import checks
from mercer.arrays import Array
from mercer.inference.embedding import witness
from mercer.plot.canvas import BLUE, GREY, VERMILION, Display, Numbers, shortened
from mercer.plot.curve import finish
from mercer.plot.section import one_column

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_OWNER = "WitnessDisplay"


@dataclass(kw_only=True, eq=False, repr=False)
class WitnessDisplay(Display):
    """Where two samples differ along one column, with both samples as ticks.

    The witness function is positive where the first sample has more rows than the second, and
    negative where it has fewer.

    Parameters
    ----------
    x : ndarray of shape (m,)
        The grid.
    values : ndarray of shape (m,)
        The witness function on the grid.
    first, second : ndarray of shape (n,)
        The column in each sample.
    xlabel, ylabel : str
        The labels of the axes.
    title : str
        The title.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The witness function.
    first_, second_ : matplotlib Line2D
        The ticks of the samples: the first above the axis, the second at the top.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    mercer.inference.witness : The function, for data of any type.

    Examples
    --------
    >>> import mercer as mc
    >>> x, y = [0.0, 0.5, 1.0], [2.0, 2.5, 3.0]
    >>> display = mc.plot.WitnessDisplay.from_samples(x, y, mc.RBF(), grid_resolution=3)
    >>> display.values[[0, -1]].round(2).tolist()
    [0.67, -0.67]
    """

    x: NDArray[Any]
    values: Array
    first: NDArray[Any]
    second: NDArray[Any]
    xlabel: str = "x"
    ylabel: str = "witness function"

    @classmethod
    def from_samples(
        cls,
        x: Any,
        y: Any,
        kernel: Any = None,
        *,
        column: Any = None,
        grid_resolution: int = 200,
        margin: float = 0.1,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the witness function of two samples of one column.

        Parameters
        ----------
        x, y : array-like, data frame or Points
            The samples.
        kernel : Kernel, str or callable, optional
            The kernel of the column; ``RBF("columns")`` by default.
        column : int or str, optional
            The column, by its position or name; needed if there are several. The other columns do
            not count.
        grid_resolution : int, default=200
            The number of points of the grid.
        margin : float, default=0.1
            How far the grid reaches beyond the samples, as a share of their range.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        cls._require_matplotlib()
        checks.require_count(_OWNER, "grid_resolution", grid_resolution, least=2, example=200)
        (first, label), (second, _) = (one_column(_OWNER, side, column) for side in (x, y))
        both = Numbers(np.vstack([first.values, second.values]), kinds=first.kinds)
        low, high = both.limits(margin, _OWNER).ravel()
        grid = np.linspace(low, high, grid_resolution)
        function = witness(first.values, second.values, kernel)
        return cls(
            x=first.shown(grid),
            values=function(grid[:, None]),
            first=first.shown(first.values[:, 0]),
            second=second.shown(second.values[:, 0]),
            xlabel=label,
            title=f"Witness function, {shortened(function.kernel)}\n"
            f"maximum mean discrepancy {function.norm:.3g}",
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, or on a new figure."""
        ax = self._draw_on(ax)
        (self.line_,) = ax.plot(self.x, self.values, color="black", linewidth=1.8)
        ax.margins(y=0.12)  # room for the ticks
        ax.axhline(0, color=GREY, linewidth=0.8)
        self.first_ = self._ticks(ax, self.first, 0.02, color=BLUE, label="first sample")
        self.second_ = self._ticks(ax, self.second, 0.98, color=VERMILION, label="second sample")
        finish(ax, self.x, self.xlabel, self.ylabel)
        return self

    @staticmethod
    def _ticks(ax: Axes, values: NDArray[Any], height: float, **settings: Any) -> Line2D:
        """Ticks at the rows of a sample, at this share of the height of the axes."""
        place = ax.get_xaxis_transform()
        line: Line2D
        (line,) = ax.plot(values, np.full(len(values), height), "|", transform=place, **settings)
        return line
