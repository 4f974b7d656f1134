"""Kernels of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.kernels.base import Scope
from mercer.kernels.heuristics import Scatter, heuristic_weight
from mercer.kernels.parameters import Positive, Weight
from mercer.kernels.tracing import parameters_at, weighted_sum
from mercer.kernels.vector import VectorKernel, slot_of
from mercer.kernels.views import Codes, View
from mercer.program.expression import Expr, X, Z
from mercer.program.operations import apply


class Categorical(VectorKernel):
    """Equal or different: exp(-sum_j weight_j [x_j != z_j]).

    1 for equal categories, exp(-weight) for different ones, and the product of these over the
    columns. Categories may be strings, integers or booleans. A missing value is a category of its
    own, and so is one that was not among the training rows.

    Parameters
    ----------
    weight : float, array of shape (d,) or "scale"
        How much a difference counts, for all columns or for each. ``"scale"`` is a rule that takes
        it from the data when an estimator is fitted: 1 / the expected number of columns in which
        two rows differ, but at most 2. So a typical value is exp(-1), however many columns there
        are.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Categorical(weight=2.0)(["red", "blue", "red"])[0].round(3).tolist()
    [1.0, 0.135, 1.0]
    """

    if TYPE_CHECKING:

        def __init__(self, weight: Weight = "scale") -> None: ...

    weight = Positive("scale", per_column=True, heuristics=("scale",))
    psd = True

    def input_tags(self) -> dict[str, bool]:
        return {**super().input_tags(), "string": True}

    def coordinate(self, x: Any, z: Any) -> Any:
        """1 for different categories, 0 for equal ones."""
        return np.not_equal(x, z)

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Codes(type(self).__name__))

    def _from_data(self, rule: str, scatter: Scatter) -> float:
        return heuristic_weight(scatter)

    def _trace(self, scope: Scope) -> Expr:
        weights = parameters_at(scope.path("weight"), self.weight)
        return apply("exp", -weighted_sum(self.coordinate(X, Z), slot_of(self, scope), weights))


class Missing(Categorical):
    """Missing in both rows or in none: exp(-sum_j weight_j [x_j is missing != z_j is missing]).

    1 for rows that miss the same values. Columns may be of any kind.

    Parameters
    ----------
    weight : float, array of shape (d,) or "scale"
        How much a difference counts, for all columns or for each; see `Categorical`.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Missing(weight=2.0)([1.5, None, 2.5])[0].round(3).tolist()
    [1.0, 0.135, 1.0]
    """

    if TYPE_CHECKING:

        def __init__(self, weight: Weight = "scale") -> None: ...

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Codes(type(self).__name__, presence=True))
