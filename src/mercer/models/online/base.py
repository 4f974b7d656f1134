"""Online models: mini-batches, passes, and learning from later rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.iterative import IterativeEstimator, Report
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.online.budgets import Budget
from mercer.models.online.expansion import FeatureExpansion, KernelExpansion, Rows
from mercer.models.representer import RepresenterModel
from mercer.parallel import single_blas
from mercer.sampling import blocks

# Rows of a mini-batch, without and with a budget: large batches save calls, small ones save kernel
# values with points that soon leave.
_BATCH = 512
_BUDGETED_BATCH = 128


@dataclass(frozen=True, eq=False)
class Progress:
    """The state of learning after a mini-batch."""

    expansion: KernelExpansion | FeatureExpansion  # the function
    # errors or mistakes of the rows before they were learned, one array for each mini-batch
    curve: tuple[NDArray[Any], ...] = ()
    n_iter: int = 0  # passes over the rows, including an unfinished one
    converged: bool = False  # whether learning is complete

    @property
    def whole_curve(self) -> NDArray[Any]:
        """The curve as one array."""
        return np.concatenate(self.curve)


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Rows to learn from, at the end of a pool that begins with the dictionary so far."""

    points: Points  # the pool
    targets: NDArray[Any]  # (n,) or (n, n_outputs): the targets of the rows, or codes of classes
    weights: Array  # (n,): the weights of the rows; rows of weight zero are left out
    first: int = 0  # the position of the first row in the pool

    @property
    def counted(self) -> Rows:
        """Positions in the pool of the rows of positive weight."""
        return np.asarray(self.first + np.flatnonzero(self.weights > 0), dtype=np.intp)

    def targets_and_weights(self, rows: Rows) -> tuple[NDArray[Any], Array]:
        """Targets and weights of rows of the pool."""
        return self.targets[rows - self.first], self.weights[rows - self.first]


class OnlineModel(IterativeEstimator, RepresenterModel):
    """Base of models that learn row by row, computed by mini-batches.

    A subclass implements the change of the function by a mini-batch, ``_advance``, and the fitted
    attributes, ``_fitted``. The results are those of a loop over single rows, for any batch size.
    """

    budget: Budget | None  # what bounds the number of points
    batch_size: int | None  # rows computed together
    max_iter: int | None  # passes over the rows in `fit`
    shuffle: bool  # whether each pass of `fit` takes the rows in a new random order
    random_state: Any  # for the order
    n_iter_: int
    rows_: Rows
    _rows_seen: int
    _for_blocks = "fit goes over rows in memory; pass arrays, or the blocks to partial_fit in turn"

    @abstractmethod
    def _advance(self, progress: Progress, rows: Rows, training: TrainingRows) -> Progress:
        """Learn from a mini-batch, given by positions in the pool."""

    @abstractmethod
    def _initial_state(self, training: TrainingRows) -> tuple[Array, tuple[NDArray[Any], ...]]:
        """The coefficients and the learning curve before the training rows."""

    @abstractmethod
    def _fitted(self, progress: Progress) -> dict[str, Any]:
        """The fitted attributes at a state."""

    @abstractmethod
    def _is_done(self, progress: Progress, n: int, passes: int) -> bool:
        """Whether learning is complete after a pass over n rows, of at most `passes`."""

    def _fit_passes(self, training: TrainingRows, passes: int, X: Any, y: Any) -> None:
        """Go over the rows several times, and report every mini-batch to callbacks."""
        n_batches = passes * -(-len(training.counted) // self._batch_rows)
        with self._iterations(X, y, n_batches) as report:
            self._fit_rows(training, passes, report)

    def _fit_rows(self, training: TrainingRows, passes: int, report: Report) -> None:
        """Learn from the rows, and set the fitted attributes."""
        progress, training = self._start(training, passes)
        progress = self._learn(progress, training, passes, report)
        self.__dict__.update(self._fitted(progress))

    def _start(self, training: TrainingRows, passes: int) -> tuple[Progress, TrainingRows]:
        """The function so far, over a pool of its dictionary followed by the training rows."""
        points, pool = training.points, training.points
        numbers = np.arange(len(points), dtype=np.intp)
        if hasattr(self, "points_"):
            numbers = np.concatenate([self.rows_, self._rows_seen + numbers])
            try:
                pool = Points.concatenate([self.points_, points])
            except ValueError as error:
                raise DataError(f"{type(self).__name__}.partial_fit: {error}") from error
        first = len(pool) - len(points)
        coef, curve = self._initial_state(training)
        known = np.arange(first, dtype=np.intp)
        expansion = KernelExpansion(self.kernel_, pool, numbers, known, coef)
        if passes > 1:
            expansion = expansion.keeping_matrix()
        return Progress(expansion, curve), replace(training, points=pool, first=first)

    def _learn(
        self, progress: Progress, training: TrainingRows, passes: int, report: Report
    ) -> Progress:
        """Take the rows by mini-batches in each pass, until done or stopped by a callback."""
        rows = training.counted
        generator = check_random_state(self.random_state) if self.shuffle else None
        for count in range(1, passes + 1):
            progress = replace(progress, n_iter=count)
            order = rows if generator is None else generator.permutation(rows)
            for batch in blocks(len(rows), step=self._batch_rows):
                with single_blas():
                    progress = self._advance(progress, order[batch], training)
                if report(partial(self._fitted, progress)):
                    return progress
            if self._is_done(progress, len(rows), passes):
                return replace(progress, converged=True)
        return progress

    @property
    def _batch_rows(self) -> int:
        return self.batch_size or (_BATCH if self.budget is None else _BUDGETED_BATCH)

    def _check_online_parameters(self) -> None:
        owner = type(self).__name__
        checks.require_flags(self, "shuffle")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise ParameterError(
                f"{owner}: budget = {self.budget!r} is not a budget; pass None, "
                "mercer.budgets.Remove(100), Project(100) or Quantize(0.1)."
            )
        for name, example in (("batch_size", 256), ("max_iter", 10)):
            value = getattr(self, name)
            if value is not None:
                checks.require_count(owner, name, value, example=example)
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise ParameterError(
                f"{owner}: random_state = {self.random_state!r} is no source of random numbers "
                f"({error}); pass None, a whole number >= 0 or a numpy.random.RandomState."
            ) from error


@contextmanager
def all_or_nothing(model: OnlineModel) -> Iterator[None]:
    """Restore the model if learning from further rows fails or is interrupted."""
    before = dict(model.__dict__)
    try:
        yield
    except BaseException:
        model.__dict__.clear()
        model.__dict__.update(before)
        raise


def why_not_more(model: OnlineModel) -> str | None:
    """Why a model cannot learn from later rows; None if it can."""
    if isinstance(model.kernel, Kernel) and model.kernel.input_tags()["pairwise"]:
        return (
            "rows of a given matrix have no kernel values with rows of a later one; use "
            "Precomputed(K) with row numbers as X, or fit"
        )
    return None
