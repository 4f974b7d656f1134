"""Gaussian-process classification by Laplace's approximation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from mercer import memory
from mercer.arrays import Array
from mercer.checks import require_finite_values
from mercer.estimator.iterative import with_callbacks
from mercer.estimator.labels import checked_labels, class_weighted, require_two_classes
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.models.gaussian_process.base import FROM_SOME_ROWS, GaussianProcess
from mercer.models.gaussian_process.class_evidence import LandmarkLaplace, LaplaceObjective
from mercer.models.gaussian_process.search_space import warn_of
from mercer.models.representer import ScoredClassifier
from mercer.rows.rows import as_float64
from mercer.sampling import blocks
from mercer.solvers.forecast import Forecast
from mercer.solvers.likelihood import class_probabilities
from mercer.solvers.likelihood.gaussian import NOISE
from mercer.solvers.likelihood.laplace import Posterior
from mercer.solvers.protocol import TOO_LARGE, Cost, no_landmarks
from mercer.solvers.speed import LEAST_SECONDS, operations_per_second
from mercer.validity.required import require_positive

Labels = NDArray[Any]

# Memory for two classes in Gram matrices: the matrix, its factor and the weights of the gradient.
_BINARY_MATRICES = 3.2
# Memory for more classes in Gram matrices, beside one matrix per class.
_SOFTMAX_MATRICES = 5.2
# Matrices of features that a posterior on landmarks holds.
_FEATURE_MATRICES = 2.5
# Matrices of the order of all features that it holds.
_LANDMARK_MATRICES = 4
_FEWER_ROWS = "fit on fewer rows, and pass all to KernelLogisticRegression(gpc.kernel_, alpha=1.0)"
# Operations of a search over the cube and the square of its rows, of about ten evaluations.
_SEARCH_WORK, _SEARCH_OVERHEAD = 22.0, 2e4
# Operations of a search for each of several classes, over those for two.
_SOFTMAX_SEARCH = 3.0
# Operations of a posterior over the cube of the rows, or over rows and pairs of landmarks.
_POSTERIOR_WORK, _LANDMARK_WORK = 2.5, 12.0
# Rows up to which the posterior of one latent function is exact; more functions have fewer rows,
# for the same number of operations.
_EXACT_ROWS = 4_000
# Rows up to which hyper-parameters of one latent function are learned from all rows; more functions
# have fewer.
_SEARCH_ROWS = 2_000
# Largest number of landmarks of a latent function.
_LANDMARKS = 1_000
# Largest number of landmarks of all latent functions together.
_LANDMARKS_OF_ALL = 5_000
# Stop when a step on some of the rows gains less than this (nats).
_ENOUGH = 0.01
# Values in one block of kernel values between training and new points.
_BLOCK = 2**22
# Share of training rows whose label at the mode may differ from that on average.
_DISAGREEMENT = 0.1


class GaussianProcessClassifier(ScoredClassifier, GaussianProcess):
    r"""Gaussian-process classification, binary and multi-class, by Laplace's approximation.

    Latent functions are Gaussian processes with mean zero and the given kernel. Two classes share
    one function, P(second class | x) = sigma(f(x)); more have one function each,
    P(c | x) = exp f_c(x) / sum_d exp f_d(x), so that it is one model and not one against the rest.
    The posterior is approximated by a Gaussian at its mode, where

    .. math:: \hat f(x) = \sum_i k(x, x_i)\, \nabla \log p(y_i \mid \hat f(x_i)) .

    Free parameters of the kernel are learned: they maximise the approximate marginal likelihood

    .. math:: \log p(y \mid \hat f) - \tfrac12 \hat f^\top K^{-1} \hat f - \tfrac12 \log |I + K W|

    by L-BFGS with the exact gradient, W being the curvature of -log p(y | f) at the mode.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        The kernel; by default ``1.0 * RBF(length_scale="scale")``, of standardised columns if
        their spreads differ more than 30 times, or the `table_kernel` of a data frame with other
        columns than numbers or with missing values. Its
        amplitude matters: it says how sure the classifier may become. Numbers in the kernel are
        starting values, `Fixed` ones are held, `Bounded` ones stay within their bounds.
    learn : bool, default=True
        Whether to learn the kernel's free parameters; otherwise the kernel is used as it is.
    n_restarts : int, default=0
        How often the search starts again, at values drawn on the scale of the data.
    max_iter : int, default=200
        Iterations of L-BFGS-B from each start.
    class_weight : dict or "balanced", optional
        Factors of the log-likelihood of the rows of each class: "balanced" for factors that are
        inversely proportional to the number of rows of each class with a positive weight. A factor
        of 2 is every row of the class repeated, exactly. So factors far above 1 make the posterior
        too sure, and probabilities are those of a population with the weighted shares.
    random_state : int, RandomState or None, default=None
        Where the restarts come from.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted; those of rows of weight zero do not count.
    class_weight_ : ndarray of shape (n_classes,)
        The factors of the log-likelihood of each class.
    kernel_ : Kernel
        The kernel with learned parameters.
    log_marginal_likelihood_ : float
        Laplace's approximation of it at ``kernel_``.
    dual_coef_ : ndarray of shape (n,) or (n, n_classes)
        Coefficients of the latent functions over the training points; one function for two classes.
    intercept_ : float
        0.0: latent functions have mean zero.
    points_ : Points
        The training points, without rows of weight zero, or landmarks among them.
    rows_ : ndarray of shape (n,)
        The rows of X that they are.
    trace_error_ : float
        The share of the trace of the kernel matrix that landmarks leave out. Only if landmarks
        were used.
    theta_ : ndarray of shape (p,)
        The learned hyper-parameters, unconstrained: ``kernel_.theta``.
    theta_names_ : tuple of str
        Their names.
    at_bounds_ : tuple of str
        Parameters that ended at a bound, as ``"name (low)"`` or ``"name (high)"``.
    n_iter_ : int
        Iterations of the search, of all starts together.
    n_evaluations_ : int
        Evaluations of the marginal likelihood, of all starts together.
    converged_ : bool
        Whether the search ended at a maximum, Newton's method at a mode, and the Gaussian there
        can stand for the posterior: averages over it give nearly all training rows the labels that
        they have at the mode. False after an interrupt.
    gradient_norm_ : float
        Largest entry of the gradient of the marginal likelihood at ``theta_``, within the bounds.
    n_features_in_ : int
        Number of columns seen during fit, if the data have columns.
    feature_names_in_ : ndarray of str
        Names of columns seen during fit, if all are strings.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessClassifier : One against the rest for several classes.

    Notes
    -----
    With weights the log-likelihood is sum_i w_i log p(y_i | f(x_i)): a weight of 2 is a row
    repeated, exactly, and 0 a row removed.

    Beyond 2,000 rows, hyper-parameters are learned from 2,000 of them, with all classes in their
    shares. Beyond 4,000 rows the posterior sees the rows through at most 1,000 landmarks, and
    variances include what the landmarks leave out. More than two classes have fewer rows each, by
    the cube root of their number, for the same number of operations.

    A fit costs a few Cholesky factorisations for each evaluation of the marginal likelihood (as
    many times the number of classes if these are more than two), and one contraction with the
    gradient of the kernel, however many parameters this has. Nothing is ever inverted that would
    need jitter.

    References
    ----------
    .. [1] C. K. I. Williams, D. Barber (1998). Bayesian classification with Gaussian processes.
       IEEE Transactions on Pattern Analysis and Machine Intelligence 20(12).
    .. [2] C. E. Rasmussen, C. K. I. Williams (2006). Gaussian Processes for Machine Learning,
       chapters 3 and 5. MIT Press.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(-3, 3, 30)[:, None]
    >>> y = np.where(np.abs(X[:, 0]) < 1, "inside", "outside")
    >>> model = mc.GaussianProcessClassifier(4.0 * mc.RBF(), learn=False).fit(X, y)
    >>> model.predict([[0.0], [2.5]])
    array(['inside', 'outside'], dtype='<U7')
    >>> model.predict_proba([[0.0], [1.0], [9.0]]).round(2)
    array([[0.9 , 0.1 ],
           [0.54, 0.46],
           [0.5 , 0.5 ]])
    """

    classes_: Labels
    class_weight_: Array
    rows_: NDArray[np.intp]
    trace_error_: float
    _features: LandmarkFeatures | None
    _objective: LaplaceObjective
    _posterior: Posterior

    def __init__(
        self,
        kernel: KernelLike = None,
        *,
        learn: bool = True,
        n_restarts: int = 0,
        max_iter: int = 200,
        class_weight: Any = None,
        random_state: Any = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(
            kernel,
            learn=learn,
            n_restarts=n_restarts,
            max_iter=max_iter,
            random_state=random_state,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
        )
        self.class_weight = class_weight

    _for_blocks = (
        f"{FROM_SOME_ROWS}, and then all to KernelLogisticRegression(gpc.kernel_, alpha=1.0), "
        "which takes blocks"
    )

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the mode of the latent functions, and learn the kernel's free parameters.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data of the kind the kernel takes.
        y : array-like of shape (n,), or str
            Labels of any type, of at least two classes; or the name of their column in a data
            frame.
        sample_weight : array-like of shape (n,) or float, optional
            Non-negative weights of the rows in the log-likelihood.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_learning()
            objective = self._prepare(X, y, sample_weight)
            n, functions = objective.targets.shape
            rows, number = _sizes(objective.kernel, n, functions)
            sample = objective.sample(rows)
            model: Any = objective
            if number:
                model = LandmarkLaplace(objective, number, type(self).__name__, self.rows_)
            what = f"{type(self).__name__} on {n} rows and {len(self.classes_)} classes"
            memory.require(int(_bytes(n, functions, number)), what, _FEWER_ROWS)
            self._check_gram(sample if model is not objective else objective)
            search = None
            if self.learn and len(objective.theta):
                enough, pilot = None if sample is objective else _ENOUGH, sample.subsample()
                value_and_gradient = sample.value_and_gradient
                search = self._search(sample, value_and_gradient, enough=enough, subsample=pilot)
            with self._computing():
                known = {"classes_": self.classes_}
                optimum = self._learn(
                    X, y, objective, search, lambda theta: known | model.attributes(theta)
                )
                self.converged_ = False  # until the approximation is known to be good
                warning = self._approximation_warning()
            self.converged_ = optimum.converged and not warning
        warn_of(type(self).__name__, objective.space, optimum, warning)
        return self

    def _prepare(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> LaplaceObjective:
        """Validate the data, and resolve the kernel."""
        kernel = self._kernel_or_default(self.kernel, X)
        X = self._in_one_piece(X, y)
        points = self._validate_points(kernel, X, reset=True)
        labels = checked_labels(type(self).__name__, y, len(points))
        weights = self._validate_copies(sample_weight, labels)
        own_weights = class_weighted(type(self).__name__, self.class_weight, labels, weights)
        self.class_weight_, weights = own_weights
        rows = self.rows_ = np.arange(len(points)) if weights is None else np.flatnonzero(weights)
        if weights is not None and len(rows) < len(points):
            points, labels, weights = points[rows], labels[rows], weights[rows]
        self.classes_, codes = np.unique(labels, return_inverse=True)
        require_two_classes(type(self).__name__, self.classes_)
        n_classes = len(self.classes_)
        targets = np.eye(n_classes)[codes] if n_classes > 2 else codes[:, None].astype(np.float64)
        kernel = kernel.resolve(points, weights)
        # A copy: the marginal likelihood may be asked for later.
        own = None if weights is None else weights.astype(np.float64)
        return LaplaceObjective(kernel, points, targets, own)

    def _forecast_for(self, X: Any, y: ArrayLike | None) -> Forecast:
        """The cost of a search on some rows and of the posterior; of two classes without labels."""
        kernel = self._kernel_or_default(self.kernel, X)
        points = self._validate_points(kernel, X, reset=True)
        n, classes = len(points), 2 if y is None else len(np.unique(y))
        functions = classes if classes > 2 else 1
        rows, number = _sizes(kernel, n, functions)
        work = _POSTERIOR_WORK * n**3.0 if rows < n else 0.0
        work = _LANDMARK_WORK * n * number**2.0 if number else work
        search = (_SEARCH_WORK * rows + _SEARCH_OVERHEAD) * float(rows) ** 2
        work += self.learn * search * (1.0 if functions == 1 else _SOFTMAX_SEARCH)
        size = _bytes(n, functions, number)
        seconds = LEAST_SECONDS + functions * work / operations_per_second()
        obstacle = TOO_LARGE if size > memory.available() else ""
        cost = Cost(self, size, functions * work, 0.0, obstacle, seconds)
        return Forecast((cost,), self, "it has one way to be fitted")

    def _approximation_warning(self) -> str:
        """Why the approximation cannot be trusted; empty if it can."""
        remedy = "scale the data, or bound the kernel's amplitude with Bounded(value, low, high)"
        if not self._posterior.converged:
            return (
                f"Newton's method stopped after {self._posterior.n_iter} steps without reaching "
                f"the mode of the latent functions ({remedy})"
            )
        if len(self.classes_) == 2 or self.kernel_.input_tags()["pairwise"]:
            return ""
        latent = self._posterior.latent if self._features is None else self._values_at(self.points_)
        shares = class_probabilities.softmax_mean(
            latent, np.concatenate(list(self._covariances(self.points_)))
        )
        differ = latent.argmax(axis=1) != shares.argmax(axis=1)
        if differ.mean() <= _DISAGREEMENT:
            return ""
        return (
            f"Laplace's approximation fails: for {np.count_nonzero(differ)} of {len(differ)} "
            "training rows the class that is likeliest on average is not that at the mode, because "
            f"the latent functions vary too much ({remedy})"
        )

    def predict(self, X: Any) -> Labels:
        """Predict the most probable label.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m,)
            Labels: those with the largest entry in `predict_proba`.
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:
            # The variance does not move a probability across one half.
            codes = (self._function_values(X) > 0).astype(np.intp)
        else:
            codes = np.argmax(self.predict_proba(X), axis=1)
        return np.asarray(self.classes_[codes])

    def predict_proba(self, X: Any) -> Array:
        """Predict probabilities, averaged over the posterior of the latent functions.

        Averages are integrals by fixed nodes: there is no randomness. They are nearer to one half
        (to equality) than probabilities at the mode, the more so the less is known about x.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Probabilities in the order of `classes_`; rows sum to 1.
        """
        mean, covariance = self._latent(X, "predict_proba")
        if mean.ndim > 1:
            return class_probabilities.softmax_mean(mean, covariance)
        variance = covariance[:, 0, 0]
        return np.column_stack(
            [class_probabilities.logistic_mean(sign * mean, variance) for sign in (-1, 1)]
        )

    def predict_log_proba(self, X: Any) -> Array:
        """Predict the logarithms of probabilities.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        ndarray of shape (m, n_classes)
            Logarithms of `predict_proba`.
        """
        with np.errstate(divide="ignore"):
            logarithms: Array = np.log(self.predict_proba(X))
        return logarithms

    def latent_mean_and_variance(self, X: Any) -> tuple[Array, Array]:
        """Mean and variance of the latent functions under the approximate posterior.

        Parameters
        ----------
        X : array-like, data frame or sequence
            Data like those seen by `fit`.

        Returns
        -------
        mean : ndarray of shape (m,) or (m, n_classes)
            The means; two classes have one latent function, more have one for each.
        variance : ndarray of shape (m,) or (m, n_classes)
            The variances.
        """
        mean, covariance = self._latent(X, "latent_mean_and_variance")
        variance = np.einsum("mcc->mc", covariance)
        return mean, variance.reshape(mean.shape)

    def _predicted_places(self, points: Points) -> NDArray[np.intp]:
        if self.kernel_.input_tags()["pairwise"]:  # averages need k(x, x): take the mode
            return super()._predicted_places(points)
        return np.asarray(np.argmax(self.predict_proba(points), axis=1), dtype=np.intp)

    def _latent(self, X: Any, action: str) -> tuple[Array, Array]:
        """Means, and covariances of shape (m, C, C)."""
        check_is_fitted(self)
        points = self._validate_points(self.kernel_, X, reset=False)
        mean = np.asarray(self._values_at(points), dtype=np.float64)
        self._require_vectors(action)
        return mean, np.concatenate(list(self._covariances(points)))

    def _covariances(self, points: Points) -> Iterator[Array]:
        """Posterior covariances of blocks of points; no matrix of all pairs is stored."""
        for rows in blocks(len(points), step=max(1, _BLOCK // self.dual_coef_.size)):
            part = points[rows]
            prior = np.asarray(self.kernel_.diag(part), dtype=np.float64)
            if self._features is None:
                cross = np.asarray(self.kernel_(part, self.points_), dtype=np.float64)
            else:
                cross = np.asarray(self._features(as_float64(self.kernel_, part)), np.float64)
                prior = prior - np.einsum("ij,ij->i", cross, cross)
            # The transpose is in Fortran order, which LAPACK takes without a copy.
            yield self._posterior.curvature.covariance(cross.T, prior)

    def _check_gram(self, objective: LaplaceObjective) -> None:
        """Refuse a Gram matrix that is not finite or not positive semi-definite."""
        gram = objective.gram(objective.kernel)
        require_finite_values(gram, objective.kernel, f"{type(self).__name__}: ")
        require_positive(self, objective.kernel, gram, NOISE)


def _sizes(kernel: Kernel, n: int, functions: int) -> tuple[int, int]:
    """Rows that hyper-parameters are learned from, and landmarks of the posterior or 0."""
    order, pairwise = n * np.cbrt(functions), kernel.input_tags()["pairwise"]
    rows = n if order <= _SEARCH_ROWS else int(_SEARCH_ROWS / order * n)
    if order <= _EXACT_ROWS or pairwise or no_landmarks(kernel):
        return rows, 0
    return rows, max(1, min(_LANDMARKS, _LANDMARKS_OF_ALL // functions))


def _bytes(n: int, functions: int, landmarks: int) -> float:
    """The memory of a fit."""
    if landmarks:
        features = _FEATURE_MATRICES * n * landmarks
        return 8.0 * (features + _LANDMARK_MATRICES * (landmarks * functions) ** 2)
    matrices = _BINARY_MATRICES if functions == 1 else functions + _SOFTMAX_MATRICES
    return 8.0 * matrices * n * n
