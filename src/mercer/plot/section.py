"""A line through the data, along which one column varies, and the drawing of curves over it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.containers import by_narwhals
from mercer.kernels.points import Points
from mercer.plot.canvas import Numbers, final_model, numbers_of, rows_and_targets

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inputs and targets of some points.
Pairs = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class Section:
    """Rows in which one column varies, and the points of the data set over that column."""

    x: NDArray[Any]  # (m,): the values of the column; times as such
    rows: Any  # data of m rows for the model; other columns are held
    xlabel: str
    ylabel: str
    inputs: NDArray[Any]  # (n,): the column of the data set
    points: Pairs | None = None  # points that the model was fitted on
    others: Pairs | None = None  # points that the model may not have seen
    n_held: int = 0  # number of columns that are held

    @classmethod
    def through(
        cls,
        owner: str,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        column: Any = None,
        size: int = 200,
        margin: float = 0.1,
    ) -> Self:
        """The section along the only column of X, or along the one that is named."""
        checks.require_count(owner, "grid_resolution", size, least=2, example=200)
        ylabel = y if isinstance(y, str) else str(getattr(y, "name", None) or "y")
        X, y = rows_and_targets(owner, estimator, X, y)
        data, place = _chosen(owner, X, column)
        table = Numbers.read(_part(data, place), 1, owner)
        low, high = table.limits(margin, owner).ravel()
        x = np.linspace(low, high, size)
        n_held = data.shape[1] - 1
        rows = _held_rows(data, place, table.shown(x)) if n_held else table.like(x[:, None])
        inputs = table.shown(table.values[:, 0])
        points = others = None
        if y is not None:
            targets = numbers_of(y, len(inputs), owner)
            known = np.empty(0) if n_held else _training_inputs(owner, estimator)
            seen = np.isin(table.values[:, 0], known)
            points = (inputs[seen], targets[seen]) if seen.any() else None
            others = (inputs[~seen], targets[~seen]) if not seen.all() else None
        return cls(
            x=table.shown(x),
            rows=rows,
            xlabel=table.label(0, "x" if not n_held else f"$x_{{{place + 1}}}$"),
            ylabel=ylabel,
            inputs=inputs,
            points=points,
            others=others,
            n_held=n_held,
        )


def one_column(owner: str, X: Any, column: Any) -> tuple[Numbers, str]:
    """The only column of X, or the one that is named, and its label."""
    data, place = _chosen(owner, X, column)
    table = Numbers.read(_part(data, place), 1, owner)
    return table, table.label(0, "x" if data.shape[1] == 1 else f"$x_{{{place + 1}}}$")


def _chosen(owner: str, X: Any, column: Any) -> tuple[Any, int]:
    """The data as a frame or a matrix, and the position of the column to vary."""
    data = by_narwhals(X.data if isinstance(X, Points) else X, owner)
    if not isinstance(data, nw.DataFrame):
        data = np.asarray(data.toarray() if hasattr(data, "toarray") else data)
        data = data[:, None] if data.ndim == 1 else data
    names = data.columns if isinstance(data, nw.DataFrame) else []
    width = data.shape[1] if len(data.shape) == 2 else 0
    if column is None:
        if width != 1:
            raise DataError(
                f"{owner}: X has shape {data.shape}, but 1 column can be drawn; pass data of shape "
                "(n, 1), or name the column that varies, such as column=0."
            )
        return data, 0
    if column in names:
        return data, names.index(column)
    if not checks.is_count(column, least=0) or column >= width:
        known = ", ".join(map(repr, names)) or f"0 to {width - 1}"
        raise ParameterError(
            f"{owner}: column = {column!r} is not a column of X; pass one of {known}."
        )
    return data, int(column)


def _part(data: Any, place: int) -> Any:
    return data[:, [place]] if isinstance(data, np.ndarray) else data[[data.columns[place]]]


def _held_rows(data: Any, place: int, values: NDArray[Any]) -> Any:
    """Rows with these values in one column; others have their median, or most frequent, value."""
    m = len(values)
    if isinstance(data, np.ndarray):
        rows = np.tile(np.percentile(data, 50, axis=0, method="lower"), (m, 1))
        rows[:, place] = values
        return rows
    held = [
        values_of[[_typical(values_of)] * m] for values_of in map(data.get_column, data.columns)
    ]
    name = data.columns[place]
    held[place] = nw.new_series(name, values, backend=data.implementation)
    return data[[0] * m].with_columns(*held).to_native()


def _typical(column: Any) -> int:
    """The position of the median of a column, or of its most frequent value."""
    if column.dtype.is_numeric() or column.dtype.is_temporal():
        order = np.argsort(column.to_numpy(), kind="stable")
        return int(order[(len(order) - 1) // 2])
    values: list[Any] = column.to_list()
    return values.index(max(values, key=values.count))


def _training_inputs(owner: str, estimator: Any) -> Array:
    """The inputs that a model of one column was fitted on; none if they are not known."""
    model = final_model(estimator)
    if model is not estimator and hasattr(estimator, "steps"):
        return np.empty(0)  # a pipeline may have changed them
    known = getattr(model, "X_train_", None)
    if known is None and not getattr(getattr(model, "solver_", None), "has_landmarks", True):
        known = getattr(model, "points_", None)
    return np.empty(0) if known is None else Numbers.read(known, 1, owner).values[:, 0]


def one_output(owner: str, values: Array, output: int | None) -> Array:
    """One target of shape (m, n_targets, ...)."""
    n_outputs = values.shape[1]
    chosen = 0 if output is None and n_outputs == 1 else output
    if chosen not in range(n_outputs):
        raise ParameterError(
            f"{owner}: output = {output!r} does not name one of the model's {n_outputs} targets; "
            f"pass a number from 0 to {n_outputs - 1}."
        )
    return values[:, chosen]


def draw_bands(
    ax: Axes, x: NDArray[Any], bands: Sequence[tuple[str, Array, Array]], color: str
) -> list[Any]:
    """Draw bands over each other, widest first, in deeper and deeper shades."""
    shades = np.linspace(0.15, 0.35, len(bands)) if len(bands) != 1 else [0.25]
    return [
        ax.fill_between(x, low, high, color=color, alpha=float(shade), linewidth=0, label=label)
        for (label, low, high), shade in zip(bands, shades, strict=True)
    ]


def draw_samples(ax: Axes, x: NDArray[Any], samples: Array | None, color: str) -> list[Any]:
    """Draw sampled functions as thin lines with one entry in the legend."""
    if samples is None:
        return []
    lines = ax.plot(x, samples, color=color, linewidth=0.7, alpha=0.6, zorder=2)
    lines[0].set_label("samples")
    return list(lines)


def draw_points(
    ax: Axes, points: Pairs | None, others: Pairs | None, inputs: NDArray[Any] | None
) -> tuple[Any, Any]:
    """Draw training points filled and other points open; without targets, ticks at the inputs."""
    dots: dict[str, Any] = {"color": "black", "markersize": 3.5, "zorder": 4}
    seen = unseen = None
    if points is not None:
        (seen,) = ax.plot(*points, "o", label="training points", **dots)
    if others is not None:
        label = "points" if points is None else "other points"
        (unseen,) = ax.plot(*others, "o", fillstyle="none", label=label, **dots)
    if points is None and others is None and inputs is not None:
        place = ax.get_xaxis_transform()
        (unseen,) = ax.plot(
            inputs, np.full(len(inputs), 0.015), "|", color="black", transform=place, label="inputs"
        )
    return seen, unseen
