"""Memory is forecast before it is allocated.

An allocation that cannot succeed should fail at once, in a sentence that says what was asked for,
what there is and what to do instead, rather than minutes later, when the system swaps or kills.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mercer.exceptions import MemoryForecastError

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_WORTH_ASKING = 2**26
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def available() -> int:
    """Bytes that this process may still allocate.

    The least of what the machine has free, what the control groups around the process leave (the
    limit of a container), and what the process's own limit on address space leaves (``ulimit -v``).
    A limit that cannot be read is taken as absent.

    Returns
    -------
    int
        A number of bytes, never negative.

    Examples
    --------
    >>> from mercer import memory
    >>> memory.available() > 0
    True
    """
    return max(0, min((*_machine(), *_control_groups(), *_address_space()), default=sys.maxsize))


def require(size: int, what: str, remedy: str, *, budget: int | None = None) -> None:
    """Raise an error if `size` bytes are more than there are.

    Parameters
    ----------
    size : int
        Bytes about to be allocated.
    what : str
        What they are for, as the subject of the sentence.
    remedy : str
        What to do instead, as an imperative.
    budget : int, optional
        Bytes that may be used; by default `available()`.

    Raises
    ------
    MemoryForecastError
        If `size` exceeds the budget.

    Examples
    --------
    >>> from mercer import memory
    >>> memory.require(8 * 10**12, "a Gram matrix of 1000000 rows", "use fewer rows", budget=2**34)
    Traceback (most recent call last):
        ...
    mercer.exceptions.MemoryForecastError: a Gram matrix of 1000000 rows needs 7.28 TiB, but only \
16 GiB are available; use fewer rows.
    """
    limit = available() if budget is None else budget
    if size > limit:
        raise MemoryForecastError(
            f"{what} needs {readable(size)}, but only {readable(limit)} are available; {remedy}."
        )


def require_matrix(shape: tuple[int, int], itemsize: int = 8) -> None:
    """Raise an error if a Gram matrix of this shape does not fit.

    Parameters
    ----------
    shape : tuple of int
        Rows and columns.
    itemsize : int
        Bytes of an entry.
    """
    size = shape[0] * shape[1] * itemsize
    # Asking the system takes longer than a small matrix.
    if size > _WORTH_ASKING:
        require(
            size,
            f"the Gram matrix of shape {shape}",
            "keep it lazy (k.gram(X) @ v needs no matrix), use float32, or take fewer rows",
        )


def readable(size: int) -> str:
    """Write a number of bytes for a person.

    Parameters
    ----------
    size : int
        A number of bytes.

    Returns
    -------
    str
        Three significant digits and a binary unit.

    Examples
    --------
    >>> from mercer import memory
    >>> memory.readable(128_000_000)
    '122 MiB'
    """
    amount, unit = float(size), 0
    while amount >= 999.5 and unit < len(_UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return f"{amount:.3g} {_UNITS[unit]}"


def _machine() -> Iterator[int]:
    """Free memory of the machine, counting caches that the system would give back."""
    fields = _fields(_PROC / "meminfo")
    if "MemAvailable" in fields:
        yield fields["MemAvailable"] * 1024
        return
    try:
        pages = os.sysconf("SC_AVPHYS_PAGES") if "SC_AVPHYS_PAGES" in os.sysconf_names else -1
        if pages < 0:
            pages = os.sysconf("SC_PHYS_PAGES")
        yield pages * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return


def _control_groups() -> Iterator[int]:
    """What each enclosing control group leaves: version 2, then version 1."""
    try:
        lines = (_PROC / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            yield from _up(_CGROUP, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            root = _CGROUP / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _up(root, path, *names)


def _up(root: Path, path: str, limit: str, usage: str, cache: str) -> Iterator[int]:
    """Walk from a control group to its root: any level may be the one that binds."""
    group = root / path.strip("/")
    while True:
        ceiling, used = _number(group / limit), _number(group / usage)
        if ceiling is not None and used is not None:
            # Page cache counts as used, but is given back on demand.
            yield ceiling - used + _fields(group / "memory.stat").get(cache, 0)
        if group == root or root not in group.parents:
            return
        group = group.parent


def _address_space() -> Iterator[int]:
    """What RLIMIT_AS leaves."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    used = _fields(_PROC / "self" / "status").get("VmSize")
    if limit != resource.RLIM_INFINITY and used is not None:
        yield limit - used * 1024


def _number(file: Path) -> int | None:
    """The integer in a file; None if there is no such file or it says "max"."""
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def _fields(file: Path) -> dict[str, int]:
    """The lines ``name value`` or ``name: value unit`` of a file of statistics."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.replace(":", " ").split() for line in lines)
    return {p[0]: int(p[1]) for p in pairs if len(p) > 1 and p[1].isdigit()}
