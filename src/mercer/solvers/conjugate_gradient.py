r"""The whole kernel matrix, by products alone: preconditioned conjugate gradients.

With S = diag(sqrt(w)), s its diagonal and a = S c, the coefficients solve

.. math:: (S K S + \alpha I)\, c = S y - b s, \qquad s^\top c = 0,

by iterations that multiply with K and never store it. The preconditioner is a low-rank factor of
S K S, whose rank of about 10 sqrt(n) makes their number small and almost independent of n, provided
that the eigenvalues beyond it are below alpha. See Diaz, Epperly, Frangella, Tropp and Webber
(2023), Robust, randomized preconditioning for kernel ridge regression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer import memory
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.landmarks.selection import KernelColumns
from mercer.linalg import conjugate_gradient
from mercer.linalg.low_rank import LowRankInverse
from mercer.linalg.pivoted_cholesky import LowRank, pivoted_cholesky
from mercer.linalg.sketch import Sketch, nystrom_sketch
from mercer.sampling import random_numbers, seed_from
from mercer.solvers.newton.products import Products
from mercer.solvers.protocol import RidgeSolver
from mercer.solvers.ridge.paths import PathAnswer
from mercer.solvers.sampled import sampled_errors
from mercer.solvers.task import RidgeAnswer, RidgeTask

Array = NDArray[np.floating[Any]]

# Below this share of the mean diagonal an alpha is not chosen: hundreds of iterations would not do.
_LEAST_CHOICE = 1e-4
_METHODS: dict[str, Literal["random", "greedy"]] = {"rpcholesky": "random", "pivoted": "greedy"}


@dataclass(frozen=True, eq=False)
class ConjugateGradient(RidgeSolver):
    """The exact answer without the matrix: kernel ridge, and machines of smooth losses.

    Parameters
    ----------
    preconditioner : {"rpcholesky", "pivoted", "nystrom", None}
        The factor of the matrix that speeds the iterations up: with randomly chosen pivots, with
        the largest ones, from one product with as many random vectors as its rank, or none.
    rank : int, optional
        Its rank; by default 10 sqrt(n), and 2 sqrt(n) for "nystrom", whose product takes n^2 rank
        operations, but which comes nearest to the best factor of its rank.
    tol : float
        Relative residual, below 1, at which to stop; no less than 64 units of rounding of the
        kernel, which is 1.4e-14 in double precision and 7.6e-6 in single precision.
    max_iter : int
        Products with K at most, for each call of `fit`; of a machine, for each Newton step.
    search_rows : int
        Where alpha or length-scales are to be chosen, the rows that choose: candidates are compared
        on a random sample of so many, left out one by one exactly, and the best is solved for all
        rows. All rows give the choice of `Cholesky`, but for alphas below 1e-4 of the mean of
        w_i K_ii, which are not considered unless all are below: iterations would be too many.
    random_state : int, RandomState, Generator or None
        Where pivots, vectors and the sample come from.

    Notes
    -----
    The model gets ``n_iter_``, ``converged_``, ``residual_``, ``residual_history_`` and
    ``preconditioner_error_``, the share of the trace of K that the factor leaves out.
    ``converged_`` says that ``residual_``, which is computed anew at the end, is at most twice that
    tolerance. Memory is that of n rows of the factor. A model with ``warm_start=True`` goes on from
    where its last fit stopped, short of the tolerance or interrupted, as if it had not.

    A machine of another smooth loss solves the equations of each Newton step by such iterations, to
    a share of the step that falls with the gradient, from a tenth to `tol`; the model's own `tol`
    says when its gradient is small enough, and is no less than those 64 units of rounding either.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 500)[:, None]
    >>> solver = mc.solvers.ConjugateGradient(random_state=0)
    >>> model = mc.KernelRidge(mc.RBF(1.0), alpha=1e-3, solver=solver).fit(X, np.sin(X).ravel())
    >>> model.converged_, model.predict([[np.pi / 2]]).round(3)
    (True, array([1.]))
    """

    preconditioner: str | None = "rpcholesky"
    rank: int | None = None
    tol: float = 1e-6
    max_iter: int = 1000
    search_rows: int = 3000
    random_state: Any = None

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse parameters that are wrong whatever the data are."""
        check_limits(owner, self.tol, self.max_iter)
        _require_count(owner, "search_rows", self.search_rows)
        if self.rank is not None:
            _require_count(owner, "rank", self.rank)
        if self.preconditioner not in (*_METHODS, "nystrom", None):
            raise ParameterError(
                f"ConjugateGradient: preconditioner = {self.preconditioner!r} is unknown; pass one "
                f"of {', '.join(map(repr, _METHODS))}, 'nystrom' or None."
            )

    def compare(self, tasks: Sequence[RidgeTask]) -> Array:
        """The criterion at each alpha of tasks that differ in the kernel, without solving them.

        Parameters
        ----------
        tasks : sequence of RidgeTask
            The problems.

        Returns
        -------
        ndarray of shape (n_tasks, n_alphas)
            Mean squared errors, infinite for alphas that were not considered.
        """
        return sampled_errors(
            tasks, self.search_rows, least=_LEAST_CHOICE, random_state=self.random_state
        )

    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        if task.compares:
            errors = self.compare([task])[0]
            chosen = task.at(float(task.alphas[np.argmin(errors)]))
            return replace(self.ridge(chosen), errors=errors)
        alpha = task.the_alpha("ConjugateGradient")
        _require_positive(task)
        stopped = self._stopped(task)
        system = _System(task, alpha, self._factor(_access(task), stopped.seed), stopped)
        return iterate(task, system, alpha, self.tol, self.max_iter, stopped.state)

    def _path(self, task: RidgeTask) -> PathAnswer:
        _require_positive(task)
        alphas = task.alphas
        stopped = self._stopped(replace(task, state=None))
        system = _System(task, alphas[0], self._factor(_access(task), stopped.seed), stopped)
        width = system.right.shape[1]
        progress = conjugate_gradient.solve(
            system.multiply,
            np.tile(system.right, len(alphas)),
            np.repeat(alphas, width),
            precondition=system.precondition,
            tol=least_tolerance(task, self.tol),
            max_iter=self.max_iter,
        )
        answers = [
            system.answer(replace(progress, solution=part))
            for part in np.split(progress.solution, len(alphas), axis=1)
        ]
        unknown = np.full(len(alphas), np.nan)
        return PathAnswer(
            system.points,
            np.stack([answer.dual for answer in answers]),
            np.stack([answer.intercept for answer in answers]),
            unknown,
            unknown,
            unknown,
            doubt=conjugate_gradient.complaint(progress, system.levers, task.ridge),
        )

    def _stopped(self, task: RidgeTask) -> Stopped:
        """Where an earlier fit with this preconditioner stopped, or a seed for a new one."""
        settings = self.preconditioner, self.rank
        if isinstance(task.state, Stopped) and task.state.settings == settings:
            return task.state
        return Stopped(settings, seed_from(random_numbers(self.random_state, task.owner)))

    def products(self, owner: str, kernel: Kernel, points: Points, *, centred: bool) -> Products:
        """The matrix of all rows as a machine's Newton steps take it.

        Parameters
        ----------
        owner : str
            The name of the model, for messages.
        kernel : Kernel
            The kernel, resolved.
        points : Points
            The rows.
        centred : bool
            Whether the means of rows and columns are taken off.

        Returns
        -------
        Products
            The matrix, with a factor for its preconditioner.
        """
        n, rank, gram = len(points), self.rank_for(len(points)), kernel.gram(points)
        memory.require(
            int(factor_size(n, rank, gram.dtype)),
            f"{owner} with a preconditioner of rank {rank} for {n} rows",
            "lower the rank of the solver",
        )
        access = KernelColumns(kernel, points)
        matrix = Products(
            access.multiply,
            np.asarray(access.diagonal, np.float64),
            float(np.finfo(gram.dtype).eps),
            tol=self.tol,
            max_iter=self.max_iter,
        )
        if centred:
            matrix = replace(matrix, means=np.asarray(gram.row_sums(), np.float64) / n)
        found = self._factor(access, seed_from(random_numbers(self.random_state, owner)))
        if found is None:
            return matrix
        factor = found.factor.astype(np.float64, copy=False)
        if centred:
            factor -= factor.mean(axis=0)
        return replace(matrix, factor=factor, residual_trace=found.trace_error)

    def rank_for(self, n: int) -> int:
        """The rank of the preconditioner for so many rows.

        Parameters
        ----------
        n : int
            The number of rows.

        Returns
        -------
        int
            That which is given, or 10 sqrt(n), for "nystrom" 2 sqrt(n); no more than n.
        """
        if self.preconditioner is None:
            return 0
        by_itself = np.ceil(2 * np.sqrt(n)) if self.preconditioner == "nystrom" else 10 * np.sqrt(n)
        return min(n, int(by_itself) if self.rank is None else self.rank)

    def _factor(self, access: KernelColumns, seed: int) -> LowRank | Sketch | None:
        if self.preconditioner is None:
            return None
        rank, rng = self.rank_for(len(access)), np.random.RandomState(seed)
        if self.preconditioner == "nystrom":
            return nystrom_sketch(access.multiply, access.diagonal, rank, rng=rng)
        return pivoted_cholesky(
            access.columns,
            access.diagonal,
            rank,
            method=_METHODS[self.preconditioner],
            rng=rng,
            entries=access.entries,
        )


