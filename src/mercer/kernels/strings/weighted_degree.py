"""The weighted degree kernel: common substrings at the same positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from mercer import _core
from mercer.kernels.parameters import Choice, Integer
from mercer.kernels.strings.letters import NAMES, StringKernel, called, encoded
from mercer.kernels.structured import Ragged


class WeightedDegree(StringKernel):
    r"""Weighted degree kernel: common substrings at the same positions, up to a shift.

    .. math:: k(x, z) = \sum_{d=1}^{D} \beta_d \sum_i \sum_{|s| \le S} \delta_s \,
        [x_{i+s} \dots x_{i+s+d-1} = z_i \dots z_{i+d-1}]

    The weights are beta_d = 2 (D - d + 1) / (D (D + 1)), delta_0 = 1 and
    delta_s = 1 / (2 (abs(s) + 1)). It compares aligned sequences, such as windows around a site.
    Positions beyond the end of the shorter string match nothing. A missing string counts as an
    empty one.

    Parameters
    ----------
    degree : int
        D, the largest length of the substrings.
    shift : int
        S, the largest difference of two positions.
    alphabet : {"any", "dna", "rna", "protein"}
        Which letters there are. A named alphabet ignores case. Ambiguity codes such as N match
        nothing, and other letters are refused.

    References
    ----------
    Raetsch, Sonnenburg and Schoelkopf, RASE: recognition of alternatively spliced exons in
    C. elegans, 2005.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.WeightedDegree(degree=2)(["ACGT", "ACTT", "TACG"]).round(4).tolist()
    [[3.6667, 2.3333, 0.0], [2.3333, 3.6667, 0.0], [0.0, 0.0, 3.6667]]
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            degree: int = 8,
            shift: int = 0,
            alphabet: Literal["any", "dna", "rna", "protein"] = "any",
        ) -> None: ...

    degree = Integer(8, low=1)
    shift = Integer(0, low=0)
    alphabet = Choice("any", NAMES)
    psd = True

    def encode(self, objects: list[Any]) -> Ragged:
        strings = encoded(objects, "WeightedDegree", self.alphabet)
        return called(strings, _core.weighted_degree, self.degree, self.shift)
