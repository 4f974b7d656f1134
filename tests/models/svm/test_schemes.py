"""Which rows the functions of several classes learn from, and the values of pairs of classes."""

from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import mercer as mc
from few_rows import CODES
from mercer.models.svm.schemes import scheme_of
from references import matrix, rbf

RNG = np.random.default_rng(1)
RBF = mc.RBF(length_scale=0.5)


def naive_sides(n: int, multi_class: str, codes: NDArray[np.intp]) -> list[dict[int, float]]:
    """For each function its rows and their signs, in the order of the rows."""
    rows = list(enumerate(codes.tolist()))
    if n == 2:
        return [{k: 1.0 if code == 1 else -1.0 for k, code in rows}]
    if multi_class == "ovr":
        return [{k: 1.0 if code == own else -1.0 for k, code in rows} for own in range(n)]
    found = []
    for first, second in combinations(range(n), 2):
        ours = {k: 1.0 for k, code in rows if code == first}
        found.append(ours | {k: -1.0 for k, code in rows if code == second})
    return found


@pytest.mark.parametrize("multi_class", ["ovo", "ovr"])
@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_the_sides_of_every_function(n_classes: int, multi_class: str) -> None:
    codes = CODES[n_classes > CODES]
    positions, signs, sizes = scheme_of(n_classes, multi_class).sides(codes)
    want = naive_sides(n_classes, multi_class, codes)
    assert sizes.tolist() == [len(side) for side in want]
    assert positions.tolist() == [row for side in want for row in side]
    assert signs.tolist() == [sign for side in want for sign in side.values()]


@pytest.mark.parametrize("psd", [None, "clip"])
def test_values_of_pairs_are_those_of_their_coefficients(psd: Any) -> None:
    rng = np.random.default_rng(6)
    y = np.repeat(np.arange(9), 12)
    data = rng.normal(size=(9, 3))[y] + rng.normal(size=(len(y), 3))
    model = mc.SVC(RBF, decision_function_shape="ovo", psd=psd).fit(data, y)
    wide = matrix(rbf, data, length_scale=0.5)
    want = []
    for i, j in combinations(range(9), 2):
        b = np.zeros(len(y))
        mine, other = (y[model.support_] == code for code in (i, j))
        b[model.support_[mine]] = model.dual_coef_[j - 1, mine]
        b[model.support_[other]] = model.dual_coef_[i, other]
        want.append(wide @ b + model.intercept_[len(want)])
    np.testing.assert_allclose(model.decision_function(data), np.stack(want, axis=1), atol=1e-9)


def test_many_classes_take_memory_for_classes_not_for_pairs() -> None:
    y = np.repeat(np.arange(60), 3)
    data = np.random.default_rng(7).normal(size=(60, 3))[y] + 0.1 * RNG.normal(size=(len(y), 3))
    model = mc.SVC(RBF).fit(data, y)
    # Twice the coefficients with their positions, and not one for each of 1770 pairs.
    assert len(pickle.dumps(model)) < 5 * model.dual_coef_.nbytes
