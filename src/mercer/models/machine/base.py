"""The representer theorem as code: any convex loss, any increasing penalty, any kernel."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer import checks, losses, penalties
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, shown
from mercer.estimator.iterative import IterativeEstimator, with_callbacks
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.linalg.cholesky import Advice
from mercer.losses import Loss
from mercer.models.length_scales import Grid
from mercer.models.machine.data import Data, Task, points_alone
from mercer.models.machine.fitting import (
    GramProblem,
    LowRankProblem,
    MachineProblem,
    Search,
    problem_in_memory,
)
from mercer.models.machine.search import (
    CRITERIA,
    check_search,
    chosen_by_search,
    is_search,
    refuse_groups,
    require_comparable,
)
from mercer.models.representer import FeatureRepresenterModel
from mercer.penalties import HalfSquare, Penalty
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.solvers.forecast import Forecast, choose, forecast, priced
from mercer.solvers.machine_fit import MachineFit
from mercer.solvers.newton.machine import MachineTask, SpanMachine
from mercer.solvers.newton.on_landmarks import LandmarkMachine
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.protocol import as_solver, checked_solver
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import NoTargets, Targets
from mercer.validity.required import gram_matrix, require_positive

_ADVICE = Advice(
    "alpha",
    "the objective has no minimum: use a kernel whose is_psd is True, or pass a matrix repaired by "
    "mercer.validity.repair with Precomputed()",
)


# Share of the trace that landmarks of "auto" may leave out without a warning.
_LARGE_TRACE_ERROR = 0.1


class KernelMachine(IterativeEstimator, FeatureRepresenterModel):
    """Base of the regressor and the classifier: the fit, for any loss."""

    loss_: Any
    n_iter_: int
    alphas_: Array
    search_kernels_: tuple[Kernel, ...]
    search_errors_: Array
    criterion_: str
    gradient_norm_: float
    dual_gap_: float

    def __init__(
        self,
        kernel: KernelLike,
        alpha: float | str,
        fit_intercept: bool,
        alphas: ArrayLike | None,
        length_scales: Grid,
        penalty: Penalty | None,
        tol: float,
        max_iter: int,
        solver: Any,
        named: tuple[Any, Any, Any],
    ) -> None:
        super().__init__(kernel, *named)
        self.alpha: Any = alpha
        self.fit_intercept = fit_intercept
        self.alphas = alphas
        self.length_scales = length_scales
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter
        self.solver = solver

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data of the kind the kernel takes; or blocks of rows, as `KernelRidge` takes them, which
            smooth losses fit over landmarks or features.
        y : array-like of shape (n,) or str
            Targets, or the name of their column in data frames; None if blocks hold them.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.
        groups : array-like of shape (n,), optional
            Labels of groups of rows, such as persons, that are left out together when alpha and
            length-scales are chosen.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            self.loss_ = self._checked_loss()
            problem, data, X = self._problem(X, y, sample_weight)
            alpha, start = self._weight(), None
            if not is_search(self):
                refuse_groups(type(self).__name__, groups)
            else:
                assert data is not None  # blocks were refused with the solver
                chosen = chosen_by_search(self, problem, data, groups)
                problem, alpha, start = chosen.problem, chosen.alpha, chosen.start
            with self._iterations(X, y, None) as report:
                search = Search(
                    type(self).__name__,
                    problem,
                    data,
                    float(self.tol),
                    int(self.max_iter),
                    report,
                    columns=self._has_columns,
                    smooth=self.loss_.smooth,
                    start=start or problem.start(),
                )
                self.__dict__.update(search.run(alpha, self.penalty))
                if search.stopped_short:
                    self._warn_of_short_fit(search.warning)
                _warn_of_few_landmarks(self)
        return self

    _immutable: ClassVar[frozenset[str]] = KernelEstimator._immutable | {"loss", "penalty"}

    def _replaceable(self, name: str, given: object) -> Any:
        if name == "loss":
            return losses.named(given, type(self).__name__)
        if name == "penalty" and given is None:
            return HalfSquare()
        return super()._replaceable(name, given)

    def _problem(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[MachineProblem, Data | None, Any]:
        """The problem, the data if they are in memory, and X as it was read."""
        kernel, reader = self._kernel_or_default(self.kernel, X), self._target_reader()
        rows, given = self._stream(kernel, X, y, sample_weight, reader, whole=self._held_rows)
        if rows is None:
            data = self._read(*given)
            self.solver_ = self._chosen_solver(self._fit_problem_of(data))
            return self._in_memory(data), data, given.X
        owner, statistics = type(self).__name__, rows.statistics
        checks.require_weight_range(owner, statistics.min_positive_weight, statistics.max_weight)
        self.kernel_ = rows.resolve(kernel)
        self._take_unit(rows)
        losses, constants, scale = self._row_losses(rows)
        outputs, intercept = len(constants), bool(self.fit_intercept)
        joint = len(losses) < outputs
        self.solver_ = self._chosen_solver(self._fit_problem(rows, outputs, joint=joint))
        task = MachineTask(owner, self.kernel_, rows, losses, constants, intercept, scale)
        return _over_span(self, task, rows), None, given.X

    @property
    def _held_rows(self) -> float:
        """Number of rows up to which a file or blocks are read into memory."""
        if self.solver == "auto":
            return MachineFit.held_rows if self.loss_.smooth else np.inf
        return np.inf if as_solver(self.solver).needs_all_rows else 0

    @abstractmethod
    def _target_reader(self) -> Targets:
        """How targets in blocks are read."""

    @abstractmethod
    def _row_losses(self, rows: StreamRows) -> tuple[tuple[RowLoss, ...], Array, float]:
        """Losses, initial intercepts and the typical size of values, for rows in blocks."""

    def _read(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Data:
        """Validate the data; resolve the kernel."""
        kernel = self._kernel_or_default(self.kernel, X)
        self.points_ = self._validate_points(kernel, X, reset=True)
        targets = self._checked_targets(y, len(self.points_))
        given = self._validate_weights(sample_weight, targets)
        weights = np.ones(len(self.points_)) if given is None else given
        rows = np.flatnonzero(weights > 0)
        positive = weights[rows]
        self.kernel_ = kernel.resolve(self.points_, given)
        self._take_unit(InMemory(RowBlock(self.points_, np.asarray(targets)[:, None], given)))
        task, scale = self._task(self.loss_, targets[rows], positive)
        return Data(self.points_, given, rows, positive, task, scale)

    def _in_memory(self, data: Data) -> MachineProblem:
        """The problem of rows in memory, for the solver."""
        owner, points, intercept = type(self).__name__, data.weighted_points, self.fit_intercept
        if self.solver_.is_dense:
            return problem_in_memory(_gram(self, data), data, bool(intercept))
        diagonal = self.kernel_.diag(points).astype(np.float64)
        if not np.isfinite(diagonal).all():
            raise DataError(
                f"{owner}: {shown(self.kernel_)} gives NaN or infinity: the largest k(x, x), "
                f"{diagonal.max()}, is not finite; scale the data, or use a kernel that grows less "
                "fast."
            )
        if self.solver_.needs_all_rows:
            gram = self.solver_.matrix(owner, self.kernel_, points, centred=bool(intercept))
            means = np.zeros(len(gram)) if gram.means is None else gram.means
            return GramProblem(gram, np.maximum(diagonal, 0.0), means, data, bool(intercept))
        rows = InMemory(RowBlock(points, data.task.row_targets, data.weights))
        losses, constants = data.task.row_losses, data.task.constants
        task = MachineTask(
            owner, self.kernel_, rows, losses, constants, bool(intercept), data.scale
        )
        machine = _over_span(self, task, InMemory(points_alone(data.points, data.given)))
        if self.loss_.smooth:
            return machine
        return LowRankProblem.of(machine, data, task.fit_intercept)

    @abstractmethod
    def _checked_targets(self, y: ArrayLike, n: int) -> Any:
        """The targets, of the right kind, one for each row."""

    @abstractmethod
    def _task(self, loss: Any, targets: Any, weights: Array) -> tuple[Task, float]:
        """The functions to fit to the rows of positive weight, and the typical size of values."""

    def _take_unit(self, rows: RowSource) -> None:
        """Give parameters that follow the spread of the targets their numbers."""

    def _weight(self) -> float:
        """The weight of the penalty; 1 before it is chosen."""
        return 1.0 if isinstance(self.alpha, str) else float(self.alpha)

    def _chosen_solver(self, problem: MachineFit) -> Any:
        """The solver of the user or of "auto", if the rows, the loss and the kernel allow it."""
        solver = choose(problem).solver if self.solver == "auto" else as_solver(self.solver)
        owner, in_blocks = type(self).__name__, not problem.in_memory
        if problem.searches:
            require_comparable(owner, solver, in_blocks)
        if in_blocks and solver.needs_all_rows:
            raise DataError(
                f"{owner}: {shown(solver)} needs all {len(problem.rows)} rows "
                "in memory, and they come in blocks; take solvers.NystromSolver(), or pass arrays."
            )
        if solver.is_dense:
            return solver
        if not self.loss_.smooth and (in_blocks or solver.needs_all_rows):
            what = "a fit to rows in blocks" if in_blocks else shown(solver)
            raise ParameterError(
                f"{owner}: {what} needs a smooth loss, and loss = {self.loss_!r} "
                f"has kinks; pass {self._smooth_loss}, or arrays with "
                "solver=mercer.solvers.NystromSolver()."
            )
        if self.kernel_.is_psd is False:
            raise ParameterError(
                f"{owner}: {shown(solver)} needs a valid kernel, and "
                f"{self.kernel_!r} is not one; use a kernel whose is_psd is True."
            )
        return solver

    def _fit_problem_of(self, data: Data) -> MachineFit:
        rows, task = InMemory(points_alone(data.weighted_points)), data.task
        return self._fit_problem(rows, task.n_outputs, joint=task.joint)

    def _fit_problem(self, rows: RowSource, outputs: int, *, joint: bool) -> MachineFit:
        """The fit of several functions to some rows, as solvers price it."""
        smooth, work, alpha = self.loss_.smooth, self.loss_._work(), self._weight()
        searches = is_search(self)
        return MachineFit(self.kernel_, rows, outputs, joint, smooth, alpha, work, searches)

    def _forecast_for(self, X: Any, y: Any) -> Forecast:
        """The cost of each solver; for one function, if no targets are given."""
        self._check_parameters()
        self.loss_ = self._checked_loss()
        kernel = self._kernel_or_default(self.kernel, X)
        reader = NoTargets() if y is None else self._target_reader()
        rows, given = self._stream(kernel, X, y, None, reader, whole=self._held_rows)
        if rows is None:
            targets = given.y
            if y is None:  # two classes, which are positive targets: valid for every loss
                targets = np.ones(len(self._validate_points(kernel, given.X, reset=True)))
                targets[:1] += 1
            problem = self._fit_problem_of(self._read(given.X, targets, None))
        else:
            self.kernel_ = rows.resolve(kernel)
            losses, constants = ((), ()) if y is None else self._row_losses(rows)[:2]
            outputs = max(1, len(constants))
            problem = self._fit_problem(rows, outputs, joint=0 < len(losses) < outputs)
        asked = None if self.solver == "auto" else priced(problem, as_solver(self.solver))
        return forecast(problem, asked)

    @property
    @abstractmethod
    def _has_columns(self) -> bool:
        """Whether there are several functions, one for each class or quantile."""

    def _warn_of_short_fit(self, warning: str) -> None:
        """Warn that the solver stopped before it converged; a clause of its own says why."""
        what = "norm of the gradient" if self.loss_.smooth else "duality gap"
        error = self.gradient_norm_ if self.loss_.smooth else self.dual_gap_
        remedy = f"scale the data, or raise alpha, tol or max_iter ({self.max_iter})"
        if self.n_iter_ < self.max_iter:
            remedy = (
                "no step leads closer, most likely because of rounding: scale the data, or raise "
                "alpha or tol"
            )
        if warning:
            remedy = f"for its last step {warning}"
        warn(
            f"{type(self).__name__} stopped after {self.n_iter_} steps with a {what} of "
            f"{error:.3g}, more than tol = {self.tol:g} allows; {remedy}.",
            NumericalWarning,
        )

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        for name in ("alpha", "tol"):
            value = getattr(self, name)
            words: tuple[str, ...] = ("scale",) if name == self._scaled else ()
            words += CRITERIA if name == "alpha" else ()
            if isinstance(value, str) and value in words:
                continue
            example = "1.0" if name == "alpha" else "1e-8"
            example += "".join(f', or "{word}"' for word in words)
            checks.require_number(owner, name, value, example=example)
        solver = checked_solver(owner, self.solver)
        if solver != "auto":
            solver.check(owner)
        checks.require_count(owner, "max_iter", self.max_iter, example=1000)
        checks.require_flags(self, "fit_intercept")
        if self.penalty is not None:
            penalties.check_increasing(self.penalty, owner)
        check_search(self)

    #: The parameter that may be "scale": a number that follows the spread of the targets.
    _scaled: ClassVar[str] = ""

    loss: Loss | str

    def _given_loss(self) -> Loss | str:
        """The loss that the parameters ask for."""
        return self.loss

    def _checked_loss(self) -> Loss:
        loss = losses.named(self._given_loss(), type(self).__name__)
        if not isinstance(loss, self._kind):
            raise ParameterError(
                f"{type(self).__name__}: loss = {loss!r} is not for {self._purpose}; pass one such "
                f"as {self._example}, or use {self._other}."
            )
        return loss

    _smooth_loss: str
    _kind: type[Loss]
    _purpose: str
    _example: str
    _other: str


def _gram(model: KernelMachine, data: Data) -> Array:
    """The Gram matrix of the rows of positive weight, in memory and valid."""
    problem = model._fit_problem_of(data)
    gram = gram_matrix(model, model.kernel_, data.points, problem.dense(eigenvectors=False)[0])
    require_positive(model, model.kernel_, gram, _ADVICE)
    gram = gram.astype(np.float64, copy=False)
    return gram if len(data.rows) == len(gram) else gram[np.ix_(data.rows, data.rows)]


def _warn_of_few_landmarks(model: KernelMachine) -> None:
    """Warn that landmarks that the user did not choose may be too few."""
    error = model.__dict__.get("trace_error_", 0.0) if model.solver_.has_landmarks else 0.0
    if model.solver != "auto" or error <= _LARGE_TRACE_ERROR:
        return
    exact = "solver=mercer.solvers.ConjugateGradient(), which is exact, "
    warn(
        f'{type(model).__name__}: {len(model.points_)} landmarks of "auto" leave out '
        f"{error:.2g} of the trace of the kernel. The function may be less accurate "
        f"than the rows allow; pass {exact if model.loss_.smooth else ''}"
        "solver=mercer.solvers.NystromSolver() with more landmarks, or a longer length-scale.",
        NumericalWarning,
    )


def _over_span(model: KernelMachine, task: MachineTask, candidates: RowSource) -> SpanMachine:
    """The problem on features, or over landmarks selected among the candidates."""
    machine: SpanMachine = model.solver_.machine(task, candidates)
    if isinstance(machine, LandmarkMachine):
        model.points_ = machine.points
        if machine.indices is not None:
            model.rows_ = machine.indices
    return machine
