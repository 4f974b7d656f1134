"""The learning curve of an online model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.plot.canvas import (
    BLUE,
    GREY,
    VERMILION,
    Display,
    described,
    label_logarithms,
    readable_legend,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "LearningCurveDisplay"
_LEAST_WINDOW = 10
_WINDOWS = 40
_SHARE = "share of mistakes"


@dataclass(kw_only=True, eq=False, repr=False)
class LearningCurveDisplay(Display):
    """The errors of an online model on rows before it learns them.

    Every row is predicted before it is learned, so that its error is that on unseen data. The
    recent error is drawn from the first row on that has a full window.

    Parameters
    ----------
    recent : ndarray of shape (n,)
        The error over the last `window` rows, at each row.
    overall : ndarray of shape (n,), optional
        The error over all rows so far.
    window : int
        The number of rows of the recent error.
    floor : float, optional
        The error of the best function, which is the standard deviation of the noise of a
        regression; drawn as a line if it is known.
    xlabel, ylabel : str
        The labels of the axes.
    title : str
        The title.

    Attributes
    ----------
    line_, overall_line_ : matplotlib Line2D
        The recent error and, if there is one, the overall error.
    floor_line_ : matplotlib Line2D or None
        The line of the noise.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    sklearn.model_selection.LearningCurveDisplay : Scores of models fitted to samples of all sizes.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> errors = 1 / np.arange(1.0, 101.0)
    >>> display = mc.plot.LearningCurveDisplay.from_errors(errors, window=2)
    >>> display.recent[:2].round(3)
    array([1. , 0.791])
    """

    recent: Array
    overall: Array | None = None
    window: int = 1
    floor: float | None = None
    xlabel: str = "rows seen"
    ylabel: str = "error"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        window: int | None = None,
        floor: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the ``learning_curve_`` of a fitted online model.

        The curve is the error rate of a classifier, the root mean square error of a regressor
        (over all targets), and for ``method="batch"`` the error at each step.

        Parameters
        ----------
        estimator : object
            A fitted online model, such as ``KernelLMS`` or ``KernelPerceptron``.
        window : int, optional
            The number of rows of the recent error; by default a fortieth of all rows, and at
            least 10.
        floor : float, optional
            The error of the best function, drawn as a line: the standard deviation of the noise,
            or the error rate that no classifier can beat.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        remedy = "pass an online model, such as KernelLMS or KernelPerceptron"
        cls._require_fitted(estimator, "learning_curve_", remedy=remedy)
        curve = np.asarray(estimator.learning_curve_, dtype=np.float64)
        _require_floor(floor)
        title = f"{described(estimator)}\nerrors on rows before they are learned"
        if is_classifier(estimator):
            width = _width(window, len(curve))
            mistakes = np.diff(curve, prepend=0.0)
            return cls(
                recent=_moving_mean(mistakes, width),
                overall=_moving_mean(mistakes, len(curve)),
                window=width,
                floor=floor,
                ylabel=_SHARE,
                title=title,
            ).plot(ax)
        if not len(curve):
            raise DataError(
                f"{_OWNER}: {type(estimator).__name__} took no step, because the targets leave "
                "nothing to learn; pass a model fitted to targets that are not all 0."
            )
        if getattr(estimator, "method", None) == "batch":
            return cls(
                recent=curve,
                floor=floor,
                xlabel="step",
                ylabel="root mean square error",
                title=f"{described(estimator)}\nerror at each step of gradient descent",
            ).plot(ax)
        return cls._of_errors(curve, window, floor, title).plot(ax)

    @classmethod
    def from_errors(
        cls,
        errors: ArrayLike,
        *,
        window: int | None = None,
        floor: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the root mean square of successive errors.

        Parameters
        ----------
        errors : array-like of shape (n,) or (n, n_targets)
            The error of each row before it was learned, y_i - f(x_i).
        window, floor, ax : optional
            As for `from_estimator`.
        """
        cls._require_matplotlib()
        _require_floor(floor)
        return cls._of_errors(errors, window, floor, "Errors on rows before they are learned").plot(
            ax
        )

    @classmethod
    def _of_errors(
        cls, errors: ArrayLike, window: int | None, floor: float | None, title: str
    ) -> Self:
        made = np.atleast_1d(np.asarray(errors, dtype=np.float64))
        if not made.size or not np.isfinite(made).all():
            raise DataError(f"{_OWNER}: errors are empty, or have NaN or infinity; pass numbers.")
        width = _width(window, len(made))
        squares = np.square(made).reshape(len(made), -1).mean(axis=1)
        return cls(
            recent=np.sqrt(_moving_mean(squares, width)),
            overall=np.sqrt(_moving_mean(squares, len(made))),
            window=width,
            floor=floor,
            ylabel="root mean square error",
            title=title,
        )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, or on a new figure."""
        ax = self._draw_on(ax)
        from matplotlib.ticker import MaxNLocator

        steps = np.arange(1, len(self.recent) + 1)
        first = min(self.window, len(steps)) - 1
        rows = "error" if self.overall is None else f"last {self.window} rows"
        (self.line_,) = ax.plot(steps[first:], self.recent[first:], color=BLUE, label=rows)
        self.overall_line_ = None
        if self.overall is not None:
            early = min(first, _LEAST_WINDOW - 1)  # the share of a few rows says little
            (self.overall_line_,) = ax.plot(
                steps[early:],
                self.overall[early:],
                color=VERMILION,
                linestyle="--",
                label="all rows so far",
            )
        self.floor_line_ = None
        if self.floor is not None:
            self.floor_line_ = ax.axhline(self.floor, color=GREY, linestyle=":", label="noise")
        readable_legend(ax)
        # A share of mistakes is at most 1 and often 0: a linear axis shows it.
        if self.ylabel != _SHARE and self.recent.min() > 0:
            ax.set_yscale("log")
            label_logarithms(ax.yaxis)
        else:
            ax.set_ylim(bottom=0)
        ax.margins(x=0.01)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        return self


def _require_floor(floor: float | None) -> None:
    if floor is not None:
        checks.require_number(_OWNER, "floor", floor, closed=True, example=0.1)


def _width(window: int | None, n: int) -> int:
    if window is None:
        return max(_LEAST_WINDOW, n // _WINDOWS)
    return checks.require_count(_OWNER, "window", window, example=_LEAST_WINDOW)


def _moving_mean(values: Array, window: int) -> Array:
    """The mean of the last `window` values, or of all values at the beginning."""
    sums = np.cumsum(values)
    sums[window:] -= np.cumsum(values)[:-window]
    counts = np.minimum(np.arange(1, len(values) + 1), window)
    return np.asarray(np.maximum(sums, 0.0) / counts)
