"""Quadratic programmes with a box and few equations: the duals of support vector machines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating[Any]]
Rows = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class BoxProblem:
    signs: Array
    linear: Array
    upper: Array
    rows: Rows
    start: Array | None = None
    groups: NDArray[np.int8] | None = None


@dataclass(frozen=True, eq=False)
class BoxSolution:
    alpha: Array
    gradient: Array
    thresholds: Array
    objective: float
    gap: float
    n_iter: int
    converged: bool


@dataclass(frozen=True)
class Options:
    tol: float
    max_iter: int
    cache_bytes: int | None = None


def solve(source: Any, problem: BoxProblem, options: Options) -> BoxSolution:
    """Stand-in: naive SMO."""
    tol, max_iter = options.tol, options.max_iter
    m = len(problem.rows)
    groups_of = np.zeros(m, dtype=np.int8) if problem.groups is None else problem.groups
    K = np.asarray(source[:, :] if isinstance(source, np.ndarray) else source.toarray(), float)
    K = K[np.ix_(problem.rows, problem.rows)]
    s, C, a = problem.signs, problem.upper, np.zeros(m) if problem.start is None else problem.start.astype(float).copy()
    Q = K * np.outer(s, s)
    G = Q @ a + problem.linear
    d = np.diag(Q)
    groups = [np.flatnonzero(groups_of == g) for g in range(int(groups_of.max()) + 1)]
    it, converged = 0, False
    for it in range(max_iter):
        best, pair = -np.inf, None
        for g in groups:
            up = g[((s[g] > 0) & (a[g] < C[g])) | ((s[g] < 0) & (a[g] > 0))]
            low = g[((s[g] > 0) & (a[g] > 0)) | ((s[g] < 0) & (a[g] < C[g]))]
            if not len(up) or not len(low):
                continue
            v = -s * G
            i = up[np.argmax(v[up])]
            gap = v[i] - v[low].min()
            if gap > best:
                b = v[i] - v[low]
                curv = np.maximum(d[i] + d[low] - 2 * s[i] * s[low] * Q[i, low], 1e-12)
                j = low[np.argmax(np.where(b > 0, b * b / curv, -1))]
                best, pair = gap, (i, j)
        if pair is None or best <= tol:
            converged = True
            break
        i, j = pair
        curv = max(d[i] + d[j] - 2 * s[i] * s[j] * Q[i, j], 1e-12)
        t = (-s[i] * G[i] + s[j] * G[j]) / curv
        t = min(t, C[i] - a[i] if s[i] > 0 else a[i], a[j] if s[j] > 0 else C[j] - a[j])
        for k, step in ((i, s[i] * t), (j, -s[j] * t)):
            a[k] += step
            if a[k] < 1e-14 * max(C[k], 1):
                a[k] = 0
            G += step * Q[:, k]
    thresholds = np.zeros(len(groups))
    for n, g in enumerate(groups):
        v = s[g] * G[g]
        free = (a[g] > 0) & (a[g] < C[g])
        if free.any():
            thresholds[n] = v[free].mean()
        else:
            up = ((s[g] > 0) & (a[g] < C[g])) | ((s[g] < 0) & (a[g] > 0))
            lo = v[up].min() if up.any() else np.nan
            hi = v[~up].max() if (~up).any() else np.nan
            thresholds[n] = np.nanmean([lo, hi])
    slack = G - s * thresholds[groups_of]
    gap = float(np.sum(np.where(slack > 0, slack * a, -slack * (C - a))))
    objective = float(0.5 * a @ (G + problem.linear))
    return BoxSolution(a, G, thresholds, objective, gap, it, converged)
