"""The features of a kernel: its own, or those of a map that approximates it."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from mercer import memory
from mercer.exceptions import DataError, NoFeatureMapError, ParameterError
from mercer.features.expansion import expand
from mercer.features.fourier import RandomFourier
from mercer.features.spectral_measures import spectral_measure
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, RowBlock
from mercer.rows.sums import Features
from mercer.sampling import random_numbers, seed_from, uniform_rows
from mercer.solvers.protocol import FitTask

# Number of rows on whose pairs the features are compared with the kernel.
_SAMPLE_ROWS = 256
# Largest size of features that are kept in memory, in bytes.
_IN_MEMORY = 2**30


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """Features whose products are the kernel, or approximate it."""

    features: OwnFeatures | Transform  # the map from points to features, with their names
    width: int  # the number of features
    # fitted attributes: the error of the products as an approximation of the kernel
    quality: dict[str, Any] = field(default_factory=dict)


def of_kernel(task: FitTask) -> KernelFeatures:
    """The kernel's own features, in the columns that occur in the rows."""
    kernel, some = task.kernel, task.rows.first_row
    if sp.issparse(kernel.feature_map(some)):
        if not isinstance(task.rows, InMemory):
            raise DataError(
                f"{task.owner}: which features {kernel!r:.80} has depends on the rows, and these "
                "come in blocks; take solvers.NystromSolver(), or pass all rows at once."
            )
        some = task.rows.part.points
    names = kernel.feature_names(some)
    return KernelFeatures(OwnFeatures(kernel, names), len(names))


def of_map(map_: Any, task: FitTask) -> KernelFeatures:
    """The features of a map, fitted to the rows of the task, with their error."""
    transform = Transform(_fitted(_of_the_kernel(clone(map_), task), task))
    width = int(transform(task.rows.first_row).shape[1])
    n = len(task.rows)
    some = np.sort(uniform_rows(n, min(n, _SAMPLE_ROWS), np.random.RandomState(0)))
    error = task.rows.apply_to(some, _KernelError(task.kernel, transform))
    return KernelFeatures(
        transform, width, {"feature_map_": transform.fitted, "kernel_error_": error}
    )


def unbound_map(map_: Any, task: FitTask) -> Any:
    """A map without its kernel, for a search over kernels, with a fixed seed."""
    checked = _of_the_kernel(clone(map_), task)
    known = checked.get_params(deep=False) if hasattr(checked, "get_params") else {}
    others: dict[str, Any] = {"kernel": None} if isinstance(_kernel_of(checked), Kernel) else {}
    if not isinstance(known.get("random_state", 0), Integral):
        others["random_state"] = seed_from(random_numbers(known["random_state"], task.owner))
    return checked.set_params(**others) if others else checked


def may_hold(size: float) -> bool:
    """Whether features of this size are kept in memory, instead of computed in every pass."""
    return size <= _IN_MEMORY and memory.fits(4 * size)


def no_frequencies(kernel: Kernel, map_: Any) -> str:
    """Why a kernel has no random features."""
    if map_ is not None and not isinstance(map_, RandomFourier):
        return ""
    try:
        for term in expand(kernel):
            for factor in term.factors:
                spectral_measure(factor.kernel)
    except NoFeatureMapError:
        return "no random frequencies"
    return ""


@dataclass(frozen=True, eq=False)
class OwnFeatures:
    """The features of a kernel, in the columns of the training rows.

    Strings or graphs have the features that occur in them. Columns are matched by name; features
    that do not occur in training are dropped, as their coefficients are zero.
    """

    kernel: Kernel
    names: list[str]  # the columns

    def __call__(self, points: Points) -> Any:
        """Rows of features, dense or sparse."""
        features, names = self.kernel.feature_map(points), self.kernel.feature_names(points)
        if names == self.names:
            return features if sp.issparse(features) else np.array(features)
        place = {name: column for column, name in enumerate(self.names)}
        shared = [(i, place[name]) for i, name in enumerate(names) if name in place]
        own, columns = np.array(shared, dtype=np.intp).reshape(-1, 2).T
        ones = np.ones(len(shared), dtype=features.dtype)
        turn = sp.csr_array((ones, (own, columns)), shape=(len(names), len(self.names)))
        return features @ turn


def _of_the_kernel(map_: Any, task: FitTask) -> Any:
    """The map of the model's kernel; a map of another kernel is refused.

    A map of another library has no kernel to compare; ``kernel_error_`` measures its error.
    """
    own = _kernel_of(map_)
    if own is None:
        return map_.set_params(kernel=task.kernel)
    if isinstance(own, Kernel) and task.rows.resolve(own) != task.kernel:
        raise ParameterError(
            f"{task.owner}: the map of RandomFeatures has kernel = {own!r:.80}, and the model "
            f"{task.kernel!r:.80}; leave the kernel of the map out, or pass the same."
        )
    return map_


def _kernel_of(map_: Any) -> Any:
    """The parameter `kernel` of a map; a string if it has none, or one of another library."""
    known = map_.get_params(deep=False) if hasattr(map_, "get_params") else {}
    return known.get("kernel", "")


def _fitted(map_: Any, task: FitTask) -> Any:
    """The map, fitted to rows in memory or in a stream."""
    if hasattr(map_, "_fit_rows"):
        return map_._fit_rows(task.rows)
    if isinstance(task.rows, InMemory):
        return map_.fit(task.rows.part.points.data)
    raise ParameterError(
        f"RandomFeatures: map = {map_!r:.80} cannot be fitted to rows that come in blocks; pass "
        "one of mercer's own, such as mc.RandomFourier(n_components=1000)."
    )


@dataclass(frozen=True)
class Transform:
    """A fitted transformer as a feature map of points."""

    fitted: Any

    @property
    def names(self) -> list[str]:
        """The names of the features."""
        return [str(name) for name in self.fitted.get_feature_names_out()]

    def __call__(self, points: Any) -> Any:
        """Rows of features, dense or sparse."""
        own = hasattr(self.fitted, "_fit_rows")
        features = self.fitted.transform(points if own else points.data)
        return features if sp.issparse(features) else np.array(features)


@dataclass(frozen=True, eq=False)
class _KernelError:
    """Root mean square of phi(x)'phi(z) - k(x, z), relative to that of k, on pairs of some rows."""

    kernel: Kernel
    features: Features

    @np.errstate(over="ignore", invalid="ignore")  # NaN where features overflow; solvers refuse
    def __call__(self, part: RowBlock) -> float:
        phi = self.features(part.points)
        products = phi @ phi.T
        dense = products.toarray() if sp.issparse(products) else products
        values = np.asarray(self.kernel(part.points, part.points), dtype=np.float64)
        return float(np.linalg.norm(dense - values)) / (float(np.linalg.norm(values)) or 1.0)
