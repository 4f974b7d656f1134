"""Expressions: the results of tracing a kernel's method.

An expression is a node of a directed acyclic graph. Its *value* is either a scalar (a function of
the kernel's parameters alone) or one number for every pair of points (``is_pair``). Nodes are
interned: two expressions with the same structure are the same object, so that equality is identity,
common sub-expressions are shared without a search, and compiled programs can be cached by their
root.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from mercer.exceptions import MercerError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class Interned(Generic[T]):
    """One object for each structure, freed when nobody else holds it.

    A dictionary with the structure as its key would keep alive what the structure holds, and with
    it the object, if that is held in turn. This table holds hashes and weak references.
    """

    def __init__(self) -> None:
        #: References to the objects whose structure has a hash.
        self.alike: dict[int, tuple[weakref.ref[T], ...]] = {}

    def add(self, key: int, made: T) -> T:
        """Keep a new object under the hash of its structure, and return it."""
        reference = weakref.ref(made, lambda dead: self._forget(key, dead))
        self.alike[key] = (*self.alike.get(key, ()), reference)
        return made

    def _forget(self, key: int, dead: weakref.ref[Any]) -> None:
        left = tuple(r for r in self.alike.get(key, ()) if r is not dead)
        if left:
            self.alike[key] = left
        else:
            self.alike.pop(key, None)


def hash_of(value: object) -> int:
    """Return the hash of a value, or of its type if values of that type have none."""
    return hash(type(value)) if type(value).__hash__ is None else hash(value)


_interned: Interned[Expr] = Interned()


class TraceError(MercerError, TypeError):
    """Raised when a method asks a traced value for something only numbers can answer."""


@dataclass(frozen=True)
class Scale:
    """The factor that multiplies the columns of a slot: ``factor * value ** power``.

    ``path`` names the parameter; ``row`` picks a row of a matrix-valued one. ``per_column`` says
    that the parameter holds one value for each column, so that its gradient is a vector.
    """

    path: str
    power: int = -1
    factor: float = 1.0
    row: int | None = None
    per_column: bool = False


@dataclass(frozen=True)
class Slot:
    """Numeric columns that a primitive reads: a view of the data, perhaps centred and scaled.

    With ``on_circle``, a scalar s, each column x is mapped to a circle of diameter 1, as the two
    columns cos(2 s x) / 2 and sin(2 s x) / 2: squared distances become sin^2(s (x - z)).
    ``weights``, scalars >= 0, multiply the squared distances of the columns. ``bits`` says that the
    view is of zeros and ones, packed into words.
    """

    view: Hashable
    scale: Scale | None = None
    centred: bool = False
    on_circle: Expr | None = None
    weights: tuple[Expr, ...] = ()
    bits: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Slots are keys of every cache on the way to the engine: hash them once.
        parts = (self.view, self.scale, self.centred, self.on_circle, self.weights, self.bits)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True)
class Coordinate:
    """A function of two numbers, applied in every column of a slot and reduced over the columns.

    ``degree`` is the degree of the elementary symmetric polynomial of the values: 1 is their sum;
    0 stands for their product.
    """

    slot: Slot
    body: Expr
    degree: int


@dataclass(frozen=True)
class Diagonal:
    """A number for each point: the value of an expression at the pair (point, same point)."""

    body: Expr


@dataclass(frozen=True)
class PointFunction:
    """A number for each point, from a Python function of the data seen through a view."""

    view: Hashable
    function: Callable[[Any], Any]

    def __hash__(self) -> int:
        return hash((self.view, hash_of(self.function)))


def _apply(name: str, *inputs: Any) -> Expr:
    from mercer.program.operations import apply

    return apply(name, *inputs)


def _operator(name: str) -> tuple[Callable[[Any, Any], Expr], Callable[[Any, Any], Expr]]:
    """The methods of an operator of two operands, and of the operator with exchanged operands."""
    return lambda a, b: _apply(name, a, b), lambda a, b: _apply(name, b, a)


def _refusal(reason: str) -> Callable[..., Any]:
    """A method that numbers have and traced values do not."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise TraceError(reason)

    return refuse


