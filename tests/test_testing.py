"""`check_kernel` passes what is right, and names what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mercer as mc
from mercer.exceptions import DataError, DataTypeError, ParameterError
from mercer.testing import check_kernel


class Claim(mc.Stationary):
    """Indefinite, and claims the opposite."""

    psd = True

    def profile(self, r2: Any) -> Any:
        return np.cos(3 * np.sqrt(r2))


class Honest(Claim):
    psd = False


class Tilted(mc.Coordinate):
    """Not symmetric, but between 0.3 and 0.7 only, where the check at tracing does not look."""

    def coordinate(self, x: Any, z: Any) -> Any:
        return np.where(x > 0.3, np.where(x < 0.7, x * x * z, x * z), x * z)


class WrongDiagonal(mc.RBF):
    def diag(self, X: Any) -> Any:
        return super().diag(X) + 1e-9


class Forgetful(mc.RBF):
    """Its repr loses the parameter."""

    def __repr__(self) -> str:
        return "Forgetful()"


class Unpicklable(mc.RBF):
    def __reduce__(self) -> Any:
        return Unpicklable, ()


class Drifting(mc.PairKernel):
    """Values that depend on the size of the block."""

    def pairs(self, A: Any, B: Any) -> Any:
        return np.full((len(A), len(B)), 1.0 + 1e-6 * len(A) * len(B))


class Noise(mc.PairKernel):
    """Values that depend on the call."""

    calls = 0

    def pairs(self, A: Any, B: Any) -> Any:
        Noise.calls += 1
        return np.full((len(A), len(B)), 1.0 + Noise.calls % 7)


class Infinite(mc.DotProduct):
    def profile(self, s: Any) -> Any:
        return np.log(s * 0.0)


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (
            Claim(0.5),
            r"Claim\(length_scale=0\.5\) fails the check of positive semi-definiteness: is_psd",
        ),
        (Claim(0.5) + mc.RBF(0.01) * 1e-6, r"positive semi-definiteness"),
        (Tilted(), r"Tilted\(\) fails the check of symmetry: k\(X, Z\)"),
        (WrongDiagonal(), r"the check of the diagonal: diag\(X\)"),
        (Forgetful(2.0), r"the check of repr: .*not equal"),
        (Unpicklable(2.0), r"the check of pickle: .*not equal"),
        (Drifting(), r"the check of the diagonal|the check of blocks"),
        (Infinite(), r"the check of symmetry: .*finite"),
        (
            mc.FunctionKernel(lambda A, B: A[:, :1] - 2 * B[:, 0]),
            r"symmetry: FunctionKernel is not",
        ),
        (mc.FunctionKernel(lambda A, B: np.ones(3)), r"FunctionKernel returned shape"),
        (Noise(), r"fails the check of"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, mc.Kernel) else "",
)
def test_broken_kernels_are_caught_and_the_check_is_named(kernel: mc.Kernel, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_kernel(kernel)


def test_a_wrong_engine_result_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from mercer.program import engine

    right = engine.gram

    def wrong(*args: Any, **kwargs: Any) -> Any:
        K = right(*args, **kwargs)
        return K * (1 + 1e-9) if K.dtype == np.float64 else K

    monkeypatch.setattr(engine, "gram", wrong)
    with pytest.raises(AssertionError, match=r"diagonal|products|reference"):
        check_kernel(mc.Linear())


def test_a_wrong_gradient_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = mc.Gram.gradient
    monkeypatch.setattr(mc.Gram, "gradient", lambda self, w=None: right(self, w) * (1 + 1e-4))
    with pytest.raises(
        AssertionError, match=r"gradient in the parameters: d/dtheta of length_scale"
    ):
        check_kernel(mc.RBF())


def test_a_wrong_input_gradient_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = mc.Gram.input_gradient
    monkeypatch.setattr(mc.Gram, "input_gradient", lambda self, w=None: right(self, w) * 1.0001)
    with pytest.raises(AssertionError, match=r"gradient in the inputs: d/dx of row"):
        check_kernel(mc.RBF())


def test_an_honest_indefinite_similarity_passes() -> None:
    check_kernel(Honest(0.5))
    check_kernel(mc.Sigmoid())


def test_given_points_of_any_kind() -> None:
    rng = np.random.default_rng(0)
    check_kernel(mc.RBF(), rng.normal(size=(9, 5)))
    check_kernel(mc.RBF([1.0, 2.0]), rng.normal(size=(9, 2)), Z=rng.normal(size=(4, 2)))
    check_kernel(mc.RBF() * mc.Periodic(), rng.normal(size=(9, 3)).astype(np.float32))
    check_kernel(mc.Linear() ** 64, rng.normal(size=(6, 3)) / 3)  # underflows in float32
    check_kernel(mc.RBF(), sp.random_array((9, 20), density=0.3, rng=rng))
    check_kernel(mc.Spectrum(2), ["abab", "ba", "abc", "", "aab"])
    check_kernel(mc.HistogramIntersection(), rng.integers(0, 4, (12, 3)))  # many ties
    frame = pd.DataFrame({"s": ["ab", "ba", "abb", "aab"], "x": [0.1, 0.2, 0.7, 0.4]})
    check_kernel(mc.Spectrum(2).on("s") * mc.RBF().on("x") + mc.Categorical(1.0).on("s"), frame)


def test_points_are_made_up_in_as_many_columns_as_needed() -> None:
    check_kernel(mc.RBF(np.linspace(0.5, 2.0, 7)))
    check_kernel(mc.Linear().on(5))
    check_kernel(mc.Wendland(dimension=1))


def test_points_that_cannot_be_made_up_are_asked_for() -> None:
    with pytest.raises(DataError, match="pass a data frame"):
        check_kernel(mc.RBF().on("age"))
    with pytest.raises(ParameterError, match="is not a kernel"):
        check_kernel(mc.RBF)  # type: ignore[arg-type]
    with pytest.raises(DataTypeError):
        check_kernel(mc.RBF(), ["a", "b"])


def test_kernels_that_hold_functions_are_exempt_from_repr_and_pickle() -> None:
    check_kernel(mc.RBF().warp(lambda X: X**3))
    check_kernel(mc.FunctionKernel(lambda A, B: A @ B.T))


def test_classes_that_cannot_be_imported_are_exempt_from_pickle() -> None:
    class Local(mc.Stationary):
        def profile(self, r2: Any) -> Any:
            return 1 / (1 + r2)

    check_kernel(Local())


def test_the_seed_decides() -> None:
    for seed in range(3):
        check_kernel(mc.Matern(nu=1.7), random_state=seed)


def test_a_power_without_a_derivative_in_its_exponent() -> None:
    class Square(mc.DotProduct):
        p = mc.Positive(2.0)

        def profile(self, s: Any) -> Any:
            return s**self.p

    with pytest.raises(AssertionError, match=r"a power of a negative .* in its exponent p; hold"):
        check_kernel(Square())
    check_kernel(Square(mc.Fixed(2.0)))
    check_kernel(Square(), np.random.default_rng(0).uniform(0.5, 1.0, (6, 2)))


def test_check_kernel_finds_an_indefinite_kernel_that_claims_nothing() -> None:
    class Negative(mc.Stationary):
        """-r^2."""

        def profile(self, r2: Any) -> Any:
            return -r2

    with pytest.raises(AssertionError, match="positive"):
        mc.testing.check_kernel(Negative())


class OtherInTracing(mc.DotProduct):
    """Not the same function of an expression as of numbers."""

    def profile(self, s: Any) -> Any:
        return s if isinstance(s, np.ndarray) else 2 * s


class OtherCoordinate(mc.Coordinate):
    def coordinate(self, x: Any, z: Any) -> Any:
        return x * z if isinstance(x, np.ndarray) else x * z * x * z


def test_tracing_is_compared_with_the_method_called_with_numbers() -> None:
    for kernel in (OtherInTracing(), mc.RBF() + OtherInTracing().on(0, 1), OtherCoordinate()):
        with pytest.raises(AssertionError, match=r"traced, and its methods called with numbers"):
            check_kernel(kernel)
