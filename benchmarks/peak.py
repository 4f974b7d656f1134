"""Measures the peak memory of one call; run by `harness.peak_bytes` as a process of its own."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path

from benchmarks.harness import limited

_PROCESS = Path("/proc/self")
_WARM_UP = 64


def main() -> None:
    """Run the task given as JSON and print the bytes it needed at its peak."""
    task = json.loads(sys.argv[1])
    setup = getattr(import_module(task["module"]), task["setup"])
    parameters = task["parameters"]
    with limited(task["threads"]):
        # Libraries and their buffers are loaded by a run on few points.
        setup(**parameters | {"n": _WARM_UP})()
        run = setup(**parameters)
        before = _resident("VmRSS")
        (_PROCESS / "clear_refs").write_text("5")  # the high-water mark starts again here
        result = run()
        peak = _resident("VmHWM") - before
        del result
    print(peak)


def _resident(field: str) -> int:
    lines = (_PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


if __name__ == "__main__":
    main()
