r"""Low-rank factors of a positive semi-definite matrix from a few of its columns.

Choosing columns P of a matrix K gives the Nystrom approximation

.. math:: \hat K = K_{:P}\, K_{PP}^{-1}\, K_{P:} = F F^\top ,

the Cholesky factor of K stopped after |P| pivots. The matrix is never formed: columns are asked
for when they are pivots. Pivots are drawn in proportion to the residual diagonal (randomly pivoted
Cholesky: Chen, Epperly, Tropp and Webber 2022), are the largest of it (partial pivoted Cholesky),
or are given.

Columns are added in blocks, so that nearly all work is in matrix products. For random pivots this
changes nothing in their distribution: a block is drawn from the residual diagonal as it stands, and
each draw is then accepted with the probability that its residual has fallen to, given those
accepted before it (Epperly, Tropp and Webber 2024, "Embrace rejection"). That needs the entries
among the draws only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from mercer.exceptions import ParameterError, ValidityError
from mercer.linalg.whitening import whiten
from mercer.parallel import blas_threads

Array = NDArray[np.floating[Any]]
Indices = NDArray[np.intp]
Columns = Callable[[Indices], Array]
Entries = Callable[[Indices, Indices], Array]

# Residuals below this many rounding units of the diagonal count as zero.
_NOISE = 128
# A block of greedy pivots takes those whose residual is at least this part of the largest.
_THRESHOLD = 0.5
# Number of rows of the factor that are computed at a time.
_PANEL = 2048


@dataclass(frozen=True, eq=False)
class LowRank:
    """A factor F with K close to F F', and how close.

    Attributes
    ----------
    factor : ndarray of shape (n, k)
        F, in C order. Its rows at the pivots are a lower triangle.
    pivots : ndarray of shape (k,)
        The columns of K that F is made of, in the order in which they were taken.
    history : ndarray of shape (k + 1,)
        The trace of K - F F' after 0, 1, ..., k pivots, relative to that of K.
    """

    factor: Array
    pivots: Indices
    history: NDArray[np.float64]

    @property
    def rank(self) -> int:
        """Number of columns of F."""
        return len(self.pivots)

    @property
    def trace_error(self) -> float:
        """The trace of K - F F' relative to that of K: 0 is exact, 1 is nothing."""
        return float(self.history[-1])


def pivoted_cholesky(
    columns: Columns,
    diagonal: Array,
    rank: int,
    *,
    method: Literal["random", "greedy"] = "random",
    block: int | None = None,
    rng: Any = None,
    tol: float = 1e-13,
    entries: Entries | None = None,
) -> LowRank:
    """Cholesky with pivots, stopped at a rank: n rank^2 operations and n rank kernel values.

    Parameters
    ----------
    columns : callable
        Maps indices of shape (b,) to these columns of K, of shape (n, b). What it returns may be
        overwritten. Its floating type is that of the factor.
    diagonal : ndarray of shape (n,)
        The diagonal of K. Indices where it is 0 are never pivots.
    rank : int
        The most pivots to take.
    method : {"random", "greedy"}
        Pivots in proportion to the residual diagonal, or the largest of it.
    block : int, optional
        How many pivots are proposed at a time; by default a tenth of the rank if they are random,
        and one if they are greedy. A block of random pivots has the distribution of single ones. A
        block of greedy ones takes residuals of at least half of the largest.
    rng : int, Generator or RandomState, optional
        What random pivots are drawn with.
    tol : float
        Stop where the relative trace of the residual is no more than this, or than rounding: 256
        units in the last place.
    entries : callable, optional
        Maps rows and columns to this block of K. Without it whole columns are computed for
        proposals that are then rejected.

    Returns
    -------
    LowRank
        The factor, its pivots and the error after each of them.

    Raises
    ------
    ValidityError
        If a residual is negative by more than rounding: K is not positive semi-definite.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg.pivoted_cholesky import pivoted_cholesky
    >>> x = np.arange(6.0)
    >>> K = np.outer(x, x) + 1
    >>> found = pivoted_cholesky(lambda rows: K[:, rows], K.diagonal(), rank=4, rng=0)
    >>> found.rank, bool(np.allclose(found.factor @ found.factor.T, K))
    (2, True)
    """
    if method not in ("random", "greedy"):
        raise ParameterError(
            f'pivoted_cholesky: method = {method!r} is unknown; pass "random" or "greedy".'
        )
    state = _Elimination(columns, diagonal, rank, entries)
    generator = generator_of(rng)
    size = block or (_default_block(state.capacity) if method == "random" else 1)
    with blas_threads():
        while state.unfinished(tol):
            if method == "random":
                proposed = state.drawn(size, generator)
                draws = generator.random(size) * state.residual[proposed]
                state.take(proposed, partial(_accepted, draws=draws))
            else:
                state.take(state.largest(size), _largest_first)
    return state.result()


