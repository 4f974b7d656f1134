"""Tables in files, in blocks of rows."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from csv import reader
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw

from mercer.exceptions import (
    DataError,
    DataWarning,
    MissingDependencyError,
    ParameterError,
    warn,
)
from mercer.streams.blocks import Blocks
from mercer.streams.directories import File, files_in, is_number, is_parquet

# Bytes of text that are parsed at a time: pyarrow reads about 36 such pieces ahead.
_TEXT_BYTES = 2**20
# Bytes of text by which columns have the types that they have.
_TYPED_BYTES = 2**22
# Bytes of each column that are read from a Parquet file at a time.
_PAGE_BYTES = 2**16


def read_blocks(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    target: str | list[str] | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
    header: bool = True,
) -> Blocks:
    r"""Read tables in Parquet or CSV files in blocks, as often as a fit needs.

    Parameters
    ----------
    path : path, or sequence of paths
        Files that end in .parquet, .pq, .csv, .csv.gz or .tsv, with the same columns, or
        directories, of which all such files are read, those in directories below them too, in the
        order of their paths. Names that begin with a dot or an underscore are left out. A directory
        below that is called ``year=2020`` is a column ``year`` of the files in it.
    target : str or list of str, optional
        The columns that hold the targets.
    weight : str, optional
        The column that holds the weights of the rows.
    columns : sequence of str, optional
        The columns that hold the points; by default all others.
    batch_rows : int, default=65536
        How many rows a block has at most.
    header : bool, default=True
        Whether the first row of a CSV file holds the names of its columns. If it does not, they are
        called "column_0", "column_1" and so on.

    Returns
    -------
    Blocks
        What `fit`, `predict` and `transform` take in place of X. A block is a table of pyarrow, or
        of polars where that is installed and pyarrow is not. Whole numbers in CSV files are read as
        floating ones, since later rows may not be whole.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import mercer as mc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "houses.csv")
    ...     _ = file.write_text("area,price\n50,100\n60,120\n70,140\n")
    ...     blocks = mc.read_blocks(file, target="price")
    ...     model = mc.KernelRidge(mc.Linear(), alpha=1e-6).fit(blocks)
    ...     model.predict(blocks).round(3).tolist()
    [100.0, 120.0, 140.0]
    """
    if isinstance(batch_rows, bool) or not isinstance(batch_rows, Integral) or batch_rows < 1:
        raise ParameterError(
            f"read_blocks: batch_rows = {batch_rows!r} is not a whole number >= 1; pass for "
            "example 65536."
        )
    if not isinstance(header, bool):
        raise ParameterError(
            f"read_blocks: header = {header!r:.80} is neither True nor False; pass one of them."
        )
    _require_names(target, weight, columns)
    targets = [target] if isinstance(target, str) else list(target or [])
    wanted = None
    if columns is not None:
        wanted = [*columns, *targets, *([weight] if weight is not None else [])]
    files = files_in(path)
    if header:
        for file in files:
            _require_header(file.path, wanted)
    read = partial(_library(), rows=int(batch_rows), header=header)
    return Blocks(_Files(files, read, wanted), target=target, weight=weight)


def _require_names(target: Any, weight: Any, columns: Any) -> None:
    """Refuse what names no columns."""
    for name, value, one, several in (
        ("target", target, True, True),
        ("weight", weight, True, False),
        ("columns", columns, False, True),
    ):
        if value is None or (one and isinstance(value, str)):
            continue
        listed = several and isinstance(value, Iterable) and not isinstance(value, str | Iterator)
        if listed and all(isinstance(item, str) for item in value):
            continue
        rule = " or ".join(["the name of a column"] * one + ["a list of names"] * several)
        raise ParameterError(f"read_blocks: {name} = {value!r:.80} is not {rule}; pass such.")


@dataclass(frozen=True)
class _Files:
    """Tables that are read file by file, at every pass again."""

    files: tuple[File, ...]
    read: Callable[..., Iterable[Any]]
    columns: list[str] | None

    def __iter__(self) -> Iterator[Any]:
        for file in self.files:
            with _readable(file.path):
                yield from self._tables(file)

    def _tables(self, file: File) -> Iterator[Any]:
        """The tables in a file, with the columns that its directories are."""
        if not file.constants:
            yield from self.read(file.path, self.columns)
            return
        names = self.columns
        inside = [n for n in names or [] if n not in file.constants] or None
        for table in self.read(file.path, inside):
            frame = nw.from_native(table, eager_only=True)
            added = {n: v for n, v in file.constants.items() if n not in frame.columns}
            frame = frame.with_columns(*(nw.lit(v).alias(n) for n, v in added.items()))
            yield (frame if names is None else frame.select(*names)).to_native()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say which file cannot be read."""
    try:
        yield
    except (DataError, GeneratorExit):
        raise
    except Exception as error:  # each library has errors of its own
        raise DataError(
            f"read_blocks: {str(path)!r} cannot be read ({error}); pass a file that can, and names "
            "of columns that it has."
        ) from error


