"""Log compaction files: written, read in place of commits, understood by a peer."""


import pytest

from deltanb.actions import AddFile, DomainMetadata, RemoveFile
from deltanb.errors import (
    InvalidArgument,
    InvalidTable,
    StorageError,
    UnsupportedProtocol,
    VersionNotFound,
)
from deltanb.log.compaction import read_compaction, write_compaction
from deltanb.store.local import LocalStore
from deltanb.testing import Fail, LoseResponse, MemoryStore, ScriptedStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import lines_of


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
