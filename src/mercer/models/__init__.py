"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.ridge import KernelRidge, PrimalCoefficients, RidgePath

__all__ = ["KernelEstimator", "KernelRidge", "PrimalCoefficients", "RidgePath"]
