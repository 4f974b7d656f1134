"""The results of a search, in the layout of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from mercer.exceptions import NumericalWarning, warn
from mercer.models.svm.cross_validation import Outcome

Array = NDArray[np.float64]


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
    found = np.empty(len(values), dtype=np.array(values).dtype if numbers else object)
    for place, value in enumerate(values):
        found[place] = value
    return np.ma.MaskedArray(found, mask=False)


def _ranks(means: Array) -> NDArray[np.int32]:
    """1 for the best; a score that is no number is worse than any that is one."""
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
