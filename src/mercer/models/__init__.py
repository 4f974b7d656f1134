"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.iterative import IterativeEstimator
from mercer.models.representer import RepresenterModel
from mercer.models.results import Contributions, PrimalCoefficients, RidgePath
from mercer.models.ridge import KernelRidge

__all__ = [
    "Contributions",
    "IterativeEstimator",
    "KernelEstimator",
    "KernelRidge",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
]
