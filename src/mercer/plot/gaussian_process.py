"""A Gaussian process of one input: mean, bands, samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.plot.canvas import BLUE, Display, described, final_model
from mercer.plot.curve import finish, normal_band, takes
from mercer.plot.section import (
    Pairs,
    Section,
    draw_bands,
    draw_points,
    draw_samples,
    one_output,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "GaussianProcessDisplay"


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianProcessDisplay(Display):
    """The predictive mean of a model of one input, with probability bands.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Inputs at which the model is evaluated, ascending; times are ``datetime64``.
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
    inputs : ndarray of shape (n,), optional
        Inputs that are marked at the lower edge if there are no targets.
    include_noise : bool, default=False
        Whether the bands are those of observations, and not of the function.
    xlabel, ylabel : str
        The names of the input and of the target.
    title : str
        The title.

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

    See Also
    --------
    CurveDisplay : The curve of any regressor.

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

    x: NDArray[Any]
    mean: Array
    std: Array
    samples: Array | None = None
    points: Pairs | None = None
    others: Pairs | None = None
    inputs: NDArray[Any] | None = None
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
        margin: float = 0.05,
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
        margin : float, default=0.05
            Distance by which the axis extends beyond X, as a share of its range. Dates extend
            at the end alone.
        random_state : int, RandomState or None, default=0
            The random numbers of the samples.
        ax, **plot_kwargs
            Passed to `plot`.
        """
        remedy = "pass a regressor whose predict takes return_std=True"
        cls._require_fitted(estimator, "predict", remedy=remedy)
        model = getattr(estimator, "best_estimator_", estimator)
        options = _options(model, include_noise)
        section = Section.through(_OWNER, model, X, y, size=grid_resolution, margin=margin)
        size = len(section.x)
        mean, std = model.predict(section.rows, **options)
        samples = None
        if checks.require_count(_OWNER, "n_samples", n_samples, least=0, example=5):
            drawn = model.sample_y(section.rows, n_samples, random_state=random_state)
            samples = one_output(_OWNER, drawn.reshape(size, -1, n_samples), output)
        prior = "" if hasattr(final_model(model), "kernel_") else "Prior of "
        display = cls(
            x=section.x,
            mean=one_output(_OWNER, mean.reshape(size, -1), output),
            std=one_output(_OWNER, std.reshape(size, -1), output),
            samples=samples,
            points=section.points,
            others=section.others,
            inputs=section.inputs if not prior else None,
            include_noise=include_noise,
            xlabel=section.xlabel,
            ylabel=section.ylabel,
            title=prior + described(model),
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
        what = "observations" if self.include_noise else "the function"
        bands = [normal_band(what, level, self.mean, self.std) for level in levels]
        self.bands_ = draw_bands(ax, self.x, bands, color)
        self.sample_lines_ = draw_samples(ax, self.x, self.samples, color)
        (self.line_,) = ax.plot(self.x, self.mean, color=color, linewidth=1.8, label="mean")
        self.points_, self.others_ = draw_points(ax, self.points, self.others, self.inputs)
        finish(ax, self.x, self.xlabel, self.ylabel)
        return self


def _options(estimator: Any, include_noise: bool) -> dict[str, bool]:
    """The arguments of ``predict``, if it takes them."""
    wanted = {"return_std": True} | ({"include_noise": True} if include_noise else {})
    for name in wanted:
        if not takes(estimator, name):
            raise ParameterError(
                f"{_OWNER}: {type(final_model(estimator)).__name__}.predict takes no {name}; pass "
                "a model that does, such as a Gaussian process regressor."
            )
    return wanted
