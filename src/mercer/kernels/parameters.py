"""Parameters are declared once, as class attributes, and validated whenever they are set.

A *declaration* (`Positive`, `NonNegative`, `Real`, `Integer`, `Choice`) says which values a
parameter may take and how a continuous one is mapped to the unconstrained line for learning. A
*value* is a plain number or array, which is a starting value, or `Fixed` (held) or `Bounded`
(learned within bounds). `mercer.kernels.tree` builds the objects that carry them.
"""

from __future__ import annotations

import math
import numbers
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from inspect import Parameter
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.exceptions import ParameterError

REQUIRED: Any = Parameter.empty


Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

#: Entries of a long array that its hash reads.
_HASHED_ENTRIES = 256


def show(value: object) -> str:
    """Return source text that evaluates to ``value``: arrays as lists, infinity spelled out."""
    if isinstance(value, np.ndarray):
        return show(value.tolist())
    if isinstance(value, list):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, float) and np.isinf(value):
        return f'float("{value}")'
    return repr(value)


#: Texts in quotes, lists without lists inside, and numbers with a point or an exponent.
_PARTS = re.compile(r"""'[^']*'|"[^"]*"|\[[^\[\]'"]*\]|\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+""")
#: Numbers of a list that are shown at its beginning, if it has more than twice as many.
_SHOWN = 4


def abbreviate(text: str) -> str:
    """Source text with four digits of each number, and few numbers of each list."""

    def short(match: re.Match[str]) -> str:
        part = match.group()
        if part[0] in "'\"":
            return part
        if part[0] == "[":
            items = [abbreviate(item) for item in part[1:-1].split(", ")]
            if len(items) > 2 * _SHOWN:
                items = [*items[:_SHOWN], "...", items[-1]]
            return f"[{', '.join(items)}]"
        rounded = f"{float(part):.4g}"
        return part if float(rounded) == float(part) else rounded

    return _PARTS.sub(short, text)


def same(a: object, b: object) -> bool:
    """Return whether two stored values are equal, arrays by content."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def digest(value: object) -> int:
    """Return a hash that agrees with `same`; of a long array it reads only the beginning."""
    if isinstance(value, np.ndarray):
        return hash((value.shape, tuple(value.flat[:_HASHED_ENTRIES].tolist())))
    if isinstance(value, tuple):
        return hash(tuple(map(digest, value)))
    return hash(type(value)) if type(value).__hash__ is None else hash(value)


def plain(stored: Any) -> Any:
    """Return a stored value without its `Fixed` or `Bounded`."""
    return stored.value if isinstance(stored, Fixed | Bounded) else stored


def read_only(value: Any) -> Any:
    """Return ``value``, made read-only if it is an array."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    return value


def shorten(value: object) -> str:
    """Return the source text of a value, cut where it is too long for a sentence."""
    is_long = isinstance(value, np.ndarray) and value.size > 100
    text = repr(value) if is_long else show(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def to_float(value: object) -> Array | None:
    """Convert real numbers, nested or not, to a new float64 array; None if they are not that."""
    if type(value) is float:
        return np.asarray(value + 0.0)
    try:
        if not (isinstance(value, np.ndarray) and value.dtype.kind in "iuf"):
            value = np.asarray(value, dtype=object)
            if any(isinstance(v, bool) or not isinstance(v, numbers.Real) for v in value.flat):
                return None
        # Adding zero copies, and turns -0.0 into 0.0, so that equal values have equal hashes.
        return np.asarray(np.asarray(value, dtype=np.float64) + 0.0)
    except (OverflowError, ValueError):
        return None


def numeric(subject: str, value: object, remedy: Callable[[], str]) -> float | Array:
    """Convert ``value`` to a float or a read-only float64 array, or say why that is impossible."""
    array = to_float(value)
    if array is None:
        raise ParameterError(f"{subject} = {shorten(value)} is not a number; {remedy()}.")
    if array.size == 0:
        raise ParameterError(f"{subject} = {shorten(value)} is empty; {remedy()}.")
    if np.isnan(array).any():
        raise ParameterError(f"{subject} = {shorten(array)} is not finite; {remedy()}.")
    return float(array) if array.ndim == 0 else read_only(array)


@dataclass(frozen=True, eq=False, repr=False)
class _Value:
    """A starting value with a statement about learning: equal by value, rebuilt by its repr."""

    value: Any

    def __post_init__(self) -> None:
        if not isinstance(self.value, str):  # a heuristic
            remedy = "pass a number or an array of numbers"
            value = numeric(f"{type(self).__name__}: value", self.value, lambda: remedy)
            object.__setattr__(self, "value", value)

    def _fields(self) -> tuple[Any, ...]:
        return tuple(getattr(self, field.name) for field in fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Value):
            return NotImplemented
        return type(self) is type(other) and same(self._fields(), other._fields())

    def __hash__(self) -> int:
        return hash((type(self).__name__, digest(self._fields())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(show, self._fields()))})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, because NumPy's pickles and deep copies are writeable.
        return type(self), self._fields()


