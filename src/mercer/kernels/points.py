"""Points: data prepared once for a kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from mercer import _core
from mercer.arrays import AnyArray as Array
from mercer.exceptions import DataError, DataTypeError, IndexingError, NotDifferentiableError
from mercer.kernels.containers import (
    given_names,
    guarded,
    ingest,
    join,
    len_of,
    own_copy,
    tabular,
    take,
)
from mercer.kernels.views import Columns, Numbers

_NO_ROWS = np.empty((0, 0))


class Points:
    """Data prepared for a kernel, accepted wherever data are.

    What has been computed for one view (numbers, features, packed panels) is kept and used again.
    Subsets, ``points[rows]``, remember which rows they came from.

    Parameters
    ----------
    data : array, sparse matrix, data frame or sequence
        The data, one row (object) each.
    owner : str
        On whose behalf the data are read; errors are in its name.
    copy : bool, default=True
        Whether to keep a copy, which later writes to the data do not reach.

    Examples
    --------
    >>> import mercer as mc
    >>> points = mc.RBF().prepare([[0.0], [1.0], [2.0]])
    >>> len(points), len(points[:2])
    (3, 2)
    """

    __slots__ = (
        "_centres",
        "_columns",
        "_data",
        "_ids",
        "_length",
        "_parent",
        "_rows",
        "original_length",
        "packs",
    )

    #: How many rows the original data have; these points may be some of them.
    original_length: int

    def __init__(self, data: Any, owner: str = "Points", *, copy: bool = True) -> None:
        plain = type(data) is np.ndarray and data.ndim
        self._data = data if plain else ingest(data, owner)
        if copy:
            self._data = own_copy(self._data)
        self._length = self.original_length = len(data) if plain else len_of(self._data)
        self._parent: Points | None = None
        self._rows: Any = None
        self._ids: Array | None = None
        # What has been computed for each view: columns, their centres, and packed panels.
        self._columns: dict[Any, Columns] = {}
        self._centres: dict[Any, Array] = {}
        self.packs: dict[Any, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"data": self.data, "ids": self.ids, "original_length": self.original_length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["data"], copy=False)  # type: ignore[misc]
        self._ids, self.original_length = state["ids"], state["original_length"]

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"Points({self._length} rows)"

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, and of columns where the data have some."""
        return (self._length, *getattr(self._frame(), "shape", (0,))[1:])

    def __getitem__(self, rows: Any) -> Points:
        """Return a subset of the points; ``rows`` is a slice, a mask or an array of positions."""
        try:
            positions_ = np.atleast_1d(np.arange(self._length)[rows])
        except IndexError:
            raise IndexingError(
                f"Points[{rows!r}]: there are {self._length} rows; select them by a slice, a mask "
                "or positions among them."
            ) from None
        part = Points(_NO_ROWS, copy=False)
        part._parent, part._rows = self, rows if isinstance(rows, slice) else positions_
        part._data, part._ids, part._length = None, self.ids[positions_], len(positions_)
        part.original_length = self.original_length
        return part

    @property
    def origin(self) -> Points:
        """The points that this is a subset of; themselves when it is none."""
        return self if self._parent is None else self._parent.origin

    @property
    def ids(self) -> Array:
        """Which row of the original data each point is."""
        if self._ids is None:
            self._ids = np.arange(self._length)
        return self._ids

    @property
    def data(self) -> Any:
        """The data, in the user's own type where possible."""
        if self._data is None:
            parent: Any = self._parent
            rows = self._rows
            while parent._data is None and not isinstance(parent._rows, slice):
                parent, rows = parent._parent, parent._rows[rows]  # no copy of all rows between
            data = parent._frame()
            self._data = data[rows] if isinstance(data, np.ndarray) else take(data, rows)
        return self._data.to_native() if isinstance(self._data, nw.DataFrame) else self._data

    def _frame(self) -> Any:
        _ = self.data
        return self._data

    def freeze(self) -> None:
        """Put a copy in the place of the container, which later writes do not reach.

        Objects in a list are not copied: do not change those in place.
        """
        plain = type(self._data) is np.ndarray
        self._data = self._data.copy() if plain else own_copy(self._frame())
        self._columns, self._centres, self.packs = {}, {}, {}

    def ordered_like(self, other: Points) -> Points:
        """These points with the columns of a data frame in the order of another's."""
        if type(self._data) is np.ndarray:
            return self
        own, wanted = given_names(self.origin._data), given_names(other.origin._data)
        if own is None or wanted is None or own == wanted or sorted(own) != sorted(wanted):
            return self
        turned = Points(self._frame().select(*wanted), copy=False)
        turned._ids, turned.original_length = self.ids, self.original_length
        return turned

    def detached(self) -> Points:
        """These points with rows of their own; the points that they came from can be freed."""
        part = Points(self._frame(), copy=False)
        part._ids, part.original_length = self.ids, self.original_length
        if self._parent is None or isinstance(self._rows, slice):  # other rows are a copy already
            part.freeze()
        return part

    @staticmethod
    def concatenate(parts: Sequence[Points]) -> Points:
        """Join points one after another; their rows are numbered from 0 again.

        Parameters
        ----------
        parts : sequence of Points
            Data of the same kind: arrays or sparse matrices of the same width, data frames with the
            same columns, or lists of objects.

        Returns
        -------
        Points

        Examples
        --------
        >>> import mercer as mc
        >>> first, second = mc.Points([[0.0]]), mc.Points([[1.0], [2.0]])
        >>> mc.Points.concatenate([first, second]).data.tolist()
        [[0.0], [1.0], [2.0]]
        """
        if not parts:
            raise DataError("Points.concatenate: there are no points; pass at least one part.")
        return Points(join([part._frame() for part in parts]), copy=False)

    def columns(self, view: Any) -> Columns:
        """The columns of a view, computed once."""
        columns = self._columns.get(view)
        if columns is None:
            if self._parent is not None:
                columns = self._parent.columns(view).take(self._rows)
            else:
                columns = view.read(self._data)
            self._columns[view] = columns
        return columns

    def column_names(self, view: Any) -> tuple[str, ...]:
        """Names of the columns of a view: the data frame's, or positions in the array."""
        columns = self.columns(view)
        if columns.names is not None:
            return columns.feature_names
        data = self._frame()
        names = view.column_names(data.shape[1]) if getattr(data, "ndim", 0) == 2 else ()
        return names or tuple(f"x{j}" for j in range(columns.width))

    def matrix(self, view: Any) -> Any:
        """The numbers of a view: an array or a CSR array."""
        return self.columns(view).values

    def matrix_like(self, view: Any, reference: Points) -> Any:
        """The numbers of a view in the columns of other points."""
        own, other = self.columns(view), reference.columns(view)
        if own.keys is None and own.width != other.width:
            raise DataError(
                f"{view.owner}: X has {own.width} columns but the points it is compared "
                f"with have {other.width}; pass data with the same columns on both sides."
            )
        if own.given and other.given and own.given != other.given:
            raise DataError(
                f"{view.owner}: the columns of X are {_listed(own.given)}, but those it is "
                f"compared with are {_listed(other.given)}; pass data frames with the same columns "
                "on both sides, or select them by name with .on(...)."
            )
        return own.like(other)

    def centre(self, view: Any) -> Array:
        """A middle of each column of a view (0 for sparse data, which stay sparse).

        Distances do not depend on it; their rounding does.
        """
        centre = self._centres.get(view)
        if centre is None:
            matrix = self.matrix(view)
            dense = isinstance(matrix, np.ndarray)
            centre = _core.middle(matrix) if dense else np.zeros(matrix.shape[1])
            self._centres[view] = centre
        return centre

    def about(self, centres: Mapping[Any, Array]) -> Points:
        """These points around given centres of their views, such as those of more points."""
        points = self.detached()
        points._centres.update(centres)
        return points

    def frame_of(self, view: Any) -> Any:
        """The data after the steps of a view."""
        return view.apply(self._frame())

    def data_of(self, view: Any) -> Any:
        """The data after the steps of a view, in the user's own type: for Python functions."""
        return guarded(self.frame_of(view))

    def function_values(self, view: Any, function: Callable[[Any], Any]) -> Array:
        """One number for each point, from a function of the data."""
        values = _numbers_of(function, function(self.data_of(view)))
        if values.shape != (self._length,):
            raise DataError(
                f"scaled_by: {function!r} returned {values.size} numbers for {self._length} rows; "
                "it must return one number for each row."
            )
        if not np.isfinite(values).all():
            raise DataError(
                f"scaled_by: {function!r} returned NaN or infinity; it must return finite numbers."
            )
        return values

    def pull_back(self, view: Any, cotangent: Array) -> Array:
        """Carry a gradient in the columns of a view back to the columns of the data."""
        if not isinstance(view.reader, Numbers):
            raise NotDifferentiableError(
                f"{view.owner}: the gradient in the inputs needs numeric columns; use a kernel of "
                "numbers."
            )
        stages = [tabular(self._frame(), view.owner)]
        for step in view.steps:
            stages.append(step(stages[-1], view.owner))
        for step, data in zip(reversed(view.steps), reversed(stages[:-1]), strict=True):
            cotangent = step.pull_back(data, cotangent)
        return cotangent


def _numbers_of(function: Callable[[Any], Any], result: Any) -> Array:
    """What a function of the data returned, if it is real numbers."""
    try:
        numbers = None if np.iscomplexobj(result) else np.asarray(result, dtype=float)
    except (TypeError, ValueError):
        numbers = None
    if result is None or numbers is None:
        raise DataTypeError(
            f"scaled_by: {function!r} returned {result!r:.60}, which is not real numbers; it must "
            "return one number for each row."
        )
    return numbers.reshape(-1)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:10])) + (", ..." if len(names) > 10 else "")


def as_points(data: Any, owner: str) -> Points:
    """Return points as they are, and anything else as new points, in the name of the owner."""
    return data if isinstance(data, Points) else Points(data, owner, copy=False)
