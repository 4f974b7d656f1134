"""Spectral clustering: the normalised cut of a kernel."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClusterMixin
from sklearn.cluster import KMeans
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from mercer import checks
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator, store
from mercer.estimator.by_blocks import by_blocks
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.linalg.eigenpairs import leading_eigenpairs
from mercer.models.clustering.kernel_kmeans import require_rows
from mercer.sampling import blocks, random_numbers, seed_from

# Rows whose kernel values are checked for negative ones.
_SAMPLE = 1000
# Rows up to which the matrix is stored, which takes 128 MB.
_STORED_ROWS = 4096


class SpectralClustering(ClusterMixin, KernelEstimator):
    r"""Clusters with few and weak links between them: the normalised cut.

    Rows are the nodes of a graph, and kernel values the weights of its links. With degrees
    :math:`d_i = \sum_j k(x_i, x_j)`, the leading eigenvectors u of

    .. math:: D^{-1/2} K D^{-1/2} u = \lambda u

    place row i at :math:`e_i = u_i / \sqrt{d_i}`, and k-means clusters these places. A new row has
    the place :math:`e(x) = \lambda^{-1} \sum_j k(x, x_j)\, e_j / \sum_j k(x, x_j)`, the equation
    that training rows satisfy, so that `predict` takes rows that were not clustered.

    Parameters
    ----------
    kernel : Kernel, str or callable, optional
        A kernel without negative values; by default ``RBF(length_scale="columns")``, or
        `table_kernel` of a data frame with other columns than numbers or with missing values. It
        says what X may be.
    n_clusters : int, default=8
        The number of clusters.
    n_neighbors : int, optional
        If given, only each row and its nearest rows in feature space are linked, this many
        together, all with the same weight. It is the usual choice for clusters of other shapes than
        balls. By default all rows are linked.
    n_init : int, default=10
        The number of starts of k-means.
    random_state : int, RandomState, Generator or None, default=0
        The random numbers.
    degree, gamma, coef0 : int, float or str, and float
        Of a kernel that is named, as in `SVC`.

    Attributes
    ----------
    labels_ : ndarray of shape (n,)
        The cluster of each training row, counted from 0.
    embedding_ : ndarray of shape (n, n_clusters)
        The places e.
    eigenvalues_ : ndarray of shape (n_clusters,)
        The eigenvalues, descending; as many are 1 as there are parts without links between them.
    cluster_centers_ : ndarray of shape (n_clusters, n_clusters)
        The means of the places of each cluster.
    kernel_ : Kernel
        The kernel used.
    points_ : Points
        The training rows.
    n_features_in_, feature_names_in_ : int, ndarray of str
        The number and the names of the input columns, if X has them.

    See Also
    --------
    mercer.KernelKMeans : Clusters around means.
    sklearn.cluster.SpectralClustering : Without `predict`.

    References
    ----------
    .. [1] J. Shi, J. Malik (2000). Normalized cuts and image segmentation. IEEE Transactions on
       Pattern Analysis and Machine Intelligence 22(8).

    Examples
    --------
    >>> import mercer as mc
    >>> from sklearn.datasets import make_moons
    >>> X, moon = make_moons(200, noise=0.05, random_state=0)
    >>> model = mc.SpectralClustering(mc.RBF(), 2, n_neighbors=10, random_state=0).fit(X)
    >>> from sklearn.metrics import adjusted_rand_score
    >>> bool(adjusted_rand_score(moon, model.labels_) > 0.9)
    True
    >>> bool((model.predict(X[:5]) == model.labels_[:5]).all())
    True
    """

    labels_: NDArray[np.intp]
    embedding_: Array
    eigenvalues_: Array
    cluster_centers_: Array
    kernel_: Kernel
    points_: Points

    def __init__(
        self,
        kernel: KernelLike = None,
        n_clusters: int = 8,
        *,
        n_neighbors: int | None = None,
        n_init: int = 10,
        random_state: Any = 0,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the clusters.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence or Points
            Data of the kind the kernel takes.
        y : object, optional
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._fitting():
            self._check_parameters()
            owner = type(self).__name__
            kernel = self._kernel_or_default(self.kernel, X)
            points = self._validate_points(kernel, self._in_one_piece(X, None), reset=True)
            n = len(points)
            require_rows(owner, self.n_clusters, n)
            self.kernel_, self.points_ = kernel.resolve(points), points
            rng = random_numbers(self.random_state, owner)
            links = self._links()
            root = np.sqrt(_positive(owner, np.asarray(links @ np.ones(n), np.float64)))[:, None]
            values, vectors = leading_eigenpairs(
                lambda V: np.asarray(links @ (V / root)) / root,
                n,
                self.n_clusters,
                rng,
                owner=owner,
            )
            self.eigenvalues_, self.embedding_ = values, vectors / root
            means = KMeans(self.n_clusters, n_init=self.n_init, random_state=seed_from(rng))
            self.labels_ = means.fit_predict(self.embedding_).astype(np.intp)
            self.cluster_centers_ = means.cluster_centers_
        return self

    def _links(self) -> Any:
        """The weights of links between training rows: a matrix, stored if it is small."""
        owner, points = type(self).__name__, self.points_
        if self.n_neighbors is not None:
            links = _neighbours(self.kernel_, points, points, self.n_neighbors)
            return sp.csr_array(0.5 * (links + links.T))
        some = points[: min(len(points), _SAMPLE)]
        if float(np.min(self.kernel_(some, some))) < 0:
            raise DataError(
                f"{owner}: {self.kernel_!r:.80} has negative values, which are no weights of "
                "links; pass a kernel without them, such as RBF(), or n_neighbors=."
            )
        gram = self.kernel_.gram(points)
        return gram.toarray() if len(points) <= _STORED_ROWS else gram

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Find the clusters of rows, by their places among the training rows.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, sequence, Blocks or Dask collection
            Data of the type and columns passed to `fit`.

        Returns
        -------
        ndarray of shape (n,)
            The clusters, counted from 0.
        """
        check_is_fitted(self, "points_")
        points = self._validate_points(self.kernel_, X, reset=False)
        columns = np.column_stack([np.ones(len(self.points_)), self.embedding_])
        if self.n_neighbors is None:
            sums = np.asarray(self.kernel_.gram(points, self.points_) @ columns, np.float64)
        else:
            sums = _neighbours(self.kernel_, points, self.points_, self.n_neighbors) @ columns
        degrees = _positive(type(self).__name__, sums[:, 0])
        places = sums[:, 1:] / degrees[:, None] / self.eigenvalues_
        return np.asarray(pairwise_distances_argmin(places, self.cluster_centers_), dtype=np.intp)

    def _check_parameters(self) -> None:
        owner = type(self).__name__
        checks.require_count(owner, "n_clusters", self.n_clusters, example=8)
        checks.require_count(owner, "n_init", self.n_init, example=10)
        if self.n_neighbors is not None:
            checks.require_count(owner, "n_neighbors", self.n_neighbors, least=2, example=10)


def _neighbours(kernel: Kernel, rows: Points, points: Points, count: int) -> Any:
    """A sparse matrix with ones at the nearest points, in feature space, of each row."""
    count = min(count, len(points))
    own = np.asarray(kernel.diag(points), dtype=np.float64)
    nearest = []
    for part in blocks(len(rows), width=len(points)):
        distances = own - 2 * np.asarray(kernel(rows[part], points), dtype=np.float64)
        nearest.append(np.argpartition(distances, count - 1, axis=1)[:, :count])
    columns = np.concatenate(nearest).ravel()
    starts = np.arange(0, len(columns) + 1, count)
    return sp.csr_array((np.ones(len(columns)), columns, starts), shape=(len(rows), len(points)))


def _positive(owner: str, degrees: Array) -> Array:
    """Degrees; rows without any link are refused."""
    lonely = np.flatnonzero(~(degrees > 0))
    if len(lonely):
        raise DataError(
            f"{owner}: row {lonely[0]} has no link to any row, since all its kernel values are 0; "
            "raise the length-scale, pass n_neighbors=, or drop the row."
        )
    return degrees
