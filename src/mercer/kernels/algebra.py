"""The algebra of kernels: operations under which positive semi-definite kernels are closed.

``Sum``, ``Product``, ``Power`` and ``Scaled`` are classes of their own and flatten only with their
own kind. What would leave the cone of kernels (a negative factor, a difference) is refused with the
reason.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.exceptions import NoFeatureMapError, ParameterError
from mercer.features import exact
from mercer.kernels.base import Kernel, Scope
from mercer.kernels.parameters import Bounded, Fixed, Integer, NonNegative, Part, plain, show
from mercer.kernels.points import Points
from mercer.kernels.special import Constant
from mercer.kernels.tracing import diagonal
from mercer.kernels.tree import named_children
from mercer.kernels.views import Columns
from mercer.program.expression import Expr, PointFunction, parameter
from mercer.program.operations import apply, inverse

__all__ = [
    "Exponential",
    "Normalized",
    "OnColumns",
    "PolynomialOf",
    "Power",
    "Product",
    "Scaled",
    "ScaledBy",
    "Sum",
    "Warped",
]


# Building
# -----------------------------------------------------------------------------------------------


def add(a: Any, b: Any) -> Kernel:
    """Add two kernels; a number stands for a constant kernel."""
    return Sum(_kernel(a, "+"), _kernel(b, "+"))


def multiply(a: Any, b: Any) -> Kernel:
    """Multiply two kernels, or a kernel by a non-negative number."""
    if _is_number(a):
        return _scaled(b, a)
    if _is_number(b):
        return _scaled(a, b)
    return Product(_kernel(a, "*"), _kernel(b, "*"))


def divide(kernel: Kernel, divisor: Any) -> Kernel:
    """K / c for a positive number c."""
    if not _is_number(divisor) or isinstance(divisor, Fixed | Bounded) or divisor <= 0:
        raise ParameterError(
            f"kernel / {divisor!r}: a kernel can be divided by a positive number only; a quotient "
            f"of kernels need not "
            "be positive semi-definite."
        )
    return _scaled(kernel, 1.0 / divisor)


def power(kernel: Kernel, exponent: Any) -> Kernel:
    """K ** n for a positive whole number n."""
    if isinstance(exponent, bool) or not isinstance(exponent, int | np.integer) or exponent < 1:
        raise ParameterError(
            f"kernel ** {exponent!r}: the exponent must be a whole number >= 1, because only "
            f"whole powers of every "
            "kernel are kernels; write k ** 2, or k.exp()."
        )
    if isinstance(kernel, Power):
        return Power(kernel.kernel, kernel.exponent * int(exponent))
    return Power(kernel, int(exponent))


def on(kernel: Kernel, columns: tuple[Any, ...]) -> Kernel:
    """The kernel on some columns."""
    if len(columns) == 1 and isinstance(columns[0], list | tuple):
        columns = tuple(columns[0])
    if not columns:
        raise ParameterError("on(): name at least one column, by position, slice or name.")
    for column in columns:
        if isinstance(column, bool) or not isinstance(column, int | np.integer | slice | str):
            raise ParameterError(f"on({column!r}): a column is a position, a slice or a name.")
    return OnColumns(kernel, columns)


def refuse_difference(a: Any, b: Any) -> Kernel:
    """A difference of kernels is not a kernel."""
    raise ParameterError(
        f"{a!r} - {b!r}: a difference of kernels need not be positive semi-definite, so it is not "
        f"a kernel; use "
        "sums, products and non-negative factors."
    )


def _kernel(value: Any, operation: str) -> Kernel:
    if isinstance(value, Kernel):
        return value
    if _is_number(value):
        if plain(value) < 0:
            raise ParameterError(
                f"kernel {operation} {value!r}: a negative constant is not positive "
                f"semi-definite; add a constant >= 0."
            )
        return Constant(value)
    raise TypeError(
        f"kernel {operation} {type(value).__name__}: the other side must be a kernel or a number."
    )


def _is_number(value: Any) -> bool:
    if isinstance(value, Fixed | Bounded):
        return np.ndim(value.value) == 0
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return True
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _scaled(kernel: Any, factor: Any) -> Kernel:
    if not isinstance(kernel, Kernel):
        raise TypeError(f"{factor!r} * {type(kernel).__name__}: the other side must be a kernel.")
    number = plain(factor)
    if not number >= 0:
        raise ParameterError(
            f"{factor!r} * {kernel!r}: the scale of a kernel must be >= 0, because a negative "
            f"factor turns a positive "
            "semi-definite function into a negative one; pass a non-negative number."
        )
    if isinstance(kernel, Scaled) and not isinstance(factor, Fixed | Bounded):
        return kernel.replace(scale=float(kernel.scale * number))
    return Scaled(kernel, factor)


def _flatten(kind: type[_Composite], kernels: list[Kernel]) -> list[Kernel]:
    """Sums within sums and products within products become one; never one within the other."""
    return [part for k in kernels for part in (k.kernels if type(k) is kind else [k])]


# Sums and products
# --------------------------------------------------------------------------------------


class _Composite(Kernel):
    """Several kernels of the same data."""

    kernels = Part()
    _symbol = ""

    def __init__(self, *kernels: Kernel) -> None:
        if not kernels:
            raise ParameterError(f"{type(self).__name__}: at least one kernel is needed.")
        parts = [_kernel(k, self._symbol) for k in kernels]
        self._initialise(kernels=tuple(_flatten(type(self), parts)))

    def _children(self) -> tuple[tuple[str, Kernel], ...]:
        return tuple(zip(named_children(self.kernels), self.kernels, strict=True))

    def _with_children(self, children: tuple[Any, ...]) -> Self:
        return self._with_values(kernels=tuple(children))

    @property
    def is_psd(self) -> bool | None:
        """True when it holds for every part; otherwise not known."""
        return True if all(k.is_psd for k in self.kernels) else None

    def _traces(self, scope: Scope) -> list[Expr]:
        return [child._trace(inner) for child, inner in self._scoped_children(scope)]

    def _all_features(self, scope: Scope, points: Points) -> list[Columns]:
        return [child._features(inner, points) for child, inner in self._scoped_children(scope)]


class Sum(_Composite):
    """Sum of kernels, k1 + k2 + ...: the feature spaces stand side by side.

    Parameters
    ----------
    *kernels : Kernel
        The terms; usually written ``k1 + k2``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.RBF() + mc.Linear()
    RBF() + Linear()
    """

    _symbol = "+"

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.kernels))

    def _trace(self, scope: Scope) -> Expr:
        first, *rest = self._traces(scope)
        for term in rest:
            first = first + term
        return first

    def _features(self, scope: Scope, points: Points) -> Columns:
        parts = self._all_features(scope, points)
        names = [
            f"{level}: {name}"
            for (level, _), p in zip(self._levels, parts, strict=True)
            for name in _names(p)
        ]
        return Columns(exact.concatenate(*(p.values for p in parts)), names=tuple(names))


class Product(_Composite):
    """Product of kernels, k1 * k2 * ...: all products of the parts' features.

    Parameters
    ----------
    *kernels : Kernel
        The factors; usually written ``k1 * k2``.

    Examples
    --------
    >>> import mercer as mc
    >>> (mc.RBF() + mc.Linear()) * mc.Periodic()
    (RBF() + Linear()) * Periodic()
    """

    _symbol = "*"

    def __repr__(self) -> str:
        # After the first factor a bare scale would read as belonging to what stands before it.
        return " * ".join(
            f"({k!r})" if isinstance(k, Sum) or (i and isinstance(k, Scaled)) else repr(k)
            for i, k in enumerate(self.kernels)
        )

    def _trace(self, scope: Scope) -> Expr:
        first, *rest = self._traces(scope)
        for factor in rest:
            first = first * factor
        return first

    def _features(self, scope: Scope, points: Points) -> Columns:
        return _tensor(self._all_features(scope, points))


def _names(columns: Columns) -> tuple[str, ...]:
    return columns.names or tuple(f"f{j}" for j in range(columns.width))


def _tensor(parts: list[Columns]) -> Columns:
    result = parts[0]
    for part in parts[1:]:
        names = tuple(f"{a} * {b}" for a in _names(result) for b in _names(part))
        result = Columns(exact.tensor_product(result.values, part.values), names=names)
    return result


# Wrappers of one kernel
# ---------------------------------------------------------------------------------


class _Wrapper(Kernel):
    """One kernel, changed; its parameters keep their names."""

    kernel = Part()

    def __init__(self, kernel: Kernel, **values: Any) -> None:
        if not isinstance(kernel, Kernel):
            raise ParameterError(f"{type(self).__name__}: {kernel!r} is not a kernel.")
        self._initialise(kernel=kernel, **values)

    def _children(self) -> tuple[tuple[str, Kernel], ...]:
        return (("", self.kernel),)

    def _with_children(self, children: tuple[Any, ...]) -> Self:
        return self._with_values(kernel=children[0])

    @property
    def is_psd(self) -> bool | None:
        """What holds for the kernel inside, where the operation keeps it."""
        return True if self.kernel.is_psd else None

    def _inside(self, scope: Scope) -> Scope:
        return next(self._scoped_children(scope))[1]

    def _inner(self, scope: Scope) -> Expr:
        expression: Expr = self.kernel._trace(self._inside(scope))
        return expression

    def _inner_features(self, scope: Scope, points: Points) -> Columns:
        columns: Columns = self.kernel._features(self._inside(scope), points)
        return columns

    def _operand(self) -> str:
        """The kernel inside, in brackets where an operator follows."""
        simple = not isinstance(self.kernel, _Composite | Scaled | Power)
        return repr(self.kernel) if simple else f"({self.kernel!r})"


class Scaled(_Wrapper):
    """Multiple of a kernel, scale * k(x, z) with scale >= 0.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    scale : float
        The factor, a variance; ``Fixed(2) * k`` holds it.

    Examples
    --------
    >>> import mercer as mc
    >>> (2.0 * mc.RBF()).get_params()
    {'scale': 2.0, 'length_scale': 1.0}
    """

    scale = NonNegative(1.0)

    def __init__(self, kernel: Kernel, scale: Any = 1.0) -> None:
        super().__init__(kernel, scale=scale)

    @property
    def is_psd(self) -> bool | None:
        """A positive factor changes nothing."""
        known: bool | None = self.kernel.is_psd
        return True if self.scale == 0 else known

    def __repr__(self) -> str:
        inside = (
            f"({self.kernel!r})"
            if isinstance(self.kernel, _Composite | Scaled)
            else repr(self.kernel)
        )
        return f"{show(self.declared('scale'))} * {inside}"

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope) * parameter(scope.path("scale"))

    def _features(self, scope: Scope, points: Points) -> Columns:
        inner = self._inner_features(scope, points)
        return Columns(inner.values * np.sqrt(self.scale), names=inner.names)


class Power(_Wrapper):
    """Power of a kernel, k(x, z) ** exponent for a whole number >= 1.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    exponent : int
        The exponent.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear() ** 2**1
    Linear() ** 2
    """

    exponent = Integer(1, low=1)

    def __init__(self, kernel: Kernel, exponent: int = 1) -> None:
        super().__init__(kernel, exponent=exponent)

    @property
    def is_psd(self) -> bool | None:
        """Powers of a kernel are kernels."""
        return True if self.kernel.is_psd else None

    def __repr__(self) -> str:
        return f"{self._operand()} ** {self.exponent}"

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope) ** self.exponent

    def _features(self, scope: Scope, points: Points) -> Columns:
        return _tensor([self._inner_features(scope, points)] * self.exponent)


class Exponential(_Wrapper):
    """Exponential of a kernel, exp(k(x, z)), bounded or not.

    A kernel, because it is a limit of polynomials with positive coefficients.

    Parameters
    ----------
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear().exp()([[0.0]]).tolist()
    [[1.0]]
    """

    def __repr__(self) -> str:
        return f"{self._operand()}.exp()"

    def _trace(self, scope: Scope) -> Expr:
        return apply("exp", self._inner(scope))


class PolynomialOf(_Wrapper):
    """Polynomial of a kernel, c0 + c1 k + c2 k^2 + ... with non-negative coefficients.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    coefficients : sequence of float
        ``[c0, c1, ...]``, each >= 0.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear().polynomial([1.0, 0.0, 2.0])([[1.0], [2.0]])[0].tolist()
    [3.0, 9.0]
    """

    coefficients = NonNegative([0.0, 1.0], ndim=1)
    _kind = "polynomial_of"

    def __init__(self, kernel: Kernel, coefficients: Any = (0.0, 1.0)) -> None:
        values = np.asarray(plain(coefficients), dtype=object)
        if values.ndim == 1 and any(
            isinstance(c, int | float | np.number) and c < 0 for c in values
        ):
            raise ParameterError(
                f"polynomial({list(values)}): the coefficients of a polynomial of a kernel must "
                f"be >= 0, because a "
                "negative one can make it indefinite; pass non-negative numbers."
            )
        super().__init__(kernel, coefficients=coefficients)

    def _check(self) -> None:
        if np.ndim(self.coefficients) != 1:
            raise ParameterError(
                f"polynomial({self.coefficients!r}): pass a sequence [c0, c1, ...]."
            )

    def __repr__(self) -> str:
        return f"{self._operand()}.polynomial({show(self.declared('coefficients'))})"

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
        parts: list[Any] = []
        names: list[str] = []
        power = Columns(np.ones((len(points), 1)), names=("1",))
        for i, coefficient in enumerate(self.coefficients):
            if i:
                power = inner if i == 1 else _tensor([power, inner])
            if coefficient > 0:
                parts.append(power.values * np.sqrt(coefficient))
                names.extend(_names(power))
        if not parts:
            raise NoFeatureMapError("polynomial([0, ...]): the zero kernel has no features.")
        return Columns(exact.concatenate(*parts), names=tuple(names))


class ScaledBy(_Wrapper):
    """Kernel scaled by a function of the points, f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    function : callable
        Takes the data (all rows) and returns one number for each row.

    Notes
    -----
    A kernel that holds a Python function cannot be rebuilt from its repr, and is pickled only if
    the function is.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Constant(1.0).scaled_by(lambda X: X[:, 0])([[2.0], [3.0]]).tolist()
    [[4.0, 6.0], [6.0, 9.0]]
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
        inner = self._inner_features(scope, points)
        factor = points.function_values(scope.view, self.function)[:, None]
        values = (
            inner.values * factor
            if isinstance(inner.values, np.ndarray)
            else inner.values.multiply(factor)
        )
        return Columns(
            values if isinstance(values, np.ndarray) else sp.csr_array(values), names=inner.names
        )


