"""What models return beside predictions: small named results."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class PrimalCoefficients:
    """A model in the feature space of its kernel: f(x) = phi(x) . values + intercept.

    Attributes
    ----------
    names : tuple of str
        The names of the features.
    values : ndarray of shape (n_features,) or (n_features, n_targets)
        The coefficients.
    intercept : float or ndarray of shape (n_targets,)
        The intercept.

    Examples
    --------
    >>> import mercer as mc
    >>> model = mc.KernelRidge(mc.Linear(), alpha=1e-9).fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.primal_coef().values.round(6)
    array([2.])
    """

    names: tuple[str, ...]
    values: Array
    intercept: Any

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Any:
        """The coefficient of the feature with this name."""
        if name not in self.names:
            raise KeyError(f"{name!r} is not a feature; the features are {', '.join(self.names)}.")
        return self.values[self.names.index(name)]


@dataclass(frozen=True, eq=False)
class NormalPredictions:
    """Normal distributions of targets, each described by its mean and variance.

    Attributes
    ----------
    mean : ndarray of shape (n,) or (n, n_targets)
        The means.
    variance : ndarray of shape (n,) or (n, n_targets)
        The variances.

    Examples
    --------
    >>> import mercer as mc
    >>> gp = mc.GaussianProcessRegressor(mc.RBF(), noise=0.1, learn=False, normalize_y=False)
    >>> left_out = gp.fit([[0.0], [9.0]], [1.0, 2.0]).loo_predictions_
    >>> left_out.mean.round(3) + 0.0, left_out.variance.round(3)
    (array([0., 0.]), array([1.1, 1.1]))
    """

    mean: Array
    variance: Array


@dataclass(frozen=True, eq=False)
class RidgePath:
    """Kernel ridge at many alphas, from one eigendecomposition.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        The weights of the squared norm, in the order given.
    dual_coef : ndarray of shape (n_alphas, n) or (n_alphas, n, n_targets)
        The coefficients over `points` at each alpha.
    intercept : ndarray of shape (n_alphas,) or (n_alphas, n_targets)
        The intercepts.
    loo_errors : ndarray of shape (n_alphas,)
        Mean squared leave-one-out errors, averaged over targets.
    gcv_errors : ndarray of shape (n_alphas,)
        The same by generalised cross-validation.
    effective_dof : ndarray of shape (n_alphas,)
        Effective degrees of freedom.
    kernel : Kernel
        The kernel with its length-scales resolved.
    points : Points
        The training points.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0]
    >>> path = mc.KernelRidge(mc.Linear()).path(X, y, alphas=[0.0, 2.0, 1e9])
    >>> path.predict([[3.0]]).ravel().round(3)
    array([7., 5., 3.])
    """

    alphas: Array
    dual_coef: Array
    intercept: Array
    loo_errors: Array
    gcv_errors: Array
    effective_dof: Array
    kernel: Kernel
    points: Points

    def predict(self, X: Any) -> Array:
        """Predictions of every model on the path.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.

        Returns
        -------
        ndarray of shape (n_alphas, m) or (n_alphas, m, n_targets)
            One set of predictions for each alpha.
        """
        n = self.dual_coef.shape[1]
        columns = np.moveaxis(self.dual_coef, 0, 1).reshape(n, -1)
        flat = np.asarray(self.kernel.gram(X, self.points) @ columns)
        shape = (len(flat), len(self.alphas), *self.dual_coef.shape[2:])
        return np.moveaxis(flat.reshape(shape), 0, 1) + self.intercept[:, None]
