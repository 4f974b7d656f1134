"""Every kernel, and many random compositions of kernels, keep the contract."""

from __future__ import annotations

import inspect
import pydoc
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import cluster, decomposition, kernel_approximation, kernel_ridge
from sklearn.metrics.pairwise import pairwise_kernels

import mercer as mc
from mercer.exceptions import DataError
from mercer.kernels.base import validated
from mercer.testing import check_kernel
from references import label

INFINITY = float("inf")

LEAVES: list[mc.Kernel] = [
    mc.RBF(),
    mc.RBF([0.5, 1.0, 2.0]),
    mc.RBF(length_scale="median"),
    mc.RBF(mc.Bounded(1.0, 1.0, 2.0)),
    mc.Laplacian(0.7),
    mc.Laplacian([0.5, 1.0, 2.0]),
    mc.Matern(),
    mc.Matern(nu=0.5),
    mc.Matern([0.5, 1.0, 2.0], nu=2.5),
    mc.Matern(nu=0.3),
    mc.Matern([0.5, 1.0, 2.0], nu=1.3),
    mc.Matern(nu=30.0),
    mc.Matern(nu=INFINITY),
    mc.RationalQuadratic(alpha=0.6),
    mc.Periodic(period=0.8),
    mc.Periodic(0.8, [0.5, 1.0, 2.0]),
    mc.Cosine(0.4),
    mc.Cosine([0.5, 1.0, 2.0]),
    *(mc.Wendland(1.5, dimension=d, smoothness=s) for d in (1, 3, 5) for s in (0, 1, 2, 3)),
    mc.SpectralMixture(),
    mc.SpectralMixture([1.0, 0.5], [0.3, 1.0], [1.0, 2.0]),
    mc.SpectralMixture([1.0, 0.5], [[0.0, 1.0, 0.5], [0.3, 0.2, 0.1]], [[1, 2, 3], [1, 1, 2]]),
    mc.Linear(),
    mc.Polynomial(),
    mc.Polynomial(degree=2, offset=0.0, gain=0.5),
    mc.Monomials(),
    mc.Monomials(degree=4),
    mc.Anova(),
    mc.Anova(degree=1),
    mc.Anova(degree=3),
    mc.Anova(degree=5),
    mc.Sigmoid(gain=0.5, offset=-0.2),
    mc.ArcCosine(order=0),
    mc.ArcCosine(order=1),
    mc.ArcCosine(order=2),
    mc.Chi2(gain=0.7),
    mc.AdditiveChi2(),
    mc.HistogramIntersection(),
    mc.Tanimoto(),
    mc.Tanimoto(form="minmax"),
    mc.MinMax(),
    mc.Categorical(1.0),
    mc.Categorical([0.5, 1.0, 2.0]),
    mc.Missing(0.7),
    mc.Constant(2.5),
    mc.Constant(0.0),
    mc.White(),
    mc.Precomputed(),
    mc.Precomputed(np.eye(4) + 1.0),
    mc.Spectrum(2),
    mc.Mismatch(2, 1, alphabet="any", letters=4),
    mc.GappedKmer(3, 2),
    mc.WeightedDegree(2, shift=1),
    mc.Subsequence(2),
    mc.EditDistance(2.0),
    mc.FunctionKernel(lambda X, Z: X @ Z.T),
    mc.FunctionKernel(lambda x, z: float(x @ z) ** 2, pairwise=True),
]

COMPOSITIONS: list[mc.Kernel] = [
    (0.5 * mc.RBF() * mc.Periodic() + mc.Matern() + mc.Linear() ** 2).normalized(),
    (mc.RBF() + mc.Linear()) * (mc.Periodic() + 0.1 * mc.White()),
    mc.Linear().exp(),
    mc.Linear().polynomial([1.0, 0.0, 2.0]),
    mc.Linear().polynomial([0.0, 0.0]),
    mc.RBF().on(0, 2) + mc.Linear().on(slice(1, 3)),
    (mc.RBF().on(0, 1) + 1.0).on(2, 1, 0),
    mc.RBF().warp(np.tanh),
    mc.RBF().standardized() + mc.Linear().standardized([0.0, 1.0], [2.0, 0.5]).on(2, 0),
    mc.Matern().scaled_by(lambda X: 1 + X[:, 0] ** 2),
    mc.FunctionKernel(lambda X, Z: X @ Z.T) * mc.RBF(),
    mc.Precomputed(np.eye(4) + 1.0).on(0) * mc.RBF().on(1),
    mc.Categorical(1.0).on(0) * mc.RBF().on(1, 2),
    mc.Chi2().on(0) * mc.RBF().on(1),
    mc.Spectrum(1) + mc.Spectrum(2).normalized() * mc.Categorical(1.0),
    mc.Fixed(2.0) * mc.RBF(mc.Fixed(0.5)) + mc.Bounded(1.0, 0.5, 2.0) * mc.Linear(),
    (mc.Sigmoid() * mc.Linear()).exp(),
    mc.Linear().normalized().normalized(),
    0.0 * mc.RBF() + mc.ArcCosine().normalized(),
]


