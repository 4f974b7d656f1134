r"""Low-rank factors of a positive semi-definite matrix from a few of its columns.

Columns P of a matrix K give the Nystrom approximation

.. math:: \hat K = K_{:P}\, K_{PP}^{-1}\, K_{P:} = F F^\top ,

the Cholesky factor of K stopped after |P| pivots. The matrix is never formed: only the columns of
pivots are computed. Pivots are drawn in proportion to the residual diagonal (randomly pivoted
Cholesky: Chen, Epperly, Tropp and Webber 2022), are its largest entries (partial pivoted Cholesky),
or are passed by the caller.

Columns are added in blocks, so that nearly all work is in matrix products. Blocks do not change the
distribution of random pivots: a block is drawn from the current residual diagonal, and each draw is
accepted with a probability equal to the ratio of its residual given the draws accepted before it to
its residual when drawn (Epperly, Tropp and Webber 2024, "Embrace rejection"). That needs only the
entries among the draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mercer.arrays import Array
from mercer.checks import require_choice
from mercer.exceptions import ValidityError
from mercer.linalg.blocked import multiply, solve_triangular
from mercer.linalg.whitening import whiten

Indices = NDArray[np.intp]
Columns = Callable[[Indices], Array]
Entries = Callable[[Indices, Indices], Array]

# Residuals up to this many rounding units of the diagonal count as zero.
_NOISE = 128


@dataclass(frozen=True, eq=False)
class LowRank:
    """A factor F with K close to F F', and the trace of the residual."""

    factor: Array  # (n, k): F, in C order; its rows at the pivots are a lower triangle
    pivots: Indices  # (k,): the columns of K that were used, in their order
    # (k + 1,): the trace of K - F F' after 0, 1, ..., k pivots, relative to that of K
    history: NDArray[np.float64]

    @property
    def rank(self) -> int:
        """Number of columns of F."""
        return len(self.pivots)

    @property
    def trace_error(self) -> float:
        """The trace of K - F F' relative to that of K: 0 is exact, 1 explains nothing."""
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
    """Pivoted Cholesky, stopped at a rank: n rank^2 operations and n rank kernel values.

    Parameters
    ----------
    columns : callable
        Maps indices of shape (b,) to these columns of K, of shape (n, b). The array that it returns
        may be overwritten. Its floating type is that of the factor.
    diagonal : ndarray of shape (n,)
        The diagonal of K. Indices where it is 0 are never pivots.
    rank : int
        The largest number of pivots.
    method : {"random", "greedy"}
        Draw pivots in proportion to the residual diagonal, or take its largest entries.
    block : int, optional
        The number of random pivots per block, which does not change their distribution; by default
        a tenth of the rank. Greedy pivots are taken one by one.
    rng : int, Generator or RandomState, optional
        The random numbers.
    tol : float
        Stop if the relative trace of the residual is at most `tol`, or 256 units in the last place.
    entries : callable, optional
        Maps rows and columns to this block of K. Without it, whole columns are computed even for
        rejected proposals.

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
    >>> approximation = pivoted_cholesky(lambda rows: K[:, rows], K.diagonal(), rank=4, rng=0)
    >>> F = approximation.factor
    >>> approximation.rank, bool(np.allclose(F @ F.T, K))
    (2, True)
    """
    require_choice("pivoted_cholesky", "method", method, ("random", "greedy"))
    state = _Elimination(columns, diagonal, rank, entries)
    generator = generator_of(rng)
    size = block or int(np.clip(state.capacity // 10, 1, 256))
    while state.unfinished(tol):
        if method == "greedy":
            state.take(np.array([np.argmax(state.open)]), np.zeros(1))
        else:
            proposed = state.drawn(size, generator)
            state.take(proposed, generator.random(size) * state.residual[proposed])
    return state.result()


def nystrom(
    columns: Columns, diagonal: Array, pivots: Indices, *, tol: float | None = None
) -> LowRank:
    """The factor for given pivots, without pivots that add nothing, such as duplicates.

    Parameters
    ----------
    columns : callable
        Maps indices of shape (b,) to these columns of K, of shape (n, b).
    diagonal : ndarray of shape (n,)
        The diagonal of K.
    pivots : ndarray of shape (m,)
        The columns to use.
    tol : float, optional
        Residuals below `tol` times the largest diagonal entry count as zero; by default m units in
        the last place.

    Returns
    -------
    LowRank
        The factor; its pivots are the ones that were kept, in the order of decreasing residuals.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg.pivoted_cholesky import nystrom
    >>> x = np.arange(6.0)
    >>> K = np.outer(x, x) + 1
    >>> approximation = nystrom(lambda rows: K[:, rows], K.diagonal(), np.array([1, 4, 4, 2]))
    >>> F = approximation.factor
    >>> approximation.pivots.tolist(), bool(np.allclose(F @ F.T, K))
    ([4, 1], True)
    """
    pivots = np.asarray(pivots, dtype=np.intp)
    cross = columns(pivots)
    whitening = whiten(cross[pivots], tol=tol)
    kept = whitening.kept
    factor = whitening.apply(cross[:, kept])
    squares = np.sum(np.square(factor, dtype=np.float64), axis=0)
    total = float(np.sum(np.maximum(diagonal, 0), dtype=np.float64))
    return LowRank(factor, pivots[kept], _relative(total, total - np.cumsum(squares)))


class _Elimination:
    """A partial Cholesky factor: its columns so far, and the residual diagonal."""

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
        """Whether the rank is below its limit, and the residual trace above its tolerance."""
        least = max(tol, 2 * _NOISE * self.eps) * self.total
        return self.rank < self.capacity and float(self.open.sum()) > least

    def drawn(self, size: int, rng: Any) -> Indices:
        """Draw rows with replacement, in proportion to their residuals."""
        return np.asarray(rng.choice(self.n, size=size, p=self.open / self.open.sum()))

    def take(self, proposed: Indices, draws: Array) -> None:
        """Accept proposals whose residual, given those accepted before, is above their draws."""
        square, noise = self._residual_block(proposed), self.noise[proposed]
        # Rows whose residual is rounding error are never pivots.
        self.open[proposed[square.diagonal() <= noise]] = 0.0
        chosen, lower = _accepted(square, np.maximum(draws, noise))
        room = self.capacity - self.rank
        chosen, lower = chosen[:room], lower[:room, :room]
        if chosen:
            self._add(proposed[chosen], lower)

    def _residual_block(self, rows: Indices) -> Array:
        """The block of K - F F' at some rows and the same columns."""
        square = np.asarray(self.entries(rows, rows), dtype=np.float64).copy()
        known = self.factor[rows, : self.rank].astype(np.float64, copy=False)
        square -= known @ known.T
        return square

    def _add(self, pivots: Indices, lower: Array) -> None:
        """Add the columns of (K - F F')_P L^-T at the pivots P."""
        start, end = self.rank, self.rank + len(pivots)
        block = np.require(self.columns(pivots), self.dtype, ["C", "W"])
        if start:
            known = np.ascontiguousarray(self.factor[pivots, :start])
            multiply(self.factor[:, :start], known.T, block, alpha=-1.0, beta=1.0)
        upper = np.asfortranarray(lower.T, self.dtype)
        block = solve_triangular(upper, block.T, transposed=True).T
        self.factor[:, start:end] = block
        squares = np.square(block, dtype=np.float64)
        self.pivots[start:end], self.rank = pivots, end
        self.traces.extend(self.trace - np.cumsum(squares.sum(axis=0)))
        self._reduce(squares.sum(axis=1), pivots)

    def _reduce(self, explained: Array, pivots: Indices) -> None:
        """Subtract from the residual diagonal; its rest at the pivots is rounding error."""
        self.residual -= explained
        self.residual[pivots] = 0.0
        self._require_definite()
        np.maximum(self.residual, 0.0, out=self.residual)
        self.trace = float(self.residual.sum())
        self.open = np.where(self.open > 0, self.residual, 0.0)
        self.open[self.open <= self.noise] = 0.0

    def _require_definite(self) -> None:
        worst = int(np.argmin(self.residual))
        # Pivots close to rounding error cause errors far above it, especially in float32.
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


def _accepted(square: Array, least: Array) -> tuple[list[int], Array]:
    """The pivots above their least values, in turn, and the Cholesky factor of their block."""
    chosen: list[int] = []
    lower = np.zeros_like(square)
    for j in range(len(square)):
        if square[j, j] > least[j]:
            column = square[:, j] / np.sqrt(square[j, j])
            lower[:, len(chosen)] = column
            square -= np.outer(column, column)
            square[j], square[:, j] = 0.0, 0.0
            chosen.append(j)
    return chosen, lower[chosen, : len(chosen)]


def generator_of(rng: Any) -> Any:
    """A generator from a seed; a generator is returned unchanged."""
    return np.random.default_rng(rng) if rng is None or isinstance(rng, int) else rng


def _relative(total: float, traces: Array) -> NDArray[np.float64]:
    """Traces relative to the total, made non-increasing where rounding makes them grow."""
    if total <= 0:
        return np.zeros(len(traces) + 1)
    history = np.concatenate([[1.0], np.maximum(traces, 0.0) / total])
    return np.minimum.accumulate(history)
