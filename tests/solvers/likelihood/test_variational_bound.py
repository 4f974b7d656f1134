"""The collapsed bound on plain matrices."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from numpy.typing import NDArray

from mercer.exceptions import ValidityError
from mercer.linalg.whitening import Whitening, whiten_with_jitter
from mercer.solvers.likelihood.variational_bound import Elbo, FeatureRows

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
EPS = float(np.finfo(float).eps)
N, M, T = 30, 6, 2
BASIS = RNG.normal(size=(N, 9))
K = BASIS @ BASIS.T + 0.1 * np.eye(N)
Y = RNG.normal(size=(N, T))
NOISE = RNG.uniform(0.5, 2.0, size=N)


def root_of(K: Array) -> Whitening:
    return whiten_with_jitter(K[:M, :M], EPS)


def bound_of(K: Array, noise: Array, parts: int = 1, *, constant: bool = False) -> Elbo:
    features = root_of(K).apply(K[:, :M].copy())
    sums = (
        FeatureRows(
            features[rows], K.diagonal()[rows], noise[rows], Y[rows], constant=constant
        ).sums()
        for rows in np.array_split(np.arange(N), parts)
    )
    return Elbo(reduce(add, sums))


def log_density(covariance: Array) -> float:
    fit = np.sum(Y * np.linalg.solve(covariance, Y))
    return float(-0.5 * (fit + T * (np.linalg.slogdet(covariance)[1] + N * np.log(2 * np.pi))))


@pytest.mark.parametrize("parts", [1, 4])
def test_both_bounds_are_their_definitions_and_parts_add_up(parts: int) -> None:
    bound = bound_of(K, NOISE, parts)
    Q = K[:, :M] @ np.linalg.solve(K[:M, :M], K[:M])
    spare = np.sum((K - Q).diagonal() / NOISE)
    lower = log_density(Q + np.diag(NOISE)) - 0.5 * T * spare
    assert bound.value() == pytest.approx(lower, rel=1e-10)
    wide, narrow = Q + (1 + spare) * np.diag(NOISE), Q + np.diag(NOISE)
    upper = log_density(narrow) + 0.5 * np.sum(
        Y * (np.linalg.solve(narrow, Y) - np.linalg.solve(wide, Y))
    )
    assert bound.upper_value() == pytest.approx(upper, rel=1e-10)
    assert lower <= log_density(K + np.diag(NOISE)) <= upper
    assert bound.trace_error == pytest.approx(spare / np.sum(K.diagonal() / NOISE), rel=1e-9)


@pytest.mark.parametrize("parts", [1, 4])
def test_an_unknown_mean_is_a_feature_of_huge_variance(parts: int) -> None:
    bound, huge = bound_of(K, NOISE, parts, constant=True), 1e8
    features = root_of(K).apply(K[:, :M].copy())
    wider = np.hstack([features, np.full((N, 1), np.sqrt(huge))])
    limit = Elbo(FeatureRows(wider, K.diagonal() + huge, NOISE, Y).sums())
    # The prior of the constant has the density (2 pi huge)^(-1/2) where the data are.
    unit = T * 0.5 * np.log(2 * np.pi * huge)
    assert bound.value() == pytest.approx(limit.value() + unit, abs=1e-5)
    assert bound.upper_value() == pytest.approx(limit.upper_value() + unit, abs=1e-5)
    assert_allclose(bound.weights, limit.weights[:-1], atol=1e-6)
    assert_allclose(bound.constant(bound.weights), np.sqrt(huge) * limit.weights[-1], rtol=1e-6)
    half, other = bound.half_solve(features), limit.half_solve(wider)
    assert_allclose(half.T @ half + bound.constant_variance, other.T @ other, atol=1e-5)


@pytest.mark.parametrize("constant", [False, True])
def test_slopes_are_finite_differences(constant: bool) -> None:
    # Diagonals with room to spare: what landmarks explain of a row moves without its diagonal.
    roomy, root = K.diagonal() + 1, whiten_with_jitter(K[:M, :M], EPS)
    features = root.apply(K[:, :M].copy())
    sums = FeatureRows(features, roomy, NOISE, Y, constant=constant).sums()
    slopes = Elbo(sums).gradient(root)
    in_cross = (features @ slopes.inner + Y @ slopes.dual.T + slopes.offset) / NOISE[:, None]
    step = 1e-6

    def moved(square: Array, cross: Array, noise: Array) -> float:
        root = whiten_with_jitter(K[:M, :M] + square, EPS)
        features = root.apply(K[:, :M] + cross)
        return Elbo(FeatureRows(features, roomy, noise, Y, constant=constant).sums()).value()

    direction = RNG.normal(size=(M, M))
    direction += direction.T
    other = RNG.normal(size=(N, M))
    none, still = np.zeros((M, M)), np.zeros((N, M))
    for found, change in (
        (np.sum(slopes.square * direction), lambda h: moved(h * direction, still, NOISE)),
        (np.sum(in_cross * other), lambda h: moved(none, h * other, NOISE)),
        (slopes.noise, lambda h: moved(none, still, NOISE * np.exp(h))),
    ):
        assert found == pytest.approx((change(step) - change(-step)) / (2 * step), rel=1e-6)


def test_posterior_of_the_landmarks() -> None:
    bound, root = bound_of(K, NOISE), root_of(K)
    C, M_zz = K[:, :M], K[:M, :M]
    inner = M_zz + C.T @ (C / NOISE[:, None])
    dual = np.linalg.solve(inner, C.T @ (Y / NOISE[:, None]))
    assert_allclose(root.to_coefficients(bound.weights), dual, rtol=1e-9)
    spread = bound.half_solve(root.apply(C.copy()))
    assert_allclose(spread.T @ spread, C @ np.linalg.solve(inner, C.T), rtol=1e-8, atol=1e-10)


def test_features_that_carry_everything_leave_no_gap() -> None:
    diagonal = np.einsum("ij,ij->i", BASIS, BASIS)
    bound = Elbo(FeatureRows(BASIS, diagonal, NOISE, Y).sums())
    wanted = log_density(BASIS @ BASIS.T + np.diag(NOISE))
    assert bound.value() == pytest.approx(wanted, rel=1e-11)
    assert bound.upper_value() == pytest.approx(wanted, rel=1e-11)
    assert bound.trace_error == 0


def test_landmarks_that_are_copies_or_say_nothing() -> None:
    for square in (np.ones((5, 5)), np.zeros((5, 5)), 1e300 * np.ones((2, 2))):
        root = whiten_with_jitter(square, EPS)
        assert np.isfinite(root.upper).all()
        assert_allclose(root.upper.T @ root.upper, square, rtol=1e-12, atol=1e-12)
    copies = bound_of(np.ones((N, N)), NOISE)
    assert copies.value() == pytest.approx(log_density(1 + np.diag(NOISE)), rel=1e-9)


def test_an_indefinite_matrix_is_refused() -> None:
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        whiten_with_jitter(np.array([[1.0, 2.0], [2.0, 1.0]]), EPS)