def _separator(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _first_row(path: Path) -> list[str]:
    """The first row of a CSV file, as text."""
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return next(filter(None, reader(file, delimiter=_separator(path))), [])


def _require_header(path: Path, columns: list[str] | None) -> None:
    """Refuse names that two columns of a CSV file have; warn where names are numbers."""
    if is_parquet(path):
        return
    with _readable(path):
        names = _first_row(path)
    _require_distinct(path, names, columns)
    if names and all(map(is_number, names)):
        warn(
            f"read_blocks: the first row of {str(path)!r}, {', '.join(names[:3])}, ..., is taken "
            "for names of columns, and they are numbers; pass header=False if it is data.",
            DataWarning,
        )


def _require_distinct(path: Path, names: Sequence[str], columns: list[str] | None) -> None:
    """Refuse names that two of the columns that are wanted have."""
    counts = Counter(name for name in names if columns is None or name in columns)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DataError(
            f"read_blocks: {str(path)!r} has several columns {twice[0]!r}; give each a name of its "
            "own, or pass header=False if the first row of a CSV file is data."
        )


def _numbered(path: Path) -> list[str]:
    """The names of the columns of a CSV file that has none."""
    return [f"column_{i}" for i in range(len(_first_row(path)))]


def _library() -> Callable[..., Iterator[Any]]:
    """The reader of the library that is there; of both, the one that holds less in memory."""
    if find_spec("pyarrow") is not None:
        return _by_pyarrow
    if find_spec("polars") is not None:
        return _by_polars
    raise MissingDependencyError(
        "read_blocks needs pyarrow or polars, and neither is installed; install one of them, as in "
        "pip install pyarrow."
    )


def _by_pyarrow(path: Path, columns: list[str] | None, rows: int, header: bool) -> Iterator[Any]:
    import pyarrow as pa

    if is_parquet(path):
        batches = _parquet_batches(path, columns, rows)
    else:
        batches = _csv_batches(path, columns, header)
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield pa.Table.from_batches([batch.slice(start, rows)])


def _parquet_batches(path: Path, columns: list[str] | None, rows: int) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    # Columns are read a piece at a time: a row group, which may be the whole file, is not held.
    with ParquetFile(path, pre_buffer=False, buffer_size=_PAGE_BYTES) as file:
        known = file.schema_arrow.names
        _require_distinct(path, known, columns)
        unknown = [name for name in columns or [] if name not in known]
        if unknown:  # the library would leave it out
            raise DataError(f"read_blocks: {str(path)!r} has no column {unknown[0]!r}.")
        yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _csv_batches(path: Path, columns: list[str] | None, header: bool) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    names = None if header else _numbered(path)
    parse = csv.ParseOptions(delimiter=_separator(path))
    read = csv.ReadOptions(block_size=_TEXT_BYTES, column_names=names)
    # The types are those that the first rows suggest: later ones may have fractions.
    types = {
        field.name: pa.float64()
        if pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        else field.type
        for field in _first_rows(path, names).schema
    }
    convert = csv.ConvertOptions(include_columns=columns, column_types=types)
    with csv.open_csv(path, read, parse, convert) as file:
        yield from file


def _first_rows(path: Path, names: list[str] | None) -> Any:
    """The first rows of a CSV file as a table: a reader of all would read far ahead."""
    import pyarrow as pa
    from pyarrow import csv

    with pa.input_stream(path, compression="detect") as stream:
        text = stream.read(_TYPED_BYTES)
    whole = text if len(text) < _TYPED_BYTES else text[: text.rfind(b"\n") + 1] or text
    read = csv.ReadOptions(block_size=max(1, len(whole)), column_names=names)
    parse = csv.ParseOptions(delimiter=_separator(path))
    return csv.read_csv(pa.BufferReader(whole), read, parse)


def _by_polars(path: Path, columns: list[str] | None, rows: int, header: bool) -> Iterator[Any]:
    import polars as pl
    import polars.selectors as cs

    if is_parquet(path):
        frame = pl.scan_parquet(path, hive_partitioning=False)
    else:
        frame = pl.scan_csv(
            path,
            separator=_separator(path),
            infer_schema_length=10_000,
            has_header=header,
            new_columns=None if header else _numbered(path),
        )
        frame = frame.with_columns(cs.integer().cast(pl.Float64))
    frame = frame if columns is None else frame.select(columns)
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(chunk_size=rows, maintain_order=True)
        return
    for start in range(0, frame.select(pl.len()).collect().item(), rows):
        yield frame.slice(start, rows).collect()
