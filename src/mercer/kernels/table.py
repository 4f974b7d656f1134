"""A kernel for a whole table."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mercer.arrays import Array
from mercer.exceptions import DataTypeError
from mercer.kernels.base import Kernel
from mercer.kernels.categorical import Categorical, Missing
from mercer.kernels.containers import by_narwhals, ingest, is_missing, numbers_of, tabular
from mercer.kernels.heuristics import FEWEST_DIFFERENCES, Spread
from mercer.kernels.points import Points
from mercer.kernels.stationary import Laplacian
from mercer.kernels.strings import Spectrum
from mercer.kernels.views import Numbers

# Mean length from which strings are text.
_TEXT_LENGTH = 20
# Share of the strings of a text column that must differ.
_TEXT_SHARE = 0.5
# Number of rows from which the weight of categories is computed.
_SAMPLE = 10_000
# What is added to the eigenvalues of a correlation matrix, so that noise is not magnified.
_SHRINKAGE = 0.3


def table_kernel(frame: Any, *, decorrelate: bool = False) -> Kernel:
    """A kernel for all columns of a data frame: (1 + numbers) * (1 + categories) + texts.

    The product has the effects of numbers, of categories, and of both together. It is an ordinary
    composition, which can be edited or written by hand:

    - Numbers and dates are standardised, and compared by their L1 distance, which outliers
      do not dominate. A missing number counts as the mean.
    - Strings, booleans and all other values are categories. A missing value is a category of its
      own. So is the place of a missing number.
    - Long strings that mostly differ are texts, compared by their substrings.

    The scales suit the number of columns: they were chosen on six tables of houses and persons.

    Parameters
    ----------
    frame : data frame
        The training rows, in a data frame of pandas, polars or pyarrow.
    decorrelate : bool, default=False
        Whether numbers are compared a second time after their correlations are removed. Columns
        that nearly repeat each other, such as rooms and households, then count by what tells them
        apart too. `KernelRidge` compares both with ``alpha="loo"``.

    Returns
    -------
    Kernel
        The composition. `fit` finds the means and standard deviations of the numbers.

    Examples
    --------
    >>> import mercer as mc
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": [1.5, 2.0, 3.5], "colour": ["red", "blue", None]})
    >>> for factor in mc.table_kernel(frame).kernels:
    ...     print(factor)
    Constant() + Laplacian(length_scale=1.13).standardized().on('size')
    Constant() + Categorical(weight=0.75).on('colour')
    """
    table = _frame(frame)
    if table is None or not table.columns:
        raise DataTypeError(
            f"table_kernel: a {type(frame).__name__} without named columns has no types to go by; "
            'pass a data frame, or use RBF("columns") for an array.'
        )
    kinds = {name: _kind(table.get_column(name)) for name in table.columns}
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    holes = [name for name in numbers if is_mixed(table.select(name))]
    levels = [name for name, kind in kinds.items() if kind == "category"]
    texts = [Spectrum(3).normalized().on(name) for name, kind in kinds.items() if kind == "text"]
    parts: list[Kernel] = []
    if numbers:
        parts.append(_numbers(table, numbers, decorrelate))
    if levels or holes:
        parts.append(_categories(table, levels, holes))
    both = [(1.0 + parts[0]) * (1.0 + parts[1])] if len(parts) == 2 else parts
    return reduce(operator.add, [*both, *texts])


def is_mixed(data: Any) -> bool:
    """Whether data are a frame with other columns than numbers, or with missing values."""
    frame = _frame(data)
    if frame is None:
        return False
    numbers = (numbers_of(frame.get_column(name)) for name in frame.columns)
    return any(values is None or np.isnan(values).any() for values in numbers)


def _frame(data: Any) -> Any:
    """The data as a frame of narwhals; None if they are none."""
    frame = by_narwhals(data.data if isinstance(data, Points) else data, "table_kernel")
    return frame if isinstance(frame, nw.DataFrame) else None


def _kind(column: Any) -> str:
    """What a column holds: numbers, categories, or texts: long strings that mostly differ."""
    if column.dtype != nw.Boolean and numbers_of(column) is not None:
        return "number"
    values = column.to_list() if column.dtype == nw.String else ()
    strings = [value for value in values if not is_missing(value)]
    long = sum(map(len, strings)) >= _TEXT_LENGTH * max(len(strings), 1)
    return "text" if long and len(set(strings)) > _TEXT_SHARE * len(strings) else "category"


def _numbers(table: Any, numbers: list[str], decorrelate: bool) -> Kernel:
    """The kernel of numbers: of their L1 distance, or of that before and after decorrelation."""
    both = decorrelate and len(numbers) > 1
    # Twice the length-scale of the rule "scale", for all columns that are compared.
    length = _rounded(2 * (1 + both) * len(numbers) / np.sqrt(np.pi))
    plain = Laplacian(length_scale=length).standardized()
    if not both:
        return plain.on(*numbers)
    return plain.on(*numbers) * plain.warp(Decorrelation.of(table.select(numbers))).on(*numbers)


@dataclass(frozen=True)
class Decorrelation:
    """Columns z C^(-1/2), z standardised and C their correlations plus a share of the identity."""

    means: tuple[float, ...]
    matrix: tuple[tuple[float, ...], ...]

    @classmethod
    def of(cls, table: Any) -> Decorrelation:
        """The decorrelation of some columns; a missing number counts as the mean."""
        values = _holed(table)
        spread = Spread.of(values, None)
        deviations = np.where(spread.varies, spread.deviations, 1.0)
        standard = np.nan_to_num((values - spread.means) / deviations)
        eigenvalues, vectors = np.linalg.eigh(standard.T @ standard / len(standard))
        root = (vectors / np.sqrt(np.maximum(eigenvalues, 0.0) + _SHRINKAGE)) @ vectors.T
        matrix = root / deviations[:, None]
        return cls(tuple(spread.means.tolist()), tuple(map(tuple, matrix.tolist())))

    @property
    def __name__(self) -> str:
        return "decorrelated"

    def __call__(self, data: Any) -> Array:
        """The decorrelated columns; a missing number stays missing."""
        values = _holed(data)
        decorrelated = np.nan_to_num(values - np.array(self.means)) @ np.array(self.matrix)
        return np.where(np.isnan(values), np.nan, decorrelated)


def _holed(data: Any) -> Array:
    """The numbers of a table, NaN where they are missing."""
    reader = Numbers("table_kernel", sparse=False, holes=True)
    table = tabular(ingest(data, "table_kernel"), "table_kernel")
    return np.asarray(reader.read(table).values, dtype=np.float64)


def _categories(table: Any, levels: list[str], holes: list[str]) -> Kernel:
    """The kernel of categories and of the places of missing numbers, with one weight for all."""
    points = Points(table.gather_every(max(1, len(table) // _SAMPLE)), copy=False)
    parts: list[Kernel] = []
    parts += [Categorical(1.0).on(*levels)] if levels else []
    parts += [Missing(1.0).on(*holes)] if holes else []
    views = [part._reader.leaves[0][1] for part in parts]
    differences = sum(points.columns(view).spread(None).differences for view in views)
    weight = _rounded(0.5 / max(differences, FEWEST_DIFFERENCES))
    weighted = [part.replace(weight=weight) for part in parts]
    return reduce(operator.mul, weighted)


def _rounded(value: float) -> float:
    """Three digits, which read better."""
    return float(f"{value:.3g}")
