"""Support vector machines for novelty detection: OneClassSVM and SVDD."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from mercer import checks
from mercer.arrays import Float64Array as Array
from mercer.estimator.base import store, tagged_kernel
from mercer.estimator.iterative import with_callbacks
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.explanation import Terms
from mercer.models.svm.base import Similarity, SupportVectorMachine, Training
from mercer.models.svm.duals import Dual, DualSolutions, OneClassDual, Rows, SvddDual


class SupportVectorDetector(OutlierMixin, SupportVectorMachine):
    """Base of machines of one class."""

    def __init__(
        self,
        kernel: Any = "rbf",
        nu: float = 0.5,
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

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the boundary of a class.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Anything that the kernel takes.
        y : object, optional
            Not looked at; for pipelines.
        sample_weight : array-like of shape (n,), optional
            Weights; a row of weight 0 is left out.

        Returns
        -------
        self
            The fitted model.
        """
        with self._fitting():
            self._check_parameters()
            kernel, points = self._read_points(X)
            data = self._training(kernel, points, sample_weight, np.empty(len(points)))
            self._fit_duals(X, y, data, self._dual(data))
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.require_number(type(self).__name__, "nu", self.nu, high=1.0, example=0.5)

    @abstractmethod
    def _dual(self, data: Training) -> Dual:
        """The problem of the rows of positive weight."""

    def _attributes_of(
        self, data: Training, support: Rows, coefficients: Array, solutions: DualSolutions
    ) -> dict[str, Any]:
        attributes = super()._attributes_of(data, support, coefficients, solutions)
        return attributes | {"offset_": -solutions.intercept}

    offset_: Array

    def score_samples(self, X: Any) -> Array:
        """How much each row is like those seen, without a threshold.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The decision function plus ``offset_``.
        """
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: Any) -> Array:
        """Positive inside the boundary, negative outside.

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

    def predict(self, X: Any) -> NDArray[np.intp]:
        """Tell rows that are like those seen from others.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            1 inside the boundary, where the decision function is 0 or more, and -1 outside.
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)


class OneClassSVM(SupportVectorDetector):
    r"""A plane between the rows and the origin, in the space of the kernel.

    f(x) = sum_i a_i k(x, x_i) - rho, where at most a share `nu` of the rows has f(x) < 0, and at
    least as many are support vectors [1]_.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel, or one by scikit-learn's name, as for `SVC`.
    nu : float, default=0.5
        Between 0 and 1. If nu n is small, many margin vectors are flagged beside the share nu.
    degree, gamma, coef0, tol, shrinking, cache_size, max_iter, verbose, psd
        As for `SVC`.

    Attributes
    ----------
    offset_ : ndarray of shape (1,)
        rho: the decision function is `score_samples` minus this.

    See Also
    --------
    SVDD : The smallest ball; the same boundary if k(x, x) is constant.
    SVR : The other fitted attributes are described there.

    References
    ----------
    .. [1] B. Schoelkopf, J. Platt, J. Shawe-Taylor, A. Smola, R. Williamson (2001). Estimating the
       support of a high-dimensional distribution. Neural Computation 13.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0], [0.1], [0.2], [0.3], [5.0]]
    >>> mc.OneClassSVM(mc.RBF(length_scale=0.5), nu=0.3).fit(X).predict([[0.15], [3.0]])
    array([ 1, -1])
    """

    def _dual(self, data: Training) -> OneClassDual:
        return OneClassDual(data.rows, data.weights, float(self.nu))


class SVDD(SupportVectorDetector):
    r"""The smallest ball around the rows, in the space of the kernel.

    At most a share `nu` of the rows lies outside. With coefficients a_i that sum to 1 the centre is
    c = sum_i a_i phi(x_i), and the decision function (R^2 - |phi(x) - c|^2) / 2 [1]_. Where k(x, x)
    is constant, it is that of `OneClassSVM`, divided by nu n.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel, or one by scikit-learn's name, as for `OneClassSVM`; except "precomputed" and
        kernels that take a matrix as X, whose rows do not say what k(x, x) is. ``Precomputed(K)``
        with row numbers as X does.
    nu : float, default=0.5
        Between 0 and 1. If nu n is small, many margin vectors are flagged beside the share nu.
    tol : float, default=1e-3
        How far a row may be from its condition of optimality, in units of the function of
        `OneClassSVM`: the decision function times nu n.
    degree, gamma, coef0, shrinking, cache_size, max_iter, verbose, psd
        As for `SVC`.

    Attributes
    ----------
    radius_ : float
        The radius R of the ball.

    See Also
    --------
    OneClassSVM : A plane in place of a ball; `offset_` is described there.
    SVR : The other fitted attributes are described there.

    References
    ----------
    .. [1] D. Tax, R. Duin (2004). Support vector data description. Machine Learning 54.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[-1.0], [0.0], [1.0]]
    >>> model = mc.SVDD(mc.Linear(), nu=0.1).fit(X)
    >>> round(model.radius_, 3), model.predict([[0.5], [1.5]])
    (1.0, array([ 1, -1]))
    """

    radius_: float

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.psd in ("clip", "flip", "shift"):
            raise ParameterError(
                f"{type(self).__name__}: psd = {self.psd!r} is not possible, because a repair says "
                "nothing of k(x, x) of new rows; use OneClassSVM, which does not need it."
            )
        kernel = tagged_kernel(self)
        if isinstance(kernel, Kernel) and kernel.input_tags()["pairwise"]:
            raise ParameterError(
                f"{type(self).__name__}: kernel = {self.kernel!r} takes a matrix as X, whose rows "
                "say nothing of k(x, x) of new rows; use OneClassSVM, which does not need it, or "
                "Precomputed(K) with the values of all rows, old and new, and row numbers as X."
            )

    def _dual(self, data: Training) -> SvddDual:
        diagonal = np.asarray(self.kernel_.diag(data.points[data.rows]), dtype=np.float64)
        return SvddDual(data.rows, data.weights, float(self.nu), diagonal)

    def _attributes_of(
        self, data: Training, support: Rows, coefficients: Array, solutions: DualSolutions
    ) -> dict[str, Any]:
        # On the sphere <phi(x), c> - k(x, x) / 2 is the threshold, which is (|c|^2 - R^2) / 2.
        squared = max(float(solutions.squared_norm[0] + 2 * solutions.intercept[0]), 0.0)
        return super()._attributes_of(data, support, coefficients, solutions) | {
            "radius_": float(np.sqrt(squared))
        }

    _no_effects = "the function is a distance, which has k(x, x) beside terms of points"

    def _values_at(self, points: Points) -> Array:
        # Half of what the squared radius exceeds the squared distance from the centre by.
        diagonal = np.asarray(self.kernel_.diag(points), dtype=np.float64)
        return super()._values_at(points) - diagonal[:, None] / 2

    def _terms(self, points: Points, functions: Rows) -> tuple[Terms, Array]:
        terms, added = super()._terms(points, functions)
        return terms, added - np.asarray(self.kernel_.diag(points), dtype=np.float64) / 2
