"""Tables in Parquet and CSV files, in blocks of rows."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from csv import reader
from dataclasses import dataclass
from functools import partial
from glob import glob
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import narwhals.stable.v2 as nw

from mercer import checks
from mercer.exceptions import (
    DataError,
    DataTypeError,
    DataWarning,
    MissingDependencyError,
    ParameterError,
    warn,
)
from mercer.kernels.containers import unknown_column
from mercer.streams.blocks import Blocks

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".tsv")
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
) -> Blocks:
    r"""Read tables in Parquet or CSV files in blocks, as often as a fit needs.

    Parameters
    ----------
    path : path, or sequence of paths
        Files that end in .parquet, .pq, .csv, .csv.gz or .tsv, with the same columns, or
        directories. All such files in a directory and below it are read, in the order of their
        paths, except those whose names begin with a dot or an underscore. A subdirectory called
        ``year=2020`` is a column ``year`` of the files in it. A pattern such as ``"part-*.csv"``
        stands for the paths that it matches.
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
    files = _files_in(path)
    read = partial(_library(), rows=int(batch_rows), header=header)
    for file in files:
        known = _columns_in(file, header)
        _require_columns(file.path, known, wanted, named, header)
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


class _File(NamedTuple):
    path: Path
    partition: dict[str, Any]  # values of the columns that directories such as year=2020 stand for


def _files_in(path: Any) -> tuple[_File, ...]:
    """The files that a path, or each of several paths, stands for."""
    several = isinstance(path, Iterable) and not isinstance(path, str | bytes | PathLike)
    paths = list(path) if several else [path]
    for item in paths:
        if not isinstance(item, str) and not (
            isinstance(item, PathLike) and isinstance(fspath(item), str)
        ):
            raise DataTypeError(
                f"read_blocks: {item!r:.80}, of type {type(item).__name__}, is no path; pass a "
                "string or a pathlib.Path, or a list of these."
            )
    files: list[_File] = []
    for item in map(fspath, paths):
        for found in map(Path, _matches(item)):
            files += _files_below(found) if found.is_dir() else [_single_file(found)]
    if not files:
        raise DataError("read_blocks: no files were given; pass at least one path.")
    return _with_numbers(files)


def _matches(path: str) -> list[str]:
    """A path, or in their order the paths that a pattern such as ``"part-*.csv"`` matches."""
    if "://" in path:
        raise DataError(
            f"read_blocks: {path!r} is not on this computer; download it, or pass blocks that you "
            "read yourself."
        )
    return (sorted(glob(path, recursive=True)) if not Path(path).exists() else []) or [path]


def _single_file(path: Path) -> _File:
    """A file that was named, if it exists and is a table."""
    if not path.is_file():
        raise DataError(f"read_blocks: there is no file {str(path)!r}; pass one that exists.")
    if not _is_table(path):
        raise DataError(
            f"read_blocks: {str(path)!r} ends in none of {', '.join((*_PARQUET, *_CSV))}; pass "
            "such a file, or blocks that you read yourself."
        )
    return _File(path, {})


def _files_below(folder: Path) -> list[_File]:
    """All tables in a directory and its subdirectories, without hidden ones."""
    files = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if _is_table(path) and path.is_file() and not any(p.startswith((".", "_")) for p in parts):
            pairs = [part.partition("=") for part in parts[:-1] if "=" in part]
            files.append(_File(path, {name: unquote(value) for name, _, value in pairs}))
    if not files:
        raise DataError(
            f"read_blocks: the directory {str(folder)!r} holds no Parquet or CSV files; pass one "
            "that does."
        )
    return files


def _with_numbers(files: list[_File]) -> tuple[_File, ...]:
    """Files whose partition columns are numbers where all values of the column are numbers."""
    texts = {name for file in files for name, v in file.partition.items() if not _is_number(v)}
    return tuple(
        _File(path, {n: value if n in texts else float(value) for n, value in partition.items()})
        for path, partition in files
    )


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(_PARQUET)


def _is_table(path: Path) -> bool:
    return path.name.lower().endswith((*_PARQUET, *_CSV))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class _Tables:
    """The tables in files, with their partition columns; `read` takes a path and column names."""

    files: tuple[_File, ...]
    read: Callable[..., Iterable[Any]]
    names: list[str] | None  # those to be read; None for all
    known: list[str]  # the columns of the last file

    def __call__(self) -> Iterator[Any]:
        for path, partition in self.files:
            stored = self.names
            if partition:
                stored = [name for name in stored or [] if name not in partition] or None
            with _readable(path):
                for table in self.read(path, stored):
                    yield _with_columns(table, partition, self.names) if partition else table

    def __repr__(self) -> str:
        paths = [str(file.path) for file in self.files]
        return f"{paths!r:.200}, columns={self.names or self.known!r:.200}"


