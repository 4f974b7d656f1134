"""The representer theorem as a base class: coefficients over points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.estimator.by_blocks import by_blocks, scored_by_blocks
from mercer.estimator.scoring import accuracy
from mercer.kernels.points import Points
from mercer.models.effects import Effects, effects_of
from mercer.models.explanation import ExplainedModel, Positions, Terms
from mercer.models.results import PrimalCoefficients
from mercer.sampling import blocks
from mercer.solvers.ridge.feature_problem import InnerProducts

# Kernel values that are held at a time when predictions are explained.
_BLOCK = 2**20


class RepresenterModel(ExplainedModel):
    """Base of models f(x) = sum_i a_i k(x, x_i) + b.

    A subclass's fit sets ``kernel_``, ``points_`` (the x_i), ``dual_coef_`` (the a_i, of shape (n,)
    or (n, n_outputs)) and ``intercept_`` (b, a number or one for each output).

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="columns"``.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.models import RepresenterModel
    >>> issubclass(mc.KernelRidge, RepresenterModel)
    True
    """

    dual_coef_: Array
    intercept_: Any

    #: Why the function is no sum over the terms of the kernel; empty if it is one.
    _no_effects: str = ""

    def effects(self, X: Any, *, output: Any = None) -> Effects:
        """The function as a sum of effects, one for each term of a kernel k_1 + ... + k_m.

        A product of kernels is one term. Scales and selected columns of a sum belong to its terms.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the type and columns passed to `fit`; also a single row.
        output : label, float or int, optional
            The function, as for `contributions`. It is required for more than two classes.

        Returns
        -------
        Effects
            The effects and an intercept, which sum to the function. It is what `contributions`
            explains: the decision function of a classifier, the logarithm of the mean for Poisson
            and gamma losses. Exact Gaussian processes add standard deviations. They and exact ridge
            add degrees of freedom.
        """
        return effects_of(self, X, output)

    @property
    def _coefficients(self) -> Array:
        """The a_i, of shape (n,) or (n, n_outputs); models may store them in another layout."""
        return self.dual_coef_

    def _function_values(self, X: Any) -> Array:
        """The values f(x) of rows like those seen by fit; no matrix of pairs is stored."""
        check_is_fitted(self, "kernel_")
        return self._values_at(self._validate_points(self.kernel_, X, reset=False))

    def _values_at(self, points: Points) -> Array:
        """The values f(x) at points that were validated."""
        values: Array = np.asarray(self.kernel_.gram(points, self.points_) @ self._coefficients)
        values += self.intercept_
        return values

    @property
    def _n_functions(self) -> int:
        return 1 if self._coefficients.ndim == 1 else self._coefficients.shape[1]

    @property
    def _explained(self) -> tuple[Array, Any]:
        """Coefficients and intercepts of the functions whose terms are shown."""
        return self._coefficients, self.intercept_

    def _terms(self, points: Points, functions: Positions) -> tuple[Terms, Array]:
        coefficients, intercept = self._explained
        added = np.broadcast_to(np.asarray(intercept, dtype=np.float64), self._n_functions)
        columns = np.asarray(coefficients, dtype=np.float64).T.reshape(-1, len(self.points_))
        terms = _blocks_of_terms(self._similarities(), points, columns, functions)
        return terms, added[functions]

    def _similarities(self) -> Callable[[Points], Array]:
        """What makes rows of values k(x, x_i) of points."""
        return lambda points: self.kernel_(points, self.points_)


def _blocks_of_terms(
    similarities: Callable[[Points], Array], points: Points, columns: Array, functions: Positions
) -> Terms:
    """Rows of kernel values with all training points, and of terms, one block after the other."""
    step = max(1, _BLOCK // columns.shape[1])
    for rows in blocks(len(points), step=step):
        block = similarities(points[rows]).astype(np.float64, copy=False)
        yield block, block * columns[functions[rows]]


class ScoredClassifier(ClassifierMixin):
    """Base of classifiers whose score is the share of labels that are predicted."""

    @scored_by_blocks(accuracy)
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of labels that are predicted.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data like those seen by `fit`; blocks with their labels, as `fit` takes them.
        y : array-like of shape (m,), Dask collection or str
            True labels; None if blocks hold them, or the name of a column.
        sample_weight : array-like of shape (m,), Dask collection or str, optional
            Weights of the rows.

        Returns
        -------
        float
            Between 0 and 1.
        """
        return float(super().score(X, y, sample_weight))


