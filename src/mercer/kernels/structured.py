"""Kernels of objects: strings, graphs, series, and whatever else Python holds.

A `FeatureKernel` gives explicit features, a `PairKernel` the values of a batch of pairs. An
`EncodedKernel` is a pair kernel whose objects are encoded once, as arrays that the engine reads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.containers import as_objects
from mercer.kernels.parameters import Declaration
from mercer.kernels.points import Points
from mercer.kernels.tracing import SYMMETRISE, learns, real_numbers, require_symmetry
from mercer.kernels.tree import with_values
from mercer.kernels.views import Columns, Features, Numbers, Objects, View
from mercer.program.expression import Expr, Slot
from mercer.program.pairs import Pairs


class KernelParameter(Declaration):
    """A kernel inside another as one value: it is replaced as a whole, and not learned."""

    def validate(self, owner: str, given: object) -> Any:
        if not isinstance(given, Kernel) or given.unresolved():
            raise ParameterError(
                f"{owner}: {self.name} = {given!r:.80} is not a kernel with numbers as parameters; "
                "pass a kernel, such as mercer.RBF(1.0)."
            )
        return given


class FeatureKernel(Kernel):
    """Base of kernels with explicit features: k(x, z) = <features(x), features(z)>.

    Write ``features(self, objects)``, which takes a list of objects and returns a dense or sparse
    matrix with one row for each; or a pair (matrix, keys), where ``keys`` names the columns, so
    that collections with different vocabularies are matched by key.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> class Lengths(mc.FeatureKernel):
    ...     '''Product of the lengths of two strings.'''
    ...
    ...     def features(self, objects):
    ...         return np.array([[len(o)] for o in objects], dtype=float)
    >>> Lengths()(["ab", "abc"]).tolist()
    [[4.0, 6.0], [6.0, 9.0]]
    """

    psd = True

    @abstractmethod
    def features(self, objects: list[Any]) -> Any:
        """Return one row of features for each object."""

    def input_tags(self) -> dict[str, bool]:
        return {**super().input_tags(), "sparse": False, "string": True, "two_d": False}

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Features(with_values(self)))

    def _trace(self, scope: Scope) -> Expr:
        return Expr("dot", (), Slot(self._view(scope)))

    def _check_points(self, points: Points, view: View) -> None:
        points.columns(view)

    def _features(self, scope: Scope, points: Points) -> Columns:
        return points.columns(self._view(scope))


@dataclass(frozen=True)
class Block:
    """The leaf of a kernel that Python evaluates, block by block."""

    kernel: PairKernel
    view: View
    learns: bool

    def __str__(self) -> str:
        return type(self.kernel).__name__

    def block(self, pairs: Pairs) -> Array:
        if pairs.same and self._is_matrix:
            require_square(pairs.rows, self.view)
        mirrored = pairs.same and np.array_equal(pairs.rows.ids, pairs.cols.ids)
        a = self.kernel._objects(pairs.rows, self.view)
        b = a if mirrored else self.kernel._objects(pairs.cols, self.view)
        value = self._checked(self.kernel.pairs(a, b), pairs.shape)
        if mirrored:
            require_symmetry(value, str(self), self.kernel._symmetrise)
        elif pairs.same:
            self._check_symmetry(value, pairs)
        return value

    def _check_symmetry(self, value: Array, pairs: Pairs) -> None:
        """Compare a sample of a block of k(X), off the diagonal, with its mirror image."""
        rows, cols = (np.linspace(0, n - 1, 8).astype(int) for n in pairs.shape)
        a = self.kernel._objects(pairs.rows[rows], self.view)
        b = self.kernel._objects(pairs.cols[cols], self.view)
        mirrored = real_numbers(self.kernel.pairs(b, a), str(self))
        zero = np.zeros((8, 8))
        sample = np.block([[zero, value[np.ix_(rows, cols)]], [mirrored, zero]])
        ids = np.concatenate([pairs.rows.ids[rows], pairs.cols.ids[cols]])
        require_symmetry(sample, str(self), self.kernel._symmetrise, rows=ids)

    def is_single(self, pairs: Pairs) -> bool:
        """Whether the kernel computes in float32."""
        # A given matrix is no more precise than it was given.
        matrix = pairs.rows.matrix(self.view.read_by(SQUARE)) if self._is_matrix else None
        return matrix is not None and matrix.dtype == np.float32

    @property
    def _is_matrix(self) -> bool:
        """Whether the points are rows of the kernel matrix itself."""
        return self.kernel.input_tags()["pairwise"]

    def diagonal(self, pairs: Pairs) -> Array:
        if pairs.rows is not pairs.cols:
            singles = (self.block(pairs.block([i], [i])) for i in range(pairs.shape[0]))
            return np.array([value.item() for value in singles])
        objects = self.kernel._objects(pairs.rows, self.view)
        return real_numbers(self.kernel.diagonal(objects), str(self))

    def _checked(self, value: Any, shape: tuple[int, int]) -> Array:
        matrix = real_numbers(value, str(self))
        if matrix.shape != shape:
            raise DataError(
                f"{self} returned shape {matrix.shape} for {shape[0]} rows and {shape[1]} "
                f"columns; it must return a matrix of shape {shape}, with a row for each x and a "
                f"column for each z{self.kernel._single}."
            )
        if not np.isfinite(matrix).all():
            i, j = np.argwhere(~np.isfinite(matrix))[0]
            raise DataError(
                f"{self} returned {matrix[i, j]} for row {i} and column {j}; it must return "
                "finite numbers."
            )
        return matrix


def one_number(value: Any, owner: str) -> float:
    """The kernel of one pair, from a matrix of one row and one column."""
    matrix = real_numbers(value, owner)
    if matrix.size != 1:
        raise DataError(
            f"{owner} returned shape {matrix.shape} for 1 row and 1 column; it must return a "
            "matrix of shape (1, 1)."
        )
    return float(matrix.item())


class PairKernel(Kernel):
    """Base of kernels that compare objects in batches of pairs.

    Write ``pairs(self, A, B)``, which takes two lists of objects and returns the matrix of their
    kernel values.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> class CommonLetters(mc.PairKernel):
    ...     '''Number of letters that two words share.'''
    ...
    ...     def pairs(self, A, B):
    ...         return np.array([[len(set(a) & set(b)) for b in B] for a in A])
    >>> CommonLetters()(["abc", "bcd"]).tolist()
    [[3.0, 2.0], [2.0, 3.0]]
    """

    #: What errors advise where pairs(A, A) is not symmetric.
    _symmetrise: ClassVar[str] = SYMMETRISE

    #: What errors advise where the method returned one number for all pairs.
    _single: ClassVar[str] = ""

    @abstractmethod
    def pairs(self, A: Any, B: Any) -> Any:
        """Return the matrix of kernel values of two lists of objects."""

    def diagonal(self, A: Any) -> Any:
        """Return k(a, a) for every object; override it where that is cheaper than single pairs."""
        return [one_number(self.pairs([a], [a]), type(self).__name__) for a in A]

    def input_tags(self) -> dict[str, bool]:
        return {**super().input_tags(), "sparse": False, "string": True, "two_d": False}

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Objects(type(self).__name__))

    def _objects(self, points: Points, view: View) -> Any:
        return as_objects(points.frame_of(view), type(self).__name__)

    def _trace(self, scope: Scope) -> Expr:
        return Expr("external", (), Block(with_values(self), self._view(scope), learns(self)))


@dataclass(frozen=True, eq=False)
class Ragged:
    """Arrays of different lengths, one after another: item i is values[starts[i] : ends[i]].

    Subsets share the values.

    Parameters
    ----------
    values : ndarray of shape (total,) or (total, width)
        The items, one after another.
    starts : ndarray of int64
        Where each item begins.
    ends : ndarray of int64
        Where each item ends.
    items : dict of str to ndarray
        What else the encoding holds for each item, one row each.
    shared : dict
        What the encoding holds for all items.

    Examples
    --------
    >>> import mercer as mc
    >>> three = mc.Ragged.joined([[1.0], [], [2.0, 3.0]])
    >>> three[2].tolist(), three.take([2, 0]).lengths.tolist()
    ([2.0, 3.0], [2, 1])
    """

    values: Array
    starts: Array
    ends: Array
    items: dict[str, Array] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def joined(cls, parts: Sequence[Array], dtype: Any = np.float64, width: int = 0) -> Self:
        """Return the items of a list of arrays.

        Parameters
        ----------
        parts : sequence of array-like
            The items.
        dtype : dtype
            The type of the values.
        width : int
            The number of columns of each item; 0 for items of one dimension.

        Returns
        -------
        Ragged
        """
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        shape = (0, width) if width else (0,)
        values = np.concatenate([np.empty(shape, dtype), *parts]).astype(dtype, copy=False)
        return cls(values, ends - [len(part) for part in parts], ends)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, item: int) -> Array:
        return self.values[self.starts[item] : self.ends[item]]

    @property
    def lengths(self) -> Array:
        """The length of each item."""
        return self.ends - self.starts

    def take(self, rows: Any) -> Self:
        """Return some of the items.

        Parameters
        ----------
        rows : slice, mask or positions
            Which items.

        Returns
        -------
        Ragged
        """
        items = {name: value[rows] for name, value in self.items.items()}
        return type(self)(self.values, self.starts[rows], self.ends[rows], items, self.shared)


@dataclass(frozen=True)
class _Encoding:
    """The reader of an encoded kernel."""

    kernel: EncodedKernel

    @property
    def owner(self) -> str:
        return type(self.kernel).__name__

    def read(self, data: Any, label: Callable[[int], str] = str) -> Any:
        return self.kernel.encode(as_objects(data, self.owner))


class EncodedKernel(PairKernel):
    """Base of pair kernels that encode their objects once, as arrays that compiled code reads.

    Write ``encode(self, objects)``, which takes a list of objects and returns a `Ragged` or
    another collection with ``len`` and ``take(rows)``, and ``pairs(self, A, B)`` of two encoded
    collections. For k(X) both are one object, so that half of the pairs suffice.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> class Lengths(mc.EncodedKernel):
    ...     '''Product of the lengths of two strings.'''
    ...
    ...     def encode(self, objects):
    ...         return mc.Ragged.joined(
    ...             [np.frombuffer(o.encode(), np.uint8) for o in objects], np.uint8
    ...         )
    ...
    ...     def pairs(self, A, B):
    ...         return np.outer(A.lengths, B.lengths)
    >>> Lengths()(["ab", "abc"]).tolist()
    [[4.0, 6.0], [6.0, 9.0]]
    """

    @abstractmethod
    def encode(self, objects: list[Any]) -> Any:
        """Return the objects as arrays; refuse what is no object of this kernel."""

    def diagonal(self, A: Any) -> Any:
        """Return k(a, a) for every object."""
        singles = (A.take(np.array([i])) for i in range(len(A)))
        return [one_number(self.pairs(a, a), type(self).__name__) for a in singles]

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(_Encoding(with_values(self)))

    def _objects(self, points: Points, view: View) -> Any:
        return points.columns(view)

    def _check_points(self, points: Points, view: View) -> None:
        points.columns(view)


def require_square(points: Points, view: View) -> None:
    """Refuse rows of a matrix that is not square: they have no kernel with each other."""
    n, m = points.original_length, points.origin.matrix(view.read_by(SQUARE)).shape[1]
    if n != m:
        raise DataError(
            f"Precomputed: X should be a square kernel matrix, got shape ({n}, {m}); "
            "Precomputed() takes the matrix itself as data."
        )


#: How the given matrix, or the row numbers, are read.
SQUARE = Numbers("Precomputed", sparse=False)
