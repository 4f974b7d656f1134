"""The representer theorem as a base class: coefficients over points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.kernels.points import Points
from mercer.models.explanation import ExplainedModel, Terms

Array = NDArray[np.floating[Any]]

# Kernel values that are held at a time when predictions are explained.
_BLOCK = 2**20


class RepresenterModel(ExplainedModel):
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

    dual_coef_: Array
    intercept_: Any

    def _function_values(self, X: Any) -> Array:
        """The values f(x) of rows like those seen by fit; no matrix of pairs is stored."""
        check_is_fitted(self)
        points = self._validate_points(self.kernel_, X, reset=False)
        values: Array = np.asarray(self.kernel_.gram(points, self.points_) @ self.dual_coef_)
        values += self.intercept_
        return values

    def _terms(self, points: Points, output: int | None) -> tuple[Terms, float]:
        coefficients, intercept = self._explained_output(output)
        blocks = ((block, block * coefficients) for block in self._kernel_rows(points))
        return blocks, intercept

    def _kernel_rows(self, points: Points) -> Iterator[Array]:
        """Rows of kernel values with all training points, a block at a time."""
        step = max(1, _BLOCK // len(self.points_))
        for start in range(0, len(points), step):
            block = self.kernel_(points[start : start + step], self.points_)
            yield block.astype(np.float64, copy=False)

    def _explained_output(self, output: int | None) -> tuple[Array, float]:
        """The coefficients and the intercept of one output."""
        columns = np.asarray(self.dual_coef_, dtype=np.float64).reshape(len(self.points_), -1)
        chosen = self._checked_output(output, columns.shape[1])
        intercepts = np.asarray(self.intercept_, dtype=np.float64)
        return columns[:, chosen], float(np.broadcast_to(intercepts, columns.shape[1])[chosen])
