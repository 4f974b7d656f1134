"""Finite feature maps in closed form.

Every function works on matrices with one row per point. Values and column names come from separate
functions, with the columns in the same order, because names are rarely needed and cost more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate, chain, groupby, islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from mercer.checks import require_count, require_number
from mercer.exceptions import DataError, DataTypeError
from mercer.maps.composition import row_products, tensor_product_names
from mercer.maps.forecast import forecast
from mercer.sampling import blocks

Floats = NDArray[np.floating[Any]]
# A dense matrix, or a sparse one: scipy's classes are untyped.
Features = Any

_BYTES_PER_NAME = 80
_CHUNK_BYTES = 2**19


def dimension(n: int, d: int) -> int:
    """Count the monomials of degree at most d in n variables: C(n + d, d).

    Parameters
    ----------
    n : int
        The number of variables, at least 0.
    d : int
        The largest total degree, at least 0.

    Returns
    -------
    int
        The exact count.

    Examples
    --------
    >>> from mercer import features
    >>> features.dimension(100, 5)
    96560646
    """
    n = require_count("dimension", "n", n, least=0)
    d = require_count("dimension", "d", d, least=0, example=2)
    return math.comb(n + d, d)


def cover_count(n: int, d: int) -> int:
    """Count the dichotomies of n points in R^d that affine hyperplanes realise.

    For points in general position the count is 2 sum_{k=0}^{d} C(n - 1, k), whatever the points
    are (Cover 1965); of all 2^n dichotomies that is half at n = 2 (d + 1).

    Parameters
    ----------
    n : int
        The number of points, at least 1.
    d : int
        The dimension of the space, at least 0.

    Returns
    -------
    int
        The exact count, of which each dichotomy and its opposite are two.

    Examples
    --------
    Of the 16 dichotomies of four points in the plane, the two of the kind XOR are missing:

    >>> from mercer import features
    >>> features.cover_count(4, 2)
    14
    """
    n = require_count("cover_count", "n", n)
    d = require_count("cover_count", "d", d, least=0, example=2)
    return 2 * sum(math.comb(n - 1, k) for k in range(min(d, n - 1) + 1))


def polynomial_features(
    X: ArrayLike,
    degree: int,
    offset: float = 1.0,
    gain: float = 1.0,
) -> Floats:
    """Map the rows of X so that Phi(x).Phi(z) = (gain x.z + offset)^degree.

    The columns are sqrt(w_a) x^a over all exponents a with |a| <= degree, where
    w_a = degree! / (a! (degree - |a|)!) gain^|a| offset^(degree - |a|), in graded lexicographic
    order. With offset 0 the map is homogeneous: only |a| = degree remains.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
        The points.
    degree : int
        The degree of the polynomial, at least 0.
    offset : float, default=1.0
        The constant term, at least 0.
    gain : float, default=1.0
        The factor of the inner product, at least 0.

    Returns
    -------
    ndarray of shape (n_samples, n_features)
        The features, in the floating type of X.

    Raises
    ------
    MemoryForecastError
        If the features do not fit in memory.

    See Also
    --------
    polynomial_names : The names of the columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import features
    >>> x, z = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    >>> Phi, Psi = features.polynomial_features(x, 3), features.polynomial_features(z, 3)
    >>> bool(np.isclose((Phi @ Psi.T).item(), (x @ z.T + 1).item() ** 3))
    True
    """
    owner = "polynomial_features"
    p = require_count(owner, "degree", degree, least=0, example=2)
    offset = require_number(owner, "offset", offset, closed=True)
    gain = require_number(owner, "gain", gain, closed=True)
    X = _points(owner, X)
    n_samples, n_inputs = X.shape
    forecast(owner, n_samples, math.comb(n_inputs + p, p), X.itemsize)
    # Stepping up from degree t - 1 to t turns (t-1)!/m! gain^(t-1) into t!/a! gain^t.
    ratios = [t * gain for t in range(1, p + 1)]
    factors = [math.sqrt(math.comb(p, t)) * math.sqrt(offset) ** (p - t) for t in range(p + 1)]
    constant = np.ones((n_samples, 1), dtype=X.dtype)
    return graded_features(X, constant, ratios, factors, lowest=0 if offset > 0 else p)


def polynomial_names(inputs: int | Sequence[str], degree: int, offset: float = 1.0) -> list[str]:
    """Name the columns of :func:`polynomial_features`.

    Parameters
    ----------
    inputs : int or sequence of str
        The number of input columns, named x0, x1, ..., or their names.
    degree : int
        The degree of the polynomial.
    offset : float, default=1.0
        The constant term; at 0 only the monomials of full degree remain.

    Returns
    -------
    list of str
        One name for each feature.

    Examples
    --------
    >>> from mercer import features
    >>> features.polynomial_names(2, 2)
    ['1', 'x0', 'x1', 'x0^2', 'x0*x1', 'x1^2']
    >>> features.polynomial_names(["height", "width"], 2, offset=0)
    ['height^2', 'height*width', 'width^2']
    """
    owner = "polynomial_names"
    p = require_count(owner, "degree", degree, least=0, example=2)
    names = _input_names(owner, inputs)
    offset = require_number(owner, "offset", offset, closed=True)
    forecast(owner, 1, math.comb(len(names) + p, p), _BYTES_PER_NAME)
    graded = islice(_graded_words(len(names), p), 0 if offset > 0 else p, None)
    words = chain.from_iterable(graded)
    return [_monomial_name(word, names) for word in words]


def monomial_features(X: ArrayLike, degree: int) -> Floats:
    """Map the rows of X so that Phi(x).Phi(z) = prod_j sum_{i <= degree} (x_j z_j)^i.

    The columns are all (degree + 1)^n_inputs monomials with degree at most `degree` in *each*
    variable, each with weight 1.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_inputs)
        The points.
    degree : int
        The largest power of each variable, at least 0.

    Returns
    -------
    ndarray of shape (n_samples, (degree + 1) ** n_inputs)
        The features; the power of the last variable varies fastest.

    Raises
    ------
    MemoryForecastError
        If the features do not fit in memory.

    See Also
    --------
    monomial_names : The names of the columns.

    Examples
    --------
    >>> from mercer import features
    >>> features.monomial_features([[2.0, 3.0]], 1)
    array([[1., 3., 2., 6.]])
    """
    owner = "monomial_features"
    k, X = require_count(owner, "degree", degree, least=0, example=2), _points(owner, X)
    n_samples, n_inputs = X.shape
    forecast(owner, n_samples, (k + 1) ** n_inputs, X.itemsize)
    powers = np.stack([X**i for i in range(k + 1)], axis=-1)
    constant = np.ones((n_samples, 1), dtype=X.dtype)
    return reduce(row_products, (powers[:, j] for j in range(n_inputs)), constant)


def monomial_names(inputs: int | Sequence[str], degree: int) -> list[str]:
    """Name the columns of :func:`monomial_features`.

    Parameters
    ----------
    inputs : int or sequence of str
        The number of input columns, named x0, x1, ..., or their names.
    degree : int
        The largest power of each variable.

    Returns
    -------
    list of str
        One name for each feature.

    Examples
    --------
    >>> from mercer import features
    >>> features.monomial_names(2, 1)
    ['1', 'x1', 'x0', 'x0*x1']
    """
    owner = "monomial_names"
    k = require_count(owner, "degree", degree, least=0, example=2)
    names = _input_names(owner, inputs)
    forecast(owner, 1, (k + 1) ** len(names), _BYTES_PER_NAME)
    return tensor_product_names(*([_power(name, i) for i in range(k + 1)] for name in names))


class _Step(NamedTuple):
    """The step from the monomials of one degree to the next, in lexicographic order.

    Variable j is multiplied with each monomial that has no variable before j, so that every product
    is formed once. These monomials are a suffix of the lower degree, from ``suffix[j]``; their
    products begin at ``starts[j]``. ``multiplicity`` is the power of the first variable of each
    product.
    """

    suffix: list[int]
    starts: list[int]
    multiplicity: NDArray[np.intp]


def _steps(n_inputs: int, degree: int) -> Iterator[_Step]:
    starts, multiplicity = [0] * n_inputs, np.zeros(1, dtype=np.intp)
    for _ in range(degree):
        suffix, below = starts, multiplicity
        ends = [*suffix, len(below)][1:]
        *starts, total = accumulate((len(below) - first for first in suffix), initial=0)
        multiplicity = np.ones(total, dtype=np.intp)
        for start, first, end in zip(starts, suffix, ends, strict=True):
            # The factors whose first variable is j.
            multiplicity[start : start + end - first] += below[first:end]
        yield _Step(suffix, starts, multiplicity)


def graded_features(
    X: Floats, constant: Floats, ratios: Sequence[float], factors: Sequence[float], lowest: int
) -> Floats:
    """Return the columns factors_t * constant * x^a sqrt(ratios_1 ... ratios_t / a!), t = |a|.

    Degrees below `lowest` are left out.
    """
    steps = list(_steps(X.shape[1], len(ratios)))
    weights = [
        np.sqrt(ratio / step.multiplicity).astype(X.dtype, copy=False)
        for ratio, step in zip(ratios, steps, strict=True)
    ]
    widths = [1, *map(len, weights)]
    ends = list(accumulate(widths[lowest:], initial=0))
    out = np.empty((len(X), ends[-1]), dtype=X.dtype)
    # A degree is computed from the one below while that is still in cache.
    chunk = max(1, _CHUNK_BYTES // (X.itemsize * max(widths)))
    for rows in blocks(len(X), step=chunk):
        graded = islice(_graded_blocks(X[rows], constant[rows], steps, weights), lowest, None)
        places = zip(graded, factors[lowest:], pairwise(ends), strict=True)
        for block, factor, (start, end) in places:
            np.multiply(block, factor, out=out[rows, start:end])
    return out


def _graded_blocks(
    X: Floats, constant: Floats, steps: Sequence[_Step], weights: Sequence[Floats]
) -> Iterator[Floats]:
    block = constant
    yield block
    for step, weight in zip(steps, weights, strict=True):
        below, block = block, np.empty((len(X), len(weight)), dtype=X.dtype)
        for x, first, start in zip(X.T, step.suffix, step.starts, strict=True):
            factors = below[:, first:]
            np.multiply(x[:, None], factors, out=block[:, start : start + factors.shape[1]])
        block *= weight
        yield block


def _graded_words(n_inputs: int, degree: int) -> Iterator[list[tuple[int, ...]]]:
    """Yield, degree by degree, each monomial as the sorted tuple of its variables."""
    words: list[tuple[int, ...]] = [()]
    yield words
    for step in _steps(n_inputs, degree):
        words = [(j, *word) for j, first in enumerate(step.suffix) for word in words[first:]]
        yield words


def _monomial_name(word: tuple[int, ...], names: Sequence[str]) -> str:
    powers = [_power(names[j], len(list(run))) for j, run in groupby(word)]
    return "*".join(powers) or "1"


def _power(name: str, exponent: int) -> str:
    return ("1", name)[exponent] if exponent < 2 else f"{name}^{exponent}"


def _points(owner: str, X: ArrayLike) -> Floats:
    if sparse.issparse(X):
        raise DataTypeError(f"{owner}: X is sparse, but must be dense; pass X.toarray().")
    try:
        array = np.asarray(X)
        if array.dtype not in (np.float32, np.float64):
            array = array.astype(
                np.float64, casting="same_kind" if array.dtype != object else "unsafe"
            )
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"{owner}: X cannot be read as real numbers ({error}); pass an array of floats."
        ) from error
    if array.ndim != 2:
        raise DataError(
            f"{owner}: X has shape {array.shape}, but must have two dimensions; "
            "pass one row for each point."
        )
    if not np.isfinite(array).all():
        raise DataError(f"{owner}: X holds NaN or infinity; remove or impute these values.")
    return array


def _input_names(owner: str, inputs: int | Sequence[str]) -> Sequence[str]:
    if isinstance(inputs, int | np.integer):
        return [f"x{j}" for j in range(require_count(owner, "inputs", inputs, least=0))]
    return list(inputs)
