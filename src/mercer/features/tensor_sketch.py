"""TensorSketch: features of polynomial kernels by count sketches and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
from scipy import sparse

from mercer.arrays import Array
from mercer.exceptions import NoFeatureMapError
from mercer.features.expansion import Factor, Term
from mercer.features.transformer import ConstantFeature, FeatureTransformer, TermMap
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear, Polynomial
from mercer.kernels.points import Points
from mercer.parallel import thread_count


@dataclass(frozen=True, eq=False)
class CountSketch:
    """Adds every column, and a constant, with a random sign to a random component."""

    factor: int  # the index of the sketched factor of the term
    matrix: Any  # (d, width): one entry per row, the sign times the square root of the gain
    place: int  # the component of the constant
    constant: float  # the sign of the constant times the square root of the offset

    def apply(self, rows: Any) -> Array:
        """The sketches of rows."""
        product = rows @ self.matrix
        sketch: Array = product if isinstance(product, np.ndarray) else product.toarray()
        if self.constant:
            sketch[:, self.place] += self.constant
        return sketch


@dataclass(frozen=True, eq=False)
class SketchConvolution:
    """The convolution of count sketches: a count sketch of the product of their inputs."""

    sketches: list[CountSketch]  # one per degree of each factor
    width: int  # the number of features
    amplitude: float  # the square root of the weight of the term

    def write(self, parts: Sequence[Any], out: Array) -> None:
        """Write the features of rows to `out`."""
        with np.errstate(over="ignore", invalid="ignore"):
            spectrum: Any = self.amplitude
            for sketch in self.sketches:
                values = sketch.apply(parts[sketch.factor])
                spectrum = scipy.fft.rfft(values, axis=1, workers=thread_count()) * spectrum
            out[:] = scipy.fft.irfft(spectrum, n=self.width, axis=1, workers=thread_count())


class TensorSketch(FeatureTransformer):
    r"""Features of a polynomial kernel (gain x.z + offset)^degree, without its monomials.

    A count sketch adds every column, with a random sign, to one of n_components components; inner
    products of sketches estimate inner products of points. The convolution of p independent
    sketches, by the fast Fourier transform, is a count sketch of all d^p products of p columns, in
    time p (d + n_components log(n_components)) per row. Inner products are unbiased. With
    a = (x.z)^2, q = sum_j x_j^2 z_j^2, b = \|x\|^2 \|z\|^2 - q and c = a - q, where the
    constant counts as a column, their variance is

    ((a + b)^p + (a + c)^p - 2 a^p) / m + e ((a + b + c)^p - (a + b)^p - (a + c)^p + a^p) / m^2

    for m components, where e is 1 for odd m and 2 for even m.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Sums, products and scalings of Polynomial, Linear and Constant, on any columns; by default
        ``Polynomial()``, of degree 3.
    n_components : int, default=1000
        The number of features.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the draws.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel.
    maps_ : list
        The random components and signs, for each term of the kernel.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of input columns and, if X has names, their names.

    References
    ----------
    Pham and Pagh, Fast and scalable polynomial kernels via explicit feature maps, 2013.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 4))
    >>> k = mc.Polynomial(degree=2, gain=0.25)
    >>> Phi = mc.TensorSketch(k, n_components=4000, random_state=0).fit_transform(X)
    >>> bool(abs(Phi @ Phi.T - k(X)).max() < 0.05 * k(X).max())
    True
    """

    def _default_kernel(self) -> Kernel:
        return Polynomial()

    def _draw(self, term: Term, width: int, points: Points, rng: np.random.Generator) -> TermMap:
        if not term.factors:
            return ConstantFeature(math.sqrt(term.weight))
        sketches: list[CountSketch] = []
        for i, factor in enumerate(term.factors):
            degree, offset, gain = self._polynomial(factor)
            columns = points.columns(factor.view).width
            self._require_memory(40 * degree * columns + 64 * width, "places of a sketch")
            sketches += [_count_sketch(i, columns, width, offset, gain, rng) for _ in range(degree)]
        return SketchConvolution(sketches, width, math.sqrt(term.weight))

    def _polynomial(self, factor: Factor) -> tuple[int, float, float]:
        kernel = factor.kernel
        if isinstance(kernel, Linear):
            return 1, 0.0, 1.0
        if isinstance(kernel, Polynomial):
            return kernel.degree, kernel.offset, kernel.gain
        raise NoFeatureMapError(
            f"{type(self).__name__}: {kernel!r:.80} is not a polynomial of an inner product, and "
            "has no sketch; use mercer.RandomFourier for stationary kernels, or the kernel itself."
        )


def _count_sketch(
    factor: int, columns: int, width: int, offset: float, gain: float, rng: np.random.Generator
) -> CountSketch:
    places = rng.integers(0, width, size=columns + 1)
    signs = rng.integers(0, 2, size=columns + 1) * 2.0 - 1.0
    entries = (signs[:-1] * math.sqrt(gain), (np.arange(columns), places[:-1]))
    matrix = sparse.csr_array(entries, shape=(columns, width))
    return CountSketch(factor, matrix, int(places[-1]), float(signs[-1]) * math.sqrt(offset))
