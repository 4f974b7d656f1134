"""Checks of a user's loss before it is minimised."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.losses.base import Loss

# Predictions at which a loss is checked, beside the targets and multiples of their range.
_TRIALS = np.array([-300.0, -30.0, -10.0, -3.0, -1.0, -0.3, 0.0, 0.3, 1.0, 3.0, 10.0, 30.0, 300.0])
# Largest number of targets for which a loss is checked.
_TRIED_TARGETS = 25


def check_convex(loss: Loss, y: Array, owner: str) -> None:
    """Refuse a loss that is not convex on a grid of predictions, or whose derivative is wrong.

    Parameters
    ----------
    loss : Loss
        A loss, usually a user's.
    y : ndarray of shape (n,)
        The targets.
    owner : str
        The name that errors begin with.

    Raises
    ------
    ParameterError
        If the loss is above a chord, if the derivative disagrees with differences of the value (the
        message names two predictions), or if a method is missing or does not return one number per
        prediction.

    Examples
    --------
    >>> import numpy as np
    >>> import mercer as mc
    >>> mc.losses.check_convex(mc.losses.Squared(), np.array([0.0, 1.0]), "Example")
    """
    targets = np.unique(y)
    targets = targets[np.linspace(0, len(targets) - 1, _TRIED_TARGETS).astype(int)]
    scale = float(np.ptp(y)) or 1.0
    grid = np.unique(np.concatenate([_TRIALS, targets, y.mean() + scale * _TRIALS / 10]))
    for target in np.unique(targets):
        trial = _Trial(loss, float(target), owner)
        _check_chords(trial, grid)
        _check_derivative(trial, grid)
        trial("curvature", grid)


def check_users_loss(loss: Loss, y: Array, owner: str) -> None:
    """Check a loss of a user; the losses of mercer are known to be convex."""
    if not type(loss).__module__.startswith("mercer."):
        check_convex(loss, y, owner)


class _Trial:
    """A loss at one target; the results of its methods are checked."""

    def __init__(self, loss: Loss, target: float, owner: str) -> None:
        self.loss, self.target, self.owner = loss, target, owner

    def __call__(self, method: str, f: Array) -> Array:
        """The result of a method for the target and some predictions."""
        subject = f"{self.owner}: loss = {self.loss!r}"
        numbers = tried(subject, self.loss, method, {"y": np.full_like(f, self.target), "f": f})
        bad = np.flatnonzero(np.isnan(numbers) | ((method == "curvature") & (numbers < 0)))
        if bad.size:
            raise self.error(
                f"has a {method}(y, f) of {numbers[bad[0]]:g} at y = {self.target:g}, "
                f"f = {f[bad[0]]:g}",
                f"let it be {'0 or more' if method == 'curvature' else 'a number'} for every f",
            )
        return numbers

    def error(self, defect: str, remedy: str) -> ParameterError:
        """The error for a defect of the loss."""
        return ParameterError(f"{self.owner}: loss = {self.loss!r} {defect}; {remedy}.")


def tried(subject: str, instance: object, method: str, arguments: dict[str, Array]) -> Array:
    """The result of a method of a user's class; refused unless it is one number per element."""
    call, (*_, (name, last)) = f"{method}({', '.join(arguments)})", arguments.items()
    remedy = f"let {call} return an array with a number for each element of {name}"
    try:
        with np.errstate(all="ignore"):
            result = getattr(instance, method)(*arguments.values())
    except NotImplementedError as error:
        raise ParameterError(
            f"{subject} lacks a method: {error}; define it in the class."
        ) from error
    try:
        numbers = np.asarray(result, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"{subject} has a {call} that is not numbers; {remedy}.") from error
    if numbers.shape != last.shape:
        shapes = f"of shape {numbers.shape} for {name} of shape {last.shape}"
        raise ParameterError(f"{subject} has a {call} {shapes}; {remedy}.")
    return numbers


def _check_chords(trial: _Trial, grid: Array) -> None:
    """Check that the loss does not lie above the chord between two of its points."""
    first, second = (axis.ravel() for axis in np.meshgrid(grid, grid))
    ends = [trial("value", f) for f in (first, second)]
    with np.errstate(all="ignore"):
        excess = trial("value", (first + second) / 2) - sum(ends) / 2
    size = 1e-10 * (np.abs(ends[0]) + np.abs(ends[1]) + 1e-300)
    bad = np.flatnonzero(np.isfinite(excess) & (excess > size))
    if not trial.loss.is_convex:
        raise trial.error("says itself that it is not convex", trial.loss.remedy)
    if bad.size:
        worst = bad[np.argmax(excess[bad])]
        raise trial.error(
            f"is not convex: for y = {trial.target:g} its value half-way between "
            f"f = {first[worst]:g} and f = {second[worst]:g} exceeds the mean of its values there "
            f"by {excess[worst]:.3g}",
            trial.loss.remedy,
        )


def _check_derivative(trial: _Trial, grid: Array) -> None:
    """Check that slopes of secants lie between the derivatives at their ends."""
    left, right = grid[:-1], grid[1:]
    low, high = (trial("derivative", f) for f in (left, right))
    ends = [trial("value", f) for f in (left, right)]
    with np.errstate(all="ignore"):
        secant = (ends[1] - ends[0]) / (right - left)
        rounding = 1e-9 * (np.abs(ends[0]) + np.abs(ends[1])) / (right - left)
    slack = rounding + 1e-6 * (np.abs(low) + np.abs(high)) + 1e-12
    bad = np.flatnonzero((secant < low - slack) | (secant > high + slack))
    if bad.size:
        at = bad[0]
        raise trial.error(
            f"has a derivative that is not that of its value. For y = {trial.target:g} the value "
            f"rises by {secant[at]:.4g} per unit between f = {left[at]:g} and f = {right[at]:g}, "
            f"where the derivative is {low[at]:.4g} and {high[at]:.4g}",
            "correct derivative(y, f)",
        )
