"""Kernels of substrings that agree up to a few letters."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import comb, factorial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, NoFeatureMapError, ParameterError
from mercer.kernels.base import Scope
from mercer.kernels.parameters import Choice, Integer
from mercer.kernels.points import Points
from mercer.kernels.strings.letters import (
    ALPHABETS,
    NAMES,
    StringKernel,
    called,
    check_strands,
    counted,
    encoded,
    names_of,
)
from mercer.kernels.structured import Ragged
from mercer.kernels.tree import with_values
from mercer.kernels.views import Columns, Features

#: Sets of positions beyond which mismatches are counted for all pairs of windows instead.
_MOST_MASKS = 4096
#: Features of one substring beyond which there is no feature map.
_MOST_FEATURES = 1000


class _Windows(StringKernel):
    """Sums over all pairs of substrings of one length of a weight by the number of mismatches."""

    psd = True
    alphabet: Any
    reverse_complement: Any

    def _check(self) -> None:
        check_strands(type(self).__name__, self.alphabet, self.reverse_complement)

    def encode(self, objects: list[Any]) -> Ragged:
        length, profile = profile_of(self)
        masks, weights = masks_of(length, profile)
        factor = 0.5 if self.reverse_complement else 1.0
        scaled = [[factor * w for w in values] for values in (profile, weights)]
        strings = _strings(self, objects)
        return called(strings, _core.window_products, length, scaled[0], masks, scaled[1])

    def features(self, objects: list[Any]) -> tuple[sp.csr_array, Array]:
        """Return sparse features, and the word that each of them counts."""
        return _WordFeatures(with_values(self)).features(objects)

    def _features(self, scope: Scope, points: Points) -> Columns:
        return points.columns(scope.view.read_by(Features(_WordFeatures(with_values(self)))))


def _strings(kernel: Any, objects: list[Any]) -> Ragged:
    return encoded(objects, type(kernel).__name__, kernel.alphabet, kernel.reverse_complement)


@dataclass(frozen=True)
class _WordFeatures:
    """The features of a kernel of windows: counts of words."""

    kernel: Any

    def features(self, objects: list[Any]) -> tuple[sp.csr_array, Array]:
        """Return sparse features, and the word that each of them counts."""
        kernel = self.kernel
        length, profile = profile_of(kernel)
        if profile[0] > _MOST_FEATURES:
            raise NoFeatureMapError(
                f"{kernel!r}: each substring has {profile[0]} features, which are too many for a "
                "feature map; use the kernel itself (in a model, another solver than Primal)."
            )
        strings = _strings(kernel, objects)
        values, rows, columns, words = counted(strings, length)
        factor = np.sqrt(0.5) if kernel.reverse_complement else 1.0
        counts = sp.csr_array((factor * values, (rows, columns)), shape=(len(strings), len(words)))
        gapped = isinstance(kernel, GappedKmer)
        near, keys = _gapped(words, kernel.k) if gapped else _near(words, kernel)
        return sp.csr_array(counts @ near), keys


class Mismatch(_Windows):
    r"""Mismatch kernel: counts of words of length k, each found with up to m wrong letters.

    .. math:: k(x, z) = \sum_{w \in \Sigma^k} \phi_w(x) \, \phi_w(z)

    Here phi_w(x) is the number of substrings of x that differ from w in at most m letters. The time
    does not depend on the number of words. A string shorter than k has the kernel 0 with every
    string, and a missing string counts as an empty one.

    Parameters
    ----------
    k : int
        Length of the words.
    m : int
        Largest number of mismatches, less than k.
    alphabet : {"dna", "rna", "protein", "any"}
        Which letters there are. A named alphabet ignores case. Substrings with an ambiguity code
        such as N are left out, and other letters are refused.
    letters : int
        Number of letters of the alphabet; needed for ``alphabet="any"``, and known for others.
    reverse_complement : bool
        Whether both strands of DNA or RNA count: k(x, z) plus the kernel of x and the reverse
        complement of z.

    References
    ----------
    Leslie, Eskin, Cohen, Weston and Noble, Mismatch string kernels for discriminative protein
    classification, 2004.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Mismatch(k=3, m=1)(["ACG", "ACT", "TTT"]).tolist()
    [[10.0, 4.0, 0.0], [4.0, 10.0, 2.0], [0.0, 2.0, 10.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            k: int = 5,
            m: int = 1,
            alphabet: Literal["dna", "rna", "protein", "any"] = "dna",
            letters: int = 0,
            reverse_complement: bool = False,
        ) -> None: ...

    k = Integer(5, low=1, high=250)
    m = Integer(1, low=0)
    alphabet = Choice("dna", (*ALPHABETS, "any"))
    letters = Integer(0, low=0)
    reverse_complement = Choice(False, (False, True))

    def _check(self) -> None:
        super()._check()
        if self.m >= self.k:
            raise ParameterError(
                f"Mismatch: m = {self.m} and k = {self.k}; a word of k letters has fewer than k "
                "mismatches. Pass m < k."
            )
        known = 0 if self.alphabet == "any" else len(ALPHABETS[self.alphabet][0])
        if known and self.letters not in (0, known):
            raise ParameterError(
                f"Mismatch: letters = {self.letters}, and the alphabet {self.alphabet!r} has "
                f"{known} letters; leave letters out."
            )
        if not known and not self.letters:
            raise ParameterError(
                "Mismatch: alphabet='any' does not say how many letters there are; pass their "
                "number, such as letters=26, or a named alphabet."
            )

    def encode(self, objects: list[Any]) -> Ragged:
        strings = super().encode(objects)
        number = len(np.unique(strings.values[strings.values >= 0]))
        if self.letters and number > self.letters:
            raise DataError(
                f"Mismatch: the strings have {number} different letters, and letters = "
                f"{self.letters}; pass letters={number} or more."
            )
        return strings


class GappedKmer(_Windows):
    r"""Gapped k-mer kernel: counts of k letters at fixed places of substrings of length l.

    .. math:: k(x, z) = \sum_{u \in x, v \in z} \binom{l - d(u, v)}{k}

    The sum is over all pairs of substrings of length l, and d is their number of mismatches. This
    counts the sets of k positions at which both substrings agree. A string shorter than l has the
    kernel 0 with every string, and a missing string counts as an empty one.

    Parameters
    ----------
    l : int
        Length of the substrings.
    k : int
        Number of letters that agree, at most l.
    alphabet : {"any", "dna", "rna", "protein"}
        Which letters there are. A named alphabet ignores case. Substrings with an ambiguity code
        such as N are left out, and other letters are refused.
    reverse_complement : bool
        Whether both strands of DNA or RNA count: k(x, z) plus the kernel of x and the reverse
        complement of z.

    References
    ----------
    Ghandi, Lee, Mohammad-Noori and Beer, Enhanced regulatory sequence prediction using gapped
    k-mer features, 2014.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.GappedKmer(l=3, k=2)(["ACG", "ATG", "TTT"]).tolist()
    [[3.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 3.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            l: int = 8,  # noqa: E741
            k: int = 5,
            alphabet: Literal["any", "dna", "rna", "protein"] = "any",
            reverse_complement: bool = False,
        ) -> None: ...

    l = Integer(8, low=1, high=250)  # noqa: E741
    k = Integer(5, low=1)
    alphabet = Choice("any", NAMES)
    reverse_complement = Choice(False, (False, True))

    def _check(self) -> None:
        super()._check()
        if self.k > self.l:
            raise ParameterError(
                f"GappedKmer: k = {self.k} and l = {self.l}; a substring of l letters has at most "
                "l that agree. Pass k <= l."
            )


def profile_of(kernel: Any) -> tuple[int, list[int]]:
    """The length of the substrings, and the weight of a pair by its number of mismatches."""
    if isinstance(kernel, GappedKmer):
        return kernel.l, [comb(kernel.l - d, kernel.k) for d in range(kernel.l - kernel.k + 1)]
    letters = kernel.letters or len(ALPHABETS[kernel.alphabet][0])
    distances = range(min(kernel.k, 2 * kernel.m) + 1)
    return kernel.k, [common_words(kernel.k, kernel.m, letters, d) for d in distances]


def _gapped(words: Array, k: int) -> tuple[sp.csr_array, Array]:
    """Which words with gaps each substring has."""
    parts, keys = [], []
    for kept in combinations(range(words.shape[1]), k):
        gapped = np.full(words.shape, ord("-"), np.int32)
        gapped[:, kept] = words[:, kept]
        names, places = np.unique(names_of(gapped), return_inverse=True)
        parts.append(_indicator(np.arange(len(words)), places, (len(words), len(names))))
        keys.append(names)
    return sp.csr_array(sp.hstack(parts)), np.concatenate(keys)


def _near(words: Array, kernel: Mismatch) -> tuple[sp.csr_array, Array]:
    """Which words are within m mismatches of each substring."""
    if kernel.alphabet == "any":
        raise NoFeatureMapError(
            "Mismatch: alphabet='any' does not name the letters of all words; pass a named "
            "alphabet for a feature map."
        )
    alphabet = np.array([ord(c) for c in ALPHABETS[kernel.alphabet][0]])
    ranks = np.searchsorted(alphabet, words)
    near = [alphabet[r] for r in _neighbours(ranks, kernel.m, len(alphabet))]
    keys, places = np.unique(names_of(np.concatenate(near)), return_inverse=True)
    owners = np.tile(np.arange(len(words)), len(near))
    return _indicator(owners, places, (len(words), len(keys))), keys


def _indicator(rows: Array, columns: Array, shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def common_words(k: int, m: int, letters: int, distance: int) -> int:
    """The number of words within m mismatches of both of two words, which differ in `distance`."""
    total = 0
    for first, second in product(range(distance + 1), repeat=2):  # letters of one of both alone
        other = distance - first - second
        if other < 0:
            continue
        ways = factorial(distance) // (factorial(first) * factorial(second) * factorial(other))
        ways *= (letters - 2) ** other
        for changed in range(m - other - max(first, second) + 1):
            total += ways * comb(k - distance, changed) * (letters - 1) ** changed
    return total


def masks_of(length: int, profile: list[int]) -> tuple[list[int], list[int]]:
    """Sets of positions, as bits, and weights that give a profile; none if there are many.

    A pair of substrings with d mismatches agrees at the C(length - d, s - d) sets of positions that
    leave out s positions, the mismatches among them. Weights of all s follow from the profile.
    """
    weights: dict[int, int] = {}
    for d in reversed(range(len(profile))):
        weights[d] = profile[d] - sum(w * comb(length - d, s - d) for s, w in weights.items())
    dropped = [s for s, weight in weights.items() if weight]
    if length > 64 or sum(comb(length, s) for s in dropped) > _MOST_MASKS:
        return [], []
    sets = [
        (sum(1 << p for p in kept), weights[s])
        for s in dropped
        for kept in combinations(range(length), length - s)
    ]
    return [mask for mask, _ in sets], [weight for _, weight in sets]


def _neighbours(words: Array, m: int, letters: int) -> list[Array]:
    """All words with at most m other letters, in one array for each way of changing letters."""
    near = []
    for changed in range(m + 1):
        for places in combinations(range(words.shape[1]), changed):
            for steps in product(range(1, letters), repeat=changed):
                other = words.copy()
                other[:, places] = (other[:, places] + np.array(steps, int)) % letters
                near.append(other)
    return near
