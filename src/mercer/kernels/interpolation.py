"""Profiles without a closed form, as piecewise polynomials on octaves.

A function of u = r^2 that is smooth away from 0 is smooth *relative to u*: on every interval [2^e,
2^(e+1)), cut into a few equal parts, a polynomial of moderate degree reproduces it to rounding. The
interval is found from the bits of u, so an evaluation costs one short polynomial.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import Polynomial, chebyshev
from scipy.special import gammaln, kve

from mercer.arrays import AnyArray as Array
from mercer.parallel import cached_property

_PARTS_LOG2 = 2
_DEGREE = 11

#: Order from which the terms of Debye's expansion are exact to rounding.
_LARGE_ORDER = 20.0
#: Number of terms of Debye's expansion.
_DEBYE_TERMS = 12


class Table:
    """A piecewise polynomial on the octaves from 2**first to 2**(first + octaves).

    Below the first octave its value is ``at_zero``; above the last it is 0. ``data`` is the layout
    that the engine reads: first, octaves, log2(parts), degree, at_zero, coefficients (lowest degree
    first).
    """

    def __init__(
        self, function: Callable[[Array], Array], first: int, octaves: int, at_zero: float
    ) -> None:
        parts = 2**_PARTS_LOG2
        nodes = np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
        position = (np.arange(parts)[:, None] + (nodes + 1) / 2) / parts
        u = np.ldexp(1.0 + position, np.arange(first, first + octaves)[:, None, None])
        values = function(u.reshape(-1)).reshape(-1, _DEGREE + 1)
        # Values at Chebyshev nodes -> Chebyshev series -> powers of t in [-1, 1).
        series = np.linalg.solve(chebyshev.chebvander(nodes, _DEGREE), values.T)
        powers = np.stack([_powers(c) for c in series.T])
        self.first, self.octaves, self.at_zero = first, octaves, at_zero
        self.coefficients = powers
        header = [first, octaves, _PARTS_LOG2, _DEGREE, at_zero]
        self.data = np.concatenate([np.array(header, dtype=float), powers.reshape(-1)])

    def __call__(self, u: Any) -> Array:
        """The interpolant."""
        return self._evaluate(u, self.coefficients, self.at_zero, slope=False)

    def slope(self, u: Any) -> Array:
        """The derivative of the interpolant, taken as 0 at 0."""
        return self._evaluate(u, self._derivative, 0.0, slope=True)

    @cached_property
    def _derivative(self) -> Array:
        return self.coefficients[:, 1:] * np.arange(1, _DEGREE + 1)

    def _evaluate(self, u: Any, coefficients: Array, at_zero: float, slope: bool) -> Array:
        u = np.asarray(u, dtype=float)
        fraction, exponent = np.frexp(np.where(u > 0, u, 1.0))
        octave = exponent - 1 - self.first
        place = (2 * fraction - 1) * 2**_PARTS_LOG2
        part = np.floor(place).astype(int)
        inside = (octave >= 0) & (octave < self.octaves)
        row = np.clip(octave, 0, self.octaves - 1) * 2**_PARTS_LOG2 + part
        t = 2 * (place - part) - 1
        value = np.zeros(u.shape)
        for c in range(coefficients.shape[1] - 1, -1, -1):
            value = value * t + coefficients[row, c]
        if slope:
            value = value * 2.0 / np.ldexp(1.0, exponent - 1 - _PARTS_LOG2)
        low = (octave < 0) | (u <= 0)
        value = np.where(low, at_zero, np.where(inside & (u > 0), value, 0.0))
        return np.where(np.isnan(u), np.nan, value)


def _powers(series: Array) -> Array:
    powers = chebyshev.cheb2poly(series)
    return np.pad(powers, (0, _DEGREE + 1 - len(powers)))


@lru_cache(maxsize=64)
def matern_table(nu: float) -> Table:
    """The Matern correlation of smoothness nu as a function of r^2."""
    # 1 - M(r) falls like r^(2 min(nu, 1)): below the first octave it is under 2^-53.
    first = max(-1000, int(-56 / min(nu, 1.0)) - 4)
    # M falls like exp(-sqrt(2 nu) r), and no faster than a Gaussian's exp(-r^2 / 2).
    last = int(np.ceil(np.log2(max(745.0**2 / (2 * nu), 1500.0)))) + 1
    return Table(lambda u: matern_correlation(np.sqrt(u), nu), first, last - first, 1.0)


def matern_correlation(r: Array, nu: float) -> Array:
    """2^(1-nu) / Gamma(nu) z^nu K_nu(z), z = sqrt(2 nu) r, in logarithms: factors overflow."""
    r = np.asarray(r, dtype=float)
    if nu >= _LARGE_ORDER:
        return _large_order(r, nu)
    value: Array = np.ones_like(r)
    z = np.sqrt(2 * nu) * r[r > 0]
    with np.errstate(over="ignore", divide="ignore", under="ignore"):
        bessel = kve(nu, z)
        log = (1 - nu) * np.log(2) - gammaln(nu) + nu * np.log(z) - z
        # Where even the scaled function overflows, 1 - M is far below rounding.
        value[r > 0] = np.where(np.isfinite(bessel), np.exp(log + np.log(bessel)), 1.0)
    return value


def _large_order(r: Array, nu: float) -> Array:
    """Debye's uniform expansion of K_nu, divided by its own value at 0, which is 1.

    With w = sqrt(1 + 2 r^2 / nu) all factors that overflow cancel and there remains
    ((1 + w) / 2)^nu exp(nu (1 - w)) w^(-1/2) S(1 / w) / S(1), S the series of the expansion.

    Olver, Asymptotics and Special Functions, 1974, section 10.7.
    """
    square = 2 * r * r / nu
    w = np.sqrt(1 + square)
    above_one = square / (1 + w)
    series = _debye_series(nu)
    value = np.exp(nu * (np.log1p(above_one / 2) - above_one)) / np.sqrt(w)
    return np.asarray(value * series(1 / w) / series(1.0))


def _debye_series(nu: float) -> Polynomial:
    """sum_k (-1 / nu)^k u_k(t), by the recurrence of the polynomials u_k."""
    t = Polynomial([0.0, 1.0])
    term = total = Polynomial([1.0])
    for k in range(1, _DEBYE_TERMS + 1):
        term = 0.5 * t**2 * (1 - t**2) * term.deriv() + ((1 - 5 * t**2) * term).integ() / 8
        total = total + term * (-1 / nu) ** k
    return total
