"""The kernel contract, and the bases that a user's own kernel builds on.

A kernel is its mathematics, one short method, and its declared parameters. Tracing that method gives an
expression; everything else (matrices, products, gradients, diagonals) follows from the expression.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from mercer.exceptions import DataError, NoFeatureMapError, UnfusedWarning
from mercer.kernels.data import Columns, Numbers, Points, Select, View, Warp, as_points
from mercer.kernels.parameters import Positive, plain
from mercer.kernels.tree import Parameterised
from mercer.program import engine, reference
from mercer.program.expression import (
    DIFFERENCE,
    Diagonal,
    Expr,
    Scale,
    Slot,
    X,
    Z,
    parameter,
    walk,
)
from mercer.program.expression import Coordinate as CoordinateLeaf
from mercer.program.pairs import Array, Pairs

if TYPE_CHECKING:
    from mercer.gram import Gram


@dataclass(frozen=True)
class Scope:
    """Where in a composition a kernel stands: what it sees of the data, and the path of its parameters."""

    view: View = View()
    prefix: str = ""

    def path(self, name: str) -> str:
        """The full path of a parameter."""
        return f"{self.prefix}{name}"

    def inside(self, level: str) -> Scope:
        """The scope of a child; the level "" adds nothing to paths."""
        return Scope(self.view, f"{self.prefix}{level}__" if level else self.prefix)

    def on(self, columns: tuple[Any, ...]) -> Scope:
        """The scope after a selection of columns."""
        return Scope(self.view.then(Select(columns)), self.prefix)

    def warped(self, function: Any) -> Scope:
        """The scope after a function of the data."""
        return Scope(self.view.then(Warp(function)), self.prefix)

    def slot(
        self, owner: str, *, scale: Scale | None = None, centred: bool = False, sparse: bool = True
    ) -> Slot:
        """The numeric columns that this scope shows."""
        return Slot(self.view.read_by(Numbers(owner, sparse)), scale, centred)


class Kernel(Parameterised):
    """A symmetric function of two points, as an immutable value.

    Subclass one of `Stationary`, `DotProduct`, `Coordinate`, `FeatureKernel` or `PairKernel` to write
    a kernel of your own. Kernels are equal when their parameters are equal; methods that change something
    return a new kernel.
    """

    #: What is known of Mercer's condition: True, False, or None when it is not known.
    psd: ClassVar[bool | None] = None

    # The mathematics ----------------------------------------------------------------------------------

    @abstractmethod
    def _trace(self, scope: Scope) -> Expr:
        """Return the expression of this kernel in a scope."""

    @cached_property
    def expression(self) -> Expr:
        """The traced expression, shared by all executors."""
        return self._trace(Scope())

    @property
    def is_psd(self) -> bool | None:
        """Whether Mercer's condition holds, by closure rules; None when they do not tell."""
        return self.psd

    # Values -------------------------------------------------------------------------------------------

    def __call__(self, X: Any, Z: Any = None) -> Array:  # noqa: D102 (documented by the class)
        return engine.gram(self.expression, self._pairs(X, Z))

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for every row of X, without the matrix.

        Parameters
        ----------
        X : array-like, data frame, list or Points
            The points.

        Returns
        -------
        ndarray of shape (n,)
        """
        points = self._points(X)
        pairs = Pairs(points, points, self.parameter_values(), same=True, aligned=True)
        values = reference.evaluate(self.expression, pairs)
        single = engine.floating_type(self.expression, pairs) == np.float32
        return np.array(values, dtype=np.float32 if single else np.float64)

    def gram(self, X: Any, Z: Any = None) -> Gram:
        """Return the Gram matrix as a lazy operator: ``K @ v`` without storing K.

        Parameters
        ----------
        X : array-like, data frame, list or Points
            The rows.
        Z : like X, optional
            The columns; X when left out.

        Returns
        -------
        Gram
            A `scipy.sparse.linalg.LinearOperator`.
        """
        from mercer.gram import Gram

        return Gram(self, self._pairs(X, Z, freeze=True))

    def _pairs(self, X: Any, Z: Any = None, freeze: bool = False) -> Pairs:
        values = self.parameter_values()
        rows = self._points(X, freeze)
        if Z is None:
            return Pairs(rows, rows, values, same=True)
        return Pairs(rows, self._points(Z, freeze), values)

    def _points(self, X: Any, freeze: bool = False) -> Points:
        points = as_points(X)
        if len(points) == 0:
            raise DataError(
                f"Found array with 0 sample(s) while a minimum of 1 is required by {type(self).__name__}."
            )
        self._check_points(Scope(), points)
        return points.frozen() if freeze and not isinstance(X, Points) else points

    # Data ---------------------------------------------------------------------------------------------

    def prepare(self, X: Any) -> Points:
        """Read the data as this kernel needs them, once; every method accepts the result as data.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list
            The points.

        Returns
        -------
        Points
        """
        points = self._points(X, freeze=True)
        for slot in engine.slots_of(self.expression):
            points.columns(slot.view)
        return points

    def validate(self, X: Any, owner: Any = None) -> Points:
        """Check that X is data for this kernel; errors say what is wrong.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or list
            The points.
        owner : object, optional
            The estimator on whose behalf the data are checked.

        Returns
        -------
        Points
        """
        try:
            return self.prepare(X)
        except DataError as error:
            if owner is None:
                raise
            raise type(error)(f"{type(owner).__name__}: {error}") from None

    def _check_points(self, scope: Scope, points: Points) -> None:
        """Refuse points that a leaf cannot take, beyond what its reader checks."""
        for child, inner in self._scoped_children(scope):
            child._check_points(inner, points)

    def _scoped_children(self, scope: Scope) -> Iterator[tuple[Kernel, Scope]]:
        """The children of a composition, each with its scope."""
        for level, child in self._levels:
            assert isinstance(child, Kernel)
            yield child, self._child_scope(scope.inside(level))

    def _child_scope(self, scope: Scope) -> Scope:
        """What a child sees of what this kernel sees."""
        return scope

    def input_tags(self) -> dict[str, bool]:
        """Say what X may be: ``pairwise``, ``sparse``, ``string``, ``two_d``, ``positive_only``."""
        tags = [child.input_tags() for _, child in self._levels]  # type: ignore[attr-defined]
        return {
            "pairwise": any(t["pairwise"] for t in tags),
            "sparse": all(t["sparse"] for t in tags),
            "string": any(t["string"] for t in tags),
            "two_d": all(t["two_d"] for t in tags),
            "positive_only": any(t["positive_only"] for t in tags),
        }

    # Parameters from data -----------------------------------------------------------------------------

    def resolve(self, X: Any, sample_weight: Any = None) -> Self:
        """Replace ``length_scale="median"`` and ``"scale"`` by numbers computed from the data.

        Parameters
        ----------
        X : array-like, data frame or Points
            The points.
        sample_weight : array-like of shape (n,), optional
            Weights of the rows.

        Returns
        -------
        Kernel
            The same kernel when nothing was unresolved.

        Examples
        --------
        >>> import mercer as mc
        >>> mc.RBF(length_scale="scale").resolve([[0.0], [2.0]])
        RBF(length_scale=0.7071067811865476)
        """
        if not self.unresolved():
            return self
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
        return self._resolve(Scope(), as_points(X), weight)

    def _resolve(self, scope: Scope, points: Points, weight: Array | None) -> Self:
        children = tuple(c._resolve(s, points, weight) for c, s in self._scoped_children(scope))
        if not children or all(new is old for new, (_, old) in zip(children, self._levels, strict=True)):
            return self
        return self._with_children(children)

    # Explicit features --------------------------------------------------------------------------------

    def feature_map(self, X: Any) -> Any:
        """Return explicit features whose inner products are the kernel, where there are finitely many.

        Parameters
        ----------
        X : array-like, data frame, list or Points
            The points.

        Returns
        -------
        ndarray or csr_array of shape (n, p)
            ``Phi`` with ``Phi @ Phi.T`` equal to ``k(X)``.
        """
        return self._features(Scope(), self._points(X)).values

    def feature_names(self, X: Any) -> list[str]:
        """Return a name for each column of ``feature_map(X)``."""
        columns = self._features(Scope(), self._points(X))
        return list(columns.names or (f"f{j}" for j in range(columns.width)))

    def _features(self, scope: Scope, points: Points) -> Columns:
        raise NoFeatureMapError(
            f"{type(self).__name__} has no finite feature map; use the kernel itself, or an approximate map."
        )

    # Algebra ------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.add(self, other)

    def __radd__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.add(other, self)

    def __mul__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.multiply(self, other)

    def __rmul__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.multiply(other, self)

    def __pow__(self, exponent: int) -> Kernel:
        from mercer.kernels import algebra

        return algebra.power(self, exponent)

    def __sub__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.refuse_difference(self, other)

    def __rsub__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.refuse_difference(other, self)

    def __neg__(self) -> Kernel:
        from mercer.kernels import algebra

        return algebra.multiply(-1.0, self)

    def __truediv__(self, other: Any) -> Kernel:
        from mercer.kernels import algebra

        return algebra.divide(self, other)

    def exp(self) -> Kernel:
        """Return exp(k(x, z)): a kernel, because its Taylor series has positive coefficients."""
        from mercer.kernels import algebra

        return algebra.Exponential(self)

    def polynomial(self, coefficients: Any) -> Kernel:
        """Return c0 + c1 k + c2 k^2 + ... with non-negative coefficients.

        Parameters
        ----------
        coefficients : sequence of float
            ``[c0, c1, ...]``.
        """
        from mercer.kernels import algebra

        return algebra.PolynomialOf(self, coefficients)

    def scaled_by(self, function: Any) -> Kernel:
        """Return f(x) k(x, z) f(z).

        Parameters
        ----------
        function : callable
            Takes the data (all rows) and returns one number for each row.
        """
        from mercer.kernels import algebra

        return algebra.ScaledBy(self, function)

    def normalized(self) -> Kernel:
        """Return k(x, z) / sqrt(k(x, x) k(z, z)): the cosine in feature space, 0 for a zero vector."""
        from mercer.kernels import algebra

        return algebra.Normalized(self)

    def on(self, *columns: Any) -> Kernel:
        """Return the kernel on some of the columns.

        Parameters
        ----------
        *columns : int, slice or str
            Positions, slices, or names of data-frame columns.
        """
        from mercer.kernels import algebra

        return algebra.on(self, columns)

    def warp(self, function: Any) -> Kernel:
        """Return k(g(x), g(z)).

        Parameters
        ----------
        function : callable
            Takes the data (all rows) and returns as many rows.
        """
        from mercer.kernels import algebra

        return algebra.Warped(self, function)


# Tracing a user's method ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unfused:
    """A method that could not be traced: evaluated in NumPy, block by block, on traced arguments."""

    kernel: Kernel
    method: str
    arguments: tuple[Expr, ...]
    learns: bool

    def __str__(self) -> str:
        return type(self.kernel).__name__

    def block(self, pairs: Pairs) -> Array:
        values = [engine.gram(a, pairs) for a in self.arguments]
        return self._call(values, pairs.shape)

    def diagonal(self, pairs: Pairs) -> Array:
        values = [np.asarray(reference.evaluate(a, pairs)) for a in self.arguments]
        return self._call(values, (pairs.shape[0],))

    def _call(self, values: list[Array], shape: tuple[int, ...]) -> Array:
        result = np.asarray(getattr(self.kernel, self.method)(*values))
        if result.shape not in ((), shape):
            raise DataError(
                f"{type(self.kernel).__name__}.{self.method} returned shape {result.shape} for pairs of "
                f"shape {shape}; it must return one number for each pair."
            )
        return np.broadcast_to(result, shape)


_announced: set[type] = set()


def traced(kernel: Kernel, scope: Scope, method: str, *arguments: Expr) -> Expr:
    """Run a kernel's method on expressions; where that fails, wrap it to run in blocks."""
    try:
        return symbolic(kernel, scope, method, *arguments)
    except Exception as error:  # whatever the method does with a value that is no number yet
        announce_unfused(kernel, method, error)
        return Expr("external", (), Unfused(kernel, method, arguments, bool(len(kernel.theta))))


