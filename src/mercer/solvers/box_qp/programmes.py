"""Programmes with boxes and sums side by side: the variables of one after those of another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.solvers.box_qp.problem import (
    Array,
    BoxProgramme,
    BoxSolution,
    Positions,
    feasible,
    reduced,
)

_OF_VARIABLES = ("rows", "linear", "lower", "upper", "start")


def edges_of(sizes: Positions) -> Positions:
    """Where stretches begin that follow each other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)])


def stretches(begins: Positions, sizes: Positions) -> Positions:
    """The positions of stretches, one after another."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if len(ends) else 0
    return np.asarray(np.repeat(begins - (ends - sizes), sizes) + np.arange(total))


@dataclass(frozen=True, eq=False)
class BoxProgrammes:
    """Programmes of one matrix."""

    variables: BoxProgramme  # the variables of all, whose sums are those that follow
    sizes: Positions  # (n_problems,): how many variables each has
    # (n_problems,): how many of its first variables keep a sum of their own; by default all have
    # one sum
    firsts: Positions | None = None

    @classmethod
    def of(cls, programmes: Sequence[BoxProgramme]) -> BoxProgrammes:
        """Some programmes, all with one sum or all with two."""
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(programme, name) for programme in programmes])
            for name in _OF_VARIABLES
        }
        firsts = [programme.n_first for programme in programmes if programme.n_first is not None]
        return cls(
            BoxProgramme(**joined),
            np.array([len(programme.rows) for programme in programmes]),
            np.array(firsts) if firsts else None,
        )

    def __iter__(self) -> Iterator[BoxProgramme]:
        """One programme after another."""
        firsts = [None] * len(self.sizes) if self.firsts is None else self.firsts.tolist()
        for ends, first in zip(pairwise(self.edges.tolist()), firsts, strict=True):
            own = {name: getattr(self.variables, name)[slice(*ends)] for name in _OF_VARIABLES}
            yield BoxProgramme(**own, n_first=first)

    @cached_property
    def edges(self) -> Positions:
        """Where the variables of each problem begin, and where the last ones end."""
        return edges_of(self.sizes)

    @cached_property
    def which(self) -> Positions:
        """The number of the problem that each variable belongs to."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    @property
    def groups(self) -> Positions:
        """The first variable of every sum, of shape (n_problems, n_sums)."""
        begins = self.edges[:-1]
        both = [begins] if self.firsts is None else [begins, begins + self.firsts]
        return np.stack(both, axis=1)

    def feasible(self, near: Array) -> Array:
        """Points in the boxes with the sums of the starts."""
        return feasible(self.variables, near, self.groups.ravel())


@dataclass(frozen=True, eq=False)
class BoxSolutions:
    """Points in the boxes of programmes side by side, and how good they are."""

    sizes: Positions  # (n_problems,): how many variables each problem has
    # (m,): the variables, and the matrix times them: at each variable of a batch, at each row of
    # the matrix for a problem that was solved alone
    coefficients: Array
    # (m,): the variables, and the matrix times them: at each variable of a batch, at each row of
    # the matrix for a problem that was solved alone
    product: Array
    levels: Array  # (n_problems, n_sums): the multipliers of the sums
    squared_norm: Array  # (n_problems,): as for `BoxSolution`
    objective: Array  # (n_problems,): as for `BoxSolution`
    dual_gap: Array  # (n_problems,): as for `BoxSolution`
    violation: Array  # (n_problems,): as for `BoxSolution`
    n_iter: Positions  # (n_problems,): the numbers of exchanges
    converged: NDArray[np.bool_]  # (n_problems,): whether violations are as small as was asked

    @classmethod
    def alone(cls, found: BoxSolution) -> BoxSolutions:
        """The solution of one problem."""
        return cls(
            np.array([len(found.coefficients)]),
            found.coefficients,
            found.product,
            np.array([found.levels]),
            np.array([found.squared_norm]),
            np.array([found.objective]),
            np.array([found.dual_gap]),
            np.array([found.violation]),
            np.array([found.n_iter]),
            np.array([found.converged]),
        )

    def __iter__(self) -> Iterator[BoxSolution]:
        """Those of a batch, one after another."""
        parts = [slice(*ends) for ends in pairwise(edges_of(self.sizes).tolist())]
        numbers = zip(
            map(tuple, self.levels.tolist()),
            self.squared_norm.tolist(),
            self.objective.tolist(),
            self.dual_gap.tolist(),
            self.violation.tolist(),
            self.n_iter.tolist(),
            self.converged.tolist(),
            strict=True,
        )
        for part, own in zip(parts, numbers, strict=True):
            yield BoxSolution(self.coefficients[part], self.product[part], *own)

    @property
    def absolute_sums(self) -> Array:
        """The sums of the absolute values of the variables of each problem."""
        return reduced(np.add, np.abs(self.coefficients), edges_of(self.sizes)[:-1])
