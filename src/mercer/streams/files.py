"""Tables in files, in blocks of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from numbers import Integral
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from mercer.exceptions import DataError, DataTypeError, MissingDependencyError, ParameterError
from mercer.streams.blocks import Blocks

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".tsv")

# Bytes of text that are parsed at a time.
_TEXT_BYTES = 2**24


def read_blocks(
    path: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    target: str | list[str] | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    batch_rows: int = 65_536,
) -> Blocks:
    r"""Read tables in Parquet or CSV files in blocks, as often as a fit needs.

    Parameters
    ----------
    path : path, or sequence of paths
        Files that end in .parquet, .pq, .csv, .csv.gz or .tsv, with the same columns, or
        directories of such files, which are read in the order of their names.
    target : str or list of str, optional
        The columns that hold the targets.
    weight : str, optional
        The column that holds the weights of the rows.
    columns : sequence of str, optional
        The columns that hold the points; by default all others.
    batch_rows : int, default=65536
        How many rows a block has at most.

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
    _require_names(target, weight, columns)
    targets = [target] if isinstance(target, str) else list(target or [])
    wanted = None
    if columns is not None:
        wanted = [*columns, *targets, *([weight] if weight is not None else [])]
    files = _Files(_files_in(path), _library(), wanted, int(batch_rows))
    return Blocks(files, target=target, weight=weight)


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

    paths: tuple[Path, ...]
    read: Callable[[Path, list[str] | None, int], Iterable[Any]]
    columns: list[str] | None
    batch_rows: int

    def __iter__(self) -> Iterator[Any]:
        for path in self.paths:
            try:
                yield from self.read(path, self.columns, self.batch_rows)
            except (DataError, GeneratorExit):
                raise
            except Exception as error:  # each library has errors of its own
                raise DataError(
                    f"read_blocks: {str(path)!r} cannot be read ({error}); pass a file that can, "
                    "and names of columns that it has."
                ) from error


def _files_in(path: Any) -> tuple[Path, ...]:
    several = isinstance(path, Iterable) and not isinstance(path, str | bytes | PathLike)
    given = list(path) if several else [path]
    for item in given:
        if not isinstance(item, str) and not (
            isinstance(item, PathLike) and isinstance(fspath(item), str)
        ):
            raise DataTypeError(
                f"read_blocks: {item!r:.80}, of type {type(item).__name__}, is no path; pass a "
                "string or a pathlib.Path, or a list of these."
            )
    found: list[Path] = []
    for item in map(Path, given):
        inside = sorted(p for p in item.iterdir() if _is_known(p)) if item.is_dir() else [item]
        found += inside
        if not inside:
            raise DataError(
                f"read_blocks: the directory {str(item)!r} holds no Parquet or CSV files; pass one "
                "that does."
            )
    if not found:
        raise DataError("read_blocks: no files were given; pass at least one path.")
    for item in found:
        if not item.is_file():
            raise DataError(f"read_blocks: there is no file {str(item)!r}; pass one that exists.")
        if not _is_known(item):
            raise DataError(
                f"read_blocks: {str(item)!r} ends in none of {', '.join((*_PARQUET, *_CSV))}; pass "
                "such a file, or blocks that you read yourself."
            )
    return tuple(found)


def _is_known(path: Path) -> bool:
    return path.name.lower().endswith((*_PARQUET, *_CSV))


def _separator(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _library() -> Callable[[Path, list[str] | None, int], Iterable[Any]]:
    """The reader of the library that is there."""
    if find_spec("pyarrow") is not None:
        return _by_pyarrow
    if find_spec("polars") is not None:
        return _by_polars
    raise MissingDependencyError(
        "read_blocks needs pyarrow or polars, and neither is installed; install one of them, as in "
        "pip install pyarrow."
    )


def _by_pyarrow(path: Path, columns: list[str] | None, rows: int) -> Iterator[Any]:
    import pyarrow as pa

    name = path.name.lower()
    batches = _parquet_batches if name.endswith(_PARQUET) else _csv_batches
    for batch in batches(path, columns, rows):
        for start in range(0, batch.num_rows, rows):
            yield pa.Table.from_batches([batch.slice(start, rows)])


def _parquet_batches(path: Path, columns: list[str] | None, rows: int) -> Iterator[Any]:
    from pyarrow.parquet import ParquetFile

    with ParquetFile(path) as file:
        known = set(file.schema_arrow.names)
        unknown = [name for name in columns or [] if name not in known]
        if unknown:  # the library would leave it out
            raise DataError(f"read_blocks: {str(path)!r} has no column {unknown[0]!r}.")
        yield from file.iter_batches(batch_size=rows, columns=columns)


def _csv_batches(path: Path, columns: list[str] | None, rows: int) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    parse = csv.ParseOptions(delimiter=_separator(path))
    read = csv.ReadOptions(block_size=_TEXT_BYTES)
    with csv.open_csv(path, read, parse, csv.ConvertOptions(include_columns=columns)) as first:
        schema = first.schema
    # The types are those that the first rows suggest: later ones may have fractions.
    floats = {
        field.name: pa.float64()
        for field in schema
        if pa.types.is_integer(field.type) or pa.types.is_null(field.type)
    }
    convert = csv.ConvertOptions(include_columns=columns, column_types=floats)
    with csv.open_csv(path, read, parse, convert) as file:
        yield from file


def _by_polars(path: Path, columns: list[str] | None, rows: int) -> Iterator[Any]:
    import polars as pl
    import polars.selectors as cs

    if path.name.lower().endswith(_PARQUET):
        frame = pl.scan_parquet(path)
    else:
        separator = _separator(path)
        frame = pl.scan_csv(path, separator=separator, infer_schema_length=10_000)
        frame = frame.with_columns(cs.integer().cast(pl.Float64))
    frame = frame if columns is None else frame.select(columns)
    if hasattr(frame, "collect_batches"):
        yield from frame.collect_batches(chunk_size=rows, maintain_order=True)
        return
    for start in range(0, frame.select(pl.len()).collect().item(), rows):
        yield frame.slice(start, rows).collect()
