"""The environment that all contestants share, set before the process loads any of them."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from importlib import metadata, util
from pathlib import Path
from typing import Any

_MARK = "MERCER_BENCHMARKS"

#: Read by malloc when a process starts: keep freed memory. Memory fresh from the system is slow to
#: touch first, and would be charged to whoever happens to allocate.
MALLOC = {
    "MALLOC_TRIM_THRESHOLD_": str(2**36),
    "MALLOC_MMAP_THRESHOLD_": str(2**36),
}

#: KeOps compiles with these flags; without them it is several times slower, which would be no race.
KEOPS = {
    "CXXFLAGS": "-O3 -march=native -ffast-math",
    "KEOPS_VERBOSE": "0",
    "PYKEOPS_VERBOSE": "0",
    "KEOPS_CACHE_FOLDER": str(Path(tempfile.gettempdir()) / "mercer-benchmarks-keops"),
}

_PACKAGES = ("mercer", "numpy", "scipy", "scikit-learn", "pykeops", "osqp", "grakel")


def enter() -> None:
    """Start this process again in the environment of the races, unless it runs in it already."""
    if os.environ.get(_MARK) != str(os.getpid()):
        # exec keeps the process number, so that children of the races do not carry a valid mark.
        environment = os.environ | MALLOC | KEOPS | {_MARK: str(os.getpid())}
        sys.stdout.flush()
        command = [sys.executable, "-m", "benchmarks", *sys.argv[1:]]
        os.execve(sys.executable, command, environment)


def without_malloc_settings() -> dict[str, str]:
    """The environment in which a process's memory is measured: malloc as users have it."""
    return {name: value for name, value in os.environ.items() if name not in MALLOC}


def installed(module: str) -> bool:
    """Whether a peer can be imported."""
    return util.find_spec(module) is not None


def describe() -> dict[str, Any]:
    """The machine and the versions raced."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in _PACKAGES},
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def _version(package: str) -> str | None:
    if package == "mercer":
        import mercer

        return mercer.__version__
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
