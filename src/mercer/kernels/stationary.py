"""Stationary kernels: functions of the difference of two points."""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Scope
from mercer.kernels.interpolation import matern_table
from mercer.kernels.parameters import (
    Fixed,
    Integer,
    Length,
    NonNegative,
    Positive,
    Real,
    Scalar,
    Vector,
    plain,
)
from mercer.kernels.points import Points
from mercer.kernels.tracing import coordinate_leaf, parameters_at, symbolic, weighted_sum
from mercer.kernels.vector import Stationary, VectorKernel, length_scale_of, slot_of
from mercer.kernels.views import Columns, View
from mercer.program.expression import DIFFERENCE, Expr, X, Z, parameter
from mercer.program.operations import apply, lookup


class RBF(Stationary):
    """Gaussian kernel, exp(-r^2 / 2) with r^2 = sum_j (x_j - z_j)^2 / l_j^2.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        One length for all columns, or one for each.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.RBF(length_scale=2.0)([[0.0], [2.0]])
    array([[1.        , 0.60653066],
           [0.60653066, 1.        ]])
    """

    if TYPE_CHECKING:

        def __init__(self, length_scale: Length = 1.0) -> None: ...

    psd = True
    _elsewhere = MappingProxyType({"gamma": "write RBF.from_gamma(gamma)."})

    def profile(self, r2: Any) -> Any:
        return np.exp(-r2 / 2)

    @classmethod
    def from_gamma(cls, gamma: Any) -> Self:
        """Return the kernel exp(-gamma |x - z|^2), that is length_scale = 1 / sqrt(2 gamma).

        Parameters
        ----------
        gamma : float, array of shape (d,) or Fixed
            Inverse squared length, positive, for all columns or for each.

        Examples
        --------
        >>> import mercer as mc
        >>> mc.RBF.from_gamma(0.5)
        RBF()
        """
        rule = Positive(per_column=True)
        rule.__set_name__(cls, "gamma")
        stored = rule.validate(f"{cls.__name__}.from_gamma", gamma)
        length = 1 / np.sqrt(2 * np.asarray(plain(stored)))
        return cls(length_scale=Fixed(length) if isinstance(stored, Fixed) else length)


class Laplacian(Stationary):
    """Laplacian kernel, exp(-sum_j |x_j - z_j| / l_j).

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        One length for all columns, or one for each.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.Laplacian()([[0.0, 0.0]], [[1.0, 1.0]])[0, 0])
    0.13533528
    """

    if TYPE_CHECKING:

        def __init__(self, length_scale: Length = 1.0) -> None: ...

    psd = True
    takes_sparse = False
    _metric = "cityblock"
    _elsewhere = MappingProxyType({"gamma": "write length_scale=1 / gamma."})

    def profile(self, r1: Any) -> Any:
        return np.exp(-r1)


class Matern(Stationary):
    """Matern kernel of smoothness nu.

    2^(1-nu) / Gamma(nu) (sqrt(2 nu) r)^nu K_nu(sqrt(2 nu) r), where r is the scaled Euclidean
    distance. Paths of the Gaussian process are ceil(nu) - 1 times differentiable. Closed forms
    serve nu = 0.5, 1.5, 2.5; infinity is the RBF; any other nu runs through an interpolated
    profile.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        One length for all columns, or one for each.
    nu : float
        Smoothness, positive; not learned.

    References
    ----------
    Rasmussen and Williams, Gaussian Processes for Machine Learning, 2006, section 4.2.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.Matern(nu=0.5)([[0.0]], [[1.0]])[0, 0])
    0.36787944
    """

    if TYPE_CHECKING:

        def __init__(self, length_scale: Length = 1.0, nu: float = 1.5) -> None: ...

    nu = Positive(1.5, learned=False, allow_infinity=True)
    psd = True

    def profile(self, r2: Any) -> Any:
        if self.nu == math.inf:
            return np.exp(-r2 / 2)
        if self.nu not in (0.5, 1.5, 2.5):
            return lookup(matern_table(self.nu), r2)
        r = np.sqrt(2 * self.nu * r2)
        decay = np.exp(-r)
        if self.nu == 0.5:
            return decay
        if self.nu == 1.5:
            return decay + r * decay
        return decay + (r + r * r / 3) * decay


