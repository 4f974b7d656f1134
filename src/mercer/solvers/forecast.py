"""Which solver to take, and what each of them would cost.

The rule, in the order in which it is applied:

1. features, if the kernel has fewer of them than would pay (`Primal`);
2. the matrix in memory, up to 15,000 rows, if it fits (`Cholesky`);
3. conjugate gradients, up to 100,000 rows (`ConjugateGradient`);
4. landmarks (`NystromSolver`).

Rows that come in blocks leave the first and the last; up to 100,000 rows in no more than one chunk
are gathered before they come here. A kernel that is not known to be valid has its matrix looked at
as a whole, if it fits; where nothing else is left, conjugate gradients are taken beyond 100,000
rows too. `Spectral`, `Falkon` and `RandomFeatures` are weighed, but not taken unless they are asked
for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.kernels.containers import len_of
from mercer.landmarks.selection import contains_noise
from mercer.solvers.conjugate_gradient import ConjugateGradient, factor_size
from mercer.solvers.dense import Cholesky, Spectral
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.kernel_features import no_frequencies, own_features
from mercer.solvers.nystrom import Falkon, NystromSolver
from mercer.solvers.task import RidgeTask

# Rows up to which a dense factor is a matter of seconds to minutes.
_DENSE = 15_000
#: Rows up to which products with the whole matrix are.
WHOLE = 100_000
_ITERATIONS = 60
FALKON_ITERATIONS = 30
_DENSE_MATRICES = 1.1
_SEARCH_MATRICES = 4.1
#: The obstacle of those that are weighed, but not taken unless they are asked for.
UNASKED = "if asked for"
IN_BLOCKS = "rows come in blocks"
#: The obstacle that nobody can ask a solver to overlook.
TOO_LARGE = "does not fit in memory"
# What landmarks cannot do with.
_WHITE = "the kernel contains White"
_INVALID = "the kernel is not valid"
_UNSURE = "the kernel is not known to be valid"
#: Those that speak against a solver which is not asked for, and against no other.
UNKNOWN = f"{UNASKED}: {_UNSURE}"
MANY_ROWS = "many rows"
MANY_FEATURES = "as many features as rows"
_PREFERENCES = (UNASKED, UNKNOWN, MANY_ROWS, MANY_FEATURES)
# Why the whole matrix is not taken.
_NO_MATRIX = {
    IN_BLOCKS: IN_BLOCKS,
    TOO_LARGE: "the whole matrix does not fit in memory",
    MANY_ROWS: "rows are too many for the whole matrix",
}
# What can be done where neither landmarks nor the whole matrix are possible.
_WAYS_OUT = {
    _WHITE: "leave White out, and give its variance to the model as alpha= or noise=",
    _INVALID: "take fewer rows, or a kernel whose is_psd is True",
    UNKNOWN: "ask for mercer.solvers.NystromSolver() if you know that it is",
}


@dataclass(frozen=True)
class Cost:
    """What a solver would take."""

    solver: Any
    size: float | None  # bytes, beside the data; None where there is nothing to compute
    operations: float | None  # floating-point operations, about
    # why it is out of the question, or not what "auto" takes; empty if it is neither
    obstacle: str = ""

    @property
    def overlooked(self) -> Cost:
        """The same of a solver that is taken all the same: without what speaks against auto's."""
        return replace(self, obstacle="") if self.obstacle in _PREFERENCES else self

    @property
    def line(self) -> str:
        """Name, amounts and obstacle, in columns."""
        name = type(self.solver).__name__
        size = "-" if self.size is None else memory.readable(int(self.size))
        operations = "-" if self.operations is None else f"{self.operations:.1e}"
        return f"{name:<22} {size:>10} {operations:>11}  {self.obstacle}".rstrip()