def _with_columns(table: Any, partition: dict[str, Any], names: list[str] | None) -> Any:
    """A table with the columns that directories stand for."""
    frame = nw.from_native(table, eager_only=True)
    added = {n: v for n, v in partition.items() if n not in frame.columns}
    frame = frame.with_columns(*(nw.lit(v).alias(n) for n, v in added.items()))
    return (frame if names is None else frame.select(*names)).to_native()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Name the file in the errors of any library that cannot read it."""
    try:
        yield
    except (DataError, GeneratorExit):
        raise
    except Exception as error:
        raise DataError(
            f"read_blocks: {str(path)!r} cannot be read ({error}); pass a file that can, and names "
            "of columns that it has."
        ) from error


def _separator(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _first_row(path: Path) -> list[str]:
    """The fields of the first row of a CSV file, as text."""
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
        return next(filter(None, reader(file, delimiter=_separator(path))), [])


def _column_names(path: Path, header: bool) -> list[str] | None:
    """Names for the columns of a CSV file without a header; None if it has one."""
    return None if header else [f"column_{i}" for i in range(len(_first_row(path)))]


def _columns_in(file: _File, header: bool) -> list[str]:
    """The names of the columns of a file, those that directories stand for included."""
    path, partition = file
    with _readable(path):
        if not _is_parquet(path):
            stored = _column_names(path, header) or _first_row(path)
        elif find_spec("pyarrow") is not None:
            stored = import_module("pyarrow.parquet").read_schema(path).names
        else:
            stored = list(import_module("polars").read_parquet_schema(path))
    return [*stored, *(name for name in partition if name not in stored)]


def _require_columns(
    path: Path, names: list[str], columns: list[str] | None, named: list[str], header: bool
) -> None:
    """Refuse names that are there twice or not at all; warn if all in a CSV file are numbers."""
    _require_distinct(path, names, columns)
    for name in named if names else []:  # what reads an empty file refuses it
        if name not in names:
            raise DataError(f"read_blocks: {str(path)!r}: {unknown_column(name, names)}")
    if header and names and not _is_parquet(path) and all(map(_is_number, names)):
        warn(
            f"read_blocks: the first row of {str(path)!r}, {', '.join(names[:3])}, ..., is taken "
            "for names of columns, and they are numbers; pass header=False if it is data.",
            DataWarning,
        )


def _require_distinct(path: Path, names: Sequence[str], columns: list[str] | None) -> None:
    """Refuse duplicate names among the columns that are read."""
    counts = Counter(name for name in names if columns is None or name in columns)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise DataError(
            f"read_blocks: {str(path)!r} has several columns {twice[0]!r}; give each a name of its "
            "own, or pass header=False if the first row of a CSV file is data."
        )


def _library() -> Callable[..., Iterator[Any]]:
    """The reader of the installed library; pyarrow comes first because it holds less in memory."""
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

    if _is_parquet(path):
        batches = _parquet_batches(path, columns, rows)
    else:
        batches = _csv_batches(path, columns, header)
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield pa.Table.from_batches([batch.slice(start, rows)])


def _parquet_batches(path: Path, columns: list[str] | None, rows: int) -> Iterator[Any]:
    """Batches of a Parquet file; `pyarrow.dataset` would hold a whole row group in memory."""
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path, pre_buffer=False, buffer_size=_PAGE_BYTES) as file:
        yield from file.iter_batches(batch_size=rows, columns=columns, use_threads=False)


def _csv_batches(path: Path, columns: list[str] | None, header: bool) -> Iterator[Any]:
    """Batches of a CSV file, with types from its first rows and integers as floats."""
    import pyarrow as pa
    from pyarrow import csv

    names = _column_names(path, header)
    parse = csv.ParseOptions(delimiter=_separator(path))
    with pa.input_stream(path, compression="detect") as stream:
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
    with csv.open_csv(path, read, parse, convert) as file:
        yield from file


def _by_polars(path: Path, columns: list[str] | None, rows: int, header: bool) -> Iterator[Any]:
    import polars as pl
    import polars.selectors as cs

    if _is_parquet(path):
        frame = pl.scan_parquet(path, hive_partitioning=False)
    else:
        frame = pl.scan_csv(
            path,
            separator=_separator(path),
            infer_schema_length=10_000,
            has_header=header,
            new_columns=_column_names(path, header),
        )
        frame = frame.with_columns(cs.integer().cast(pl.Float64))
    frame = frame if columns is None else frame.select(columns)
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(chunk_size=rows, maintain_order=True)
        return
    for start in range(0, frame.select(pl.len()).collect().item(), rows):
        yield frame.slice(start, rows).collect()
