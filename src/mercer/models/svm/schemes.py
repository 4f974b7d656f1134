"""How functions of two classes tell several apart: by pairs, or each class against the rest.

References
----------
.. [1] T.-F. Wu, C.-J. Lin, R. Weng (2004). Probability estimates for multi-class classification by
   pairwise coupling. Journal of Machine Learning Research 5.
.. [2] B. Zadrozny, C. Elkan (2002). Transforming classifier scores into accurate multiclass
   probability estimates. Knowledge Discovery and Data Mining.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.special import expit, log_expit, logsumexp

from mercer.models.svm.duals import stretches

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

# The probabilities of a pair stay so far from 0 and 1, as those of LIBSVM do.
_DOUBT = 1e-7
# Values in the systems of equations of as many rows as are solved at a time.
_VALUES = 2**18


class Sides(NamedTuple):
    """Which rows the functions learn from, those of one function after those of another."""

    positions: Codes  # (m,): the rows
    signs: Array  # (m,): 1 where a function speaks for the class of the row, and -1
    sizes: Codes  # (n_functions,): how many rows each function has


@dataclass(frozen=True)
class Scheme(ABC):
    """Functions of which each speaks for one class and against others."""

    n_classes: int  # at least 2

    @abstractmethod
    def sides(self, codes: Codes) -> Sides:
        """The positions that each function learns from, and their signs."""

    @property
    @abstractmethod
    def directions(self) -> Any:
        """What each function says of each class, 1, -1 or 0; of shape (n_functions, n_classes)."""

    @abstractmethod
    def scores(self, values: Array) -> Array:
        """From values of the functions to one number for each class; the largest wins."""

    @abstractmethod
    def winners(self, values: Array) -> Codes:
        """The classes that LIBSVM would choose, the first of those with as many votes."""

    @abstractmethod
    def coupled(self, odds: Array) -> Array:
        """Logarithms of the probabilities of the classes, of shape (m, n_classes).

        Given are, for each function, the logarithms of the odds that it is right to speak for its
        class, of shape (m, n_functions).
        """

    @abstractmethod
    def layout(self, coefficients: Any, codes: Codes) -> Array:
        """Coefficients of shape (n_support, n_functions) as scikit-learn lays them out."""


class Single(Scheme):
    """Two classes: one function, which speaks for the second."""

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
        """Those of the second class and of its absence."""
        return np.asarray(log_expit(np.column_stack([-odds[:, 0], odds[:, 0]])))

    def layout(self, coefficients: Array, codes: Codes) -> Array:
        """One row."""
        return coefficients.T


class Pairs(Scheme):
    """One function for each pair of classes, which speaks for the first of them."""

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
        """Those that fit best to r_ij, the probability of i if the class is i or j.

        The p that minimise sum_ij (r_ji p_i - r_ij p_j)^2 and sum to 1 [1]_, row by row. With
        Q_ii = sum_j r_ji^2 and Q_ij = -r_ij r_ji they solve (Q + 1 1') p = c 1 for some number c.
        """
        found = np.empty((len(odds), self.n_classes))
        step = max(1, _VALUES // self.n_classes**2)
        for start in range(0, len(odds), step):
            found[start : start + step] = self._solved(odds[start : start + step])
        # They are positive, of which rounding may leave nothing.
        logs = np.log(np.maximum(found, np.finfo(np.float64).tiny))
        return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))

    def _solved(self, odds: Array) -> Array:
        first, second = self.pairs.T
        ratios = np.zeros((len(odds), self.n_classes, self.n_classes))
        ratios[:, first, second] = np.clip(expit(odds), _DOUBT, 1 - _DOUBT)
        ratios[:, second, first] = 1 - ratios[:, first, second]
        systems = 1 - ratios * ratios.transpose(0, 2, 1)
        every = np.arange(self.n_classes)
        systems[:, every, every] += (ratios**2).sum(axis=1)
        ones = np.ones((len(odds), self.n_classes, 1))
        return np.asarray(np.linalg.solve(systems, ones)[:, :, 0])

    def layout(self, coefficients: Any, codes: Codes) -> Array:
        """For each support vector its coefficients against the other classes in turn."""
        given = coo_array(coefficients)
        own = codes[given.row]
        other = self.pairs.sum(axis=1)[given.col] - own
        # Written row by row, as they are read, and turned in the end.
        found = np.zeros((given.shape[0], self.n_classes - 1))
        begins = given.row.astype(np.int64) * found.shape[1]
        np.put(found, begins + other - (other > own), given.data)
        return np.ascontiguousarray(found.T)


class Rest(Scheme):
    """One function for each class, which speaks against all others."""

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
        """For the class alone: what is said against the others is the same for all of them."""
        return np.eye(self.n_classes)

    def scores(self, values: Array) -> Array:
        """The functions."""
        return values

    def winners(self, values: Array) -> Codes:
        """The largest function."""
        return np.asarray(np.argmax(values, axis=1))

    def coupled(self, odds: Array) -> Array:
        """Those of the classes, each against the rest, divided by their sum [2]_."""
        logs = log_expit(odds)
        return np.asarray(logs - logsumexp(logs, axis=1, keepdims=True))

    def layout(self, coefficients: Array, codes: Codes) -> Array:
        """One row for each class."""
        return coefficients.T


def scheme_of(n_classes: int, multi_class: str) -> Scheme:
    """The functions for so many classes."""
    if n_classes == 2:
        return Single(2)
    return Pairs(n_classes) if multi_class == "ovo" else Rest(n_classes)
