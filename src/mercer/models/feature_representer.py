"""Models that a solver may give as functions of explicit features."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.kernels.points import Points
from mercer.models.representer import RepresenterModel
from mercer.models.results import PrimalCoefficients
from mercer.solvers import RandomFeatures
from mercer.solvers.ridge.feature_problem import InnerProducts

Array = NDArray[np.floating[Any]]


class FeatureRepresenterModel(RepresenterModel):
    """Base of models f(x) = sum_i a_i k(x, x_i) + b that may be f(x) = phi(x)'v + b as well.

    A subclass's fit sets ``solver_`` and ``_function``, which is None where there are no features.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default an RBF with ``length_scale="scale"``.
    """

    solver_: Any
    _function: Any

    def primal_coef(self) -> PrimalCoefficients:
        """The model as coefficients of named features, where the feature space is finite.

        They are the kernel's own features, or for `mercer.solvers.RandomFeatures` those of its map.

        Returns
        -------
        PrimalCoefficients
            Names, coefficients and intercept.
        """
        check_is_fitted(self)
        if self._function is not None:
            names = tuple(self._function.features.names)
            return PrimalCoefficients(names, self._as_dual(self._function.coef), self.intercept_)
        features = self.kernel_.feature_map(self.points_)
        names = tuple(self.kernel_.feature_names(self.points_))
        return PrimalCoefficients(names, features.T @ self.dual_coef_, self.intercept_)

    def _as_dual(self, columns: Array) -> Array:
        """Columns in the shape of outputs: one column is a vector if ``intercept_`` is a number."""
        return columns.reshape(len(columns), *np.shape(self.intercept_))

    def __getattr__(self, name: str) -> Any:
        # Properties made of coefficients arrive here as well, if there are none.
        of_rows = name in ("dual_coef_", "_coefficients", "_n_functions")
        if of_rows and self.__dict__.get("_function") is not None:
            raise AttributeError(
                f"{type(self).__name__}: rows that come in blocks are not kept, so that they have "
                "no coefficients dual_coef_; take primal_coef(), or pass arrays to fit."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _function_values(self, X: Any) -> Array:
        """By explicit features where the solver has them: that is the shorter sum."""
        check_is_fitted(self)
        if self._function is None:
            return super()._function_values(X)
        points = self._validate_points(self.kernel_, X, reset=False)
        dtype = self.kernel_.gram(points, self.points_).dtype
        values: Array = self._as_dual(self._function(points)).astype(dtype, copy=False)
        values += self.intercept_
        return values

    @property
    def _is_approximate(self) -> bool:
        """Whether the function is one of features that only approximate the kernel."""
        return isinstance(self.solver_, RandomFeatures)

    def _similarities(self) -> Callable[[Points], Array]:
        function = self._function
        if not self._is_approximate or function is None:
            return super()._similarities()
        width, owner = len(function.coef), type(self).__name__
        return InnerProducts.within_memory(function.features, self.points_, width, owner)
