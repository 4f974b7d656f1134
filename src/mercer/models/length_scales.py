"""The candidates of a search: alphas and length-scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mercer.arrays import Array
from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import Bounded, Fixed
from mercer.rows.rows import InMemory
from mercer.sampling import uniform_rows
from mercer.solvers.protocol import RidgeTask

Grid = str | Sequence[Any] | Mapping[str, Sequence[Any]] | None

# Candidates of a grid whose ends are looked at: fewer are a comparison, and not a grid.
_LEAST_GRID = 4
# The end of a grid gives a warning if its error is below this share of the next one's.
_STILL_FALLING = 0.99
# Errors up to this share of the variance of the targets may be those of data without noise.
_NO_NOISE = 1e-3
# Rows are near copies if their squared distance in feature space is at most this share of k(x, x).
_NEAR = 1e-8
# Rows among which near copies are looked for.
_SAMPLE = 2000
# Factors of length_scales="auto", in half octaves; a heuristic is more often too long than short.
_FACTORS = 2.0 ** np.linspace(-3, 2, 11)


def candidates(
    kernel: Kernel, length_scales: Grid, resolved: Kernel, owner: str = "KernelRidge"
) -> Iterator[Kernel]:
    """The kernels of a search, not yet resolved; "auto" leaves one without lengths as it is."""
    if isinstance(length_scales, str) and length_scales == "auto":
        return _multiples(resolved) if free_lengths(resolved) else iter((kernel,))
    return (kernel.replace(**values) for values in _replacements(kernel, length_scales, owner))


def checked_alphas(
    alphas: ArrayLike, owner: str = "KernelRidge", *, positive: bool = False
) -> Array:
    """Validate the alphas of a search."""
    try:
        grid = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.array([np.nan])
    allowed = np.isfinite(grid) & ((grid > 0) if positive else (grid >= 0))
    if grid.ndim != 1 or not grid.size or not allowed.all():
        raise ParameterError(
            f"{owner}: alphas = {alphas!r} is not a list of finite numbers "
            f"{'>' if positive else '>='} 0; pass for example numpy.logspace(-6, 2, 9)."
        )
    return grid


def end_of_alphas(alphas: Array, errors: Array, task: RidgeTask, given: bool) -> str:
    """A warning, as a clause, if the best alpha is an end of the grid; empty if all is well."""
    order = np.argsort(alphas)
    order = order[np.isfinite(errors[order])]
    end = _end(errors[order])
    if end is None or (end > 0 and not given):  # the largest of the default grid: nothing but noise
        return ""
    alpha, which = alphas[order[end]], "least" if end == 0 else "largest"
    clause = f"alpha = {alpha:.3g}, the {which} compared, has the least {task.criterion} error"
    if end == 0:
        if task.left_out is None or task.left_out.groups is None:
            share = _share_of_near_copies(task)
            if share:
                return (
                    f"{clause}, because near copies of rows ({share:.0%} of them) predict each "
                    "other; pass groups= to fit, with one label for each set of near copies"
                )
        if alphas.min() < alpha:  # the solver says itself why it took no smaller one
            return ""
        if not given and errors.min() <= _NO_NOISE * _variance(task):
            return ""
    if given:
        return f"{clause}, and may not be the best; pass alphas that reach further"
    return (
        f"{clause}, as if the data had no noise; if rows belong together, pass groups= to fit, and "
        "otherwise smaller alphas, or alpha=0 to interpolate"
    )


def end_of_path(alphas: Array, errors: Array, criterion: str, given: bool) -> str:
    """A warning, as a clause, if the best alpha of a machine is an end of the grid."""
    order = np.argsort(alphas)
    order = order[np.isfinite(errors[order])]
    end = _end(errors[order])
    if end is None or (end > 0 and not given):  # the largest of the default grid: nothing but noise
        return ""
    return (
        f"alpha = {alphas[order[end]]:.3g}, the {'least' if end == 0 else 'largest'} compared, has "
        f"the least {criterion} error, and may not be the best; pass alphas that reach further, or "
        "groups= to fit if rows belong together"
    )


def end_of_lengths(kernels: Sequence[Kernel], errors: Array, best: int) -> str:
    """A warning, as a clause, if the best kernel has a length-scale at an end of its grid."""
    if len(kernels) < _LEAST_GRID:
        return ""
    varied = [kernel._tree.values for kernel in kernels]
    for path in varied[0]:
        sizes = np.array([np.mean(values[path]) for values in varied])
        compared, index = np.unique(sizes, return_inverse=True)
        least = np.array([errors[index == i].min() for i in range(len(compared))])
        end = _end(least)
        stored = kernels[best].parameters()[path].stored
        if end is not None and not isinstance(stored, Bounded):  # the user's own bounds are meant
            which = "shortest" if end == 0 else "longest"
            return (
                f"{path} = {compared[end]:.3g}, the {which} that was compared, has the least error"
                ", and may not be the best; pass length_scales= that reach further"
            )
    return ""


def _end(errors: Array) -> int | None:
    """The first or last candidate of a grid, if it is the best and errors still fall there."""
    if len(errors) < _LEAST_GRID:
        return None
    best, last = int(np.argmin(errors)), len(errors) - 1
    beside = {0: 1, last: last - 1}.get(best)
    falls = beside is not None and errors[best] < _STILL_FALLING * errors[beside]
    return best if falls else None


def _variance(task: RidgeTask) -> float:
    """The mean variance of the targets, as the criterion averages them: harmonically."""
    if not isinstance(task.rows, InMemory):
        return 0.0
    part = task.compared("a search").part
    variances = np.average((part.targets - task.middle) ** 2, axis=0, weights=part.mass)
    positive = variances[variances > 0]
    return float(len(positive) / np.sum(1 / positive)) if len(positive) else 0.0


def _share_of_near_copies(task: RidgeTask) -> float:
    """The share of rows, among some, that another row nearly equals for the kernel."""
    if not isinstance(task.rows, InMemory):
        return 0.0
    points = task.compared("a search").part.points
    n = len(points)
    if n > _SAMPLE:
        points = points[np.sort(uniform_rows(n, _SAMPLE, np.random.RandomState(0)))]
    values = task.kernel(points, points)
    near = max(_NEAR, 10 * float(np.finfo(values.dtype).eps))
    squares = values.diagonal()
    distances = squares[:, None] + squares - 2 * values
    np.fill_diagonal(distances, np.inf)
    return float(np.mean(distances.min(axis=1) <= near * squares))


def _replacements(kernel: Kernel, length_scales: Grid, owner: str) -> Iterator[dict[str, Any]]:
    """The parameters to replace in the kernel, for each candidate."""
    if length_scales is None:
        return iter([{}])
    if isinstance(length_scales, Mapping):
        if not length_scales or not all(isinstance(path, str) for path in length_scales):
            raise _bad_grid(length_scales, owner)
        grids = length_scales.values()
        columns = [_values_to_try(values, length_scales, owner) for values in grids]
        return (dict(zip(length_scales, values, strict=True)) for values in product(*columns))
    listed = _values_to_try(length_scales, length_scales, owner)
    return (dict.fromkeys(_lengths_to_set(kernel, owner), value) for value in listed)


def _multiples(kernel: Kernel) -> Iterator[Kernel]:
    """The kernel with its length-scales multiplied by each factor, within their bounds."""
    stored = free_lengths(kernel)
    for factor in _FACTORS:
        yield kernel.replace(**{path: _multiplied(value, factor) for path, value in stored.items()})


def _multiplied(stored: Any, factor: float) -> Any:
    if isinstance(stored, Bounded):
        return np.clip(factor * np.asarray(stored.value), stored.low, stored.high)
    return factor * np.asarray(stored)


def free_lengths(kernel: Kernel) -> dict[str, Any]:
    """The length-scales that are not fixed."""
    return {
        path: entry.stored
        for path, entry in kernel.parameters().items()
        if path.split("__")[-1] == "length_scale" and not isinstance(entry.stored, Fixed)
    }


def _lengths_to_set(kernel: Kernel, owner: str) -> dict[str, Any]:
    """The length-scales that are not fixed; refuse a kernel without one."""
    stored = free_lengths(kernel)
    if not stored:
        raise ParameterError(
            f"{owner}: length_scales was given, but {kernel!r} has no length_scale that is not "
            "Fixed; leave length_scales out, or use a kernel with one, such as RBF()."
        )
    return stored


def _values_to_try(values: Any, given: object, owner: str) -> list[Any]:
    """The values to try for one parameter; refuse an empty list."""
    try:
        listed = [] if isinstance(values, str | bytes) else list(values)
    except TypeError:  # a single number
        listed = []
    if not listed:
        raise _bad_grid(given, owner)
    return listed


def _bad_grid(length_scales: object, owner: str) -> ParameterError:
    return ParameterError(
        f"{owner}: length_scales = {length_scales!r} holds no values to try; "
        'pass "auto", a list such as [0.5, 1.0, 2.0], or a dictionary of lists such as '
        '{"rbf__length_scale": [0.5, 1.0]}.'
    )
