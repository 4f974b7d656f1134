"""The bases of kernels that compare rows of numbers."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, NumericalWarning, ParameterError, ValidityError, warn
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.heuristics import ROUNDING
from mercer.kernels.parameters import Positive, plain
from mercer.kernels.points import Points
from mercer.kernels.tracing import (
    UnfusedCoordinate,
    announce_unfused,
    coordinate_leaf,
    learns,
    method_values,
    symbolic,
    traced,
)
from mercer.kernels.tree import with_values
from mercer.kernels.views import Numbers, View
from mercer.program import reference
from mercer.program.expression import DIFFERENCE, Expr, Scale, Slot, X, Z

#: Ratio of the spreads of two columns from which one length-scale does not serve both.
_LARGEST_RATIO = 30.0
#: Largest number of rows from which the spreads of columns are computed.
_MOST_ROWS = 1000
#: Number of rows from which the spreads of very many columns are computed.
_FEWEST_ROWS = 50
#: Number of entries that these rows have at most, if they are more than the fewest.
_ENTRIES = 2**21
#: Where the symmetry of a function of two numbers is tried, on all pairs.
_PROBES = np.array([-1000.0, -2.0, -0.5, 0.0, 0.25, 0.75, 3.0, 1000.0])


class VectorKernel(Kernel):
    """Base of the kernels that compare rows of numbers."""

    #: Whether sparse rows are taken as they are.
    takes_sparse: ClassVar[bool] = False
    #: Whether the data must be non-negative.
    non_negative: ClassVar[bool] = False

    def input_tags(self) -> dict[str, bool]:
        own = {"sparse": self.takes_sparse, "positive_only": self.non_negative}
        return {**super().input_tags(), **own}

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Numbers(type(self).__name__, self.takes_sparse))

    def _check_points(self, points: Points, view: View) -> None:
        columns = points.columns(view)
        for name, declaration in self._declarations.items():
            value = self._values[name]
            if type(value) is float or not getattr(declaration, "per_column", False):
                continue
            size = np.size(plain(value))
            if np.ndim(plain(value)) and size != columns.width:
                raise ParameterError(
                    f"{type(self).__name__}: {name} has {size} values but the kernel sees "
                    f"{columns.width} column{'s' * (columns.width > 1)}; pass one number, or one "
                    "for each column."
                )
        if self.non_negative and columns.values.min() < 0:
            raise DataError(
                f"Negative values in data passed to X: {type(self).__name__} compares histograms "
                f"or counts, which are >= 0, got {columns.values.min():g}; shift or clip the data, "
                "or use another kernel."
            )


def slot_of(
    kernel: Kernel, scope: Scope, scale: Scale | None = None, centred: bool = False
) -> Slot:
    """The numeric columns that a kernel reads in a scope."""
    return Slot(kernel._view(scope), scale, centred)


def length_scale_of(kernel: Kernel, scope: Scope, row: int | None = None) -> Scale:
    """The factor 1 / length_scale of the columns; a matrix of length-scales has a row for each."""
    dimensions = np.ndim(plain(kernel._values["length_scale"])) - (row is not None)
    return Scale(scope.path("length_scale"), row=row, per_column=dimensions == 1)


class Stationary(VectorKernel):
    """Base of kernels of the scaled distance: profile(sum_j (x_j - z_j)^2 / l_j^2).

    Write ``profile(self, r2)`` with NumPy functions; declare further parameters as class
    attributes.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        One length for all columns or one for each. The names are rules that take it from the data
        when an estimator is fitted: the median distance, about half the typical distance, or the
        latter for each column by its own standard deviation.

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

    length_scale = Positive(1.0, per_column=True, heuristics=("median", "scale", "columns"))
    takes_sparse = True

    @abstractmethod
    def profile(self, r2: Any) -> Any:
        """Return the kernel as a function of the scaled squared distance."""

    def _trace(self, scope: Scope) -> Expr:
        slot = slot_of(self, scope, length_scale_of(self, scope), centred=True)
        if self._metric == "euclidean":
            return traced(self, scope, Expr("squared_distance", (), slot))
        return traced(self, scope, coordinate_leaf(abs(DIFFERENCE), slot, 1))

    def _check_points(self, points: Points, view: View) -> None:
        super()._check_points(points, view)
        matrix = points.columns(view).values
        if type(matrix) is not np.ndarray:
            _warn_of_cancellation(self, matrix)


def _warn_of_cancellation(kernel: Stationary, matrix: Any) -> None:
    """Sparse rows are not centred: distances far smaller than their norms lose digits."""
    length = 1.0 if isinstance(kernel.length_scale, str) else float(np.min(kernel.length_scale))
    norm = float(matrix.multiply(matrix).sum(axis=1).max()) / length**2
    if norm * np.finfo(float).eps > 1e-6:
        warn(
            f"{type(kernel).__name__}: sparse rows are up to {np.sqrt(norm):.1e} length-scales "
            "long, so that distances computed from their inner products keep less than six "
            "digits; pass a dense array (X.toarray()), or use a larger length_scale.",
            NumericalWarning,
        )


