"""The certificate of a minimum: the best state, the largest bound, and when their gap is small."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.solvers.kinks.certificate import Certificate
from mercer.solvers.newton.method import State


def state(loss: float) -> State:
    return State(np.zeros((2, 1)), np.zeros(1), loss, np.inf, False)


def test_the_best_state_and_the_largest_bound_are_kept() -> None:
    certificate = Certificate(tol=1e-3, constant_loss=10.0)
    for objective in (5.0, 3.0, 4.0):
        certificate.consider(state(objective), objective)
    certificate.consider(state(2.999), 2.999, gain=0.1)  # not worth the change
    for bound in (1.0, 2.5, 2.0):
        certificate.raise_bound(bound)
    assert certificate.gap == pytest.approx(0.5)
    best = certificate.judge(rounding=0.0)
    assert (best.loss, best.error, best.converged) == (3.0, pytest.approx(0.5), False)


def test_a_gap_within_the_tolerance_its_allowance_or_rounding_converges() -> None:
    for bound, rounding, allowance, expected in (
        (2.998, 0.0, 0.0, True),
        (2.99, 0.0, 0.0, False),
        (2.99, 0.0, 0.008, True),
        (2.99, 0.1, 0.0, True),
        (2.0, 10.0, 0.0, False),  # rounding excuses a hundred tolerances at most
    ):
        certificate = Certificate(tol=1e-3, constant_loss=10.0)
        certificate.consider(state(3.0), 3.0)
        certificate.raise_bound(bound)
        assert certificate.judge(rounding, allowance).converged is expected
