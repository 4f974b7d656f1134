"""The scores of a search over parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_regressor

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.plot.canvas import (
    BLUE,
    VERMILION,
    Display,
    described,
    label_logarithms,
    legend_above,
    readable_legend,
    shortened,
)
from mercer.plot.spectrum import loo_standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis


_OWNER = "SearchDisplay"
_CRITERIA = {"gcv": "GCV error", "cv": "cross-validation error"}
_MAX_TICKS = 9
# Number of candidates that are listed if they do not form a map or a curve.
_MAX_CANDIDATES = 20
# Ratio of values of a parameter from which its axis is logarithmic.
_WIDE = 8.0


@dataclass(kw_only=True, eq=False, repr=False)
class SearchDisplay(Display):
    """The scores of a search: a map for two parameters, a curve for one, else a list.

    A star marks the best candidate. A line encloses the candidates within one standard error of
    it, which the data cannot tell apart from the best. Axes of numbers are logarithmic if their
    values reach from one to eight times or more.

    Parameters
    ----------
    parameters : dict of str to ndarray
        The values of one or two parameters, in the order of the axes.
    scores : ndarray of shape (n_first,) or (n_second, n_first)
        The scores or errors; NaN where a candidate failed.
    standard_error : float, optional
        The standard error of the best score.
    standard_errors : ndarray, optional
        The standard error of every score.
    criterion : str
        The name of the score.
    larger_is_better : bool, default=False
        Whether the best score is the largest.
    title : str
        The title.

    Attributes
    ----------
    image_ : matplotlib QuadMesh or None
        The map.
    line_ : matplotlib Line2D or None
        The curve, or the list.
    best_ : matplotlib Line2D
        The mark of the best score.
    near_best_ : matplotlib artist or None
        The line of one standard error.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    RidgePathDisplay : Errors of one kernel, with degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = mc.KernelRidge(mc.RBF(), alpha="loo", length_scales=[0.3, 1.0, 3.0])
    >>> display = mc.plot.SearchDisplay.from_estimator(model.fit(X, np.sin(X).ravel()))
    >>> display.parameters["length_scale"]
    array([0.3, 1. , 3. ])
    """

    parameters: dict[str, NDArray[Any]]
    scores: Array
    standard_error: float | None = None
    standard_errors: Array | None = None
    criterion: str = "score"
    larger_is_better: bool = False

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None, **mesh_kwargs: Any) -> Self:
        """Draw the search of a fitted model.

        Parameters
        ----------
        estimator : KernelRidge, a machine, SVCSearch or a search of scikit-learn
            A model fitted with ``alpha="loo"`` or ``length_scales``, or a search with
            ``cv_results_``, such as `GridSearchCV`. Of several scores, the one of ``refit`` is
            drawn.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        **mesh_kwargs
            Passed to ``pcolormesh``, for example ``cmap``.
        """
        remedy = "pass a model fitted with alpha='loo' or length_scales=[...], or a search"
        if hasattr(estimator, "cv_results_"):
            cls._require_matplotlib()
            display = cls._of_cross_validation(estimator)
        else:
            cls._require_fitted(estimator, "search_errors_", remedy=remedy)
            display = cls._of_model(estimator)
        return display.plot(ax, **mesh_kwargs)

    @classmethod
    def _of_model(cls, estimator: Any) -> Self:
        kernels, alphas = estimator.search_kernels_, np.asarray(estimator.alphas_)
        name, values = _kernel_axis(kernels) if len(kernels) > 1 else ("", np.zeros(1))
        # A logarithmic axis cannot show an alpha of 0.
        columns = np.argsort(alphas)[np.count_nonzero(alphas == 0) if alphas.any() else 0 :]
        rows = np.argsort(values) if _is_numeric(values) else np.arange(len(values))
        errors = estimator.search_errors_[np.ix_(rows, columns)]
        errors = np.where(np.isfinite(errors), errors, np.nan)
        parameters = {"alpha": alphas[columns], name: values[rows]}
        if len(columns) == 1:
            parameters, errors = {name: values[rows]}, errors[:, 0]
        elif len(kernels) == 1:
            parameters, errors = {"alpha": alphas[columns]}, errors[0]
        criterion = getattr(estimator, "criterion_", estimator.alpha)
        # Errors of each row are those of leave-one-out alone.
        has_errors = not hasattr(estimator, "criterion_") and criterion not in _CRITERIA
        return cls(
            parameters=parameters,
            scores=errors,
            standard_error=loo_standard_error(estimator) if has_errors else None,
            criterion=_CRITERIA.get(criterion, "leave-one-out error"),
            title=f"{described(estimator)}\nbest alpha = {estimator.alpha_:.3g}",
        )

    @classmethod
    def _of_cross_validation(cls, search: Any) -> Self:
        table, criterion, sign = search.cv_results_, *_criterion(search)
        key = "score" if "mean_test_score" in table else search.refit
        scores = sign * np.asarray(table[f"mean_test_{key}"], dtype=np.float64)
        if not np.isfinite(scores).any():
            raise ParameterError(
                f"{_OWNER}: no candidate of {type(search).__name__} has a finite score; search "
                "with error_score='raise' to see why."
            )
        errors = np.asarray(table[f"std_test_{key}"]) / np.sqrt(search.n_splits_)
        best = int(np.nanargmax(sign * scores))
        parameters, (scores_on, errors_on) = _arranged(
            table["params"], [scores, errors], np.argsort(-sign * scores, kind="stable")
        )
        values = ", ".join(
            f"{_last(name)} = {_text(value)}" for name, value in table["params"][best].items()
        )
        return cls(
            parameters=parameters,
            scores=scores_on,
            standard_error=float(errors[best]),
            standard_errors=errors_on,
            criterion=criterion,
            larger_is_better=sign > 0,
            title=f"{type(search).__name__}, best: {values}\n"
            f"{criterion} {scores[best]:.4g}, {search.n_splits_} folds",
        )

    def plot(self, ax: Axes | None = None, **mesh_kwargs: Any) -> Self:
        """Draw the display on axes, or on a new figure; `mesh_kwargs` go to ``pcolormesh``."""
        is_list = self.scores.ndim == 1 and not _is_numeric(*self.parameters.values())
        ax = self._draw_on(ax, (8.0, 2.0 + 0.25 * len(self.scores)) if is_list else None)
        self.image_: Any = None
        self.line_: Any = None
        self.near_best_: Any = None
        if self.scores.ndim == 2:
            self._draw_map(ax, mesh_kwargs)
        else:
            self._draw_curve(ax)
        return self

    @property
    def _best(self) -> tuple[Any, ...]:
        pick = np.nanargmax if self.larger_is_better else np.nanargmin
        return np.unravel_index(pick(self.scores), self.scores.shape)

    @property
    def _threshold(self) -> float | None:
        """The score that is one standard error worse than the best."""
        if self.standard_error is None:
            return None
        step = -self.standard_error if self.larger_is_better else self.standard_error
        return float(self.scores[self._best]) + step

    def _draw_map(self, ax: Axes, mesh_kwargs: dict[str, Any]) -> None:
        from matplotlib.colors import LogNorm

        (first, across), (second, up) = self.parameters.items()
        x, y = _places(across), _places(up)
        drawn = np.ma.masked_invalid(self.scores)
        settings: dict[str, Any] = {"cmap": "viridis" if self.larger_is_better else "viridis_r"}
        settings["rasterized"] = True
        if not self.larger_is_better and 0 < drawn.min() < drawn.max():
            settings["norm"] = LogNorm(float(drawn.min()), float(drawn.max()))
        self.image_ = ax.pcolormesh(
            _edges(x, _is_wide(across)), _edges(y, _is_wide(up)), drawn, **(settings | mesh_kwargs)
        )
        bar = self.figure_.colorbar(self.image_, ax=ax, label=self.criterion)
        if isinstance(self.image_.norm, LogNorm):
            label_logarithms(bar.ax.yaxis)
        row, column = self._best
        style: dict[str, Any] = {"color": VERMILION, "markersize": 14, "markeredgecolor": "white"}
        (self.best_,) = ax.plot(x[column], y[row], "*", linestyle="", label="best", **style)
        level, is_field = self._threshold, _is_numeric(across) and _is_numeric(up)
        if level is not None and is_field and drawn.min() < level < drawn.max():
            self.near_best_ = ax.contour(x, y, drawn, levels=[level], colors="black")
            ax.plot([], [], color="black", label="one standard error from the best")
        _label_axis(ax.xaxis, first, across)
        _label_axis(ax.yaxis, second, up)
        legend_above(ax)

    def _draw_curve(self, ax: Axes) -> None:
        ((name, values),) = self.parameters.items()
        places, (best,) = _places(values), self._best
        style: dict[str, Any] = {"fmt": "o", "color": BLUE, "markersize": 4, "capsize": 2}
        star: dict[str, Any] = {"color": VERMILION, "markersize": 14, "zorder": 5}
        star["label"] = f"best: {self.scores[best]:.4g}"
        level, near = self._threshold, "one standard error from the best"
        bars = self.standard_errors
        line: dict[str, Any] = {"color": "0.4", "linestyle": ":", "label": near}
        if _is_numeric(values):
            style["fmt"] = "o-"
            self.line_ = ax.errorbar(places, self.scores, yerr=bars, **style)[0]
            (self.best_,) = ax.plot(places[best], self.scores[best], "*", **star)
            self.near_best_ = None if level is None else ax.axhline(level, **line)
            _label_axis(ax.xaxis, name, values)
            ax.set_ylabel(self.criterion)
        else:
            self.line_ = ax.errorbar(self.scores, places, xerr=bars, **style)[0]
            (self.best_,) = ax.plot(self.scores[best], places[best], "*", **star)
            self.near_best_ = None if level is None else ax.axvline(level, **line)
            _label_axis(ax.yaxis, name, values, n_ticks=_MAX_CANDIDATES)
            ax.invert_yaxis()
            ax.tick_params(axis="y", labelsize="small")
            ax.set_xlabel(self.criterion)
        readable_legend(ax)


def _criterion(search: Any) -> tuple[str, float]:
    """The name of a score, and -1 if it is an error with its sign changed."""
    name = search.scoring
    if not isinstance(name, str):
        multiple = "mean_test_score" not in search.cv_results_
        if multiple and not isinstance(search.refit, str):
            raise ParameterError(
                f"{_OWNER}: {type(search).__name__} has several scores and refit = "
                f"{search.refit!r}; pass the name of one of them as refit."
            )
        usual = "R²" if is_regressor(search) else "accuracy"
        name = search.refit if multiple else usual if name is None else "score"
    is_error = name.startswith("neg_")
    return name.removeprefix("neg_").replace("_", " "), -1.0 if is_error else 1.0


def _arranged(
    candidates: Sequence[dict[str, Any]], columns: list[Array], order: NDArray[np.intp]
) -> tuple[dict[str, NDArray[Any]], list[Array]]:
    """Columns of a table on a grid of one or two parameters, else of the best candidates."""
    axes = {
        name: values
        for name in candidates[0]
        if all(name in candidate for candidate in candidates)
        and len(values := _distinct([candidate[name] for candidate in candidates])) > 1
    }
    grid = {_last(name): values for name, values in axes.items()}
    # The last row with the same values counts: a halving search repeats candidates.
    shape = tuple(len(values) for values in axes.values())
    known = set().union(*candidates)
    if 1 <= len(axes) <= 2 and len(grid) == len(axes) and all(known <= set(c) for c in candidates):
        rows = np.full(shape, -1)
        for row, candidate in enumerate(candidates):
            place = tuple(_position(axes[name], candidate[name]) for name in axes)
            rows[place] = row
        if (rows >= 0).all():
            return grid, [column[rows.T] for column in columns]
    chosen = order[:_MAX_CANDIDATES]
    varied = sorted({n for c in candidates for n in c if n in axes or n not in candidates[0]})
    names = varied or list(candidates[0])
    labels = [
        _joined(candidates[row], [n for n in names if n in candidates[row]]) for row in chosen
    ]
    return {"candidate": np.array(labels, dtype=object)}, [column[chosen] for column in columns]


def _joined(candidate: dict[str, Any], names: list[str]) -> str:
    return ", ".join(f"{_last(name)} = {_text(candidate[name])}" for name in names)


def _distinct(values: list[Any]) -> NDArray[Any]:
    """Different values: sorted numbers, or objects in the order of their appearance."""
    if all(checks.is_finite(value) for value in values):
        return np.unique(np.asarray(values, dtype=np.float64))
    distinct = list({repr(value): value for value in values}.values())
    array = np.empty(len(distinct), dtype=object)
    array[:] = distinct
    return array


def _position(values: NDArray[Any], value: Any) -> int:
    if _is_numeric(values):
        return int(np.searchsorted(values, value))
    return [repr(other) for other in values].index(repr(value))


def _kernel_axis(kernels: Sequence[Kernel]) -> tuple[str, NDArray[Any]]:
    """The parameter in which kernels differ, and its values; texts of several parameters."""
    every = [kernel._tree.values for kernel in kernels]
    different = [
        path
        for path in every[0]
        if any(not np.array_equal(values[path], every[0][path]) for values in every)
    ]
    if len(different) == 1:
        vectors = np.array([np.atleast_1d(values[different[0]]) for values in every])
        ratios = vectors / vectors[0]
        if np.allclose(ratios, ratios[:, :1]):
            mean = " (geometric mean)" if vectors.shape[1] > 1 else ""
            return different[0] + mean, np.exp(np.log(vectors).mean(axis=1))
    rows = [", ".join(_text(values[path]) for path in different) for values in every]
    return ", ".join(different) or "kernel", np.array(rows, dtype=object)


def _text(value: Any) -> str:
    """A value of a parameter in few characters."""
    if isinstance(value, Kernel):
        return shortened(value)
    if checks.is_number(value):
        return f"{value:.3g}"
    if isinstance(value, np.ndarray | list | tuple) and np.asarray(value).dtype.kind in "fi":
        return "[" + " ".join(f"{number:.3g}" for number in np.ravel(value)) + "]"
    return str(value)


def _last(name: str) -> str:
    """A parameter without the path to it."""
    return name.rsplit("__", 1)[-1]


def _is_numeric(values: NDArray[Any]) -> bool:
    return bool(values.dtype.kind == "f")


def _is_wide(values: NDArray[Any]) -> bool:
    """Whether the values of a parameter need a logarithmic axis."""
    return _is_numeric(values) and 0 < _WIDE * values.min() <= values.max()


def _places(values: NDArray[Any]) -> Array:
    return values if _is_numeric(values) else np.arange(float(len(values)))


def _edges(places: Array, logarithmic: bool) -> Array:
    """Borders of cells half way between neighbouring ascending values."""
    if logarithmic:
        return np.asarray(np.exp(_edges(np.log(places), False)))
    middles = (places[1:] + places[:-1]) / 2
    ends = 2 * places[[0, -1]] - middles[[0, -1]]
    return np.concatenate([ends[:1], middles, ends[1:]])


def _label_axis(axis: Axis, name: str, values: NDArray[Any], n_ticks: int = _MAX_TICKS) -> None:
    """Name an axis, and scale or label it."""
    axis.set_label_text(r"$\alpha$" if name == "alpha" else name)
    if _is_wide(values):
        is_x = axis is axis.axes.xaxis
        axis.axes.set(**{"xscale" if is_x else "yscale": "log"})
        label_logarithms(axis)
    elif not _is_numeric(values):
        ticks = list(range(0, len(values), -(-len(values) // n_ticks)))
        axis.set_ticks(ticks, [_text(values[tick]) for tick in ticks])
