"""Local alignments against enumeration of all alignments; edit distance against recursion."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import mercer as mc
import references as ref
from mercer.exceptions import ParameterError
from mercer.kernels.strings.alignment import _scores
from words import least_eigenvalue, random_words

PROTEINS = ["HEAGA", "PAWHE", "W", "", "GGGG", "AWGHE"]
DNA = ["", "A", "ACGT", "AAC", "TTGCA", "CCCCC"]


def score_of(name: str, x: str, z: str) -> float:
    letters, table = _scores(name)
    return float(table[letters.index(x), letters.index(z)])


@pytest.mark.parametrize(("scores", "words"), [("blosum62", PROTEINS), ("dna", DNA)])
@pytest.mark.parametrize("costs", [(11.0, 1.0), (2.0, 0.5), (0.0, 0.0)])
@pytest.mark.parametrize("beta", [0.1, 0.5])
def test_local_alignments_are_summed(
    scores: str, words: list[str], costs: tuple[float, float], beta: float
) -> None:
    sums = ref.matrix(
        ref.local_alignment,
        words,
        score=lambda x, z: score_of(scores, x, z),
        costs=costs,
        beta=beta,
    )
    logs = mc.LocalAlignment(scores, *costs, beta, "log")
    assert_allclose(logs(words), np.log(sums) / beta, rtol=1e-11, atol=1e-12)
    sizes = np.sqrt(np.diag(sums))
    normal = mc.LocalAlignment(scores, *costs, beta)
    assert_allclose(normal(words), sums / np.outer(sizes, sizes), rtol=1e-10)
    assert_allclose(normal(words[:2], words[2:]), normal(words)[:2, 2:], rtol=1e-12)


def test_scores_are_symmetric_and_known_values() -> None:
    """Entries of BLOSUM62 that every table prints, and its sum over all pairs."""
    _, table = _scores("blosum62")
    assert (table == table.T).all()
    assert score_of("blosum62", "W", "W") == 11
    assert score_of("blosum62", "I", "V") == 3
    assert score_of("blosum62", "D", "E") == 2
    assert np.linalg.eigvalsh(np.exp(0.05 * table))[0] > 0


def test_scores_equal_those_of_biopython() -> None:
    matrices = pytest.importorskip("Bio.Align.substitution_matrices")
    letters, table = _scores("blosum62")
    theirs = matrices.load("BLOSUM62")
    assert (table == [[theirs[a][b] for b in letters] for a in letters]).all()


def test_alignments_of_long_sequences_do_not_overflow() -> None:
    long = random_words(1, 4000, seed=3)[0] * 2
    logs = mc.LocalAlignment("dna", form="log")
    assert logs([long])[0, 0] == pytest.approx(5 * len(long), rel=0.01)
    cosine = mc.LocalAlignment("dna")([long, long[:-1]])
    assert 0 < cosine[0, 1] < 1


def test_letters_without_scores_align_with_nothing() -> None:
    kernel = mc.LocalAlignment(form="log")
    assert kernel(["XX"], ["XX", "AX"]).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beta", [0.05, 0.5])
def test_the_normalised_form_alone_is_valid(seed: int, beta: float) -> None:
    words = random_words(40, 10, seed=seed, letters="ACDEFGHIKLMNPQRSTVWY")
    kernel = mc.LocalAlignment(beta=beta)
    assert kernel.is_psd
    assert least_eigenvalue(kernel(words)) > -1e-12
    assert kernel.replace(form="log").is_psd is None


def test_scores_beyond_the_range_are_refused() -> None:
    with pytest.raises(ParameterError, match="pass a smaller beta"):
        mc.LocalAlignment(beta=100.0)


def test_edit_distances_equal_their_recursion() -> None:
    words = [*random_words(12, 6, seed=7), "kitten", "sitting", ""]
    wanted = np.exp(-ref.matrix(ref.edit_distance, words) / 3.0)
    assert_allclose(mc.EditDistance(3.0)(words), wanted, rtol=1e-14)
    assert_allclose(mc.EditDistance(3.0)(words, words[:2]), wanted[:, :2], rtol=1e-14)


def test_the_edit_distance_is_indefinite_for_some_strings_and_says_so() -> None:
    kernel = mc.EditDistance(10.0)
    assert kernel.is_psd is None
    assert least_eigenvalue(kernel(random_words(60, 8, seed=0, letters="AC"))) < -1e-6
