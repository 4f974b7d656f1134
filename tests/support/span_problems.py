"""Rows, losses and spans of functions, for tests of Newton's method on sums over rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

import mercer as mc
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.linalg.whitening import whiten
from mercer.rows.rows import RowBlock, RowStatistics
from mercer.solvers.newton.row_losses import JointLoss, RowLoss, SingleLoss
from mercer.solvers.newton.spans import CONSTANTS, FeatureSpan, LandmarkSpan, Span

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
N, M = 700, 12
X = RNG.normal(size=(N, 2))
KERNEL = mc.RBF(1.0)
W = RNG.uniform(0.5, 2.0, size=N)
LOSSES: list[RowLoss] = [
    SingleLoss(mc.losses.Logistic()),
    SingleLoss(mc.losses.Poisson(), 1),
    JointLoss(3),
]
SIGNS = np.where(np.sin(3 * X[:, 0]) > X[:, 1], 1.0, -1.0)
CODES = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)


def targets(loss: RowLoss) -> Array:
    if isinstance(loss, JointLoss):
        return CODES[:, None]
    return np.column_stack([SIGNS, RNG.poisson(2.0, size=N).astype(float)])


def name(value: Any) -> str:
    return repr(value)


@dataclass(frozen=True)
class Parts:
    """Rows in parts of unequal sizes, each of which gets a summand of its own, sent by pickle."""

    whole: RowBlock

    def __len__(self) -> int:
        return len(self.whole)

    @property
    def statistics(self) -> RowStatistics:
        return RowStatistics.of(self.whole.targets, self.whole.weights)

    def map_sum(self, summand: Callable[[RowBlock], Any]) -> Any:
        total: Any = None
        for rows in (slice(0, 1), slice(1, 400), slice(400, N)):
            part = RowBlock(
                mc.Points(self.whole.points.data[rows]),
                self.whole.targets[rows],
                self.whole.mass[rows],
            )
            found = pickle.loads(pickle.dumps(summand))(part)
            total = found if total is None else total + found
        return total

    def points_at(self, indices: NDArray[np.intp]) -> Points:
        return self.whole.points[indices]


def span(*, whitened: bool = True) -> LandmarkSpan:
    points = mc.Points(X[:M])
    return LandmarkSpan(LandmarkFeatures.of(KERNEL, points, whiten(KERNEL(points))), whitened)


@dataclass(frozen=True)
class Monomials:
    """Features of a polynomial kernel, dense or sparse."""

    sparse: bool

    def __call__(self, points: Points) -> Any:
        x, z = points.data.T
        phi = np.stack([x, z, x**2, np.sqrt(2) * x * z, z**2, x**3], axis=1)
        return sp.csr_array(phi) if self.sparse else phi


def part(loss: RowLoss) -> RowBlock:
    return RowBlock(mc.Points(X), targets(loss), W)


SPANS: dict[str, Span] = {
    "whitened": span(),
    "plain": span(whitened=False),
    "features": FeatureSpan(Monomials(sparse=False), 6),
    "about": FeatureSpan(Monomials(sparse=False), 6, np.arange(6.0)),
    "sparse": FeatureSpan(Monomials(sparse=True), 6, sparse=True),
    "constants": CONSTANTS,
}
