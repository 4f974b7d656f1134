"""How a model's coefficients are computed.

Objects that say how, for the parameter ``solver`` of a model:

- `Cholesky`, `Spectral`: the matrix in memory;
- `Primal`, `RandomFeatures`: explicit features;
- `ConjugateGradient`: the whole matrix, by products with it;
- `NystromSolver`, `Falkon`: few landmarks;
- `auto`: the choice among them, and what each would cost.

They take a `RidgeTask` and give a `RidgeAnswer` (`settings`), for targets in a unit of their own
(`units`). What they are made of works on matrices and knows
nothing of kernels or estimators:

- `cholesky`: one regularisation, in the memory of the Gram matrix;
- `spectral`: one eigendecomposition, every regularisation;
- `tridiagonal`: errors for every regularisation, for less than an eigendecomposition;
- `centring`: weights and the intercept, which they share;
- `problem`: the choice among them, and rows of weight zero;
- `laplace`: the mode and the evidence of Gaussian-process classification, with `curvature`;
- `quadrature`: probabilities, as means under Gaussians;
- `newton`: smooth convex losses, with `newton_curvature` and `newton_steps`, and `newton_products`
  for a matrix that is not stored;
- `smoothing`: losses with kinks, exactly, with a duality gap;
- `quantiles`: several of these that must not cross, with `crossing`, `ordered` and `interior`;
- `penalised`: any increasing penalty of the norm, by half its square at another weight;
- `refined`: ridge on features, in float32 first and then to the accuracy of float64;
- `descent`: gradient descent, and the largest step that converges;
- `pivoted`: low-rank factors from a few columns, chosen at random, greedily or given;
- `whitening`: coordinates in the span of landmarks;
- `leverage`: how much each row matters to a ridge fit, from samples of rows;
- `conjugate`: iterations for many right-hand sides and shifts, with `lowrank` to speed them up;
- `bound`: the likelihood of a Gaussian process through landmarks, from sums over rows;
- `rows`: rows wherever they are, with `summands` to add up over them;
- `representers`: from coefficients of features to those of points;
- `moments`: sums over rows of features and targets;
- `feature_ridge`, `one_alpha`: ridge regression on features, from such sums;
- `landmark_equations`, `falkon`: the same on landmarks, and by iterations;
- `paths`: the same at many regularisations;
- `sketch`: low-rank factors from products with random vectors;
- `kernel_features`: the features that stand for a kernel;
- `spans`: functions over landmarks or of features, in coordinates of their norm;
- `row_loss`, `row_sums`, `quadratic`, `span_newton`, `span_steps`, `span_machine`,
  `landmark_machine`, `feature_machine`: smooth losses of such functions, from sums over rows;
- `machine_auto`: the choice of a machine's solver;
- `boxes`, `smo`: duals of support vector machines, by exchanges between pairs of variables;
- `seeding`: seeds that lie far apart;
- `selection`: landmarks for any kernel;
- `local`: a constant or a line for each place, weighted by nearness.
"""

from __future__ import annotations

from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.dense import Cholesky, Spectral
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.forecast import Forecast
from mercer.solvers.nystrom import Falkon, NystromSolver
from mercer.solvers.ridge.gram import LeaveOneOut, RidgeProblem
from mercer.solvers.ridge.spectrum import EigenRidge, Solution
from mercer.solvers.ridge.tridiagonal import Tridiagonal
from mercer.solvers.task import RidgeAnswer, RidgeTask

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
