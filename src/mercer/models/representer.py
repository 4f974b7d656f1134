"""The representer theorem as a base class: coefficients over points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.base import KernelEstimator

Array = NDArray[np.floating[Any]]


class RepresenterModel(KernelEstimator):
    """Base of models f(x) = sum_i a_i k(x, x_i) + b.

    A subclass's fit sets ``kernel_``, ``points_`` (the x_i), ``dual_coef_`` (the a_i, of shape (n,)
    or (n, n_outputs)) and ``intercept_`` (b, a number or one for each output).

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.models import RepresenterModel
    >>> issubclass(mc.KernelRidge, RepresenterModel)
    True
    """

    kernel_: Kernel
    points_: Points
    dual_coef_: Array
    intercept_: Any

    def _function_values(self, X: Any) -> Array:
        """The values f(x) of rows like those seen by fit; no matrix of pairs is stored."""
        check_is_fitted(self)
        points = self._validate_points(self.kernel_, X, reset=False)
        values: Array = np.asarray(self.kernel_.gram(points, self.points_) @ self.dual_coef_)
        values += self.intercept_
        return values
