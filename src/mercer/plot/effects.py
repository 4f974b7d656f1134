"""The effects of the terms of a kernel, one panel for each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.categorical import Categorical, Missing
from mercer.kernels.containers import as_table, tabular
from mercer.kernels.points import Points
from mercer.kernels.views import Select, Warp
from mercer.models.effects import Effects
from mercer.plot.canvas import BLUE, GREY, Display, final_model, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "EffectsDisplay"
# Panels in a row of a new figure, at most.
_PER_ROW = 3
# Characters of a line of a panel's title.
_PANEL_LINE = 36


@dataclass(frozen=True)
class Panel:
    """What one panel shows: a term, and the columns that it reads."""

    term: int  # the position in the effects
    labels: tuple[str, ...]  # the names of the columns
    columns: tuple[NDArray[Any], ...]  # their values at the rows
    is_category: bool  # whether a single column holds categories


@dataclass(kw_only=True, eq=False, repr=False)
class EffectsDisplay(Display):
    """The effects of a model, one panel for each term of its kernel.

    A term that reads one column of numbers or dates is a curve through the rows, with a band if the
    model is an exact Gaussian process. A term of one column of categories is a bar for each. A term
    of two columns is a point for each row, coloured by the effect. Other terms are histograms of
    their effects. Terms that are constant, and terms without columns, are not drawn.

    Parameters
    ----------
    effects : Effects
        The effects, as ``model.effects`` returns them.
    panels : list of Panel
        The terms to draw, with the values of their columns.
    title : str
        The title of a new figure, by default the model and the number of its terms.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        One for each panel.
    ax_, figure_ : matplotlib Axes and Figure
        The first of the axes, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.random.default_rng(0).uniform(-2, 2, size=(60, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> kernel = mc.RBF().on(0) + mc.Linear().on(1)
    >>> model = mc.KernelRidge(kernel, alpha=0.01).fit(X, y)
    >>> display = mc.plot.EffectsDisplay.from_estimator(model, X)
    >>> len(display.axes_)
    2
    """

    effects: Effects
    panels: list[Panel]

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, *, output: Any = None, ax: Any = None, **plot_kwargs: Any
    ) -> Self:
        """Draw the effects of a fitted model at the rows of X.

        Parameters
        ----------
        estimator : object
            A model with ``effects``, whose kernel is a sum.
        X : array-like or data frame
            The rows, usually those of the training data; curves join them.
        output : label, float or int, optional
            The function, as for ``model.effects``.
        ax, **plot_kwargs
            Passed to `plot`.
        """
        cls._require_fitted(
            estimator, "effects", remedy="pass a model of mercer, such as KernelRidge"
        )
        effects = estimator.effects(X, output=output)
        panels = [_panel(i, kernel, X) for i, kernel in enumerate(effects.kernels)]
        drawn = [p for p in panels if np.ptp(effects.values[:, p.term]) > 0] or panels
        title = f"{type(final_model(estimator)).__name__}: effects of {len(drawn)} terms"
        display = cls(effects=effects, panels=drawn, title=title)
        return display.plot(ax, **plot_kwargs)

    def plot(self, ax: Any = None, *, coverage: float = 0.95, color: str = BLUE) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : sequence of matplotlib Axes, optional
            One for each panel; a new figure by default.
        coverage : float, default=0.95
            The probability of the bands of a Gaussian process.
        color : str, optional
            The colour of curves, bands and bars.
        """
        if not 0 < coverage < 1:
            raise ParameterError(
                f"{_OWNER}: coverage = {coverage!r} is not a probability strictly between 0 and 1; "
                "pass for example 0.95."
            )
        self.axes_ = self._panels_on(ax)
        self._draw_on(self.axes_[0])
        if ax is None:
            self.figure_.suptitle(wrapped(self.title), fontsize="medium")
        std = self.effects.std
        half = None if std is None else ndtri((1 + coverage) / 2) * std
        curves = []
        for axes, panel in zip(self.axes_, self.panels, strict=True):
            values = self.effects.values[:, panel.term]
            margin = None if half is None else half[:, panel.term]
            if len(panel.columns) == 1:
                draw = _bars if panel.is_category else _curve
                draw(axes, panel, values, margin, color)
                curves.append(axes)
            elif len(panel.columns) == 2:
                _points(axes, panel, values)
            else:
                axes.hist(values, bins="auto", color=color, alpha=0.7)
                axes.set(xlabel=f"effect of {len(panel.labels) or 'all'} columns", ylabel="rows")
            axes.set_title(self._title(panel), fontsize="medium")
        _share_limits(curves)
        return self

    def _title(self, panel: Panel) -> str:
        name, dof = self.effects.names[panel.term], self.effects.dof
        text = name if dof is None else f"{name}, dof {dof[panel.term]:.1f}"
        return wrapped(text, _PANEL_LINE)

    def _panels_on(self, ax: Any) -> NDArray[Any]:
        """The axes passed by the caller, one for each panel, or new ones."""
        self._require_matplotlib()
        import matplotlib.pyplot as plt

        count = len(self.panels)
        if ax is None:
            width = min(_PER_ROW, count if count <= _PER_ROW else math.isqrt(count - 1) + 1)
            height = -(-count // width)
            size = (3.6 * width, 3.0 * height)
            _, grid = plt.subplots(height, width, figsize=size, layout="constrained", squeeze=False)
            for unused in grid.ravel()[count:]:
                unused.remove()
            return np.asarray(grid.ravel()[:count])
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) != count:
            raise ParameterError(
                f"{_OWNER}: {len(given)} axes are given for {count} panels; pass one for each, "
                "such as the second result of plt.subplots(1, n)."
            )
        return given


def _curve(ax: Axes, panel: Panel, values: Array, half: Array | None, color: str) -> None:
    """The effect of a number, in the order of its values."""
    _, order = np.unique(panel.columns[0], return_index=True)
    x, y = panel.columns[0][order], values[order]
    if half is not None:
        low, high = y - half[order], y + half[order]
        ax.fill_between(x, low, high, color=color, alpha=0.25, linewidth=0)
    ax.plot(x, y, color=color, linewidth=1.8)
    ax.axhline(0.0, color=GREY, linewidth=0.6)
    if x.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(maxticks=6)
        ax.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator)
        ax.xaxis.set_major_formatter(formatter)
    ax.margins(x=0)
    ax.set(xlabel=panel.labels[0], ylabel="effect")


def _bars(ax: Axes, panel: Panel, values: Array, half: Array | None, color: str) -> None:
    """The effect of each category, the largest first."""
    levels, first = np.unique(panel.columns[0].astype(str), return_index=True)
    order = np.argsort(-values[first], kind="stable")
    rows = first[order]
    errors = None if half is None else half[rows]
    style = {"ecolor": GREY, "capsize": 3}
    ax.bar(levels[order], values[rows], yerr=errors, color=color, alpha=0.7, error_kw=style)
    ax.axhline(0.0, color=GREY, linewidth=0.6)
    if sum(map(len, levels)) > 30:
        ax.tick_params(axis="x", labelrotation=45)
    ax.set(xlabel=panel.labels[0], ylabel="effect")


def _points(ax: Axes, panel: Panel, values: Array) -> None:
    """The effect of two columns, as the colours of rows."""
    x, y = (c if c.dtype.kind in "iufM" else c.astype(str) for c in panel.columns)
    largest = float(np.abs(values).max()) or 1.0
    dots = ax.scatter(x, y, c=values, cmap="RdBu_r", vmin=-largest, vmax=largest, s=14)
    ax.figure.colorbar(dots, ax=ax, label="effect")
    ax.set(xlabel=panel.labels[0], ylabel=panel.labels[1])


def _share_limits(axes: list[Any]) -> None:
    """Give curves and bars one scale, so that their sizes can be compared."""
    limits = np.array([ax.get_ylim() for ax in axes]).reshape(-1, 2)
    for ax in axes:
        ax.set_ylim(limits[:, 0].min(), limits[:, 1].max())


def _panel(term: int, kernel: Kernel, X: Any) -> Panel:
    """The columns of X that a term reads, if X is a table and they are one or two."""
    data = X.data if isinstance(X, Points) else as_table(X)
    data = nw.from_native(data, eager_only=True, pass_through=True)
    if not (isinstance(data, nw.DataFrame) or np.ndim(data) == 2):
        return Panel(term, (), (), False)
    read = sorted({j for _, view in kernel._reader.leaves for j in _positions(view, data)})
    frame = isinstance(data, nw.DataFrame)
    labels = tuple(str(data.columns[j]) if frame else f"x{j}" for j in read)
    if len(read) > 2:
        return Panel(term, labels, (), False)
    columns = tuple(_values(data, j) for j in read)
    kinds = {type(leaf) for leaf, _ in kernel._reader.leaves}
    codes = kinds <= {Categorical, Missing} or any(c.dtype.kind not in "iufM" for c in columns)
    return Panel(term, labels, columns, codes)


def _positions(view: Any, data: Any) -> list[int]:
    """The columns of the data that a view reads, up to a function of them."""
    positions = list(range(data.shape[1]))
    for step in view.steps:
        if isinstance(step, Select):
            chosen = step._positions(tabular(data, view.owner), view.owner)
            positions = [positions[j] for j in chosen]
            data = step(data, view.owner)
        elif isinstance(step, Warp):
            break
    return positions


def _values(data: Any, column: int) -> NDArray[Any]:
    """The values of a column: numbers, dates, or any other objects."""
    if isinstance(data, nw.DataFrame):
        return np.asarray(data.get_column(data.columns[column]).to_numpy())
    values = data[:, [column]]
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]
