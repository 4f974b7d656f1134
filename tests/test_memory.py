"""Memory: what there is, from files that say so, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mercer as mc
from mercer import memory
from mercer.exceptions import MemoryForecastError

GIB = 2**30


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 8 GiB free and a process in the control group /a/b, without limits."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "cgroup" / "a" / "b").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemTotal: 99 kB\nMemAvailable: {8 * 2**20} kB\n")
    (tmp_path / "proc" / "self" / "cgroup").write_text("0::/a/b\n")
    monkeypatch.setattr(memory, "_PROC", f"{tmp_path}/proc")
    monkeypatch.setattr(memory, "_CGROUP", f"{tmp_path}/cgroup")
    return tmp_path


def limit(group: Path, maximum: object, current: int, cache: int = 0) -> None:
    (group / "memory.max").write_text(f"{maximum}\n")
    (group / "memory.current").write_text(f"{current}\n")
    (group / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")


def test_the_machine_alone(machine: Path) -> None:
    assert memory.available() == 8 * GIB


def test_the_tightest_control_group_binds_and_its_cache_counts_as_free(machine: Path) -> None:
    limit(machine / "cgroup" / "a" / "b", "max", 3 * GIB)
    limit(machine / "cgroup" / "a", 4 * GIB, 3 * GIB, cache=GIB // 2)
    assert memory.available() == GIB + GIB // 2


def test_an_exhausted_group_leaves_nothing(machine: Path) -> None:
    limit(machine / "cgroup" / "a" / "b", GIB, 2 * GIB)
    assert memory.available() == 0


def test_version_one_of_control_groups(machine: Path) -> None:
    group = machine / "cgroup" / "memory" / "x"
    group.mkdir(parents=True)
    (machine / "proc" / "self" / "cgroup").write_text("7:cpu,memory:/x\n3:pids:/y\n")
    (group / "memory.limit_in_bytes").write_text(f"{3 * GIB}")
    (group / "memory.usage_in_bytes").write_text(f"{GIB}")
    assert memory.available() == 2 * GIB


def test_the_limit_on_address_space(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (2 * GIB, resource.RLIM_INFINITY))
    (machine / "proc" / "self" / "status").write_text(f"Name: x\nVmSize: {2**20} kB\n")
    assert memory.available() == GIB


def test_without_any_files_there_is_still_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_PROC", str(tmp_path))
    assert memory.available() > 0


def test_what_fits_passes_and_what_does_not_is_explained(machine: Path) -> None:
    memory.require(GIB, "a matrix", "use less")
    assert memory.fits(1000)
    assert not memory.fits(1e18)
    with pytest.raises(MemoryForecastError, match=r"a matrix needs 9 GiB.*only 8 GiB.*use less"):
        memory.require(9 * GIB, "a matrix", "use less")


def test_the_system_is_asked_for_large_sizes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(memory, "SMALL", 100)
    monkeypatch.setattr(memory, "available", lambda: asked.append(1) or 1000)
    memory.require(100, "a matrix", "use less")
    assert memory.fits(100)
    assert not asked
    assert memory.fits(1000)
    assert not memory.fits(1001)
    assert len(asked) == 2


@pytest.mark.parametrize(
    "model",
    [
        mc.KernelRidge(),
        mc.KernelRidge(alpha="loo", length_scales="auto"),
        mc.KernelRidge(mc.Linear()),
        mc.KernelLogisticRegression(),
        mc.SVC(),
    ],
    ids=repr,
)
def test_small_fits_do_not_ask(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "SMALL", 2**24)
    monkeypatch.setattr(memory, "available", lambda: pytest.fail("the system was asked"))
    X = np.random.default_rng(0).normal(size=(60, 3))
    model.fit(X, (X[:, 0] + 0.3 * X[:, 1] > 0).astype(float)).predict(X)


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1023, "0.999 KiB"), (8 * 10**12, "7.28 TiB")],
)
def test_sizes_are_readable(size: int, text: str) -> None:
    assert memory.readable(size) == text