def unequal_columns(kernel: Kernel, points: Points) -> str:
    """The warning of one length-scale for columns of very different spread; "" if there is none."""
    for leaf, view in kernel._reader.leaves:
        stored = leaf._values.get("length_scale")
        length: Any = getattr(stored, "value", stored)
        if not isinstance(leaf, Stationary) or np.ndim(length) or length == "columns":
            continue
        matrix = points.matrix(view)
        if not isinstance(matrix, np.ndarray) or matrix.shape[1] < 2:
            continue
        pair = widest_and_narrowest(matrix)
        if pair is not None:
            names, name = points.column_names(view), type(leaf).__name__
            return (
                f"{name} has one length-scale for all columns, but {names[pair[0]]!r} spreads "
                f"{pair[2]:.0f} times as wide as {names[pair[1]]!r}, which hardly counts in the "
                f'distances; standardise the columns, or pass {name}("columns"), which has a '
                "length-scale for each."
            )
    return ""


def widest_and_narrowest(matrix: Array) -> tuple[int, int, float] | None:
    """Two columns whose spreads differ too much for one length-scale, and the ratio.

    Both the deviations and the central nine tenths have to differ: a rare level of an indicator has
    a small deviation, and an outlier has a large one. Columns that are mostly one value do not
    count.
    """
    step = -(-len(matrix) // min(_MOST_ROWS, max(_FEWEST_ROWS, _ENTRIES // matrix.shape[1])))
    sample = matrix[::step].astype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = sample.std(axis=0)
    varying = deviation[deviation > ROUNDING * np.abs(sample[0])]
    if len(varying) < 2 or varying.max() <= _LARGEST_RATIO * varying.min():
        return None
    low, high = np.quantile(sample, [0.05, 0.95], axis=0)
    central = high - low
    central[central <= ROUNDING * np.abs(high)] = np.nan
    if np.isnan(central).all():
        return None
    wide, narrow = int(np.nanargmax(central)), int(np.nanargmin(central))
    ratio = float(central[wide] / central[narrow])
    unequal = min(ratio, float(deviation[wide] / deviation[narrow])) > _LARGEST_RATIO
    return (wide, narrow, ratio) if unequal else None


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
        return traced(self, scope, Expr("dot", (), slot_of(self, scope)))


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
        degrees = {"sum": 1, "product": 0}
        if self.reduction not in degrees:
            raise ParameterError(
                f"{type(self).__name__}: reduction = {self.reduction!r} is not known; set the "
                "class attribute to 'sum' or 'product'."
            )
        return degrees[self.reduction]

    def _trace(self, scope: Scope) -> Expr:
        try:
            body = symbolic(self, scope, "coordinate", X, Z)
        except Exception as error:
            announce_unfused(self, "coordinate", error)
            source = UnfusedCoordinate(with_values(self), self._view(scope), learns(self))
            reduced = Expr("external", (), source)
        else:
            _require_symmetric(self)
            reduced = coordinate_leaf(body, slot_of(self, scope), self._degree())
        return traced(self, scope, reduced)


def plain_values(kernel: Kernel, x: Array, z: Array) -> Array | None:
    """All pairs of rows by the kernel's own method, called with numbers and not traced.

    None for a kernel that is not of one of the three forms.
    """
    trace = type(kernel)._trace
    if trace is Stationary._trace:
        apart = (x[:, None] - z) / kernel.length_scale  # type: ignore[attr-defined]
        sizes = apart**2 if kernel._metric == "euclidean" else np.abs(apart)
        argument = sizes.sum(axis=2)
    elif trace is DotProduct._trace:
        argument = x @ z.T
    elif isinstance(kernel, Coordinate) and trace is Coordinate._trace:
        columns = [(a[:, None], b[None, :]) for a, b in zip(x.T, z.T, strict=True)]
        shape = (len(x), len(z))
        values = [method_values(kernel.coordinate, pair, shape) for pair in columns]
        argument = np.broadcast_to(reference.elementary(values, kernel._degree())[-1], shape)
    else:
        return None
    with np.errstate(all="ignore"):
        return method_values(kernel.profile, (argument,), argument.shape)  # type: ignore[attr-defined]


def _require_symmetric(kernel: Coordinate) -> None:
    """Compare the function with its mirror image at numbers of either sign and any size."""
    points = _PROBES[_PROBES >= 0] if kernel.non_negative else _PROBES
    n = len(points)
    x, z = np.repeat(points, n), np.tile(points, n)
    with np.errstate(all="ignore"):
        values = np.broadcast_to(kernel.coordinate(x, z), x.shape).reshape(n, n)
        gap = np.abs(values - values.T) - 1e-9 * np.abs(values)
    # Where the function is not defined, or overflows, there is nothing to compare.
    gap[~np.isfinite(gap)] = 0.0
    i, j = np.unravel_index(np.argmax(gap), gap.shape)
    if gap[i, j] > 1e-12:
        raise ValidityError(
            f"{type(kernel).__name__}.coordinate is not symmetric: at ({points[i]:g}, "
            f"{points[j]:g}) it is {values[i, j]:g}, at ({points[j]:g}, {points[i]:g}) "
            f"{values[j, i]:g}; a kernel is a symmetric function, so write one that does not "
            "change when x and z are exchanged."
        )
