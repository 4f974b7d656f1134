"""Which solver a machine takes, and what each would cost.

The rule, in the order in which it is applied:

1. features of the kernel's own, if they cost less than the whole matrix would (`Primal`);
2. the whole matrix up to 10,000 rows, if it fits in memory (`Cholesky`), and always for losses with
   kinks and for kernels that are not known to be valid;
3. landmarks (`Nystrom`).

Rows in blocks are gathered first, if there are no more than 10,000 of them, in no more than one
chunk; otherwise they leave the first and the last. `Falkon` and `RandomFeatures` are weighed, but
not taken unless they are asked for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.solvers.auto import (
    IN_BLOCKS,
    MANY_FEATURES,
    MANY_ROWS,
    TOO_LARGE,
    UNASKED,
    Cost,
    Forecast,
    as_reason,
    landmark_count,
    landmarks_of,
    no_landmarks,
    not_positive,
    waves,
)
from mercer.solvers.exact import Cholesky, Spectral
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.feature_machine import UNKNOWNS, in_one_matrix, may_hold
from mercer.solvers.kernel_features import NO_FEATURES, no_frequencies
from mercer.solvers.landmark import Falkon, Nystrom

#: Rows up to which a factor in every step is a matter of seconds to minutes.
DENSE = 10_000
# Every step costs n m^2 operations, which makes more landmarks dear.
_LANDMARKS = 1000
_STEPS = 10
_ITERATIONS = 30
# In Gram matrices: the matrix, itself scaled and the factor; one more factor for each class.
MATRICES = 4.1


def forecast(
    kernel: Kernel,
    n: int,
    n_outputs: int,
    *,
    smooth: bool,
    joint: bool,
    blocks: bool = False,
    own: tuple[int | None, str] | None = None,
    given: Any = None,
) -> Forecast:
    """Weigh the solvers of a machine.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    n : int
        The number of rows.
    n_outputs : int
        The number of functions.
    smooth : bool
        Whether the loss is smooth.
    joint : bool
        Whether the functions are fitted together.
    blocks : bool
        Whether the rows come in blocks.
    own : tuple of int and str, optional
        The number of features of the kernel's own, and what keeps them from being taken
        (`kernel_features.own_features`).
    given : solver, optional
        The one that the user asks for; by default "auto" chooses.

    Returns
    -------
    Forecast
        The costs and the choice.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.solvers import machine_auto
    >>> machine_auto.forecast(mc.RBF(1.0), 100_000, 1, smooth=True, joint=False).chosen
    Nystrom(n_landmarks=1000, landmarks='uniform', random_state=None)
    """
    k = n_outputs if joint else 1
    m = min(landmark_count(n), _LANDMARKS, max(100, UNKNOWNS // k), n)
    whole = 8.0 * (MATRICES + (n_outputs if n_outputs > 1 else 0)) * n * n
    work = float(n_outputs) * _STEPS
    all_pairs = work * n**3 / 3 + 50.0 * n * n
    kinks = "" if smooth else "the loss has kinks"
    obstacle = kinks or no_landmarks(kernel)
    too_many = _no_matrix(n, whole, obstacle)

    def cost(solver: Any) -> Cost:
        if is_exact(solver):
            return Cost(solver, whole, all_pairs, IN_BLOCKS if blocks else too_many)
        if isinstance(solver, Primal):
            width, missing = own or (None, NO_FEATURES)
            size, operations = _of_features(n, width, k, work, blocks=blocks)
            dear = MANY_FEATURES if operations is not None and operations >= all_pairs else ""
            missing = kinks or missing or not_positive(kernel)
            return Cost(solver, size, operations, missing or _too_large(size) or dear)
        if isinstance(solver, RandomFeatures):
            size, operations = _of_features(n, solver.n_features, k, work, blocks=blocks)
            missing = kinks or no_frequencies(kernel, solver.map) or not_positive(kernel)
            return Cost(solver, size, operations, missing or _too_large(size))
        m = landmarks_of(solver, n)
        if isinstance(solver, Falkon):
            operations = 60.0 * work * _ITERATIONS * n * m
            return Cost(solver, 32.0 * n_outputs * m**2, operations, obstacle)
        few = 32.0 * (k * m) ** 2
        return Cost(solver, few, 2 * work * _pairs(k) * n * m**2, obstacle or _too_large(few))

    costs = [cost(solver) for solver in (Primal(), Cholesky(), Nystrom(m), Falkon(m), waves(m))]
    costs[-1] = replace(costs[-1], obstacle=costs[-1].obstacle or UNASKED)
    found = _chosen(tuple(costs), n, obstacle)
    return found if given is None else found.asked_for(cost(given))


def _chosen(costs: tuple[Cost, ...], n: int, obstacle: str) -> Forecast:
    """What "auto" takes, of features, the whole matrix and landmarks."""
    own, whole, few = costs[:3]
    if not own.obstacle:
        return Forecast(costs, own.solver, f"the kernel has few features beside {n} rows")
    if not whole.obstacle:
        reason = f"{n} rows are no more than {DENSE}, and their matrix fits"
        return Forecast(costs, whole.solver, as_reason(obstacle) or reason)
    if few.obstacle:
        return Forecast.impossible(costs, whole, few)
    why = "come in blocks" if whole.obstacle == IN_BLOCKS else "are too many for the whole matrix"
    return Forecast(costs, few.solver, f"{n} rows {why}")


def _of_features(
    n: int, width: int | None, k: int, work: float, *, blocks: bool
) -> tuple[float | None, float | None]:
    """Bytes and operations of a machine on so many features, as far as their number is known."""
    if width is None:
        return None, None
    held, turning = 8.0 * n * width, 0.0
    stored = held if not blocks and may_hold(held) else 0.0
    if n < width and not blocks:  # rows are turned to coordinates in their span
        stored, turning, width = 2 * held, 4.0 * width * n**2, n
    if in_one_matrix(k, width):
        operations = 2 * work * _pairs(k) * n * width**2 + work * k**2 * width**3 / 3
        return 32.0 * (k * width) ** 2 + stored, operations + turning
    iterations = 4.0 * _ITERATIONS * n * width
    return 32.0 * k * width**2 + stored, work * (iterations + width**3) + turning


def _pairs(k: int) -> float:
    """Matrices of second derivatives for each of k functions that are fitted together."""
    return max(1.0, k * (k - 1) / 2) / k


def _too_large(size: float | None) -> str:
    return TOO_LARGE if size is not None and size > memory.available() else ""


def _no_matrix(n: int, size: float, no_landmarks: str) -> str:
    if size > memory.available():
        return TOO_LARGE
    return MANY_ROWS if n > DENSE and not no_landmarks else ""


def is_exact(solver: Any) -> bool:
    """Whether a solver works on the whole matrix.

    Parameters
    ----------
    solver : object
        The solver.

    Returns
    -------
    bool
        True for `Cholesky` and `Spectral`.
    """
    return isinstance(solver, Cholesky | Spectral)
