"""Tables in Parquet, Feather and CSV files."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path
from typing import Any

import fsspec
import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from pyarrow import csv, feather

import mercer as mc
from mercer.exceptions import (
    DataError,
    DataTypeError,
    DataWarning,
    MissingDependencyError,
    ParameterError,
)
from mercer.streams import files

S = mc.solvers
RNG = np.random.default_rng(0)
N = 3000
X = RNG.normal(size=(N, 3))
Y = np.sin(X).sum(axis=1) + 3
W = RNG.uniform(0.5, 2.0, size=N)
TABLE = pl.DataFrame({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": Y, "w": W})
MODEL = mc.KernelRidge(mc.Matern("scale"), 0.1, solver=S.NystromSolver(40, random_state=0))


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Any]:
    TABLE.write_parquet(tmp_path / "t.parquet", row_group_size=700)
    feather.write_feather(TABLE.to_arrow(), tmp_path / "t.feather", chunksize=700)
    TABLE.write_ipc(tmp_path / "t.arrow")
    TABLE.write_csv(tmp_path / "t.csv")
    TABLE.write_csv(tmp_path / "t.tsv", separator="\t")
    TABLE.write_csv(tmp_path / "T2.TSV", separator="\t")
    folder = tmp_path / "parts"
    folder.mkdir()
    TABLE[:1000].write_parquet(folder / "0.parquet")
    TABLE[1000:].write_csv(folder / "1.csv")
    (folder / "notes.txt").write_text("not a table")
    return {
        "parquet": tmp_path / "t.parquet",
        "feather": tmp_path / "t.feather",
        "arrow": tmp_path / "t.arrow",
        "csv": str(tmp_path / "t.csv"),
        "tsv": tmp_path / "t.tsv",
        "TSV": tmp_path / "T2.TSV",
        "folder": folder,
        "list": [folder / "0.parquet", folder / "1.csv"],
    }


@pytest.fixture(params=["pyarrow", "polars"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "polars":
        monkeypatch.setattr(files, "find_spec", without("pyarrow"))
    return str(request.param)


def without(*missing: str) -> Any:
    return lambda name: None if name in missing else importlib.util.find_spec(name)


@pytest.mark.parametrize(
    "kind", ["parquet", "feather", "arrow", "csv", "tsv", "folder", "list", "TSV"]
)
def test_tables_in_files(paths: dict[str, Any], kind: str, library: str) -> None:
    blocks = mc.read_blocks(paths[kind], target="y", weight="w", batch_rows=512)
    sizes = [len(x) for x, _, _ in blocks]
    assert sum(sizes) == N
    assert max(sizes) <= 512
    wanted = MODEL.fit(TABLE.select("a", "b", "c"), Y, W).predict(TABLE.select("a", "b", "c"))
    found = MODEL.fit(blocks)
    assert list(found.feature_names_in_) == ["a", "b", "c"]
    assert_allclose(found.predict(blocks), wanted, rtol=1e-8)
    some = mc.read_blocks(paths[kind], target=["y", "w"], columns=["c", "a"])
    assert MODEL.fit(some).predict(TABLE.select("c", "a")).shape == (N, 2)


def test_readers_of_other_libraries_are_iterators_of_blocks(paths: dict[str, Any]) -> None:
    wanted = MODEL.fit(TABLE.select("a", "b", "c"), Y).intercept_
    with pd.read_csv(paths["csv"], usecols=["a", "b", "c", "y"], chunksize=700) as reader:
        assert MODEL.fit(reader, "y").intercept_ == pytest.approx(wanted, rel=1e-8)
    with pq.ParquetFile(paths["parquet"]) as file:
        batches = file.iter_batches(batch_size=700, columns=["a", "b", "c", "y"])
        assert MODEL.fit(batches, "y").intercept_ == pytest.approx(wanted, rel=1e-8)


def test_whole_numbers_that_become_fractions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_TEXT_BYTES", 64)
    monkeypatch.setattr(files, "_TYPED_BYTES", 64)
    lines = ["a,e,y", *(f"{i},,{i}" for i in range(50)), "50.5,2.5,50.5"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    blocks = mc.read_blocks(tmp_path / "t.csv", target="y", columns=["a"])
    values = np.concatenate([x["a"].to_numpy() for x, _, _ in blocks])
    assert values[-1] == 50.5
    assert values.dtype == np.float64


@pytest.mark.parametrize(("kind", "most"), [("parquet", 16e6), ("feather", 16e6), ("csv", 60e6)])
def test_of_a_large_table_little_is_in_memory(tmp_path: Path, kind: str, most: float) -> None:
    n = 1_500_000  # of which all are in one row group: 36 MB, and 90 MB as text
    table = pa.table({name: RNG.standard_normal(n) for name in ("a", "b", "y")})
    path = tmp_path / f"large.{kind}"
    if kind == "csv":
        csv.write_csv(table, path)
    elif kind == "feather":
        feather.write_feather(table, path)
    else:
        pq.write_table(table, path, row_group_size=n)
    wanted, rows = pc.sum(table["y"]).as_py(), 0
    del table
    pool, before = pa.proxy_memory_pool(pa.system_memory_pool()), pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        total = 0.0
        for x, y, _ in mc.read_blocks(path, target="y", batch_rows=20_000):
            total += y.sum()
            rows += len(x)
        del x, y
    finally:
        pa.set_memory_pool(before)
    assert rows == n
    assert total == pytest.approx(wanted, rel=1e-9)
    assert pool.max_memory() < most


def test_files_in_directories_below(tmp_path: Path, library: str) -> None:
    cuts = {"b=1/part.parquet": (0, 900), "b=2/0.csv": (900, 2000), "b=2/sub/1.parquet": (2000, N)}
    (tmp_path / "b=1").mkdir()
    (tmp_path / "b=2" / "sub").mkdir(parents=True)
    (tmp_path / "_temporary").mkdir()
    TABLE.write_parquet(tmp_path / "_temporary" / "0.parquet")
    TABLE.write_csv(tmp_path / "b=1" / ".hidden.csv")
    for name, (first, last) in cuts.items():
        part = TABLE[first:last].drop("b", "w")
        part.write_csv(tmp_path / name) if "csv" in name else part.write_parquet(tmp_path / name)
    whole = TABLE.with_columns(b=np.where(np.arange(N) < 900, 1.0, 2.0))
    names = ["c", "b", "a"]
    blocks = mc.read_blocks(tmp_path, target="y", columns=names, batch_rows=512)
    found = np.concatenate([np.asarray(x) for x, _, _ in blocks])
    assert_allclose(found, whole.select(names).to_numpy(), rtol=1e-15)
    model = MODEL.fit(mc.read_blocks(tmp_path, target="y"))
    assert list(model.feature_names_in_) == ["a", "c", "b"]
    wanted = MODEL.fit(whole.select("a", "c", "b"), Y).predict(whole.select("a", "c", "b"))
    assert_allclose(model.predict(mc.read_blocks(tmp_path, target="y")), wanted, rtol=1e-8)


def test_directories_that_are_texts(tmp_path: Path, library: str) -> None:
    for town in ("Aix%20en%20Provence", "7"):
        (tmp_path / f"town={town}").mkdir()
        TABLE[:2].write_parquet(tmp_path / f"town={town}" / "0.parquet")
    blocks = [pl.DataFrame(x).to_dicts() for x, _, _ in mc.read_blocks(tmp_path, columns=["town"])]
    assert blocks == [[{"town": "7"}] * 2, [{"town": "Aix en Provence"}] * 2]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
def test_text_without_names(tmp_path: Path, library: str, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    frame = TABLE.select("a", "b", "y").to_pandas()
    frame.to_csv(path, index=False, header=False, sep="\t" if ending == "tsv" else ",")
    with pytest.warns(DataWarning, match=r"first row of .*are numbers; pass header=False"):
        mc.read_blocks(path)
    blocks = mc.read_blocks(path, header=False, target="column_2", batch_rows=1000)
    rows = np.concatenate([np.asarray(x) for x, _, _ in blocks])
    assert_allclose(rows, X[:, :2], rtol=1e-12)
    assert_allclose(np.concatenate([y for _, y, _ in blocks]), Y, rtol=1e-12)
    first = next(iter(mc.read_blocks(path, header=False, columns=["column_1"])))[0]
    assert list(pl.DataFrame(first).columns) == ["column_1"]


def test_columns_of_one_name(tmp_path: Path, library: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,a,y\n1,2,3,4\n")
    with pytest.raises(DataError, match=r"t\.csv' has several columns 'a'; give each a name"):
        mc.read_blocks(path, target="y")
    assert len(list(mc.read_blocks(path, target="y", columns=["b"]))) == 1
    with pytest.raises(ParameterError, match="header = 'no' is unknown; pass one of True, False"):
        mc.read_blocks(path, header="no")  # type: ignore[arg-type]
    (tmp_path / "broken.csv.gz").write_text("no gzip")
    with pytest.raises(DataError, match=r"broken\.csv\.gz' cannot be read"):
        mc.read_blocks(tmp_path / "broken.csv.gz")
    twice = pd.DataFrame(X[:, :2], columns=["a", "a"])
    with pytest.raises(
        DataError, match=r"cannot be read (?s:.*) a name of its own for each column"
    ):
        MODEL.fit((block, Y) for block in [twice])


def test_bad_files(paths: dict[str, Any], tmp_path: Path, library: str) -> None:
    with pytest.raises(DataError, match="there is no file"):
        mc.read_blocks(tmp_path / "nothing.csv")
    with pytest.raises(DataError, match=r"ends in none of \.parquet"):
        mc.read_blocks(paths["folder"] / "notes.txt")
    with pytest.raises(DataError, match="no files were given"):
        mc.read_blocks([])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no Parquet, Feather or CSV"):
        mc.read_blocks(tmp_path / "empty")
    with pytest.raises(ParameterError, match="batch_rows"):
        mc.read_blocks(paths["csv"], batch_rows=0)
    (tmp_path / "broken.parquet").write_text("not Parquet")
    with pytest.raises(DataError, match="cannot be read"):
        list(mc.read_blocks(tmp_path / "broken.parquet"))
    for kind in ("parquet", "feather", "csv"):
        with pytest.raises(DataError, match="nope"):
            list(mc.read_blocks(paths[kind], columns=["nope"]))
    with pytest.raises(DataError, match="did you mean"):
        list(mc.read_blocks(paths["csv"], target="Y"))


def test_without_a_library_for_tables(
    paths: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "find_spec", without("pyarrow", "polars"))
    with pytest.raises(MissingDependencyError, match="pip install pyarrow"):
        mc.read_blocks(paths["csv"])


@pytest.mark.parametrize("path", [3, None, b"x", 1.5, [b"x"], ["a.csv", None]])
def test_what_is_no_path_is_refused_with_a_remedy(path: Any) -> None:
    with pytest.raises(DataTypeError, match=r"read_blocks: .* is no path; pass a string or a path"):
        mc.read_blocks(path)


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"columns": "area"}, "columns = 'area' is not a list of names"),
        ({"columns": [1]}, "columns = .* is not a list of names"),
        ({"target": 3}, "target = 3 is not the name of a column or a list of names"),
        ({"weight": ["w"]}, "weight = .* is not the name of a column;"),
    ],
)
def test_what_names_no_column_is_refused(tmp_path: Path, given: Any, rule: str) -> None:
    TABLE.write_csv(tmp_path / "a.csv")
    with pytest.raises(ParameterError, match=f"read_blocks: {rule}"):
        mc.read_blocks(tmp_path, **given)


def test_texts_have_one_type_whoever_wrote_the_file(tmp_path: Path) -> None:
    words = ["".join(letters) for letters in RNG.choice(list("ab"), size=(90, 4))]
    lengths = np.array([word.count("ab") for word in words], dtype=float)
    table = pl.DataFrame({"word": words, "y": lengths})
    table[:30].write_csv(tmp_path / "a.csv")
    table[30:60].write_parquet(tmp_path / "b.parquet")
    plain = pa.array(words[60:], pa.string())
    pq.write_table(pa.table({"word": plain, "y": lengths[60:]}), tmp_path / "c.parquet")
    blocks = mc.read_blocks(tmp_path, target="y")
    # Counts of pairs of letters: the target is linear in them, and ridge all but exact.
    model = mc.KernelRidge(mc.Spectrum(2).on("word"), alpha=1e-8)
    assert_allclose(model.fit(blocks).predict(blocks), lengths, atol=1e-5)
    landmarks = mc.solvers.NystromSolver(60, random_state=0)
    model.set_params(solver=landmarks)
    assert_allclose(model.fit(blocks).predict(blocks), lengths, atol=1e-5)


@pytest.mark.parametrize("name", ["table.csv", "table.parquet"])
def test_unknown_columns_are_refused_at_once(tmp_path: Path, name: str) -> None:
    frame, path = pd.DataFrame({"a": [1.0], "b": [2.0]}), tmp_path / name
    frame.to_csv(path, index=False) if name.endswith("csv") else frame.to_parquet(path)
    for wrong in ({"target": "y"}, {"weight": "y"}, {"columns": ["a", "y"]}):
        with pytest.raises(DataError, match=r"'y' is not in .* Its columns are 'a', 'b'"):
            mc.read_blocks(path, **wrong)
    shown = repr(mc.read_blocks(path, target="b"))
    assert shown == f"Blocks({[str(path)]!r}, columns=['a', 'b'], target='b', weight=None)"


def test_a_pattern_stands_for_the_files_that_it_matches(tmp_path: Path) -> None:
    for i in (2, 0, 1):
        (tmp_path / f"part-{i}.csv").write_text(f"a,b\n{i},1\n")
    (tmp_path / "other.csv").write_text("a,b\n9,1\n")
    for pattern in (tmp_path / "part-*.csv", str(tmp_path / "**" / "part-[0-2].csv")):
        blocks = mc.read_blocks(pattern, target="b")
        assert [nw.from_native(X)["a"][0] for X, *_ in blocks] == [0, 1, 2]
    (tmp_path / "odd[1].csv").write_text("a,b\n5,1\n")
    assert len(list(mc.read_blocks(tmp_path / "odd[1].csv"))) == 1
    with pytest.raises(DataError, match="there is no file"):
        mc.read_blocks(tmp_path / "none-*.csv")


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".csv", ".csv.gz", ".tsv"])
def test_tables_behind_urls_are_those_of_files(tmp_path: Path, ending: str) -> None:
    system = fsspec.filesystem("memory")
    here, there = tmp_path / f"t{ending}", f"/of-files/t{ending}"
    if ending == ".parquet":
        pq.write_table(TABLE.to_arrow(), here)
    elif ending == ".feather":
        feather.write_feather(TABLE.to_arrow(), here, chunksize=700)
    else:
        text = TABLE.write_csv(separator="\t" if ending == ".tsv" else ",").encode()
        here.write_bytes(gzip.compress(text) if ending == ".csv.gz" else text)
    system.pipe(there, here.read_bytes())
    near = mc.read_blocks(here, target="y", columns=["b", "a"], batch_rows=900)
    far = mc.read_blocks(f"memory:/{there}", target="y", columns=["b", "a"], batch_rows=900)
    for (x, y, _), (u, v, _) in zip(near, far, strict=True):
        assert list(u.column_names) == ["b", "a"]
        assert x.equals(u)
        np.testing.assert_array_equal(y, v)
    assert sum(len(x) for x, *_ in far) == N


def test_urls_need_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec.filesystem("memory").pipe("/of-files/few.csv", b"a,b\n1,2\n")
    monkeypatch.setattr(files, "find_spec", without("pyarrow"))
    with pytest.raises(MissingDependencyError, match="needs pyarrow for URLs, and it is"):
        mc.read_blocks("memory://of-files/few.csv")
