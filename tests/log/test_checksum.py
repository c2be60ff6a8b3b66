"""Version checksums: real ones validate, ours say what the table is, damage is told."""

import json
import logging
import re
import shutil

import pytest

from deltanb.actions import CommitInfo
from deltanb.log.checksum import checksum_name, read_checksum, validate, write_checksum
from deltanb.log.delta_log import DeltaLog
from deltanb.log.store import LocalStore
from deltanb.testing import MemoryStore, TableBuilder, add, remove

# Two fixtures whose authors edited the log after the fact: a checksum must notice.
EDITED = {"cdc_ict_table": {"inCommitTimestampOpt"}, "crc-full": {"numFiles", "tableSizeBytes"}}


def fields(differences):
    return {difference.field for difference in differences}


def test_real_checksums_agree_with_what_we_replay(shared):
    seen = 0
    for path in sorted((shared / "tables").rglob("_delta_log/*.crc")):
        match = re.fullmatch(r"(\d{20})\.crc", path.name)
        if match is None:
            continue
        table = path.parent.parent
        log = DeltaLog(LocalStore(str(table)))
        checksum = read_checksum(log.store, int(match[1]))
        assert checksum is not None, path
        found = fields(validate(log.snapshot_at(int(match[1])), checksum))
        expected = EDITED.get(table.name, set()) if found else set()
        assert found >= expected and bool(found) == bool(expected), (path, found)
        seen += 1
    assert seen > 90


def table_with_everything():
    properties = {"delta.enableInCommitTimestamps": "true"}
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7,
                "writerFeatures": ["inCommitTimestamp", "domainMetadata"]}  # fmt: skip
    table = TableBuilder(MemoryStore()).create(properties=properties, protocol=protocol)
    return table.commit(
        {"commitInfo": {"inCommitTimestamp": 4711, "txnId": "t-1"}},
        add("a", size=10),
        add("b", size=32),
        {"txn": {"appId": "etl", "version": 7, "lastUpdated": 1}},
        {"domainMetadata": {"domain": "team", "configuration": "{}", "removed": False}},
    )


def test_ours_says_what_the_table_is():
    snapshot = table_with_everything().log.snapshot
    info = CommitInfo(in_commit_timestamp=4711, txn_id="t-1")
    written = write_checksum(snapshot.log.store, snapshot, [info])
    value = json.loads(snapshot.log.store.read(checksum_name(1)))
    assert {key: value[key] for key in value if key not in ("metadata", "protocol")} == {
        "txnId": "t-1",
        "tableSizeBytes": 42,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": 4711,
        "setTransactions": [{"appId": "etl", "version": 7, "lastUpdated": 1}],
        "domainMetadata": [{"domain": "team", "configuration": "{}", "removed": False}],
    }
    assert value["metadata"] == snapshot.metadata.to_value()
    assert value["protocol"] == snapshot.protocol.to_value()
    assert read_checksum(snapshot.log.store, 1) == written
    assert validate(snapshot, written) == []


def test_a_checksum_is_never_overwritten():
    snapshot = table_with_everything().log.snapshot
    snapshot.log.store.put(checksum_name(1), b"theirs")
    write_checksum(snapshot.log.store, snapshot)
    assert snapshot.log.store.read(checksum_name(1)) == b"theirs"


def test_long_lists_are_left_out():
    table = TableBuilder(MemoryStore()).create()
    table.commit(*({"txn": {"appId": f"app-{i}", "version": i}} for i in range(101)))
    written = write_checksum(table.store, table.log.snapshot)
    assert written.set_transactions is None
    assert "setTransactions" not in json.loads(table.store.read(checksum_name(1)))
    assert validate(table.log.snapshot, written) == []


def test_every_kind_of_difference_is_told():
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 40, "cardinality": 6}
    table = TableBuilder(MemoryStore()).create()
    table.commit(add("a", size=10, deletionVector=vector), add("b", size=9000))
    snapshot = table.log.snapshot
    right = {
        "tableSizeBytes": 9010,
        "numFiles": 2,
        "metadata": snapshot.metadata.to_value(),
        "protocol": snapshot.protocol.to_value(),
        "setTransactions": [],
        "domainMetadata": [],
        "fileSizeHistogram": {
            "sortedBinBoundaries": [0, 8192, 16384], "fileCounts": [1, 1, 0], "totalBytes": [10, 9000, 0]
        },
        "numDeletedRecordsOpt": 6,
        "numDeletionVectorsOpt": 1,
        "allFiles": [{"path": "a"}, {"path": "b"}],
    }  # fmt: skip
    wrong = {
        "tableSizeBytes": 9011,
        "numFiles": 3,
        "metadata": {**right["metadata"], "name": "other"},
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 3},
        "setTransactions": [{"appId": "x", "version": 1}],
        "domainMetadata": [{"domain": "x", "configuration": "", "removed": False}],
        "fileSizeHistogram": {**right["fileSizeHistogram"], "fileCounts": [2, 0, 0]},
        "numDeletedRecordsOpt": 7,
        "numDeletionVectorsOpt": 2,
        "allFiles": [{"path": "a"}],
    }

    def differences(value):
        table.put(checksum_name(1), json.dumps(value))
        checksum = read_checksum(table.store, 1)
        assert checksum is not None
        return validate(snapshot, checksum)

    assert differences(right) == []
    assert fields(differences(wrong)) == set(wrong)
    for field in wrong:
        assert fields(differences({**right, field: wrong[field]})) == {field}
    (only,) = differences({**right, "numFiles": 3})
    assert str(only) == "numFiles: the checksum says 3, the log gives 2"


def test_the_order_of_features_is_no_difference():
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors", "appendOnly"]}  # fmt: skip
    table = TableBuilder(MemoryStore()).create(protocol=protocol)
    written = write_checksum(table.store, table.log.snapshot)
    turned = written.protocol.replace(writer_features=("appendOnly", "deletionVectors"))
    table.put(checksum_name(0), json.dumps({**json.loads(written.to_json()), "protocol": turned.to_value()}))
    assert validate(table.log.snapshot, read_checksum(table.store, 0)) == []


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"tableSizeBytes": "1", "numFiles": 1}',
     '{"tableSizeBytes": 1, "numFiles": 1, "protocol": {}}'],
)  # fmt: skip
def test_what_is_no_checksum_is_ignored(content, caplog):
    store = MemoryStore()
    store.put(checksum_name(3), content.encode())
    with caplog.at_level(logging.WARNING, "deltanb"):
        assert read_checksum(store, 3) is None
    assert checksum_name(3) in caplog.text
    assert read_checksum(store, 4) is None


def test_a_table_copied_with_a_file_less_is_noticed(shared, tmp_path):
    root = tmp_path / "table"
    shutil.copytree(shared / "tables/delta_rs_data/cdf-table-with-cdc-and-dvs", root)
    commit = root / "_delta_log" / f"{1:020}.json"
    lines = [line for line in commit.read_text().splitlines() if '"add"' not in line]
    commit.write_text("\n".join(lines))
    log = DeltaLog(LocalStore(str(root)))
    found = validate(log.snapshot_at(1), read_checksum(log.store, 1))
    assert {"numFiles", "tableSizeBytes"} <= fields(found)


def test_removals_are_counted():
    table = table_with_everything().commit(remove("a"))
    written = write_checksum(table.store, table.log.snapshot)
    assert (written.num_files, written.table_size_bytes) == (1, 32)
