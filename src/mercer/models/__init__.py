"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.gaussian_process import GaussianProcessRegressor
from mercer.models.gaussian_process_classifier import GaussianProcessClassifier
from mercer.models.iterative import IterativeEstimator
from mercer.models.representer import RepresenterModel
from mercer.models.results import (
    Contributions,
    NormalPredictions,
    PrimalCoefficients,
    RidgePath,
)
from mercer.models.ridge import KernelRidge

__all__ = [
    "Contributions",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "IterativeEstimator",
    "KernelEstimator",
    "KernelRidge",
    "NormalPredictions",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
]
