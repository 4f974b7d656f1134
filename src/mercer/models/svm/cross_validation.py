"""Machines without some of the rows, over values of C."""

from __future__ import annotations

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from inspect import signature
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from mercer.estimator.base import shown
from mercer.exceptions import ParameterError
from mercer.models.svm.classification import SVC
from mercer.models.svm.functions import Rows
from mercer.models.svm.solving import solved
from mercer.models.svm.training import Training
from mercer.solvers.box_qp.problem import SymmetricMatrix

Array = NDArray[np.float64]


class Outcome(NamedTuple):
    """One candidate without one part of the rows."""

    score: float  # of the rows left out
    fit_time: float  # seconds
    score_time: float  # seconds
    short: int  # how many of its machines stopped short


@dataclass(frozen=True, eq=False)
class Fold:
    """A machine that has yet to learn some rows, the rows, and those that are left out."""

    model: SVC  # with the classes and the class weights of the rows to learn from
    data: Training  # these rows
    held: Rows  # the rows of X that are left out
    labels: NDArray[Any]  # their labels
    weights: Array | None  # their weights, if the scorer takes weights

    def path(self, matrix: SymmetricMatrix, costs: Sequence[float], scorer: Any) -> list[Outcome]:
        """What becomes of each C; each machine starts from that of the C before."""
        found: dict[float, Outcome] = {}
        model, near, before = copy(self.model), None, 1.0
        rows = self.data.points[self.held].data
        for cost in sorted(set(costs)):
            started = time.perf_counter()
            model.C = cost
            if near is not None:
                near = near * (cost / before)
            dual = model._dual(self.data)
            machines = solved(matrix, dual, model._options, near=near, at=self.held)
            near, before = machines.coefficients(matrix.size), cost
            fitted = time.perf_counter()
            score = _scored(
                scorer, _HeldOut(model, rows, machines.values), self.labels, self.weights
            )
            short = int((~machines.converged).sum())
            scored = time.perf_counter()
            found[cost] = Outcome(score, fitted - started, scored - fitted, short)
        return [found[cost] for cost in costs]


class _HeldOut(ClassifierMixin, BaseEstimator):
    """A classifier that knows its answers for some rows: what scikit-learn's scorers ask."""

    def __init__(self, model: SVC, rows: Any, values: Array) -> None:
        self.model, self.rows, self.values = model, rows, values
        self.classes_ = model.classes_

    def decision_function(self, X: Any) -> Array:
        """The scores of the classes."""
        return self.model._scheme.scores(self._values_at(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The classes."""
        return np.asarray(self.classes_[self.model._winners(self._values_at(X))])

    def _values_at(self, X: Any) -> Array:
        if X is not self.rows:
            raise ParameterError(
                "SVCSearch: scoring asks for other rows than those left out, whose values alone "
                "are known; pass X to predict or decision_function as the scorer receives it, or "
                "use sklearn.model_selection.GridSearchCV."
            )
        return self.values


def takes_weights(scorer: Any) -> bool:
    """Whether a scorer takes weights of rows, as scikit-learn's searches find it out."""
    if hasattr(scorer, "_accept_sample_weight"):
        return bool(scorer._accept_sample_weight())
    return "sample_weight" in signature(scorer).parameters


def _scored(scorer: Any, held: _HeldOut, labels: NDArray[Any], weights: Array | None) -> float:
    given = {} if weights is None else {"sample_weight": weights}
    try:
        score = scorer(held, held.rows, labels, **given)
    except AttributeError as error:
        if "_proba" not in str(error):
            raise
        raise ParameterError(
            "SVCSearch: scoring needs probabilities, which are not learned for every candidate; "
            'pass a scorer of predict or decision_function, such as "accuracy".'
        ) from error
    if not isinstance(score, Real):
        raise ParameterError(
            f"SVCSearch: scoring returns {shown(score)}, which is not a number; pass a scorer that "
            "returns one, or use sklearn.model_selection.GridSearchCV."
        )
    return float(score)
