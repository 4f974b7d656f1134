"""Support vector regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.callback import with_callbacks
from sklearn.utils.validation import column_or_1d

from mercer.exceptions import DataError, as_data_errors
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.svm import SupportVectorMachine
from mercer.solvers.boxes import BoxProgramme, BoxSolution

Array = NDArray[np.floating[Any]]


class SVR(RegressorMixin, SupportVectorMachine):
    r"""Support vector regression: deviations up to epsilon cost nothing.

    The function f(x) = sum_i a_i k(x, x_i) + b minimises

    .. math:: C \sum_i w_i \max(0, |y_i - f(x_i)| - \varepsilon) + \tfrac12 \|f - b\|_k^2.

    Code written for scikit-learn's `SVR` gives the same predictions, with kernels by name or any
    kernel of mercer.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Any kernel, which says what X may be; or a name: "linear", "poly", "rbf", "sigmoid" or
        "precomputed". By default ``RBF(length_scale="scale")``.
    C : float, default=1.0
        Weight of the loss, 1 / alpha of other models.
    epsilon : float, default=0.1
        Half the width of the tube, in units of y.
    gamma : float, "scale" or "auto", optional
        Of a kernel by name: the factor of distances or inner products; "scale" by default.
    degree : int, optional
        Of "poly": the degree, 3 by default.
    coef0 : float, optional
        Of "poly" and "sigmoid": what is added, 0 by default.
    tol : float, default=1e-3
        Violation of the conditions of the optimum that is allowed, in units of y.
    max_iter : int, optional
        The largest number of exchanges; None or -1 for ten million, or a hundred for each variable
        if that is more.

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
    intercept_ : ndarray of shape (1,)
        The constant b.
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

    See Also
    --------
    KernelMachineRegressor : Any convex loss.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 1.0, 2.0, 3.0]
    >>> mc.SVR(mc.Linear(), C=10.0).fit(X, y).predict([[1.5]]).round(3)
    array([1.5])
    """

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        C: float = 1.0,
        epsilon: float = 0.1,
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
        self.C = C
        self.epsilon = epsilon

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,)
            Targets.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative factors of C; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            points = self._training_points(X)
            targets = self._one_target(y, len(points))
            weights = self._validate_weights(sample_weight, targets)
            kernel = self._resolved_kernel(points, weights)
            counted = np.arange(len(points)) if weights is None else np.flatnonzero(weights)
            boxes = self.C * (np.ones(len(points)) if weights is None else weights)
            problem = _tube(counted, targets[counted], self.epsilon, boxes[counted])

            def fitted(found: Sequence[BoxSolution | None]) -> dict[str, Any]:
                return {"kernel_": kernel, **_attributes(points, problem, found[0])} | (
                    self._summary(found)
                )

            with self._iterations(X, y, None) as report:
                self.__dict__.update(
                    fitted(self._solve_all(kernel, points, [problem], report, fitted))
                )
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_number("C", 0.0, np.inf, "1.0")
        self._require_number("epsilon", 0.0, np.inf, "0.1", closed=True)

    def _one_target(self, y: ArrayLike, n: int) -> Array:
        targets = self._validate_targets(y, n)
        if targets.ndim > 1 and targets.shape[1] != 1:
            raise DataError(
                f"{type(self).__name__}: y has shape {targets.shape}, but there is one target; "
                "pass one column, or wrap the model in sklearn.multioutput.MultiOutputRegressor."
            )
        with as_data_errors(type(self).__name__):
            return np.asarray(column_or_1d(targets, warn=True), dtype=np.float64)

    @property
    def _coefficients(self) -> Array:
        return np.asarray(self.dual_coef_[0])

    def predict(self, X: Any) -> Array:
        """Predict targets, in chunks: no matrix of all pairs is stored.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The predictions, in the precision of the data.
        """
        return self._function_values(X)


def _tube(rows: NDArray[Any], targets: Array, epsilon: float, boxes: Array) -> BoxProgramme:
    """The dual: for each row a variable that rises and one that falls."""
    zeros = np.zeros_like(boxes)
    return BoxProgramme(
        rows=np.tile(rows, 2),
        linear=np.concatenate([epsilon - targets, -epsilon - targets]),
        lower=np.concatenate([zeros, -boxes]),
        upper=np.concatenate([boxes, zeros]),
        start=np.zeros(2 * len(rows)),
    )


def _attributes(
    points: Points, problem: BoxProgramme, solution: BoxSolution | None
) -> dict[str, Any]:
    assert solution is not None
    n = len(problem.rows) // 2
    coefficients = solution.coefficients[:n] + solution.coefficients[n:]
    carries = np.flatnonzero(coefficients)
    rows = problem.rows[carries]
    return {
        "support_": rows.astype(np.int32),
        "n_support_": np.array([len(rows)], np.int32),
        "points_": points[rows].detached(),
        "dual_coef_": coefficients[None, carries],
        "intercept_": np.array([solution.levels[0]]),
        "n_iter_": solution.n_iter,
    }