@pytest.mark.parametrize("kernel", [*LEAVES, *COMPOSITIONS], ids=label)
def test_kernel_keeps_the_contract(kernel: mc.Kernel) -> None:
    check_kernel(kernel)


def test_every_public_kernel_is_among_the_examples() -> None:
    public = {
        value
        for value in map(mc.__dict__.get, mc.__all__)
        if isinstance(value, type)
        and issubclass(value, mc.Kernel)
        and not inspect.isabstract(value)
        # Graphs and series are checked on data of their own.
        and not value.__module__.startswith(("mercer.kernels.graphs", "mercer.kernels.series"))
    }
    bases = {mc.Kernel, mc.Stationary, mc.DotProduct, mc.Coordinate, mc.FeatureKernel}
    checked = {type(k) for k in [*LEAVES, *COMPOSITIONS]} | {mc.Product}
    others = {mc.PairKernel, mc.LocalAlignment, mc.MeanEmbedding}  # which take other objects
    assert public - bases - others <= checked


# Random compositions ------------------------------------------------------------------------------

lengths = st.floats(0.4, 3.0)
vectors = st.lists(lengths, min_size=3, max_size=3)
leaf = st.one_of(
    st.builds(mc.RBF, st.one_of(lengths, vectors)),
    st.builds(mc.Laplacian, st.one_of(lengths, vectors)),
    st.builds(mc.Matern, lengths, nu=st.sampled_from([0.5, 1.5, 2.5, 1.2, INFINITY])),
    st.builds(mc.RationalQuadratic, lengths, alpha=lengths),
    st.builds(mc.Periodic, lengths, st.one_of(lengths, vectors)),
    st.builds(mc.Cosine, st.one_of(lengths, vectors)),
    st.builds(mc.Wendland, lengths, dimension=st.just(3), smoothness=st.integers(1, 3)),
    st.just(mc.Linear()),
    st.builds(mc.Polynomial, st.integers(1, 3), lengths, lengths),
    st.builds(mc.Monomials, st.integers(1, 3)),
    st.builds(mc.Anova, st.integers(1, 3)),
    st.builds(mc.ArcCosine, st.integers(0, 2)),
    st.builds(mc.Constant, lengths),
    st.just(mc.White()),
    # Normalising divides by k(x, x), which the offset keeps away from 0.
    st.just(mc.Sigmoid(offset=1.0)),
)
narrow = st.builds(
    lambda kernel, columns: kernel.on(*columns),
    st.one_of(st.builds(mc.RBF, lengths), st.builds(mc.Laplacian, lengths), st.just(mc.Linear())),
    st.sampled_from([(0,), (2, 0), (slice(1, 3),), (-1,), (0, 0)]),
)


def grow(inner: st.SearchStrategy[mc.Kernel]) -> st.SearchStrategy[mc.Kernel]:
    scales = st.one_of(lengths, st.builds(mc.Fixed, lengths), st.just(0.0))
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(lambda a, c: c * a, inner, scales),
        st.builds(lambda a: a**2, inner),
        st.builds(lambda a: a.normalized(), inner),
        st.builds(lambda a: a.normalized().exp(), inner),
        st.builds(lambda a, c: a.polynomial(c), inner, st.lists(lengths, min_size=1, max_size=3)),
        st.builds(lambda a: a.on(2, 0, 1), inner),
    )


compositions: Any = st.recursive(st.one_of(leaf, narrow), grow, max_leaves=5)


@settings(max_examples=220)
@given(compositions, st.integers(0, 2**16))
def test_random_compositions_keep_the_contract(kernel: mc.Kernel, seed: int) -> None:
    check_kernel(kernel, random_state=seed)


