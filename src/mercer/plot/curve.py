"""The curve of a regressor over one column, with its bands."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import is_classifier

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, DataWarning, MercerError, ParameterError
from mercer.plot.canvas import BLUE, Display, described, final_model, legend_above
from mercer.plot.section import Pairs, Section, draw_bands, draw_points, one_output

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "CurveDisplay"
#: Label, lower end and upper end of a band.
Band = tuple[str, Array, Array]


@dataclass(kw_only=True, eq=False, repr=False)
class CurveDisplay(Display):
    """The prediction of a regressor over one column, with the data and the bands that it knows.

    Bands are drawn for models that can tell them:

    - several quantiles of a `KernelQuantileRegressor` are a fan, one band for each pair of levels;
    - a model with ``predict_interval`` has one band;
    - a Gaussian process has the band of its function and, if ``predict`` takes ``include_noise``,
      that of observations.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Inputs at which the model is evaluated, ascending; times are ``datetime64``.
    curve : ndarray of shape (m,), optional
        Predictions; None for an even number of quantiles, which has no middle one.
    bands : list of (str, ndarray, ndarray)
        The label, the lower ends and the upper ends of each band, widest first.
    points, others : tuple of ndarray, optional
        Inputs and targets of training points, and of points that the model may not have seen.
    inputs : ndarray of shape (n,), optional
        Inputs that are marked at the lower edge if there are no targets.
    label : str
        The name of the curve in the legend.
    xlabel, ylabel : str
        The names of the input and of the target.
    title : str
        The title.

    Attributes
    ----------
    line_ : matplotlib Line2D or None
        The curve.
    bands_ : list of matplotlib PolyCollection
        The bands.
    points_, others_ : matplotlib Line2D or None
        The training points, and the other points.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    GaussianProcessDisplay : A Gaussian process with samples and bands of several probabilities.
    sklearn.inspection.PartialDependenceDisplay : Averages over other columns.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X).ravel()
    >>> model = mc.KernelQuantileRegressor(mc.RBF(), quantile=[0.1, 0.5, 0.9]).fit(X, y)
    >>> display = mc.plot.CurveDisplay.from_estimator(model, X, y)
    >>> [label for label, _, _ in display.bands]
    ['10% to 90%']
    """

    x: NDArray[Any]
    curve: Array | None
    bands: list[Band] = field(default_factory=list)
    points: Pairs | None = None
    others: Pairs | None = None
    inputs: NDArray[Any] | None = None
    label: str = "prediction"
    xlabel: str = "x"
    ylabel: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        column: int | str | None = None,
        interval: float | None = 0.9,
        output: int | None = None,
        grid_resolution: int = 200,
        margin: float = 0.05,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Draw a fitted regressor over one column.

        Parameters
        ----------
        estimator : object
            A fitted regressor, of mercer or with the interface of scikit-learn.
        X : array-like or data frame of shape (n, p)
            Inputs, usually the training points; the axis extends beyond them by `margin`.
        y : array-like of shape (n,), optional
            Their targets, drawn as points.
        column : int or str, optional
            The column to vary, by position or name; required if there are several. Each other
            column is held at its median (the lower one of two), or at its most frequent category.
        interval : float or None, default=0.9
            The probability of bands from standard deviations or ``predict_interval``; None for a
            curve without bands. A model that has no such interval is drawn without. The levels of
            quantiles are those of the model.
        output : int, optional
            The index of the target to draw; required if the model has several.
        grid_resolution : int, default=200
            The number of inputs at which the model is evaluated.
        margin : float, default=0.05
            Distance by which the axis extends beyond X, as a share of its range. Dates extend
            at the end alone.
        ax, **plot_kwargs
            Passed to `plot`.
        """
        remedy = "pass a fitted regressor"
        cls._require_fitted(estimator, "predict", remedy=remedy)
        if is_classifier(estimator):
            raise ParameterError(
                f"{_OWNER}: {type(estimator).__name__} is a classifier; pass a regressor, or draw "
                "two columns of it with BoundaryDisplay."
            )
        if interval is not None and not (checks.is_number(interval) and 0 < interval < 1):
            raise ParameterError(
                f"{_OWNER}: interval = {interval!r} is not a probability strictly between 0 and 1; "
                "pass for example 0.9, or None."
            )
        section = Section.through(
            _OWNER, estimator, X, y, column=column, size=grid_resolution, margin=margin
        )
        label, curve, bands = _predicted(estimator, section.rows, interval, output)
        held = f"\nother columns at their median ({section.n_held})" if section.n_held else ""
        display = cls(
            x=section.x,
            curve=curve,
            bands=bands,
            points=section.points,
            others=section.others,
            inputs=section.inputs,
            label=label,
            xlabel=section.xlabel,
            ylabel=section.ylabel,
            title=described(estimator) + held,
        )
        return display.plot(ax, **plot_kwargs)

    def plot(self, ax: Axes | None = None, *, color: str = BLUE) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        color : str, optional
            The colour of the curve and its bands.
        """
        ax = self._draw_on(ax)
        self.bands_ = draw_bands(ax, self.x, self.bands, color)
        self.line_ = None
        if self.curve is not None:
            (self.line_,) = ax.plot(
                self.x, self.curve, color=color, linewidth=1.8, label=self.label
            )
        self.points_, self.others_ = draw_points(ax, self.points, self.others, self.inputs)
        finish(ax, self.x, self.xlabel, self.ylabel)
        return self


def finish(ax: Axes, x: NDArray[Any], xlabel: str, ylabel: str) -> None:
    """Label axes over one input, with dates in short form, and add the legend."""
    if x.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    ax.margins(x=0)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    legend_above(ax)


def takes(estimator: Any, name: str) -> bool:
    """Whether ``predict`` of a model takes an argument."""
    return name in inspect.signature(final_model(estimator).predict).parameters


def normal_band(what: str, level: float, mean: Array, std: Array) -> Band:
    """The central band of a normal distribution."""
    half = ndtri((1 + level) / 2) * std
    return f"{100 * level:g}% of {what}", mean - half, mean + half


def _predicted(
    estimator: Any, rows: Any, interval: float | None, output: int | None
) -> tuple[str, Array | None, list[Band]]:
    """The name of the curve, the curve, and the bands of a model."""
    model = getattr(estimator, "best_estimator_", estimator)
    levels = np.atleast_1d(getattr(final_model(model), "quantile", np.empty(0)))
    if interval is not None and takes(model, "return_std"):
        return _normal(model, rows, interval, output)
    try:
        values = np.asarray(model.predict(rows), dtype=np.float64).reshape(len(rows), -1)
    except ValueError as error:
        raise DataError(
            f"{_OWNER}: {type(estimator).__name__} does not predict these rows ({error}); pass X "
            "with the columns of the fit."
        ) from error
    if values.shape[1] == len(levels) and output is None:
        return _fan(values, levels)
    curve = one_output(_OWNER, values, output)
    if interval is None or not hasattr(model, "predict_interval"):
        return "prediction", curve, []
    try:
        with warnings.catch_warnings(action="ignore", category=DataWarning):
            ends = np.moveaxis(model.predict_interval(rows, coverage=interval), 1, 0)
    except MercerError:  # landmarks, or quantiles of another coverage, have none
        return "prediction", curve, []
    low, high = (one_output(_OWNER, end.reshape(len(curve), -1), output) for end in ends)
    if not np.isfinite([low, high]).all():  # too few rows
        return "prediction", curve, []
    return "prediction", curve, [(f"{100 * interval:g}% of observations", low, high)]


def _normal(
    model: Any, rows: Any, interval: float, output: int | None
) -> tuple[str, Array | None, list[Band]]:
    """The mean of a model with standard deviations, and its bands."""

    def band(what: str, **options: bool) -> tuple[Array, Band]:
        mean, std = (
            one_output(_OWNER, np.reshape(values, (len(rows), -1)), output)
            for values in model.predict(rows, return_std=True, **options)
        )
        return mean, normal_band(what, interval, mean, std)

    mean, of_function = band("the function")
    if not takes(model, "include_noise"):
        return "mean", mean, [of_function]
    return "mean", mean, [band("observations", include_noise=True)[1], of_function]


def _fan(values: Array, levels: Array) -> tuple[str, Array | None, list[Band]]:
    """The middle quantile, if there is one, and a band for each pair of the others."""
    order = np.argsort(levels)
    levels, values = 100 * levels[order], values[:, order]
    bands = [
        (f"{levels[i]:g}% to {levels[-1 - i]:g}%", values[:, i], values[:, -1 - i])
        for i in range(len(levels) // 2)
    ]
    if len(levels) % 2 == 0:
        return "", None, bands
    middle = len(levels) // 2
    name = "median" if np.isclose(levels[middle], 50) else f"{levels[middle]:g}% quantile"
    return name, values[:, middle], bands
