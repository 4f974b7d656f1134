"""Kernels of histograms, counts and sets: non-negative columns."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer.exceptions import DataError
from mercer.kernels.base import Scope
from mercer.kernels.parameters import Choice, Positive, Scalar
from mercer.kernels.points import Points
from mercer.kernels.tracing import coordinate_leaf, diagonal
from mercer.kernels.vector import Coordinate, VectorKernel, slot_of
from mercer.kernels.views import Numbers, View
from mercer.program.expression import Expr, Slot, X, Z
from mercer.program.operations import apply


def _or_one(total: Any) -> Any:
    """The total, and 1 where it is 0, to divide empty bins by."""
    return np.where(total > 0, total, 1.0)


class Chi2(Coordinate):
    """Exponential chi-squared kernel, exp(-gain sum_j (x_j - z_j)^2 / (x_j + z_j)).

    Parameters
    ----------
    gain : float
        Factor of the chi-squared distance.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.Chi2()([[1.0, 0.0]], [[0.0, 1.0]])[0, 0])
    0.13533528
    """

    if TYPE_CHECKING:

        def __init__(self, gain: Scalar = 1.0) -> None: ...

    gain = Positive(1.0)
    _elsewhere = MappingProxyType({"gamma": "its name is gain."})
    psd = True
    non_negative = True

    def coordinate(self, x: Any, z: Any) -> Any:
        return (x - z) ** 2 / _or_one(x + z)

    def profile(self, total: Any) -> Any:
        return np.exp(-self.gain * total)


class AdditiveChi2(Coordinate):
    """Additive chi-squared kernel, sum_j 2 x_j z_j / (x_j + z_j).

    (The negative chi-squared distance, which goes by the same name elsewhere, is not positive
    semi-definite.)

    Examples
    --------
    >>> import mercer as mc
    >>> mc.AdditiveChi2()([[1.0, 2.0]]).tolist()
    [[3.0]]
    """

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    psd = True
    non_negative = True

    def coordinate(self, x: Any, z: Any) -> Any:
        return 2 * x * z / _or_one(x + z)


class HistogramIntersection(Coordinate):
    """Histogram intersection, sum_j min(x_j, z_j).

    Examples
    --------
    >>> import mercer as mc
    >>> mc.HistogramIntersection()([[1.0, 2.0]], [[2.0, 1.0]]).tolist()
    [[2.0]]
    """

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    psd = True
    non_negative = True

    def coordinate(self, x: Any, z: Any) -> Any:
        return np.minimum(x, z)


class Tanimoto(VectorKernel):
    """Tanimoto (Jaccard) similarity of bits or counts.

    ``form="dot"``: x.z / (x.x + z.z - x.z). ``form="minmax"``: sum_j min(x_j, z_j) / sum_j max(x_j,
    z_j). On bits both are |intersection| / |union|. Two empty sets have similarity 1.

    Parameters
    ----------
    form : {"dot", "minmax"}
        How counts are compared; "dot" keeps sparse data sparse.

    References
    ----------
    Ralaivola, Swamidass, Saigo and Baldi, Graph kernels for chemical informatics, 2005.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Tanimoto()([[1, 1, 0]], [[0, 1, 1]]).round(4).tolist()
    [[0.3333]]
    """

    if TYPE_CHECKING:

        def __init__(self, form: Literal["dot", "minmax"] = "dot") -> None: ...

    form = Choice("dot", ("dot", "minmax"))
    psd = True
    non_negative = True
    takes_sparse = True

    def _check_points(self, points: Points, view: View) -> None:
        super()._check_points(points, view)
        values = points.matrix(view)
        largest = values.max(axis=1)
        largest = largest.data if sp.issparse(largest) else largest
        sizes, limits = largest[largest > 0], np.finfo(values.dtype)
        low, high = np.sqrt(limits.tiny), np.sqrt(limits.max / values.shape[1])
        if sizes.size and not low <= sizes.min() <= sizes.max() <= high:
            raise DataError(
                f"Tanimoto: the largest entries of rows, from {sizes.min():g} to {sizes.max():g}, "
                f"have squares beyond the range of {values.dtype}; divide all data by one number, "
                "which does not change the kernel."
            )

    def _trace(self, scope: Scope) -> Expr:
        if self.form == "minmax":
            return _minmax(scope, "Tanimoto(form='minmax')")
        common = Expr("dot", (), slot_of(self, scope))
        return _share(common, common)


class MinMax(VectorKernel):
    """MinMax kernel of counts, sum_j min(x_j, z_j) / sum_j max(x_j, z_j).

    The same as ``Tanimoto(form="minmax")``; on bits it is the Tanimoto similarity. Two rows without
    counts have similarity 1.

    References
    ----------
    Ralaivola, Swamidass, Saigo and Baldi, Graph kernels for chemical informatics, 2005.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.MinMax()([[2, 1, 0]], [[1, 1, 2]]).tolist()
    [[0.4]]
    """

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    psd = True
    non_negative = True

    def _trace(self, scope: Scope) -> Expr:
        return _minmax(scope, "MinMax")


def _minmax(scope: Scope, owner: str) -> Expr:
    slot = Slot(scope.view.read_by(Numbers(owner, sparse=False)))
    return _share(coordinate_leaf(apply("minimum", X, Z), slot, 1), coordinate_leaf(X, slot, 1))


def _share(common: Expr, size: Expr) -> Expr:
    """The common part of two sets, relative to their union; 1 for two empty sets."""
    union = diagonal(size, "row") + diagonal(size, "column") - common
    return apply("where", union > 0, common / apply("where", union > 0, union, 1.0), 1.0)
