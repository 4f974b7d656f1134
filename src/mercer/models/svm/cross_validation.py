"""Cross-validation of a machine over values of C, and the table of its scores."""

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
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin

from mercer.arrays import Float64Array as Array
from mercer.estimator.base import shown
from mercer.exceptions import NumericalWarning, ParameterError, warn
from mercer.models.svm.base import Training, solve_duals
from mercer.models.svm.classification import SVC
from mercer.models.svm.duals import Rows
from mercer.solvers.box_qp.kernel_matrix import SymmetricMatrix


class Outcome(NamedTuple):
    """One candidate in one fold."""

    score: float  # the score of the rows left out
    fit_time: float  # seconds of the fit
    score_time: float  # seconds of the score
    short: int  # the number of its functions that stopped short


@dataclass(frozen=True, eq=False)
class Fold:
    """A machine to be fitted, its training rows, and the rows that are left out."""

    model: SVC  # with the classes and the class weights of the rows to learn from
    data: Training  # these rows
    held: Rows  # the rows of X that are left out
    labels: NDArray[Any]  # their labels
    weights: Array | None  # their weights, if the scorer takes weights

    def path(self, matrix: SymmetricMatrix, costs: Sequence[float], scorer: Any) -> list[Outcome]:
        """The outcome of each C; each machine starts from that of the next smaller C."""
        outcomes: dict[float, Outcome] = {}
        model, warm_start, before = copy(self.model), None, 1.0
        rows = self.data.points[self.held].data
        for cost in sorted(set(costs)):
            started = time.perf_counter()
            model.C = cost
            if warm_start is not None:
                warm_start = warm_start * (cost / before)
            solutions = solve_duals(
                matrix,
                model._dual(self.data),
                model._options,
                warm_start=warm_start,
                eval_rows=self.held,
            )
            warm_start, before = solutions.coefficients(matrix.size), cost
            fitted = time.perf_counter()
            held = _HeldOut(model, rows, solutions.values)
            score = _scored(scorer, held, self.labels, self.weights)
            short = int((~solutions.converged).sum())
            scored = time.perf_counter()
            outcomes[cost] = Outcome(score, fitted - started, scored - fitted, short)
        return [outcomes[cost] for cost in costs]


class _HeldOut(ClassifierMixin, BaseEstimator):
    """A classifier that knows its values at the rows left out, for scikit-learn's scorers."""

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


def score_table(
    params: Sequence[dict[str, Any]], outcomes: Sequence[Sequence[Outcome]]
) -> dict[str, Any]:
    """Scores and times of all candidates, and their ranks."""
    results: dict[str, Any] = {}
    for name in ("fit_time", "score_time"):
        _keep(results, name, np.array([[getattr(o, name) for o in row] for row in outcomes]))
    for name in params[0]:
        results[f"param_{name}"] = _column([candidate[name] for candidate in params])
    results["params"] = list(params)
    scores = np.array([[outcome.score for outcome in row] for row in outcomes])
    for number in range(scores.shape[1]):
        results[f"split{number}_test_score"] = scores[:, number]
    _keep(results, "test_score", scores)
    results["rank_test_score"] = _ranks(results["mean_test_score"])
    return results


def _keep(results: dict[str, Any], name: str, values: Array) -> None:
    """Means and standard deviations over the folds."""
    with np.errstate(invalid="ignore"):  # of infinite scores
        results[f"mean_{name}"], results[f"std_{name}"] = values.mean(1), values.std(1)


def _column(values: Sequence[Any]) -> Any:
    """The values of a parameter: numbers as such, and all else as objects."""
    numbers = all(np.ndim(value) == 0 and not isinstance(value, str) for value in values)
    column = np.array(values) if numbers else np.fromiter(values, object, len(values))
    return np.ma.MaskedArray(column, mask=False)


def _ranks(means: Array) -> NDArray[np.int32]:
    """1 for the best; NaN ranks last."""
    if not np.isfinite(means).all():
        unknown = np.isnan(means).sum()
        which = (
            "no candidate has a score, and the first is taken"
            if unknown == len(means)
            else "NaN ranks last"
        )
        warn(
            f"SVCSearch: the mean scores of {(~np.isfinite(means)).sum()} of {len(means)} "
            f"candidates are not finite ({which}); pass a scoring that is defined for every fold, "
            "or fewer folds.",
            NumericalWarning,
        )
    known = np.where(np.isnan(means), -np.inf, means)
    return np.asarray(rankdata(-known, method="min").astype(np.int32))
