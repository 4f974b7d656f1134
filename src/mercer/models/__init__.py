"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.results import PrimalCoefficients, RidgePath
from mercer.models.ridge import KernelRidge

__all__ = ["KernelEstimator", "KernelRidge", "PrimalCoefficients", "RidgePath"]