@dataclass(frozen=True, eq=False)
class Stopped:
    """Where iterations stopped, and the preconditioner or the landmarks that they had."""

    settings: tuple[Any, ...]  # how these were made
    seed: int  # from which random numbers
    state: conjugate_gradient.State | None = None  # where they stopped; None before they begin


class System(Protocol):
    """Equations that are solved by iterations, and what their solution means."""

    right: Array
    #: What to raise where the iterations stop short.
    levers: str
    #: A relative residual that rounding may leave, and that does no harm.
    floor: float

    @property
    def keeps_apart(self) -> bool:
        """Whether residuals are kept, and made orthogonal to one another."""
        ...

    @property
    def precondition(self) -> conjugate_gradient.Precondition | None:
        """As in `conjugate.solve`."""
        ...

    def multiply(self, vectors: Array) -> Array:
        """The matrix times columns."""
        ...

    def answer(self, progress: conjugate_gradient.Progress) -> RidgeAnswer:
        """The model that goes with where the iterations are, its quality left out."""
        ...


def iterate(
    task: RidgeTask,
    system: System,
    shift: float,
    tol: float,
    max_iter: int,
    start: conjugate_gradient.State | None = None,
) -> RidgeAnswer:
    """Solve the equations of a task, telling whoever watches."""

    def answer(progress: conjugate_gradient.Progress) -> RidgeAnswer:
        found = system.answer(progress)
        if progress.stalled and (progress.residuals <= system.floor).all():
            progress = replace(progress, converged=True, stalled=False)
        quality = found.quality | {
            "n_iter_": progress.n_iter,
            "converged_": progress.converged,
            "residual_": float(progress.residuals.max(initial=0.0)),
            "residual_history_": progress.history.max(axis=1),
        }
        doubt = conjugate_gradient.complaint(progress, system.levers, task.ridge)
        return replace(found, quality=quality, doubt=doubt)

    def tell(progress: conjugate_gradient.Progress) -> bool:
        return task.report is not None and task.report(lambda: answer(progress))

    return answer(
        conjugate_gradient.solve(
            system.multiply,
            system.right,
            shift,
            precondition=system.precondition,
            start=start,
            tol=least_tolerance(task, tol),
            max_iter=max_iter,
            report=tell,
            orthogonal=system.keeps_apart,
        )
    )


