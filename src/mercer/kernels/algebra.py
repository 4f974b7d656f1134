"""The algebra of kernels: operations under which positive semi-definite kernels are closed.

``Sum``, ``Product``, ``Power`` and ``Scaled`` are classes of their own and flatten only with their
own kind. What would leave the cone of kernels (a negative factor, a difference) is refused with the
reason.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.exceptions import ParameterError, ParameterTypeError
from mercer.kernels.base import Kernel
from mercer.kernels.combinations import Product, Sum, as_kernel, is_number
from mercer.kernels.values import Bounded, Fixed, plain
from mercer.kernels.wrappers import (
    Exponential,
    Normalized,
    OnColumns,
    PolynomialOf,
    Power,
    Scaled,
    ScaledBy,
    Warped,
)

__all__ = [
    "Exponential",
    "Normalized",
    "OnColumns",
    "PolynomialOf",
    "Power",
    "Product",
    "Scaled",
    "ScaledBy",
    "Sum",
    "Warped",
]


def add(a: Any, b: Any) -> Kernel:
    """Add two kernels; a number stands for a constant kernel."""
    return Sum(as_kernel(a, "+"), as_kernel(b, "+"))


def multiply(a: Any, b: Any) -> Kernel:
    """Multiply two kernels, or a kernel by a non-negative number."""
    if is_number(a):
        return _scaled(b, a)
    if is_number(b):
        return _scaled(a, b)
    return Product(as_kernel(a, "*"), as_kernel(b, "*"))


def divide(kernel: Kernel, divisor: Any) -> Kernel:
    """The quotient k / c for a positive number c."""
    if not is_number(divisor) or isinstance(divisor, Fixed | Bounded) or not 0 < divisor < np.inf:
        raise ParameterError(
            f"kernel / {divisor!r}: a kernel can be divided by a positive number only, because a "
            "quotient of kernels need not be positive semi-definite; write for example k / 2.0."
        )
    return _scaled(kernel, 1.0 / divisor)


def power(kernel: Kernel, exponent: Any) -> Kernel:
    """The power k ** n for a positive whole number n."""
    if isinstance(exponent, bool) or not isinstance(exponent, int | np.integer) or exponent < 1:
        raise ParameterError(
            f"kernel ** {exponent!r}: the exponent must be a whole number >= 1, because only "
            "whole powers of every kernel are kernels; write k ** 2, or k.exp()."
        )
    if isinstance(kernel, Power):
        return Power(kernel.kernel, kernel.exponent * int(exponent))
    return Power(kernel, int(exponent))


def on(kernel: Kernel, columns: tuple[Any, ...]) -> Kernel:
    """The kernel on some columns."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    if not columns:
        raise ParameterError(
            "on(): no column is given; pass at least one, by position, slice or name."
        )
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, int | np.integer | slice | str):
            raise ParameterTypeError(
                f"on({column!r}): a column is a position, a slice or a name; pass for example "
                'on(0), on(slice(2)) or on("height").'
            )
    return OnColumns(kernel, columns)


def refuse_difference(a: Any, b: Any) -> Kernel:
    """A difference of kernels is not a kernel."""
    raise ParameterError(
        f"{_bracketed(a, 1)} - {_bracketed(b, 1)}: a difference of kernels need not be positive "
        "semi-definite, so it is not a kernel; use sums, products and non-negative factors."
    )


def normalized(kernel: Kernel) -> Kernel:
    """The kernel with k(x, x) = 1; once is enough."""
    return kernel if isinstance(kernel, Normalized) else Normalized(kernel)


def _scaled(kernel: Any, factor: Any) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise ParameterTypeError(
            f"{factor!r} * {type(kernel).__name__}: the other side must be a kernel; pass a kernel "
            "such as mercer.RBF()."
        )
    number = float(plain(factor))
    if isinstance(kernel, Scaled) and not isinstance(factor, Fixed | Bounded):
        _check_scale(kernel, factor, number * kernel.scale)
        return kernel.replace(scale=number * kernel.scale)
    _check_scale(kernel, factor, number)
    return Scaled(kernel, factor)


def _bracketed(side: Any, level: int) -> str:
    """One side of an operator as it is written: in brackets if it binds less tightly."""
    weak = isinstance(side, Kernel) and side._precedence < level
    return f"({side!r})" if weak else repr(side)


def _check_scale(kernel: Kernel, factor: Any, scale: float) -> None:
    if not scale >= 0:
        raise ParameterError(
            f"{factor!r} * {_bracketed(kernel, 2)}: the scale of a kernel must be >= 0, because a "
            "negative factor turns a positive semi-definite function into a negative one; pass a "
            "non-negative number."
        )
    if scale == np.inf:
        raise ParameterError(
            f"{factor!r} * {_bracketed(kernel, 2)}: the scale of a kernel must be finite, because "
            "every value is multiplied by it; pass a smaller number."
        )
