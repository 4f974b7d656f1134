"""What a first pass finds: blocks that are refused, sources that change, weights of any unit."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from numpy.typing import NDArray

import mercer as mc
from mercer.exceptions import DataError
from stream_data import Again, N, W, X, Y, broken, fit, stream, with_nan

Array = NDArray[np.floating[Any]]
S = mc.solvers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (with_nan, r"row 1100: .*NaN \(first in row 1705, column 2\)"),
        (
            lambda rows, y: (rows, np.where(y > 20, np.nan, y)),
            r"y contains NaN or infinity \(first in row 17\d\d\)",
        ),
        (lambda rows, y: (rows[:, :2], y), "has 3 columns, .* row 1700 has 2 columns"),
        (lambda rows, y: (rows, y[:-1]), r"row 1700: .*shape \(99,\) where X has 100 rows"),
        (lambda rows, y: (sp.csr_array(rows), y), "arrays, .* sparse matrices"),
        (lambda rows, y: (rows.astype(str), y), "row 1700"),
        (lambda rows, y: (rows, y, np.ones(100)), "some blocks have weights"),
        (lambda rows, y: (rows, np.column_stack([y, y])), "the same number of targets"),
        (lambda rows, y: (rows, y, y, y), "tuple of 4"),
        (lambda rows, y: (3.0, y), "float, which has no rows"),
        (lambda rows, y: (rows, ["a"] * 100), "y has values of type"),
        (lambda rows, y: (rows, y * 1j), "Complex data not supported"),
        (lambda rows, y: rows, "requires y to be passed"),
    ],
    ids=lambda value: "" if callable(value) else str(value)[:20],
)
def test_a_bad_block_is_refused_by_place(change: Any, message: str) -> None:
    with pytest.raises(DataError, match=re.compile(message, re.DOTALL)) as caught:
        fit(broken(17, change))
    assert "Traceback" not in str(caught.value)


def test_weights_are_checked() -> None:
    with pytest.raises(DataError, match="weight >= 0"):
        fit([(X, Y, -W)])
    with pytest.raises(DataError, match="weights are 0"):
        fit([(X, Y, 0 * W)])


def test_a_source_that_changes_is_refused() -> None:
    class Shrinking(Again):
        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            blocks = list(stream())
            return iter(blocks if self.passes < 3 else blocks[:-1])

    with pytest.raises(DataError, match="found 2200 rows where the first found 2500"):
        fit(Shrinking(), solver=S.NystromSolver(20, random_state=0))

    class Short(Again):
        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            return iter(list(stream())[: 6 if self.passes < 2 else 1])

    # Also where the pass that is short looks for landmarks, and skips the blocks without any.
    with pytest.raises(DataError, match="found 1 rows where the first found 2500"):
        fit(Short(), solver=S.NystromSolver(landmarks=np.arange(100, 200)))

    class Narrowing(Again):
        def __iter__(self) -> Iterator[Any]:
            self.passes += 1
            return stream(rows=X if self.passes < 2 else X[:, :2])

    with pytest.raises(DataError, match="columns"):
        fit(Narrowing(), solver=S.NystromSolver(20, random_state=0))


@pytest.mark.parametrize("change", ["points", "targets", "weights", "order", "texts"])
def test_sources_with_other_values_in_every_pass_are_refused(change: str) -> None:
    calls = 0

    def blocks() -> Iterator[Any]:
        nonlocal calls
        calls += 1
        rows, y, weights = X.copy(), Y.copy(), W.copy()
        kinds = np.where(Y > 20, "u", "v")
        if change == "points":
            rows += 0.5 * calls
        elif change == "targets":
            y[-1] += calls
        elif change == "weights":
            weights[-1] += calls
        elif change == "order":
            rows, y, weights = (a[np.random.default_rng(calls).permutation(N)] for a in (X, Y, W))
        else:
            kinds[1500] = str(calls)
        for part in (slice(0, 1500), slice(1500, N)):
            frame = pd.DataFrame(rows[part], columns=list("abc")).assign(kind=kinds[part])
            yield frame, y[part], weights[part]

    kernel = mc.RBF(1.0).on("a", "b", "c") + mc.Categorical(1.0).on("kind")
    model = mc.KernelRidge(kernel, solver=S.NystromSolver(30, random_state=0))
    with pytest.raises(DataError, match=r"other values than the first; yield the same rows"):
        model.fit(blocks)
    if change != "targets":  # the classes are the same
        classifier = mc.KernelLogisticRegression(kernel, solver=S.NystromSolver(30, random_state=0))
        with pytest.raises(DataError, match=r"other values than the first; yield the same rows"):
            classifier.fit(lambda: ((x, np.where(y > 20, "u", "v"), w) for x, y, w in blocks()))


# Weights ------------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
COUNT, STEP = 1600, 500
POINTS = RNG.normal(size=(COUNT, 2))
LABELS = (POINTS[:, 0] + 0.3 * RNG.normal(size=COUNT) > 0).astype(int)
TARGETS = np.sin(2 * POINTS[:, 0]) + 2
WEIGHTS = RNG.uniform(0.5, 2.0, size=COUNT)
WEIGHTS[::7] = 0
LANDMARKS = POINTS[:20]


def rbf(A: Array, B: Array) -> Array:
    squares = ((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(np.exp(-squares / 2))


def slope_of_logistic(y: Array, f: Array) -> Array:
    signs = np.where(y > 0, 1.0, -1.0)
    return np.asarray(-signs / (1 + np.exp(signs * f)))


def slope_of_huber(y: Array, f: Array) -> Array:
    return np.asarray(np.clip(f - y, -0.1, 0.1))


MACHINES: dict[str, tuple[Any, Array, Any]] = {
    "logistic": (mc.KernelMachineClassifier(mc.RBF(1.0)), LABELS, slope_of_logistic),
    "squared": (mc.KernelMachineRegressor(mc.RBF(1.0), "squared"), TARGETS, lambda y, f: f - y),
    "huber": (
        mc.KernelMachineRegressor(mc.RBF(1.0), mc.losses.Huber(0.1)),
        TARGETS,
        slope_of_huber,
    ),
}


def blocks(*columns: Array, step: int = STEP) -> list[Any]:
    return [
        tuple(c[first : first + step] for c in columns) for first in range(0, len(columns[0]), step)
    ]


def chunks(*columns: Array) -> list[Any]:
    return [da.from_array(column, chunks=(STEP, *column.shape[1:])) for column in columns]


def require_stationary(
    model: Any, data: tuple[Array, Array, Array], alpha: float, slope: Any
) -> None:
    """The gradient of sum w loss + alpha |f|^2 / 2 in coefficients and constant, in a loop."""
    rows, y, w = data
    cross, square = rbf(rows, LANDMARKS), rbf(LANDMARKS, LANDMARKS)
    values = cross @ model.dual_coef_ + model.intercept_
    slopes = w * slope(y, values)
    terms = cross.T @ slopes, alpha * square @ model.dual_coef_
    assert np.linalg.norm(terms[0] + terms[1]) <= 1e-6 * np.linalg.norm(terms[0])
    assert abs(slopes.sum()) <= 1e-6 * np.abs(slopes).sum()


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("scale", [1e6, 1e-6])
@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon])
def test_weights_have_no_unit(name: str, scale: float, solver: Any) -> None:
    machine, targets, slope = MACHINES[name]
    machine.set_params(alpha=0.1 * scale, solver=solver(landmarks=LANDMARKS), tol=1e-9)
    wanted = machine.fit(POINTS, targets, scale * WEIGHTS).predict(POINTS)
    for given in (
        (blocks(POINTS, targets, scale * WEIGHTS),),
        chunks(POINTS, targets, scale * WEIGHTS),
    ):
        model = machine.fit(*given)
        assert model.converged_
        # What is minimised is that of weights of the order of 1, multiplied.
        require_stationary(model, (POINTS, targets, WEIGHTS), 0.1, slope)
        assert model.gradient_norm_ < 1e-3 * scale
        assert_allclose(model.predict(POINTS), wanted, rtol=1e-7)


def test_chosen_landmarks_and_length_scales_have_no_unit() -> None:
    solver = S.NystromSolver(20, landmarks="rpcholesky", random_state=0)
    model = mc.KernelMachineClassifier(mc.Matern("scale"), alpha=0.1, solver=solver)
    wanted = model.fit(blocks(POINTS, LABELS, WEIGHTS)).decision_function(POINTS)
    model.set_params(alpha=0.1 * 2.0**20)
    found = model.fit(blocks(POINTS, LABELS, 2.0**20 * WEIGHTS)).decision_function(POINTS)
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_weights_that_are_too_far_apart_are_refused_as_in_memory() -> None:
    far = np.where(np.arange(COUNT) < 10, 1e-13, 1.0)
    model = mc.KernelMachineClassifier(mc.RBF(1.0), solver=S.NystromSolver(20, random_state=0))
    for given in ((POINTS, LABELS, far), (blocks(POINTS, LABELS, far),)):
        with pytest.raises(DataError, match="positive sample weights reach from 1e-13 to 1"):
            model.fit(*given)


@pytest.mark.parametrize("solver", [S.NystromSolver, S.Falkon])
def test_first_steps_are_taken_on_rows_that_count(solver: Any) -> None:
    n = 40_000  # every tenth row would be looked at first
    rows = np.random.default_rng(1).normal(size=(n, 2))
    labels = (rows[:, 0] + rows[:, 1] ** 2 > 1).astype(int)
    model = mc.KernelMachineClassifier(
        mc.RBF(1.0), alpha=1.0, solver=solver(landmarks=LANDMARKS), tol=1e-9
    )
    numbers = np.arange(n)
    for kept in (numbers % 10 > 0, numbers % 10 == 3, numbers >= 35_000):
        weights = np.where(kept, 1.0, 0.0)
        wanted = model.fit(rows[kept], labels[kept]).decision_function(LANDMARKS)
        found = model.fit(blocks(rows, labels, weights, step=10_000))
        require_stationary(found, (rows, labels, weights), 1.0, slope_of_logistic)
        assert_allclose(found.decision_function(LANDMARKS), wanted, rtol=1e-6, atol=1e-6)
        lazy = [da.from_array(column, chunks=10_000) for column in (rows, labels, weights)]
        found = model.fit(*lazy)
        assert_allclose(found.decision_function(LANDMARKS), wanted, rtol=1e-6, atol=1e-6)


def test_rows_of_weight_zero_may_be_anywhere() -> None:
    far = POINTS.copy()
    far[::7] = 1e200  # where a linear kernel is infinite
    model = mc.KernelMachineClassifier(mc.Linear(), solver=S.NystromSolver(landmarks=[[1.0, 0.0]]))
    kept = WEIGHTS > 0
    wanted = model.fit(POINTS[kept], LABELS[kept], WEIGHTS[kept]).decision_function(LANDMARKS)
    found = model.fit(blocks(far, LABELS, WEIGHTS)).decision_function(LANDMARKS)
    assert_allclose(found, wanted, rtol=1e-8)
