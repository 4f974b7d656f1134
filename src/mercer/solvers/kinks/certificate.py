"""The duality gap, which proves that a function is close to the minimum."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.solvers.newton.method import State, is_small

# Share of the loss of constant functions that counts where the objective is close to zero.
_OF_CONSTANTS = 0.01


class Certificate:
    """The best functions and the largest lower bound of the objective so far."""

    def __init__(self, tol: float, constant_loss: float) -> None:
        self.tol, self.constant_loss = tol, constant_loss
        self.best: State | None = None
        self.converged = False
        self.objective, self.bound = np.inf, -np.inf

    @property
    def gap(self) -> float:
        """The duality gap; a negative gap is rounding error."""
        return self.objective - self.bound

    def consider(self, state: State, objective: float, gain: float = 0.0) -> None:
        """Keep functions if they decrease the objective by at least the relative `gain`."""
        if objective < self.objective - gain * objective:
            self.best, self.objective = state, objective

    def raise_bound(self, bound: float) -> None:
        """Keep a lower bound of the objective if it is the largest so far."""
        self.bound = max(self.bound, bound)

    def judge(self, rounding: float, allowance: float = 0.0) -> State:
        """The best functions, with the gap and whether it is small enough.

        The allowance is subtracted from the gap before it is compared with the tolerance.
        """
        assert self.best is not None
        gap, parts = abs(self.gap), max(self.objective, _OF_CONSTANTS * self.constant_loss)
        self.converged = is_small(gap - allowance, self.objective, self.tol, rounding, parts)
        self.best = replace(self.best, error=gap, converged=self.converged)
        return self.best
