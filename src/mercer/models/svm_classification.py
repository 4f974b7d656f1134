"""Support vector classification."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from mercer.exceptions import ParameterError, as_data_errors
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.base import require_two_classes
from mercer.models.labels import checked_labels
from mercer.models.svm import SupportVectorMachine
from mercer.solvers.boxes import BoxProgramme, BoxSolution

Array = NDArray[np.floating[Any]]


class SVC(ClassifierMixin, SupportVectorMachine):
    r"""Support vector classification: a wide margin, with a hinge loss for what lies inside it.

    For two classes, y being -1 and +1, the function f(x) = sum_i a_i k(x, x_i) + b minimises

    .. math:: C \sum_i w_i \max(0, 1 - y_i f(x_i)) + \tfrac12 \|f - b\|_k^2,

    and its sign is the prediction. Several classes are told apart in pairs, which vote; the sums of
    their values break ties. Code written for scikit-learn's `SVC` gives the same predictions, with
    kernels by name or any kernel of mercer.

    Parameters
    ----------
    kernel : Kernel or str, optional
        Any kernel, which says what X may be; or a name: "linear", "poly", "rbf", "sigmoid" or
        "precomputed". By default ``RBF(length_scale="scale")``, which is scikit-learn's "rbf". A
        similarity that is no kernel is taken as it is: the fit ends, at a point that need not be
        the minimum, and ``dual_gap_`` is no bound.
    C : float, default=1.0
        Weight of the loss, 1 / alpha of other models.
    gamma : float, "scale" or "auto", optional
        Of a kernel by name: the factor of distances or inner products; "scale" by default.
    degree : int, optional
        Of "poly": the degree, 3 by default.
    coef0 : float, optional
        Of "poly" and "sigmoid": what is added, 0 by default.
    class_weight : dict or "balanced", optional
        Factors of C for the classes; "balanced" gives all classes the same sum.
    tol : float, default=1e-3
        Violation of the conditions of the optimum that is allowed, in units of f.
    max_iter : int, optional
        The largest number of exchanges for a pair of classes; None or -1 for ten million, or a
        hundred for each row if that is more.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        Whether `decision_function` gives a value for each class or for each pair.
    break_ties : bool, default=True
        Whether `predict` is the class of the largest value; else, of classes with the same number
        of votes, the first.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted, those of rows of weight zero left out.
    support_ : ndarray of shape (n_support,)
        Rows of X that carry coefficients, class by class.
    support_vectors_ : array or data frame of n_support rows
        These rows.
    n_support_ : ndarray of shape (n_classes,)
        Their number in each class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_support)
        Coefficients in scikit-learn's layout: of a row in class i, those of its pairs with the
        other classes in order.
    intercept_ : ndarray of shape (n_pairs,)
        Constants; one for two classes.
    class_weight_ : ndarray of shape (n_classes,)
        Factors of C.
    kernel_ : Kernel
        The kernel used, with all its parameters.
    points_ : Points
        The support vectors, as the kernel prepared them.
    objective_ : float
        The dual objective, which is to be small; of several pairs the sum.
    dual_gap_ : float
        How far it is at most above its minimum, in float64; of several pairs the sum.
    violation_ : float
        Largest violation of the conditions of the optimum.
    n_iter_ : ndarray of shape (n_pairs,)
        Exchanges between variables, for each pair of classes.
    converged_ : bool
        Whether the violation is at most `tol`.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    KernelMachineClassifier : Any convex loss, with probabilities.

    References
    ----------
    .. [1] C. Cortes, V. Vapnik (1995). Support-vector networks. Machine Learning 20.
    .. [2] R.-E. Fan, P.-H. Chen, C.-J. Lin (2005). Working set selection using second order
       information for training support vector machines. Journal of Machine Learning Research 6.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> y = ["same", "different", "different", "same"]
    >>> model = mc.SVC(mc.RBF(length_scale=0.5), C=10.0).fit(X, y)
    >>> model.predict([[0.1, 0.9], [0.9, 0.9]])
    array(['different', 'same'], dtype='<U9')
    """

    def __init__(
        self,
        kernel: Kernel | str | None = None,
        C: float = 1.0,
        *,
        gamma: float | str | None = None,
        degree: int | None = None,
        coef0: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        tol: float = 1e-3,
        max_iter: int | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = True,
    ) -> None:
        super().__init__(
            kernel, gamma=gamma, degree=degree, coef0=coef0, tol=tol, max_iter=max_iter
        )
        self.C = C
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties

    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,)
            Labels of any type, of at least two classes.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative factors of C; a weight of 2 is a row repeated, 0 a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            points = self._training_points(X)
            labels = checked_labels(type(self).__name__, y, len(points))
            weights = self._validate_weights(sample_weight, labels)
            kernel = self._resolved_kernel(points, weights)
            pairs = self._pairs_of_classes(labels, weights)
            problems = pairs.programmes(self._boxes(labels, weights)[pairs.rows])
            solved = points if pairs.has_rows(len(points)) else points[pairs.rows]

            def fitted(found: Sequence[BoxSolution | None]) -> dict[str, Any]:
                return {
                    "kernel_": kernel,
                    **pairs.attributes(points, found),
                    **self._summary(found),
                }

            with self._iterations(X, y, None) as report:
                found = self._solve_all(kernel, solved, problems, report, fitted)
                self.__dict__.update(fitted(found))
        return self

    def _pairs_of_classes(self, labels: NDArray[Any], weights: Array | None) -> _Pairs:
        """The rows that count; those of several classes in order, so that pairs lie together."""
        rows = np.arange(len(labels)) if weights is None else np.flatnonzero(weights)
        self.classes_, codes = np.unique(labels[rows], return_inverse=True)
        require_two_classes(type(self).__name__, self.classes_)
        if len(self.classes_) > 2:
            order = np.argsort(codes, kind="stable")
            rows, codes = rows[order], codes[order]
        return _Pairs(rows, codes, len(self.classes_))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_number("C", 0.0, np.inf, "1.0")
        self._require_flags("break_ties")
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ParameterError(
                f"{type(self).__name__}: decision_function_shape = "
                f"{self.decision_function_shape!r} is neither 'ovr' nor 'ovo'; pass one of them."
            )

    def _boxes(self, labels: NDArray[Any], weights: Array | None) -> Array:
        """How large the coefficient of each row may be; rows of no class that counts have none."""
        counts = np.isin(labels, self.classes_)
        with as_data_errors(type(self).__name__):
            self.class_weight_ = compute_class_weight(
                self.class_weight,
                classes=self.classes_,
                y=labels[counts] if weights is None else labels[weights > 0],
            )
        boxes = np.zeros(len(labels))
        boxes[counts] = self.class_weight_[np.searchsorted(self.classes_, labels[counts])]
        return self.C * (boxes if weights is None else boxes * weights)

    _pair_coef: Array

    @property
    def _coefficients(self) -> Array:
        """Of the function; of several classes, of the sum of all that speak for each."""
        return self._pair_coef if self._pair_coef.ndim == 1 else self._pair_coef @ self._shares

    @property
    def _intercepts(self) -> Array:
        constants = np.asarray(self.intercept_)
        return constants if self._pair_coef.ndim == 1 else constants @ self._shares

    @property
    def _shares(self) -> Array:
        """Which pairs speak for a class (1) and against it (-1), in its column."""
        pairs = np.array(list(combinations(range(len(self.classes_)), 2)))
        columns = np.arange(len(self.classes_))
        return np.asarray((pairs[:, :1] == columns).astype(float) - (pairs[:, 1:] == columns))

    def _pair_values(self, X: Any) -> Array:
        check_is_fitted(self)
        points = self._validate_points(self.kernel_, X, reset=False)
        gram = self.kernel_.gram(points, self.points_)
        return np.asarray(gram @ self._pair_coef + self.intercept_)

    def decision_function(self, X: Any) -> Array:
        """The values of the fitted function, for each class or for each pair of classes.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,), (m, n_classes) or (m, n_pairs)
            For two classes, positive values speak for the second; in a column of a pair, for the
            first of it.
        """
        values = self._pair_values(X)
        if values.ndim == 1 or self.decision_function_shape == "ovo":
            return values
        return self._class_values(values)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The classes.
        """
        values = self._pair_values(X)
        if values.ndim == 1:
            codes = (values > 0).astype(np.intp)
        elif self.break_ties:
            codes = self._class_values(values).argmax(axis=1)
        else:
            codes = self._votes(values).argmax(axis=1)
        return np.asarray(self.classes_[codes])

    def _class_values(self, values: Array) -> Array:
        """Votes for each class, and sums of values that stay below half a vote."""
        found: Array = _ovr_decision_function(values < 0, -values, len(self.classes_))
        return found

    def _votes(self, values: Array) -> NDArray[np.intp]:
        votes = np.zeros((len(values), len(self.classes_)), np.intp)
        for column, (first, second) in enumerate(combinations(range(len(self.classes_)), 2)):
            votes[:, first] += values[:, column] > 0
            votes[:, second] += values[:, column] <= 0
        return votes

    def _predicted_places(self, points: Points) -> NDArray[np.intp]:
        return np.asarray(np.searchsorted(self.classes_, self.predict(points)), dtype=np.intp)


