"""What is public is exactly what ``__all__`` lists."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
import types

import pytest
from numpydoc.docscrape import ClassDoc
from sklearn.base import BaseEstimator

import mercer as mc

REQUIRED = [
    "RBF",
    "Laplacian",
    "Matern",
    "RationalQuadratic",
    "Periodic",
    "Cosine",
    "Wendland",
    "SpectralMixture",
    "Linear",
    "Polynomial",
    "Monomials",
    "Anova",
    "Sigmoid",
    "ArcCosine",
    "Chi2",
    "AdditiveChi2",
    "HistogramIntersection",
    "Tanimoto",
    "Categorical",
    "Constant",
    "White",
    "Precomputed",
    "FunctionKernel",
    "Stationary",
    "DotProduct",
    "Coordinate",
    "FeatureKernel",
    "PairKernel",
    "Spectrum",
    "Positive",
    "NonNegative",
    "Real",
    "Integer",
    "Choice",
    "Fixed",
    "Bounded",
    "Points",
    "KernelRidge",
    "GaussianProcessRegressor",
    "GaussianProcessClassifier",
    "KernelMachineRegressor",
    "KernelMachineClassifier",
    "KernelLogisticRegression",
    "KernelQuantileRegressor",
    "KernelHuberRegressor",
    "losses",
    "penalties",
    "KernelLMS",
    "KernelPerceptron",
    "NadarayaWatson",
    "KernelPCA",
    "KernelCCA",
    "KernelDiscriminantAnalysis",
    "KernelKMeans",
    "SpectralClustering",
    "KernelNovelty",
    "SVC",
    "NuSVC",
    "SVR",
    "NuSVR",
    "OneClassSVM",
    "SVDD",
    "SVCSearch",
    "RandomFourier",
    "Fastfood",
    "TensorSketch",
    "PositiveFeatures",
    "ArcCosineFeatures",
    "RandomSignature",
    "Nystrom",
    "landmarks",
    "solvers",
    "forecast",
    "budgets",
    "threads",
    "validity",
    "features",
    "plot",
    "testing",
    "exceptions",
]


def test_all_names_exist_once() -> None:
    assert len(set(mc.__all__)) == len(mc.__all__)
    for name in mc.__all__:
        assert hasattr(mc, name)


def test_all_is_exactly_the_public_names() -> None:
    """Whatever is reached as mercer.name without an underscore is listed, or is a module."""
    reachable = {
        name
        for name, value in vars(mc).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType)
    } - {"annotations"}
    modules = {name for name in mc.__all__ if isinstance(getattr(mc, name), types.ModuleType)}
    assert reachable == set(mc.__all__) - modules


def test_dir_shows_the_public_names() -> None:
    assert set(dir(mc)) == {*mc.__all__, "__version__"}


def test_errors_and_warnings_are_public() -> None:
    listed = set(mc.exceptions.__all__)
    bases = (mc.exceptions.MercerError, mc.exceptions.MercerWarning)
    defined = {
        n for n, v in vars(mc.exceptions).items() if isinstance(v, type) and issubclass(v, bases)
    }
    assert listed == defined
    assert "DataWarning" in listed


def test_declarations_show_their_defaults() -> None:
    assert repr(mc.RBF.length_scale) == "Positive(1.0)"
    assert repr(mc.Positive(1.0)) == "Positive(1.0)"
    assert repr(mc.Integer(3, low=1)) == "Integer(3)"
    assert repr(mc.Positive()) == "Positive()"


@pytest.mark.parametrize("name", REQUIRED)
def test_required_names_are_public(name: str) -> None:
    assert name in mc.__all__


def test_every_module_lists_names_that_it_has() -> None:
    for module in pkgutil.walk_packages(mc.__path__, "mercer."):
        if module.name.rpartition(".")[2].startswith("_"):
            continue
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", ()):
            assert hasattr(loaded, name), f"{module.name}.{name}"


ESTIMATORS = [
    name
    for name in mc.__all__
    if isinstance(getattr(mc, name), type) and issubclass(getattr(mc, name), BaseEstimator)
]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes_are_declared(name: str) -> None:
    """Editors complete what a fit sets: every documented attribute is annotated or a property."""
    cls = getattr(mc, name)
    documented = {
        attribute.strip()
        for entry in ClassDoc(cls)["Attributes"]
        for attribute in entry.name.split(",")
    }
    declared = {key for base in cls.__mro__ for key in (*vars(base), *_annotations(base))}
    assert documented <= declared


def _annotations(cls: type) -> dict[str, object]:
    return vars(cls).get("__annotations__", {})


def test_former_names_of_solvers_say_the_new_ones() -> None:
    with pytest.raises(AttributeError, match=r"is now mercer\.solvers\.NystromSolver; mercer\.Nys"):
        _ = mc.solvers.Nystrom  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"is now mercer\.solvers\.EigenRidge; mercer\.Spectr"):
        _ = mc.solvers.Spectrum  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'mercer\.solvers' has no attribute 'Choleski'"):
        _ = mc.solvers.Choleski  # type: ignore[attr-defined]


def test_a_missing_engine_says_how_to_build_it() -> None:
    program = "import sys; sys.modules['mercer._core'] = None; import mercer"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "ImportError: mercer's native engine" in done.stderr
    assert "Build it with" in done.stderr


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("Nystroem", r"; write mercer\.Nystrom\."),
        ("NystromSolver", r"; write mercer\.solvers\.NystromSolver\."),
        ("kernelRidge", r"; did you mean KernelRidge\?"),
        ("KernelRidgeRegressor", r"; write mercer\.KernelRidge\."),
        ("Rbf", r"; did you mean RBF\?"),
        ("quite_another", r"'quite_another'\.$"),
    ],
)
def test_unknown_names_are_answered(name: str, advice: str) -> None:
    with pytest.raises(
        AttributeError, match=rf"module 'mercer' has no attribute '{name}'"
    ) as raised:
        getattr(mc, name)
    assert re.search(advice, str(raised.value))


def test_parts_answer_unknown_names_too() -> None:
    with pytest.raises(AttributeError, match=r"'mercer\.losses' .* 'huber'; did you mean Huber\?"):
        _ = mc.losses.huber  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'Choleski'; did you mean Cholesky\?"):
        _ = mc.solvers.Choleski  # type: ignore[attr-defined]
    assert not hasattr(mc.plot, "quite_another")