class RationalQuadratic(Stationary):
    """Rational quadratic kernel, (1 + r^2 / (2 alpha))^-alpha: RBFs mixed over length-scales.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        One length for all columns, or one for each.
    alpha : float
        Shape of the mixture; the RBF as alpha goes to infinity.

    Examples
    --------
    >>> import mercer as mc
    >>> float(mc.RationalQuadratic(alpha=0.5)([[0.0]], [[1.0]])[0, 0])
    0.70710678
    """

    if TYPE_CHECKING:

        def __init__(self, length_scale: Length = 1.0, alpha: Scalar = 1.0) -> None: ...

    alpha = Positive(1.0)
    psd = True

    def profile(self, r2: Any) -> Any:
        """(1 + r^2 / (2 alpha))^-alpha, with all digits also where alpha is large."""
        return np.exp(-self.alpha * np.log1p(r2 / (2 * self.alpha)))


class Wendland(Stationary):
    """Wendland's kernel of compact support: 0 beyond a distance of ``length_scale``.

    With l = floor(dimension / 2) + smoothness + 1 and r the scaled distance, the polynomial (1 -
    r)_+^(l + smoothness) p(r) with 2 ``smoothness`` continuous derivatives, positive definite in up
    to ``dimension`` columns and in no more; more columns are refused.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        The radius of the support.
    dimension : int
        The largest number of columns for which the kernel has to be valid.
    smoothness : int
        0, 1, 2 or 3.

    References
    ----------
    Wendland, Piecewise polynomial, positive definite and compactly supported radial functions,
    1995.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Wendland(length_scale=2.0)([[0.0], [1.0], [2.0]])[0].tolist()
    [1.0, 0.1875, 0.0]
    """

    if TYPE_CHECKING:

        def __init__(
            self, length_scale: Length = 1.0, dimension: int = 3, smoothness: int = 1
        ) -> None: ...

    dimension = Integer(3, low=1)
    smoothness = Integer(1, low=0, high=3)
    psd = True

    def profile(self, r2: Any) -> Any:
        r = np.minimum(np.sqrt(r2), 1.0)
        smoothness: int = self.smoothness
        l = self.dimension // 2 + smoothness + 1  # noqa: E741 (the letter of the literature)
        inside = (1 - r) ** (l + smoothness)
        if smoothness == 0:
            return inside
        if smoothness == 1:
            return inside * ((l + 1) * r + 1)
        if smoothness == 2:
            return inside * (((l * l + 4 * l + 3) * r + 3 * l + 6) * r + 3) / 3
        cubic = (l**3 + 9 * l * l + 23 * l + 15) * r + 6 * l * l + 36 * l + 45
        return inside * ((cubic * r + 15 * l + 45) * r + 15) / 15

    def _check_points(self, points: Points, view: View) -> None:
        super()._check_points(points, view)
        width = points.columns(view).width
        if width > self.dimension:
            raise DataError(
                f"Wendland: the data have {width} columns but the kernel is positive definite in "
                f"at most dimension = {self.dimension}; pass dimension={width}."
            )


class Periodic(VectorKernel):
    """Periodic kernel, exp(-2 sum_j sin^2(pi (x_j - z_j) / period) / l_j^2).

    Parameters
    ----------
    period : float
        The period, in units of the data.
    length_scale : float or array of shape (d,)
        Smoothness within a period, in units of the chord of a unit circle. It has no unit of the
        data, so that no rule takes it from them.

    References
    ----------
    MacKay, Introduction to Gaussian processes, 1998.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Periodic(period=7.0)([[0.0], [7.0], [3.5]])[0].round(3).tolist()
    [1.0, 1.0, 0.135]
    """

    if TYPE_CHECKING:

        def __init__(self, period: Scalar = 1.0, length_scale: Vector = 1.0) -> None: ...

    period = Positive(1.0)
    length_scale = Positive(1.0, per_column=True)
    psd = True

    def coordinate(self, x: Any, z: Any) -> Any:
        return np.sin(np.pi * (x - z) / self.period) ** 2

    def _trace(self, scope: Scope) -> Expr:
        body = symbolic(self, scope, "coordinate", X, Z)
        lengths = parameters_at(scope.path("length_scale"), self.length_scale)
        per_column = isinstance(lengths, tuple)
        weights = tuple(1 / length**2 for length in lengths) if per_column else 1 / lengths**2
        return apply("exp", -2 * weighted_sum(body, slot_of(self, scope), weights))


