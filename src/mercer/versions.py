"""The versions and the machine, for reports of problems."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata

from threadpoolctl import threadpool_info

from mercer import _core, memory
from mercer.parallel import thread_count

_PACKAGES = ("mercer", "numpy", "scipy", "scikit-learn", "narwhals", "threadpoolctl")
#: Packages that are shown if they are installed.
_OPTIONAL = ("matplotlib", "pandas", "polars", "pyarrow", "dask")


def show_versions() -> None:
    """Print the versions of Python, mercer and its dependencies, and what the machine has.

    The output belongs into a report of a problem. It also comes from ``mercer info``.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.show_versions()  # doctest: +ELLIPSIS
    Python ...
    """
    rows = {"Python": f"{sys.version.split()[0]}, {platform.platform()}"}
    for package in _PACKAGES + _OPTIONAL:
        try:
            rows[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            if package in _PACKAGES:
                rows[package] = "not installed"
    for number, library in enumerate(_blas(), start=1):
        rows[f"BLAS {number}"] = library
    rows["engine"] = f"{_core.cpu()} instructions, {thread_count()} threads"
    rows["cores"] = str(os.cpu_count())
    rows["memory"] = f"{memory.readable(memory.available())} available"
    width = max(map(len, rows))
    for name, value in rows.items():
        print(f"{name:{width}}  {value}")


def _blas() -> list[str]:
    """The BLAS libraries that are loaded, each with its version and number of threads."""
    loaded = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return [
        f"{library['internal_api']} {library['version']}, {library['num_threads']} threads"
        for library in loaded
    ]
