"""Support vector machines that tell classes apart."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.callback import with_callbacks
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import compute_class_weight

from mercer.exceptions import DataError, ParameterError, as_data_errors
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.models.availability import offered_unless
from mercer.models.base import require_two_classes, shown
from mercer.models.labels import checked_labels
from mercer.models.svm.base import Similarity, SupportVectorMachine, Training
from mercer.models.svm.duals import Classes, Dual, Machine, NuClasses
from mercer.models.svm.probability import Calibration
from mercer.models.svm.schemes import Codes, Scheme, scheme_of
from mercer.models.svm.solving import solved
from mercer.solvers.smo import SymmetricMatrix

Array = NDArray[np.floating[Any]]

_SHAPES = ("ovr", "ovo")
_FOLDS = 5


class SupportVectorClassifier(ClassifierMixin, SupportVectorMachine):
    """Base of machines for classes: one function for each pair of classes, or for each class.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        A kernel, or one by scikit-learn's name.
    """

    class_weight: Any
    decision_function_shape: str
    break_ties: bool
    multi_class: str
    probability: bool
    random_state: Any

    @with_callbacks
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
            data, codes = self._prepared(X, y, sample_weight)
            everything = np.arange(len(codes))
            matrix, machines = self._fit_duals(X, y, data, self._duals(data, codes, everything))
            if self.probability:
                self._calibrate(matrix, data, codes, machines)
            del self._codes
        return self

    classes_: NDArray[Any]
    class_weight_: Array
    _codes: Codes
    _scheme: Scheme

    def _prepared(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Training, Codes]:
        """The rows that count and their classes, with what follows from them."""
        kernel, points = self._read_points(X)
        labels = checked_labels(type(self).__name__, y, len(points))
        data = self._training(kernel, points, sample_weight, labels)
        self.classes_, codes = np.unique(labels[data.rows], return_inverse=True)
        require_two_classes(type(self).__name__, self.classes_)
        self.class_weight_ = self._class_weights(labels[data.rows])
        self._codes = np.full(len(labels), -1)
        self._codes[data.rows] = codes
        self._scheme = scheme_of(len(self.classes_), self.multi_class)
        return data, codes

    def _duals(self, data: Training, codes: Codes, positions: Codes) -> list[Dual]:
        """The problems of all functions over some of the rows that count."""
        return [
            self._dual(data, codes, positions[chosen], signs)
            for chosen, signs in self._scheme.sides(codes[positions])
        ]

    @abstractmethod
    def _dual(self, data: Training, codes: Codes, positions: Codes, signs: Array) -> Dual:
        """The problem of one function, over some of the rows that count."""

    def _class_weights(self, labels: NDArray[Any]) -> Array:
        with as_data_errors(type(self).__name__):
            weights: Array = compute_class_weight(
                self.class_weight, classes=self.classes_, y=labels
            )
        if not (np.isfinite(weights).all() and (weights > 0).all()):
            raise ParameterError(
                f"{type(self).__name__}: class_weight = {shown(self.class_weight)} gives weights "
                f'{weights.tolist()}, which are not all finite and > 0; pass "balanced", or such a '
                "number for each class."
            )
        return weights

    def _order_of_support(self, support: Codes) -> Codes:
        """By class, as scikit-learn has it."""
        return np.argsort(self._codes[support], kind="stable")

    def _meaning(
        self, support: Codes, coefficients: Array, machines: Sequence[Machine]
    ) -> dict[str, Any]:
        codes = self._codes[support]
        return {
            "dual_coef_": self._scheme.layout(coefficients, codes),
            "intercept_": np.array([machine.intercept for machine in machines]),
            "n_support_": np.bincount(codes, minlength=len(self.classes_)).astype(np.int32),
            "n_iter_": np.array([machine.n_iter for machine in machines], dtype=np.int32),
            "dual_gap_": np.array([machine.gap for machine in machines]),
            "objective_": np.array([machine.objective for machine in machines]),
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
            class, whose largest is predicted; with ``decision_function_shape="ovo"`` one for each
            pair of classes, positive where it speaks for the first.
        """
        if self.decision_function_shape == "ovo":
            values = self._function_values(X)
            return values if len(self.classes_) > 2 else values[:, 0]
        return self._class_scores(X)

    def _class_scores(self, X: Any) -> Array:
        """One number for each class, of shape (m, n_classes), or one for two, of shape (m,)."""
        values = self._function_values(X)
        return self._scheme.scores(values)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict classes.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            The classes.
        """
        winners = self._winners(self._function_values(X))
        return np.asarray(self.classes_[winners])

    def _winners(self, values: Array) -> Codes:
        scores = self._scheme.scores(values)
        if self.break_ties and scores.ndim == 2:
            return np.argmax(scores, axis=1)
        return self._scheme.winners(values)

    # Probabilities --------------------------------------------------------------------------------

    def _calibrate(
        self,
        matrix: SymmetricMatrix,
        data: Training,
        codes: Codes,
        machines: Sequence[Machine],
    ) -> None:
        """Learn the slope of probabilities from machines that have not seen the rows."""
        near = [machine.coefficients(matrix.size) for machine in machines]
        values = np.empty((len(codes), len(machines)))
        for train, held in self._folds(codes):
            fitted = solved(matrix, self._duals(data, codes, train), self._options, near=near)
            for column, machine in enumerate(fitted):
                values[held, column] = machine.values(data.rows[held])
        found = Calibration.of(self._scheme.scores(values), codes, data.weights)
        self._calibration, self.calibration_error_ = found, found.error

    _calibration: Calibration

    def _folds(self, codes: Codes) -> Iterator[tuple[Codes, Codes]]:
        fewest = int(np.bincount(codes).min())
        if fewest < 2:
            raise DataError(
                f"{type(self).__name__}: probabilities are learned from rows that are left out, "
                "and a class has a single row; pass two or more of each, or probability=False."
            )
        folds = StratifiedKFold(min(_FOLDS, fewest), shuffle=True, random_state=self.random_state)
        yield from folds.split(np.empty((len(codes), 0)), codes)

    @offered_unless(lambda model: _why_no_probabilities(model))
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

    @offered_unless(lambda model: _why_no_probabilities(model))
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
        scores = self._class_scores(X)
        return self._calibration.log_probabilities(scores)

    # Explanations: the sum of what the functions say of a class -----------------------------------

    @property
    def _n_functions(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _predicted_places(self, points: Points) -> Codes:
        return self._winners(self._function_values(points))

    @property
    def _explained(self) -> tuple[Array, Array]:
        if len(self.classes_) == 2:
            return self._expansion, self.intercept_
        directions = self._scheme.directions
        return self._expansion @ directions, self.intercept_ @ directions

    # Parameters -----------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        self._check_shared()
        self._require_flags("break_ties", "probability")
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


class SVC(SupportVectorClassifier):
    r"""Support vector classification.

    For two classes, y being -1 and 1, f(x) = sum_i y_i a_i k(x, x_i) + b minimises

    .. math:: \tfrac12 \|f - b\|_k^2 + \sum_i C_i \max(0, 1 - y_i f(x_i)),

    by way of the dual problem of the a_i between 0 and C_i, in which every pair of rows is tested to
    second order [1]_. The rows with a_i > 0 are the support vectors. Code that was written for
    `sklearn.svm.SVC` runs as it is, and predicts the same.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel; it says what X may be. Or, as in scikit-learn, "rbf", "poly", "linear",
        "sigmoid", "precomputed", or a function of two matrices.
    C : float or dict, default=1.0
        The weight of errors; as a dict, that of each class.
    degree : int, default=3
        Of the kernel "poly".
    gamma : "scale", "auto" or float, default="scale"
        Factor of squared distances and of inner products, for kernels that are named: by default
        1 / (n_features Var(X)), for "auto" 1 / n_features.
    coef0 : float, default=0.0
        What "poly" and "sigmoid" add to the inner product.
    tol : float, default=1e-3
        How far a row may be from its condition of optimality.
    shrinking : bool, default=True
        For code written for scikit-learn; the solver always works on the rows that matter, and checks
        all of them at the end.
    cache_size : float, optional
        Megabytes for rows of the kernel matrix; by default what the memory allows.
    class_weight : dict or "balanced", optional
        What C is multiplied by for each class.
    max_iter : int, default=-1
        The largest number of steps for each function; -1 for 100 times the rows, and at least ten
        million.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes.
    break_ties : bool, default=True
        Whether classes with equal votes are told apart by their decision function. LIBSVM takes the
        first of them.
    probability : bool, default=False
        Whether to learn `predict_proba`, from machines that are fitted without each of five parts of
        the rows in turn, starting from the machine of all rows.
    random_state : int, RandomState or None, default=None
        For the five parts.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One function for each pair of classes, or for each class against the rest.
    verbose : bool, default=False
        For code written for scikit-learn; progress is shown by its callbacks.
    psd : {"raise", "clip", "flip", "shift", "ignore"}, optional
        What to do with a kernel matrix that is not positive semi-definite: refuse it, repair it
        (as `mercer.validity.repair` does), or take it as it is. By default kernels that
        are named are taken as they are, as in scikit-learn, and others refused.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, in order.
    support_ : ndarray of shape (n_support,)
        The rows of X that are support vectors, class by class.
    support_vectors_ : array-like of shape (n_support, n_features)
        These rows.
    n_support_ : ndarray of shape (n_classes,)
        How many of each class.
    dual_coef_ : ndarray of shape (n_classes - 1, n_support)
        y_i a_i of the support vectors; for more than two classes, in each column those against the
        other classes. One row for each class with ``multi_class="ovr"``.
    intercept_ : ndarray of shape (n_functions,)
        The constants b.
    class_weight_ : ndarray of shape (n_classes,)
        What C was multiplied by.
    n_iter_ : ndarray of shape (n_functions,)
        Steps.
    dual_gap_ : ndarray of shape (n_functions,)
        The objective is at most this much above its minimum, in its own units.
    objective_ : ndarray of shape (n_functions,)
        The value of the dual problem, which is minus the objective, up to the gap.
    converged_ : bool
        Whether all functions are as exact as `tol` asks.
    kernel_ : Kernel
        The kernel used, with all parameters numbers.
    points_ : Points
        The points that carry coefficients.
    rows_ : ndarray of int
        The rows of X that they are.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    NuSVC : With a bound on the share of errors in place of C.
    KernelMachineClassifier : Other losses; the hinge loss without this solver.

    References
    ----------
    .. [1] R.-E. Fan, P.-H. Chen, C.-J. Lin (2005). Working set selection using second order
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
        kernel: Kernel | str | Any = "rbf",
        C: float | Mapping[Any, float] = 1.0,
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        shrinking: bool = True,
        cache_size: float | None = None,
        class_weight: Any = None,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = True,
        probability: bool = False,
        random_state: Any = None,
        multi_class: Literal["ovo", "ovr"] = "ovo",
        verbose: bool = False,
        psd: Similarity | None = None,
    ) -> None:
        super().__init__(kernel)
        self.C = C
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.random_state = random_state
        self.multi_class = multi_class
        self.verbose = verbose
        self.psd = psd

    def _dual(self, data: Training, codes: Codes, positions: Codes, signs: Array) -> Dual:
        costs = self.class_weight_ * self._costs()
        return Classes(
            data.rows[positions], signs, data.weights[positions] * costs[codes[positions]]
        )

    def _costs(self) -> Array:
        """C for each class."""
        if not isinstance(self.C, Mapping):
            return np.full(len(self.classes_), float(self.C))
        missing = [label for label in self.classes_.tolist() if label not in self.C]
        if missing:
            raise ParameterError(
                f"{type(self).__name__}: C = {shown(self.C)} has nothing for the class "
                f"{missing[0]!r}; pass a number for each class."
            )
        return np.array([float(self.C[label]) for label in self.classes_.tolist()])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.C, Mapping):
            self._require_number("C", low=0.0, example="1.0")
            return
        for label, value in self.C.items():
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (number and np.isfinite(float(value)) and float(value) > 0):
                raise ParameterError(
                    f"{type(self).__name__}: C = {value!r} for the class {label!r} is not a finite "
                    "number > 0; pass for example 1.0."
                )


