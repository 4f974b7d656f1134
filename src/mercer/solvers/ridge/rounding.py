"""Warnings about rounding of kernel values that affects a fit.

Kernel values that are large beside their differences, as those of columns far from zero are under
`Linear` or `Polynomial`, hide these differences behind their rounding. Each function here returns a
clause for a warning, empty if all is well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]

# Rounding error that is warned of, as a share of the standard deviation of the targets, or of the
# trace of the centred kernel.
_LARGE_ERROR = 1e-2
# Relative residual of equations that is warned of.
_LARGE_RESIDUAL = 1e-2
_REMEDY = "subtract from each column of X its mean, raise alpha"


def of_predictions(
    largest: float, dual: Array, targets: Array, weights: Array | None, *, fit_intercept: bool
) -> str:
    """A warning if sums of coefficients times kernel values cancel.

    Such a sum is off by about the rounding unit times the largest value times |a|.
    """
    wide = targets.astype(np.float64)
    middle = np.average(wide, axis=0, weights=weights) if fit_intercept else 0.0
    mass = np.ones(len(wide)) if weights is None else weights
    spread = np.linalg.norm(np.sqrt(mass / mass.sum())[:, None] * (wide - middle), axis=0)
    lengths = np.linalg.norm(dual.astype(np.float64), axis=0)
    shares = np.divide(lengths, spread, out=np.zeros_like(spread), where=spread > 0)
    share = float(np.finfo(dual.dtype).eps) * largest * float(shares.max(initial=0.0))
    if not share > _LARGE_ERROR:
        return ""
    return (
        f"kernel values of up to {largest:.2g} are rounded so that predictions are off by about "
        f"{share:.1g} of the spread of the targets; {_REMEDY}, or take solvers.Primal() if the "
        "kernel has few features"
    )


def of_landmarks(rounding: float, explained_trace: float) -> str:
    """A warning if rounding may hide that landmarks differ, after an intercept centres them."""
    if explained_trace == 0 or not rounding > _LARGE_ERROR * explained_trace:
        return ""
    share = min(1.0, rounding / explained_trace)
    return (
        f"rounding of kernel values hides what may be {share:.0%} of their "
        "differences between rows; subtract from each column of X its mean, or shorten the "
        "length-scale of the kernel"
    )


def of_equations(residual: float) -> str:
    """A warning if the relative residual of the equations is large."""
    if residual <= _LARGE_RESIDUAL:
        return ""
    return (
        f"the equations are solved up to a relative residual of {residual:.2g} only; {_REMEDY}, or "
        "pass X in float64"
    )
