"""Values of the functions of all pairs of classes, from kernel values and few coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

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
        self._n_classes, self._intercepts = len(counts), intercepts
        edges = np.concatenate([[0], np.cumsum(counts)]).tolist()
        self._columns = [slice(*ends) for ends in pairwise(edges)]
        self._blocks = [
            np.ascontiguousarray(np.insert(dual[:, columns], code, 0.0, axis=0).T)
            for code, columns in enumerate(self._columns)
        ]

    def parts(self, similarities: NDArray[np.floating[Any]]) -> Iterator[Array]:
        """Values of the functions, some rows at a time."""
        step = max(1, _BLOCK // self._n_classes**2)
        for start in range(0, len(similarities), step):
            yield self._values(similarities[start : start + step])

    def _values(self, similarities: NDArray[np.floating[Any]]) -> Array:
        m, n_classes = len(similarities), self._n_classes
        terms = np.empty((m, n_classes, n_classes))  # of a class, in its function with another
        for code, (columns, block) in enumerate(zip(self._columns, self._blocks, strict=True)):
            np.matmul(similarities[:, columns], block, out=terms[:, code])
        values, begin = np.empty((m, len(self._intercepts))), 0
        for code in range(n_classes - 1):
            end = begin + n_classes - 1 - code
            np.add(terms[:, code, code + 1 :], terms[:, code + 1 :, code], out=values[:, begin:end])
            begin = end
        values += self._intercepts
        return values