class Fixed(_Value):
    """A value that is held: nothing learns it.

    It stays held when a plain number replaces it. A heuristic such as ``"median"`` is allowed
    where the parameter allows it, and is held once it is resolved.

    Parameters
    ----------
    value : float, array-like or str
        The value.

    Examples
    --------
    >>> from mercer.kernels.parameters import Fixed
    >>> Fixed(2)
    Fixed(2.0)
    """


@dataclass(frozen=True, eq=False, repr=False)
class Bounded(_Value):
    """A value that is learned within ``low <= value <= high``.

    Parameters
    ----------
    value : float, array-like or str
        The starting value, or a heuristic where the parameter allows it.
    low, high : float or array-like
        The bounds, ``low < high``: one for all entries, or one for each.

    Examples
    --------
    >>> from mercer.kernels.parameters import Bounded
    >>> Bounded(1, 0.1, 10)
    Bounded(1.0, 0.1, 10.0)
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            bound = numeric(f"Bounded: {name}", getattr(self, name), lambda: "pass a number")
            object.__setattr__(self, name, bound)
        shape = () if isinstance(self.value, str) else np.shape(self.value)
        if not {np.shape(self.low), np.shape(self.high)} <= {(), shape}:
            raise ParameterError(
                f"Bounded: low and high have shapes {np.shape(self.low)} and "
                f"{np.shape(self.high)}, and the value has shape {shape}; "
                "pass one bound for all entries, or one for each."
            )
        if not np.all(np.less(self.low, self.high)):
            raise ParameterError(
                f"Bounded: low = {shorten(self.low)}, high = {shorten(self.high)} do not "
                "satisfy low < high; pass wider bounds, or Fixed(value) to hold the value."
            )
        if isinstance(self.value, str):
            return
        if not np.all((self.low <= self.value) & (self.value <= self.high)):
            raise ParameterError(
                f"Bounded: value = {shorten(self.value)} does not satisfy "
                f"{shorten(self.low)} <= value <= {shorten(self.high)}; "
                "pass a value inside the bounds, or wider bounds."
            )


# Types of the constructors of built-in kernels, for editors and type checkers.
Scalar: TypeAlias = float | Fixed | Bounded
Vector: TypeAlias = Scalar | Sequence[float] | Sequence[Sequence[float]] | npt.NDArray[Any]
Length: TypeAlias = Vector | Literal["median", "scale", "columns"]
Weight: TypeAlias = Vector | Literal["scale"]
Gain: TypeAlias = Scalar | Literal["scale"]


class Declaration(ABC):
    """What values a parameter may take. As a class attribute it reads the instance's value."""

    name: str = "parameter"

    #: Whether the parameter is a plain Python value: never traced, never in theta.
    concrete: bool = True

    def __init__(self, default: Any = REQUIRED) -> None:
        self.default = default

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> Any:
        return self if instance is None else plain(instance._values[self.name])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.required else show(self.default)})"

    @property
    def required(self) -> bool:
        """Whether the parameter has no default."""
        return self.default is REQUIRED

    @abstractmethod
    def validate(self, owner: str, given: object) -> Any:
        """Return what is stored for ``given``, or raise a ParameterError in ``owner``'s name."""

    def free(self, stored: Any) -> Mask:
        """Return which entries of the stored value are learned, in the shape of the value."""
        return np.zeros((), dtype=np.bool_)

    def _refuse_wrapped(self, owner: str, given: object) -> None:
        if isinstance(given, Fixed | Bounded):
            raise ParameterError(
                f"{owner}: {self.name} = {given} is never learned, so it is neither fixed nor "
                f"bounded; pass the plain value ({self.name}={show(given.value)})."
            )