def nystrom(
    columns: Columns, diagonal: Array, pivots: Indices, *, tol: float | None = None
) -> LowRank:
    """The factor for given pivots, less those that add nothing: duplicates among others.

    Parameters
    ----------
    columns : callable
        Maps indices of shape (b,) to these columns of K, of shape (n, b).
    diagonal : ndarray of shape (n,)
        The diagonal of K.
    pivots : ndarray of shape (m,)
        The columns to use.
    tol : float, optional
        Residuals below this part of the largest diagonal entry count as zero; by default m units in
        the last place.

    Returns
    -------
    LowRank
        The factor; its pivots are those of the given ones that were kept, the largest residual
        first.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg.pivoted_cholesky import nystrom
    >>> x = np.arange(6.0)
    >>> K = np.outer(x, x) + 1
    >>> found = nystrom(lambda rows: K[:, rows], K.diagonal(), np.array([1, 4, 4, 2]))
    >>> found.pivots.tolist(), bool(np.allclose(found.factor @ found.factor.T, K))
    ([4, 1], True)
    """
    pivots = np.asarray(pivots, dtype=np.intp)
    cross = columns(pivots)
    with blas_threads():
        whitening = whiten(cross[pivots], tol=tol)
        kept = whitening.kept
        factor = whitening.apply(cross[:, kept])
    squares = np.sum(np.square(factor, dtype=np.float64), axis=0)
    total = float(np.sum(np.maximum(diagonal, 0), dtype=np.float64))
    return LowRank(factor, pivots[kept], _relative(total, total - np.cumsum(squares)))


class _Elimination:
    """A Cholesky factor in the making: the columns so far and the residual diagonal."""

    def __init__(
        self, columns: Columns, diagonal: Array, rank: int, entries: Entries | None
    ) -> None:
        self.columns = columns
        self.entries: Entries = entries or (lambda rows, cols: columns(cols)[rows])
        self.n, self.rank = len(diagonal), 0
        self.capacity = max(0, min(rank, self.n))
        self.diagonal = np.maximum(np.asarray(diagonal, dtype=np.float64), 0)
        self.residual, self.open = self.diagonal.copy(), self.diagonal.copy()
        self.total = self.trace = float(self.diagonal.sum())
        self.dtype = self._floating_type()
        self.eps = float(np.finfo(self.dtype).eps)
        self.noise = _NOISE * self.eps * self.diagonal
        self.factor: Array = np.empty((self.n, self.capacity), self.dtype)
        self.pivots = np.empty(self.capacity, np.intp)
        self.traces: list[float] = []

    def _floating_type(self) -> np.dtype[np.floating[Any]]:
        probe = np.zeros(1, np.intp)
        single = self.n > 0 and self.entries(probe, probe).dtype == np.float32
        return np.dtype(np.float32 if single else np.float64)

    def unfinished(self, tol: float) -> bool:
        """Whether there is room for a pivot, and something left for it to explain."""
        left = float(self.open.sum())
        return self.rank < self.capacity and left > max(tol, 2 * _NOISE * self.eps) * self.total

    def drawn(self, size: int, rng: Any) -> Indices:
        """Rows in proportion to their residuals, one may come twice."""
        return np.asarray(rng.choice(self.n, size=size, p=self.open / self.open.sum()))

    def largest(self, size: int) -> Indices:
        """The rows with the largest residuals."""
        if size == 1:
            return np.array([np.argmax(self.open)])
        size = min(size, int(np.count_nonzero(self.open)))
        return np.argpartition(-self.open, size - 1)[:size]

    def take(
        self, proposed: Indices, choose: Callable[[Array, Array], tuple[list[int], Array]]
    ) -> None:
        """Let a rule choose among proposed pivots, and add the columns of those chosen."""
        square, noise = self._residual_block(proposed), self.noise[proposed]
        # What is only rounding cannot be a pivot, now or later.
        self.open[proposed[square.diagonal() <= noise]] = 0.0
        chosen, lower = choose(square, noise)
        room = self.capacity - self.rank
        chosen, lower = chosen[:room], lower[:room, :room]
        if chosen:
            self._add(proposed[chosen], lower)

    def _residual_block(self, rows: Indices) -> Array:
        """The residual among some rows."""
        square = np.asarray(self.entries(rows, rows), dtype=np.float64).copy()
        known = self.factor[rows, : self.rank].astype(np.float64, copy=False)
        square -= known @ known.T
        return square

    def _add(self, pivots: Indices, lower: Array) -> None:
        """Add the columns of K at the pivots, less what is known of them, and divided by L'."""
        start, end = self.rank, self.rank + len(pivots)
        block = np.require(self.columns(pivots), self.dtype, ["C", "W"])
        known = self.factor[pivots, :start].T
        lower = np.asfortranarray(lower, self.dtype)
        trsm = get_blas_funcs("trsm", (lower,))
        rows, explained = np.empty(self.n), np.zeros(end - start)
        for first in range(0, self.n, _PANEL):  # what is computed is used while in cache
            span = slice(first, first + _PANEL)
            part = block[span]
            if start:
                part -= self.factor[span, :start] @ known
            part = trsm(1.0, lower, part.T, lower=True, overwrite_b=True).T
            self.factor[span, start:end] = part
            squares = np.square(part, dtype=np.float64)
            rows[span] = squares.sum(axis=1)
            explained += squares.sum(axis=0)
        self.pivots[start:end], self.rank = pivots, end
        self.traces.extend(self.trace - np.cumsum(explained))
        self._reduce(rows, pivots)

    def _reduce(self, explained: Array, pivots: Indices) -> None:
        """Lower the residual diagonal; what is left of it at pivots is rounding."""
        self.residual -= explained
        self.residual[pivots] = 0.0
        self._require_definite()
        np.maximum(self.residual, 0.0, out=self.residual)
        self.trace = float(self.residual.sum())
        self.open = np.where(self.open > 0, self.residual, 0.0)
        self.open[self.open <= self.noise] = 0.0

    def _require_definite(self) -> None:
        worst = int(np.argmin(self.residual))
        # Pivots next to rounding leave errors far above it, in float32 above all.
        allowed = self.eps**0.25 * max(self.diagonal[worst], self.total / self.n)
        if self.residual[worst] < -allowed:
            raise ValidityError(
                "pivoted_cholesky: the matrix is not positive semi-definite: the residual of row "
                f"{worst} is {self.residual[worst]:.3g}; repair it, or use a kernel whose is_psd "
                "is True."
            )

    def result(self) -> LowRank:
        """The factor, its pivots and its errors."""
        if self.traces:
            self.traces[-1] = self.trace
        factor = np.ascontiguousarray(self.factor[:, : self.rank])
        history = _relative(self.total, np.array(self.traces))
        return LowRank(factor, self.pivots[: self.rank].copy(), history)


