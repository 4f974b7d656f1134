"""Which solver "auto" takes, and what each of them would cost.

For each kind of model there is an ordered list of candidates. "auto" takes the first without an
obstacle, and prices no other. The table of `mercer.forecast` prices all.

The first is `Primal`, for few features of the kernel's own, the second `Cholesky`, the third
`ConjugateGradient`, the last `NystromSolver`; docs/many_rows.md has the limits. A kernel that is
not known to be valid takes the whole matrix however many rows there are, if it fits. Losses with
kinks go from the matrix to landmarks. Costs are the operations of `Solver.cost`, so that the choice
does not depend on the machine. Kernel ridge without any other way takes conjugate gradients beyond
100,000 rows too.
`Spectral`, `Falkon` and `RandomFeatures` are priced, but taken only if the user asks for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.features.fourier import RandomFourier
from mercer.kernels.base import Kernel, value_type
from mercer.rows.rows import InMemory, RowSource
from mercer.solvers import protocol
from mercer.solvers.conjugate_gradient import ConjugateGradient
from mercer.solvers.dense import (
    FACTOR_MATRICES,
    SPECTRAL_MATRICES,
    TRIDIAGONAL_MATRICES,
    Cholesky,
    Spectral,
)
from mercer.solvers.explicit import Primal, RandomFeatures
from mercer.solvers.nystrom import Falkon, NystromSolver
from mercer.solvers.protocol import (
    CHOLESKY,
    FEW_ROWS,
    IN_BLOCKS,
    INVALID,
    MANY_FEATURES,
    MANY_ROWS,
    MOMENT,
    PAIR,
    TOO_LARGE,
    UNASKED,
    UNKNOWN,
    UNSURE,
    WHITE,
    Cost,
    FitProblem,
    Solver,
    Systems,
    more_products,
    no_landmarks,
    not_positive,
    own_features,
)
from mercer.solvers.speed import (
    LEAST_SECONDS,
    STEP_SECONDS,
    gain_of_threads,
    operations_per_second,
    seconds_per_pair,
)

# Why the whole matrix is not taken.
_NO_MATRIX = {
    IN_BLOCKS: IN_BLOCKS,
    TOO_LARGE: "the whole matrix does not fit in memory",
    MANY_ROWS: "rows are too many for the whole matrix",
}


class _Reduction(NamedTuple):
    """A reduced matrix of n rows, and the errors at all alphas that follow from it."""

    matrices: float  # copies of the matrix
    cubes: float  # operations over n^3
    squares: float  # operations over n^2


_TRIDIAGONAL = _Reduction(TRIDIAGONAL_MATRICES, 5.0, 1_500.0)
# Eigenvectors, by which folds are left out.
_FOLDS = _Reduction(SPECTRAL_MATRICES, 15.0, 7_300.0)
# Operations of errors at all alphas over n m, and over n m^2, for m landmarks or features.
_LEFT_OUT, _LEFT_OUT_SQUARES = 2_500.0, 2.0
# Operations over m^3 to leave five folds out at all alphas, on m landmarks or features.
_FEATURE_FOLDS = 110.0
# Numbers of a block of features, three copies of which are held to compute these errors.
_BLOCK = 2**21
# Operations of sums over n p^2 and over n p, and of their equations over p^3, for p features.
_SUMS, _MAPPED, _EQUATIONS = 0.9, 100.0, 1.5
# Copies of the features of all rows, where a map holds them.
_HELD = 1.7
# Factor of the rows for which kernel ridge counts its landmarks.
_MORE_LANDMARKS = 6
# What can be done where neither landmarks nor the whole matrix are possible.
_WAYS_OUT = {
    WHITE: "leave White out, and give its variance to the model as alpha= or noise=",
    INVALID: "take fewer rows, or a kernel whose is_psd is True",
    UNKNOWN: "ask for mercer.solvers.NystromSolver() if you know that it is",
}

Candidates = Iterator[tuple[Solver, str]]


class Priced(FitProblem):
    """A fit for which "auto" has candidates."""

    @property
    def landmarks(self) -> int:
        """The number of landmarks that "auto" takes."""
        return min(self.n, landmark_count(self.n))

    def candidates(self) -> Candidates:
        """The solvers that "auto" tries in turn, each with the reason to take it."""
        raise NotImplementedError

    def others(self) -> tuple[Solver, ...]:
        """Solvers that are priced, but taken only if the user asks for them."""
        m = self.landmarks
        return Spectral(), Falkon(m), RandomFeatures(RandomFourier(n_components=m))

    def last_resort(self, obstacles: Sequence[tuple[Solver, str]]) -> Choice:
        """What is taken where every candidate has an obstacle."""
        _, whole, *_, few = obstacles
        way = _WAYS_OUT.get(few[1], "take fewer rows")
        reason = f"{as_reason(few[1])}, and {_NO_MATRIX[whole[1]]}; {way}"
        return Choice(few[0] if whole[1] == IN_BLOCKS else whole[0], reason, possible=False)


@dataclass(frozen=True)
class Choice:
    """The solver that "auto" takes, and why."""

    solver: Solver
    reason: str
    possible: bool = True  # False if it will be refused


def choose(problem: Priced) -> Choice:
    """The first candidate without an obstacle; the others are not priced."""
    obstacles = []
    for solver, reason in problem.candidates():
        obstacle = solver.obstacle(problem)
        if not obstacle:
            return Choice(solver, reason)
        obstacles.append((solver, obstacle))
    return problem.last_resort(obstacles)


def as_reason(obstacle: str) -> str:
    """The obstacle as a phrase for messages, without its prefix "if asked for:"."""
    return UNSURE if obstacle == UNKNOWN else obstacle


def landmark_count(n: int) -> int:
    """Landmarks to take for n rows."""
    return int(np.clip(5 * np.sqrt(n), 500, 4000))


# Fits --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RidgeFit(Priced):
    """Kernel ridge regression: one linear system, or one reduction for all alphas."""

    smallest_alpha: float  # infinite for the default grid
    searches: bool  # whether alpha or length-scales are chosen
    kernels: int = 1  # how many kernels are compared
    pilot: tuple[int, int] = (0, 0)  # kernels that are compared before, and on how many rows
    folds: bool = False  # whether folds are left out, and not rows

    small_rows: ClassVar[float] = 100_000
    landmark_matrices: ClassVar[int] = 8

    @property
    def products(self) -> float:
        """About as many as for ordinary data; a search is taken to choose no small alpha."""
        return 10.0 * more_products(self.smallest_alpha)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of kernel values of the data."""
        return value_type(self.kernel, self.rows.any_points)

    @property
    def systems(self) -> Systems:
        """One linear system, for the targets and the intercept."""
        return Systems(columns=len(self.rows.statistics.targets) + 1)

    @property
    def landmarks(self) -> int:
        """The number of landmarks, larger than for a Gaussian process, which uses them repeatedly.

        Rows of weight 0 are not landmarks.
        """
        return min(self.rows.statistics.rows, landmark_count(_MORE_LANDMARKS * self.n))

    @property
    def matrix_is_expensive(self) -> bool:
        """Whether the matrix of more than a few rows costs more than products with it."""
        if self.n <= FEW_ROWS or not self.smallest_alpha > 0:
            return super().matrix_is_expensive
        dense = self.work(Cholesky())
        more = dense > MOMENT and dense > self.work(ConjugateGradient())
        return super().matrix_is_expensive or more

    def search(self, landmarks: int | None = None) -> float:
        """Operations of the errors on landmarks or features, from eigenvectors for each kernel."""
        m = 0.0 if landmarks is None else float(landmarks)
        errors = self.n * m * (_LEFT_OUT_SQUARES * m + _LEFT_OUT)
        folds = self.folds * _FEATURE_FOLDS * m**3
        return self.searches * self.kernels * (protocol.eigenvectors(m) + errors + folds)

    def stored(self, width: int) -> float:
        """Blocks of features that errors at rows left out take."""
        return self.searches * 24.0 * min(self.n * width, _BLOCK)

    def compared(self, rows: int) -> tuple[float, float]:
        """Bytes and operations of the reduced matrices of some rows, one per kernel."""
        (pilots, some), n = self.pilot, min(rows, self.n)
        reduced = _FOLDS if self.folds else _TRIDIAGONAL
        size = self.searches * reduced.matrices * float(n) ** 2 * self.dtype.itemsize
        sizes, kernels = np.array([n, some], np.float64), [self.kernels, pilots]
        work = (reduced.cubes * sizes + reduced.squares) * sizes**2
        return size, self.searches * float(kernels @ work)

    def dense(self, *, eigenvectors: bool) -> tuple[float, float]:
        """Matrices held, and operations of eigenvectors, tridiagonal forms or a Cholesky factor."""
        n, compared = float(self.n), self.compared(self.n)[1]
        if eigenvectors:
            return SPECTRAL_MATRICES, protocol.eigenvectors(n) + compared
        searched = (_FOLDS if self.folds else _TRIDIAGONAL).matrices
        return searched if self.searches else FACTOR_MATRICES, CHOLESKY * n**3 + compared

    def features(self, width: int, *, approximate: bool) -> tuple[float, float]:
        """Bytes and operations of one pass over the rows; a map may hold the features of all."""
        size, every = 24.0 * width**2 + self.stored(width), 8.0 * self.n * width
        holds = approximate and self.in_memory and self.fits(4 * every)
        operations = self.n * width * (_SUMS * width + _MAPPED) + _EQUATIONS * float(width) ** 3
        return size + (_HELD * every if holds else 0.0), operations + self.search(width)

    def restriction(self, solver: Solver) -> str:
        """The obstacle of alpha = 0: only the matrix of rows or of landmarks is solved then."""
        return "" if self.smallest_alpha > 0 or solver.has_landmarks else "alpha is 0"

    @property
    def needs_matrix(self) -> str:
        """Why the whole matrix is taken: an indefinite one is checked and repaired as a whole."""
        return not_positive(self.kernel)

    def candidates(self) -> Candidates:
        """Solvers by features, by the matrix, by products with it, and by landmarks."""
        n = self.n
        yield Primal(), f"the kernel has fewer features than would pay for {n} rows"
        fits = f"the matrix of {n} rows fits, and takes a moment or less than iterations"
        if n > min(FEW_ROWS, self.dense_rows) and self.needs_matrix:
            fits = f"{as_reason(self.needs_matrix)}, and the matrix of {n} rows fits"
        yield Cholesky(), fits
        why = f"products with the matrix of {n} rows cost less than factors of it"
        yield ConjugateGradient(random_state=0), why
        many = f"{n} rows are too many for the whole matrix"
        if not self.in_memory:
            many = f"{n} rows come in blocks, and landmarks need only sums over them"
        yield NystromSolver(self.landmarks, random_state=0), many

    def last_resort(self, obstacles: Sequence[tuple[Solver, str]]) -> Choice:
        """A solver that only "auto" avoids, if there is one; otherwise a refusal."""
        _, whole, products, few = obstacles
        if whole[1] in _NO_MATRIX:
            reason = f"{as_reason(few[1])}, and {_NO_MATRIX[whole[1]]}"
        for solver, obstacle in (products, few):
            if obstacle == UNKNOWN:
                return Choice(solver, reason)
        if products[1] == MANY_ROWS:
            return Choice(products[0], reason)
        return super().last_resort(obstacles)


