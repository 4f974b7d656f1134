"""Which solver a machine takes, and what each would cost.

The rule: the whole matrix up to 10,000 rows, if it fits in memory, and always for losses with kinks
and for kernels that are not known to be valid; landmarks (`Nystrom`) otherwise. Rows in blocks are
gathered first, if there are no more than 10,000 of them, in no more than one chunk.
`ConjugateGradient` is weighed, but not taken unless it is asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer import memory
from mercer.kernels.base import Kernel
from mercer.solvers.auto import (
    IN_BLOCKS,
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
)
from mercer.solvers.exact import Cholesky, Spectral
from mercer.solvers.iterative import ConjugateGradient, factor_size
from mercer.solvers.landmark import Falkon, Nystrom

#: Rows up to which a factor in every step is a matter of seconds to minutes.
DENSE = 10_000
# Every step costs n m^2 operations, which makes more landmarks dear.
_LANDMARKS = 1000
_UNKNOWNS = 6000
_STEPS = 10
_ITERATIONS = 30
# In Gram matrices: the matrix, itself scaled and the factor; one more factor for each class.
MATRICES = 4.1
_KINKS = "the loss has kinks"


def forecast(
    kernel: Kernel,
    n: int,
    n_outputs: int,
    *,
    smooth: bool,
    joint: bool,
    blocks: bool = False,
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
    m = min(landmark_count(n), _LANDMARKS, max(100, _UNKNOWNS // k), n)
    whole = 8.0 * (MATRICES + (n_outputs if n_outputs > 1 else 0)) * n * n
    work = float(n_outputs) * _STEPS
    pairs = max(1.0, k * (k - 1) / 2) / k
    obstacle = _no_landmarks(kernel, smooth)
    too_many = _no_matrix(n, whole, obstacle)

    def cost(solver: Any) -> Cost:
        if is_exact(solver):
            operations = work * n**3 / 3 + 50.0 * n * n
            return Cost(solver, whole, operations, IN_BLOCKS if blocks else too_many)
        if isinstance(solver, ConjugateGradient):
            rank = solver.rank_for(n)
            size = factor_size(n, rank, np.dtype(np.float64)) + 64.0 * n * k
            operations = work * (pairs * k * n * rank**2 + _ITERATIONS * 50.0 * n * n)
            return Cost(solver, size, operations, _no_products(kernel, smooth, blocks, size))
        m = landmarks_of(solver, n)
        if isinstance(solver, Falkon):
            operations = 60.0 * work * _ITERATIONS * n * m
            return Cost(solver, 32.0 * n_outputs * m**2, operations, obstacle)
        few = 32.0 * (k * m) ** 2
        too_large = obstacle or (TOO_LARGE if few > memory.available() else "")
        return Cost(solver, few, 2 * work * pairs * n * m**2, too_large)

    solvers = (Cholesky(), Nystrom(m), Falkon(m), ConjugateGradient())
    found = _chosen(tuple(map(cost, solvers)), n, obstacle)
    return found if given is None else found.asked_for(cost(given))


def _chosen(costs: tuple[Cost, ...], n: int, obstacle: str) -> Forecast:
    """What "auto" takes, of costs the first two of which are those of its candidates."""
    whole, few = costs[:2]
    if not whole.obstacle:
        reason = f"{n} rows are no more than {DENSE}, and their matrix fits"
        return Forecast(costs, whole.solver, as_reason(obstacle) or reason)
    if few.obstacle:
        return Forecast.impossible(costs, whole, few)
    why = "come in blocks" if whole.obstacle == IN_BLOCKS else "are too many for the whole matrix"
    return Forecast(costs, few.solver, f"{n} rows {why}")


def _no_matrix(n: int, size: float, no_landmarks: str) -> str:
    if size > memory.available():
        return TOO_LARGE
    return MANY_ROWS if n > DENSE and not no_landmarks else ""


def _no_landmarks(kernel: Kernel, smooth: bool) -> str:
    if not smooth:
        return _KINKS
    return no_landmarks(kernel)


def _no_products(kernel: Kernel, smooth: bool, blocks: bool, size: float) -> str:
    if not smooth:
        return _KINKS
    if blocks:
        return IN_BLOCKS
    return TOO_LARGE if size > memory.available() else not_positive(kernel) or UNASKED


def needs_all_rows(solver: Any) -> bool:
    """Whether a solver needs all rows in memory.

    Parameters
    ----------
    solver : object
        The solver.

    Returns
    -------
    bool
        True for `Cholesky`, `Spectral` and `ConjugateGradient`.
    """
    return is_exact(solver) or isinstance(solver, ConjugateGradient)


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
