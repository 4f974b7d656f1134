"""Monitoring: tests of whether new rows have the distribution of a reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.checks import NamedArguments
from mercer.inference.attribution import Attribution, attribution, is_product
from mercer.inference.mmd import mmd_test
from mercer.inference.results import TestResult
from mercer.inference.samples import sample


@dataclass(frozen=True, eq=False, repr=False)
class Drift:
    """Whether new rows differ from the reference, and which columns do.

    Attributes
    ----------
    test : TestResult
        The result of `mmd_test` of the reference against the new rows.
    attribution : Attribution or None
        The share of each column in the discrepancy; None if the kernel is not a product over
        columns.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x, new = np.random.default_rng(0).normal(size=(2, 100, 2))
    >>> drift = mc.inference.DriftDetector(x, random_state=0).predict(new + [0.0, 1.5])
    >>> drift.is_drift, drift.pvalue, drift.attribution.names[drift.attribution.order[0]]
    (True, 0.001, 'x1')
    """

    test: TestResult
    attribution: Attribution | None

    @property
    def pvalue(self) -> float:
        """The p-value of the test."""
        return self.test.pvalue

    @property
    def is_drift(self) -> bool:
        """Whether the hypothesis of equal distributions is rejected."""
        return self.test.reject

    def __repr__(self) -> str:
        return f"Drift(is_drift={self.is_drift}, pvalue={self.pvalue:.4g})"

    def __str__(self) -> str:
        if not self.is_drift:
            return f"No drift: p = {self.pvalue:.3g} > {self.test.alpha:g}."
        shares = "" if self.attribution is None else f"; {self.attribution}"
        return f"Drift: p = {self.pvalue:.3g}{shares}."


class DriftDetector(NamedArguments):
    """Compares batches of new rows with a reference, by `mmd_test`.

    Each call of `predict` is a test at the level `alpha`: this share of batches without drift gives
    an alarm.

    Parameters
    ----------
    x_ref : array-like, data frame, list or Points
        The reference rows.
    kernel : Kernel, str, callable or list of these, optional
        The kernel, as for `mmd_test`.
    n_resamples : int, default=999
        The number of permutations.
    alpha : float, default=0.05
        The level.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.

    Examples
    --------
    >>> import mercer as mc
    >>> import numpy as np
    >>> x, new = np.random.default_rng(0).normal(size=(2, 100, 2))
    >>> print(mc.inference.DriftDetector(x, random_state=0).predict(new))
    No drift: p = 0.648 > 0.05.
    """

    def __init__(
        self,
        x_ref: Any,
        kernel: Any = None,
        *,
        n_resamples: int = 999,
        alpha: float = 0.05,
        random_state: Any = None,
    ) -> None:
        self.reference = sample("DriftDetector", "x_ref", x_ref)
        self.kernel = kernel
        self.n_resamples = n_resamples
        self.alpha = alpha
        self.random_state = random_state

    def predict(self, x: Any) -> Drift:
        """Compare new rows with the reference.

        Parameters
        ----------
        x : array-like, data frame, list or Points
            The new rows, at least two.

        Returns
        -------
        Drift
            With ``is_drift``, ``pvalue`` and the ``attribution`` to columns.
        """
        test = mmd_test(
            self.reference,
            x,
            self.kernel,
            n_resamples=self.n_resamples,
            alpha=self.alpha,
            random_state=self.random_state,
        )
        shares = attribution(self.reference, x, test.kernel) if is_product(test.kernel) else None
        return Drift(test, shares)

    def __repr__(self) -> str:
        return f"DriftDetector({len(self.reference)} rows, alpha={self.alpha:g})"
