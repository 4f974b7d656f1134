"""The features that stand for a kernel: its own, or those of a map that approximates it."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone

from mercer import memory
from mercer.exceptions import DataError, NoFeatureMapError, ParameterError
from mercer.features.expansion import expand
from mercer.features.fourier import RandomFourier
from mercer.features.spectral_measures import spectral_measure
from mercer.kernels.base import Kernel
from mercer.kernels.points import Points
from mercer.rows.rows import InMemory, RowBlock, RowSource
from mercer.rows.sums import Features
from mercer.sampling import random_numbers, seed_from, uniform_rows

Array = NDArray[np.floating[Any]]

# Rows on the pairs of which features are compared with the kernel, and two kernels with each other.
_SAMPLE = 256
_COMPARED = 32
# Features of another library are those of another kernel if the error is so many times what chance
# leaves; with fewer than so many features, chance is not known from their spread. Of 100 samplers
# of the right kernel with 100 features or more none exceeds three times.
_BY_CHANCE = 4.0
_SPREAD_FROM = 30
# Bytes of features that may be held all at once.
_IN_MEMORY = 2**30


class FeatureTask(Protocol):
    """What is asked of a task: in whose name, which kernel, and the rows."""

    @property
    def owner(self) -> str:
        """The name of the model, for messages."""
        ...

    @property
    def kernel(self) -> Kernel:
        """The kernel, resolved."""
        ...

    @property
    def rows(self) -> RowSource:
        """The rows."""
        ...


@dataclass(frozen=True, eq=False)
class KernelFeatures:
    """Features whose products are the kernel, or approximate it."""

    features: OwnFeatures | Transform  # what makes them of points, and their names
    width: int  # how many there are
    # fitted attributes that say how near the products are to the kernel
    quality: dict[str, Any] = field(default_factory=dict)
    doubt: str = ""  # A clause for a warning; empty if all is well


def of_kernel(task: FeatureTask) -> KernelFeatures:
    """The kernel's own features."""
    features = OwnFeatures.of(task)
    return KernelFeatures(features, len(features.names))


def of_map(map_: Any, task: FeatureTask) -> KernelFeatures:
    """The features of a map, with their error."""
    transform = fitted_map(map_, task)
    width = int(transform(task.rows.first_row).shape[1])
    n = len(task.rows)
    some = np.sort(uniform_rows(n, min(n, _SAMPLE), np.random.RandomState(0)))
    error, by_chance = task.rows.apply_to(some, _KernelError(task.kernel, transform))
    quality = {"feature_map_": transform.fitted, "kernel_error_": error}
    foreign = not isinstance(_kernel_of(transform.fitted), Kernel) and width >= _SPREAD_FROM
    return KernelFeatures(
        transform, width, quality, _other_kernel(error, by_chance) if foreign else ""
    )


def fitted_map(map_: Any, task: FeatureTask) -> Transform:
    """The map of the task's kernel, fitted to its rows."""
    return Transform(_fitted(_of_the_kernel(clone(map_), task), task))


def unbound_map(map_: Any, task: FeatureTask) -> Any:
    """A map without its kernel, so that it gets others, which draws the same numbers each time."""
    found = _of_the_kernel(clone(map_), task)
    known = found.get_params(deep=False) if hasattr(found, "get_params") else {}
    others: dict[str, Any] = {"kernel": None} if isinstance(_kernel_of(found), Kernel) else {}
    if not isinstance(known.get("random_state", 0), Integral):
        others["random_state"] = seed_from(random_numbers(known["random_state"], task.owner))
    return found.set_params(**others) if others else found


