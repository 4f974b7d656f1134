"""Monomials: their number, their features and their names."""

from __future__ import annotations

import inspect
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import linprog

import mercer as mc
from mercer import features
from mercer.exceptions import DataError, DataTypeError, ParameterError
from mercer.maps import composition, monomials
from monte_carlo import points


def evaluate(name: str, x: np.ndarray) -> float:
    """Read a column name as the monomial that it says, at one point."""
    return float(eval(name.replace("^", "**"), {f"x{j}": v for j, v in enumerate(x)}))


# --------------------------------------------------------------------------------------------------
# Counting


def test_number_of_monomials() -> None:
    assert features.dimension(100, 5) == math.comb(105, 5) == 96_560_646
    assert features.dimension(0, 7) == features.dimension(7, 0) == 1
    for n, d in itertools.product(range(5), range(5)):
        exponents = itertools.product(range(d + 1), repeat=n)
        assert features.dimension(n, d) == sum(sum(a) <= d for a in exponents)


def separable(X: np.ndarray, labels: tuple[int, ...]) -> bool:
    """Whether some affine function has the signs of the labels, by linear programming."""
    signed = np.column_stack([X, np.ones(len(X))]) * np.array(labels)[:, None]
    d = signed.shape[1]
    found = linprog(np.zeros(d), A_ub=-signed, b_ub=-np.ones(len(X)), bounds=[(None, None)] * d)
    return bool(found.status == 0)


@pytest.mark.parametrize(("n", "d"), [(1, 2), (3, 1), (5, 1), (3, 2), (4, 2), (6, 2), (6, 3)])
def test_cover_count_is_the_number_of_separable_dichotomies(n: int, d: int) -> None:
    X = points(n, d, seed=n)
    dichotomies = itertools.product([-1, 1], repeat=n)
    assert features.cover_count(n, d) == sum(separable(X, labels) for labels in dichotomies)


def test_cover_count_at_its_landmarks() -> None:
    for d in range(6):
        assert features.cover_count(d + 1, d) == 2 ** (d + 1)  # the VC dimension is d + 1
        assert features.cover_count(d + 2, d) == 2 ** (d + 2) - 2
        assert features.cover_count(2 * (d + 1), d) == 2 ** (2 * d + 1)  # half: the capacity
    assert features.cover_count(300, 10**9) == 2**300


@pytest.mark.parametrize("bad", [-1, 1.5, 2.0, True, "3", None])
def test_counts_take_integers_only(bad: object) -> None:
    for function in (features.dimension, features.cover_count):
        with pytest.raises(ParameterError, match=f"{function.__name__}: d = "):
            function(2, bad)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="n = 0 is not a whole number >= 1"):
        features.cover_count(0, 2)
    assert features.dimension(np.int64(2), np.int64(3)) == 10  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------
# Polynomial


@settings(max_examples=80, deadline=None)
@given(
    n_inputs=st.integers(0, 5),
    degree=st.integers(0, 5),
    offset=st.sampled_from([0.0, 0.3, 1.0, 7.0]),
    gain=st.sampled_from([0.2, 1.0, 3.0]),
    seed=st.integers(0, 100),
)
def test_polynomial_features_have_the_inner_products_of_the_kernel(
    n_inputs: int, degree: int, offset: float, gain: float, seed: int
) -> None:
    X, Z = points(4, n_inputs, seed), points(3, n_inputs, seed + 1)
    Phi = features.polynomial_features(X, degree, offset, gain)
    Psi = features.polynomial_features(Z, degree, offset, gain)
    magnitude = (gain * np.abs(X) @ np.abs(Z).T + offset) ** degree
    error = np.abs(Phi @ Psi.T - (gain * X @ Z.T + offset) ** degree)
    assert (error <= 1e-14 * (degree + 1) * magnitude).all()
    names = features.polynomial_names(n_inputs, degree, offset)
    assert len(names) == len(set(names)) == Phi.shape[1]
    if offset > 0:
        assert Phi.shape[1] == features.dimension(n_inputs, degree)
    elif degree > 0 and n_inputs > 0:
        assert Phi.shape[1] == features.dimension(n_inputs - 1, degree)


