"""Solvers: algorithms that compute the coefficients of a model.

Objects for the parameter ``solver`` of a model:

- `Cholesky`, `Spectral`: the matrix of all pairs of rows in memory;
- `Primal`, `RandomFeatures`: explicit features;
- `ConjugateGradient`: the whole matrix, by products with it;
- `NystromSolver`, `Falkon`: few landmarks.

`protocol` defines their interface, `forecast` the choice of "auto". The mathematics is in
`ridge` (least squares), `newton` (smooth losses), `kinks` (piecewise linear losses), `box_qp`
(duals of support vector machines) and `likelihood` (Gaussian processes).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from mercer.checks import unknown_member
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.dense import Cholesky, Spectral
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.forecast import Forecast
from mercer.solvers.nystrom import Falkon, NystromSolver
from mercer.solvers.protocol import RidgeAnswer, RidgeTask
from mercer.solvers.ridge.gram import LeaveOneOut, RidgeProblem
from mercer.solvers.ridge.spectrum import EigenRidge, Solution
from mercer.solvers.ridge.tridiagonal import Tridiagonal

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "EigenRidge",
    "Falkon",
    "Forecast",
    "LeaveOneOut",
    "NystromSolver",
    "Primal",
    "RandomFeatures",
    "RidgeAnswer",
    "RidgeProblem",
    "RidgeTask",
    "Solution",
    "Spectral",
    "Tridiagonal",
]

if not TYPE_CHECKING:  # type checkers would take any name for one that exists
    _FORMER = {
        "Nystrom": "NystromSolver; mercer.Nystrom is the transformer",
        "Spectrum": "EigenRidge; mercer.Spectrum is the string kernel",
    }

    def __getattr__(name: str) -> NoReturn:
        if name in _FORMER:
            raise AttributeError(f"{__name__}.{name} is now {__name__}.{_FORMER[name]}")
        raise unknown_member(__name__, name, __all__)
