"""What a model asks of a solver: its cost, what stands in its way, and its answers.

A `Solver` prices a `FitProblem` (`cost`), says why it is not for it (`obstacle`), and solves ridge
tasks (`ridge`, `path`). Solvers of machines with other losses give the matrix of all pairs of rows
(`matrix`) if they need all rows in memory, and a problem over landmarks or features (`machine`)
otherwise. Models ask nothing else, and never which class a solver is of.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from mercer import memory
from mercer.arrays import Array
from mercer.checks import NamedArguments, listed
from mercer.exceptions import DataError, MemoryForecastError, NoFeatureMapError, ParameterError
from mercer.kernels.base import Kernel, value_type
from mercer.kernels.points import Points
from mercer.landmarks.selection import contains_noise
from mercer.parallel import cached_property
from mercer.program.specialise import reads
from mercer.rows.left_out import LeftOut
from mercer.rows.rows import InMemory, Made, RowBlock, RowSource
from mercer.rows.sums import Features, RowDraw, Trace

Report = Callable[[Callable[[], "RidgeAnswer"]], bool]

#: The number of alphas that are compared where the user gives none.
_N_ALPHAS = 25
# Costs are in operations of a matrix product, 2 n^3 of which take n columns of n rows. What is not
# such a product counts by the time that it takes, as measured on one core.
#: A kernel value and its share of a product with the kernel matrix.
PAIR = 30.0
#: What each column of the data adds to that.
PAIR_COLUMN = 2.0
#: A value of a kernel that compares objects, such as strings: at least a tenth of a microsecond.
PAIR_OF_OBJECTS = 1e4
#: Rows up to which the whole matrix takes a moment, whatever else there is.
FEW_ROWS = 1000
#: Operations that take one core about a second and a half: exact factors are taken up to there.
MOMENT = 1e11
#: Operations over n^3 of a Cholesky factor, which is slower than matrix products.
CHOLESKY = 0.5
# Operations over n^3 and over n^2 of an eigendecomposition, which is slower than matrix products.
_EIGENVECTORS, _EIGENVECTOR_ROWS = 6.0, 2_300.0
#: Operations that take one core about half a minute: the most that machines take to be exact.
PATIENCE = 2e12
#: Rank of the preconditioner over the root of n, for a ridge problem.
RIDGE_RANK = 10.0
#: Rank of the preconditioner over the root of n, for a machine, which weights it in each step.
MACHINE_RANK = 5.0

# Obstacles ----------------------------------------------------------------------------------------

#: The obstacle of solvers that "auto" does not take, and that a user may ask for.
UNASKED = "if asked for"
IN_BLOCKS = "rows come in blocks"
TOO_LARGE = "does not fit in memory"
WHITE = "the kernel contains White"
INVALID = "the kernel is not valid"
UNSURE = "the kernel is not known to be valid"
UNKNOWN = f"{UNASKED}: {UNSURE}"
NO_FEATURES = "no finite features"
MANY_ROWS = "many rows"
MANY_FEATURES = "as many features as rows"
#: Obstacles that stop "auto" from choosing a solver, but do not forbid an explicit request.
PREFERENCES = (UNASKED, UNKNOWN, MANY_ROWS, MANY_FEATURES)


def eigenvectors(n: float) -> float:
    """Operations of the eigendecomposition of a matrix of order n."""
    return (_EIGENVECTORS * n + _EIGENVECTOR_ROWS) * float(n) ** 2


def more_products(alpha: float) -> float:
    """How many times as many products iterations take at a small alpha as at 1, about."""
    return max(1.0, float(alpha) ** -0.3) if alpha > 0 else np.inf


def not_positive(kernel: Kernel) -> str:
    """The obstacle of a kernel to solvers that do not see the whole matrix."""
    if kernel.is_psd is None:
        return UNKNOWN
    return "" if kernel.is_psd else INVALID


def no_landmarks(kernel: Kernel) -> str:
    """The obstacle of a kernel to landmarks."""
    return WHITE if contains_noise(kernel) else not_positive(kernel)


# What is priced -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Systems:
    """The linear systems that a fit solves."""

    count: float = 1.0  # linear systems
    functions: int = 1  # functions that are fitted
    coupled: int = 1  # functions that one linear system is solved for
    columns: int = 1  # right-hand sides of a linear system that need memory
    preconditioners: float = 1.0  # preconditioners that iterations need
    landmark_work: float = 1.0  # operations for each row and pair of landmarks, in each system
    uses_threads: bool = True  # whether linear algebra is large enough to be shared by threads


@dataclass(frozen=True, eq=False)
class FitProblem(ABC):
    """A fit, as far as the cost of solvers and the obstacles to them depend on it.

    A subclass for each kind of model says which linear systems a fit solves, and how many matrices
    it holds.
    """

    kernel: Kernel  # resolved
    rows: RowSource

    #: Rows up to which a factor of the whole matrix takes seconds to minutes.
    dense_rows: ClassVar[int] = 15_000
    #: Rows up to which products with the whole matrix take as long.
    product_rows: ClassVar[float] = 100_000
    #: Rows up to which a preconditioner is taken to fit in memory.
    small_rows: ClassVar[float] = 0
    #: Rank of a preconditioner over the root of n.
    rank: ClassVar[float] = RIDGE_RANK
    #: Low-rank factors that are held while a preconditioner is made.
    factors: ClassVar[float] = 1.0
    #: Matrices of pairs of landmarks that are held.
    landmark_matrices: ClassVar[int] = 5

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def in_memory(self) -> bool:
        """Whether all rows are in memory."""
        return isinstance(self.rows, InMemory)

    @cached_property
    def free(self) -> int:
        """Bytes of memory that may still be allocated, read once."""
        return memory.available()

    def fits(self, size: float) -> bool:
        """Whether some bytes can be allocated; the system is asked only for large sizes."""
        return size <= memory.SMALL or size <= self.free

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of kernel values."""
        return np.dtype(np.float64)

    def work(self, solver: Solver) -> float:
        """The operations of a solver, kernel values included; infinite if they are not known."""
        cost = solver.cost(self)
        return np.inf if cost.operations is None else cost.operations + self._pair * cost.pairs

    @property
    def _pair(self) -> float:
        """The operations of one kernel value."""
        data = self.rows.first_row.data
        if self.kernel.input_tags()["pairwise"]:
            return PAIR
        if reads(self.kernel.expression).sources:
            return PAIR_OF_OBJECTS
        return PAIR + PAIR_COLUMN * (int(np.shape(data)[-1]) if np.ndim(data) == 2 else 0)

    @property
    def matrix_is_expensive(self) -> bool:
        """Whether rows are too many for the whole matrix, where another solver is possible."""
        return self.n > self.dense_rows

    @property
    def products_are_expensive(self) -> bool:
        """Whether rows are too many for products with the whole matrix."""
        return self.n > self.product_rows

    @property
    def systems(self) -> Systems:
        """The linear systems that the fit solves."""
        return Systems()

    @property
    def products(self) -> float:
        """Products with the matrix that a fit by conjugate gradients takes."""
        return 60.0

    def compared(self, rows: int) -> tuple[float, float]:
        """Bytes and operations to compare candidates on some rows; none if nothing is chosen."""
        return 0.0, 0.0

    def search(self, landmarks: int | None = None) -> float:
        """Operations of a search of hyper-parameters on landmarks, if there is one."""
        return 0.0

    @abstractmethod
    def dense(self, *, eigenvectors: bool) -> tuple[float, float]:
        """Copies of the whole matrix that are held, and operations on them."""

    @abstractmethod
    def features(self, width: int, *, approximate: bool) -> tuple[float, float]:
        """Bytes and operations of the fit on explicit features."""

    def feature_obstacle(self, width: int) -> str:
        """Why the kernel's own features do not pay, beside the whole matrix; empty if they do.

        The sums of n / sqrt(3) features or more cost more than one factor of the matrix.
        """
        return MANY_FEATURES if 3 * width**2 >= self.n**2 else ""

    def stored(self, width: int) -> float:
        """Bytes of the features of all rows, where a fit holds them."""
        return 0.0

    @property
    def variances(self) -> float:
        """Operations of the landmarks beside a mean that is found by iterations."""
        return 0.0

    def restriction(self, solver: Solver) -> str:
        """The obstacle to a solver that does not store the whole matrix, beside the kernel."""
        return ""

    @property
    def needs_matrix(self) -> str:
        """Why the whole matrix is taken however many rows there are; empty if it is not."""
        return no_landmarks(self.kernel)

    @cached_property
    def own_features(self) -> tuple[int | None, str]:
        """The number of the kernel's own features, and why they cannot be taken."""
        return own_features(self.kernel, self.rows)


