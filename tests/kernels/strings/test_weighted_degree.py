"""The weighted degree kernel against its definition, and on splice sites."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import StratifiedKFold

import mercer as mc
import references as ref
from words import ODD, least_eigenvalue, random_words

WORDS = random_words(10, 14, seed=2) + ODD


@pytest.mark.parametrize("degree", [1, 2, 5, 30])
@pytest.mark.parametrize("shift", [0, 1, 3, 20])
def test_weighted_degree_equals_its_definition(degree: int, shift: int) -> None:
    wanted = ref.matrix(ref.weighted_degree, WORDS, degree=degree, shift=shift)
    kernel = mc.WeightedDegree(degree, shift)
    assert_allclose(kernel(WORDS), wanted, rtol=1e-12)
    assert_allclose(kernel(WORDS[:4], WORDS), wanted[:4], rtol=1e-12)


@pytest.mark.parametrize("shift", [0, 1, 2, 8])
@pytest.mark.parametrize("seed", range(4))
def test_weighted_degree_is_positive_semidefinite(shift: int, seed: int) -> None:
    words = random_words(60, 10, seed=seed, letters="AC")
    assert least_eigenvalue(mc.WeightedDegree(3, shift)(words)) > -1e-13


@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA names no folder")
def test_splice_sites_are_classified() -> None:
    with gzip.open(Path(os.environ["MERCER_DATA"], "strings/splice.txt.gz"), "rt") as file:
        labels, sequences = zip(*[line.split() for line in file][1:], strict=True)
    X, y = np.array(sequences), np.array(labels)
    train, test = next(StratifiedKFold(10, shuffle=True, random_state=0).split(X, y))
    kernel = mc.WeightedDegree(6, alphabet="dna").normalized()
    model = mc.SVC(kernel, C=10.0).fit(X[train], y[train])
    assert model.score(X[test], y[test]) >= 0.95
