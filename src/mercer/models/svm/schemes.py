"""Several classes by functions of two: one for each pair, or each class against the rest.

References
----------
.. [1] T.-F. Wu, C.-J. Lin, R. Weng (2004). Probability estimates for multi-class classification by
   pairwise coupling. Journal of Machine Learning Research 5.
.. [2] B. Zadrozny, C. Elkan (2002). Transforming classifier scores into accurate multiclass
   probability estimates. Knowledge Discovery and Data Mining.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv as posv
from scipy.sparse import coo_array, csr_array, issparse
from scipy.special import expit, log_expit, logsumexp

from mercer.arrays import Float64Array as Array
from mercer.models.svm.duals import edges_of, stretches
from mercer.parallel import cached_property, single_blas
from mercer.sampling import blocks

Codes = NDArray[np.intp]

# Least distance of the probabilities of a pair from 0 and 1, as in LIBSVM.
_LEAST_PROBABILITY = 1e-7
# Number of entries of the linear systems that are solved at a time.
_VALUES = 2**20
# Number of terms of classes against classes that are in memory at a time.
_TERMS = 2**21
# Number of classes from which the systems are solved one by one, as positive definite ones.
_MANY = 40


class Sides(NamedTuple):
    """The training rows of all functions: those of one function after those of another."""

    positions: Codes  # (m,): the rows
    signs: Array  # (m,): 1 if the row is of the positive class of the function, and else -1
    sizes: Codes  # (n_functions,): the number of rows of each function


@dataclass(frozen=True)
class Scheme(ABC):
    """Functions that each separate a positive class from others."""

    n_classes: int  # at least 2

    @abstractmethod
    def sides(self, codes: Codes) -> Sides:
        """The training rows of each function, and their signs."""

    @property
    @abstractmethod
    def directions(self) -> Any:
        """The vote of each function for each class, 1, -1 or 0: shape (n_functions, n_classes)."""

    @abstractmethod
    def scores(self, values: Array) -> Array:
        """One score for each class, from the values of the functions; the largest wins."""

    def winners(self, values: Array) -> Codes:
        """The classes that LIBSVM predicts: of classes with equal votes the first."""
        return np.asarray(np.argmax(self.scores(values), axis=1))

    @abstractmethod
    def coupled(self, odds: Array) -> Array:
        """Log-probabilities of the classes, of shape (m, n_classes).

        `odds` has the log-odds of the positive class of each function, of shape (m, n_functions).
        """

    def layout(self, coefficients: Any, codes: Codes) -> Array:
        """Coefficients of shape (n_support, n_functions) as scikit-learn lays them out."""
        return np.asarray(coefficients.T)


class Single(Scheme):
    """Two classes: one function, whose positive class is the second."""

    def sides(self, codes: Codes) -> Sides:
        """All rows."""
        signs = np.where(codes == 1, 1.0, -1.0)
        return Sides(np.arange(len(codes)), signs, np.array([len(codes)]))

    @property
    def directions(self) -> Array:
        """Against the first and for the second."""
        return np.array([[-1.0, 1.0]])

    def scores(self, values: Array) -> Array:
        """The function itself, of shape (m,)."""
        return values[:, 0]

    def winners(self, values: Array) -> Codes:
        """The second class unless the function is negative, as LIBSVM has it."""
        return (values[:, 0] >= 0).astype(np.intp)

    def coupled(self, odds: Array) -> Array:
        """Log-probabilities of the first and of the second class."""
        return np.asarray(log_expit(np.column_stack([-odds[:, 0], odds[:, 0]])))


class Pairs(Scheme):
    """One function for each pair of classes, whose positive class is the first of them."""

    @cached_property
    def pairs(self) -> Codes:
        """The pairs in the order of the functions, of shape (n_pairs, 2)."""
        return np.stack(np.triu_indices(self.n_classes, 1), axis=1)

    def sides(self, codes: Codes) -> Sides:
        """The rows of both classes, the first one's before the second one's."""
        counts = np.bincount(codes, minlength=self.n_classes)
        classes = self.pairs.ravel()
        members = stretches((np.cumsum(counts) - counts)[classes], counts[classes])
        signs = np.repeat(np.tile([1.0, -1.0], len(self.pairs)), counts[classes])
        order = np.argsort(codes, kind="stable")
        return Sides(order[members], signs, counts[self.pairs].sum(axis=1))

    @cached_property
    def directions(self) -> csr_array:
        """For the first class of a pair and against the second."""
        n_pairs = len(self.pairs)
        signs, numbers = np.tile([1.0, -1.0], n_pairs), np.repeat(np.arange(n_pairs), 2)
        shape = (n_pairs, self.n_classes)
        return coo_array((signs, (numbers, self.pairs.ravel())), shape).tocsr()

    def scores(self, values: Array) -> Array:
        """Votes, and within equal votes the sum of the functions, squeezed below half a vote."""
        certainty = values @ self.directions
        return np.asarray(self._votes(values) + certainty / (3 * (np.abs(certainty) + 1)))

    def winners(self, values: Array) -> Codes:
        """Most votes."""
        return np.asarray(np.argmax(self._votes(values), axis=1))

    def _votes(self, values: Array) -> Array:
        ballots = np.where(values > 0, 1.0, -1.0) @ self.directions
        return np.asarray((ballots + self.n_classes - 1) / 2)

    def coupled(self, odds: Array) -> Array:
        """Log-probabilities that fit best to r_ij, the probability of i if the class is i or j.

        The p that minimise sum_ij (r_ji p_i - r_ij p_j)^2 and sum to 1 [1]_, row by row. With
        Q_ii = sum_j r_ji^2 and Q_ij = -r_ij r_ji they solve (Q + 1 1') p = c 1 for some number c.
        """
        probabilities = np.empty((len(odds), self.n_classes))
        with single_blas():
            for rows in blocks(len(odds), step=max(1, _VALUES // self.n_classes**2)):
                probabilities[rows] = self._solved(odds[rows])
        # Rounding may make a small probability zero or negative.
        logs = np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))
        return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))

    def _solved(self, odds: Array) -> Array:
        n, likely = self.n_classes, np.clip(expit(odds), _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        unlikely, ends = 1 - likely, np.cumsum(np.arange(n - 1, -1, -1))
        products, squares = 1 - likely * unlikely, likely * likely
        systems, diagonal = np.empty((len(odds), n, n)), np.zeros((len(odds), n))
        diagonal[:, :-1] = np.add.reduceat(unlikely * unlikely, np.append(0, ends[:-2]), axis=1)
        for code, end in enumerate(ends[:-1].tolist()):  # the pairs of a class with later ones
            own = slice(end - (n - 1 - code), end)
            systems[:, code, code + 1 :] = products[:, own]
            if n < _MANY:
                systems[:, code + 1 :, code] = products[:, own]
            diagonal[:, code + 1 :] += squares[:, own]
        every = np.arange(n)
        systems[:, every, every] = 1 + diagonal
        if n < _MANY:
            return np.asarray(np.linalg.solve(systems, np.ones((len(odds), n, 1)))[:, :, 0])
        # Row by row, LAPACK reads the triangle above the diagonal as the one below it.
        return np.stack([posv(s.T, np.ones(n), lower=1, overwrite_a=1)[1] for s in systems])

    def layout(self, coefficients: Any, codes: Codes) -> Array:
        """For each support vector its coefficients against the other classes in turn."""
        given = coo_array(coefficients)
        own = codes[given.row]
        other = self.pairs.sum(axis=1)[given.col] - own
        # Written row by row, as they are read, and transposed in the end.
        by_vector = np.zeros((given.shape[0], self.n_classes - 1))
        begins = given.row.astype(np.int64) * by_vector.shape[1]
        np.put(by_vector, begins + other - (other > own), given.data)
        return np.ascontiguousarray(by_vector.T)


class PairValues:
    r"""The functions of pairs of classes.

    .. math:: f_{ij}(x) = \sum_{s \in i} c_{j s} k(x, x_s) + \sum_{s \in j} c_{i s} k(x, x_s)
       + b_{ij}

    A support vector has one coefficient against each other class: products with the support vectors
    of one class give the terms of this class in all functions that it is part of.
    """

    def __init__(self, dual: Any, counts: Any, intercepts: Array) -> None:
        dual = dual.toarray() if issparse(dual) else dual
        self._intercepts = intercepts
        self._members = [slice(*ends) for ends in pairwise(edges_of(counts).tolist())]
        # Coefficients of the support vectors against all classes, and 0 against their own.
        self._table = np.empty((dual.shape[1], len(counts)))
        for code, members in enumerate(self._members):
            self._table[members] = np.insert(dual[:, members], code, 0.0, axis=0).T

    def parts(self, similarities: NDArray[np.floating[Any]]) -> Iterator[Array]:
        """Values of the functions, some rows at a time."""
        step = max(1, _TERMS // len(self._members) ** 2)
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


class Rest(Scheme):
    """One function for each class against all others."""

    def sides(self, codes: Codes) -> Sides:
        """All rows, for each class."""
        wanted = np.arange(self.n_classes)
        return Sides(
            np.tile(np.arange(len(codes)), self.n_classes),
            np.where(codes == wanted[:, None], 1.0, -1.0).ravel(),
            np.full(self.n_classes, len(codes)),
        )

    @property
    def directions(self) -> Array:
        """The vote for the class alone: votes against the others are equal for all of them."""
        return np.eye(self.n_classes)

    def scores(self, values: Array) -> Array:
        """The functions."""
        return values

    def coupled(self, odds: Array) -> Array:
        """Log-probabilities of each class against the rest, normalised to sum to 1 [2]_."""
        logs = log_expit(odds)
        return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))


def scheme_of(n_classes: int, multi_class: str) -> Scheme:
    """The functions for a number of classes."""
    if n_classes == 2:
        return Single(2)
    return Pairs(n_classes) if multi_class == "ovo" else Rest(n_classes)