@pytest.mark.parametrize(("offset", "gain"), [(0.0, 1.0), (0.0, 2.0), (1.0, 1.0), (0.5, 3.0)])
def test_each_column_is_its_monomial_times_its_weight(offset: float, gain: float) -> None:
    degree, X = 4, points(5, 3)
    Phi = features.polynomial_features(X, degree, offset, gain)
    for column, name in zip(Phi.T, features.polynomial_names(3, degree, offset), strict=True):
        variables = [] if name == "1" else name.split("*")
        powers = [int([*v.split("^"), "1"][1]) for v in variables]
        t = sum(powers)
        ways = math.factorial(degree) / math.prod(map(math.factorial, [*powers, degree - t]))
        weight = math.sqrt(ways * gain**t * offset ** (degree - t))
        assert_allclose(column, [weight * evaluate(name, x) for x in X], rtol=1e-14)


def test_names_in_graded_order() -> None:
    assert features.polynomial_names(2, 3) == [
        *("1", "x0", "x1", "x0^2", "x0*x1", "x1^2"),
        *("x0^3", "x0^2*x1", "x0*x1^2", "x1^3"),
    ]
    assert features.polynomial_names(["age", "body mass"], 2, 0) == [
        *("age^2", "age*body mass", "body mass^2"),
    ]
    assert features.polynomial_names(np.array(["u"]), 1) == ["1", "u"]  # type: ignore[arg-type]


def test_high_degrees_do_not_overflow() -> None:
    X, Z = np.array([[0.9]]), np.array([[0.7]])
    Phi, Psi = (features.polynomial_features(A, 400, 0.5, 0.6) for A in (X, Z))
    assert_allclose(Phi @ Psi.T, (0.6 * X @ Z.T + 0.5) ** 400, rtol=1e-11)


def test_single_precision_stays_single() -> None:
    X = points(5, 3).astype(np.float32)
    for Phi in (features.polynomial_features(X, 3), features.monomial_features(X, 2)):
        assert Phi.dtype == np.float32
    assert_allclose(
        features.polynomial_features(X, 3),
        features.polynomial_features(X.astype(float), 3),
        rtol=1e-5,
    )
    assert features.polynomial_features([[1, 2]], 2).dtype == np.float64


def test_rows_in_chunks_equal_rows_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X = points(7, 3)
    whole = features.polynomial_features(X, 3), features.TaylorRBF(3).fit_transform(X)
    monkeypatch.setattr(monomials, "_CHUNK_BYTES", 3 * 10 * 8)  # three rows of ten columns
    assert_array_equal(features.polynomial_features(X, 3), whole[0])
    assert_array_equal(features.TaylorRBF(3).fit_transform(X), whole[1])


