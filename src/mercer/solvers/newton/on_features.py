r"""Machines with a smooth loss on explicit features: f(x) = phi(x)'v + b with |v| as the norm.

What they find are coefficients of features. Those of rows follow from the condition for a minimum,

.. math:: \alpha a_i = -w_i\, \ell'(y_i, f(x_i)) , \qquad v = \sum_i a_i \phi(x_i) .

So v is in the span of the features of rows. Where rows are fewer than features, they are turned to
coordinates in that span, once: with Q R the features as columns, v = Q u and phi(x_i) becomes the
i-th column of R.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import qr

from mercer.exceptions import DataError
from mercer.kernels.points import Points
from mercer.rows.moments import OUT_OF_RANGE
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.solvers.kernel_features import KernelFeatures, may_hold
from mercer.solvers.newton.directions import ByIterations, Exactly
from mercer.solvers.newton.machine import MachineTask, SpanMachine
from mercer.solvers.newton.span import Direct, SpanState
from mercer.solvers.newton.span_sums import Place
from mercer.solvers.newton.spans import FeatureSpan, squared_lengths
from mercer.solvers.ridge.representers import Representers
from mercer.solvers.task import FeatureFunction

Array = NDArray[np.floating[Any]]

# The share of sparse features that are not zero above which dense products are faster.
_DENSE = 0.15
#: Unknowns of functions fitted together up to which all are in one matrix.
UNKNOWNS = 6000
# What the equations of a step are solved to beyond that, and how many iterations that may take.
_TOL, _ITERATIONS = 1e-10, 200
# What overflows is refused when the longest row is known, there where rows may be elsewhere.
_quiet = np.errstate(over="ignore", invalid="ignore")


class FeatureMachine(SpanMachine):
    """A task on explicit features."""

    span: FeatureSpan

    def __init__(self, task: MachineTask, given: KernelFeatures) -> None:
        self.given, self.rows = given, task.rows
        n = len(task.rows)
        few = isinstance(task.rows, InMemory) and n < given.width
        width = n if few else given.width
        whole = in_one_matrix(task.at_a_time, width)
        direct: Direct = Exactly() if whole else ByIterations(_TOL, _ITERATIONS)
        task.require_memory(
            width,
            f"{given.width} features of {n} rows",
            direct,
            "take fewer features, or solver=mercer.solvers.NystromSolver(...)",
            beside=2 * n * given.width if few else 0,
        )
        seen = _in_their_span(task, given) if few else _one_by_one(task, given)
        reach = seen.rows.map_sum(_Longest(seen.span)).length
        if not np.isfinite(reach):
            raise DataError(f"{task.owner}: {OUT_OF_RANGE}.")
        self.origin, self.basis = seen.origin, seen.basis
        super().__init__(replace(task, rows=seen.rows), replace(seen.span, reach=reach), direct)

    @property
    def offset(self) -> float:
        """The largest length of features, about, from zero."""
        far = 0.0 if self.origin is None else float(np.linalg.norm(self.origin))
        return self.span.reach + far

    def function(self, state: SpanState) -> FeatureFunction:
        """The functions, without their constants."""
        coef = state.coordinates if self.basis is None else self.basis @ state.coordinates
        return FeatureFunction(self.given.features, coef)

    def intercept(self, state: SpanState) -> Array:
        """The constants, of features that are measured from zero."""
        if self.origin is None:
            return state.intercept
        return np.asarray(state.intercept - self.origin @ self.function(state).coef)

    def representers(self, state: SpanState, alpha: float) -> Representers:
        """Rows of positive weight and their coefficients; none if rows come in blocks."""
        if not isinstance(self.rows, InMemory):
            return Representers.of_stream(self.rows, state.intercept.shape)
        slopes = np.concatenate(list(self._slopes(state)))
        return Representers(self.rows.part.points, -slopes / alpha)

    def _slopes(self, state: SpanState) -> Iterator[Array]:
        """Weighted derivatives of the losses in the values, for blocks of rows."""
        assert isinstance(self.task.rows, InMemory)
        place = Place(state.coordinates, state.intercept)
        for rows, targets, mass in self.span.rows(self.task.rows.part):
            values, first = place.at(rows), 0
            slopes = np.empty_like(values)
            for loss in self.task.losses:
                mine = slice(first, first + loss.n_outputs)
                slopes[:, mine] = loss.derivative(targets, values[:, mine])
                first = mine.stop
            yield mass[:, None] * slopes


def in_one_matrix(functions: int, width: int) -> bool:
    """Whether Newton's equations of functions fitted together are one matrix of all of them."""
    return functions == 1 or functions * width <= UNKNOWNS


