"""The representer theorem as code: any convex loss, any increasing penalty, any kernel."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import with_callbacks

from mercer import losses, penalties
from mercer.estimator.base import KernelEstimator, shown
from mercer.estimator.iterative import IterativeEstimator, Report
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.linalg.cholesky import Advice
from mercer.losses import Loss
from mercer.models.machine.data import Data, Joint, Options, Task, points_alone
from mercer.models.machine.fitting import (
    FeatureProblem,
    Found,
    LandmarkProblem,
    MachineProblem,
    Search,
    SpanProblem,
    Stopped,
    WholeProblem,
)
from mercer.models.representer import FeatureRepresenterModel
from mercer.parallel import blas_threads
from mercer.penalties import HalfSquare, Penalty
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.solvers.forecast import Forecast, MachineFit, choose, forecast, priced
from mercer.solvers.newton.machine import MachineTask
from mercer.solvers.newton.products import Products
from mercer.solvers.newton.row_losses import RowLoss
from mercer.solvers.protocol import checked_solver
from mercer.solvers.ridge.gram import FEW_ROWS
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import NoTargets, Targets
from mercer.validity.required import gram_matrix, require_positive

Array = NDArray[np.floating[Any]]

_ADVICE = Advice(
    "alpha",
    "the objective has no minimum: use a kernel whose is_psd is True, or pass a matrix repaired by "
    "mercer.validity.repair with Precomputed()",
)


# Beyond this ratio of largest to smallest, squares and their sums leave the range of numbers.
_LARGEST = 1e100


class KernelMachine(IterativeEstimator, FeatureRepresenterModel):
    """Base of the regressor and the classifier: the fit, for any loss.

    Parameters
    ----------
    kernel : Kernel or None
        The kernel; None for an RBF with ``length_scale="scale"``.
    alpha : float
        Positive weight of the penalty.
    fit_intercept : bool
        Whether to fit constants, which are not penalised.
    penalty : Penalty or None
        A strictly increasing function of the norm; None for half the square.
    tol : float
        How small the gradient or the duality gap has to be, relative to its terms.
    max_iter : int
        The largest number of steps, for each function that is fitted.
    """

    def __init__(
        self,
        kernel: Kernel | None,
        alpha: float,
        fit_intercept: bool,
        *,
        penalty: Penalty | None,
        tol: float,
        max_iter: int,
    ) -> None:
        super().__init__(kernel)
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.penalty = penalty
        self.tol = tol
        self.max_iter = max_iter

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame, sequence, blocks or Dask collection
            Data of the kind the kernel takes; or blocks of rows, as `KernelRidge` takes them, which
            smooth losses fit over landmarks or features.
        y : array-like of shape (n,)
            Targets; None or the name of a column where blocks hold them.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            self.loss_ = self._checked_loss()
            problem, X = self._problem(X, y, sample_weight)
            threads = 1 if problem.n_rows < FEW_ROWS else None
            with self._iterations(X, y, None) as report, blas_threads(threads):
                self._search(problem, report)
        return self

    def _search(self, problem: MachineProblem, report: Report) -> None:
        """Minimise, and store what was learned."""
        owner, update = type(self).__name__, self.__dict__.update
        search = Search(owner, problem, self._options, self._fitted, update, report)
        try:
            if not search.run(float(self.alpha), self.penalty):
                self._warn_of_short_fit(search.doubt)
        except Stopped:
            self.converged_ = False

    _immutable: ClassVar[frozenset[str]] = KernelEstimator._immutable | {"loss", "penalty"}

    def _replaceable(self, name: str, given: object) -> Any:
        if name == "loss":
            return self._named(given)
        if name == "penalty" and given is None:
            return HalfSquare()
        return super()._replaceable(name, given)

    # The problem --------------------------------------------------------------------------------

    def _problem(self, X: Any, y: Any, sample_weight: Any) -> tuple[MachineProblem, Any]:
        """What is to be minimised; and X as it is now."""
        kernel, reader = self._kernel_or_default(self.kernel), self._target_reader()
        rows, given = self._stream(kernel, X, y, sample_weight, reader, whole=self._held_rows)
        if rows is not None:
            self.kernel_ = rows.resolve(kernel)
            return self._over_blocks(rows), given.X
        data = self._read(*given)
        self.solver_ = self._chosen_solver(data)
        return self._in_memory(data), given.X

    def _in_memory(self, data: Data) -> MachineProblem:
        """The problem of rows in memory, as the solver sees it."""
        if self.solver_.is_dense:
            return self._whole(data)
        return self._products(data) if self.solver_.needs_all_rows else self._spanned(data)

    @property
    def _held_rows(self) -> float:
        """Rows of an array in a file, or of blocks, up to which they are wanted in memory."""
        if self.solver == "auto":
            return MachineFit.dense_rows if self.loss_.smooth else np.inf
        return np.inf if self.solver.needs_all_rows else 0

    @abstractmethod
    def _target_reader(self) -> Targets:
        """How targets in blocks are read."""

    @abstractmethod
    def _row_losses(self, rows: StreamRows) -> tuple[tuple[RowLoss, ...], Array, float]:
        """Of rows that come in blocks: losses, constants to begin with, and the scale of values."""

    def _over_blocks(self, rows: StreamRows) -> SpanProblem:
        """The problem over landmarks or features of rows that come in blocks."""
        owner, totals = type(self).__name__, rows.statistics
        unit = self._weight_unit(totals.min_positive_weight, totals.max_weight)
        measured = rows.measured_in(unit)
        losses, constants, scale = self._row_losses(measured)
        outputs = len(constants)
        self.solver_ = self._solver_of_blocks(rows, outputs, len(losses) < outputs)
        intercept = bool(self.fit_intercept)
        task = MachineTask(owner, self.kernel_, measured, losses, constants, intercept)
        problem: SpanProblem
        if self.solver_.has_features:
            problem = FeatureProblem(self.solver_.machine(task, rows), unit, scale)
        else:
            problem = self._of_landmarks(task, rows, unit, scale)
        # What spans the functions stands for the rows, of which some may count for nothing.
        self._require_alpha(problem.machine.span.reach**2, unit)
        return problem

    def _solver_of_blocks(self, rows: StreamRows, outputs: int, joint: bool) -> Any:
        if self.solver != "auto" and self.solver.needs_all_rows:
            raise DataError(
                f"{type(self).__name__}: {shown(self.solver)} needs all {len(rows)} rows "
                "in memory, and they come in blocks; take solvers.NystromSolver(), or pass arrays."
            )
        if self.solver != "auto":
            return self._smooth_solver(self.solver)
        return self._smooth_solver(choose(self._fit_problem(rows, outputs, joint=joint)).solver)

    def _read(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Data:
        """Validate the data; resolve the kernel."""
        kernel = self._kernel_or_default(self.kernel)
        self.points_ = self._validate_points(kernel, X, reset=True)
        targets = self._checked_targets(y, len(self.points_))
        given = self._validate_weights(sample_weight, targets)
        weights = np.ones(len(self.points_)) if given is None else given
        rows = np.flatnonzero(weights > 0)
        counted = weights[rows]
        unit = self._weight_unit(float(counted.min()), float(counted.max()))
        self.kernel_ = kernel.resolve(self.points_, given)
        weights = counted / unit
        task = self._task(self.loss_, targets[rows], weights)
        return Data(self.points_, given, rows, weights, task, unit, self._scale(targets))

    def _whole(self, data: Data) -> WholeProblem:
        """The problem with the Gram matrix in memory."""
        gram = self._gram(data.rows, data.task.n_outputs)
        diagonal = np.maximum(gram.diagonal(), 0.0)  # a copy: the matrix is centred next
        self._require_alpha(float(diagonal.max()), data.unit)
        means = np.zeros(len(gram))
        if self.fit_intercept:
            # Any constant may be added to the kernel: without the mean, more digits are left.
            means = gram.mean(axis=0)
            gram -= means + means[:, None] - means.mean()
        return self._of_matrix(data, gram, diagonal, means)

    def _products(self, data: Data) -> WholeProblem:
        """The same by products with the matrix, which is not stored."""
        points = data.counted
        diagonal = np.maximum(self.kernel_.diag(points), 0.0).astype(np.float64)
        self._require_alpha(float(diagonal.max()), data.unit)
        centred = bool(self.fit_intercept)
        gram = self.solver_.matrix(type(self).__name__, self.kernel_, points, centred=centred)
        means = np.zeros(len(gram)) if gram.means is None else gram.means
        return self._of_matrix(data, gram, diagonal, means)

    def _of_matrix(
        self, data: Data, gram: Array | Products, diagonal: Array, means: Array
    ) -> WholeProblem:
        return WholeProblem(
            gram,
            diagonal,
            means,
            data.rows,
            len(data.points),
            data.task,
            data.unit,
            data.scale,
            bool(self.fit_intercept),
        )

    def _spanned(self, data: Data) -> SpanProblem:
        """The problem over landmarks, which become the points of the model, or on features."""
        points = data.counted
        self._require_alpha(float(self.kernel_.diag(points).max()), data.unit)
        task = MachineTask(
            type(self).__name__,
            self.kernel_,
            InMemory(RowBlock(points, data.task.row_targets, data.weights)),
            data.task.row_losses,
            data.task.constants,
            bool(self.fit_intercept),
        )
        candidates = InMemory(points_alone(data.points, data.given))
        if self.solver_.has_features:
            machine, n = self.solver_.machine(task, candidates), len(data.points)
            return FeatureProblem(machine, data.unit, data.scale, data.rows, n)
        return self._of_landmarks(task, candidates, data.unit, data.scale)

    def _of_landmarks(
        self, task: MachineTask, candidates: RowSource, unit: float, scale: float
    ) -> LandmarkProblem:
        """The problem over landmarks that are chosen among rows."""
        machine = self.solver_.machine(task, candidates)
        self.points_ = machine.points
        if machine.indices is not None:
            self.rows_ = machine.indices
        return LandmarkProblem(machine, unit, scale)

    def _weight_unit(self, low: float, high: float) -> float:
        """A power of 2, so that dividing by it rounds nothing, near the largest weight."""
        if low < high / _LARGEST:
            raise DataError(
                f"{type(self).__name__}: positive sample weights reach from {low:.3g} to "
                f"{high:.3g}, a range beyond the arithmetic; set those that do not count to 0."
            )
        return float(2.0 ** np.floor(np.log2(high)))

    def _require_alpha(self, diagonal: float, unit: float) -> None:
        if not np.isfinite(diagonal):
            raise DataError(
                f"{type(self).__name__}: {shown(self.kernel_)} gives NaN or infinity: the largest "
                f"k(x, x), {diagonal}, is beyond the arithmetic; scale the data, or use a kernel "
                "that grows less fast."
            )
        if diagonal > _LARGEST * float(self.alpha) / unit:
            raise DataError(
                f"{type(self).__name__}: alpha = {self.alpha!r} is less than {1 / _LARGEST:g} of "
                f"the largest sample weight, about {unit:.3g}, times the largest k(x, x), "
                f"{diagonal:.3g}; raise alpha, or scale the weights or the kernel down."
            )

    def _gram(self, rows: NDArray[np.intp], n_outputs: int) -> Array:
        gram = gram_matrix(self, self.kernel_, self.points_, MachineFit.matrices(n_outputs))
        require_positive(self, self.kernel_, gram, _ADVICE)
        gram = gram.astype(np.float64, copy=False)
        return gram if len(rows) == len(gram) else gram[np.ix_(rows, rows)]

    @abstractmethod
    def _checked_targets(self, y: ArrayLike, n: int) -> Any:
        """The targets, of the right kind, one for each row."""

    @abstractmethod
    def _task(self, loss: Any, targets: Any, weights: Array) -> Task:
        """What is to be fitted to the rows that count."""

    def _scale(self, targets: Any) -> float:
        """What values of the function are compared with."""
        return 1.0

    # Solvers ------------------------------------------------------------------------------------

    solver: Any = "auto"

    def _chosen_solver(self, data: Data) -> Any:
        if self.solver == "auto":
            return choose(self._fit_problem_of(data)).solver
        return self.solver if self.solver.is_dense else self._smooth_solver(self.solver)

    def _smooth_solver(self, solver: Any) -> Any:
        """A solver that does not see the whole matrix, if the loss and the kernel allow one."""
        if not self.loss_.smooth:
            raise ParameterError(
                f"{type(self).__name__}: {shown(solver)} needs a smooth loss, and loss = "
                f"{self.loss_!r} has kinks; pass {self._smooth_loss}, or "
                "solver=mercer.solvers.Cholesky(), which is exact."
            )
        if self.kernel_.is_psd is False:
            raise ParameterError(
                f"{type(self).__name__}: {shown(solver)} needs a valid kernel, and "
                f"{self.kernel_!r} is not one; use a kernel whose is_psd is True."
            )
        return solver

    def _fit_problem_of(self, data: Data) -> MachineFit:
        rows, task = InMemory(points_alone(data.counted)), data.task
        return self._fit_problem(rows, task.n_outputs, joint=isinstance(task, Joint))

    def _fit_problem(self, rows: RowSource, outputs: int, *, joint: bool) -> MachineFit:
        """The fit of several functions to some rows, as solvers price it."""
        return MachineFit(self.kernel_, rows, outputs, joint, self.loss_.smooth)

    def _forecast(self, problem: MachineFit) -> Forecast:
        asked = None if self.solver == "auto" else priced(problem, self.solver)
        return forecast(problem, asked)

    def _forecast_for(self, X: Any, y: Any) -> Forecast:
        """What each solver would cost; for one function, if no targets are given."""
        self._check_parameters()
        self.loss_ = self._checked_loss()
        kernel = self._kernel_or_default(self.kernel)
        reader = NoTargets() if y is None else self._target_reader()
        rows, given = self._stream(kernel, X, y, None, reader, whole=self._held_rows)
        if rows is None:
            targets = self._some_targets(kernel, given.X) if y is None else given.y
            return self._forecast(self._fit_problem_of(self._read(given.X, targets, None)))
        self.kernel_ = rows.resolve(kernel)
        losses, constants = ((), ()) if y is None else self._row_losses(rows)[:2]
        outputs = max(1, len(constants))
        joint = 0 < len(losses) < outputs
        return self._forecast(self._fit_problem(rows, outputs, joint=joint))

    def _some_targets(self, kernel: Kernel, X: Any) -> Array:
        """Two classes, which are positive targets: valid for every loss."""
        targets = np.ones(len(self._validate_points(kernel, X, reset=True)))
        targets[:1] += 1
        return targets

    def _check_solver(self) -> None:
        checked_solver(type(self).__name__, self.solver)
        if self.solver != "auto":
            self.solver.check(type(self).__name__)

    # What is learned ----------------------------------------------------------------------------

    def _fitted(self, found: Found, alpha: float, steps: int, converged: bool) -> dict[str, Any]:
        """The fitted attributes that belong to what a solver found."""
        columns = self._has_columns
        error = "gradient_norm_" if self.loss_.smooth else "dual_gap_"
        return {
            "dual_coef_": found.dual if columns else found.dual[:, 0],
            "intercept_": found.intercept if columns else float(found.intercept[0]),
            "alpha_": alpha,
            "n_iter_": steps,
            "converged_": converged,
            error: found.error,
            "_function": found.function,
        } | found.further

    @property
    @abstractmethod
    def _has_columns(self) -> bool:
        """Whether there is one function for each class or quantile, or a single one."""

    def _warn_of_short_fit(self, doubt: str) -> None:
        what = "norm of the gradient" if self.loss_.smooth else "duality gap"
        error = self.gradient_norm_ if self.loss_.smooth else self.dual_gap_
        remedy = f"scale the data, or raise alpha, tol or max_iter ({self.max_iter})"
        if self.n_iter_ < self.max_iter:
            remedy = (
                "no step leads closer, most likely because of rounding: scale the data, or raise "
                "alpha or tol"
            )
        if doubt:
            remedy = f"for its last step {doubt}"
        warn(
            f"{type(self).__name__} stopped after {self.n_iter_} steps with a {what} of "
            f"{error:.3g}, more than tol = {self.tol:g} allows; {remedy}.",
            NumericalWarning,
        )

    # Parameters ---------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        for name in ("alpha", "tol"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and np.isfinite(float(value)) and float(value) > 0):
                raise ParameterError(
                    f"{owner}: {name} = {value!r} is not a finite number > 0; pass for example "
                    f"{'1.0' if name == 'alpha' else '1e-8'}."
                )
        self._check_solver()
        self._require_whole("max_iter", 1, 1000)
        self._require_flags("fit_intercept")
        if self.penalty is not None:
            penalties.check_increasing(self.penalty, owner)

    def _named(self, loss: object) -> Loss:
        return losses.named(loss, type(self).__name__)

    loss: Loss | str

    def _given_loss(self) -> Loss | str:
        """The loss that the parameters ask for."""
        return self.loss

    def _checked_loss(self) -> Loss:
        loss = self._named(self._given_loss())
        if not isinstance(loss, self._kind):
            raise ParameterError(
                f"{type(self).__name__}: loss = {loss!r} is not for {self._purpose}; pass one such "
                f"as {self._example}, or use {self._other}."
            )
        return loss

    def _check_own_loss(self, loss: Loss, targets: Array) -> None:
        """Try a loss that a user wrote; those of mercer are known to be convex."""
        if not type(loss).__module__.startswith("mercer."):
            losses.check_convex(loss, targets, type(self).__name__)

    _smooth_loss: str
    _kind: type[Loss]
    _purpose: str
    _example: str
    _other: str

    @property
    def _options(self) -> Options:
        return Options(bool(self.fit_intercept), float(self.tol), int(self.max_iter))
