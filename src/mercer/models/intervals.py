r"""Prediction intervals from errors at rows that a fit did not see.

Such errors, for rows that are exchangeable with new ones, give intervals of a stated coverage for
any distribution of the targets. Of n errors, sorted, the one of rank ceil(coverage (n + 1)) bounds
the error of a new row with at least this probability.

- Held-out rows (split conformal): f(x) plus and minus that error.
- Leaving rows out (jackknife+): with the error r_i of row i and the prediction f_-i(x), both of the
  fit without row i, the ends are order statistics of f_-i(x) - |r_i| and f_-i(x) + |r_i|. The
  coverage is then close to the stated one, and at least 2 coverage - 1.

See R. F. Barber, E. J. Candes, A. Ramdas, R. J. Tibshirani (2021), Predictive inference with the
jackknife+, Annals of Statistics 49(1); and Y. Romano, E. Patterson, E. J. Candes (2019),
Conformalized quantile regression, NeurIPS, for quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, DataWarning, ParameterError, warn

# Rounding error of coverage * (n + 1) that does not count as a further row.
_ROUNDING = 1e-9


def checked_coverage(owner: str, coverage: Any) -> float:
    """A probability strictly between 0 and 1."""
    if not checks.is_number(coverage) or not 0 < coverage < 1:
        raise ParameterError(
            f"{owner}: coverage = {coverage!r} is not a probability strictly between 0 and 1; pass "
            "for example 0.9."
        )
    return float(coverage)


def rank(owner: str, n: int, coverage: float) -> int | None:
    """The rank of the error that bounds a new one; None, after a warning, for too few rows."""
    k = math.ceil(coverage * (n + 1) - _ROUNDING)
    if k <= n:
        return k
    least = math.ceil(coverage / (1 - coverage) - _ROUNDING)
    warn(
        f"{owner}: a coverage of {coverage:g} needs errors of at least {least} rows, and there are "
        f"{n}; the ends are infinite.",
        DataWarning,
    )
    return None


def margin(owner: str, errors: Array, coverage: float) -> Array:
    """The error that bounds a new one, for each column of errors (n, t)."""
    k = rank(owner, len(errors), coverage)
    if k is None:
        return np.full(errors.shape[1], np.inf)
    return np.asarray(np.partition(errors, k - 1, axis=0)[k - 1])


def jackknife_plus(
    owner: str, predictions: Array, residuals: Array, coverage: float
) -> tuple[Array, Array]:
    """Ends from predictions (m, n) and residuals (n,) of the fits without each row."""
    m, n = predictions.shape
    k = rank(owner, n, coverage)
    if k is None:
        return np.full(m, -np.inf), np.full(m, np.inf)
    known = np.isfinite(residuals)  # a row that determines a coefficient alone has no residual
    errors = np.where(known, np.abs(residuals), 0.0)
    low = np.where(known, predictions - errors, -np.inf)
    high = np.where(known, predictions + errors, np.inf)
    low = np.partition(low, n - k, axis=1)[:, n - k]
    return low, np.partition(high, k - 1, axis=1)[:, k - 1]


def calibrated(
    model: Any,
    owner: str,
    ends: Callable[[Any], tuple[Array, Array]],
    X: Any,
    coverage: float,
    calibration: Any,
) -> tuple[Array, Array]:
    """Ends of intervals (m, t), widened until they hold as many held-out targets as asked for.

    Ends may be equal, as those of a prediction are. Intervals that are too wide become narrower.
    """
    try:
        rows, targets = calibration
    except (TypeError, ValueError):
        raise ParameterError(
            f"{owner}: calibration = {type(calibration).__name__} is not a pair; pass (X, y), rows "
            "that fit has not seen with their targets."
        ) from None
    below, above = ends(rows)
    y = model._validate_targets(targets, len(below)).reshape(len(below), -1)
    if y.shape[1] != below.shape[1]:
        raise DataError(
            f"{owner}: calibration has {y.shape[1]} target(s), and fit had {below.shape[1]}; pass "
            "as many."
        )
    wider = margin(owner, np.maximum(below - y, y - above), coverage)
    low, high = ends(X)
    middle = (low + high) / 2
    return np.minimum(low - wider, middle), np.maximum(high + wider, middle)


def stacked(low: Array, high: Array, is_vector: bool) -> Array:
    """Intervals of shape (m, 2), or (m, 2, t) for targets with columns."""
    both: Array = np.stack([low, high], axis=1).astype(np.float64, copy=False)
    return both[:, :, 0] if is_vector else both
