"""Kernels that are not functions of columns: constants, noise, matrices, Python functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, MercerError, ParameterError
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.containers import len_of
from mercer.kernels.parameters import Choice, NonNegative, Part, Scalar
from mercer.kernels.points import Points
from mercer.kernels.structured import SQUARE, PairKernel, one_number
from mercer.kernels.tracing import real_numbers, require_symmetry
from mercer.kernels.views import Columns, View
from mercer.program.expression import IDENTITY, Expr, parameter

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
    _elsewhere = MappingProxyType({"noise_level": "write noise_level * White()."})

    def _trace(self, scope: Scope) -> Expr:
        return IDENTITY


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
        return [one_number(self.function(a, a), "FunctionKernel") for a in singles]

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
        values = points.columns(view.read_by(SQUARE)).values
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
