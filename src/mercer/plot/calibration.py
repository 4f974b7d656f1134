"""Stated probabilities against observed shares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom, norm
from sklearn.base import is_classifier
from sklearn.calibration import calibration_curve

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError
from mercer.plot.canvas import (
    BLUE,
    Display,
    described,
    final_model,
    numbers_of,
    readable_legend,
    rows_and_targets,
)
from mercer.plot.curve import takes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "CalibrationDisplay"
_COVERAGES = np.linspace(0.05, 0.95, 19)
# Probability of the band in which a calibrated model is.
_BAND = 0.95

Kind = Literal["interval", "quantile", "class"]
_LABELS = {
    "interval": ("nominal coverage of intervals", "share of targets within"),
    "quantile": ("level of the quantile", "share of targets below"),
    "class": ("predicted probability", "observed share"),
}


@dataclass(kw_only=True, eq=False, repr=False)
class CalibrationDisplay(Display):
    """The probabilities that a model states against the shares that are observed.

    A calibrated model is on the diagonal. Below it, the intervals of a regressor are too narrow,
    above it too wide. The grey band holds the observed share of a calibrated model, at each level
    alone, with probability 95%: rows are independent there.

    Parameters
    ----------
    nominal : ndarray of shape (m,)
        Stated probabilities: coverages of central intervals, levels of quantiles, or mean
        predicted probabilities in bins.
    observed : ndarray of shape (m,)
        The share of rows for which it held.
    counts : ndarray of shape (m,)
        The number of rows behind each share.
    kind : {"interval", "quantile", "class"}
        What the probabilities are.
    xlabel, ylabel : str
        The labels of the axes.
    title : str
        The title.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Observed against stated.
    band_ : matplotlib PolyCollection
        The band of a calibrated model.
    diagonal_ : matplotlib Line2D
        The line on which both are equal.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : Probabilities of two classes.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, size=(60, 1))
    >>> y = np.sin(X).ravel() + 0.1 * rng.normal(size=60)
    >>> model = mc.GaussianProcessRegressor(1.0 * mc.RBF()).fit(X[:40], y[:40])
    >>> display = mc.plot.CalibrationDisplay.from_estimator(model, X[40:], y[40:])
    >>> display.kind
    'interval'
    """

    nominal: Array
    observed: Array
    counts: NDArray[np.intp]
    kind: Kind = "interval"
    xlabel: str = ""
    ylabel: str = ""

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, n_bins: int = 10, ax: Axes | None = None
    ) -> Self:
        """Compare the probabilities of a fitted model with data, best with rows it has not seen.

        Parameters
        ----------
        estimator : object
            A fitted classifier with ``predict_proba``, a regressor of quantiles, or a regressor
            with ``predict_interval`` or with standard deviations.
        X : array-like, data frame or sequence
            Rows.
        y : array-like of shape (n,)
            Their labels or targets.
        n_bins : int, default=10
            The number of bins of equally many rows for the probabilities of a classifier. Of more
            than two classes, the probability is that of the predicted class.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        cls._require_fitted(estimator, "predict", remedy="pass a fitted model")
        model = getattr(estimator, "best_estimator_", estimator)
        X, y = rows_and_targets(_OWNER, model, X, y)
        targets = np.asarray(y)
        if is_classifier(model):
            n_bins = checks.require_count(_OWNER, "n_bins", n_bins, example=10)
            kind, (nominal, observed, counts) = "class", _of_classes(model, X, targets, n_bins)
        elif np.size(getattr(final_model(model), "quantile", ())):
            kind, (nominal, observed, counts) = "quantile", _of_quantiles(model, X, targets)
        else:
            kind, (nominal, observed, counts) = "interval", _of_intervals(model, X, targets)
        xlabel, ylabel = _LABELS[kind]
        if kind == "class":
            two = len(model.classes_) == 2
            xlabel = f"probability of {model.classes_[1] if two else 'the predicted class'}"
            ylabel = f"share of {model.classes_[1]}" if two else "share of correct predictions"
        return cls(
            nominal=nominal,
            observed=observed,
            counts=counts,
            kind=kind,  # type: ignore[arg-type]
            xlabel=xlabel,
            ylabel=ylabel,
            title=f"{described(estimator)}\ncalibration on {len(targets)} rows",
        ).plot(ax)

    def plot(self, ax: Axes | None = None, *, color: str = BLUE) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        color : str, optional
            The colour of the line.
        """
        ax = self._draw_on(ax, (5.0, 5.0))
        (self.diagonal_,) = ax.plot([0, 1], [0, 1], color="black", linewidth=0.8, linestyle="--")
        low, high = binom.interval(_BAND, self.counts, self.nominal) / self.counts
        self.band_ = ax.fill_between(
            self.nominal, low, high, color="0.85", linewidth=0, label="95% range if calibrated"
        )
        (self.line_,) = ax.plot(
            self.nominal,
            self.observed,
            "o-",
            color=color,
            markersize=4,
            clip_on=False,
            label="observed",
        )
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel=self.xlabel, ylabel=self.ylabel)
        readable_legend(ax, loc="upper left")
        return self


Shares = tuple[Array, Array, NDArray[np.intp]]


def _of_classes(model: Any, X: Any, y: NDArray[Any], n_bins: int) -> Shares:
    """Probabilities of the second class, or of the predicted one, in bins of equal counts."""
    if not hasattr(model, "predict_proba"):
        raise ParameterError(
            f"{_OWNER}: {type(model).__name__} has no predict_proba; pass a classifier that has it."
        )
    probabilities = np.asarray(model.predict_proba(X))
    labels, classes = numbers_of(y, len(probabilities), _OWNER), np.asarray(model.classes_)
    if len(classes) == 2:
        stated, holds = probabilities[:, 1], labels == classes[1]
    else:
        stated = probabilities.max(axis=1)
        holds = labels == classes[probabilities.argmax(axis=1)]
    # As many bins as scikit-learn forms: those at whose quantiles the probabilities differ.
    edges = np.percentile(stated, np.linspace(0, 1, n_bins + 1) * 100)
    places = np.searchsorted(edges[1:-1], stated)
    counts = np.bincount(places, minlength=n_bins)
    observed, nominal = calibration_curve(
        holds, stated, n_bins=n_bins, strategy="quantile", pos_label=True
    )
    return nominal, observed, counts[counts > 0]


def _of_quantiles(model: Any, X: Any, y: NDArray[Any]) -> Shares:
    """The share of targets below each quantile."""
    levels = np.atleast_1d(final_model(model).quantile).astype(np.float64)
    values = np.asarray(model.predict(X)).reshape(-1, len(levels))
    order = np.argsort(levels)
    below = _targets(y, len(values))[:, None] <= values[:, order]
    return levels[order], below.mean(axis=0), np.full(len(levels), len(values))


def _of_intervals(model: Any, X: Any, y: NDArray[Any]) -> Shares:
    """The share of targets within central intervals of each coverage."""
    if takes(model, "return_std"):
        noise = {"include_noise": True} if takes(model, "include_noise") else {}
        mean, std = (np.asarray(part) for part in model.predict(X, return_std=True, **noise))
        errors = np.abs(_targets(y, len(mean)).reshape(mean.shape) - mean)
        needed = 2 * norm.cdf(errors / std) - 1
        within = needed.ravel()[:, None] <= _COVERAGES
    elif hasattr(model, "predict_interval"):
        ends = [model.predict_interval(X, coverage=float(level)) for level in _COVERAGES]
        pairs = [end if isinstance(end, tuple) else np.moveaxis(end, -1, 0) for end in ends]
        targets = _targets(y, len(pairs[0][0]))
        within = np.stack([(low <= targets) & (targets <= high) for low, high in pairs], axis=1)
    else:
        raise ParameterError(
            f"{_OWNER}: {type(model).__name__} states no probabilities; pass a classifier with "
            "predict_proba, a Gaussian process, or a regressor of quantiles."
        )
    return _COVERAGES, within.mean(axis=0), np.full(len(_COVERAGES), len(within))


def _targets(y: NDArray[Any], n: int) -> Array:
    """Numeric targets, one for each row."""
    try:
        return np.asarray(numbers_of(y, n, _OWNER), dtype=np.float64)
    except (TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{_OWNER}: y does not hold numbers; pass the targets of X.") from None
