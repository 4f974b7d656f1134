"""Naive oracles: kernels as loops over two rows in plain Python, sharing no code with mercer.

Each function takes two sequences of numbers and returns one number. ``matrix(f, X, Z)`` calls it
for all pairs. They are slow and obvious on purpose.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = Sequence[float]
Function = Callable[..., float]


def label(value: object) -> str:
    """The id of a test: the repr without addresses, which differ from process to process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))[:60]


def matrix(f: Function, X: Any, Z: Any = None, **parameters: Any) -> NDArray[np.float64]:
    """f at all pairs."""
    Z = X if Z is None else Z
    return np.array([[f(x, z, **parameters) for z in Z] for x in X], dtype=float)


def _each(value: Any, d: int) -> list[float]:
    return [float(v) for v in np.broadcast_to(value, (d,))]


def differences(X: NDArray[Any], Z: NDArray[Any]) -> Any:
    """x - z at all pairs and columns, in extended precision."""
    return X.astype(np.longdouble)[:, None, :] - Z.astype(np.longdouble)[None, :, :]


# Stationary ---------------------------------------------------------------------------------------


def squared_distance(x: Vector, z: Vector, length_scale: Any = 1.0) -> float:
    scales = _each(length_scale, len(x))
    return math.fsum(((a - b) / s) ** 2 for a, b, s in zip(x, z, scales, strict=True))


def rbf(x: Vector, z: Vector, length_scale: Any = 1.0) -> float:
    return math.exp(-squared_distance(x, z, length_scale) / 2)


def laplacian(x: Vector, z: Vector, length_scale: Any = 1.0) -> float:
    scales = _each(length_scale, len(x))
    return math.exp(-math.fsum(abs(a - b) / s for a, b, s in zip(x, z, scales, strict=True)))


def matern(x: Vector, z: Vector, length_scale: Any = 1.0, nu: float = 1.5) -> float:
    """The half-integer closed forms, from the general finite sum."""
    if math.isinf(nu):
        return rbf(x, z, length_scale)
    p = round(nu - 0.5)
    assert p == nu - 0.5
    r = math.sqrt(2 * nu * squared_distance(x, z, length_scale))
    terms = (
        math.factorial(p + i) / (math.factorial(i) * math.factorial(p - i)) * (2 * r) ** (p - i)
        for i in range(p + 1)
    )
    return math.exp(-r) * math.factorial(p) / math.factorial(2 * p) * math.fsum(terms)


def rational_quadratic(x: Vector, z: Vector, length_scale: Any = 1.0, alpha: float = 1.0) -> float:
    return (1 + squared_distance(x, z, length_scale) / (2 * alpha)) ** -alpha


def cauchy(x: Vector, z: Vector, length_scale: Any = 1.0, alpha: float = 1.0) -> float:
    return 1 / (1 + squared_distance(x, z, length_scale) / alpha)


def periodic(x: Vector, z: Vector, period: float = 1.0, length_scale: Any = 1.0) -> float:
    scales = _each(length_scale, len(x))
    total = 0.0
    for a, b, s in zip(x, z, scales, strict=True):
        total += math.sin(math.pi * (a - b) / period) ** 2 / s**2
    return math.exp(-2 * total)


def cosine(x: Vector, z: Vector, length_scale: Any = 1.0) -> float:
    scales = _each(length_scale, len(x))
    return math.cos(math.fsum((a - b) / s for a, b, s in zip(x, z, scales, strict=True)))


def spectral_mixture(
    x: Vector, z: Vector, weights: Any, frequencies: Any, length_scale: Any
) -> float:
    total = 0.0
    for w, f, s in zip(weights, frequencies, length_scale, strict=True):
        phase = math.fsum(g * (a - b) for a, b, g in zip(x, z, _each(f, len(x)), strict=True))
        total += w * rbf(x, z, s) * math.cos(2 * math.pi * phase)
    return total


