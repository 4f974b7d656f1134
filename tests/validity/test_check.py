"""Mercer's condition: facts about kernels, verdicts and witnesses."""

from __future__ import annotations

import dataclasses
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import additive_chi2_kernel

from mercer import validity
from mercer.exceptions import DataError, ParameterError
from monte_carlo import points
from similarities import rbf, with_eigenvalues

# The name `validity.check` is that of the function.
check_module = importlib.import_module("mercer.validity.check")


def minus_squared_distance(X: np.ndarray) -> np.ndarray:
    return -cdist(X, X, "sqeuclidean")


def assert_witness(report: validity.Report, K: np.ndarray) -> None:
    """The vector itself proves the refutation, whatever the report says."""
    a = report.witness
    assert a is not None
    assert_allclose(np.linalg.norm(a), 1, rtol=1e-12)
    assert a @ K @ a < -report.tolerance
    assert_allclose(report.witness_value, a @ K @ a, rtol=1e-12, atol=report.tolerance)
    if report.conditional:
        assert abs(a.sum()) < 1e-13


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send small matrices through the path of large ones."""
    monkeypatch.setattr(check_module, "_DENSE_LIMIT", 2)


# --------------------------------------------------------------------------------------------------
# Facts, some of which the textbooks get wrong


def test_eigenvalues_of_the_textbook_matrix() -> None:
    K = np.array([[1, 0.8, 0.3], [0.8, 1, 0.5], [0.3, 0.5, 1]])
    Phi = validity.embed(K)
    assert_allclose((Phi**2).sum(axis=0), [2.095, 0.736, 0.169], atol=5e-4)
    assert_allclose(validity.check(K).min_eigenvalue, 0.169, atol=5e-4)
    assert validity.check(K)


@pytest.mark.parametrize("d", [1, 3])
def test_minus_squared_distance_is_only_conditionally_positive(d: int) -> None:
    X = points(30, d)
    plain = validity.check(minus_squared_distance, X)
    assert plain.valid is False
    assert_witness(plain, minus_squared_distance(X))
    assert validity.check(minus_squared_distance, X, conditional=True).valid is True


def test_squared_distance_is_not_even_conditionally_positive() -> None:
    X = points(30, 2)
    report = validity.check(lambda X: -minus_squared_distance(X), X, conditional=True)
    assert report.valid is False
    assert_witness(report, -minus_squared_distance(X))


def test_cosine_of_the_distance_is_refuted_in_the_plane() -> None:
    X = 4 * points(40, 2)
    K = np.cos(cdist(X, X))
    report = validity.check(K)
    assert report.valid is False
    assert_witness(report, K)
    assert validity.check(np.cos(cdist(X[:, :1], X[:, :1])))  # on the line it is a kernel
    assert validity.check(np.cos(np.subtract.outer(X.sum(axis=1), X.sum(axis=1))))


def test_additive_chi2_of_scikit_learn_is_not_a_kernel_but_the_harmonic_one_is() -> None:
    X = np.random.default_rng(0).uniform(0.1, 1, (30, 4))
    report = validity.check(additive_chi2_kernel, X)
    assert report.valid is False
    assert_witness(report, additive_chi2_kernel(X))
    assert validity.check(additive_chi2_kernel, X, conditional=True)
    x, z = X[:, None], X[None]
    assert validity.check((2 * x * z / (x + z)).sum(axis=-1))


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
def test_exp_of_an_unbounded_kernel_is_a_kernel(scale: float) -> None:
    X = scale * points(40, 3)
    assert validity.check(lambda X: np.exp(X @ X.T), X)


def test_odd_powers_of_the_inner_product_are_kernels() -> None:
    X = points(40, 2)
    assert validity.check((X @ X.T) ** 3)
    assert not validity.check(np.tanh(2 * X @ X.T - 1))


# --------------------------------------------------------------------------------------------------
# check


@settings(max_examples=60, deadline=None)
@given(
    eigenvalues=st.lists(st.integers(-1000, 10_000), min_size=1, max_size=12),
    seed=st.integers(0, 1000),
    exponent=st.integers(-300, 300),
)
def test_verdict_follows_the_smallest_eigenvalue(
    eigenvalues: list[int], seed: int, exponent: int
) -> None:
    spectrum = np.array(eigenvalues) / 1000
    K = with_eigenvalues(spectrum, seed) * 2.0**exponent
    report = validity.check(K)
    n, norm = len(spectrum), np.abs(spectrum).max()
    assert_allclose(
        report.min_eigenvalue / 2.0**exponent, spectrum.min(), rtol=0, atol=n * 1e-15 * norm
    )
    tolerance = 10 * n * np.finfo(float).eps * norm
    assert_allclose(report.tolerance / 2.0**exponent, tolerance, rtol=1e-6)
    assert report.valid is (report.min_eigenvalue >= -report.tolerance)
    assert (report.witness is None) is report.valid
    if not report.valid:
        assert_witness(report, K)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_entries_whose_squares_are_out_of_range_are_refused(scale: float) -> None:
    with pytest.raises(DataError, match="divide the matrix by it"):
        validity.check(scale * rbf(points(10, 2)))


def test_one_point_and_the_zero_matrix() -> None:
    assert validity.check([[2.0]])
    assert validity.check([[0.0]])
    assert validity.check(np.zeros((4, 4)))
    assert validity.check(np.zeros((4, 4)), conditional=True)
    negative = validity.check([[-2.0]])
    assert negative.valid is False
    assert_array_equal(negative.witness, [1.0])
    # No non-zero vector of one entry sums to zero, so there is nothing to refute.
    assert validity.check([[-2.0]], conditional=True)


def test_float32_is_judged_by_its_own_precision() -> None:
    X = points(60, 2)
    K = rbf(X, 3.0).astype(np.float32)
    assert np.linalg.eigvalsh(K.astype(float)).min() < -1e-9
    report = validity.check(K)
    assert report.valid is True
    norm = np.linalg.norm(K.astype(float), 2)
    assert_allclose(report.tolerance, 600 * np.finfo(np.float32).eps * norm, rtol=1e-6)
    assert validity.check(K.astype(float)).valid is False


def test_asymmetry_within_rounding_is_forgiven_and_beyond_it_refuted() -> None:
    K = np.eye(10) + rbf(points(10, 2))
    K[0, 1] += 1e-15
    forgiven = validity.check(K)
    assert forgiven
    assert_allclose(forgiven.asymmetry, np.abs(K - K.T).max())
    K[0, 1] += 0.25
    refuted = validity.check(K)
    assert refuted.valid is False
    assert_allclose(refuted.asymmetry, 0.25)
    assert refuted.witness is None
    assert "Not symmetric" in str(refuted)
    assert "0.25" in str(refuted)
    assert validity.check([[0.0, 1.0], [-1.0, 0.0]]).valid is False


def test_conditional_smallest_eigenvalue_ignores_the_constant_direction() -> None:
    # On vectors that sum to zero both matrices are the identity.
    for K in (np.eye(6), np.eye(6) - 5.0):
        report = validity.check(K, conditional=True)
        assert report.valid is True
        assert_allclose(report.min_eigenvalue, 1.0)
    assert validity.check(np.eye(6) - 5.0).valid is False


def test_conditional_agrees_with_an_explicit_basis() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        K = rng.standard_normal((7, 7))
        K = K + K.T + rng.uniform(0, 8) * np.eye(7)
        basis = np.linalg.svd(np.ones((1, 7)))[2][1:].T
        expected = np.linalg.eigvalsh(basis.T @ K @ basis).min()
        report = validity.check(K, conditional=True)
        assert_allclose(report.min_eigenvalue, expected, atol=1e-12)
        assert report.valid is bool(expected >= 0)
        if not report:
            assert_witness(report, K)


def test_sentences() -> None:
    valid = str(validity.check(np.eye(3)))
    assert valid.startswith("Positive semi-definite on these points")
    assert "n = 3" in valid
    assert "by eigenvalues" in valid
    refuted = str(validity.check(np.diag([1.0, -0.5])))
    assert "Not positive semi-definite" in refuted
    assert "a'Ka = -0.5" in refuted
    conditional = str(validity.check(-np.eye(3), conditional=True))
    assert "Not conditionally positive semi-definite" in conditional
    assert "sum(a) = 0" in conditional


def test_report_is_frozen_and_true_only_when_valid() -> None:
    report = validity.check(np.eye(2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.valid = False  # type: ignore[misc]
    assert bool(report) is True
    assert bool(dataclasses.replace(report, valid=None)) is False
    assert "Undecided" in str(dataclasses.replace(report, valid=None))


def test_the_given_matrix_is_not_changed() -> None:
    K = minus_squared_distance(points(10, 2))
    before = K.copy()
    validity.check(K)
    validity.check(K, conditional=True)
    validity.repair(K)
    assert_array_equal(K, before)


def test_points_belong_to_kernels_and_not_to_matrices() -> None:
    with pytest.raises(ParameterError, match="X is missing"):
        validity.check(rbf)
    with pytest.raises(ParameterError, match="matrix alone"):
        validity.check(np.eye(2), points(2, 1))


# --------------------------------------------------------------------------------------------------
# check, beyond the size at which eigenvalues are computed


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("smallest", [-10.0, -1.0, -1e-3, -1e-9, 0.0, 1e-6, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_large_path_agrees_with_eigenvalues(smallest: float, conditional: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    K = with_eigenvalues(np.append(rng.uniform(max(smallest, 0), 10, 59), smallest), seed)
    if conditional:
        basis = np.linalg.svd(np.ones((1, 61)))[2][1:].T
        K = basis @ K @ basis.T - 20.0
    report = validity.check(K, conditional=conditional)
    assert report.method in ("cholesky", "lanczos")
    assert report.valid is (smallest >= 0)
    if smallest < 0:
        assert_witness(report, K)
    if report.method == "lanczos":
        assert_allclose(report.min_eigenvalue, smallest, rtol=1e-6, atol=1e-11)
    assert report.min_eigenvalue >= smallest - report.tolerance


@pytest.mark.usefixtures("large")
def test_breakdown_of_cholesky_is_itself_a_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_convergence(*_: object, **__: object) -> None:
        raise check_module.ArpackNoConvergence("stopped", np.empty(0), np.empty((0, 0)))

    monkeypatch.setattr(check_module, "eigsh", no_convergence)
    for seed in range(10):
        K = with_eigenvalues(np.linspace(-0.01, 5, 40), seed)
        report = validity.check(K)
        assert report.valid is False
        assert report.method == "cholesky"
        assert_witness(report, K)
        K = with_eigenvalues(np.linspace(-1, 5, 40), seed)  # one constraint cannot hide them all
        conditional = validity.check(K, conditional=True)
        assert conditional.valid is False
        assert_witness(conditional, K)
    negative = validity.check(-np.eye(5))  # breaks down at the first pivot
    assert negative.valid is False
    assert_witness(negative, -np.eye(5))


@pytest.mark.usefixtures("large")
def test_large_path_on_degenerate_matrices() -> None:
    assert validity.check(np.zeros((5, 5)))
    assert validity.check(np.ones((50, 50)))
    assert validity.check(np.eye(50))
    assert validity.check(np.ones((50, 50)), conditional=True)
    assert validity.check(rbf(points(80, 1), 10.0))


@pytest.mark.usefixtures("large")
def test_within_rounding_of_the_tolerance_the_answer_is_none_or_agrees() -> None:
    spectrum = np.ones(40)
    tolerance = 10 * 40 * np.finfo(float).eps
    for factor in np.linspace(0.9, 1.1, 21):
        spectrum[0] = -factor * tolerance
        report = validity.check(with_eigenvalues(spectrum))
        if report.valid is False:
            assert report.witness is not None
        elif report.valid is None:
            assert "Undecided" in str(report)


@pytest.mark.parametrize("conditional", [False, True])
def test_more_than_three_thousand_points(conditional: bool) -> None:
    X = points(3100, 3)
    valid = validity.check(rbf, X, conditional=conditional)
    assert valid.valid is True
    assert valid.method == "cholesky"
    K = np.cos(cdist(X, X))
    refuted = validity.check(K, conditional=conditional)
    assert refuted.valid is False
    assert_witness(refuted, K)


def test_eigenvalues_of_the_example_matrix() -> None:
    K = np.array([[1, 0.8, 0.3], [0.8, 1, 0.5], [0.3, 0.5, 1]])
    assert_allclose(np.linalg.eigvalsh(K)[::-1], [2.095, 0.736, 0.169], atol=5e-4)
    report = validity.check(K)
    assert report.valid
    assert_allclose(report.min_eigenvalue, 0.169, atol=5e-4)


RNG = np.random.default_rng(10)

X = RNG.normal(size=(25, 2))


def test_minus_the_squared_distance_is_only_conditionally_positive() -> None:
    K = -((X[:, None] - X[None]) ** 2).sum(axis=2)
    refuted = validity.check(K)
    assert refuted.valid is False
    assert refuted.witness is not None
    assert refuted.witness @ K @ refuted.witness < 0
    assert validity.check(K, conditional=True).valid is True


def test_kernels_may_be_named() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert validity.check("rbf", X)
    assert validity.check("sigmoid", X).valid is False
    with pytest.raises(ParameterError, match="X is missing"):
        validity.check("rbf")
    with pytest.raises(ParameterError, match="check: kernel = 'rfb' is not the name of a kernel"):
        validity.check("rfb", X)