class Continuous(Declaration):
    """A real number or array, with a map to the unconstrained line."""

    _noun: str

    def __init__(
        self,
        default: Any = REQUIRED,
        *,
        ndim: int = 0,
        per_column: bool = False,
        heuristics: Sequence[str] = (),
        allow_infinity: bool = False,
        learned: bool = True,
    ) -> None:
        super().__init__(default)
        self.ndim = max(ndim, int(per_column))
        self.per_column = per_column
        self.heuristics = tuple(heuristics)
        self.allow_infinity = allow_infinity
        self.learned, self.concrete = learned, not learned

    def validate(self, owner: str, given: object) -> Any:
        """Return the float, read-only array, heuristic, `Fixed` or `Bounded` to store."""
        if type(given) is float and math.isfinite(given) and self._satisfied(given):
            return given + 0.0  # turns -0.0 into 0.0
        if not isinstance(given, Fixed | Bounded):
            value = self._validate_plain(owner, given)
            return float(value[0]) if self._is_one(value) else value  # type: ignore[index]
        if not self.learned:
            self._refuse_wrapped(owner, given)
        if self._is_one(given.value):
            given = type(given)(*(np.squeeze(part) for part in given._fields()))
        self._validate_plain(owner, given.value)
        with np.errstate(invalid="ignore", divide="ignore"):
            outside = isinstance(given, Bounded) and np.isnan(self.to_theta(given.low)).any()
        if outside:
            raise ParameterError(
                f"{owner}: {self.name} = {given} has a low bound that does not satisfy "
                f"{self.name} >= 0; pass a bound of at least 0."
            )
        return given

    def _is_one(self, value: Any) -> bool:
        """Whether a list of one number for each column is one number for all columns."""
        return self.per_column and np.shape(value) == (1,)

    def _validate_plain(self, owner: str, given: object) -> float | Array | str:
        if isinstance(given, str) and given in self.heuristics:
            return str(given)
        subject = f"{owner}: {self.name}"
        value = numeric(subject, given, self._remedy)
        dimensions = np.ndim(value)
        if dimensions > self.ndim:
            most = f"has at most {self.ndim} dimension{'s' * (self.ndim > 1)}"
            rule = most if self.ndim else "is a single number"
            raise ParameterError(
                f"{subject} = {shorten(value)} is an array of {dimensions} "
                f"dimension{'s' * (dimensions > 1)}, but {self.name} {rule}; {self._remedy()}."
            )
        if not self.allow_infinity and not np.all(np.isfinite(value)):
            raise ParameterError(f"{subject} = {shorten(value)} is not finite; {self._remedy()}.")
        if not np.all(self._satisfied(value)):
            raise ParameterError(
                f"{subject} = {shorten(value)} does not satisfy {self._rule()}; {self._remedy()}."
            )
        return value

    def _remedy(self) -> str:
        forms = [self._noun]
        if self.per_column:
            forms.append("one per column")
        elif self.ndim:
            several = f"an array of at most {self.ndim} dimensions"
            forms.append("a list of them" if self.ndim == 1 else several)
        forms += map(repr, self.heuristics)
        return f"pass {' or '.join(forms)} (for example {self.name}={show(self._example())})"

    def _example(self) -> Any:
        """A value that is allowed: the default, unless it is a heuristic or not allowed itself."""
        default = plain(self.default)
        value = None if self.required or isinstance(default, str) else to_float(default)
        if value is None or not value.size or value.ndim > self.ndim:
            return 1.0
        allowed = np.isfinite(value) & self._satisfied(value)
        return value.tolist() if np.all(allowed) else 1.0

    def free(self, stored: Any) -> Mask:
        value = plain(stored)
        if isinstance(value, str):  # a heuristic that waits for data
            return np.zeros((), dtype=np.bool_)
        if not self.learned or isinstance(stored, Fixed):
            return np.zeros(np.shape(value), dtype=np.bool_)
        with np.errstate(divide="ignore"):
            return np.asarray(np.isfinite(self.to_theta(value)))

    @abstractmethod
    def _rule(self) -> str: ...

    @abstractmethod
    def _satisfied(self, value: float | Array) -> Mask: ...

    @abstractmethod
    def to_theta(self, value: Any) -> Array:
        """Return the unconstrained coordinate of ``value``."""

    @abstractmethod
    def from_theta(self, theta: Any) -> Array:
        """Return the value at the unconstrained coordinate ``theta``."""

    @abstractmethod
    def slope(self, value: Any) -> Array:
        """Return d value / d theta at ``value``."""


class _Logarithmic(Continuous):
    """Learned on the logarithmic scale: theta = log(value), so d value / d theta = value."""

    def to_theta(self, value: Any) -> Array:
        return np.asarray(np.log(value))

    def from_theta(self, theta: Any) -> Array:
        return np.asarray(np.exp(theta))

    def slope(self, value: Any) -> Array:
        return np.asarray(value, dtype=np.float64)


class Positive(_Logarithmic):
    """A parameter > 0, learned as its logarithm. See `Continuous` for the options.

    Examples
    --------
    >>> from mercer.kernels.parameters import Positive
    >>> Positive(1.0, per_column=True, heuristics=("median", "scale")).validate("RBF", 2)
    2.0
    """

    _noun = "a positive number"

    def _rule(self) -> str:
        return f"{self.name} > 0"

    def _satisfied(self, value: float | Array) -> Mask:
        return np.greater(value, 0)


class NonNegative(_Logarithmic):
    """A parameter >= 0, learned as its logarithm; an entry at 0 stays there.

    See `Continuous` for the options.

    Examples
    --------
    >>> from mercer.kernels.parameters import NonNegative
    >>> NonNegative(ndim=1).free([0.0, 2.0]).tolist()
    [False, True]
    """

    _noun = "a number >= 0"

    def _rule(self) -> str:
        return f"{self.name} >= 0"

    def _satisfied(self, value: float | Array) -> Mask:
        return np.greater_equal(value, 0)


