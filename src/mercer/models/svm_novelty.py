"""One-class support vector machines: where most of the data lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.callback import with_callbacks

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.svm import SupportVectorMachine
from mercer.solvers.boxes import BoxProgramme, BoxSolution

Array = NDArray[np.floating[Any]]


class OneClassSVM(OutlierMixin, SupportVectorMachine):
    r"""Novelty detection: a function that is positive where most of the data lie.

    The function f(x) = sum_i a_i k(x, x_i) and the level rho minimise

    .. math:: \tfrac12 \|f\|_k^2 + \sum_i w_i \max(0, \rho - f(x_i)) - \nu \rho \sum_i w_i,

    which leaves at most the share nu of the data below the level, and makes at least this share
    support vectors. Rows with f(x) < rho are novelties.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Any kernel, which says what X may be; or a name: "linear", "poly", "rbf", "sigmoid" or
        "precomputed". By default ``RBF(length_scale="scale")``.
    nu : float, default=0.5
        At most this share of the rows is below the level, and at least this share carries
        coefficients.
    gamma : float, "scale" or "auto", optional
        Of a kernel by name: the factor of distances or inner products; "scale" by default.
    degree : int, optional
        Of "poly": the degree, 3 by default.
    coef0 : float, optional
        Of "poly" and "sigmoid": what is added, 0 by default.
    tol : float, default=1e-3
        Violation of the conditions of the optimum that is allowed, in units of f.
    max_iter : int, optional
        The largest number of exchanges; None or -1 for ten million, or a hundred for each row if
        that is more.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Rows of X that carry coefficients.
    support_vectors_ : array or data frame of n_support rows
        These rows.
    n_support_ : ndarray of shape (1,)
        Their number.
    dual_coef_ : ndarray of shape (1, n_support)
        Their coefficients.
    offset_ : float
        The level rho, lowered by the violation that is left: rows on it are no novelties.
    intercept_ : ndarray of shape (1,)
        Its negative.
    kernel_ : Kernel
        The kernel used, with all its parameters.
    points_ : Points
        The support vectors, as the kernel prepared them.
    objective_ : float
        The dual objective, which is to be small.
    dual_gap_ : float
        How far it is at most above its minimum, in float64.
    violation_ : float
        Largest violation of the conditions of the optimum.
    n_iter_ : int
        Exchanges between variables.
    converged_ : bool
        Whether the violation is at most `tol`.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    References
    ----------
    .. [1] B. Schölkopf et al. (2001). Estimating the support of a high-dimensional distribution.
       Neural Computation 13(7).

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0], [0.1], [0.2], [0.3], [5.0]]
    >>> mc.OneClassSVM(mc.RBF(length_scale=0.5), nu=0.4).fit(X).predict([[0.15], [4.0]])
    array([ 1, -1])
    """

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        nu: float = 0.5,
        *,
        gamma: float | str | None = None,
        degree: int | None = None,
        coef0: float | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
    ) -> None:
        super().__init__(
            kernel, gamma=gamma, degree=degree, coef0=coef0, tol=tol, max_iter=max_iter
        )
        self.nu = nu

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : object
            Not used; there because scikit-learn passes it.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            points = self._training_points(X)
            weights = self._validate_weights(sample_weight, np.empty(len(points)))
            kernel = self._resolved_kernel(points, weights)
            problem = _level_set(np.ones(len(points)) if weights is None else weights, self.nu)

            def fitted(found: Sequence[BoxSolution | None]) -> dict[str, Any]:
                return {"kernel_": kernel, **_attributes(points, problem, found[0])} | (
                    self._summary(found)
                )

            with self._iterations(X, y, None) as report:
                found = self._solve_all(kernel, points, [problem], report, fitted)
                self.__dict__.update(fitted(found))
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_number("nu", 0.0, 1.0, "0.5")

    @property
    def _coefficients(self) -> Array:
        return np.asarray(self.dual_coef_[0])

    def decision_function(self, X: Any) -> Array:
        """The values f(x) - rho: negative for novelties.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The values.
        """
        return self._function_values(X)

    def score_samples(self, X: Any) -> Array:
        """The values f(x).

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The values.
        """
        return np.asarray(self._function_values(X) + self.offset_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Tell novelties from rows like those seen by `fit`.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            -1 for novelties, else 1.
        """
        return np.where(self._function_values(X) >= 0, 1, -1)


def _level_set(weights: Array, nu: float) -> BoxProgramme:
    """The dual: coefficients between zero and the weights, which sum to their share."""
    rows = np.flatnonzero(weights)
    upper = weights[rows].astype(np.float64)
    before = np.cumsum(upper) - upper
    start = np.clip(nu * upper.sum() - before, 0.0, upper)
    zeros = np.zeros(len(rows))
    return BoxProgramme(rows, zeros, zeros, upper, start)


def _attributes(
    points: Points, problem: BoxProgramme, solution: BoxSolution | None
) -> dict[str, Any]:
    assert solution is not None
    # Lowered by what is uncertain, so that rows on the level are not below it.
    slack = max(solution.violation, 1e-12 * abs(solution.levels[0]))
    intercept = solution.levels[0] + slack
    carries = np.flatnonzero(solution.coefficients)
    rows = problem.rows[carries]
    return {
        "support_": rows.astype(np.int32),
        "n_support_": np.array([len(rows)], np.int32),
        "points_": points[rows].detached(),
        "dual_coef_": solution.coefficients[None, carries],
        "intercept_": np.array([intercept]),
        "offset_": -intercept,
        "n_iter_": solution.n_iter,
    }
