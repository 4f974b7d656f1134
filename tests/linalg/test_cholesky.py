"""The Cholesky factor and Gaussians built on it, against dense formulas."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

from mercer.exceptions import ValidityError
from mercer.linalg import cholesky
from mercer.linalg.cholesky import factorise
from mercer.linalg.symmetric import mirror
from mercer.solvers.likelihood.gaussian import Gaussian, Precision
from ridge_problems import gaussian

Array = NDArray[np.floating[Any]]

RNG = np.random.default_rng(0)
N = 300  # more than one block
ROOT = RNG.normal(size=(N, N)) / np.sqrt(N)
A = ROOT @ ROOT.T + 0.1 * np.eye(N)
NOISE = RNG.uniform(0.1, 1.0, size=N)
G = A + np.diag(NOISE)
Y = RNG.normal(size=(N, 2))


def test_what_a_factor_computes() -> None:
    factor = factorise(A.copy(), NOISE)
    assert (factor.jitter, factor.warning()) == (0.0, "")
    np.testing.assert_allclose(factor.solve(Y), np.linalg.solve(G, Y), rtol=1e-9)
    half = factor.half_solve(Y.copy())
    np.testing.assert_allclose(half.T @ half, Y.T @ np.linalg.solve(G, Y), rtol=1e-9)
    np.testing.assert_allclose(factor.multiply(half), Y, rtol=1e-9, atol=1e-12)
    assert factor.log_determinant() == pytest.approx(np.linalg.slogdet(G)[1])
    for overwrite in (False, True):
        inverse = factor.inverse(overwrite=overwrite)
        mirror(inverse)
        np.testing.assert_allclose(inverse, np.linalg.inv(G), rtol=1e-7, atol=1e-10)


def test_a_factor_of_sorted_rows() -> None:
    order = RNG.permutation(N)
    sorted_rows = factorise(A[np.ix_(order, order)], NOISE[order])
    factor = replace(sorted_rows, order=order)
    np.testing.assert_allclose(factor.solve(Y), np.linalg.solve(G, Y), rtol=1e-9)
    half = factor.half_solve(Y.copy())
    np.testing.assert_allclose(half.T @ half, Y.T @ np.linalg.solve(G, Y), rtol=1e-9)
    np.testing.assert_allclose(factor.multiply(half), Y, rtol=1e-9, atol=1e-12)
    product = factor.multiply(np.eye(N))
    np.testing.assert_allclose(product @ product.T, G, rtol=1e-9, atol=1e-12)
    inverse = factor.inverse(overwrite=False)
    mirror(inverse)
    np.testing.assert_allclose(inverse, np.linalg.inv(G), rtol=1e-7, atol=1e-10)
    few = order[order < 200]
    part = replace(factorise(G[np.ix_(few, few)]), order=few)
    grown = part.extended(G[:200, 200:], G[200:, 200:])
    np.testing.assert_allclose(grown.solve(Y), np.linalg.solve(G, Y), rtol=1e-9)


def test_a_gaussian_of_sorted_rows() -> None:
    order = RNG.permutation(N)
    plain = Gaussian.of(A.copy(), NOISE, Y, constant=True)
    sorted_rows = Gaussian.of(A[np.ix_(order, order)], NOISE, Y, constant=True, order=order)
    assert sorted_rows.log_likelihood() == pytest.approx(plain.log_likelihood())
    np.testing.assert_allclose(sorted_rows.dual, plain.dual, rtol=1e-9)
    pairs = zip(sorted_rows.leave_one_out(), plain.leave_one_out(), strict=True)
    for mine, other in pairs:
        np.testing.assert_allclose(mine, other, rtol=1e-9)


@pytest.mark.parametrize("split", [1, 150, 299])
def test_an_extended_factor_is_that_of_the_whole(split: int) -> None:
    factor = factorise(G[:split, :split].copy()).extended(G[:split, split:], G[split:, split:])
    np.testing.assert_allclose(factor.solve(Y), np.linalg.solve(G, Y), rtol=1e-9)
    with pytest.raises(ValidityError, match="new rows"):
        factorise(np.eye(2)).extended(np.ones((2, 1)), np.ones((1, 1)))


def test_jitter_is_the_least_rung_that_works_and_leaves_the_matrix_intact() -> None:
    low_rank = ROOT[:, :20] @ ROOT[:, :20].T
    factor = factorise(low_rank.copy())
    assert factor.fraction == 1e-10
    assert factor.jitter == pytest.approx(1e-10 * low_rank.diagonal().mean())
    rebuilt = factor.multiply(np.asfortranarray(np.triu(factor.upper)))
    np.testing.assert_allclose(rebuilt, low_rank, atol=1e-8)
    assert "fewer numerical dimensions" in factor.warning()


@pytest.mark.parametrize("n", [1, 13, 96, N])
def test_a_precision_is_the_inverse(n: int) -> None:
    targets = Y[:n].copy()
    found = Precision.of(A[:n, :n].copy(), NOISE[:n], targets)
    np.testing.assert_allclose(
        np.tril(found.inverse), np.tril(np.linalg.inv(G[:n, :n])), rtol=1e-7, atol=1e-10
    )
    np.testing.assert_allclose(found.dual, np.linalg.solve(G[:n, :n], Y[:n]), rtol=1e-8)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(G[:n, :n])[1])
    np.testing.assert_array_equal(targets, Y[:n])


def test_a_precision_climbs_the_same_ladder_as_a_factor() -> None:
    low_rank = ROOT[:, :20] @ ROOT[:, :20].T
    found = Precision.of(low_rank.copy(), 0.0, Y)
    factor = factorise(low_rank.copy(), 0.0)
    assert (found.jitter.size, found.jitter.fraction) == (factor.jitter, factor.fraction)
    assert found.log_determinant == pytest.approx(factor.log_determinant(), rel=1e-4)
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        Precision.of(-np.eye(3), 0.0, np.ones((3, 1)))


def test_the_likelihood_is_scipys_and_slopes_are_finite_differences() -> None:
    expected = sum(multivariate_normal(np.zeros(N), G).logpdf(y) for y in Y.T)
    gaussian = Gaussian.of(A.copy(), NOISE, Y)
    assert gaussian.log_likelihood() == pytest.approx(expected)
    inverse = np.linalg.inv(G)
    residuals, variances = gaussian.leave_one_out()
    np.testing.assert_allclose(variances, 1 / np.diag(inverse), rtol=1e-8)
    np.testing.assert_allclose(residuals, inverse @ Y / np.diag(inverse)[:, None], rtol=1e-7)
    direction = RNG.normal(size=(N, N))
    direction += direction.T
    step = 1e-6
    steps = [Gaussian.of(A + sign * step * direction, NOISE, Y) for sign in (-1, 1)]
    for name in ("log_likelihood", "loo_density"):
        ends = [gaussian.log_likelihood() for gaussian in steps]
        if name == "loo_density":
            pairs = [gaussian.leave_one_out() for gaussian in steps]
            ends = [float(norm.logpdf(r, scale=np.sqrt(v)[:, None]).sum()) for r, v in pairs]
        value, triangle = getattr(Precision.of(A.copy(), NOISE, Y), f"{name}_with_slope")()
        assert triangle.matrix.flags.c_contiguous
        slope = triangle.full()
        assert value == pytest.approx(sum(ends) / 2, rel=1e-6)
        assert np.sum(slope * direction) == pytest.approx(
            (ends[1] - ends[0]) / (2 * step), rel=1e-5
        )
        np.testing.assert_array_equal(slope, slope.T)


@pytest.mark.parametrize("n", [3, 700])
def test_the_check_leaves_the_matrix_as_it_was(n: int) -> None:
    K = gaussian(n)
    for matrix, expected in ((K, True), (K - 0.5 * np.eye(n), False)):
        before = matrix.copy()
        assert cholesky.is_positive_definite(matrix, 1e-9) is expected
        np.testing.assert_array_equal(matrix, before)
    skewed = K + np.triu(K, 1)
    before = skewed.copy()
    assert not cholesky.is_positive_definite(skewed, 1e-9)
    np.testing.assert_array_equal(skewed, before)
