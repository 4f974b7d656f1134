"""The kernel perceptron: learn from mistakes alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import unique_labels

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import shown, store
from mercer.estimator.iterative import with_callbacks, with_named_columns
from mercer.estimator.labels import checked_labels, class_weights, require_two_classes
from mercer.estimator.optional_methods import available_unless
from mercer.exceptions import DataError, NumericalWarning, ParameterError, as_data_errors, warn
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.models.online.base import (
    OnlineModel,
    Progress,
    TrainingRows,
    all_or_nothing,
    why_not_more,
)
from mercer.models.online.budgets import Budget
from mercer.models.online.expansion import BudgetedRowPass, KernelExpansion, RowPass, Rows
from mercer.models.representer import RepresenterClassifier

Codes = NDArray[np.intp]

# Passes over the rows unless max_iter is given.
_PASSES = 100


class KernelPerceptron(RepresenterClassifier, OnlineModel):
    r"""The kernel perceptron: a row that is classified wrongly is added to the function.

    For two classes, y = -1 or 1, a row with y f(x) <= 0 is a mistake, and f := f + w y k(x, .), w
    being its weight, 1 unless given. For more classes there is one function for each; a mistake is
    a row whose own class has not the largest value, and w k(x, .) is added to the function of its
    class and subtracted from that of the class with the largest value among the others.

    Parameters
    ----------
    kernel, batch_size, shuffle, random_state, degree, gamma, coef0
        As for `KernelLMS`.
    averaged : bool, default=False
        Whether to predict with the mean of the functions after each row, which mistakes at the end
        disturb less than the last function. With a budget only ``Quantize``, which forgets
        no point.
    budget : Budget, optional
        What bounds the number of points, such as ``mercer.budgets.Remove(100)``; by default nothing
        does.
    max_iter : int, optional
        The largest number of passes over the rows in `fit`, 100 by default; a pass without a
        mistake is the last.
    class_weight : dict or "balanced", optional
        Factors of the steps of each class: "balanced" for factors that are inversely proportional
        to the number of rows of each class with a positive weight, which `partial_fit` cannot know.

    Attributes
    ----------
    dual_coef_ : ndarray of shape (m,) or (m, n_classes)
        The coefficients of the points, those of the mean if `averaged`; one column for two classes.
    points_, rows_, kernel_, n_features_in_, feature_names_in_
        As for `KernelLMS`.
    intercept_ : float
        Always 0.0; add a ``Constant`` to the kernel for an offset.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    class_weight_ : ndarray of shape (n_classes,)
        The factors of the steps of each class.
    n_mistakes_ : int
        Mistakes so far, over all passes and calls.
    learning_curve_ : ndarray of shape (rows seen,)
        The number of mistakes up to each row, rows in the order in which they were met, without
        those of weight zero.
    n_iter_ : int
        Passes of the last `fit` or `partial_fit`.
    converged_ : bool
        Whether the last pass made no mistake.

    See Also
    --------
    KernelLMS : Online regression.

    Notes
    -----
    If some function of norm 1 has y f(x) >= gamma on all rows, and k(x, x) <= R^2, there are at
    most (R / gamma)^2 mistakes, whatever the order and the number of passes (Novikoff).
    The kernel values of a mini-batch are computed together; between two mistakes the function
    does not change, so the loop goes from mistake to mistake.

    References
    ----------
    .. [1] Y. Freund, R. E. Schapire (1999). Large margin classification using the perceptron
       algorithm. Machine Learning 37(3).
    .. [2] K. Crammer, Y. Singer (2003). Ultraconservative online algorithms for multiclass
       problems. JMLR 3.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]])
    >>> model = mc.KernelPerceptron(mc.RBF(length_scale=0.5)).fit(X, ["no", "no", "yes", "yes"])
    >>> model.predict(X).tolist(), model.n_mistakes_
    (['no', 'no', 'yes', 'yes'], 4)
    """

    averaged: bool
    class_weight: Any
    class_weight_: Array
    learning_curve_: NDArray[np.int64]
    n_mistakes_: int

    def __init__(
        self,
        kernel: KernelLike = None,
        *,
        averaged: bool = False,
        budget: Budget | None = None,
        batch_size: int | None = None,
        max_iter: int | None = None,
        class_weight: Any = None,
        shuffle: bool = False,
        random_state: Any = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Go over the rows until a pass makes no mistake, beginning with the function zero.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,), or str
            Labels of two or more classes, or the name of their column in a data frame.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows: factors of their steps. 0 is a row removed.

        Returns
        -------
        self
            The fitted estimator.
        """
        passes = self.max_iter or _PASSES
        with self._fitting():
            self._check_parameters()
            self._fit_passes(self._first_rows(X, y, sample_weight, None), passes, X, y)
        # An average needs no convergence, and a budget may prevent it.
        expected = not self.averaged and self.budget is None
        if expected and not self.converged_ and self.n_iter_ == passes:
            of_pass = len(self.learning_curve_) // passes
            mistakes = np.diff(self.learning_curve_, prepend=0)[-of_pass:].sum()
            warn(
                f"KernelPerceptron: still mistakes in the last of {passes} passes ({mistakes}); "
                "raise max_iter, pass averaged=True, or choose a kernel that separates "
                "the classes.",
                NumericalWarning,
            )
        return self

    @available_unless(why_not_more)
    @with_named_columns
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from further rows, once each, beginning with the function so far.

        If it fails or is interrupted, the model is as it was before.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, and like those of the first call.
        classes : array-like of shape (n_classes,), optional
            All labels that will ever come; needed in the first call, and the same in later ones.

        Returns
        -------
        self
            The estimator.
        """
        with all_or_nothing(self):
            self._check_parameters()
            if isinstance(self.class_weight, str):
                raise ParameterError(
                    f"KernelPerceptron.partial_fit: class_weight = {self.class_weight!r} counts all"
                    " rows, and more may come; pass a dict such as {0: 1.0, 1: 2.0}."
                )
            if not hasattr(self, "classes_"):
                training = self._first_rows(X, y, sample_weight, _listed_classes(classes))
            else:
                training = self._later_rows(X, y, sample_weight, classes)
            self._fit_rows(training, 1, lambda fitted: False)
        return self

    def _first_rows(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        classes: NDArray[Any] | None,
    ) -> TrainingRows:
        kernel = self._kernel_or_default(self.kernel, X)
        points = self._validate_points(kernel, self._in_one_piece(X, y), reset=True)
        labels = checked_labels(type(self).__name__, y, len(points))
        weights = self._validate_weights(sample_weight, labels)
        # A class whose rows all have weight zero is absent.
        counted = labels if weights is None else labels[weights > 0]
        self.classes_ = np.unique(counted) if classes is None else classes
        require_two_classes(type(self).__name__, self.classes_)
        self.kernel_ = kernel.resolve(points, weights)
        self.intercept_ = 0.0
        return self._training_rows(points, labels, weights)

    def _later_rows(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        classes: ArrayLike | None,
    ) -> TrainingRows:
        points = self._validate_points(self.kernel_, X, reset=False)
        labels = checked_labels(type(self).__name__, y, len(points))
        if classes is not None and not np.array_equal(_listed_classes(classes), self.classes_):
            raise DataError(
                f"KernelPerceptron.partial_fit: classes = {classes!r} are not those of the first "
                f"call, {self.classes_.tolist()}; leave them out, or fit again."
            )
        return self._training_rows(points, labels, self._validate_weights(sample_weight, labels))

    def _training_rows(
        self, points: Points, labels: NDArray[Any], weights: Array | None
    ) -> TrainingRows:
        """Rows with codes of their classes; rows of weight zero may have any label."""
        weights = np.ones(len(points)) if weights is None else weights
        unseen = np.setdiff1d(labels[weights > 0], self.classes_)
        if len(unseen):
            raise DataError(
                f"KernelPerceptron: y has the label {unseen.tolist()[0]!r}, which is not among the "
                f"classes {self.classes_.tolist()} of the first call; list it there in classes=."
            )
        counted = labels[weights > 0] if isinstance(self.class_weight, str) else self.classes_
        everything = np.arange(len(counted))
        of_classes = class_weights("KernelPerceptron", self.class_weight, counted, everything)
        codes, self.class_weight_ = np.searchsorted(self.classes_, labels), of_classes
        # A row of weight zero may have a label that comes after all others.
        return TrainingRows(points, codes, weights * np.append(of_classes, 1.0)[codes])

    @property
    def _outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _initial_state(self, training: TrainingRows) -> tuple[Array, tuple[NDArray[Any], ...]]:
        # When averaged, a second set of columns sums the coefficients times the rows before them.
        width = self._outputs * (1 + bool(self.averaged))
        if not hasattr(self, "points_"):
            return np.zeros((0, width)), ()
        if self._coef.shape[1] != width:
            raise ParameterError(
                f"KernelPerceptron.partial_fit: averaged = {self.averaged!r} was "
                f"{not self.averaged!r} in the first call; keep it, or fit again."
            )
        return self._coef, (np.diff(self.learning_curve_, prepend=0),)

    def _advance(self, progress: Progress, rows: Rows, training: TrainingRows) -> Progress:
        """Go from mistake to mistake: between two of them the function does not change."""
        f, k = progress.expansion, self._outputs
        assert isinstance(f, KernelExpansion)
        codes, weights = training.targets_and_weights(rows)
        seen = sum(map(len, progress.curve))
        row_pass = (
            RowPass(f, rows) if self.budget is None else BudgetedRowPass(f, rows, self.budget)
        )
        mistakes = np.zeros(len(rows), dtype=np.int64)
        row = 0
        while row < len(rows):
            wrong = _mistakes(row_pass.values[row:, :k], codes[row:])
            if not wrong.any():
                break
            row += int(np.argmax(wrong))
            mistakes[row] = 1
            step = weights[row] * _step(row_pass.values[row, :k], codes[row])
            if self.averaged:
                step = np.concatenate([step, (seen + row) * step])
            row_pass.add(row, step)
            row += 1
        return replace(progress, expansion=row_pass.result(), curve=(*progress.curve, mistakes))

    def _is_done(self, progress: Progress, n: int, passes: int) -> bool:
        return not progress.whole_curve[-n:].any()

    def _fitted(self, progress: Progress) -> dict[str, Any]:
        f = progress.expansion
        assert isinstance(f, KernelExpansion)
        curve = np.cumsum(progress.whole_curve)
        coef = f.coef[:, : self._outputs]
        if self.averaged:
            # After row s of T, a step at row s is part of T - s + 1 of the T functions.
            coef = coef - f.coef[:, self._outputs :] / len(curve)
        return {
            **f.dictionary(),
            "dual_coef_": coef[:, 0] if self._outputs == 1 else coef,
            "_coef": f.coef,
            "learning_curve_": curve,
            "n_mistakes_": int(curve[-1]),
            "n_iter_": progress.n_iter,
            "converged_": progress.converged,
        }

    def _check_parameters(self) -> None:
        self._check_online_parameters()
        checks.require_flags(self, "averaged")
        if self.averaged and self.budget is not None and self.budget.forgets:
            raise ParameterError(
                f"KernelPerceptron: averaged=True needs all points that it averages over, but "
                f"{self.budget!r} drops some; use Quantize, or averaged=False."
            )


def _listed_classes(classes: ArrayLike | None) -> NDArray[Any]:
    """The classes that the first call to partial_fit has to list."""
    if classes is None:
        raise DataError(
            "KernelPerceptron.partial_fit: classes must be passed on the first call to "
            "partial_fit; list all labels that will ever come."
        )
    with as_data_errors("KernelPerceptron"):
        listed = np.asarray(unique_labels(classes))
    if len(listed) < 2:
        raise DataError(
            f"KernelPerceptron.partial_fit: classes = {shown(listed.tolist())} lists only one "
            "class; list all labels that will ever come, at least two."
        )
    return listed


def _mistakes(scores: Array, codes: Codes) -> NDArray[np.bool_]:
    """Which rows are mistakes; a tie is one."""
    if scores.shape[1] == 1:
        return np.asarray((2 * codes - 1) * scores[:, 0] <= 0)
    rows = np.arange(len(codes))
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] <= others.max(axis=1))


def _step(scores: Array, code: int) -> Array:
    """The change of the coefficients of a row that is a mistake."""
    if len(scores) == 1:
        return np.array([2.0 * code - 1.0])
    step = np.zeros(len(scores))
    others = scores.copy()
    others[code] = -np.inf
    step[code], step[np.argmax(others)] = 1.0, -1.0
    return step
