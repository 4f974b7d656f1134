"""Displays of fitted models and of tests, by matplotlib.

Each display is a small object in scikit-learn's style: ``from_estimator`` computes and draws,
``plot`` draws again, on your own axes if you pass them, and the artists are attributes. Displays
need matplotlib: ``pip install "mercer[plot]"``.
"""

from __future__ import annotations

from mercer.plot.boundary import BoundaryDisplay, decision_boundary
from mercer.plot.calibration import CalibrationDisplay
from mercer.plot.contributions import ContributionsDisplay
from mercer.plot.curve import CurveDisplay
from mercer.plot.drift import DriftDisplay
from mercer.plot.effects import EffectsDisplay
from mercer.plot.gaussian_process import GaussianProcessDisplay
from mercer.plot.gram import GramDisplay
from mercer.plot.kernel import KernelDisplay
from mercer.plot.learning import LearningCurveDisplay
from mercer.plot.null import NullDisplay
from mercer.plot.power import PowerDisplay
from mercer.plot.search import SearchDisplay
from mercer.plot.spectrum import RidgePathDisplay, ShrinkageDisplay
from mercer.plot.witness import WitnessDisplay

__all__ = [
    "BoundaryDisplay",
    "CalibrationDisplay",
    "ContributionsDisplay",
    "CurveDisplay",
    "DriftDisplay",
    "EffectsDisplay",
    "GaussianProcessDisplay",
    "GramDisplay",
    "KernelDisplay",
    "LearningCurveDisplay",
    "NullDisplay",
    "PowerDisplay",
    "RidgePathDisplay",
    "SearchDisplay",
    "ShrinkageDisplay",
    "WitnessDisplay",
    "decision_boundary",
]
