"""Explanations: the largest terms of predictions that are sums over training points."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, shown
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.results import Contributions

Positions = NDArray[np.intp]
#: Blocks of kernel values with all training points, and of the terms that they make.
Terms = Iterator[tuple[Array, Array]]

_PLURALS = {"class": "classes", "quantile": "quantiles", "target": "targets"}


class ExplainedModel(KernelEstimator):
    """Base of models whose predictions are sums of one term per training point."""

    kernel_: Kernel
    points_: Points

    #: The formula of a term, for printed tables.
    _formula = "a_i k(x, x_i)"

    @property
    @abstractmethod
    def _n_functions(self) -> int:
        """The number of functions: one per target, quantile or class; two classes share one."""

    @abstractmethod
    def _terms(self, points: Points, functions: Positions) -> tuple[Terms, Array]:
        """The terms of one function at each point, block by block, and its intercept."""

    def _output_names(self) -> tuple[str, NDArray[Any]]:
        """The kind of the outputs, and their names; several targets are numbered."""
        classes = getattr(self, "classes_", None)
        if classes is not None:
            return "class", classes
        return "target", np.arange(self._n_functions)

    def _predicted_places(self, points: Points) -> Positions:
        """The position in ``classes_`` of the predicted class, for more than two classes."""
        return np.asarray(np.argmax(self._function_values(points), axis=1), dtype=np.intp)

    @abstractmethod
    def _function_values(self, X: Any) -> Array:
        """The values of the functions."""

    def contributions(self, X: Any, top: int = 10, *, output: Any = None) -> Contributions:
        """The training points with the largest terms in the sum of each prediction.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the type and columns passed to `fit`; also a single row, such as ``X_test[0]``.
        top : int, default=10
            The number of training points to show per row, those with the largest absolute terms;
            all points if there are fewer.
        output : label, float or int, optional
            The function to explain: the label of a class, the level of a quantile, or the index of
            a class, quantile or target, from 0. A value that is both, such as 1 with the labels 1,
            2 and 3, is taken as the label. By default the first target or quantile; of two classes
            the second, whose decision function is positive; of more classes the predicted one, row
            by row.

        Returns
        -------
        Contributions
            The largest terms, the sum of the other terms, the intercept, and their sum f(x), with
            the output that each row explains. For a classifier f is the decision function (with
            the opposite sign for the first of two classes), for Poisson and gamma losses the
            logarithm of the mean. Quantiles are explained before they are sorted.
        """
        check_is_fitted(self, "kernel_")
        checks.require_count(type(self).__name__, "top", top, example=10)
        points = self._validate_points(self.kernel_, as_rows(X, self.kernel_), reset=False)
        kind, names = self._output_names()
        places = _explained_places(self, points, output, kind, names)
        # Two classes share a function, with opposite signs.
        shared = len(names) > self._n_functions
        signs = np.where(places == 0, -1.0, 1.0) if shared else np.ones(len(places))
        terms, intercepts = self._terms(points, np.zeros_like(places) if shared else places)
        most = min(int(top), len(self.points_))
        parts = [_largest_terms(*block, most) for block in terms]
        indices, similarities, values, rest = (
            np.concatenate(part) for part in zip(*parts, strict=True)
        )
        # Adding zero turns -0.0 into 0.0.
        values, rest = signs[:, None] * values + 0.0, signs * rest + 0.0
        intercept = signs * intercepts + 0.0
        return Contributions(
            indices=indices,
            values=values,
            kernel_values=similarities,
            rest=rest,
            intercept=intercept,
            prediction=values.sum(axis=1) + rest + intercept,
            training=self.points_,
            rows=self._rows_of_points[indices],
            outputs=names[places],
            kind=kind if len(names) > 1 else "",
            formula=self._formula,
        )

    @property
    def _rows_of_points(self) -> Positions:
        """The rows of X that are training points, from ``rows_`` if the model dropped some.

        Points that are not rows of X are numbered from 0.
        """
        rows: Positions | None = getattr(self, "rows_", None)
        return np.arange(len(self.points_)) if rows is None else rows


def _explained_places(
    model: ExplainedModel, points: Points, output: Any, kind: str, names: NDArray[Any]
) -> Positions:
    """The position, among the names, of the output that each row explains."""
    if output is not None:
        place = place_of(type(model).__name__, output, kind, names)
    elif kind == "class" and len(names) > 2:
        return model._predicted_places(points)
    else:
        place = 1 if kind == "class" else 0
    return np.full(len(points), place, dtype=np.intp)


def place_of(owner: str, output: Any, kind: str, names: NDArray[Any]) -> int:
    """The position of the output that a label, a level or a number names."""
    listed = names.tolist()
    wanted = output.item() if isinstance(output, np.generic) else output
    for place, name in enumerate(listed):
        # True == 1 in Python, but True is not the label 1.
        alike = isinstance(wanted, bool) == isinstance(name, bool) and isinstance(wanted, Hashable)
        if alike and wanted == name:
            return place
    if checks.is_count(wanted, least=0) and wanted < len(listed):
        return int(wanted)
    known = "" if kind == "target" else f", {shown(listed)}"
    example = "" if kind == "target" else f"one of these {_PLURALS[kind]}, or "
    raise ParameterError(
        f"{owner}: output = {shown(output)} does not name one of the model's "
        f"{len(listed)} {_PLURALS[kind]}{known}; pass {example}a number from 0 to "
        f"{len(listed) - 1}."
    )


def as_rows(X: Any, kernel: Kernel) -> Any:
    """Turn a single row into data of one row; return other data unchanged."""
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
    """Per row, the positions, kernel values and terms of the largest, and the sum of the others."""
    chosen = np.argpartition(-np.abs(terms), top - 1, axis=1)[:, :top]
    chosen.sort(axis=1)  # the earlier of two points with equal terms comes first
    sizes = np.take_along_axis(-np.abs(terms), chosen, axis=1)
    order = np.argsort(sizes, axis=1, kind="stable")
    chosen = np.take_along_axis(chosen, order, axis=1)
    values = np.take_along_axis(terms, chosen, axis=1)
    # Sum the rest instead of subtracting from the total, which would cancel if it is small.
    np.put_along_axis(terms, chosen, 0.0, axis=1)
    return chosen, np.take_along_axis(kernel_values, chosen, axis=1), values, terms.sum(axis=1)
