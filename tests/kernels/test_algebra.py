"""The algebra of kernels: values, nesting, paths and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
from mercer.exceptions import ParameterError

RNG = np.random.default_rng(3)
X, Z = RNG.normal(size=(12, 3)), RNG.normal(size=(7, 3))
A, B, C = mc.RBF(0.7), mc.Linear(), mc.Periodic(1.3)
KA, KB, KC = A(X, Z), B(X, Z), C(X, Z)


@pytest.mark.parametrize(
    ("kernel", "wanted"),
    [
        (A + B, KA + KB),
        (A * B, KA * KB),
        (A + B + C, KA + KB + KC),
        (A * B * C, KA * KB * KC),
        ((A + B) * C, (KA + KB) * KC),
        (A * (B + C), KA * (KB + KC)),
        ((A + B) * (B + C), (KA + KB) * (KB + KC)),
        (A + B * C, KA + KB * KC),
        (((A + B) * C + A) * B, ((KA + KB) * KC + KA) * KB),
        (2 * A, 2 * KA),
        (A * 2, 2 * KA),
        (A / 4, KA / 4),
        (2 * (A + B) * C, 2 * (KA + KB) * KC),
        (3 * (2 * A), 6 * KA),
        (A + 1.5, KA + 1.5),
        (1.5 + A, KA + 1.5),
        (B**3, KB**3),
        ((B**2) ** 3, KB**6),
        ((A + B) ** 2, (KA + KB) ** 2),
        (B.exp(), np.exp(KB)),
        ((A * B).exp(), np.exp(KA * KB)),
        (B.polynomial([1, 0, 2, 0.5]), 1 + 2 * KB**2 + 0.5 * KB**3),
        (B.polynomial([3]), np.full_like(KB, 3.0)),
        (sum([A, B, C]), KA + KB + KC),
    ],
    ids=lambda v: repr(v) if isinstance(v, mc.Kernel) else "",
)
def test_operations_mean_what_they_say(kernel: mc.Kernel, wanted: Any) -> None:
    assert_allclose(kernel(X, Z), wanted, rtol=1e-12, atol=1e-13)
    namespace = {name: getattr(mc, name) for name in mc.__all__}
    assert eval(repr(kernel), namespace) == kernel


def test_sums_and_products_flatten_only_with_their_own_kind() -> None:
    assert len((A + B + (C + A)).kernels) == 4
    assert len((A * B * (C * A)).kernels) == 4
    product = (A + B) * C
    assert isinstance(product, mc.Product)
    assert [type(k) for k in product.kernels] == [mc.Sum, mc.Periodic]
    total = A * B + C
    assert isinstance(total, mc.Sum)
    assert [type(k) for k in total.kernels] == [mc.Product, mc.Periodic]


def test_paths_are_ones_a_person_can_guess() -> None:
    assert list((A + C).get_params()) == [
        "rbf__length_scale",
        "periodic__period",
        "periodic__length_scale",
    ]
    assert list((A + A).get_params()) == ["rbf_1__length_scale", "rbf_2__length_scale"]
    plain = set(A.get_params())
    for wrapped in (A.on(0), A.normalized(), A.exp(), A**2, A.warp(np.tanh)):
        assert set(wrapped.get_params()) - {"exponent"} == plain
    assert set((2.0 * A).get_params()) == plain | {"scale"}
    mixed = 2.0 * A.on(0, 1) + C.on(2).normalized()
    assert set(mixed.get_params()) == {
        "rbf__scale",
        "rbf__length_scale",
        "periodic__period",
        "periodic__length_scale",
    }
    nested = (A + B) * C
    assert "sum__rbf__length_scale" in nested.get_params()


def test_parts_and_parameters_of_a_composition_can_be_read() -> None:
    kernel = 2.0 * A.on(0, 1) + C
    assert kernel[0] == 2.0 * A.on(0, 1)
    assert list(kernel) == list(kernel.kernels)
    assert kernel[0].length_scale == A.length_scale == kernel.rbf__length_scale
    assert kernel[0].scale == 2.0
    assert mc.RBF(mc.Fixed(3.0)).normalized().length_scale == 3.0
    with pytest.raises(IndexError):
        _ = kernel[2]


def test_replace_reaches_inside_and_leaves_the_original_alone() -> None:
    kernel = 2.0 * A.on(0, 1) + C
    changed = kernel.replace(rbf__length_scale=5.0, rbf__scale=1.0)
    assert changed == 1.0 * mc.RBF(5.0).on(0, 1) + C
    assert kernel.get_params()["rbf__length_scale"] == 0.7
    with pytest.raises(ParameterError, match=r"rbf__lenght_scale is not a parameter; did you mean"):
        kernel.replace(rbf__lenght_scale=1.0)
    with pytest.raises(AttributeError, match=r"immutable.*replace"):
        kernel.set_params(rbf__length_scale=1.0)


def test_a_scale_is_free_and_a_fixed_one_is_held() -> None:
    assert (2.0 * A).theta_names == ["scale", "length_scale"]
    held = mc.Fixed(2) * A
    assert held.theta_names == ["length_scale"]
    assert held.replace(scale=3.0).theta_names == ["length_scale"]
    assert (0.0 * A).theta_names == ["length_scale"]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: -2 * A, r"-2 \* RBF.*scale of a kernel must be >= 0.*pass a non-negative"),
        (lambda: A * -2, r"scale of a kernel must be >= 0"),
        (lambda: -A, r"scale of a kernel must be >= 0"),
        (lambda: np.float64(-1) * A, r"scale of a kernel must be >= 0"),
        (lambda: mc.Fixed(-1) * A, r"must be >= 0"),
        (lambda: float("nan") * A, r"must be >= 0"),
        (lambda: A - B, r"RBF.* - Linear\(\): a difference of kernels .*use sums"),
        (lambda: A - 1, r"difference of kernels"),
        (lambda: 1 - A, r"difference of kernels"),
        (lambda: A + -1, r"negative constant"),
        (
            lambda: A.polynomial([1, -1]),
            r"polynomial\(\[1, -1\]\).*must be >= 0.*pass non-negative",
        ),
        (lambda: A**0.5, r"exponent must be a whole number >= 1.*write k \*\* 2"),
        (lambda: A**0, r"whole number >= 1"),
        (lambda: A**-1, r"whole number >= 1"),
        (lambda: A / 0, r"divided by a positive number"),
        (lambda: A / B, r"divided by a positive number"),
        (lambda: A.on(), r"no column is given; pass at least one"),
        (lambda: A.on(1.5), r"a column is a position, a slice or a name"),
        (lambda: A.warp(3), r"warp\(3\): pass a function"),
        (lambda: A.scaled_by("f"), r"scaled_by\('f'\): pass a function"),
    ],
)
def test_what_leaves_the_cone_is_refused_with_the_reason(build: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        build()


@pytest.mark.parametrize("other", ["a", None, [1.0, 2.0], np.array([1.0, 2.0])])
def test_only_kernels_and_numbers_combine_with_kernels(other: Any) -> None:
    for combine in (lambda: A + other, lambda: other + A, lambda: A * other, lambda: other * A):
        with pytest.raises(TypeError):
            combine()


def test_numpy_scalars_are_numbers() -> None:
    for two in (np.float64(2), np.int64(2), np.array(2.0), np.float32(2)):
        assert two * A == 2.0 * A
        assert A * two == 2.0 * A


def test_validity_follows_the_closure_rules() -> None:
    indefinite = mc.Sigmoid()
    assert ((A + B) * C).normalized().exp().is_psd is True
    assert indefinite.is_psd is False
    assert (2.0 * indefinite).is_psd is False
    assert indefinite.on(0).is_psd is False
    assert (0.0 * indefinite).is_psd is True
    for unknown in (A + indefinite, A * indefinite, indefinite**2, indefinite.exp()):
        assert unknown.is_psd is None


def test_equal_kernels_have_equal_hashes() -> None:
    a, b = (
        2 * mc.RBF([1.0, 2.0]).on(0, 1) + mc.Matern(nu=1.3),
        2.0 * mc.RBF([1, 2]).on(0, 1) + mc.Matern(nu=1.3),
    )
    assert a == b
    assert len({a, b}) == 1
    assert a != 2.0 * mc.RBF([1, 2]).on(1, 0) + mc.Matern(nu=1.3)
    assert mc.RBF() != mc.Laplacian()


def test_python_sums_lists_of_kernels() -> None:
    kernels = [mc.RBF(), mc.Linear(), mc.White()]
    assert sum(kernels) == mc.RBF() + mc.Linear() + mc.White()
    assert sum(kernels[:1]) is kernels[0]
    # A constant that was written as one stays a term, with a value that can be learned.
    assert 0.0 + mc.RBF() == mc.Constant(0.0) + mc.RBF()
    assert mc.RBF() + 0 == mc.RBF() + mc.Constant(0)
