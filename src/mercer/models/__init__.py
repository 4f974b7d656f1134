"""Models: coefficients over points."""

from __future__ import annotations

from mercer.models.base import KernelEstimator
from mercer.models.iterative import IterativeEstimator
from mercer.models.lms import KernelLMS
from mercer.models.online import OnlineModel
from mercer.models.perceptron import KernelPerceptron
from mercer.models.representer import RepresenterModel
from mercer.models.results import PrimalCoefficients, RidgePath
from mercer.models.ridge import KernelRidge
from mercer.models.smoothing import NadarayaWatson

__all__ = [
    "IterativeEstimator",
    "KernelEstimator",
    "KernelLMS",
    "KernelPerceptron",
    "KernelRidge",
    "NadarayaWatson",
    "OnlineModel",
    "PrimalCoefficients",
    "RepresenterModel",
    "RidgePath",
]