def may_hold(size: float) -> bool:
    """Whether the features of all rows are held, and not made again in every pass."""
    return size <= min(_IN_MEMORY, memory.available() // 4)


def no_frequencies(kernel: Kernel, map_: Any) -> str:
    """Why random features cannot stand for a kernel."""
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
    """The features of a kernel, in the columns that the training rows have.

    Rows of strings or graphs have the features that occur in them: columns are matched by name,
    and what does not occur in training counts for nothing, as its coefficient is zero.
    """

    kernel: Kernel
    names: list[str]  # the columns

    @classmethod
    def of(cls, task: FeatureTask) -> OwnFeatures:
        """Those of the rows of a task."""
        kernel, head = task.kernel, task.rows.first_row
        if not sp.issparse(kernel.feature_map(head)):
            return cls(kernel, kernel.feature_names(head))
        if isinstance(task.rows, InMemory):
            return cls(kernel, kernel.feature_names(task.rows.part.points))
        raise DataError(
            f"{task.owner}: which features {kernel!r:.80} has depends on the rows, and these come "
            "in blocks; take solvers.NystromSolver(), or pass all rows at once."
        )

    def __call__(self, points: Points) -> Any:
        """Rows of features, dense or sparse."""
        found, names = self.kernel.feature_map(points), self.kernel.feature_names(points)
        if names == self.names:
            return found if sp.issparse(found) else np.array(found)
        place = {name: column for column, name in enumerate(self.names)}
        shared = [(i, place[name]) for i, name in enumerate(names) if name in place]
        own, columns = np.array(shared, dtype=np.intp).reshape(-1, 2).T
        ones = np.ones(len(shared), dtype=found.dtype)
        turn = sp.csr_array((ones, (own, columns)), shape=(len(names), len(self.names)))
        return found @ turn


def _of_the_kernel(map_: Any, task: FeatureTask) -> Any:
    """The map of the model's kernel; one of another kernel is refused.

    What is not known to be made from a kernel, such as a transformer of another library, is taken
    at its word: ``kernel_error_`` tells, and a warning where that is no matter of chance.
    """
    own = _kernel_of(map_)
    if own is None:
        return map_.set_params(kernel=task.kernel)
    if isinstance(own, Kernel) and not _are_same(task.rows.resolve(own), task):
        raise ParameterError(
            f"{task.owner}: the map of RandomFeatures has kernel = {own!r:.80}, and the model "
            f"{task.kernel!r:.80}; leave the kernel of the map out, or pass the same."
        )
    return map_


def _kernel_of(map_: Any) -> Any:
    """The parameter `kernel` of a map; a string if it has none, or one of another library."""
    known = map_.get_params(deep=False) if hasattr(map_, "get_params") else {}
    return known.get("kernel", "")


def _other_kernel(error: float, by_chance: float) -> str:
    """Whether features seem to be those of another kernel, as a clause."""
    if error <= _BY_CHANCE * by_chance:
        return ""
    return (
        f"the features of the map seem to be those of another kernel: kernel_error_ = {error:.2g}, "
        f"where so many random features of this one would leave about {by_chance:.2g}; give the "
        "map the parameters of the model's kernel, or leave it to mc.RandomFourier(), which gets "
        "them"
    )


def _are_same(kernel: Kernel, task: FeatureTask) -> bool:
    """Whether kernels are equal, or have the same values on some rows: 2 * k and Fixed(2) * k."""
    if kernel == task.kernel:
        return True
    n = len(task.rows)
    few = np.arange(0, n, -(-n // _COMPARED))
    return task.rows.apply_to(few, _Agreement(kernel, task.kernel))


@dataclass(frozen=True, eq=False)
class _Agreement:
    """Whether two kernels have the same values, up to rounding, on some rows."""

    kernel: Kernel
    other: Kernel

    def __call__(self, part: RowBlock) -> bool:
        wanted = self.other(part.points)
        tol = 16 * float(np.finfo(wanted.dtype).eps)
        close = np.allclose(
            self.kernel(part.points), wanted, rtol=tol, atol=tol * np.abs(wanted).max()
        )
        return bool(close)


def _fitted(map_: Any, task: FeatureTask) -> Any:
    """The map, fitted to rows wherever they are."""
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
    """A fitted transformer, on points."""

    fitted: Any  # the transformer

    @property
    def names(self) -> list[str]:
        """What it calls its features."""
        return [str(name) for name in self.fitted.get_feature_names_out()]

    def __call__(self, points: Any) -> Any:
        """Rows of features, dense or sparse."""
        found = self.fitted.transform(points.data)
        return found if sp.issparse(found) else np.array(found)


@dataclass(frozen=True, eq=False)
class _KernelError:
    r"""How far inner products of features are from the kernel, relative to it, on some pairs.

    Of random features it is known how far chance takes them: a product is a sum of m terms
    t_j = phi_j(x) phi_j(z), which if they are independent has about the variance

    .. math:: \frac{m}{m - 1} \Bigl( \sum_j t_j^2 - \tfrac1m \bigl(\sum_j t_j\bigr)^2 \Bigr) ;

    a sine beside its cosine makes it less.
    """

    kernel: Kernel
    features: Features

    def __call__(self, part: RowBlock) -> tuple[float, float]:
        """The error, and what chance leaves of it, both relative; NaN where features overflow."""
        with np.errstate(over="ignore", invalid="ignore"):  # which solvers refuse
            return self._compared(part.points)

    def _compared(self, some: Points) -> tuple[float, float]:
        phi = self.features(some)
        products = phi @ phi.T
        found = products.toarray() if sp.issparse(products) else products
        wanted = np.asarray(self.kernel(some, some), dtype=np.float64)
        # In units of the largest value, since squares of large ones are no numbers.
        unit = float(np.abs(wanted).max(initial=0.0)) or 1.0
        length = float(np.linalg.norm(wanted / unit)) or 1.0
        error = float(np.linalg.norm(found / unit - wanted / unit)) / length
        return error, self._spread(phi, found, unit) / length

    @staticmethod
    def _spread(phi: Any, products: Array, unit: float) -> float:
        m, scaled = phi.shape[1], phi.astype(np.float64) / np.sqrt(unit)
        squares = scaled.multiply(scaled) if sp.issparse(scaled) else np.square(scaled)
        columns = np.asarray(squares.sum(axis=0)).ravel()
        total = float(columns @ columns) - float(np.sum(np.square(products / unit))) / m
        return float(np.sqrt(max(total, 0.0) * m / max(m - 1, 1)))
