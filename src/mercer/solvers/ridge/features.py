r"""Least squares on explicit features, from sums over rows.

With T' M T = I, coordinates in which the penalty is the identity, one eigendecomposition

.. math:: T^\top H T = Q \operatorname{diag}(s)\, Q^\top , \qquad
    c = T Q\, \frac{Q^\top T^\top g}{s + \alpha}

solves at every alpha (`FeatureRidge`). At a single alpha a Cholesky factor of T' H T + alpha I is
used instead (`CholeskyRidge`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_solve, eigh, lapack

from mercer.arrays import Array
from mercer.linalg import blocked
from mercer.rows.left_out import Codes, LeftOut, target_shares
from mercer.rows.moments import Block, Moments, require_finite
from mercer.rows.rows import RowBlock
from mercer.rows.sums import Features, blocks_of
from mercer.sampling import blocks
from mercer.solvers.protocol import RidgeTask
from mercer.solvers.ridge.spectrum import members_of

Grouped = tuple[Block, Codes | None]


@dataclass(frozen=True, eq=False)
class FeatureEquations(ABC):
    """The equations (H + alpha M) c = g of ridge regression on features."""

    moments: Moments  # the sums H and g over the rows, centred if there is an intercept
    fit_intercept: bool  # whether there is an intercept, which is not penalised

    @property
    @abstractmethod
    def explained_trace(self) -> float:
        """The trace of T' H T."""

    @abstractmethod
    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g, without directions that are zero up to rounding."""

    @abstractmethod
    def effective_dof(self, alpha: float) -> float:
        """Effective degrees of freedom at one alpha."""

    def solve(self, alpha: float) -> Array:
        """Coefficients at one alpha."""
        return self.apply(self.moments.products, alpha)

    def intercept(self, coefficients: Array) -> Array:
        """The intercept that belongs to coefficients."""
        return self.moments.intercept(coefficients, fit_intercept=self.fit_intercept)


@dataclass(frozen=True, eq=False)
class CholeskyRidge(FeatureEquations):
    """Ridge regression on features at one alpha."""

    whitening: Array | None  # (m, k): T; None for the identity
    root: Array  # (k, k): the upper Cholesky factor of T' H T + alpha I
    explained_trace: float = 0.0

    @classmethod
    def factorise(
        cls, moments: Moments, whitening: Array | None, alpha: float, *, fit_intercept: bool
    ) -> CholeskyRidge:
        """Factorise the equations at one alpha, which exceeds the rounding error of the sums."""
        centred = moments.used(fit_intercept=fit_intercept)
        matrix = np.array(centred.whitened(whitening), order="F")
        trace = float(np.trace(matrix))
        matrix[np.diag_indices_from(matrix)] += alpha
        root = blocked.cholesky(matrix)
        return cls(centred, fit_intercept, whitening, root, trace)

    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g for the alpha of the factor."""
        inner = right if self.whitening is None else self.whitening.T @ right
        solved: Array = cho_solve((self.root, False), inner, check_finite=False)
        return solved if self.whitening is None else self.whitening @ solved

    def effective_dof(self, alpha: float) -> float:
        """[1 +] k - alpha tr (T' H T + alpha I)^-1 for the alpha of the factor."""
        inverse = lapack.dtrtri(self.root)[0]
        return float(self.fit_intercept + len(self.root) - alpha * np.vdot(inverse, inverse))


