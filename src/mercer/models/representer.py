"""The representer theorem as a base class: coefficients over points."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.base import KernelEstimator
from mercer.models.results import Contributions

Array = NDArray[np.floating[Any]]

# Kernel values that are held at a time when predictions are explained.
_BLOCK = 2**20


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

    def contributions(self, X: Any, top: int = 10, *, output: int | None = None) -> Contributions:
        """The training points that carry each prediction: the largest terms a_i k(x, x_i).

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.
        top : int, default=10
            How many training points to show for each row, those with the largest terms in absolute
            value; all of them where there are no more than that.
        output : int, optional
            The column of ``dual_coef_`` to explain; needed if there are several.

        Returns
        -------
        Contributions
            Terms, what is left out, the intercept, and f(x), which is their sum. For a classifier
            f is the decision function, not the label.
        """
        check_is_fitted(self)
        shown = min(self._checked_top(top), len(self.points_))
        points = self._validate_points(self.kernel_, X, reset=False)
        coefficients, intercept = self._explained_output(output)
        parts = [
            _largest_terms(kernel_values, coefficients, shown)
            for kernel_values in self._kernel_rows(points)
        ]
        indices, similarities, values, rest = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        return Contributions(
            indices=indices,
            values=values,
            kernel_values=similarities,
            rest=rest,
            intercept=intercept,
            prediction=values.sum(axis=1) + rest + intercept,
            training=self.points_,
        )

    def _kernel_rows(self, points: Points) -> Iterator[Array]:
        """Rows of kernel values with all training points, a block at a time."""
        step = max(1, _BLOCK // len(self.points_))
        for start in range(0, len(points), step):
            block = self.kernel_(points[start : start + step], self.points_)
            yield block.astype(np.float64, copy=False)

    def _explained_output(self, output: int | None) -> tuple[Array, float]:
        """The coefficients and the intercept of one output."""
        columns = np.asarray(self.dual_coef_, dtype=np.float64).reshape(len(self.points_), -1)
        n_outputs = columns.shape[1]
        if output is None and n_outputs == 1:
            output = 0
        if not _is_integer(output) or not 0 <= output < n_outputs:
            raise ParameterError(
                f"{type(self).__name__}: output = {output!r} does not name one of the model's "
                f"{n_outputs} outputs; pass a column of dual_coef_, from 0 to {n_outputs - 1}."
            )
        intercepts = np.broadcast_to(np.asarray(self.intercept_, dtype=np.float64), n_outputs)
        return columns[:, output], float(intercepts[output])

    def _checked_top(self, top: int) -> int:
        if not _is_integer(top) or top < 1:
            raise ParameterError(
                f"{type(self).__name__}: top = {top!r} is not a whole number of at least 1; pass "
                "how many training points to show, for example 10."
            )
        return int(top)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _largest_terms(kernel_values: Array, coefficients: Array, top: int) -> tuple[Any, ...]:
    """Of every row: positions, kernel values and terms of the largest, the sum of the others."""
    terms = kernel_values * coefficients
    chosen = np.argpartition(-np.abs(terms), top - 1, axis=1)[:, :top]
    chosen.sort(axis=1)  # so that of equal terms the earlier point comes first
    sizes = np.take_along_axis(-np.abs(terms), chosen, axis=1)
    order = np.argsort(sizes, axis=1, kind="stable")
    chosen = np.take_along_axis(chosen, order, axis=1)
    values = np.take_along_axis(terms, chosen, axis=1)
    # Summed, not subtracted from the whole: the rest is exact where it is small.
    np.put_along_axis(terms, chosen, 0.0, axis=1)
    return chosen, np.take_along_axis(kernel_values, chosen, axis=1), values, terms.sum(axis=1)
