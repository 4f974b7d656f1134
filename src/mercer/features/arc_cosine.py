"""Random features of arc-cosine kernels: one layer of a wide network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import NoFeatureMapError
from mercer.features.expansion import Term
from mercer.features.normal_draws import normals_and_uniforms
from mercer.features.transformer import ConstantFeature, DrawnFeatures, TermMap
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import ArcCosine
from mercer.kernels.points import Points
from mercer.linalg.blocked import multiply


@dataclass(frozen=True, eq=False)
class NetworkUnits:
    """Threshold, rectified linear or squared rectified linear units with random weights."""

    matrix: Array  # (d, m): the weights
    order: int  # the power of the positive part; 0 for the threshold
    amplitude: float  # sqrt(2 weight / m), with the weight of the term
    at_zero: Array  # (m,): the value of a threshold at 0, drawn as 0 or 1

    @property
    def width(self) -> int:
        """The number of units."""
        return int(self.matrix.shape[1])

    def write(self, parts: Sequence[Any], out: Array) -> None:
        """Write the features of rows to `out`."""
        with np.errstate(over="ignore", invalid="ignore"):
            multiply(parts[0], self.matrix, out)
            if self.order == 0:
                np.heaviside(out, self.at_zero, out=out)
            else:
                np.maximum(out, 0, out=out)
            if self.order == 2:
                np.square(out, out=out)
            out *= out.dtype.type(self.amplitude)


class ArcCosineFeatures(DrawnFeatures):
    r"""Random features of arc-cosine kernels: the units of one wide layer with random weights.

    sqrt(2 / m) max(w_i.x, 0)^order for m standard normal w_i, the threshold for order 0. Inner
    products have expectation k_order(x, z) and, for independent w, variance
    (2 k_(2 order)(x, z) - k_order(x, z)^2) / m. Each unit draws once whether its threshold at
    w.x = 0 is 0 or 1, as with a vanishing random bias. So k_0(0, 0) = 1, since the angle of a point
    with itself is 0, and k_0(0, z) = 1/2, the average over directions.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        ``ArcCosine(order)`` on any columns, times a number, and sums of these; order 1 by default.
    n_components : int, default=1000
        The number of features.
    method : {"orthogonal", "iid", "sobol"}, default="orthogonal"
        The joint distribution of the vectors w.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the draws.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel.
    maps_ : list
        The random weights, for each term of the kernel.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of input columns and, if X has names, their names.

    References
    ----------
    Cho and Saul, Kernel methods for deep learning, 2009.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> k = mc.ArcCosine(order=1)
    >>> Phi = mc.ArcCosineFeatures(k, n_components=4000, random_state=0).fit_transform(X)
    >>> bool(abs(Phi @ Phi.T - k(X)).max() < 0.1 * k(X).max())
    True
    """

    _methods = ("orthogonal", "iid", "sobol")

    def _default_kernel(self) -> Kernel:
        return ArcCosine()

    def _draw(self, term: Term, width: int, points: Points, rng: np.random.Generator) -> TermMap:
        if not term.factors:
            return ConstantFeature(math.sqrt(term.weight))
        factor, *others = term.factors
        if others or not isinstance(factor.kernel, ArcCosine):
            names = " * ".join(repr(part.kernel) for part in term.factors)
            what = "a product, and not" if others else "not"
            raise NoFeatureMapError(
                f"ArcCosineFeatures: {names:.80} is {what} an arc-cosine kernel; pass "
                "mercer.ArcCosine(order), times a number, or sums of these."
            )
        columns = points.columns(factor.view).width
        self._require_memory(8 * 4 * width * columns, "random vectors")
        normals, _ = normals_and_uniforms(self.method, width, columns, 0, rng)
        amplitude = math.sqrt(term.weight) * math.sqrt(2 / width)
        order = factor.kernel.order
        coins = rng.integers(0, 2, size=width if order == 0 else 0).astype(float)
        return NetworkUnits(np.ascontiguousarray(normals.T), order, amplitude, coins)
