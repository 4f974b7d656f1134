"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.gaussian_process import GaussianProcessRegressor
from mercer.models.gaussian_process_classifier import GaussianProcessClassifier
from mercer.models.iterative import IterativeEstimator
from mercer.models.lms import KernelLMS
from mercer.models.machine import KernelMachine
from mercer.models.machine_classification import KernelLogisticRegression, KernelMachineClassifier
from mercer.models.machine_regression import (
    KernelHuberRegressor,
    KernelMachineRegressor,
    KernelQuantileRegressor,
)
from mercer.models.online import OnlineModel
from mercer.models.perceptron import KernelPerceptron
from mercer.models.representer import RepresenterModel
from mercer.models.results import (
    Contributions,
    NormalPredictions,
    PrimalCoefficients,
    RidgePath,
)
from mercer.models.ridge import KernelRidge
from mercer.models.smoothing import NadarayaWatson
from mercer.models.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch

__all__ = [
    "SVC",
    "SVDD",
    "SVR",
    "Contributions",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "IterativeEstimator",
    "KernelEstimator",
    "KernelHuberRegressor",
    "KernelLMS",
    "KernelLogisticRegression",
    "KernelMachine",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelPerceptron",
    "KernelQuantileRegressor",
    "KernelRidge",
    "NadarayaWatson",
    "NormalPredictions",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "OnlineModel",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
    "SVCSearch",
]