def symbolic(kernel: Kernel, scope: Scope, method: str, *arguments: Expr) -> Expr:
    """Run a kernel's method with its continuous parameters and arguments as expressions."""
    from mercer.program.expression import as_expression

    leaves = {
        name: _leaf(scope.path(name), plain(kernel.declared(name)))
        for name, declaration in kernel._declarations.items()
        if name in kernel._own_names and not declaration.concrete
    }
    return as_expression(getattr(kernel._with_values(**leaves), method)(*arguments))


def _leaf(path: str, value: Any, *index: int) -> Any:
    """The leaf of a scalar parameter; nested tuples of leaves for arrays."""
    if np.ndim(value) == 0 or isinstance(value, str):
        return parameter(path, *index)
    return tuple(_leaf(path, row, *index, i) for i, row in enumerate(value))


def announce_unfused(kernel: Kernel, method: str, error: Exception) -> None:
    """Say once for each class that it runs unfused, and why."""
    if type(kernel) not in _announced:
        _announced.add(type(kernel))
        warnings.warn(
            f"{type(kernel).__name__}.{method} could not be traced ({error}) and runs unfused, in blocks of "
            "NumPy: correct, but slower and without gradients for its parameters. Write it with NumPy "
            "functions of its arguments to have it fused.",
            UnfusedWarning,
            stacklevel=5,
        )


