"""The functions of a support vector machine: all of them side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

Array = NDArray[np.float64]
Rows = NDArray[np.intp]
Flags = NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)
# Rounding that shows in values of functions, in their unit: the tolerance that is usual.
_SHOWN = 1e-3
# What is one number for each function.
_NUMBERS = (
    *("intercept", "objective", "gap", "n_iter", "converged", "squared_norm"),
    *("epsilon", "has_margin", "scale", "is_rounded"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Machines:
    """Functions f_j(x) = sum_i b_ij k(x, x_i) + b_j that solve dual problems."""

    rows: Rows  # (m,): the rows x_i of the terms of all functions; some may be there twice
    dual: Array  # (m,): the coefficients b_ij of the terms
    which: Rows  # (m,): the numbers j of their functions
    # (n_functions, n_rows): f_j - b_j at some rows of the matrix, which the problems may not have
    products: Array | None
    intercept: Array  # (n_functions,): the constants b_j
    # (n_functions,): the values of the dual problems, and how much less they could be at most
    objective: Array
    # (n_functions,): the values of the dual problems, and how much less they could be at most
    gap: Array
    n_iter: Rows  # (n_functions,): steps of the solver
    # (n_functions,): whether every row is as near to its condition of optimality as asked
    converged: Flags
    # (n_functions,): the squared lengths of f_j - b_j in the space of the kernel
    squared_norm: Array
    # (n_functions,): the half-widths of the tubes that were found, for machines that find one
    epsilon: Array
    # (n_functions,): false if the rows of two classes are not known to be apart at the given share
    has_margin: Flags
    scale: Array  # (n_functions,): what values of the functions are measured in by the tolerance
    # (n_functions,): whether rounding of kernel values shows in those of the functions
    is_rounded: Flags

    @classmethod
    def unsolved(cls, n: int) -> Machines:
        """Functions that are zero, of which nothing is known."""
        return cls(
            rows=np.empty(0, np.intp),
            dual=np.empty(0),
            which=np.empty(0, np.intp),
            products=None,
            intercept=np.zeros(n),
            objective=np.full(n, np.nan),
            gap=np.full(n, np.inf),
            n_iter=np.zeros(n, np.intp),
            converged=np.zeros(n, bool),
            squared_norm=np.zeros(n),
            epsilon=np.zeros(n),
            has_margin=np.ones(n, bool),
            scale=np.ones(n),
            is_rounded=np.zeros(n, bool),
        )

    @classmethod
    def joined(cls, n: int, parts: Sequence[tuple[Rows, Machines]]) -> Machines:
        """Functions of which some are given, with their numbers, and the others unsolved."""
        found = cls.unsolved(n)
        for numbers, part in parts:
            for name in _NUMBERS:
                getattr(found, name)[numbers] = getattr(part, name)
        products: Array | None = None
        for numbers, part in parts:
            if part.products is not None:
                products = np.zeros((n, part.products.shape[1])) if products is None else products
                products[numbers] = part.products
        return replace(
            found,
            rows=np.concatenate([found.rows, *(part.rows for _, part in parts)]),
            dual=np.concatenate([found.dual, *(part.dual for _, part in parts)]),
            which=np.concatenate([found.which, *(numbers[part.which] for numbers, part in parts)]),
            products=products,
        )

    def __len__(self) -> int:
        """The number of functions."""
        return len(self.intercept)

    def some(self, chosen: Flags) -> Machines:
        """Some of the functions, in their order."""
        if chosen.all():
            return self
        own = chosen[self.which]
        return replace(
            self,
            rows=self.rows[own],
            dual=self.dual[own],
            which=(np.cumsum(chosen) - 1)[self.which[own]],
            products=None if self.products is None else self.products[chosen],
            **{name: getattr(self, name)[chosen] for name in _NUMBERS},
        )

    def scaled(self, factors: Array) -> Machines:
        """The functions times factors, in units of which their problems are the same."""
        return replace(
            self,
            dual=self.dual * factors[self.which],
            intercept=self.intercept * factors,
            products=None if self.products is None else self.products * factors[:, None],
            # Factor by factor: a square may be beyond what float64 has.
            objective=self.objective * factors * factors,
            gap=self.gap * factors * factors,
            squared_norm=self.squared_norm * factors * factors,
        )

    def rounded(self, largest: float, tol: float) -> Machines:
        """The same with gaps that know of rounding, where that is more than the tolerance.

        Kernel values, of which one is as large, are rounded; where that shows in values of a
        function, it is not converged.
        """
        sums = np.bincount(self.which, np.abs(self.dual), len(self))
        rounding = _EPS * largest * sums
        with np.errstate(over="ignore"):  # of a gap that says nothing
            gap = np.maximum(self.gap, 0.0) + rounding * sums
        matters = rounding > tol * self.scale
        shown = matters & (rounding > max(tol, _SHOWN) * self.scale)
        return replace(
            self,
            gap=np.where(matters, gap, self.gap),
            converged=self.converged & ~shown,
            is_rounded=shown,
        )

    def coefficients(self, n: int) -> csr_array:
        """The b_ij of all n rows, of shape (n, n_functions), without zeros."""
        kept = self.dual != 0
        places = self.rows[kept], self.which[kept]
        found = coo_array((self.dual[kept], places), (n, len(self))).tocsr()
        found.eliminate_zeros()
        return found

    @property
    def values(self) -> Array:
        """Values of the functions at the rows of the products, of shape (n_rows, n_functions)."""
        assert self.products is not None
        return np.asarray(self.products.T + self.intercept)
