"""The terms of a kernel that is a sum, each as a kernel of its own with a short name."""

from __future__ import annotations

import math
import operator
from collections import Counter
from functools import reduce
from itertools import product
from typing import NamedTuple

from mercer.kernels.algebra import Product, Sum
from mercer.kernels.base import Kernel
from mercer.kernels.special import Constant
from mercer.kernels.tree import with_children
from mercer.kernels.wrappers import (
    OnColumns,
    Power,
    Scaled,
    ScaledBy,
    Standardized,
    Warped,
    _Wrapper,
)

# Wrappers W for which W(k1 + k2) = W(k1) + W(k2).
_LINEAR = (Scaled, ScaledBy, OnColumns, Standardized, Warped)
# Terms of a product of sums, above which it stays one term: nobody reads more.
_MOST = 16


class Term(NamedTuple):
    """One term of a sum of kernels."""

    name: str  # the kernel without parameters, such as "RBF.on('income')"
    kernel: Kernel


def terms(kernel: Kernel) -> list[Term]:
    """The terms of a kernel: one, unless it is a sum, perhaps within scales or selected columns.

    A product of sums is multiplied out, unless it has very many terms. Equal names are numbered.
    """
    kernels = _summands(kernel)
    names = [_name(term) for term in kernels]
    repeated = {name for name, count in Counter(names).items() if count > 1}
    numbers: Counter[str] = Counter()
    for i, name in enumerate(names):
        if name in repeated:
            numbers[name] += 1
            names[i] = f"{name} ({numbers[name]})"
    return list(map(Term, names, kernels))


def _summands(kernel: Kernel) -> list[Kernel]:
    if isinstance(kernel, Sum):
        return [term for child in kernel.kernels for term in _summands(child)]
    if isinstance(kernel, _LINEAR):
        inside = _summands(kernel.kernel)
        if len(inside) > 1:
            return [with_children(kernel, [term]) for term in inside]
    if isinstance(kernel, Product):
        factors = [_summands(factor) for factor in kernel.kernels]
        if 1 < math.prod(map(len, factors)) <= _MOST:
            return [_times(chosen) for chosen in product(*factors)]
    return [kernel]


def _times(factors: tuple[Kernel, ...]) -> Kernel:
    """The product of some kernels, in which constants are numbers in front."""
    constants = [factor for factor in factors if isinstance(factor, Constant)]
    others = [factor for factor in factors if not isinstance(factor, Constant)]
    number = math.prod(float(constant.value) for constant in constants)
    if not others:
        return Constant(number)
    rest = reduce(operator.mul, others)
    return rest if number == 1 else number * rest


def _name(kernel: Kernel) -> str:
    """The formula of a kernel without numbers: scales and standardised columns are not shown."""
    if isinstance(kernel, Sum | Product):
        inside = isinstance(kernel, Product)
        return f" {kernel._symbol} ".join(
            _operand(k) if inside else _name(k) for k in kernel.kernels
        )
    if isinstance(kernel, Scaled | Standardized):
        return _name(kernel.kernel)
    if isinstance(kernel, OnColumns):
        return f"{_operand(kernel.kernel)}.on({', '.join(map(repr, kernel.columns))})"
    if isinstance(kernel, Power):
        return f"{_operand(kernel.kernel)} ** {kernel.exponent}"
    if isinstance(kernel, _Wrapper):
        return f"{type(kernel).__name__}({_name(kernel.kernel)})"
    return type(kernel).__name__


def _operand(kernel: Kernel) -> str:
    """The name of a kernel, in brackets if it is a sum or a product."""
    name, inside = _name(kernel), kernel
    while isinstance(inside, Scaled | Standardized):
        inside = inside.kernel
    return f"({name})" if isinstance(inside, Sum | Product) else name
