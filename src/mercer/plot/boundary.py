"""A model of two inputs: its surface, its boundary, and its support vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_outlier_detector
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.models.representer import RepresenterModel
from mercer.plot.canvas import COLOURS, GREY, Display, Numbers, numbers_of
from mercer.plot.decision import OWNER, ROUNDING, Decision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import PathCollection
    from sklearn.inspection import DecisionBoundaryDisplay

Method = Literal["auto", "decision_function", "predict_proba", "predict"]

_MARKERS = "osD^vP"
_RING_AREA = 260.0


@dataclass(kw_only=True, eq=False, repr=False)
class BoundaryDisplay(Display):
    """The surface of a model of two inputs, with boundary, margins, data and coefficients.

    The surface is scikit-learn's `DecisionBoundaryDisplay`. Lines are added where the prediction
    changes, and dashed lines where the decision function is -1 and 1. Rings mark the points over
    which the model is expanded; their areas are in proportion to the coefficients.

    Parameters
    ----------
    surface : sklearn.inspection.DecisionBoundaryDisplay
        The response on a grid.
    threshold : float or None
        The response at which the prediction of two classes changes; None for regression and for
        more classes.
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
    one_class : bool, default=False
        Whether the model is an outlier detector, which has a boundary but no margins.

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
    one_class: bool = False

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
            Labels or targets, which determine the colours of the points.
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
        table = Numbers.read(X, 2, OWNER)
        size = checks.require_count(OWNER, "grid_resolution", grid_resolution, least=2, example=200)
        target = None if y is None else numbers_of(y, len(table.values), OWNER)
        decision = Decision.shown(estimator, table, response_method, size, margin)
        carriers, weights = _carriers(getattr(estimator, "best_estimator_", estimator))
        classes = decision.classes if len(decision.classes) else None
        if classes is not None and target is not None and not np.isin(target, classes).all():
            raise DataError(
                f"{OWNER}: y has labels that {type(estimator).__name__} was not fitted with; pass "
                f"labels among {', '.join(map(str, classes))}."
            )
        display = cls(
            surface=decision.surface,
            threshold=decision.threshold,
            method=decision.method,
            data=table.values,
            target=target,
            classes=classes,
            carriers=carriers,
            weights=weights,
            one_class=is_outlier_detector(estimator),
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
        style: dict[str, Any] = {"colors": "black", "linewidths": 1.4}
        self.boundary_ = [
            ax.contour(*self._grid, gap, levels=[0.0], **style)
            for gap in self._gaps()
            if gap.min() < 0 < gap.max()
        ]
        self.margin_ = self._draw_margins(ax) if margins else None
        self.points_ = list(self._draw_points(ax))
        self.rings_ = self._draw_rings(ax) if coefficients else None
        ax.set(xlabel=self.surface.xlabel, ylabel=self.surface.ylabel)
        entries = len(ax.get_legend_handles_labels()[0])
        if entries:
            ax.legend(
                loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=min(entries, 4), frameon=False
            )
        return self

    @property
    def _grid(self) -> tuple[Array, Array]:
        return self.surface.xx0, self.surface.xx1

    def _colours(self) -> list[Any]:
        if self.surface.n_classes > 2:
            return list(self.surface.multiclass_colors_)
        return list(COLOURS[:2])

    def _draw_surface(self, ax: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        label = ""
        if self.surface.n_classes > 2:
            self.surface.plot(ax=ax, plot_method="pcolormesh", alpha=0.55, rasterized=True)
        elif self.threshold is None:
            self.surface.plot(ax=ax, levels=self._levels(), cmap="viridis")
            label = "f(x)"
        else:
            self._draw_two_classes(ax, self.threshold)
            if self.method == "decision_function":
                label = "decision function"
            elif self.method == "predict_proba" and self.classes is not None:
                label = f"probability of {self.classes[1]}"
        if label:
            self.figure_.colorbar(self.surface.surface_, ax=ax, label=label, ticks=MaxNLocator(8))

    def _levels(self) -> Any:
        """The number of levels; for a constant, explicit levels that do not magnify rounding."""
        low, high = float(self.surface.response.min()), float(self.surface.response.max())
        size = max(abs(low), abs(high))
        if high - low > ROUNDING * size:
            return 20
        return np.linspace(low - (0.1 * size or 1.0), high + (0.1 * size or 1.0), 21)

    def _draw_two_classes(self, ax: Axes, threshold: float) -> None:
        """Draw white at the boundary, and deeper colours of a class at larger responses."""
        from matplotlib.colors import LinearSegmentedColormap, to_rgb

        # Mix colours with white, because translucent colours show seams between levels.
        pale = [tuple(0.3 + 0.7 * np.array(to_rgb(colour))) for colour in COLOURS[:2]]
        reach = float(np.abs(self.surface.response - threshold).max()) or 1.0
        self.surface.plot(
            ax=ax,
            levels=np.linspace(threshold - reach, threshold + reach, 22),
            cmap=LinearSegmentedColormap.from_list("classes", [pale[0], "white", pale[1]]),
        )

    def _gaps(self) -> list[Array]:
        """Functions that are zero on the boundary of a class."""
        response = self.surface.response
        if self.threshold is not None:
            return [response - self.threshold]
        if self.surface.n_classes == 2:
            return []
        if response.ndim == 2:
            return [(response == k) - 0.5 for k in range(self.surface.n_classes)]
        others = [np.delete(response, k, axis=2).max(axis=2) for k in range(response.shape[2])]
        return [response[:, :, k] - other for k, other in enumerate(others)]

    def _draw_margins(self, ax: Axes) -> Any:
        if self.method != "decision_function" or self.threshold is None or self.one_class:
            return None
        response = self.surface.response
        levels = [level for level in (-1.0, 1.0) if response.min() < level < response.max()]
        if not levels:
            return None
        style: dict[str, Any] = {"colors": "black", "linewidths": 0.8, "linestyles": "--"}
        return ax.contour(*self._grid, response, levels=levels, **style)

    def _draw_points(self, ax: Axes) -> list[PathCollection]:
        style: dict[str, Any] = {"s": 22, "edgecolors": "white", "linewidths": 0.5, "zorder": 3}
        if self.target is None:
            return [ax.scatter(self.data[:, 0], self.data[:, 1], color=GREY, **style)]
        if self.classes is None:
            drawn = self.surface.surface_
            style |= {"cmap": drawn.cmap, "norm": drawn.norm}
            return [ax.scatter(self.data[:, 0], self.data[:, 1], c=self.target, **style)]
        colours = self._colours()
        return [
            ax.scatter(
                *self.data[self.target == label].T,
                color=colours[k],
                marker=_MARKERS[k % len(_MARKERS)],
                label=str(label),
                **style,
            )
            for k, label in enumerate(self.classes)
        ]

    def _draw_rings(self, ax: Axes) -> PathCollection | None:
        if self.carriers is None or self.weights is None or not self.weights.any():
            return None
        share = self.weights / self.weights.max()
        shown = share > 1e-6
        return ax.scatter(
            self.carriers[shown, 0],
            self.carriers[shown, 1],
            s=_RING_AREA * share[shown],
            facecolors="none",
            edgecolors="black",
            linewidths=0.8,
            zorder=2.5,
            label="area: $|a_i|$",
        )


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
