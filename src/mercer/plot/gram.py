"""The Gram matrix as a heat map, with rows in an order that shows structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, eigvalsh
from sklearn.utils import check_random_state

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError, DataTypeError, ParameterError
from mercer.kernels.names import KernelLike, kernel_of
from mercer.plot.canvas import BLUE, GREY, Display, numbers_of, readable_legend, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mercer.models.representer import RepresenterModel

Order = Literal["auto", "target", "spectral", "given"]

# Each order, with its words for the caption.
_ORDERS = {
    "target": "sorted by target",
    "spectral": "similar ones together",
    "given": "in the order given",
}
_OWNER = "GramDisplay"
_MAX_GROUPS = 12
# Share of the sum of eigenvalues by which they are counted.
_SHARE = 0.95


@dataclass(kw_only=True, eq=False, repr=False)
class GramDisplay(Display):
    """Heat map of a Gram matrix, with its eigenvalues on demand.

    The title says how many eigenvalues add up to 95% of their sum (of absolute values): few if
    most points are alike to the kernel, nearly all if each is similar to itself only.

    Parameters
    ----------
    matrix : ndarray of shape (m, m)
        Kernel values of the points shown, in their order.
    rows : ndarray of shape (m,)
        The indices of these points.
    n_points : int
        The number of all points; more than m if only a sample is shown.
    order : {"target", "spectral", "given"}
        The order of the points.
    groups : list of (label, int), optional
        The label and the length of each run of points with equal labels.
    title : str
        The title.

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The heat map.
    spectrum_ : matplotlib Line2D or None
        The eigenvalues, by size.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    Notes
    -----
    The spectral order sorts by the eigenvector of the second smallest eigenvalue of L = D - S
    (Fiedler's vector), S being the cosines of points in feature space, shifted to be non-negative,
    and D their row sums: it puts similar points close together.

    References
    ----------
    .. [1] J. E. Atkins, E. G. Boman, B. Hendrickson (1998). A spectral algorithm for seriation and
       the consecutive ones problem. SIAM Journal on Computing 28(1).

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.array([[0.0], [5.0], [0.1], [5.1]])
    >>> display = mc.plot.GramDisplay.from_kernel(mc.RBF(), X, ["a", "b", "a", "b"])
    >>> sorted(display.rows[:2].tolist())
    [0, 2]
    """

    matrix: Array
    rows: NDArray[np.intp]
    n_points: int
    order: str = "given"
    groups: list[tuple[str, int]] | None = None

    @classmethod
    def from_kernel(
        cls,
        kernel: KernelLike,
        X: Any,
        y: Any = None,
        *,
        order: Order = "auto",
        max_points: int = 500,
        random_state: Any = 0,
        ax: Axes | None = None,
        **image_kwargs: Any,
    ) -> Self:
        """Draw the Gram matrix of some points.

        Parameters
        ----------
        kernel : Kernel, str or callable
            The kernel, as estimators take it; length-scales such as "median" are computed from X.
        X : array-like, data frame, sequence or Points
            The points.
        y : array-like of shape (n,), optional
            Their targets or labels.
        order : {"auto", "target", "spectral", "given"}, default="auto"
            "target" sorts by y, and points of one label by the spectral order; "spectral" puts
            similar points together; "auto" is "target" if there is a y, else "spectral".
        max_points : int, default=500
            If there are more points, a random sample is shown, and the axis says so.
        random_state : int, RandomState or None, default=0
            The random numbers of the sample.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        **image_kwargs
            Passed to `plot`, for example ``eigenvalues=True``, and on to ``imshow``.
        """
        cls._require_matplotlib()
        kernel = kernel_of(_OWNER, kernel, X)
        rule = _rule(order, y)
        most = checks.require_count(_OWNER, "max_points", max_points, least=2, example=500)
        points = kernel.prepare(X)
        targets = None if y is None else numbers_of(y, len(points), _OWNER)
        chosen = np.arange(len(points))
        if len(points) > most:
            rng = check_random_state(random_state)
            chosen = np.sort(rng.choice(len(points), most, replace=False))
        matrix = kernel.resolve(points).gram(points)[chosen, chosen]
        if not np.isfinite(matrix).all():
            raise DataError(
                f"{_OWNER}: {kernel!r} gives a Gram matrix with NaN or infinity; scale the data."
            )
        labels = None if targets is None else targets[chosen]
        arranged = _arranged(matrix, labels, rule)
        display = cls(
            matrix=matrix[np.ix_(arranged, arranged)],
            rows=chosen[arranged],
            n_points=len(points),
            order=rule,
            groups=_groups(labels[arranged]) if rule == "target" and labels is not None else None,
            title=f"Gram matrix of {shortened(kernel.resolve(points))}",
        )
        return display.plot(ax, **image_kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: RepresenterModel, y: Any = None, *, ax: Axes | None = None, **kwargs: Any
    ) -> Self:
        """Draw the Gram matrix of a fitted model's kernel at its training points.

        Parameters
        ----------
        estimator : RepresenterModel
            A fitted model.
        y : array-like of shape (n,), optional
            Targets or labels of the points.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        **kwargs
            The other arguments of `from_kernel`.
        """
        remedy = "pass a model of mercer, or use GramDisplay.from_kernel(kernel, X)"
        cls._require_fitted(estimator, "kernel_", "points_", remedy=remedy)
        return cls.from_kernel(estimator.kernel_, estimator.points_, y, ax=ax, **kwargs)

    def plot(
        self, ax: Axes | None = None, *, eigenvalues: bool = False, **image_kwargs: Any
    ) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        eigenvalues : bool, default=False
            Whether to draw the eigenvalues in a second panel to the right.
        **image_kwargs
            Passed to ``imshow``, for example ``cmap`` or ``vmin``.
        """
        ax = self._draw_on(ax, (9.0, 4.2) if eigenvalues else None)
        sizes = np.sort(np.abs(eigvalsh(self.matrix.astype(np.float64))))[::-1]
        n_large = int(np.searchsorted(np.cumsum(sizes), _SHARE * sizes.sum()) + 1)
        held = f"{n_large} of {len(sizes)} eigenvalues hold {100 * _SHARE:g}%"
        ax.set_title(f"{ax.get_title()}\n{held}".strip(), fontsize="medium")
        self.image_ = ax.imshow(self.matrix, **(self._colours() | image_kwargs))
        self.figure_.colorbar(self.image_, ax=ax, label=r"$k(x_i, x_j)$")
        m = len(self.matrix)
        count = f"{m} of {self.n_points}" if m < self.n_points else m
        ax.set_xlabel(f"{count} point{'s' * (self.n_points > 1)}, {_ORDERS[self.order]}")
        if self.groups is None or len(self.groups) > _MAX_GROUPS:
            ax.set(xticks=[], yticks=[])
        else:
            self._mark_groups(ax)
        self.spectrum_ = self._draw_spectrum(ax, sizes, n_large) if eigenvalues else None
        return self

    def _draw_spectrum(self, ax: Axes, sizes: Array, n_large: int) -> Any:
        """Draw eigenvalues that are more than rounding, in axes to the right."""
        beside = self._split(ax, columns=2)
        drawn = sizes[sizes > sizes[0] * len(sizes) * np.finfo(np.float64).eps]
        (line,) = beside.plot(
            np.arange(1, len(drawn) + 1), drawn, "o-", color=BLUE, markersize=3, linewidth=1
        )
        label = f"{100 * _SHARE:g}% of the sum"
        beside.axvline(n_large, color=GREY, linestyle=":", linewidth=1, label=label)
        beside.set(xscale="log", yscale="log", xlabel="number", ylabel="eigenvalue")
        beside.set_title("eigenvalues, by absolute value", fontsize="medium")
        readable_legend(beside)
        return line

    def _colours(self) -> dict[str, Any]:
        """A colour scale from 0 up, or symmetric around 0 if there are negative values."""
        most = float(np.abs(self.matrix).max()) or 1.0
        signed = self.matrix.min() < -1e-9 * most
        return {
            "cmap": "RdBu_r" if signed else "viridis",
            "vmin": -most if signed else 0.0,
            "vmax": most,
            "interpolation": "nearest",
        }

    def _mark_groups(self, ax: Axes) -> None:
        assert self.groups is not None
        sizes = np.array([size for _, size in self.groups])
        ends = np.cumsum(sizes)
        centres, labels = ends - sizes / 2 - 0.5, [label for label, _ in self.groups]
        for end in ends[:-1]:
            ax.axhline(end - 0.5, color="white", linewidth=0.8)
            ax.axvline(end - 0.5, color="white", linewidth=0.8)
        ax.set(xticks=centres, yticks=centres, xticklabels=labels, yticklabels=labels)
        ax.tick_params(length=0)


def _rule(order: str, y: Any) -> str:
    checks.require_choice(_OWNER, "order", order, ("auto", *_ORDERS))
    if order == "target" and y is None:
        raise ParameterError(f'{_OWNER}: order = "target" needs targets; pass y.')
    if order == "auto":
        return "spectral" if y is None else "target"
    return order


def _arranged(matrix: Array, labels: NDArray[Any] | None, rule: str) -> NDArray[np.intp]:
    """The order of the rows of a matrix."""
    if rule == "given":
        return np.arange(len(matrix))
    seriation = _fiedler_order(matrix)
    if rule == "spectral" or labels is None:
        return seriation
    try:
        # A stable sort, so that the spectral order remains within a label.
        return seriation[np.argsort(labels[seriation], kind="stable")]
    except TypeError as error:
        raise DataTypeError(
            f'{_OWNER}: y cannot be sorted ({error}); pass labels of one type, or order="spectral".'
        ) from None


def _fiedler_order(matrix: Array) -> NDArray[np.intp]:
    n = len(matrix)
    if n < 3:
        return np.arange(n)
    length = np.sqrt(np.abs(matrix.diagonal()).astype(np.float64))
    length[length == 0] = 1.0
    similarity = matrix / np.outer(length, length)
    similarity -= similarity.min()
    laplacian = np.diag(similarity.sum(axis=1)) - similarity
    _, vectors = eigh(laplacian, subset_by_index=[1, 1])
    vector = vectors[:, 0]
    # The sign of an eigenvector is arbitrary: choose the one in which the first point comes early.
    return np.argsort(vector if vector[0] <= 0 else -vector, kind="stable")


def _groups(labels: NDArray[Any]) -> list[tuple[str, int]] | None:
    """Runs of equal labels; None for targets that are rarely equal."""
    starts = np.flatnonzero(np.append(True, labels[1:] != labels[:-1]))
    if len(starts) > max(_MAX_GROUPS, len(labels) // 4):
        return None
    sizes = np.diff(np.append(starts, len(labels)))
    return [(str(labels[i]), int(size)) for i, size in zip(starts, sizes, strict=True)]
