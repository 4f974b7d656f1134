"""Kernels that compare two series by alignments of their times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.spatial.distance import pdist

from mercer.arrays import AnyArray as Array
from mercer.kernels.heuristics import Scatter
from mercer.kernels.parameters import Integer, Positive
from mercer.kernels.series.encoding import Layout, Series, SeriesKernel, Window, values_of_pairs

#: Number of times from which the median distance between two of them is computed.
_TIMES = 1000


class GlobalAlignment(SeriesKernel):
    r"""Global alignment kernel: a sum over all alignments of two series, normalised.

    .. math::

        k(x, y) = \frac{K(x, y)}{\sqrt{K(x, x) K(y, y)}}, \qquad
        K(x, y) = \sum_{\pi} \prod_{(i, j) \in \pi} \frac{w_{ij} g_{ij}}{2 - w_{ij} g_{ij}}

    where :math:`g_{ij} = \exp(-|x_i - y_j|^2 / (2 \sigma^2))`, and :math:`\pi` runs over all
    alignments: paths from the first times to the last ones, by steps in x, in y or in both. The
    kernel is positive semi-definite. Its logarithm is computed first, so that series of any length
    neither overflow nor underflow. Values are float64.

    Parameters
    ----------
    sigma : float or "median"
        Width of the local kernel. ``"median"`` is the median distance between two times of the
        training series, times the square root of the median length. It is not learned by
        gradients; search it, for example with GridSearchCV.
    triangular : int, default=0
        Weights :math:`w_{ij} = \max(0, 1 - |i - j| / \mathrm{triangular})`; 0 for weights of 1.
        A band is faster. Series whose lengths differ by as much have the kernel 0.
    layout : {"auto", "time,channels", "channels,time"}
        The axes of series of two dimensions. ``"auto"`` refuses shapes that do not tell.

    References
    ----------
    Cuturi, Fast global alignment kernels, 2011.

    Examples
    --------
    >>> import mercer as mc
    >>> k = mc.GlobalAlignment(sigma=2.0)
    >>> k([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0], [2.0, 2.0, 2.0, 2.0]]).round(2)
    array([[1.  , 0.87, 0.06],
           [0.87, 1.  , 0.02],
           [0.06, 0.02, 1.  ]])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            sigma: float | Literal["median"] = "median",
            triangular: int = 0,
            layout: str = "auto",
        ) -> None: ...

    sigma = Positive("median", heuristics=("median",), learned=False)
    triangular = Integer(0, low=0)
    layout = Layout()
    psd = True

    def pairs(self, A: Series, B: Series) -> Array:
        """Return the kernel of all pairs."""
        mean = 0.5 * (A.items["norm"][:, None] + B.items["norm"])
        return np.asarray(np.exp(np.minimum(_log_alignments(self, A, B) - mean, 0.0)))

    def diagonal(self, A: Series) -> Array:
        """Return ones."""
        return np.ones(len(A))

    def _prepared(self, series: Series) -> Series:
        return series.with_item("norm", _log_alignments(self, series, None))

    def _from_data(self, rule: str, scatter: Scatter) -> float:
        sample: Series = scatter.spread()
        return typical_distance(sample) * float(np.sqrt(np.median(sample.lengths)))


def _log_alignments(kernel: GlobalAlignment, A: Series, B: Series | None) -> Array:
    """The logarithm of the sum over alignments."""
    sigma, band = kernel.sigma, kernel.triangular
    return values_of_pairs(kernel, A, B, "global_alignment", sigma=sigma, band=band)


def typical_distance(sample: Series) -> float:
    """The median distance between two times of any series; 1 if all are equal."""
    times = np.concatenate([sample[i] for i in range(len(sample))])
    rows = np.random.default_rng(0).choice(len(times), min(_TIMES, len(times)), replace=False)
    return _median(pdist(times[rows]))


def _median(distances: Array) -> float:
    """The median of those that are not 0; 1 if there are none."""
    positive = distances[distances > 0]
    return float(np.median(positive)) if len(positive) else 1.0


class _WarpingKernel(SeriesKernel):
    """Base of exp(-d(x, y) / scale), where the rule for the scale is the median of d."""

    def pairs(self, A: Series, B: Series) -> Array:
        """Return the kernel of all pairs."""
        return np.asarray(np.exp(-_distances(self, A, B) / self.scale))  # type: ignore[attr-defined]

    def diagonal(self, A: Series) -> Array:
        """Return ones."""
        return np.ones(len(A))

    def _from_data(self, rule: str, scatter: Scatter) -> float:
        sample = self._prepared(scatter.spread())
        return _median(_distances(self, sample, sample)[np.triu_indices(len(sample), 1)])


