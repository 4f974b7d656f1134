"""Signature kernels: inner products of all iterated integrals of two paths."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal

import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, NumericalWarning, warn
from mercer.kernels.base import Kernel
from mercer.kernels.dot_product import Linear
from mercer.kernels.heuristics import Scatter
from mercer.kernels.parameters import Choice, Integer, NonNegative, Positive
from mercer.kernels.points import Points
from mercer.kernels.series.alignment import typical_distance
from mercer.kernels.series.encoding import (
    Layout,
    Series,
    SeriesKernel,
    require_same_channels,
    values_of_pairs,
)
from mercer.kernels.structured import KernelParameter
from mercer.parallel import thread_count
from mercer.sampling import blocks

#: Number of series with which one is compared at once; a few batches of the engine.
_SERIES = 64
#: Number of values of the static kernel that are held at once.
_STATIC_VALUES = 2**21
#: Squared length of a step of the grid above which the equation is solved too coarsely.
_LONG_STEP = 0.25
#: Rounding error of k(x, x), which is at least 1, that is allowed.
_NORM_ERROR = 1e-3


class Signature(SeriesKernel):
    r"""Signature kernel: the inner product of the iterated integrals of two paths.

    .. math::

        k(x, y) = \sum_{m \ge 0} \langle S_m(x), S_m(y) \rangle, \qquad
        S_m(x) = \int_{t_1 < \dots < t_m} dx_{t_1} \otimes \dots \otimes dx_{t_m}

    A series is the path of straight lines between its points. Its signature does not depend on the
    place where the path begins, nor on the speed along it: a repeated point changes nothing. The
    kernel is positive semi-definite. Solved as an equation it has the error of the grid, which is
    large for long steps; a warning then names the ``refinement`` to take. Long or rough paths have
    large values: raise ``length_scale``, or take ``.normalized()``.

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
    static : Kernel, default=Linear()
        The kernel of single times, in whose feature space the paths run, such as ``RBF(1.0)`` or
        ``Matern(2.0)``, on any channels. The inner products of increments are double differences
        of its values.
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
            static: Kernel = ...,
            length_scale: float | Literal["median"] = 1.0,
            lead_lag: bool = False,
            time: float = 0.0,
            layout: str = "auto",
        ) -> None: ...

    depth = Integer(4, low=1, high=6)
    method = Choice("truncated", ("truncated", "pde"))
    refinement = Integer(0, low=0, high=8)
    static = KernelParameter(Linear())
    length_scale = Positive(1.0, heuristics=("median",), learned=False)
    lead_lag = Choice(False, (False, True))
    time = NonNegative(0.0, learned=False)
    layout = Layout()

    @property
    def is_psd(self) -> bool | None:
        """Whether the kernel is valid: exactly with a valid static kernel; not known for "pde"."""
        return True if self.static.is_psd and self.method == "truncated" else None

    def pairs(self, A: Series, B: Series) -> Array:
        """Return the kernel of all pairs."""
        K = _signatures(self, A, B) if _is_linear(self) else _static_signatures(self, A, B)
        if A is B:
            _require_norms(self, K.diagonal())
        return K

    def diagonal(self, A: Series) -> Array:
        """Return k(x, x) for every series."""
        if not _is_linear(self):
            singles = (A.take(slice(i, i + 1)) for i in range(len(A)))
            return np.array([self.pairs(x, x).item() for x in singles])
        norms = _signatures(self, A, None)
        _require_norms(self, norms)
        return norms

    def _prepared(self, series: Series) -> Series:
        paths = [_path(self, series[i] / self.length_scale) for i in range(len(series))]
        if self.method == "pde" and _is_linear(self):
            _warn_of_long_steps(self, paths)
        return Series.joined(paths, width=paths[0].shape[1])

    def _from_data(self, rule: str, scatter: Scatter) -> float:
        return typical_distance(scatter.spread())


def _require_norms(kernel: Signature, norms: Array) -> None:
    """Refuse squared norms below 1, the first term of each: rounding errors exceed the value."""
    least = float(np.min(norms, initial=1.0))
    if not least >= 1 - _NORM_ERROR:
        raise DataError(
            f"Signature: k(x, x) = {least:.3g} for a series, but it is at least 1: large terms of "
            f"both signs cancel; raise length_scale, now {kernel.length_scale:.3g}"
            + (", or refinement." if kernel.method == "pde" else ".")
        )


def _warn_of_long_steps(kernel: Signature, paths: list[Array]) -> None:
    """Warn of increments for which the equation is solved on too coarse a grid."""
    longest = max(float(np.square(steps).sum(axis=1).max(initial=0.0)) for steps in paths)
    needed = math.ceil(math.log(max(longest / _LONG_STEP, 1.0), 4))
    if needed > kernel.refinement:
        warn(
            f"Signature: steps of length {math.sqrt(longest):.2g} are too long for refinement = "
            f"{kernel.refinement}, so that values may be far off; pass refinement={needed}, or "
            "raise length_scale.",
            NumericalWarning,
        )


def _is_linear(kernel: Signature) -> bool:
    """Whether the paths run in the space of the channels."""
    return isinstance(kernel.static, Linear)


def _recurrence(kernel: Signature) -> tuple[str, int]:
    """The engine's name of the method, and its depth or refinement."""
    if kernel.method == "truncated":
        return "signature", kernel.depth
    return "signature_pde", kernel.refinement


def _signatures(kernel: Signature, A: Series, B: Series | None) -> Array:
    """The kernel of all pairs, or without B of each series with itself."""
    kind, level = _recurrence(kernel)
    return values_of_pairs(kernel, A, B, kind, level=level)


def _static_signatures(kernel: Signature, A: Series, B: Series) -> Array:
    """The kernel of all pairs, from blocks of values of the static kernel."""
    require_same_channels(kernel, A, B)
    K = np.empty((len(A), len(B)))
    for cols in blocks(len(B), step=_SERIES):
        others = B.take(cols).packed()
        times = kernel.static.prepare(others.values, copy=False)
        for i in range(cols.start if A is B else 0, len(A)):
            K[i, cols] = _row(kernel, A[i], others, times)
        if A is B:
            K[cols, cols.stop :] = K[cols.stop :, cols].T
            K[cols, cols] = np.tril(K[cols, cols]) + np.tril(K[cols, cols], -1).T
    return K


def _row(kernel: Signature, x: Array, others: Series, times: Points) -> Array:
    """The kernel of one series with others, whose times are points of the static kernel."""

    def values(begin: int, end: int) -> Array:
        block: Array = kernel.static(x[begin:end], times)
        return np.ascontiguousarray(block, dtype=np.float64)

    step = max(1, _STATIC_VALUES // len(others.values))
    kind, level = _recurrence(kernel)
    return _core.static_signature(
        kind, level, others.starts, others.ends, len(x), step, values, thread_count()
    )


def _path(kernel: Signature, points: Array) -> Array:
    """The points of a path, or its increments; the first increment is 0."""
    if kernel.lead_lag:
        twice = np.repeat(points, 2, axis=0)
        points = np.hstack([twice[1:], twice[:-1]])
    if kernel.time:
        points = np.column_stack([points, np.linspace(0.0, kernel.time, len(points))])
    return np.diff(points, axis=0, prepend=points[:1]) if _is_linear(kernel) else points
