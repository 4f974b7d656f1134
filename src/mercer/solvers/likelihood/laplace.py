r"""Laplace's approximation of Gaussian-process classification.

Latent functions f_c with the same kernel matrix K explain labels with one function and the
logistic link (two classes), or one function for each class and the softmax. Both are exponential
families: with A the log-partition function and weights w,

.. math:: \log p(y \mid f) = \sum_i w_i \bigl( y_i^\top f_i - A(f_i) \bigr) .

The mode of psi(f) = log p(y | f) - f' K^-1 f / 2 is found by Newton's method in the coefficients
a = K^-1 f; with W the Hessian of -log p there, the log evidence is

.. math:: \log Z = \psi(\hat f) - \tfrac12 \log |I + K W| .

The derivative of log Z is a single matrix G (`Posterior.sensitivity`):
d log Z / dtheta = sum_ij G_ij dK_ij / dtheta, including that the mode moves.

References
----------
.. [1] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian Processes for Machine Learning,
   sections 3.4, 3.5, 5.5. MIT Press.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyr2k
from scipy.special import expit, logsumexp, softmax

from mercer.arrays import Array
from mercer.linalg.line_search import decreases_enough
from mercer.solvers.likelihood.class_curvature import (
    FeatureCurvature,
    FeatureMatrix,
    LogisticCurvature,
    SoftmaxCurvature,
)

# Predicted gain of the last step, relative to the objective, with the Hessian at its start: the
# error after it is of second order in the step.
_GAIN = 1e-10
# The limit with an older Hessian: the error after the step is of first order.
_GAIN_OF_OLD_HESSIAN = 1e-19
# A Hessian is kept while each step promises less than this share of the gain of the step before.
_PROGRESS = 0.01
# Relative rounding error of the objective.
_ROUNDING = 1e-9
# Times that a step is halved at most.
_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class Posterior:
    """The Gaussian that approximates the posterior of the latent functions."""

    # (n, C): the coefficients a with f = K a; a is the gradient of the log-likelihood at the mode
    dual: Array
    latent: Array  # (n, C): the mode f
    log_evidence: float  # the approximate log marginal likelihood
    n_iter: int  # Newton steps
    converged: bool  # whether the last step was negligible
    curvature: Any  # the Hessian of -log p(y | f) at the mode, of a class of `class_curvature`

    def sensitivity(self, gram: Array) -> Array:
        """The matrix G with d log Z = sum_ij G_ij dK_ij."""
        trace, shift = self.curvature.trace_part()
        moved = shift - self.curvature.resolvent(gram @ shift)
        # aa' + ua' + au' = v a' + a v' for v = a / 2 + u
        half = 0.5 * self.dual + moved
        dsyr2k(1.0, half, self.dual, beta=-1.0, c=trace, lower=True, overwrite_c=True)
        np.fill_diagonal(trace, 0.5 * trace.diagonal())
        return np.asarray(trace.T)  # in the order of C


def fit(
    gram: Array | FeatureMatrix,
    targets: Array,
    weights: Array | None = None,
    *,
    start: Array | None = None,
    max_iter: int = 100,
) -> Posterior:
    """Find the mode, its curvature and the log evidence."""
    problem = _Problem(gram, targets, np.ones(len(gram)) if weights is None else weights)
    begin = np.zeros(targets.shape) if start is None else start
    state, curvature, n_iter, converged = _mode(problem, begin, max_iter)
    evidence = state.objective - 0.5 * curvature.log_determinant
    return Posterior(state.dual, state.latent, evidence, n_iter, converged, curvature)


def _mode(problem: _Problem, begin: Array, max_iter: int) -> tuple[_State, Any, int, bool]:
    """Newton's method, with a new Hessian only where the old one slows it down."""
    curvature, current, last = problem.curvature(begin), False, np.inf
    state, origin = problem.linearised(begin, curvature), problem.at(np.zeros(begin.shape))
    if not state.objective >= origin.objective:
        state, curvature, current = origin, problem.curvature(origin.latent), True
    for n_iter in range(1, max_iter + 1):
        state, gain, length = problem.newton(state, curvature)
        share = abs(gain) / (1 + abs(state.objective))
        converged = length == 1 and share <= (_GAIN if current else _GAIN_OF_OLD_HESSIAN)
        ended = converged or n_iter == max_iter or (length == 0 and current)
        current = ended or length < 1 or gain > _PROGRESS * last
        last = np.inf if current else gain
        if current:
            del curvature  # frees its matrices before the next are made
            curvature = problem.curvature(state.latent)
        if ended:
            break
    return state, curvature, n_iter, converged


@dataclass(frozen=True, eq=False)
class _State:
    """Coefficients a, values f = K a, and the objective psi."""

    dual: Array
    latent: Array
    objective: float


class _Problem:
    """The objective psi and Newton's step for it."""

    def __init__(self, gram: Array | FeatureMatrix, targets: Array, weights: Array) -> None:
        self.gram, self.weights = gram, weights
        self.weighted = weights[:, None] * targets
        binary = targets.shape[1] == 1
        self.mean: Any = expit if binary else partial(softmax, axis=1)
        self.family: Any = LogisticCurvature if binary else SoftmaxCurvature
        if isinstance(gram, FeatureMatrix):
            self.family = FeatureCurvature

    def at(self, dual: Array) -> _State:
        return self._state(dual, self.gram @ dual)

    def curvature(self, latent: Array) -> Any:
        return self.family(self.gram, latent, self.weights)

    def linearised(self, latent: Array, curvature: Any) -> _State:
        """The mode of the likelihood linearised at these values.

        It is correct to first order in a change of K, unlike the function with the coefficients of
        another K.
        """
        right = curvature.product(latent) + self._slope(latent)
        return self.at(right - curvature.resolvent(self.gram @ right))

    def newton(self, state: _State, curvature: Any) -> tuple[_State, float, float]:
        """One step, halved until it gains: the new state, the predicted gain, and the length."""
        # (I + W K)^-1 times the residual: the next step corrects its rounding errors.
        residual = self._slope(state.latent) - state.dual
        step = residual - curvature.resolvent(self.gram @ residual)
        change = self.gram @ step
        gain = float(np.vdot(residual, change))
        rounding = _ROUNDING * (1 + abs(state.objective))
        length = 1.0
        for _ in range(_HALVINGS):
            new = self._state(state.dual + length * step, state.latent + length * change)
            if decreases_enough(state.objective - new.objective, -length * gain, rounding):
                return new, gain, length
            length /= 2
        return state, gain, 0.0

    def _slope(self, latent: Array) -> Array:
        """The gradient of log p(y | f)."""
        return np.asarray(self.weighted - self.weights[:, None] * self.mean(latent))

    def _state(self, dual: Array, latent: Array) -> _State:
        binary = latent.shape[1] == 1
        partition = np.logaddexp(0, latent[:, 0]) if binary else logsumexp(latent, axis=1)
        likelihood = np.vdot(self.weighted, latent) - self.weights @ partition
        objective = likelihood - 0.5 * np.vdot(dual, latent)
        return _State(dual, latent, float(objective))