class Cosine(VectorKernel):
    """Cosine kernel, cos(sum_j (x_j - z_j) / l_j): valid because the sum is signed.

    (The cosine of the *distance* |x - z| is not a kernel in two dimensions or more.)

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median", "scale" or "columns"
        One length for all columns, or one for each; the period is 2 pi times it.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> mc.Cosine()([[0.0], [np.pi]]).round(3).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, length_scale: Length = 1.0) -> None: ...

    length_scale = Stationary.length_scale
    psd = True

    def _trace(self, scope: Scope) -> Expr:
        slot = slot_of(self, scope, length_scale_of(self, scope))
        return apply("cos", coordinate_leaf(DIFFERENCE, slot, 1))

    def _features(self, scope: Scope, points: Points) -> Columns:
        angle = (points.matrix(self._view(scope)) / self.length_scale).sum(axis=1)
        return Columns(np.stack([np.cos(angle), np.sin(angle)], axis=1), names=("cos", "sin"))


class SpectralMixture(VectorKernel):
    """Mixture of Gaussians in the frequency domain.

    sum_q w_q exp(-1/2 sum_j (x_j - z_j)^2 / l_qj^2) cos(2 pi sum_j f_qj (x_j - z_j)): with enough
    components it approximates any stationary kernel.

    Parameters
    ----------
    weights : array of shape (q,)
        Variance of each component.
    frequencies : array of shape (q,) or (q, d)
        Mean frequency of each component (in each column).
    length_scale : array of shape (q,) or (q, d)
        Length-scale of each component (in each column): 1 / (2 pi standard deviation of its
        frequencies).

    References
    ----------
    Wilson and Adams, Gaussian process kernels for pattern discovery and extrapolation, 2013.

    Examples
    --------
    >>> import mercer as mc
    >>> k = mc.SpectralMixture(weights=[1.0, 0.5], frequencies=[0.0, 2.0], length_scale=[1.0, 3.0])
    >>> float(k.diag([[0.3]])[0])
    1.5
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            weights: Vector = (1.0,),
            frequencies: Vector = (0.0,),
            length_scale: Vector = (1.0,),
        ) -> None: ...

    weights = NonNegative([1.0], ndim=1)
    frequencies = Real([0.0], ndim=2)
    length_scale = Positive([1.0], ndim=2)
    psd = True

    def _check(self) -> None:
        sizes = {np.shape(getattr(self, n))[:1] for n in ("weights", "frequencies", "length_scale")}
        if len(sizes) != 1 or sizes == {()}:
            raise ParameterError(
                "SpectralMixture: weights, frequencies and length_scale must have one entry (row) "
                f"for each component, got shapes {np.shape(self.weights)}, "
                f"{np.shape(self.frequencies)} and {np.shape(self.length_scale)}; pass as many of "
                "each."
            )

    def _trace(self, scope: Scope) -> Expr:
        return reduce(add, [self._component(scope, q) for q in range(len(self.weights))])

    def _component(self, scope: Scope, q: int) -> Expr:
        slot = slot_of(self, scope, length_scale_of(self, scope, row=q), centred=True)
        distance = Expr("squared_distance", (), slot)
        envelope = apply("exp", -distance / 2)
        wave = apply("cos", 2 * math.pi * self._phase(scope, q))
        return parameter(scope.path("weights"), q) * envelope * wave

    def _phase(self, scope: Scope, q: int) -> Expr:
        """sum_j f_qj (x_j - z_j)."""
        frequencies = parameters_at(scope.path("frequencies"), self.frequencies[q], q)
        return weighted_sum(DIFFERENCE, slot_of(self, scope), frequencies)

    def _check_points(self, points: Points, view: View) -> None:
        width = points.columns(view).width
        for name in ("frequencies", "length_scale"):
            value = getattr(self, name)
            if np.ndim(value) == 2 and value.shape[1] != width:
                raise ParameterError(
                    f"SpectralMixture: {name} has {value.shape[1]} columns but the kernel sees "
                    f"{width}; pass shape (components,) or (components, columns)."
                )
