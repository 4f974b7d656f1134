"""Tables in Parquet, Feather and CSV files, in blocks of rows."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from csv import reader
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from io import TextIOWrapper
from os import PathLike
from typing import Any

import narwhals.stable.v2 as nw

from mercer import checks
from mercer.exceptions import (
    DataError,
    DataWarning,
    MissingDependencyError,
    ParameterError,
    warn,
)
from mercer.kernels.containers import unknown_column
from mercer.streams.blocks import Blocks
from mercer.streams.locations import CSV, FEATHER, PARQUET, File, files_in, is_number

# Bytes of text that are parsed at a time; pyarrow reads about 36 such pieces ahead.
_TEXT_BYTES = 2**20
# Bytes of text from which the types of columns are inferred.
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
    storage_options: Mapping[str, Any] | None = None,
) -> Blocks:
    r"""Read tables in Parquet, Feather or CSV files in blocks, as often as a fit needs.

    Parameters
    ----------
    path : path or URL, or sequence of these
        Files that end in .parquet, .pq, .feather, .arrow, .ipc, .csv, .csv.gz or .tsv, with the
        same columns, or directories. All such files in a directory and below it are read, in the
        order of their paths, except those whose names begin with a dot or an underscore. A
        subdirectory called ``year=2020`` is a column ``year`` of the files in it. A pattern such
        as ``"part-*.csv"`` stands for the paths that it matches. A URL such as
        ``"s3://bucket/table.parquet"`` is read through fsspec, and needs pyarrow.
    target : str or list of str, optional
        The columns that hold the targets.
    weight : str, optional
        The column that holds the weights of the rows.
    columns : sequence of str, optional
        The columns that hold the points; by default all others.
    batch_rows : int, default=65536
        The largest number of rows of a block.
    header : bool, default=True
        Whether the first row of a CSV file holds the names of its columns. If it does not, they are
        called "column_0", "column_1" and so on.
    storage_options : dict, optional
        Options of fsspec for URLs, such as ``{"anon": True}``.

    Returns
    -------
    Blocks
        What `fit`, `predict` and `transform` take in place of X. A block is a table of pyarrow, or
        of polars where pyarrow is not installed. Integers in CSV files are read as floating-point
        numbers, since later rows may have fractions.

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
    checks.require_count("read_blocks", "batch_rows", batch_rows, example=65536)
    checks.require_choice("read_blocks", "header", header, (True, False))
    _require_names(target, weight, columns)
    targets = [target] if isinstance(target, str) else list(target or [])
    named = [*targets, *([weight] if weight is not None else []), *(columns or [])]
    wanted = None if columns is None else named
    files = files_in(path, storage_options)
    library = _library(any(file.system is not None for file in files))
    read = partial(library, rows=int(batch_rows), header=header)
    for file in files:
        known = _columns_in(file, header)
        _require_columns(file, known, wanted, named, header)
    return Blocks(_Tables(files, read, wanted, known), target=target, weight=weight)


def _require_names(target: Any, weight: Any, columns: Any) -> None:
    """Refuse arguments that are not names of columns."""
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
class _Tables:
    """The tables in files, with their partition columns; `read` takes a file and column names."""

    files: tuple[File, ...]
    read: Callable[..., Iterable[Any]]
    names: list[str] | None  # those to be read; None for all
    known: list[str]  # the columns of the last file

    def __call__(self) -> Iterator[Any]:
        for file in self.files:
            stored, partition = self.names, file.partition
            if partition:
                stored = [name for name in stored or [] if name not in partition] or None
            with _readable(file):
                for table in self.read(file, stored):
                    yield _with_columns(table, partition, self.names) if partition else table

    def __repr__(self) -> str:
        paths = [file.path for file in self.files]
        return f"{paths!r:.200}, columns={self.names or self.known!r:.200}"


