"""Support vector machines.

- `duals`: the dual problems, each a quadratic program for `mercer.solvers.box_qp`, and their
  solutions;
- `solving`: several dual problems side by side;
- `schemes`: several classes by functions of two;
- `probability`: from decision values to probabilities;
- `over_landmarks`: functions over few points, for many rows;
- `base`, `multiclass`: what machines share; `classification`, `regression`, `detection`: machines;
- `fit_warnings`: warnings of fits that are less exact than asked;
- `cross_validation`, `search`: machines without some of the rows, and the best of them.
"""

from __future__ import annotations

from mercer.models.svm.classification import SVC, NuSVC
from mercer.models.svm.detection import SVDD, OneClassSVM
from mercer.models.svm.regression import SVR, NuSVR
from mercer.models.svm.search import SVCSearch

__all__ = ["SVC", "SVDD", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "SVCSearch"]
