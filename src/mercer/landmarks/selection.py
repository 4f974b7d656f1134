"""Landmarks: a few points that stand for many.

A kernel matrix of n rows is replaced by its Nystrom approximation from m landmarks. Landmarks are
chosen by kernel values alone, so that the kernel may be on vectors, strings, data frames, or a
precomputed matrix.
"""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from mercer import memory
from mercer.arrays import Array
from mercer.checks import is_count, require_count, require_finite_values, require_number
from mercer.exceptions import DataError, DataTypeError, MercerWarning, ParameterError, warn
from mercer.kernels.base import Kernel, checked_weight, validated
from mercer.kernels.containers import ingest, len_of
from mercer.kernels.names import KernelLike, kernel_of
from mercer.kernels.points import Points
from mercer.kernels.special import White
from mercer.landmarks.kmeans_plus_plus import far_seeds
from mercer.landmarks.leverage import leverage_scores
from mercer.landmarks.thinning import thinned
from mercer.linalg.pivoted_cholesky import pivoted_cholesky
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import RowDraw
from mercer.sampling import random_numbers, seed_from, uniform_rows

RowNumbers = NDArray[np.intp]

# Number of rows from which the spectrum is estimated to choose the ridge of leverage scores.
_SAMPLE = 500
# Memory for candidates and their kernel values if not all rows are in memory, in bytes.
_CANDIDATE_BYTES = 2**28
# Number of work vectors of the length of the candidates.
_VECTORS = 10


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Selected points, with their row numbers.

    Attributes
    ----------
    points : Points
        The landmarks, copied from the data.
    indices : ndarray of shape (m,) or None
        Their rows in the data; None if points were given.
    trace_error : float or None
        The unexplained share of the (weighted) trace of the kernel matrix; None if the method did
        not compute it.
    """

    points: Points
    indices: RowNumbers | None
    trace_error: float | None = None

    def __len__(self) -> int:
        return len(self.points)


def select(
    kernel: KernelLike,
    points: Any,
    how: Any = "rpcholesky",
    n_landmarks: int = 100,
    random_state: Any = None,
    *,
    sample_weight: Any = None,
    alpha: float | None = None,
) -> Landmarks:
    """Choose landmarks among points, or take those that are given.

    Parameters
    ----------
    kernel : Kernel, str or callable
        Any kernel without `White`, as estimators take it.
    points : array-like, sparse matrix, data frame, sequence or Points
        The data.
    how : str, array of int, or data
        A method, row numbers (or a mask), or the landmarks themselves. The methods are:

        - ``"rpcholesky"``: in proportion to the residual variance of each row given the landmarks
          so far; n m^2 operations, n m numbers in memory.
        - ``"uniform"``: with equal probability; needs no kernel values.
        - ``"kmeans++"``: in proportion to the squared distance, in feature space, to the nearest
          landmark so far; n m kernel values.
        - ``"leverage"``: in proportion to approximate ridge leverage scores; about 3 n m kernel
          values and 3 n m^2 operations in memory that does not grow with n m.
        - ``"thin"``: by kernel thinning, so that their mean embedding is close to that of all rows;
          weights are not used, but for rows of weight 0.
    n_landmarks : int, default=100
        The number of landmarks; not used if landmarks are passed. Fewer are chosen if they explain
        everything up to rounding.
    random_state : int, RandomState, Generator or None, default=None
        The random numbers.
    sample_weight : array-like of shape (n,), optional
        Weights of the rows; an integer weight counts repetitions, rows of weight 0 are not chosen.
    alpha : float, optional
        The ridge of ``"leverage"``; by default one with about m / (2 log m) degrees of freedom.

    Returns
    -------
    Landmarks
        The landmarks, their row numbers, and the trace error if it is known.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.landmarks import selection as landmarks
    >>> words = ["karolin", "kathrin", "kerstin", "aaaa", "aaaaa"]
    >>> chosen = landmarks.select(mc.Spectrum(2).normalized(), words, "kmeans++", 2, random_state=0)
    >>> len(chosen)
    2
    """
    chosen = n_landmarks, random_state
    made = kernel_of("select", kernel, points)
    return select_points("select", made, points, how, *chosen, sample_weight, alpha=alpha)


def select_points(
    owner: str,
    kernel: Kernel,
    points: Any,
    how: Any,
    n_landmarks: int = 100,
    random_state: Any = None,
    sample_weight: Any = None,
    *,
    alpha: float | None = None,
    also: tuple[str, ...] = (),
) -> Landmarks:
    """Choose landmarks as `select` does, in the name of an owner that may know further methods."""
    data = validated(kernel, points)
    weights = None if sample_weight is None else checked_weight(kernel, sample_weight, len(data))
    rows = InMemory(RowBlock(data, np.empty((len(data), 0)), weights))
    return select_rows(
        kernel,
        rows,
        how,
        n_landmarks,
        random_state=random_state,
        alpha=alpha,
        owner=owner,
        also=also,
    )


def select_rows(
    kernel: Kernel,
    rows: RowSource,
    how: Any = "rpcholesky",
    n_landmarks: int = 100,
    random_state: Any = None,
    *,
    alpha: float | None = None,
    owner: str = "select_rows",
    also: tuple[str, ...] = (),
) -> Landmarks:
    """Choose landmarks among rows that need not be in memory.

    A uniform choice does not depend on where the rows are. The other methods use kernel values of
    all rows or, if these are not in memory, of a uniform sample that fits in 256 MiB, counting
    three copies of the rows and one kernel value per landmark.
    """
    require_no_noise(kernel, owner)
    if isinstance(how, Landmarks):
        return how
    if alpha is not None:
        require_number(owner, "alpha", alpha)
    resolved = rows.resolve(kernel)
    if resolved.input_tags()["pairwise"]:
        resolved(rows.first_row)  # refuses a matrix that is not square
    chosen = _explicit_landmarks(resolved, rows.first_row, len(rows), how, owner)
    if isinstance(chosen, Points):
        return Landmarks(chosen, None)
    if chosen is None:
        if how not in _METHODS:
            _unknown(how, owner, also)
        size = _size(n_landmarks, rows.statistics.rows, owner)
        if size is None:
            chosen = _counted(rows)
        elif how == "uniform":
            chosen = _uniform(rows, size, random_numbers(random_state, owner))
        else:
            rng = random_numbers(random_state, owner)
            return _by_kernel_values(rows, _Choice(how, resolved, size, alpha, rng))
    return Landmarks(rows.points_at(chosen), chosen)


def _by_kernel_values(rows: RowSource, choice: _Choice) -> Landmarks:
    """Choose among all rows or, if they are not in memory, among as many as fit."""
    if isinstance(rows, InMemory):
        return choice(rows.part)[0]
    numbers = _candidates(rows, choice.size, choice.rng)
    chosen, state = rows.apply_to(numbers, replace(choice, rng=deepcopy(choice.rng)))
    # Another process may have drawn the random numbers: continue from its state.
    choice.rng.set_state(state)
    # The trace error of a sample is not that of all rows.
    error = chosen.trace_error if len(numbers) == len(rows) else None
    return Landmarks(chosen.points, numbers[chosen.indices], error)


def check_choice(how: Any, n_landmarks: Any, owner: str, also: tuple[str, ...] = ()) -> None:
    """Validate the method and the number of landmarks, without the rows."""
    if isinstance(how, str):
        if how not in (*_METHODS, *also):
            _unknown(how, owner, also)
        require_count(owner, "n_landmarks", n_landmarks)


def _counted(rows: RowSource) -> RowNumbers:
    """All rows of positive weight."""
    if not rows.statistics.weighted:
        return np.arange(len(rows))
    return np.sort(rows.map_sum(RowDraw(rows.statistics.rows, 0)).rows)


def _candidates(rows: RowSource, size: int, rng: Any) -> RowNumbers:
    """The rows to choose among: all of them, or a uniform sample that fits in memory."""
    n = len(rows)
    # Bytes per row: a value per landmark, a tenth more for a block of columns, and work vectors.
    most = max(2 * size, rows.rows_within(_CANDIDATE_BYTES, 9 * size + _VECTORS * 8))
    return np.arange(n) if n <= most else np.sort(uniform_rows(n, most, rng))


def contains_noise(kernel: Kernel) -> bool:
    """Whether a kernel contains `White`."""
    return any(isinstance(leaf, White) for leaf, _ in kernel._reader.leaves)


def require_no_noise(kernel: Kernel, owner: str) -> None:
    """Refuse a kernel that contains `White`, which landmarks cannot approximate."""
    if contains_noise(kernel):
        raise ParameterError(
            f"{owner}: kernel = {kernel!r} contains White, which is 0 between a row and a landmark "
            "and so cannot be approximated; leave it out, and give its variance to the model, as "
            "noise= or alpha=."
        )


class KernelColumns:
    """Columns and blocks of S K S on demand, with S the diagonal matrix of roots of the weights.

    Parameters
    ----------
    kernel : Kernel
        The kernel, without `White`.
    points : Points
        The rows.
    weights : ndarray of shape (n,), optional
        Weights of the rows; 1 by default.

    Examples
    --------
    >>> import mercer as mc
    >>> from mercer.landmarks.selection import KernelColumns
    >>> K = KernelColumns(mc.Linear(), mc.Points([[1.0], [2.0]]))
    >>> K.columns([1]).tolist(), K.diagonal.tolist()
    ([[2.0], [4.0]], [1.0, 4.0])
    """

    def __init__(self, kernel: Kernel, points: Points, weights: Array | None = None) -> None:
        self.kernel, self.points = kernel, points
        self.root = None if weights is None else np.sqrt(weights)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def diagonal(self) -> Array:
        """The diagonal."""
        diagonal = require_finite_values(self.kernel.diag(self.points), self.kernel)
        return diagonal if self.root is None else diagonal * self.root**2

    def columns(self, cols: Any) -> Array:
        """Some columns, of shape (n, b)."""
        return self._weighted(self.kernel(self.points, self.points[cols]), slice(None), cols)

    def entries(self, rows: Any, cols: Any) -> Array:
        """Some rows of some columns."""
        block = self.kernel(self.points[rows], self.points[cols])
        return self._weighted(block, rows, cols)

    def multiply(self, vectors: Array) -> Array:
        """The matrix times columns, without storing the matrix."""
        gram = self.kernel.gram(self.points)
        if self.root is None:
            return np.asarray(gram @ vectors)
        root = self.root[:, None]
        return np.asarray(root * np.asarray(gram @ (root * vectors)))

    def _weighted(self, block: Array, rows: Any, cols: Any) -> Array:
        if self.root is not None:
            block *= self.root[rows][:, None].astype(block.dtype)
            block *= self.root[cols].astype(block.dtype)
        return block


# How to choose ------------------------------------------------------------------------------------


def _uniform(rows: RowSource, size: int, rng: Any) -> RowNumbers:
    if rows.statistics.equal_weights:
        return uniform_rows(len(rows), size, rng)
    return rows.map_sum(RowDraw(size, seed_from(rng))).rows


@dataclass(frozen=True, eq=False)
class _Choice:
    """Chooses landmarks in a block of rows, in the process that holds them."""

    how: str
    kernel: Kernel
    size: int
    alpha: float | None
    rng: np.random.RandomState

    def __call__(self, part: RowBlock) -> tuple[Landmarks, Any]:
        """The landmarks, and the state of the random numbers after the choice."""
        indices, error = _METHODS[self.how](self, part)
        if not len(indices):  # a kernel that is 0 everywhere: take any row
            indices = np.flatnonzero(part.mass)[:1]
        landmarks = Landmarks(part.points[indices].detached(), indices, error)
        return landmarks, self.rng.get_state(legacy=False)

    def kmeans(self, part: RowBlock) -> tuple[RowNumbers, None]:
        """Rows far apart."""
        access = KernelColumns(self.kernel, part.points)
        seeds = far_seeds(
            access.columns,
            access.diagonal,
            self.size,
            weights=part.weights,
            rng=self.rng,
            entries=access.entries,
        )
        return seeds, None

    def rpcholesky(self, part: RowBlock) -> tuple[RowNumbers, float]:
        """Random pivots of a Cholesky factor, and the trace error."""
        access, n = KernelColumns(self.kernel, part.points, part.weights), len(part)
        diagonal = access.diagonal
        memory.require(
            int(1.2 * n * self.size * diagonal.itemsize),  # the factor, and blocks of columns
            f"randomly pivoted Cholesky of {n} rows with {self.size} landmarks",
            'choose the landmarks by "leverage" or "uniform", or take fewer',
        )
        factor = pivoted_cholesky(
            access.columns, diagonal, self.size, rng=self.rng, entries=access.entries
        )
        return factor.pivots, factor.trace_error

    def leverage(self, part: RowBlock) -> tuple[RowNumbers, None]:
        """Rows in proportion to ridge leverage scores."""
        access, rng = KernelColumns(self.kernel, part.points, part.weights), self.rng
        diagonal = access.diagonal
        ridge = _ridge_for(access, self.size, rng) if self.alpha is None else self.alpha
        scores = leverage_scores(
            access.columns, diagonal, ridge, n_samples=self.size, rng=rng, entries=access.entries
        )
        size = min(self.size, int(np.count_nonzero(scores)))
        if size == 0:
            return np.empty(0, np.intp), None
        return rng.choice(len(part), size=size, replace=False, p=scores / scores.sum()), None

    def thin(self, part: RowBlock) -> tuple[RowNumbers, None]:
        """Rows with nearly the mean embedding of all rows."""
        counted = np.flatnonzero(part.mass)
        access = KernelColumns(self.kernel, part.points)
        chosen = thinned(
            lambda rows, cols: access.entries(counted[rows], counted[cols]),
            len(counted),
            self.size,
            self.rng,
        )
        return counted[chosen], None


# Methods that look at kernel values; "uniform" needs none.
_METHODS: dict[str, Any] = {
    "rpcholesky": _Choice.rpcholesky,
    "uniform": None,
    "kmeans++": _Choice.kmeans,
    "leverage": _Choice.leverage,
    "thin": _Choice.thin,
}


def _ridge_for(access: KernelColumns, size: int, rng: Any) -> float:
    """A ridge with about m / (2 log m) degrees of freedom, from the spectrum of a sample."""
    n = len(access)
    rows = rng.choice(n, size=min(n, _SAMPLE), replace=False)
    block = np.asarray(access.entries(rows, rows), dtype=np.float64)
    values = np.maximum(np.linalg.eigvalsh(block), 0) * (n / len(rows))
    largest = float(values[-1])
    if largest == 0:
        return 1.0
    # Only the larger eigenvalues of a sample approximate those of the whole matrix.
    wanted = min(max(size / (2 * math.log(size + 1)), 0.5), len(rows) / 4)

    def excess(exponent: float) -> float:
        return float(np.sum(values / (values + largest * 10**exponent))) - wanted

    lowest, highest = -12.0, math.log10(2 * len(rows) / wanted)
    return largest * 10 ** (brentq(excess, lowest, highest) if excess(lowest) > 0 else lowest)


# Explicit landmarks -------------------------------------------------------------------------------


def _explicit_landmarks(
    kernel: Kernel, head: Points, n: int, how: Any, owner: str
) -> RowNumbers | Points | None:
    """The row numbers or points that the caller passed; None if `how` names a method."""
    if isinstance(how, str):
        return None
    data = how if isinstance(how, Points) else _container(how, owner)
    if isinstance(data, np.ndarray) and data.ndim == 1 and data.dtype.kind in "iub":
        return _row_numbers(data, n, owner)
    if len_of(data) == 0:
        raise ParameterError(
            f"{owner}: landmarks = {how!r:.80} holds no landmarks; pass at least one."
        )
    if kernel.input_tags()["pairwise"]:
        raise ParameterError(
            f"{owner}: landmarks are given as points, but with {kernel!r} points are rows of the "
            "given matrix; pass their row numbers."
        )
    if getattr(head.data, "dtype", None) == np.float32 and isinstance(data, np.ndarray):
        data = data.astype(np.float32)  # keep the precision of the data
    try:
        points = validated(kernel, data).detached()
        kernel(head, points)
    except (DataError, ParameterError) as error:
        # A length-scale for each of other columns is a matter of the landmarks here.
        kind = type(error) if isinstance(error, DataError) else DataError
        raise kind(f"{owner}: of the given landmarks, taken as X: {error}") from None
    return points


def _container(how: Any, owner: str) -> Any:
    try:
        return ingest(how, owner)
    except DataTypeError:
        return _unknown(how, owner)


def _unknown(how: Any, owner: str, also: tuple[str, ...] = ()) -> NoReturn:
    names = ", ".join(map(repr, (*_METHODS, *also)))
    number = f" The number of landmarks is n_landmarks={how!r}." if is_count(how) else ""
    raise ParameterError(
        f"{owner}: landmarks = {how!r:.80} is unknown; pass one of {names}, row numbers, or the "
        f"landmarks themselves.{number}"
    ) from None


def _row_numbers(selector: Any, n: int, owner: str) -> RowNumbers:
    """Distinct row numbers from numbers or a mask, in their order."""
    mask = selector.dtype.kind == "b"
    rows = np.flatnonzero(selector) if mask else selector.astype(np.intp)
    wrong = len(selector) != n if mask else bool(((rows < 0) | (rows >= n)).any())
    if wrong or not len(rows):
        rule = f"a mask of {n} rows" if mask else f"a list of row numbers from 0 to {n - 1}"
        raise ParameterError(
            f"{owner}: landmarks = {selector!r:.80} is not {rule} that selects at least one; pass "
            "the numbers of rows of X."
        )
    return np.array(list(dict.fromkeys(rows.tolist())), dtype=np.intp)


def _size(n_landmarks: int, available: int, owner: str) -> int | None:
    """The number of landmarks to choose; None for all rows of positive weight."""
    require_count(owner, "n_landmarks", n_landmarks)
    if n_landmarks > available:
        warn(
            f"{owner}: n_landmarks = {n_landmarks} is more than the {available} rows; all of "
            "them are landmarks, which leaves out nothing but rounding. Pass fewer, or use an "
            "exact solver, which is faster and keeps more digits.",
            MercerWarning,
        )
    return int(n_landmarks) if n_landmarks < available else None
