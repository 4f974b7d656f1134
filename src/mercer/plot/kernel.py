"""A kernel of one input: its values, and functions drawn from its Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, toeplitz
from sklearn.utils import check_random_state

from mercer import checks
from mercer.arrays import Array
from mercer.exceptions import DataError
from mercer.kernels.base import Kernel
from mercer.kernels.names import NAMES, KernelLike, kernel_of
from mercer.plot.canvas import (
    BLUE,
    COLOURS,
    Display,
    Numbers,
    readable_legend,
    shortened,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "KernelDisplay"
# Share of k(0, 0) at which the distance is half of the axis, and distances that are tried.
_SMALL, _DISTANCES = 0.05, np.geomspace(1e-3, 1e3, 61)
# Half of the axis for a kernel that does not decay.
_USUAL = 3.0
# Relative size up to which differences of kernel values and negative eigenvalues are rounding.
_ROUNDING = 1e-4


@dataclass(kw_only=True, eq=False, repr=False)
class KernelDisplay(Display):
    """The values of a kernel of one input, and functions drawn from its Gaussian process.

    A kernel of distances is drawn as its profile k(r). Other kernels are drawn as k(x, c) for
    three centres c. Beside it are functions of mean zero and covariance k: those that a model
    with this kernel expects before it sees data.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Inputs, ascending; times are ``datetime64``.
    distances : ndarray of shape (m,)
        The distances of these inputs to the first one, times in days.
    values : ndarray of shape (m,) or (m, 3)
        The profile k(r) at these distances, or k(x, c) for each centre.
    centres : ndarray of shape (3,), optional
        The centres; None for a profile.
    samples : ndarray of shape (m, n_samples), optional
        The functions, at the inputs.
    xlabel : str
        The name of the input.
    title : str
        The title, by default the kernel.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        The values of the kernel.
    sample_lines_ : list of matplotlib Line2D
        The functions.
    ax_, samples_ax_ : matplotlib Axes
        The axes of the kernel, and those of the functions, if there are any.
    figure_ : matplotlib Figure
        The figure.

    See Also
    --------
    GramDisplay : A kernel at points of any type.
    GaussianProcessDisplay : The functions that agree with data.

    Examples
    --------
    >>> import mercer as mc
    >>> display = mc.plot.KernelDisplay.from_kernel(mc.Matern(length_scale=2.0))
    >>> float(display.values[0])
    1.0
    """

    x: NDArray[Any]
    distances: Array
    values: Array
    centres: NDArray[Any] | None = None
    samples: Array | None = None
    xlabel: str = "x"

    @classmethod
    def from_kernel(
        cls,
        kernel: KernelLike,
        X: Any = None,
        *,
        n_samples: int = 4,
        grid_resolution: int = 201,
        random_state: Any = 0,
        ax: Axes | None = None,
        **plot_kwargs: Any,
    ) -> Self:
        """Draw a kernel.

        Parameters
        ----------
        kernel : Kernel, str or callable
            A kernel of one number, as estimators take it; length-scales such as "median" are
            computed from X. A name such as "rbf" stands for a length-scale of 1 without X.
        X : array-like or data frame of shape (n, 1), optional
            Inputs, whose range is drawn; by default a range around 0 in which the kernel decays.
        n_samples : int, default=4
            The number of functions to draw; a kernel that is not positive semi-definite has none.
        grid_resolution : int, default=201
            The number of inputs at which the kernel is evaluated.
        random_state : int, RandomState or None, default=0
            The random numbers of the functions.
        ax, **plot_kwargs
            Passed to `plot`.
        """
        cls._require_matplotlib()
        if X is None and isinstance(kernel, str):
            kernel = NAMES.get(kernel, kernel)
        kernel = kernel_of(_OWNER, kernel, X)
        size = checks.require_count(
            _OWNER, "grid_resolution", grid_resolution, least=3, example=201
        )
        n_drawn = checks.require_count(_OWNER, "n_samples", n_samples, least=0, example=4)
        table = Numbers.read(_usual_range(kernel) if X is None else X, 1, _OWNER)
        if X is not None:
            kernel = kernel.resolve(X)
        low, high = table.limits(0.0, _OWNER).ravel()
        x = np.linspace(low, high, size)
        points = kernel.prepare(table.like(x[:, None]))
        matrix = np.asarray(kernel(points), dtype=np.float64)
        if not np.isfinite(matrix).all():
            raise DataError(f"{_OWNER}: {kernel!r} has values of NaN or infinity; pass another X.")
        centres = None if _is_stationary(matrix) else [size // 6, size // 2, size - 1 - size // 6]
        samples = _draws(matrix, n_drawn, check_random_state(random_state)) if n_drawn else None
        display = cls(
            x=table.shown(x),
            distances=x - x[0],
            values=matrix[0] if centres is None else matrix[:, centres],
            centres=None if centres is None else table.shown(x[centres]),
            samples=samples,
            xlabel=table.label(0, "x"),
            title=shortened(kernel),
        )
        return display.plot(ax, **plot_kwargs)

    def plot(self, ax: Axes | None = None, *, color: str = BLUE) -> Self:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            The axes to draw on, whose right half shows the functions; a new figure by default.
        color : str, optional
            The colour of the profile.
        """
        ax = self._draw_on(ax, (9.0, 3.6) if self.samples is not None else None)
        if self.centres is None:
            is_time = self.x.dtype.kind in "mM"
            self.lines_ = list(ax.plot(self.distances, self.values, color=color, linewidth=1.8))
            ax.set(xlabel="distance r" + " (days)" * is_time, ylabel="k(r)")
        else:
            ax.set_prop_cycle(color=[color, *(other for other in COLOURS if other != color)])
            self.lines_ = list(ax.plot(self.x, self.values, linewidth=1.8))
            for line, centre in zip(self.lines_, self.centres, strict=True):
                line.set_label(f"c = {_short(centre)}")
            ax.set(xlabel=self.xlabel, ylabel="k(x, c)")
            readable_legend(ax)
        ax.axhline(0, color="black", linewidth=0.5)
        ax.margins(x=0.02)
        self.sample_lines_: list[Any] = []
        if self.samples is not None:
            self.samples_ax_ = right = self._split(ax, columns=2)
            self.sample_lines_ = list(right.plot(self.x, self.samples, linewidth=1.2))
            for line, colour in zip(self.sample_lines_, COLOURS[1:] + COLOURS[:1], strict=False):
                line.set_color(colour)
            right.set_title(wrapped("functions drawn from GP(0, k)"), fontsize="medium")
            right.set(xlabel=self.xlabel, ylabel="f(x)")
            right.margins(x=0)
        return self


