"""Rows with given scores: how near they are, and what has none."""

from __future__ import annotations

import numpy as np
import pytest

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)) * [1.0, 2.0, 0.5] + 4.0
Z = RNG.normal(size=(9, 3)) + 4.0


def noisy_circle() -> tuple[np.ndarray, np.ndarray]:
    angle = np.linspace(0, 6, 150)
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    return rows, rows + 0.1 * RNG.normal(size=rows.shape)


def test_ridge_restores_rows_from_their_scores() -> None:
    _, noisy = noisy_circle()
    model = mc.KernelPCA(mc.RBF(0.8), 6).fit(noisy)
    restored = model.inverse_transform(model.transform(noisy))
    total = np.sum((noisy - noisy.mean(axis=0)) ** 2)
    expected = np.sum((restored - noisy) ** 2) / total
    assert model.reconstruction_error_ == pytest.approx(expected)
    assert expected < 0.01


def test_a_fixed_point_removes_noise() -> None:
    rows, noisy = noisy_circle()
    model = mc.KernelPCA(mc.RBF(0.8), 6, preimage="fixed_point").fit(noisy)
    restored = model.inverse_transform(model.transform(noisy))
    assert np.mean((restored - rows) ** 2) < 0.6 * np.mean((noisy - rows) ** 2)


def test_a_fixed_point_is_nearest_in_feature_space() -> None:
    model = mc.KernelPCA(mc.RBF(1.5), 2, preimage="fixed_point").fit(X)
    scores = model.transform(Z[:1])
    best = model.inverse_transform(scores)
    weights = scores @ model.dual_coef_.T + 1 / len(X)

    def distance(row: np.ndarray) -> float:
        return float(1 - 2 * (weights @ mc.RBF(1.5)(X, row[None]))[0, 0])

    steps = 0.01 * np.vstack([np.eye(3), -np.eye(3)])
    assert all(distance(best[0]) <= distance(best[0] + step) for step in steps)


def test_pre_images_need_numbers_and_scores() -> None:
    model = mc.KernelPCA(mc.Spectrum(1), 1).fit(["ab", "ba", "bb"])
    with pytest.raises(DataTypeError, match="not rows of numbers"):
        model.inverse_transform([[0.0]])
    with pytest.raises(ParameterError, match="is for the RBF kernel"):
        mc.KernelPCA(mc.Matern(1.5), 2, preimage="fixed_point").fit(X).inverse_transform([[0, 0]])
    with pytest.raises(DataError, match="there are 2 components"):
        mc.KernelPCA(n_components=2).fit(X).inverse_transform([[0.0]])
