"""Checks of parameters that are numbers, counts, flags or choices, of names, and of ranges of data.

Every check of a parameter raises a `ParameterError` that states the owner, the value, the rule and
an example. Those of weights and targets raise a `DataError`. An unknown name of an argument, an
attribute or a member of a module is answered with the nearest known one, or with what to write.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Collection, Iterable
from functools import partial
from numbers import Integral, Real
from types import FunctionType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import (
    DataError,
    ParameterError,
    ParameterTypeError,
    UnknownAttributeError,
)

# Largest ratio of two positive weights.
_LARGEST_RATIO = 1e12
# Range of the largest absolute target: squares of others, with factors, may leave float64.
_LEAST_TARGET, _LARGEST_TARGET = 1e-100, 1e100

# Least likeness, from 0 to 1, of an attribute that may have been meant: predict_proba is not
# predict.
_LIKENESS = 0.75

#: Names of parameters in scikit-learn, and those here.
_RENAMED = {"alpha": "noise", "n_components": "n_landmarks", "n_restarts_optimizer": "n_restarts"}
#: What to do in place of a parameter that other libraries have.
_ELSEWHERE = {
    "n_jobs": "use mercer.threads(n), which sets the number of threads.",
    "verbose": "call set_callbacks(sklearn.callback.ProgressBar()), which shows the progress.",
    "optimizer": "write learn=False to keep the kernel as it is (optimizer=None).",
    "C": "its name is alpha, which is 1 / C.",
    "kernel_params": "write them in a kernel object, such as mercer.Matern(nu=2.5).",
    "n_targets": "leave it out: y tells the number of targets.",
    "copy_X_train": "leave it out: models always keep copies.",
    "class_weight": "pass the weights of the rows to fit, as sample_weight.",
}
#: Parameters without which the advice above does not help.
_NEEDED = {"optimizer": "learn", "C": "alpha", "verbose": "kernel", "class_weight": "kernel"}

#: Names of attributes in scikit-learn, and those here.
_RENAMED_ATTRIBUTES = {"X_fit_": "points_", "X_train_": "points_"}

#: Parameters of models that are looked for in a search over models.
_OF_MODELS = ("kernel", "degree", "gamma", "coef0", "class_weight", "probability", "solver")


def hide_bases(cls: type) -> None:
    """Take the names of base classes, which users have not seen, from Python's own errors.

    These call an inherited method by its ``__qualname__``.
    """
    for base in cls.__mro__[1:]:
        members = vars(base).values() if base.__module__.startswith("mercer.") else ()
        for member in members:
            while isinstance(member, FunctionType):
                member.__qualname__ = member.__name__
                member = getattr(member, "__wrapped__", None)


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """The known name that is most like a name, whatever their cases and underscores."""
    plain = {_plain(other): other for other in known}
    close = difflib.get_close_matches(_plain(name), plain, 1, likeness)
    return plain[close[0]] if close else None


def _plain(name: str) -> str:
    return name.lower().replace("_", "")


class KnownAttributes:
    """Base of classes that answer an attribute which they lack with advice."""

    if not TYPE_CHECKING:  # a checker would take any name as known

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or hasattr(type(self), name):  # or a property that raised
                return object.__getattribute__(self, name)
            raise UnknownAttributeError(partial(unknown_attribute, self, name))


def unknown_attribute(owner: object, name: str, also: Iterable[str] = ()) -> str:
    """The message for an attribute that an object lacks; it may know others than its own."""
    cls = type(owner)
    fitted = {n for base in cls.__mro__ for n in vars(base).get("__annotations__", ())}
    fitted = {n for n in fitted if n.endswith("_") and not n.startswith("_")}
    message = f"{cls.__name__} has no attribute {name!r}"
    if name in fitted:
        if fitted.isdisjoint(vars(owner)):
            return f"{message} before it is fitted; call fit first."
        return f"{message}: a fit with these parameters does not set it."
    known = [*fitted, *also, *(n for n in dir(owner) if not n.startswith("_"))]
    near = _RENAMED_ATTRIBUTES.get(name) or nearest(name, known, _LIKENESS)
    return f"{message}; did you mean {near}?" if near in known else f"{message}."


def unknown_member(
    module: str, name: str, known: Iterable[str], advice: str = ""
) -> UnknownAttributeError:
    """The error for a name that a module lacks."""
    near = nearest(name, known, _LIKENESS)
    advice = advice or (f"did you mean {near}?" if near else "")
    message = f"module {module!r} has no attribute {name!r}"
    return UnknownAttributeError(f"{message}; {advice}" if advice else f"{message}.")


class NamedArguments(KnownAttributes):
    """Base of classes whose constructors refuse an unknown name with advice."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:  # noqa: D102
        code = getattr(cls.__init__, "__code__", None)
        if code is None or code.co_flags & inspect.CO_VARKEYWORDS:  # takes names of others
            return super().__new__(cls)
        known = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        for name in kwargs.keys() - set(known):
            advice = f"its name is {_RENAMED[name]}." if _RENAMED.get(name) in known else ""
            if name in _ELSEWHERE and _NEEDED.get(name) in (None, *known):
                advice = _ELSEWHERE[name]
            if name in _OF_MODELS and "estimator" in known:
                advice = f"it belongs to the model; write estimator=mercer.SVC({name}=...)."
            raise ParameterTypeError(unknown_name(cls.__name__, name, known, advice))
        return super().__new__(cls)


