"""Tests of hypotheses by kernels: any kernel, on vectors, strings, graphs and tables alike."""

from __future__ import annotations

from mercer.inference.attribution import Attribution, attribution
from mercer.inference.conditional import conditional_independence_test
from mercer.inference.coresets import Coreset, herding, thin
from mercer.inference.drift import Drift, DriftDetector
from mercer.inference.embedding import Embedding, mean_embedding, witness
from mercer.inference.hsic import hsic_test
from mercer.inference.mmd import mmd_test
from mercer.inference.power import PowerCurve, power
from mercer.inference.results import TestResult
from mercer.inference.stein import goodness_of_fit_test

__all__ = [
    "Attribution",
    "Coreset",
    "Drift",
    "DriftDetector",
    "Embedding",
    "PowerCurve",
    "TestResult",
    "attribution",
    "conditional_independence_test",
    "goodness_of_fit_test",
    "herding",
    "hsic_test",
    "mean_embedding",
    "mmd_test",
    "power",
    "thin",
    "witness",
]
