"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.gaussian_process_classifier import GaussianProcessClassifier
from mercer.models.iterative import IterativeEstimator
from mercer.models.representer import RepresenterModel
from mercer.models.results import PrimalCoefficients, RidgePath
from mercer.models.ridge import KernelRidge

__all__ = [
    "GaussianProcessClassifier",
    "IterativeEstimator",
    "KernelEstimator",
    "KernelRidge",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
]
