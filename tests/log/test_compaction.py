"""Log compaction files: written, read in place of commits, understood by a peer."""

import threading

import pytest

import deltanb as dn
from deltanb.actions import AddFile, DomainMetadata, RemoveFile
from deltanb.concurrency import background
from deltanb.errors import (
    InvalidArgument,
    InvalidTable,
    StorageError,
    TableNotFound,
    UnsupportedProtocol,
    VersionNotFound,
)
from deltanb.log import compaction
from deltanb.log.compaction import read_compaction, write_compaction
from deltanb.store.local import LocalStore
from deltanb.testing import Fail, LoseResponse, MemoryStore, ScriptedStore, TableBuilder, add, remove
from deltanb.testing.s3_server import S3Server
from deltanb.transaction import hooks
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import lines_of
from tests.patience import PATIENCE


def protocol_example():
    """Versions 4 to 6 of the example in PROTOCOL.md, "Log Compaction Files"."""
    table = TableBuilder(MemoryStore()).create()
    for _ in range(2):
        table.commit({"commitInfo": {}})
    table.commit(add("f1"))
    table.commit({"commitInfo": {}}, add("f2"), remove("f1"))
    table.commit({"commitInfo": {}}, add("f3"), add("f4"), {"txn": {"appId": "3ae4", "version": 4389}})
    return table.commit({"commitInfo": {}}, remove("f3"), {"txn": {"appId": "3ae4", "version": 4390}})


def test_the_protocols_example():
    table = protocol_example()
    name = write_compaction(table.log, 4, 6)
    assert name.endswith("00000000000000000004.00000000000000000006.compacted.json")
    keys = {(key, value.get("path") or value["version"]) for line in lines_of(table.store, name)
             for key, value in line.items()}  # fmt: skip
    assert keys == {("add", "f2"), ("add", "f4"), ("remove", "f1"), ("remove", "f3"), ("txn", 4390)}
    assert [a.to_dict() for a in read_compaction(table.store, 4, 6)] == lines_of(table.store, name)


def test_replay_takes_the_compaction_and_gives_the_same_state():
    table = protocol_example()
    expected = DeltaLog(table.store).snapshot
    write_compaction(table.log, 1, 5)
    table.delete(1, 2, 3, 4, 5)
    snapshot = DeltaLog(table.store).snapshot
    assert snapshot.files.sort_by("path").equals(expected.files.sort_by("path"))
    assert snapshot.tombstones.sort_by("path").equals(expected.tombstones.sort_by("path"))
    assert dict(snapshot.txns) == dict(expected.txns)
    assert DeltaLog(table.store).snapshot_at(5).set_transactions == {"3ae4": 4389}


