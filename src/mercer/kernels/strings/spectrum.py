"""The spectrum kernel: common substrings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.exceptions import ParameterError
from mercer.kernels.parameters import Choice, Integer, NonNegative
from mercer.kernels.strings.letters import (
    NAMES,
    check_strands,
    complements,
    counted,
    encoded,
    names_of,
)
from mercer.kernels.structured import FeatureKernel, Ragged


class _Lengths(Integer):
    """A length, or several different ones."""

    def validate(self, owner: str, given: object) -> Any:
        if not isinstance(given, tuple | list):
            return super().validate(owner, given)
        lengths = tuple(super(_Lengths, self).validate(owner, item) for item in given)
        if not lengths or len(set(lengths)) < len(lengths):
            raise ParameterError(
                f"{owner}: {self.name} = {given!r} should hold different lengths; pass an integer, "
                f"or several (for example {self.name}=(3, 5))."
            )
        return lengths


class Spectrum(FeatureKernel):
    r"""Spectrum kernel: the inner product of the counts of all substrings of length k.

    .. math:: k(x, z) = \sum_{w \in \Sigma^k} \#_w(x) \, \#_w(z)

    A string shorter than k has no substrings, so that its kernel with every string is 0. A missing
    string counts as an empty one. Rows are strings, bytes, lists of tokens, or records of
    Biopython.

    Parameters
    ----------
    k : int or tuple of int
        Length of the substrings, or several lengths, whose kernels are added.
    weights : float or sequence of float
        Weight of each length.
    alphabet : {"any", "dna", "rna", "protein"}
        Which letters there are. A named alphabet ignores case. Substrings with an ambiguity code
        such as N are left out, and other letters are refused.
    reverse_complement : bool
        Whether both strands of DNA or RNA count: k(x, z) plus the kernel of x and the reverse
        complement of z.

    References
    ----------
    Leslie, Eskin and Noble, The spectrum kernel: a string kernel for SVM protein classification,
    2002.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Spectrum(2)(["abab", "ab", "ba"]).tolist()
    [[5.0, 2.0, 1.0], [2.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    >>> mc.Spectrum(k=(1, 2), weights=(0.5, 1.0))(["abab", "ab"]).tolist()
    [[9.0, 4.0], [4.0, 2.0]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            k: int | tuple[int, ...] = 3,
            weights: float | Sequence[float] = 1.0,
            alphabet: Literal["any", "dna", "rna", "protein"] = "any",
            reverse_complement: bool = False,
        ) -> None: ...

    k = _Lengths(3, low=1)
    weights = NonNegative(1.0, ndim=1, learned=False)
    alphabet = Choice("any", NAMES)
    reverse_complement = Choice(False, (False, True))

    def _check(self) -> None:
        check_strands("Spectrum", self.alphabet, self.reverse_complement)
        if np.ndim(self.weights) and np.size(self.weights) != np.size(self.k):
            raise ParameterError(
                f"Spectrum: there are {np.size(self.weights)} weights for k = {self.k!r}; pass one "
                "weight, or one for each length."
            )

    def features(self, objects: list[Any]) -> tuple[sp.csr_array, Array]:
        """Return sparse counts of substrings, and the substrings."""
        strings = encoded(objects, "Spectrum", self.alphabet, self.reverse_complement)
        lengths = np.ravel(self.k).tolist()
        weights = np.broadcast_to(self.weights, len(lengths))
        parts = [self._counts(strings, k) for k in lengths]
        counts = [part * np.sqrt(w) for (part, _), w in zip(parts, weights, strict=True)]
        return sp.csr_array(sp.hstack(counts)), np.concatenate([keys for _, keys in parts])

    def _counts(self, strings: Ragged, k: int) -> tuple[sp.csr_array, Array]:
        values, rows, columns, words = counted(strings, k)
        keys = names_of(words)
        counts = sp.csr_array((values, (rows, columns)), shape=(len(strings), len(keys)))
        if not self.reverse_complement:
            return counts, keys
        # Both strands show a word and its complement equally often: one of the two is enough.
        others = np.array(complements(keys.tolist(), self.alphabet), keys.dtype)
        kept, palindrome = keys <= others, keys == others
        return counts[:, kept] * np.where(palindrome, np.sqrt(0.5), 1.0)[kept], keys[kept]
