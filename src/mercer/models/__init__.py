"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.iterative import IterativeEstimator
from mercer.models.machine import KernelMachine
from mercer.models.machine_classification import KernelLogisticRegression, KernelMachineClassifier
from mercer.models.machine_regression import (
    KernelHuberRegressor,
    KernelMachineRegressor,
    KernelQuantileRegressor,
)
from mercer.models.representer import RepresenterModel
from mercer.models.results import PrimalCoefficients, RidgePath
from mercer.models.ridge import KernelRidge

__all__ = [
    "IterativeEstimator",
    "KernelEstimator",
    "KernelHuberRegressor",
    "KernelLogisticRegression",
    "KernelMachine",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelQuantileRegressor",
    "KernelRidge",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
]
