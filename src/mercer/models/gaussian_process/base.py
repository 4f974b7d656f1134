"""What Gaussian processes share: hyper-parameters of a kernel, learned from evidence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.estimator.iterative import IterativeEstimator
from mercer.exceptions import DataError, ParameterError, ValidityError
from mercer.kernels.base import Kernel
from mercer.kernels.stationary import RBF
from mercer.models.gaussian_process.search_space import SearchSpace
from mercer.models.representer import RepresenterModel
from mercer.parallel import blas_threads
from mercer.solvers.likelihood import maximise as evidence_search
from mercer.solvers.likelihood.maximise import Objective, Optimum
from mercer.solvers.ridge.gram import FEW_ROWS

Array = NDArray[np.floating[Any]]
Attributes = Callable[[Array], dict[str, Any]]

_MOST_COPIES = 1e12

#: What Gaussian processes say to rows that come in blocks.
FROM_SOME_ROWS = (
    "hyper-parameters are learned from rows in memory; pass some of them as arrays (ten thousand "
    "say most of it)"
)


class Evidence(Protocol):
    """What data say about hyper-parameters."""

    @property
    def theta(self) -> Array:
        """The hyper-parameters to start from, unconstrained."""

    @property
    def space(self) -> SearchSpace:
        """Where they are searched."""


class GaussianProcess(IterativeEstimator, RepresenterModel):
    """Base of models whose kernel is learned by maximising the evidence for it.

    A subclass calls `_search` in its fit, which also keeps the best so far after an interrupt, and
    says with `_evidence_at` what the log marginal likelihood is elsewhere.

    Parameters
    ----------
    kernel : Kernel, optional
        The kernel; by default ``1.0 * RBF(length_scale="scale")``.
    learn : bool, default=True
        Whether to learn hyper-parameters; otherwise they are used as they are.
    n_restarts : int, default=0
        How often the search starts again, at values drawn on the scale of the data.
    max_iter : int, default=200
        Iterations of L-BFGS-B from each start.
    random_state : int, RandomState or None, default=None
        Where the restarts come from.
    """

    theta_: Array
    theta_names_: tuple[str, ...]

    def __init__(
        self,
        kernel: Kernel | None = None,
        *,
        learn: bool = True,
        n_restarts: int = 0,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel)
        self.learn = learn
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.random_state = random_state

    def _default_kernel(self) -> Kernel:
        return 1.0 * RBF(length_scale="scale")

    # Evidence -----------------------------------------------------------------------------------

    def log_marginal_likelihood(self, theta: ArrayLike | None = None) -> float:
        """The log marginal likelihood of the fitted data at other hyper-parameters.

        Parameters
        ----------
        theta : array-like of shape (p,), optional
            Hyper-parameters as in ``theta_``, which is what they are by default.

        Returns
        -------
        float
            Comparable with ``log_marginal_likelihood_``.
        """
        check_is_fitted(self)
        with self._computing(len(self.points_)):
            return self._evidence_at(self._theta(theta))

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
        check_is_fitted(self)
        with self._computing(len(self.points_)):
            return self._evidence_with_gradient_at(self._theta(theta))

    @abstractmethod
    def _evidence_at(self, theta: Array) -> float:
        """The log marginal likelihood."""

    @abstractmethod
    def _evidence_with_gradient_at(self, theta: Array) -> tuple[float, Array]:
        """The same with its gradient."""

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

    # The search ---------------------------------------------------------------------------------

    def _search(
        self,
        X: Any,
        y: Any,
        evidence: Evidence,
        objective: Objective,
        attributes: Attributes,
        *,
        held: bool = False,
        **options: Any,
    ) -> Optimum:
        """Maximise an objective, and store what is found.

        `attributes` are those of a model with given hyper-parameters, which are not searched if
        they are `held`. Computing them is part of
        the steps: an interrupt there keeps what the search has found.
        """
        if held or not self.learn or not len(evidence.theta):
            return self._held(evidence, attributes)

        def maximise(report: evidence_search.Report) -> Optimum:
            return evidence.space.maximise(
                objective,
                n_restarts=self.n_restarts,
                random_state=self.random_state,
                max_iter=self.max_iter,
                report=report,
                **options,
            )

        return self._searched(X, y, evidence, maximise, attributes, attributes)

    def _searched(
        self,
        X: Any,
        y: Any,
        evidence: Evidence,
        maximise: Callable[[evidence_search.Report], Optimum],
        on_the_way: Attributes,
        at_the_end: Attributes,
    ) -> Optimum:
        """Search, and store what is found; on the way a model may be a simpler one."""

        def fitted(attributes: Attributes, found: Optimum) -> dict[str, Any]:
            return attributes(found.theta) | _findings(evidence.space, found)

        with self._iterations(X, y, None) as report:
            found = maximise(lambda best: report(partial(fitted, on_the_way, best)))
            self.__dict__.update(fitted(at_the_end, found))
        return found

    def _held(self, evidence: Evidence, attributes: Attributes) -> Optimum:
        """Store a model with the hyper-parameters that are given."""
        found = Optimum.held(evidence.theta)
        self.__dict__.update(attributes(found.theta) | _findings(evidence.space, found))
        return found

    @contextmanager
    def _computing(self, n: int) -> Iterator[None]:
        """As many threads as n rows are worth, and errors of solvers in the name of the model."""
        owner = type(self).__name__
        try:
            with blas_for(n):
                yield
        except ValidityError as error:
            named = str(error).startswith(owner)
            raise error if named else ValidityError(f"{owner}: {error}") from error

    # Checks -------------------------------------------------------------------------------------

    def _check_learning(self) -> None:
        self._require_flags("learn")
        self._require_whole("n_restarts", 0, 5)
        self._require_whole("max_iter", 1, 200)

    def _validate_copies(self, sample_weight: ArrayLike | None, y: Array) -> Array | None:
        """Weights that count copies of rows."""
        weights = self._validate_weights(sample_weight, y)
        if weights is not None and weights.max() > _MOST_COPIES:
            raise DataError(
                f"{type(self).__name__}: sample_weight is as large as {weights.max():.2g}, and a "
                f"weight counts copies of a row, of which more than {_MOST_COPIES:.0e} are beyond "
                "float64; divide all weights by a constant."
            )
        return weights

    def _require_vectors(self, action: str) -> None:
        """Refuse what needs k(x, x) of new rows, which a given matrix does not hold."""
        if self.kernel_.input_tags()["pairwise"]:
            raise DataError(
                f"{type(self).__name__}.{action} needs k(x, x) of the new rows, which the data of "
                "Precomputed() do not hold; use Precomputed(K), with K over training and new rows "
                "and a column of row numbers as X."
            )


def _findings(space: SearchSpace, found: Optimum) -> dict[str, Any]:
    """What a search leaves in the model, beside the hyper-parameters."""
    return {
        "converged_": found.converged,
        "gradient_norm_": found.gradient_norm,
        "n_iter_": found.n_iter,
        "n_evaluations_": found.n_evaluations,
        "at_bounds_": tuple(space.names_at(found, harmless=True)),
    }


def blas_for(n: int) -> AbstractContextManager[None]:
    """As many BLAS threads as matrices of this order are worth."""
    return blas_threads(1 if n < FEW_ROWS else None)
