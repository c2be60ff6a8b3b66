"""Opening, following and reading logs: what is shared, what is read, what is refused."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from deltanb import actions
from deltanb.actions import AddFile
from deltanb.errors import InvalidTable, TableNotFound, UnsupportedProtocol, VersionNotFound
from deltanb.log.commits import commit_name
from deltanb.options import options
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore, ScriptedStore, TableBuilder, add, remove, to_lines
from deltanb.transaction.delta_log import DeltaLog


@pytest.fixture(autouse=True)
def _no_shared_logs() -> Iterator[None]:
    DeltaLog.clear_cache()
    yield
    DeltaLog.clear_cache()


def paths(snapshot: object) -> list[str]:
    return sorted(snapshot.select_files(["path"]).column(0).to_pylist())  # type: ignore[attr-defined]


def test_one_log_for_one_table(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    log = DeltaLog.for_table(tmp_path / "real")
    same = [str(tmp_path / "real") + "/", (tmp_path / "real").as_uri(), tmp_path / "link",
            LocalStore(tmp_path / "real")]
    assert all(DeltaLog.for_table(one) is log for one in same)
    assert DeltaLog.for_table(tmp_path / "other") is not log
    quick = LocalStore(tmp_path / "real", durability="none")
    assert DeltaLog.for_table(quick).store is quick
    memory = MemoryStore()
    assert DeltaLog.for_table(memory) is DeltaLog.for_table(memory)
    assert DeltaLog.for_table(memory) is not DeltaLog.for_table(MemoryStore())


def test_a_place_without_a_table(tmp_path: Path) -> None:
    log = DeltaLog.for_table(tmp_path / "none")
    snapshot = log.snapshot
    assert (snapshot.version, snapshot.num_files, snapshot.files.num_rows) == (-1, 0, 0)
    assert snapshot.timestamp == -1 and not log.exists and not (tmp_path / "none").exists()
    for read in (lambda: log.snapshot_at(0), log.earliest_version, log.history, log.checkpoint,
                 lambda: log.snapshot_as_of(0)):
        with pytest.raises(TableNotFound, match="none"):
            read()
    with pytest.raises(TableNotFound, match="no metaData"):
        _ = snapshot.metadata
    TableBuilder(tmp_path / "none").create()
    assert log.exists and log.snapshot.version == 0


def test_what_a_snapshot_says() -> None:
    table = TableBuilder(MemoryStore()).create(
        "id long, part string", partition_by=["part"], properties={"delta.appendOnly": "false"})
    table.commit(
        add("part=1/a", {"part": "1"}, size=10), add("part=2/b", {"part": "2"}, size=5),
        {"txn": {"appId": "etl", "version": 4}},
        {"domainMetadata": {"domain": "x", "configuration": "{}", "removed": False}},
        {"domainMetadata": {"domain": "y", "configuration": "{}", "removed": False}})
    table.commit(remove("part=1/a"), {"txn": {"appId": "etl", "version": 5}},
                 {"domainMetadata": {"domain": "y", "configuration": "", "removed": True}})
    snapshot = table.log.snapshot
    assert snapshot.version == 2 and paths(snapshot) == ["part=2/b"]
    assert (snapshot.num_files, snapshot.size_in_bytes) == (1, 5)
    assert snapshot.schema.names == ["id", "part"] and snapshot.partition_columns == ("part",)
    assert snapshot.properties == {"delta.appendOnly": "false"}
    assert snapshot.set_transactions == {"etl": 5} and snapshot.txns["etl"].version == 5
    assert list(snapshot.domain_metadata) == ["x"]
    assert snapshot.tombstones.column("path").to_pylist() == ["part=1/a"]
    older = table.log.snapshot_at(1)
    assert older.set_transactions == {"etl": 4} and sorted(older.domain_metadata) == ["x", "y"]
    assert paths(older) == ["part=1/a", "part=2/b"] and older.tombstones.num_rows == 0


def test_update_reads_the_new_commits_and_nothing_else() -> None:
    store = ScriptedStore(MemoryStore())
    table = TableBuilder(store).create()
    for number in range(20):
        table.commit(add(f"f{number}"))
    log = DeltaLog.for_table(store)
    assert log.snapshot.version == 20
    before = log.snapshot
    store.calls.clear()
    assert log.update() is before
    assert store.calls == {"status": 1, "read": 1}
    table.commit(add("g"), remove("f3")).commit(add("h"))
    store.calls.clear()
    after = log.update()
    assert store.calls == {"status": 2, "read": 3}
    assert after.version == 22 and after is log.snapshot and before.version == 20
    assert set(paths(after)) - set(paths(before)) == {"g", "h"}
    assert set(paths(before)) - set(paths(after)) == {"f3"}


def test_opening_reads_no_file_list_of_a_checkpoint_until_it_is_asked_for(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path).create()
    table.commit(*(add(f"f{n}", size=n) for n in range(50)))
    table.log.checkpoint()
    table.commit(add("late"), remove("f7"))
    DeltaLog.clear_cache()
    snapshot = DeltaLog.for_table(tmp_path).snapshot
    assert snapshot.checkpoint_version == 1 and snapshot.version == 2
    parts = snapshot._state.files._below
    assert parts is not None and parts._parts is None, "the checkpoint's rows were read at open"
    assert snapshot.num_files == 50 and snapshot.size_in_bytes == sum(range(50)) - 7 + 1
    assert set(paths(snapshot)) == {f"f{n}" for n in range(50) if n != 7} | {"late"}


def test_a_log_put_in_the_place_of_another_is_read_anew(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path / "t").create("id long").commit(add("old")).commit(add("older"))
    log = table.log
    first = log.snapshot
    assert log.snapshot_at(1).version == 1
    shutil.rmtree(tmp_path / "t")
    assert log.update().version == -1
    TableBuilder(tmp_path / "t").create("other string").commit(add("new")).commit().damage(2, to_lines(
        [add("newer")]))
    assert log.update().schema.names == ["other"]
    assert paths(log.snapshot) == ["new", "newer"] and paths(log.snapshot_at(1)) == ["new"]
    assert paths(first) == ["old", "older"]


def test_advance_installs_our_commit_without_reading_it() -> None:
    store = ScriptedStore(MemoryStore())
    table = TableBuilder(store).create().commit(add("a"))
    log = DeltaLog.for_table(store)
    before = log.snapshot
    mine = [actions.from_dict(line) for line in (add("b"), remove("a"))]
    table.commit(*mine)
    store.calls.clear()
    after = log.advance(2, mine)
    assert store.calls == {"status": 1}
    assert after is log.snapshot and after.version == 2 and paths(after) == ["b"]
    assert log.update() is after and paths(before) == ["a"]
    assert log.advance(2, mine) is after
    table.commit(add("theirs")).commit(add("c"))
    jumped = log.advance(4, [actions.from_dict(add("c"))])
    assert jumped.version == 4 and paths(jumped) == ["b", "c", "theirs"]
    fresh = DeltaLog(store).snapshot
    assert fresh.files.sort_by("path") == jumped.files.sort_by("path")


def test_counts_are_carried_over_our_own_new_files_and_stay_true() -> None:
    store = MemoryStore()
    table = TableBuilder(store).create().commit(add("a", size=1), add("b", size=2))
    log = DeltaLog.for_table(store)
    assert (log.snapshot.num_files, log.snapshot.size_in_bytes) == (2, 3)

    def land(*lines: Any, new: Sequence[str] = ()) -> tuple[int, int]:
        mine = [actions.from_dict(line) for line in lines]
        table.commit(*mine)
        written = [AddFile(path=path) for path in new]
        after = log.advance(log.snapshot.version + 1, mine, written)
        fresh = DeltaLog(store).snapshot
        totals = after.num_files, after.size_in_bytes
        assert totals == (fresh.num_files, fresh.size_in_bytes)
        return totals

    assert land(add("c", size=4), new=["c"]) == (3, 7)
    assert log.snapshot._state.files._parts is None  # nothing was looked up
    assert land(add("b", size=8)) == (3, 13)  # described anew
    assert land(add("d", size=16), remove("a"), new=["d"]) == (3, 28)
    assert land(add("e", size=32), add("c", size=64), new=["e"]) == (4, 120)


def test_a_table_is_created_through_advance() -> None:
    store = MemoryStore()
    log = DeltaLog.for_table(store)
    assert log.snapshot.version == -1
    TableBuilder(store).create("id long")
    created = log.advance(0, log.read_commit(0))
    assert created.version == 0 and log.update() is created


def test_threads_that_update_at_once_end_at_the_newest(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path).create()
    log = table.log
    seen: list[int] = []
    gate = threading.Barrier(5)

    def follow() -> None:
        gate.wait()
        versions = [log.update().version for _ in range(60)]
        assert versions == sorted(versions)
        seen.append(versions[-1])

    threads = [threading.Thread(target=follow) for _ in range(4)]
    for thread in threads:
        thread.start()
    gate.wait()
    for number in range(30):
        table.commit(add(f"f{number}"))
    for thread in threads:
        thread.join()
    assert len(seen) == 4
    assert log.update().version == 30 and log.snapshot.num_files == 30


# -- damage ------------------------------------------------------------------------------------


def test_a_table_without_metadata_or_protocol_is_refused_by_name() -> None:
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    table = TableBuilder(MemoryStore()).commit(protocol, add("a"))
    with pytest.raises(InvalidTable, match="no metaData action up to version 0"):
        _ = table.log.snapshot
    metadata = {"metaData": {"id": "1", "format": {}, "partitionColumns": [], "configuration": {}}}
    table = TableBuilder(MemoryStore()).commit(metadata, add("a"))
    with pytest.raises(InvalidTable, match="no protocol action up to version 0"):
        _ = table.log.snapshot


def test_metadata_without_a_schema_replays_and_the_schema_is_refused() -> None:
    metadata = {"metaData": {"id": "1", "format": {}, "partitionColumns": [], "configuration": {}}}
    table = TableBuilder(MemoryStore()).commit(
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, metadata, add("a"))
    assert table.log.snapshot.num_files == 1
    with pytest.raises(InvalidTable, match="no schemaString"):
        _ = table.log.snapshot.schema


def test_what_no_path_can_open_is_refused_at_once_and_other_features_at_the_scan() -> None:
    newer = TableBuilder(MemoryStore()).create(
        protocol={"minReaderVersion": 99, "minWriterVersion": 7})
    with pytest.raises(UnsupportedProtocol, match="99"):
        _ = newer.log.snapshot

    def table_with(feature: str) -> TableBuilder:
        return TableBuilder(MemoryStore()).create(protocol={
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [feature],
            "writerFeatures": [feature]}).commit(add("a"))

    with pytest.raises(UnsupportedProtocol, match=r"catalogManaged.*through the catalog"):
        _ = table_with("catalogManaged").log.snapshot
    unknown = table_with("shinyNewThing").log.snapshot
    assert unknown.num_files == 1
    with pytest.raises(UnsupportedProtocol, match="shinyNewThing"):
        unknown.files_for_scan()


def test_a_damaged_commit_is_named_and_the_version_before_it_can_be_read() -> None:
    table = TableBuilder(MemoryStore()).create().commit(add("a")).commit(add("b"))
    table.damage(2, to_lines([add("b")])[:-9])
    with pytest.raises(InvalidTable, match="line 1") as caught:
        _ = table.log.snapshot
    assert caught.value.file == commit_name(2) and caught.value.line == 1
    assert table.log.snapshot_at(1).num_files == 1
    with pytest.raises(InvalidTable, match="line 1"):
        table.log.read_commit(2)


def test_a_damaged_new_commit_leaves_the_held_snapshot_alone() -> None:
    table = TableBuilder(MemoryStore()).create().commit(add("a"))
    held = table.log.snapshot
    table.commit('{"add":{"path":"b"')
    with pytest.raises(InvalidTable, match=commit_name(2)):
        table.log.update()
    assert table.log.snapshot is held
    table.damage(2, to_lines([add("b")]))
    assert table.log.update().num_files == 2


def test_a_missing_version_is_named() -> None:
    table = TableBuilder(MemoryStore()).create().commit(add("a")).commit(add("b")).commit(add("c"))
    table.delete(1)
    with pytest.raises(InvalidTable, match=r"no version 1: .*0001\.json is missing"):
        _ = table.log.snapshot
    assert table.log.snapshot_at(0).num_files == 0
    with pytest.raises(VersionNotFound, match=r"0001\.json"):
        table.log.read_commit(1)
    with pytest.raises(VersionNotFound, match="versions 0 to 3"):
        table.log.snapshot_at(4)


@pytest.mark.parametrize("hint", [b"", b"{", b'{"version":1', b'{"version":99,"size":1}', b"[]",
                                  b'{"version":"x"}', b'{"version":0,"size":1}', b"\xff\xfe"])
def test_a_wrong_hint_changes_nothing(tmp_path: Path, hint: bytes) -> None:
    table = TableBuilder(tmp_path).create().commit(add("a"))
    table.log.checkpoint()
    table.commit(add("b")).put("_delta_log/_last_checkpoint", hint)
    DeltaLog.clear_cache()
    snapshot = DeltaLog.for_table(tmp_path).snapshot
    assert snapshot.version == 2 and paths(snapshot) == ["a", "b"]


def test_a_damaged_checkpoint_is_passed_over_where_commits_reach_back(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path).create().commit(add("a"))
    table.log.checkpoint()
    table.commit(add("b"))
    name = f"_delta_log/{1:020}.checkpoint.parquet"
    table.put(name, table.store.read(name)[:-20])
    DeltaLog.clear_cache()
    log = DeltaLog.for_table(tmp_path)
    assert paths(log.snapshot) == ["a", "b"] and log.snapshot.checkpoint_version is None
    table.delete(0)
    DeltaLog.clear_cache()
    with pytest.raises(InvalidTable, match="checkpoint"):
        _ = DeltaLog.for_table(tmp_path).snapshot


def test_a_log_that_begins_with_a_checkpoint(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path).create().commit(add("a"))
    table.commit(add("b"), remove("a", deletionTimestamp=options.clock()))
    table.log.checkpoint()
    table.commit(add("c")).delete(0, 1, 2)
    DeltaLog.clear_cache()
    log = DeltaLog.for_table(tmp_path)
    assert paths(log.snapshot) == ["b", "c"] and log.earliest_version() == 2
    assert log.snapshot.tombstones.column("path").to_pylist() == ["a"]
    assert paths(log.snapshot_at(2)) == ["b"] and log.snapshot_at(2).timestamp > 0
    with pytest.raises(VersionNotFound, match="versions 2 to 3"):
        log.snapshot_at(1)


def test_compactions_stand_for_their_commits_and_damaged_ones_do_not() -> None:
    table = TableBuilder(MemoryStore()).create()
    table.commit(add("a")).commit(remove("a"), add("b")).commit(add("c"))
    name = f"_delta_log/{1:020}.{3:020}.compacted.json"
    # As some writers leave them: the commits joined, the newest in front.
    table.put(name, to_lines([add("c"), remove("a"), add("b"), add("a")]))
    assert paths(DeltaLog(table.store).snapshot) == ["b", "c"]
    table.put(name, b'{"add":')
    assert paths(DeltaLog(table.store).snapshot) == ["b", "c"]
    table.delete(2)
    with pytest.raises(InvalidTable, match="compacted"):
        _ = DeltaLog(table.store).snapshot


def test_files_of_killed_writers_and_staged_commits_are_ignored(tmp_path: Path) -> None:
    table = TableBuilder(tmp_path).create().commit(add("a"))
    table.put("_delta_log/.00000000000000000002.json.0badcafe.tmp", b'{"add"')
    table.put("_delta_log/_staged_commits/00000000000000000002.3a0d65cd.json", b'{"add"')
    table.put("_delta_log/00000000000000000002.json.tmp", b'{"add"')
    assert table.log.snapshot.version == 1


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_deletion_vectors_in_a_checkpoint_are_part_of_the_key(tmp_path: Path, policy: str) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4,
              "sizeInBytes": 40, "cardinality": 2}
    features = ["deletionVectors", "v2Checkpoint"]
    table = TableBuilder(tmp_path).create(
        properties={"delta.checkpointPolicy": policy},
        protocol={"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features,
                  "writerFeatures": features})
    table.commit(add("a", deletionVector=vector), add("b"), add(f"{tmp_path}/c"))
    table.log.checkpoint()
    table.commit(remove("a"), remove("b", deletionVector=vector), remove(f"file:{tmp_path}/c"))
    DeltaLog.clear_cache()
    snapshot = DeltaLog.for_table(tmp_path).snapshot
    assert snapshot.checkpoint_version == 1
    assert paths(snapshot) == ["a", "b"], "a remove of another logical file took this one away"
    table.commit(remove("a", deletionVector=vector), remove("b"))
    assert paths(table.log.update()) == [] and paths(snapshot) == ["a", "b"]


def test_a_handle_catches_up_with_many_commits_as_a_fresh_one_reads_them() -> None:
    table = TableBuilder(MemoryStore()).create()
    log = table.log
    for number in range(40):
        table.commit(add(f"f{number}"), *([remove(f"f{number - 3}")] if number > 5 else []))
        if number % 3:
            assert log.update().num_files == DeltaLog(table.store).snapshot.num_files
    fresh = DeltaLog(table.store).snapshot
    assert paths(log.update()) == paths(fresh)
    assert log.snapshot.size_in_bytes == fresh.size_in_bytes
    followed, read = log.snapshot.tombstones["path"], fresh.tombstones["path"]
    assert sorted(followed.to_pylist()) == sorted(read.to_pylist()) != []


def test_a_scan_reads_the_columns_it_is_asked_for() -> None:
    table = TableBuilder(MemoryStore()).create("id long, part string", partition_by=["part"])
    table.commit(add("part=1/a", {"part": "1"}, stats="{}"), add("part=2/b", {"part": "2"}))
    snapshot = table.log.snapshot
    files = snapshot.files_for_scan("part = '2'", columns=["path"])
    assert files.to_pylist() == [{"path": "part=2/b"}]
    assert snapshot.files_for_scan(columns=["size"]).column_names == ["size"]
    assert snapshot.files_for_scan("part = '1'").column_names == snapshot.files.column_names