#: Wendland's functions phi_{d,k} in their usual table: (dimension, smoothness) -> polynomial.
WENDLAND: dict[tuple[int, int], Callable[[float], float]] = {
    (1, 0): lambda r: 1 - r,
    (1, 1): lambda r: (1 - r) ** 3 * (3 * r + 1),
    (1, 2): lambda r: (1 - r) ** 5 * (8 * r**2 + 5 * r + 1),
    (3, 0): lambda r: (1 - r) ** 2,
    (3, 1): lambda r: (1 - r) ** 4 * (4 * r + 1),
    (3, 2): lambda r: (1 - r) ** 6 * (35 * r**2 + 18 * r + 3) / 3,
    (3, 3): lambda r: (1 - r) ** 8 * (32 * r**3 + 25 * r**2 + 8 * r + 1),
    (5, 0): lambda r: (1 - r) ** 3,
    (5, 1): lambda r: (1 - r) ** 5 * (5 * r + 1),
    (5, 2): lambda r: (1 - r) ** 7 * (16 * r**2 + 7 * r + 1),
}


def wendland(
    x: Vector, z: Vector, length_scale: Any = 1.0, dimension: int = 3, smoothness: int = 1
) -> float:
    r = math.sqrt(squared_distance(x, z, length_scale))
    return WENDLAND[dimension, smoothness](r) if r < 1 else 0.0


# Dot products -------------------------------------------------------------------------------------


def dot(x: Vector, z: Vector) -> float:
    return math.fsum(a * b for a, b in zip(x, z, strict=True))


def polynomial(
    x: Vector, z: Vector, degree: int = 3, offset: float = 1.0, gain: float = 1.0
) -> float:
    return (gain * dot(x, z) + offset) ** degree


def sigmoid(x: Vector, z: Vector, gain: float = 1.0, offset: float = 0.0) -> float:
    return math.tanh(gain * dot(x, z) + offset)


def monomials(x: Vector, z: Vector, degree: int = 2) -> float:
    product = 1.0
    for a, b in zip(x, z, strict=True):
        product *= sum((a * b) ** i for i in range(degree + 1))
    return product


def anova(x: Vector, z: Vector, degree: int = 2) -> float:
    """The definition: a sum over all sets of columns, not the recursion."""
    sets = itertools.combinations(range(len(x)), degree)
    return math.fsum(math.prod(x[j] * z[j] for j in columns) for columns in sets)


def arc_cosine(x: Vector, z: Vector, order: int = 1) -> float:
    lengths = math.sqrt(dot(x, x)), math.sqrt(dot(z, z))
    cosine_of_angle = dot(x, z) / (lengths[0] * lengths[1])
    theta = math.acos(max(-1.0, min(1.0, cosine_of_angle)))
    sin, cos = math.sin(theta), math.cos(theta)
    angular = (
        math.pi - theta,
        sin + (math.pi - theta) * cos,
        3 * sin * cos + (math.pi - theta) * (1 + 2 * cos**2),
    )[order]
    return (lengths[0] * lengths[1]) ** order * angular / math.pi


# Histograms and sets ------------------------------------------------------------------------------


def chi2(x: Vector, z: Vector, gain: float = 1.0) -> float:
    terms = ((a - b) ** 2 / (a + b) for a, b in zip(x, z, strict=True) if a + b > 0)
    return math.exp(-gain * math.fsum(terms))


def additive_chi2(x: Vector, z: Vector) -> float:
    return math.fsum(2 * a * b / (a + b) for a, b in zip(x, z, strict=True) if a + b > 0)


def intersection(x: Vector, z: Vector) -> float:
    return math.fsum(min(a, b) for a, b in zip(x, z, strict=True))


def tanimoto(x: Vector, z: Vector, form: str = "dot") -> float:
    if form == "dot":
        common = dot(x, z)
        union = dot(x, x) + dot(z, z) - common
    else:
        common = intersection(x, z)
        union = math.fsum(max(a, b) for a, b in zip(x, z, strict=True))
    return common / union if union > 0 else 1.0


