"""What counts as a string: text, bytes, tokens, records; named alphabets; bad rows."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import mercer as mc
from mercer.exceptions import DataError, DataTypeError
from words import ODD, random_words

KERNELS = [
    mc.Spectrum(2),
    mc.Mismatch(3, 1),
    mc.GappedKmer(4, 2),
    mc.WeightedDegree(3),
    mc.WeightedDegree(3, shift=2),
    mc.Subsequence(2),
    mc.LocalAlignment("dna", beta=0.1),
    mc.EditDistance(4.0),
]
WORDS = random_words(12, 15) + ODD

every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@dataclass
class Seq:
    """Letters as Biopython holds them."""

    letters: str

    def __str__(self) -> str:
        return self.letters

    def reverse_complement(self) -> None: ...


@dataclass
class SeqRecord:
    """A record as Biopython holds it."""

    seq: Seq


@every_kernel
@pytest.mark.parametrize(
    "make",
    [
        lambda words: np.array(words, dtype=object),
        lambda words: [w.encode() for w in words],
        lambda words: [list(w) for w in words],
        lambda words: [np.array(list(w), dtype="U1") for w in words],
        lambda words: [SeqRecord(Seq(w)) for w in words],
        lambda words: [Seq(w) for w in words],
        pd.Series,
        pl.Series,
        lambda words: pd.DataFrame({"sequence": words}),
    ],
    ids=["array", "bytes", "lists", "arrays", "records", "Seq", "pandas", "polars", "frame"],
)
def test_all_ways_to_hold_strings_are_one(kernel: mc.Kernel, make: Any) -> None:
    assert_array_equal(kernel(make(WORDS)), kernel(WORDS))


@every_kernel
def test_test_strings_are_compared_like_training_strings(kernel: mc.Kernel) -> None:
    whole = kernel(WORDS)
    assert_allclose(kernel(WORDS[:5], WORDS[5:]), whole[:5, 5:], rtol=1e-13)
    assert_allclose(kernel(WORDS[5:], WORDS[:5]), whole[5:, :5], rtol=1e-13)
    assert_allclose(kernel.diag(WORDS), np.diag(whole), rtol=1e-13)
    assert_array_equal(whole, whole.T)


@every_kernel
def test_normalisation_uses_the_diagonals_of_both_sides(kernel: mc.Kernel) -> None:
    train, test = WORDS[:9], WORDS[9:]
    diagonals = np.outer(np.sqrt(kernel.diag(test)), np.sqrt(kernel.diag(train)))
    wanted = np.where(diagonals > 0, kernel(test, train) / np.where(diagonals > 0, diagonals, 1), 0)
    assert_allclose(kernel.normalized()(test, train), wanted, rtol=1e-12)


@every_kernel
def test_missing_strings_count_as_empty(kernel: mc.Kernel) -> None:
    assert_array_equal(kernel(["ACGTA", None, float("nan"), pd.NA]), kernel(["ACGTA", "", "", ""]))


@every_kernel
def test_one_string_and_equal_strings(kernel: mc.Kernel) -> None:
    assert kernel(["ACGTAC"]).shape == (1, 1)
    K = kernel(["ACGTAC"] * 3)
    assert_array_equal(K, np.full((3, 3), K[0, 0]))


@every_kernel
def test_what_is_no_string_is_refused(kernel: mc.Kernel) -> None:
    name = type(kernel).__name__
    with pytest.raises(DataTypeError, match=f"{name}: row 1 is of type int, and not a string"):
        kernel(["ACG", 3])
    with pytest.raises(DataTypeError, match="some rows are strings and others are lists"):
        kernel(["ACG", ["A", "C"]])
    with pytest.raises(DataTypeError, match="single string"):
        kernel("ACGT")


@every_kernel
def test_kernels_are_values(kernel: mc.Kernel) -> None:
    names = {name: getattr(mc, name) for name in mc.__all__}
    assert eval(repr(kernel), names) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert clone(kernel, safe=False) == kernel


@every_kernel
def test_results_do_not_depend_on_threads(kernel: mc.Kernel) -> None:
    words = random_words(80, 40)
    with mc.threads(1):
        one = kernel(words)
    with mc.threads(3):
        assert_array_equal(kernel(words), one)


@pytest.mark.parametrize("cpu", ["baseline", "avx2"])
def test_instruction_sets_agree(cpu: str) -> None:
    script = (
        "import mercer as mc, sys; sys.path[:0] = ['tests/support', 'tests/kernels/strings']\n"
        "from words import random_words\n"
        "for k in (mc.Mismatch(3, 1), mc.GappedKmer(9, 2), mc.Subsequence(2), mc.EditDistance(9.0),"
        " mc.LocalAlignment('dna', beta=0.1), mc.WeightedDegree(3, shift=1)):\n"
        "    print(' '.join(f'{v:.9e}' for v in k(random_words(20, 30)).ravel()))\n"
    )
    outputs = []
    for name in ("", cpu):
        environment = {**os.environ, "MERCER_CPU": name}
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True
        )
        if "is not an instruction set" in run.stderr:
            pytest.skip(f"this machine has no {cpu}")
        assert run.returncode == 0, run.stderr
        outputs.append(np.array(run.stdout.split(), float))
    assert_allclose(outputs[1], outputs[0], rtol=1e-8)


@every_kernel
def test_large_collections_are_computed_in_blocks(kernel: mc.Kernel) -> None:
    words = random_words(1100, 8)
    some = [3, 500, 1050, 1099]
    assert_allclose(kernel(words)[np.ix_(some, some)], kernel([words[i] for i in some]), rtol=1e-13)


def test_tokens_are_compared_whole() -> None:
    sentences = [["the", "cat", "sat"], ["the", "cat"], ["t", "h", "e", "c", "a", "t"], []]
    assert mc.Spectrum(2)(sentences).tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [0, 0, 5, 0], [0] * 4]
    assert mc.EditDistance(1.0)(sentences)[0, 1] == pytest.approx(np.exp(-1))
    assert mc.Spectrum(2).feature_names(sentences)[1] == "('the', 'cat')"


def test_tables_are_no_sequences() -> None:
    frame = pd.DataFrame({"sequence": ["ACG", "A"], "ph": [7.0, 6.5]})
    with pytest.raises(DataTypeError, match="row 0 is of type tuple, and not a string"):
        mc.Spectrum(2)(frame)
    with pytest.raises(DataTypeError, match="row 0 is of type ndarray, and not a string"):
        mc.EditDistance()(np.ones((3, 4)))


def test_tokens_may_be_numbers_and_tuples() -> None:
    rows = [[1, 2, (3, 4)], [2, (3, 4), 5, 6], [1, 1, 1]]
    assert mc.Spectrum(2)(rows).tolist() == [[2, 1, 0], [1, 3, 0], [0, 0, 4]]
    assert mc.Spectrum(1)(np.array([[1, 2, 2], [2, 3, 3]])).tolist() == [[5, 2], [2, 5]]
    with pytest.raises(DataTypeError, match="a token of type dict has no hash"):
        mc.Spectrum(1)([[{}], [1, 2]])


@pytest.mark.parametrize(
    ("alphabet", "known", "unknown"),
    [("dna", "ACGT", "N"), ("rna", "ACGU", "R"), ("protein", "MKVL", "X")],
)
def test_named_alphabets_ignore_case_and_match_no_ambiguity_codes(
    alphabet: Any, known: str, unknown: str
) -> None:
    kernel = mc.Spectrum(1, alphabet=alphabet)
    assert kernel([known, known.lower(), unknown * 3]).tolist() == [[4, 4, 0], [4, 4, 0], [0] * 3]
    gapped = mc.GappedKmer(2, 1, alphabet=alphabet)
    assert gapped([known + unknown + known])[0, 0] == gapped([known, known]).sum()
    degree = mc.WeightedDegree(2, alphabet=alphabet)
    assert degree([known + unknown])[0, 0] == degree([known])[0, 0]


def test_letters_outside_a_named_alphabet_are_refused() -> None:
    with pytest.raises(DataError, match=r"row 1 has 'U' at position 2; the alphabet 'dna' has the"):
        mc.Spectrum(2, alphabet="dna")(["ACGT", "ACUG"])
    with pytest.raises(DataError, match=r"WeightedDegree: row 0 has 'é' at position 0"):
        mc.WeightedDegree(2, alphabet="protein")(["é"])


@pytest.mark.parametrize("kernel", [k for k in KERNELS if k.is_psd], ids=repr)
def test_string_kernels_work_with_models_frames_and_searches(kernel: mc.Kernel) -> None:
    words = [w + "ACGT" for w in random_words(40, 12, seed=3)]
    frame = pd.DataFrame({"sequence": words, "ph": np.linspace(0, 1, 40)})
    y = np.array([w.count("AC") for w in words]) + frame["ph"]
    composed = kernel.normalized().on("sequence") + mc.RBF(0.5).on("ph")
    ridge = mc.KernelRidge(composed, alpha=0.1)
    search = GridSearchCV(ridge, {"alpha": [0.1, 1.0]}, cv=2).fit(frame, y)
    assert search.predict(frame).shape == (40,)
    landmarks = mc.KernelRidge(kernel.normalized(), alpha=0.1, solver=mc.solvers.NystromSolver(20))
    assert landmarks.fit(words, y).predict(words).shape == (40,)
    classes = (y > y.median()).to_numpy()
    assert mc.SVC(kernel.normalized()).fit(words, classes).score(words, classes) > 0.6


def test_rows_of_tokens_may_have_other_lengths_in_prediction() -> None:
    model = mc.KernelRidge(mc.Spectrum(1)).fit([["a", "b"], ["b", "c"], ["a"]], [0.0, 1.0, 0.5])
    assert model.predict([["a", "b", "c", "d"]]).shape == (1,)