class Expr:
    """One node: an operation, its arguments and, for leaves, what they refer to.

    NumPy functions applied to an expression give an expression, so that methods written for arrays
    can be traced. What has no meaning before the numbers are known (a truth value, a conversion to
    an array) raises `TraceError`.
    """

    __slots__ = ("__weakref__", "args", "attr", "cache", "is_pair", "op")
    __array_priority__ = 1000

    op: str
    args: tuple[Expr, ...]
    attr: Any
    is_pair: bool
    #: Cache of results derived from this node, with the lifetime of the node.
    cache: dict[Any, Any]

    def __new__(cls, op: str, args: tuple[Expr, ...] = (), attr: Any = None) -> Expr:
        """Return the one node of this structure."""
        key = hash((op, args, attr))
        for reference in _interned.alike.get(key, ()):
            known = reference()
            # Expressions compare as values, so their identity is asked for.
            if known is None or list(map(id, known.args)) != list(map(id, args)):
                continue
            if known.op == op and (known.attr is attr or known.attr == attr):
                return known
        node = object.__new__(cls)
        node.op, node.args, node.attr, node.cache = op, args, attr, {}
        node.is_pair = any(a.is_pair for a in args) or (op not in _SCALARS and not args)
        return _interned.add(key, node)

    def __copy__(self) -> Expr:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Expr:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self.op, self.args, self.attr)

    def __repr__(self) -> str:
        if self.op == "const":
            return f"{self.attr:g}"
        if self.op == "param":
            path, index = self.attr
            return str(path) + "".join(f"[{i}]" for i in index)
        inside = ", ".join(map(repr, self.args))
        return f"{self.op}({inside})" if self.args else self.op

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("subtract")
    __mul__, __rmul__ = _operator("multiply")
    __truediv__, __rtruediv__ = _operator("divide")
    __pow__, __rpow__ = _operator("power")
    __and__, __rand__ = _operator("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor")
    __lt__, __gt__ = _operator("less")
    __le__, __ge__ = _operator("less_equal")

    def __neg__(self) -> Expr:
        return _apply("negative", self)

    def __pos__(self) -> Expr:
        return self

    def __abs__(self) -> Expr:
        return _apply("absolute", self)

    def __invert__(self) -> Expr:
        return _apply("invert", self)

    # ``x == z`` in a kernel means the comparison of values. Nodes still serve as dictionary keys,
    # because dictionaries compare by identity first.
    __eq__ = _operator("equal")[0]  # type: ignore[assignment]
    __ne__ = _operator("not_equal")[0]  # type: ignore[assignment]
    __hash__ = object.__hash__

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            raise TraceError(f"np.{ufunc.__name__} with these options cannot be traced.")
        return _apply(ufunc.__name__, *inputs)

    def __array_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Trace the few NumPy functions that are no ufuncs, such as ``np.where``."""
        if kwargs:
            raise TraceError(f"np.{func.__name__} with keywords cannot be traced.")
        return _apply(func.__name__, *args)

    __array__ = _refusal("a traced value has no numbers yet and cannot become an array.")
    __bool__ = _refusal("a traced value has no truth value; write np.where(condition, a, b).")
    __float__ = _refusal("a traced value is not a number yet; use NumPy functions, not math's.")
    __int__ = __index__ = __complex__ = __float__
    __iter__ = _refusal("a traced value cannot be iterated over.")
    __len__ = _refusal("a traced value has no length.")
    __getitem__ = _refusal("a traced value cannot be indexed.")


_SCALARS = frozenset({"const", "param"})

#: Leaves that stand for the two sides inside a coordinate function.
X, Z = Expr("x"), Expr("z")
DIFFERENCE = Expr("difference")
#: The adjoint of the root: what the derivative is contracted with.
SEED = Expr("seed")
#: One where both sides are the same row of the same data, zero elsewhere.
IDENTITY = Expr("identity")


def constant(value: float) -> Expr:
    """Return the scalar expression of a number."""
    return Expr("const", (), float(value))


def parameter(path: str, *index: int) -> Expr:
    """Return the leaf of a continuous parameter, or of one entry of an array-valued one."""
    return Expr("param", (), (path, index))


def column_weights(weights: Sequence[Expr]) -> Expr:
    """Return the leaf, inside a coordinate function, of a scalar for each column."""
    return Expr("weight", (), tuple(weights))


def as_expression(value: Any) -> Expr:
    """Turn a number into a constant; refuse what is neither number nor expression."""
    if (isinstance(value, np.ndarray) and value.ndim == 0) or isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Expr):
        return value
    if isinstance(value, bool | int | float):
        return constant(value)
    raise TraceError(f"a {type(value).__name__} cannot be part of a traced expression.")


#: What a cache holds in the place of the expression that it belongs to.
_THE_HOLDER = object()


def cached_on_root(function: Callable[P, R]) -> Callable[P, R]:
    """Cache results on the expression they are derived from (the first argument, or its first).

    A separate cache would keep kernels, and the matrices and functions they hold, alive. So would a
    cycle, until it is found: the cache of an expression does not hold the expression itself.
    """

    @wraps(function)
    def remembered(*args: P.args, **kwargs: P.kwargs) -> R:
        root, *rest = cast(tuple[Any, ...], args)
        holder, *others = (root,) if isinstance(root, Expr) else root or (None,)
        if holder is None:
            return function(*args, **kwargs)
        key = (function, *others, *rest)
        if key not in holder.cache:
            result = function(*args, **kwargs)
            holder.cache[key] = _THE_HOLDER if result is holder else result
        cached = holder.cache[key]
        return cast(R, holder if cached is _THE_HOLDER else cached)

    return remembered


def walk(roots: tuple[Expr, ...], known: object = None) -> list[Expr]:
    """Return every node below the roots, or above nodes whose cache has a key; arguments first."""
    order: list[Expr] = []
    seen: set[Expr] = set()
    waiting: set[Expr] = set()  # nodes whose arguments come first
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        if node in waiting or not node.args or known in node.cache:
            seen.add(node)
            order.append(node)
        else:
            waiting.add(node)
            stack.append(node)
            stack.extend(reversed(node.args))
    return order


@cached_on_root
def joint(roots: tuple[Expr, ...]) -> Expr:
    """One node for several expressions, so that they are rewritten together."""
    return Expr("joint", roots, len(roots))


def substitute(
    root: Expr, replace: Callable[[Expr], Expr | None], *, remember: bool = False
) -> Expr:
    """Rebuild an expression with some of its nodes replaced (``replace`` returns None to keep).

    With ``remember``, each node keeps its result for the next expression that holds the node.
    """
    from mercer.program.operations import rebuild

    done: dict[Expr, Expr] = {}
    for node in walk((root,), replace if remember else None):
        new = node.cache.get(replace) if remember else None
        if new is None:
            new = replace(node)
        if new is None:
            args = tuple([done[a] for a in node.args])
            changed = any(map(operator.is_not, args, node.args))
            new = rebuild(node, args) if changed else node
        if remember:
            node.cache[replace] = _THE_HOLDER if new is node else new
        done[node] = node if new is _THE_HOLDER else new
    return done[root]
