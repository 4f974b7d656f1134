"""The peak rate of fused multiply-adds of one core, against which products are measured."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

_SOURCE = Path(__file__).with_name("fma.cpp")
_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-std=c++17", "-shared", "-fPIC")
_STEPS = 5_000_000


def available() -> bool:
    """Whether there is a compiler for the loop."""
    return _compiler() is not None


def burst(dtype: DTypeLike) -> tuple[Callable[[], None], float]:
    """A call that does nothing but multiply and add, and the floating-point operations it does."""
    name = np.dtype(dtype).name
    function = getattr(_library(), f"fma_{name}")
    function.restype = ctypes.c_double
    function.argtypes = [ctypes.c_long, ctypes.c_void_p]
    sink = ctypes.create_string_buffer(8)

    def run() -> None:
        function(_STEPS, sink)

    return run, function(_STEPS, sink)


def _compiler() -> str | None:
    return shutil.which(os.environ.get("CXX", "g++")) or shutil.which("c++")


@cache
def _library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "fma.so"
        subprocess.run([str(_compiler()), *_FLAGS, str(_SOURCE), "-o", str(target)], check=True)
        return ctypes.CDLL(str(target))  # stays loaded after the file has gone
