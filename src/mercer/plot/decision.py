"""The predicted classes of a model of two inputs, and the response surface that shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_outlier_detector, is_regressor

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError
from mercer.parallel import cached_property
from mercer.plot.canvas import COLOURS, Numbers

OWNER = "BoundaryDisplay"
_METHODS = ("decision_function", "predict_proba", "predict")
# Relative difference of responses up to which it counts as rounding error.
ROUNDING = 1e-7
# Number of successive lines on which the threshold is searched.
_LINES = 3
# Number of points per line.
_ON_LINE = 65


@dataclass(frozen=True)
class Decision:
    """The response surface of a model, and its relation to the predicted classes."""

    estimator: Any
    table: Numbers
    method: str
    surface: Any
    classes: NDArray[Any]

    @classmethod
    def shown(
        cls, estimator: Any, table: Numbers, wanted: str, size: int, margin: float
    ) -> Decision:
        """The surface of the first requested method whose response determines the classes."""
        for method in _methods(estimator, wanted):
            surface = _surface(estimator, table, method, size, margin)
            decision = cls(estimator, table, method, surface, _classes(estimator))
            if decision.is_shown:
                return decision
        rule = "larger where the second class is predicted than where the first is"
        if len(decision.classes) > 2:
            rule = "largest for the class that is predicted"
        raise ParameterError(
            f"{OWNER}: response_method = {wanted!r} of {type(estimator).__name__} is not "
            f'everywhere {rule}. Its colours would mislead. Pass response_method="predict".'
        )

    @property
    def is_shown(self) -> bool:
        """Whether the response determines the predicted class."""
        if self.method == "predict" or len(self.classes) < 2:
            return True
        if len(self.classes) == 2:
            return self.threshold is not None
        responses = self.surface.response.reshape(len(self._grid), -1)
        of_classes = responses.shape[1] == len(self.classes)
        largest = responses.argmax(axis=1)
        return bool(of_classes and np.array_equal(self.classes[largest], self._predicted))

    @cached_property
    def threshold(self) -> float | None:
        """The response at which the prediction of two classes changes, if there is one."""
        if len(self.classes) != 2:
            return None
        usual = 0.0 if self.method == "decision_function" else 0.5
        if self.method == "predict":
            return usual
        responses, second = self.surface.response.ravel(), self._predicted == self.classes[1]
        low, high = _ends(responses, second)
        rounding = ROUNDING * float(np.abs(responses).max())
        if low - high > rounding:
            return None
        if second.any() and not second.all():
            low, high = self._nearer_ends(responses, second)
        if low - rounding <= usual <= high + rounding:
            return usual
        # If only one class is predicted on the grid, one end is infinite: use the other.
        return float(np.mean([end for end in (low, high) if np.isfinite(end)]))

    def _nearer_ends(self, responses: Array, second: NDArray[np.bool_]) -> tuple[float, float]:
        """The `_ends` along the line between the grid points where the grid has its ends."""
        points = self._grid
        for _ in range(_LINES):
            low = points[np.where(second, -np.inf, responses).argmax()]
            high = points[np.where(second, responses, np.inf).argmin()]
            points = np.linspace(low, high, _ON_LINE)
            rows = self.table.like(points)
            values = np.asarray(getattr(self.estimator, self.method)(rows))
            responses = values.reshape(_ON_LINE, -1)[:, -1]
            second = np.asarray(self.estimator.predict(rows)) == self.classes[1]
        return _ends(responses, second)

    @property
    def _grid(self) -> Array:
        return np.column_stack([self.surface.xx0.ravel(), self.surface.xx1.ravel()])

    @cached_property
    def _predicted(self) -> NDArray[Any]:
        return np.asarray(self.estimator.predict(self.table.like(self._grid)))


def _methods(estimator: Any, wanted: str) -> list[str]:
    """The methods that may give the response, in the order of preference."""
    checks.require_choice(OWNER, "response_method", wanted, ("auto", *_METHODS))
    if is_regressor(estimator):
        return ["predict"]
    if not (hasattr(estimator, "classes_") or is_outlier_detector(estimator)):
        raise ParameterError(
            f"{OWNER}: {type(estimator).__name__} is neither a classifier nor a regressor nor a "
            "machine of one class; pass one of these, or draw it with "
            "sklearn.inspection.DecisionBoundaryDisplay."
        )
    candidates = _METHODS if wanted == "auto" else (wanted,)
    methods = [name for name in candidates if hasattr(estimator, name)]
    if not methods:
        raise ParameterError(
            f"{OWNER}: {type(estimator).__name__} has no {' nor '.join(candidates)}; pass "
            'response_method="auto", or a classifier that has one.'
        )
    return methods


def _classes(estimator: Any) -> NDArray[Any]:
    """The labels: -1 and 1 for outlier detectors, none for regression."""
    if is_regressor(estimator):
        return np.empty(0)
    return np.asarray([-1, 1] if is_outlier_detector(estimator) else estimator.classes_)


def _ends(responses: Array, second: NDArray[np.bool_]) -> tuple[float, float]:
    """The largest response of the first class, and the smallest of the second."""
    return (
        float(responses[~second].max(initial=-np.inf)),
        float(responses[second].min(initial=np.inf)),
    )


def _surface(estimator: Any, table: Numbers, method: str, size: int, margin: float) -> Any:
    """The response on a grid, by scikit-learn, whose own drawing is discarded."""
    from matplotlib.figure import Figure
    from sklearn.inspection import DecisionBoundaryDisplay

    n_classes = len(getattr(estimator, "classes_", ()))
    try:
        return DecisionBoundaryDisplay.from_estimator(
            estimator,
            table.like(table.limits(margin, OWNER)),
            grid_resolution=size,
            eps=0.0,
            plot_method="pcolormesh",
            response_method=method,
            multiclass_colors=list(COLOURS[:n_classes]) if n_classes <= len(COLOURS) else None,
            xlabel=table.label(0, "$x_1$"),
            ylabel=table.label(1, "$x_2$"),
            ax=Figure().subplots(),
        )
    except ValueError as error:
        raise DataError(
            f"{OWNER}: {type(estimator).__name__} cannot be drawn over two columns: {error}"
        ) from error
