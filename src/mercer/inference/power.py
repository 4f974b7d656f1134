"""The power of a test by simulation: how many rows are enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest

from mercer.arrays import Array
from mercer.checks import require_count
from mercer.inference.mmd import mmd_test
from mercer.sampling import random_numbers, seed_from


@dataclass(frozen=True, eq=False, repr=False)
class PowerCurve:
    """The share of rejections at each number of rows, with 95% intervals.

    Attributes
    ----------
    sizes : ndarray of shape (m,)
        The numbers of rows.
    power : ndarray of shape (m,)
        The share of simulations in which the test rejected.
    low, high : ndarray of shape (m,)
        Exact 95% intervals of the power (Clopper and Pearson).

    Examples
    --------
    >>> import mercer as mc
    >>> def draw(n, rng):
    ...     return rng.normal(size=(n, 1)), 3.0 + rng.normal(size=(n, 1))
    >>> curve = mc.inference.power(draw, [4, 10], n_simulations=20, n_resamples=99, random_state=0)
    >>> print(curve)
    rows  power     low   high
       4   0.55    0.32   0.77
      10   1.00    0.83   1.00
    """

    sizes: Array
    power: Array
    low: Array
    high: Array

    def __repr__(self) -> str:
        return f"PowerCurve(sizes={self.sizes.tolist()}, power={self.power.round(3).tolist()})"

    def __str__(self) -> str:
        columns = zip(self.sizes, self.power, self.low, self.high, strict=True)
        lines = [f"{int(n):4d} {p:6.2f} {a:7.2f} {b:6.2f}" for n, p, a, b in columns]
        return "\n".join(["rows  power     low   high", *lines])


def power(
    draw: Callable[[int, np.random.RandomState], tuple[Any, ...]],
    sizes: Sequence[int],
    test: Callable[..., Any] = mmd_test,
    *,
    n_simulations: int = 200,
    random_state: Any = None,
    **options: Any,
) -> PowerCurve:
    """Simulate how often a test rejects, for several numbers of rows.

    Parameters
    ----------
    draw : callable
        Takes a number of rows and a RandomState, and returns the samples that the test takes.
    sizes : sequence of int
        The numbers of rows.
    test : callable, default=mmd_test
        A test of `mercer.inference`, or a function with a result that has ``reject``.
    n_simulations : int, default=200
        The number of simulations for each size.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.
    **options
        Passed to the test.

    Returns
    -------
    PowerCurve
        The share of rejections for each size. Samples for which the hypothesis holds give the
        level.

    Examples
    --------
    >>> import mercer as mc
    >>> def draw(n, rng):
    ...     x = rng.normal(size=(n, 1))
    ...     return x, x**2
    >>> test = mc.inference.hsic_test
    >>> mc.inference.power(draw, [20], test, n_simulations=10, random_state=0).power.tolist()
    [1.0]
    """
    require_count("power", "n_simulations", n_simulations)
    rng = random_numbers(random_state, "power")
    rejections = [
        sum(
            bool(test(*draw(n, rng), random_state=seed_from(rng), **options).reject)
            for _ in range(n_simulations)
        )
        for n in sizes
    ]
    intervals = [binomtest(r, n_simulations).proportion_ci(0.95) for r in rejections]
    return PowerCurve(
        np.asarray(sizes),
        np.array(rejections) / n_simulations,
        np.array([interval.low for interval in intervals]),
        np.array([interval.high for interval in intervals]),
    )