@dataclass(frozen=True, eq=False)
class GaussianProcessFit(Priced):
    """Gaussian-process regression: a search of hyper-parameters, and a posterior."""

    learns: bool  # whether hyper-parameters are learned
    bound_obstacle: str  # why landmarks and features are out of the question, beside the kernel
    asked: bool = False  # whether the solver is the user's, for hyper-parameters too

    #: Rows up to which every evaluation of the likelihood may factorise the whole matrix.
    exact_rows: ClassVar[int] = 2_000
    #: Rows up to which the whole matrix follows where the bound is loose; beyond, those of parts.
    whole_rows: ClassVar[int] = 4_000
    #: Products with the matrix for the mean.
    products: ClassVar[float] = 20.0
    landmark_matrices: ClassVar[int] = 15
    #: Evaluations of the bound on landmarks or features, about.
    evaluations: ClassVar[int] = 36
    #: Operations over n^3 and n^2 of a search with the whole matrix, of about 18 evaluations.
    exact_search: ClassVar[tuple[float, float]] = (12.0, 5e3)
    #: Operations of a pilot search and of the first bounds, which show that landmarks are too few.
    pilot_search: ClassVar[float] = 3e10
    #: Landmarks that a search of hyper-parameters begins with, and takes at most.
    search_landmarks: ClassVar[int] = 128
    most_search_landmarks: ClassVar[int] = 1_024
    #: Rows that such a search looks at.
    search_rows: ClassVar[int] = 10_000
    #: Rows of a search with the whole matrix of some of them, and then of parts of all.
    part_rows: ClassVar[int] = 2_000
    #: Rows for each feature from which a search on features costs half of one with the matrix.
    rows_per_feature: ClassVar[int] = 4
    #: Iterations for the mean at most.
    most_iterations: ClassVar[int] = 200
    #: Copies of the matrix that a gradient of the likelihood takes.
    learning_matrices: ClassVar[float] = 2.7

    @property
    def systems(self) -> Systems:
        """One system: the bound with its gradient, whose factors include right-hand sides."""
        return Systems(columns=0, landmark_work=5.0)

    def restriction(self, solver: Solver) -> str:
        """The obstacle of kernel, noise or criterion to solvers without the whole matrix."""
        return "" if self.needs_matrix == UNKNOWN else self.needs_matrix

    @property
    def needs_matrix(self) -> str:
        """Why the whole matrix is taken: the kernel, or the obstacle to the bound."""
        kernel = no_landmarks(self.kernel)
        return self.bound_obstacle or kernel if kernel in ("", UNKNOWN) else kernel

    def search(self, landmarks: int | None = None) -> float:
        """Operations of the search: by the bound if landmarks serve the mean too.

        Otherwise landmarks are taken to be too few; where they are not, it takes less.
        """
        rows = min(self.n, self.search_rows)
        if landmarks is not None:
            m = landmarks if self.asked else self.search_landmarks
            return self.evaluations * 5.0 * rows * m**2 if self.learns else 0.0
        part = rows / 2 ** int(np.ceil(np.log2(max(1.0, rows / self.part_rows))))
        whole = 4.0 * rows**3 if self.n <= self.whole_rows else 6.0 * rows * part**2
        some = min(rows, self.part_rows)
        return self.pilot_search + 5.0 * some**3 + whole if self.learns else 0.0

    @property
    def variances(self) -> float:
        """Operations of the landmarks for variances, where the mean comes from iterations."""
        return 5.0 * self.n * self.landmarks**2

    def dense(self, *, eigenvectors: bool) -> tuple[float, float]:
        """Matrices held and operations, with a factor per evaluation or for the posterior alone."""
        n = float(self.n)
        throughout = self.asked or eigenvectors or n <= self.exact_rows or bool(self.needs_matrix)
        if self.learns and throughout:
            cubes, squares = self.exact_search
            return self.learning_matrices, cubes * n**3 + squares * n**2
        holds = (
            self.learns and n <= self.whole_rows and self.fits(self.learning_matrices * 8 * n**2)
        )
        matrices = self.learning_matrices if holds else FACTOR_MATRICES
        return matrices, CHOLESKY * n**3 + self.search()

    def features(self, width: int, *, approximate: bool) -> tuple[float, float]:
        """Bytes and operations; a search takes own features of the kernel, not those of a map."""
        squares = self.n * float(width) ** 2
        if approximate:
            return 80.0 * width**2, self.search() + squares
        return 80.0 * width**2, squares * (1 + 5 * self.evaluations * self.learns)

    def feature_obstacle(self, width: int) -> str:
        """The obstacle of fewer than four rows per feature, or of too much work in a search."""
        if not self.learns:
            return super().feature_obstacle(width)
        if self.rows_per_feature * width > self.n:
            return MANY_FEATURES
        # A search on so many features takes longer than one on the most landmarks.
        most = self.search_rows * float(self.most_search_landmarks) ** 2
        return MANY_ROWS if self.n * float(width) ** 2 > most else ""

    def candidates(self) -> Candidates:
        """Solvers by features, by the matrix, by products with it, and by landmarks."""
        n = self.n
        yield Primal(), f"the kernel has fewer features than would pay for {n} rows"
        yield Cholesky(), self._why_the_matrix()
        limit = self.product_rows
        yield (
            ConjugateGradient(max_iter=self.most_iterations),
            f"{n} rows are no more than {limit}: the mean by products with their matrix",
        )
        yield NystromSolver(self.landmarks), f"{n} rows are too many for the whole matrix"

    def _why_the_matrix(self) -> str:
        n, exact, dense = self.n, self.exact_rows, self.dense_rows
        if self.needs_matrix and n > (exact if self.learns else dense):
            return f"{as_reason(self.needs_matrix)}, and the matrix of {n} rows fits"
        most = exact if self.learns and n <= exact else dense
        bound = "; learned on the bound" if self.learns and n > exact else ""
        return f"{n} rows are no more than {most}, and their matrix fits{bound}"


