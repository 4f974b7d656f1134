"""What online models share: mini-batches, passes, budgets, and learning from later rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from mercer.estimator import checks
from mercer.estimator.iterative import IterativeEstimator, Report
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.online.budgets import Budget
from mercer.models.online.expansion import FeatureExpansion, KernelExpansion, Rows
from mercer.models.representer import RepresenterModel
from mercer.parallel import blas_threads

Array = NDArray[np.floating[Any]]

_BATCH, _BUDGETED_BATCH = 512, 128


@dataclass(frozen=True, eq=False)
class Progress:
    """How far learning has come."""

    expansion: KernelExpansion | FeatureExpansion  # the function
    # what was found at each row before it was learned, in the order of the rows
    curve: tuple[NDArray[Any], ...] = ()
    n_iter: int = 0  # passes over the rows, the last one perhaps begun only
    converged: bool = False  # whether learning is complete
    reach: float = 0.0  # what the norm of the function is at most, where that is followed

    def after(self, expansion: KernelExpansion | FeatureExpansion, found: NDArray[Any]) -> Progress:
        """The state after one more mini-batch."""
        return replace(self, expansion=expansion, curve=(*self.curve, found))

    @property
    def whole_curve(self) -> NDArray[Any]:
        """The curve in one piece."""
        return np.concatenate(self.curve)


@dataclass(frozen=True, eq=False)
class Lesson:
    """Rows to learn from."""

    points: Points  # the pool: what is known already, then the rows
    targets: NDArray[Any]  # (n,) or (n, n_outputs): their targets, or the numbers of their classes
    weights: Array  # (n,): their weights; rows of weight zero are passed over
    first: int = 0  # where in the pool they begin

    @property
    def rows(self) -> Rows:
        """The rows of the pool that count."""
        return np.asarray(self.first + np.flatnonzero(self.weights > 0), dtype=np.intp)

    def of(self, rows: Rows) -> tuple[NDArray[Any], Array]:
        """Targets and weights of rows of the pool."""
        return self.targets[rows - self.first], self.weights[rows - self.first]


class OnlineModel(IterativeEstimator, RepresenterModel):
    """Base of models that learn row by row, computed by mini-batches.

    A subclass says how a mini-batch changes the function, ``_advance``, and what is stored,
    ``_fitted``. The results are those of a loop over single rows, whatever the size of batches.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.
    budget : Budget, optional
        What bounds the number of points; by default nothing does.
    batch_size : int, optional
        Rows computed together; by default 512, with a budget 128.
    max_iter : int, optional
        Passes over the rows in `fit`.
    shuffle : bool, default=False
        Whether each pass of `fit` takes the rows in a new random order.
    random_state : int, RandomState or None
        For the order.
    """

    rows_: Rows
    _rows_seen: int
    _for_blocks = "fit goes over rows in memory; pass arrays, or the blocks to partial_fit in turn"

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        budget: Budget | None = None,
        batch_size: int | None = None,
        max_iter: int | None = None,
        shuffle: bool = False,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel)
        self.budget = budget
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state

    # To be written by subclasses ------------------------------------------------------------------

    @abstractmethod
    def _advance(self, progress: Progress, rows: Rows, lesson: Lesson) -> Progress:
        """Take learning further by a mini-batch, rows of the pool."""

    @abstractmethod
    def _so_far(self, lesson: Lesson) -> tuple[Array, tuple[NDArray[Any], ...]]:
        """The coefficients and the curve with which a lesson begins."""

    @abstractmethod
    def _fitted(self, progress: Progress) -> dict[str, Any]:
        """The fitted attributes at a state."""

    @abstractmethod
    def _is_done(self, progress: Progress, n: int, passes: int) -> bool:
        """Whether learning is complete after a pass over n rows, `passes` being the most."""

    # The engine -----------------------------------------------------------------------------------

    def _fit_rows(self, lesson: Lesson, passes: int, report: Report) -> None:
        """Learn a lesson, and store what was found."""
        progress, lesson = self._start(lesson, passes)
        progress = self._learn(progress, lesson, passes, report)
        self.__dict__.update(self._fitted(progress))

    def _start(self, lesson: Lesson, passes: int) -> tuple[Progress, Lesson]:
        """The function so far, over a pool that ends with the rows of the lesson."""
        pool, numbers = self._pooled(lesson.points)
        first = len(pool) - len(lesson.points)
        coef, curve = self._so_far(lesson)
        known = np.arange(first, dtype=np.intp)
        expansion = KernelExpansion(self.kernel_, pool, numbers, known, coef)
        if passes > 1:
            expansion = expansion.keeping_matrix()
        return Progress(expansion, curve), replace(lesson, points=pool, first=first)

    def _learn(self, progress: Progress, lesson: Lesson, passes: int, report: Report) -> Progress:
        """Take the rows by mini-batches, again in each pass; callbacks may end it."""
        rows = lesson.rows
        generator = check_random_state(self.random_state) if self.shuffle else None
        for count in range(1, passes + 1):
            progress = replace(progress, n_iter=count)
            order = rows if generator is None else generator.permutation(rows)
            for start in range(0, len(rows), self._batch_rows):
                with blas_threads(1):  # mini-batches are too small to share
                    batch = order[start : start + self._batch_rows]
                    progress = self._advance(progress, batch, lesson)
                if report(partial(self._fitted, progress)):
                    return progress
            if self._is_done(progress, len(rows), passes):
                return replace(progress, converged=True)
        return progress

    @contextmanager
    def _as_a_whole(self) -> Iterator[None]:
        """Bring the model back to what it was if learning from further rows fails."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    @property
    def _batch_rows(self) -> int:
        """Rows of a mini-batch: many save calls, few save pairs with points that soon leave."""
        return self.batch_size or (_BATCH if self.budget is None else _BUDGETED_BATCH)

    def _steps(self, n: int, passes: int) -> int:
        """The number of mini-batches in some passes over n rows."""
        return passes * -(-n // self._batch_rows)

    def _pooled(self, points: Points) -> tuple[Points, Rows]:
        """The dictionary followed by new rows, and their numbers among all that were given."""
        known = getattr(self, "points_", None)
        if known is None:
            return points, np.arange(len(points), dtype=np.intp)
        new = np.arange(self._rows_seen, self._rows_seen + len(points), dtype=np.intp)
        try:
            return Points.concatenate([known, points]), np.concatenate([self.rows_, new])
        except ValueError as error:
            raise DataError(f"{type(self).__name__}.partial_fit: {error}") from error

    # Parameters -----------------------------------------------------------------------------------

    def _check_online_parameters(self) -> None:
        checks.require_flags(self, "shuffle")
        if self.budget is not None and not isinstance(self.budget, Budget):
            raise ParameterError(
                f"{type(self).__name__}: budget = {self.budget!r} is not a budget; pass None, "
                "mercer.budgets.Remove(100), Project(100) or Quantize(0.1)."
            )
        if self.batch_size is not None:
            self._check_count("batch_size", self.batch_size, "256, or None")
        if self.max_iter is not None:
            self._check_count("max_iter", self.max_iter, "10, or None")
        try:
            check_random_state(self.random_state)
        except ValueError as error:
            raise ParameterError(
                f"{type(self).__name__}: random_state = {self.random_state!r} is no source of "
                f"random numbers ({error}); pass None, a whole number >= 0 or a "
                "numpy.random.RandomState."
            ) from error

    def _check_count(self, name: str, value: object, example: str) -> None:
        whole = isinstance(value, Integral) and not isinstance(value, bool)
        if not whole or int(value) < 1:  # type: ignore[call-overload]
            raise ParameterError(
                f"{type(self).__name__}: {name} = {value!r} is not a whole number of at least 1; "
                f"pass for example {example}."
            )


def why_not_more(model: OnlineModel) -> str | None:
    """Why a model cannot learn from later rows; None if it can."""
    if isinstance(model.kernel, Kernel) and model.kernel.input_tags()["pairwise"]:
        return (
            "rows of a given matrix have no kernel values with rows of a later one; use "
            "Precomputed(K) with row numbers as X, or fit"
        )
    return None


def silent(fitted: Callable[[], dict[str, Any]]) -> bool:
    """Stand in for the report of progress where nobody listens."""
    return False
