"""Sums and products of kernels. They flatten only with their own kind."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.exceptions import ParameterError, ParameterTypeError
from mercer.kernels import explicit
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.parameters import Part
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.tree import named_children
from mercer.kernels.values import plain
from mercer.kernels.views import Columns
from mercer.program.expression import Expr

__all__ = ["Product", "Sum"]


class _Composite(Kernel):
    """Several kernels of the same data."""

    kernels = Part()
    _symbol = ""

    def __init__(self, *kernels: Kernel) -> None:
        if not kernels:
            raise ParameterError(
                f"{type(self).__name__}: there are no kernels; pass at least one kernel."
            )
        parts = [as_kernel(k, self._symbol) for k in kernels]
        self._initialise(kernels=tuple(_flatten(type(self), parts)))

    def _children(self) -> tuple[tuple[str, Kernel], ...]:
        return tuple(zip(named_children(self.kernels), self.kernels, strict=True))

    def _with_children(self, children: tuple[Any, ...]) -> Self:
        return self._with_values(kernels=tuple(children))

    def _traces(self, scope: Scope) -> list[Expr]:
        return [child._trace(inner) for child, inner in self._scoped_children(scope)]

    def _all_features(self, scope: Scope, points: Points) -> list[Columns]:
        return [child._features(inner, points) for child, inner in self._scoped_children(scope)]


class Sum(_Composite):
    """Sum of kernels, k1 + k2 + ...: the feature spaces stand side by side.

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
        first, *rest = self._traces(scope)
        for term in rest:
            first = first + term
        return first

    def _features(self, scope: Scope, points: Points) -> Columns:
        levels = [level for level, _ in self._levels]
        return explicit.side_by_side(self._all_features(scope, points), levels)


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
        first, *rest = self._traces(scope)
        for factor in rest:
            first = first * factor
        return first

    def _features(self, scope: Scope, points: Points) -> Columns:
        return explicit.products(self._all_features(scope, points))


def as_kernel(value: Any, operation: str) -> Kernel:
    """Return kernels as they are, and a number as the constant kernel."""
    if isinstance(value, Kernel):
        return value
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
    """Whether a value is one real number, held or bounded or plain."""
    number = plain(value)
    if isinstance(number, np.ndarray):
        return number.ndim == 0 and number.dtype.kind in "iuf"
    return isinstance(number, int | float | np.integer | np.floating) and not isinstance(
        number, bool
    )


def _flatten(kind: type[_Composite], kernels: list[Kernel]) -> list[Kernel]:
    """Sums within sums and products within products become one; never one within the other."""
    return [part for k in kernels for part in (k.kernels if type(k) is kind else [k])]
