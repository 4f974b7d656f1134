"""Kernels by scikit-learn's names, functions as kernels, and scikit-learn's own kernel objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from mercer import checks
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel, is_a_class
from mercer.kernels.dot_product import Linear, Polynomial, Sigmoid
from mercer.kernels.histogram import AdditiveChi2, Chi2
from mercer.kernels.parameters import Integer, NonNegative
from mercer.kernels.parameters import Real as AnyNumber
from mercer.kernels.scikit_learn import converted, is_scikit_learns, width_of
from mercer.kernels.special import Constant, FunctionKernel, Precomputed
from mercer.kernels.stationary import RBF, Laplacian, Matern
from mercer.kernels.vector import DotProduct

#: What estimators take as ``kernel``: scikit-learn's kernels of Gaussian processes are callable.
KernelLike: TypeAlias = Kernel | str | Callable[..., Any] | None

#: The arguments of kernels that are named, with their defaults.
DEFAULTS: dict[str, Any] = {"degree": 3, "gamma": "scale", "coef0": 0.0}

_SIMPLE: dict[str, Kernel] = {
    "linear": Linear(),
    "cosine": Linear().normalized(),
    "additive_chi2": AdditiveChi2(),
    "precomputed": Precomputed(),
}
#: Names, each with a kernel that takes the same data.
NAMES: dict[str, Kernel] = {
    "rbf": RBF(),
    "linear": _SIMPLE["linear"],
    "poly": Polynomial(),
    "polynomial": Polynomial(),
    "sigmoid": Sigmoid(),
    "laplacian": Laplacian(),
    "matern": Matern(),
    "cosine": _SIMPLE["cosine"],
    "chi2": Chi2(),
    "additive_chi2": _SIMPLE["additive_chi2"],
    "precomputed": _SIMPLE["precomputed"],
}


class LibsvmPolynomial(DotProduct):
    """(gain x.z + offset)^degree for all parameters of LIBSVM: not always a valid kernel."""

    degree = Integer(3, low=0)
    offset = AnyNumber(0.0)
    gain = NonNegative(1.0, heuristics=("scale",))
    psd = False
    _from_data = Polynomial._from_data

    def profile(self, s: Any) -> Any:
        """(gain s + offset)^degree."""
        return (self.gain * s + self.offset) ** self.degree


def kernel_of(owner: str, kernel: Any, X: Any = None, **arguments: Any) -> Kernel:
    """The kernel that stands for what an estimator was given, with the arguments of its name."""
    if isinstance(kernel, str):
        return _named(owner, kernel, X, **DEFAULTS | arguments)
    if isinstance(kernel, Kernel):
        made = kernel
    elif is_scikit_learns(kernel):
        made = converted(owner, kernel, X)
    elif isinstance(kernel, type):
        what = f"{kernel!r} is a class; pass a kernel object such as mercer.RBF()."
        raise ParameterError(
            f"{owner}: {is_a_class(kernel) if issubclass(kernel, Kernel) else what}"
        )
    elif callable(kernel):
        made = FunctionKernel(kernel)
    else:
        raise ParameterError(
            f"{owner}: kernel = {kernel!r} is not a kernel; pass a kernel object such as "
            'mercer.RBF(), a name such as "rbf", or a function of two matrices.'
        )
    require_no_arguments(owner, kernel, arguments)
    return made


def outline(kernel: Any) -> object:
    """A kernel that takes the data which the given one takes; what is no kernel comes back."""
    if isinstance(kernel, str):
        return NAMES.get(kernel, kernel)
    if is_scikit_learns(kernel):
        return NAMES["rbf"]
    is_function = callable(kernel) and not isinstance(kernel, Kernel | type)
    return FunctionKernel(kernel) if is_function else kernel


def require_no_arguments(owner: str, kernel: Any, arguments: dict[str, Any]) -> None:
    """Refuse arguments of named kernels beside a kernel object, which would ignore them."""
    for name, value in arguments.items():
        default = DEFAULTS[name]
        if isinstance(value, str) == isinstance(default, str) and value == default:
            continue
        given = f"kernel = {kernel!r:.100} has parameters of its own"
        remedy = f"set those, or leave {name} out"
        if kernel is None:
            given, remedy = "no kernel is named", f'pass kernel="rbf" too, or leave {name} out'
        raise ParameterError(
            f"{owner}: {name} = {value!r} belongs to kernels that are named, such as "
            f'kernel="rbf", and {given}; {remedy}.'
        )


def _named(owner: str, name: str, X: Any, degree: Any, gamma: Any, coef0: Any) -> Kernel:
    """The kernel of a name; the rule "scale" waits for the data."""
    if name not in NAMES:
        raise ParameterError(
            f"{owner}: kernel = {name!r} is not the name of a kernel; pass a kernel such as "
            f"mercer.RBF(), or one of {', '.join(map(repr, NAMES))}."
        )
    if name in _SIMPLE:
        return _SIMPLE[name]
    factor = _factor(owner, gamma, X)
    if name in ("poly", "polynomial"):
        return _polynomial(owner, degree, factor, coef0)
    if name == "sigmoid":
        return Sigmoid(gain=factor, offset=coef0)
    if factor == 0:
        return Constant(1.0)
    if name == "chi2":
        return Chi2(gain=1.0 if factor == "scale" else factor)
    if name == "laplacian":
        return Laplacian(length_scale=factor if factor == "scale" else 1.0 / factor)
    family = RBF if name == "rbf" else Matern
    return family(length_scale=factor if factor == "scale" else 1.0 / np.sqrt(2.0 * factor))


def _polynomial(owner: str, degree: Any, gamma: Any, coef0: Any) -> Kernel:
    """The polynomial kernel; one that is known to be valid where the parameters allow it."""
    checks.require_count(owner, "degree", degree, least=0, example=3)
    if not checks.is_finite(coef0):
        raise ParameterError(
            f"{owner}: coef0 = {coef0!r} is not a finite number; pass for example 0.0."
        )
    if not degree or not gamma:
        with np.errstate(over="ignore"):
            constant = float(np.float64(coef0) ** int(degree))
        if np.isinf(constant):
            raise ParameterError(
                f"{owner}: coef0 = {coef0!r} to the power of degree = {degree!r} exceeds the range "
                "of numbers; lower one of them."
            )
        if constant >= 0:
            return Constant(constant)
    valid = degree >= 1 and gamma and coef0 >= 0
    family = Polynomial if valid else LibsvmPolynomial
    return family(degree=degree, gain=gamma, offset=coef0)


def _factor(owner: str, gamma: Any, X: Any) -> Any:
    """The number that gamma stands for, or the rule "scale"."""
    if isinstance(gamma, str) and gamma == "scale":
        return gamma
    if isinstance(gamma, str) and gamma == "auto":
        return 1.0 / width_of(owner, X, 'gamma = "auto"')
    if not (checks.is_finite(gamma) and gamma >= 0):
        raise ParameterError(
            f'{owner}: gamma = {gamma!r} is neither "scale", "auto" nor a number >= 0; pass one of '
            "these."
        )
    return float(gamma)
