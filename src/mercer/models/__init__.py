"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.gaussian_process import GaussianProcessRegressor
from mercer.models.gaussian_process_classifier import GaussianProcessClassifier
from mercer.models.iterative import IterativeEstimator
from mercer.models.machine import KernelMachine
from mercer.models.machine_classification import KernelLogisticRegression, KernelMachineClassifier
from mercer.models.machine_regression import (
    KernelHuberRegressor,
    KernelMachineRegressor,
    KernelQuantileRegressor,
)
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
    "KernelHuberRegressor",
    "KernelLogisticRegression",
    "KernelMachine",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelQuantileRegressor",
    "KernelRidge",
    "NormalPredictions",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
]
