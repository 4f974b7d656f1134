"""Where the tables of `read_blocks` are: files, directories and patterns, here or behind a URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from glob import glob
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

from mercer.exceptions import DataError, DataTypeError, MissingDependencyError

PARQUET = (".parquet", ".pq")
FEATHER = (".feather", ".arrow", ".ipc")
CSV = (".csv", ".csv.gz", ".tsv")


class File(NamedTuple):
    """A table in a file."""

    path: str
    partition: dict[str, Any]  # values of the columns that directories such as year=2020 stand for
    system: Any = None  # the file system of fsspec; None for this computer

    def ends_in(self, endings: tuple[str, ...]) -> bool:
        """Whether the name of the file has one of these endings."""
        return self.path.lower().endswith(endings)

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The bytes of the file."""
        with open(self.path, "rb") if self.system is None else self.system.open(self.path) as file:
            yield file


def files_in(path: Any, options: Mapping[str, Any] | None = None) -> tuple[File, ...]:
    """The files that a path or URL, or each of several, stands for."""
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
    files: list[File] = []
    for item in map(fspath, paths):
        files += _behind(item, dict(options or {})) if "://" in item else _here(item)
    if not files:
        raise DataError("read_blocks: no files were given; pass at least one path.")
    return _with_numbers(files)


def _here(path: str) -> list[File]:
    """The files of a path or a pattern on this computer, in the order of their paths."""
    files = []
    for item in (sorted(glob(path, recursive=True)) if not Path(path).exists() else []) or [path]:
        if Path(item).is_dir():
            below = (str(found) for found in Path(item).rglob("*") if found.is_file())
            files += _tables_below(item, [name.replace("\\", "/") for name in below])
        else:
            files.append(_table(File(item, {}), Path(item).is_file()))
    return files


def _behind(url: str, options: dict[str, Any]) -> list[File]:
    """The files of a URL, or of a pattern of URLs, through fsspec."""
    try:
        system, path = import_module("fsspec.core").url_to_fs(url, **options)
    except ImportError as error:
        raise MissingDependencyError(
            f"read_blocks: {url!r} is not on this computer, and reading it needs fsspec with its "
            f"package for this protocol ({error}); install them, as in pip install fsspec s3fs, or "
            "download the file."
        ) from error
    except ValueError as error:
        raise DataError(
            f"read_blocks: {url!r} cannot be read ({error}); pass a path, or a URL that fsspec "
            "knows, such as s3://bucket/table.parquet."
        ) from error
    files = []
    for item in sorted(system.glob(path)) if "*" in path else [path]:
        # Servers of web pages have no directories; asking for one would fetch the whole file.
        web = str(item).startswith(("http://", "https://"))
        if not web and system.isdir(item):
            files += _tables_below(item, system.find(item), system)
        else:
            files.append(_table(File(item, {}, system), web or system.isfile(item)))
    if not files:
        raise DataError(f"read_blocks: {url!r} matches no files; pass a pattern that does.")
    return files


def _table(file: File, exists: bool) -> File:
    """A file that was named, if it exists and is a table."""
    if not exists:
        raise DataError(f"read_blocks: there is no file {file.path!r}; pass one that exists.")
    endings = (*PARQUET, *FEATHER, *CSV)
    if not file.ends_in(endings):
        raise DataError(
            f"read_blocks: {file.path!r} ends in none of {', '.join(endings)}; pass such a file, "
            "or blocks that you read yourself."
        )
    return file


def _tables_below(folder: str, paths: Iterable[str], system: Any = None) -> list[File]:
    """All tables among the files of a directory, without hidden ones, in the order of paths."""
    files = []
    for path in sorted(paths, key=lambda path: path.split("/")):
        parts = path[len(folder) :].strip("/").split("/")
        pairs = [part.partition("=") for part in parts[:-1] if "=" in part]
        file = File(path, {name: unquote(value) for name, _, value in pairs}, system)
        hidden = any(part.startswith((".", "_")) for part in parts)
        if file.ends_in((*PARQUET, *FEATHER, *CSV)) and not hidden:
            files.append(file)
    if not files:
        raise DataError(
            f"read_blocks: the directory {folder!r} holds no Parquet, Feather or CSV files; pass "
            "one that does."
        )
    return files


def _with_numbers(files: list[File]) -> tuple[File, ...]:
    """Files whose partition columns are numbers where all values of the column are numbers."""
    texts = {name for file in files for name, v in file.partition.items() if not is_number(v)}
    return tuple(
        file._replace(
            partition={n: v if n in texts else float(v) for n, v in file.partition.items()}
        )
        for file in files
    )


def is_number(text: str) -> bool:
    """Whether a text is that of a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
