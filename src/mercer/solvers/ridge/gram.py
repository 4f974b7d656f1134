r"""Kernel ridge for one alpha by a Cholesky factor, in the memory of the Gram matrix.

The coefficients a and the intercept b minimise

.. math:: \tfrac12 \sum_i w_i (y_i - (Ka)_i - b)^2 + \tfrac{\alpha}{2} a^\top K a .

With S = diag(sqrt(w)), s its diagonal and a = S c, the conditions for a minimum are

.. math:: (S K S + \alpha I)\, c = S y - b s, \qquad s^\top c = 0,

so one factor of A = S K S + alpha I serves the targets and the intercept (bordering):
b = s' A^-1 S y / s' A^-1 s. Leaving row i out changes its residual to c_i / (s_i P_ii), where
P = A^-1 - A^-1 s s' A^-1 / s' A^-1 s (and P = A^-1 without an intercept).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.exceptions import NumericalWarning, warn
from mercer.linalg.centring import weigh
from mercer.linalg.cholesky import factorise

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Solution:
    """Coefficients of a kernel ridge problem.

    Attributes
    ----------
    dual : ndarray of shape (n, n_targets)
        The coefficients a.
    intercept : ndarray of shape (n_targets,)
        The intercept b, zero if there is none.
    jitter : float
        What was added to the diagonal beyond alpha to make the factor exist.
    """

    dual: Array
    intercept: Array
    jitter: float = 0.0


@dataclass(frozen=True)
class LeaveOneOut:
    """What leaving out each row in turn would show.

    Attributes
    ----------
    residuals : ndarray of shape (n, n_targets)
        y_i minus the prediction for row i of the model fitted without row i.
    effective_dof : float
        Trace of the matrix that maps targets to fitted values.
    """

    residuals: Array
    effective_dof: float


def solve(
    gram: Array,
    targets: Array,
    alpha: float,
    *,
    weights: Array | None = None,
    fit_intercept: bool = True,
) -> Solution:
    """Solve kernel ridge by Cholesky; `gram` is overwritten."""
    system = _System(gram, alpha, weights)
    scaled, intercept, _ = system.solve(targets, fit_intercept)
    return Solution(system.root[:, None] * scaled, intercept, system.factor.jitter)


def leave_one_out(
    gram: Array,
    targets: Array,
    alpha: float,
    *,
    weights: Array | None = None,
    fit_intercept: bool = True,
) -> LeaveOneOut:
    """Residuals of all leave-one-out fits at one alpha; `gram` is overwritten.

    A row is left out together with its weight. The cost is that of the inverse, n^3.
    """
    system = _System(gram, alpha, weights)
    scaled, _, border = system.solve(targets, fit_intercept)
    diagonal = system.inverse_diagonal()
    if fit_intercept:
        diagonal -= border**2 / (system.root @ border)
    with np.errstate(divide="ignore", invalid="ignore"):
        residuals = scaled / (system.root * diagonal)[:, None]
    return LeaveOneOut(residuals, float(np.sum(1 - (alpha + system.factor.jitter) * diagonal)))


class _System:
    """The factor of A = S K S + alpha I, held in the memory of K."""

    def __init__(self, gram: Array, alpha: float, weights: Array | None) -> None:
        self.root = weigh(gram, weights)
        self.factor = factorise(gram, alpha)
        if self.factor.jitter:
            warn(f"{self.factor.complaint()}.", NumericalWarning)

    def solve(self, targets: Array, fit_intercept: bool) -> tuple[Array, Array, Array]:
        """The coefficients c, the intercept b and A^-1 s."""
        targets = targets.astype(self.root.dtype, copy=False)
        weights = self.root**2
        # Large offsets are removed first: they belong to the intercept and only cost digits here.
        offset = weights @ targets / weights.sum() if fit_intercept else np.zeros_like(targets[0])
        right = np.column_stack([self.root[:, None] * (targets - offset), self.root])
        solved = self.factor.solve(right)
        scaled, border = solved[:, :-1], solved[:, -1]
        if not fit_intercept:
            return scaled, offset, border
        shift = self.root @ scaled / (self.root @ border)
        return scaled - border[:, None] * shift, offset + shift, border

    def inverse_diagonal(self) -> Array:
        """The diagonal of A^-1; the factor is used up."""
        diagonal: Array = self.factor.inverse(overwrite=True).diagonal().copy()
        return diagonal
