"""Imports at the heads of modules point down the layers; folders stay small."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import mercer

SOURCE = Path(mercer.__file__).parent
TESTS = Path(__file__).parent

#: The layers from bottom to top. A module belongs to the longest name that its own begins with.
LAYERS = (
    ("arrays", "exceptions", "checks", "parallel", "memory", "sampling", "_core"),
    ("linalg",),
    ("program",),
    ("maps",),
    ("kernels",),
    ("gram",),
    ("validity",),
    ("losses", "penalties"),
    ("rows",),
    ("streams",),
    ("estimator",),
    ("landmarks",),
    ("features",),
    ("solvers.protocol", "solvers.kernel_features"),
    ("solvers.ridge",),
    ("solvers.newton",),
    ("solvers.kinks", "solvers.box_qp", "solvers.likelihood"),
    ("solvers",),
    ("solvers.forecast", "solvers.machine_fit"),
    ("models",),
    ("inference",),
    ("plot", "testing", "versions", "cli", "datasets"),
)
LEVELS = {name: level for level, names in enumerate(LAYERS) for name in names}

#: Imports that point up, as "module -> module".
EXCEPTIONS: frozenset[str] = frozenset()


def level(module: str) -> int | None:
    parts = module.split(".")
    names = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((LEVELS[name] for name in names if name in LEVELS), None)


def imports(path: Path) -> set[str]:
    """The modules of mercer that a module imports at its head."""
    modules = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mercer"):
            source = (node.module or "").removeprefix("mercer").lstrip(".")
            modules |= {source} if source else {alias.name for alias in node.names}
    return modules


def test_imports_point_down() -> None:
    upward = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        own = None if path.stem == "__init__" else level(name)  # packages collect public names
        for other in imports(path) if own is not None else ():
            above = level(other)
            if above is not None and above > own:
                upward.add(f"{name} -> {other}")
    assert upward == EXCEPTIONS


def test_no_folder_has_more_than_24_files() -> None:
    files = [p for top in (SOURCE, TESTS) for p in top.rglob("*.py") if p.name != "__init__.py"]
    assert {folder: n for folder, n in Counter(p.parent for p in files).items() if n > 24} == {}


#: Test files about the project and not one module, or with a module that has another file.
PROJECT = {"docs", "examples", "layers", "prose", "public_names", "walks", "streams/dask_cluster"}
#: Modules that only call another, or name types.
TRIVIAL = {"__main__", "arrays"}


def test_tests_mirror_the_sources() -> None:
    modules = {p.relative_to(SOURCE).with_suffix("").as_posix() for p in SOURCE.rglob("*.py")}
    modules = {name for name in modules if not name.endswith("__init__")}
    tests = {
        p.relative_to(TESTS).with_name(p.stem.removeprefix("test_")).as_posix()
        for p in TESTS.rglob("test_*.py")
    }
    assert tests - modules == PROJECT
    assert modules - tests == TRIVIAL
