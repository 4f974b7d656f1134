"""Models: coefficients over points."""

from __future__ import annotations

from mercer.estimator.base import KernelEstimator
from mercer.estimator.iterative import IterativeEstimator
from mercer.models.clustering.kernel_kmeans import KernelKMeans
from mercer.models.clustering.novelty import KernelNovelty
from mercer.models.clustering.spectral import SpectralClustering
from mercer.models.comparison import ComparedModel, Comparison
from mercer.models.decomposition.kernel_cca import KernelCCA
from mercer.models.decomposition.kernel_pca import KernelPCA
from mercer.models.discriminant.kernel_discriminant import KernelDiscriminantAnalysis
from mercer.models.effects import Effects
from mercer.models.gaussian_process.classifier import GaussianProcessClassifier
from mercer.models.gaussian_process.regressor import GaussianProcessRegressor
from mercer.models.kernel_regression.nadaraya_watson import NadarayaWatson
from mercer.models.machine.base import KernelMachine
from mercer.models.machine.classification import KernelLogisticRegression, KernelMachineClassifier
from mercer.models.machine.regression import (
    KernelHuberRegressor,
    KernelMachineRegressor,
    KernelQuantileRegressor,
)
from mercer.models.online.base import OnlineModel
from mercer.models.online.lms import KernelLMS
from mercer.models.online.perceptron import KernelPerceptron
from mercer.models.representer import RepresenterModel
from mercer.models.results import Contributions, NormalPredictions, PrimalCoefficients, RidgePath
from mercer.models.ridge.kernel_ridge import KernelRidge
from mercer.models.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch

__all__ = [
    "SVC",
    "SVDD",
    "SVR",
    "ComparedModel",
    "Comparison",
    "Contributions",
    "Effects",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "IterativeEstimator",
    "KernelCCA",
    "KernelDiscriminantAnalysis",
    "KernelEstimator",
    "KernelHuberRegressor",
    "KernelKMeans",
    "KernelLMS",
    "KernelLogisticRegression",
    "KernelMachine",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelNovelty",
    "KernelPCA",
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
    "SpectralClustering",
]
