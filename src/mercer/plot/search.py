"""Errors of a search over kernels and alphas."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.plot.canvas import VERMILION, Display, label_logarithms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from mercer.kernels.base import Kernel
    from mercer.models.ridge.kernel_ridge import KernelRidge

_MAX_TICKS = 9


@dataclass(kw_only=True, eq=False, repr=False)
class SearchDisplay(Display):
    """Heat map of the errors of a search over kernels and alphas, with the best pair marked.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        The alphas, ascending.
    kernel_labels : list of str
        The parameter values in which the kernels differ.
    errors : ndarray of shape (n_kernels, n_alphas)
        The values of the criterion.
    criterion, parameter : str
        The names of the criterion, and of the parameter whose values are the labels.

    Attributes
    ----------
    image_ : matplotlib QuadMesh
        The heat map.
    best_ : matplotlib Line2D
        The mark of the smallest error.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    RidgePathDisplay : Errors of one kernel, as curves.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = mc.KernelRidge(mc.RBF(), alpha="loo", length_scales=[0.3, 1.0, 3.0])
    >>> display = mc.plot.SearchDisplay.from_estimator(model.fit(X, np.sin(X).ravel()))
    >>> display.kernel_labels
    ['0.3', '1', '3']
    """

    alphas: Array
    kernel_labels: list[str]
    errors: Array
    criterion: str = "error"
    parameter: str = "kernel"

    @classmethod
    def from_estimator(
        cls, estimator: KernelRidge, *, ax: Axes | None = None, **mesh_kwargs: Any
    ) -> Self:
        """Draw the search of a fitted model; an alpha of 0 is left out.

        Parameters
        ----------
        estimator : KernelRidge
            A model fitted with ``length_scales``.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        **mesh_kwargs
            Passed to ``pcolormesh``, for example ``cmap``.
        """
        remedy = "pass a KernelRidge fitted with length_scales=[...]"
        cls._require_fitted(estimator, "search_errors_", remedy=remedy)
        if len(estimator.search_kernels_) < 2:
            raise ParameterError(
                "SearchDisplay: the search compared alphas of one kernel, which is no map; draw it "
                "with RidgePathDisplay, or fit with length_scales=[...]."
            )
        # A logarithmic axis cannot show an alpha of 0.
        order = np.argsort(estimator.alphas_)[np.count_nonzero(estimator.alphas_ == 0) :]
        if not order.size:
            raise ParameterError(
                "SearchDisplay: the search compared no alpha > 0, as a logarithmic axis needs; "
                'fit with alpha="loo" or another positive alpha.'
            )
        parameter, labels = _labels(estimator.search_kernels_)
        display = cls(
            alphas=estimator.alphas_[order],
            kernel_labels=labels,
            errors=estimator.search_errors_[:, order],
            criterion="GCV error" if estimator.alpha == "gcv" else "leave-one-out error",
            parameter=parameter,
        )
        return display.plot(ax, **mesh_kwargs)

    def plot(self, ax: Axes | None = None, **mesh_kwargs: Any) -> Self:
        """Draw the display on axes, or on a new figure; `mesh_kwargs` go to ``pcolormesh``."""
        ax = self._draw_on(ax)
        from matplotlib.colors import LogNorm

        drawn = np.ma.masked_invalid(self.errors)
        settings: dict[str, Any] = {"cmap": "viridis", "rasterized": True}
        if drawn.min() > 0:  # the error of an exact interpolant may be 0
            settings["norm"] = LogNorm(float(drawn.min()), float(drawn.max()))
        edges = np.arange(len(self.errors) + 1) - 0.5
        self.image_ = ax.pcolormesh(_edges(self.alphas), edges, drawn, **(settings | mesh_kwargs))
        row, column = np.unravel_index(np.argmin(self.errors), self.errors.shape)
        (self.best_,) = ax.plot(
            self.alphas[column], row, "*", color=VERMILION, markersize=14, markeredgecolor="white"
        )
        bar = self.figure_.colorbar(self.image_, ax=ax, label=self.criterion)
        if isinstance(self.image_.norm, LogNorm):
            label_logarithms(bar.ax.yaxis)
        ticks = range(0, len(self.kernel_labels), -(-len(self.kernel_labels) // _MAX_TICKS))
        ax.set(
            xscale="log",
            yticks=list(ticks),
            yticklabels=[self.kernel_labels[tick] for tick in ticks],
            xlabel=r"$\alpha$",
            ylabel=self.parameter,
        )
        return self


def _edges(alphas: Array) -> Array:
    """Cell borders at the geometric means of neighbouring ascending values."""
    if len(alphas) == 1:
        return np.array([0.5 * alphas[0], 2.0 * alphas[0]])
    middles = np.sqrt(alphas[1:]) * np.sqrt(alphas[:-1])
    ends = alphas[[0, -1]] ** 2 / middles[[0, -1]]
    return np.concatenate([ends[:1], middles, ends[1:]])


def _labels(kernels: tuple[Kernel, ...]) -> tuple[str, list[str]]:
    """The parameters in which kernels differ, and their values."""
    every = [kernel.parameter_values() for kernel in kernels]
    different = [
        path
        for path in every[0]
        if any(not np.array_equal(values[path], every[0][path]) for values in every)
    ]
    rows = [[_short(values[path]) for path in different] for values in every]
    return ", ".join(different) or "kernel", [", ".join(row) for row in rows]


def _short(value: Any) -> str:
    numbers = np.atleast_1d(value)
    text = " ".join(f"{number:.3g}" for number in numbers)
    return text if len(numbers) == 1 else f"[{text}]"
