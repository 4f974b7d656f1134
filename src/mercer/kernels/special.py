"""Kernels that are not functions of columns: constants, noise, matrices, Python functions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, MercerError, ParameterError
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.containers import as_objects, len_of
from mercer.kernels.parameters import Choice, NonNegative, Part, Scalar
from mercer.kernels.points import Points
from mercer.kernels.tracing import SYMMETRISE, learns, real_numbers, require_symmetry
from mercer.kernels.tree import with_values
from mercer.kernels.views import Columns, Features, Numbers, Objects, View
from mercer.program.expression import IDENTITY, Expr, Slot, parameter
from mercer.program.pairs import Pairs

# Rows that are compared with all others for a matrix that is nearly diagonal.
_SEEN_ROWS = 4
# Largest value of a pair of different rows, relative to k(x, x), that counts as nearly 0.
_UNLIKE = 1e-3


class Constant(Kernel):
    """Constant kernel: the same value for every pair, whatever the data.

    Parameters
    ----------
    value : float
        The value, at least 0.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.Constant(3.0) + mc.Linear())([[1.0], [2.0]]).tolist()
    [[4.0, 5.0], [5.0, 7.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, value: Scalar = 1.0) -> None: ...

    value = NonNegative(1.0)
    psd = True

    def _trace(self, scope: Scope) -> Expr:
        return parameter(scope.path("value"))

    def _features(self, scope: Scope, points: Points) -> Columns:
        return Columns(np.full((len(points), 1), np.sqrt(self.value)), names=("1",))


class White(Kernel):
    """White noise: 1 for a row with itself, 0 for different rows, however alike their data.

    It acts in ``k(X)``, ``k.gram(X)`` and their blocks, and is 0 in every ``k(X, Z)``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.White()([[1.0], [1.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> mc.White()([[1.0]], [[1.0]]).tolist()
    [[0.0]]
    """

    if TYPE_CHECKING:

        def __init__(self) -> None: ...

    psd = True

    def _trace(self, scope: Scope) -> Expr:
        return IDENTITY


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
            _require_square(pairs.rows, self.view)
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
        matrix = pairs.rows.matrix(self.view.read_by(_SQUARE)) if self._is_matrix else None
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


def _one_number(value: Any, owner: str) -> float:
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
        return [_one_number(self.pairs([a], [a]), type(self).__name__) for a in A]

    def input_tags(self) -> dict[str, bool]:
        return {**super().input_tags(), "sparse": False, "string": True, "two_d": False}

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Objects(type(self).__name__))

    def _objects(self, points: Points, view: View) -> Any:
        return as_objects(points.frame_of(view), type(self).__name__)

    def _trace(self, scope: Scope) -> Expr:
        return Expr("external", (), Block(with_values(self), self._view(scope), learns(self)))


def _mirrored(function: Callable[..., Any], A: Sequence[Any]) -> list[list[Any]]:
    """The matrix of all pairs, from one call for two mirror images but for a sample of both."""
    half = [[function(a, b) for b in A[: i + 1]] for i, a in enumerate(A)]
    sample = np.unique(np.linspace(0, len(A) - 1, 8).astype(int))
    both = [[function(A[i], A[j]) for j in sample] for i in sample]
    if np.ndim(both) == 2:
        require_symmetry(real_numbers(both, "FunctionKernel"), "FunctionKernel", rows=sample)
    return [row + [later[i] for later in half[i + 1 :]] for i, row in enumerate(half)]


