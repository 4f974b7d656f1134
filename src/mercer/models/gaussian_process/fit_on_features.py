"""A Gaussian process fitted through features: the search, and the posterior after it."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.models.gaussian_process.exact import GaussianEvidence
from mercer.models.gaussian_process.exact_posterior import Posterior
from mercer.models.gaussian_process.explicit import ExplicitEvidence, ExplicitPosterior
from mercer.models.gaussian_process.feature_posterior import FeaturePosterior
from mercer.models.gaussian_process.features import ridge_task
from mercer.models.gaussian_process.landmark_posterior import IteratedPosterior, LandmarkPosterior
from mercer.models.gaussian_process.landmark_search import LandmarkSearch
from mercer.models.gaussian_process.landmarks import LandmarkEvidence, in_double_precision
from mercer.models.gaussian_process.plan import Plan, search_rows
from mercer.models.gaussian_process.spanning_search import SpanningSearch
from mercer.models.gaussian_process.target_scaling import Scaling

Array = NDArray[np.floating[Any]]


class FeatureFit:
    """What is fitted on the way and at the end."""

    def __init__(
        self,
        owner: str,
        data: GaussianEvidence,
        plan: Plan,
        scaling: Scaling,
        numbers: NDArray[np.intp],
    ) -> None:
        self.owner, self.plan, self.scaling, self.numbers = owner, plan, scaling, numbers
        self.data = in_double_precision(data)
        self.features = self._features()

    def _features(self) -> ExplicitEvidence | None:
        """Explicit features, if these are planned; a map is tried before the search begins."""
        solver = self.plan.solver
        if not solver.has_features:
            return None
        if solver.is_approximate:
            task = ridge_task(self.data, self.owner)
            solver.features(task)
            solver = solver.for_other_kernels(task)
        return ExplicitEvidence(self.data, solver, self.owner)

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
        return LandmarkSearch(self.owner, self.data, plan.search, rows, plan.reserve, given=given)

    def on_the_way(self, theta: Array) -> dict[str, Any]:
        """The attributes of a model with the features of the search."""
        return self._attributes(self.search.posterior(theta)) | {
            "solver_": self.plan.search,
            "search_solver_": self.search.solver,
        }

    def at_the_end(self, theta: Array) -> dict[str, Any]:
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
        posterior = LandmarkPosterior.at(self._evidence(theta), theta)
        if plan.solver.is_iterative:
            posterior = IteratedPosterior.solved(posterior, self._iterative, self.owner)
        return self._attributes(posterior)

    def _exact(self, theta: Array) -> dict[str, Any]:
        """The whole matrix, and what the landmarks of the search miss of it."""
        exact = Posterior.at(self.data, theta).attributes(self.scaling)
        if self.search.solver.is_dense:
            return exact
        return self.search.posterior(theta).quality(self.scaling) | exact

    @property
    def _iterative(self) -> Any:
        """The solver of the mean; landmarks that are given may be rows that do not count."""
        solver, given = self.plan.solver, self.plan.given
        return solver if given is None else replace(solver, landmarks=given)

    def _evidence(self, theta: Array) -> LandmarkEvidence:
        """The landmarks of the posterior: those of the search, if it had as many."""
        plan = self.plan
        shared = plan.landmarks is plan.search and self._searched
        if shared and isinstance(self.search, LandmarkSearch):
            return self.search.evidence
        kernel, _ = self.data.at(theta)
        given = plan.given if plan.landmarks is plan.solver else None
        return LandmarkEvidence.selected(self.data, kernel, plan.landmarks, self.owner, given)

    def _attributes(self, posterior: FeaturePosterior) -> dict[str, Any]:
        return posterior.attributes(self.scaling) | {"rows_": self._numbers(posterior)}

    def _numbers(self, posterior: FeaturePosterior) -> NDArray[np.intp] | None:
        """The rows of X that carry the mean, if they are rows."""
        plan, iterated = self.plan, isinstance(posterior, IteratedPosterior)
        if plan.given is not None and (iterated or plan.search is plan.solver):
            return plan.given.indices
        return None if posterior.rows is None else self.numbers[posterior.rows]
