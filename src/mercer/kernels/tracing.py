"""From a kernel's method to an expression; and what happens when a method cannot be traced."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from mercer.arrays import AnyArray as Array
from mercer.exceptions import (
    DataError,
    DataTypeError,
    MercerError,
    UnfusedWarning,
    ValidityError,
    warn,
)
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.parameters import plain
from mercer.kernels.tree import with_values
from mercer.kernels.views import View
from mercer.linalg.symmetric import asymmetry
from mercer.program import engine, reference
from mercer.program.expression import (
    DIFFERENCE,
    IDENTITY,
    Coordinate,
    Diagonal,
    Expr,
    Slot,
    X,
    Z,
    as_expression,
    column_weights,
    constant,
    parameter,
    substitute,
    walk,
)
from mercer.program.pairs import SINGLE, Pairs
from mercer.program.specialise import floating_type

if TYPE_CHECKING:
    from mercer.kernels.vector import Coordinate as CoordinateKernel


@dataclass(frozen=True)
class Unfused:
    """A profile that could not be traced: run in NumPy, block by block, on its argument."""

    kernel: Any
    argument: Expr
    learns: bool

    def __str__(self) -> str:
        return type(self.kernel).__name__

    def block(self, pairs: Pairs) -> Array:
        return self._values(engine.gram(self.argument, pairs))

    def is_single(self, pairs: Pairs) -> bool:
        return floating_type(self.argument, pairs) == SINGLE

    def diagonal(self, pairs: Pairs) -> Array:
        return self._values(reference.evaluate(self.argument, pairs))

    def _values(self, argument: Array) -> Array:
        return method_values(self.kernel.profile, (argument,), argument.shape)


def real_numbers(value: Any, owner: str) -> Array:
    """The return value of a user's function, as a numeric array."""
    if value is None:
        raise DataTypeError(f"{owner} returned None; it must return a number for each pair.")
    if issparse(value):
        value = value.toarray()
    if np.iscomplexobj(value):
        raise DataTypeError(f"{owner} returned complex numbers; a kernel has real values.")
    try:
        return np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataTypeError(
            f"{owner} must return real numbers, one for each pair ({error})."
        ) from None


def method_values(method: Callable[..., Any], arguments: Sequence[Array], shape: Any) -> Array:
    """A method at all pairs, from one call with arrays or, if it takes none, one for each pair."""
    owner = f"{type(method.__self__).__name__}.{method.__name__}"  # type: ignore[attr-defined]
    try:
        return one_for_each_pair(method(*arguments), shape, owner)
    except MercerError:
        raise
    except (TypeError, ValueError) as error:  # math.exp(r2), or a condition such as r2 > 1
        columns = [np.broadcast_to(a, shape).ravel().tolist() for a in arguments]
        try:
            single = [method(*numbers) for numbers in zip(*columns, strict=True)]
        except Exception:
            raise error from None
        return one_for_each_pair(np.reshape(single, shape), shape, owner)


def one_for_each_pair(value: Any, shape: tuple[int, ...], owner: str) -> Array:
    """The return value of an element-wise method, in the shape of the pairs."""
    result = real_numbers(value, owner)
    if result.shape not in ((), shape):
        raise DataError(
            f"{owner} returned shape {result.shape} for pairs of shape {shape}; it must return one "
            "number for each pair."
        )
    return np.broadcast_to(result, shape)


#: The remedy for a function that is not symmetric.
SYMMETRISE = "return (f(x, z) + f(z, x)) / 2, or mend the function"


def require_symmetry(
    matrix: Array,
    owner: str,
    remedy: str = SYMMETRISE,
    *,
    rounding: float = 1e-8,
    rows: Array | None = None,
) -> None:
    """Refuse a matrix k(X), or that of some rows, that is not its own transpose up to rounding."""
    gap, i, j = asymmetry(matrix)
    if gap > rounding * max(np.abs(matrix).max(), np.finfo(float).tiny):
        a, b = (i, j) if rows is None else (rows[i], rows[j])
        raise ValidityError(
            f"{owner} is not symmetric: k(x_{a}, x_{b}) = {matrix[i, j]:g} but k(x_{b}, x_{a}) = "
            f"{matrix[j, i]:g}; a kernel is a symmetric function, so {remedy}."
        )


_announced: weakref.WeakSet[type] = weakref.WeakSet()


