"""Which solver a Gaussian process takes, for its hyper-parameters and for its posterior.

The rule of "auto", in the order in which it is applied:

1. features for both, if the kernel has few of them: four rows for each, and few enough in all that
   a search passes over them quickly; where nothing is learned, fewer than would pay;
2. the whole matrix for both, up to 4,000 rows;
3. the collapsed bound for the hyper-parameters and the whole matrix for the posterior, up to 15,000
   rows, if it fits in memory;
4. the bound for the hyper-parameters, conjugate gradients for the mean and landmarks for the
   variances, up to 100,000 rows;
5. landmarks for everything.

A search on the bound begins with 128 landmarks, and takes twice as many, up to 1,024, while they
leave too much out. Where that is still too few, and the mean is that of all rows, hyper-parameters
are learned from the whole matrix of 4,000 rows; then, if the posterior is exact and a gradient fits
in memory, from all rows.

`Spectral`, `Falkon` and `RandomFeatures` are weighed, but not taken unless they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mercer import memory
from mercer.estimator.base import shown
from mercer.exceptions import ParameterError
from mercer.landmarks.selection import Landmarks, require_no_noise
from mercer.models.gaussian_process.exact import ExactObjective
from mercer.rows.rows import InMemory, RowBlock
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.dense import Cholesky, Spectral
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.forecast import (
    FALKON_ITERATIONS,
    MANY_FEATURES,
    MANY_ROWS,
    TOO_LARGE,
    UNASKED,
    UNKNOWN,
    Cost,
    Forecast,
    as_reason,
    landmark_count,
    landmarks_of,
    no_landmarks,
    waves,
)
from mercer.solvers.kernel_features import NO_FEATURES, no_frequencies, own_features
from mercer.solvers.nystrom import Falkon, NystromSolver

# Rows up to which every evaluation may factorise the whole matrix, and one may.
_EXACT = 4_000
_DENSE = 15_000
# Rows up to which products with the whole matrix are a matter of seconds.
_WHOLE = 100_000
# Landmarks of a search of hyper-parameters, as many as it may take instead, and rows that it
# looks at. An evaluation with a fourth as many landmarks as rows costs half of one with all rows.
_SEARCH_LANDMARKS = 128
_MOST_SEARCH_LANDMARKS = 1_024
SEARCH_ROWS = 10_000
# Rows for each feature from which a search in features costs half of one with the whole matrix,
# and rows times squared features up to which it is as quick as one on the most landmarks.
_ROWS_PER_FEATURE = 4
_MOST_SQUARES = SEARCH_ROWS * _MOST_SEARCH_LANDMARKS**2
_EVALUATIONS = 100
_ITERATIONS = 60
_MOST_ITERATIONS = 200
# In matrices: the factor takes the matrix's place; a gradient takes room for two more.
_FACTOR_MATRICES = 1.1
_LEARNING_MATRICES = 3.2
# Low-rank factors that conjugate gradients hold while they make their preconditioner.
_FACTORS = 4
# Bytes beyond which landmarks are drawn at random rather than by a factor of all rows.
_CHOICE_BYTES = 2**30

SOLVERS = (Cholesky, Spectral, Primal, ConjugateGradient, NystromSolver, Falkon, RandomFeatures)


@dataclass(frozen=True)
class Reserve:
    """What a search may turn to where its landmarks leave too much out."""

    landmarks: int  # as many as it may take at most
    # how many rows to learn from by their whole matrix, if that is not enough; 0 for none
    rows: int = 0
    everything: bool = False  # whether to go on with the whole matrix of all rows


@dataclass(frozen=True)
class Plan:
    """How a Gaussian process is fitted."""

    solver: Any  # of the posterior
    search: Any  # of the hyper-parameters
    landmarks: Any = None  # of the variances, if they are those of landmarks
    # what the search may turn to; None for one with the solver that the user asks for
    reserve: Reserve | None = None
    given: Landmarks | None = None  # the landmarks of the mean themselves, if the user gives them

    @property
    def is_exact(self) -> bool:
        """Whether the whole matrix is used throughout."""
        return all(isinstance(one, Cholesky | Spectral) for one in (self.solver, self.search))


def require_solver(owner: str, solver: object) -> None:
    """Refuse what is not a solver of Gaussian processes."""
    if isinstance(solver, SOLVERS):
        solver.check(owner, also=("learn",) if isinstance(solver, NystromSolver) else ())
        return
    if isinstance(solver, str) and solver == "auto":
        return
    raise ParameterError(
        f'{owner}: solver = {solver!r} is unknown here; pass "auto", or an object such as '
        "mercer.solvers.Cholesky() or mercer.solvers.NystromSolver(n_landmarks=500)."
    )


def planned(
    owner: str,
    data: ExactObjective,
    given: Any,
    *,
    learns: bool,
    criterion: str,
    seed: Any,
    landmarks: Landmarks | None = None,
) -> Plan:
    """Decide how to fit."""
    n, seed = len(data.points), 0 if seed is None else seed
    solver = given
    if isinstance(given, str):
        solver = forecast(data, learns=learns, criterion=criterion).chosen
    else:
        _require_possible(owner, data, given, _obstacle(data, learns, criterion))
    if isinstance(solver, Primal):
        return Plan(solver, solver)
    quick = NystromSolver(min(_SEARCH_LANDMARKS, n), "rpcholesky", seed)
    if isinstance(solver, Cholesky | Spectral):
        together = given is solver or n <= _EXACT or not learns
        whole = together or bool(_obstacle(data, learns, criterion))
        return Plan(solver, solver if whole else quick, reserve=_reserve(n, exact=True))
    if isinstance(given, NystromSolver):
        return Plan(given, given, given, given=landmarks)
    many = NystromSolver(min(landmark_count(n), n), _affordable_choice(n), seed)
    if isinstance(solver, NystromSolver):
        return Plan(many, quick, many, Reserve(min(_MOST_SEARCH_LANDMARKS, n)))
    if isinstance(solver, RandomFeatures):
        return Plan(solver, quick, reserve=_reserve(n, exact=False))
    iterative = solver if given is solver else replace(solver, random_state=seed)
    return Plan(iterative, quick, many, _reserve(n, exact=False), landmarks)


def _reserve(n: int, *, exact: bool) -> Reserve:
    """Where the mean is that of all rows: hyper-parameters of a bound would not be its own."""

    def fits(rows: int) -> bool:
        return _LEARNING_MATRICES * 8.0 * rows * rows <= memory.available()

    landmarks = min(_MOST_SEARCH_LANDMARKS, n)
    return Reserve(landmarks, _EXACT if fits(min(n, _EXACT)) else 0, exact and fits(n))


def forecast(data: ExactObjective, *, learns: bool, criterion: str, given: Any = None) -> Forecast:
    """Weigh the solvers."""
    n, obstacle = len(data.points), _obstacle(data, learns, criterion)
    throughout = learns and (n <= _EXACT or bool(obstacle))
    m = min(landmark_count(n), n)
    rule = _Costs(data, obstacle, learns)
    whole = rule.of_matrix(Cholesky(), throughout=throughout)
    few = rule.of_landmarks(NystromSolver(m))
    candidates = (
        rule.of_features(Primal()),
        whole,
        rule.of_products(ConjugateGradient(max_iter=_MOST_ITERATIONS)),
        few,
    )
    reasons = (
        f"the kernel has fewer features than would pay for {n} rows",
        _why_the_matrix(n, obstacle, learns),
        f"{n} rows are no more than {_WHOLE}: the mean by products with their matrix",
        f"{n} rows are too many for the whole matrix",
    )
    others = (
        rule.of_matrix(Spectral(), throughout=learns),
        rule.of_passes(Falkon(m)),
        rule.of_map(waves(m)),
    )
    costs = (*candidates, *(replace(cost, obstacle=cost.obstacle or UNASKED) for cost in others))
    possible = (pair for pair in zip(candidates, reasons, strict=True) if not pair[0].obstacle)
    cost, reason = next(possible, (None, ""))
    found = (
        Forecast.impossible(costs, whole, few)
        if cost is None
        else Forecast(costs, cost.solver, reason)
    )
    return found if given is None else found.asked_for(rule.of_given(given))


def _why_the_matrix(n: int, obstacle: str, learns: bool) -> str:
    """Why the whole matrix is taken, where it is."""
    most = _EXACT if learns and n <= _EXACT else _DENSE
    if obstacle and n > (_EXACT if learns else _DENSE):
        return f"{as_reason(obstacle)}, and the matrix of {n} rows fits"
    bound = "; learned on the bound" if learns and n > _EXACT else ""
    return f"{n} rows are no more than {most}, and their matrix fits{bound}"


@dataclass(frozen=True)
class _Costs:
    """What solvers would take for these rows."""

    data: ExactObjective
    obstacle: str
    learns: bool

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.data.points)

    def of_given(self, solver: Any) -> Cost:
        """Of a solver that is used for hyper-parameters too, if it can be."""
        if isinstance(solver, Cholesky | Spectral):
            return self.of_matrix(solver, throughout=self.learns)
        if isinstance(solver, Primal):
            return self.of_features(solver)
        if isinstance(solver, RandomFeatures):
            return self.of_map(solver)
        if isinstance(solver, ConjugateGradient):
            return self.of_products(solver)
        if isinstance(solver, Falkon):
            return self.of_passes(solver)
        return self.of_landmarks(solver, searched=landmarks_of(solver, self.n))

    def of_features(self, solver: Primal) -> Cost:
        """Of the kernel's own features, for hyper-parameters too."""
        n, width = self.n, _width(self.data)
        if width is None:
            return Cost(solver, None, None, NO_FEATURES)
        size, squares = 8.0 * 10 * width**2, n * float(width) ** 2
        many = _ROWS_PER_FEATURE * width > n if self.learns else 3 * width**2 >= n**2
        obstacle = self.obstacle or (TOO_LARGE if size > memory.available() else "")
        obstacle = obstacle or (MANY_FEATURES if many else "")
        if self.learns and squares > _MOST_SQUARES:
            obstacle = obstacle or MANY_ROWS
        return Cost(solver, size, squares * (1 + 5 * _EVALUATIONS * self.learns), obstacle)

    def of_map(self, solver: RandomFeatures) -> Cost:
        """Of the features of a map for the posterior, and landmarks for hyper-parameters."""
        obstacle = self.obstacle or no_frequencies(self.data.kernel, solver.map)
        width = solver.n_features
        if width is None:
            return Cost(solver, None, None, obstacle)
        operations = self._search() + self.n * float(width) ** 2
        return Cost(solver, 8.0 * 10 * width**2, operations, obstacle)

    def of_passes(self, solver: Falkon) -> Cost:
        """Of iterations over landmarks for the mean, and fewer of them for the rest."""
        n, m = self.n, landmarks_of(solver, self.n)
        few = 5.0 * n * min(landmark_count(n), n) ** 2
        operations = self._search() + few + float(m) ** 3 + 50.0 * FALKON_ITERATIONS * n * m
        return Cost(solver, 8.0 * 4 * m * m, operations, self.obstacle)

    def of_matrix(self, solver: Cholesky | Spectral, *, throughout: bool) -> Cost:
        """Of the whole matrix, for hyper-parameters too or for the posterior alone."""
        n = self.n
        size = 8.0 * n * n * (_LEARNING_MATRICES if throughout else _FACTOR_MATRICES)
        operations = _EVALUATIONS * float(n) ** 3 if throughout else n**3 / 3 + self._search()
        return Cost(solver, size, operations + self._pairs, _no_matrix(n, size, self.obstacle))

    def of_products(self, solver: ConjugateGradient) -> Cost:
        """Of products with the matrix for the mean, and landmarks for the rest."""
        n, rank = self.n, solver.rank_for(self.n)
        landmarks = 5.0 * n * min(landmark_count(n), n) ** 2
        operations = self._search() + landmarks + 2.0 * n * rank**2 + _ITERATIONS * self._pairs
        obstacle = self.obstacle or _no_products(n, rank)
        return Cost(solver, 8.0 * _FACTORS * n * rank, operations, obstacle)

    def of_landmarks(self, solver: NystromSolver, searched: int = _SEARCH_LANDMARKS) -> Cost:
        """Of landmarks, some of which hyper-parameters are learned on."""
        m = landmarks_of(solver, self.n)
        operations = self._search(searched) + 5.0 * self.n * m**2
        return Cost(solver, 8.0 * 10 * m * m, operations, self.obstacle)

    def _search(self, landmarks: int = _SEARCH_LANDMARKS) -> float:
        seen = min(self.n, SEARCH_ROWS)
        return _EVALUATIONS * 5.0 * seen * landmarks**2 if self.learns else 0.0

    @property
    def _pairs(self) -> float:
        """Kernel values, and their share of a product."""
        return 50.0 * self.n * self.n


