"""Classification with any convex loss, and logistic regression by name."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, log_softmax

from mercer.arrays import Array
from mercer.estimator.by_blocks import by_blocks
from mercer.estimator.labels import checked_labels, class_weighted, require_two_classes
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.names import KernelLike
from mercer.losses import ClassificationLoss, Logistic, Loss, Multinomial, PiecewiseLinear
from mercer.losses.checks import check_users_loss
from mercer.models.length_scales import Grid
from mercer.models.machine.base import KernelMachine
from mercer.models.machine.data import KinkedTask, SmoothTask, Task
from mercer.models.representer import RepresenterClassifier
from mercer.penalties import Penalty
from mercer.solvers.newton.row_losses import JointLoss, RowLoss, SingleLoss
from mercer.streams.stream_rows import StreamRows
from mercer.streams.targets import Labels


class _WithProbabilities:
    """A method that a classifier has if its loss estimates probabilities; else it says why not."""

    def __init__(self, method: Callable[..., Array]) -> None:
        self._method = method

    def __get__(self, model: KernelMachineClassifier | None, owner: type) -> Callable[..., Array]:
        if model is None:
            return self._method
        try:
            loss = model.__dict__.get("loss_") or model._checked_loss()
        except ParameterError as error:
            raise AttributeError(str(error)) from error
        if not (isinstance(loss, ClassificationLoss) and loss.has_probability):
            raise AttributeError(
                f"{type(model).__name__} has no {self._method.__name__}: loss = {loss!r} gives no "
                'probabilities; use decision_function, or loss="logistic", which gives them.'
            )
        return MethodType(self._method, model)


class KernelMachineClassifier(RepresenterClassifier, KernelMachine):
    r"""Classification with any convex loss.

    For two classes, y being -1 and +1, the function f(x) = sum_i a_i k(x, x_i) + b minimises

    .. math:: \sum_i w_i\, \ell(y_i, f(x_i)) + \alpha\, \Omega(\|f - b\|_k), \qquad
       \Omega(t) = t^2 / 2 \text{ by default,}

    and its sign is the prediction. For more classes there is one function each: jointly by the
    multinomial likelihood for the logistic loss, one class against the rest for others.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    loss : Loss or str, default="logistic"
        A loss for classes of `mercer.losses`, or a class of your own that derives from
        ``mercer.losses.ClassificationLoss``. The names "logistic", "hinge", "squared_hinge" and
        "exponential" stand for the losses, and ``mercer.losses.Multinomial()`` for "logistic".
    alpha : float, "loo" or "cv", default=1.0
        Positive weight of the penalty; for the logistic and the hinge loss, 1 / C. "loo" and "cv"
        take the alpha of `alphas` with the least mean loss at rows left out, as in
        `KernelMachineRegressor`.
    fit_intercept : bool, default=True
        Whether to fit the constants b, which are not penalised.
    alphas, length_scales
        As in `KernelMachineRegressor`.
    class_weight : dict or "balanced", optional
        Factors of the weights of the rows of each class: "balanced" for factors that are inversely
        proportional to the number of rows of each class with a positive weight. A factor of 2 is
        every row of the class repeated.
    penalty : Penalty, optional
        A strictly increasing function of the norm, of `mercer.penalties` or your own; by default
        half the square.
    tol : float, default=1e-8
        How small the gradient or the duality gap has to be, as in `KernelMachineRegressor`.
    max_iter : int, default=1000
        The largest number of steps, for each function that is fitted.
    solver : "auto", str or a solver, default="auto"
        How it is computed, as in `KernelMachineRegressor`.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, those of rows of weight zero left out.
    class_weight_ : ndarray of shape (n_classes,)
        The factors of the weights of each class.
    dual_coef_ : ndarray of shape (n,) or (n, n_classes)
        The coefficients a; zero for a row of weight zero.
    intercept_ : float or ndarray of shape (n_classes,)
        The constant b; 0.0 without an intercept.

    See Also
    --------
    KernelMachineRegressor : Real targets; the other fitted attributes are described there.
    KernelLogisticRegression : The logistic loss by another name.

    Examples
    --------
    >>> import mercer as mc
    >>> X = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    >>> y = ["same", "different", "different", "same"]
    >>> model = mc.KernelMachineClassifier(mc.RBF(length_scale=0.5), loss="hinge", alpha=0.1)
    >>> model.fit(X, y).predict([[0.1, 0.9], [0.9, 0.9]])
    array(['different', 'same'], dtype='<U9')
    """

    class_weight_: Array
    _kind = ClassificationLoss
    _smooth_loss = 'loss="squared_hinge"'
    _purpose = "classes"
    _example = "mercer.losses.Logistic()"
    _other = "KernelMachineRegressor"

    def __init__(
        self,
        kernel: KernelLike = None,
        loss: Loss | str = "logistic",
        alpha: float | Literal["loo", "cv"] = 1.0,
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Grid = None,
        class_weight: Any = None,
        penalty: Penalty | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        searched, named = (alphas, length_scales), (degree, gamma, coef0)
        super().__init__(
            kernel, alpha, fit_intercept, *searched, penalty, tol, max_iter, solver, named
        )
        self.class_weight = class_weight
        self.loss = loss

    @_WithProbabilities
    @by_blocks
    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, for losses that estimate them.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Rows that sum to 1, largest for the class that `predict` returns.
        """
        return np.asarray(np.exp(self.predict_log_proba(X)))

    @_WithProbabilities
    @by_blocks
    def predict_log_proba(self, X: Any) -> Array:
        """Logarithms of the probabilities, exact also where these are too small for a number.

        Parameters
        ----------
        X : array-like, data frame, sequence, Blocks or Dask collection
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Finite numbers, 0 or less.
        """
        values = self.decision_function(X)
        assert isinstance(self.loss_, ClassificationLoss)
        if values.ndim == 2 and isinstance(self.loss_, Logistic):
            return np.asarray(log_softmax(values, axis=1))
        odds = self.loss_.log_odds(values)
        if values.ndim == 1:
            return np.column_stack([log_expit(-odds), log_expit(odds)])
        # One class against the rest: of these probabilities, shares of their sum.
        return np.asarray(log_softmax(log_expit(odds), axis=1))

    def _checked_loss(self) -> Loss:
        loss = self._given_loss()
        return Logistic() if isinstance(loss, Multinomial) else super()._checked_loss()

    @property
    def _has_columns(self) -> bool:
        return len(self.classes_) > 2

    def _checked_targets(self, y: ArrayLike, n: int) -> NDArray[Any]:
        return checked_labels(type(self).__name__, y, n)

    def _validate_weights(
        self, sample_weight: ArrayLike | None, targets: NDArray[Any], *, any_range: bool = False
    ) -> Array | None:
        weights = super()._validate_weights(sample_weight, targets, any_range=any_range)
        owner = type(self).__name__
        own = class_weighted(owner, self.class_weight, targets, weights)
        self.class_weight_, weights = own
        return weights

    def _target_reader(self) -> Labels:
        return Labels(type(self).__name__, joint=isinstance(self.loss_, Logistic))

    def _row_losses(self, rows: StreamRows) -> tuple[tuple[RowLoss, ...], Array, float]:
        labels = rows.survey.targets
        if self.class_weight is not None:
            raise DataError(
                f"{type(self).__name__}: class_weight counts rows in memory, and they come in "
                "blocks; yield weights with the blocks, or pass arrays."
            )
        assert isinstance(labels, Labels)
        assert labels.classes is not None
        losses, outputs = self._losses(labels.classes)
        return losses, np.zeros(outputs), 1.0

    def _task(
        self, loss: ClassificationLoss, targets: NDArray[Any], weights: Array
    ) -> tuple[Task, float]:
        classes, codes = np.unique(targets, return_inverse=True)
        losses, outputs = self._losses(classes)
        constants = np.zeros(outputs)
        if len(losses) < outputs:
            return SmoothTask(losses, codes[:, None].astype(np.float64), weights, constants), 1.0
        positive = np.arange(outputs) if outputs > 1 else np.array([1])
        signs = np.where(codes[:, None] == positive, 1.0, -1.0)
        if isinstance(loss, PiecewiseLinear):
            return KinkedTask([loss] * outputs, signs, weights, constants), 1.0
        return SmoothTask(losses, signs, weights, constants), 1.0

    def _losses(self, classes: NDArray[Any]) -> tuple[tuple[RowLoss, ...], int]:
        """Losses of rows, and the number of functions: one for two classes, else one for each."""
        owner, self.classes_ = type(self).__name__, classes
        require_two_classes(owner, classes)
        check_users_loss(self.loss_, np.array([-1.0, 1.0]), owner)
        outputs = len(classes) if len(classes) > 2 else 1
        if outputs > 1 and isinstance(self.loss_, Logistic):
            return (JointLoss(outputs),), outputs
        return tuple(SingleLoss(self.loss_, j) for j in range(outputs)), outputs


