r"""Values of fits without some rows, from one Newton step.

A function f with values G T + b, G = K / alpha, has the slopes d and the Hessian W of its loss.
Without the rows g the objective loses the slopes d_g and the block W_g. One Newton step from its
minimum with all rows changes the values at these rows by

.. math:: (I - H_{gg} W_g)^{-1} H_{gg}\, d_g = (C_{gg}^{-1} - W_g^{-1})\, d_g, \qquad
   H = (G^{-1} + W)^{-1}, \quad C = (G + W^{-1})^{-1} = W - W H W .

The step is exact for the squared loss. An intercept is a constant of infinite variance in G: C
loses C 1 (1'C 1)^-1 1'C, and H, which is G - G C G, gains r (1'C 1)^-1 r' with r = 1 - G C 1.

The first form is used where W_g is nearly singular, the second one elsewhere, as it needs only
diagonal blocks of C. On features, with G = F F' and rows z_i of F and a one for the intercept,
H_ij = z_i' A^-1 z_j, where A = Z'WZ + I, with no ridge for the intercept.

See Rad and Maleki (2020), A scalable estimate of the out-of-sample prediction error via approximate
leave-one-out cross-validation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from mercer.arrays import Array
from mercer.linalg.low_rank import LowRankMatrix
from mercer.solvers.newton.curvature import (
    DiagonalResolvent,
    Hessian,
    Resolvent,
    SoftmaxResolvent,
    factorised,
)

Rows = NDArray[np.intp]

# A curvature times G_ii below this is zero: 1 / C_ii - 1 / W_ii would lose all digits.
_FLAT = 1e-8
# The least probability of a class that has a curvature.
_RULED_OUT = 1e-12


def several(codes: Rows | None) -> list[Rows]:
    """The groups of two and more rows, from numbers that are equal in a group."""
    if codes is None:
        return []
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order])) + 1
    return [rows for rows in np.split(order, starts) if len(rows) > 1]


def changes(
    gram: Array, resolvent: Resolvent, slopes: Array, groups: Sequence[Rows], intercept: bool
) -> Array:
    """Changes of the values at rows if each is left out, or its group; slopes are (n, k)."""
    if isinstance(resolvent, SoftmaxResolvent):
        return _joint_changes(resolvent, slopes, groups, intercept)
    return _single_changes(gram, resolvent, slopes[:, 0], groups, intercept)[:, None]


def _single_changes(
    gram: Array,
    resolvent: DiagonalResolvent,
    slopes: Array,
    groups: Sequence[Rows],
    intercept: bool,
) -> Array:
    rows, curvature = resolvent.rows, np.zeros(len(slopes))
    curvature[rows] = resolvent.root**2
    border = resolvent(np.ones((len(slopes), 1)))[:, 0]
    total = float(border.sum())
    bordered = intercept and total > 0
    changed = np.zeros(len(slopes))
    if len(rows):
        kept = resolvent.inverse_diagonal()
        if bordered:
            kept -= (border[rows] / resolvent.root) ** 2 / total
        with np.errstate(divide="ignore", invalid="ignore"):  # no function is left to fit
            changed[rows] = (1 / np.maximum(kept, 0.0) - 1) / curvature[rows] * slopes[rows]
    alone = np.ones(len(slopes), dtype=bool)
    for group in groups:
        alone[group] = False
    flat = alone & (curvature * gram.diagonal() < _FLAT)
    singles = np.flatnonzero(flat & (slopes != 0))
    changed[flat] = 0.0
    beside = 1 - gram @ border if bordered else np.zeros(len(slopes))
    scale = total if bordered else 1.0
    columns = gram[:, singles]
    spread = columns[singles, np.arange(len(singles))]
    spread = spread - np.einsum("ij,ij->j", columns, resolvent(columns))
    changed[singles] = (spread + beside[singles] ** 2 / scale) * slopes[singles]
    for group in groups:
        columns = gram[:, group]
        block = columns[group] - columns.T @ resolvent(columns)
        block += np.outer(beside[group], beside[group]) / scale
        changed[group] = _solved(
            np.eye(len(group)) - block * curvature[group], block @ slopes[group]
        )
    return changed


def _joint_changes(
    resolvent: SoftmaxResolvent, slopes: Array, groups: Sequence[Rows], intercept: bool
) -> Array:
    blocks, halves = resolvent.halves()
    n, k = slopes.shape
    borders, inverse = np.zeros((n, k, k)), np.zeros((k, k))
    if intercept:
        units = [resolvent(np.broadcast_to(unit, (n, k))) for unit in np.eye(k)]
        borders = np.stack(units, axis=-1)
        inverse = np.linalg.pinv(borders.sum(axis=0), rcond=1e-12, hermitian=True)
    squares = resolvent.roots**2  # weights times probabilities
    weights = squares.sum(axis=1)
    diagonals = np.stack([block.diagonal() for block in blocks], axis=1)
    own = diagonals[:, :, None] * np.eye(k) - np.einsum("aji,bji->iab", halves, halves)
    own -= np.einsum("iab,bc,idc->iad", borders, inverse, borders)
    hessians = (
        squares[:, :, None] * np.eye(k)
        - squares[:, :, None] * squares[:, None] / weights[:, None, None]
    )
    # Both ignore a constant that is added to all classes; the slopes sum to zero.
    # A ridge stands for the curvature of classes that are ruled out, which is lost to rounding.
    constants = weights[:, None, None] * (np.ones((k, k)) / k + _RULED_OUT * np.eye(k))
    changed = _solved(own + constants, slopes) - _solved(hessians + constants, slopes)
    for group in groups:
        s = len(group)
        inner = -np.einsum("ajx,bjy->xayb", halves[:, :, group], halves[:, :, group])
        inner -= np.einsum("xab,bc,ydc->xayd", borders[group], inverse, borders[group])
        for a, block in enumerate(blocks):
            inner[:, a, :, a] += block[np.ix_(group, group)]
        for i, row in enumerate(group):
            inner[i, :, i, :] += constants[row]
        solved = _solved(inner.reshape(s * k, s * k), slopes[group].ravel()).reshape(s, k)
        changed[group] = solved - _solved(hessians[group] + constants[group], slopes[group])
    result: Array = changed - changed.mean(axis=1, keepdims=True)
    return result


def changes_on_features(
    gram: LowRankMatrix, hessian: Hessian, slopes: Array, groups: Sequence[Rows], intercept: bool
) -> Array:
    """Changes of the values at rows for a matrix of low rank, as `changes` returns them."""
    n, k = slopes.shape
    curvatures = np.stack([[hessian.block(a, b) for b in range(k)] for a in range(k)])
    bordered = intercept and bool(curvatures.any())
    rows = np.hstack([gram.factor, np.ones((n, int(bordered)))])
    width = rows.shape[1]
    system = np.zeros((k, width, k, width))
    for a, b in np.ndindex(k, k):
        system[a, :, b] = rows.T @ (curvatures[a, b][:, None] * rows)
    penalised = np.arange(gram.rank)
    for a in range(k):
        system[a, penalised, a, penalised] += 1.0
    if bordered and k > 1:  # a constant that is added to all classes has no effect
        system[:, -1, :, -1] += curvatures[0, 0].sum()
    upper, lower = factorised(system.reshape(k * width, k * width))
    halves = np.zeros((k, k, width, n))
    for a in range(k):
        halves[a, a] = rows.T
    halves = halves.reshape(k, k * width, n)
    halves = np.stack([solve_triangular(upper, h, trans="T", lower=lower) for h in halves])
    own = np.einsum("aji,bji->iab", halves, halves)
    hessians = np.moveaxis(curvatures, 2, 0)
    changed = _solved(np.eye(k) - own @ hessians, np.einsum("iab,ib->ia", own, slopes))
    for group in groups:
        s = len(group)
        block = np.einsum("ajx,bjy->xayb", halves[:, :, group], halves[:, :, group])
        curved = np.einsum("xayb,ybc->xayc", block, hessians[group]).reshape(s * k, s * k)
        right = block.reshape(s * k, s * k) @ slopes[group].ravel()
        changed[group] = _solved(np.eye(s * k) - curved, right).reshape(s, k)
    return changed


def _solved(matrices: Array, right: Array) -> Array:
    """Solutions of systems; infinite if a system is singular, as no function is left to fit."""
    try:
        return np.asarray(np.linalg.solve(matrices, right[..., None])[..., 0])
    except np.linalg.LinAlgError:
        return np.full(right.shape, np.inf)
