"""K-means in the feature space of a kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin
from sklearn.cluster import KMeans
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import store
from mercer.estimator.by_blocks import BlockTransformer, by_blocks
from mercer.estimator.iterative import IterativeEstimator, with_callbacks
from mercer.exceptions import DataError, DataWarning, ShortFitWarning, warn
from mercer.gram import Gram
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.landmarks.features import LandmarkFeatures
from mercer.landmarks.kmeans_plus_plus import far_seeds
from mercer.landmarks.selection import require_no_noise, select_points
from mercer.sampling import random_numbers, seed_from

_SOLVERS = ("auto", "exact", "landmarks")
# Rows up to which "auto" is exact.
_EXACT_ROWS = 50_000
# Landmarks unless a number is given.
_LANDMARKS = 1000
# Share of the rows above which a change of labels costs as much as a new product.
_MANY = 0.5


@dataclass(frozen=True, eq=False)
class Clustering:
    """Labels of rows, with the sums from which distances to the means follow."""

    labels: NDArray[np.intp]  # (n,): the cluster of each row
    sums: Array  # (n, k): sum_j k(x_i, x_j) w_j over the rows j of each cluster
    inertia: float = np.inf  # the weighted sum of squared distances to the means
    n_iter: int = 0
    converged: bool = False


class KernelKMeans(
    ClassNamePrefixFeaturesOutMixin, BlockTransformer, ClusterMixin, IterativeEstimator
):
    r"""K-means clustering in the feature space of a kernel.

    Rows belong to the cluster with the nearest mean,

    .. math:: \lVert \varphi(x) - \mu_c \rVert^2 = k(x, x) - 2 \sum_i a_{ic}\, k(x, x_i) + q_c ,

    where the mean of cluster c has the coefficients :math:`a_{ic} = w_i / \sum_{j \in c} w_j` of
    its rows, and :math:`q_c` is its squared norm. Means and labels are computed in turn until no
    label changes. The kernel matrix is never stored: after the first product, only columns of rows
    whose labels change are computed.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        Any kernel; by default ``RBF(length_scale="columns")``, or `table_kernel` of a data frame
        with other columns than numbers or with missing values. It says what X may be.
    n_clusters : int, default=8
        The number of clusters.
    n_init : int, default=10
        The number of starts, each from seeds of k-means++ in feature space. The clustering with the
        least inertia is kept.
    max_iter : int, default=300
        The largest number of iterations of a start.
    solver : {"auto", "exact", "landmarks"}
        ``"landmarks"`` clusters the features of landmarks by k-means. ``"auto"`` is exact up to
        50,000 rows.
    n_landmarks : int, default=1000
        The number of landmarks.
    random_state : int, RandomState, Generator or None, default=0
        The random numbers of seeds and landmarks.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        The cluster of each training row, counted from 0.
    inertia_ : float
        The weighted sum of squared distances, in feature space, to the means.
    n_iter_ : int
        Iterations of the best start.
    converged_ : bool
        Whether the best start ended without a change of labels.
    dual_coef_ : ndarray of shape (m, n_clusters)
        The coefficients a of the means.
    norms_ : ndarray of shape (n_clusters,)
        The squared norms q of the means.
    kernel_ : Kernel
        The kernel used.
    points_ : Points
        The points that carry coefficients: the training rows or the landmarks.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number and the names of the input columns, if X has them.

    See Also
    --------
    mercer.SpectralClustering : The normalised cut.

    References
    ----------
    .. [1] I. Dhillon, Y. Guan, B. Kulis (2004). Kernel k-means, spectral clustering and normalized
       cuts. KDD.
    .. [2] D. Arthur, S. Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA.

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.datasets import make_circles
    >>> X, ring = make_circles(200, factor=0.3, noise=0.05, random_state=0)
    >>> model = mc.KernelKMeans(mc.RBF(0.3), n_clusters=2, random_state=0).fit(X)
    >>> from sklearn.metrics import adjusted_rand_score
    >>> bool(adjusted_rand_score(ring, model.labels_) > 0.9)
    True
    """

    labels_: NDArray[np.intp]
    inertia_: float
    n_iter_: int
    dual_coef_: Array
    norms_: Array
    kernel_: Kernel
    points_: Points

    def __init__(
        self,
        kernel: KernelLike = None,
        n_clusters: int = 8,
        *,
        n_init: int = 10,
        max_iter: int = 300,
        solver: Literal["auto", "exact", "landmarks"] = "auto",
        n_landmarks: int = _LANDMARKS,
        random_state: Any = 0,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence or Points
            Data of the kind the kernel takes.
        y : object, optional
            Ignored.
        sample_weight : array-like of shape (n,), optional
            Non-negative weights of the rows; a weight of 2 is a row repeated.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            kernel = self._kernel_or_default(self.kernel, X)
            points = self._validate_points(kernel, self._in_one_piece(X, None), reset=True)
            n = len(points)
            require_rows(type(self).__name__, self.n_clusters, n)
            given = self._validate_weights(sample_weight, np.empty(n))
            weights = np.ones(n) if given is None else given
            self.kernel_ = kernel.resolve(points)
            exact = self.solver == "exact" or (self.solver == "auto" and n <= _EXACT_ROWS)
            if exact:
                self._fit_exactly(points, weights, X, y)
            else:
                self._fit_landmarks(points, weights)
            self._warn()
        return self

    def _fit_exactly(self, points: Points, weights: Array, X: Any, y: Any) -> None:
        """Take the best of several starts, with coefficients of all rows."""
        problem = _Problem.of(self.kernel_, points, weights, self.n_clusters)
        rng = random_numbers(self.random_state, type(self).__name__)
        best: Clustering | None = None
        with self._iterations(X, y, self.n_init, "start") as report:
            for _ in range(self.n_init):
                clustering = problem.descend(problem.start(rng), self.max_iter)
                if best is None or clustering.inertia < best.inertia:
                    best = clustering
                kept = best
                self.__dict__.update(self._attributes(problem, kept))
                if report(lambda kept=kept: self._attributes(problem, kept)):  # type: ignore[misc]
                    break

    def _attributes(self, problem: _Problem, clustering: Clustering) -> dict[str, Any]:
        means = problem.memberships(clustering.labels)
        return {
            "points_": problem.points,
            "labels_": clustering.labels,
            "inertia_": clustering.inertia,
            "n_iter_": clustering.n_iter,
            "converged_": clustering.converged,
            "dual_coef_": means,
            "norms_": np.einsum(
                "ic,ic->c", means, clustering.sums / problem.masses(clustering.labels)
            ),
        }

    def _fit_landmarks(self, points: Points, weights: Array) -> None:
        """Cluster the features of landmarks; the means are sums over landmarks."""
        owner = type(self).__name__
        require_no_noise(self.kernel_, owner)
        rng = random_numbers(self.random_state, owner)
        count = min(self.n_landmarks, len(points))
        chosen = select_points(
            owner, self.kernel_, points, "rpcholesky", count, rng, sample_weight=weights
        )
        features = LandmarkFeatures.pivoted(self.kernel_, chosen.points)
        rows = features(points)
        clustering = KMeans(
            self.n_clusters, n_init=self.n_init, max_iter=self.max_iter, random_state=seed_from(rng)
        ).fit(rows, sample_weight=weights)
        self.points_ = features.points
        self.labels_ = clustering.labels_.astype(np.intp)
        self.n_iter_, self.converged_ = clustering.n_iter_, clustering.n_iter_ < self.max_iter
        self.dual_coef_ = features.to_coefficients(clustering.cluster_centers_.T)
        self.norms_ = np.square(clustering.cluster_centers_).sum(axis=1)
        self.inertia_ = float(weights @ self._distances(points).min(axis=1))

    def _distances(self, points: Points) -> Array:
        """Squared distances to the means."""
        cross = np.asarray(self.kernel_.gram(points, self.points_) @ self.dual_coef_, np.float64)
        own = np.asarray(self.kernel_.diag(points), dtype=np.float64)
        return np.maximum(own[:, None] - 2 * cross + self.norms_, 0.0)

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Find the cluster with the nearest mean.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,)
            The clusters, counted from 0.
        """
        return np.asarray(self.transform(X).argmin(axis=1), dtype=np.intp)

    def transform(self, X: Any) -> Array:
        """Compute distances to the means, in feature space.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n, n_clusters)
            The distances.
        """
        check_is_fitted(self, "points_")
        points = self._validate_points(self.kernel_, X, reset=False)
        distances = np.sqrt(self._distances(points))
        return distances.astype(self.kernel_.gram(points, self.points_).dtype, copy=False)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the sum of squared distances to the nearest means.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame or sequence
            Data of the type and columns passed to `fit`.
        y : object, optional
            Ignored.

        Returns
        -------
        float
        """
        return -float(np.square(self.transform(X).min(axis=1)).sum())

    @property
    def _n_features_out(self) -> int:
        return int(self.n_clusters)

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        for name, example in (("n_clusters", 8), ("n_init", 10), ("max_iter", 300)):
            checks.require_count(owner, name, getattr(self, name), example=example)
        checks.require_count(owner, "n_landmarks", self.n_landmarks, example=_LANDMARKS)
        checks.require_choice(owner, "solver", self.solver, _SOLVERS)

    def _warn(self) -> None:
        owner, used = type(self).__name__, len(np.unique(self.labels_))
        if used < self.n_clusters:
            warn(
                f"{owner}: the rows have {used} different points for the kernel, fewer than "
                f"n_clusters = {self.n_clusters}; other clusters are empty.",
                DataWarning,
            )
        if not self.converged_:
            warn(
                f"{owner}: labels still changed after {self.max_iter} iterations; raise max_iter.",
                ShortFitWarning,
            )


def require_rows(owner: str, n_clusters: int, n: int) -> None:
    """Refuse more clusters than rows."""
    if n_clusters > n:
        raise DataError(
            f"{owner}: n_clusters = {n_clusters}, but there are {n} rows; pass at most as many "
            "clusters as rows."
        )


@dataclass(frozen=True, eq=False)
class _Problem:
    """The rows of a clustering, and their kernel."""

    points: Points
    gram: Gram
    diagonal: Array  # (n,): k(x_i, x_i)
    weights: Array  # (n,)
    count: int  # the number of clusters

    @classmethod
    def of(cls, kernel: Kernel, points: Points, weights: Array, count: int) -> _Problem:
        diagonal = np.asarray(kernel.diag(points), dtype=np.float64)
        return cls(points, kernel.gram(points), diagonal, weights, count)

    def masses(self, labels: NDArray[np.intp]) -> Array:
        """The total weight of each cluster; 1 for a cluster without rows."""
        masses = np.bincount(labels, self.weights, self.count)
        return np.where(masses > 0, masses, 1.0)

    def memberships(self, labels: NDArray[np.intp]) -> Array:
        """The coefficients of the means: weights of rows, divided by the mass of their cluster."""
        return self._indicators(labels) / self.masses(labels)

    def _indicators(self, labels: NDArray[np.intp]) -> Array:
        matrix = np.zeros((len(labels), self.count))
        matrix[np.arange(len(labels)), labels] = self.weights
        return matrix

    def start(self, rng: np.random.RandomState) -> Clustering:
        """Labels by the nearest of far seeds, with their sums."""
        seeds = far_seeds(
            lambda rows: np.asarray(self.gram[:, rows], dtype=np.float64),
            self.diagonal,
            self.count,
            weights=self.weights,
            rng=rng,
            entries=lambda rows, cols: np.asarray(self.gram[rows, cols], dtype=np.float64),
        )
        cross = np.asarray(self.gram[:, seeds], dtype=np.float64)
        labels = np.argmin(self.diagonal[seeds] - 2 * cross, axis=1)
        return Clustering(labels, self._sums(labels))

    def _sums(self, labels: NDArray[np.intp]) -> Array:
        return np.asarray(self.gram @ self._indicators(labels), dtype=np.float64)

    def descend(self, clustering: Clustering, max_iter: int) -> Clustering:
        """Compute labels and means in turn until no label changes."""
        for step in range(1, max_iter + 1):
            distances = self._distances(clustering)
            labels = self._nearest(distances)
            inertia = float(self.weights @ distances[np.arange(len(labels)), clustering.labels])
            changed = np.flatnonzero(labels != clustering.labels)
            if not len(changed) or inertia >= clustering.inertia:
                return replace(
                    clustering,
                    inertia=min(inertia, clustering.inertia),
                    n_iter=step,
                    converged=True,
                )
            sums = self._updated(clustering, labels, changed)
            clustering = Clustering(labels, sums, inertia, step)
        return clustering

    def _distances(self, clustering: Clustering) -> Array:
        """Squared distances of all rows to the means; infinite to a cluster without rows."""
        masses = np.bincount(clustering.labels, self.weights, self.count)
        safe = np.where(masses > 0, masses, 1.0)
        within = np.bincount(
            clustering.labels,
            self.weights * clustering.sums[np.arange(len(clustering.labels)), clustering.labels],
            self.count,
        )
        distances = self.diagonal[:, None] - 2 * clustering.sums / safe + within / safe**2
        distances[:, masses <= 0] = np.inf
        return np.asarray(np.maximum(distances, 0.0))

    def _nearest(self, distances: Array) -> NDArray[np.intp]:
        """The nearest means; a cluster without rows gets the row that is farthest from its own."""
        labels: NDArray[np.intp] = np.argmin(distances, axis=1)
        own = self.weights * distances[np.arange(len(labels)), labels]
        for empty in np.setdiff1d(np.arange(self.count), labels):
            farthest = int(np.argmax(own))
            if own[farthest] > 0:
                labels[farthest], own[farthest] = empty, 0.0
        return labels

    def _updated(
        self, clustering: Clustering, labels: NDArray[np.intp], changed: NDArray[np.intp]
    ) -> Array:
        """The sums after a change of some labels, from the columns of these rows."""
        if len(changed) > _MANY * len(labels):
            return self._sums(labels)
        moved = np.zeros((len(changed), self.count))
        places, weights = np.arange(len(changed)), self.weights[changed]
        moved[places, labels[changed]] += weights
        moved[places, clustering.labels[changed]] -= weights
        return clustering.sums + np.asarray(self.gram.columns(changed) @ moved, dtype=np.float64)
