"""How functions of two classes tell several apart: by pairs, or each class against the rest."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

Array = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Scheme(ABC):
    """Functions of which each speaks for one class and against others.

    Attributes
    ----------
    n_classes : int
        At least 2.
    """

    n_classes: int

    @abstractmethod
    def sides(self, codes: Codes) -> list[tuple[Codes, Array]]:
        """For each function the positions that it learns from, and their signs."""

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
    def layout(self, coefficients: Any, codes: Codes) -> Array:
        """Coefficients of shape (n_support, n_functions) as scikit-learn lays them out."""


class Single(Scheme):
    """Two classes: one function, which speaks for the second."""

    def sides(self, codes: Codes) -> list[tuple[Codes, Array]]:
        """All rows."""
        return [(np.arange(len(codes)), np.where(codes == 1, 1.0, -1.0))]

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

    def layout(self, coefficients: Array, codes: Codes) -> Array:
        """One row."""
        return coefficients.T


class Pairs(Scheme):
    """One function for each pair of classes, which speaks for the first of them."""

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs in the order of the functions."""
        return list(combinations(range(self.n_classes), 2))

    def sides(self, codes: Codes) -> list[tuple[Codes, Array]]:
        """The rows of both classes."""
        counts = np.bincount(codes, minlength=self.n_classes)
        members = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
        return [_against(members[first], members[second]) for first, second in self.pairs]

    @cached_property
    def directions(self) -> csr_array:
        """For the first class of a pair and against the second."""
        pairs = np.array(self.pairs)
        numbers = np.repeat(np.arange(len(pairs)), 2)
        signs = np.tile([1.0, -1.0], len(pairs))
        shape = (len(pairs), self.n_classes)
        return coo_array((signs, (numbers, pairs.ravel())), shape).tocsr()

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

    def layout(self, coefficients: Any, codes: Codes) -> Array:
        """For each support vector its coefficients against the other classes in turn."""
        given = coo_array(coefficients)
        first, second = np.array(self.pairs)[given.col].T
        places = np.where(codes[given.row] == first, second - 1, first)
        found = np.zeros((self.n_classes - 1, given.shape[0]))
        found[places, given.row] = given.data
        return found


class Rest(Scheme):
    """One function for each class, which speaks against all others."""

    def sides(self, codes: Codes) -> list[tuple[Codes, Array]]:
        """All rows, for each class."""
        everything = np.arange(len(codes))
        wanted = range(self.n_classes)
        return [(everything, np.where(codes == code, 1.0, -1.0)) for code in wanted]

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

    def layout(self, coefficients: Array, codes: Codes) -> Array:
        """One row for each class."""
        return coefficients.T


def _against(first: Codes, second: Codes) -> tuple[Codes, Array]:
    """The rows of two classes, and for which of them they speak."""
    signs = np.ones(len(first) + len(second))
    signs[len(first) :] = -1.0
    return np.concatenate([first, second]), signs


def scheme_of(n_classes: int, multi_class: str) -> Scheme:
    """The functions for so many classes.

    Parameters
    ----------
    n_classes : int
        At least 2.
    multi_class : {"ovo", "ovr"}
        One function for each pair, or for each class.

    Returns
    -------
    Scheme
        Which functions there are, and how they are read.
    """
    if n_classes == 2:
        return Single(2)
    return Pairs(n_classes) if multi_class == "ovo" else Rest(n_classes)
