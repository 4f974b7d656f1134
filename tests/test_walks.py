"""A fit goes through few functions in few files, and no public class has too many methods."""

from __future__ import annotations

import functools
import inspect
import types

import pytest
from benchmarks.walks import take, walks

import mercer as mc

# Walk: the most functions, and the most files that they are in.
LIMITS = {
    'KernelRidge(RBF(), alpha="loo").fit': (160, 25),
    "SVC(RBF()).fit": (160, 22),
    "GaussianProcessRegressor().fit": (250, 30),
}
MEMBERS = 60
KINDS = (
    types.FunctionType,
    classmethod,
    staticmethod,
    property,
    functools.cached_property,
)


@pytest.fixture(autouse=True)
def every_allocation_is_forecast() -> None:
    """Take the walks as users do: the system is not asked for small allocations."""


@pytest.mark.parametrize("name", LIMITS)
def test_a_walk_stays_within_its_limits(name: str) -> None:
    walk = take(walks()[name])
    functions, files = LIMITS[name]
    assert len(walk.functions) <= functions
    assert len(walk.files) <= files


def public_classes() -> dict[str, type]:
    """Return the classes of `mercer`, and those of the modules that it exports."""
    classes = {}
    for name in mc.__all__:
        value = getattr(mc, name)
        owners = {name: value}
        if inspect.ismodule(value):
            owners = {f"{name}.{inner}": getattr(value, inner) for inner in value.__all__}
        classes |= {path: owner for path, owner in owners.items() if inspect.isclass(owner)}
    return classes


def members(cls: type) -> set[str]:
    """Return the names of methods and properties, of the class and of its bases in mercer."""
    return {
        name
        for base in cls.__mro__
        if base.__module__.split(".")[0] == "mercer"
        for name, value in vars(base).items()
        if isinstance(value, KINDS)
    }


@pytest.mark.parametrize("path", public_classes())
def test_a_public_class_has_few_members(path: str) -> None:
    assert len(members(public_classes()[path])) <= MEMBERS