@dataclass(frozen=True, eq=False)
class FeatureRidge(FeatureEquations):
    """Ridge regression on features at every alpha, from one eigendecomposition."""

    basis: Array  # (m, k): T Q, the eigenvectors
    values: Array  # (k,): the eigenvalues s, descending

    @classmethod
    def decompose(
        cls, moments: Moments, whitening: Array | None, *, fit_intercept: bool
    ) -> FeatureRidge:
        """Compute the eigenvectors."""
        centred = moments.used(fit_intercept=fit_intercept)
        values, vectors = eigh(centred.whitened(whitening), driver="evd")
        basis = vectors if whitening is None else whitening @ vectors
        return cls(centred, fit_intercept, basis[:, ::-1], np.maximum(values[::-1], 0.0))

    @property
    def explained_trace(self) -> float:
        """The trace of T' H T."""
        return float(self.values.sum())

    def apply(self, right: Array, alpha: float) -> Array:
        """(H + alpha M)^-1 g, by eigenvectors."""
        solved: Array = self.basis @ (self.gains(alpha)[:, None] * (self.basis.T @ right))
        return solved

    def effective_dof(self, alpha: float) -> float:
        """Effective degrees of freedom, from eigenvalues."""
        return float(self.fit_intercept + np.sum(self.values * self.gains(alpha)))

    @property
    def target_shares(self) -> Array:
        """Shares of targets in averages of errors: each counts in its own unit."""
        sums = self.moments
        return target_shares(np.maximum(sums.energy, 0.0) / sums.weight, sums.origin)

    def gcv(self, alphas: Array, out: LeftOut | None = None) -> Array:
        """Generalised cross-validation, averaged over targets, for each alpha.

        Copies of a row, if `out` has merged them, count as one row.
        """
        n, scatter, shares = self.moments.rows, np.zeros(1), self.target_shares
        if out is not None and out.row_of is not None:
            n, scatter = int(np.count_nonzero(out.part.mass)), np.asarray(out.scatter)
        weight = self.moments.weight
        turned = self.basis.T @ self.moments.products
        errors = np.empty(len(alphas))
        for i, alpha in enumerate(alphas):
            gains = self.gains(alpha)
            # |y - f|^2 = |y|^2 - sum t^2 g (2 - s g) over the eigenvectors.
            explained = (gains * (2 - self.values * gains))[:, None] * turned**2
            loss = self.moments.energy - explained.sum(axis=0) - weight * scatter
            free = 1 - self.effective_dof(alpha) / n
            means = np.maximum(loss, 0.0) / weight / free**2 if free > 0 else np.inf
            errors[i] = np.sum(shares * (means + scatter))
        return errors

    def loo_sums(self, blocks: Iterable[Grouped], alphas: Array) -> Array:
        """Sums of squared leave-one-out errors over blocks of rows, for each alpha and target."""
        total = np.zeros((len(alphas), len(self.moments.origin)))
        for block, groups in blocks:
            mass = np.ones(len(block[0])) if block[2] is None else block[2]
            for i, residuals in enumerate(self.loo_residuals(block, alphas, groups)):
                total[i] += mass @ residuals**2
        return total

    def loo_residuals(
        self, block: Block, alphas: Sequence[float] | Array, groups: Codes | None = None
    ) -> list[Array]:
        """Leave-one-out residuals of some rows, for each alpha.

        A residual is divided by 1 - w_i h_i. The leverage h_i is the entry of the row in
        phi (H + alpha M)^-1 phi', plus that of the intercept. For groups of rows, which a block
        holds as a whole, it is a system of equations with the matrix of these entries.
        """
        (phi, y, weights), sums = block, self.moments
        # Centre the features first, which avoids cancellation if they are far from zero.
        constant = 1 / sums.weight if self.fit_intercept else 0.0
        about = phi - (sums.shift + constant * sums.features)
        targets = y - (sums.origin + sums.targets * constant if self.fit_intercept else 0.0)
        mass = np.ones(len(phi)) if weights is None else weights
        turned = about @ self.basis
        residuals: list[Array] = []
        if groups is not None:
            rows = np.column_stack([turned, np.ones(len(turned))])
            hats = [np.append(self.gains(alpha), constant) for alpha in alphas]
            residuals = [targets - about @ self.solve(alpha) for alpha in alphas]
            for members in members_of(groups):
                _leave_group_out(members, rows, hats, mass, residuals)
            return residuals
        squares = turned**2
        for alpha in alphas:
            free = 1 - mass * (squares @ self.gains(alpha) + constant)
            with np.errstate(divide="ignore"):
                plain = targets - about @ self.solve(alpha)
                residuals.append(plain / np.maximum(free, 0.0)[:, None])
        return residuals

    def loo_errors(self, sums: Array, out: LeftOut | None = None) -> Array:
        """Mean squared leave-one-out errors, averaged over targets, from sums over all rows."""
        scatter = 0.0 if out is None else out.scatter
        errors: Array = (sums / self.moments.weight + scatter) @ self.target_shares
        return errors

    def gains(self, alpha: float) -> Array:
        """1 / (s + alpha), and 0 where s + alpha is rounding error."""
        total = self.values + alpha
        least = len(total) * np.finfo(np.float64).eps * float(self.values.max(initial=0.0))
        kept = total > least
        return np.where(kept, 1 / np.where(kept, total, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class LeaveOneOutErrors:
    """Sums of squared leave-one-out errors for each alpha."""

    features: Features
    problem: FeatureRidge
    alphas: Array  # (a,): the candidates
    groups: Codes | None = None  # of rows that are left out together, for a part of all rows

    def __call__(self, part: RowBlock) -> Array:
        """One sum for each alpha and target."""
        width = len(self.problem.moments.features)
        blocks = grouped_blocks(part, self.features, width, self.groups)
        return self.problem.loo_sums(blocks, self.alphas)


def grouped_blocks(
    part: RowBlock, features: Features, width: int, groups: Codes | None
) -> Iterator[Grouped]:
    """Features, targets and weights in blocks that hold whole groups, with the groups."""
    if groups is None:
        yield from ((block, None) for block in blocks_of(part, features, width))
        return
    order, edges = np.argsort(groups, kind="stable"), [0]
    ends = np.append(np.flatnonzero(np.diff(groups[order])) + 1, len(order))
    stops = [rows.stop for rows in blocks(len(order), width)]
    edges += ends[np.searchsorted(ends, stops)].tolist()
    for start, stop in pairwise(np.unique(edges)):
        rows = order[start:stop]
        some = part.rows_at(rows)
        phi = features(some.points)
        dense = phi.toarray() if sp.issparse(phi) else phi
        yield (dense, some.targets, some.weights), groups[rows]


def _leave_group_out(
    members: Codes, rows: Array, hats: Sequence[Array], mass: Array, residuals: Sequence[Array]
) -> None:
    """Replace residuals of a group, for each alpha, by (I - H_gg W)^-1 r_g, where H = B D B'.

    For a group of more rows than features they are r + B (D^-1 - B'WB)^-1 B'W r (Woodbury), and
    B'WB is the same for all alphas.
    """
    b, w = rows[members], mass[members, None]
    squares = b.T @ (w * b) if len(members) > b.shape[1] else None
    for hat, at_alpha in zip(hats, residuals, strict=True):
        kept, r = hat > 0, at_alpha[members]
        columns, gains = b[:, kept], hat[kept]
        if squares is None:
            entries = (columns * gains) @ (w * columns).T
            at_alpha[members] = np.linalg.solve(np.eye(len(members)) - entries, r)
        else:
            rest = np.diag(1 / gains) - squares[np.ix_(kept, kept)]
            at_alpha[members] = r + columns @ np.linalg.solve(rest, columns.T @ (w * r))


def feature_equations(
    moments: Moments,
    whitening: Array | None,
    alpha: float | None,
    eps: float,
    *,
    fit_intercept: bool,
) -> FeatureEquations:
    """Factorise the equations: by Cholesky at one alpha, by eigenvectors if `alpha` is None.

    `eps` is the rounding unit of the features. If alpha is below the rounding error of the sums,
    eigenvectors are used, which distinguish small eigenvalues from zero.
    """
    require_finite(moments.squares)
    if alpha is None or not alpha > _rounding_of_sums(moments, whitening, eps):
        return FeatureRidge.decompose(moments, whitening, fit_intercept=fit_intercept)
    return CholeskyRidge.factorise(moments, whitening, alpha, fit_intercept=fit_intercept)


def _rounding_of_sums(moments: Moments, whitening: Array | None, eps: float) -> float:
    """A bound of the error of the eigenvalues of T' H T due to rounding of the sums.

    Errors of H_ab are proportional to sqrt(H_aa H_bb). So errors of (T' H T)_ij are proportional to
    v_i v_j with v = |T|' sqrt(diag H), and errors of the eigenvalues to |v|^2.
    """
    sizes = np.sqrt(moments.plain().squares.diagonal())
    if whitening is not None:
        sizes = np.abs(whitening).T @ sizes
    return eps * float(sizes @ sizes)


def choose(
    task: RidgeTask, problem: FeatureEquations, features: Features, *, every: bool
) -> tuple[Array, Array | None]:
    """Every alpha, or the best as an array of one with the criterion at each candidate."""
    if every or not task.compares:
        return task.alphas if every else task.alphas[:1], None
    assert isinstance(problem, FeatureRidge)
    is_gcv = task.criterion == "gcv"
    errors = problem.gcv(task.alphas, task.left_out) if is_gcv else _loo(task, problem, features)
    task.require_choice(errors)
    best = int(np.argmin(errors))
    return task.alphas[best : best + 1], errors


def criteria(
    task: RidgeTask, problem: FeatureEquations, features: Features
) -> tuple[Array, Array, Array]:
    """Leave-one-out errors, GCV errors and degrees of freedom at each alpha of a task."""
    assert isinstance(problem, FeatureRidge)
    dof = np.array([problem.effective_dof(alpha) for alpha in task.alphas])
    return _loo(task, problem, features), problem.gcv(task.alphas, task.left_out), dof


def _loo(task: RidgeTask, problem: FeatureRidge, features: Features) -> Array:
    """Leave-one-out errors at each alpha of a task, by a pass over the rows."""
    out = task.left_out
    summand = LeaveOneOutErrors(features, problem, task.alphas, None if out is None else out.groups)
    return problem.loo_errors(task.compared_rows.map_sum(summand), out)
