"""Support vector machines for classification: SVC and NuSVC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from mercer import checks
from mercer.arrays import Float64Array as Array
from mercer.estimator.base import shown, store
from mercer.exceptions import ParameterError
from mercer.models.svm.base import Similarity, Training
from mercer.models.svm.duals import NuSvcDual, SvcDual
from mercer.models.svm.multiclass import SupportVectorClassifier
from mercer.models.svm.over_landmarks import (
    check_solver,
    learn_over_landmarks,
    require_rows_in_memory,
)

if TYPE_CHECKING:
    from mercer.models.svm.search import SVCSearch


class SVC(SupportVectorClassifier):
    r"""Support vector classification.

    For two classes, y being -1 and 1, f(x) = sum_i y_i a_i k(x, x_i) + b minimises

    .. math:: \tfrac12 \|f - b\|_k^2 + \sum_i C_i \max(0, 1 - y_i f(x_i)),

    by way of the dual problem in the a_i between 0 and C_i, two of which are improved at a time
    [1]_. The rows with a_i > 0 are the support vectors. Code that was written for
    `sklearn.svm.SVC` runs as it is. For two classes and a valid kernel it predicts the same, up to
    `tol`. Differences are ties of several classes (`break_ties`), the most probable class with
    ``probability=True``, and kernels that are not valid, such as "sigmoid".

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel; it says what X may be. Or, as in scikit-learn, "rbf", "poly", "linear",
        "sigmoid", "precomputed", or a function of two matrices. Further names are "laplacian",
        "matern", "cosine", "chi2" and "additive_chi2". Kernels of scikit-learn's Gaussian processes
        are taken too, with their bounds.
    C : float or dict, default=1.0
        The weight of errors; as a dict, that of each class. Infinite to allow none.
    degree : int, default=3
        Of the kernel "poly".
    gamma : "scale", "auto" or float, default="scale"
        Factor of squared distances and of inner products, for kernels that are named: by default
        1 / (n_features Var(X)), for "auto" 1 / n_features. The length-scale of "rbf" and "matern"
        is 1 / sqrt(2 gamma), that of "laplacian" 1 / gamma. "chi2" takes 1 by default.
    coef0 : float, default=0.0
        What "poly" and "sigmoid" add to the inner product.
    tol : float, default=1e-3
        How far a row may be from its condition of optimality.
    shrinking : bool, default=True
        For code written for scikit-learn: the solver always works on the rows that matter, and
        checks all of them at the end.
    cache_size : float, optional
        Megabytes for stored kernel values; by default half of the free memory. Values are stored
        for kernels that Python evaluates, and for rows with hundreds of columns if all values fit.
        Others are recomputed. The working set of the solver needs some memory in addition.
    class_weight : dict or "balanced", optional
        What C is multiplied by for each class: "balanced" for factors that are inversely
        proportional to the number of rows of each class with a positive weight.
    max_iter : int, default=-1
        The largest number of steps for each function; -1 for 100 times the rows, and at least ten
        million. If steps make slow progress with up to 4,400 rows, an interior-point method ends
        the fit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes.
    break_ties : bool, default=True
        Whether ties of votes are broken by the decision function. LIBSVM takes the
        first of them. Without effect with ``probability=True``.
    probability : bool, default=False
        Whether to learn `predict_proba`, from machines that are fitted without each of five parts
        of the rows in turn, starting from the machine of all rows. `predict` is its largest. Class
        weights, and a C of each class, count there as they do in the fit: the probabilities are
        those of a population in which each class is more frequent by this factor.
    random_state : int, RandomState, Generator or None, default=None
        For the five parts.
    multi_class : {"ovo", "ovr"}, default="ovo"
        One function for each pair of classes, or for each class against the rest.
    verbose : bool, default=False
        For code written for scikit-learn; progress is shown by its callbacks.
    solver : "auto", str or a solver, default="auto"
        ``mercer.solvers.NystromSolver(n_landmarks=1000)`` or ``Falkon``, and the names "nystrom"
        and "falkon" of these with their defaults, fit functions over
        landmarks, with the squared hinge loss C_i max(0, 1 - y_i f(x_i))^2, for many rows. Each of
        several classes is then separated from the rest. "auto" solves the dual problem, exactly.
    psd : {"raise", "clip", "flip", "shift", "ignore"}, optional
        What to do with a kernel matrix that is not positive semi-definite: refuse it, repair it
        (as `mercer.validity.repair` does), or take it as it is. By default kernels that
        are named are taken as they are, as in scikit-learn, and others refused. Of more than 4,096
        rows the matrix of 4,096 is checked.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, in order; a class whose rows all have the weight 0 is not among them.
    support_ : ndarray of shape (n_support,)
        The rows of X that are support vectors, class by class.
    support_vectors_ : array-like of shape (n_support, n_features)
        The support vectors: a float64 array, or a data frame if X was one and `kernel` is a kernel
        object.
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
        The primal objective of the function minus that of the dual problem: the function loses at
        most this much against the best one, in units of the objective. It is a bound if the kernel
        matrix is positive semi-definite. NaN if the kernel is known not to be valid, or if the
        values of 128 rows show that the problem is not convex.
    objective_ : ndarray of shape (n_functions,)
        The value of the dual problem, which is minus the objective, up to the gap. Not over
        landmarks.
    converged_ : bool
        Whether all functions are as exact as `tol` asks.
    fit_status_ : int
        0 if they are, and 1 if not.
    calibration_error_ : float
        By how much the probabilities of rows left out differ from the shares of the classes, in ten
        bins for each class: half the sum over classes of the weighted mean distance. Of many rows
        and classes, evenly spaced rows with 2**24 function values are read. Only with
        ``probability``.
    shape_fit_ : tuple of int
        The shape of X.
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
        kernel: Any = "rbf",
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
        solver: Any = "auto",
        psd: Similarity | None = None,
    ) -> None:
        store(self, locals())

    def path(
        self,
        X: Any,
        y: ArrayLike,
        Cs: Sequence[float],
        length_scales: Any = None,
        *,
        cv: Any = None,
        scoring: Any = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> SVCSearch:
        """Cross-validate C and length-scales, sharing what can be shared.

        Parameters
        ----------
        X, y, sample_weight, groups
            As for `SVCSearch.fit`.
        Cs, cv, scoring
            As for `SVCSearch`.
        length_scales : "auto", sequence, dict or None, default=None
            As for `SVCSearch`; by default they stay as they are.

        Returns
        -------
        SVCSearch
            Fitted, with ``cv_results_``; the model itself is left as it is.
        """
        # The search fits machines of this class.
        from mercer.models.svm.search import SVCSearch

        search = SVCSearch(self, Cs, length_scales, cv=cv, scoring=scoring)
        search.fit(X, y, sample_weight, groups=groups)
        return search

    def _learn(self, X: Any, y: ArrayLike, data: Training) -> None:
        if self.solver == "auto":
            super()._learn(X, y, data)
        else:
            learn_over_landmarks(self, y, data)

    def _prepared(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> Training:
        if self.solver != "auto":
            require_rows_in_memory(type(self).__name__, X)
        return super()._prepared(X, y, sample_weight)

    def _dual(self, data: Training) -> SvcDual:
        return SvcDual(*self._sides(data))

    def _costs(self) -> Array:
        """The C of each class, with its weight."""
        if not isinstance(self.C, Mapping):
            return np.asarray(self.class_weight_ * float(self.C))
        missing = [label for label in self.classes_.tolist() if label not in self.C]
        if missing:
            raise ParameterError(
                f"{type(self).__name__}: C = {shown(self.C)} has nothing for the class "
                f"{missing[0]!r}; pass a number for each class."
            )
        costs = [float(self.C[label]) for label in self.classes_.tolist()]
        return np.asarray(self.class_weight_ * np.array(costs))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not (isinstance(self.solver, str) and self.solver == "auto"):
            check_solver(self)
        of_classes = isinstance(self.C, Mapping)
        costs = {f"C[{k!r}]": v for k, v in self.C.items()} if of_classes else {"C": self.C}
        for name, value in costs.items():
            checks.require_number(type(self).__name__, name, value, high=np.inf)


class NuSVC(SupportVectorClassifier):
    r"""Support vector classification with a bound on the share of errors.

    `nu` is at least the share of rows within the margin, or beyond it, and at most the share of
    support vectors [1]_. The machine is an `SVC` whose C follows from it. Where the classes overlap
    more than `nu` allows, there is no margin: a warning says so, and ``converged_`` is False.

    Parameters
    ----------
    kernel : Kernel, str or callable, default="rbf"
        Any kernel, or one by scikit-learn's name, as for `SVC`.
    nu : float, default=0.5
        Between 0 and 1; at most twice the share of the smaller of two classes.
    class_weight : dict or "balanced", optional
        What the weights of the rows of each class are multiplied by. LIBSVM, and with it
        scikit-learn's class, takes no notice of it here.
    degree, gamma, coef0, tol, shrinking, cache_size, max_iter, verbose, psd
        As for `SVC`.
    decision_function_shape, break_ties, probability, random_state, multi_class
        As for `SVC`.

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
        kernel: Any = "rbf",
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
        store(self, locals())

    def _learn(self, X: Any, y: ArrayLike, data: Training) -> None:
        largest = self._dual(data).largest
        infeasible = largest[self.nu > largest * (1 + 1e-12)]
        if len(infeasible):
            raise ParameterError(
                f"{type(self).__name__}: nu = {self.nu!r} is more than {infeasible[0]:.3g}, twice "
                "the share of the smaller of two classes. No function has such a nu (the "
                'specified nu is infeasible); lower nu, or pass class_weight="balanced".'
            )
        super()._learn(X, y, data)

    def _dual(self, data: Training) -> NuSvcDual:
        return NuSvcDual(*self._sides(data), float(self.nu))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.require_number(type(self).__name__, "nu", self.nu, high=1.0, example=0.5)
