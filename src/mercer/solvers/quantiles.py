"""Several piecewise linear problems on one Gram matrix, apart or in a given order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.solvers import smoothing
from mercer.solvers.newton import State, rounding
from mercer.solvers.smoothing import Terms

Array = NDArray[np.floating[Any]]

# Functions that meet are kept this far apart, relative to the scale, lest rounding cross them.
_MARGIN = 1e-12


def joined(terms: Terms, order: NDArray[np.intp], n: int) -> Terms:
    """Add to terms of single outputs that outputs are in order at every point.

    Parameters
    ----------
    terms : Terms
        Terms that look at one of k outputs each.
    order : ndarray of int of shape (k,)
        The outputs from the lowest to the highest.
    n : int
        Number of points.

    Returns
    -------
    Terms
        With one constraint for each point and each pair of neighbours.
    """
    k = len(order)
    unit = np.eye(k)
    pairs = [unit[low] - unit[high] for low, high in pairwise(order)]
    count = n * (k - 1)
    return Terms(
        np.concatenate([terms.rows, np.tile(np.arange(n), k - 1)]),
        np.concatenate([terms.mix, np.repeat(pairs, n, axis=0)]),
        np.concatenate([terms.location, np.zeros(count)]),
        np.concatenate([terms.low, np.zeros(count)]),
        np.concatenate([terms.high, np.full(count, np.inf)]),
        np.concatenate([terms.weight, np.ones(count)]),
    )


def minimise_in_order(
    gram: Array,
    terms: Terms,
    alpha: float,
    apart: State,
    levels: Array,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Iterator[State]:
    """Yield states of the joint problem in which outputs do not cross at the points.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        The Gram matrix.
    terms : Terms
        Terms that look at one of k outputs each.
    alpha : float
        Positive weight of half the squared norm.
    apart : State
        The solution without regard to order.
    levels : ndarray of shape (k,)
        Numbers whose order the outputs have to keep.
    fit_intercept : bool
        Whether intercepts are fitted.
    tol : float
        The gap may be this part of the objective.
    max_iter : int
        The largest number of steps.

    Yields
    ------
    State
        Nothing if the outputs do not cross as they are, which makes them the solution.
    """
    order = np.argsort(levels)
    values = (gram @ apart.scaled / alpha + apart.intercept)[:, order]
    scale = float(np.abs(terms.location - np.median(terms.location)).mean()) or 1.0
    margin = _MARGIN * scale + 16 * float(rounding(gram, apart.scaled / alpha, values).max())
    if np.all(np.diff(values, axis=1) >= margin):
        return
    both = joined(terms, order, len(gram))

    def shift(values: Array) -> Array:
        """Move the functions apart, in order, by as much as they still cross."""
        crossing = -np.diff(values[:, order], axis=1).min(axis=0)
        steps = np.where(crossing > -margin, crossing + margin, 0.0)
        offsets = np.concatenate([[0.0], np.cumsum(steps)])
        moved = np.empty_like(offsets)
        moved[order] = offsets - offsets.mean()
        return moved

    yield from smoothing.minimise(
        gram,
        both,
        alpha,
        (apart.scaled, apart.intercept),
        fit_intercept=fit_intercept,
        tol=tol,
        max_iter=max_iter,
        gamma=1e-2 * scale,
        shift=shift,
        allowance=len(order) * margin * float(np.sum(terms.high - terms.low)),
    )