def own_features(kernel: Kernel, rows: RowSource) -> tuple[int | None, str]:
    """The number of features that a kernel has of its own, and why they cannot be taken."""
    if not kernel._reader.may_have_features:
        return None, NO_FEATURES
    try:
        features = kernel.feature_map(rows.first_row.detached())
        sparse, in_memory = sp.issparse(features), isinstance(rows, InMemory)
        # If one row has as many features as there are rows, all rows have too many to count.
        if sparse and isinstance(rows, InMemory) and features.shape[1] < len(rows):
            features = kernel.feature_map(rows.part.points)
    except (NoFeatureMapError, MemoryForecastError):
        return None, NO_FEATURES
    unknown = "which features there are depends on the rows" if sparse and not in_memory else ""
    return int(features.shape[1]), unknown


@dataclass(frozen=True)
class Cost:
    """What a solver would take."""

    solver: Any
    size: float | None  # bytes, beside the data; None where it is not known
    operations: float | None  # operations of matrix products, without kernel values
    pairs: float = 0.0  # kernel values
    obstacle: str = ""  # why it is impossible, or not what "auto" takes; empty if it is neither
    seconds: float | None = None  # on this machine, in a forecast

    @property
    def requested(self) -> Cost:
        """The cost without obstacles that stop only "auto", for a solver that is asked for."""
        return replace(self, obstacle="") if self.obstacle in PREFERENCES else self

    @property
    def line(self) -> str:
        """Name, amounts and obstacle, in columns."""
        name = type(self.solver).__name__
        size = "-" if self.size is None else memory.readable(int(self.size))
        seconds = "-" if self.seconds is None else f"{self.seconds:.2g} s"
        return f"{name:<22} {size:>10} {seconds:>11}  {self.obstacle}".rstrip()


