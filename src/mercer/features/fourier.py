"""Random Fourier features of stationary kernels, and Fastfood."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from mercer import _core
from mercer.arrays import Array
from mercer.exceptions import NoFeatureMapError
from mercer.features.expansion import Factor, Term
from mercer.features.normal_draws import normals_and_uniforms
from mercer.features.projections import Dense, Projection, Structured, fastfood, project, sorf
from mercer.features.spectral_measures import (
    GaussianMixture,
    Measure,
    PointMass,
    independent,
    spectral_measure,
)
from mercer.features.transformer import ConstantFeature, DrawnFeatures, FeatureTransformer, TermMap
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.parallel import thread_count


@dataclass(frozen=True, eq=False)
class CosinesAndSines:
    """Cosines and sines of projections, times an amplitude."""

    projections: tuple[Projection, ...]  # their sum gives the angles
    sources: tuple[int, ...]  # for each projection, the factor of the term whose columns it reads
    width: int  # the number of features: cosines, then sines; one more cosine if it is odd
    amplitude: float  # sqrt(2 weight / width), with the weight of the term
    phase: float  # added to the last angle if the width is odd, so that its cosine is unbiased

    @property
    def n_angles(self) -> int:
        """The number of frequencies."""
        return (self.width + 1) // 2

    def write(self, parts: Sequence[Any], out: Array) -> None:
        """Write the features of rows to `out`."""
        angles = out[:, : self.n_angles]
        project(self.projections, [parts[i] for i in self.sources], angles)
        if self.width % 2:
            angles[:, -1] += self.phase
        _core.waves(out, self.n_angles, self.amplitude, thread_count())


class _Part(NamedTuple):
    """A factor of a term, and what its frequencies are drawn from."""

    kernel: Kernel
    measure: Measure
    centre: Array  # of its columns


class _FourierTransformer(FeatureTransformer):
    """Base of random Fourier features, for any distribution of frequencies."""

    _may_overflow = False

    def _fixed_widths(self, terms: Sequence[Term]) -> list[int]:
        """Products of cosines are exact if n_components allows all sums of their frequencies."""
        widths = [_fixed_width(term) for term in terms]
        if sum(max(width, 1) for width in widths) <= self.n_components:
            return widths
        return [width if width <= 2 else 0 for width in widths]

    def _draw(self, term: Term, width: int, points: Points, rng: np.random.Generator) -> TermMap:
        if not term.factors:
            return ConstantFeature(math.sqrt(term.weight))
        all_sums = width == _fixed_width(term)
        measures: Sequence[Measure] = [spectral_measure(f.kernel) for f in term.factors]
        measures = measures if all_sums else independent(measures)
        parts = [
            _Part(factor.kernel, measure, points.centre(factor.view))
            for factor, measure in zip(term.factors, measures, strict=True)
        ]
        drawn = _all_sums(parts) if all_sums else self._projections(parts, (width + 1) // 2, rng)
        sources, projections = _joined(term.factors, drawn)
        return CosinesAndSines(
            projections,
            sources,
            width,
            math.sqrt(term.weight) * math.sqrt(2 / width),
            float(rng.uniform(0, 2 * math.pi)),
        )

    @abstractmethod
    def _projections(
        self, parts: Sequence[_Part], count: int, rng: np.random.Generator
    ) -> list[Projection]:
        """Draw the frequencies of a product of kernels, one projection for each factor."""

    def _structured(
        self, parts: Sequence[_Part], count: int, rng: np.random.Generator, draw: Callable[..., Any]
    ) -> list[Projection]:
        """Rows of Hadamard products, scaled to the lengths of normal vectors times radii."""
        projections: list[Projection] = []
        for kernel, measure, centre in parts:
            if not (isinstance(measure, GaussianMixture) and measure.isotropic):
                raise NoFeatureMapError(
                    f"{type(self).__name__}: the frequencies of {kernel!r:.80} are not spread "
                    "evenly over all directions, as products of Hadamard matrices are; use "
                    'mercer.RandomFourier with method="orthogonal".'
                )
            self._require_memory(8 * 16 * (count + len(centre)), "random diagonals")
            diagonals, permutations = draw(count, len(centre), rng)
            blocks, _, size = diagonals.shape
            radii = measure.radii(rng.random((blocks, size)))
            scales = np.sqrt(rng.chisquare(size, size=(blocks, size))) * radii
            lengths = np.broadcast_to(measure.lengths, centre.shape).astype(float)
            projections.append(Structured(diagonals, scales, permutations, centre, lengths))
        return projections


class RandomFourier(_FourierTransformer, DrawnFeatures):
    r"""Random Fourier features: cosines and sines whose inner products estimate a kernel.

    A stationary kernel with k(x, x) = c is c E cos(w.(x - z)) over random frequencies w (Bochner).
    With m frequencies, the features sqrt(c / m) (cos(w_i.x), sin(w_i.x)) have inner products
    of expectation k(x, z) and, for independent frequencies, of variance
    c^2 ((1 + k(2 (x - z)) / c) / 2 - (k(x, z) / c)^2) / m. A model of n rows on them costs
    n_components^2 n instead of n^3.

    Kernels compose. Every term of a sum has features of its own, in proportion to its weight. The
    frequencies of the factors of a product are drawn jointly and added, with random signs if they
    are not symmetric about zero. A product of cosines is exact if n_components allows the sums of
    their frequencies with all signs. `fit` computes length-scales ``"median"`` and ``"scale"``.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Sums, products and scalings of RBF, Matern, Laplacian, RationalQuadratic, Periodic,
        Cosine, SpectralMixture and Constant, on any columns; by default an RBF with
        ``length_scale="columns"``.
    n_components : int, default=1000
        The number of features: cosines and sines together.
    method : {"orthogonal", "iid", "sobol", "structured"}, default="orthogonal"
        The joint distribution of frequencies. "orthogonal" has a smaller error than "iid" unless
        there are few columns; "sobol" (scrambled, quasi-random) is best up to about 20 columns;
        "structured" replaces the dense matrix by products of Hadamard matrices, with
        n_components log(d) operations per row, for d of 500 and more. Only "structured" is not
        exactly unbiased, by less than 0.001.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the draws.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with numeric length-scales.
    maps_ : list
        The random numbers, for each term of the kernel.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of input columns and, if X has names, their names.

    See Also
    --------
    Fastfood : Fourier features by Hadamard matrices, unbiased.
    TensorSketch : For polynomial kernels.

    References
    ----------
    Rahimi and Recht, Random features for large-scale kernel machines, 2007.
    Yu, Suresh, Choromanski, Holtmann-Rice and Kumar, Orthogonal random features, 2016.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 5))
    >>> k = mc.Matern(length_scale=2.0) + 0.5 * mc.RBF().on(0)
    >>> Phi = mc.RandomFourier(k, n_components=4000, random_state=0).fit_transform(X)
    >>> bool(abs(Phi @ Phi.T - k(X)).max() < 0.15)
    True
    """

    _methods = ("orthogonal", "iid", "sobol", "structured")

    def _projections(
        self, parts: Sequence[_Part], count: int, rng: np.random.Generator
    ) -> list[Projection]:
        if self.method == "structured":
            return self._structured(parts, count, rng, sorf)
        widths = [len(part.centre) for part in parts]
        numbers = [p.measure.n_uniforms(w) for p, w in zip(parts, widths, strict=True)]
        self._require_memory(8 * 4 * count * (sum(widths) + sum(numbers)), "random frequencies")
        normals, uniforms = normals_and_uniforms(self.method, count, sum(widths), sum(numbers), rng)
        draws = zip(parts, _split(normals, widths), _split(uniforms, numbers), strict=True)
        return [_dense(part.measure.frequencies(g, u), part.centre) for part, g, u in draws]


class Fastfood(_FourierTransformer):
    r"""Random Fourier features by Fastfood: n_components log(d) operations per row.

    The dense matrix of frequencies is replaced by S H G P H B: Hadamard matrices H, random signs B,
    a permutation P, normal numbers G and lengths S. Every frequency by itself has the exact
    distribution, so that inner products are unbiased, as with :class:`RandomFourier`. Frequencies
    of one block of d depend on each other, and the variance is somewhat larger.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Sums, products and scalings of RBF, Matern, RationalQuadratic and Constant, on any columns;
        by default an RBF with ``length_scale="columns"``.
    n_components : int, default=1000
        The number of features: cosines and sines together.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the draws.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with numeric length-scales.
    maps_ : list
        The random numbers, for each term of the kernel.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of input columns and, if X has names, their names.

    See Also
    --------
    RandomFourier : With ``method="structured"``, nearly orthogonal frequencies at the same cost.

    References
    ----------
    Le, Sarlos and Smola, Fastfood: computing Hilbert space expansions in loglinear time, 2013.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((100, 30))
    >>> k = mc.RBF(length_scale=5.0)
    >>> Phi = mc.Fastfood(k, n_components=4000, random_state=0).fit_transform(X)
    >>> bool(abs(Phi @ Phi.T - k(X)).max() < 0.1)
    True
    """

    def _projections(
        self, parts: Sequence[_Part], count: int, rng: np.random.Generator
    ) -> list[Projection]:
        return self._structured(parts, count, rng, fastfood)


def _fixed_width(term: Term) -> int:
    """The number of features of a product of cosines; 0 for other terms."""
    measures = [spectral_measure(factor.kernel) for factor in term.factors]
    return 2 ** len(measures) if all(isinstance(m, PointMass) for m in measures) else 0


def _all_sums(parts: Sequence[_Part]) -> list[Projection]:
    """The frequencies of a product of cosines: w_1 +- w_2 +- ..., with all choices of signs."""
    signs = np.array([(1.0, *others) for others in product((1.0, -1.0), repeat=len(parts) - 1)])
    projections: list[Projection] = []
    for (_, measure, centre), sign in zip(parts, signs.T, strict=True):
        alike = measure.frequencies(np.empty((len(sign), len(centre))), np.empty((len(sign), 0)))
        projections.append(_dense(sign[:, None] * alike, centre))
    return projections


def _dense(frequencies: Array, centre: Array) -> Dense:
    return Dense(np.ascontiguousarray(frequencies.T), centre)


def _joined(
    factors: Sequence[Factor], projections: Sequence[Projection]
) -> tuple[tuple[int, ...], tuple[Projection, ...]]:
    """The factors whose columns are read, and their projections, added where columns are equal."""
    joined: dict[int, Projection] = {}
    for i, (factor, projection) in enumerate(zip(factors, projections, strict=True)):
        steps = factor.scope.view.steps
        same = next((j for j in joined if factors[j].scope.view.steps == steps), None)
        other = None if same is None else joined[same]
        if same is not None and isinstance(other, Dense) and isinstance(projection, Dense):
            joined[same] = replace(other, matrix=other.matrix + projection.matrix)
        else:
            joined[i] = projection
    return tuple(joined), tuple(joined.values())


def _split(array: Array, widths: Sequence[int]) -> list[Array]:
    return np.split(array, np.cumsum(widths)[:-1], axis=1)
