"""Signature kernels: inner products of all iterated integrals of two paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from mercer.arrays import AnyArray as Array
from mercer.kernels.heuristics import Scatter
from mercer.kernels.parameters import Choice, Integer, NonNegative, Positive
from mercer.kernels.series.alignment import typical_distance
from mercer.kernels.series.encoding import Layout, Series, SeriesKernel, values_of_pairs


class Signature(SeriesKernel):
    r"""Signature kernel: the inner product of the iterated integrals of two paths.

    .. math::

        k(x, y) = \sum_{m \ge 0} \langle S_m(x), S_m(y) \rangle, \qquad
        S_m(x) = \int_{t_1 < \dots < t_m} dx_{t_1} \otimes \dots \otimes dx_{t_m}

    A series is the path of straight lines between its points. Its signature does not depend on the
    place where the path begins, nor on the speed along it: a repeated point changes nothing. The
    kernel is positive semi-definite; solved as an equation it is so up to the error of the grid.
    Long or rough paths have large values: raise ``length_scale``, or take ``.normalized()``.

    Parameters
    ----------
    depth : int, default=4
        Number of levels m of the method ``"truncated"``, at most 6.
    method : {"truncated", "pde"}
        ``"truncated"`` computes levels up to ``depth``, exactly. ``"pde"`` computes all levels,
        as the solution of a Goursat equation by finite differences of second order.
    refinement : int, default=0
        The method ``"pde"`` divides each step into :math:`2^\mathrm{refinement}`; each unit takes
        four times as long.
    base : {"linear", "rbf"}
        The kernel of single points, in whose feature space the paths run. For ``"rbf"`` the inner
        products of increments are double differences of its matrix.
    length_scale : float or "median", default=1.0
        Divides the series. ``"median"`` is the median distance between two times of the training
        series. It is not learned by gradients; search it, for example with GridSearchCV.
    lead_lag : bool, default=False
        Whether the path is that of the series beside itself one step later, which shows its
        quadratic variation.
    time : float, default=0.0
        Length of a channel that rises evenly from 0, so that speed counts; 0 for none.
    layout : {"auto", "time,channels", "channels,time"}
        The axes of series of two dimensions. ``"auto"`` refuses shapes that do not tell.

    References
    ----------
    Kiraly and Oberhauser, Kernels for sequentially ordered data, 2019. Salvi, Cass, Foster, Lyons
    and Yang, The signature kernel is the solution of a Goursat PDE, 2021.

    Examples
    --------
    >>> import mercer as mc
    >>> k = mc.Signature(depth=2)
    >>> k([[0.0, 1.0, 1.0], [0.0, 1.0, 2.0], [5.0, 5.5, 6.0]])
    array([[2.25, 4.  , 2.25],
           [4.  , 9.  , 4.  ],
           [2.25, 4.  , 2.25]])
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            depth: int = 4,
            method: Literal["truncated", "pde"] = "truncated",
            refinement: int = 0,
            base: Literal["linear", "rbf"] = "linear",
            length_scale: float | Literal["median"] = 1.0,
            lead_lag: bool = False,
            time: float = 0.0,
            layout: str = "auto",
        ) -> None: ...

    depth = Integer(4, low=1, high=6)
    method = Choice("truncated", ("truncated", "pde"))
    refinement = Integer(0, low=0, high=8)
    base = Choice("linear", ("linear", "rbf"))
    length_scale = Positive(1.0, heuristics=("median",), learned=False)
    lead_lag = Choice(False, (False, True))
    time = NonNegative(0.0, learned=False)
    layout = Layout()
    psd = True

    def pairs(self, A: Series, B: Series) -> Array:
        """Return the kernel of all pairs."""
        return _signatures(self, A, B)

    def diagonal(self, A: Series) -> Array:
        """Return k(x, x) for every series."""
        return _signatures(self, A, None)

    def _prepared(self, series: Series) -> Series:
        paths = [_path(self, series[i] / self.length_scale) for i in range(len(series))]
        return Series.joined(paths, width=paths[0].shape[1])

    def _from_data(self, rule: str, scatter: Scatter) -> float:
        return typical_distance(scatter.spread())


def _signatures(kernel: Signature, A: Series, B: Series | None) -> Array:
    """The kernel of all pairs, or without B of each series with itself."""
    truncated = kernel.method == "truncated"
    kind, level = ("signature", kernel.depth) if truncated else ("signature_pde", kernel.refinement)
    return values_of_pairs(kernel, A, B, kind, level=level, gaussian=kernel.base == "rbf")


def _path(kernel: Signature, points: Array) -> Array:
    """The points of a path, or its increments; the first increment is 0."""
    if kernel.lead_lag:
        twice = np.repeat(points, 2, axis=0)
        points = np.hstack([twice[1:], twice[:-1]])
    if kernel.time:
        points = np.column_stack([points, np.linspace(0.0, kernel.time, len(points))])
    return np.diff(points, axis=0, prepend=points[:1]) if kernel.base == "linear" else points
