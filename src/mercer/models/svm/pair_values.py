"""Values of the functions of all pairs of classes, from kernel values and few coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from mercer.sampling import blocks

Array = NDArray[np.float64]

# Number of terms of classes against classes that are in memory at a time.
_BLOCK = 2**21


class PairValues:
    r"""The functions of pairs of classes.

    .. math:: f_{ij}(x) = \sum_{s \in i} c_{j s} k(x, x_s) + \sum_{s \in j} c_{i s} k(x, x_s)
       + b_{ij}

    A support vector has one coefficient against each other class: products with the support vectors
    of one class give the terms of this class in all functions that it is part of.
    """

    def __init__(self, dual: Any, counts: NDArray[np.integer], intercepts: Array) -> None:
        dual = dual.toarray() if issparse(dual) else dual
        self._intercepts = intercepts
        edges = np.concatenate([[0], np.cumsum(counts)]).tolist()
        self._members = [slice(*ends) for ends in pairwise(edges)]
        # Coefficients of the support vectors against all classes, and 0 against their own.
        self._table = np.empty((dual.shape[1], len(counts)))
        for code, members in enumerate(self._members):
            self._table[members] = np.insert(dual[:, members], code, 0.0, axis=0).T

    def parts(self, similarities: NDArray[np.floating[Any]]) -> Iterator[Array]:
        """Values of the functions, some rows at a time."""
        step = max(1, _BLOCK // len(self._members) ** 2)
        for part in blocks(len(similarities), step=step):
            yield self._values(similarities[part])

    def _values(self, similarities: NDArray[np.floating[Any]]) -> Array:
        m, n_classes = len(similarities), len(self._members)
        by_vector = np.ascontiguousarray(similarities.T)
        terms = np.empty((n_classes, n_classes, m))  # of a class, in its function with another
        for code, members in enumerate(self._members):
            np.matmul(self._table[members].T, by_vector[members], out=terms[code])
        values, begin = np.empty((len(self._intercepts), m)), 0
        for code in range(n_classes - 1):
            end = begin + n_classes - 1 - code
            np.add(terms[code, code + 1 :], terms[code + 1 :, code], out=values[begin:end])
            begin = end
        values += self._intercepts[:, None]
        return values.T
