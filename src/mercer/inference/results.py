"""What a test returns: a statistic, its null distribution, a p-value, and a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.inference.resampling import aggregated, gamma_null, upper_pvalue


@dataclass(frozen=True, eq=False, repr=False)
class TestResult:
    """The result of a test of a hypothesis.

    With resampling, `pvalue` is (1 + number of null values >= statistic) / (1 + number of null
    values). It is never 0.

    Attributes
    ----------
    statistic : float
        The observed value: the estimate of one kernel, or for several kernels -log10 of the
        smallest of their p-values.
    pvalue : float
        The probability of such a value, or a larger one, if the hypothesis holds.
    null_distribution : ndarray of shape (n_resamples,)
        Values of the statistic if the hypothesis holds.
    alpha : float
        The level: the hypothesis is rejected if ``pvalue <= alpha``.
    hypothesis : str
        What was tested, as a sentence.
    kernels : tuple
        The kernels, or pairs of kernels, with numbers in place of rules.
    estimates : ndarray of shape (n_kernels,)
        The estimate of each kernel, such as the squared maximum mean discrepancy.
    kernel_pvalues : ndarray of shape (n_kernels,)
        The p-value of each kernel by itself.
    details : dict
        Further numbers, by name.

    Examples
    --------
    >>> import mercer as mc
    >>> result = mc.inference.mmd_test([[0.0], [0.1], [0.2]], [[5.0], [5.1], [5.2]], random_state=0)
    >>> result.reject
    False
    >>> print(result)
    mmd_test: p = 0.11 (999 resamples, 20 kernels): at the level 0.05 there is no evidence against
    the hypothesis that x and y have the same distribution.
    """

    __test__ = False  # a class of tests of hypotheses, and not one of pytest's

    owner: str
    statistic: float
    pvalue: float
    null_distribution: Array
    alpha: float
    hypothesis: str
    kernels: tuple[Any, ...]
    estimates: Array
    kernel_pvalues: Array
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def reject(self) -> bool:
        """Whether the hypothesis is rejected at the level `alpha`."""
        return self.pvalue <= self.alpha

    @property
    def kernel(self) -> Any:
        """The kernel, or pair of kernels, with the smallest p-value: the one that rejected."""
        return self.kernels[int(self.kernel_pvalues.argmin())]

    def __repr__(self) -> str:
        return (
            f"TestResult({self.owner}: statistic={self.statistic:.4g}, pvalue={self.pvalue:.4g}, "
            f"reject={self.reject})"
        )

    def __str__(self) -> str:
        several = f", {len(self.kernels)} kernels" if len(self.kernels) > 1 else ""
        head = f"{self.owner}: p = {self.pvalue:.3g} ({self._null()}{several})"
        if not self.reject:
            verdict = f"at the level {self.alpha:g} there is no evidence against the hypothesis"
            return f"{head}: {verdict} that {self.hypothesis}."
        strongest = f" {self.kernel!s} shows it most clearly." if several else ""
        return f"{head}: the hypothesis that {self.hypothesis} is rejected.{strongest}"

    def _null(self) -> str:
        if self.details.get("null") == "gamma":
            return "gamma distribution"
        return f"{len(self.null_distribution)} resamples"


def result_of(
    owner: str,
    hypothesis: str,
    statistics: Array,
    sizes: Array,
    kernels: Sequence[Any],
    alpha: float,
    details: dict[str, Any],
) -> TestResult:
    """The result of a test from statistics of shape (1 + n_resamples, n_kernels)."""
    values, pvalues = aggregated(statistics, sizes)
    return TestResult(
        owner=owner,
        statistic=float(values[0]),
        pvalue=upper_pvalue(values),
        null_distribution=values[1:],
        alpha=float(alpha),
        hypothesis=hypothesis,
        kernels=tuple(kernels),
        estimates=statistics[0],
        kernel_pvalues=pvalues,
        details=details,
    )


def gamma_result(
    owner: str,
    hypothesis: str,
    observed: Array,
    moments: list[tuple[float, float]],
    kernels: Sequence[Any],
    count: int,
    alpha: float,
) -> TestResult:
    """The result of a test by gamma distributions; p-values of several kernels by Bonferroni."""
    laws = [gamma_null(o, *m, count) for o, m in zip(observed, moments, strict=True)]
    pvalues = np.array([p for _, p in laws])
    best = int(pvalues.argmin())
    return TestResult(
        owner=owner,
        statistic=float(observed[best]),
        pvalue=min(1.0, len(kernels) * float(pvalues[best])),
        null_distribution=laws[best][0],
        alpha=float(alpha),
        hypothesis=hypothesis,
        kernels=tuple(kernels),
        estimates=observed,
        kernel_pvalues=pvalues,
        details={"null": "gamma"},
    )
