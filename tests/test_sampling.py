"""Draws of rows, in one piece and in many."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import ParameterError
from mercer.sampling import Draw, blocks, random_numbers, seed_from, uniform_rows

SOURCES = [lambda: 3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)]

W = np.array([1.0, 0.0, 2.0, 3.0, 0.5, 4.0, 1.5])


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ({"step": 7}, 7),
        ({"width": 10}, 1000),  # all rows: 80 bytes each are few
        ({"width": 2.0, "n_bytes": 16 * 300}, 300),
        ({"width": 10**9}, 256),
        ({"width": 10**9, "least": 0}, 1),
        ({"width": 0, "n_bytes": 8 * 400}, 400),
    ],
)
@pytest.mark.parametrize("n", [0, 1, 1000])
def test_blocks_hold_all_rows_in_order(options: dict[str, Any], step: int, n: int) -> None:
    parts = [np.arange(n)[rows] for rows in blocks(n, **options)]
    assert np.concatenate([np.arange(0), *parts]).tolist() == list(range(n))
    assert all(len(part) == step for part in parts[:-1])
    assert all(0 < len(part) <= step for part in parts)


@pytest.mark.parametrize("cuts", [[3], [1, 2, 5], [0, 7], [4, 4]])
def test_parts_draw_what_the_whole_draws(cuts: list[int]) -> None:
    edges = [0, *cuts, len(W)]
    for seed in range(20):
        whole = Draw.of(W, 4, seed)
        parts = [Draw.of(W[a:b], 4, seed, start=a) for a, b in pairwise(edges)]
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        assert total.rows.tolist() == whole.rows.tolist()


def test_rows_of_no_weight_are_never_drawn_and_all_others_are_if_there_is_room() -> None:
    assert sorted(Draw.of(W, 100, 0).rows.tolist()) == [0, 2, 3, 4, 5, 6]


def test_the_first_row_is_drawn_in_proportion_to_its_weight() -> None:
    """The statistic is chi-squared of 5 degrees; a false alarm has a chance of 1e-6."""
    draws = 4000
    counts = np.zeros(len(W))
    for seed in range(draws):
        counts[Draw.of(W, 1, seed).rows[0]] += 1
    wanted = draws * W / W.sum()
    kept = W > 0
    statistic = float(np.sum((counts - wanted)[kept] ** 2 / wanted[kept]))
    assert counts[1] == 0
    assert statistic < 36.0


def test_uniform_rows_are_distinct_and_reproducible() -> None:
    first = uniform_rows(10**11, 50, np.random.RandomState(3))
    again = uniform_rows(10**11, 50, np.random.RandomState(3))
    assert len(set(first.tolist())) == 50
    assert first.max() < 10**11
    assert first.tolist() == again.tolist()
    assert seed_from(np.random.RandomState(3)) == seed_from(np.random.RandomState(3))


def test_random_numbers_come_from_anything_that_gives_them() -> None:
    drawn = [random_numbers(source(), "Model").randint(1000) for source in SOURCES for _ in "ab"]
    assert drawn[::2] == drawn[1::2]
    generator = np.random.default_rng(0)
    random_numbers(generator, "Model").random_sample(5)
    assert generator.random() != np.random.default_rng(0).random()  # it was drawn from
    for wrong in ("a", 1.5, -1, [1, 2]):
        with pytest.raises(ParameterError, match=r"Model: random_state = .* gives no random"):
            random_numbers(wrong, "Model")


@pytest.mark.parametrize(
    "model",
    [
        lambda r: mc.KernelRidge(solver=mc.solvers.NystromSolver(5, random_state=r)),
        lambda r: mc.KernelRidge(solver=mc.solvers.Falkon(5, random_state=r)),
        lambda r: mc.KernelRidge(solver=mc.solvers.ConjugateGradient(random_state=r)),
        lambda r: mc.KernelRidge(alpha="loo", solver=mc.solvers.ConjugateGradient(random_state=r)),
        lambda r: mc.Nystrom(n_landmarks=5, random_state=r),
        lambda r: mc.RandomFourier(n_components=5, random_state=r),
        lambda r: mc.TensorSketch(mc.Polynomial(2), n_components=5, random_state=r),
    ],
)
def test_generators_and_what_is_none(model: Any) -> None:
    X = np.random.default_rng(0).normal(size=(30, 2))
    first, again = (model(np.random.default_rng(1)).fit(X, X[:, 0]) for _ in range(2))
    method = "predict" if hasattr(first, "predict") else "transform"
    assert np.array_equal(getattr(first, method)(X), getattr(again, method)(X))
    with pytest.raises(ParameterError, match="random_state = 'a'"):
        model("a").fit(X, X[:, 0])
