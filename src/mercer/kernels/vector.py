"""The bases of kernels that compare rows of numbers."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any, ClassVar, Self, cast

import numpy as np

from mercer.exceptions import DataError, NumericalWarning, ParameterError, ValidityError, warn
from mercer.kernels import heuristics
from mercer.kernels.base import Kernel, ScatterOf, Scope
from mercer.kernels.parameters import Continuous, Positive
from mercer.kernels.points import Points
from mercer.kernels.tracing import (
    UnfusedCoordinate,
    announce_unfused,
    coordinate_leaf,
    learns,
    symbolic,
    traced,
)
from mercer.kernels.values import plain
from mercer.kernels.views import Columns, View
from mercer.program.expression import Expr, Scale, Slot, X, Z

#: Where the symmetry of a function of two numbers is tried, on all pairs.
_PROBES = np.array([-1000.0, -2.0, -0.5, 0.0, 0.25, 0.75, 3.0, 1000.0])

__all__ = ["Coordinate", "DotProduct", "Stationary", "VectorKernel"]


class VectorKernel(Kernel):
    """Base of the kernels that compare rows of numbers."""

    #: Whether sparse rows are taken as they are.
    takes_sparse: ClassVar[bool] = False
    #: Whether the data must be non-negative.
    non_negative: ClassVar[bool] = False

    def input_tags(self) -> dict[str, bool]:  # noqa: D102
        return {
            "pairwise": False,
            "sparse": self.takes_sparse,
            "string": False,
            "two_d": True,
            "positive_only": self.non_negative,
        }

    @property
    def _takes_any_floats(self) -> bool:
        return not self.non_negative

    def _slot(self, scope: Scope, scale: Scale | None = None, centred: bool = False) -> Slot:
        return scope.slot(
            type(self).__name__, scale=scale, centred=centred, sparse=self.takes_sparse
        )

    def _view(self, scope: Scope) -> View:
        return cast(View, self._slot(scope).view)

    def _check_points(self, points: Points, view: View) -> None:
        columns = points.columns(view)
        self._check_columns(columns)
        if self.non_negative and columns.values.min() < 0:
            raise DataError(
                f"Negative values in data passed to X: {type(self).__name__} compares histograms "
                f"or counts, which are >= 0, got {columns.values.min():g}; shift or clip the data, "
                "or use another kernel."
            )

    def _check_columns(self, columns: Columns) -> None:
        """Refuse an array-valued parameter that does not have one value for each column."""
        for name, size in self._sizes.items():
            if size != columns.width:
                raise ParameterError(
                    f"{type(self).__name__}: {name} has {size} values but the kernel sees "
                    f"{columns.width} columns; pass one number, or one for each column."
                )

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The number of values of each parameter that has one for each column."""
        values = {
            name: plain(self.declared(name))
            for name, declaration in self._declarations.items()
            if isinstance(declaration, Continuous) and declaration.per_column
        }
        return {name: len(value) for name, value in values.items() if np.ndim(value)}


class Stationary(VectorKernel):
    """Base of kernels of the scaled distance: profile(sum_j (x_j - z_j)^2 / l_j^2).

    Write ``profile(self, r2)`` with NumPy functions; declare further parameters as class
    attributes.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale"
        One length for all columns or one for each; the two names are resolved from the data when an
        estimator is fitted.

    Examples
    --------
    >>> import mercer as mc
    >>> class Cauchy(mc.Stationary):
    ...     '''1 / (1 + r^2 / alpha).'''
    ...
    ...     alpha = mc.Positive(1.0)
    ...
    ...     def profile(self, r2):
    ...         return 1 / (1 + r2 / self.alpha)
    >>> Cauchy(alpha=2.0)([[0.0], [2.0]])
    array([[1.        , 0.33333333],
           [0.33333333, 1.        ]])
    """

    length_scale = Positive(1.0, per_column=True, heuristics=("median", "scale"))
    takes_sparse = True

    @abstractmethod
    def profile(self, r2: Any) -> Any:
        """Return the kernel as a function of the scaled squared distance."""

    def _trace(self, scope: Scope) -> Expr:
        return traced(self, scope, "profile", self._distance(scope))

    def _check_points(self, points: Points, view: View) -> None:
        super()._check_points(points, view)
        matrix = points.matrix(view)
        if not isinstance(matrix, np.ndarray):
            self._warn_of_cancellation(matrix)

    def _warn_of_cancellation(self, matrix: Any) -> None:
        """Sparse rows are not centred: distances far smaller than their norms lose digits."""
        norm = float(matrix.multiply(matrix).sum(axis=1).max()) / float(np.min(self._length())) ** 2
        if norm * np.finfo(float).eps > 1e-6:
            warn(
                f"{type(self).__name__}: sparse rows are up to {np.sqrt(norm):.1e} length-scales "
                "long, so that distances computed from their inner products keep less than six "
                "digits; pass a dense array (X.toarray()), or use a larger length_scale.",
                NumericalWarning,
            )

    def _scale(self, scope: Scope) -> Scale:
        return Scale(scope.path("length_scale"), per_column=np.ndim(self._length()) == 1)

    def _length(self) -> Any:
        value = self.length_scale
        return 1.0 if isinstance(value, str) else value

    def _distance(self, scope: Scope) -> Expr:
        return Expr("squared_distance", (), self._slot(scope, self._scale(scope), centred=True))

    def _resolve(self, scope: Scope, scatter_of: ScatterOf) -> Self:
        if not isinstance(self.length_scale, str):
            return self
        length = self._heuristic(self.length_scale, scatter_of(self._view(scope)))
        return self.replace(
            length_scale=heuristics.bounded_length(self.declared("length_scale"), length)
        )

    def _heuristic(self, name: str, scatter: heuristics.Scatter) -> float:
        return heuristics.euclidean_length(name, scatter)


