"""The representer theorem as code: any convex loss, any increasing penalty, any kernel."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.callback import with_callbacks

from mercer import losses, penalties
from mercer.exceptions import DataError, NumericalWarning, ParameterError, warn
from mercer.kernels.base import Kernel
from mercer.losses import Loss
from mercer.models.grams import gram_matrix, require_positive
from mercer.models.iterative import IterativeEstimator, Report
from mercer.models.representer import RepresenterModel
from mercer.models.tasks import Options, Task
from mercer.parallel import blas_threads
from mercer.penalties import HalfSquare, Penalty
from mercer.solvers.factor import Advice
from mercer.solvers.newton import State
from mercer.solvers.penalised import effective_alpha
from mercer.solvers.problem import FEW_ROWS

Array = NDArray[np.floating[Any]]

# In Gram matrices: the matrix, itself scaled and the factor; one more factor for each class.
_MATRICES = 4.1

_ADVICE = Advice(
    "alpha",
    "the objective has no minimum: use a kernel whose is_psd is True, or pass a matrix repaired by "
    "mercer.validity.repair with Precomputed()",
)


# Beyond this ratio of largest to smallest, squares and their sums leave the range of numbers.
_LARGEST = 1e100

_EPS = float(np.finfo(np.float64).eps)
_FEW_DIGITS = 1e-4


class _Stopped(Exception):  # noqa: N818 (not an error but the wish of a callback)
    """A callback has asked to stop: the one way out of a root finder that called us back."""


@dataclass(frozen=True)
class _Problem:
    """The Gram matrix of the rows that count, and what is to be fitted to them.

    Weights, and with them alpha, are in a `unit`: only their ratio matters to the solution. Values
    of the function are large or small beside `scale`.
    """

    gram: Array
    diagonal: Array
    means: Array
    rows: NDArray[np.intp]
    n: int
    task: Task
    unit: float
    scale: float

    def start(self) -> tuple[Array, Array]:
        return np.zeros((len(self.gram), self.task.n_outputs)), self.task.constants.copy()

    def cancels(self, state: State, alpha: float) -> bool:
        """Whether the terms of f are so much larger than f that their sum keeps few digits.

        The solver sees a centred matrix, where they need not be.
        """
        dual = state.scaled / alpha
        values = float(np.abs(self.gram @ dual + state.intercept).max())
        terms = np.sqrt(self.diagonal.max() * (self.diagonal @ dual**2).max())
        return bool(_EPS * terms > _FEW_DIGITS * max(values, self.scale))


class KernelMachine(IterativeEstimator, RepresenterModel):
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
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,)
            Targets.
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
            problem = self._prepare(X, y, sample_weight)
            threads = 1 if len(problem.gram) < FEW_ROWS else None
            with self._iterations(X, y, None) as report, blas_threads(threads):
                try:
                    _Search(self, problem, report).run()
                except _Stopped:
                    self.converged_ = False
        return self

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``loss__delta=v`` and ``kernel__path=v`` put new objects in place.

        Parameters
        ----------
        **params
            Values by name.

        Returns
        -------
        self
            The estimator.
        """
        for name in {"loss", "penalty"} & self.get_params(deep=False).keys():
            prefix = f"{name}__"
            inner = {k.removeprefix(prefix): params[k] for k in params if k.startswith(prefix)}
            if inner:
                params = {k: v for k, v in params.items() if not k.startswith(prefix)}
                given = params.get(name, getattr(self, name))
                base = given or HalfSquare() if name == "penalty" else self._named(given)
                params[name] = base.replace(**inner)
        super().set_params(**params)
        return self

    # The problem --------------------------------------------------------------------------------

    def _prepare(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> _Problem:
        kernel = self._kernel_or_default(self.kernel)
        self.points_ = self._validate_points(kernel, X, reset=True)
        n = len(self.points_)
        targets = self._checked_targets(y, n)
        given = self._validate_weights(sample_weight, targets)
        weights = np.ones(n) if given is None else given
        rows = np.flatnonzero(weights > 0)
        unit = self._weight_unit(weights[rows])
        self.kernel_ = kernel.resolve(self.points_, given)
        task = self._task(self.loss_, targets[rows], weights[rows] / unit)
        gram = self._gram(rows, task.n_outputs)
        diagonal = np.maximum(gram.diagonal(), 0.0)  # a copy: the matrix is centred next
        self._require_alpha(float(diagonal.max()), unit)
        means = np.zeros(len(gram))
        if self.fit_intercept:
            # Any constant may be added to the kernel: without the mean, more digits are left.
            means = gram.mean(axis=0)
            gram -= means + means[:, None] - means.mean()
        return _Problem(gram, diagonal, means, rows, n, task, unit, self._scale(targets))

    def _weight_unit(self, weights: Array) -> float:
        """A power of 2, so that dividing by it rounds nothing, near the largest weight."""
        low, high = float(weights.min()), float(weights.max())
        if low < high / _LARGEST:
            raise DataError(
                f"{type(self).__name__}: positive sample weights reach from {low:.3g} to "
                f"{high:.3g}, a range beyond the arithmetic; set those that do not count to 0."
            )
        return float(2.0 ** np.floor(np.log2(high)))

    def _require_alpha(self, diagonal: float, unit: float) -> None:
        if diagonal > _LARGEST * float(self.alpha) / unit:
            raise DataError(
                f"{type(self).__name__}: alpha = {self.alpha!r} is less than {1 / _LARGEST:g} of "
                f"the largest sample weight, about {unit:.3g}, times the largest k(x, x), "
                f"{diagonal:.3g}; raise alpha, or scale the weights or the kernel down."
            )

    def _gram(self, rows: NDArray[np.intp], n_outputs: int) -> Array:
        matrices = _MATRICES + (n_outputs if n_outputs > 1 else 0)
        gram = gram_matrix(self, self.kernel_, self.points_, matrices)
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

    # What is learned ----------------------------------------------------------------------------

    def _fitted(self, problem: _Problem, state: State, alpha: float, steps: int) -> dict[str, Any]:
        """The fitted attributes that belong to a state of the solver at a weight in units."""
        dual = np.zeros((problem.n, problem.task.n_outputs))
        state = problem.task.kept(problem.gram, alpha, state)
        scaled = state.scaled
        if self.fit_intercept:  # the centred matrix does not see the mean, the kernel would
            scaled = scaled - scaled.mean(axis=0)
        dual[problem.rows] = scaled / alpha
        # Summed so that equal columns get equal constants: a matrix product may round each its way.
        intercept = state.intercept - np.sum(problem.means[:, None] * dual[problem.rows], axis=0)
        columns = self._has_columns
        error = "gradient_norm_" if self.loss_.smooth else "dual_gap_"
        return {
            "dual_coef_": dual if columns else dual[:, 0],
            "intercept_": intercept if columns else float(intercept[0]),
            "alpha_": alpha * problem.unit,
            "n_iter_": steps,
            "converged_": state.converged,
            error: state.error * problem.unit,
        }

    @property
    @abstractmethod
    def _has_columns(self) -> bool:
        """Whether there is one function for each class or quantile, or a single one."""

    def _warn_of_short_fit(self) -> None:
        what = "norm of the gradient" if self.loss_.smooth else "duality gap"
        error = self.gradient_norm_ if self.loss_.smooth else self.dual_gap_
        remedy = f"scale the data, or raise alpha, tol or max_iter ({self.max_iter})"
        if self.n_iter_ < self.max_iter:
            remedy = (
                "no step leads closer, most likely because of rounding: scale the data, or raise "
                "alpha or tol"
            )
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

    _kind: type[Loss]
    _purpose: str
    _example: str
    _other: str

    @property
    def _options(self) -> Options:
        return Options(bool(self.fit_intercept), float(self.tol), int(self.max_iter))


class _Search:
    """Runs solvers: once for half the squared norm, else until the penalty's weight is found."""

    def __init__(self, model: KernelMachine, problem: _Problem, report: Report) -> None:
        self.model, self.problem, self.report = model, problem, report
        self.start, self.steps = problem.start(), 0

    def run(self) -> None:
        """Fit, and store what was learned."""
        model, alpha = self.model, float(self.model.alpha) / self.problem.unit
        if model.penalty is not None and not isinstance(model.penalty, HalfSquare):
            alpha = effective_alpha(self._measure, alpha, model.penalty)
            self.start = self.problem.start()  # the last weight that was tried may be far from it
        state = self._solve(alpha)
        self._store(state, alpha)
        if state.converged and self.problem.cancels(state, alpha):
            model.converged_ = False
            warn(
                f"{type(model).__name__}: terms of the fitted function cancel to fewer than four "
                "digits of it; raise alpha, or scale the targets, weights or kernel down.",
                NumericalWarning,
            )
        elif not state.converged:
            model._warn_of_short_fit()

    def _store(self, state: State, alpha: float) -> None:
        fitted = self.model._fitted(self.problem, state, alpha, self.steps)
        self.model.__dict__.update(fitted)

    def _measure(self, alpha: float) -> tuple[float, float]:
        """Loss and norm of the best function at one weight; infinite loss if it was not found."""
        state = self._solve(alpha)
        loss = state.loss if state.converged else np.inf
        if np.isinf(alpha):
            return loss, 0.0
        square = float(np.sum(state.scaled * (self.problem.gram @ state.scaled)))
        return loss, float(np.sqrt(max(square, 0.0))) / alpha

    def _solve(self, alpha: float) -> State:
        gram, weight = self.problem.gram, alpha
        if np.isinf(alpha):  # nothing is left but the constants
            gram, weight = np.zeros_like(gram), 1.0
        state: State | None = None
        for state in self.problem.task.states(gram, weight, self.start, self.model._options):
            self.steps += 1
            self._say(state, alpha)
        assert state is not None
        # Where a solver got lost is no place to start from.
        self.start = (state.scaled, state.intercept) if state.converged else self.problem.start()
        return state

    def _say(self, state: State, alpha: float) -> None:
        """Report a step; the state is bound now, and looked at only if somebody asks."""
        steps = self.steps

        def fitted() -> dict[str, Any]:
            return self.model._fitted(self.problem, state, alpha, steps)

        if self.report(fitted):
            self._store(state, alpha)
            raise _Stopped
