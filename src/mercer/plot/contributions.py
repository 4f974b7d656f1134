"""The terms of one prediction as bars."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.models.results import Contributions
from mercer.plot.canvas import BLUE, GREY, VERMILION, Display, described, draw_bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_OWNER = "ContributionsDisplay"


@dataclass(kw_only=True, eq=False, repr=False)
class ContributionsDisplay(Display):
    """The largest terms of one prediction, the sum of the others, and the intercept, as bars.

    The bars add up to the prediction, which the title states.

    Parameters
    ----------
    values : ndarray of shape (top + 2,)
        The terms of training points, largest first, then the sum of the others and the intercept.
    labels : list of str
        Their names.
    formula : str
        The formula of a term.
    title : str
        The title.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        The bars, from top to bottom.
    ax_, figure_ : matplotlib Axes and Figure
        The axes, and their figure.

    Examples
    --------
    >>> import mercer as mc
    >>> X, y = [[0.0], [1.0], [2.0], [9.0]], [1.0, 3.0, 5.0, 2.0]
    >>> model = mc.KernelRidge(mc.RBF(), alpha=0.1).fit(X, y)
    >>> display = mc.plot.ContributionsDisplay.from_estimator(model, [1.9], top=2)
    >>> display.labels
    ['row 2 (k = 0.995)', 'row 0 (k = 0.164)', '2 others', 'intercept']
    """

    values: Array
    labels: list[str]
    formula: str = "a_i k(x, x_i)"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        row: int = 0,
        top: int = 10,
        output: Any = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the terms of one prediction of a fitted model.

        Parameters
        ----------
        estimator : object
            A fitted model of mercer.
        X : array-like, data frame or sequence
            One row, or several, of which `row` is explained.
        row : int, default=0
            The index of the row to explain.
        top : int, default=10
            The number of training points to show.
        output : label, float or int, optional
            The class, quantile or target to explain, as for ``contributions``.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        remedy = "pass a model of mercer"
        cls._require_fitted(estimator, "contributions", remedy=remedy)
        terms = estimator.contributions(X, top=top, output=output)
        return cls.from_contributions(terms, row=row, name=described(estimator), ax=ax)

    @classmethod
    def from_contributions(
        cls, contributions: Contributions, *, row: int = 0, name: str = "", ax: Axes | None = None
    ) -> Self:
        """Draw the terms of one prediction.

        Parameters
        ----------
        contributions : Contributions
            The result of ``contributions`` of a model.
        row : int, default=0
            The index of the prediction.
        name : str, optional
            The name of the model, for the title.
        ax : matplotlib Axes, optional
            The axes to draw on; a new figure by default.
        """
        cls._require_matplotlib()
        if not isinstance(contributions, Contributions):
            raise ParameterError(
                f"{_OWNER}: contributions = {contributions!r} is not the result of "
                "model.contributions(X); pass it."
            )
        if row not in range(-len(contributions), len(contributions)):
            raise ParameterError(
                f"{_OWNER}: row = {row!r} is not among the {len(contributions)} predictions; pass "
                f"a number from 0 to {len(contributions) - 1}."
            )
        shown = zip(contributions.rows[row], contributions.kernel_values[row], strict=True)
        labels = [f"row {number} (k = {value:.3g})" for number, value in shown]
        ends = [contributions.intercept[row]]
        n_others = len(contributions.training) - len(labels)
        if n_others:
            labels.append(f"{n_others} other{'s' * (n_others > 1)}")
            ends.insert(0, contributions.rest[row])
        of = f" of {contributions.kind} {contributions.outputs.tolist()[row]!r}"
        total = f"f(x){of * bool(contributions.kind)} = {contributions.prediction[row]:.4g}"
        return cls(
            values=np.concatenate([contributions.values[row], ends]),
            labels=[*labels, "intercept"],
            formula=contributions.formula,
            title=f"{name}\n{total}" if name else total,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display on axes, or on a new figure."""
        ax = self._draw_on(ax)
        is_point = [label.startswith("row ") for label in self.labels]
        signs = [BLUE if value >= 0 else VERMILION for value in self.values]
        colours = [sign if point else GREY for sign, point in zip(signs, is_point, strict=True)]
        self.bars_ = draw_bars(ax, self.values, self.labels, colours)
        ax.set_xlabel(f"term ${_formula(self.formula)}$, blue: positive, orange: negative")
        return self


def _formula(text: str) -> str:
    """A formula in the notation of TeX."""
    return text.replace(" ", r"\, ")
