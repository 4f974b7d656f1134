"""Methods that only some configurations of an estimator have."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

Method = Callable[..., Any]


class _Available:
    """A method that an instance has unless ``why_not`` returns a reason."""

    def __init__(self, method: Method, why_not: Callable[[Any], str | None]) -> None:
        self.method, self.why_not = method, why_not
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type[Any]) -> Any:
        if model is None:  # read on the class, for its signature
            return self.method
        reason = self.why_not(model)
        if reason is not None:
            name = self.method.__name__
            raise AttributeError(
                f"This {owner.__name__} has no {name}: {reason}.", name=name, obj=model
            )
        return MethodType(self.method, model)


def available_unless(why_not: Callable[[Any], str | None]) -> Callable[[Method], Any]:
    """Hide a method from estimators that cannot have it; the AttributeError states the reason."""
    return lambda method: _Available(method, why_not)
