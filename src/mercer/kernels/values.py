"""Values of parameters: plain numbers and arrays, and the statements `Fixed` and `Bounded`."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mercer.exceptions import ParameterError

__all__ = ["Bounded", "Fixed"]

Array: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

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
    return hash(value)


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


def numeric(subject: str, value: object, remedy: str) -> float | Array:
    """Convert ``value`` to a float or a read-only float64 array, or say why that is impossible."""
    array = to_float(value)
    if array is None:
        raise ParameterError(f"{subject} = {shorten(value)} is not a number; {remedy}.")
    if array.size == 0:
        raise ParameterError(f"{subject} = {shorten(value)} is empty; {remedy}.")
    if np.isnan(array).any():
        raise ParameterError(f"{subject} = {shorten(array)} is not finite; {remedy}.")
    return float(array) if array.ndim == 0 else read_only(array)


@dataclass(frozen=True, eq=False, repr=False)
class _Value:
    """A starting value with a statement about learning: equal by value, rebuilt by its repr."""

    value: Any

    def __post_init__(self) -> None:
        name = type(self).__name__
        is_heuristic = isinstance(self.value, str)
        value = self.value if is_heuristic else numeric(f"{name}: value", self.value, _REMEDY)
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


_REMEDY = "pass a number or an array of numbers"


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
    >>> from mercer.kernels.values import Fixed
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
    >>> from mercer.kernels.values import Bounded
    >>> Bounded(1, 0.1, 10)
    Bounded(1.0, 0.1, 10.0)
    """

    low: Any
    high: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("low", "high"):
            bound = numeric(f"Bounded: {name}", getattr(self, name), "pass a number")
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
        if not isinstance(self.value, str) and not self._contains(self.value):
            raise ParameterError(
                f"Bounded: value = {shorten(self.value)} does not satisfy "
                f"{shorten(self.low)} <= value <= {shorten(self.high)}; "
                "pass a value inside the bounds, or wider bounds."
            )

    def _contains(self, value: Any) -> bool:
        return bool(np.all((self.low <= value) & (value <= self.high)))
