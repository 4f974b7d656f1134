"""Draws of rows, in one piece and in many."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from mercer.sampling import Draw, seed_from, uniform_rows

W = np.array([1.0, 0.0, 2.0, 3.0, 0.5, 4.0, 1.5])


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