def _accepted(square: Array, noise: Array, draws: Array) -> tuple[list[int], Array]:
    """Accept proposals whose residual, given those accepted before, is above their draws."""
    chosen: list[int] = []
    lower = np.zeros_like(square)
    for j, least in enumerate(np.maximum(draws, noise)):
        if square[j, j] > least:
            _eliminate(square, lower, j, len(chosen))
            chosen.append(j)
    return chosen, lower[chosen, : len(chosen)]


def _largest_first(square: Array, noise: Array) -> tuple[list[int], Array]:
    """Take proposals in the order of their residuals, down to half of the largest at the start."""
    chosen: list[int] = []
    lower = np.zeros_like(square)
    least = _THRESHOLD * square.diagonal().max()
    while len(chosen) < len(square):
        j = int(np.argmax(square.diagonal()))
        if square[j, j] < least or square[j, j] <= noise[j]:
            break
        _eliminate(square, lower, j, len(chosen))
        chosen.append(j)
    return chosen, lower[chosen, : len(chosen)]


def _eliminate(square: Array, lower: Array, j: int, step: int) -> None:
    """One step of Cholesky on a small matrix, with pivot j."""
    column = square[:, j] / np.sqrt(square[j, j])
    lower[:, step] = column
    square -= np.outer(column, column)
    square[j], square[:, j] = 0.0, 0.0


def generator_of(rng: Any) -> Any:
    """A generator from a seed; one that is given as it is."""
    return np.random.default_rng(rng) if rng is None or isinstance(rng, int) else rng


def _default_block(rank: int) -> int:
    """How many random pivots to propose at a time."""
    return int(np.clip(rank // 10, 1, 256))


def _relative(total: float, traces: Array) -> NDArray[np.float64]:
    """Traces as parts of the first, falling as they do but for rounding."""
    if total <= 0:
        return np.zeros(len(traces) + 1)
    history = np.concatenate([[1.0], np.maximum(traces, 0.0) / total])
    return np.minimum.accumulate(history)
