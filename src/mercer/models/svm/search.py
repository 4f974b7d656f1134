"""C and length-scale of a support vector machine by cross-validation, with shared work.

The matrix of a kernel serves all C, and all folds in which the kernel is the same; each machine
starts from that of the next smaller C, scaled; and the solver knows the values at the rows left
out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from itertools import product
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.callback import CallbackSupportMixin
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from mercer.arrays import Float64Array as Array
from mercer.checks import NamedArguments
from mercer.estimator.base import shown
from mercer.estimator.iterative import with_callbacks
from mercer.estimator.optional_methods import available_unless
from mercer.exceptions import DataWarning, ParameterError, as_data_errors, warn
from mercer.kernels.base import Kernel
from mercer.kernels.names import DEFAULTS
from mercer.kernels.points import Points
from mercer.models.length_scales import candidates, free_lengths
from mercer.models.svm.base import Training, kernel_for
from mercer.models.svm.classification import SVC
from mercer.models.svm.cross_validation import Fold, Outcome, score_table, takes_weights
from mercer.models.svm.duals import Rows
from mercer.models.svm.fit_warnings import warn_of_folds
from mercer.parallel import one_thread, thread_count
from mercer.solvers.box_qp.kernel_matrix import SymmetricMatrix
from mercer.streams.sources import Given, named_columns

#: A context that callbacks see as one step, given its name and the machine that it fits.
Step = Callable[..., AbstractContextManager[None]]


def _why_no_best(search: SVCSearch) -> str | None:
    return None if search.refit else "refit=False; pass refit=True, or fit SVC with best_params_"


def _why_no_probabilities(search: SVCSearch) -> str | None:
    if getattr(getattr(search, "best_estimator_", search.estimator), "probability", False):
        return _why_no_best(search)
    return "its estimator has none; pass SVC(probability=True), or use decision_function"


class SVCSearch(
    CallbackSupportMixin, ClassifierMixin, MetaEstimatorMixin, NamedArguments, BaseEstimator
):
    """Cross-validation of `SVC` over C and length-scales, at a fraction of a grid search's cost.

    The result is that of `sklearn.model_selection.GridSearchCV` over the same folds, up to the
    solver's tolerance (except that ``psd="clip"`` and its like repair the matrix of all rows, those
    left out too). The kernel matrix of a length-scale serves all folds and all C; it is computed
    once where half of the free memory, or ``cache_size`` of the machine, has room for it, and else
    where it is needed. A machine starts from that of the C before. What a kernel takes from the
    data, such as ``gamma="scale"``, it takes in each fold from the rows that are learned from, and
    has a matrix for each fold. Folds share the threads that there are, so that there is no
    ``n_jobs``. Candidates are compared by their decision functions, also if the machine is to learn
    probabilities, which the best alone does. A search that is interrupted keeps nothing.

    Parameters
    ----------
    estimator : SVC, optional
        The machine; an `SVC` by default, with any kernel. Its C is not looked at.
    Cs : sequence of float, default=(0.1, 1.0, 10.0, 100.0, 1000.0)
        The values of C.
    length_scales : "auto", sequence, dict or None, default="auto"
        Values for the length-scales of the kernel, or, as a dict, for each of them by path;
        "auto" for multiples of those that it has, as ``"scale"`` finds them on all rows, None for
        the kernel as it is.
    cv : int, splitter or iterable, optional
        As in scikit-learn: five stratified folds by default.
    scoring : str or callable, optional
        A scorer of `predict` or of `decision_function` at the rows left out; accuracy by default.
        What it raises ends the search.
    refit : bool, default=True
        Whether to fit the best on all rows.

    Attributes
    ----------
    cv_results_ : dict of str to ndarray
        Scores and times, in scikit-learn's layout.
    best_index_ : int
        The position of the best candidate there.
    best_score_ : float
        Its mean score.
    best_params_ : dict
        Its parameters, for ``set_params``.
    best_estimator_ : SVC
        The best machine, fitted on all rows. Only with ``refit``.
    refit_time_ : float
        Seconds that this fit took. Only with ``refit``.
    n_splits_ : int
        The number of folds.
    scorer_ : callable
        The scorer.
    classes_ : ndarray
        The classes.
    n_features_in_, feature_names_in_
        As for `SVC`.

    See Also
    --------
    SVC : The machine.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> search = mc.SVCSearch(Cs=[1.0, 10.0], length_scales=[1.0, 3.0]).fit(X, y)
    >>> sorted(search.best_params_)
    ['C', 'kernel__length_scale']
    >>> bool(search.best_score_ > 0.95)
    True
    """

    n_features_in_: int
    feature_names_in_: NDArray[Any]
    cv_results_: dict[str, Any]
    best_index_: int
    best_score_: float
    best_params_: dict[str, Any]
    refit_time_: float
    n_splits_: int
    scorer_: Any
    classes_: NDArray[Any]
    _named_columns: tuple[str, ...] = ()

    def __init__(
        self,
        estimator: SVC | None = None,
        Cs: Sequence[float] = (0.1, 1.0, 10.0, 100.0, 1000.0),
        length_scales: Any = "auto",
        *,
        cv: Any = None,
        scoring: Any = None,
        refit: bool = True,
    ) -> None:
        self.estimator = estimator
        self.Cs = Cs
        self.length_scales = length_scales
        self.cv = cv
        self.scoring = scoring
        self.refit = refit

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Compare all candidates, and fit the best.

        Parameters
        ----------
        X, y
            As for `SVC.fit`.
        sample_weight : array-like of shape (n,), optional
            Weights, with which the machines learn, and which count in the scores too, if the
            scorer takes weights; if not, a warning says so, as in scikit-learn's searches.
        groups : array-like of shape (n,), optional
            For splitters that keep groups together.

        Returns
        -------
        self
            The search, with its results.
        """
        labels = column_or_1d(y, warn=True)
        machine = self._machine()
        # A kernel object, whose length-scale can be set, in place of a name.
        model = copy(machine)
        kernel, _ = model._read_points(X)
        model.set_params(kernel=kernel, psd=model._psd_method, **DEFAULTS)
        data = model._prepared(X, labels, sample_weight)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(model, name):
                setattr(self, name, getattr(model, name))
        costs = self._costs()
        self.scorer_ = self._scorer(model)
        every, weights = np.arange(len(labels)), np.zeros(len(labels))
        weights[data.rows] = data.weights
        splits = self._splits(X, labels, groups)
        counted = sample_weight is not None and self._scores_take_weights()

        def fold(train: Rows, held: Rows) -> Fold:
            rows, local = train[weights[train] > 0], copy(model)
            part = local._with_classes(replace(data, rows=rows, weights=weights[rows]), labels)
            return Fold(local, part, held, labels[held], weights[held] if counted else None)

        folds = [fold(*split) for split in splits]
        self.n_splits_, self.classes_ = len(folds), model.classes_
        given = None if sample_weight is None else weights
        parts = [every, *(train for train, _ in splits)]
        kernels, *in_folds = self._candidates(machine, model, data.points, parts, given)
        with self._steps(X, labels, len(kernels) * len(folds) + bool(self.refit)) as step:
            outcomes = [
                self._compared(model, local, data, folds, costs, step)
                for local in zip(*in_folds, strict=True)
            ]
            # Given for each kernel and each C, and kept in the order of a `ParameterGrid`.
            lengths = self._lengths_of(model.kernel, kernels)
            params = [{"C": cost} | values for cost, values in product(costs, lengths)]
            rows = [row for same_cost in zip(*outcomes, strict=True) for row in same_cost]
            self.cv_results_ = score_table(params, rows)
            self.best_index_ = int(np.argmin(self.cv_results_["rank_test_score"]))
            self.best_score_ = float(self.cv_results_["mean_test_score"][self.best_index_])
            self.best_params_ = params[self.best_index_]
            warn_of_folds("SVCSearch", sum(outcome.short for row in rows for outcome in row))
            if self.refit:
                best = clone(model).set_params(**self.best_params_)
                with step("refit", best):
                    started = time.perf_counter()
                    self.best_estimator_ = best.fit(X, labels, sample_weight)
                    self.refit_time_ = time.perf_counter() - started
        return self

    @contextmanager
    def _steps(self, X: Any, y: Any, count: int) -> Iterator[Step]:
        """Report the search, and each of its steps, to scikit-learn's callbacks."""
        context = self._init_callback_context(max_subtasks=count)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        @contextmanager
        def step(name: str, model: SVC | None = None) -> Iterator[None]:
            part = context.subcontext(task_name=name)
            inner = nullcontext() if model is None else part.propagate_callback_context(model)
            with inner:
                part.call_on_fit_task_begin(estimator=self, X=X, y=y)
                yield
            part.call_on_fit_task_end(estimator=self, X=X, y=y)

        yield step
        context.call_on_fit_task_end(estimator=self, X=X, y=y)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        model = self.estimator if isinstance(self.estimator, SVC) else SVC()
        tags.input_tags = get_tags(model).input_tags
        return tags

    def _splits(self, X: Any, y: NDArray[Any], groups: ArrayLike | None) -> list[tuple[Rows, Rows]]:
        """Rows to learn from and rows left out, which may be given as lists or flags, too."""
        every = np.arange(len(y))
        with as_data_errors("SVCSearch", "Pass more rows, or fewer folds as cv."):
            splits = list(check_cv(self.cv, y, classifier=True).split(X, y, groups))
        return [(every[np.asarray(train)], every[np.asarray(held)]) for train, held in splits]

    def _machine(self) -> SVC:
        """The machine as it was given, if C can be searched for it."""
        model = SVC() if self.estimator is None else clone(self.estimator)
        if not isinstance(model, SVC):
            raise ParameterError(
                f"SVCSearch: estimator = {model!r} is not a mercer.SVC; use "
                "sklearn.model_selection.GridSearchCV, which takes any estimator."
            )
        model._check_parameters()
        if model.solver != "auto":
            raise ParameterError(
                f"SVCSearch: solver = {model.solver!r} has landmarks, which share nothing between "
                "folds; use sklearn.model_selection.GridSearchCV."
            )
        if isinstance(model.C, Mapping):
            raise ParameterError(
                f"SVCSearch: C = {shown(model.C)} of the estimator gives a C to each class, and Cs "
                "gives one to all of them; pass class_weight, which multiplies C."
            )
        return model

    def _scorer(self, model: SVC) -> Any:
        if isinstance(self.scoring, list | tuple | set | Mapping):
            raise ParameterError(
                f"SVCSearch: scoring = {shown(self.scoring)} is several scores, and one ranks the "
                "candidates; pass one of them, or use sklearn.model_selection.GridSearchCV."
            )
        return check_scoring(model, self.scoring)

    def _scores_take_weights(self) -> bool:
        takes = takes_weights(self.scorer_)
        if not takes:
            warn(
                f"SVCSearch: scoring = {shown(self.scoring)} takes no sample_weight, so that every "
                "row counts once in the scores; pass a scorer that takes it.",
                DataWarning,
            )
        return takes

    def _costs(self) -> list[float]:
        try:
            costs = [float(cost) for cost in self.Cs]
        except (TypeError, ValueError):
            costs = []
        if not costs or not all(np.isfinite(cost) and cost > 0 for cost in costs):
            raise ParameterError(
                f"SVCSearch: Cs = {self.Cs!r} is not a list of finite numbers > 0; pass for "
                "example [1.0, 10.0, 100.0]."
            )
        return costs

    def _lengths(self, kernel: Kernel) -> Any:
        """The length-scales to compare; "auto" leaves a kernel that has none as it is."""
        automatic = isinstance(self.length_scales, str) and self.length_scales == "auto"
        if automatic and not free_lengths(kernel):
            return None
        if isinstance(self.length_scales, Mapping):
            # By name, as in scikit-learn's grids; names that are no strings are refused later.
            return dict(sorted(self.length_scales.items(), key=lambda item: str(item[0])))
        return self.length_scales

    def _lengths_of(self, kernel: Kernel, kernels: Sequence[Kernel]) -> list[dict[str, Any]]:
        """The length-scales that are searched, of each candidate, for ``set_params``."""
        lengths = self._lengths(kernel)
        if lengths is None:
            return [{}]
        paths = lengths if isinstance(lengths, Mapping) else sorted(free_lengths(kernel))
        tables = [candidate.get_params() for candidate in kernels]
        return [{f"kernel__{path}": table[path] for path in paths} for table in tables]

    def _candidates(
        self, machine: SVC, model: SVC, points: Points, parts: Sequence[Rows], weights: Array | None
    ) -> list[list[Kernel]]:
        """For each part of the rows the kernels to compare, as these rows resolve them."""
        lengths = self._lengths(model.kernel)
        kernels = list(candidates(model.kernel, lengths, model.kernel_, "SVCSearch"))
        in_parts = []
        for rows in parts:
            part, weight = points[rows], None if weights is None else weights[rows]
            # The gamma of a kernel that is named may be that of the rows, too.
            here = [kernel_for(machine, part)] if lengths is None else kernels
            in_parts.append([kernel.resolve(part, weight) for kernel in here])
        return in_parts

    def _compared(
        self,
        model: SVC,
        kernels: Sequence[Kernel],
        data: Training,
        folds: Sequence[Fold],
        costs: list[float],
        step: Step,
    ) -> list[tuple[Outcome, ...]]:
        """For each C the outcomes of one candidate in all folds, given its kernel in each."""
        outcomes: dict[Fold, list[Outcome]] = {}
        for kernel in dict.fromkeys(kernels):
            sharing = [fold for fold, own in zip(folds, kernels, strict=True) if own == kernel]
            model.kernel_ = kernel
            matrix, _ = model._matrix(data.points, reused=True)
            paths = self._paths(matrix, sharing, costs)
            for fold in sharing:
                with step("kernel in a fold"):
                    outcomes[fold] = next(paths)
        return list(zip(*(outcomes[fold] for fold in folds), strict=True))

    def _paths(
        self, matrix: SymmetricMatrix, folds: Sequence[Fold], costs: list[float]
    ) -> Iterator[list[Outcome]]:
        """The outcomes of each C in some folds, which are computed side by side."""

        def path(fold: Fold) -> list[Outcome]:
            return fold.path(matrix, costs, self.scorer_)

        if len(folds) == 1:
            yield path(folds[0])
        else:
            with ThreadPoolExecutor(min(thread_count(), len(folds))) as pool:
                yield from pool.map(one_thread()(path), folds)

    best_estimator_: SVC

    @property
    def _best(self) -> SVC:
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_._named_columns = self._named_columns
        return self.best_estimator_

    @available_unless(_why_no_best)
    def score(self, X: Any, y: ArrayLike) -> float:
        """The score of the best machine, by the scorer of the search."""
        best, given = self._best, Given(X, y, None)
        (X, y, _), _ = named_columns("SVCSearch", given)
        return float(self.scorer_(best, X, y))

    @available_unless(_why_no_best)
    def predict(self, X: Any) -> NDArray[Any]:
        """The classes that the best machine predicts, as `SVC.predict`."""
        return np.asarray(self._best.predict(X))

    @available_unless(_why_no_best)
    def decision_function(self, X: Any) -> Array:
        """The decision function of the best machine, as `SVC.decision_function`."""
        return np.asarray(self._best.decision_function(X))

    @available_unless(_why_no_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities by the best machine, as `SVC.predict_proba`."""
        return np.asarray(self._best.predict_proba(X))

    @available_unless(_why_no_probabilities)
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities by the best machine, as `SVC.predict_log_proba`."""
        return np.asarray(self._best.predict_log_proba(X))