def widest(kernels: Sequence[Kernel], rows: RowSource) -> Kernel:
    """The kernel with the most features of its own: a solver that fits it fits the others."""
    widths = [own_features(kernel, rows)[0] for kernel in kernels]
    return kernels[int(np.argmax([np.inf if width is None else width for width in widths]))]


# The table ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Forecast:
    """What every solver would take, and which one is taken.

    Attributes
    ----------
    costs : tuple of Cost
        One for each solver.
    chosen : object
        The solver.
    reason : str
        Why it is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.zeros((50_000, 3))
    >>> print(mc.forecast(mc.KernelRidge(mc.RBF(1.0)), X).reason)
    products with the matrix of 50000 rows cost less than factors of it
    """

    costs: tuple[Cost, ...]
    chosen: Any
    reason: str

    def __repr__(self) -> str:
        lines = [f"{'solver':<24} {'memory':>10} {'time':>11}"]
        for cost in self.costs:
            taken = type(cost.solver) is type(self.chosen) and self.is_possible
            lines.append(f"* {cost.requested.line}" if taken else f"  {cost.line}")
        return "\n".join([*lines, f"{'*' if self.is_possible else 'none:'} {self.reason}"])

    @property
    def is_possible(self) -> bool:
        """Whether what is chosen would be fitted, and not refused."""
        return not any(
            type(cost.solver) is type(self.chosen) and cost.requested.obstacle
            for cost in self.costs
        )