class Normalized(_Wrapper):
    """Cosine in feature space, k(x, z) / sqrt(k(x, x) k(z, z)); 0 where k(x, x) = 0.

    Parameters
    ----------
    kernel : Kernel
        The kernel.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear().normalized()([[3.0], [-2.0]]).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """

    def _check(self) -> None:
        if self.kernel.input_tags()["pairwise"]:
            raise ParameterError(
                f"{self.kernel!r}.normalized(): a matrix of test rows does not hold k(x, x) of the "
                "test points; normalise the matrix itself, or use Precomputed(K) and row numbers."
            )

    def __repr__(self) -> str:
        return f"{self._operand()}.normalized()"

    def _trace(self, scope: Scope) -> Expr:
        inner = self._inner(scope)
        factor = inverse(apply("sqrt", apply("maximum", inner, 0.0)))
        return inner * diagonal(factor, "row") * diagonal(factor, "column")

    def _features(self, scope: Scope, points: Points) -> Columns:
        inner = self._inner_features(scope, points)
        dense = isinstance(inner.values, np.ndarray)
        squares = (inner.values**2).sum(axis=1) if dense else inner.values.power(2).sum(axis=1)
        length = np.sqrt(np.asarray(squares, dtype=float)).reshape(-1, 1)
        factor = np.where(length > 0, 1.0 / np.where(length > 0, length, 1.0), 0.0)
        values = inner.values * factor if dense else sp.csr_array(inner.values.multiply(factor))
        return Columns(values, names=inner.names)


