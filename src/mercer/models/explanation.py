"""Predictions as sums over training points, of which the largest terms are shown."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.base import KernelEstimator
from mercer.models.results import Contributions

Array = NDArray[np.floating[Any]]
Terms = Iterator[tuple[Array, Array]]
"""Blocks of kernel values with all training points, and of the terms that they make."""


class ExplainedModel(KernelEstimator):
    """Base of models whose predictions are sums of one term for each training point.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.
    """

    kernel_: Kernel
    points_: Points

    #: What a term is, for people.
    _formula = "a_i k(x, x_i)"

    @abstractmethod
    def _terms(self, points: Points, output: int | None) -> tuple[Terms, float]:
        """The terms of one output at some points, block by block, and what they are added to."""

    def contributions(self, X: Any, top: int = 10, *, output: int | None = None) -> Contributions:
        """The training points that carry each prediction: the largest terms of its sum.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`; a single row, such as ``X_test[0]``, will do.
        top : int, default=10
            How many training points to show for each row, those with the largest terms in absolute
            value; all of them where there are no more than that.
        output : int, optional
            The target or class to explain, counted from 0; needed if there are several functions.

        Returns
        -------
        Contributions
            Terms, what is left out, the intercept, and f(x), which is their sum. For a classifier
            f is the decision function, for Poisson and gamma losses the logarithm of the mean, and
            of several quantiles each is explained before they are put in order.
        """
        check_is_fitted(self)
        number = self._checked_top(top)
        points = self._validate_points(self.kernel_, _as_rows(X, self.kernel_), reset=False)
        terms, intercept = self._terms(points, output)
        shown = min(number, len(self.points_))
        parts = [_largest_terms(*block, shown) for block in terms]
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
            formula=self._formula,
        )

    def _checked_output(self, output: int | None, n_outputs: int) -> int:
        """The output to explain, which need not be named if there is one only."""
        if output is None and n_outputs == 1:
            return 0
        if not _is_integer(output) or not 0 <= output < n_outputs:
            raise ParameterError(
                f"{type(self).__name__}: output = {output!r} does not name one of the model's "
                f"{n_outputs} outputs; pass a number from 0 to {n_outputs - 1}."
            )
        return int(output)

    def _checked_top(self, top: int) -> int:
        if not _is_integer(top) or top < 1:
            raise ParameterError(
                f"{type(self).__name__}: top = {top!r} is not a whole number of at least 1; pass "
                "how many training points to show, for example 10."
            )
        return int(top)


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _as_rows(X: Any, kernel: Kernel) -> Any:
    """A single row as data of one row; data of several rows as they are."""
    if isinstance(X, str):
        return [X]
    if not kernel.input_tags()["two_d"]:  # a list of objects
        return X
    if sp.issparse(X) and X.ndim == 1:
        return sp.csr_array(X.reshape(1, -1))
    if isinstance(X, np.ndarray) and X.ndim == 1 and len(X):
        return X[None]
    if isinstance(X, list | tuple) and X and all(map(np.isscalar, X)):
        return [list(X)]
    if hasattr(X, "to_frame") and hasattr(X, "index"):  # a row of a pandas frame
        return X.to_frame().T.infer_objects()
    return X


def _largest_terms(kernel_values: Array, terms: Array, top: int) -> tuple[Any, ...]:
    """Of every row: positions, kernel values and terms of the largest, the sum of the others."""
    chosen = np.argpartition(-np.abs(terms), top - 1, axis=1)[:, :top]
    chosen.sort(axis=1)  # so that of equal terms the earlier point comes first
    sizes = np.take_along_axis(-np.abs(terms), chosen, axis=1)
    order = np.argsort(sizes, axis=1, kind="stable")
    chosen = np.take_along_axis(chosen, order, axis=1)
    values = np.take_along_axis(terms, chosen, axis=1)
    # Summed, not subtracted from the whole: the rest is exact where it is small.
    np.put_along_axis(terms, chosen, 0.0, axis=1)
    return chosen, np.take_along_axis(kernel_values, chosen, axis=1), values, terms.sum(axis=1)
