r"""Any increasing penalty of the norm, reduced to half the squared norm with another weight.

A minimiser of L(f) + alpha Omega(\|f\|) of norm t > 0 is stationary for L(f) + beta \|f\|^2 / 2 at
the weight beta = alpha Omega'(t) / t. The norm t(beta) of the minimiser at beta does not increase
with beta, and beta t(beta) does not decrease, so that for a convex Omega

.. math:: \log (\alpha\, \Omega'(t(\beta))) - \log (\beta\, t(\beta))

changes sign at most once; if it does not, the minimiser is a constant function. For other Omega,
the minimiser still belongs to some beta, and a search minimises the objective over beta.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from mercer.penalties import Penalty

Measure = Callable[[float], tuple[float, float]]

# Largest distance of beta from alpha, in decades.
_DECADES = 15
# Number of grid points in beta for a penalty that is not convex.
_GRID = 33
# Largest number of times that the grid is extended to smaller weights.
_EXTENSIONS = 3
# Absolute tolerance of log(beta).
_TOLERANCE = 1e-10


def effective_alpha(measure: Measure, alpha: float, penalty: Penalty) -> float:
    """The weight beta of half the squared norm whose minimiser is that of the penalty.

    `measure` maps a weight to the loss and the norm of its minimiser.
    """
    if penalty.is_convex:
        return _root(measure, alpha, penalty)
    return _best(measure, alpha, penalty)


def _root(measure: Measure, alpha: float, penalty: Penalty) -> float:
    @cache  # a warm start may change the last digits: the ends of the bracket keep their signs
    def excess(logarithm: float) -> float:
        _, norm = measure(float(np.exp(logarithm)))
        if norm == 0:
            return np.inf
        return float(np.log(alpha * penalty.derivative(norm)) - logarithm - np.log(norm))

    start, decade = float(np.log(alpha)), float(np.log(10))
    sign = excess(start)
    other = start
    for _ in range(_DECADES):
        other = start + decade if sign > 0 else start - decade
        value = excess(other)
        if (value > 0) != (sign > 0) or value == 0:
            low, high = min(start, other), max(start, other)
            return float(np.exp(brentq(excess, low, high, xtol=_TOLERANCE)))
        start = other
    return np.inf if sign > 0 else float(np.exp(other))


def _best(measure: Measure, alpha: float, penalty: Penalty) -> float:
    def objective(logarithm: float) -> float:
        loss, norm = measure(float(np.exp(logarithm)))
        return loss + alpha * float(penalty.value(norm))

    half = _DECADES / 2 * np.log(10)
    grid = np.log(alpha) + np.linspace(half, -half, _GRID)
    values = [objective(logarithm) for logarithm in grid]
    # If the smallest weight is the best, even smaller ones may be better.
    for _ in range(_EXTENSIONS):
        if np.argmin(values) < len(values) - 1:
            break
        more = grid[-1] - np.linspace(0, 2 * half, _GRID)[1:]
        grid, values = np.append(grid, more), values + [objective(logarithm) for logarithm in more]
    middle = int(np.argmin(values))
    bounds = grid[min(middle + 1, len(grid) - 1)], grid[max(middle - 1, 0)]
    # The search subtracts values: where a fit did not converge, the largest one takes its place.
    ceiling = max(filter(np.isfinite, values), default=0.0)
    local = minimize_scalar(
        lambda logarithm: min(objective(logarithm), ceiling),
        bounds=bounds,
        method="bounded",
        options={"xatol": 1e-8},
    )
    constant = measure(np.inf)[0] + alpha * float(penalty.value(0.0))
    if constant <= min(local.fun, values[middle]):
        return np.inf
    best = local.x if local.fun <= values[middle] else grid[middle]
    return float(np.exp(best))
