"""String kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataTypeError
from mercer.kernels.containers import is_missing
from mercer.kernels.parameters import Integer
from mercer.kernels.special import FeatureKernel


class Spectrum(FeatureKernel):
    """Spectrum kernel: the inner product of the counts of all substrings of length k.

    A string shorter than k has no substrings, so that its kernel with every string is 0. A missing
    string counts as an empty one.

    Parameters
    ----------
    k : int
        Length of the substrings.

    References
    ----------
    Leslie, Eskin and Noble, The spectrum kernel: a string kernel for SVM protein classification,
    2002.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Spectrum(2)(["abab", "ab", "ba"]).tolist()
    [[5.0, 2.0, 1.0], [2.0, 1.0, 0.0], [1.0, 0.0, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, k: int = 3) -> None: ...

    k = Integer(3, low=1)

    def features(self, objects: list[Any]) -> tuple[sp.csr_array, Array]:
        """Return sparse counts of substrings, and the substrings."""
        objects = ["" if is_missing(item) else item for item in objects]
        for i, item in enumerate(objects):
            if not isinstance(item, str):
                raise DataTypeError(
                    f"Spectrum: row {i} is of type {type(item).__name__}, and not a string; pass "
                    "a list (or a column) of strings."
                )
        words, owners = _substrings(objects, self.k)
        keys, columns = np.unique(words, return_inverse=True)
        shape = (len(objects), len(keys))
        counts = sp.csr_array((np.ones(len(owners)), (owners, columns)), shape=shape)
        return counts, keys.view(f"<U{self.k}")


def _substrings(strings: list[str], k: int) -> tuple[Array, Array]:
    """All substrings of length k, as fixed-width code points, with the string each is from."""
    lengths = np.array([len(s) for s in strings])
    text = np.frombuffer("".join(strings).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    windows = np.maximum(lengths - k + 1, 0)
    owners = np.repeat(np.arange(len(strings)), windows)
    offsets = np.cumsum(lengths) - lengths
    within = np.arange(windows.sum()) - np.repeat(np.cumsum(windows) - windows, windows)
    starts = np.repeat(offsets, windows) + within
    words = np.ascontiguousarray(text[starts[:, None] + np.arange(k)])
    return words.view(np.dtype((np.void, 4 * k))).reshape(-1), owners