# Bases ----------------------------------------------------------------------------------------------------


class VectorKernel(Kernel):
    """Base of the kernels that compare rows of numbers."""

    #: Whether sparse rows are taken as they are.
    takes_sparse: ClassVar[bool] = False
    #: Whether the data must be non-negative.
    non_negative: ClassVar[bool] = False

    def input_tags(self) -> dict[str, bool]:  # noqa: D102
        return {
            "pairwise": False,
            "sparse": self.takes_sparse,
            "string": False,
            "two_d": True,
            "positive_only": self.non_negative,
        }

    def _slot(self, scope: Scope, scale: Scale | None = None, centred: bool = False) -> Slot:
        return scope.slot(type(self).__name__, scale=scale, centred=centred, sparse=self.takes_sparse)

    def _check_points(self, scope: Scope, points: Points) -> None:
        columns = points.columns(self._slot(scope).view)
        self._check_columns(columns)
        if self.non_negative and columns.values.min() < 0:
            raise DataError(
                f"Negative values in data passed to X: {type(self).__name__} compares histograms or counts, "
                f"which are >= 0, got {columns.values.min():g}; shift or clip the data, or use another "
                "kernel."
            )

    def _check_columns(self, columns: Columns) -> None:
        """A hook for rules about the columns that a kernel sees."""


