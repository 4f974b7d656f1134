"""Base of Gaussian processes: hyper-parameters of a kernel, learned by marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.iterative import IterativeEstimator
from mercer.exceptions import DataError, MercerError, ParameterError, ValidityError
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import as_points
from mercer.kernels.stationary import RBF
from mercer.kernels.table import is_mixed, table_kernel
from mercer.kernels.vector import unequal_columns
from mercer.kernels.wrappers import Scaled
from mercer.models.representer import RepresenterModel
from mercer.parallel import single_blas
from mercer.solvers.likelihood.maximise import Objective, Optimum, maximise

Attributes = Callable[[Array], dict[str, Any]]

# The default kernels: one length-scale is learned, in units of each column if these differ much.
_DEFAULT = Scaled(RBF(length_scale="scale"), 1.0)
_OF_STANDARDISED = Scaled(RBF(length_scale="scale").standardized(), 1.0)
# Largest weight of a row, as a number of copies.
_MOST_COPIES = 1e12

#: Advice of Gaussian processes for rows that come in blocks.
FROM_SOME_ROWS = (
    "hyper-parameters are learned from rows in memory; pass some of them as arrays (ten thousand "
    "say most of it)"
)


class GaussianProcess(IterativeEstimator, RepresenterModel):
    """Base of models whose kernel is learned by maximising a marginal likelihood.

    A subclass calls `_learn` in its fit, which also keeps the best model so far after an interrupt,
    and stores the log marginal likelihood as a function of hyper-parameters in ``_objective``.
    """

    log_marginal_likelihood_: float
    at_bounds_: tuple[str, ...]
    n_iter_: int
    n_evaluations_: int
    gradient_norm_: float
    theta_: Array
    theta_names_: tuple[str, ...]
    _objective: Any  # with `unbounded`, `value` and `value_and_gradient`
    _log_volume: float = 0.0  # what the objective exceeds the log marginal likelihood by

    def __init__(
        self,
        kernel: KernelLike = None,
        *,
        learn: bool = True,
        n_restarts: int = 0,
        max_iter: int = 200,
        random_state: Any = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(kernel, degree, gamma, coef0)
        self.learn = learn
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.random_state = random_state

    def _default_kernel(self) -> Kernel:
        return _DEFAULT

    def _default_kernel_for(self, X: Any) -> Kernel:
        if type(X) is not np.ndarray and is_mixed(X):
            return Scaled(table_kernel(X), 1.0)
        try:
            unequal = X is not None and unequal_columns(_DEFAULT, as_points(X, type(self).__name__))
        except MercerError:  # which reading the data will raise again
            unequal = False
        return _OF_STANDARDISED if unequal else _DEFAULT

    def log_marginal_likelihood(self, theta: ArrayLike | None = None) -> float:
        """The log marginal likelihood of the fitted data at other hyper-parameters.

        Parameters
        ----------
        theta : array-like of shape (p,), optional
            Hyper-parameters as in ``theta_``, which is what they are by default. They may lie
            outside the bounds of `Bounded` parameters.

        Returns
        -------
        float
            Comparable with ``log_marginal_likelihood_``.
        """
        check_is_fitted(self, "theta_")
        with self._computing():
            value: float = self._objective.unbounded().value(self._theta(theta))
        return value - self._log_volume

    def log_marginal_likelihood_gradient(
        self, theta: ArrayLike | None = None
    ) -> tuple[float, Array]:
        """The log marginal likelihood and its gradient in the hyper-parameters.

        Parameters
        ----------
        theta : array-like of shape (p,), optional
            Hyper-parameters as in ``theta_``, which is what they are by default.

        Returns
        -------
        value : float
            As `log_marginal_likelihood`.
        gradient : ndarray of shape (p,)
            Its derivatives in theta.
        """
        check_is_fitted(self, "theta_")
        with self._computing():
            objective = self._objective.unbounded()
            value, gradient = objective.value_and_gradient(self._theta(theta))
        return value - self._log_volume, gradient

    def _theta(self, theta: ArrayLike | None) -> Array:
        if theta is None:
            return self.theta_
        try:
            vector = np.asarray(theta, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.full(1, np.nan)
        if vector.shape != self.theta_.shape or not np.isfinite(vector).all():
            raise ParameterError(
                f"{type(self).__name__}: theta = {theta!r:.80} is not a vector of "
                f"{len(self.theta_)} finite numbers; pass one for each of "
                f"{', '.join(self.theta_names_) or 'no parameters'}."
            )
        return vector

    def _search(self, data: Any, objective: Objective, **options: Any) -> Callable[..., Optimum]:
        """A search of an objective from the start of the hyper-parameters and from restarts."""
        options["starts"] = data.starts(self.n_restarts, self.random_state)
        options["max_iter"] = self.max_iter
        return partial(maximise, objective, data.space.start, data.space.bounds, **options)

    def _learn(
        self,
        X: Any,
        y: Any,
        data: Any,
        search: Callable[..., Optimum] | None,
        attributes: Attributes,
        interim: Attributes | None = None,
    ) -> Optimum:
        """Search hyper-parameters, and store the attributes of the model with them.

        Without a search, they are those of `data`. A search takes a function to report to. After an
        interrupt, the model has the `interim` attributes of the best point so far.
        """

        def fitted(optimum: Optimum, model: Attributes) -> dict[str, Any]:
            return model(optimum.theta) | {
                "converged_": optimum.converged,
                "gradient_norm_": optimum.gradient_norm,
                "n_iter_": optimum.n_iter,
                "n_evaluations_": optimum.n_evaluations,
                "at_bounds_": tuple(data.space.names_at(optimum, harmless=True)),
            }

        if search is None:
            optimum = Optimum.held(data.theta)
            self.__dict__.update(fitted(optimum, attributes))
            return optimum
        with self._iterations(X, y, None) as report:
            model = attributes if interim is None else interim
            optimum = search(report=lambda best: report(partial(fitted, best, model)))
            self.__dict__.update(fitted(optimum, attributes))
        return optimum

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """Run BLAS on one thread; put the name of the model into errors."""
        owner = type(self).__name__
        try:
            with single_blas():
                yield
        except (DataError, ValidityError) as error:
            if str(error).startswith(owner):
                raise
            raise type(error)(f"{owner}: {error}") from error

    def _check_learning(self) -> None:
        checks.require_flags(self, "learn")
        checks.require_count(type(self).__name__, "n_restarts", self.n_restarts, least=0, example=5)
        checks.require_count(type(self).__name__, "max_iter", self.max_iter, example=200)

    def _validate_copies(self, sample_weight: ArrayLike | None, y: Array) -> Array | None:
        """Validate weights, which count copies of rows."""
        weights = self._validate_weights(sample_weight, y)
        if weights is not None and weights.max() > _MOST_COPIES:
            raise DataError(
                f"{type(self).__name__}: sample_weight is as large as {weights.max():.2g}, and a "
                f"weight counts copies of a row, of which more than {_MOST_COPIES:.0e} are beyond "
                "float64; divide all weights by a constant."
            )
        return weights

    def _require_vectors(self, action: str) -> None:
        """Refuse an action that needs k(x, x) of new rows, where the kernel is a given matrix."""
        if self.kernel_.input_tags()["pairwise"]:
            raise DataError(
                f"{type(self).__name__}.{action} needs k(x, x) of the new rows, which the data of "
                "Precomputed() do not hold; use Precomputed(K), with K over training and new rows "
                "and a column of row numbers as X."
            )