def traced(kernel: Kernel, scope: Scope, argument: Expr) -> Expr:
    """The profile of a kernel at an expression; where tracing fails, wrapped to run in blocks."""
    try:
        return symbolic(kernel, scope, "profile", argument)
    except Exception as error:  # whatever the method does with a value that is no number yet
        announce_unfused(kernel, "profile", error)
        return Expr("external", (), Unfused(with_values(kernel), argument, learns(kernel)))


def learns(kernel: Kernel) -> bool:
    """Whether a kernel has free parameters."""
    return any(entry.is_unresolved or entry.free.any() for entry in kernel.parameters().values())


def symbolic(kernel: Kernel, scope: Scope, method: str, *arguments: Expr) -> Expr:
    """Run a kernel's method with its continuous parameters and arguments as expressions."""
    leaves = {
        name: parameters_at(scope.path(name), plain(kernel._values[name]))
        for name, declaration in kernel._declarations.items()
        if not declaration.concrete
    }
    return as_expression(getattr(with_values(kernel, **leaves), method)(*arguments))


def parameters_at(path: str, value: Any, *index: int) -> Any:
    """The leaf of a scalar parameter, or of an entry; nested tuples of leaves for arrays."""
    if np.ndim(value) == 0 or isinstance(value, str):
        return parameter(path, *index)
    return tuple(parameters_at(path, row, *index, i) for i, row in enumerate(value))


def announce_unfused(kernel: Kernel, method: str, error: Exception) -> None:
    """Warn once per class that it runs unfused, with the reason."""
    if type(kernel) not in _announced:
        _announced.add(type(kernel))
        warn(
            f"{type(kernel).__name__}.{method} could not be traced ({error}) and runs unfused, in "
            "blocks of NumPy: correct, but slower and without gradients for its parameters. Write "
            "it with NumPy functions of its arguments to have it fused.",
            UnfusedWarning,
        )


def coordinate_leaf(body: Expr, slot: Slot, degree: int) -> Expr:
    """The leaf of a coordinate function; one that sees only differences has its data centred."""
    sees = set(walk((body,)))
    centred = DIFFERENCE in sees and X not in sees and Z not in sees
    slot = Slot(slot.view, slot.scale, centred)
    return Expr("coordinate", (), Coordinate(slot, body, degree))


def weighted_sum(body: Expr, slot: Slot, weights: Expr | tuple[Expr, ...]) -> Expr:
    """The sum of a coordinate function over columns, with one weight or one for each column."""
    if isinstance(weights, tuple):
        return coordinate_leaf(column_weights(weights) * body, slot, 1)
    return coordinate_leaf(body, slot, 1) * weights


def diagonal(body: Expr, side: str) -> Expr:
    """A number for each row or column: an expression at the pair (point, same point)."""
    body = substitute(body, _at_one_point, remember=True)
    return Expr(side, (), Diagonal(body)) if body.is_pair else body


def _at_one_point(node: Expr) -> Expr | None:
    """The leaf for a pair of a point with itself; None if it does not change."""
    if isinstance(node.attr, Diagonal):
        return node.attr.body
    if node is IDENTITY:
        return constant(1.0)
    if node.op == "coordinate" and node.attr.degree == 1:
        body = substitute(node.attr.body, {DIFFERENCE: constant(0.0), Z: X}.get)
        return body if body is constant(0.0) else None
    return constant(0.0) if node.op == "squared_distance" else None


@dataclass(frozen=True)
class UnfusedCoordinate:
    """A coordinate function that could not be traced, evaluated on blocks of each column."""

    kernel: CoordinateKernel
    view: View
    learns: bool

    def __str__(self) -> str:
        return type(self.kernel).__name__

    def block(self, pairs: Pairs) -> Array:
        x, z = pairs.matrices(self.view)
        columns = [(a[:, None], b[None, :]) for a, b in zip(x.T, z.T, strict=True)]
        value = self._reduce(columns)
        if pairs.same and np.array_equal(pairs.rows.ids, pairs.cols.ids):
            require_symmetry(value, f"{self}.coordinate")
        return value

    def is_single(self, pairs: Pairs) -> bool:
        return all(matrix.dtype == np.float32 for matrix in pairs.matrices(self.view))

    def diagonal(self, pairs: Pairs) -> Array:
        x, z = pairs.matrices(self.view)
        return self._reduce(list(zip(x.T, z.T, strict=True)))

    def _reduce(self, columns: list[tuple[Array, Array]]) -> Array:
        values = []
        for x, z in columns:
            shape = np.broadcast_shapes(x.shape, z.shape)
            values.append(method_values(self.kernel.coordinate, (x, z), shape))
        return np.asarray(reference.elementary(values, self.kernel._degree())[-1])
