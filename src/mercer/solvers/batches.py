"""Many small programmes with boxes and sums of one matrix, solved in one call of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mercer import _core
from mercer.parallel import thread_count
from mercer.solvers.boxes import Array, BoxProgramme, BoxSolution, Positions, StoredMatrix
from mercer.solvers.certificates import Certificates
from mercer.solvers.smo import exchanges_allowed


class Batch:
    """Programmes side by side.

    Parameters
    ----------
    programmes : sequence of BoxProgramme
        The problems, all with one sum or all with two.
    matrix : StoredMatrix
        The matrix of all problems.
    places : ndarray of int, optional
        Where the rows that the programmes have are in the matrix; by default there.
    near : sequence of ndarray, optional
        Where to begin with each, made feasible first.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.solvers.batches import Batch
    >>> from mercer.solvers.boxes import BoxProgramme, StoredMatrix
    >>> sign = np.array([1.0, -1.0])
    >>> box = {"lower": np.minimum(sign, 0), "upper": np.maximum(sign, 0), "start": np.zeros(2)}
    >>> problems = [BoxProgramme(np.array([0, k]), linear=-sign, **box) for k in (1, 2)]
    >>> batch = Batch(problems, StoredMatrix(np.diag([4.0, 4.0, 12.0])))
    >>> batch.solve(tol=1e-6)
    >>> [found.coefficients.tolist() for found in batch.solutions()]
    [[0.25, -0.25], [0.125, -0.125]]
    """

    def __init__(
        self,
        programmes: Sequence[BoxProgramme],
        matrix: StoredMatrix,
        places: Positions | None = None,
        near: Sequence[Array] | None = None,
    ) -> None:
        self._matrix = matrix
        self._whole = _stacked(programmes)
        self._rows = self._whole.rows if places is None else places[self._whole.rows]
        sizes = np.array([len(programme.rows) for programme in programmes])
        self._begins = np.concatenate([[0], np.cumsum(sizes)])
        firsts = [programme.n_first for programme in programmes]
        self._splits = np.array(
            [size if first is None else first for size, first in zip(sizes, firsts, strict=True)]
        )
        starts = self._begins[:-1]
        alone = firsts[0] is None
        self._groups = np.stack([starts] if alone else [starts, starts + self._splits], axis=1)
        start = self._whole.start
        if near is not None:
            pairs = zip(programmes, near, strict=True)
            start = np.concatenate([programme.feasible(values) for programme, values in pairs])
        self._up, self._down = self._whole.upper - start, start - self._whole.lower
        self._coefficients, self._products = np.empty(len(start)), np.empty(len(start))
        self._steps = np.zeros(len(sizes), np.int64)
        self._tolerances = np.zeros(len(sizes))

    @property
    def is_ordinary(self) -> bool:
        """Whether boxes are finite and variables need no other unit: else a batch does not serve.

        Returns
        -------
        bool
            False if `mercer.solvers.smo.solve` is needed, or more.
        """
        return self._whole.is_bounded and self._whole.unit == 1

    def solve(self, *, tol: float | Array, max_iter: int | None = None) -> None:
        """Exchange until no violation is above the tolerance, as far as that is reached.

        Parameters
        ----------
        tol : float or ndarray
            The violation that is allowed, to all or to each of them.
        max_iter : int, optional
            The largest number of exchanges of each problem, those of calls before included.
        """
        self._tolerances[:] = tol
        limit = exchanges_allowed(max_iter, int(np.diff(self._begins).max()))
        try:
            self._exchange(limit)
        except KeyboardInterrupt:
            self._exchange(0)  # how far all came by then
            raise

    def _exchange(self, limit: int) -> None:
        _core.smo_batch(
            self._matrix.values,
            self._begins,
            self._splits,
            self._rows,
            self._whole.linear,
            self._whole.lower,
            self._whole.upper,
            self._up,
            self._down,
            self._coefficients,
            self._products,
            self._steps,
            self._matrix.has_single,
            self._tolerances,
            limit,
            thread_count(),
        )

    def solutions(self) -> list[BoxSolution]:
        """The solutions as they are.

        Returns
        -------
        list of BoxSolution
            One for each problem; its product is that of its own rows.
        """
        found = Certificates(
            self._whole.linear,
            self._coefficients,
            self._products,
            self._up,
            self._down,
            self._groups,
        )
        edges = self._begins.tolist()
        stretches = [slice(*ends) for ends in pairwise(edges)]
        columns = zip(
            stretches,
            map(tuple, found.levels.tolist()),
            found.squared_norms.tolist(),
            found.objectives.tolist(),
            found.gaps.tolist(),
            found.violations.tolist(),
            self._steps.tolist(),
            (found.violations <= self._tolerances).tolist(),
            strict=True,
        )
        return [
            BoxSolution(self._coefficients[part], self._products[part], *values)
            for part, *values in columns
        ]


def _stacked(programmes: Sequence[BoxProgramme]) -> BoxProgramme:
    """The variables of all, one after another."""
    names = ("rows", "linear", "lower", "upper", "start")
    joined: dict[str, Array | Positions] = {
        name: np.concatenate([getattr(programme, name) for programme in programmes])
        for name in names
    }
    return BoxProgramme(**joined)  # type: ignore[arg-type]