def unknown_name(owner: str, name: str, known: Iterable[str], advice: str = "") -> str:
    """The message for a name that is not among the parameters."""
    known = list(known)
    near = nearest(name, known)
    if near and not advice:
        advice = f"did you mean {near}?"
    the = f"{advice} The" if advice else "the"
    if not known:
        advice = advice or "there are none."
    elif not advice or len(known) > 1:
        advice = f"{the} parameter{' is' if len(known) == 1 else 's are'} {listed(known)}."
    return f"{owner}: {name} is not a parameter; {advice}"


def listed(names: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(names) or "none"


def is_number(value: object) -> bool:
    """Whether a value is a real number that is not a flag; it may be infinite."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_finite(value: object) -> bool:
    """Whether a value is a finite real number that is not a flag."""
    return is_number(value) and math.isfinite(value)  # type: ignore[arg-type]


def is_count(value: object, least: int = 1) -> bool:
    """Whether a value is a whole number of at least ``least``, and not a flag."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and int(value) >= least  # type: ignore[call-overload]


def require_number(
    owner: str,
    name: str,
    value: Any,
    *,
    high: float = float(np.finfo(np.float64).max),
    closed: bool = False,
    example: object = 1.0,
) -> float:
    """Return a number > 0 (>= if ``closed``) and <= ``high``; infinity only if high is."""
    inside = is_number(value) and value <= high and (value > 0 or (closed and value == 0))
    if not inside:
        rule = ">= 0" if closed else "> 0"
        rule = rule if high > 1e300 else f"{rule} and <= {high:g}"
        kind = "a number" if math.isinf(high) else "a finite number"
        raise ParameterError(
            f"{owner}: {name} = {value!r} is not {kind} {rule}; pass for example {example}."
        )
    return float(value)


def require_count(
    owner: str, name: str, value: Any, *, least: int = 1, example: object = 100
) -> int:
    """Return a whole number of at least ``least``."""
    if not is_count(value, least):
        raise ParameterError(
            f"{owner}: {name} = {value!r} is not a whole number >= {least}; pass for example "
            f"{example}."
        )
    return int(value)


def require_flags(model: object, *names: str) -> None:
    """Refuse parameters of a model that are neither True nor False: "no" would count as True."""
    for name in names:
        value = getattr(model, name)
        if not isinstance(value, bool | np.bool_):
            raise ParameterError(
                f"{type(model).__name__}: {name} = {value!r} is neither True nor False; "
                "pass one of them."
            )


def require_choice(owner: str, name: str, value: Any, options: Collection[Any]) -> None:
    """Refuse a value that is not one of a few options; True is not 1."""
    flag = isinstance(value, bool)
    same = [o for o in options if isinstance(value, type(o)) and flag is isinstance(o, bool)]
    if value not in same:
        raise ParameterError(
            f"{owner}: {name} = {value!r} is unknown; pass one of {', '.join(map(repr, options))}."
        )


def require_weight_range(owner: str, low: float, high: float) -> None:
    """Refuse positive weights whose ratio is so large that rounding hides the smallest ones."""
    if low < high / _LARGEST_RATIO:
        raise DataError(
            f"{owner}: positive sample weights reach from {low:.3g} to {high:.3g}, a ratio above "
            f"{_LARGEST_RATIO:g}; set weights that are negligible to 0."
        )


def require_target_range(owner: str, largest: float | Array) -> None:
    """Refuse targets, by the largest absolute value of each, with squares near the ends of float64.

    Targets that are all 0 are allowed.
    """
    sizes = np.atleast_1d(largest)
    outside = sizes[(sizes > 0) & ~((sizes >= _LEAST_TARGET) & (sizes <= _LARGEST_TARGET))]
    if len(outside):
        raise DataError(
            f"{owner}: the largest target is {outside[0]:.3g} in absolute value, and "
            f"squares of targets below {_LEAST_TARGET:g} or above {_LARGEST_TARGET:g} can leave "
            "the range of float64; divide y by a constant."
        )


def require_finite_values(values: Array, kernel: object, owner: str = "") -> Array:
    """The values of a kernel; NaN and infinity are refused."""
    with np.errstate(over="ignore", invalid="ignore"):  # of infinities
        is_finite = np.isfinite(values.sum())
    if is_finite:
        return values
    if np.isinf(values).any() or not np.isnan(values).any():
        reason = "infinity; scale the data, or use a kernel that grows less fast"
    else:
        reason = (
            "NaN: its formula has no value for some pairs of rows (a logarithm or a root of a "
            "negative number, or 0 / 0); mend the formula, or pass data that it is made for"
        )
    raise DataError(f"{owner}{kernel!r} gives {reason}.")