@dataclass(frozen=True)
class Forecast:
    """What every solver would take, and which one is taken.

    Attributes
    ----------
    costs : tuple of Cost
        One for each solver.
    chosen : object
        The solver.
    reason : str
        Why it is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.zeros((50_000, 3))
    >>> print(mc.forecast(mc.KernelRidge(mc.RBF(1.0)), X).reason)
    50000 rows are more than 15000, and no more than 100000
    """

    costs: tuple[Cost, ...]
    chosen: Any
    reason: str

    def __str__(self) -> str:
        lines = [f"{'solver':<24} {'memory':>10} {'operations':>11}"]
        for cost in self.costs:
            taken = type(cost.solver) is type(self.chosen) and self.is_possible
            lines.append(f"* {cost.overlooked.line}" if taken else f"  {cost.line}")
        return "\n".join([*lines, f"{'*' if self.is_possible else 'none:'} {self.reason}"])

    def asked_for(self, cost: Cost) -> Forecast:
        """The same where the model has a solver of its own.

        Parameters
        ----------
        cost : Cost
            What that solver would take.

        Returns
        -------
        Forecast
            With that solver as the one that is taken.
        """
        own = cost.overlooked
        others = [other for other in self.costs if type(other.solver) is not type(own.solver)]
        place = next(
            (i for i, other in enumerate(self.costs) if type(other.solver) is type(own.solver)),
            len(others),
        )
        taken = type(self.chosen).__name__
        auto = f"would take {taken}" if self.is_possible else "finds no solver"
        reason = f'asked for; "auto" {auto}: {self.reason}'
        return Forecast((*others[:place], own, *others[place:]), own.solver, reason)

    @property
    def is_possible(self) -> bool:
        """Whether what is chosen would be fitted, and not refused."""
        return not any(
            type(cost.solver) is type(self.chosen) and cost.overlooked.obstacle
            for cost in self.costs
        )

    @classmethod
    def impossible(cls, costs: tuple[Cost, ...], whole: Cost, few: Cost) -> Forecast:
        """Neither the whole matrix nor landmarks.

        Parameters
        ----------
        costs : tuple of Cost
            One for each solver.
        whole, few : Cost
            Those of the whole matrix and of landmarks.

        Returns
        -------
        Forecast
            With what stands in the way, and the way out.
        """
        way = _WAYS_OUT.get(few.obstacle, "take fewer rows")
        reason = f"{as_reason(few.obstacle)}, and {_NO_MATRIX[whole.obstacle]}; {way}"
        return cls(costs, few.solver if whole.obstacle == IN_BLOCKS else whole.solver, reason)


def forecast(task: RidgeTask, *, searches: bool, given: Any = None) -> Forecast:
    """Weigh the solvers for a task."""
    m = min(task.rows.statistics.rows, landmark_count(task.n))  # rows of weight 0 are no landmarks
    candidates = [
        _cost(task, solver, searches)
        for solver in (Primal(), Cholesky(), ConjugateGradient(), NystromSolver(m))
    ]
    others = [_cost(task, solver, searches) for solver in (Spectral(), Falkon(m), waves(m))]
    costs = (*candidates, *(replace(cost, obstacle=cost.obstacle or UNASKED) for cost in others))
    found = _chosen(task, costs)
    return found if given is None else found.asked_for(_cost(task, given, searches))


def _chosen(task: RidgeTask, costs: tuple[Cost, ...]) -> Forecast:
    """What "auto" takes, of costs the first four of which are those of its candidates."""
    candidates = costs[:4]
    for cost, reason in zip(candidates, _reasons(task), strict=True):
        if not cost.obstacle:
            return Forecast(costs, cost.solver, reason)
    _, whole, products, few = candidates
    reason = f"{as_reason(few.obstacle)}, and {_NO_MATRIX[whole.obstacle]}"
    for cost in (products, few):
        if cost.obstacle == UNKNOWN:
            return Forecast(costs, cost.solver, reason)
    if products.obstacle == MANY_ROWS:
        return Forecast(costs, products.solver, reason)
    return Forecast.impossible(costs, whole, few)


def widest(tasks: Sequence[RidgeTask]) -> RidgeTask:
    """The task whose kernel has the most features: what serves it serves the others."""
    if len(tasks) == 1:
        return tasks[0]
    widths = [own_features(task.kernel, task.rows)[0] for task in tasks]
    return tasks[int(np.argmax([np.inf if width is None else width for width in widths]))]


def _reasons(task: RidgeTask) -> tuple[str, ...]:
    n = task.n
    return (
        f"the kernel has fewer features than would pay for {n} rows",
        f"{n} rows are no more than {_DENSE}, and their matrix fits"
        if n <= _DENSE
        else f"{as_reason(not_positive(task.kernel))}, and the matrix of {n} rows fits",
        f"{n} rows are more than {_DENSE}, and no more than {WHOLE}",
        f"{n} rows are too many for the whole matrix"
        if task.held
        else f"{n} rows come in blocks, and landmarks need only sums over them",
    )


def _cost(task: RidgeTask, solver: Any, searches: bool) -> Cost:
    """What a solver would take, and why it is out of the question or not what "auto" takes."""
    size, operations = _amounts(task, solver, searches)
    return Cost(solver, size, operations, _obstacle(task, solver, size))