def least_tolerance(task: RidgeTask, tol: float) -> float:
    """The tolerance that is asked for, or what rounding of the kernel allows if that is more."""
    return max(tol, conjugate_gradient.ROUNDING * float(np.finfo(task.dtype).eps))


def factor_size(n: int, rank: int, dtype: np.dtype[Any]) -> float:
    """The bytes of a factor, made in the type of the kernel and used in double precision."""
    return float(8 + (dtype.itemsize if dtype.itemsize < 8 else 0)) * n * rank


def _access(task: RidgeTask) -> KernelColumns:
    """The weighed matrix of all rows, by columns and products."""
    part = task.part("ConjugateGradient")
    return KernelColumns(task.kernel, part.points, part.weights)


def _require_positive(task: RidgeTask) -> None:
    if not task.alphas.min() > 0:
        raise ParameterError(
            f"{task.owner}: alpha = 0 has no solution by ConjugateGradient; pass a positive "
            "one, or solver=solvers.Spectral()."
        )


def _inverse(factor: LowRank | Sketch) -> LowRankInverse:
    """As a preconditioner; of a sketch it is known how large what it leaves out is, about."""
    floor = float(factor.values[-1]) if isinstance(factor, Sketch) else 0.0
    return LowRankInverse.of(factor.factor, floor)


