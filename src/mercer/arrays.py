"""The types of arrays in signatures, and constants of their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

AnyArray = np.ndarray[Any, Any]
Array = NDArray[np.floating[Any]]
Float64Array = NDArray[np.float64]

#: The rounding unit of float64.
EPS = float(np.finfo(np.float64).eps)
LOG_2PI = float(np.log(2 * np.pi))
