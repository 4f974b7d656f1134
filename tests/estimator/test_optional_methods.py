"""Methods that only some configurations of an estimator have."""

from __future__ import annotations

import inspect

import pytest

from mercer.estimator.optional_methods import available_unless


class Model:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    @available_unless(lambda model: "factor is 0" if model.factor == 0 else None)
    def scaled(self, value: float) -> float:
        """The value times the factor."""
        return self.factor * value


def test_a_method_is_there_unless_there_is_a_reason() -> None:
    assert Model(2.0).scaled(3.0) == 6.0
    assert not hasattr(Model(0.0), "scaled")
    with pytest.raises(AttributeError, match=r"^This Model has no scaled: factor is 0\.$"):
        Model(0.0).scaled(3.0)


def test_the_class_has_its_signature_and_docstring() -> None:
    assert list(inspect.signature(Model.scaled).parameters) == ["self", "value"]
    assert Model.scaled.__doc__ == "The value times the factor."