def test_zero_gain_leaves_the_constant() -> None:
    Phi = features.polynomial_features(points(3, 2), 3, offset=2.0, gain=0.0)
    assert_allclose(Phi @ Phi.T, 8.0)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"degree": -1}, "degree = -1"),
        ({"degree": 2.5}, "degree = 2.5"),
        ({"degree": 2, "offset": -1.0}, r"offset = -1.0 is not a finite number >= 0"),
        ({"degree": 2, "gain": -0.5}, "gain = -0.5"),
        ({"degree": 2, "gain": math.nan}, "gain = nan"),
        ({"degree": 2, "offset": "1"}, "offset = '1'"),
    ],
)
def test_polynomial_parameters_are_checked(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        features.polynomial_features(points(2, 2), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("X", "error", "text"),
    [
        (np.ones(3), DataError, r"shape \(3,\)"),
        ([[1.0, np.nan]], DataError, "NaN or infinity"),
        (sparse.csr_array(np.eye(2)), DataTypeError, "toarray"),
        ([["a"]], DataTypeError, "real numbers"),
        ([[1j]], DataTypeError, "real numbers"),
        ([[1.0], [1.0, 2.0]], DataTypeError, "real numbers"),
    ],
)
def test_points_are_checked(X: object, error: type[Exception], text: str) -> None:
    for function in (features.polynomial_features, features.monomial_features):
        with pytest.raises(error, match=f"{function.__name__}.*{text}"):
            function(X, 2)  # type: ignore[operator]


# --------------------------------------------------------------------------------------------------
# Monomials


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
@pytest.mark.parametrize("n_inputs", [0, 1, 2, 4])
def test_monomial_features_have_the_inner_products_of_the_kernel(
    n_inputs: int, degree: int
) -> None:
    X, Z = points(5, n_inputs), points(4, n_inputs, 1)
    t = X[:, None] * Z[None]
    K = np.prod(sum(t**i for i in range(degree + 1)), axis=-1)
    Phi, Psi = (features.monomial_features(A, degree) for A in (X, Z))
    assert Phi.shape == (5, (degree + 1) ** n_inputs)
    assert_allclose(Phi @ Psi.T, K, rtol=1e-11, atol=1e-11)
    names = features.monomial_names(n_inputs, degree)
    assert len(names) == len(set(names))
    assert_allclose(Phi, [[evaluate(name, x) for name in names] for x in X], rtol=1e-13)


def test_monomials_are_bounded_in_each_variable_and_not_in_total() -> None:
    assert "x0^2*x1^2" in features.monomial_names(2, 2)
    assert "x0^2*x1^2" not in features.polynomial_names(2, 2)
    assert features.monomial_names(["a", "b"], 1) == ["1", "b", "a", "a*b"]


def test_the_truncated_series_is_not_the_cube() -> None:
    x, z = points(6, 1), points(6, 1, 1)
    t = x @ z.T
    series = features.monomial_features(x, 3) @ features.monomial_features(z, 3).T
    cube = features.polynomial_features(x, 3) @ features.polynomial_features(z, 3).T
    assert_allclose(series, 1 + t + t**2 + t**3)
    assert_allclose(cube, (1 + t) ** 3)
    assert_allclose(cube - series, 2 * t + 2 * t**2)  # the weights are 1, 3, 3, 1
    assert np.abs(cube - series).max() > 0.1


def test_xor_is_split_after_the_lift_by_a_plane_that_uses_all_three_features() -> None:
    X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    xor = np.array([False, True, True, False])
    lifted = features.monomial_features(X, 1)
    columns = [features.monomial_names(2, 1).index(name) for name in ("x0", "x1", "x0*x1")]
    score = lifted[:, columns] @ [1, 1, -2]
    assert_array_equal(score > 0.5, xor)
    assert not np.array_equal(lifted[:, columns[2]] > 0.5, xor)
    assert not np.array_equal(lifted[:, columns[2]] < 0.5, xor)


def test_all_is_exactly_the_public_names() -> None:
    defined = {
        name
        for module in (composition, monomials)
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    }
    inner = {"graded_features", "row_products"}
    assert set(features.__all__) == {"TaylorRBF", *(defined - inner)}


def test_names_are_made_only_where_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wide polynomials have many features, whose names take longer than their values."""
    made = "mercer.maps.monomials.polynomial_names"
    monkeypatch.setattr(made, lambda *_: pytest.fail("names were made"))
    kernel = mc.Polynomial(2) * mc.Linear() + mc.Polynomial(3)
    rows = points(5, 2)
    found = kernel.feature_map(rows)
    assert_allclose(found @ found.T, kernel(rows))


def test_xor_lifted_by_its_product_is_split_by_the_right_plane() -> None:
    points = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], dtype=float)
    labels = np.array([0, 1, 1, 0])
    x1, x2 = points.T
    plane = x1 + x2 - 2 * x1 * x2
    assert ((plane > 0.5) == labels).all()
    assert not ((x1 * x2 > 0.5) == labels).all()
    assert not ((x1 * x2 < 0.5) == labels).all()


def test_monomials_of_degree_five_in_a_hundred_variables() -> None:
    assert math.comb(105, 5) == 96_560_646
    assert mc.features.dimension(100, 5) == 96_560_646