def _amounts(task: RidgeTask, solver: Any, searches: bool) -> tuple[float | None, float | None]:
    """Bytes and operations; None where there is nothing to compute, or nothing known."""
    n, t, item = task.n, task.n_targets + 1, task.dtype.itemsize
    pairs = 50.0 * n * n  # a kernel value and its share of a product
    if isinstance(solver, Primal):
        width, _ = own_features(task.kernel, task.rows)
        return (None, None) if width is None else (8.0 * width * (width + 3 * t), n * width**2.0)
    if isinstance(solver, Cholesky | Spectral):
        whole = searches or isinstance(solver, Spectral)
        cubes = 9.0 if isinstance(solver, Spectral) else 4.0 if searches else 1 / 3
        matrices = _SEARCH_MATRICES if whole else _DENSE_MATRICES
        return matrices * n * n * item, cubes * n**3 + pairs
    if isinstance(solver, ConjugateGradient):
        rank = solver.rank_for(n)
        size = factor_size(n, rank, task.dtype) + 64.0 * n * t
        return size, 2.0 * n * rank**2 + _ITERATIONS * pairs
    if isinstance(solver, NystromSolver):
        m = landmarks_of(solver, n)
        return 8.0 * 5 * m * m, float(n) * m**2 + 50.0 * n * m
    if isinstance(solver, Falkon):
        m = landmarks_of(solver, n)
        return 8.0 * 4 * m * m, float(m) ** 3 + 50.0 * FALKON_ITERATIONS * n * m
    width = solver.n_features if isinstance(solver, RandomFeatures) else None
    if width is None:
        return None, None
    held = 8.0 * n * width
    stored = held if task.held and held <= memory.available() / 4 else 0.0
    return 8.0 * 2 * width**2 + stored, float(n) * width**2


def _obstacle(task: RidgeTask, solver: Any, size: float | None) -> str:
    if isinstance(solver, Primal):
        return _no_primal(task)
    if isinstance(solver, Cholesky | Spectral):
        return _no_dense(task, size or 0.0, memory.available())
    if isinstance(solver, ConjugateGradient):
        return _no_iterations(task, size or 0.0, memory.available())
    if isinstance(solver, RandomFeatures):
        missing = no_frequencies(task.kernel, solver.map)
        return _no_alpha(task) or missing or not_positive(task.kernel)
    return no_landmarks(task.kernel)


def waves(n_components: int) -> RandomFeatures:
    """The random features that are weighed."""
    # Maps are made from kernels, and with the base of the models, so that they come after solvers.
    from mercer.features.fourier import RandomFourier

    return RandomFeatures(RandomFourier(n_components=n_components))


def landmarks_of(solver: NystromSolver | Falkon, n: int) -> int:
    """The number of landmarks that a solver takes."""
    chosen = solver.landmarks
    return min(n, solver.n_landmarks) if isinstance(chosen, str) else len_of(chosen)


def landmark_count(n: int) -> int:
    """Landmarks to take for so many rows."""
    return int(np.clip(5 * np.sqrt(n), 500, 4000))


def _no_primal(task: RidgeTask) -> str:
    width, missing = own_features(task.kernel, task.rows)
    if width is None or missing:
        return missing
    if zero := _no_alpha(task):
        return zero
    return MANY_FEATURES if 3 * width**2 >= task.n**2 else not_positive(task.kernel)


def _no_dense(task: RidgeTask, size: float, free: int) -> str:
    if not task.held:
        return IN_BLOCKS
    if size > free:
        return TOO_LARGE
    # An indefinite matrix can be looked at, and mended, only as a whole.
    return "" if task.n <= _DENSE or task.kernel.is_psd is not True else MANY_ROWS


def _no_iterations(task: RidgeTask, size: float, free: int) -> str:
    if not task.held:
        return IN_BLOCKS
    if task.kernel.is_psd is False:
        return _INVALID
    if zero := _no_alpha(task):
        return zero
    if task.n > WHOLE:  # where the factor takes gigabytes
        return TOO_LARGE if size > free else MANY_ROWS
    return not_positive(task.kernel)


def _no_alpha(task: RidgeTask) -> str:
    return "" if task.alphas.min() > 0 else "alpha is 0"


def not_positive(kernel: Kernel) -> str:
    """Why solvers that do not look at the whole matrix are not for a kernel."""
    if kernel.is_psd is None:
        return UNKNOWN
    return "" if kernel.is_psd else _INVALID


def no_landmarks(kernel: Kernel) -> str:
    """Why landmarks cannot stand for the rows."""
    return _WHITE if contains_noise(kernel) else not_positive(kernel)


def as_reason(obstacle: str) -> str:
    """What an obstacle says of the data, and not of who may overlook it."""
    return _UNSURE if obstacle == UNKNOWN else obstacle
