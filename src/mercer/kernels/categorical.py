"""Kernels of categories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.kernels.base import Scope
from mercer.kernels.parameters import Positive, Vector
from mercer.kernels.stationary import weighted_columns
from mercer.kernels.tracing import coordinate_leaf
from mercer.kernels.vector import VectorKernel, slot_of
from mercer.kernels.views import Codes, View
from mercer.program.expression import Expr, X, Z, parameter
from mercer.program.operations import apply

__all__ = ["Categorical"]


class Categorical(VectorKernel):
    """Equal or different: exp(-sum_j weight_j [x_j != z_j]).

    1 for equal categories, exp(-weight) for different ones, and the product of these over the
    columns. Categories may be strings, integers or booleans.

    Parameters
    ----------
    weight : float or array of shape (d,)
        How much a difference counts, for all columns or for each.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Categorical(weight=2.0)(["red", "blue", "red"])[0].round(3).tolist()
    [1.0, 0.135, 1.0]
    """

    if TYPE_CHECKING:

        def __init__(self, weight: Vector = 1.0) -> None: ...

    weight = Positive(1.0, per_column=True)
    psd = True

    def input_tags(self) -> dict[str, bool]:  # noqa: D102
        return {**super().input_tags(), "string": True}

    def coordinate(self, x: Any, z: Any) -> Any:
        """1 for different categories, 0 for equal ones."""
        return np.not_equal(x, z)

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Codes(type(self).__name__))

    def _trace(self, scope: Scope) -> Expr:
        body = self.coordinate(X, Z)
        if np.ndim(self.weight) == 0:
            total = coordinate_leaf(body, slot_of(self, scope), 1) * parameter(scope.path("weight"))
        else:
            weights = [parameter(scope.path("weight"), j) for j in range(len(self.weight))]
            total = weighted_columns(self, scope, body, weights)
        return apply("exp", -total)