class Real(Continuous):
    """Any real parameter, learned as it is. See `Continuous` for the options.

    Examples
    --------
    >>> from mercer.kernels.parameters import Real
    >>> Real(0.0, ndim=1).validate("Sigmoid", [1, -2]).tolist()
    [1.0, -2.0]
    """

    _noun = "a real number"

    def _rule(self) -> str:
        return f"{self.name} real"

    def _satisfied(self, value: float | Array) -> Mask:
        return np.logical_not(np.isnan(value))

    def to_theta(self, value: Any) -> Array:
        return np.asarray(value, dtype=np.float64)

    def from_theta(self, theta: Any) -> Array:
        return np.asarray(theta, dtype=np.float64)

    def slope(self, value: Any) -> Array:
        return np.ones(np.shape(value))


class Integer(Declaration):
    """An integer parameter with ``low <= value <= high``; concrete, never learned.

    Parameters
    ----------
    default : int, optional
        The default; without it the parameter is required.
    low, high : int, optional
        The limits, both allowed values.

    Examples
    --------
    >>> from mercer.kernels.parameters import Integer
    >>> Integer(2, low=1).validate("Polynomial", 3)
    3
    """

    def __init__(
        self, default: Any = REQUIRED, low: int | None = None, high: int | None = None
    ) -> None:
        super().__init__(default)
        if low is not None and high is not None and low > high:
            raise ParameterError(
                f"Integer: low = {low}, high = {high} do not satisfy low <= high; pass limits "
                "with an integer between them."
            )
        self.low = low
        self.high = high

    def validate(self, owner: str, given: object) -> int:
        """Return the Python int to store."""
        self._refuse_wrapped(owner, given)
        subject = f"{owner}: {self.name} = {shorten(given)}"
        if not isinstance(given, numbers.Integral) or isinstance(given, bool):
            raise ParameterError(f"{subject} is not an integer; {self._remedy()}.")
        value = int(given)
        if not self._allows(value):
            raise ParameterError(f"{subject} does not satisfy {self._rule()}; {self._remedy()}.")
        return value

    def _rule(self) -> str:
        if self.low is None:
            return f"{self.name} <= {self.high}"
        if self.high is None:
            return f"{self.name} >= {self.low}"
        return f"{self.low} <= {self.name} <= {self.high}"

    def _remedy(self) -> str:
        candidates = (self.default, self.low, self.high, 1)
        example = next(c for c in candidates if isinstance(c, int) and self._allows(c))
        return f"pass an integer (for example {self.name}={example})"

    def _allows(self, value: int) -> bool:
        above = self.low is None or value >= self.low
        return above and (self.high is None or value <= self.high)


class Choice(Declaration):
    """One of a few options; concrete, never learned.

    Parameters
    ----------
    default : object
        The default; ``inspect.Parameter.empty`` makes the parameter required.
    options : sequence of hashable
        The allowed values.

    Examples
    --------
    >>> from mercer.kernels.parameters import Choice
    >>> Choice("sum", ("sum", "product")).validate("Coordinate", "product")
    'product'
    """

    def __init__(self, default: Any = REQUIRED, options: Sequence[Hashable] = ()) -> None:
        super().__init__(default)
        self.options = tuple(options)
        if not self.options:
            raise ParameterError(
                "Choice: options = () holds nothing to choose from; pass the allowed values."
            )

    def validate(self, owner: str, given: object) -> Any:
        """Return the option that equals ``given``."""
        self._refuse_wrapped(owner, given)
        is_hashable = type(given).__hash__ is not None
        for option in self.options if is_hashable else ():
            # 1 == True in Python, but a count is not a switch.
            alike = isinstance(option, bool) == isinstance(given, bool | np.bool_)
            if alike and option == given:
                return option
        listed = ", ".join(map(repr, self.options))
        example = self.default if self.default in self.options else self.options[0]
        raise ParameterError(
            f"{owner}: {self.name} = {shorten(given)} is not one of {listed}; "
            f"pass one of them (for example {self.name}={example!r})."
        )


class Part(Declaration):
    """Structure that belongs to an object's value but is no parameter.

    Columns and functions are parts: they count for equality, hash, repr, pickle and the
    constructor, and do not appear in ``parameters()`` or ``get_params()``.
    """

    def validate(self, owner: str, given: object) -> Any:
        """Return ``given`` as it is: the class that declares a part checks it."""
        return given


class Child(Part):
    """One object inside another; its parameters keep their names."""


class Children(Part):
    """A tuple of objects inside another; the parameters of each are under the name of its kind."""
