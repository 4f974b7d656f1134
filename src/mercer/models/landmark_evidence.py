"""The evidence that data give for hyper-parameters, seen through landmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.hyperparameters import SearchSpace
from mercer.models.likelihood import GaussianEvidence
from mercer.solvers import selection
from mercer.solvers.bound import Bound, BoundSlopes, BoundSums, LandmarkRoot
from mercer.solvers.landmark import Nystrom
from mercer.solvers.selection import Landmarks

Array = NDArray[np.floating[Any]]

# Bytes of kernel values that are in memory at a time, and of features that are kept between the
# pass for the value and the one for the gradient.
_BLOCK_BYTES = 2**24
_KEPT_BYTES = 2**28
# Matrices of the order of the landmarks that an evaluation holds.
_MATRICES = 10


@dataclass(frozen=True, eq=False)
class FeatureRows:
    """Some rows: their whitened features, and the rest of what the bound needs.

    Attributes
    ----------
    rows : slice
        Which rows.
    features : ndarray of shape (b, r)
        F.
    diagonal : ndarray of shape (b,)
        The values k(x, x).
    noise : ndarray of shape (b,)
        The variances of the noise.
    targets : ndarray of shape (b, t)
        The targets.
    """

    rows: slice
    features: Array
    diagonal: Array
    noise: Array
    targets: Array

    def sums(self) -> BoundSums:
        """What they add to the bound."""
        return BoundSums.of(self.features, self.diagonal, self.noise, self.targets)

    def slope(self, slopes: BoundSlopes) -> Array:
        """The derivative of the bound in their kernel values with the landmarks."""
        found: Array = self.features @ slopes.inner
        found += self.targets @ slopes.dual.T
        found /= self.noise[:, None]
        return found


@dataclass(frozen=True, eq=False)
class LandmarkEvidence:
    """The collapsed bound as a function of the free hyper-parameters and of the landmarks.

    It stands where `GaussianEvidence` stands, with the bound in the place of the log marginal
    likelihood. Rows are visited in blocks: memory does not grow with their number, but for the
    features of a pass if those are few.

    Attributes
    ----------
    data : GaussianEvidence
        Kernel, points, targets and noise.
    landmarks : Points
        The landmarks.
    rows : ndarray of int or None
        The rows of the data that they are, if they were chosen among them.
    """

    data: GaussianEvidence
    landmarks: Points
    rows: NDArray[np.intp] | None = None

    @classmethod
    def selected(
        cls,
        data: GaussianEvidence,
        kernel: Kernel,
        solver: Any,
        owner: str,
        given: Landmarks | None = None,
    ) -> LandmarkEvidence:
        """Choose landmarks for a kernel as the solver says, or take those that are given.

        Parameters
        ----------
        data : GaussianEvidence
            The rows.
        kernel : Kernel
            The kernel for which they are chosen.
        solver : Nystrom
            How many and how; "learn" starts with those of "rpcholesky".
        owner : str
            The name of the model, for messages.
        given : Landmarks, optional
            Those that the user gives; they need not be among the rows that count.

        Returns
        -------
        LandmarkEvidence
            With landmarks.
        """
        if given is not None:
            _require_memory(len(given), owner)
            return cls(data, given.points)
        how = solver.landmarks
        found = selection.select(
            kernel,
            data.points,
            "rpcholesky" if isinstance(how, str) and how == "learn" else how,
            solver.n_landmarks,
            random_state=solver.random_state,
            sample_weight=data.noise.weights,
            owner=owner,
            also=("learn",),
        )
        _require_memory(len(found), owner)
        return cls(data, found.points, found.indices)

    # What it shares with the evidence of all rows -----------------------------------------------

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.data.kernel

    @property
    def space(self) -> SearchSpace:
        """The free hyper-parameters, their bounds and where they start."""
        return self.data.space

    @property
    def theta(self) -> Array:
        """The hyper-parameters of this kernel and noise."""
        return self.data.theta

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hyper-parameters."""
        return self.data.names

    def settled(self, theta: Array) -> LandmarkEvidence:
        """The same with the kernel and the noise of theta."""
        kernel, variance = self.data.at(theta)
        noise = replace(self.data.noise, variance=variance)
        return replace(self, data=replace(self.data, kernel=kernel, noise=noise))

    # The bound ----------------------------------------------------------------------------------

    def log_likelihood_at(self, theta: Array) -> float:
        """The bound at theta, every copy of a row counted."""
        return self.look_at(theta)[0]

    def look_at(self, theta: Array) -> tuple[float, float]:
        """The bound at theta, and about how far it is below the log marginal likelihood.

        For targets drawn from the process, the bound is below by the trace of D^-1 (K - Q) at
        most on average, and by half of that where it is small (Burt, Rasmussen and van der Wilk
        2020).
        """
        kernel, variance = self.data.at(theta)
        copies, _ = self.data.noise.copies(variance)
        bound, t = self.bound(kernel, variance), int(self.data.targets.shape[1])
        return bound.value() + t * copies, t * bound.sums.left_out

    def log_likelihood_with_gradient(self, theta: Array) -> tuple[float, Array]:
        """The bound at theta and its gradient."""
        value, gradient, _ = self._with_gradients(theta, positions=False)
        return value, gradient

    def rounding_at(self, theta: Array) -> float:
        """How far rounding may move the bound: it is a difference of sums of this size."""
        kernel, variance = self.data.at(theta)
        points, targets = self.data.points, self.data.targets
        noise = self.data.noise.diagonal(variance)
        prior = targets.shape[1] * kernel.diag(points).astype(np.float64, copy=False)
        energy = np.einsum("ij,ij->i", targets, targets)
        return float(np.finfo(np.float64).eps * np.sum((prior + energy) / noise))

    def with_position_gradient(self, theta: Array) -> tuple[float, Array, Array]:
        """The bound, its gradient in theta, and that in the positions of the landmarks."""
        return self._with_gradients(theta, positions=True)

    def bound(self, kernel: Kernel, variance: float) -> Bound:
        """The bound with its sums over all rows."""
        root = self.root(kernel)
        passes = self.features(kernel, root, variance)
        return Bound(root, reduce(add, (block.sums() for block in passes)))

    def root(self, kernel: Kernel) -> LandmarkRoot:
        """The triangle of the landmarks."""
        square = kernel(self.landmarks).astype(np.float64, copy=False)
        computed = kernel.gram(self.data.points[:1], self.landmarks).dtype
        return LandmarkRoot.of(square, float(np.finfo(computed).eps))

    def features(
        self,
        kernel: Kernel,
        root: LandmarkRoot,
        variance: float,
        data: GaussianEvidence | None = None,
    ) -> Iterator[FeatureRows]:
        """Whitened features of blocks of rows, those of the training data by default."""
        data = self.data if data is None else data
        noise = np.broadcast_to(data.noise.diagonal(variance), (len(data.points),))
        for rows in blocks(len(data.points), len(self.landmarks)):
            points = data.points[rows]
            cross = kernel(points, self.landmarks).astype(np.float64, copy=False)
            diagonal = kernel.diag(points).astype(np.float64, copy=False)
            yield FeatureRows(rows, root.whitened(cross), diagonal, noise[rows], data.targets[rows])

    def _with_gradients(self, theta: Array, *, positions: bool) -> tuple[float, Array, Array]:
        """One pass for the sums, one for the derivatives in the kernel values of each block."""
        kernel, variance = self.data.at(theta)
        root, t = self.root(kernel), self.data.targets.shape[1]
        again = self._passes(kernel, root, variance)
        bound = Bound(root, reduce(add, (block.sums() for block in again())))
        slopes, size = bound.slopes(), len(theta) - self.data.noise.learned
        gradient, moved = np.zeros(len(theta)), np.empty(0)
        if size:
            inner = kernel.gram(self.landmarks).gradient(slopes.square)
            gradient[:size] = inner + sum(self._in_parameters(kernel, slopes, b) for b in again())
        if positions:
            inner = 2 * kernel.gram(self.landmarks).input_gradient(slopes.square)
            moved = inner + sum(self._in_positions(kernel, slopes, block) for block in again())
        copies, copies_slope = self.data.noise.copies(variance)
        if self.data.noise.learned:
            gradient[-1] = slopes.noise + t * copies_slope
        return bound.value() + t * copies, gradient, moved

    def _in_parameters(self, kernel: Kernel, slopes: BoundSlopes, block: FeatureRows) -> Array:
        """What a block adds to the gradient in the parameters of the kernel."""
        points = self.data.points[block.rows]
        cross = kernel.gram(points, self.landmarks).gradient(block.slope(slopes))
        spare = -0.5 * block.targets.shape[1] / block.noise
        return cross + kernel.gram(points).diagonal_gradient(spare)

    def _in_positions(self, kernel: Kernel, slopes: BoundSlopes, block: FeatureRows) -> Array:
        """What a block adds to the gradient in the landmarks."""
        gram = kernel.gram(self.landmarks, self.data.points[block.rows])
        return gram.input_gradient(np.ascontiguousarray(block.slope(slopes).T))

    def _passes(self, kernel: Kernel, root: LandmarkRoot, variance: float) -> Callable[[], Any]:
        """Passes over the features, which are kept from one to the next if they are few."""
        size = 8 * len(self.data.points) * len(self.landmarks)
        if size > min(_KEPT_BYTES, memory.available() // 4):
            return lambda: self.features(kernel, root, variance)
        kept = list(self.features(kernel, root, variance))
        return lambda: kept


def blocks(n: int, m: int) -> Iterator[slice]:
    """Rows, so many at a time that their values with m points stay small.

    Parameters
    ----------
    n : int
        The number of rows.
    m : int
        The number of points.

    Returns
    -------
    iterator of slice
        One after another.
    """
    step = max(256, _BLOCK_BYTES // (8 * max(1, m)))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def given_landmarks(owner: str, kernel: Kernel, points: Points, solver: Any) -> Landmarks | None:
    """The landmarks that a user gives, as points or by the numbers of any rows.

    Parameters
    ----------
    owner : str
        The name of the model, for messages.
    kernel : Kernel
        The kernel, resolved.
    points : Points
        All rows, those of weight 0 among them: a landmark is a place, which need not count.
    solver : object
        The model's solver.

    Returns
    -------
    Landmarks or None
        In double precision; None where landmarks are to be chosen, or there are none.
    """
    if not isinstance(solver, Nystrom) or isinstance(solver.landmarks, str):
        return None
    return selection.select(kernel, _doubled(kernel, points), solver.landmarks, owner=owner)


def _require_memory(m: int, owner: str) -> None:
    memory.require(8 * _MATRICES * m * m, f"{owner} with {m} landmarks", "take fewer of them")


def in_double_precision(data: GaussianEvidence) -> GaussianEvidence:
    """The same with rows of float64: what landmarks leave out is a matter of the last digits.

    Parameters
    ----------
    data : GaussianEvidence
        The rows.

    Returns
    -------
    GaussianEvidence
        Itself unless its rows are an array of float32.
    """
    return replace(data, points=_doubled(data.kernel, data.points))


def _doubled(kernel: Kernel, points: Points) -> Points:
    rows = points.data
    if not (isinstance(rows, np.ndarray) and rows.dtype == np.float32):
        return points
    return kernel.prepare(rows.astype(np.float64))
