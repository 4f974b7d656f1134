"""Kernels of strings and of other sequences of letters or tokens."""

from mercer.kernels.strings.alignment import EditDistance, LocalAlignment
from mercer.kernels.strings.mismatches import GappedKmer, Mismatch
from mercer.kernels.strings.spectrum import Spectrum
from mercer.kernels.strings.subsequence import Subsequence
from mercer.kernels.strings.weighted_degree import WeightedDegree

__all__ = [
    "EditDistance",
    "GappedKmer",
    "LocalAlignment",
    "Mismatch",
    "Spectrum",
    "Subsequence",
    "WeightedDegree",
]
