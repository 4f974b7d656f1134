"""How a model's coefficients are computed.

Solvers work on matrices and know nothing of kernels or estimators:

- `cholesky`: one regularisation, in the memory of the Gram matrix;
- `spectral`: one eigendecomposition, every regularisation;
- `tridiagonal`: errors for every regularisation, for less than an eigendecomposition;
- `centring`: weights and the intercept, which they share;
- `problem`: the choice among them, and rows of weight zero;
- `laplace`: the mode and the evidence of Gaussian-process classification, with `curvature`;
- `quadrature`: probabilities, as means under Gaussians;
- `newton`: smooth convex losses;
- `smoothing`: losses with kinks, exactly, with a duality gap;
- `quantiles`: several of these that must not cross, with `crossing`, `ordered` and `interior`;
- `penalised`: any increasing penalty of the norm, by half its square at another weight;
- `descent`: gradient descent, and the largest step that converges;
- `local`: a constant or a line for each place, weighted by nearness.
"""

from __future__ import annotations

from mercer.solvers.cholesky import LeaveOneOut, Solution
from mercer.solvers.problem import RidgeProblem
from mercer.solvers.spectral import Spectrum
from mercer.solvers.tridiagonal import Tridiagonal

__all__ = ["LeaveOneOut", "RidgeProblem", "Solution", "Spectrum", "Tridiagonal"]
