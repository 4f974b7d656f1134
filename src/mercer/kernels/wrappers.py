"""Operations on one kernel: scaling, powers, functions of it, and transformed or selected data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import AnyArray as Array
from mercer.exceptions import NoFeatureMapError, ParameterError, ParameterTypeError
from mercer.kernels.base import Kernel, Scope, scoped_children
from mercer.kernels.heuristics import Scatter, Spread
from mercer.kernels.parameters import Child, Integer, NonNegative, Part, Positive, Real, plain, show
from mercer.kernels.points import Points
from mercer.kernels.tracing import diagonal
from mercer.kernels.tree import declared
from mercer.kernels.views import Columns, Numbers, Select, Standardise, View, Warp
from mercer.maps import composition
from mercer.maps.forecast import forecast
from mercer.program.expression import (
    DIFFERENCE,
    Diagonal,
    Expr,
    PointFunction,
    X,
    Z,
    cached_on_root,
    constant,
    parameter,
    substitute,
)
from mercer.program.operations import apply, inverse


class _Wrapper(Kernel):
    """One kernel, changed; its parameters keep their names."""

    kernel = Child()

    def __init__(self, kernel: Kernel, **values: Any) -> None:
        if not isinstance(kernel, Kernel):
            raise ParameterTypeError(
                f"{type(self).__name__}: {kernel!r} is not a kernel; pass a kernel such as "
                "mercer.RBF()."
            )
        super().__init__(kernel=kernel, **values)

    def _inner(self, scope: Scope) -> Expr:
        ((child, inside),) = scoped_children(self, scope)
        return child._trace(inside)

    def _inner_features(self, scope: Scope, points: Points) -> Columns:
        ((child, inside),) = scoped_children(self, scope)
        return child._features(inside, points)

    def _operand(self) -> str:
        """The kernel inside, in brackets where an operator follows."""
        return repr(self.kernel) if self.kernel._precedence == 3 else f"({self.kernel!r})"


class Scaled(_Wrapper):
    """Multiple of a kernel, scale * k(x, z) with scale >= 0."""

    scale = NonNegative(1.0)
    _undoable = True
    _precedence = 1

    def __init__(self, kernel: Kernel, scale: Any = 1.0) -> None:
        super().__init__(kernel, scale=scale)

    @property
    def is_psd(self) -> bool | None:
        """What holds for the kernel inside; the zero kernel is a kernel."""
        return True if self.scale == 0 else super().is_psd

    def __repr__(self) -> str:
        inside = f"({self.kernel!r})" if self.kernel._precedence < 2 else repr(self.kernel)
        return f"{show(declared(self, 'scale'))} * {inside}"

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope) * parameter(scope.path("scale"))

    def _features(self, scope: Scope, points: Points) -> Columns:
        return times(self._inner_features(scope, points), np.sqrt(self.scale))


class Power(_Wrapper):
    """Power of a kernel, k(x, z) ** exponent for a whole number >= 1."""

    exponent = Integer(1, low=1)
    _precedence = 2

    def __init__(self, kernel: Kernel, exponent: int = 1) -> None:
        super().__init__(kernel, exponent=exponent)

    def __repr__(self) -> str:
        return f"{self._operand()} ** {self.exponent}"

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope) ** int(self.exponent)

    def _features(self, scope: Scope, points: Points) -> Columns:
        return products([self._inner_features(scope, points)] * self.exponent)


class Exponential(_Wrapper):
    """Exponential of a kernel, exp(k(x, z)), bounded or not.

    A kernel, because it is a limit of polynomials with positive coefficients.
    """

    def __repr__(self) -> str:
        return f"{self._operand()}.exp()"

    def _trace(self, scope: Scope) -> Expr:
        return apply("exp", self._inner(scope))


class PolynomialOf(_Wrapper):
    """Polynomial of a kernel, c0 + c1 k + c2 k^2 + ... with non-negative coefficients."""

    coefficients = NonNegative([0.0, 1.0], ndim=1)
    _kind = "polynomial_of"

    def __init__(self, kernel: Kernel, coefficients: Any = (0.0, 1.0)) -> None:
        values = np.ravel(np.asarray(plain(coefficients), dtype=object))
        if any(isinstance(c, int | float | np.number) and c < 0 for c in values):
            raise ParameterError(
                f"polynomial({list(values)}): the coefficients of a polynomial of a kernel must "
                "be >= 0, because a negative one can make it indefinite; pass non-negative "
                "numbers."
            )
        super().__init__(kernel, coefficients=coefficients)

    def _check(self) -> None:
        if np.ndim(self.coefficients) != 1:
            raise ParameterError(
                f"polynomial({self.coefficients!r}): a polynomial of a kernel needs a list of "
                "coefficients; pass [c0, c1, ...] (for example [0.0, 1.0])."
            )

    def __repr__(self) -> str:
        return f"{self._operand()}.polynomial({show(declared(self, 'coefficients'))})"

    def _trace(self, scope: Scope) -> Expr:
        inner = self._inner(scope)
        count = len(self.coefficients)
        leaves = [parameter(scope.path("coefficients"), i) for i in range(count)]
        total = leaves[-1]
        for leaf in reversed(leaves[:-1]):
            total = total * inner + leaf
        return total

    def _features(self, scope: Scope, points: Points) -> Columns:
        inner = self._inner_features(scope, points)
        power = Columns(np.ones((len(points), 1)), names=("1",))
        parts: list[Columns] = []
        for i, coefficient in enumerate(self.coefficients):
            if i:
                power = inner if i == 1 else products([power, inner])
            if coefficient > 0:
                parts.append(times(power, np.sqrt(coefficient)))
        if not parts:
            raise NoFeatureMapError(
                "polynomial([0, ...]): the zero kernel has no features; pass a positive "
                "coefficient."
            )
        return side_by_side(parts)


class ScaledBy(_Wrapper):
    """Kernel scaled by a function of the points, f(x) k(x, z) f(z).

    A kernel that holds a Python function cannot be rebuilt from its repr, and is pickled only if
    the function is.
    """

    function = Part()

    def __init__(self, kernel: Kernel, function: Any) -> None:
        _check_callable("scaled_by", function)
        super().__init__(kernel, function=function)

    def __repr__(self) -> str:
        return f"{self._operand()}.scaled_by({_name_of(self.function)})"

    def _trace(self, scope: Scope) -> Expr:
        source = PointFunction(scope.view, self.function)
        return self._inner(scope) * Expr("row", (), source) * Expr("column", (), source)

    def _features(self, scope: Scope, points: Points) -> Columns:
        factor = points.function_values(scope.view, self.function)[:, None]
        return times(self._inner_features(scope, points), factor)


class Normalized(_Wrapper):
    """Cosine in feature space, k(x, z) / sqrt(k(x, x) k(z, z)); 0 where k(x, x) = 0."""

    def _check(self) -> None:
        if self.kernel.input_tags()["pairwise"]:
            raise ParameterError(
                f"{self.kernel!r}.normalized(): a matrix of test rows does not hold k(x, x) of the "
                "test points; normalise the matrix itself, or use Precomputed(K) and row numbers."
            )

    def __repr__(self) -> str:
        return f"{self._operand()}.normalized()"

    def _trace(self, scope: Scope) -> Expr:
        return _cosine(self._inner(scope))

    def _features(self, scope: Scope, points: Points) -> Columns:
        inner = self._inner_features(scope, points)
        length = np.sqrt(square_norms(inner.values))
        factor = np.where(length > 0, 1.0 / np.where(length > 0, length, 1.0), 0.0)
        return times(inner, factor)


def _cosine(inner: Expr) -> Expr:
    """k(x, z) / sqrt(k(x, x) k(z, z)), where parts that may overflow are divided first."""
    cosine, rest, _ = _split(inner)
    size = inverse(apply("sqrt", apply("maximum", rest, 0.0)))
    return cosine * rest * diagonal(size, "row") * diagonal(size, "column")


@cached_on_root
def _split(node: Expr) -> tuple[Expr, Expr, Expr]:
    """A kernel as cosine * rest * size(x) * size(z), with the logarithm of the size at (x, x).

    Sizes are taken out of exponentials, of products, and of sums of these, which may overflow.
    """
    one, zero = constant(1.0), constant(0.0)
    if not _varies(node):
        return one, node, zero
    if node.op == "exp":
        (u,) = node.args
        exponent = u - 0.5 * (diagonal(u, "row") + diagonal(u, "column"))
        return apply("exp", exponent), one, 0.5 * u
    if node.op == "coordinate" and node.attr.degree == 0:
        cosine = replace(node.attr, body=_column_cosine(node.attr.body))
        sizes = replace(node.attr, body=_log_size(node.attr.body), degree=1)
        return Expr("coordinate", (), cosine), one, Expr("coordinate", (), sizes)
    operands = _operands(node)
    parts = [_split(operand) for operand in operands]
    if node.op == "multiply" and operands:
        if sum(map(_varies, operands)) > 1:
            parts = [_divided(*part) for part in parts]
        cosines, rests, log_sizes = zip(*parts, strict=True)
        return math.prod(cosines), math.prod(rests), sum(log_sizes)
    if any(part[1] is not term for part, term in zip(parts, operands, strict=True)):
        largest = reduce(lambda a, b: apply("maximum", a, b), [size for _, _, size in parts])
        terms = [_times_size(cosine * rest, size - largest) for cosine, rest, size in parts]
        return one, sum(terms, start=zero), largest
    return one, node, zero


def _operands(node: Expr) -> list[Expr]:
    """The terms of a sum, or the factors of a product that is not a cosine."""
    operands = list(node.args) if node.op in ("add", "multiply") and not _is_cosine(node) else []
    while operands and operands[0].op == node.op and not _is_cosine(operands[0]):
        operands[:1] = operands[0].args
    return operands


def _is_cosine(node: Expr) -> bool:
    return any(isinstance(argument.attr, Diagonal) for argument in node.args)


def _varies(node: Expr) -> bool:
    """Whether k(x, x), which bounds a kernel, depends on x."""
    return node.op not in ("row", "column") and diagonal(node, "row").is_pair


def _divided(cosine: Expr, rest: Expr, log_size: Expr) -> tuple[Expr, Expr, Expr]:
    """The parts of a factor, with the size of the rest taken out too."""
    more = _log_size(rest) if _varies(rest) else constant(0.0)
    return cosine, _times_size(rest, -more), log_size + more


def _log_size(body: Expr) -> Expr:
    """Half the logarithm of the absolute value at (x, x), and 0 for the value 0."""
    return 0.5 * apply("log", apply("where", body, apply("absolute", body), 1.0))


def _times_size(value: Expr, log_size: Expr) -> Expr:
    size = apply("exp", log_size)
    return value * diagonal(size, "row") * diagonal(size, "column")


def _column_cosine(body: Expr) -> Expr:
    """The cosine of a function of two numbers."""
    sizes = []
    for one in (X, Z):
        at_one = {X: one, Z: one, DIFFERENCE: constant(0.0)}
        square = apply("maximum", substitute(body, at_one.get), 0.0)
        sizes.append(inverse(apply("sqrt", square)))
    return body * sizes[0] * sizes[1]


class _Viewed(_Wrapper):
    """The kernel inside, which sees the data after a step."""

    _undoable = True

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope)

    def _features(self, scope: Scope, points: Points) -> Columns:
        return self._inner_features(scope, points)


class OnColumns(_Viewed):
    """The kernel on some of the columns."""

    columns = Part()

    def __init__(self, kernel: Kernel, columns: Any) -> None:
        super().__init__(
            kernel, columns=tuple(int(c) if isinstance(c, np.integer) else c for c in columns)
        )

    def __hash__(self) -> int:
        return hash((type(self), self.kernel, str(self.columns)))

    def __repr__(self) -> str:
        return f"{self._operand()}.on({', '.join(map(repr, self.columns))})"

    @property
    def _step(self) -> Select:
        return Select(self.columns)

    def input_tags(self) -> dict[str, bool]:
        # Whatever the kernel inside compares, the data themselves are a table.
        return {**super().input_tags(), "two_d": True}


class Standardized(_Viewed):
    """The kernel of standardised columns, (x_j - centre_j) / width_j; a missing number counts as 0.

    Centres and widths are the means and standard deviations of the training rows.
    """

    centre = Real("mean", per_column=True, heuristics=("mean",), learned=False)
    width = Positive("deviation", per_column=True, heuristics=("deviation",), learned=False)

    def __init__(self, kernel: Kernel, centre: Any = "mean", width: Any = "deviation") -> None:
        super().__init__(kernel, centre=centre, width=width)

    def __repr__(self) -> str:
        given = (v for v in (self.centre, self.width) if not isinstance(v, str))
        return f"{self._operand()}.standardized({', '.join(map(show, given))})"

    @property
    def _step(self) -> Standardise:
        if isinstance(self.centre, str) or isinstance(self.width, str):
            return Standardise(None, None)
        return Standardise(*(tuple(np.ravel(v).tolist()) for v in (self.centre, self.width)))

    def _view(self, scope: Scope) -> View:
        return scope.view.read_by(Numbers(type(self).__name__, sparse=False, holes=True))

    def input_tags(self) -> dict[str, bool]:
        return {**super().input_tags(), "sparse": False}

    def _from_data(self, rule: str, scatter: Scatter) -> Array:
        spread: Spread = scatter.spread()
        return spread.means if rule == "mean" else np.where(spread.varies, spread.deviations, 1.0)


class Warped(_Viewed):
    """Kernel of warped points, k(g(x), g(z)) for a function g of the data.

    A kernel that holds a Python function cannot be rebuilt from its repr, and is pickled only if
    the function is.
    """

    function = Part()

    def __init__(self, kernel: Kernel, function: Any) -> None:
        _check_callable("warp", function)
        super().__init__(kernel, function=function)

    def __repr__(self) -> str:
        return f"{self._operand()}.warp({_name_of(self.function)})"

    @property
    def _step(self) -> Warp:
        return Warp(self.function)


def _check_callable(method: str, function: Any) -> None:
    if not callable(function):
        raise ParameterTypeError(
            f"{method}({function!r}): pass a function of the data, which this is not."
        )


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", repr(function))


def side_by_side(parts: Sequence[Columns], levels: Sequence[str] = ()) -> Columns:
    """Features of a sum: the concatenated features of the parts."""
    prefixes = [f"{level}: " for level in levels] or [""] * len(parts)

    def names() -> Sequence[str]:
        named = zip(prefixes, parts, strict=True)
        return [prefix + name for prefix, part in named for name in part.feature_names]

    return Columns(composition.concatenate(*(part.values for part in parts)), names=names)


def products(parts: Sequence[Columns]) -> Columns:
    """Features of a product: every feature of one part times every one of the others."""

    def names() -> Sequence[str]:
        return composition.tensor_product_names(*(part.feature_names for part in parts))

    return Columns(composition.tensor_product(*(part.values for part in parts)), names=names)


def times(columns: Columns, factor: float | Array) -> Columns:
    """Features times a number, or one number for each row."""
    values = columns.values
    if not isinstance(values, np.ndarray):
        return Columns(sp.csr_array(values * factor), names=columns.names)
    rows, width = values.shape
    forecast("feature_map", rows, width, values.itemsize)
    return Columns(values * factor, names=columns.names)


def square_norms(rows: Any) -> Array:
    """The squared length of each row, as a column."""
    if isinstance(rows, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=float))[:, None]
    return np.asarray(rows.power(2).sum(axis=1), dtype=float).reshape(-1, 1)
