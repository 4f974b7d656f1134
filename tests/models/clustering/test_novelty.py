"""Novelty by the mean embedding against loops, and its share of novel rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.neighbors import KernelDensity
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer as mc
from mercer.exceptions import DataError, ParameterError
from references import matrix, rbf

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2))
Z = RNG.normal(size=(20, 2))


@parametrize_with_checks(
    [mc.KernelNovelty()],
    expected_failed_checks=lambda estimator: {
        f"check_sample_weight_equivalence_on_{kind}_data": "a copy of a row vouches for the row"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learns_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_scores_are_means_and_the_threshold_leaves_rows_out() -> None:
    weights = RNG.uniform(0.2, 3.0, 200)
    model = mc.KernelNovelty(mc.RBF(0.7), 0.1).fit(X, sample_weight=weights)
    cross = matrix(rbf, Z, X, length_scale=0.7)
    np.testing.assert_allclose(model.score_samples(Z), cross @ weights / weights.sum())
    K = matrix(rbf, X, length_scale=0.7)
    without = [(np.delete(K[i], i), np.delete(weights, i)) for i in range(200)]
    left_out = np.array([row @ others / others.sum() for row, others in without])
    assert weights[left_out < model.offset_ * (1 - 1e-9)].sum() <= 0.1 * weights.sum()
    assert weights[left_out <= model.offset_ * (1 + 1e-9)].sum() >= 0.1 * weights.sum()


def test_an_rbf_gives_the_kernel_density() -> None:
    ours = mc.KernelNovelty(mc.RBF(0.7)).fit(X).score_samples(Z)
    theirs = np.exp(KernelDensity(bandwidth=0.7).fit(X).score_samples(Z))
    np.testing.assert_allclose(ours, theirs * 2 * np.pi * 0.7**2)


def test_new_rows_of_the_same_kind_are_novel_as_often_as_asked() -> None:
    flags = mc.KernelNovelty(mc.RBF(0.5), 0.1).fit(X).predict(RNG.normal(size=(2000, 2))) < 0
    # The threshold of 200 rows has a level with a deviation of 0.021: four of them, and the
    # binomial deviation of 2000 rows, are exceeded with a probability below 1e-4.
    low, high = (binom.ppf(q, 2000, p) for q, p in ((1e-5, 0.016), (1 - 1e-5, 0.184)))
    assert low <= flags.sum() <= high


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="level"):
        mc.KernelNovelty(level=0.7).fit(X)
    with pytest.raises(DataError, match="at least 2 rows"):
        mc.KernelNovelty().fit(X[:1])