@dataclass(frozen=True, eq=False)
class _Seen:
    """Rows, their span, what features are measured from, and a basis of those that occur."""

    rows: RowSource
    span: FeatureSpan
    origin: Array | None = None
    basis: Array | None = None


@_quiet
def _in_their_span(task: MachineTask, given: KernelFeatures) -> _Seen:
    """Rows as coordinates in the span of their features, of which no more count than rows."""
    assert isinstance(task.rows, InMemory)
    part = task.rows.part
    phi = given.features(part.points)
    phi = (phi.toarray() if sp.issparse(phi) else phi).astype(np.float64, copy=False)
    origin = part.mass @ phi / part.mass.sum() if task.fit_intercept else None
    if origin is not None:
        phi -= origin
    if not np.isfinite(phi).all():
        raise DataError(f"{task.owner}: {OUT_OF_RANGE}.")
    basis, upper = qr(phi.T, mode="economic", overwrite_a=True, check_finite=False)
    rows = InMemory(replace(part, points=Points(upper.T)))
    return _Seen(rows, FeatureSpan(_Held(), len(upper)), origin, basis)


def _one_by_one(task: MachineTask, given: KernelFeatures) -> _Seen:
    """Rows as their features: all of them where they can be held, else made in every pass."""
    rows, features = task.rows, given.features
    first = features(rows.first_row)
    span = FeatureSpan(features, given.width, sparse=sp.issparse(first))
    holds = may_hold(float(len(rows) * given.width * first.dtype.itemsize))
    if isinstance(rows, InMemory) and (span.sparse or holds):
        phi = features(rows.part.points)
        if span.sparse and holds and phi.nnz > _DENSE * phi.shape[0] * phi.shape[1]:
            phi, span = phi.toarray(), replace(span, sparse=False)
        phi = sp.csr_array(phi) if span.sparse else phi
        rows = InMemory(replace(rows.part, points=Points(phi)))
        span = replace(span, features=_Held())
    if task.fit_intercept and not span.sparse:
        sums = rows.map_sum(_Sums(span))
        span = replace(span, origin=sums[1:] / sums[0])
    return _Seen(rows, span, span.origin)


@dataclass(frozen=True)
class _Held:
    """Points that are features already."""

    def __call__(self, points: Points) -> Any:
        return points.data.copy()


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums of weights, and of weighted features."""

    span: FeatureSpan

    @_quiet
    def __call__(self, part: RowBlock) -> Array:
        found = np.zeros(1 + len(self.span))
        for rows, _, mass in self.span.rows(part):
            found += np.append(mass.sum(), mass @ rows)
        return found


@dataclass(frozen=True)
class _Length:
    """The largest of some lengths, which add up to the larger one; NaN if one is."""

    length: float

    def __add__(self, other: Self) -> _Length:
        return _Length(float(np.maximum(self.length, other.length)))


@dataclass(frozen=True, eq=False)
class _Longest:
    """The largest length of the rows that count."""

    span: FeatureSpan

    @_quiet
    def __call__(self, part: RowBlock) -> _Length:
        found = 0.0
        for rows, _, _ in self.span.rows(part):
            found = float(np.maximum(found, np.sqrt(squared_lengths(rows).max(initial=0.0))))
        return _Length(found)