class DTW(_WarpingKernel):
    r"""Dynamic time warping: :math:`\exp(-d(x, y) / \mathrm{scale})`.

    :math:`d(x, y) = \min_\pi \sum_{(i, j) \in \pi} |x_i - y_j|^2` is the least cost of an
    alignment: a sum of squares, without a root. This function is not positive semi-definite in
    general. A support vector machine repairs or refuses it by its ``psd`` parameter;
    `GlobalAlignment` is the kernel of the same idea that is always valid.

    Parameters
    ----------
    window : int, optional
        Largest difference between two aligned times (a Sakoe-Chiba band), or the difference of the
        lengths if that is more. None for no limit.
    scale : float or "median"
        ``"median"`` is the median of d between two training series. It is not learned by
        gradients.
    layout : {"auto", "time,channels", "channels,time"}
        The axes of series of two dimensions. ``"auto"`` refuses shapes that do not tell.

    References
    ----------
    Sakoe and Chiba, Dynamic programming algorithm optimization for spoken word recognition, 1978.

    Examples
    --------
    >>> import mercer as mc
    >>> mc.DTW(scale=1.0)([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).round(3)
    array([[1.   , 1.   , 0.135],
           [1.   , 1.   , 0.368],
           [0.135, 0.368, 1.   ]])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            window: int | None = None,
            scale: float | Literal["median"] = "median",
            layout: str = "auto",
        ) -> None: ...

    window = Window(None, low=0)
    scale = Positive("median", heuristics=("median",), learned=False)
    layout = Layout()
    psd = False


class SoftDTW(_WarpingKernel):
    r"""Soft dynamic time warping: :math:`\exp(-D_\gamma(x, y) / \mathrm{scale})`.

    The cost :math:`d_\gamma(x, y) = -\gamma \log \sum_\pi \exp(-\sum_{(i, j) \in \pi}
    |x_i - y_j|^2 / \gamma)` replaces the minimum of `DTW` by a soft one. The divergence
    :math:`D_\gamma(x, y) = d_\gamma(x, y) - (d_\gamma(x, x) + d_\gamma(y, y)) / 2` is 0 for equal
    series, and not negative. With ``scale = gamma`` the kernel is a normalised sum over all
    alignments, for which it is not known whether it is always positive semi-definite. With another
    scale it may be indefinite. `GlobalAlignment` has a local kernel that makes it valid.

    Parameters
    ----------
    gamma : float, default=1.0
        Softness; the limit 0 is `DTW`.
    scale : float or "median"
        ``"median"`` is the median divergence between two training series. Neither is learned by
        gradients.
    layout : {"auto", "time,channels", "channels,time"}
        The axes of series of two dimensions. ``"auto"`` refuses shapes that do not tell.

    References
    ----------
    Cuturi and Blondel, Soft-DTW: a differentiable loss function for time-series, 2017. Blondel,
    Mensch and Vert, Differentiable divergences between time series, 2021.

    Examples
    --------
    >>> import mercer as mc
    >>> k = mc.SoftDTW(gamma=0.1, scale=1.0)
    >>> k([[0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]).round(3)
    array([[1.   , 0.896, 0.129],
           [0.896, 1.   , 0.377],
           [0.129, 0.377, 1.   ]])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            gamma: float = 1.0,
            scale: float | Literal["median"] = "median",
            layout: str = "auto",
        ) -> None: ...

    gamma = Positive(1.0, learned=False)
    scale = Positive("median", heuristics=("median",), learned=False)
    layout = Layout()

    def _prepared(self, series: Series) -> Series:
        norm = values_of_pairs(self, series, None, "soft_dtw", sigma=self.gamma)
        return series.with_item("norm", norm)


def _distances(kernel: _WarpingKernel, A: Series, B: Series) -> Array:
    """The cost of the best alignment of all pairs, or the divergence of soft costs."""
    if isinstance(kernel, DTW):
        band: Any = kernel.window
        return values_of_pairs(kernel, A, B, "dtw", band=-1 if band is None else band)
    gamma: float = kernel.gamma  # type: ignore[attr-defined]
    mean = 0.5 * (A.items["norm"][:, None] + B.items["norm"])
    costs = values_of_pairs(kernel, A, B, "soft_dtw", sigma=gamma) - mean
    # The engine counts costs in units of gamma log(2).
    return np.asarray(np.maximum(costs, 0.0) * (gamma * np.log(2.0)))
