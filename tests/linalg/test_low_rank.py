"""Sketches of matrices, against their eigenvalues, and as preconditioners."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import ParameterError, ValidityError
from mercer.linalg.low_rank import LowRankInverse, nystrom_sketch

RNG = np.random.default_rng(0)
Q = np.linalg.qr(RNG.normal(size=(60, 60)))[0]


def matrix(values: Any) -> Any:
    return (Q[:, : len(values)] * values) @ Q[:, : len(values)].T


@pytest.mark.parametrize("scale", [1e-20, 1.0, 1e20])
def test_a_matrix_of_low_rank_is_found(scale: float) -> None:
    values = scale * np.array([5.0, 3.0, 1.0, 0.01])
    A = matrix(values)
    found = nystrom_sketch(lambda V: A @ V, A.diagonal(), 8, rng=np.random.RandomState(0))
    assert_allclose(found.values[:4], values, rtol=1e-9)
    assert_allclose(found.values[4:], 0, atol=1e-12 * scale)
    assert_allclose(found.factor @ found.factor.T, A, atol=1e-10 * scale)
    assert found.trace_error < 1e-10


def test_it_is_never_above_the_matrix_and_complete_at_full_rank() -> None:
    values = 2.0 ** -np.arange(60)
    A = matrix(values)
    for rank in (5, 20):
        found = nystrom_sketch(lambda V: A @ V, A.diagonal(), rank, rng=np.random.RandomState(1))
        assert (found.values <= values[:rank] * (1 + 1e-10)).all()
        left = np.linalg.eigvalsh(A - found.factor @ found.factor.T)
        assert left.min() > -1e-12
        assert found.trace_error == pytest.approx(left.sum() / values.sum(), abs=1e-12)
    whole = nystrom_sketch(lambda V: A @ V, A.diagonal(), 99, rng=np.random.RandomState(1))
    assert_allclose(whole.values[:30], values[:30], rtol=1e-5)


def test_the_condition_number_that_is_left() -> None:
    """It is about 1 + (what is left out) / shift, where without it would be 1 / shift."""
    A, shift = matrix(2.0 ** -np.arange(60)), 1e-5
    found = nystrom_sketch(lambda V: A @ V, A.diagonal(), 25, rng=np.random.RandomState(0))
    inverse = LowRankInverse.of(found.factor.copy(), float(found.values[-1]))
    product = inverse(A + shift * np.eye(60), np.full(60, shift))
    values = np.sort(np.linalg.eigvals(product).real)
    assert values[-1] / values[0] < 3
    assert 1 / shift > 1e4


def test_a_zero_matrix_and_an_indefinite_one() -> None:
    zero = nystrom_sketch(np.zeros_like, np.zeros(5), 3, rng=np.random.RandomState(0))
    assert zero.values.max() < 1e-300
    A = matrix(np.array([1.0, -1.0]))
    with pytest.raises(ValidityError, match="not positive semi-definite"):
        nystrom_sketch(lambda V: A @ V, A.diagonal(), 20, rng=np.random.RandomState(0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("preconditioner", ["rpcholesky", "pivoted", "nystrom"])
def test_preconditioners_change_iterations_alone(preconditioner: str, dtype: Any) -> None:
    X = RNG.normal(size=(400, 2)).astype(dtype)
    y = np.sin(X).sum(axis=1)
    weights = RNG.uniform(0.5, 2.0, size=400)
    alpha, tolerance = (1e-3, 1e-6) if dtype == np.float64 else (0.1, 1e-3)
    solvers = [
        mc.solvers.ConjugateGradient(how, rank=60, tol=1e-9, random_state=0)
        for how in (preconditioner, None)
    ]
    fast, slow = (
        mc.KernelRidge(mc.RBF(1.0), alpha, solver=solver).fit(X, y, weights) for solver in solvers
    )
    exact = mc.KernelRidge(mc.RBF(1.0), alpha).fit(X, y, weights)
    assert_allclose(fast.predict(X), exact.predict(X), atol=tolerance)
    assert fast.converged_
    assert fast.n_iter_ < slow.n_iter_ / 2
    assert fast.preconditioner_error_ < 1e-3


def test_an_unknown_preconditioner_is_refused() -> None:
    solver = mc.solvers.ConjugateGradient("jacobi")
    with pytest.raises(ParameterError, match="'nystrom' or None"):
        mc.KernelRidge(solver=solver).fit([[0.0], [1.0]], [0.0, 1.0])
