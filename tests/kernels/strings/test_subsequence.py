"""The subsequence kernel against enumeration of all subsequences."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.exceptions import ParameterError
from words import ODD, least_eigenvalue, random_words

WORDS = random_words(9, 9, seed=4) + ODD


@pytest.mark.parametrize("length", [1, 2, 3, 5])
@pytest.mark.parametrize("decay", [0.1, 0.5, 1.0])
def test_subsequences_are_counted(length: int, decay: float) -> None:
    wanted = ref.matrix(ref.subsequence, WORDS, length=length, decay=decay)
    kernel = mc.Subsequence(length, decay)
    assert_allclose(kernel(WORDS), wanted, rtol=1e-12)
    assert_allclose(kernel(WORDS, WORDS[:3]), wanted[:, :3], rtol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_subsequence_is_positive_semidefinite(seed: int) -> None:
    assert least_eigenvalue(mc.Subsequence(2, 0.7)(random_words(50, 8, seed=seed))) > -1e-13


def test_long_texts_have_finite_values() -> None:
    texts = random_words(3, 3000, seed=1)
    assert np.isfinite(mc.Subsequence(4, 0.9).normalized()(texts)).all()


def test_decay_is_at_most_one() -> None:
    with pytest.raises(ParameterError, match="0 < decay <= 1"):
        mc.Subsequence(2, 1.5)