# What is solved -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FitTask:
    """A kernel and rows, of a model that is fitted."""

    owner: str  # the name of the model, for messages
    kernel: Kernel  # the kernel, resolved
    rows: RowSource  # points, targets and weights


@dataclass(frozen=True, eq=False)
class RidgeTask(FitTask):
    """Minimise sum_i w_i (y_i - f(x_i))^2 / 2 + alpha |f - b|^2 / 2."""

    fit_intercept: bool  # whether there is a constant b
    alphas: Array  # (a,): the candidates; one if alpha is given, none for the default grid
    # what chooses among several: "loo", "gcv", or "cv", which is "loo" of folds
    criterion: str = "loo"
    compares: bool = False  # whether kernels are compared, by the criterion even for one alpha
    # report(answer), with a function that makes an answer of the current iterate, after each
    # iteration; True stops
    report: Report | None = None
    resumes: bool = False  # whether the answer is to hold what a solver can go on from
    state: Any = None  # what an earlier answer held
    ridge: str = "alpha"  # what the user calls alpha
    psd: str = "raise"  # what to do with negative eigenvalues: "raise", "clip", "flip" or "shift"
    left_out: LeftOut | None = None  # rows left out to compare candidates; None: each row alone

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.rows)

    @property
    def n_targets(self) -> int:
        """The number of targets."""
        return len(self.rows.statistics.targets)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type in which the kernel is computed."""
        return value_type(self.kernel, self.rows.any_points)

    @property
    def middle(self) -> Array:
        """The weighted mean of the targets, zero without an intercept."""
        statistics = self.rows.statistics
        if not self.fit_intercept:
            return np.zeros_like(statistics.targets)
        mean: Array = statistics.targets / statistics.weight
        return mean

    def part(self, solver: str) -> RowBlock:
        """All rows, for a solver that needs them in memory."""
        if isinstance(self.rows, InMemory):
            return self.rows.part
        raise DataError(
            f"{self.owner}: {solver} needs all {self.n} rows in memory, and they come in blocks; "
            "take solvers.NystromSolver(), which does with sums over them, or pass arrays."
        )

    def compared(self, solver: str) -> LeftOut:
        """The rows that are left out to compare candidates, for a solver that has all in memory."""
        return LeftOut(self.part(solver)) if self.left_out is None else self.left_out

    @property
    def compared_rows(self) -> RowSource:
        """The rows that are left out to compare candidates."""
        return self.rows if self.left_out is None else InMemory(self.left_out.part)

    def of_sample(self, size: int, function: Callable[[RowBlock], Made]) -> Made:
        """A function of some rows, applied where they are.

        They are evenly spaced, or drawn among those of positive weight if some weights are zero.
        """
        count = self.rows.statistics.rows
        size = min(size, count)
        if count == self.n:
            rows = np.linspace(0, self.n - 1, size).astype(np.intp)
        else:
            rows = np.sort(self.rows.map_sum(RowDraw(size, 0, equal=True)).rows)
        return self.rows.apply_to(rows, function)

    def type_with(self, points: Points) -> np.dtype[Any]:
        """The type of kernel values of rows with points."""
        dtype: np.dtype[Any] = self.kernel.gram(self.rows.first_row, points).dtype
        return dtype

    def at(self, alpha: float) -> RidgeTask:
        """The task at one alpha, with nothing left to choose."""
        return replace(self, alphas=np.array([alpha]), compares=False)

    def on_grid(self) -> RidgeTask:
        """The task with the default grid if no alphas are given, from the mean of w_i K_ii."""
        if self.alphas.size:
            return self
        rows = self.compared_rows
        count = rows.statistics.rows
        with np.errstate(over="ignore"):
            scale = rows.map_sum(Trace(self.kernel)) / count
        if not np.isfinite(scale):
            raise DataError(
                f"{self.owner}: values k(x, x) of {self.kernel!r} exceed the range of {self.dtype},"
                " so that no alphas are on their scale; divide X or the kernel by a constant."
            )
        return replace(self, alphas=default_alphas(scale, count, self.dtype))

    def require_choice(self, errors: Array) -> None:
        """Refuse candidates none of which has a finite error."""
        if not np.isfinite(errors).any():
            raise DataError(
                f"{self.owner}: no candidate has a finite {self.criterion} error, so that none can "
                "be chosen; pass more rows of positive weight, or a number as alpha."
            )

    def the_alpha(self, solver: str) -> float:
        """The one alpha, for solvers that cannot choose among several."""
        if not self.compares:
            return float(self.alphas[0])
        raise DataError(
            f"{self.owner}: {solver} cannot compare candidates by {self.criterion!r}; pass a "
            "number as alpha, or take solvers.NystromSolver, which compares all of them in a pass."
        )


def default_alphas(scale: float, n: int, dtype: Any) -> Array:
    """The alphas to compare where none are given."""
    least = max(1e-8, n * float(np.finfo(dtype).eps))
    return (scale or 1.0) * np.geomspace(least, n, _N_ALPHAS)


@dataclass(frozen=True, eq=False)
class FeatureFunction:
    """The function phi(x)' v of explicit features."""

    features: Features  # ``features(points)`` returns phi, of shape (n, p)
    coef: Array  # (p, t): the coefficients v

    def __call__(self, points: Points) -> Array:
        """The values at points."""
        return np.asarray(self.features(points) @ self.coef)


