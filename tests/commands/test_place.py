"""Places for new tables: files of others are neither taken over nor deleted, whoever makes a table there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import Metadata
from deltanb.commands.rows.two_phase_write import WriteOptions, planned
from deltanb.errors import DeltaError, InvalidArgument, TableNotFound
from deltanb.schema.types import from_arrow
from deltanb.store.object import ObjectStore
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog

ROWS = pa.table({"n": [1, 2], "p": ["a", "b"]})


def source(folder: Path) -> dn.DeltaTable:
    return dn.create(folder / "source", ROWS, partition_by="p")


CREATORS: dict[str, Callable[[Path, Path], Any]] = {
    "create": lambda at, folder: dn.create(at, ROWS),
    "create without rows": lambda at, folder: dn.create(at, "n long"),
    "create if absent": lambda at, folder: dn.create(at, ROWS, mode="ignore"),
    "create over": lambda at, folder: dn.create(at, ROWS, mode="overwrite"),
    "clone": lambda at, folder: source(folder).clone(at),
    "clone over": lambda at, folder: source(folder).clone(at, mode="overwrite"),
    "a write by tasks": lambda at, folder: planned(
        DeltaLog.for_table(at), from_arrow(ROWS.schema), WriteOptions("Append")),
}


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("name", ["a.parquet", "year=1/a.parquet", "notes.txt", "deep/er/x",
                                  "_change_data/a.parquet", "inner/_delta_log/00000000000000000000.json"])
@pytest.mark.parametrize("creator", CREATORS)
def test_a_folder_with_files_of_others_is_refused(creator: str, name: str, tmp_path: Path) -> None:
    at = tmp_path / "t"
    (at / name).parent.mkdir(parents=True)
    pq.write_table(ROWS, at / name)
    before = tree(at)
    with pytest.raises(InvalidArgument, match=r"not a Delta table and not empty "
                                              r".*allow_files=True") as caught:
        CREATORS[creator](at, tmp_path)
    assert ("deltanb.convert(" in str(caught.value)) == (name.endswith(".parquet") and name[0] != "_")
    assert tree(at) == before


@pytest.mark.parametrize("names", [["_SUCCESS"], [".DS_Store"], [".ipynb_checkpoints/x.ipynb"], ["empty/"],
                                   ["_delta_log/"], []], ids=str)
@pytest.mark.parametrize("creator", CREATORS)
def test_what_vacuum_leaves_alone_is_no_hindrance(creator: str, names: list[str], tmp_path: Path) -> None:
    at = tmp_path / "t"
    for name in names:
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).mkdir() if name.endswith("/") else (at / name).write_text("x")
    CREATORS[creator](at, tmp_path)
    for name in names:
        assert (at / name).exists()


def test_hidden_folders_of_partitions_are_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "t" / "_p=1").mkdir(parents=True)
    pq.write_table(ROWS, tmp_path / "t" / "_p=1" / "a.parquet")
    with pytest.raises(InvalidArgument, match="not empty"):
        dn.create(tmp_path / "t", {"_p": [1], "n": [1]}, partition_by="_p")


def test_in_other_stores_too() -> None:
    store = MemoryStore()
    store.put("a.parquet", b"theirs")
    with pytest.raises(InvalidArgument, match="not empty"):
        dn.create(store, ROWS)
    assert list(store.files) == ["a.parquet"]
    with pytest.raises(TableNotFound, match=r"deltanb\.convert\("):
        dn.open(store)


def test_what_makes_a_folder_in_a_bucket_is_no_hindrance(s3_server: Any, bucket: str) -> None:
    """Empty objects whose keys end in a slash: consoles make them, and clients that know folders alone."""
    for key in ("t/", "t/p=a/", "t/x_$folder$", "t/_delta_log/"):
        s3_server.store(bucket.removeprefix("s3://"), key, b"")
    table = dn.create(ObjectStore(f"{bucket}/t", s3_server.options), ROWS, partition_by="p")
    table.vacuum(0, check=False)
    assert table.count() == 2


def test_where_it_is_asked_for_files_of_others_stay_until_a_vacuum_that_tells_them(tmp_path: Path) -> None:
    at = tmp_path / "t"
    at.mkdir()
    pq.write_table(ROWS, at / "theirs.parquet")
    table = dn.create(at, ROWS, allow_files=True)
    assert table.count() == 2
    table.overwrite({"n": [3], "p": ["c"]})
    for is_dry in (True, False):
        result = table.vacuum(0, check=False, dry_run=is_dry)
        assert result.num_files == 2 and result.unnamed["path"].to_pylist() == ["theirs.parquet"]
        assert "of which 1 file is in no version" in str(result)
    assert not (at / "theirs.parquet").exists()


def test_files_that_every_kind_of_commit_named_are_known_to_vacuum(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"n": list(range(4))}, properties={
        "delta.enableDeletionVectors": True, "delta.enableChangeDataFeed": True})
    table.delete("n = 1")
    table.delete("n = 2")
    table.overwrite({"n": [9]})
    (tmp_path / "t" / "stray.parquet").write_bytes(b"")
    result = table.vacuum(0, check=False)
    assert result.num_files > 4 and result.unnamed.num_rows == 1


def test_a_creation_that_was_killed_can_be_done_again(tmp_path: Path) -> None:
    child = os.fork() if hasattr(os, "fork") else pytest.skip("no fork on this system")
    if not child:
        from deltanb.store.local import LocalStore

        LocalStore.put_if_absent = lambda *args, **more: os._exit(0)  # type: ignore[method-assign]
        try:
            dn.create(tmp_path / "t", ROWS)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert [name for name in tree(tmp_path / "t") if name.endswith(".parquet")]
    table = dn.create(tmp_path / "t", ROWS)
    assert table.count() == 2
    assert table.vacuum(0, check=False).unnamed.num_rows == 2  # its data file, and the note of its creation
    assert not [name for name in tree(tmp_path / "t") if name.endswith(".tmp")]


def test_a_conversion_that_was_killed_leaves_files_of_others(tmp_path: Path) -> None:
    child = os.fork() if hasattr(os, "fork") else pytest.skip("no fork on this system")
    at = tmp_path / "t"
    if not child:
        from deltanb.store.local import Draft

        Draft.link = lambda *args: os._exit(0)  # type: ignore[method-assign]
        try:
            at.mkdir()
            pq.write_table(ROWS, at / "theirs.parquet")
            dn.convert(at)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert (at / "_delta_log").is_dir()
    with pytest.raises(InvalidArgument, match=r"not empty \(theirs\.parquet\)"):
        dn.create(at, ROWS)
    assert dn.convert(at).count() == 2


def test_what_others_had_not_named_yet_says_nothing_of_the_files_beside_it(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "theirs.parquet")
    (tmp_path / ".theirs.0123456789abcdef.tmp").touch()
    with pytest.raises(InvalidArgument, match=r"not empty \(.*theirs\.parquet"):
        dn.create(tmp_path, ROWS)


@pytest.mark.parametrize("rows", [{"n": ["no number"]}, {"n": [None]}])
def test_a_creation_that_fails_leaves_nothing(rows: Any, tmp_path: Path) -> None:
    def bad() -> Any:
        yield from pa.table({"n": pa.array([1])}).to_batches()
        raise ValueError("the source broke")

    with pytest.raises((DeltaError, ValueError)):
        dn.create(tmp_path / "t", pa.RecordBatchReader.from_batches(pa.schema([("n", pa.int64())]), bad()))
    assert not (tmp_path / "t").exists()


def test_the_table_that_was_opened_says_how_to_convert(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet")
    for opened in (dn.open, dn.DeltaTable.for_path):
        with pytest.raises(TableNotFound, match=r"deltanb\.convert\('.*'\) makes a table"):
            opened(tmp_path)
    assert dn.convert(tmp_path).count() == 2


def test_metadata_is_no_creation(tmp_path: Path) -> None:
    """The core does what it is told to."""
    pq.write_table(ROWS, tmp_path / "a.parquet")
    txn = DeltaLog.for_table(tmp_path).start_transaction()
    txn.update_metadata(Metadata("t", from_arrow(ROWS.schema).to_json()))
    assert txn.commit() == 0
