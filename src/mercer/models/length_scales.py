"""The candidates of a search: alphas and length-scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mercer.exceptions import ParameterError
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import Bounded, Fixed

Array = NDArray[np.floating[Any]]
Grid = str | Sequence[Any] | Mapping[str, Sequence[Any]] | None

# Factors of length_scales="auto", in half octaves; a heuristic is more often too long than short.
_FACTORS = 2.0 ** np.linspace(-3, 2, 11)


def candidates(
    kernel: Kernel, length_scales: Grid, resolved: Kernel, owner: str = "KernelRidge"
) -> Iterator[Kernel]:
    """The kernels of a search, not yet resolved."""
    if isinstance(length_scales, str) and length_scales == "auto":
        return _multiples(resolved, owner)
    return (kernel.replace(**values) for values in _replacements(kernel, length_scales, owner))


def checked_alphas(alphas: ArrayLike) -> Array:
    """Validate the alphas of a search."""
    try:
        grid = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    except (TypeError, ValueError):
        grid = np.array([np.nan])
    if grid.ndim != 1 or not grid.size or not np.all(np.isfinite(grid) & (grid >= 0)):
        raise ParameterError(
            f"KernelRidge: alphas = {alphas!r} is not a list of finite numbers >= 0; pass for "
            "example numpy.logspace(-6, 2, 9)."
        )
    return grid


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


def _multiples(kernel: Kernel, owner: str) -> Iterator[Kernel]:
    """The kernel with its length-scales multiplied by each factor, within their bounds."""
    stored = _lengths_to_set(kernel, owner)
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
