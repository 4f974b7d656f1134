"""Memory is forecast before it is allocated.

An allocation that cannot succeed should fail at once, in a sentence that says what was asked for,
how much is free, and what to do instead, rather than minutes later, when the system swaps or kills.
"""

from __future__ import annotations

import os
import sys
from functools import cache

from mercer.exceptions import MemoryForecastError

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_PROC = "/proc"
_CGROUP = "/sys/fs/cgroup"
#: Bytes up to which an allocation is made without asking the system, which takes longer.
SMALL = 2**24
# Bytes read of a file: the files that are read here are shorter.
_FILE_BYTES = 2**14
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def available() -> int:
    """Bytes that this process may still allocate, never negative.

    They are the least of the machine's free memory and of what control groups and ``ulimit -v``
    leave; a limit that cannot be read is taken as absent.
    """
    # This count includes the caches that the system would give back.
    free = _count(f"{_PROC}/meminfo", "MemAvailable:")
    least = _physical() if free is None else free * 1024
    for limit_file, usage_file, statistics, page_cache in _control_groups(_PROC, _CGROUP):
        limit, used = _count(limit_file), _count(usage_file)
        if limit is not None and used is not None and limit - used < least:
            # Page cache counts as used, but is given back on demand.
            least = min(least, limit - used + (_count(statistics, page_cache) or 0))
    if resource is not None:
        ceiling = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = (
            None if ceiling == resource.RLIM_INFINITY else _count(f"{_PROC}/self/status", "VmSize:")
        )
        if used is not None:
            least = min(least, ceiling - used * 1024)
    return max(0, least)


def fits(size: float) -> bool:
    """Whether some bytes can be allocated; a small size is taken to fit, without asking."""
    return size <= SMALL or size <= available()


def require(size: int, what: str, remedy: str) -> None:
    """Raise `MemoryForecastError` if `size` bytes cannot be allocated.

    In its message, `what` names the allocation, and `remedy` says in the imperative what to do.
    """
    if size <= SMALL:
        return
    limit = available()
    if size > limit:
        raise MemoryForecastError(
            f"{what} needs {readable(size)}, but only {readable(limit)} are available; {remedy}."
        )


def require_matrix(shape: tuple[int, int], itemsize: int = 8) -> None:
    """Raise `MemoryForecastError` if a Gram matrix of this shape does not fit."""
    require(
        shape[0] * shape[1] * itemsize,
        f"the Gram matrix of shape {shape}",
        "keep it lazy (k.gram(X) @ v needs no matrix), use float32, or take fewer rows",
    )


def readable(size: int) -> str:
    """Write a number of bytes with three significant digits and a binary unit: '122 MiB'."""
    amount, unit = float(size), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}"


def _physical() -> int:
    """Free memory as `os.sysconf` reports it: all memory where free memory is not known."""
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else -1
        if pages < 0:
            pages = os.sysconf("SC_PHYS_PAGES")
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


def _text(file: str) -> str:
    """The beginning of a small file, by system calls alone."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.read(descriptor, _FILE_BYTES).decode()
    finally:
        os.close(descriptor)


def _count(file: str, name: str = "") -> int | None:
    """The first integer in a file, or the first after a name; None if there is none."""
    try:
        text = _text(file)
        return int(text.partition(name)[2].split(None, 1)[0]) if name else int(text)
    except (OSError, ValueError, IndexError):  # no such file, the word "max", no such name
        return None


@cache
def _control_groups(proc: str, root: str) -> list[tuple[str, str, str, str]]:
    """Files of the control groups around this process that have a limit, found once per process.

    Each entry holds the files of limit, usage and statistics, and the statistic of the page cache.
    Any group from that of the process up to the root may be the one whose limit binds.
    """
    try:
        lines = _text(f"{proc}/self/cgroup").splitlines()
    except OSError:
        return []
    groups = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2
            top, names = root, ("memory.max", "memory.current", "\ninactive_file ")
        elif "memory" in controllers.split(","):
            top = f"{root}/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "\ntotal_inactive_file ")
        else:
            continue
        steps = [step for step in path.split("/") if step]
        for depth in range(len(steps), -1, -1):
            folder = "/".join([top, *steps[:depth]])
            if os.path.exists(f"{folder}/{names[0]}"):
                limit, usage = (f"{folder}/{name}" for name in names[:2])
                groups.append((limit, usage, f"{folder}/memory.stat", names[2]))
    return groups
