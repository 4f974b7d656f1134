"""The spectral view of kernel ridge: shrinkage along eigenvectors, and errors against alpha."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from mercer.arrays import Array
from mercer.exceptions import DataError, ParameterError
from mercer.plot.canvas import (
    BLUE,
    GREEN,
    GREY,
    VERMILION,
    Display,
    described,
    label_logarithms,
    legend_above,
    readable_legend,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

    from mercer.models.results import RidgePath
    from mercer.models.ridge.kernel_ridge import KernelRidge

_REMEDY = "pass a fitted KernelRidge"
_DECADES = 3
_N_ALPHAS = 49
# Largest number of dots on a curve.
_DOTS = 40


@dataclass(kw_only=True, eq=False, repr=False)
class ShrinkageDisplay(Display):
    """Shrinkage factors s / (s + alpha) of the target along each eigenvector.

    Parameters
    ----------
    shrinkage : ndarray of shape (r,)
        The factors, descending.
    alpha : float
        The alpha of these factors.
    effective_dof : float
        Effective degrees of freedom.
    title : str
        The title.

    Attributes
    ----------
    line_, dof_line_ : matplotlib Line2D
        The factors, and the vertical line at the effective degrees of freedom.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    See Also
    --------
    RidgePathDisplay : The degrees of freedom as a function of alpha.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = mc.KernelRidge(mc.RBF(), alpha=0.1).fit(X, np.sin(X).ravel())
    >>> display = mc.plot.ShrinkageDisplay.from_estimator(model)
    >>> len(display.shrinkage)
    39
    """

    shrinkage: Array
    alpha: float
    effective_dof: float

    @classmethod
    def from_estimator(
        cls, estimator: KernelRidge, *, ax: Axes | None = None, **line_kwargs: Any
    ) -> Self:
        """Draw the shrinkage factors of a fitted model.

        Parameters
        ----------
        estimator : KernelRidge
            A fitted model.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        **line_kwargs
            Passed to the line of the factors, for example ``label`` or ``color``.
        """
        cls._require_fitted(estimator, "shrinkage_", "effective_dof_", remedy=_REMEDY)
        display = cls(
            shrinkage=estimator.shrinkage_,
            alpha=estimator.alpha_,
            effective_dof=estimator.effective_dof_,
            title=f"{described(estimator)}\nshare of the target that the penalty keeps",
        )
        return display.plot(ax, **line_kwargs)

    def plot(self, ax: Axes | None = None, **line_kwargs: Any) -> Self:
        """Draw the display on axes, or on a new figure; `line_kwargs` go to the line."""
        ax = self._draw_on(ax)
        n = len(self.shrinkage)
        dots = np.unique(np.geomspace(1, max(n, 1), _DOTS).astype(int)) - 1
        settings: dict[str, Any] = {"marker": "o", "markersize": 3, "linewidth": 1, "color": BLUE}
        settings["markevery"] = list(dots[:n])
        settings["label"] = (
            rf"$\alpha$ = {self.alpha:.3g}: {self.effective_dof:.3g} degrees of freedom (dotted)"
        )
        self.line_: Line2D
        (self.line_,) = ax.plot(np.arange(1, n + 1), self.shrinkage, **(settings | line_kwargs))
        self.dof_line_ = ax.axvline(
            max(self.effective_dof, 1.0), color=self.line_.get_color(), linestyle=":", linewidth=1
        )
        ax.set(
            xscale="log",
            ylim=(-0.03, 1.03),
            xlabel="eigenvector, by descending eigenvalue",
            ylabel=r"share kept, $s_j \, / \, (s_j + \alpha)$",
        )
        legend_above(ax, columns=2)
        return self


@dataclass(kw_only=True, eq=False, repr=False)
class RidgePathDisplay(Display):
    """Leave-one-out and GCV errors, and below them the degrees of freedom, against alpha.

    A grey band reaches from the least leave-one-out error to one standard error above it. The
    largest alpha in the band has the fewest degrees of freedom among those that are as good.

    Parameters
    ----------
    alphas : ndarray of shape (n_alphas,)
        Positive weights of the squared norm, ascending.
    loo_errors, gcv_errors : ndarray of shape (n_alphas,)
        Mean squared leave-one-out errors, and generalised cross-validation errors.
    effective_dof : ndarray of shape (n_alphas,)
        Effective degrees of freedom.
    alpha : float, optional
        The alpha of a fitted model, which is marked.
    standard_error : float, optional
        The standard error of the leave-one-out error at the model's alpha.
    title : str
        The title.

    Attributes
    ----------
    loo_line_, gcv_line_, dof_line_ : matplotlib Line2D
        The curves.
    band_ : matplotlib Rectangle or None
        The band of one standard error.
    ax_, dof_ax_ : matplotlib Axes
        The axes of the errors, and of the degrees of freedom.
    figure_ : matplotlib Figure
        The figure.

    See Also
    --------
    SearchDisplay : Errors of a search that compares kernels too.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = mc.KernelRidge(mc.RBF(), alpha="loo").fit(X, np.sin(X).ravel())
    >>> display = mc.plot.RidgePathDisplay.from_estimator(model)
    >>> display.ax_.get_xscale()
    'log'
    """

    alphas: Array
    loo_errors: Array
    gcv_errors: Array
    effective_dof: Array
    alpha: float | None = None
    standard_error: float | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: KernelRidge,
        alphas: ArrayLike | None = None,
        *,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the errors and degrees of freedom of a fitted model's problem at other alphas.

        Parameters
        ----------
        estimator : KernelRidge
            A fitted model.
        alphas : array-like of shape (n_alphas,), optional
            Positive weights of the squared norm. By default those that the model's own search
            compared, or three decades to either side of the model's alpha.
        ax : matplotlib Axes, optional
            The axes to draw on, whose lower part shows the degrees of freedom; a new figure by
            default.
        """
        cls._require_fitted(estimator, "loo_path", "gcv_path", "dof_path", remedy=_REMEDY)
        grid = _positive(_default_alphas(estimator) if alphas is None else alphas)
        display = cls(
            alphas=grid,
            loo_errors=estimator.loo_path(grid),
            gcv_errors=estimator.gcv_path(grid),
            effective_dof=estimator.dof_path(grid),
            alpha=estimator.alpha_,
            standard_error=loo_standard_error(estimator),
            title=f"{described(estimator)}\nerrors on rows left out, by penalty",
        )
        return display.plot(ax)

    @classmethod
    def from_path(cls, path: RidgePath, *, ax: Axes | None = None) -> Self:
        """Draw a path; an alpha of 0, which a logarithmic axis cannot show, is left out.

        Parameters
        ----------
        path : RidgePath
            The result of ``KernelRidge.path``.
        ax : matplotlib Axes, optional
            The axes to draw on.
        """
        cls._require_matplotlib()
        _positive(path.alphas[path.alphas > 0])
        order = np.argsort(path.alphas)[np.count_nonzero(path.alphas == 0) :]
        return cls(
            alphas=path.alphas[order],
            loo_errors=path.loo_errors[order],
            gcv_errors=path.gcv_errors[order],
            effective_dof=path.effective_dof[order],
            title=f"KernelRidge, {shortened(path.kernel)}\nerrors on rows left out, by penalty",
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, whose lower part shows the degrees of freedom."""
        ax = self._draw_on(ax)
        self.dof_ax_ = below = self._split(ax, rows=2, height_ratios=[2, 1], hspace=0.05)
        self.loo_line_ = self._errors(self.loo_errors, "leave-one-out", 9, color=BLUE)
        self.gcv_line_ = self._errors(self.gcv_errors, "GCV", 5, color=VERMILION, linestyle="--")
        (self.dof_line_,) = below.plot(self.alphas, self.effective_dof, color=GREEN)
        least = float(np.min(self.loo_errors))
        self.band_ = None
        if self.standard_error is not None and np.isfinite(least):
            label, ends = "one standard error", (least, least + self.standard_error)
            self.band_ = ax.axhspan(*ends, color="0.88", zorder=0, label=label)
        # Errors are 0 for a constant target, and infinite for one row, which cannot be left out.
        drawn = np.concatenate([self.loo_errors, self.gcv_errors])
        scale = "log" if np.any(np.isfinite(drawn) & (drawn > 0)) else "linear"
        ax.set(xscale="log", yscale=scale, ylabel="mean squared error")
        ax.tick_params(axis="x", which="both", labelbottom=False)
        below.set(xlabel=r"$\alpha$", ylabel="degrees of freedom", ylim=(0, None))
        if self.alpha is not None and self.alpha > 0:
            label = rf"model, $\alpha$ = {self.alpha:.3g}"
            ax.axvline(self.alpha, color=GREY, linewidth=1, linestyle=":", label=label)
            below.axvline(self.alpha, color=GREY, linewidth=1, linestyle=":")
            self._mark_degrees(below, self.alpha)
        readable_legend(ax)
        if ax.get_yscale() == "log":
            label_logarithms(ax.yaxis)
        self.figure_.align_ylabels([ax, below])
        return self

    def _mark_degrees(self, below: Axes, alpha: float) -> None:
        """Mark the degrees of freedom of the model, if its alpha is within the axis."""
        if self.alphas[0] <= alpha <= self.alphas[-1]:
            degrees = float(np.interp(np.log(alpha), np.log(self.alphas), self.effective_dof))
            below.plot(alpha, degrees, "o", color=GREEN, markersize=5)
            below.annotate(
                f"{degrees:.3g}", (alpha, degrees), (4, 4), textcoords="offset points", color=GREEN
            )

    def _errors(self, errors: Array, name: str, dot: float, **settings: Any) -> Line2D:
        """One curve with a dot at its minimum; the dots have two sizes in case they coincide."""
        line: Line2D
        least = np.argmin(errors)
        label = f"{name} (dot: least, {errors[least]:.3g})"
        (line,) = self.ax_.plot(self.alphas, errors, label=label, **settings)
        self.ax_.plot(
            self.alphas[least], errors[least], "o", color=line.get_color(), markersize=dot
        )
        return line


def _positive(alphas: ArrayLike) -> Array:
    """Alphas for a logarithmic axis, ascending."""
    try:
        grid = np.sort(np.atleast_1d(np.asarray(alphas, dtype=np.float64)), axis=None)
    except (TypeError, ValueError):
        grid = np.empty(0)
    if not grid.size or not np.all(np.isfinite(grid) & (grid > 0)):
        raise ParameterError(
            f"RidgePathDisplay: alphas = {alphas!r} are not finite numbers > 0, as a logarithmic "
            "axis needs; pass for example numpy.logspace(-6, 2, 50)."
        )
    return grid


def _default_alphas(estimator: KernelRidge) -> Array:
    compared: Array = getattr(estimator, "alphas_", np.empty(0))
    compared = compared[compared > 0]
    if compared.size > 1:
        return np.sort(compared)  # those of the model, so that its alpha is where the dot is
    centre = estimator.alpha_ or 1.0
    return centre * np.logspace(-_DECADES, _DECADES, _N_ALPHAS)


def loo_standard_error(estimator: KernelRidge) -> float | None:
    """The standard error of the mean squared leave-one-out error at the model's alpha.

    None if rows have weights or groups, or are not in memory.
    """
    training = estimator._training
    if training.weights is not None or training.groups is not None or training.n_rows < 2:
        return None
    try:
        residuals = estimator.loo_residuals_
    except DataError:
        return None
    squares = np.square(residuals).reshape(len(residuals), -1).mean(axis=1)
    error = float(np.std(squares, ddof=1) / np.sqrt(len(squares)))
    return error if np.isfinite(error) else None
