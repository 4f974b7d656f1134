"""Shared parts of all displays: axes, colours, and numeric data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, DataTypeError, MissingDependencyError, ParameterError
from mercer.kernels.containers import as_table
from mercer.kernels.points import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure


# The colours of Okabe and Ito, which suit all kinds of colour vision.
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILION, SKY, PURPLE = "#D55E00", "#56B4E9", "#CC79A7"
GREY = "#555555"
_FEW_DECADES = 1e3
COLOURS = (ORANGE, BLUE, GREEN, VERMILION, SKY, PURPLE)


class Display:
    """Base of displays, with the attributes that ``plot`` sets."""

    ax_: Axes  # the axes drawn on
    figure_: Figure | SubFigure  # their figure

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

    def _draw_on(self, ax: Axes | None) -> Axes:
        """The axes passed by the caller, or new ones."""
        self._require_matplotlib()
        import matplotlib.pyplot as plt
        from matplotlib.axes import Axes

        if ax is None:
            _, ax = plt.subplots(layout="constrained")
        if not isinstance(ax, Axes):
            raise ParameterError(
                f"{type(self).__name__}: ax = {ax!r} is not a matplotlib Axes; pass one, such as "
                "the second result of plt.subplots(), or leave it out."
            )
        self.ax_, self.figure_ = ax, ax.figure
        return ax

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
    """The numbers of a data set."""

    values: Array
    frame: Any = None  # the data frame, if it is one

    @classmethod
    def read(cls, X: Any, n_columns: int, owner: str) -> Numbers:
        """Read arrays and data frames with this many columns; refuse anything else."""
        data = X.data if isinstance(X, Points) else as_table(X)
        frame = nw.from_native(data, eager_only=True, pass_through=True)
        is_frame = isinstance(frame, nw.DataFrame)
        dense = data.toarray() if hasattr(data, "toarray") else data
        try:
            values = np.asarray(frame.to_numpy() if is_frame else dense, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataTypeError(
                f"{owner}: X does not hold numbers; pass {n_columns} numeric column(s) to draw."
            ) from None
        if values.ndim == 1 == n_columns:
            values = values[:, None]
        if values.ndim != 2 or values.shape[1] != n_columns:
            raise DataError(
                f"{owner}: X has shape {values.shape}, but {n_columns} column(s) can be drawn; "
                f"pass data of shape (n, {n_columns}), and a model fitted on as many columns."
            )
        if not len(values) or not np.isfinite(values).all():
            raise DataError(f"{owner}: X is empty, or has NaN or infinity; pass finite rows.")
        return cls(values, frame if is_frame else None)

    def like(self, values: Array) -> Any:
        """New rows in the form of the data set."""
        if self.frame is None:
            return values
        columns = dict(zip(self.frame.columns, values.T, strict=True))
        return nw.from_dict(columns, backend=self.frame.implementation).to_native()

    def limits(self, margin: float, owner: str) -> Array:
        """The range of each column, extended at both ends by a share of its length."""
        checks.require_number(owner, "margin", margin, closed=True, example=0.1)
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        return np.stack([low - margin * width, high + margin * width])

    def label(self, column: int, default: str) -> str:
        """The name of a column for an axis."""
        return default if self.frame is None else str(self.frame.columns[column])


def label_logarithms(axis: Axis) -> None:
    """Label a logarithmic axis that spans few decades at 1, 2 and 5 times powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if 0 < low < high < _FEW_DECADES * low:
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axis.set_minor_formatter(NullFormatter())


def readable_legend(ax: Axes) -> None:
    """A legend where there is most room, on an opaque background."""
    ax.legend(loc="best", framealpha=0.85, edgecolor="none")


def numbers_of(y: Any, n: int, owner: str) -> NDArray[Any]:
    """Targets or labels, one for each row."""
    values = np.asarray(y)
    if values.shape != (n,):
        raise DataError(
            f"{owner}: y has shape {values.shape} but there are {n} rows; pass one value for each."
        )
    return values
