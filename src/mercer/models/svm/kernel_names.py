"""Kernels by the names that scikit-learn gives them."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import checks
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear, Polynomial, Sigmoid
from mercer.kernels.heuristics import Spread
from mercer.kernels.parameters import Integer, NonNegative
from mercer.kernels.parameters import Real as AnyNumber
from mercer.kernels.points import as_points
from mercer.kernels.special import Constant, FunctionKernel, Precomputed
from mercer.kernels.stationary import RBF
from mercer.kernels.vector import DotProduct
from mercer.kernels.views import EVERYTHING, Numbers

KINDS: dict[str, type[Kernel]] = {
    "linear": Linear,
    "poly": Polynomial,
    "rbf": RBF,
    "sigmoid": Sigmoid,
    "precomputed": Precomputed,
}
DEFAULTS: dict[str, Any] = {"degree": 3, "gamma": "scale", "coef0": 0.0}


class LibsvmPolynomial(DotProduct):
    """(gain x.z + offset)^degree for all parameters of LIBSVM: not always a valid kernel."""

    degree = Integer(3, low=0)
    offset = AnyNumber(0.0)
    gain = NonNegative(1.0)
    psd = False

    def profile(self, s: Any) -> Any:
        """(gain s + offset)^degree."""
        return (self.gain * s + self.offset) ** self.degree


def is_name(kernel: object) -> bool:
    """Whether a kernel is given in scikit-learn's way: by name, or as a function of matrices."""
    return isinstance(kernel, str) or (callable(kernel) and not isinstance(kernel, Kernel | type))


def outline(kernel: Any) -> Kernel:
    """A kernel of the named kind, which says what data it takes."""
    if not isinstance(kernel, str):
        return FunctionKernel(kernel)
    return KINDS.get(kernel, Linear)()


def named_kernel(owner: str, kernel: Any, X: Any, degree: Any, gamma: Any, coef0: Any) -> Kernel:
    """The kernel that a name stands for."""
    if not isinstance(kernel, str):
        given = {"degree": degree, "gamma": gamma, "coef0": coef0}
        require_no_arguments(owner, kernel, given)
        return FunctionKernel(kernel)
    if kernel not in KINDS:
        raise ParameterError(
            f"{owner}: kernel = {kernel!r} is no name of a kernel; pass a kernel such as "
            f"mercer.RBF(), or one of {', '.join(map(repr, KINDS))}."
        )
    if kernel in ("linear", "precomputed"):
        return KINDS[kernel]()
    factor = _gamma(owner, gamma, X)
    if kernel == "rbf":
        return RBF(length_scale=1.0 / np.sqrt(2.0 * factor)) if factor else Constant(1.0)
    if kernel == "sigmoid":
        return Sigmoid(gain=factor, offset=coef0)
    return _polynomial(owner, degree, factor, coef0)


def _polynomial(owner: str, degree: Any, gamma: float, coef0: Any) -> Kernel:
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
    valid = degree >= 1 and gamma > 0 and coef0 >= 0
    family = Polynomial if valid else LibsvmPolynomial
    return family(degree=degree, gain=gamma, offset=coef0)


def require_no_arguments(owner: str, kernel: Any, given: dict[str, Any]) -> None:
    """Refuse arguments of named kernels beside a kernel object, which would ignore them."""
    for name, value in given.items():
        default = DEFAULTS[name]
        if isinstance(value, str) != isinstance(default, str) or value != default:
            raise ParameterError(
                f"{owner}: {name} = {value!r} belongs to kernels that are named, such as "
                f'kernel="rbf", and kernel = {kernel!r} has parameters of its own; set those, or '
                f"leave {name} out."
            )


def _gamma(owner: str, gamma: Any, X: Any) -> float:
    """The number that gamma stands for."""
    if isinstance(gamma, str) and gamma in ("scale", "auto"):
        matrix = as_points(X, owner).matrix(EVERYTHING.read_by(Numbers(owner)))
        width = matrix.shape[1]
        if gamma == "auto":
            return 1.0 / float(width)
        # A variance that underflows counts as zero.
        deviation = Spread.of(matrix, None).deviation
        variance = deviation * deviation
        scale = float(1.0 / (width * variance)) if variance > 0 else 1.0
        if not 0 < scale < np.inf:
            raise DataError(
                f"{owner}: gamma = {gamma!r} leaves the range of numbers, as the data vary by "
                f"{deviation:.3g}; scale them."
            )
        return scale
    if not (checks.is_finite(gamma) and gamma >= 0):
        raise ParameterError(
            f'{owner}: gamma = {gamma!r} is neither "scale", "auto" nor a number >= 0; pass one of '
            "these."
        )
    return float(gamma)
