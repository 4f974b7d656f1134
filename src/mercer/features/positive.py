"""Positive random features of the softmax kernel exp(x.z), as in attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.exceptions import DataError, NoFeatureMapError, ParameterError
from mercer.features.expansion import Factor, Term, expand
from mercer.features.normal_draws import normals_and_uniforms
from mercer.features.transformer import DrawnFeatures, TermMap
from mercer.kernels.base import Kernel, scoped_children
from mercer.kernels.dot_product import Linear, Polynomial
from mercer.kernels.points import Points
from mercer.kernels.wrappers import Exponential, square_norms

# The largest logarithm of the constant factor of a term.
_LARGEST_LOGARITHM = 700.0


@dataclass(frozen=True, eq=False)
class Exponentials:
    r"""The exponentials exp(+-w.x - \|x\|^2 / 2), times an amplitude."""

    matrices: tuple[Array, ...]  # (d, m): the vectors w, for each inner product of the exponent
    roots: tuple[float, ...]  # the square roots of their gains, by which x is multiplied
    width: int  # the number of features: those of w, then those of -w
    log_amplitude: float
    logarithmic: bool = False  # whether to write the logarithms of the features

    def write(self, parts: Sequence[Any], out: Array) -> None:
        """Write the features of rows to `out`; exponents are summed first to avoid overflow."""
        half = (self.width + 1) // 2
        with np.errstate(over="ignore", invalid="ignore"):
            out[:] = 0.0
            norms = np.zeros((len(out), 1), dtype=out.dtype)
            for rows, matrix, root in zip(parts, self.matrices, self.roots, strict=True):
                out[:, :half] += (rows @ matrix) * out.dtype.type(root)
                norms += square_norms(rows) * out.dtype.type(root**2 / 2)
            out[:, half:] = -out[:, : self.width - half]
            out -= norms - out.dtype.type(self.log_amplitude)
            if not self.logarithmic:
                np.exp(out, out=out)


class PositiveFeatures(DrawnFeatures):
    r"""Positive random features of the softmax kernel exp(x.z / scale), as attention uses them.

    With x and z divided by the root of the scale, exp(x.z) is the expectation of
    exp(w.x - \|x\|^2 / 2) exp(w.z - \|z\|^2 / 2) over standard normal w. The features come in
    pairs of w and -w, and are all positive, so that sums of them, the denominators of attention,
    do not vanish or change sign. For m pairs of independent w the variance of an inner product is
    exp(x.z)^2 (cosh(\|x + z\|^2) - 1) / m: small where the kernel is small.

    Features of long vectors may overflow or underflow. A row is refused if one of its features
    overflows, or if the squares of all underflow; a single feature that underflows is 0. The
    logarithms of features, by `log_transform`, have no such limits.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        The exponential of inner products: ``mercer.Linear().exp()``, or
        ``(mercer.Linear() / scale).exp()`` for a scale such as sqrt(d), on any columns, times a
        number, and sums of these. The first of them by default.
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
        The random numbers, for each term of the kernel.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number of input columns and, if X has names, their names.

    References
    ----------
    Choromanski et al., Rethinking attention with Performers, 2021.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((50, 8))
    >>> k = (mc.Linear() / 8**0.5).exp()
    >>> Phi = mc.PositiveFeatures(k, n_components=2000, random_state=0).fit_transform(X)
    >>> bool((Phi > 0).all())
    True
    """

    _methods = ("orthogonal", "iid", "sobol")
    _in_range = (
        "take log_transform, whose largest number is subtracted before the exponential, or divide "
        "the data, or the kernel's inner product, by a number"
    )

    def log_transform(self, X: Any) -> Array:
        """Compute the logarithms of the features, which neither overflow nor underflow.

        Attention divides by a sum of features, and needs features only up to a common factor:
        subtract the largest logarithm, then take the exponential.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or Points
            The points.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            The logarithms.
        """
        check_is_fitted(self)
        return self._features(X, [replace(map_, logarithmic=True) for map_ in self.maps_])

    def _write_rows(
        self, maps: Sequence[TermMap], parts: Sequence[Sequence[Any]], rows: slice, out: Array
    ) -> None:
        super()._write_rows(maps, parts, rows, out)
        stops = np.cumsum([map_.width for map_ in maps])[:-1]
        for map_, features in zip(maps, np.split(out, stops, axis=1), strict=True):
            if not cast(Exponentials, map_).logarithmic:
                self._require_digits(features, rows.start)

    def _require_digits(self, features: Array, start: int) -> None:
        """Refuse rows whose squared norm underflows."""
        smallest = np.sqrt(np.finfo(features.dtype).tiny)
        lost = np.flatnonzero(features.max(axis=1) < smallest)
        if len(lost):
            raise DataError(
                f"{type(self).__name__}: all features of row {start + lost[0]} are below "
                f"{smallest:.1g}, so that their products are beyond the range of {features.dtype}, "
                f"since the row is long; {self._in_range}."
            )

    def _default_kernel(self) -> Kernel:
        return Linear().exp()

    def _terms(self, kernel: Kernel) -> list[Term]:
        return [_exponents(type(self).__name__, term) for term in super()._terms(kernel)]

    def _draw(self, term: Term, width: int, points: Points, rng: np.random.Generator) -> TermMap:
        widths = [points.columns(factor.view).width for factor in term.factors]
        count = (width + 1) // 2
        self._require_memory(8 * 4 * count * sum(widths), "random vectors")
        normals, _ = normals_and_uniforms(self.method, count, sum(widths), 0, rng)
        matrices = np.split(np.ascontiguousarray(normals.T), np.cumsum(widths)[:-1])
        return Exponentials(
            tuple(matrices) if widths else (),
            tuple(math.sqrt(factor.kernel.gain) for factor in term.factors),  # type: ignore[attr-defined]
            width,
            (math.log(term.weight) - math.log(width)) / 2,
        )


def _exponents(owner: str, term: Term) -> Term:
    """Merge a product of exponentials into one, whose exponent is a sum of inner products."""
    weight, factors = math.log(term.weight), []
    for factor in term.factors:
        kernel = factor.kernel
        if not isinstance(kernel, Exponential):
            raise _refusal(owner, kernel)
        ((child, scope),) = scoped_children(kernel, factor.scope)
        for summand in expand(child, scope):
            gain, offset, inner = _summand(owner, kernel, summand)
            weight += offset
            factors += [Factor(Polynomial(1, 0.0, gain), f.scope) for f in inner]
    if not weight < _LARGEST_LOGARITHM:
        raise ParameterError(
            f"{owner}: the constant in the exponent makes the kernel larger than "
            f"exp({_LARGEST_LOGARITHM}); leave it out, or make it smaller."
        )
    return Term(math.exp(weight), tuple(factors))


def _summand(owner: str, kernel: Kernel, term: Term) -> tuple[float, float, tuple[Factor, ...]]:
    """A summand of the exponent: gain times an inner product, plus a constant."""
    if not term.factors:
        return 0.0, term.weight, ()
    inner = term.factors[0].kernel
    if len(term.factors) == 1 and isinstance(inner, Linear):
        return term.weight, 0.0, term.factors
    if len(term.factors) == 1 and isinstance(inner, Polynomial) and inner.degree == 1:
        return term.weight * inner.gain, term.weight * inner.offset, term.factors
    raise _refusal(owner, kernel)


def _refusal(owner: str, kernel: Kernel) -> NoFeatureMapError:
    return NoFeatureMapError(
        f"{owner}: {kernel!r:.80} is not the exponential of an inner product; pass for example "
        "(mercer.Linear() / 8).exp(), or use mercer.RandomFourier for stationary kernels."
    )