def check_limits(owner: str, tol: Any, max_iter: Any) -> None:
    """Refuse limits of iterations that are none."""
    if not (isinstance(tol, Real) and 0 < float(tol) < 1):
        raise ParameterError(
            f"{owner}: tol = {tol!r} of the solver is not between 0 and 1: it is a share of the "
            "right-hand side, all of which is left before the first iteration; pass for example "
            "1e-6."
        )
    _require_count(owner, "max_iter", max_iter)


def _require_count(owner: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ParameterError(
            f"{owner}: {name} = {value!r} of the solver is not a whole number >= 1; pass for "
            "example 1000."
        )


class _System:
    """S K S, the right-hand sides S (y - middle) and s, and the preconditioner.

    Vectors are in double precision whatever the type of K: what the preconditioner leaves of a
    direction is the share alpha over its eigenvalue, which single precision would drown.
    """

    keeps_apart = False
    floor = 0.0

    def __init__(
        self, task: RidgeTask, alpha: float, factor: LowRank | Sketch | None, stopped: Stopped
    ) -> None:
        part = task.part("ConjugateGradient")
        self.task, self.points, self.alpha, self.stopped = task, part.points, alpha, stopped
        self.levers = f"max_iter, {task.ridge} or the rank of the preconditioner"
        self.access = _access(task)
        self.root = np.sqrt(part.mass)[:, None]
        self.left_out = None if factor is None else factor.trace_error
        self.precondition = None if factor is None else _inverse(factor)
        targets = self.root * (part.targets - task.middle)
        border = [self.root] if task.fit_intercept else []
        self.right: Array = np.column_stack([targets, *border]).astype(np.float64)

    def multiply(self, vectors: Array) -> Array:
        """S K S v."""
        return self.access.multiply(vectors)

    def answer(self, progress: conjugate_gradient.Progress) -> RidgeAnswer:
        """Coefficients and intercept from where the iterations are."""
        task, solved = self.task, progress.solution
        intercept = task.middle
        if task.fit_intercept:
            border = solved[:, -1:]
            shift = (self.root.T @ solved[:, :-1]) / (self.root.T @ border)
            solved = solved[:, :-1] - border * shift
            intercept = intercept + shift[0]
        left_out = self.left_out
        quality = {} if left_out is None else {"preconditioner_error_": left_out}
        dual = (self.root * solved).astype(task.dtype, copy=False)
        state = replace(self.stopped, state=progress.state) if task.resumes else None
        return RidgeAnswer(self.points, dual, intercept, self.alpha, quality, state=state)