class KernelLogisticRegression(KernelMachineClassifier):
    r"""Logistic regression with a kernel: probabilities of two or more classes.

    With a linear kernel it is logistic regression with C = 1 / alpha.

    Parameters
    ----------
    kernel, fit_intercept, alphas, length_scales, class_weight, penalty, tol, max_iter, solver
        As in `KernelMachineClassifier`.
    degree, gamma, coef0
        As in `KernelMachineClassifier`.
    alpha : float, "loo" or "cv", default=1.0
        Positive weight of the penalty, 1 / C; "loo" and "cv" choose it by the mean log-loss of rows
        left out.

    See Also
    --------
    KernelMachineClassifier : Any loss, with the same fitted attributes.

    References
    ----------
    .. [1] J. Zhu, T. Hastie (2005). Kernel logistic regression and the import vector machine.
       Journal of Computational and Graphical Statistics 14(1).

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    >>> model = mc.KernelLogisticRegression(mc.Linear(), alpha=0.1).fit(X, y)
    >>> model.predict_proba([[1.5]]).round(3)
    array([[0.5, 0.5]])

    The weight of the penalty, chosen by leave-one-out:

    >>> import numpy as np
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> chosen = mc.KernelLogisticRegression(alpha="loo").fit(X, np.sin(X[:, 0]) > 0.3)
    >>> chosen.alpha_ in chosen.alphas_, chosen.search_errors_.shape
    (True, (1, 25))
    """

    def __init__(
        self,
        kernel: KernelLike = None,
        alpha: float | Literal["loo", "cv"] = 1.0,
        fit_intercept: bool = True,
        *,
        alphas: ArrayLike | None = None,
        length_scales: Grid = None,
        class_weight: Any = None,
        penalty: Penalty | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        solver: Any = "auto",
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        searched, named = (alphas, length_scales), (degree, gamma, coef0)
        KernelMachine.__init__(
            self, kernel, alpha, fit_intercept, *searched, penalty, tol, max_iter, solver, named
        )
        self.class_weight = class_weight

    def _given_loss(self) -> Loss:
        return Logistic()
