"""Dot-product kernels, and kernels of products of coordinates."""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import NoFeatureMapError
from mercer.kernels.base import Scope
from mercer.kernels.heuristics import Scatter, heuristic_gain
from mercer.kernels.parameters import Gain, Integer, NonNegative, Positive, Real, Scalar
from mercer.kernels.points import Points
from mercer.kernels.tracing import coordinate_leaf, diagonal
from mercer.kernels.vector import Coordinate, DotProduct, VectorKernel, slot_of
from mercer.kernels.views import Columns, UnitRows
from mercer.maps import monomials
from mercer.maps.forecast import forecast
from mercer.program.expression import Expr, X, Z
from mercer.program.operations import apply

#: Names of parameters in scikit-learn.
_NAMES = MappingProxyType({"coef0": "its name is offset.", "gamma": "its name is gain."})


class Linear(DotProduct):
    """Linear kernel, x.z.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear()([[1.0, 2.0], [0.0, 1.0]])
    array([[5., 2.],
           [2., 1.]])
    """

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    psd = True

    def profile(self, s: Any) -> Any:
        return s

    def _features(self, scope: Scope, points: Points) -> Columns:
        view = self._view(scope)
        return Columns(points.matrix(view), names=points.column_names(view))


def dense(columns: Columns) -> Array:
    """The values of columns as an array; products of columns are not sparse."""
    values = columns.values
    return np.asarray(values if isinstance(values, np.ndarray) else values.toarray())


