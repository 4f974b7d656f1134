"""What machines for classes share: several classes, votes, probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Float64Array as Array
from mercer.estimator.iterative import with_callbacks
from mercer.estimator.labels import checked_labels, class_weights, require_two_classes
from mercer.estimator.optional_methods import available_unless
from mercer.exceptions import ParameterError
from mercer.kernels.points import Points
from mercer.models.representer import RepresenterModel, ScoredClassifier
from mercer.models.svm.base import SupportVectorMachine, Training, require_range
from mercer.models.svm.duals import Dual, DualSolutions
from mercer.models.svm.probability import Calibration, calibrated
from mercer.models.svm.schemes import Codes, Pairs, PairValues, Scheme, scheme_of
from mercer.parallel import one_thread
from mercer.sampling import blocks, random_numbers

_SHAPES = ("ovr", "ovo")
# Number of kernel values that are held at a time, where functions of pairs of classes are read.
_HELD = 2**20


class SupportVectorClassifier(ScoredClassifier, SupportVectorMachine):
    """Base of machines for classes: one function for each pair of classes, or for each class."""

    calibration_error_: float
    _flags = ("shrinking", "break_ties", "probability")

    class_weight: Any
    decision_function_shape: str
    break_ties: bool
    probability: bool
    random_state: Any
    multi_class: str

    @with_callbacks
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the machines.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Anything that the kernel takes.
        y : array-like of shape (n,), or str
            Labels, or the name of their column in a data frame.
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

    classes_: NDArray[Any]
    class_weight_: Array
    _scheme: Scheme
    _calibration: Calibration

    def _learn(self, X: Any, y: ArrayLike, data: Training) -> None:
        """Solve the dual problems, and learn probabilities if they are asked for."""
        self.__dict__.pop("_calibration", None)
        if self._has_pairs and not self.kernel_.input_tags()["pairwise"]:
            # In the order of the classes: a pair of classes is then read in two pieces.
            ordered = data.subset(np.argsort(data.codes, kind="stable"))
            points, rows = data.points[ordered.rows], np.arange(len(ordered.rows))
            data = replace(ordered, points=points, numbers=ordered.rows, rows=rows)
        matrix, solutions = self._fit_duals(X, y, data, self._dual(data))
        if not self.probability:
            return
        try:
            self._calibration, self.calibration_error_ = calibrated(self, matrix, data, solutions)
        except KeyboardInterrupt:
            self.converged_ = False  # the machine is kept, without probabilities
            raise

    def _prepared(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        """The rows of positive weight and their classes."""
        kernel, points = self._read_points(X)
        labels = checked_labels(type(self).__name__, y, len(points))
        data = self._training(kernel, points, sample_weight, labels)
        return self._with_classes(data, labels)

    def _with_classes(self, data: Training, labels: NDArray[Any]) -> Training:
        """The rows with their classes, given the labels of all rows."""
        owner = type(self).__name__
        self.classes_, codes = np.unique(labels[data.rows], return_inverse=True)
        require_two_classes(owner, self.classes_)
        self.class_weight_ = class_weights(owner, self.class_weight, labels, data.rows)
        self._scheme = scheme_of(len(self.classes_), self.multi_class)
        self._has_pairs = isinstance(self._scheme, Pairs)
        return replace(data, codes=codes)

    @abstractmethod
    def _dual(self, data: Training) -> Dual:
        """The problems of all functions."""

    def _sides(self, data: Training) -> tuple[Codes, Array, Array, Codes]:
        """The fields of a `TwoClassDual`: rows, signs, costs and sizes of the problems."""
        positions, signs, sizes = self._scheme.sides(data.codes)
        costs = data.weights * self._costs()[data.codes]
        require_range(type(self).__name__, "C times the weight of a row", costs)
        return data.rows[positions], signs, costs[positions], sizes

    def _costs(self) -> Array:
        """What an error costs in each class."""
        return self.class_weight_

    def _attributes_of(
        self, data: Training, support: Codes, coefficients: Any, solutions: DualSolutions
    ) -> dict[str, Any]:
        codes = data.codes_of(support)
        return {
            "dual_coef_": self._scheme.layout(coefficients, codes),
            "intercept_": solutions.intercept,
            "n_support_": np.bincount(codes, minlength=len(self.classes_)).astype(np.int32),
            "n_iter_": solutions.n_iter.astype(np.int32),
            "dual_gap_": solutions.gap,
            "objective_": solutions.objective,
        }

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
        if self.decision_function_shape == "ovr":
            return self._read(X, lambda values: self._scheme.scores(values))
        values = self._read(X, np.asarray)
        return values if len(self.classes_) > 2 else values[:, 0]

    def _read(self, X: Any, reading: Callable[[Array], NDArray[Any]]) -> NDArray[Any]:
        """What is read from the values of the functions, of shape (m, n_functions), row by row.

        There are many more pairs than classes: values of all pairs are held for a few rows.
        """
        check_is_fitted(self)
        if not (self._has_pairs and issparse(self._expansion)):
            return reading(np.asarray(RepresenterModel._function_values(self, X), np.float64))
        points = self._validate_points(self.kernel_, X, reset=False)
        pairs = PairValues(self.dual_coef_, self.n_support_, self.intercept_)
        kernel_values = self._similarities()
        parts: list[NDArray[Any]] = []
        for rows in blocks(len(points), step=max(1, _HELD // len(self.points_))):
            block = kernel_values(points[rows])
            with one_thread():  # products with the points of one class are small
                parts += [reading(values) for values in pairs.parts(block)]
        return np.concatenate(parts)

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
        """The numbers of the classes that are predicted."""
        if self.probability and hasattr(self, "_calibration"):
            return np.asarray(np.argmax(self._calibration.log_probabilities(values), axis=1))
        scores = self._scheme.scores(values)
        if self.break_ties and scores.ndim == 2:
            return np.asarray(np.argmax(scores, axis=1))
        return self._scheme.winners(values)

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
        """Logarithms of the probabilities of `predict_proba`.

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
        return self._read(X, self._calibration.log_probabilities)

    def _function_values(self, X: Any) -> Array:
        if len(self.classes_) == 2:
            return self._read(X, lambda values: values[:, 0])
        return self._read(X, lambda values: values @ self._scheme.directions)

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
        summed = self._expansion @ directions
        return summed.toarray() if issparse(summed) else summed, self.intercept_ @ directions

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.random_state is not None:
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
