"""Samples as points, and the kernels of a test that was given none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist

from mercer.arrays import Array
from mercer.checks import require_count, require_number
from mercer.exceptions import DataError, ParameterError
from mercer.kernels.base import Kernel, validated
from mercer.kernels.names import kernel_of
from mercer.kernels.parameters import plain
from mercer.kernels.points import Points, as_points
from mercer.kernels.stationary import RBF, Laplacian
from mercer.kernels.table import is_mixed, table_kernel
from mercer.kernels.vector import Stationary
from mercer.landmarks.selection import KernelColumns, require_no_noise
from mercer.linalg.pivoted_cholesky import pivoted_cholesky
from mercer.sampling import uniform_rows

# Number of rows from which the range of bandwidths is computed.
_SAMPLE = 500


def sample(owner: str, name: str, data: Any, least: int = 2) -> Points:
    """Data as points, with at least so many rows; a single column may be a vector."""
    array = np.asarray(data) if isinstance(data, list | tuple | np.ndarray) else None
    if array is not None and array.ndim == 1 and array.dtype.kind in "biuf":
        data = array[:, None]
    points = as_points(data, owner)
    if len(points) < least:
        raise DataError(
            f"{owner}: {name} has {len(points)} row(s), but a test needs at least {least}; pass "
            "more rows."
        )
    return points


def paired(owner: str, **samples: Any) -> list[Points]:
    """Samples of the same number of rows."""
    points = [sample(owner, name, data, least=4) for name, data in samples.items()]
    if len({len(p) for p in points}) > 1:
        sizes = ", ".join(f"{name} has {len(p)}" for name, p in zip(samples, points, strict=True))
        raise DataError(f"{owner}: {sizes} rows; pass samples whose rows belong together.")
    return points


def settings(owner: str, n_resamples: Any, alpha: Any) -> None:
    """Check what all tests take."""
    require_count(owner, "n_resamples", n_resamples, example=999)
    require_number(owner, "alpha", alpha, high=1.0, example=0.05)


def kernels_for(
    owner: str, kernel: Any, points: Points, rng: np.random.RandomState, *, each: int, both: bool
) -> list[Kernel]:
    """The kernels of a test, resolved on all rows.

    Without a kernel these are the RBF, and if `both` the Laplacian, at `each` bandwidths.
    """
    if kernel is None and is_mixed(points):
        kernel = table_kernel(points.data)
    if kernel is None:
        dense = not sp.issparse(points.data)  # the Laplacian takes dense columns alone
        bases = [RBF("columns"), Laplacian("columns")] if both and dense else [RBF("columns")]
        return [k for base in bases for k in bandwidths(base, points, each, rng)]
    several = isinstance(kernel, Iterable) and not isinstance(kernel, str | Kernel)
    made = [kernel_of(owner, k, points.data) for k in (kernel if several else [kernel])]
    if not made:
        raise ParameterError(f"{owner}: kernel = {kernel!r} is empty; pass at least one kernel.")
    for k in made:
        require_no_noise(k, owner)
    return [k.resolve(validated(k, points, copy=False)) for k in made]


def bandwidths(
    base: Stationary, points: Points, count: int, rng: np.random.RandomState
) -> list[Kernel]:
    """A kernel at length-scales from half the small distances to twice the large ones.

    These are the quantiles of 5 and of 95 percent among positive distances, in units of the
    length-scale of each column. The rows that are compared are drawn at random, so that they do
    not depend on the sample that a row belongs to.
    """
    kernel = base.resolve(validated(base, points, copy=False))
    lengths: Array = np.asarray(plain(kernel.length_scale), dtype=np.float64)
    if count == 1:
        factors = [1.0]
    else:
        n = len(points)
        chosen = np.sort(uniform_rows(n, min(n, _SAMPLE), rng))
        rows = dense_rows(points[chosen], kernel) / lengths
        distances = pdist(rows, kernel._metric)
        factors = _grid(distances[distances > 0], count)
    return [kernel.replace(length_scale=_plain(lengths * factor)) for factor in factors]


def dense_rows(points: Points, kernel: Kernel) -> Array:
    """The numbers that a kernel reads, as a dense array of float64."""
    values = points.columns(kernel._reader.leaves[0][1]).values
    dense = values if isinstance(values, np.ndarray) else values.toarray()
    return np.asarray(dense, dtype=np.float64)


def _grid(distances: Array, count: int) -> list[float]:
    """Bandwidths in a geometric progression; rows that are all equal have one."""
    if not len(distances):
        return [1.0]
    low, high = np.quantile(distances, [0.05, 0.95])
    return [float(factor) for factor in np.geomspace(low / 2, 2 * high, count)]


def _plain(lengths: Array) -> Any:
    return float(lengths) if lengths.ndim == 0 else lengths


def features_of(
    kernel: Kernel, points: Points, rng: np.random.RandomState, rank: int, left_out: float
) -> Array:
    """Features F with F F' close to the kernel matrix, but for a share of its trace."""
    access = KernelColumns(kernel, points)
    low_rank = pivoted_cholesky(
        access.columns,
        access.diagonal,
        min(rank, len(points)),
        rng=rng,
        tol=left_out,
        entries=access.entries,
    )
    return low_rank.factor.astype(np.float64, copy=False)


def sizes_of(owner: str, kernels: list[Kernel], points: Points) -> Array:
    """The mean of |k(x, x)| of each kernel, in whose rounding statistics are ties."""
    sizes = np.array([float(np.mean(np.abs(k.diag(points)))) for k in kernels])
    if not sizes.all():
        zero = kernels[int(sizes.argmin())]
        raise DataError(
            f"{owner}: {zero!r} is zero at every row, so that it cannot tell rows apart; use "
            "another kernel."
        )
    return sizes