class FunctionKernel(PairKernel):
    """A Python function as a kernel.

    Parameters
    ----------
    function : callable
        ``f(X, Y)`` that returns the matrix of all pairs, which may be sparse; with
        ``pairwise=True`` a function of two objects. Arrays that it is given are copies.
    pairwise : bool
        Whether the function takes two objects instead of two collections.

    Notes
    -----
    A kernel that holds a Python function cannot be rebuilt from its repr, and is pickled only if
    the function is.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.FunctionKernel(lambda X, Y: X @ Y.T)([[1.0], [2.0]]).tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    >>> mc.FunctionKernel(lambda a, b: float(a == b), pairwise=True)(["x", "y"]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    if TYPE_CHECKING:

        def __init__(self, function: Callable[..., Any], pairwise: bool = False) -> None: ...

    function = Part()
    pairwise = Choice(False, (False, True))
    _single = "; pass pairwise=True if it compares two objects"

    def _check(self) -> None:
        if not callable(self.function):
            raise ParameterError(
                f"FunctionKernel: function = {self.function!r} is not callable; pass a function "
                "f(X, Y)."
            )

    def pairs(self, A: Any, B: Any) -> Any:
        if not self.pairwise:
            try:
                return self.function(A, B)
            except (TypeError, ValueError) as error:
                if isinstance(error, MercerError):
                    raise
                raise DataTypeError(
                    f"FunctionKernel: {self.function!r} cannot be called with two collections "
                    f"({error}); write f(X, Y) that returns the matrix of all pairs, or pass "
                    "pairwise=True if it compares two objects."
                ) from error
        if A is B:
            return _mirrored(self.function, A)
        return [[self.function(a, b) for b in B] for a in A]

    def diagonal(self, A: Any) -> Any:
        if self.pairwise:
            return [self.function(a, a) for a in A]
        singles = (A[i : i + 1] for i in range(len_of(A)))
        return [_one_number(self.function(a, a), "FunctionKernel") for a in singles]

    def _objects(self, points: Points, view: View) -> Any:
        data = points.data_of(view)
        if isinstance(data, np.ndarray):
            # The function's own: compiled code often takes only arrays that can be written to.
            data = data.copy()
        if not self.pairwise:
            return data
        # Rows of an array are arrays, even those of one column.
        return list(data) if isinstance(data, np.ndarray) else super()._objects(points, view)

    def input_tags(self) -> dict[str, bool]:
        return {**Kernel.input_tags(self), "two_d": not self.pairwise}


class Precomputed(PairKernel):
    """A matrix of kernel values computed elsewhere.

    ``Precomputed()``: X *is* the matrix; estimators take the rows (test points) against the columns
    (training points), as scikit-learn's "precomputed" does. ``Precomputed(K)``: X holds row numbers
    of K, in one column, so that the kernel composes with others and can be subset.

    Parameters
    ----------
    matrix : array of shape (n, n), optional
        The matrix.

    Examples
    --------
    >>> import mercer as mc
    >>> K = [[2.0, 1.0], [1.0, 2.0]]
    >>> mc.Precomputed()(K).tolist()
    [[2.0, 1.0], [1.0, 2.0]]
    >>> mc.Precomputed(K)([[1], [0]], [[0]]).tolist()
    [[1.0], [2.0]]
    """

    matrix = Part(None)
    _symmetrise = "pass (K + K.T) / 2, or mend the matrix"

    def __init__(self, matrix: Any = None) -> None:
        if matrix is not None:
            matrix = np.array(real_numbers(matrix, "Precomputed: matrix"))
            if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
                raise DataError(
                    f"Precomputed: matrix has shape {matrix.shape}; a kernel matrix is square, so "
                    "pass the kernel values of all pairs."
                )
            if not np.isfinite(matrix).all():
                raise DataError(
                    "Precomputed: matrix contains NaN or infinity; pass finite kernel values."
                )
            if not matrix.size:
                raise DataError(
                    "Precomputed: matrix is empty; pass the kernel values of all pairs."
                )
            require_symmetry(matrix, "Precomputed: matrix", self._symmetrise)
            matrix.flags.writeable = False
        super().__init__(matrix=matrix)

    def input_tags(self) -> dict[str, bool]:
        given = self.matrix is None
        return {**Kernel.input_tags(self), "sparse": False, "pairwise": given}

    def pairs(self, A: Any, B: Any) -> Any:
        if self.matrix is not None:
            return self.matrix[np.ix_(A, B)]
        return A[0][:, _require_columns(A[0], B[1])]

    def diagonal(self, A: Any) -> Any:
        if self.matrix is not None:
            return self.matrix[A, A]
        return A[0][np.arange(len(A[1])), _require_columns(A[0], A[1])]

    def _objects(self, points: Points, view: View) -> Any:
        values = points.columns(view.read_by(_SQUARE)).values
        if self.matrix is None:
            return values, points.ids
        indices = values[:, 0]
        broken = values[values != np.floor(values)]
        if values.shape[1] != 1 or broken.size:
            what = f"holds {broken[0]:g}" if broken.size else f"has {values.shape[1]} columns"
            raise DataError(
                f"Precomputed(K): X {what}, but must be one column of whole row numbers of K; pass "
                "for example np.arange(len(K)).reshape(-1, 1)."
            )
        outside = (indices < 0) | (indices >= len(self.matrix))
        if outside.any():
            raise DataError(
                f"Precomputed(K): row number {indices[outside][0]:g} is outside the matrix, whose "
                f"rows are 0 to {len(self.matrix) - 1}; pass numbers of its rows."
            )
        return indices.astype(np.intp)

    def _check_points(self, points: Points, view: View) -> None:
        self._objects(points, view)


def _require_columns(matrix: Array, columns: Array) -> Array:
    """The columns, if the matrix has them all."""
    if columns.max(initial=-1) >= matrix.shape[1]:
        raise DataError(
            f"Precomputed: X has {matrix.shape[1]} columns but {columns.max() + 1} points were "
            "given as columns; each row must hold the kernel values with all of them."
        )
    return columns


def _require_square(points: Points, view: View) -> None:
    """Refuse rows of a matrix that is not square: they have no kernel with each other."""
    n, m = points.original_length, points.origin.matrix(view.read_by(_SQUARE)).shape[1]
    if n != m:
        raise DataError(
            f"Precomputed: X should be a square kernel matrix, got shape ({n}, {m}); "
            "Precomputed() takes the matrix itself as data."
        )


#: How the given matrix, or the row numbers, are read.
_SQUARE = Numbers("Precomputed", sparse=False)


def unlike_rows(kernel: Kernel, points: Points) -> str:
    """The warning of a Gram matrix that is nearly diagonal, from a few of its rows; or ""."""
    leaves = kernel._reader.leaves
    if any(isinstance(leaf, White | PairKernel) for leaf, _ in leaves):
        return ""
    if kernel.unresolved():
        if len(leaves) == 1:  # a rule gives a length-scale on the scale of the data
            return ""
        kernel = kernel.resolve(points)
    rows = np.linspace(0, len(points) - 1, _SEEN_ROWS).astype(np.intp)
    values, own = np.abs(kernel(points[rows], points)), (np.arange(len(rows)), rows)
    least = _UNLIKE * values[own]
    values[own] = 0.0
    if not (values.max(axis=1) < least).all():  # the fit itself refuses NaN
        return ""
    return (
        f"k(x, z) of {kernel!r:.100} is nearly 0 for all pairs of different rows, so that no row "
        "tells anything of another; raise the length-scales, lower the weights of categories, or "
        "scale the columns."
    )
