"""The plan of a fit: which solver serves the hyper-parameters, and which the posterior.

The rule of "auto", in the order in which it is applied:

1. features for both, if the kernel has few of them: four rows for each, and few enough in all that
   a search passes over them quickly; where nothing is learned, fewer than would pay;
2. the whole matrix for both, up to 2,000 rows;
3. the collapsed bound for the hyper-parameters and the whole matrix for the posterior, up to 15,000
   rows, if it fits in memory;
4. the bound for the hyper-parameters, conjugate gradients for the mean and landmarks for the
   variances, up to 100,000 rows; if there is little noise, the whole matrix, up to 25,000 rows;
5. landmarks for everything.

A search on the bound begins with 128 landmarks, and takes twice as many, up to 1,024, while they
leave too much out. Where the mean is that of all rows, and 256 landmarks are too few,
hyper-parameters are learned from the whole matrix of 2,000 rows, and then from that of all rows, up
to 4,000, or from those of parts of them.

`Spectral`, `Falkon` and `RandomFeatures` are priced, but taken only if the user asks for them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.arrays import Array
from mercer.estimator.base import shown
from mercer.exceptions import ParameterError
from mercer.landmarks.selection import Landmarks, require_no_noise
from mercer.models.gaussian_process.exact import ExactObjective, ExactPosterior
from mercer.models.gaussian_process.explicit import (
    ExplicitObjective,
    ExplicitPosterior,
    SpanningSearch,
)
from mercer.models.gaussian_process.features import FeaturePosterior, ridge_task
from mercer.models.gaussian_process.landmark_search import FallbackBudget, LandmarkSearch
from mercer.models.gaussian_process.landmarks import (
    IteratedPosterior,
    LandmarkObjective,
    LandmarkPosterior,
)
from mercer.models.gaussian_process.targets import Scaling
from mercer.parallel import cached_property
from mercer.rows.rows import InMemory, RowBlock, as_float64
from mercer.solvers.dense import FACTOR_MATRICES, Cholesky
from mercer.solvers.forecast import (
    Forecast,
    GaussianProcessFit,
    choose,
    priced,
)
from mercer.solvers.forecast import forecast as price_all
from mercer.solvers.nystrom import NystromSolver
from mercer.solvers.protocol import Solver, as_solver, checked_solver

# Bytes beyond which landmarks are drawn at random rather than by a factor of all rows.
_CHOICE_BYTES = 2**30
# Variance of noise, as a share of that of the function, with which iterations take long.
_LITTLE_NOISE = 1e-4
# Rows up to which, with so little noise, a factor of the matrix costs less than iterations.
_FACTOR_ROWS = 25_000


class FitPlan(NamedTuple):
    """The solvers and landmarks of the fit of a Gaussian process."""

    solver: Any  # the solver of the posterior
    search: Any  # the solver of the hyper-parameters
    landmarks: Any = None  # the solver that chooses landmarks for variances, if they use some
    fallback: FallbackBudget = FallbackBudget()  # limits of the search
    given: Landmarks | None = None  # the user's landmarks of the mean, if there are some
    # variance of the noise, as a share of that of the function, below which iterations would not
    # converge, and the posterior is that of the whole matrix
    least_noise: float = 0.0
    fits: bool = False  # whether the whole matrix is known to fit in memory


def require_solver(owner: str, solver: Any) -> None:
    """Refuse what is not a solver of Gaussian processes."""
    if isinstance(solver, str) and solver == "auto":
        return
    solver = checked_solver(owner, solver)
    learns_points = solver.has_landmarks and not solver.is_iterative
    solver.check(owner, also=("learn",) if learns_points else ())


def planned(
    owner: str,
    data: ExactObjective,
    given: Any,
    *,
    learns: bool,
    criterion: str,
    seed: Any,
    landmarks: Landmarks | None = None,
) -> FitPlan:
    """Choose the solvers of a fit by the rule of this module."""
    n, seed = len(data.points), 0 if seed is None else seed
    is_asked = given != "auto"
    given = as_solver(given) if is_asked else given
    is_small = n <= GaussianProcessFit.exact_rows
    if is_small and not is_asked and not data.kernel._reader.may_have_features:
        # "auto" prefers nothing but features to the whole matrix of so few rows.
        size = GaussianProcessFit.learning_matrices * 8.0 * n * n
        if memory.fits(size):
            return FitPlan(Cholesky(), Cholesky(), fits=True)
    problem = _problem(data, learns, criterion)
    if is_asked:
        _require_possible(owner, problem, given)
    solver = given if is_asked else choose(problem).solver
    quick = NystromSolver(min(problem.search_landmarks, n), "rpcholesky", seed)
    small = is_asked or n <= problem.exact_rows or not learns
    if solver.is_approximate or (solver.is_dense and not small and not problem.needs_matrix):
        return FitPlan(solver, quick, fallback=_fallback_budget(n))
    if solver.is_dense or solver.has_features:
        return FitPlan(solver, solver)
    if is_asked and not solver.is_iterative:
        return FitPlan(given, given, given, given=landmarks)
    many = NystromSolver(problem.landmarks, _affordable_choice(problem), seed)
    if not solver.is_iterative:
        return FitPlan(many, quick, many, FallbackBudget(min(problem.most_search_landmarks, n)))
    if is_asked:
        return FitPlan(solver, quick, many, _fallback_budget(n), landmarks)
    fits = n <= _FACTOR_ROWS and FACTOR_MATRICES * 8.0 * n * n <= memory.available()
    iterative, least = solver.replace(random_state=seed), _LITTLE_NOISE if fits else 0.0
    return FitPlan(iterative, quick, many, _fallback_budget(n), least_noise=least)


def _fallback_budget(n: int) -> FallbackBudget:
    """Limits of a search for a posterior mean over all rows, which the bound only approximates.

    An evaluation with more landmarks costs more than one with the whole matrix of some rows.
    """
    fit, free = GaussianProcessFit, memory.available()
    rows = min(fit.part_rows, n)
    if fit.learning_matrices * 8.0 * rows * rows > free:
        return FallbackBudget(min(fit.most_search_landmarks, n))
    whole = n <= fit.whole_rows and fit.learning_matrices * 8.0 * n * n <= free
    return FallbackBudget(min(2 * fit.search_landmarks, n), rows, n if whole else rows)


def forecast(data: ExactObjective, *, learns: bool, criterion: str, given: Any = None) -> Forecast:
    """The costs of all solvers, as `mercer.forecast` shows them."""
    problem = _problem(data, learns, criterion)
    asked = None if given is None else priced(replace(problem, asked=True), given)
    return price_all(problem, asked)


def _problem(data: ExactObjective, learns: bool, criterion: str) -> GaussianProcessFit:
    """The description of the fit from which solvers compute their cost."""
    obstacle = ""
    if data.noise.is_none:
        obstacle = "there is no noise"
    elif learns and criterion != "marginal_likelihood":
        obstacle = "the criterion needs the whole matrix"
    rows = InMemory(RowBlock(data.points, data.targets))
    return GaussianProcessFit(data.kernel, rows, learns, obstacle)


def _require_possible(owner: str, problem: GaussianProcessFit, solver: Solver) -> None:
    """Refuse a solver that the user asks for, if it is impossible.

    A kernel that is not known to be valid is taken to be valid at the user's request.
    """
    if solver.is_dense:
        return
    require_no_noise(problem.kernel, owner)
    obstacle = problem.restriction(solver)
    if solver.has_features and not solver.is_approximate and problem.own_features[0] is None:
        obstacle = "the kernel has no finite features, or too many"
    if obstacle:
        raise ParameterError(
            f"{owner}: solver = {shown(solver)} is not possible, because {obstacle}; pass "
            'solver=mercer.solvers.Cholesky(), or leave it to "auto".'
        )


def _affordable_choice(problem: GaussianProcessFit) -> str:
    """How landmarks are chosen: by pivots of a factor of all rows, unless that is too large."""
    size = 1.2 * 8 * problem.n * problem.landmarks
    return "rpcholesky" if size <= min(_CHOICE_BYTES, problem.free / 4) else "uniform"


class FeatureFit:
    """A fit through features: the attributes of the model during the search, and after it."""

    def __init__(
        self,
        owner: str,
        data: ExactObjective,
        plan: FitPlan,
        scaling: Scaling,
        numbers: NDArray[np.intp],
    ) -> None:
        self.owner, self.plan, self.scaling, self.numbers = owner, plan, scaling, numbers
        # What landmarks leave unexplained is below the rounding of float32.
        self.data = replace(data, points=as_float64(data.kernel, data.points))
        self.features: ExplicitObjective | None = None
        solver = plan.solver
        if solver.is_approximate:
            task = ridge_task(self.data, owner)
            solver.features(task)  # tries the map before the search begins
            solver = solver.for_other_kernels(task)
        if solver.has_features:
            self.features = ExplicitObjective(self.data, solver, owner)

    @cached_property
    def search(self) -> LandmarkSearch | SpanningSearch:
        """The search of hyper-parameters; on some rows where all of them are too many."""
        plan = self.plan
        if plan.search.has_features:
            assert self.features is not None
            return SpanningSearch(self.features)
        is_given = plan.search is plan.solver
        given, rows = plan.given if is_given else None, None
        n, most = len(self.data.points), GaussianProcessFit.search_rows
        if n > most and not is_given:
            rows = np.sort(np.random.default_rng(0).choice(n, size=most, replace=False))
        return LandmarkSearch(self.owner, self.data, plan.search, rows, plan.fallback, given)

    def during_search(self, theta: Array) -> dict[str, Any]:
        """The attributes of a model with the features of the search."""
        return self._attributes(self.search.posterior(theta)) | {
            "solver_": self.plan.search,
            "search_solver_": self.search.solver,
        }

    def after_search(self, theta: Array) -> dict[str, Any]:
        """The attributes of the model that was planned."""
        planned = self._planned(theta)
        return planned | ({"search_solver_": self.search.solver} if self._searched else {})

    @property
    def _searched(self) -> bool:
        return "search" in self.__dict__  # as the cached property leaves it

    def _planned(self, theta: Array) -> dict[str, Any]:
        plan = self.plan
        if plan.search.has_features and self._searched:
            return self._attributes(self.search.posterior(theta))
        if self.features is not None:
            return self._attributes(ExplicitPosterior.at(self.features, theta))
        if plan.solver.is_dense:
            return self._exact(theta)
        if self.data.at(theta).noise_share < plan.least_noise:
            return self._exact(theta) | {"solver_": Cholesky()}
        posterior = LandmarkPosterior.at(self._objective(theta), theta)
        if plan.solver.is_iterative:
            # Landmarks that are given may be rows of weight zero.
            mean = plan.solver
            if plan.given is not None:
                mean = mean.replace(landmarks=plan.given)
            posterior = IteratedPosterior.solved(posterior, mean, self.owner)
        return self._attributes(posterior)

    def _exact(self, theta: Array) -> dict[str, Any]:
        """The posterior by the whole matrix, and the bounds by the landmarks of the search."""
        exact = ExactPosterior.at(self.data, theta).attributes(self.scaling)
        if self.search.solver.is_dense:
            return exact
        return self.search.posterior(theta).quality(self.scaling) | exact

    def _objective(self, theta: Array) -> LandmarkObjective:
        """The landmarks of the posterior: those of the search, if it had as many."""
        plan = self.plan
        shared = plan.landmarks is plan.search and self._searched
        if shared and isinstance(self.search, LandmarkSearch):
            return self.search.objective
        given = plan.given if plan.landmarks is plan.solver else None
        data = self.data.at(theta)
        return LandmarkObjective.selected(data, plan.landmarks, self.owner, given)

    def _attributes(self, posterior: FeaturePosterior) -> dict[str, Any]:
        return posterior.attributes(self.scaling) | {"rows_": self._numbers(posterior)}

    def _numbers(self, posterior: FeaturePosterior) -> NDArray[np.intp] | None:
        """The rows of X over which the mean is a sum, if they are rows."""
        plan, iterated = self.plan, isinstance(posterior, IteratedPosterior)
        if plan.given is not None and (iterated or plan.search is plan.solver):
            return plan.given.indices
        return None if posterior.rows is None else self.numbers[posterior.rows]
