"""The spectrum kernel against its loop, alone and beside numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV

import mercer as mc
import references as ref
from mercer.exceptions import DataTypeError, ParameterError

RNG = np.random.default_rng(4)


SEQUENCES = ["ACGTACGT", "ACGT", "TTTACG", "AC", "", "GTACGTTT", "CGTACG", "AAAA", "ACGTT", "TTTT"]

PH, TEMPERATURE = RNG.normal(size=10), RNG.normal(size=10)


def test_strings_compose_with_numbers(make: Any) -> None:
    frame = make({"sequence": SEQUENCES, "ph": PH, "temperature": TEMPERATURE})
    kernel = mc.Spectrum(3).on("sequence") * mc.RBF().on("ph", "temperature")
    numbers = np.column_stack([PH, TEMPERATURE])
    wanted = ref.matrix(ref.spectrum, SEQUENCES, k=3) * ref.matrix(ref.rbf, numbers)
    assert_allclose(kernel(frame), wanted, rtol=1e-13)
    assert_allclose(kernel.diag(frame), np.diag(wanted), rtol=1e-13)
    normal = kernel.normalized()(frame)
    assert_allclose(np.diag(normal), [float(len(s) >= 3) for s in SEQUENCES], rtol=1e-13)
    assert_allclose(kernel.gram(frame) @ np.ones(10), wanted.sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_strings_beside_numbers_fit_and_search(make: Any) -> None:
    frame = make({"sequence": SEQUENCES, "ph": PH, "temperature": TEMPERATURE})
    kernel = mc.Spectrum(2).on("sequence") * mc.RBF(1.0).on("ph", "temperature")
    y = PH + np.array([s.count("AC") for s in SEQUENCES])
    grid = {"kernel__rbf__length_scale": [0.05, 1.0], "kernel__spectrum__k": [1, 2]}
    search = GridSearchCV(mc.KernelRidge(kernel, alpha=0.1), grid, cv=2).fit(frame, y)
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    assert search.predict(frame).shape == (10,)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_spectrum_equals_its_loop(k: int) -> None:
    others = ["GATTACA", "", "ÄÖ€𝄞ÄÖ"]
    kernel = mc.Spectrum(k)
    assert_array_equal(kernel(SEQUENCES), ref.matrix(ref.spectrum, SEQUENCES, k=k))
    assert_array_equal(kernel(SEQUENCES, others), ref.matrix(ref.spectrum, SEQUENCES, others, k=k))
    assert_array_equal(kernel(others, SEQUENCES), ref.matrix(ref.spectrum, others, SEQUENCES, k=k))


def test_spectrum_of_unknown_words_counts_in_the_diagonal_only() -> None:
    """A test string with substrings that training never showed still has its own length."""
    kernel = mc.Spectrum(2).normalized()
    K = kernel(["abxy"], ["abab", "ab"])
    assert_allclose(K, [[2 / np.sqrt(3 * 5), 1 / np.sqrt(3)]], rtol=1e-14)


def test_spectrum_refuses_what_is_not_text() -> None:
    with pytest.raises(DataTypeError, match="Spectrum: row 1 is of type int, and not a string"):
        mc.Spectrum(2)(["ab", 3])
    with pytest.raises(DataTypeError, match="single string"):
        mc.Spectrum(2)("abc")


def test_any_string_has_a_spectrum() -> None:
    assert mc.Spectrum(1)(["a\ud800", "\ud800"]).tolist() == [[2.0, 1.0], [1.0, 1.0]]


def test_several_lengths_are_a_weighted_sum() -> None:
    kernel = mc.Spectrum(k=(2, 4), weights=(0.5, 2.0))
    wanted = 0.5 * mc.Spectrum(2)(SEQUENCES) + 2.0 * mc.Spectrum(4)(SEQUENCES)
    assert_allclose(kernel(SEQUENCES), wanted, rtol=1e-14)
    others = ["GATTACA", "AC"]
    wanted = 0.5 * mc.Spectrum(2)(others, SEQUENCES) + 2.0 * mc.Spectrum(4)(others, SEQUENCES)
    assert_allclose(kernel(others, SEQUENCES), wanted, rtol=1e-14)
    assert eval(repr(kernel), {"Spectrum": mc.Spectrum}) == kernel


@pytest.mark.parametrize("settings", [{"k": (2, 2)}, {"k": ()}, {"k": (2, 0)}, {"k": "3"}])
def test_lengths_that_make_no_sense_are_refused(settings: Any) -> None:
    with pytest.raises(ParameterError, match="Spectrum: k"):
        mc.Spectrum(**settings)


def test_there_is_a_weight_for_each_length() -> None:
    with pytest.raises(ParameterError, match="there are 2 weights for k = 3"):
        mc.Spectrum(3, weights=(1.0, 2.0))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_both_strands_add_the_kernel_with_the_reverse_complement(k: int) -> None:
    turned = [s[::-1].translate(str.maketrans("ACGT", "TGCA")) for s in SEQUENCES]
    kernel = mc.Spectrum(k, alphabet="dna", reverse_complement=True)
    wanted = ref.matrix(ref.spectrum, SEQUENCES, k=k)
    wanted += ref.matrix(ref.spectrum, SEQUENCES, turned, k=k)
    assert_allclose(kernel(SEQUENCES), wanted, rtol=1e-13)
    assert_allclose(kernel(turned), kernel(SEQUENCES), rtol=1e-13)


def test_both_strands_have_one_feature_for_a_word_and_its_complement() -> None:
    kernel = mc.Spectrum(2, alphabet="dna", reverse_complement=True)
    names = kernel.feature_names(["AACGTT", "GGTACC"])
    assert names == ["AA", "AC", "CC", "CG", "GT"] or "TT" not in names


def test_both_strands_need_letters_with_complements() -> None:
    with pytest.raises(ParameterError, match="pass alphabet='dna' or 'rna'"):
        mc.Spectrum(3, reverse_complement=True)


@pytest.mark.parametrize("k", [17, 40, 70])
def test_words_longer_than_a_machine_word_are_counted(k: int) -> None:
    rng = np.random.default_rng(k)
    motif = "".join(rng.choice(list("abcdefghijklm"), size=90))
    strings = [motif, motif[5:] + "x" + motif, motif[:60], motif[::-1], "a" * 100]
    assert_array_equal(mc.Spectrum(k)(strings), ref.matrix(ref.spectrum, strings, k=k))
