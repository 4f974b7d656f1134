"""Random features of truncated signature kernels, for many series."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import NoFeatureMapError, ParameterError
from mercer.features.expansion import Term
from mercer.features.fourier import RandomFourier
from mercer.features.transformer import ConstantFeature, FeatureTransformer, TermMap
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.kernels.series.encoding import Series
from mercer.kernels.series.signature import Signature
from mercer.kernels.stationary import RBF
from mercer.parallel import thread_count
from mercer.rows.rows import RowSource
from mercer.sampling import blocks

# Size of the increments of a block of series, in bytes.
_BLOCK_BYTES = 2**25


class RandomFunctions(Protocol):
    """Functions f of a time with E f(x) f(z) = k(x, z), for the static kernel k."""

    def increments(self, series: Series) -> Array:
        """The changes of the functions along each series, one row per time; the first is 0."""


@dataclass(frozen=True, eq=False)
class RandomSigns:
    """Sums of channels with random signs, whose static kernel is linear."""

    matrix: Array  # (channels, draws)

    def increments(self, series: Series) -> Array:
        """The sums of the increments, which the series hold already."""
        product: Array = series.values @ self.matrix
        return product


@dataclass(frozen=True, eq=False)
class RandomWaves:
    """Fourier features of a static kernel, added in pairs with random signs.

    A cosine plus or minus its sine has the kernel as the expectation of its products. It changes
    everywhere along a series, where one of both alone does not.
    """

    features: RandomFourier  # two for each function
    order: Array  # of the pairs
    signs: Array  # of the second feature of each pair

    def increments(self, series: Series) -> Array:
        """The differences between a time and the one before."""
        draws = len(self.order)
        waves = self.features.transform(series.values)
        values = math.sqrt(draws) * (waves[:, :draws] + self.signs * waves[:, draws:])
        changes: Array = np.diff(values[:, self.order], axis=0, prepend=values[:1, self.order])
        changes[series.starts] = 0.0
        return changes


@dataclass(frozen=True, eq=False)
class IteratedIntegrals:
    """A constant, and iterated integrals of random functions along each series."""

    functions: tuple[RandomFunctions, ...]  # one for each level
    draws: int  # the number of functions of each
    amplitude: float  # the square root of the weight of the term

    @property
    def width(self) -> int:
        """The number of features."""
        return 1 + len(self.functions) * self.draws

    def write(self, parts: Sequence[Series], out: Array) -> None:
        """Write the features of series to `out`."""
        (series,) = parts
        out[:, 0] = self.amplitude
        width = self.width * int(series.lengths.max(initial=1))
        for rows in blocks(len(series), width, _BLOCK_BYTES, least=1):
            group = series.take(rows).packed()
            increments = np.hstack([f.increments(group) for f in self.functions])
            places = group.starts, group.ends, len(self.functions)
            out[rows, 1:] = _core.iterated_integrals(increments, *places, thread_count())
        out[:, 1:] *= self.amplitude / math.sqrt(self.draws)


class RandomSignature(FeatureTransformer):
    r"""Random features of a truncated signature kernel: iterated integrals of random functions.

    For independent random functions :math:`f_1, f_2, \dots` of a time with
    :math:`E f_l(x) f_l(z) = k_0(x, z)`, the static kernel, the features of level m are

    .. math:: \frac{1}{\sqrt{D}} \int_{t_1 < \dots < t_m} df_1(x_{t_1}) \cdots df_m(x_{t_m})

    for D draws. Inner products have the expectation of `Signature`, level by level. A series of
    length n takes time proportional to n n_components, and there is no matrix of all pairs.

    Parameters
    ----------
    kernel : Kernel, optional
        A `Signature` with the method ``"truncated"``, on any column, times a number, and sums of
        these. Its static kernel is linear, or one that `RandomFourier` takes. By default
        ``Signature(static=RBF(1.0), length_scale="median")``.
    n_components : int, default=1000
        The largest number of features: a constant, and as many for each level.
    random_state : int, RandomState, Generator or None, default=None
        The seed of the draws.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel with numeric parameters.
    maps_ : list
        The random functions, for each term of the kernel.
    n_features_in_ : int
        The width of X, if it is an array.

    See Also
    --------
    Nystrom : Features of landmark series, for any kernel.

    References
    ----------
    Toth, Oberhauser and Szabo, Random Fourier signature features, 2023.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((30, 20)).cumsum(axis=1) / 10
    >>> k = mc.Signature(2, static=mc.RBF(1.0))
    >>> Phi = mc.RandomSignature(k, n_components=4001, random_state=0).fit_transform(X)
    >>> Phi.shape, bool(abs(Phi @ Phi.T - k(X)).max() < 0.15)
    ((30, 4001), True)
    """

    def __init__(
        self, kernel: KernelLike = None, n_components: int = 1000, *, random_state: Any = None
    ) -> None:
        super().__init__(kernel, n_components, random_state=random_state)

    def _default_kernel(self) -> Kernel:
        return Signature(static=RBF(1.0), length_scale="median")

    def _centred(self, kernel: Kernel, rows: RowSource) -> Points:
        return rows.first_row

    def _draw(self, term: Term, width: int, points: Points, rng: np.random.Generator) -> TermMap:
        if not term.factors:
            return ConstantFeature(math.sqrt(term.weight))
        kernel = term.factors[0].kernel
        if len(term.factors) > 1 or not isinstance(kernel, Signature) or kernel.method == "pde":
            raise NoFeatureMapError(
                f"{type(self).__name__}: {kernel!r:.80} is not a signature kernel of a finite "
                'depth; pass mercer.Signature(depth, method="truncated"), or use mercer.Nystrom. '
                "In the place of .normalized(), divide the features of each row by their norm."
            )
        draws = (width - 1) // kernel.depth
        if draws < 1:
            raise ParameterError(
                f"{type(self).__name__}: n_components = {self.n_components} leaves {width} for a "
                f"signature of depth {kernel.depth}, which needs at least {kernel.depth + 1}; "
                "raise it."
            )
        channels = points.matrix(term.factors[0].view).shape[1]
        drawn = (_functions(kernel.static, draws, channels, rng) for _ in range(kernel.depth))
        return IteratedIntegrals(tuple(drawn), draws, math.sqrt(term.weight))

    def _features(self, X: Any, maps: Sequence[TermMap]) -> Array:
        points = self._validate_points(self.kernel_, X, reset=False, copy=False)
        shape = len(points), self._n_features_out
        self._require_memory(8 * math.prod(shape), f"features of {shape[0]} rows")
        out = np.empty(shape)
        starts = np.cumsum([0, *(map_.width for map_ in maps)])
        for term, map_, start in zip(self._terms(self.kernel_), maps, starts, strict=False):
            series = [points.columns(factor.view) for factor in term.factors]
            map_.write(series, out[:, start : start + map_.width])
        self._require_finite(out, slice(0, len(out)))
        return out


def _functions(
    static: Kernel, draws: int, channels: int, rng: np.random.Generator
) -> RandomFunctions:
    """Draw random functions for one level."""
    signs = rng.choice([-1.0, 1.0], size=(channels, draws))
    if isinstance(static, Linear):
        return RandomSigns(signs)
    # The centre of the data would move the waves, and so the functions, with the rows.
    features = RandomFourier(static, 2 * draws, random_state=rng).fit(np.zeros((1, channels)))
    return RandomWaves(features, rng.permutation(draws), signs[0])
