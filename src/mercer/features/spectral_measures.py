r"""Spectral measures: distributions of the frequencies of stationary kernels.

By Bochner's theorem a stationary kernel with k(0) = 1 is the characteristic function of a
distribution of frequencies, k(x - z) = E cos(w.(x - z)). The measure of a kernel turns standard
normal vectors and uniform numbers into frequencies, so that all kernels share one stream of draws
(independent, orthogonal or quasi-random).

A kernel of your own, here 1 / (1 + r^2), gets random features by registering its measure::

    @spectral_measures.spectral_measure.register(Cauchy)
    def _(kernel):
        radius = lambda u: np.sqrt(-2 * np.log(u))
        return spectral_measures.GaussianMixture(kernel.length_scale, radius)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import gammaincinv, ive, ndtr

from mercer.arrays import Array
from mercer.exceptions import NoFeatureMapError
from mercer.kernels.base import Kernel
from mercer.kernels.special import White
from mercer.kernels.stationary import (
    RBF,
    Cosine,
    Laplacian,
    Matern,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
)
from mercer.kernels.vector import DotProduct, Stationary

# Largest radius; higher frequencies are noise in any precision, and may overflow float32.
_LARGEST_RADIUS = 1e15
# Concentration above which a normal density approximates the coefficients of a Fourier series.
_MANY_HARMONICS = 1e8


class Measure(ABC):
    """A distribution of frequencies."""

    @property
    def isotropic(self) -> bool:
        """Whether the scaled frequencies have a direction that is uniform on the sphere."""
        return False

    @property
    def symmetric(self) -> bool:
        """Whether w and -w are equally likely."""
        return True

    def n_uniforms(self, width: int) -> int:
        """Count the uniform numbers for one frequency vector of this width."""
        return 0

    @abstractmethod
    def frequencies(self, normals: Array, uniforms: Array) -> Array:
        """Turn standard normal rows, and rows of uniform numbers, into frequencies."""


@dataclass(frozen=True)
class GaussianMixture(Measure):
    r"""Normal frequencies with a random radius, w = shift + r g / l.

    This is the measure of mixtures of RBFs, k(x, z) = E exp(-r^2 \|x - z\|^2 / (2 l^2)).

    Parameters
    ----------
    lengths : float or ndarray of shape (d,)
        The length-scale.
    radius : callable, optional
        The quantile function of r, from uniform numbers; r = 1 by default.
    per_column : bool, default=False
        Whether every column has a radius of its own.
    shift : float or ndarray of shape (d,), default=0.0
        The centre of the frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features.spectral_measures import GaussianMixture
    >>> GaussianMixture(2.0).frequencies(np.ones((1, 3)), np.empty((1, 0)))
    array([[0.5, 0.5, 0.5]])
    """

    lengths: Any
    radius: Callable[[Array], Array] | None = None
    per_column: bool = False
    shift: Any = 0.0

    @property
    def isotropic(self) -> bool:
        """Whether all columns share a radius, and the centre is zero."""
        return not self.per_column and self.symmetric

    @property
    def symmetric(self) -> bool:
        """Whether the centre is zero."""
        return not np.any(self.shift)

    def n_uniforms(self, width: int) -> int:
        """Count the radii."""
        if self.radius is None:
            return 0
        return width if self.per_column else 1

    def radii(self, uniforms: Array) -> Array | float:
        """The radii; 1 if they are not random."""
        if self.radius is None:
            return 1.0
        with np.errstate(divide="ignore"):
            return np.minimum(self.radius(uniforms), _LARGEST_RADIUS)

    def frequencies(self, normals: Array, uniforms: Array) -> Array:
        """Shift + r g / l."""
        return np.asarray(self.shift + self.radii(uniforms) * normals / self.lengths)


@dataclass(frozen=True)
class PointMass(Measure):
    """A single frequency: the measure of a cosine.

    Parameters
    ----------
    frequency : float or ndarray of shape (d,)
        The frequency.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features.spectral_measures import PointMass
    >>> PointMass(0.5).frequencies(np.ones((1, 2)), np.empty((1, 0)))
    array([[0.5, 0.5]])
    """

    frequency: Any

    @property
    def symmetric(self) -> bool:
        """Whether the frequency is zero: a constant kernel."""
        return not np.any(self.frequency)

    def frequencies(self, normals: Array, uniforms: Array) -> Array:
        """The one frequency, for every draw."""
        return np.broadcast_to(np.asarray(self.frequency, float), normals.shape).copy()


@dataclass(frozen=True)
class FourierSeries(Measure):
    r"""Integer multiples of 2 pi / period, independent in each column.

    exp(-2 sin^2(pi t / period) / l^2) = sum_n e^(-a) I(n, a) cos(2 pi n t / period), a = 1 / l^2,
    with modified Bessel functions I, so that the multiple n has probability e^(-a) I(\|n\|, a).

    Parameters
    ----------
    period : float
        The period.
    lengths : float or ndarray of shape (d,)
        The length-scale within a period.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.features.spectral_measures import FourierSeries
    >>> FourierSeries(2 * np.pi, 1.0).frequencies(np.array([[0.0], [1.5]]), np.empty((2, 0)))
    array([[0.],
           [1.]])
    """

    period: float
    lengths: Any

    def frequencies(self, normals: Array, uniforms: Array) -> Array:
        """The multiples at the probabilities of the normal numbers."""
        lengths = np.broadcast_to(self.lengths, normals.shape[1:])
        multiples = [
            _harmonics(g, 1 / length**2) for g, length in zip(normals.T, lengths, strict=True)
        ]
        return np.stack(multiples, axis=1) * (2 * np.pi / self.period)


def _harmonics(normals: Array, concentration: float) -> Array:
    """Integers n of probability e^-a I_|n|(a), by their quantiles."""
    if concentration > _MANY_HARMONICS:
        return np.asarray(np.rint(normals * np.sqrt(concentration)))
    most = int(20 + 10 * np.sqrt(concentration))
    n = np.arange(-most, most + 1)
    cumulative = np.cumsum(ive(np.abs(n), concentration))
    places = np.searchsorted(cumulative / cumulative[-1], ndtr(normals))
    return np.asarray(n[np.minimum(places, 2 * most)], dtype=float)


@dataclass(frozen=True)
class EitherSign(Measure):
    """A measure made symmetric: its frequencies with random signs."""

    measure: Measure

    def n_uniforms(self, width: int) -> int:
        """Count one more, for the sign."""
        return self.measure.n_uniforms(width) + 1

    def frequencies(self, normals: Array, uniforms: Array) -> Array:
        """The frequencies, or minus them."""
        signs = np.where(uniforms[:, -1:] < 0.5, -1.0, 1.0)
        return np.asarray(signs * self.measure.frequencies(normals, uniforms[:, :-1]))


def independent(measures: Sequence[Measure]) -> list[Measure]:
    """Measures whose frequencies can be added, for the product of their kernels.

    E cos((v + w).t) = E cos(v.t) E cos(w.t) needs E sin(v.t) = 0 or E sin(w.t) = 0. So all measures
    that are not symmetric, but the first, get random signs.
    """
    signed: list[Measure] = []
    one_sided = 0
    for measure in measures:
        one_sided += not measure.symmetric
        signed.append(measure if measure.symmetric or one_sided == 1 else EitherSign(measure))
    return signed


@singledispatch
def spectral_measure(kernel: Kernel) -> Measure:
    """Return the distribution of the frequencies of a stationary kernel.

    Parameters
    ----------
    kernel : Kernel
        A leaf kernel, with numbers as parameters.

    Returns
    -------
    Measure
        The distribution from which frequencies are drawn.

    Raises
    ------
    NoFeatureMapError
        If the kernel has no registered spectral measure.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.features.spectral_measures import spectral_measure
    >>> spectral_measure(mc.RBF(length_scale=2.0)).lengths
    2.0
    """
    raise NoFeatureMapError(
        f"{kernel!r:.80} has no spectral measure in mercer's table, so that there is nothing to "
        f"draw frequencies from; {_instead(kernel)}."
    )


def _instead(kernel: Kernel) -> str:
    if isinstance(kernel, White):
        return "leave the noise out of the kernel, and give it to the model (alpha= or noise=)"
    if isinstance(kernel, DotProduct):
        return (
            "use its exact features (kernel.feature_map), mercer.TensorSketch for polynomials, or "
            "mercer.PositiveFeatures for exponentials"
        )
    if not isinstance(kernel, Stationary):
        return (
            "use its own features (kernel.feature_map) if it has some, mercer.Nystrom, which takes "
            "any kernel, or the kernel itself, which needs no features"
        )
    return (
        "use the kernel itself, which needs no features, mercer.Nystrom, which takes any kernel, "
        "or register its measure with mercer.features.spectral_measures.spectral_measure"
    )


@spectral_measure.register
def _(kernel: RBF) -> Measure:
    return GaussianMixture(kernel.length_scale)


@spectral_measure.register
def _(kernel: Matern) -> Measure:
    if kernel.nu == np.inf:
        return GaussianMixture(kernel.length_scale)
    # Student's t with 2 nu degrees of freedom: r^2 = 2 nu / chi^2.
    return GaussianMixture(kernel.length_scale, _student_radius(kernel.nu))


@spectral_measure.register
def _(kernel: Laplacian) -> Measure:
    # In each column by itself a Matern of nu = 1/2, that is Cauchy frequencies.
    return GaussianMixture(kernel.length_scale, _student_radius(0.5), per_column=True)


@spectral_measure.register
def _(kernel: RationalQuadratic) -> Measure:
    alpha = kernel.alpha
    return GaussianMixture(kernel.length_scale, lambda u: np.sqrt(gammaincinv(alpha, u) / alpha))


@spectral_measure.register
def _(kernel: SpectralMixture) -> Measure:
    # One component: `expansion.expand` has split the mixture.
    return GaussianMixture(kernel.length_scale[0], shift=2 * np.pi * kernel.frequencies[0])


@spectral_measure.register
def _(kernel: Cosine) -> Measure:
    return PointMass(1 / np.asarray(kernel.length_scale))


@spectral_measure.register
def _(kernel: Periodic) -> Measure:
    return FourierSeries(kernel.period, kernel.length_scale)


def _student_radius(nu: float) -> Callable[[Array], Array]:
    return lambda u: np.asarray(np.sqrt(nu / gammaincinv(nu, u)))