class RepresenterClassifier(ScoredClassifier, RepresenterModel):
    """Base of classifiers by the sign of one function, or by the largest of one for each class."""

    classes_: NDArray[Any]

    @by_blocks
    def decision_function(self, X: Any) -> Array:
        """The values of the fitted function or functions.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,) or (m, n_classes)
            For two classes, positive values speak for the second.
        """
        return self._function_values(X)

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The classes.
        """
        values = self.decision_function(X)
        codes = (values > 0).astype(np.intp) if values.ndim == 1 else values.argmax(axis=1)
        return np.asarray(self.classes_[codes])


class _DualCoefficients:
    """``dual_coef_`` where a fit sets none: the attribute error says why.

    A fit stores its coefficients in the instance, which comes before this descriptor.
    """

    def __get__(self, model: Any, owner: type) -> Any:
        if model is None:
            return self
        if getattr(model, "_function", None) is None:
            raise AttributeError(f"{owner.__name__!r} object has no attribute 'dual_coef_'")
        raise AttributeError(
            f"{owner.__name__}: rows that come in blocks are not kept, so that they have no "
            "coefficients dual_coef_; take primal_coef(), or pass arrays to fit."
        )


class FeatureRepresenterModel(RepresenterModel):
    """Base of models f(x) = sum_i a_i k(x, x_i) + b that may be f(x) = phi(x)'v + b as well.

    A subclass's fit sets ``solver_`` and ``_function``, which is None where there are no features.
    """

    rows_: NDArray[Any]
    alpha_: float
    residual_: float
    preconditioner_error_: float
    trace_error_: float
    feature_map_: Any
    kernel_error_: float
    solver_: Any
    dual_coef_: Array = _DualCoefficients()  # type: ignore[assignment]
    _function: Any = None

    def primal_coef(self) -> PrimalCoefficients:
        """The model as coefficients of named features, where the feature space is finite.

        The features are the kernel's own, or those that the map of a
        `mercer.solvers.RandomFeatures` computes.

        Returns
        -------
        PrimalCoefficients
            Names, coefficients and intercept.
        """
        check_is_fitted(self)
        if self._function is not None:
            names = tuple(self._function.features.names)
            return PrimalCoefficients(
                names, _like(self.intercept_, self._function.coef), self.intercept_
            )
        features = self.kernel_.feature_map(self.points_)
        names = tuple(self.kernel_.feature_names(self.points_))
        return PrimalCoefficients(names, features.T @ self.dual_coef_, self.intercept_)

    def _function_values(self, X: Any) -> Array:
        """By explicit features where the solver has them: that is the shorter sum."""
        check_is_fitted(self)
        if self._function is None:
            return super()._function_values(X)
        points = self._validate_points(self.kernel_, X, reset=False)
        dtype = self.kernel_.gram(points, self.points_).dtype
        values: Array = _like(self.intercept_, self._function(points)).astype(dtype, copy=False)
        values += self.intercept_
        return values

    def _similarities(self) -> Callable[[Points], Array]:
        function = self._function
        if function is None or not self.solver_.is_approximate:
            return super()._similarities()
        width, owner = len(function.coef), type(self).__name__
        return InnerProducts.within_memory(function.features, self.points_, width, owner)


def _like(intercept: Any, columns: Array) -> Array:
    """Columns in the layout of outputs: a vector if the intercept is a number."""
    return columns.reshape(len(columns), *np.shape(intercept))
