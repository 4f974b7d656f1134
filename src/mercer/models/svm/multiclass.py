"""What machines for classes share: several classes, votes, probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from mercer import memory
from mercer.estimator import checks
from mercer.estimator.base import shown
from mercer.estimator.labels import checked_labels, require_two_classes
from mercer.estimator.optional_methods import available_unless
from mercer.exceptions import DataError, ParameterError, as_data_errors
from mercer.kernels.points import Points
from mercer.models.svm.base import SupportVectorMachine
from mercer.models.svm.duals import Dual
from mercer.models.svm.functions import Machines
from mercer.models.svm.pair_values import PairValues
from mercer.models.svm.probability import Calibration
from mercer.models.svm.schemes import Codes, Pairs, Scheme, Sides, scheme_of
from mercer.models.svm.solving import solved, warn_of_folds
from mercer.models.svm.training import Training
from mercer.parallel import one_thread
from mercer.sampling import random_numbers
from mercer.solvers.box_qp.problem import SymmetricMatrix

Array = NDArray[np.float64]

_SHAPES = ("ovr", "ovo")
_FOLDS = 5
# Kernel values that are held at a time, where pairs of classes are read from them.
_HELD = 2**20
# Matrices of the values of all functions at all rows that learning probabilities takes at a time.
_COPIES = 3


class SupportVectorClassifier(ClassifierMixin, SupportVectorMachine):
    """Base of machines for classes: one function for each pair of classes, or for each class.

    Parameters
    ----------
    kernel : Kernel, str or callable
        A kernel, or one by scikit-learn's name.
    class_weight : dict, "balanced" or None
        What the weights of the rows of each class are multiplied by.
    decision_function_shape : {"ovr", "ovo"}
        What `decision_function` returns for more than two classes.
    break_ties : bool
        Whether classes with equal votes are told apart by their decision function.
    probability : bool
        Whether to learn `predict_proba`, whose largest is then predicted.
    random_state : int, RandomState, Generator or None
        For the parts of the rows that are left out for it.
    multi_class : {"ovo", "ovr"}
        One function for each pair of classes, or for each class against the rest.
    **shared
        What all machines have.
    """

    def __init__(
        self,
        kernel: Any,
        *,
        class_weight: Any,
        decision_function_shape: str,
        break_ties: bool,
        probability: bool,
        random_state: Any,
        multi_class: str,
        **shared: Any,
    ) -> None:
        super().__init__(kernel, **shared)
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.random_state = random_state
        self.multi_class = multi_class

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the machines.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Anything that the kernel takes.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), optional
            Weights, which multiply C; a row of weight 0 is left out.

        Returns
        -------
        self
            The fitted model.
        """
        with self._fitting():
            self._check_parameters()
            self._learn(X, y, self._prepared(X, y, sample_weight))
        return self

    def _learn(self, X: Any, y: ArrayLike, data: Training) -> None:
        """Solve the dual problems, and learn probabilities if they are asked for."""
        data = self._arranged(data)
        dual = self._dual(data)
        if self.probability:
            self._require_room(len(data.rows), len(dual))
        matrix, machines = self._fit_duals(X, y, data, dual)
        if not self.probability:
            return
        try:
            self._calibrate(matrix, data, machines)
        except KeyboardInterrupt:
            self.converged_ = False  # the machine is kept, without probabilities
            raise

    classes_: NDArray[Any]
    class_weight_: Array
    _scheme: Scheme

    def _prepared(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        """The rows that count and their classes; what follows from these is kept."""
        kernel, points = self._read_points(X)
        labels = checked_labels(type(self).__name__, y, len(points))
        data = self._training(kernel, points, sample_weight, labels)
        return self._with_classes(data, labels, labels)

    def _with_classes(
        self, data: Training, labels: NDArray[Any], counted: NDArray[Any]
    ) -> Training:
        """The rows with their classes, of which "balanced" counts those of some labels."""
        self.classes_, codes = np.unique(labels[data.rows], return_inverse=True)
        require_two_classes(type(self).__name__, self.classes_)
        self.class_weight_ = self._class_weights(counted)
        self._scheme = scheme_of(len(self.classes_), self.multi_class)
        return replace(data, codes=codes)

    def _arranged(self, data: Training) -> Training:
        """Rows class by class where pairs of classes are learned: they are read in one piece."""
        if not isinstance(self._scheme, Pairs) or self.kernel_.input_tags()["pairwise"]:
            return data
        ordered = data.part(np.argsort(data.codes, kind="stable"))
        points = data.points[ordered.rows]
        return replace(
            ordered, points=points, numbers=ordered.rows, rows=np.arange(len(ordered.rows))
        )

    def _dual(self, data: Training) -> Dual:
        """The problems of all functions."""
        sides, costs = self._scheme.sides(data.codes), data.weights * self._costs()[data.codes]
        return self._dual_of(data.rows[sides.positions], sides, costs[sides.positions])

    @abstractmethod
    def _dual_of(self, rows: Codes, sides: Sides, costs: Array) -> Dual:
        """The problems, with the sides that they put rows on, and what errors cost there."""

    def _class_weights(self, labels: NDArray[Any]) -> Array:
        """Those of the classes; "balanced" counts all rows, whatever their weights."""
        self._require_class_weight()
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        everything = np.unique(labels)
        with as_data_errors(type(self).__name__):
            found = compute_class_weight(self.class_weight, classes=everything, y=labels)
        weights: Array = found[np.isin(everything, self.classes_)]
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ParameterError(
                f"{type(self).__name__}: class_weight = {shown(self.class_weight)} gives weights "
                f'{weights.tolist()}, which are not all finite and > 0; pass "balanced", or such a '
                "number for each class."
            )
        return weights

    def _require_class_weight(self) -> None:
        known = self.class_weight is None or isinstance(self.class_weight, Mapping)
        if not (known or (isinstance(self.class_weight, str) and self.class_weight == "balanced")):
            raise ParameterError(
                f"{type(self).__name__}: class_weight = {shown(self.class_weight)} is neither "
                '"balanced" nor a dict; pass for example {0: 1.0, 1: 2.0}.'
            )

    def _order_of_support(self, data: Training, support: Codes) -> Codes:
        """By class, as scikit-learn has it."""
        return np.argsort(data.codes_of(support), kind="stable")

    def _expanded(self, coefficients: csr_array) -> Any:
        """The function of a pair has points of two classes alone."""
        paired = isinstance(self._scheme, Pairs)
        return coefficients if paired else super()._expanded(coefficients)

    def _meaning(
        self, data: Training, support: Codes, coefficients: Any, machines: Machines
    ) -> dict[str, Any]:
        codes = data.codes_of(support)
        return {
            "dual_coef_": self._scheme.layout(coefficients, codes),
            "intercept_": machines.intercept,
            "n_support_": np.bincount(codes, minlength=len(self.classes_)).astype(np.int32),
            "n_iter_": machines.n_iter.astype(np.int32),
            "dual_gap_": machines.gap,
            "objective_": machines.objective,
        }

    # Predictions ----------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Array:
        """The values of the functions, or what they say together of each class.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,), (m, n_classes) or (m, n_functions)
            For two classes positive values speak for the second. For more, one number for each
            class, whose largest is predicted unless probabilities were learned; with
            ``decision_function_shape="ovo"`` one for each pair of classes, positive where it speaks
            for the first.
        """
        if self.decision_function_shape == "ovo":
            values = self._machine_values(X)
            return values if len(self.classes_) > 2 else values[:, 0]
        return self._class_scores(X)

    def _class_scores(self, X: Any) -> Array:
        """One number for each class, of shape (m, n_classes), or one for two, of shape (m,)."""
        return self._read(X, lambda values: self._scheme.scores(values))

    def _machine_values(self, X: Any) -> Array:
        return self._read(X, np.asarray)

    def _read(self, X: Any, reading: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """What is read from the values of the functions, row by row.

        There are many more pairs than classes: values of all pairs are held for a few rows.
        """
        check_is_fitted(self)
        if not issparse(self._expansion):
            return reading(super()._machine_values(X))
        points = self._validate_points(self.kernel_, X, reset=False)
        pairs = PairValues(self.dual_coef_, self.n_support_, self.intercept_)
        step, kernel_values = max(1, _HELD // len(self.points_)), self._similarities()
        found: list[NDArray[Any]] = []
        for start in range(0, len(points), step):
            block = kernel_values(points[start : start + step])
            with one_thread():  # products with the points of one class are small
                found += [reading(values) for values in pairs.parts(block)]
        return np.concatenate(found)

    n_support_: NDArray[np.integer]

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The classes: those of the largest `decision_function`, or of the largest
            `predict_proba` where probabilities were learned.
        """
        winners = self._read(X, self._winners)
        return np.asarray(self.classes_[winners])

    def _winners(self, values: Array) -> Codes:
        if self.probability and hasattr(self, "_calibration"):
            return np.asarray(np.argmax(self._calibration.log_probabilities(values), axis=1))
        scores = self._scheme.scores(values)
        if self.break_ties and scores.ndim == 2:
            return np.asarray(np.argmax(scores, axis=1))
        return self._scheme.winners(values)

    # Probabilities --------------------------------------------------------------------------------

    def _require_room(self, n_rows: int, n_functions: int) -> None:
        """Refuse what would take too much memory before the fit, and not after it."""
        fewer = "pass probability=False, or fewer rows"
        memory.require(
            8 * _COPIES * n_rows * n_functions,
            f"{type(self).__name__} with probability=True, whose {n_functions} functions have "
            f"values at {n_rows} rows,",
            f'pass multi_class="ovr"; or {fewer}' if isinstance(self._scheme, Pairs) else fewer,
        )

    def _calibrate(self, matrix: SymmetricMatrix, data: Training, machines: Machines) -> None:
        """Learn probabilities from machines that have not seen the rows."""
        near = machines.coefficients(matrix.size)
        values, short = np.empty((len(data.rows), len(machines))), 0
        for train, held in self._folds(data.codes):
            dual = self._dual(data.part(train))
            fitted = solved(matrix, dual, self._options, near=near, at=data.rows[held])
            values[held] = fitted.values
            short += int((~fitted.converged).sum())
        warn_of_folds(type(self).__name__, short)
        found = Calibration.of(self._scheme, values, data.codes, self._weights_of_errors(data))
        self._calibration, self.calibration_error_ = found, found.error

    def _weights_of_errors(self, data: Training) -> Array:
        """What errors at the rows weigh in the fit, as shares of the largest; all are positive."""
        costs = np.nan_to_num(self._costs())  # the largest number in place of an infinite C
        shares = data.weights / data.weights.max() * (costs / costs.max())[data.codes]
        return np.asarray(np.maximum(shares, np.finfo(np.float64).tiny))

    def _costs(self) -> Array:
        """What an error costs in each class, in a unit of its own."""
        return self.class_weight_

    _calibration: Calibration

    def _is_fitted_state(self, name: str) -> bool:
        return name == "_calibration" or super()._is_fitted_state(name)

    def _folds(self, codes: Codes) -> Iterator[tuple[Codes, Codes]]:
        """Parts of the rows to learn from, and to look at, as they were left out.

        A class with one row keeps it: its value is that of machines that have seen it.
        """
        counts = np.bincount(codes)
        several, single = np.flatnonzero(counts[codes] > 1), np.flatnonzero(counts[codes] == 1)
        if not len(several):
            raise DataError(
                f"{type(self).__name__}: probabilities are learned from rows that are left out, "
                "and every class has a single row; pass two or more, or probability=False."
            )
        rng = random_numbers(self.random_state, type(self).__name__)
        fewest = int(counts[codes[several]].min())
        folds = StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=rng)
        for _, held in folds.split(np.empty((len(several), 0)), codes[several]):
            train = np.setdiff1d(np.arange(len(codes)), several[held])
            yield train, np.concatenate([several[held], single])

    @available_unless(lambda model: _why_no_probabilities(model))
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Rows that sum to 1, largest for the class that `predict` returns.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @available_unless(lambda model: _why_no_probabilities(model))
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m, n_classes)
            0 or less.
        """
        check_is_fitted(self)
        if not hasattr(self, "_calibration"):
            raise NotFittedError(
                f"{type(self).__name__}: probabilities were not learned; call fit with "
                "probability=True, and let it end."
            )
        return self._read(X, self._log_probabilities)

    def _log_probabilities(self, values: Array) -> Array:
        return np.asarray(self._calibration.log_probabilities(values), dtype=np.float64)

    # Explanations: the sum of what the functions say of a class -----------------------------------

    def _function_values(self, X: Any) -> Array:
        return self._read(X, self._summed)

    def _summed(self, values: Array) -> Array:
        return values[:, 0] if len(self.classes_) == 2 else values @ self._scheme.directions

    @property
    def _n_functions(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _predicted_places(self, points: Points) -> Codes:
        return self._read(points, self._winners)

    @property
    def _explained(self) -> tuple[Array, Array]:
        if len(self.classes_) == 2:
            return self._expansion, self.intercept_
        directions = self._scheme.directions
        found = self._expansion @ directions
        return found.toarray() if issparse(found) else found, self.intercept_ @ directions

    # Parameters -----------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_shared()
        checks.require_flags(self, "break_ties", "probability")
        random_numbers(self.random_state, type(self).__name__)
        for name in ("decision_function_shape", "multi_class"):
            if getattr(self, name) not in _SHAPES:
                raise ParameterError(
                    f"{type(self).__name__}: {name} = {getattr(self, name)!r} is unknown; pass "
                    '"ovr" or "ovo".'
                )
        if self.multi_class == "ovr" and self.decision_function_shape == "ovo":
            raise ParameterError(
                f'{type(self).__name__}: multi_class = "ovr" fits one function for each class, and '
                'decision_function_shape = "ovo" asks for one for each pair; pass '
                'decision_function_shape="ovr".'
            )


def _why_no_probabilities(model: SupportVectorClassifier) -> str | None:
    if model.probability:
        return None
    return "probability=False; pass probability=True, or use decision_function"