def _with_columns(table: Any, partition: dict[str, Any], names: list[str] | None) -> Any:
    """A table with the columns that directories stand for."""
    frame = nw.from_native(table, eager_only=True)
    added = {n: v for n, v in partition.items() if n not in frame.columns}
    frame = frame.with_columns(*(nw.lit(v).alias(n) for n, v in added.items()))
    return (frame if names is None else frame.select(*names)).to_native()


@contextmanager
def _readable(file: File) -> Iterator[None]:
    """Name the file in the errors of any library that cannot read it."""
    try:
        yield
    except (DataError, GeneratorExit):
        raise
    except Exception as error:
        raise DataError(
            f"read_blocks: {file.path!r} cannot be read ({error}); pass a file that can, and names "
            "of columns that it has."
        ) from error


def _separator(file: File) -> str:
    return "\t" if file.ends_in((".tsv",)) else ","


def _first_row(file: File) -> list[str]:
    """The fields of the first row of a CSV file, as text."""
    with file.opened() as stream:
        text: Any = gzip.GzipFile(fileobj=stream) if file.ends_in((".gz",)) else stream
        lines = TextIOWrapper(text, encoding="utf-8-sig", newline="")
        return next(filter(None, reader(lines, delimiter=_separator(file))), [])


def _column_names(file: File, header: bool) -> list[str] | None:
    """Names for the columns of a CSV file without a header; None if it has one."""
    return None if header else [f"column_{i}" for i in range(len(_first_row(file)))]


def _columns_in(file: File, header: bool) -> list[str]:
    """The names of the columns of a file, those that directories stand for included."""
    with _readable(file):
        if file.ends_in(CSV):
            stored = _column_names(file, header) or _first_row(file)
        else:
            stored = _stored_columns(file)
    return [*stored, *(name for name in file.partition if name not in stored)]


def _stored_columns(file: File) -> list[str]:
    """The names of the columns that a Parquet or Feather file states."""
    is_parquet = file.ends_in(PARQUET)
    if find_spec("pyarrow") is None:
        polars = import_module("polars")
        read = polars.read_parquet_schema if is_parquet else polars.read_ipc_schema
        return list(read(file.path))
    with file.opened() as stream:
        if is_parquet:
            return list(import_module("pyarrow.parquet").read_schema(stream).names)
        return list(import_module("pyarrow.ipc").open_file(stream).schema.names)


def _require_columns(
    file: File, names: list[str], columns: list[str] | None, named: list[str], header: bool
) -> None:
    """Refuse names that are there twice or not at all; warn if all in a CSV file are numbers."""
    path = file.path
    _require_distinct(path, names, columns)
    for name in named if names else []:  # what reads an empty file refuses it
        if name not in names:
            raise DataError(f"read_blocks: {path!r}: {unknown_column(name, names)}")
    if header and names and file.ends_in(CSV) and all(map(is_number, names)):
        warn(
            f"read_blocks: the first row of {path!r}, {', '.join(names[:3])}, ..., is taken "
            "for names of columns, and they are numbers; pass header=False if it is data.",
            DataWarning,
        )


def _require_distinct(path: str, names: Sequence[str], columns: list[str] | None) -> None:
    """Refuse duplicate names among the columns that are read."""
    counts = Counter(name for name in names if columns is None or name in columns)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DataError(
            f"read_blocks: {path!r} has several columns {twice[0]!r}; give each a name of its "
            "own, or pass header=False if the first row of a CSV file is data."
        )


def _library(remote: bool) -> Callable[..., Iterator[Any]]:
    """The reader of the installed library; pyarrow comes first because it holds less in memory."""
    if find_spec("pyarrow") is not None:
        return _by_pyarrow
    if find_spec("polars") is not None and not remote:
        return _by_polars
    if remote:
        raise MissingDependencyError(
            "read_blocks needs pyarrow for URLs, and it is not installed; install it by pip "
            "install pyarrow, or download the files."
        )
    raise MissingDependencyError(
        "read_blocks needs pyarrow or polars, and neither is installed; install one of them, as in "
        "pip install pyarrow."
    )