@dataclass(frozen=True, eq=False)
class RidgeAnswer:
    """Coefficients over points, and how good they are."""

    points: Points  # the points z_j of f(x) = sum_j a_j k(x, z_j) + b
    dual: Array  # (m, t): the coefficients a
    intercept: Array  # (t,): the constants b
    alpha: float  # the alpha used
    # fitted attributes that say how good the answer is
    quality: dict[str, Any] = field(default_factory=dict)
    errors: Array | None = None  # (a,): the criterion for each alpha, if there was a choice
    warning: str = ""  # a clause for a warning; empty if all is well
    function: FeatureFunction | None = None  # the function by explicit features
    rows: NDArray[np.intp] | None = None  # (m,): the rows that the points are, if not all
    state: Any = None  # what the solver can go on from, if the task asks for it


@dataclass(frozen=True, eq=False)
class PathAnswer:
    """Coefficients at each alpha."""

    points: Points  # the points that carry the coefficients
    dual: Array  # (a, m, t): the coefficients
    intercept: Array  # (a, t): the constants
    loo: Array  # (a,): leave-one-out errors; NaN where they cost more than the coefficients
    gcv: Array  # (a,): generalised cross-validation errors; NaN likewise
    dof: Array  # (a,): effective degrees of freedom; NaN likewise
    # the functions by explicit features, one column for each alpha and target
    function: FeatureFunction | None = None
    warning: str = ""  # a clause for a warning; empty if all is well


