"""Tests of hypotheses by kernels: any kernel, on vectors, strings, graphs and tables alike."""

from __future__ import annotations

from mercer.inference.hsic import hsic_test
from mercer.inference.mmd import mmd_test
from mercer.inference.results import TestResult
from mercer.inference.stein import goodness_of_fit_test

__all__ = ["TestResult", "goodness_of_fit_test", "hsic_test", "mmd_test"]