class Polynomial(DotProduct):
    """Polynomial kernel, (gain x.z + offset)^degree.

    Parameters
    ----------
    degree : int
        The degree, at least 1.
    offset : float
        At 0 the kernel is homogeneous: only monomials of exactly that degree.
    gain : float or "scale"
        Factor of the inner product. "scale" is 1 / (d Var X), from the data when an estimator is
        fitted.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Polynomial(degree=2)([[1.0, 2.0]]).tolist()
    [[36.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, degree: int = 3, offset: Scalar = 1.0, gain: Gain = 1.0) -> None: ...

    degree = Integer(3, low=1)
    offset = NonNegative(1.0)
    gain = Positive(1.0, heuristics=("scale",))
    psd = True
    _elsewhere = _NAMES

    def profile(self, s: Any) -> Any:
        return (self.gain * s + self.offset) ** self.degree

    def _from_data(self, rule: str, scatter: Scatter) -> float:
        return heuristic_gain(type(self).__name__, scatter)

    def _features(self, scope: Scope, points: Points) -> Columns:
        columns = points.columns(self._view(scope))
        values = monomials.polynomial_features(dense(columns), self.degree, self.offset, self.gain)
        inputs = points.column_names(self._view(scope))
        names = partial(monomials.polynomial_names, inputs, self.degree, self.offset)
        return Columns(values, names=names)


class Sigmoid(DotProduct):
    """Hyperbolic tangent, tanh(gain x.z + offset): an indefinite similarity, not a kernel.

    Models refuse its matrices where they are not positive semi-definite, unless told how to repair
    them.

    Parameters
    ----------
    gain : float or "scale"
        Factor of the inner product. "scale" is 1 / (d Var X), from the data when an estimator is
        fitted.
    offset : float
        Added to it.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Sigmoid().is_psd
    False
    """

    if TYPE_CHECKING:

        def __init__(self, gain: Gain = 1.0, offset: Scalar = 0.0) -> None: ...

    gain = NonNegative(1.0, heuristics=("scale",))
    offset = Real(0.0)
    psd = False
    _elsewhere = _NAMES

    def profile(self, s: Any) -> Any:
        return np.tanh(self.gain * s + self.offset)

    _from_data = Polynomial._from_data


class Monomials(Coordinate):
    """Product over the columns of 1 + t + ... + t^degree, t = x_j z_j.

    Its features are the monomials of degree at most ``degree`` *in each variable*.

    Parameters
    ----------
    degree : int
        Largest power of each variable.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Monomials(degree=1)([[1.0, 2.0]]).tolist()
    [[10.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, degree: int = 2) -> None: ...

    degree = Integer(2, low=1)
    reduction = "product"
    psd = True

    def coordinate(self, x: Any, z: Any) -> Any:
        """1 + t + ... + t^degree by Horner's rule."""
        t = x * z
        total = 1 + t
        for _ in range(self.degree - 1):
            total = 1 + t * total
        return total

    def _features(self, scope: Scope, points: Points) -> Columns:
        columns = points.columns(self._view(scope))
        values = monomials.monomial_features(columns.values, self.degree)
        inputs = points.column_names(self._view(scope))
        return Columns(values, names=partial(monomials.monomial_names, inputs, self.degree))


class Anova(Coordinate):
    """ANOVA kernel: the sum over all sets of ``degree`` different columns of the products x_j z_j.

    The elementary symmetric polynomial of the numbers x_j z_j, computed by the stable recursion.

    Parameters
    ----------
    degree : int
        Number of columns that interact.

    References
    ----------
    Shawe-Taylor and Cristianini, Kernel Methods for Pattern Analysis, 2004, section 9.2.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Anova(degree=2)([[1.0, 2.0, 3.0]]).tolist()
    [[49.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, degree: int = 2) -> None: ...

    degree = Integer(2, low=1)
    psd = True

    def coordinate(self, x: Any, z: Any) -> Any:
        return x * z

    def _degree(self) -> int:
        return int(self.degree)

    def _features(self, scope: Scope, points: Points) -> Columns:
        columns = points.columns(self._view(scope))
        count = math.comb(columns.width, self.degree)
        forecast("Anova", len(points), count, columns.values.itemsize)
        sets = list(combinations(range(columns.width), self.degree))
        if not sets:
            raise NoFeatureMapError(
                f"Anova: degree = {self.degree} exceeds the {columns.width} columns: it is 0."
            )
        names = points.column_names(self._view(scope))
        values = np.stack([columns.values[:, chosen].prod(axis=1) for chosen in sets], axis=1)
        return Columns(values, names=tuple("*".join(names[j] for j in chosen) for chosen in sets))


class ArcCosine(VectorKernel):
    """Arc-cosine kernel: an infinitely wide layer of threshold, ReLU or squared ReLU units.

    (1/pi) (|x| |z|)^order J(theta), theta the angle between x and z, with J_0 = pi - theta,
    J_1 = sin + (pi - theta) cos, J_2 = 3 sin cos + (pi - theta) (1 + 2 cos^2). The zero vector has
    the angle 0 with itself and, on average over its directions, pi/2 with all others, so that for
    order 0 k(0, 0) = 1 and k(0, z) = 1/2.

    Parameters
    ----------
    order : int
        0, 1 or 2.

    References
    ----------
    Cho and Saul, Kernel methods for deep learning, 2009.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.ArcCosine(order=1)([[3.0, 4.0]]).tolist()
    [[25.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, order: int = 1) -> None: ...

    order = Integer(1, low=0, high=2)
    psd = True

    def _trace(self, scope: Scope) -> Expr:
        # The angle from |u - v| and |u + v| of unit vectors keeps its digits near 0 and near pi.
        unit = scope.then(UnitRows())
        apart = Expr("squared_distance", (), slot_of(self, unit))
        together = coordinate_leaf((X + Z) * (X + Z), slot_of(self, unit), 1)
        theta = 2.0 * apply("arctan2", apply("sqrt", apart), apply("sqrt", together))
        value = self._angular(theta) / math.pi
        if self.order == 0:
            return value
        size = apply("power", Expr("dot", (), slot_of(self, scope)), self.order / 2)
        return value * diagonal(size, "row") * diagonal(size, "column")

    def _angular(self, theta: Expr) -> Expr:
        if self.order == 0:
            return math.pi - theta
        sin, cos = apply("sin", theta), apply("cos", theta)
        if self.order == 1:
            return sin + (math.pi - theta) * cos
        return 3.0 * sin * cos + (math.pi - theta) * (1.0 + 2.0 * cos * cos)
