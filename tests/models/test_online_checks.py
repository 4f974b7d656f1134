"""scikit-learn's checks for the online models."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc


def exceptions_of_principle(estimator: Any) -> dict[str, str]:
    """Checks that contradict what a configuration promises."""
    if not isinstance(estimator, mc.KernelLMS) or estimator.method == "batch":
        return {}
    reason = "a weight is a factor of one step; a row repeated takes a second step of its own"
    return {
        f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")
    }


@parametrize_with_checks(
    [
        mc.KernelLMS(),
        mc.KernelLMS(alpha=1.0, method="batch"),
        mc.KernelLMS(budget=mc.budgets.Project(30)),
        mc.KernelLMS(feature_map=mc.Linear(), max_iter=20),
        mc.KernelLMS(mc.Precomputed(), step_size="auto"),
        mc.KernelPerceptron(max_iter=30),
        mc.KernelPerceptron(averaged=True, max_iter=5),
        mc.KernelPerceptron(budget=mc.budgets.Remove(60), max_iter=5),
    ],
    expected_failed_checks=exceptions_of_principle,
)
@pytest.mark.filterwarnings("ignore::mercer.exceptions.NumericalWarning")
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    # Labels at random cannot be separated in few passes, which the models rightly say.
    check(estimator)