def _by_pyarrow(file: File, columns: list[str] | None, rows: int, header: bool) -> Iterator[Any]:
    import pyarrow as pa

    if file.ends_in(PARQUET):
        batches = _parquet_batches(file, columns, rows)
    elif file.ends_in(FEATHER):
        batches = _feather_batches(file, columns)
    else:
        batches = _csv_batches(file, columns, header)
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield pa.Table.from_batches([batch.slice(start, rows)])


def _source(file: File) -> AbstractContextManager[Any]:
    """What pyarrow reads: the path of a file on this computer, or an open file elsewhere."""
    return nullcontext(file.path) if file.system is None else file.opened()


def _parquet_batches(file: File, columns: list[str] | None, rows: int) -> Iterator[Any]:
    """Batches of a Parquet file; `pyarrow.dataset` would hold a whole row group in memory."""
    from pyarrow.parquet import ParquetFile

    with (
        _source(file) as source,
        ParquetFile(source, pre_buffer=False, buffer_size=_PAGE_BYTES) as table,
    ):
        yield from table.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _feather_batches(file: File, columns: list[str] | None) -> Iterator[Any]:
    """Batches of a Feather file, as they were written; only the columns that are asked for."""
    import pyarrow as pa

    opened = pa.memory_map if file.system is None else partial(pa.PythonFile, mode="r")
    with _source(file) as source, opened(source) as stream:
        schema = pa.ipc.open_file(stream).schema
        names = schema.names if columns is None else columns
        fields = [schema.get_field_index(name) for name in names]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        batches = pa.ipc.open_file(stream, options=options)
        for number in range(batches.num_record_batches):
            yield batches.get_batch(number).select(names)


def _csv_batches(file: File, columns: list[str] | None, header: bool) -> Iterator[Any]:
    """Batches of a CSV file, with types from its first rows and integers as floats."""
    import pyarrow as pa
    from pyarrow import csv

    names = _column_names(file, header)
    parse = csv.ParseOptions(delimiter=_separator(file))
    compression = "gzip" if file.ends_in((".gz",)) else None
    with file.opened() as head, pa.input_stream(head, compression=compression) as stream:
        text = stream.read(_TYPED_BYTES)
    if len(text) == _TYPED_BYTES:  # the last line is cut
        text = text[: text.rfind(b"\n") + 1] or text
    read = csv.ReadOptions(block_size=max(1, len(text)), column_names=names)
    schema = csv.read_csv(pa.BufferReader(text), read, parse).schema
    types = {
        field.name: pa.float64()
        if pa.types.is_integer(field.type) or pa.types.is_null(field.type)
        else field.type
        for field in schema
    }
    read = csv.ReadOptions(block_size=_TEXT_BYTES, column_names=names)
    convert = csv.ConvertOptions(include_columns=columns, column_types=types)
    with (
        _source(file) as source,
        pa.input_stream(source, compression=compression) as stream,
        csv.open_csv(stream, read, parse, convert) as batches,
    ):
        yield from batches


def _by_polars(file: File, columns: list[str] | None, rows: int, header: bool) -> Iterator[Any]:
    import polars as pl
    import polars.selectors as cs

    if file.ends_in(PARQUET):
        frame = pl.scan_parquet(file.path, hive_partitioning=False)
    elif file.ends_in(FEATHER):
        frame = pl.scan_ipc(file.path, hive_partitioning=False)
    else:
        frame = pl.scan_csv(
            file.path,
            separator=_separator(file),
            infer_schema_length=10_000,
            has_header=header,
            new_columns=_column_names(file, header),
        )
        frame = frame.with_columns(cs.integer().cast(pl.Float64))
    frame = frame if columns is None else frame.select(columns)
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(chunk_size=rows, maintain_order=True)
        return
    for start in range(0, frame.select(pl.len()).collect().item(), rows):
        yield frame.slice(start, rows).collect()
