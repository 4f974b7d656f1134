"""Levels of tests of hypotheses, by simulation."""

from __future__ import annotations

from scipy.stats import binom

#: Probability that a test of a level fails though the level is right.
FALSE_ALARM = 1e-6


def require_level(rejections: int, simulations: int, alpha: float) -> None:
    """A level of at most alpha: more rejections than these have probability FALSE_ALARM."""
    assert rejections <= binom.isf(FALSE_ALARM, simulations, alpha)
