"""A model of two inputs: its surface, its boundary, and its support vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from sklearn.base import is_outlier_detector, is_regressor
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, DataTypeError
from mercer.models.representer import RepresenterModel
from mercer.plot.canvas import (
    COLOURS,
    GREY,
    Display,
    Numbers,
    described,
    final_model,
    legend_above,
    numbers_of,
    rows_and_targets,
)
from mercer.plot.decision import OWNER, ROUNDING, Decision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from sklearn.inspection import DecisionBoundaryDisplay

Kind = Literal["classes", "one class", "regression"]
Method = Literal["auto", "decision_function", "predict_proba", "predict"]

_MARKERS = "osD^vP"
_RING_AREA = 260.0
# Largest number of rings, which hide the points if there are more.
_MAX_RINGS = 60
# Standard deviation, in cells, of the smoothing of predicted classes, which are steps.
_SMOOTHING = 1.0
_SHADES = 8


@dataclass(kw_only=True, eq=False, repr=False)
class BoundaryDisplay(Display):
    """The surface of a model of two inputs, with boundary, margins, data and coefficients.

    The surface is computed by scikit-learn's `DecisionBoundaryDisplay`. Lines show where the
    prediction changes, and dashed lines where the decision function is -1 and 1. Of several
    classes, colours are deeper where the largest response is further ahead of the next. Rings mark
    the points over which the model is expanded, the largest coefficients only if there are more
    than 60; their areas are in proportion to the coefficients.

    Parameters
    ----------
    surface : sklearn.inspection.DecisionBoundaryDisplay
        The response on a grid.
    threshold : float or None
        The response at which the prediction of two classes changes; for a regression on two
        different targets, their middle; else None.
    method : str
        The method of the model that gave the response.
    data : ndarray of shape (n, 2)
        The points to draw.
    target : ndarray of shape (n,), optional
        Their labels or values.
    classes : ndarray, optional
        The labels, in the order of the surface; None for regression.
    carriers : ndarray of shape (p, 2), optional
        The points with rings: support vectors, or all points of the expansion.
    weights : ndarray of shape (p,), optional
        Absolute values of their coefficients; norms over several outputs.
    kind : {"classes", "one class", "regression"}
        What the model predicts. A machine of one class has a boundary but no margins.
    supports : bool, default=False
        Whether the points with rings are support vectors.
    title : str
        The title.

    Attributes
    ----------
    boundary_ : list of matplotlib QuadContourSet
        The lines between classes within the axes.
    margin_ : matplotlib QuadContourSet or None
        The lines where the decision function is -1 and 1.
    points_ : list of matplotlib PathCollection
        The data, one collection for each class.
    rings_ : matplotlib PathCollection or None
        The rings.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    sklearn.inspection.DecisionBoundaryDisplay : The surface alone.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> model = mc.KernelRidge(mc.RBF(), alpha=0.1).fit(X, [0.0, 1.0, 1.0, 0.0])
    >>> display = mc.plot.BoundaryDisplay.from_estimator(model, X, [0.0, 1.0, 1.0, 0.0])
    >>> display.method
    'predict'
    """

    surface: DecisionBoundaryDisplay
    threshold: float | None
    method: str
    data: Array
    target: NDArray[Any] | None = None
    classes: NDArray[Any] | None = None
    carriers: Array | None = None
    weights: Array | None = None
    kind: Kind = "classes"
    supports: bool = False

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        response_method: Method = "auto",
        grid_resolution: int = 200,
        margin: float = 0.1,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Draw a fitted model.

        Parameters
        ----------
        estimator : object
            A fitted classifier, regressor or machine of one class, of two columns.
        X : array-like or data frame of shape (n, 2)
            The points to draw; the axes extend beyond them by `margin`.
        y : array-like of shape (n,), optional
            Labels or targets, which determine the colours of the points. By default grey points,
            and for an outlier detector its predictions.
        response_method : {"auto", "decision_function", "predict_proba", "predict"}
            The response to draw; by default the first one that determines the predicted class:
            by a threshold for two classes, by the largest response for several. Responses for
            pairs of classes do not, nor do responses where votes or probabilities decide.
        grid_resolution : int, default=200
            Number of grid points along each axis.
        margin : float, default=0.1
            Distance by which the axes extend beyond X, as a share of its range.
        ax, **plot_kwargs
            Passed to `plot`.
        """
        cls._require_matplotlib()
        check_is_fitted(estimator)
        X, y = rows_and_targets(OWNER, estimator, X, y)
        table = Numbers.read(X, 2, OWNER)
        if table.has_times:
            raise DataTypeError(
                f"{OWNER}: X has a column of times, which no grid is drawn over; pass it as "
                "numbers, such as days, to the model and here."
            )
        size = checks.require_count(OWNER, "grid_resolution", grid_resolution, least=2, example=200)
        target = None if y is None else numbers_of(y, len(table.values), OWNER)
        decision = Decision.shown(estimator, table, response_method, size, margin)
        model = final_model(estimator)
        carriers, weights = _carriers(getattr(estimator, "best_estimator_", estimator))
        kind, classes, threshold = _kind(estimator), decision.classes, decision.threshold
        if kind == "one class" and target is None:
            target = np.asarray(estimator.predict(X))
        if kind == "regression" and target is not None and len(np.unique(target)) == 2:
            classes = np.unique(target)
            threshold = float(classes.mean())
        if kind != "regression" and target is not None and not np.isin(target, classes).all():
            raise DataError(
                f"{OWNER}: y has labels that {type(estimator).__name__} was not fitted with; pass "
                f"labels among {', '.join(map(str, classes))}."
            )
        supports = len(getattr(model, "support_", ())) > 0 and carriers is not None
        counted = f"\n{len(model.support_)} support vectors" if supports else ""
        display = cls(
            surface=decision.surface,
            threshold=threshold,
            method=decision.method,
            data=table.values,
            target=target,
            classes=classes if len(classes) else None,
            carriers=carriers,
            weights=weights,
            kind=kind,
            supports=supports,
            title=described(estimator) + counted,
        )
        return display.plot(ax, **plot_kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        margins: bool = True,
        coefficients: bool = True,
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        margins : bool, default=True
            Whether to draw the lines where the decision function of two classes is -1 and 1.
        coefficients : bool, default=True
            Whether to draw a ring around each point of the model, with an area in proportion to
            the size of its coefficient.
        """
        ax = self._draw_on(ax)
        self._draw_surface(ax)
        self.boundary_ = [
            ax.contour(*self._grid, gap, levels=[0.0], colors="black", linewidths=1.4)
            for gap in self._gaps()
            if gap.min() < 0 < gap.max()
        ]
        self.margin_ = self._draw_margins(ax) if margins else None
        self.points_ = list(self._draw_points(ax))
        self.rings_ = self._draw_rings(ax) if coefficients else None
        self._name_lines(ax)
        ax.set(xlabel=self.surface.xlabel, ylabel=self.surface.ylabel)
        legend_above(ax)
        return self

    @property
    def _grid(self) -> tuple[Array, Array]:
        return self.surface.xx0, self.surface.xx1

    @property
    def _is_stepped(self) -> bool:
        """Whether the response is a predicted class, which is constant between boundaries."""
        return self.method == "predict" and self.kind != "regression"

    def _colours(self) -> list[Any]:
        if self.surface.n_classes > 2:
            return list(self.surface.multiclass_colors_)
        return list(COLOURS[:2])

    def _draw_surface(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        if self.surface.n_classes > 2:
            self._draw_classes(ax)
            return
        style: dict[str, Any] = {"levels": self._levels(), "cmap": "viridis"}
        label = "f(x)"
        if self.threshold is not None:
            style = self._two_colours(self.threshold)
            named = self.kind != "regression" and self.classes is not None
            label = {
                "decision_function": "decision function",
                "predict_proba": f"probability of {self.classes[1]}" if named else "",  # type: ignore[index]
                "predict": "" if named else label,
            }[self.method]
        self.surface.plot(ax=ax, **style)
        if label:
            ticks: Any = MaxNLocator(8)
            if self.kind == "one class":  # the sides have scales of their own
                ticks = style["levels"][[0, 4, 8, 11, 15, 19, 22]]
            bar = self.figure_.colorbar(self.surface.surface_, ax=ax, label=label, ticks=ticks)
            bar.ax.yaxis.set_major_formatter("{x:.2g}")

    def _levels(self) -> Any:
        """The number of levels; for a constant, explicit levels that do not magnify rounding."""
        low, high = float(self.surface.response.min()), float(self.surface.response.max())
        size = max(abs(low), abs(high))
        if high - low > ROUNDING * size:
            return 20
        return np.linspace(low - (0.1 * size or 1.0), high + (0.1 * size or 1.0), 21)

    def _two_colours(self, threshold: float) -> dict[str, Any]:
        """White at the boundary, and deeper colours of a class at larger responses.

        The two sides of one class have scales of their own, as their responses differ in size.
        """
        from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm

        first, second = (_pale(colour, 0.75) for colour in COLOURS[:2])
        colours: Any = [first, "white", second]
        gaps = self.surface.response - threshold
        reach = float(np.abs(gaps).max()) or 1.0
        below, above = reach, reach
        if self.kind == "one class":
            below = -float(gaps.min(initial=-1e-3 * reach))
            above = float(gaps.max(initial=1e-3 * reach))
        ends = (threshold - below, threshold + above)
        sides = (np.linspace(ends[0], threshold, 12), np.linspace(threshold, ends[1], 12)[1:])
        return {
            "levels": np.concatenate(sides),
            "norm": TwoSlopeNorm(threshold, *ends),
            "cmap": LinearSegmentedColormap.from_list("classes", colours),
        }

    def _draw_classes(self, ax: Axes) -> None:
        """Draw the region of each class, deeper where its response is further ahead."""
        gaps = self._gaps()
        reach = max(float(np.max(gap)) for gap in gaps)
        for gap, colour in zip(gaps, self._colours(), strict=True):
            levels, shades = [0.0, 2.0 * reach], [_pale(colour, 0.55)]
            if not self._is_stepped:
                levels = list(np.linspace(0.0, reach, _SHADES + 1))
                shades = [_pale(colour, share) for share in np.linspace(0.15, 0.75, _SHADES)]
            if gap.max() > 0:
                ax.contourf(*self._grid, gap, levels=levels, colors=shades)

    def _gaps(self) -> list[Array]:
        """Functions that are zero on the boundary of a class."""
        response = self.surface.response
        if self.surface.n_classes > 2:
            if response.ndim == 2:
                classes = np.arange(self.surface.n_classes)
                steps = (response[:, :, None] == classes).astype(np.float64)
                response = gaussian_filter(steps, (_SMOOTHING, _SMOOTHING, 0.0))
            others = [np.delete(response, k, axis=2).max(axis=2) for k in range(response.shape[2])]
            return [response[:, :, k] - other for k, other in enumerate(others)]
        if self.threshold is None:
            return []
        if self._is_stepped:
            response = gaussian_filter(response.astype(np.float64), _SMOOTHING)
        return [response - self.threshold]

    def _draw_margins(self, ax: Axes) -> Any:
        if self.method != "decision_function" or self.threshold is None or self.kind != "classes":
            return None
        response = self.surface.response
        levels = [level for level in (-1.0, 1.0) if response.min() < level < response.max()]
        if not levels:
            return None
        style: dict[str, Any] = {"colors": "black", "linewidths": 0.8, "linestyles": "--"}
        return ax.contour(*self._grid, response, levels=levels, **style)

    def _draw_points(self, ax: Axes) -> list[PathCollection]:
        style: dict[str, Any] = {"s": 24, "edgecolors": "black", "linewidths": 0.6, "zorder": 3}
        if self.target is None:
            return [ax.scatter(self.data[:, 0], self.data[:, 1], color=GREY, **style)]
        if self.classes is None:
            drawn = self.surface.surface_
            style |= {"cmap": drawn.cmap, "norm": drawn.norm, "s": 30, "edgecolors": "white"}
            style |= {"linewidths": 1.0, "label": "targets (in the same colours)"}
            return [ax.scatter(self.data[:, 0], self.data[:, 1], c=self.target, **style)]
        names = [str(label) for label in self.classes]
        if self.kind == "one class":
            names = ["outliers (-1)", "inliers (1)"]
        return [
            ax.scatter(
                *self.data[self.target == label].T,
                color=colour,
                marker=_MARKERS[k % len(_MARKERS)],
                label=names[k],
                **style,
            )
            for k, (label, colour) in enumerate(zip(self.classes, self._colours(), strict=True))
        ]

    def _draw_rings(self, ax: Axes) -> PathCollection | None:
        if self.carriers is None or self.weights is None or not self.weights.any():
            return None
        share = self.weights / self.weights.max()
        shown = share > 1e-6
        name = "support vectors" if self.supports else "coefficients"
        if np.count_nonzero(shown) > _MAX_RINGS:
            shown &= share >= np.sort(share)[-_MAX_RINGS]
            name = f"{_MAX_RINGS} largest {name}"
        return ax.scatter(
            self.carriers[shown, 0],
            self.carriers[shown, 1],
            s=_RING_AREA * share[shown],
            facecolors="none",
            edgecolors="black",
            linewidths=0.7,
            alpha=0.7,
            zorder=2.5,
            label=f"{name} (area: weight)",
        )

    def _name_lines(self, ax: Axes) -> None:
        """Add the boundary and the margins to the legend."""
        if self.boundary_:
            level = "" if self.kind != "regression" else f" f(x) = {self.threshold:g}"
            ax.plot([], [], color="black", linewidth=1.4, label=level or "boundary")
        if self.margin_ is not None:
            ax.plot([], [], color="black", linewidth=0.8, linestyle="--", label="margin, f = ±1")


def _pale(colour: Any, share: float) -> tuple[float, ...]:
    """A colour mixed with white: translucent colours show seams between levels."""
    from matplotlib.colors import to_rgb

    return tuple(float(part) for part in 1 - share + share * np.array(to_rgb(colour)))


def _kind(estimator: Any) -> Kind:
    if is_outlier_detector(estimator):
        return "one class"
    return "regression" if is_regressor(estimator) else "classes"


def _carriers(estimator: Any) -> tuple[Array | None, Array | None]:
    """The points of a kernel expansion, and the absolute values of their coefficients."""
    # An online model on explicit features keeps no points.
    if not isinstance(estimator, RepresenterModel) or not hasattr(estimator, "points_"):
        return None, None
    points = estimator.points_
    dual: Array = np.asarray(estimator._coefficients, np.float64).reshape(len(points), -1)
    if len(getattr(estimator, "support_", ())):
        # A repaired matrix has coefficients at all rows: use the support vectors of the solution.
        points, sparse = estimator.support_vectors_, estimator.dual_coef_
        dual = np.asarray(sparse.toarray() if hasattr(sparse, "toarray") else sparse, np.float64).T
    return Numbers.read(points, 2, OWNER).values, np.linalg.norm(dual, axis=1)


def decision_boundary(estimator: Any, X: Any, y: Any = None, **options: Any) -> BoundaryDisplay:
    """Draw the predictions of a model of two inputs, with its margin and its support vectors.

    A line is drawn where ``estimator.predict`` changes. For two classes that is where the decision
    function f is 0, except that an `SVC` with ``probability=True`` changes its prediction where
    the probability is 1/2. The dashed lines, where f is -1 and 1, and the support vectors do not
    depend on that.

    Parameters
    ----------
    estimator, X, y, **options
        As for `BoundaryDisplay.from_estimator`.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], [0, 1, 1, 0]
    >>> display = mc.plot.decision_boundary(mc.SVC(C=10.0).fit(X, y), X, y)
    >>> len(display.carriers)
    4
    """
    return BoundaryDisplay.from_estimator(estimator, X, y, **options)
