"""Runs one task in a process of its own, within limits, and says what became of it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.environment import without_malloc_settings
from benchmarks.harness import limited

_STATUS = Path("/proc/self/status")
#: How a task failed that lacked memory.
NO_MEMORY = "MemoryError"


@dataclass(frozen=True)
class Run:
    """What became of a task.

    Attributes
    ----------
    failure : str
        Empty if it ended well, else "MemoryError", "killed", "time" or the last line of an error.
    seconds : float
        Wall time, without the set-up.
    cpu : float
        Time of all processors.
    peak : int
        Resident bytes at the peak, less those of the set-up.
    resident : int
        Resident bytes at the peak, all of them.
    address_space : int
        Bytes of address space at the peak: what ``ulimit -v`` limits.
    values : dict
        What the task returned.
    """

    failure: str = ""
    seconds: float = 0.0
    cpu: float = 0.0
    peak: int = 0
    resident: int = 0
    address_space: int = 0
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def out_of_memory(self) -> bool:
        """Whether memory was what it lacked."""
        return self.failure in (NO_MEMORY, "killed")


def run(
    setup: Callable[..., Callable[[], dict[str, Any]]],
    *,
    threads: int = 1,
    limit: int | None = None,
    timeout: float | None = None,
    **parameters: Any,
) -> Run:
    """Do ``setup(**parameters)()``, which returns values to report, in a new process.

    Parameters
    ----------
    setup : callable
        A public function of a module; what it returns is measured.
    threads : int
        Threads of mercer, BLAS and OpenMP.
    limit : int, optional
        Bytes of address space.
    timeout : float, optional
        Seconds after which the process is stopped.
    **parameters
        Of the set-up, as JSON can hold them.

    Returns
    -------
    Run
        What became of it.
    """
    task = {
        "module": _module(setup),
        "setup": setup.__qualname__,
        "threads": threads,
        "limit": limit,
        "parameters": parameters,
    }
    command = [sys.executable, "-m", "benchmarks.child", json.dumps(task)]
    # Each thread that BLAS may use costs address space from the start.
    environment = without_malloc_settings() | {"OPENBLAS_NUM_THREADS": str(threads)}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=timeout
        )
    except subprocess.TimeoutExpired:
        return Run("time", seconds=timeout or 0.0)
    if done.returncode < 0:
        return Run("killed")
    if done.returncode:
        return Run(done.stderr.strip().splitlines()[-1])
    return Run(**json.loads(done.stdout.splitlines()[-1]))


def _module(function: Callable[..., Any]) -> str:
    """Where a function can be imported from, also if that is the script that runs."""
    spec = getattr(sys.modules[function.__module__], "__spec__", None)
    return function.__module__ if spec is None else spec.name


def main() -> None:
    """Do the task given as JSON and print what became of it."""
    task = json.loads(sys.argv[1])
    setup = getattr(import_module(task["module"]), task["setup"])
    if task["limit"] is not None:
        resource.setrlimit(resource.RLIMIT_AS, (task["limit"], task["limit"]))
    try:
        with limited(task["threads"]):
            report = _measured(setup(**task["parameters"]))
    except MemoryError:
        report = {"failure": NO_MEMORY, "address_space": _bytes("VmPeak")}
    print(json.dumps(report))


def _measured(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    before = _bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark starts again here
    start, cpu = time.perf_counter(), time.process_time()
    values = work()
    return {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - cpu,
        "peak": _bytes("VmHWM") - before,
        "resident": _bytes("VmHWM"),
        "address_space": _bytes("VmPeak"),
        "values": values,
    }


def _bytes(name: str) -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


if __name__ == "__main__":
    main()