class Stationary(VectorKernel):
    """Base of kernels of the scaled squared distance: k(x, z) = profile(sum_j (x_j - z_j)^2 / l_j^2).

    Write ``profile(self, r2)`` with NumPy functions; declare further parameters as class attributes.

    Parameters
    ----------
    length_scale : float, array of shape (d,), "median" or "scale"
        One length for all columns or one for each; the two names are resolved from the data when an
        estimator is fitted.

    Examples
    --------
    >>> import mercer as mc
    >>> class Cauchy(mc.Stationary):
    ...     '''1 / (1 + r^2 / alpha).'''
    ...     alpha = mc.Positive(1.0)
    ...     def profile(self, r2):
    ...         return 1 / (1 + r2 / self.alpha)
    >>> Cauchy(alpha=2.0)([[0.0], [2.0]])
    array([[1.        , 0.33333333],
           [0.33333333, 1.        ]])
    """

    length_scale = Positive(1.0, per_column=True, heuristics=("median", "scale"))
    takes_sparse = True

    @abstractmethod
    def profile(self, r2: Any) -> Any:
        """Return the kernel as a function of the scaled squared distance."""

    def _trace(self, scope: Scope) -> Expr:
        return traced(self, scope, "profile", self._distance(scope))

    def _scale(self, scope: Scope) -> Scale:
        return Scale(scope.path("length_scale"), per_column=np.ndim(self._length()) == 1)

    def _length(self) -> Any:
        value = self.length_scale
        return 1.0 if isinstance(value, str) else value

    def _distance(self, scope: Scope) -> Expr:
        return Expr("squared_distance", (), self._slot(scope, self._scale(scope), centred=True))

    def _resolve(self, scope: Scope, points: Points, weight: Array | None) -> Self:
        if not isinstance(self.length_scale, str):
            return self
        from mercer.kernels.heuristics import bounded_length

        matrix = points.matrix(self._slot(scope).view)
        length = self._heuristic(self.length_scale, matrix, weight)
        return self.replace(length_scale=bounded_length(self.declared("length_scale"), length))

    def _heuristic(self, name: str, matrix: Any, weight: Array | None) -> float:
        from mercer.kernels import heuristics

        return heuristics.euclidean_length(name, matrix, weight)