class NuSVC(SupportVectorClassifier):
    r"""Support vector classification with a bound on the share of errors.

    `nu` is at least the share of rows within the margin, or beyond it, and at most the share of
    support vectors [1]_. The machine is an `SVC` whose C follows from it.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel, or one by scikit-learn's name, as for `SVC`.
    nu : float, default=0.5
        Between 0 and 1; at most twice the share of the smaller of two classes.
    degree : int, default=3
        Of the kernel "poly".
    gamma : "scale", "auto" or float, default="scale"
        Factor of squared distances and of inner products, for kernels that are named.
    coef0 : float, default=0.0
        What "poly" and "sigmoid" add to the inner product.
    tol : float, default=1e-3
        How far a row may be from its condition of optimality.
    shrinking : bool, default=True
        For code written for scikit-learn; the solver always works on the rows that matter, and checks
        all of them at the end.
    cache_size : float, optional
        Megabytes for rows of the kernel matrix; by default what the memory allows.
    class_weight : dict or "balanced", optional
        What the weights of the rows of each class are multiplied by.
    max_iter : int, default=-1
        The largest number of steps for each function; -1 for the solver's own limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes.
    break_ties : bool, default=True
        Whether classes with equal votes are told apart by their decision function.
    probability : bool, default=False
        Whether to learn `predict_proba`, from machines that are fitted without each of five parts of
        the rows in turn, starting from the machine of all rows.
    random_state : int, RandomState or None, default=None
        For the five parts.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One function for each pair of classes, or for each class against the rest.
    verbose : bool, default=False
        For code written for scikit-learn; progress is shown by its callbacks.
    psd : {"raise", "clip", "flip", "shift", "ignore"}, optional
        What to do with a kernel matrix that is not positive semi-definite, as for `SVC`.

    See Also
    --------
    SVC : With a weight of errors; the fitted attributes are described there.

    References
    ----------
    .. [1] B. Schoelkopf, A. Smola, R. Williamson, P. Bartlett (2000). New support vector
       algorithms. Neural Computation 12.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> mc.NuSVC(mc.Linear(), nu=0.5).fit(X, y).predict([[0.5], [2.5]])
    array([0, 1])
    """

    def __init__(
        self,
        kernel: Kernel | str | Any = "rbf",
        nu: float = 0.5,
        *,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        shrinking: bool = True,
        cache_size: float | None = None,
        class_weight: Any = None,
        max_iter: int = -1,
        decision_function_shape: Literal["ovr", "ovo"] = "ovr",
        break_ties: bool = True,
        probability: bool = False,
        random_state: Any = None,
        multi_class: Literal["ovo", "ovr"] = "ovo",
        verbose: bool = False,
        psd: Similarity | None = None,
    ) -> None:
        super().__init__(kernel)
        self.nu = nu
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.tol = tol
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.probability = probability
        self.random_state = random_state
        self.multi_class = multi_class
        self.verbose = verbose
        self.psd = psd

    def _dual(self, data: Training, codes: Codes, positions: Codes, signs: Array) -> Dual:
        weights = data.weights[positions] * self.class_weight_[codes[positions]]
        sides = weights[signs > 0].sum(), weights[signs < 0].sum()
        largest = 2 * min(sides) / sum(sides)
        if float(self.nu) > largest * (1 + 1e-12):
            raise ParameterError(
                f"{type(self).__name__}: nu = {self.nu!r} is more than {largest:.3g}, twice the "
                "share of the smaller of two classes, so that no function has it (the specified nu "
                'is infeasible); lower nu, or pass class_weight="balanced".'
            )
        return NuClasses(data.rows[positions], signs, weights, float(self.nu))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._require_number("nu", low=0.0, high=1.0, example="0.5")
