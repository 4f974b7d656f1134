"""A Gaussian process fitted through landmarks: the search, and the posterior after it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.models.gaussian_process_plan import Plan, search_rows
from mercer.models.landmark_evidence import LandmarkEvidence, in_double_precision
from mercer.models.landmark_posterior import IteratedPosterior, LandmarkPosterior
from mercer.models.landmark_search import LandmarkSearch
from mercer.models.likelihood import GaussianEvidence
from mercer.models.posterior import Posterior
from mercer.models.targets import Scaling
from mercer.solvers.exact import Cholesky
from mercer.solvers.iterative import ConjugateGradient

Array = NDArray[np.floating[Any]]


class LandmarkFit:
    """What is fitted on the way and at the end.

    Parameters
    ----------
    owner : str
        The name of the model, for messages.
    data : GaussianEvidence
        All rows.
    plan : Plan
        The solvers.
    scaling : Scaling
        From standardised targets to those of the user.
    numbers : ndarray of int
        The numbers of the rows in X.
    """

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

    @cached_property
    def search(self) -> LandmarkSearch:
        """The search of hyper-parameters; on some rows where all of them are too many."""
        is_given = self.plan.search is self.plan.solver
        rows = None if is_given else search_rows(len(self.data.points))
        plan = self.plan
        return LandmarkSearch(
            self.owner, self.data, plan.search, rows, plan.reserve, given=plan.given
        )

    def on_the_way(self, theta: Array) -> dict[str, Any]:
        """The attributes of a model with the landmarks of the search."""
        posterior = LandmarkPosterior.at(self.search.evidence, theta)
        return self._attributes(posterior) | {
            "solver_": self.plan.search,
            "search_solver_": self.search.solver,
        }

    def at_the_end(self, theta: Array) -> dict[str, Any]:
        """The attributes of the model that was planned."""
        searched = "search" in self.__dict__
        used = {"search_solver_": self.search.solver} if searched else {}
        return self._planned(theta) | used

    def _planned(self, theta: Array) -> dict[str, Any]:
        plan = self.plan
        if isinstance(plan.solver, Cholesky):
            exact = Posterior.at(self.data, theta).attributes(self.scaling)
            if self.search.is_exact or search_rows(len(self.data.points)) is not None:
                return exact  # the bounds are those of the rows that were searched
            seen = LandmarkPosterior.at(self.search.evidence, theta)
            return seen.quality(self.scaling) | exact
        posterior = LandmarkPosterior.at(self._evidence(theta), theta)
        if isinstance(plan.solver, ConjugateGradient):
            posterior = IteratedPosterior.solved(posterior, plan.solver, self.owner)
        return self._attributes(posterior)

    def _evidence(self, theta: Array) -> LandmarkEvidence:
        """The landmarks of the posterior: those of the search, if it had as many."""
        if self.plan.landmarks is self.plan.search and "search" in self.__dict__:
            return self.search.evidence
        kernel, _ = self.data.at(theta)
        plan = self.plan
        return LandmarkEvidence.selected(
            self.data, kernel, plan.landmarks, self.owner, given=plan.given
        )

    def _attributes(self, posterior: LandmarkPosterior) -> dict[str, Any]:
        return posterior.attributes(self.scaling) | {"rows_": self._numbers(posterior)}

    def _numbers(self, posterior: LandmarkPosterior) -> NDArray[np.intp] | None:
        """The rows of X that carry the mean, if they are rows."""
        if self.plan.given is not None:
            return self.plan.given.indices
        return None if posterior.rows is None else self.numbers[posterior.rows]
