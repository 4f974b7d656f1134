"""The lazy Gram matrix: a linear operator that never stores what it can compute in passing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import (
    DataError,
    DataTypeError,
    IndexingError,
    NotDifferentiableError,
    ParameterError,
)
from mercer.kernels.feature_products import FEW_PAIRS, FeatureProducts
from mercer.kernels.tree import gradient_in_theta
from mercer.kernels.views import Numbers, View
from mercer.linalg.symmetric import LowerTriangle
from mercer.parallel import cached_property
from mercer.program import engine, reference
from mercer.program.expression import Expr, walk
from mercer.program.gradient import Gradients, input_gradient, parameter_gradient
from mercer.program.pairs import SINGLE, Pairs
from mercer.program.specialise import reads, specialise

if TYPE_CHECKING:
    from mercer.kernels.base import Kernel


class _Operator(LinearOperator):
    """What both operators share: checks of what they are multiplied with, and of indices."""

    def dot(self, x: Any) -> Any:
        """Return the product with a vector, the columns of a matrix or another operator."""
        return super().dot(x if isinstance(x, LinearOperator) or np.isscalar(x) else self._right(x))

    def matvec(self, x: Any) -> Any:
        """Return the product with a vector."""
        return super().matvec(self._right(x))

    def matmat(self, X: Any) -> Any:
        """Return the product with the columns of a matrix."""
        return super().matmat(self._right(X))

    def __matmul__(self, other: Any) -> Any:
        return self.dot(self._right(other) if np.isscalar(other) else other)

    def _matvec(self, v: Array) -> Any:
        return self._matmat(v.reshape(-1, 1))

    def _right(self, V: Any, operation: str = " @ V") -> Array:
        """What stands on the right of a product, checked."""
        values, width = _numbers(V, "fiubc"), int(self.shape[1])
        if values.ndim not in (1, 2) or values.shape[0] != width:
            raise DataError(
                f"{type(self).__name__}{operation}: V has shape {values.shape}, but K has "
                f"{width} columns; pass shape ({width},) or ({width}, r)."
            )
        return values

    def _indices(self, key: Any) -> tuple[Array, Array]:
        """The row and column numbers that a key selects."""
        rows, *rest = key if isinstance(key, tuple) else (key,)
        try:
            (cols,) = rest or (slice(None),)
            indices = np.arange(self.shape[0])[rows], np.arange(self.shape[1])[cols]
        except (IndexError, ValueError):
            indices = None
        if indices is None or indices[0].ndim > 1 or indices[1].ndim > 1:
            raise IndexingError(
                f"{type(self).__name__}[{key!r}]: the matrix has shape {self.shape}; select rows "
                "and columns within it, by numbers, slices or one-dimensional lists."
            )
        return indices


class Gram(_Operator):
    """The matrix of kernel values of two collections of points, computed when it is used.

    It is a `scipy.sparse.linalg.LinearOperator`, so that ``K @ v``, ``scipy.sparse.linalg.cg`` and
    ``eigsh`` work on it. Made by ``kernel.gram(X)`` and ``kernel.gram(X, Z)``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    pairs : Pairs
        The rows and columns.
    narrow : bool, default=False
        Whether values are computed in float32 also for data that are not.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> K = mc.RBF().gram([[0.0], [1.0], [2.0]])
    >>> K.shape
    (3, 3)
    >>> (K @ np.ones(3)).round(3).tolist()
    [1.742, 2.213, 1.742]
    >>> K[0, 1:].round(3).tolist()
    [0.607, 0.135]
    """

    def __init__(self, kernel: Kernel, pairs: Pairs, *, narrow: bool = False) -> None:
        self.kernel = kernel
        self.pairs = pairs
        self._narrow = narrow
        self._expression = kernel.expression
        given = SINGLE if narrow else specialise(self._expression, pairs).given
        super().__init__(given, pairs.shape)

    def narrowed(self) -> Gram:
        """Return the same matrix with values computed in float32, at half the cost or less.

        Returns
        -------
        Gram
            Its products and entries are of float32; gradients are not affected.
        """
        return Gram(self.kernel, self.pairs, narrow=True)

    def columns(self, which: Any) -> Gram:
        """Return the matrix of some of the columns.

        Parameters
        ----------
        which : array of int or slice
            Column numbers.

        Returns
        -------
        Gram
            With all the rows.
        """
        part = self.pairs.block(slice(None), self._indices((slice(None), which))[1])
        return Gram(self.kernel, part, narrow=self._narrow)

    @cached_property
    def _through_features(self) -> FeatureProducts | None:
        """Products through explicit features, where they are cheaper than all pairs."""
        few = self.shape[0] * self.shape[1] < FEW_PAIRS
        return None if few else FeatureProducts.of(self.kernel, self.pairs)

    def _matmat(self, V: Array) -> Array:
        return self._product(V, self.pairs, self._through_features)

    def _product(self, V: Array, pairs: Pairs, features: FeatureProducts | None) -> Array:
        if np.iscomplexobj(V):
            parts = self._product(np.hstack([V.real, V.imag]), pairs, features)
            real, imaginary = np.hsplit(parts, 2)
            return real + 1j * imaginary
        if features is None:
            return engine.product(self._expression, pairs, V, narrow=self._narrow)
        return features.product(V).astype(self.dtype, copy=False)

    def _rmatmat(self, V: Array) -> Array:
        # Rows and columns of a given matrix have different roles.
        if self.kernel.input_tags()["pairwise"]:
            return self.toarray().T @ V
        features = self._through_features
        return self._product(V, self.pairs.transposed(), features and features.transposed())

    def _rmatvec(self, v: Array) -> Array:
        return self._rmatmat(v.reshape(-1, 1))

    def _transpose(self) -> Any:
        if self.pairs.rows is self.pairs.cols:
            return self
        if self.kernel.input_tags()["pairwise"]:
            return super()._transpose()
        return Gram(self.kernel, self.pairs.transposed(), narrow=self._narrow)

    _adjoint = _transpose

    def normal_matmat(self, V: Any) -> Array:
        """Return K.T @ (K @ V), evaluating each pair once.

        Parameters
        ----------
        V : array of shape (m,) or (m, r)
            The vectors.

        Returns
        -------
        ndarray of the shape of V
        """
        V = self._right(V, ".normal_matmat")
        columns = V.reshape(V.shape[0], -1)
        if self._through_features is not None or np.iscomplexobj(V):
            return self._rmatmat(self._matmat(columns)).reshape(V.shape)
        product = engine.normal_product(self._expression, self.pairs, columns, narrow=self._narrow)
        return product.reshape(V.shape)

    def __getitem__(self, key: Any) -> Any:
        """Return a block; indices, slices, arrays and masks select rows and columns."""
        row_index, column_index = self._indices(key)
        part = self.pairs.block(np.atleast_1d(row_index), np.atleast_1d(column_index))
        if 0 in part.shape:
            block = np.empty(part.shape, self.dtype)
        else:
            block = engine.gram(self._expression, part, narrow=self._narrow)
        return block.reshape(row_index.shape + column_index.shape)[()]

    def diagonal(self) -> Array:
        """Return the entries K_ii, without the matrix."""
        return reference.diagonal(self._expression, self.pairs.diagonal())

    def toarray(self) -> Array:
        """Return the whole matrix, if it fits in memory."""
        return engine.gram(self._expression, self.pairs, narrow=self._narrow)

    def row_sums(self) -> Array:
        """Return the sum of every row."""
        return self._matmat(np.ones((self.shape[1], 1)))[:, 0]

    def frobenius(self) -> float:
        """Return the Frobenius norm, without storing the matrix."""
        squares = self._expression * self._expression
        return float(np.sqrt(engine.total(squares, self.pairs)))

    def against(self, u: Any, v: Any = None) -> float:
        """Return sum_ij u_i K_ij v_j, for several columns the sum over them: alignment with u v'.

        Parameters
        ----------
        u : array of shape (n,) or (n, r)
            Targets of the rows.
        v : array of shape (m,) or (m, r), optional
            Targets of the columns; u when left out.
        """
        u = _floating(u)
        v = u if v is None else _floating(v)
        if not u.ndim == v.ndim <= 2 or self.shape != u.shape[:1] + v.shape[:1]:
            raise DataError(
                f"Gram.against: u and v have shapes {u.shape} and {v.shape}, but the matrix has "
                f"{self.shape}; pass one target for each row and each column."
            )
        u, v = (w.astype(float, copy=False).reshape(len(w), -1) for w in (u, v))
        if self._through_features is not None:
            return float(np.sum(u * self._through_features.product(v)))
        return float(engine.total(self._expression, self.pairs, (u, v)))

    def gradient(self, weights: Any = None) -> Array:
        """Return sum_ij G_ij dK_ij / dtheta for every free parameter, in one pass.

        Parameters
        ----------
        weights : array of shape (n, m), or pair of arrays (U, V), optional
            The matrix G, or its factors, G = U @ V.T with shapes (n, r) and (m, r); all ones when
            left out.

        Returns
        -------
        ndarray of shape (len(kernel.theta),)
            The derivative in the unconstrained parameters, in the order of ``kernel.theta``.
        """
        given = self._weights(weights)
        gradients = parameter_gradient((self._expression,), self.pairs, given, engine.contract)
        return self._chained(gradients)

    def _chained(self, gradients: Gradients) -> Array:
        """From derivatives in the values of parameters to those in theta."""
        kernel = self.kernel
        for path, value in self.pairs.values.items():
            gradients.setdefault(path, np.zeros(np.shape(value)))
        gradient = gradient_in_theta(kernel, gradients)
        if not np.isfinite(gradient).all():
            raise DataError(f"Gram.gradient: {_why_not_finite(self._expression, gradients)}.")
        return gradient

    def diagonal_gradient(self, weights: Any) -> Array:
        """Return sum_i g_i dK_ii / dtheta for every free parameter, without the matrix.

        Parameters
        ----------
        weights : array of shape (n,)
            The weights g.

        Returns
        -------
        ndarray of shape (len(kernel.theta),)
            In the order of ``kernel.theta``.
        """
        pairs, values = self.pairs.diagonal(), _floating(weights)
        if values.shape != (pairs.shape[0],):
            raise DataError(
                f"Gram.diagonal_gradient: the weights have shape {values.shape}, but the diagonal "
                f"has {pairs.shape[0]} entries; pass one weight for each."
            )
        _require_finite(values)
        return self._chained(
            parameter_gradient((self._expression,), pairs, values, reference.contract)
        )

    def input_gradient(self, weights: Any = None) -> Array:
        """Return sum_j G_ij dk(x_i, z_j) / dx_i for every row, the columns held.

        Parameters
        ----------
        weights : array of shape (n, m), or pair of arrays (U, V), optional
            The matrix G, or its factors; all ones when left out.

        Returns
        -------
        ndarray of the shape of the rows' data
        """
        self._require_numbers()
        return input_gradient(self._expression, self.pairs, self._weights(weights), engine.contract)

    def _require_numbers(self) -> None:
        """Refuse a gradient in rows that are not rows of numbers."""
        for slot in reads(self._expression).slots:
            view = slot.view
            if isinstance(view, View) and not isinstance(view.reader, Numbers):
                raise NotDifferentiableError(
                    f"{view.owner}: it compares objects and not numbers, so there is no "
                    "gradient in the inputs; use gradient(), which is in the parameters, or a "
                    "kernel of numeric columns alone."
                )
        if len(self.pairs.rows.shape) != 2:
            raise NotDifferentiableError(
                f"{type(self.kernel).__name__}: the rows are not rows of numbers, so there is no "
                "gradient in the inputs; pass a table of numbers."
            )

    def _weights(self, weights: Any) -> Any:
        if weights is None or isinstance(weights, LowerTriangle):
            return weights
        n, m = self.shape
        if isinstance(weights, tuple):
            if len(weights) != 2:
                raise DataError(
                    f"Gram: low-rank weights are a pair, got {len(weights)} arrays; pass (U, V)."
                )
            u = _as_columns(weights[0])
            v = u if weights[1] is weights[0] else _as_columns(weights[1])
            if u.shape[0] != n or v.shape[0] != m or u.shape[1] != v.shape[1]:
                raise DataError(
                    f"Gram: weights U {u.shape} and V {v.shape} do not make a matrix of shape "
                    f"{(n, m)}; pass shapes ({n}, r) and ({m}, r)."
                )
            _require_finite(u, v)
            return u, v
        matrix = _floating(weights)
        if matrix.shape != (n, m):
            raise DataError(
                f"Gram: the weights have shape {matrix.shape}, the matrix {(n, m)}; pass one "
                "weight for each entry, or a pair (U, V)."
            )
        _require_finite(matrix)
        return matrix

    def __add__(self, other: Any) -> Any:
        """Add a sparse diagonal, such as ``alpha * scipy.sparse.identity(n)``, without a copy."""
        if sp.issparse(other):
            return RidgedGram(self, _diagonal_of(other, self.shape))
        return super().__add__(other)

    __radd__ = __add__

    def ridge(self, alpha: Any) -> RidgedGram:
        """Return K + alpha I, for a number or one number for each row."""
        try:
            ridge = np.asarray(alpha, dtype=float)
        except (TypeError, ValueError):
            ridge = np.asarray(np.nan)
        if ridge.shape not in ((), (self.shape[0],)) or not (ridge >= 0).all():
            raise ParameterError(
                f"Gram.ridge: alpha = {alpha!r} is not a number >= 0, nor one for each of the "
                f"{self.shape[0]} rows; pass for example 1.0."
            )
        return RidgedGram(self, np.broadcast_to(ridge, (self.shape[0],)))


class RidgedGram(_Operator):
    """A square lazy Gram matrix plus a diagonal."""

    def __init__(self, gram: Gram, ridge: Array) -> None:
        if gram.shape[0] != gram.shape[1]:
            raise DataError(
                f"RidgedGram: the matrix has shape {gram.shape}, but a ridge is added to a square "
                "one; use kernel.gram(X)."
            )
        with np.errstate(over="ignore"):
            self.gram, self.added = gram, ridge.astype(gram.dtype)
        if not np.isfinite(self.added).all():
            raise ParameterError(
                f"RidgedGram: a ridge of {np.max(np.abs(ridge)):g} is not finite in {gram.dtype}; "
                "pass a smaller one."
            )
        super().__init__(gram.dtype, gram.shape)

    def _matmat(self, V: Array) -> Array:
        return np.asarray(self.gram._matmat(V) + self.added[:, None] * V)

    def _adjoint(self) -> RidgedGram:
        return self

    _transpose = _adjoint

    def __getitem__(self, key: Any) -> Any:
        """Return a block; the diagonal that was added shows where row and column are the same."""
        row_index, column_index = self._indices(key)
        same = np.equal.outer(row_index, column_index)
        return self.gram[row_index, column_index] + same * self.added[column_index]

    def __add__(self, other: Any) -> Any:
        """Add another sparse diagonal without a copy."""
        if sp.issparse(other):
            return RidgedGram(self.gram, self.added + _diagonal_of(other, self.shape))
        return super().__add__(other)

    __radd__ = __add__

    def diagonal(self) -> Array:
        """Return the diagonal, with what was added."""
        return np.asarray(self.gram.diagonal() + self.added)

    def toarray(self) -> Array:
        """Return the whole matrix, if it fits in memory."""
        matrix = self.gram.toarray()
        matrix[np.diag_indices_from(matrix)] += self.added
        return matrix


def _floating(weights: Any) -> Array:
    """Weights in their own floating type: a matrix of them is not copied without need."""
    array = _numbers(weights, "fiub")
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


def _why_not_finite(expression: Expr, gradients: Gradients) -> str:
    for exponent in [node.args[1] for node in walk((expression,)) if node.op == "power"]:
        if exponent.op == "param" and np.isnan(gradients[exponent.attr[0]]).any():
            return (
                f"a power of a negative number has no derivative in its exponent {exponent!r}; "
                "hold the exponent with Fixed(...), or take powers of np.abs(...)"
            )
    lengths = any(path.endswith("length_scale") for path in gradients)
    hint = " or choose a larger length_scale" if lengths else ""
    return f"the gradient is not finite; the data are too large, so rescale them{hint}"


def _require_finite(*weights: Array) -> None:
    if not all(_core.all_finite(w) for w in weights):
        raise DataError("Gram: the weights contain NaN or infinity; pass finite weights.")


def _as_columns(factor: Any) -> Array:
    array = _floating(factor)
    return array.reshape(len(array), -1)


def _numbers(V: Any, kinds: str) -> Array:
    """An array of numbers of some of NumPy's kinds."""
    if sp.issparse(V):
        raise DataTypeError(
            "Gram: cannot multiply with a sparse matrix, because the result is dense; pass a dense "
            "array, such as V.toarray()."
        )
    try:
        values: Array = np.asarray(V)
    except ValueError:  # rows of different lengths
        values = np.asarray(None)
    if values.dtype.kind not in kinds:
        raise DataTypeError(
            f"Gram: cannot multiply with values of type {values.dtype}; pass real numbers."
        )
    return values


def _diagonal_of(matrix: Any, shape: tuple[int, int]) -> Array:
    """The diagonal of a sparse matrix that has nothing else."""
    if matrix.shape != shape:
        raise DataError(
            f"Gram: a matrix of shape {matrix.shape} cannot be added to one of shape {shape}; "
            "pass a diagonal of the same shape."
        )
    coordinates = sp.coo_array(matrix)
    if np.any(coordinates.row != coordinates.col):
        raise DataTypeError(
            "Gram: only diagonal sparse matrices can be added without a copy; use toarray() for "
            "others."
        )
    return np.asarray(matrix.diagonal(), dtype=float)
