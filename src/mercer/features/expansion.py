"""A composed kernel as a sum of products of its leaves, k = sum_t weight_t prod_f k_tf.

Explicit maps are built from this expansion: features of a sum stand side by side, and features of
a product come from joint draws for its factors. Each factor is a leaf kernel with its own columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import singledispatch
from itertools import chain, product
from typing import Any

import numpy as np

from mercer.exceptions import ParameterError
from mercer.kernels.algebra import Product, Sum
from mercer.kernels.base import Kernel, Scope, scoped_children
from mercer.kernels.special import Constant
from mercer.kernels.stationary import Cosine, Periodic, SpectralMixture
from mercer.kernels.vector import Stationary
from mercer.kernels.views import View
from mercer.kernels.wrappers import (
    Normalized,
    OnColumns,
    PolynomialOf,
    Power,
    Scaled,
    Standardized,
    Warped,
)

# The largest number of terms of an expansion.
_MOST_TERMS = 10_000
# Leaf kernels that are functions of x - z.
_OF_DIFFERENCES = (Stationary, Periodic, Cosine, SpectralMixture)


@dataclass(frozen=True)
class Factor:
    """A leaf of a composed kernel, with the columns that it reads."""

    kernel: Kernel
    scope: Scope

    @property
    def view(self) -> View:
        """The columns of the data that the leaf reads."""
        return self.kernel._view(self.scope)


@dataclass(frozen=True)
class Term:
    """A number times a product of leaves; without leaves, a constant."""

    weight: float
    factors: tuple[Factor, ...] = ()

    def __mul__(self, other: Term) -> Term:
        """The product of two terms."""
        return Term(self.weight * other.weight, self.factors + other.factors)


def expand(kernel: Kernel, scope: Scope | None = None) -> list[Term]:
    """Write a kernel as a sum of products of leaves."""
    return [term for term in _terms(kernel, scope or Scope()) if term.weight > 0]


@singledispatch
def _terms(kernel: Kernel, scope: Scope) -> list[Term]:
    """A leaf, or a composition that is neither a sum nor a product, is one factor."""
    return [Term(1.0, (Factor(kernel, scope),))]


@_terms.register
def _(kernel: Sum, scope: Scope) -> list[Term]:
    return list(chain.from_iterable(_terms(k, s) for k, s in scoped_children(kernel, scope)))


@_terms.register
def _(kernel: Product, scope: Scope) -> list[Term]:
    return _multiplied(kernel, [_terms(k, s) for k, s in scoped_children(kernel, scope)])


@_terms.register
def _(kernel: Power, scope: Scope) -> list[Term]:
    return _multiplied(kernel, [_inner(kernel, scope)] * kernel.exponent)


@_terms.register
def _(kernel: PolynomialOf, scope: Scope) -> list[Term]:
    inner = _inner(kernel, scope)
    powers = [
        [Term(float(c)) * term for term in _multiplied(kernel, [inner] * i)]
        for i, c in enumerate(kernel.coefficients)
        if c > 0
    ]
    return list(chain.from_iterable(powers))


@_terms.register
def _(kernel: Scaled, scope: Scope) -> list[Term]:
    return [Term(float(kernel.scale)) * term for term in _inner(kernel, scope)]


@_terms.register(OnColumns)
@_terms.register(Standardized)
@_terms.register(Warped)
def _(kernel: Any, scope: Scope) -> list[Term]:
    return _inner(kernel, scope)


@_terms.register
def _(kernel: Normalized, scope: Scope) -> list[Term]:
    terms = _inner(kernel, scope)
    total = math.fsum(term.weight for term in terms)
    if not total > 0 or not all(map(_is_one_at_zero, terms)):
        return [Term(1.0, (Factor(kernel, scope),))]
    # k(x, x) is the same everywhere: the sum of the weights.
    return [Term(1 / total) * term for term in terms]


def _is_one_at_zero(term: Term) -> bool:
    """Whether all leaves are stationary, so that they are 1 at zero."""
    return all(isinstance(factor.kernel, _OF_DIFFERENCES) for factor in term.factors)


@_terms.register
def _(kernel: Constant, scope: Scope) -> list[Term]:
    return [Term(float(kernel.value))]


@_terms.register
def _(kernel: SpectralMixture, scope: Scope) -> list[Term]:
    parts = (
        kernel.replace(weights=[1.0], frequencies=f[None], length_scale=length[None])
        for f, length in zip(kernel.frequencies, kernel.length_scale, strict=True)
    )
    return [
        Term(float(weight), (Factor(part, scope),))
        for weight, part in zip(kernel.weights, parts, strict=True)
    ]


def _inner(kernel: Any, scope: Scope) -> list[Term]:
    child, inside = scoped_children(kernel, scope)[0]
    return _terms(child, inside)


def _multiplied(kernel: Kernel, parts: list[list[Term]]) -> list[Term]:
    number = math.prod(map(len, parts))
    if number > _MOST_TERMS:
        raise ParameterError(
            f"{kernel!r:.80} is a sum of {number} products, more than {_MOST_TERMS}; use the "
            "kernel itself, which needs no features, or landmarks."
        )
    return [math.prod(word, start=Term(1.0)) for word in product(*parts)]


def shares(owner: str, weights: Iterable[float], fixed: Iterable[int], total: int) -> list[int]:
    """Distribute components among the terms of a sum, in proportion to their weights.

    The variance of a sum of estimates, sum_t weight_t^2 v_t / n_t, is smallest for n_t in
    proportion to weight_t sqrt(v_t), and the v_t are similar.
    """
    amounts, counts = np.array(list(weights)), np.array(list(fixed))
    shared = counts == 0
    remaining = total - int(counts.sum())
    if remaining < shared.sum():
        raise ParameterError(
            f"{owner}: n_components = {total} does not give each of the {len(amounts)} terms of "
            f"the kernel a component; pass at least {int(counts.sum() + shared.sum())}."
        )
    if shared.any():
        ideal = remaining * amounts[shared] / amounts[shared].sum()
        counts[shared] = _rounded(np.maximum(ideal, 1.0), remaining)
    return [int(count) for count in counts]


def _rounded(ideal: Any, total: int) -> Any:
    """Round to integers >= 1 with a given sum; the largest remainders are rounded up."""
    counts = np.floor(ideal).astype(np.int64)
    order = np.argsort(counts - ideal, kind="stable")
    for i in order[: max(0, total - int(counts.sum()))]:
        counts[i] += 1
    while counts.sum() > total:
        counts[np.argmax(counts)] -= 1
    return counts
