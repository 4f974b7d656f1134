"""mercer: kernel methods for Python."""

from __future__ import annotations

import importlib
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING

try:
    importlib.import_module("mercer._core")
except ImportError as error:
    raise ImportError(
        f"mercer's native engine (mercer._core) is missing or cannot be loaded ({error}). Build it "
        "with `pip install .` in a checkout, which needs a C++20 compiler."
    ) from error

from mercer import (
    datasets,
    features,
    inference,
    landmarks,
    losses,
    penalties,
    plot,
    solvers,
    testing,
    validity,
)
from mercer import exceptions as exceptions
from mercer.checks import NamedArguments as _NamedArguments
from mercer.checks import hide_bases as _hide_bases
from mercer.checks import unknown_member as _unknown_member
from mercer.features.arc_cosine import ArcCosineFeatures
from mercer.features.fourier import Fastfood, RandomFourier
from mercer.features.nystrom import Nystrom
from mercer.features.positive import PositiveFeatures
from mercer.features.signature import RandomSignature
from mercer.features.tensor_sketch import TensorSketch
from mercer.gram import Gram
from mercer.kernels.algebra import Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.categorical import Categorical, Missing
from mercer.kernels.dot_product import Anova, ArcCosine, Linear, Monomials, Polynomial, Sigmoid
from mercer.kernels.graphs.graph import Graph
from mercer.kernels.graphs.graphlet import Graphlet
from mercer.kernels.graphs.histograms import EdgeHistogram, VertexHistogram
from mercer.kernels.graphs.nodes import (
    CommuteTime,
    Diffusion,
    PStepRandomWalk,
    RegularizedLaplacian,
)
from mercer.kernels.graphs.propagation import Propagation
from mercer.kernels.graphs.random_walk import RandomWalk
from mercer.kernels.graphs.shortest_path import ShortestPath
from mercer.kernels.graphs.weisfeiler_lehman import WeisfeilerLehman
from mercer.kernels.histogram import AdditiveChi2, Chi2, HistogramIntersection, MinMax, Tanimoto
from mercer.kernels.mean_embedding import MeanEmbedding
from mercer.kernels.parameters import Bounded, Choice, Fixed, Integer, NonNegative, Positive, Real
from mercer.kernels.points import Points
from mercer.kernels.series.alignment import DTW, GlobalAlignment, SoftDTW
from mercer.kernels.series.signature import Signature
from mercer.kernels.special import Constant, FunctionKernel, Precomputed, White
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
from mercer.kernels.strings import (
    EditDistance,
    GappedKmer,
    LocalAlignment,
    Mismatch,
    Spectrum,
    Subsequence,
    WeightedDegree,
)
from mercer.kernels.structured import EncodedKernel, FeatureKernel, PairKernel, Ragged
from mercer.kernels.table import table_kernel
from mercer.kernels.vector import Coordinate, DotProduct, Stationary
from mercer.models.clustering.kernel_kmeans import KernelKMeans
from mercer.models.clustering.novelty import KernelNovelty
from mercer.models.clustering.spectral import SpectralClustering
from mercer.models.comparison import compare
from mercer.models.decomposition.kernel_cca import KernelCCA
from mercer.models.decomposition.kernel_pca import KernelPCA
from mercer.models.discriminant.kernel_discriminant import KernelDiscriminantAnalysis
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
from mercer.versions import show_versions

__version__ = "0.1.0"

