"""Methods that some configurations of an estimator do not have, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

Method = Callable[..., Any]


class _Offered:
    """A method that is there unless a reason speaks against it."""

    def __init__(self, method: Method, why_not: Callable[[Any], str | None]) -> None:
        self.method, self.why_not = method, why_not
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type[Any]) -> Any:
        if model is None:  # asked for its signature
            return self.method
        reason = self.why_not(model)
        if reason is not None:
            name = self.method.__name__
            raise AttributeError(
                f"This {owner.__name__} has no {name}: {reason}.", name=name, obj=model
            )
        return MethodType(self.method, model)


def offered_unless(why_not: Callable[[Any], str | None]) -> Callable[[Method], Any]:
    """Hide a method from estimators that cannot have it; to ask for it then tells why."""
    return lambda method: _Offered(method, why_not)
