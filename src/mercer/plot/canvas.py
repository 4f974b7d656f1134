"""Shared parts of all displays: axes, titles, colours, and numeric data."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, DataTypeError, MissingDependencyError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.containers import by_narwhals
from mercer.kernels.containers import numbers_of as numbers_of_column
from mercer.kernels.points import Points
from mercer.streams.blocks import without_columns
from mercer.streams.sources import Given, named_columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.container import BarContainer
    from matplotlib.figure import Figure, SubFigure


# The colours of Okabe and Ito, which suit all kinds of colour vision.
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILION, SKY, PURPLE = "#D55E00", "#56B4E9", "#CC79A7"
GREY = "#555555"
COLOURS = (ORANGE, BLUE, GREEN, VERMILION, SKY, PURPLE)
_FEW_DECADES = 1e3
# Characters of a line of a title, and largest number of lines.
_LINE, _LINES = 56, 2
# Microseconds of a day.
_DAY = 86_400e6


@dataclass(kw_only=True, eq=False, repr=False)
class Display:
    """Base of displays, with their title and the axes that ``plot`` sets."""

    title: str = ""

    @classmethod
    def _require_matplotlib(cls) -> None:
        """Refuse to draw without matplotlib, before anything is computed."""
        try:
            import matplotlib.pyplot  # noqa: F401, ICN001
        except ImportError as error:
            raise MissingDependencyError(
                f"{cls.__name__} needs matplotlib, which cannot be imported ({error}); install it "
                'with `pip install "mercer[plot]"`.'
            ) from error

    def _draw_on(self, ax: Axes | None, size: tuple[float, float] | None = None) -> Axes:
        """The axes passed by the caller, or new ones, under the title of the display."""
        self._require_matplotlib()
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes

        if ax is None:
            _, ax = plt.subplots(figsize=size, layout="constrained")
        if not isinstance(ax, Axes):
            raise ParameterError(
                f"{type(self).__name__}: ax = {ax!r} is not a matplotlib Axes; pass one, such as "
                "the second result of plt.subplots(), or leave it out."
            )
        self.ax_: Axes = ax
        self.figure_: Figure | SubFigure = ax.figure
        ax.set_title(wrapped(self.title), fontsize="medium")
        return ax

    def _split(self, ax: Axes, *, rows: int = 1, columns: int = 1, **settings: Any) -> Axes:
        """Give a part of a subplot, below it or to its right, to new axes."""
        place = ax.get_subplotspec()
        if place is None:
            raise ParameterError(
                f"{type(self).__name__}: ax is not part of a grid of subplots, and cannot be "
                "divided; pass axes made by plt.subplots(), or leave ax out."
            )
        halves = place.subgridspec(rows, columns, **settings)
        ax.set_subplotspec(halves[0])
        return self.figure_.add_subplot(halves[1], sharex=ax if rows > 1 else None)

    @classmethod
    def _require_fitted(cls, estimator: Any, *names: str, remedy: str) -> None:
        """Refuse an estimator that is not fitted, or that lacks a required attribute."""
        cls._require_matplotlib()
        check_is_fitted(estimator)
        # Look at the class first: some of these properties compute an eigendecomposition.
        for name in names:
            if not hasattr(type(estimator), name) and not hasattr(estimator, name):
                raise ParameterError(
                    f"{cls.__name__}: {type(estimator).__name__} has no {name}; {remedy}."
                )


@dataclass(frozen=True)
class Numbers:
    """The numbers of a data set; times are days since 1970."""

    values: Array
    frame: Any = None  # the data frame, if it is one
    kinds: str = ""  # for each column "M" if it holds times, "m" for durations, or "f"

    @classmethod
    def read(cls, X: Any, n_columns: int, owner: str) -> Numbers:
        """Read arrays and data frames with this many columns; refuse anything else."""
        data = by_narwhals(X.data if isinstance(X, Points) else X, owner)
        is_frame = isinstance(data, nw.DataFrame)
        if isinstance(data, nw.Series):
            data = data.to_numpy()
        try:
            values, kinds = _of_frame(data) if is_frame else _of_array(data)
        except (TypeError, ValueError):
            raise DataTypeError(
                f"{owner}: X does not hold numbers; pass {_columns(n_columns)} of numbers to draw."
            ) from None
        if values.ndim == 1 == n_columns:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != n_columns:
            raise DataError(
                f"{owner}: X has shape {values.shape}, but {_columns(n_columns)} can be drawn; "
                f"pass data of shape (n, {n_columns}), and a model fitted on as many columns."
            )
        if not len(values) or not np.isfinite(values).all():
            raise DataError(f"{owner}: X is empty, or has NaN or infinity; pass finite rows.")
        return cls(values, data if is_frame else None, kinds)

    @property
    def has_times(self) -> bool:
        """Whether a column holds times or durations."""
        return bool(self.kinds.strip("f"))

    def like(self, values: Array) -> Any:
        """New rows in the form of the data set."""
        columns = [self.shown(column, j) for j, column in enumerate(values.T)]
        if self.frame is None:
            return np.stack(columns, axis=1)
        named = dict(zip(self.frame.columns, columns, strict=True))
        return nw.from_dict(named, backend=self.frame.implementation).to_native()

    def shown(self, values: Array, column: int = 0) -> NDArray[Any]:
        """Values of a column for an axis or a model: times as such."""
        kind = self.kinds[column] if self.kinds else "f"
        return values if kind == "f" else np.rint(values * _DAY).astype(f"{kind}8[us]")

    def limits(self, margin: float, owner: str) -> Array:
        """The range of each column, extended by a share of its length; times at the end only."""
        checks.require_number(owner, "margin", margin, closed=True, example=0.1)
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        before = margin * np.array([kind != "M" for kind in self.kinds] or [True])
        return np.stack([low - before * width, high + margin * width])

    def label(self, column: int, default: str) -> str:
        """The name of a column for an axis."""
        return default if self.frame is None else str(self.frame.columns[column])


def _columns(count: int) -> str:
    return "1 column" if count == 1 else f"{count} columns"


def _of_frame(frame: Any) -> tuple[Array, str]:
    """The columns of a data frame as numbers, and their kinds."""
    columns = [numbers_of_column(frame[name]) for name in frame.columns]
    if any(column is None for column in columns):
        raise TypeError("a column does not hold numbers")
    dtypes = [frame[name].dtype for name in frame.columns]
    kinds = ["m" if d == nw.Duration else "M" if d.is_temporal() else "f" for d in dtypes]
    return np.stack(columns, axis=1), "".join(kinds)  # type: ignore[arg-type]


def _of_array(data: Any) -> tuple[Array, str]:
    """An array as numbers, and the kinds of its columns."""
    array = np.asarray(data.toarray() if hasattr(data, "toarray") else data)
    if array.dtype.kind not in "mM":
        return np.asarray(array, dtype=np.float64), ""
    ticks = array.astype(f"{array.dtype.kind}8[us]")
    days = np.where(np.isnat(ticks), np.nan, ticks.astype(np.int64) / _DAY)
    return days, array.dtype.kind * (array.shape[1] if array.ndim == 2 else 1)


def final_model(estimator: Any) -> Any:
    """The model itself: the best of a search, or the last step of a pipeline."""
    model = getattr(estimator, "best_estimator_", estimator)
    return model.steps[-1][1] if hasattr(model, "steps") else model


def described(estimator: Any) -> str:
    """The name of a model for a title, with its kernel if it is a model of mercer."""
    model = final_model(estimator)
    kernel = getattr(model, "kernel_", getattr(model, "kernel", None))
    name = type(model).__name__
    return f"{name}, {shortened(kernel)}" if isinstance(kernel, Kernel) else name


def shortened(kernel: Kernel) -> str:
    """The text of a kernel with numbers of three digits, and the ends of long vectors."""
    text = re.sub(r"\d+\.\d+(e[+-]?\d+)?", lambda found: f"{float(found[0]):.3g}", repr(kernel))
    return re.sub(r"\[([^][,]+), (?:[^][,]+, ){2,}([^][,]+)\]", r"[\1, ..., \2]", text)


def wrapped(text: str, width: int = _LINE) -> str:
    """A title on few lines; each line that the text has is wrapped."""
    text = re.sub(r"(\d) \* ", "\\1\u00a0*\u00a0", text)  # a factor stays with its kernel
    lines = [
        line
        for part in text.split("\n")
        for line in textwrap.wrap(part, width, max_lines=_LINES, placeholder=" ...")
    ]
    return "\n".join(lines)


def label_logarithms(axis: Axis) -> None:
    """Label a logarithmic axis that spans few decades at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if 0 < low < high < _FEW_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def readable_legend(ax: Axes, **settings: Any) -> None:
    """A legend where there is most room, on an opaque background."""
    ax.legend(
        **({"loc": "best", "framealpha": 0.85, "edgecolor": "none", "fontsize": "small"} | settings)
    )


