"""Values of the functions of pairs of classes."""

from __future__ import annotations

import pickle
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import mercer as mc
from references import matrix, rbf

RNG = np.random.default_rng(1)
RBF = mc.RBF(length_scale=0.5)


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
