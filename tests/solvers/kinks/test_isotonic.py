"""The smoothed loss of quantiles in order, against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from mercer.solvers.kinks.isotonic import Envelope, System, isotonic

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
LEVELS = np.array([0.1, 0.3, 0.5, 0.7, 0.9])


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_isotonic_rows_are_those_of_a_peer(k: int) -> None:
    rows = RNG.normal(size=(50, k)).round(1)
    peer = [IsotonicRegression().fit_transform(np.arange(k), row) for row in rows]
    np.testing.assert_allclose(isotonic(rows), peer, atol=1e-12)


def random_envelope(gamma: float = 0.7) -> Envelope:
    residuals = RNG.normal(size=(40, len(LEVELS)))
    return Envelope(residuals, RNG.uniform(0.5, 3.0, size=40), LEVELS, gamma)


def test_the_slopes_lead_to_the_proximal_point() -> None:
    """No point in order does better than F - gamma s / w on h + w |v - F|^2 / (2 gamma)."""
    at = random_envelope()
    best = at.residuals - at.gamma * at.slopes / at.weights[:, None]

    def objective(points: Array) -> Array:
        loss = np.maximum(-LEVELS * points, (1 - LEVELS) * points).sum(axis=1)
        near = np.sum((points - at.residuals) ** 2, axis=1) / (2 * at.gamma)
        return at.weights * (loss + near)

    assert np.all(np.diff(best, axis=1) >= -1e-12)
    for _ in range(500):
        step = 10.0 ** RNG.uniform(-4, 0) * RNG.normal(size=best.shape)
        other = np.sort(best + step, axis=1)
        assert np.all(objective(other) >= objective(best) - 1e-12)


def test_the_curvature_is_that_of_the_slopes() -> None:
    at = random_envelope()
    step = 1e-7
    rise = [
        (Envelope(at.residuals + step * e, at.weights, LEVELS, at.gamma).slopes - at.slopes).sum(0)
        for e in np.eye(len(LEVELS))
    ]
    np.testing.assert_allclose(at.curvature(), np.array(rise) / step, atol=1e-4)


def test_what_is_known_of_the_slopes() -> None:
    """Means over tied entries, and zero for free ones."""
    at = random_envelope()
    assert at.free.any()
    assert at.tied.any()
    rows, mix = at.contrasts()
    np.testing.assert_allclose(mix.sum(axis=1), 0, atol=1e-12)
    for row in range(len(at.residuals)):
        mine = mix[rows == row]
        np.testing.assert_allclose(mine @ mine.T, np.eye(len(mine)), atol=1e-12)
        differences = mine.T @ (mine @ at.slopes[row])
        expected = np.where(at.free[row], 0.0, at.slopes[row] - differences)
        np.testing.assert_allclose(at.known()[row], -expected, atol=1e-12)


def test_the_equations_are_solved_as_if_they_were_written_out() -> None:
    at = random_envelope()
    points = RNG.normal(size=(40, 2))
    gram = np.exp(-0.5 * np.sum((points[:, None] - points) ** 2, axis=2))
    system = System(gram, 0.3, 0.8, at)
    ridge = RNG.uniform(0.1, 1.0, size=40)
    m = len(system.gather(at.residuals))
    basis = np.array([system.scatter(e).ravel() for e in np.eye(m)])
    whole = np.kron(gram / 0.3 + 0.8, np.eye(len(LEVELS))) + np.diag(np.repeat(ridge, len(LEVELS)))
    right = RNG.normal(size=(m, 2))
    expected = np.linalg.solve(basis @ whole @ basis.T, right)
    np.testing.assert_allclose(system.solve(right, ridge), expected, rtol=1e-9, atol=1e-11)