def legend_above(ax: Axes, columns: int = 3) -> None:
    """A legend between the axes and their title, where it hides nothing."""
    entries = len(ax.get_legend_handles_labels()[0])
    if not entries:
        return
    columns = min(entries, columns)
    legend = ax.legend(
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncols=columns,
        frameon=False,
        fontsize="small",
        columnspacing=1.2,
        handletextpad=0.5,
    )
    if ax.get_title():
        # The title reserves the height; a wide legend must not narrow the axes.
        legend.set_in_layout(False)
        ax.set_title(ax.get_title(), fontsize="medium", pad=10 + 15 * -(-entries // columns))


def draw_bars(ax: Axes, values: Array, labels: list[str], colours: list[str]) -> BarContainer:
    """Horizontal bars from top to bottom, with their numbers beside them."""
    n = len(values)
    bars = ax.barh(np.arange(n), values, color=colours, height=0.7)
    ax.bar_label(bars, [_signed(value) for value in values], padding=3)
    ax.axvline(0, color="black", linewidth=0.8)
    ax.margins(x=0.25)  # room for the numbers beside the bars
    ax.set(yticks=range(n), yticklabels=labels, ylim=(n - 0.4, -0.6))
    return bars


def _signed(value: float) -> str:
    """A number with its sign and three digits, without an exponent up to a million."""
    return f"{value:+,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:+.3g}"


def numbers_of(y: Any, n: int, owner: str) -> NDArray[Any]:
    """Targets or labels, one for each row."""
    values = np.asarray(y)
    if values.shape != (n,):
        raise DataError(
            f"{owner}: y has shape {values.shape} but there are {n} rows; pass one value for each."
        )
    return values


def rows_and_targets(owner: str, estimator: Any, X: Any, y: Any) -> tuple[Any, Any]:
    """Inputs and targets as `fit` takes them: targets may be a column of X, which is no input."""
    (X, y, _), _ = named_columns(owner, Given(X, y, None))
    return without_columns(X, getattr(final_model(estimator), "_named_columns", ())), y
