"""Methods that users write: traced, untraceable, and broken ones."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.exceptions import (
    DataError,
    DataTypeError,
    NotDifferentiableError,
    UnfusedWarning,
    ValidityError,
)
from mercer.testing import check_kernel

RNG = np.random.default_rng(5)
X, Z = RNG.normal(size=(14, 3)), RNG.normal(size=(8, 3))


class Cauchy(mc.Stationary):
    """1 / (1 + r^2 / alpha)."""

    alpha = mc.Positive(1.0)

    def profile(self, r2: Any) -> Any:
        return 1 / (1 + r2 / self.alpha)


class Slow(mc.Stationary):
    """The same, in a way that cannot be traced."""

    alpha = mc.Positive(1.0)

    def profile(self, r2: Any) -> Any:
        values = [1 / (1 + float(v) / self.alpha) for v in np.ravel(r2)]
        return np.reshape(values, np.shape(r2))


class SlowMinimum(mc.Coordinate):
    def coordinate(self, x: Any, z: Any) -> Any:
        return np.vectorize(min)(x, z)


class Tilted(mc.Coordinate):
    """Not symmetric."""

    def coordinate(self, x: Any, z: Any) -> Any:
        return x * x * z


class SlowTilted(mc.Coordinate):
    """Not symmetric, and not traceable."""

    def coordinate(self, x: Any, z: Any) -> Any:
        return np.vectorize(lambda a, b: a * a * b)(x, z)


def test_the_cauchy_kernel_of_the_documentation() -> None:
    check_kernel(Cauchy(alpha=0.7))
    check_kernel(Cauchy([0.5, 1.0, 2.0], alpha=mc.Fixed(0.7)))
    wanted = ref.matrix(ref.cauchy, X, Z, alpha=0.7)
    assert_allclose(Cauchy(alpha=0.7)(X, Z), wanted, rtol=1e-13)
    assert Cauchy(alpha=0.7).theta_names == ["length_scale", "alpha"]
    assert (2.0 * Cauchy() + mc.RBF()).get_params()["cauchy__alpha"] == 1.0


def test_derivatives_of_the_cauchy_kernel_in_closed_form() -> None:
    kernel = Cauchy(length_scale=0.8, alpha=0.7)
    r2 = ref.matrix(ref.squared_distance, X, Z, length_scale=0.8)
    weights = RNG.normal(size=r2.shape)
    # theta holds logarithms: dk/dlog(alpha) = k^2 r2 / alpha, dk/dlog(l) = 2 k^2 r2 / alpha.
    part = (weights * (1 + r2 / 0.7) ** -2 * r2 / 0.7).sum()
    assert_allclose(kernel.gram(X, Z).gradient(weights), [2 * part, part], rtol=1e-12)


def test_a_traced_kernel_gives_no_warning(nothing_announced: None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Cauchy()(X)


def test_an_untraceable_method_works_and_says_so_once(nothing_announced: None) -> None:
    with pytest.warns(UnfusedWarning, match=r"Slow\.profile could not be traced .* unfused"):
        K = Slow(alpha=0.7)(X, Z)
    assert_allclose(K, ref.matrix(ref.cauchy, X, Z, alpha=0.7), rtol=1e-13)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Slow(alpha=0.3)(X)
        (Slow() * mc.RBF())(X)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
def test_untraceable_kernels_keep_the_contract() -> None:
    check_kernel(Slow(alpha=0.7))
    check_kernel(2.0 * Slow().on(0, 1) * mc.RBF() + mc.Linear())
    check_kernel(SlowMinimum(), np.abs(X))
    many, few = RNG.normal(size=(1100, 2)), RNG.normal(size=(20, 2))  # more than one block
    assert_allclose(Slow()(many, few), Cauchy()(many, few), rtol=1e-12)
    V, W = RNG.normal(size=(1100, 2)), RNG.normal(size=(20, 2))
    slow, fast = Slow().gram(many, few), Cauchy().gram(many, few)
    assert_allclose(slow @ W, fast @ W, rtol=1e-10, atol=1e-10)
    assert_allclose(slow.T @ V, fast.T @ V, rtol=1e-10, atol=1e-10)
    assert_allclose(SlowMinimum()(np.abs(X)), mc.HistogramIntersection()(np.abs(X)), rtol=1e-13)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
def test_parameters_of_an_untraceable_method_have_no_gradient() -> None:
    with pytest.raises(NotDifferentiableError, match=r"Slow: .*hold them with Fixed"):
        Slow().gram(X).gradient()


def test_python_control_flow_on_data_cannot_be_traced(nothing_announced: None) -> None:
    class Branching(mc.Stationary):
        def profile(self, r2: Any) -> Any:
            return np.exp(-r2) if np.all(r2 >= 0) else r2

    with pytest.warns(UnfusedWarning, match="truth value|could not be traced"):
        assert_allclose(Branching()(X), np.exp(-ref.matrix(ref.squared_distance, X)), rtol=1e-12)


def test_integers_and_choices_stay_concrete() -> None:
    class Chosen(mc.DotProduct):
        degree = mc.Integer(2, low=1)
        shape = mc.Choice("power", ("power", "exponential"))

        def profile(self, s: Any) -> Any:
            if self.shape == "exponential":
                return np.exp(s)
            total = 1.0
            for _ in range(self.degree):
                total = total * s
            return total

    check_kernel(Chosen(degree=3))
    check_kernel(Chosen(shape="exponential"))
    assert_allclose(Chosen(degree=3)(X), (X @ X.T) ** 3, rtol=1e-11, atol=1e-12)


def test_arrays_of_parameters_are_traced() -> None:
    class Weighted(mc.DotProduct):
        c = mc.NonNegative([1.0, 0.5], ndim=1)

        def profile(self, s: Any) -> Any:
            return self.c[0] + self.c[1] * s

    kernel = Weighted(c=[2.0, 3.0])
    assert_allclose(kernel(X), 2 + 3 * X @ X.T, rtol=1e-12, atol=1e-12)
    check_kernel(kernel)


def test_a_product_over_columns() -> None:
    class Brownian(mc.Coordinate):
        reduction = "product"

        def coordinate(self, x: Any, z: Any) -> Any:
            return np.minimum(x, z)

    positive = np.abs(X)
    wanted = np.minimum(positive[:, None], positive[None]).prod(axis=2)
    assert_allclose(Brownian()(positive), wanted, rtol=1e-13)


def test_a_traced_method_that_is_not_symmetric_is_refused() -> None:
    with pytest.raises(ValidityError, match=r"Tilted.* symmetric"):
        Tilted()(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, z: np.abs(x) * z,
        lambda x, z: np.maximum(x, 0.0) * z,
        lambda x, z: x * np.minimum(z, 100.0),
        lambda x, z: np.where(x == 0, 1.0, x * z),
    ],
    ids=["sign", "clip", "large", "zero"],
)
def test_asymmetry_that_shows_at_some_numbers_only_is_refused(function: Any) -> None:
    class Skewed(mc.Coordinate):
        def coordinate(self, x: Any, z: Any) -> Any:
            return function(x, z)

    with pytest.raises(ValidityError, match=r"Skewed\.coordinate is not symmetric: at \("):
        Skewed()(np.abs(X) + 0.1)


def test_symmetric_functions_that_are_not_defined_everywhere_are_taken() -> None:
    class Roots(mc.Coordinate):
        """sqrt(x) sqrt(z), which has no value at negative numbers, nor log(0)."""

        def coordinate(self, x: Any, z: Any) -> Any:
            return np.sqrt(x) * np.sqrt(z) + np.log(x) * np.log(z)

    positive = np.abs(X) + 0.1
    wanted = np.sqrt(positive) @ np.sqrt(positive).T + np.log(positive) @ np.log(positive).T
    assert_allclose(Roots()(positive), wanted, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
def test_an_untraced_method_that_is_not_symmetric_is_refused() -> None:
    with pytest.raises(ValidityError, match=r"SlowTilted.* symmetric"):
        SlowTilted()(X)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
def test_an_untraced_method_of_the_wrong_shape_is_refused() -> None:
    class Flat(mc.Stationary):
        def profile(self, r2: Any) -> Any:
            return np.ravel(np.asarray(r2))[:2] + 0.0

    with pytest.raises(
        DataError, match=r"Flat\.profile returned shape \(2,\) for pairs of shape \(14, 14\)"
    ):
        Flat()(X)


def test_a_method_that_returns_no_number_per_pair_is_refused(nothing_announced: None) -> None:
    class Text(mc.Stationary):
        def profile(self, r2: Any) -> Any:
            return "abc"

    with pytest.warns(UnfusedWarning), pytest.raises(DataTypeError, match=r"Text\.profile"):
        Text()(X)


@pytest.mark.filterwarnings("ignore::mercer.exceptions.UnfusedWarning")
def test_none_and_complex_values_are_refused() -> None:
    class Silent(mc.Stationary):
        """Returns nothing."""

        def profile(self, r2: Any) -> Any:
            return None

    with pytest.raises(DataTypeError, match="None"):
        Silent()([[0.0], [1.0]])
    with pytest.raises(DataTypeError, match="complex"):
        mc.FunctionKernel(lambda X, Y: (X @ Y.T) * 1j)([[0.0], [1.0]])


class Branching(mc.Stationary):
    """A condition on the number itself."""

    def profile(self, r2: Any) -> Any:
        if r2 > 1:
            return 0.0
        return 1 - r2


class ByMath(mc.DotProduct):
    """A function of the math module."""

    gain = mc.Positive(0.5)

    def profile(self, s: Any) -> Any:
        return math.exp(self.gain * s)


class Larger(mc.Coordinate):
    def coordinate(self, x: Any, z: Any) -> Any:
        return max(x, z)


def test_methods_of_single_numbers_work_untraced() -> None:
    r2 = ((X[:, None] - Z) ** 2).sum(axis=2)
    with pytest.warns(UnfusedWarning, match="has no truth value"):
        assert_allclose(Branching()(X, Z), np.where(r2 > 1, 0.0, 1 - r2), atol=1e-13)
    with pytest.warns(UnfusedWarning, match="not a number yet"):
        assert_allclose(ByMath()(X, Z), np.exp(0.5 * X @ Z.T))
    with pytest.warns(UnfusedWarning, match="has no truth value"):
        assert_allclose(Larger()(X, Z), np.maximum(X[:, None], Z).sum(axis=2))
    assert_allclose(ByMath().diag(X), np.exp(0.5 * (X * X).sum(axis=1)))


def test_an_error_of_the_method_itself_is_raised() -> None:
    class Broken(mc.DotProduct):
        def profile(self, s: Any) -> Any:
            raise ValueError("no such profile")

    with pytest.warns(UnfusedWarning), pytest.raises(ValueError, match="no such profile"):
        Broken()(X)