def search_rows(n: int) -> Any:
    """Rows to learn hyper-parameters from, if not all of them."""
    if n <= SEARCH_ROWS:
        return None
    chosen = np.random.default_rng(0).choice(n, size=SEARCH_ROWS, replace=False)
    return np.sort(chosen)


def _no_matrix(n: int, size: float, obstacle: str) -> str:
    if size > memory.available():
        return TOO_LARGE
    return MANY_ROWS if n > _DENSE and not obstacle else ""


def _no_products(n: int, rank: int) -> str:
    if n > _WHOLE:
        return MANY_ROWS
    fits = 8.0 * _FACTORS * n * rank <= memory.available()
    return "" if fits else "its preconditioner does not fit in memory"


def _obstacle(data: ExactObjective, learns: bool, criterion: str) -> str:
    """Why landmarks are out of the question; empty if they are not."""
    if (of_kernel := no_landmarks(data.kernel)) not in ("", UNKNOWN):
        return of_kernel
    if data.noise.is_none:
        return "there is no noise"
    if learns and criterion != "marginal_likelihood":
        return "the criterion needs the whole matrix"
    return of_kernel


def _require_possible(owner: str, data: ExactObjective, solver: Any, obstacle: str) -> None:
    """Refuse a solver that the user asks for; whether an unknown kernel is valid is his to say."""
    if isinstance(solver, Cholesky | Spectral):
        return
    require_no_noise(data.kernel, owner)
    if isinstance(solver, Primal) and _width(data) is None:
        obstacle = "the kernel has no finite features, or too many"
    if obstacle and obstacle != UNKNOWN:
        raise ParameterError(
            f"{owner}: solver = {shown(solver)} is not possible, because {obstacle}; pass "
            'solver=mercer.solvers.Cholesky(), or leave it to "auto".'
        )


def _width(data: ExactObjective) -> int | None:
    """The number of features of the kernel, if there are finitely many."""
    return own_features(data.kernel, InMemory(RowBlock(data.points, data.targets)))[0]


def _affordable_choice(n: int) -> str:
    """How landmarks are chosen: the good way, unless its factor is too large."""
    size = 1.2 * 8 * n * landmark_count(n)
    return "rpcholesky" if size <= min(_CHOICE_BYTES, memory.available() / 4) else "uniform"
