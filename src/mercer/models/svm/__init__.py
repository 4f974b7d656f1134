"""Support vector machines.

- `named`: kernels by scikit-learn's names;
- `training`: rows as machines learn from them;
- `duals`: their dual problems, each an instance of the one that `mercer.solvers.box_qp.smo` solves;
- `machines`: the functions that their solutions stand for;
- `solving`: one of these with all threads, or several side by side;
- `schemes`: several classes by functions of two;
- `probability`: from scores to probabilities;
- `landmarks`: functions over few points, for many rows;
- `base`, `multiclass`: what machines share; `classification`, `regression`, `detection`: they;
- `folds`, `search`: machines without some of the rows, and which of them is best.
"""

from __future__ import annotations

from mercer.models.svm.classification import SVC, NuSVC
from mercer.models.svm.detection import SVDD, OneClassSVM
from mercer.models.svm.regression import SVR, NuSVR
from mercer.models.svm.search import SVCSearch

__all__ = ["SVC", "SVDD", "SVR", "NuSVC", "NuSVR", "OneClassSVM", "SVCSearch"]
