"""KeOps as a peer: a fused, compiled product, with the compiler flags set in `environment`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.environment import installed

Array = NDArray[Any]


def available() -> bool:
    """Whether KeOps is installed."""
    return installed("pykeops")


def rbf_product(X: Array, Z: Array, v: Array, length_scale: float) -> Callable[[], Array]:
    """A call that computes K @ v of the RBF; compiled when it first runs."""
    from pykeops.numpy import Genred  # type: ignore[import-untyped]

    d = X.shape[1]
    arguments = [f"x = Vi({d})", f"z = Vj({d})", "v = Vj(1)"]
    reduction = Genred("Exp(-SqDist(x, z)) * v", arguments, reduction_op="Sum", axis=1)
    # exp(-r^2 / 2): folding the factor into the data saves the multiplication.
    factor = X.dtype.type(1 / (length_scale * np.sqrt(2)))
    x, z, weights = X * factor, Z * factor, np.ascontiguousarray(v[:, None])
    return lambda: reduction(x, z, weights, backend="CPU")