class DotProduct(VectorKernel):
    """Base of kernels of the inner product: k(x, z) = profile(sum_j x_j z_j).

    Write ``profile(self, s)`` with NumPy functions; declare parameters as class attributes.

    Examples
    --------
    >>> import mercer as mc
    >>> class Softmax(mc.DotProduct):
    ...     '''exp(x.z).'''
    ...     psd = True
    ...     def profile(self, s):
    ...         return np.exp(s)
    >>> import numpy as np
    >>> float(Softmax()([[0.0, 1.0]])[0, 0])
    2.718281828459045
    """

    takes_sparse = True

    @abstractmethod
    def profile(self, s: Any) -> Any:
        """Return the kernel as a function of the inner product."""

    def _trace(self, scope: Scope) -> Expr:
        return traced(self, scope, "profile", Expr("dot", (), self._slot(scope)))


class Coordinate(VectorKernel):
    """Base of kernels made column by column: a function of two numbers, reduced over the columns.

    Write ``coordinate(self, x, z)``; set ``reduction`` to ``"sum"`` or ``"product"``; override
    ``profile(self, total)`` to transform the reduced value.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> class MinSum(mc.Coordinate):
    ...     '''sum_j min(x_j, z_j).'''
    ...     def coordinate(self, x, z):
    ...         return np.minimum(x, z)
    >>> MinSum()([[1.0, 2.0], [0.5, 3.0]])
    array([[3. , 2.5],
           [2.5, 3.5]])
    """

    reduction: ClassVar[str] = "sum"

    @abstractmethod
    def coordinate(self, x: Any, z: Any) -> Any:
        """Return the comparison of two numbers."""

    def profile(self, total: Any) -> Any:
        """Return the kernel as a function of the reduced value."""
        return total

    def _degree(self) -> int:
        """Which reduction: 1 is the sum, 0 the product."""
        return {"sum": 1, "product": 0}[self.reduction]

    def _trace(self, scope: Scope) -> Expr:
        return traced(self, scope, "profile", self._reduced(scope))

    def _reduced(self, scope: Scope) -> Expr:
        try:
            body = symbolic(self, scope, "coordinate", X, Z)
        except Exception as error:
            announce_unfused(self, "coordinate", error)
            learns = bool(len(self.theta))
            return Expr("external", (), UnfusedCoordinate(self, self._slot(scope).view, learns))
        return coordinate_leaf(body, self._slot(scope), self._degree())


def coordinate_leaf(body: Expr, slot: Slot, degree: int) -> Expr:
    """The leaf of a coordinate function; one that sees only differences has its data centred."""
    sees = set(walk((body,)))
    centred = DIFFERENCE in sees and X not in sees and Z not in sees
    slot = Slot(slot.view, slot.scale, centred)
    return Expr("coordinate", (), CoordinateLeaf(slot, body, degree))


@dataclass(frozen=True)
class UnfusedCoordinate:
    """A coordinate function that could not be traced, evaluated on blocks of each column."""

    kernel: Coordinate
    view: View
    learns: bool

    def __str__(self) -> str:
        return type(self.kernel).__name__

    def block(self, pairs: Pairs) -> Array:
        x, z = pairs.matrices(self.view)
        return self._reduce([(a[:, None], b[None, :]) for a, b in zip(x.T, z.T, strict=True)])

    def diagonal(self, pairs: Pairs) -> Array:
        x, z = pairs.matrices(self.view)
        return self._reduce(list(zip(x.T, z.T, strict=True)))

    def _reduce(self, columns: list[tuple[Array, Array]]) -> Array:
        values = []
        for x, z in columns:
            shape = np.broadcast_shapes(x.shape, z.shape)
            value = np.asarray(self.kernel.coordinate(x, z), dtype=float)
            if value.shape not in ((), shape):
                raise DataError(
                    f"{self}.coordinate returned shape {value.shape} for pairs of shape {shape}; it must "
                    "return one number for each pair."
                )
            values.append(np.broadcast_to(value, shape))
        return np.asarray(reference.elementary(values, self.kernel._degree())[-1])


def diagonal(body: Expr, side: str) -> Expr:
    """A number for each row or column: an expression at the pair (point, same point)."""
    return Expr(side, (), Diagonal(body))