def _usual_range(kernel: Kernel) -> Array:
    """A range around 0 at whose ends a kernel is small compared to k(0, 0)."""
    values = np.abs(kernel(np.zeros((1, 1)), _DISTANCES[:, None])[0])
    top = float(kernel.diag(np.zeros((1, 1)))[0])
    # The kernel has to stay small: a periodic one does not.
    large = np.flatnonzero(values > _SMALL * top)
    last = large[-1] + 1 if large.size else 0
    half = _DISTANCES[last] if top > 0 and last < len(_DISTANCES) else _USUAL
    return np.array([[-half], [half]])


def _is_stationary(matrix: Array) -> bool:
    """Whether a matrix on an even grid depends on distances alone: it is a Toeplitz matrix."""
    change = float(np.ptp(matrix))
    return bool(np.abs(matrix - toeplitz(matrix[0])).max() <= _ROUNDING * change)


def _draws(matrix: Array, number: int, rng: Any) -> Array | None:
    """Functions with this covariance; None if it has negative eigenvalues."""
    values, vectors = eigh(matrix)
    if values[0] < -_ROUNDING * np.abs(values).max():
        return None
    roots = np.sqrt(np.maximum(values, 0.0))
    return np.asarray((vectors * roots) @ rng.standard_normal((len(matrix), number)))


def _short(centre: Any) -> str:
    return f"{centre:.3g}" if isinstance(centre, float) else str(centre.astype("M8[D]"))