class _Pairs:
    """The pairs of classes: their problems, and from the solutions to attributes."""

    def __init__(self, rows: NDArray[Any], codes: NDArray[Any], n_classes: int) -> None:
        self.rows = rows
        self._codes = codes
        self._n_classes = n_classes
        self._members = [np.flatnonzero(codes == c) for c in range(n_classes)]
        self._pairs = list(combinations(range(n_classes), 2))

    def has_rows(self, n: int) -> bool:
        """Whether the rows are all of n, in order."""
        return np.array_equal(self.rows, np.arange(n))

    def _signs(self, first: int, second: int) -> NDArray[np.float64]:
        """+1 for the first class of a pair; of two classes, for the second."""
        sizes = len(self._members[first]), len(self._members[second])
        return np.repeat([-1.0, 1.0] if self._n_classes == 2 else [1.0, -1.0], sizes)

    def programmes(self, boxes: Array) -> list[BoxProgramme]:
        """The dual of every pair."""
        return [self._programme(boxes, *pair) for pair in self._pairs]

    def _programme(self, boxes: Array, first: int, second: int) -> BoxProgramme:
        members = np.concatenate([self._members[first], self._members[second]])
        signs = self._signs(first, second)
        bounds = signs * boxes[members]
        return BoxProgramme(
            rows=members,
            linear=-signs,
            lower=np.minimum(bounds, 0.0),
            upper=np.maximum(bounds, 0.0),
            start=np.zeros(len(members)),
        )

    def attributes(self, points: Points, found: Sequence[BoxSolution | None]) -> dict[str, Any]:
        """What is kept: rows with coefficients, class by class."""
        dense = np.zeros((len(self._codes), len(self._pairs)))
        levels = np.zeros(len(self._pairs))
        steps = np.zeros(len(self._pairs), np.int64)
        for column, ((first, second), solution) in enumerate(zip(self._pairs, found, strict=True)):
            if solution is None:
                continue
            members = np.concatenate([self._members[first], self._members[second]])
            dense[members, column] = solution.coefficients
            levels[column] = solution.levels[0]
            steps[column] = solution.n_iter
        carries = np.asarray(dense.any(axis=1))
        support = np.concatenate([members[carries[members]] for members in self._members])
        coefficients = dense[support]
        rows = self.rows[support]
        return {
            "support_": rows.astype(np.int32),
            "n_support_": np.bincount(self._codes[support], minlength=self._n_classes).astype(
                np.int32
            ),
            "points_": points[rows].detached(),
            "dual_coef_": self._compact(coefficients, self._codes[support]),
            "_pair_coef": coefficients[:, 0] if len(self._pairs) == 1 else coefficients,
            "intercept_": levels,
            "n_iter_": steps,
        }

    def _compact(self, coefficients: Array, codes: NDArray[Any]) -> Array:
        """Of every row the coefficients of the pairs that its class is in."""
        compact = np.zeros((self._n_classes - 1, len(codes)))
        for column, (first, second) in enumerate(self._pairs):
            compact[second - 1, codes == first] = coefficients[codes == first, column]
            compact[first, codes == second] = coefficients[codes == second, column]
        return compact
