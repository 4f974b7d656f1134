"""How contestants are timed and what a race reports."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import mercer as mc
from benchmarks.environment import without_malloc_settings

#: Largest distance between contestants' results, relative to their norm, by type.
AGREEMENT = {np.dtype(np.float32): 1e-3, np.dtype(np.float64): 1e-8}


@dataclass(frozen=True)
class Settings:
    """How large the races are and how often each contestant runs."""

    quick: bool = False
    rounds: int = 7

    def enough(self, rounds: int, seconds: float) -> bool:
        """Whether a race may end: short ones take more rounds, long ones fewer, never one."""
        if self.quick:
            return rounds >= 2
        return (rounds >= self.rounds and seconds >= 3) or (rounds >= 2 and seconds >= 30)

    def size(self, n: int) -> int:
        """The number of points in place of n."""
        return max(n // 10, 200) if self.quick else n


@dataclass(frozen=True)
class Contestant:
    """Something to time: a call without arguments, and the threads it may use."""

    name: str
    run: Callable[[], Any]
    threads: int = 1


@dataclass(frozen=True)
class Target:
    """What a figure has to reach."""

    bound: float
    at_least: bool

    def met(self, figure: float) -> bool:
        """Whether a figure satisfies the target, up to the rounding of equal results."""
        slack = 1e-6 * max(1.0, self.bound)
        return bool(figure >= self.bound - slack if self.at_least else figure <= self.bound + slack)


def at_least(bound: float) -> Target:
    """A figure that may not be smaller."""
    return Target(bound, at_least=True)


def at_most(bound: float) -> Target:
    """A figure that may not be larger."""
    return Target(bound, at_least=False)


@dataclass(frozen=True)
class Outcome:
    """One line of the report: two measurements, the figure that compares them, and its target.

    `unit` is that of the measurements, `figure_unit` that of the figure and its target: "x" for a
    ratio, "%" for a share, or a unit of time or memory.
    """

    race: str
    parameters: str
    mercer: float
    peer_name: str
    peer: float | None
    figure: float
    target: Target | None = None
    threads: int = 1
    unit: str = "s"
    figure_unit: str = "x"
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Whether the target was reached; None where there is none."""
        return None if self.target is None else self.target.met(self.figure)


def speedup(
    race: str,
    parameters: str,
    times: dict[str, float],
    peer: str,
    target: Target | None = None,
    *,
    threads: int = 1,
    note: str = "",
) -> Outcome:
    """How many times faster mercer is than a peer."""
    mine, other = times["mercer"], times[peer]
    return Outcome(race, parameters, mine, peer, other, other / mine, target, threads, note=note)


def slowdown(
    race: str, parameters: str, times: dict[str, float], peer: str, target: Target | None
) -> Outcome:
    """How many times longer mercer takes than something cheaper."""
    mine, other = times["mercer"], times[peer]
    return Outcome(race, parameters, mine, peer, other, mine / other, target)


# Time ---------------------------------------------------------------------------------------------


def race(contestants: Sequence[Contestant], settings: Settings) -> dict[str, float]:
    """Best time of each contestant in seconds; they take turns, so that noise meets all alike."""
    _check_agreement([_run(c) for c in contestants])
    best = {c.name: math.inf for c in contestants}
    rounds, start = 0, time.perf_counter()
    while not settings.enough(rounds, time.perf_counter() - start):
        for contestant in contestants:
            best[contestant.name] = min(best[contestant.name], _seconds(contestant))
        rounds += 1
    return best


def touch_memory(size: int) -> None:
    """Bring a block of memory into the process; the allocator keeps it for the contestants."""
    np.ones(size, np.uint8)


@contextmanager
def limited(threads: int) -> Iterator[None]:
    """Give mercer, BLAS and OpenMP the same number of threads."""
    with threadpool_limits(threads), mc.threads(threads):
        yield


@contextmanager
def one_core() -> Iterator[None]:
    """Keep this thread, and those that it starts, on one core, where the system can.

    For peers with threads of their own (TBB), which no limit of BLAS or OpenMP reaches: they have
    to be loaded inside.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def _run(contestant: Contestant) -> Any:
    """A first run, which may compile, load libraries and touch memory."""
    with limited(contestant.threads):
        return contestant.run()


def _seconds(contestant: Contestant) -> float:
    with limited(contestant.threads):
        start = time.perf_counter()
        contestant.run()
        return time.perf_counter() - start


def _check_agreement(results: list[Any]) -> None:
    """Contestants that return arrays must return the same array."""
    arrays = [r for r in results if isinstance(r, np.ndarray)]
    for other in arrays[1:]:
        first = arrays[0].reshape(other.shape)
        error = np.linalg.norm(first - other) / np.linalg.norm(other)
        if not error <= AGREEMENT[min(first.dtype, other.dtype, key=lambda t: t.itemsize)]:
            raise AssertionError(f"the contestants' results differ by {error:.1e} of their norm")


# Memory -------------------------------------------------------------------------------------------


def peak_bytes(setup: Callable[..., Callable[[], Any]], threads: int = 1, **parameters: Any) -> int:
    """Peak memory of ``setup(**parameters)()`` above what the set-up left, in a new process."""
    task = {
        "module": setup.__module__,
        "setup": setup.__qualname__,
        "threads": threads,
        "parameters": parameters,
    }
    command = [sys.executable, "-m", "benchmarks.peak", json.dumps(task)]
    environment = without_malloc_settings()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{task} failed:\n{done.stderr}")
    return int(done.stdout)