def test_unknown_fields_removed_domains_and_vectors_are_kept():
    vector = {"storageType": "u", "pathOrInlineDv": "abc", "offset": 1, "sizeInBytes": 4, "cardinality": 2}
    table = TableBuilder(MemoryStore()).create()
    table.commit({"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}}, add("a"))
    table.commit({"domainMetadata": {"domain": "d", "configuration": "1", "removed": True}})
    table.commit(remove("a"), add("a", deletionVector=vector, shiny=True))
    name = write_compaction(table.log, 2, 3)
    lines = lines_of(table.store, name)
    assert {"remove", "add", "domainMetadata"} == {key for line in lines for key in line}
    (added,) = [line["add"] for line in lines if "add" in line]
    assert added["shiny"] is True and added["deletionVector"] == vector
    (domain,) = [a for a in read_compaction(table.store, 2, 3) if isinstance(a, DomainMetadata)]
    assert domain.removed
    table.commit(add("later")).delete(2, 3)
    assert DeltaLog(table.store).snapshot.domain_metadata == {}


def test_what_cannot_be_compacted():
    table = protocol_example()
    for start, end in ((2, 2), (3, 1), (-1, 2)):
        with pytest.raises(InvalidArgument, match="0 <= start < end"):
            write_compaction(table.log, start, end)
    with pytest.raises(VersionNotFound, match="Version 7") as caught:
        write_compaction(table.log, 5, 9)
    assert (caught.value.version, caught.value.latest) == (7, 6)
    log = table.log
    log.update()
    table.damage(5, b'{"add":')
    with pytest.raises(InvalidTable, match=r"0005\.json"):
        write_compaction(log, 4, 6)
    assert not [n for n in table.store.list_names("_delta_log/") if "compacted" in n]


def test_unknown_writer_features_forbid_it():
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTomorrow"]}
    table = TableBuilder(MemoryStore()).create(protocol=protocol).commit(add("a"))
    with pytest.raises(UnsupportedProtocol, match="fromTomorrow"):
        write_compaction(table.log, 0, 1)


@pytest.mark.parametrize(("start", "end"), [(0, 5), (6, 10), (6, 15)])
def test_a_real_compaction_says_what_ours_says(shared, start, end):
    root = shared / "tables/kernel_rs/compacted-log-files-table"
    theirs = LocalStore(str(root))
    table = TableBuilder(MemoryStore())
    for version in range(end + 1):
        name = f"_delta_log/{version:020}.json"
        table.put(name, theirs.read(name))
    write_compaction(table.log, start, end)

    def deciding(store):
        """What decides for each logical file: theirs lists newest first, and older lines too."""
        last_kinds = {}
        for action in read_compaction(store, start, end):
            if isinstance(action, AddFile | RemoveFile):
                last_kinds.setdefault(action.file_key, action.key)
        return last_kinds

    assert deciding(table.store) == deciding(theirs)


def test_a_peer_reads_the_compaction(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    root = str(tmp_path / "table")
    for i in range(5):
        deltalake.write_deltalake(root, pa.table({"id": [i]}), mode="append")
    deltalake.DeltaTable(root).delete("id = 2")
    log = DeltaLog(LocalStore(root))
    name = write_compaction(log, 1, 5)
    table = deltalake.DeltaTable(root)
    rows = pa.table(deltalake.QueryBuilder().register("t", table).execute("SELECT id FROM t"))
    assert sorted(rows.column("id").to_pylist()) == [0, 1, 3, 4]
    assert name in log.store.list_names("_delta_log/")
    deltalake.write_deltalake(root, pa.table({"id": [9]}), mode="append")
    assert DeltaLog(LocalStore(root)).snapshot.num_files == 5


@pytest.mark.parametrize("step", [Fail(), LoseResponse()])
def test_a_store_that_fails_is_a_storage_error(step):
    store = ScriptedStore(protocol_example().store, [step])
    with pytest.raises(StorageError, match=r"compacted\.json cannot be written"):
        write_compaction(DeltaLog(store), 4, 6)


# -- when they are written ------------------------------------------------------------------------


def compactions_of(table: dn.DeltaTable) -> list[tuple[int, int]]:
    names = table.log.store.list_names("_delta_log/")
    return [(int(name[11:31]), int(name[32:52])) for name in names if name.endswith(".compacted.json")]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (compaction, hooks):
        monkeypatch.setattr(module, "RUN", 5)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("how, interval, runs", [
    ("inline", 1000, [(1, 5), (6, 10)]), ("background", 1000, [(1, 5), (6, 10)]),
    ("inline", 7, [(1, 5), (8, 10)]), ("inline", 9, [(1, 5)]), ("inline", 5, []), ("inline", 4, [])])
def test_commits_to_a_bucket_that_no_checkpoint_is_near_are_compacted(
    how: str, interval: int, runs: list[tuple[int, int]], s3_server: S3Server, bucket: str
) -> None:
    failures: list[object] = []
    with dn.set_options(checkpoints=how, hook_failure_listeners=[failures.append]):
        table = dn.create(f"{bucket}/t", {"id": [0]}, storage_options=s3_server.options,
                          properties={"delta.checkpointInterval": interval})
        for number in range(1, 13):
            table.append({"id": [number]})
        dn.flush()
    assert compactions_of(table) == runs and not failures
    DeltaLog.clear_cache()
    with s3_server.counted() as requests:
        opened = dn.open(f"{bucket}/t", storage_options=s3_server.options)
    assert sorted(opened.to_arrow()["id"].to_pylist()) == list(range(13))
    for version in (5, 10):  # whose commit is in a compaction, or in none
        DeltaLog.clear_cache()
        past = dn.open(f"{bucket}/t", version, storage_options=s3_server.options)
        assert past.to_arrow().num_rows == version + 1
        assert past.snapshot.timestamp == past.history()[0].timestamp
    assert len(opened.history()) == 13 and opened.verify(files="none").is_sound
    if interval == 1000:  # the hint, a listing, the checksum, the first commit, two compactions, two commits
        assert len(requests) == 8


@pytest.mark.usefixtures("few")
def test_one_that_waits_stands_for_no_other(s3_server: S3Server, bucket: str) -> None:
    """As a checkpoint does for those before it."""
    table = dn.create(f"{bucket}/t", {"id": [0]}, storage_options=s3_server.options,
                      properties={"delta.checkpointInterval": 9})
    goes_on = threading.Event()
    background.soon("others", "what others do", lambda: goes_on.wait(PATIENCE))
    with dn.set_options(checkpoints="background"):
        for number in range(1, 16):
            table.set_properties({"number": str(number)})
    goes_on.set()
    dn.flush()
    assert compactions_of(table) == [(1, 5), (11, 15)] and table.snapshot.version == 15
    DeltaLog.clear_cache()
    opened = dn.open(f"{bucket}/t", storage_options=s3_server.options)
    assert opened.snapshot.checkpoint_version == 9


@pytest.mark.usefixtures("few")
def test_those_to_a_folder_are_not(tmp_path):
    table = dn.create(tmp_path, {"id": [0]}, properties={"delta.checkpointInterval": 1000})
    for number in range(1, 6):
        table.append({"id": [number]})
    assert compactions_of(table) == []


def test_what_was_removed_meanwhile_gets_none():
    table = protocol_example()
    log = table.log
    snapshot = log.update()
    table.damage(6, '{"commitInfo": {}}')
    with pytest.raises(TableNotFound, match="removed or replaced"):
        write_compaction(log, 1, 6, log.same_table_check(snapshot))
    assert not [n for n in table.store.list_names("_delta_log/") if "compacted" in n]


def test_a_compaction_of_commits_in_a_bucket_asks_for_many_at_a_time(s3_server: S3Server, bucket: str):
    table = dn.create(f"{bucket}/t", {"id": [0]}, storage_options=s3_server.options)
    for number in range(1, 9):
        table.set_properties({"number": str(number)})
    log = table.log
    log.update()
    with s3_server.counted() as requests:
        write_compaction(log, 1, 8)
    assert [str(one).split()[0] for one in requests] == ["LIST", "LIST", "PUT"], "all else was written here"