def test_help_shows_the_constructor_and_the_methods_but_no_machinery() -> None:
    text = pydoc.plain(pydoc.render_doc(mc.RBF))
    assert "RBF(length_scale=1.0)" in text
    assert "Gaussian kernel" in text
    for shown in ("gram(self, X", "replace(self, **params", "theta", "__add__", "__call__"):
        assert shown in text
    for hidden in (" _trace", "_tree", " _values", "__setattr__", "__reduce__", "__signature__"):
        assert hidden not in text


def test_the_owner_of_a_validation_is_named() -> None:
    X = np.random.default_rng(8).normal(size=(6, 2))
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(DataError, match=r"KernelRidge: .*NaN"):
        validated(mc.RBF(), bad, mc.KernelRidge())
    assert len(validated(mc.RBF(), X)) == 6


def test_help_shows_what_users_call_and_no_machinery() -> None:
    text = pydoc.plain(pydoc.render_doc(mc.RBF))
    for name in ("expression", "declared", "chain", "validate", "input_tags", "parameter_values"):
        assert not re.search(rf"^ \|  {name}\b", text, re.MULTILINE), name
    for name in ("gram", "diag", "replace", "on", "normalized", "resolve", "theta"):
        assert re.search(rf"^ \|  {name}\b", text, re.MULTILINE), name


def test_two_rows_have_a_number() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3))
    for kernel in (mc.RBF(), 2.0 * mc.Linear().on(0, 2) + mc.Matern(nu=0.7), mc.Periodic()):
        matrix = kernel(X)
        value = kernel(X[1], X[4])
        assert type(value) is float
        assert value == pytest.approx(matrix[1, 4], rel=1e-12)
        assert kernel(list(X[1]), tuple(X[4])) == pytest.approx(value, rel=1e-12)
        assert kernel(X[1].astype(int), X[4]) == pytest.approx(
            kernel([X[1].astype(int)], [X[4]]).item(), rel=1e-12
        )
    assert (mc.RBF() + mc.White())(X[0], X[0]) == 1.0  # noise belongs to k(X) alone


def test_two_strings_have_a_number() -> None:
    kernel = mc.Spectrum(2).normalized()
    assert kernel("kathrin", "kerstin") == pytest.approx(kernel(["kathrin"], ["kerstin"]).item())
    with pytest.raises(DataError, match="a single string is not a collection"):
        kernel("kathrin")
    with pytest.raises(DataError, match="a single string is not a collection"):
        mc.RBF()("a", "b")


def test_one_vector_is_still_no_data_and_a_vector_of_objects_is_a_collection() -> None:
    with pytest.raises(DataError, match="expected 2D array, got 1D array"):
        mc.RBF()(np.zeros(3))
    with pytest.raises(DataError, match="expected 2D array, got 1D array"):
        mc.RBF()(np.zeros((2, 3)), np.zeros(3))
    with pytest.raises(DataError, match=r"2 columns but .* have 3"):
        mc.RBF()(np.zeros(2), np.zeros(3))
    equal = mc.FunctionKernel(lambda a, b: float(a == b), pairwise=True)
    assert equal([1.0, 2.0], [2.0, 2.0]).shape == (2, 2)


def test_scikit_learn_takes_kernels_as_functions_of_two_rows() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    kernel = mc.Matern() + 0.5 * mc.Linear().on(0)
    assert_allclose(pairwise_kernels(X, X[:5], metric=kernel), kernel(X, X[:5]), rtol=1e-12)
    given = decomposition.KernelPCA(2, kernel="precomputed").fit_transform(kernel(X))
    assert_allclose(
        np.abs(decomposition.KernelPCA(2, kernel=kernel).fit_transform(X)), np.abs(given), rtol=1e-6
    )
    features = kernel_approximation.Nystroem(kernel=kernel, n_components=20).fit_transform(X)
    assert_allclose(features @ features.T, kernel(X), atol=1e-6)
    ridge = kernel_ridge.KernelRidge(kernel=kernel).fit(X, X[:, 0])
    ours = mc.KernelRidge(kernel, fit_intercept=False).fit(X, X[:, 0])
    assert_allclose(ridge.predict(X), ours.predict(X), rtol=1e-6)
    clusters = cluster.SpectralClustering(2, affinity=mc.RBF(), random_state=0).fit(X)
    assert clusters.affinity_matrix_ == pytest.approx(mc.RBF()(X))
