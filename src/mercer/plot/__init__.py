"""Displays of fitted models, by matplotlib.

Each display is a small object in scikit-learn's style: ``from_estimator`` computes and draws,
``plot`` draws again, on your own axes if you pass them, and the artists are attributes. Displays
need matplotlib: ``pip install "mercer[plot]"``.
"""

from __future__ import annotations

from mercer.plot.boundary import BoundaryDisplay, decision_boundary
from mercer.plot.gaussian_process import GaussianProcessDisplay
from mercer.plot.gram import GramDisplay
from mercer.plot.learning import LearningCurveDisplay
from mercer.plot.search import SearchDisplay
from mercer.plot.spectrum import RidgePathDisplay, ShrinkageDisplay

__all__ = [
    "BoundaryDisplay",
    "GaussianProcessDisplay",
    "GramDisplay",
    "LearningCurveDisplay",
    "RidgePathDisplay",
    "SearchDisplay",
    "ShrinkageDisplay",
    "decision_boundary",
]