class OnColumns(_Wrapper):
    """The kernel on some of the columns.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    columns : tuple of int, slice or str
        Positions, slices, or names of data-frame columns.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.Linear().on(1)([[5.0, 2.0]]).tolist()
    [[4.0]]
    """

    columns = Part()

    def __init__(self, kernel: Kernel, columns: Any) -> None:
        super().__init__(
            kernel, columns=tuple(int(c) if isinstance(c, np.integer) else c for c in columns)
        )

    @property
    def is_psd(self) -> bool | None:
        """A selection of columns changes nothing."""
        known: bool | None = self.kernel.is_psd
        return known

    def __hash__(self) -> int:
        return hash((type(self), self.kernel, str(self.columns)))

    def __repr__(self) -> str:
        return f"{self._operand()}.on({', '.join(map(repr, self.columns))})"

    def _child_scope(self, scope: Scope) -> Scope:
        return scope.on(self.columns)

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope)

    def _features(self, scope: Scope, points: Points) -> Columns:
        return self._inner_features(scope, points)

    def input_tags(self) -> dict[str, bool]:  # noqa: D102
        # Whatever the kernel inside compares, the data themselves are a table.
        return {**super().input_tags(), "two_d": True}


class Warped(_Wrapper):
    """Kernel of warped points, k(g(x), g(z)) for a function g of the data.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    function : callable
        Takes the data (all rows) and returns as many rows.

    Notes
    -----
    A kernel that holds a Python function cannot be rebuilt from its repr, and is pickled only if
    the function is.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> mc.Linear().warp(np.log)([[np.e]]).tolist()
    [[1.0]]
    """

    function = Part()

    def __init__(self, kernel: Kernel, function: Any) -> None:
        _check_callable("warp", function)
        super().__init__(kernel, function=function)

    @property
    def is_psd(self) -> bool | None:
        """A change of the points changes nothing."""
        known: bool | None = self.kernel.is_psd
        return known

    def __repr__(self) -> str:
        return f"{self._operand()}.warp({_name_of(self.function)})"

    def _child_scope(self, scope: Scope) -> Scope:
        return scope.warped(self.function)

    def _trace(self, scope: Scope) -> Expr:
        return self._inner(scope)

    def _features(self, scope: Scope, points: Points) -> Columns:
        return self._inner_features(scope, points)


def _check_callable(method: str, function: Any) -> None:
    if not callable(function):
        raise ParameterError(f"{method}({function!r}): pass a function of the data.")


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", repr(function))
