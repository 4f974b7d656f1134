"""Hyper-parameters of a kernel with few features, by its own likelihood.

The likelihood is computed through landmarks that span the features: rows, as many as there are
features. They are chosen for one kernel, and as a rule span the features of others as well; where
a search ends at a kernel whose features they do not span, they are chosen again, and it goes on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.models.gaussian_process.explicit import MISSED, ExplicitEvidence, ExplicitPosterior
from mercer.models.gaussian_process.landmark_search import Run
from mercer.solvers.likelihood.maximise import Optimum, Report, maximise

Array = NDArray[np.floating[Any]]

# How often landmarks are chosen again, and the nats that are not worth it: they change nothing in
# hyper-parameters that data can tell.
_ROUNDS = 3
_SMALL = 1e-6
# The same in units of the rounding of the likelihood.
_ROUNDED = 30.0
# Rows that a first look at the hyper-parameters takes, with their whole matrix.
_SKETCHED = 500


class SpanningSearch:
    """A search of hyper-parameters on all rows, exact."""

    def __init__(self, evidence: ExplicitEvidence) -> None:
        self.evidence = evidence
        self.current = evidence.spanned(evidence.kernel)

    @property
    def solver(self) -> Any:
        """With what hyper-parameters are learned."""
        return self.evidence.solver

    def maximise(
        self, *, n_restarts: int, random_state: Any, max_iter: int, report: Report
    ) -> Optimum:
        """Search from the start and from restarts."""
        data, run = self.evidence.data, Run(report)
        sketch = data.sketch("log_likelihood_with_gradient", _SKETCHED)
        starts: Any = data.space.restarts(n_restarts, random_state)
        begin = data.space.start
        for attempt in range(_ROUNDS):
            if attempt:
                self.current = self.evidence.spanned(data.at(begin)[0])
            run.add(
                maximise(
                    self.current.log_likelihood_with_gradient,
                    begin,
                    data.space.bounds,
                    starts=starts,
                    sketch=sketch,
                    max_iter=max_iter,
                    report=run.tell,
                )
            )
            begin, starts, sketch = run.best.theta, (), None
            if run.stopped or self._missed(begin) <= self._small(begin):
                break
        return run.best

    def posterior(self, theta: Array) -> ExplicitPosterior:
        """All rows, by their features."""
        return replace(ExplicitPosterior.at(self.evidence, theta), doubt=self._doubt_at(theta))

    def _doubt_at(self, theta: Array) -> str:
        """Whether what was maximised is not the likelihood, as a clause."""
        missed = self._missed(theta)
        if missed <= max(MISSED * len(self.evidence.data.points), self._small(theta)):
            return ""
        return (
            f"kernel and noise maximise a bound that is about {missed:.2g} nats below the "
            "likelihood: some features are so small beside others that rounding of kernel values "
            "hides them. Scale the columns"
        )

    def _missed(self, theta: Array) -> float:
        """How far below the likelihood the bound of these landmarks is, at most."""
        return self.current.look_at(theta)[1]

    def _small(self, theta: Array) -> float:
        return max(_SMALL, _ROUNDED * self.current.rounding_at(theta))
