"""Support vector machines for regression: SVR and NuSVR."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from mercer import checks
from mercer.arrays import Float64Array as Array
from mercer.estimator.base import store
from mercer.estimator.iterative import with_callbacks
from mercer.exceptions import DataError, DataWarning, warn
from mercer.models.regressor import ScoredRegressor
from mercer.models.svm.base import Similarity, SupportVectorMachine, Training, require_range
from mercer.models.svm.duals import Dual, DualSolutions, NuSvrDual, Rows, SvrDual


class SupportVectorRegressor(ScoredRegressor, SupportVectorMachine):
    """Base of machines for regression."""

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the function.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Anything that the kernel takes.
        y : array-like of shape (n,), or str
            Targets, or the name of their column in a data frame.
        sample_weight : array-like of shape (n,), optional
            Weights, which multiply C; a row of weight 0 is left out.

        Returns
        -------
        self
            The fitted model.
        """
        with self._fitting():
            self._check_parameters()
            kernel, points = self._read_points(X)
            targets = self._validate_targets(y, len(points)).astype(np.float64, copy=False)
            targets = _single_target(type(self).__name__, targets)
            data = self._training(kernel, points, sample_weight, targets)
            costs = float(self.C) * data.weights
            require_range(type(self).__name__, "C times the weight of a row", costs)
            self._fit_duals(X, y, data, self._dual(data.rows, targets[data.rows], costs))
        return self

    C: float
    _infeasible = "no function is within epsilon of every target"

    @abstractmethod
    def _dual(self, rows: Rows, targets: Array, costs: Array) -> Dual:
        """The problem of the rows of positive weight."""

    def predict(self, X: Any) -> Array:
        """Predict targets.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The values of the function.
        """
        return self._function_values(X)


def _single_target(owner: str, targets: Array) -> Array:
    """Targets as a vector of ordinary numbers."""
    if targets.ndim == 2 and targets.shape[1] == 1:
        targets = column_or_1d(targets, warn=True)
    if targets.ndim != 1:
        raise DataError(
            f"{owner}: y has shape {targets.shape}, and a machine predicts one number; fit one for "
            "each column, as sklearn.multioutput.MultiOutputRegressor does."
        )
    checks.require_target_range(owner, float(np.abs(targets).max()))
    return targets


class SVR(SupportVectorRegressor):
    r"""Support vector regression.

    f(x) = sum_i c_i k(x, x_i) + b minimises

    .. math:: \tfrac12 \|f - b\|_k^2 + C \sum_i w_i \max(0, |y_i - f(x_i)| - \epsilon).

    The rows outside the tube of half-width epsilon, or on its edge, are the support vectors.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel, or one by scikit-learn's name, as for `SVC`.
    C : float, default=1.0
        The weight of errors; infinite to allow none.
    epsilon : float, default=0.1
        Errors that cost nothing, in units of y.
    tol : float, default=1e-3
        How far a row may be from its condition of optimality, in units of y.
    degree, gamma, coef0, shrinking, cache_size, max_iter, verbose, psd
        As for `SVC`.

    Attributes
    ----------
    n_support_ : ndarray of shape (1,)
        How many support vectors.
    dual_coef_ : ndarray of shape (1, n_support)
        Their coefficients c_i, between -C w_i and C w_i.
    intercept_ : ndarray of shape (1,)
        The constant b.
    n_iter_ : int
        Steps.
    dual_gap_, objective_ : float
        As for `SVC`, of one function.
    support_, support_vectors_, converged_
        As for `SVC`.
    kernel_, points_, rows_, n_features_in_, feature_names_in_
        As for `SVC`.

    See Also
    --------
    NuSVR : With a bound on the share of errors in place of epsilon.
    KernelMachineRegressor : Other losses.

    References
    ----------
    .. [1] A. Smola, B. Schoelkopf (2004). A tutorial on support vector regression. Statistics and
       Computing 14.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> mc.SVR(mc.Linear(), C=10.0, epsilon=0.0).fit(X, y).predict([[1.5]]).round(2)
    array([1.5])
    """

    def __init__(
        self,
        kernel: Any = "rbf",
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        shrinking: bool = True,
        cache_size: float | None = None,
        max_iter: int = -1,
        verbose: bool = False,
        psd: Similarity | None = None,
    ) -> None:
        store(self, locals())

    def _dual(self, rows: Rows, targets: Array, costs: Array) -> SvrDual:
        extent = float(np.ptp(targets)) if len(targets) else 0.0
        if 0 < extent <= 2 * self.epsilon:
            warn(
                f"SVR: epsilon = {self.epsilon:g} is at least half the range of y, {extent:.3g}: a "
                "constant fits every target; lower epsilon, or scale y.",
                DataWarning,
            )
        return SvrDual(rows, targets, costs, float(self.epsilon))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.require_number(type(self).__name__, "C", self.C, high=np.inf)
        checks.require_number(
            type(self).__name__, "epsilon", self.epsilon, closed=True, example=0.1
        )


class NuSVR(SupportVectorRegressor):
    r"""Support vector regression whose tube leaves out a share of the rows.

    `nu` is at least the share of rows outside the tube and at most the share of support vectors;
    the width of the tube follows from it.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel, or one by scikit-learn's name, as for `SVR`.
    nu : float, default=0.5
        Between 0 and 1.
    C : float, default=1.0
        The weight of errors.
    degree, gamma, coef0, tol, shrinking, cache_size, max_iter, verbose, psd
        As for `SVR`.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube.

    See Also
    --------
    SVR : With a tube that is given; the other fitted attributes are described there.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.5]
    >>> model = mc.NuSVR(mc.Linear(), nu=0.5, C=10.0).fit(X, y)
    >>> 0.0 < model.epsilon_ < 0.5
    True
    """

    epsilon_: float

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
        C: float = 1.0,
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        shrinking: bool = True,
        cache_size: float | None = None,
        max_iter: int = -1,
        verbose: bool = False,
        psd: Similarity | None = None,
    ) -> None:
        store(self, locals())

    def _dual(self, rows: Rows, targets: Array, costs: Array) -> NuSvrDual:
        return NuSvrDual(rows, targets, costs, 0.0, float(self.nu))

    def _attributes_of(
        self, data: Training, support: Rows, coefficients: Array, solutions: DualSolutions
    ) -> dict[str, Any]:
        attributes = super()._attributes_of(data, support, coefficients, solutions)
        return attributes | {"epsilon_": float(solutions.epsilon[0])}

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.require_number(type(self).__name__, "nu", self.nu, high=1.0, example=0.5)
        checks.require_number(type(self).__name__, "C", self.C)
