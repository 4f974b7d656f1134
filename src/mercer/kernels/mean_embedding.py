"""The kernel of bags: inner products of mean embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError
from mercer.kernels.base import Kernel
from mercer.kernels.containers import is_missing, row_number
from mercer.kernels.structured import EncodedKernel, KernelParameter, Ragged
from mercer.sampling import blocks


class MeanEmbedding(EncodedKernel):
    r"""Kernel of bags of vectors: the mean of a base kernel over all pairs of vectors.

    .. math:: k(A, B) = \frac{1}{|A| |B|} \sum_{a \in A} \sum_{b \in B} k_0(a, b)
        = \langle \mu_A, \mu_B \rangle

    Each row is a bag, an array of shape (n_i, d). The kernel of an empty or missing bag with every
    bag is 0. It is valid where the base kernel is.

    Parameters
    ----------
    base : Kernel
        The kernel of two vectors.

    References
    ----------
    Smola, Gretton, Song and Schoelkopf, A Hilbert space embedding for distributions, 2007.

    Examples
    --------
    >>> import mercer as mc
    >>> bags = [[[0.0], [1.0]], [[1.0]]]
    >>> mc.MeanEmbedding(mc.Linear())(bags).tolist()
    [[0.25, 0.5], [0.5, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, base: Kernel) -> None: ...

    base = KernelParameter()

    @property
    def is_psd(self) -> bool | None:
        """What is known of the base kernel."""
        known: bool | None = self.base.is_psd
        return known

    def encode(self, objects: list[Any]) -> Ragged:
        bags = [_bag(item, i) for i, item in enumerate(objects)]
        widths = {bag.shape[1] for bag in bags if len(bag)}
        if len(widths) > 1:
            raise DataError(
                f"MeanEmbedding: the vectors have from {min(widths)} to {max(widths)} columns; "
                "pass bags of vectors of one length."
            )
        width = max(widths, default=1)
        return Ragged.joined(
            [bag if len(bag) else np.empty((0, width)) for bag in bags], width=width
        )

    def pairs(self, A: Ragged, B: Ragged) -> Array:
        a, b = _vectors(A), _vectors(B)
        total = np.zeros((len(A), len(B)))
        if not len(a) or not len(b):
            return total
        row_means, column_means = _means(A), _means(B)
        points = self.base.prepare(b, copy=False)
        for block in blocks(len(a), width=len(b)):
            gram = self.base(a[block], points)
            total += row_means[:, block] @ (column_means @ gram.T).T
        return total


def _bag(item: Any, row: int) -> Array:
    if is_missing(item):
        return np.empty((0, 0))
    try:
        bag = np.asarray(item, dtype=float)
    except (TypeError, ValueError):
        bag = np.empty(())
    if bag.size == 0 and bag.ndim:
        return np.empty((0, 0))
    if bag.ndim != 2:
        raise DataTypeError(
            f"MeanEmbedding: row {row_number(row)} is not a bag of vectors; pass an array of shape "
            "(n_i, d) for each row."
        )
    return bag


def _vectors(bags: Ragged) -> Array:
    """All vectors of the bags, one after another."""
    return np.concatenate([bags.values[:0], *(bags[i] for i in range(len(bags)))])


def _means(bags: Ragged) -> sp.csr_array:
    """The matrix that takes the mean over each bag."""
    lengths = bags.lengths
    starts = np.concatenate([[0], np.cumsum(lengths)])
    weights = np.repeat(1.0 / np.maximum(lengths, 1), lengths)
    shape = (len(bags), int(lengths.sum()))
    return sp.csr_array((weights, np.arange(shape[1]), starts), shape=shape)
