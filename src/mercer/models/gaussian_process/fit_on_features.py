"""A Gaussian process fitted through features: the search, and the posterior after it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.models.gaussian_process.exact import ExactObjective, ExactPosterior
from mercer.models.gaussian_process.explicit import (
    ExplicitObjective,
    ExplicitPosterior,
    SpanningSearch,
)
from mercer.models.gaussian_process.features import FeaturePosterior, ridge_task
from mercer.models.gaussian_process.landmark_search import LandmarkSearch
from mercer.models.gaussian_process.landmarks import (
    IteratedPosterior,
    LandmarkObjective,
    LandmarkPosterior,
)
from mercer.models.gaussian_process.plan import FitPlan, search_rows
from mercer.models.gaussian_process.targets import Scaling
from mercer.parallel import cached_property
from mercer.rows.rows import as_float64
from mercer.solvers.dense import Cholesky

Array = NDArray[np.floating[Any]]


class FeatureFit:
    """The attributes of a model during the search of hyper-parameters, and after it."""

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
        self.features = self._features()

    def _features(self) -> ExplicitObjective | None:
        """Explicit features, if these are planned; a map is tried before the search begins."""
        solver = self.plan.solver
        if not solver.has_features:
            return None
        if solver.is_approximate:
            task = ridge_task(self.data, self.owner)
            solver.features(task)
            solver = solver.for_other_kernels(task)
        return ExplicitObjective(self.data, solver, self.owner)

    @cached_property
    def search(self) -> LandmarkSearch | SpanningSearch:
        """The search of hyper-parameters; on some rows where all of them are too many."""
        plan = self.plan
        if plan.search.has_features:
            assert self.features is not None
            return SpanningSearch(self.features)
        is_given = plan.search is plan.solver
        rows = None if is_given else search_rows(len(self.data.points))
        given = plan.given if is_given else None
        return LandmarkSearch(self.owner, self.data, plan.search, rows, plan.fallback, given=given)

    def during_search(self, theta: Array) -> dict[str, Any]:
        """The attributes of a model with the features of the search."""
        return self._attributes(self.search.posterior(theta)) | {
            "solver_": self.plan.search,
            "search_solver_": self.search.solver,
        }

    def after_search(self, theta: Array) -> dict[str, Any]:
        """The attributes of the model that was planned."""
        used = {"search_solver_": self.search.solver} if self._searched else {}
        return self._planned(theta) | used

    @property
    def _searched(self) -> bool:
        return "search" in self.__dict__

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
