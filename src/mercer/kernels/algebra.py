"""The algebra of kernels: operations under which positive semi-definite kernels are closed.

``Sum``, ``Product``, ``Power`` and ``Scaled`` are separate classes, each of which flattens only
with itself. Operations that leave the cone of kernels (a negative factor, a difference) are refused
with the reason.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

import numpy as np

from mercer import checks
from mercer.exceptions import ParameterError, ParameterTypeError
from mercer.kernels.base import Kernel, Scope, is_a_class, scoped_children
from mercer.kernels.parameters import Bounded, Children, Fixed, plain
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.tree import declared
from mercer.kernels.views import Columns
from mercer.kernels.wrappers import (  # noqa: F401 (the methods of `Kernel` find all of them here)
    Exponential,
    Normalized,
    OnColumns,
    PolynomialOf,
    Power,
    Scaled,
    ScaledBy,
    Standardized,
    Warped,
    products,
    side_by_side,
)
from mercer.program.expression import Expr
from mercer.program.operations import plus


class _Composite(Kernel):
    """Several kernels on the same data."""

    kernels = Children()
    _symbol = ""

    def __init__(self, *kernels: Kernel) -> None:
        if not kernels:
            raise ParameterError(
                f"{type(self).__name__}: there are no kernels; pass at least one kernel."
            )
        parts = [as_kernel(k, self._symbol) for k in kernels]
        # Sums within sums, and products within products, become flat.
        flat = [part for k in parts for part in (k.kernels if type(k) is type(self) else [k])]
        super().__init__(kernels=tuple(flat))

    def __getitem__(self, position: int) -> Kernel:
        """The kernel at a position."""
        kernel: Kernel = self.kernels[position]
        return kernel

    def _traces(self, scope: Scope) -> list[Expr]:
        return [child._trace(inner) for child, inner in scoped_children(self, scope)]

    def _all_features(self, scope: Scope, points: Points) -> list[Columns]:
        return [child._features(inner, points) for child, inner in scoped_children(self, scope)]


class Sum(_Composite):
    """Sum of kernels, k1 + k2 + ...: the feature spaces are concatenated.

    Parameters
    ----------
    *kernels : Kernel
        The terms; usually written ``k1 + k2``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.RBF() + mc.Linear()
    RBF() + Linear()
    """

    _symbol = "+"
    _precedence = 0

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))

    def _trace(self, scope: Scope) -> Expr:
        return reduce(plus, self._traces(scope))

    def _features(self, scope: Scope, points: Points) -> Columns:
        levels = [level for level, _ in self._tree.levels]
        return side_by_side(self._all_features(scope, points), levels)


class Product(_Composite):
    """Product of kernels, k1 * k2 * ...: all products of the parts' features.

    Parameters
    ----------
    *kernels : Kernel
        The factors; usually written ``k1 * k2``.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.RBF() + mc.Linear()) * mc.Periodic()
    (RBF() + Linear()) * Periodic()
    """

    _symbol = "*"
    _precedence = 1

    def __repr__(self) -> str:
        # After the first factor a bare scale would read as belonging to what stands before it.
        return " * ".join(
            f"({k!r})" if k._precedence < (2 if i else 1) else repr(k)
            for i, k in enumerate(self.kernels)
        )

    def _trace(self, scope: Scope) -> Expr:
        return reduce(operator.mul, self._traces(scope))

    def _features(self, scope: Scope, points: Points) -> Columns:
        return products(self._all_features(scope, points))


def as_kernel(value: Any, operation: str) -> Kernel:
    """Return a kernel unchanged, and a number as the constant kernel."""
    if isinstance(value, Kernel):
        return value
    if isinstance(value, type) and issubclass(value, Kernel):
        raise ParameterTypeError(is_a_class(value))
    if not is_number(value):
        raise ParameterTypeError(
            f"kernel {operation} {type(value).__name__}: the other side must be a kernel or a "
            f"number; write for example k {operation} mercer.Linear(), or k {operation} 2.0."
        )
    if not 0 <= plain(value) < np.inf:
        raise ParameterError(
            f"kernel {operation} {value!r}: a constant must be finite and >= 0, because a negative "
            f"constant is not positive semi-definite; write for example k {operation} 2.0."
        )
    return Constant(value)


def is_number(value: Any) -> bool:
    """Whether a value is one real number, fixed or bounded or plain."""
    number = plain(value)
    if isinstance(number, np.ndarray):
        return number.ndim == 0 and number.dtype.kind in "iuf"
    return checks.is_number(number)


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
    if not checks.is_count(exponent):
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
    """Refuse a difference of kernels, which is not a kernel."""
    raise ParameterError(
        f"{_bracketed(a, 1)} - {_bracketed(b, 1)}: a difference of kernels need not be positive "
        "semi-definite, so it is not a kernel; use sums, products and non-negative factors."
    )


def normalized(kernel: Kernel) -> Kernel:
    """The kernel normalised to k(x, x) = 1; a normalised kernel is returned unchanged."""
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
        stored = declared(kernel, "scale")
        if not isinstance(stored, Bounded):
            return kernel.replace(scale=number * kernel.scale)
        if number > 0:  # the bounds are those of the scale inside
            bounds = (number * stored.low, number * stored.high)
            return kernel.replace(scale=Bounded(number * kernel.scale, *bounds))
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
