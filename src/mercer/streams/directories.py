"""Files of tables, and the columns that the names of their directories are."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from mercer.exceptions import DataError, DataTypeError

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".tsv")


class File(NamedTuple):
    """A file of a table."""

    path: Path  # where it is
    # values by name, one for all rows: those of directories that are called ``year=2020``
    constants: dict[str, Any]


def files_in(path: Any) -> tuple[File, ...]:
    """The files that the user means."""
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
    found: list[File] = []
    for item in map(Path, given):
        inside = _below(item) if item.is_dir() else [File(item, {})]
        found += inside
        if not inside:
            raise DataError(
                f"read_blocks: the directory {str(item)!r} holds no Parquet or CSV files; pass one "
                "that does."
            )
    if not found:
        raise DataError("read_blocks: no files were given; pass at least one path.")
    for item, _ in found:
        if not item.is_file():
            raise DataError(f"read_blocks: there is no file {str(item)!r}; pass one that exists.")
        if not _is_known(item):
            raise DataError(
                f"read_blocks: {str(item)!r} ends in none of {', '.join((*_PARQUET, *_CSV))}; pass "
                "such a file, or blocks that you read yourself."
            )
    return _with_numbers(found)


def is_parquet(path: Path) -> bool:
    """Whether a file is one of Parquet; the others are text."""
    return path.name.lower().endswith(_PARQUET)


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_known(path: Path) -> bool:
    return path.name.lower().endswith((*_PARQUET, *_CSV))


def _below(folder: Path) -> list[File]:
    """All files of tables in a directory and those below it, but for hidden ones."""
    found = []
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if _is_known(path) and path.is_file() and not any(p.startswith((".", "_")) for p in parts):
            pairs = [part.partition("=") for part in parts[:-1] if "=" in part]
            found.append(File(path, {name: unquote(value) for name, _, value in pairs}))
    return found


def _with_numbers(files: list[File]) -> tuple[File, ...]:
    """The same, with numbers for the values of columns all of whose values are such."""
    texts = {n for _, own in files for n, value in own.items() if not is_number(value)}
    return tuple(
        File(path, {n: value if n in texts else float(value) for n, value in own.items()})
        for path, own in files
    )
