"""The subsequence kernel: common letters in the same order, with gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mercer import _core
from mercer.exceptions import ParameterError
from mercer.kernels.parameters import Choice, Integer, Positive
from mercer.kernels.strings.letters import NAMES, StringKernel, called, encoded
from mercer.kernels.structured import Ragged


class Subsequence(StringKernel):
    r"""Subsequence kernel: common subsequences of n letters, weighted by the parts they span.

    .. math:: k(x, z) = \sum_{u \in \Sigma^n} \sum_{i: x[i] = u} \sum_{j: z[j] = u}
        \lambda^{l(i) + l(j)}

    The length l(i) counts all letters from the first to the last of the subsequence, gaps included.
    A string shorter than n has the kernel 0 with every string, and a missing string counts as an
    empty one. Values grow with the lengths; ``.normalized()`` divides by both norms.

    Parameters
    ----------
    length : int
        n, the number of letters of a subsequence.
    decay : float
        lambda, between 0 and 1: the weight of each letter that a subsequence spans.
    alphabet : {"any", "dna", "rna", "protein"}
        Which letters there are. A named alphabet ignores case. Ambiguity codes such as N match
        nothing, and other letters are refused.

    References
    ----------
    Lodhi, Saunders, Shawe-Taylor, Cristianini and Watkins, Text classification using string
    kernels, 2002.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Subsequence(length=2, decay=0.5)(["cat", "car"]).tolist()
    [[0.140625, 0.0625], [0.0625, 0.140625]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            length: int = 3,
            decay: float = 0.5,
            alphabet: Literal["any", "dna", "rna", "protein"] = "any",
        ) -> None: ...

    length = Integer(3, low=1, high=1000)
    decay = Positive(0.5, learned=False)
    alphabet = Choice("any", NAMES)
    psd = True

    def _check(self) -> None:
        if self.decay > 1:
            raise ParameterError(
                f"Subsequence: decay = {self.decay} does not satisfy 0 < decay <= 1; pass a number "
                "in between (for example decay=0.5)."
            )

    def encode(self, objects: list[Any]) -> Ragged:
        strings = encoded(objects, "Subsequence", self.alphabet)
        return called(strings, _core.subsequences, self.length, self.decay)
