"""Counts what a call goes through inside the package: calls, functions, files and depth.

``python -m benchmarks.walks`` prints the table of docs/design.md. With a part of a walk's name as
argument, such as ``SVC``, it also lists the functions of that walk by file.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

import mercer as mc

PACKAGE = Path(mc.__file__).parent


@dataclass
class Walk:
    """Every call of a function whose code is in the package.

    Comprehensions and lambdas count as functions; up to Python 3.11 a comprehension is a call.
    """

    calls: int = 0
    depth: int = 0
    functions: set[tuple[str, str]] = field(default_factory=set)  # (file, qualified name)

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}

    def by_file(self) -> dict[str, list[str]]:
        names: defaultdict[str, list[str]] = defaultdict(list)
        for file, name in sorted(self.functions):
            names[file].append(name)
        return names


def take(call: Callable[[], object]) -> Walk:
    """Record the second run of a call: the first one imports modules and fills caches."""
    with mc.threads(1):  # on several threads a few more functions are called
        return _recorded(call)


def _recorded(call: Callable[[], object]) -> Walk:
    call()
    walk = Walk()
    prefix = f"{PACKAGE}/"
    level = 0

    def record(frame: FrameType, event: str, _: object) -> None:
        nonlocal level
        code = frame.f_code
        if not code.co_filename.startswith(prefix):
            return
        if event == "call":
            level += 1
            walk.calls += 1
            walk.depth = max(walk.depth, level)
            walk.functions.add((code.co_filename.removeprefix(prefix), code.co_qualname))
        elif event == "return":  # also when an exception leaves the function
            level -= 1

    previous = sys.getprofile()
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(previous)
    return walk


def walks() -> dict[str, Callable[[], object]]:
    """Return the five walks, each a call on 80 rows of 3 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
    labels = (X[:, 0] * X[:, 1] > 0).astype(int)
    v = rng.normal(size=80)
    k = mc.RBF()
    return {
        'KernelRidge(RBF(), alpha="loo").fit': lambda: mc.KernelRidge(mc.RBF(), alpha="loo").fit(
            X, y
        ),
        "SVC(RBF()).fit": lambda: mc.SVC(mc.RBF()).fit(X, labels),
        "GaussianProcessRegressor().fit": lambda: mc.GaussianProcessRegressor().fit(X, y),
        "KernelLogisticRegression(RBF()).fit": lambda: mc.KernelLogisticRegression(mc.RBF()).fit(
            X, labels
        ),
        "k.gram(X) @ v": lambda: k.gram(X) @ v,
    }


def main() -> None:
    """Print the table, and the functions of the walks that the argument names."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else None
    taken = {name: take(call) for name, call in walks().items()}
    print("| walk | calls | functions | files | depth |")
    print("|---|---|---|---|---|")
    for name, walk in taken.items():
        counts = f"{walk.calls:,} | {len(walk.functions)} | {len(walk.files)} | {walk.depth}"
        print(f"| `{name}` | {counts} |")
    for name, walk in taken.items():
        if wanted is not None and wanted in name:
            print(f"\n{name}")
            for file, functions in walk.by_file().items():
                print(f"  {file} ({len(functions)}): {', '.join(functions)}")


if __name__ == "__main__":
    main()
