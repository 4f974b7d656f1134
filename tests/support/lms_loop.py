"""Kernel least mean squares as a loop over single rows, with a dense Gram matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]


def naive(
    gram: Array, y: Array, step: float, alpha: float, weights: Array, passes: int = 1
) -> tuple[Array, Array]:
    """Coefficients and errors of a loop over single rows."""
    coef, errors = np.zeros(y.shape), []
    for _ in range(passes):
        for i in range(len(y)):
            error = y[i] - sum(gram[i, j] * coef[j] for j in range(len(y)))
            coef *= 1 - step * alpha
            coef[i] += step * weights[i] * error
            errors.append(error)
    return coef, np.array(errors)
