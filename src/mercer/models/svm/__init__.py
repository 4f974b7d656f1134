"""Support vector machines.

- `named`: kernels by scikit-learn's names;
- `duals`: their dual problems, each an instance of the one that `mercer.solvers.support` solves;
- `schemes`: several classes by functions of two;
- `base`: what they share; `classification`, `regression`, `detection`: the machines.
"""

from __future__ import annotations

from mercer.models.svm.classification import SVC, NuSVC
from mercer.models.svm.detection import SVDD, OneClassSVM
from mercer.models.svm.regression import SVR, NuSVR
from mercer.models.svm.search import SVCSearch

__all__ = ["SVC", "SVDD", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "SVCSearch"]