@dataclass(frozen=True, eq=False)
class SearchAnswer:
    """The best of several ridge tasks."""

    answer: RidgeAnswer
    best: int  # which task
    alphas: Array  # (a,): the alphas that were compared
    errors: Array  # (n_tasks, a): the criterion for each pair


# Solvers ------------------------------------------------------------------------------------------


#: Solvers with their defaults, by name; "auto" is a rule to choose one.
_NAMED: dict[str, type[Solver]] = {}


class Solver(NamedArguments, BaseEstimator, ABC):
    """Base of solvers: data classes that are scikit-learn estimators, whose parameters are fields.

    Nothing in mercer changes one: `replace` returns a copy. Solvers are equal if their parameters
    are, arrays and transformers by content. A subclass is declared with ``eq=False``, since data
    classes compare otherwise, and with ``repr=False``, which gives it scikit-learn's repr.
    """

    def __init_subclass__(cls, name: str = "", **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name:
            _NAMED[name] = cls

    #: Whether the solver works with the matrix of all pairs of rows, stored or not.
    needs_all_rows: ClassVar[bool] = False
    #: Whether the solver stores that matrix.
    is_dense: ClassVar[bool] = False
    #: Whether the solver works with explicit features.
    has_features: ClassVar[bool] = False
    #: Whether these features only approximate the kernel.
    is_approximate: ClassVar[bool] = False
    #: Whether the solver chooses landmarks.
    has_landmarks: ClassVar[bool] = False
    #: Whether the solver finds a mean by iterations, so that variances need landmarks beside it.
    is_iterative: ClassVar[bool] = False

    def check(self, owner: str, also: tuple[str, ...] = ()) -> None:
        """Refuse parameters that are wrong for all data; `also` are further names of landmarks."""

    # Cost

    @abstractmethod
    def cost(self, problem: FitProblem) -> Cost:
        """The memory and the operations of a fit, without obstacles."""

    def obstacle(self, problem: FitProblem) -> str:
        """Why this solver is impossible for a fit, or not what "auto" takes; empty if neither."""
        if self.needs_all_rows and not problem.in_memory:
            return IN_BLOCKS
        kernel = not_positive(problem.kernel)
        impossible = self._impossible(problem) or (INVALID if kernel == INVALID else "")
        if impossible:
            return impossible
        size = self.cost(problem).size
        if self._must_fit(problem) and size is not None and not problem.fits(size):
            return TOO_LARGE
        return self._impractical(problem) or kernel

    def _impossible(self, problem: FitProblem) -> str:
        """What forbids this solver, beside the kernel's validity and memory."""
        exact_features = self.has_features and not self.is_approximate
        return problem.restriction(self) or (problem.own_features[1] if exact_features else "")

    def _impractical(self, problem: FitProblem) -> str:
        """What stops only "auto" from taking this solver."""
        return ""

    def _must_fit(self, problem: FitProblem) -> bool:
        """Whether memory is looked at before this solver is taken."""
        return True

    # Ridge regression

    def ridge(self, task: RidgeTask) -> RidgeAnswer:
        """Solve a ridge task."""
        self.check(task.owner)
        try:
            return self._ridge(task.on_grid())
        except OverflowError as error:
            raise DataError(f"{task.owner}: {error}.") from None

    def path(self, task: RidgeTask) -> PathAnswer:
        """Solve a ridge task at each of its alphas."""
        self.check(task.owner)
        try:
            return self._path(task)
        except OverflowError as error:
            raise DataError(f"{task.owner}: {error}.") from None

    def search(self, tasks: Sequence[RidgeTask]) -> SearchAnswer:
        """Solve the best of ridge tasks that differ in the kernel, at its best alpha."""
        alphas = tasks[0].on_grid().alphas
        answers = [self.ridge(replace(task, alphas=alphas)) for task in tasks]
        errors: Array = np.array([answer.errors for answer in answers])
        best = int(np.argmin(errors.min(axis=1)))
        return SearchAnswer(answers[best], best, alphas, errors)

    @abstractmethod
    def _ridge(self, task: RidgeTask) -> RidgeAnswer:
        """The answer of a task whose alphas are known."""

    @abstractmethod
    def _path(self, task: RidgeTask) -> PathAnswer:
        """The answers at all alphas."""

    # Machines of other losses

    def matrix(self, owner: str, kernel: Kernel, points: Points, *, centred: bool) -> Any:
        """Products with the matrix of all pairs of rows; None if a machine is to store it."""
        return None

    def machine(self, task: Any, candidates: RowSource) -> Any:
        """The problem of a machine over landmarks, chosen among candidates, or features."""
        raise NotImplementedError(f"{type(self).__name__} works with all pairs of rows")

    # Parameters

    def replace(self, **params: Any) -> Self:
        """A copy with other values of some parameters, such as ``map__n_components=100``."""
        nested = [path for path in params if "__" in path]
        for name in {path.partition("__")[0] for path in nested} & vars(self).keys():
            params[name] = clone(params.get(name, getattr(self, name)), safe=False)
        try:
            copy: Self = type(self)(**self.get_params(deep=False)).set_params(**params)
        except AttributeError:
            raise ParameterError(
                f"{type(self).__name__}: {listed(nested)} cannot be set, since nothing with "
                "parameters is there; pass an object first, such as map=mercer.RandomFourier()."
            ) from None
        return copy

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _alike(self.get_params(deep=False), other.get_params(deep=False))

    def __hash__(self) -> int:
        # Arrays and transformers do not take part: equal solvers have equal hashes without them.
        plain = [v for v in self.get_params(deep=False).values() if isinstance(v, str | Number)]
        return hash((type(self), *plain))


def _listed_names() -> str:
    return ", ".join(f'"{name}"' for name in _NAMED)


def as_solver(given: Any) -> Any:
    """The solver with defaults that a name stands for; anything else as it is."""
    known = isinstance(given, str) and given in _NAMED
    return _NAMED[given]() if known else given


def checked_solver(owner: str, given: Any) -> Any:
    """The solver, or "auto"; anything else is refused."""
    solver = as_solver(given)
    if isinstance(solver, Solver) or (isinstance(solver, str) and solver == "auto"):
        return solver
    what = "is unknown here"
    if isinstance(solver, type):
        what = "is unknown here: it is a class, and not an object of it"
    raise ParameterError(
        f'{owner}: solver = {solver!r:.100} {what}; pass "auto", {_listed_names()}, '
        "or an object of mercer.solvers such as NystromSolver(n_landmarks=1000)."
    )


def _alike(one: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal: arrays, data and transformers by content."""
    if one is other:
        return True
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return bool(np.array_equal(one, other))
    if type(one) is type(other):
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
        if isinstance(one, list | tuple):
            return len(one) == len(other) and all(map(_alike, one, other))
        if isinstance(one, BaseEstimator):
            return _alike(one.get_params(deep=False), other.get_params(deep=False))
        if isinstance(one, Points):
            return _alike(one.data, other.data)
        if sp.issparse(one):
            return one.shape == other.shape and not (one != other).nnz
        if hasattr(one, "equals"):  # data frames and series
            return bool(one.equals(other))
    same = one == other
    return bool(same) if isinstance(same, bool | np.bool_) else False
