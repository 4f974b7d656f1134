r"""Machines with a smooth loss on explicit features: f(x) = phi(x)'v + b with the norm |v|.

The solution v has one coefficient per feature. The dual coefficients, one per row, follow from the
optimality condition,

.. math:: \alpha a_i = -w_i\, \ell'(y_i, f(x_i)) , \qquad v = \sum_i a_i \phi(x_i) .

So v is in the row span. If there are fewer rows than features, the features are replaced by
coordinates in that span: with the QR decomposition of the transposed feature matrix, v = Q u, and
phi(x_i) becomes the i-th column of R.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.points import Points
from mercer.rows.moments import OUT_OF_RANGE
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.solvers.kernel_features import KernelFeatures, may_hold
from mercer.solvers.newton.directions import DirectNewton, InexactNewton
from mercer.solvers.newton.machine import MachineTask, SpanMachine
from mercer.solvers.newton.method import State
from mercer.solvers.newton.span import NewtonDirection
from mercer.solvers.newton.span_sums import Coefficients, WeightSums
from mercer.solvers.newton.spans import FeatureSpan
from mercer.solvers.protocol import FeatureFunction

# Share of non-zero entries above which dense products are faster than sparse ones.
_DENSE = 0.15
#: Largest number of unknowns for which the Hessian of coupled functions is one matrix.
UNKNOWNS = 6000
# Smallest tolerance of Newton's equations solved by conjugate gradients.
_TOL = 1e-10
# Largest number of conjugate gradient iterations per step.
_ITERATIONS = 200
# Overflow is refused later, when the largest norm is known.
_quiet = np.errstate(over="ignore", invalid="ignore")


class FeatureMachine(SpanMachine):
    """Minimises a task over functions of explicit features."""

    span: FeatureSpan
    over_rows = True

    def __init__(self, task: MachineTask, features: KernelFeatures) -> None:
        self.features, self.rows = features, task.rows
        n = len(task.rows)
        few_rows = isinstance(task.rows, InMemory) and n < features.width
        width = n if few_rows else features.width
        direction: NewtonDirection = InexactNewton(_TOL, _ITERATIONS)
        if in_one_matrix(task.joint_outputs, width):
            direction = DirectNewton()
        task.require_memory(
            width,
            f"{features.width} features of {n} rows",
            direction,
            "take fewer features, or solver=mercer.solvers.NystromSolver(...)",
            beside=2 * n * features.width if few_rows else 0,
        )
        view = _in_row_span(task, features) if few_rows else _in_feature_space(task, features)
        rows, span, self.origin, self.basis = view
        weight, trace = rows.map_sum(WeightSums(span))
        if not np.isfinite(trace):
            raise DataError(f"{task.owner}: {OUT_OF_RANGE}.")
        span = replace(span, max_norm=float(np.sqrt(trace / weight)))
        super().__init__(replace(task, rows=rows), span, direction)

    @property
    def quality(self) -> dict[str, Any]:
        """The error of the features; for a stream, whose rows are not kept, also its first row."""
        kept = isinstance(self.rows, InMemory)
        return self.features.quality | ({} if kept else {"points_": self.rows.first_row})

    def function(self, state: State) -> FeatureFunction:
        """The functions, without their intercepts."""
        coef = state.coef if self.basis is None else self.basis @ state.coef
        return FeatureFunction(self.features.features, coef)

    def intercept(self, state: State) -> Array:
        """The intercepts for features that are not centred."""
        if self.origin is None:
            return state.intercept
        return np.asarray(state.intercept - self.origin @ self.function(state).coef)

    def dual(self, state: State, alpha: float) -> Array:
        """The coefficients of rows, from derivatives of the losses; none for a stream."""
        blocks: list[Array] = [np.empty((0, len(state.intercept)))]
        if not isinstance(self.task.rows, InMemory):
            return blocks[0]
        functions = Coefficients(state.coef, state.intercept)
        for rows, targets, weights in self.span.rows(self.task.rows.part):
            values, first = functions.values(rows), 0
            derivatives = np.empty_like(values)
            for loss in self.task.losses:
                mine = slice(first, first + loss.n_outputs)
                derivatives[:, mine] = loss.derivative(targets, values[:, mine])
                first = mine.stop
            blocks.append(-weights[:, None] * derivatives / alpha)
        return np.concatenate(blocks)

    def _terms(self, state: State) -> float:
        shift = 0.0 if self.origin is None else float(np.linalg.norm(self.origin))
        return (self.span.max_norm + shift) * float(np.linalg.norm(state.coef))


def in_one_matrix(functions: int, width: int) -> bool:
    """Whether the Hessian of coupled functions is one matrix."""
    return functions == 1 or functions * width <= UNKNOWNS


#: The rows and the span of Newton's method, with the origin and the basis of the features.
_View = tuple[RowSource, FeatureSpan, Array | None, Array | None]


@_quiet
def _in_row_span(task: MachineTask, features: KernelFeatures) -> _View:
    """Replace features by coordinates in their row span (QR): n unknowns instead of p."""
    assert isinstance(task.rows, InMemory)
    part = task.rows.part
    phi = features.features(part.points)
    phi = (phi.toarray() if sp.issparse(phi) else phi).astype(np.float64, copy=False)
    origin = part.mass @ phi / part.mass.sum() if task.fit_intercept else None
    if origin is not None:
        phi -= origin
    if not np.isfinite(phi).all():
        raise DataError(f"{task.owner}: {OUT_OF_RANGE}.")
    basis, upper = qr(phi.T, mode="economic", overwrite_a=True, check_finite=False)
    rows = InMemory(replace(part, points=Points(upper.T, copy=False)))
    return rows, FeatureSpan(_Identity(), len(upper)), origin, basis


def _in_feature_space(task: MachineTask, features: KernelFeatures) -> _View:
    """Use the features themselves: in memory if they fit, otherwise computed in every pass."""
    rows, feature_map = task.rows, features.features
    first = feature_map(rows.first_row)
    span = FeatureSpan(feature_map, features.width, sparse=sp.issparse(first))
    fits = may_hold(float(len(rows) * features.width * first.dtype.itemsize))
    if isinstance(rows, InMemory) and (span.sparse or fits):
        phi = feature_map(rows.part.points)
        if span.sparse and fits and phi.nnz > _DENSE * phi.shape[0] * phi.shape[1]:
            phi, span = phi.toarray(), replace(span, sparse=False)
        phi = sp.csr_array(phi) if span.sparse else phi
        rows = InMemory(replace(rows.part, points=Points(phi, copy=False)))
        span = replace(span, features=_Identity())
    if task.fit_intercept and not span.sparse:
        sums = rows.map_sum(_FeatureSums(span))
        span = replace(span, origin=sums[1:] / sums[0])
    return rows, span, span.origin, None


@dataclass(frozen=True)
class _Identity:
    """The feature map of points that already are features."""

    def __call__(self, points: Points) -> Any:
        return points.data.copy()


@dataclass(frozen=True, eq=False)
class _FeatureSums:
    """The sums of weights, and of weighted features."""

    span: FeatureSpan

    @_quiet
    def __call__(self, part: RowBlock) -> Array:
        total = np.zeros(1 + len(self.span))
        for rows, _, weights in self.span.rows(part):
            total += np.append(weights.sum(), weights @ rows)
        return total
