"""Bytes that are no text where a text should be: in rows of users they are refused before anything is
written; in data files of others they stay what they are, as in Spark; a folder may have any name."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.errors import DeltaError, InvalidArgument, InvalidTable
from deltanb.table.table import DeltaTable
from tests.helpers import ids, lines_of, refused, table_of

BAD = b"a\xff\xfeb"


def texts(values: list[bytes | None], kind: pa.DataType | None = None) -> pa.Array:
    """Bytes that say that they are texts."""
    kind = kind or pa.string()
    binary = pa.array(values, pa.large_binary() if pa.types.is_large_string(kind) else pa.binary())
    return pa.Array.from_buffers(kind, len(binary), binary.buffers(), binary.null_count)


# --- rows of users --------------------------------------------------------------------------------

ENDS = pa.array([0, 1, 2], pa.int32())
COLUMNS: dict[str, tuple[Callable[[pa.Array], pa.Array], str]] = {
    "text": (lambda bad: bad, "'c' of the data has a text in row 2 that"),
    "large": (lambda _: texts([b"x", BAD], pa.large_string()), "'c' of the data has a text in row 2 that"),
    "struct": (lambda bad: pa.StructArray.from_arrays([bad], names=["f"]),
               "'c.f' of the data has a text in row 2"),
    "list": (lambda bad: pa.ListArray.from_arrays(ENDS, bad), "'c.element' of the data has a text that"),
    "key": (lambda bad: pa.MapArray.from_arrays(ENDS, bad, bad), "'c.key' of the data has a text that"),
    "value": (lambda bad: pa.MapArray.from_arrays(ENDS, pa.array([1, 2]), bad),
              "'c.value' of the data has a text that"),
    "codes": (lambda bad: pa.DictionaryArray.from_arrays(pa.array([0, 1]), bad),
              "'c' of the data has a text that"),
}


def _merged(table: DeltaTable, data: pa.Table) -> None:
    merge = table.merge(data, "target.id = source.id").with_schema_evolution()
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _merged_by_text(table: DeltaTable, data: pa.Table) -> None:
    source = data.select(["id"]).append_column("k", texts([b"x", BAD]))
    table.merge(source, "target.k = source.k").when_matched_delete().execute()


WRITES: dict[str, Callable[[DeltaTable, Any], Any]] = {
    "create": lambda table, data: table_of(data),
    "append": lambda table, data: table.append(data, merge_schema=True),
    "overwrite": lambda table, data: table.overwrite(data, where="id >= 0", merge_schema=True),
    "stream": lambda table, data: table.append(iter(data.to_batches(1)), merge_schema=True),
    "merge": _merged, "merge by the text": _merged_by_text,
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("column", COLUMNS)
def test_bytes_that_are_no_text_are_not_written(column: str, write: str) -> None:
    made, message = COLUMNS[column]
    table, data = table_of({"id": [0], "k": ["x"]}), pa.table({"id": [0, 1], "c": made(texts([b"x", BAD]))})
    by_text = write == "merge by the text"
    error = refused(table, InvalidArgument, lambda: WRITES[write](table, data),
                    "'k' of the data has a text in row 2" if by_text else message)
    assert repr(BAD) in str(error) and "binary" in str(error)


def test_bytes_that_are_no_text_do_not_become_partitions() -> None:
    table = table_of({"id": [0], "c": ["x"]}, partition_by="c")
    refused(table, InvalidArgument, lambda: table.append(pa.table({"id": [1], "c": texts([BAD])})), "row 1")


def test_what_a_slice_leaves_out_and_nulls_is_not_looked_at() -> None:
    data = pa.table({"id": [0, 1, 2], "c": texts([BAD, b"y", None])}).slice(1)
    assert table_of(data).to_arrow()["c"].to_pylist() == ["y", None]


# --- data files of others -------------------------------------------------------------------------

def foreign(place: Path, rows: int = 4) -> DeltaTable:
    """A table with a file in which every other text is none."""
    table = dn.create(place, pa.schema([("id", pa.int64()), ("c", pa.string())]))
    data = pa.table({"id": range(rows), "c": pa.concat_arrays([texts([b"x", BAD])] * (rows // 2))})
    pq.write_table(data, place / "theirs.parquet", store_schema=False, compression="zstd")
    table.start_transaction().commit([AddFile(
        path="theirs.parquet", partition_values={}, size=os.path.getsize(place / "theirs.parquet"),
        modification_time=0, data_change=True)], "WRITE")
    return table


def raw(table: DeltaTable, where: str | None = None) -> list[bytes]:
    column = table.to_arrow(where=where).sort_by("id")["c"]
    return [value for chunk in column.chunks for value in pa.Array.from_buffers(
        pa.binary(), len(chunk), chunk.buffers(), offset=chunk.offset).to_pylist()]


CHANGES: dict[str, tuple[Callable[[DeltaTable], Any], list[bytes]]] = {
    "delete": (lambda table: table.delete("id = 0"), [BAD, b"x", BAD]),
    "update": (lambda table: table.update({"id": "id + 10"}, "id = 0"), [BAD, b"x", BAD, b"x"]),
    "merge": (lambda table: table.merge({"id": [2], "c": ["n"]}, "target.id = source.id")
              .when_matched_update_all().execute(), [b"x", BAD, b"n", BAD]),
    "optimize": (lambda table: (table.append({"id": [9], "c": ["z"]}), table.optimize()),
                 [b"x", BAD, b"x", BAD, b"z"]),
    "z-order": (lambda table: table.optimize(zorder_by=["c"]), [b"x", BAD, b"x", BAD]),
    "analyze": (lambda table: table.analyze(), [b"x", BAD, b"x", BAD]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_bytes_of_others_stay_as_they_are(change: str, tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    made, left = CHANGES[change]
    made(table)
    assert raw(dn.open(tmp_path / "t")) == left
    commit = lines_of(table.log.store, f"_delta_log/{table.version:020}.json")
    assert all(b"\xff" not in str(line).encode() for line in commit)
    assert raw(table, "c > 'w'") == [value for value in left if value > b"w"]


def test_functions_see_bytes_that_are_no_text_as_spark_does(tmp_path: Path) -> None:
    table = foreign(tmp_path / "t")
    assert ids(table, "upper(c) = 'X'") == [0, 2] and ids(table, "upper(c) = 'A\ufffd\ufffdB'") == [1, 3]
    assert ids(table, "c = 'x'") == [0, 2] and ids(table, "c LIKE 'a%'") == [1, 3]


def test_pandas_says_which_column_it_does_not_take(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    table = foreign(tmp_path / "t")
    for read in (table.to_pandas, table.head):
        with pytest.raises(InvalidTable, match="column 'c' .*UTF8.* to_arrow"):
            read()
    assert table.to_pandas(columns=["id"]).shape == (4, 1)
    assert pc.sum(table.to_arrow()["id"]).as_py() == 6


def test_a_folder_of_such_files_becomes_a_table(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"id": [0, 1], "c": texts([b"x", BAD])}), tmp_path / "t" / "a.parquet")
    table = dn.convert(tmp_path / "t")
    assert raw(table) == [b"x", BAD]
    stats = table.snapshot.files["stats"][0].as_py()
    assert '"c"' not in stats.partition("nullCount")[0] and '"id"' in stats


# --- names of files -------------------------------------------------------------------------------

@pytest.fixture
def odd(tmp_path: Path) -> str:
    """A folder whose name is not text."""
    path = os.path.join(str(tmp_path), os.fsdecode(b"t\xff"))
    try:
        os.mkdir(path)
    except OSError:
        pytest.skip("this file system takes no such name")
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="names are text there")
def test_a_table_may_be_in_a_folder_whose_name_is_not_text(odd: str) -> None:
    table = dn.create(odd, {"id": [1, 2, 3], "p": ["a", "b", "b"]}, partition_by="p",
                      properties={"delta.checkpointInterval": "2"})
    table.append({"id": [4], "p": ["c"]})
    table.delete("id = 2")
    table.optimize()
    again = dn.open(odd)
    assert ids(again) == [1, 3, 4] and ids(again, "p = 'b'") == [3]
    assert again.to_dataset().to_table(filter=pc.field("id") > 3)["id"].to_pylist() == [4]
    assert "t" in repr(again) and again.vacuum(dry_run=True) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="names are text there")
def test_other_libraries_read_a_table_in_such_a_folder(odd: str) -> None:
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    table = dn.create(odd, {"id": [1, 2]})
    assert sorted(table.to_duckdb().filter("id > 1").fetchall()) == [(2,)] and duckdb
    assert table.to_polars().filter(polars.col("id") > 1).collect()["id"].to_list() == [2]


@pytest.mark.parametrize("content", [
    b'{"add":{"path":"a\xff.parquet","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true}}',
    b'{"add":{"path":"a","partitionValues":{"p":"\xff"},"size":1,"modificationTime":0,"dataChange":true}}',
    b'{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":0,"dataChange":true,"stats":"\xff"}}',
    b"\xff\xfe\x00", b'{"metaData":{"id":"\xff"}}', b'{"remove":{"path":"\xff","dataChange":true}}',
])
def test_a_commit_that_is_no_text_is_named(content: bytes) -> None:
    table = table_of({"id": [1]})
    name = "_delta_log/00000000000000000001.json"
    table.log.store.put(name, content)
    with pytest.raises(InvalidTable, match=name):
        dn.open(table.log.store).to_arrow()
    with pytest.raises(DeltaError, match=name):
        dn.open(table.log.store).append({"id": [2]})
