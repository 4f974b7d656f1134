"""Kernels of alignments: sums over local alignments, and the edit distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import ParameterError
from mercer.kernels.parameters import Choice, NonNegative, Positive
from mercer.kernels.strings.letters import StringKernel, called, encoded
from mercer.kernels.structured import Ragged

#: The lower triangle of BLOSUM62, in half bits, with the letters of its rows.
_BLOSUM62 = """
A 4
R -1 5
N -2 0 6
D -2 -2 1 6
C 0 -3 -3 -3 9
Q -1 1 0 0 -3 5
E -1 0 0 2 -4 2 5
G 0 -2 0 -1 -3 -2 -2 6
H -2 0 1 -1 -3 0 0 -2 8
I -1 -3 -3 -3 -1 -3 -3 -4 -3 4
L -1 -2 -3 -4 -1 -2 -3 -4 -3 2 4
K -1 2 0 -1 -3 1 1 -2 -1 -3 -2 5
M -1 -1 -2 -3 -1 0 -2 -3 -2 1 2 -1 5
F -2 -3 -3 -3 -2 -3 -3 -3 -1 0 0 -3 0 6
P -1 -2 -2 -1 -3 -1 -1 -2 -2 -3 -3 -1 -2 -4 7
S 1 -1 1 0 -1 0 0 0 -1 -2 -2 0 -1 -2 -1 4
T 0 -1 0 -1 -1 -1 -1 -2 -2 -1 -1 -1 -1 -2 -1 1 5
W -3 -3 -4 -4 -2 -2 -3 -2 -2 -3 -2 -3 -1 1 -4 -3 -2 11
Y -2 -2 -2 -3 -2 -1 -2 -3 2 -1 -1 -2 -1 3 -3 -2 -2 2 7
V 0 -3 -3 -3 -1 -2 -2 -3 -3 3 1 -2 1 -1 -2 -2 0 -3 -1 4
"""
#: Largest logarithm of the factor of two letters, for sums that stay in range.
_MOST = 300.0


class LocalAlignment(StringKernel):
    r"""Local alignment kernel: a sum over all local alignments of two sequences.

    .. math:: K(x, z) = \sum_\pi \exp(\beta \, \mathrm{score}(x, z, \pi))

    The score adds the scores of aligned letters and subtracts gap_open + gap_extend (n - 1) for a
    gap of n letters. K grows beyond all floating-point numbers, so that it is computed as a
    logarithm.

    ``form="normalized"`` returns K(x, z) / sqrt(K(x, x) K(z, z)), which is positive
    semi-definite. ``form="log"`` returns log(K(x, z)) / beta, a soft Smith-Waterman score, which is
    in general not positive semi-definite; models say what they do with such a kernel.

    Parameters
    ----------
    scores : {"blosum62", "dna"}
        Scores of two letters. "dna" is 5 for equal letters and -4 for different ones. Other letters
        match nothing, but may stand in a gap.
    gap_open, gap_extend : float
        Cost of the first letter of a gap, and of each further one.
    beta : float
        Weight of scores; for a large one the best alignment determines the sum.
    form : {"normalized", "log"}
        What is returned.

    References
    ----------
    Saigo, Vert, Ueda and Akutsu, Protein homology detection using string alignment kernels, 2004.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.LocalAlignment(beta=0.1)(["HEAGAWGHEE", "PAWHEAE"]).round(4).tolist()
    [[1.0, 0.3381], [0.3381, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            scores: Literal["blosum62", "dna"] = "blosum62",
            gap_open: float = 11.0,
            gap_extend: float = 1.0,
            beta: float = 0.5,
            form: Literal["normalized", "log"] = "normalized",
        ) -> None: ...

    scores = Choice("blosum62", ("blosum62", "dna"))
    gap_open = NonNegative(11.0, learned=False)
    gap_extend = NonNegative(1.0, learned=False)
    beta = Positive(0.5, learned=False)
    form = Choice("normalized", ("normalized", "log"))

    @property
    def is_psd(self) -> bool | None:
        """True for the normalised kernel: the exponentials of both tables of scores are kernels."""
        return True if self.form == "normalized" else None

    def _check(self) -> None:
        largest = float(_scores(self.scores)[1].max())
        if self.beta * largest > _MOST:
            raise ParameterError(
                f"LocalAlignment: beta = {self.beta} times the largest score, {largest}, is beyond "
                f"{_MOST}; pass a smaller beta (for example beta=0.5)."
            )

    def encode(self, objects: list[Any]) -> Ragged:
        alphabet = "dna" if self.scores == "dna" else "protein"
        strings = encoded(objects, "LocalAlignment", alphabet)
        numbers = np.full(129, -1, np.int32)
        for i, letter in enumerate(_scores(self.scores)[0]):
            numbers[ord(letter)] = i
        strings = Ragged(numbers[strings.values], strings.starts, strings.ends)
        factors = np.exp(self.beta * _scores(self.scores)[1])
        gaps = (float(np.exp(-self.beta * cost)) for cost in (self.gap_open, self.gap_extend))
        strings = called(strings, _core.local_alignments, factors, *gaps)
        strings.items["log"] = super().diagonal(strings)
        return strings

    def pairs(self, A: Ragged, B: Ragged) -> Array:
        logs = super().pairs(A, B)
        if self.form == "log":
            return np.asarray(logs / self.beta)
        return np.asarray(np.exp(logs - 0.5 * (A.items["log"][:, None] + B.items["log"])))

    def diagonal(self, A: Ragged) -> Array:
        if self.form == "log":
            return np.asarray(A.items["log"] / self.beta)
        return np.ones(len(A))


def _scores(name: str) -> tuple[str, Array]:
    """The letters of a table of scores, and the scores of all pairs."""
    if name == "dna":
        return "ACGT", np.where(np.eye(4) > 0, 5.0, -4.0)
    rows = [line.split() for line in _BLOSUM62.split("\n") if line]
    table = np.zeros((len(rows), len(rows)))
    for i, (_, *values) in enumerate(rows):
        table[i, : i + 1] = table[: i + 1, i] = [float(v) for v in values]
    return "".join(row[0] for row in rows), table


class EditDistance(StringKernel):
    r"""Edit distance kernel, exp(-d(x, z) / scale).

    d is the least number of letters to insert, delete or change. The kernel is not positive
    semi-definite for all strings: ``is_psd`` is None, and models check the matrix or repair it. A
    missing string counts as an empty one.

    Parameters
    ----------
    scale : float
        Number of edits after which the kernel is 1/e.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.EditDistance(scale=2.0)(["kitten", "sitting"]).round(4).tolist()
    [[1.0, 0.2231], [0.2231, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, scale: float = 1.0) -> None: ...

    scale = Positive(1.0, learned=False)
    psd = None

    def encode(self, objects: list[Any]) -> Ragged:
        return called(encoded(objects, "EditDistance"), _core.edit_distances)

    def pairs(self, A: Ragged, B: Ragged) -> Array:
        return np.asarray(np.exp(-super().pairs(A, B) / self.scale))

    def diagonal(self, A: Ragged) -> Array:
        return np.asarray(np.exp(-super().diagonal(A) / self.scale))
