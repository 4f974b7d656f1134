"""Kernels of scikit-learn's Gaussian processes, as kernels of this library."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from mercer import checks
from mercer.exceptions import ParameterError
from mercer.kernels.algebra import Sum
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.parameters import Bounded, Fixed
from mercer.kernels.special import Constant, White
from mercer.kernels.stationary import RBF, Matern, Periodic, RationalQuadratic

_MODULE = "sklearn.gaussian_process.kernels"


def is_scikit_learns(kernel: object) -> bool:
    """Whether an object is one of scikit-learn's kernels, without importing them."""
    module = sys.modules.get(_MODULE)
    return module is not None and isinstance(kernel, module.Kernel)


def converted(owner: str, kernel: Any, X: Any = None) -> Kernel:
    """The kernel with the same values, and with the same bounds of its parameters."""
    theirs = sys.modules[_MODULE]
    kind = type(kernel)
    if kind is theirs.Sum:
        return converted(owner, kernel.k1, X) + converted(owner, kernel.k2, X)
    if kind is theirs.Product:
        for one, other in ((kernel.k1, kernel.k2), (kernel.k2, kernel.k1)):
            if type(one) is theirs.ConstantKernel:
                return _parameter(one, "constant_value") * converted(owner, other, X)
        return converted(owner, kernel.k1, X) * converted(owner, kernel.k2, X)
    if kind is theirs.Exponentiation and checks.is_finite(kernel.exponent):
        whole = float(kernel.exponent).is_integer()
        inside = converted(owner, kernel.kernel, X)
        return inside ** int(kernel.exponent) if whole else inside**kernel.exponent
    if kind is theirs.ConstantKernel:
        return Constant(_parameter(kernel, "constant_value"))
    if kind is theirs.WhiteKernel:
        return _parameter(kernel, "noise_level") * White()
    if kind is theirs.DotProduct:
        return Sum(Constant(_parameter(kernel, "sigma_0", power=2)), Linear())
    if kind is theirs.ExpSineSquared:
        _require_one_column(owner, kernel, X)
        period, length = _parameter(kernel, "periodicity"), _parameter(kernel, "length_scale")
        return Periodic(period=period, length_scale=length)
    if kind is theirs.RBF:
        return RBF(length_scale=_parameter(kernel, "length_scale"))
    if kind is theirs.Matern:
        return Matern(length_scale=_parameter(kernel, "length_scale"), nu=float(kernel.nu))
    if kind is theirs.RationalQuadratic:
        length, alpha = _parameter(kernel, "length_scale"), _parameter(kernel, "alpha")
        return RationalQuadratic(length_scale=length, alpha=alpha)
    raise ParameterError(
        f"{owner}: kernel = {kernel!r:.100} is a kernel of scikit-learn that has no counterpart "
        "here; pass a kernel such as mercer.RBF(), or a function of two matrices."
    )


def without_white(kernel: Any) -> tuple[Any, Fixed | Bounded | None]:
    """A kernel of scikit-learn less a term `WhiteKernel`, and the variance of that noise.

    The variance is None for a kernel that is no sum with such a term.
    """
    theirs = sys.modules[_MODULE]
    if type(kernel) is not theirs.Sum:
        return kernel, None
    for one, other in ((kernel.k2, kernel.k1), (kernel.k1, kernel.k2)):
        if type(one) is theirs.WhiteKernel:
            return other, _parameter(one, "noise_level")
        rest, variance = without_white(one)
        if variance is not None:
            return theirs.Sum(rest, other), variance
    return kernel, None


def _parameter(kernel: Any, name: str, power: int = 1) -> Fixed | Bounded:
    """A power of a parameter, with its bounds."""
    value = np.squeeze(np.asarray(getattr(kernel, name), dtype=float)) ** power
    bounds = getattr(kernel, f"hyperparameter_{name}").bounds
    if isinstance(bounds, str):  # "fixed"
        return Fixed(value)
    if not np.all(value):  # such as DotProduct(0): nothing to learn
        return Fixed(value)
    low, high = (np.squeeze(end) ** power for end in np.asarray(bounds, dtype=float).T)
    # Values may lie outside their bounds there.
    return Bounded(value, np.minimum(low, value), np.maximum(high, value))


def _require_one_column(owner: str, kernel: Any, X: Any) -> None:
    """Refuse a periodic function of the distance in several columns."""
    width = 1 if X is None else width_of(owner, X, f"kernel = {kernel!r:.60}")
    if width > 1:
        raise ParameterError(
            f"{owner}: kernel = {kernel!r:.60} is periodic in the distance of rows of {width} "
            "columns, which no kernel here is; pass mercer.Periodic(), which adds over the columns."
        )


def width_of(owner: str, X: Any, what: str) -> int:
    """The number of columns, which rows in blocks do not show before they are read."""
    shape = getattr(X, "shape", None)
    if shape is None and isinstance(X, list | tuple):
        return len(X[0]) if len(X) and isinstance(X[0], list | tuple | np.ndarray) else 1
    if shape is None:
        raise ParameterError(
            f"{owner}: {what} needs the number of columns, which is not known here; pass a kernel "
            'object or, for gamma, "scale" or a number.'
        )
    return int(shape[1]) if len(shape) > 1 else 1
