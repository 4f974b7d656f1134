"""Ridge by iterations on a system that is written out: answers, states and paths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

import mercer as mc
from mercer.rows.rows import InMemory, RowBlock
from mercer.solvers.protocol import RidgeAnswer, RidgeTask
from mercer.solvers.ridge import iterations
from mercer.solvers.ridge.iterations import Stopped

Array = NDArray[np.floating[Any]]
RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 2)), RNG.normal(size=(40, 2))
KERNEL = mc.RBF(0.5)
K = KERNEL(X)
ALPHAS = np.array([0.1, 1.0])


@dataclass
class WholeMatrix:
    """(K + alpha I) a = y for all targets at every alpha, without an intercept."""

    alphas: Array
    quality: dict[str, Any] = field(default_factory=lambda: {"rank_": 0})
    precondition: None = None
    remedies: str = "max_iter"
    floor: float = 0.0
    orthogonal: bool = False
    points: Any = field(default_factory=lambda: mc.Points(X))

    def __post_init__(self) -> None:
        self.right = np.hstack([Y] * len(self.alphas))
        self.shifts = np.repeat(self.alphas, 2)

    def multiply(self, vectors: Array) -> Array:
        return np.asarray(K @ vectors)

    def coefficients(self, solution: Array) -> tuple[Array, Array]:
        dual = np.moveaxis(solution.reshape(40, len(self.alphas), 2), 1, 0)
        return dual, np.zeros((len(self.alphas), 2))


def task(alphas: Array, **settings: Any) -> RidgeTask:
    rows = InMemory(RowBlock(mc.Points(X), Y))
    return RidgeTask("Owner", KERNEL, rows, False, alphas, **settings)


def exact(alpha: float) -> Array:
    return np.linalg.solve(K + alpha * np.eye(40), Y)


def test_the_answer_is_that_of_the_equations() -> None:
    found = iterations.solve(task(ALPHAS[:1]), WholeMatrix(ALPHAS[:1]), 1e-10, 500, None)
    assert_allclose(found.dual, exact(0.1), atol=1e-8)
    assert (found.quality["rank_"], found.quality["converged_"], found.warning) == (0, True, "")
    assert len(found.quality["residual_history_"]) == found.quality["n_iter_"] + 1
    path = iterations.path(task(ALPHAS), WholeMatrix(ALPHAS), 1e-10, 500)
    assert_allclose(path.dual, [exact(alpha) for alpha in ALPHAS], atol=1e-8)


def test_stopped_iterations_are_told_and_resumed() -> None:
    system, asked = WholeMatrix(ALPHAS[:1]), task(ALPHAS[:1], resumes=True)
    short = iterations.solve(asked, system, 1e-10, 3, Stopped((), 0))
    assert short.quality["n_iter_"] == 3
    assert "raise max_iter" in short.warning
    again = iterations.solve(asked, system, 1e-10, 500, short.state)
    whole = iterations.solve(asked, system, 1e-10, 500, Stopped((), 0))
    assert again.quality["n_iter_"] == whole.quality["n_iter_"]
    assert_array_equal(again.dual, whole.dual)


def test_a_report_sees_every_iteration_and_may_stop() -> None:
    seen: list[int] = []

    def report(answer: Callable[[], RidgeAnswer]) -> bool:
        seen.append(answer().quality["n_iter_"])
        return len(seen) == 4

    found = iterations.solve(
        task(ALPHAS[:1], report=report), WholeMatrix(ALPHAS[:1]), 1e-10, 500, None
    )
    assert seen == [1, 2, 3, 4]
    assert (found.quality["n_iter_"], found.warning) == (4, "")


def test_no_tolerance_is_below_rounding() -> None:
    eps = np.finfo(np.float64).eps
    assert iterations.least_tolerance(task(ALPHAS), 0.0) == 64 * eps
    assert iterations.least_tolerance(task(ALPHAS), 1e-3) == 1e-3
