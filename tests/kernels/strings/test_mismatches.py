"""Mismatch and gapped k-mer kernels against enumeration over all words, by both algorithms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import mercer as mc
import references as ref
from mercer import _core
from mercer.exceptions import DataError, NoFeatureMapError, ParameterError
from mercer.kernels.strings.letters import arrays_of, encoded
from mercer.kernels.strings.mismatches import common_words, masks_of, profile_of
from words import ODD, least_eigenvalue, random_words

WORDS = random_words(10, 12, seed=1) + ODD


@pytest.mark.parametrize(("k", "m"), [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 1), (4, 2)])
def test_mismatch_counts_all_words(k: int, m: int) -> None:
    wanted = ref.matrix(ref.mismatch, WORDS, k=k, m=m, letters="ACGT")
    assert_array_equal(mc.Mismatch(k, m)(WORDS), wanted)
    others = mc.Mismatch(k, m)(WORDS[:4], WORDS)
    assert_array_equal(others, wanted[:4])


def test_mismatch_of_any_letters_needs_their_number() -> None:
    texts = ["abac", "cab", "bcbc"]
    wanted = ref.matrix(ref.mismatch, texts, k=2, m=1, letters="abc")
    assert_array_equal(mc.Mismatch(2, 1, alphabet="any", letters=3)(texts), wanted)
    with pytest.raises(DataError, match="pass letters=3 or more"):
        mc.Mismatch(2, 1, alphabet="any", letters=2)(texts)
    with pytest.raises(ParameterError, match="'dna' has 4 letters; leave letters out"):
        mc.Mismatch(2, 1, letters=5)
    with pytest.raises(ParameterError, match="such as letters=26"):
        mc.Mismatch(2, 1, alphabet="any")


def test_mismatch_without_mismatches_is_the_spectrum() -> None:
    assert_array_equal(mc.Mismatch(3, 0)(WORDS), mc.Spectrum(3)(WORDS))


@pytest.mark.parametrize(("l", "k"), [(1, 1), (3, 3), (3, 2), (4, 2), (5, 1), (6, 3)])
def test_gapped_kmers_are_counted(l: int, k: int) -> None:  # noqa: E741
    wanted = ref.matrix(ref.gapped_kmer, WORDS, l=l, k=k)
    assert_array_equal(mc.GappedKmer(l, k)(WORDS), wanted)
    assert_array_equal(mc.GappedKmer(l, k)(WORDS, WORDS[:4]), wanted[:, :4])


@pytest.mark.parametrize(("length", "profile"), [(4, [5, 2, 1]), (6, [20, 10, 4, 1]), (3, [7])])
@pytest.mark.parametrize("n", [6, 60])
def test_sorting_and_diagonals_agree(length: int, profile: list[int], n: int) -> None:
    """Few strings are compared window by window, more of them by sorting."""
    strings = arrays_of(encoded([*random_words(n, 50, seed=n), *ODD], "test"))
    masks, weights = masks_of(length, profile)
    options: Any = (length, profile)
    sorted_ = _core.window_products(strings, None, *options, masks, weights, False, 2)
    compared = _core.window_products(strings, None, *options, [], [], False, 2)
    assert_array_equal(sorted_, compared)
    both = _core.window_products(strings, strings, *options, masks, weights, False, 2)
    assert_array_equal(both, compared)
    diagonal = _core.window_products(strings, None, *options, masks, weights, True, 2)
    assert_array_equal(diagonal, np.diag(compared))


@pytest.mark.parametrize("letters", [300, 70_000])
def test_windows_of_many_letters_and_large_alphabets(letters: int) -> None:
    rng = np.random.default_rng(5)
    motif = rng.integers(letters, size=80).tolist()
    rows = [motif, motif[:70] + [-1] * 10, [*motif[3:], *motif], rng.permutation(motif).tolist()]
    kernel = mc.GappedKmer(40, 30)
    wanted = ref.matrix(ref.gapped_kmer, rows, l=3, k=2)
    assert_array_equal(mc.GappedKmer(3, 2)(rows), wanted)
    profile = [[float(v) for v in profile_of(kernel)[1]]]
    total = 0.0
    for i in range(41):
        for j in range(41):
            d = sum(a != b for a, b in zip(rows[0][i : i + 40], rows[1][j : j + 40], strict=True))
            total += profile[0][d] if d < len(profile[0]) else 0.0
    assert kernel(rows)[0, 1] == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("kernel", [mc.Mismatch(3, 1), mc.Mismatch(4, 2), mc.GappedKmer(5, 3)])
def test_features_have_the_kernel_as_their_inner_products(kernel: Any) -> None:
    features = kernel.feature_map(WORDS)
    assert_allclose((features @ features.T).toarray(), kernel(WORDS), rtol=1e-12)
    assert len(kernel.feature_names(WORDS)) == features.shape[1]
    turned = kernel.replace(alphabet="dna", reverse_complement=True)
    features = turned.feature_map(WORDS)
    assert_allclose((features @ features.T).toarray(), turned(WORDS), rtol=1e-12)


def test_too_many_features_are_refused() -> None:
    with pytest.raises(NoFeatureMapError, match="too many"):
        mc.Mismatch(5, 2, alphabet="protein").feature_map(["MKVLAAG"])
    with pytest.raises(NoFeatureMapError, match="named"):
        mc.Mismatch(3, 1, alphabet="any", letters=4).feature_map(WORDS)


@pytest.mark.parametrize("kernel", [mc.Mismatch(3, 1), mc.GappedKmer(4, 2)])
def test_both_strands_add_the_kernel_with_the_reverse_complement(kernel: Any) -> None:
    turned = [s[::-1].translate(str.maketrans("ACGT", "TGCA")) for s in WORDS]
    both = kernel.replace(alphabet="dna", reverse_complement=True)
    assert_array_equal(both(WORDS), kernel(WORDS) + kernel(WORDS, turned))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kernel", [mc.Mismatch(3, 1), mc.Mismatch(4, 3), mc.GappedKmer(5, 2)])
def test_kernels_of_windows_are_positive_semidefinite(kernel: Any, seed: int) -> None:
    assert kernel.is_psd
    assert least_eigenvalue(kernel(random_words(40, 12, seed=seed))) > -1e-13


@pytest.mark.parametrize(("k", "m", "letters"), [(3, 1, 2), (3, 2, 3), (4, 2, 2), (2, 1, 5)])
def test_common_words_are_counted_by_enumeration(k: int, m: int, letters: int) -> None:
    names = "abcde"[:letters]
    for d in range(k + 1):
        x, z = "a" * k, "b" * d + "a" * (k - d)
        assert common_words(k, m, letters, d) == ref.mismatch(x, z, k, m, names)


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ParameterError, match="Pass m < k"):
        mc.Mismatch(2, 2)
    with pytest.raises(ParameterError, match="Pass k <= l"):
        mc.GappedKmer(2, 3)


@pytest.mark.parametrize(
    "kernel",
    [mc.Mismatch(5, 1), mc.Mismatch(4, 2, reverse_complement=True), mc.GappedKmer(9, 6, "dna")],
    ids=repr,
)
def test_the_diagonal_of_windows_is_that_of_the_matrix(kernel: mc.Kernel) -> None:
    words = [*WORDS, "ACGTNACGTACGTTACGAC", "A" * 70]
    assert_array_equal(kernel.diag(words), np.diag(kernel(words)))


@pytest.mark.parametrize("kernel", [mc.Mismatch(3, 1), mc.GappedKmer(4, 3)])
def test_features_are_named_by_their_words(kernel: Any) -> None:
    strings = ["ACGTA", "ACCTA", "TTTTT"]
    values, words = kernel.features(strings)
    assert values.shape == (3, len(words))
    np.testing.assert_allclose((values @ values.T).toarray(), kernel(strings))