__all__ = [
    "DTW",
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
    "CommuteTime",
    "Constant",
    "Coordinate",
    "Cosine",
    "Diffusion",
    "DotProduct",
    "EdgeHistogram",
    "EditDistance",
    "EncodedKernel",
    "Fastfood",
    "FeatureKernel",
    "Fixed",
    "FunctionKernel",
    "GappedKmer",
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "GlobalAlignment",
    "Gram",
    "Graph",
    "Graphlet",
    "HistogramIntersection",
    "Integer",
    "Kernel",
    "KernelCCA",
    "KernelDiscriminantAnalysis",
    "KernelHuberRegressor",
    "KernelKMeans",
    "KernelLMS",
    "KernelLogisticRegression",
    "KernelMachineClassifier",
    "KernelMachineRegressor",
    "KernelNovelty",
    "KernelPCA",
    "KernelPerceptron",
    "KernelQuantileRegressor",
    "KernelRidge",
    "Laplacian",
    "Linear",
    "LocalAlignment",
    "Matern",
    "MeanEmbedding",
    "MinMax",
    "Mismatch",
    "Missing",
    "Monomials",
    "NadarayaWatson",
    "NonNegative",
    "NuSVC",
    "NuSVR",
    "Nystrom",
    "OneClassSVM",
    "PStepRandomWalk",
    "PairKernel",
    "Periodic",
    "Points",
    "Polynomial",
    "Positive",
    "PositiveFeatures",
    "Precomputed",
    "Product",
    "Propagation",
    "Ragged",
    "RandomFourier",
    "RandomSignature",
    "RandomWalk",
    "RationalQuadratic",
    "Real",
    "RegularizedLaplacian",
    "SVCSearch",
    "ShortestPath",
    "Sigmoid",
    "Signature",
    "SoftDTW",
    "SpectralClustering",
    "SpectralMixture",
    "Spectrum",
    "Stationary",
    "Subsequence",
    "Sum",
    "Tanimoto",
    "TensorSketch",
    "VertexHistogram",
    "WeightedDegree",
    "WeisfeilerLehman",
    "Wendland",
    "White",
    "budgets",
    "compare",
    "datasets",
    "exceptions",
    "features",
    "forecast",
    "inference",
    "landmarks",
    "losses",
    "penalties",
    "plot",
    "read_blocks",
    "show_versions",
    "solvers",
    "table_kernel",
    "testing",
    "thread_count",
    "threads",
    "validity",
]


for _value in list(globals().values()):
    if isinstance(_value, type) and issubclass(_value, _NamedArguments):
        _hide_bases(_value)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


# What to write for names that other libraries have.
_ELSEWHERE = {
    "KernelDensity": "write mercer.KernelNovelty, or sklearn.neighbors.KernelDensity.",
    "Matern12": "write mercer.Matern(nu=0.5).",
    "Matern32": "write mercer.Matern(nu=1.5).",
    "Matern52": "write mercer.Matern(nu=2.5).",
    "Nystroem": "write mercer.Nystrom.",
    **dict.fromkeys(("RBFSampler", "RandomFourierFeatures"), "write mercer.RandomFourier."),
    **dict.fromkeys(("Gaussian", "SquaredExponential", "ExpQuad"), "write mercer.RBF."),
    **dict.fromkeys(("SVM", "KernelSVM", "KernelSVC"), "write mercer.SVC."),
    **dict.fromkeys(("GP", "GPR", "GPRegressor"), "write mercer.GaussianProcessRegressor."),
    **dict.fromkeys(("GPC", "GPClassifier"), "write mercer.GaussianProcessClassifier."),
    "KernelRidgeRegressor": "write mercer.KernelRidge.",
    "KernelRidgeClassifier": "write mercer.KernelLogisticRegression.",
    "WhiteKernel": "write mercer.White.",
    "ConstantKernel": "write mercer.Constant.",
    "ExpSineSquared": "write mercer.Periodic.",
}
_PARTS = (
    features,
    inference,
    landmarks,
    losses,
    penalties,
    plot,
    solvers,
    validity,
    datasets,
)

if not _TYPE_CHECKING:  # a checker would take any name as known

    def __getattr__(name: str) -> object:
        elsewhere = [f"write {part.__name__}.{name}." for part in _PARTS if name in part.__all__]
        advice = _ELSEWHERE.get(name, "".join(elsewhere[:1]))
        raise _unknown_member("mercer", name, __all__, advice)

    def _answer_in(module: _ModuleType) -> None:
        """Let a part of mercer answer unknown names too."""

        def answer(name: str) -> object:
            raise _unknown_member(module.__name__, name, module.__all__)

        vars(module).setdefault("__getattr__", answer)

    for _part in _PARTS:
        _answer_in(_part)
