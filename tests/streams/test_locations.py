"""Files, directories and patterns, here and behind URLs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from mercer.exceptions import DataError, MissingDependencyError
from mercer.streams.locations import files_in

FILES = (
    "year=2020/month=a%20b/t.parquet",
    "year=2021/month=c/t.CSV",
    "year=2021/month=c/_t.csv",
    ".hidden/t.csv",
    "notes.txt",
    "z.feather",
)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The same files on this computer and in fsspec's memory."""
    system = fsspec.filesystem("memory")
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
        system.pipe(f"/of-locations/{name}", b"")
    yield {"here": str(tmp_path), "there": "memory://of-locations"}
    system.rm("/of-locations", recursive=True)


@pytest.mark.parametrize("place", ["here", "there"])
def test_tables_below_a_directory(folders: dict[str, str], place: str) -> None:
    found = files_in(folders[place])
    assert [file.path.rpartition("/")[2] for file in found] == ["t.parquet", "t.CSV", "z.feather"]
    assert [file.partition for file in found] == [
        {"year": 2020.0, "month": "a b"},
        {"year": 2021.0, "month": "c"},
        {},
    ]
    assert [file.ends_in((".csv",)) for file in found] == [False, True, False]
    with found[0].opened() as file:
        assert file.read() == b""


@pytest.mark.parametrize("place", ["here", "there"])
def test_single_files_and_patterns(folders: dict[str, str], place: str) -> None:
    root = folders[place]
    (single,) = files_in(f"{root}/z.feather")
    assert single.path.endswith("z.feather")
    assert len(files_in([f"{root}/z.feather", f"{root}/year=2020"])) == 2
    assert len(files_in(f"{root}/year=*")) == 2
    with pytest.raises(DataError, match=r"there is no file .*none\.csv"):
        files_in(f"{root}/none.csv")
    with pytest.raises(DataError, match=r"notes\.txt' ends in none of \.parquet"):
        files_in(f"{root}/notes.txt")
    with pytest.raises(DataError, match="none"):
        files_in(f"{root}/none-*.csv")


def test_a_web_page_is_a_file_and_nothing_is_fetched_to_see_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, system = "https://server.invalid/t.csv", object()  # any question to it would fail
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url, **options: (system, url))
    (file,) = files_in(url)
    assert (file.path, file.system) == (url, system)


def test_options_reach_the_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def url_to_fs(url: str, **options: Any) -> tuple[Any, str]:
        given.update(options)
        return object(), url

    monkeypatch.setattr("fsspec.core.url_to_fs", url_to_fs)
    files_in("https://server.invalid/t.csv", {"anon": True})
    assert given == {"anon": True}


def test_what_is_missing_for_a_url_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"'nowhere://a\.csv' cannot be read .*that fsspec knows"):
        files_in("nowhere://a.csv")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingDependencyError, match=r"'s3://b/a\.csv' .*install them, as in"):
        files_in("s3://b/a.csv")