def categorical(x: Sequence[Any], z: Sequence[Any], weight: Any = 1.0) -> float:
    weights = _each(weight, len(x))
    return math.exp(-sum(w for a, b, w in zip(x, z, weights, strict=True) if a != b))


# Strings ------------------------------------------------------------------------------------------


def spectrum(x: str, z: str, k: int = 3) -> float:
    counts = [Counter(s[i : i + k] for i in range(len(s) - k + 1)) for s in (x, z)]
    return float(sum(counts[0][word] * counts[1][word] for word in counts[0]))


def mismatch(x: str, z: str, k: int, m: int, letters: str) -> float:
    def near(s: str, word: str) -> int:
        windows = [s[i : i + k] for i in range(len(s) - k + 1)]
        return sum(sum(a != b for a, b in zip(w, word, strict=True)) <= m for w in windows)

    words = ("".join(word) for word in itertools.product(letters, repeat=k))
    return float(sum(near(x, word) * near(z, word) for word in words))


def gapped_kmer(x: str, z: str, l: int, k: int) -> float:  # noqa: E741
    def features(s: str) -> Counter[Any]:
        windows = [s[i : i + l] for i in range(len(s) - l + 1)]
        places = list(itertools.combinations(range(l), k))
        return Counter((p, tuple(w[i] for i in p)) for w in windows for p in places)

    first, second = features(x), features(z)
    return float(sum(count * second[word] for word, count in first.items()))


def weighted_degree(x: str, z: str, degree: int, shift: int = 0) -> float:
    total = 0.0
    for d in range(1, degree + 1):
        beta = 2 * (degree - d + 1) / (degree * (degree + 1))
        for s in range(-shift, shift + 1):
            delta = 1 / (2 * (abs(s) + 1)) if s else 1.0
            for i in range(max(0, -s), len(z) - d + 1):
                if i + s + d <= len(x) and x[i + s : i + s + d] == z[i : i + d]:
                    total += beta * delta
    return total


def subsequence(x: str, z: str, length: int, decay: float) -> float:
    def features(s: str) -> dict[str, float]:
        sums: dict[str, float] = {}
        for places in itertools.combinations(range(len(s)), length):
            word = "".join(s[i] for i in places)
            sums[word] = sums.get(word, 0.0) + decay ** (places[-1] - places[0] + 1)
        return sums

    first, second = features(x), features(z)
    return math.fsum(value * second.get(word, 0.0) for word, value in first.items())


def local_alignment(x: str, z: str, score: Function, costs: Vector, beta: float) -> float:
    """The sum over all sets of aligned pairs of letters in increasing order."""

    def gap(n: int) -> float:
        return costs[0] + costs[1] * (n - 1) if n else 0.0

    total = [1.0]
    for size in range(1, min(len(x), len(z)) + 1):
        for i in itertools.combinations(range(len(x)), size):
            for j in itertools.combinations(range(len(z)), size):
                value = sum(score(x[a], z[b]) for a, b in zip(i, j, strict=True))
                for places in (i, j):
                    steps = itertools.pairwise(places)
                    value -= sum(gap(after - before - 1) for before, after in steps)
                total.append(math.exp(beta * value))
    return math.fsum(total)


def edit_distance(x: str, z: str) -> int:
    if not x or not z:
        return len(x) + len(z)
    changed = edit_distance(x[1:], z[1:]) + (x[0] != z[0])
    return min(edit_distance(x[1:], z) + 1, edit_distance(x, z[1:]) + 1, changed)


# Derivatives --------------------------------------------------------------------------------------


def derivative(f: Callable[[float], Any], step: float = 1e-3) -> Any:
    """The derivative at 0 by central differences of sixth order."""
    weights = {1: 3 / 4, 2: -3 / 20, 3: 1 / 60}
    return sum(w * (f(i * step) - f(-i * step)) for i, w in weights.items()) / step