class DotProduct(VectorKernel):
    """Base of kernels of the inner product: k(x, z) = profile(sum_j x_j z_j).

    Write ``profile(self, s)`` with NumPy functions; declare parameters as class attributes.

    Examples
    --------
    >>> import mercer as mc
    >>> class Softmax(mc.DotProduct):
    ...     '''exp(x.z).'''
    ...
    ...     psd = True
    ...
    ...     def profile(self, s):
    ...         return np.exp(s)
    >>> import numpy as np
    >>> float(Softmax()([[0.0, 1.0]])[0, 0])
    2.71828183
    """

    takes_sparse = True

    @abstractmethod
    def profile(self, s: Any) -> Any:
        """Return the kernel as a function of the inner product."""

    def _trace(self, scope: Scope) -> Expr:
        return traced(self, scope, "profile", Expr("dot", (), self._slot(scope)))


class Coordinate(VectorKernel):
    """Base of kernels made column by column: a function of two numbers, reduced over the columns.

    Write ``coordinate(self, x, z)``; set ``reduction`` to ``"sum"`` or ``"product"``; override
    ``profile(self, total)`` to transform the reduced value.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> class MinSum(mc.Coordinate):
    ...     '''sum_j min(x_j, z_j).'''
    ...
    ...     def coordinate(self, x, z):
    ...         return np.minimum(x, z)
    >>> MinSum()([[1.0, 2.0], [0.5, 3.0]])
    array([[3. , 2.5],
           [2.5, 3.5]])
    """

    reduction: ClassVar[str] = "sum"

    @abstractmethod
    def coordinate(self, x: Any, z: Any) -> Any:
        """Return the comparison of two numbers."""

    def profile(self, total: Any) -> Any:
        """Return the kernel as a function of the reduced value."""
        return total

    def _degree(self) -> int:
        """Which reduction: 1 is the sum, 0 the product."""
        return {"sum": 1, "product": 0}[self.reduction]

    def _trace(self, scope: Scope) -> Expr:
        return traced(self, scope, "profile", self._reduced(scope))

    def _reduced(self, scope: Scope) -> Expr:
        try:
            body = symbolic(self, scope, "coordinate", X, Z)
        except Exception as error:
            announce_unfused(self, "coordinate", error)
            source = UnfusedCoordinate(self, self._view(scope), learns(self))
            return Expr("external", (), source)
        self._check_symmetry()
        return coordinate_leaf(body, self._slot(scope), self._degree())

    def _check_symmetry(self) -> None:
        """Compare the function with its mirror image at numbers of either sign and any size."""
        points = _PROBES[_PROBES >= 0] if self.non_negative else _PROBES
        n = len(points)
        x, z = np.repeat(points, n), np.tile(points, n)
        with np.errstate(all="ignore"):
            values = np.broadcast_to(self.coordinate(x, z), x.shape).reshape(n, n)
            gap = np.abs(values - values.T) - 1e-9 * np.abs(values)
        # Where the function is not defined, or overflows, there is nothing to compare.
        gap[~np.isfinite(gap)] = 0.0
        i, j = np.unravel_index(np.argmax(gap), gap.shape)
        if gap[i, j] > 1e-12:
            raise ValidityError(
                f"{type(self).__name__}.coordinate is not symmetric: at ({points[i]:g}, "
                f"{points[j]:g}) it is {values[i, j]:g}, at ({points[j]:g}, {points[i]:g}) "
                f"{values[j, i]:g}; a kernel is a symmetric function, so write one that does not "
                "change when x and z are exchanged."
            )
