"""mercer: kernel methods for Python."""

from __future__ import annotations

import importlib

try:
    importlib.import_module("mercer._core")
except ImportError as error:
    raise ImportError(
        f"mercer's native engine (mercer._core) is missing or cannot be loaded ({error}). Build it "
        "with `pip install .` in a checkout, which needs a C++20 compiler."
    ) from error

from mercer import exceptions as exceptions
from mercer import features, landmarks, losses, penalties, plot, solvers, testing, validity
from mercer.features.arc_cosine import ArcCosineFeatures
from mercer.features.fourier import Fastfood, RandomFourier
from mercer.features.nystrom import Nystrom
from mercer.features.positive import PositiveFeatures
from mercer.features.tensor_sketch import TensorSketch
from mercer.gram import Gram
from mercer.kernels.algebra import Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.categorical import Categorical, Missing
from mercer.kernels.dot_product import Anova, ArcCosine, Linear, Monomials, Polynomial, Sigmoid
from mercer.kernels.histogram import AdditiveChi2, Chi2, HistogramIntersection, Tanimoto
from mercer.kernels.parameters import Bounded, Choice, Fixed, Integer, NonNegative, Positive, Real
from mercer.kernels.points import Points
from mercer.kernels.special import (
    Constant,
    FeatureKernel,
    FunctionKernel,
    PairKernel,
    Precomputed,
    White,
)
from mercer.kernels.stationary import (
    RBF,
    Cosine,
    Laplacian,
    Matern,
    Periodic,
    RationalQuadratic,
    SpectralMixture,
    Wendland,
)
from mercer.kernels.strings import Spectrum
from mercer.kernels.table import table_kernel
from mercer.kernels.vector import Coordinate, DotProduct, Stationary
from mercer.models.forecast import forecast
from mercer.models.gaussian_process.classifier import GaussianProcessClassifier
from mercer.models.gaussian_process.regressor import GaussianProcessRegressor
from mercer.models.kernel_regression.nadaraya_watson import NadarayaWatson
from mercer.models.machine.classification import KernelLogisticRegression, KernelMachineClassifier
from mercer.models.machine.regression import (
    KernelHuberRegressor,
    KernelMachineRegressor,
    KernelQuantileRegressor,
)
from mercer.models.online import budgets
from mercer.models.online.lms import KernelLMS
from mercer.models.online.perceptron import KernelPerceptron
from mercer.models.ridge.kernel_ridge import KernelRidge
from mercer.models.svm import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM, SVCSearch
from mercer.parallel import thread_count, threads
from mercer.streams import Blocks, read_blocks

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "SVC",
    "SVDD",
    "SVR",
    "AdditiveChi2",
    "Anova",
    "ArcCosine",
    "ArcCosineFeatures",
    "Blocks",
    "Bounded",
    "Categorical",
    "Chi2",
    "Choice",
    "Constant",
    "Coordinate",
    "Cosine",
    "DotProduct",
    "Fastfood",
    "FeatureKernel",
    "Fixed",
    "FunctionKernel",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "Gram",
    "HistogramIntersection",
    "Integer",
    "Kernel",
    "KernelHuberRegressor",
    "KernelLMS",
    "KernelLogisticRegression",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelPerceptron",
    "KernelQuantileRegressor",
    "KernelRidge",
    "Laplacian",
    "Linear",
    "Matern",
    "Missing",
    "Monomials",
    "NadarayaWatson",
    "NonNegative",
    "NuSVC",
    "NuSVR",
    "Nystrom",
    "OneClassSVM",
    "PairKernel",
    "Periodic",
    "Points",
    "Polynomial",
    "Positive",
    "PositiveFeatures",
    "Precomputed",
    "Product",
    "RandomFourier",
    "RationalQuadratic",
    "Real",
    "SVCSearch",
    "Sigmoid",
    "SpectralMixture",
    "Spectrum",
    "Stationary",
    "Sum",
    "Tanimoto",
    "TensorSketch",
    "Wendland",
    "White",
    "budgets",
    "exceptions",
    "features",
    "forecast",
    "landmarks",
    "losses",
    "penalties",
    "plot",
    "read_blocks",
    "solvers",
    "table_kernel",
    "testing",
    "thread_count",
    "threads",
    "validity",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
