"""Base classes of transformers from a kernel to explicit features."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import _core, checks, memory
from mercer.arrays import Array
from mercer.estimator.base import KernelEstimator
from mercer.estimator.by_blocks import BlockTransformer
from mercer.exceptions import DataError, NoFeatureMapError
from mercer.features.expansion import Term, expand, shares
from mercer.features.normal_draws import generator
from mercer.kernels.base import Kernel
from mercer.kernels.names import KernelLike
from mercer.kernels.points import Points
from mercer.kernels.views import View
from mercer.parallel import single_blas
from mercer.rows.rows import RowBlock, RowSource
from mercer.sampling import blocks
from mercer.streams.targets import NoTargets

# Size of the features of a block of rows, in bytes; fits in the cache.
_BLOCK_BYTES = 2**23
# Smallest number of rows of a block.
_FEWEST_ROWS = 16
# Size of the output above which available memory is checked, in bytes.
_FORECAST_BYTES = 2**26
# Number of rows, evenly spaced, whose median is the centre of each column.
_CENTRE_ROWS = 127


def _centres(views: Sequence[View], part: RowBlock) -> list[Array]:
    """The medians of the columns of views, for some rows."""
    return [part.points.centre(view) for view in views]


class TermMap(Protocol):
    """The features of one term of a kernel."""

    @property
    def width(self) -> int:
        """The number of features."""

    def write(self, parts: Sequence[Any], out: Array) -> None:
        """Write the features of rows to `out`; `parts` has their columns for each factor."""


@dataclass(frozen=True, eq=False)
class ConstantFeature:
    """The one feature of a constant kernel."""

    value: float  # the square root of the constant
    width: int = 1

    def write(self, parts: Sequence[Any], out: Array) -> None:
        """Write the number to `out`."""
        out[:] = self.value


def in_precision(value: Any, dtype: np.dtype[Any]) -> Any:
    """A map with the floating-point arrays of it, and of what it is made of, in another type."""
    if isinstance(value, tuple | list):
        return type(value)(in_precision(item, dtype) for item in value)
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        typed = {name: in_precision(part, dtype) for name, part in parts.items()}
        return replace(cast(Any, value), **typed)
    is_floating = getattr(getattr(value, "dtype", None), "kind", "") == "f"
    return value.astype(dtype, copy=False) if is_floating else value


class FeatureTransformer(ClassNamePrefixFeaturesOutMixin, BlockTransformer, KernelEstimator):
    """Base of transformers whose output has inner products close to a kernel.

    A subclass draws the features of one term of a kernel. The terms of a sum share the components
    in proportion to their weights, and their features stand side by side.
    """

    kernel_: Kernel
    maps_: list[Any]

    #: Whether features may overflow; if not, only the size of the data is checked.
    _may_overflow: ClassVar[bool] = True
    #: The remedy for an overflow.
    _in_range: ClassVar[str] = "divide the data, or the kernel's inner product, by a number"

    def __init__(
        self,
        kernel: KernelLike = None,
        n_components: int = 1000,
        *,
        random_state: Any = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(kernel, degree, gamma, coef0)
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Draw the features; the data determine only columns, length-scales and the centre.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Points, Blocks or Dask collection
            The points.
        y : object, optional
            Ignored.

        Returns
        -------
        self
            The transformer.
        """
        with self._fitting():
            self._check_parameters()
            kernel = self._kernel_or_default(self.kernel, X)
            rows, data = self._stream(kernel, X, None, None, NoTargets())
            if rows is not None:
                return self._fit_rows(rows)
            points = self._validate_points(kernel, data.X, reset=True, copy=False)
            self._draw_all(kernel.resolve(points), points)
        return self

    def _fit_rows(self, rows: RowSource) -> Self:
        """Draw the features for rows in memory or in blocks."""
        with self._fitting():
            self._check_parameters()
            kernel = self._kernel_or_default(self.kernel, rows.first_row)
            validate_data(
                self, rows.first_row.data, "no_validation", reset=True, skip_check_array=True
            )
            resolved = rows.resolve(kernel)
            self._draw_all(resolved, self._centred(resolved, rows))
        return self

    def _default_kernel_for(self, X: Any) -> Kernel:
        return self._default_kernel()  # the kernel of a table has no random features

    def _centred(self, kernel: Kernel, rows: RowSource) -> Points:
        """The first row, with the column centres of a sample of rows attached."""
        views = [factor.view for term in self._terms(kernel) for factor in term.factors]
        some = np.arange(0, len(rows), -(-len(rows) // _CENTRE_ROWS))
        centres = rows.apply_to(some, partial(_centres, views))
        return rows.first_row.about(dict(zip(views, centres, strict=True)))

    _known_row: Points | None = None

    def _draw_all(self, resolved: Kernel, points: Points) -> None:
        terms, owner = self._terms(resolved), type(self).__name__
        weights, fixed = [term.weight for term in terms], self._fixed_widths(terms)
        widths = shares(owner, weights, fixed, self.n_components)
        rng = generator(self.random_state, owner)
        drawn = zip(terms, widths, strict=True)
        self.maps_ = [self._draw(term, width, points, rng) for term, width in drawn]
        self.kernel_ = resolved
        self._known_row = points[[0]].detached()

    def transform(self, X: Any) -> Array:
        """Compute the features.

        Parameters
        ----------
        X : array-like, sparse matrix, data frame, Points, Blocks or Dask collection
            The points.

        Returns
        -------
        ndarray or Dask array of shape (n_samples, n_components)
            The features, in the precision of X; their inner products estimate the kernel. Lazy for
            a Dask collection.
        """
        check_is_fitted(self)
        return self._features(X, self.maps_)

    @property
    def _n_features_out(self) -> int:
        return sum(map_.width for map_ in self.maps_)

    @abstractmethod
    def _draw(self, term: Term, width: int, points: Points, rng: np.random.Generator) -> TermMap:
        """Draw the features of one term."""

    def _fixed_widths(self, terms: Sequence[Term]) -> list[int]:
        """Count the features of terms with an exact map; 0 for those that share the others."""
        return [0 if term.factors else 1 for term in terms]

    def _check_parameters(self) -> None:
        checks.require_count(type(self).__name__, "n_components", self.n_components, example=1000)

    def _terms(self, kernel: Kernel) -> list[Term]:
        terms = expand(kernel)
        if not terms:
            raise NoFeatureMapError(
                f"{type(self).__name__}: {kernel!r:.80} is zero and has no features; pass a kernel "
                "of positive scale."
            )
        return terms

    def _features(self, X: Any, maps: Sequence[TermMap]) -> Array:
        points = self._validate_points(self.kernel_, X, reset=False, copy=False)
        views = [[factor.view for factor in term.factors] for term in self._terms(self.kernel_)]
        parts = [[points.matrix(view) for view in term] for term in views]
        types = [matrix.dtype for term in parts for matrix in term]
        dtype = np.result_type(*types) if types else np.dtype(np.float64)
        maps = in_precision(list(maps), dtype)
        if not self._may_overflow:
            self._require_range([matrix for term in parts for matrix in term], dtype)
        shape = len(points), self._n_features_out
        self._require_memory(math.prod(shape) * dtype.itemsize, f"features of {shape[0]} rows")
        out = np.empty(shape, dtype)
        with single_blas():
            width = shape[1] * dtype.itemsize / 8
            for rows in blocks(shape[0], width, _BLOCK_BYTES, least=_FEWEST_ROWS):
                self._write_rows(maps, parts, rows, out[rows])
        return out

    def _write_rows(
        self, maps: Sequence[TermMap], parts: Sequence[Sequence[Any]], rows: slice, out: Array
    ) -> None:
        stops = np.cumsum([map_.width for map_ in maps])
        for map_, stop, matrices in zip(maps, stops, parts, strict=True):
            map_.write([matrix[rows] for matrix in matrices], out[:, stop - map_.width : stop])
        if self._may_overflow:
            self._require_finite(out, rows)

    def _require_finite(self, out: Array, rows: slice) -> None:
        """Refuse rows whose features overflow."""
        if not _core.all_finite(out):
            raise DataError(
                f"{type(self).__name__}: features of rows {rows.start} to {rows.stop} are beyond "
                f"the range of {out.dtype}, as the kernel is; {self._in_range}."
            )

    def _require_range(self, matrices: Sequence[Any], dtype: Any) -> None:
        """Refuse data whose squares would overflow."""
        limit = float(np.sqrt(np.finfo(dtype).max))
        if any(max(float(m.max()), -float(m.min())) > limit for m in matrices):
            raise DataError(
                f"{type(self).__name__}: the data have entries above {limit:.1g}, whose "
                f"projections are beyond the range of {dtype}; scale the data."
            )

    def _require_memory(self, size: int, what: str) -> None:
        if size > _FORECAST_BYTES:
            memory.require(
                size,
                f"{type(self).__name__}: {self.n_components} {what}",
                "pass fewer n_components, transform fewer rows at a time, or use float32",
            )


class DrawnFeatures(FeatureTransformer):
    """Base of transformers that draw independent, orthogonal or quasi-random vectors."""

    #: The values of the parameter ``method``.
    _methods: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        kernel: KernelLike = None,
        n_components: int = 1000,
        *,
        method: str = "orthogonal",
        random_state: Any = None,
        degree: int = 3,
        gamma: float | str = "scale",
        coef0: float = 0.0,
    ) -> None:
        super().__init__(
            kernel,
            n_components,
            random_state=random_state,
            degree=degree,
            gamma=gamma,
            coef0=coef0,
        )
        self.method = method

    def _check_parameters(self) -> None:
        super()._check_parameters()
        checks.require_choice(type(self).__name__, "method", self.method, self._methods)
