"""A fit goes through few functions in few files, and no public class has too many methods."""

from __future__ import annotations

import functools
import inspect
import re
import types
from pathlib import Path

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


def test_the_design_shows_the_walks_as_they_are() -> None:
    page = (Path(__file__).parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    for name, call in walks().items():
        (row,) = re.findall(rf"^\| `{re.escape(name)}` \|(.*)\|$", page, re.MULTILINE)
        _, functions, files, _ = (int(entry.replace(",", "")) for entry in row.split("|"))
        walk = take(call)
        # Versions of Python and scikit-learn differ in a few functions.
        assert len(walk.functions) == pytest.approx(functions, abs=4), name
        assert len(walk.files) == pytest.approx(files, abs=1), name


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