def forecast(problem: Priced, asked: Cost | None = None) -> Forecast:
    """Price every solver; `asked` is the cost of the solver of the user, if there is one."""
    choice = choose(problem)
    costs = [priced(problem, solver) for solver, _ in problem.candidates()]
    for solver in problem.others():
        cost = priced(problem, solver)
        costs.append(replace(cost, obstacle=cost.obstacle or UNASKED))
    if asked is None:
        return Forecast(_timed(problem, costs), choice.solver, choice.reason)
    own = asked.requested
    kinds = [type(cost.solver) for cost in costs]
    if type(own.solver) in kinds:
        costs[kinds.index(type(own.solver))] = own
    else:
        costs.append(own)
    auto = f"would take {type(choice.solver).__name__}" if choice.possible else "finds no solver"
    return Forecast(
        _timed(problem, costs), own.solver, f'asked for; "auto" {auto}: {choice.reason}'
    )


def _timed(problem: FitProblem, costs: Sequence[Cost]) -> tuple[Cost, ...]:
    """The costs in seconds on this machine; kernel values are timed on rows in memory."""
    least = LEAST_SECONDS + STEP_SECONDS * problem.systems.count
    rate, rows = operations_per_second(), problem.rows
    if problem.systems.uses_threads:
        rate *= gain_of_threads()
    points = rows.part.points if isinstance(rows, InMemory) else rows.first_row
    pair = seconds_per_pair(problem.kernel, points) if len(points) > 1 else PAIR / rate
    return tuple(
        replace(cost, seconds=least + cost.operations / rate + pair * cost.pairs)
        if cost.operations is not None
        else cost
        for cost in costs
    )


def priced(problem: Priced, solver: Solver) -> Cost:
    """The cost of a solver, with its obstacle."""
    return replace(solver.cost(problem), obstacle=solver.obstacle(problem))
