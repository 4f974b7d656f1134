"""A Gaussian process of one input: mean, bands, samples."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.plot.canvas import BLUE, Display, Numbers, numbers_of, readable_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "GaussianProcessDisplay"


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcessDisplay(Display):
    """The predictive mean of a model of one input, with probability bands.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Inputs at which the model is evaluated, ascending.
    mean : ndarray of shape (m,)
        Predictive means.
    std : ndarray of shape (m,)
        Predictive standard deviations.
    samples : ndarray of shape (m, n_samples), optional
        Functions drawn from the model.
    points : tuple of ndarray, optional
        Inputs and targets of the training points.
    others : tuple of ndarray, optional
        Inputs and targets of points that the model has not seen, or that may be either.
    include_noise : bool, default=False
        Whether the bands are those of observations, and not of the function.
    xlabel, ylabel : str
        The names of the input and of the target.

    Attributes
    ----------
    line_ : matplotlib Line2D
        The mean.
    bands_ : list of matplotlib PolyCollection
        The bands, widest first.
    sample_lines_ : list of matplotlib Line2D
        The samples.
    points_, others_ : matplotlib Line2D or None
        The training points, and the other points.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> from sklearn.gaussian_process import GaussianProcessRegressor
    >>> X = np.array([[0.0], [1.0], [3.0]])
    >>> y = np.array([0.0, 1.0, -1.0])
    >>> model = GaussianProcessRegressor().fit(X, y)
    >>> display = mc.plot.GaussianProcessDisplay.from_estimator(model, X, y)
    >>> display.mean.shape
    (200,)
    """

    x: Array
    mean: Array
    std: Array
    samples: Array | None = None
    points: tuple[Array, NDArray[Any]] | None = None
    others: tuple[Array, NDArray[Any]] | None = None
    include_noise: bool = False
    xlabel: str = "x"
    ylabel: str = "y"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        n_samples: int = 0,
        include_noise: bool = False,
        output: int | None = None,
        grid_resolution: int = 200,
        margin: float = 0.1,
        random_state: Any = 0,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Draw a model: its posterior, or before `fit` its prior.

        Parameters
        ----------
        estimator : object
            A model whose ``predict`` takes ``return_std=True``.
        X : array-like or data frame of shape (n, 1)
            Inputs, usually the training points; the axis extends beyond them by `margin`.
        y : array-like of shape (n,), optional
            Their targets, drawn as points: filled where the model has seen the input.
        n_samples : int, default=0
            The number of functions to draw from the model, by its ``sample_y``.
        include_noise : bool, default=False
            Whether the bands are those of observations; passed to ``predict``.
        output : int, optional
            The index of the target to draw; required if the model has several.
        grid_resolution : int, default=200
            The number of inputs at which the model is evaluated.
        margin : float, default=0.1
            Distance by which the axis extends beyond X, as a share of its range.
        random_state : int, RandomState or None, default=0
            The random numbers of the samples.
        ax, **plot_kwargs
            Passed to `plot`.
        """
        remedy = "pass a regressor whose predict takes return_std=True"
        cls._require_fitted(estimator, "predict", remedy=remedy)
        options = _options(estimator, include_noise)
        table = Numbers.read(X, 1, _OWNER)
        size = checks.require_count(
            _OWNER, "grid_resolution", grid_resolution, least=2, example=200
        )
        low, high = table.limits(margin, _OWNER).ravel()
        x = np.linspace(low, high, size)
        grid = table.like(x[:, None])
        mean, std = estimator.predict(grid, **options)
        samples = None
        if checks.require_count(_OWNER, "n_samples", n_samples, least=0, example=5):
            drawn = estimator.sample_y(grid, n_samples, random_state=random_state)
            samples = _one_output(drawn.reshape(size, -1, n_samples), output)
        points, others = None, None
        if y is not None:
            inputs, targets = table.values[:, 0], numbers_of(y, len(table.values), _OWNER)
            seen = np.isin(inputs, _training_inputs(estimator))
            points = (inputs[seen], targets[seen]) if seen.any() else None
            others = (inputs[~seen], targets[~seen]) if not seen.all() else None
        display = cls(
            x=x,
            mean=_one_output(mean.reshape(size, -1), output),
            std=_one_output(std.reshape(size, -1), output),
            samples=samples,
            points=points,
            others=others,
            include_noise=include_noise,
            xlabel=table.label(0, "x"),
            ylabel=str(getattr(y, "name", None) or "y"),
        )
        return display.plot(ax, **plot_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        coverage: Sequence[float] = (0.5, 0.95),
        color: str = BLUE,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        coverage : sequence of float, default=(0.5, 0.95)
            The probabilities of the bands, around the mean.
        color : str, optional
            The colour of mean, bands and samples.
        """
        levels = sorted(np.atleast_1d(coverage), reverse=True)
        if not all(isinstance(level, float) and 0 < level < 1 for level in levels):
            raise ParameterError(
                f"{_OWNER}: coverage = {coverage!r} are not probabilities strictly between 0 and "
                "1; pass for example (0.5, 0.95)."
            )
        ax = self._draw_on(ax)
        shades = np.linspace(0.15, 0.35, len(levels)) if len(levels) > 1 else [0.25]
        what = "observations" if self.include_noise else "the function"
        self.bands_ = []
        for level, shade in zip(levels, shades, strict=True):
            half = ndtri((1 + level) / 2) * self.std
            low, high, label = self.mean - half, self.mean + half, f"{100 * level:g}% of {what}"
            self.bands_.append(
                ax.fill_between(
                    self.x, low, high, color=color, alpha=float(shade), linewidth=0, label=label
                )
            )
        self.sample_lines_ = []
        if self.samples is not None:
            self.sample_lines_ = ax.plot(
                self.x, self.samples, color=color, linewidth=0.7, alpha=0.6, zorder=2
            )
            self.sample_lines_[0].set_label("samples")
        (self.line_,) = ax.plot(self.x, self.mean, color=color, linewidth=1.8, label="mean")
        dots: dict[str, Any] = {"color": "black", "markersize": 3.5, "zorder": 4}
        self.points_ = self.others_ = None
        if self.points is not None:
            (self.points_,) = ax.plot(*self.points, "o", label="training points", **dots)
        if self.others is not None:
            label = "points" if self.points is None else "other points"
            (self.others_,) = ax.plot(*self.others, "o", fillstyle="none", label=label, **dots)
        ax.margins(x=0)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        readable_legend(ax)
        return self


def _training_inputs(estimator: Any) -> NDArray[Any]:
    """The inputs that a model was fitted on; none if they are not known."""
    known = getattr(estimator, "X_train_", None)
    if known is None and not getattr(getattr(estimator, "solver_", None), "has_landmarks", True):
        known = estimator.points_.data
    return np.empty(0) if known is None else np.asarray(known).ravel()


def _options(estimator: Any, include_noise: bool) -> dict[str, bool]:
    """The arguments of ``predict``, if it takes them."""
    wanted = {"return_std": True} | ({"include_noise": True} if include_noise else {})
    taken = inspect.signature(estimator.predict).parameters
    if any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values()):
        return wanted
    for name in wanted:
        if name not in taken:
            raise ParameterError(
                f"{_OWNER}: {type(estimator).__name__}.predict takes no {name}; pass a model that "
                "does, such as a Gaussian process regressor."
            )
    return wanted


def _one_output(values: Array, output: int | None) -> Array:
    """One target of shape (m, n_targets, ...)."""
    n_outputs = values.shape[1]
    chosen = 0 if output is None and n_outputs == 1 else output
    if chosen not in range(n_outputs):
        raise ParameterError(
            f"{_OWNER}: output = {output!r} does not name one of the model's {n_outputs} targets; "
            f"pass a number from 0 to {n_outputs - 1}."
        )
    return values[:, chosen]
