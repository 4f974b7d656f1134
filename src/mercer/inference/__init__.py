"""Tests of hypotheses by kernels: any kernel, on vectors, strings, graphs and tables alike."""

from __future__ import annotations

from mercer.inference.mmd import mmd_test
from mercer.inference.results import TestResult

__all__ = ["TestResult", "mmd_test"]
