"""Version checksums: real ones validate, ours say what the table is, damage is told."""

import json
import logging
import random
import re
import shutil
import threading
import warnings

import pytest

import deltanb as dn
from deltanb.actions import CommitInfo, from_json
from deltanb.errors import ChecksumMismatchWarning, InvalidTable
from deltanb.log.checksum import checksum_name, read_checksum, read_tally, write_checksum
from deltanb.log.file_set import FileSet
from deltanb.log.snapshot import EMPTY
from deltanb.log.tally import SIZE_BINS
from deltanb.log.verification import compare, verify
from deltanb.store.local import LocalStore
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, ScriptedStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog

# Two fixtures whose authors edited the log after the fact: a checksum must notice.
EDITED = {"cdc_ict_table": {"inCommitTimestampOpt"}, "crc-full": {"numFiles", "tableSizeBytes"}}


pytestmark = pytest.mark.filterwarnings("ignore::deltanb.errors.ChecksumMismatchWarning")


def validate(snapshot, checksum):
    return [one for one in compare(snapshot, checksum) if not one.agrees]


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
        differences = fields(validate(log.snapshot_at(int(match[1])), checksum))
        expected = EDITED.get(table.name, set()) if differences else set()
        assert differences >= expected and bool(differences) == bool(expected), (path, differences)
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


def in_bins(*first):
    return [*first, *(0 for _ in SIZE_BINS[len(first):])]


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
        "fileSizeHistogram": {"sortedBinBoundaries": list(SIZE_BINS), "fileCounts": in_bins(2),
                              "totalBytes": in_bins(42)},
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
        "allFiles": [{"path": "a", "deletionVector": vector}, {"path": "b"}],
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
    differences = validate(log.snapshot_at(1), read_checksum(log.store, 1))
    assert {"numFiles", "tableSizeBytes"} <= fields(differences)


def test_removals_are_counted():
    table = table_with_everything().commit(remove("a"))
    written = write_checksum(table.store, table.log.snapshot)
    assert (written.num_files, written.table_size_bytes) == (1, 32)


# -- when a table is opened ---------------------------------------------------------------------


def lake(path, **settings):
    """Four versions of a table that its commands wrote, each with its checksum."""
    table = dn.create(str(path), {"id": [1, 2]}, **settings)
    for number in (3, 4, 5):
        table.append({"id": [number]})
    return path


def edited(path, version, change):
    """A commit whose lines were changed behind the table's back."""
    DeltaLog.clear_cache()
    commit = path / "_delta_log" / f"{version:020}.json"
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    commit.write_text("".join(json.dumps(line) + "\n" for line in change(lines)))
    return path


def without_adds(lines):
    return [line for line in lines if "add" not in line]


@pytest.mark.filterwarnings("default::deltanb.errors.ChecksumMismatchWarning")
@pytest.mark.parametrize("checkpoint", [None, 1, 2])
def test_a_commit_that_lost_its_add_is_told_when_the_table_is_opened(tmp_path, checkpoint, caplog):
    path = lake(tmp_path / "t")
    if checkpoint is not None:
        DeltaLog(LocalStore(path)).checkpoint(checkpoint)
    edited(path, 3, without_adds)
    with caplog.at_level(logging.WARNING, "deltanb"), pytest.warns(ChecksumMismatchWarning) as caught:
        table = dn.open(str(path))
    assert len(caught) == 1 and caught[0].filename == __file__
    text = str(caught[0].message)
    assert f"{3:020}.crc" in text and "numFiles: the checksum says 4, the log gives 3" in text
    assert "tableSizeBytes: the checksum says" in text and text in caplog.text
    assert table.to_arrow().num_rows == 4  # and not told again


@pytest.mark.filterwarnings("default::deltanb.errors.ChecksumMismatchWarning")
@pytest.mark.parametrize(
    ("field", "version", "change"),
    [
        ("metadata.name", 0, lambda a: a["metaData"].update(name="mine") if "metaData" in a else None),
        ("protocol.minWriterVersion", 0,
         lambda a: a["protocol"].update(minWriterVersion=3) if "protocol" in a else None),
        ("setTransactions.etl", 3, lambda a: a["txn"].update(version=8) if "txn" in a else None),
        ("tableSizeBytes", 2, lambda a: a["add"].update(size=1) if "add" in a else None),
    ],
)
def test_a_field_that_differs_is_named_with_both_values(tmp_path, field, version, change):
    path = lake(tmp_path / "t")
    dn.open(str(path)).append({"id": [6]}, txn=("etl", 7)) if field.startswith("set") else None
    edited(path, version if not field.startswith("set") else 4,
           lambda lines: [change(line) or line for line in lines])
    with pytest.warns(ChecksumMismatchWarning, match=field):
        dn.open(str(path))


@pytest.mark.filterwarnings("default::deltanb.errors.ChecksumMismatchWarning")
@pytest.mark.parametrize(("field", "stated", "replayed"), [
    ("txnId", "t-2", "t-1"), ("inCommitTimestampOpt", 6, 5), ("numDeletionVectorsOpt", 1, 2),
    ("numDeletedRecordsOpt", 0, 19),
])
def test_what_the_commits_say_without_more_reading_is_compared_when_a_table_is_opened(
    field, stated, replayed
):
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 40, "cardinality": 12}
    table = TableBuilder(MemoryStore()).create().commit(
        {"commitInfo": {"txnId": "t-0"}}, add("a", size=10, deletionVector=vector)).commit(
        {"commitInfo": {"inCommitTimestamp": 5, "txnId": "t-1"}},
        add("b", size=2, deletionVector={**vector, "pathOrInlineDv": "y", "cardinality": 7}))
    right = {
        "tableSizeBytes": 12, "numFiles": 2, "numMetadata": 1, "numProtocol": 1, "txnId": "t-1",
        "inCommitTimestampOpt": 5, "numDeletionVectorsOpt": 2, "numDeletedRecordsOpt": 19,
    }  # fmt: skip
    for value in (right, {**right, "txnId": None, "numDeletedRecordsOpt": None}):
        table.put(checksum_name(2), json.dumps(value))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert DeltaLog(table.store).update().version == 2
    table.put(checksum_name(2), json.dumps({**right, field: stated}))
    with pytest.warns(ChecksumMismatchWarning, match=f"{field}: the checksum says {stated}, .* gives "
                                                     f"{replayed}"):
        DeltaLog(table.store).update()


@pytest.mark.filterwarnings("error::deltanb.errors.ChecksumMismatchWarning")
def test_tables_that_commands_wrote_are_opened_without_a_word(tmp_path):
    properties = {"delta.enableDeletionVectors": "true", "delta.checkpointInterval": "3",
                  "delta.enableInCommitTimestamps": "true"}
    path = lake(tmp_path / "t", properties=properties)
    table = dn.open(str(path))
    table.delete("id = 2", engine="arrow")
    table.optimize()
    table.update({"id": "id + 10"}, "id = 3", engine="arrow")
    table.set_properties({"mine": "1"})
    table.analyze()
    for version in range(table.version + 1):
        DeltaLog.clear_cache()
        opened = dn.open(str(path), version)
        assert opened.to_arrow().num_rows >= 2 and opened.verify_checksum().ok, version


@pytest.mark.filterwarnings("default::deltanb.errors.ChecksumMismatchWarning")
@pytest.mark.parametrize("checkpoint", [None, 2])
def test_a_commit_does_not_carry_a_difference_on_in_silence(tmp_path, checkpoint):
    path = lake(tmp_path / "t")
    if checkpoint is not None:
        DeltaLog(LocalStore(path)).checkpoint(checkpoint)
    edited(path, 3, without_adds)
    with pytest.warns(ChecksumMismatchWarning, match=f"{3:020}.crc"):
        table = dn.open(str(path))
    with pytest.warns(ChecksumMismatchWarning, match=f"{4:020}.crc.*version 3"):
        table.append({"id": [6]})
    assert read_checksum(table.log.store, 4).num_files == 5  # as it would be, had nothing been lost
    DeltaLog.clear_cache()
    with pytest.warns(ChecksumMismatchWarning, match=f"{4:020}.crc.*checksum says 5, the log gives 4"):
        dn.open(str(path))


@pytest.mark.filterwarnings("error::deltanb.errors.ChecksumMismatchWarning")
def test_a_difference_ends_where_its_checksums_are_deleted(tmp_path):
    path = edited(lake(tmp_path / "t"), 3, without_adds)
    (path / "_delta_log" / f"{3:020}.crc").unlink()
    table = dn.open(str(path))
    table.append({"id": [6]})
    assert table.verify_checksum().ok and read_checksum(table.log.store, 4).num_files == 4


def test_a_checksum_is_read_once_when_a_table_is_opened_and_never_when_it_is_followed():
    table = table_with_everything()
    write_checksum(table.store, table.log.snapshot)
    store = ScriptedStore(table.store)
    log = DeltaLog(store)
    assert log.update().num_files == 2
    opened = store.calls["read"]
    without = ScriptedStore(MemoryStore())
    for name, (data, _) in table.store.files.items():
        if not name.endswith(".crc"):
            without.inner.put(name, data)
    DeltaLog(without).update()
    assert opened == without.calls["read"] + 1
    table.commit(add("c"))
    before = store.calls["read"]
    assert log.update().version == 2
    assert store.calls["read"] == before + 2  # the commit that came, and the one that did not


def beside(path, monkeypatch):
    """A table, another writer's handle on it, and how often the first one counts its files anew."""
    ours = DeltaTable(DeltaLog(LocalStore(path)))
    theirs = DeltaTable(DeltaLog(LocalStore(path)))
    ours.append({"id": [0]})  # what was opened is counted once
    theirs.append({"id": [0]})
    settled = []
    settle, here = FileSet._settle, threading.current_thread()

    def counted(files, order):
        if threading.current_thread() is here:  # and no checkpoint that is written in the background
            settled.append(files)
        return settle(files, order)

    monkeypatch.setattr(FileSet, "_settle", counted)
    return ours, theirs, settled


def test_counts_go_on_from_the_checksum_of_whoever_was_first(tmp_path, monkeypatch):
    ours, theirs, settled = beside(lake(tmp_path / "t"), monkeypatch)
    theirs.delete("id = 0")
    theirs.append({"id": [7, 8]})
    settled.clear()
    version = ours.append({"id": [9]}).version
    assert settled == [], "the other's checksum says what is there"
    tally = ours.log.snapshot.tally
    assert (tally.num_files, tally.size_in_bytes) == (ours.snapshot.num_files, ours.snapshot.size_in_bytes)
    written = read_checksum(ours.log.store, version)
    assert (written.num_files, written.table_size_bytes) == (tally.num_files, tally.size_in_bytes)
    assert ours.verify_checksum().ok


def forget(path, *versions):
    """As where whoever committed has not come to write the checksum yet."""
    for version in versions:
        (path / "_delta_log" / f"{version:020}.crc").unlink()


def test_where_others_have_no_checksum_yet_the_files_are_counted_once(tmp_path, monkeypatch):
    path = lake(tmp_path / "t")
    ours, theirs, settled = beside(path, monkeypatch)
    for _ in range(4):
        forget(path, theirs.append({"id": [7]}).version, theirs.append({"id": [8]}).version)
        settled.clear()
        version = ours.append({"id": [9]}).version
        assert settled == [], "what the others add is known not to be there"
        written = read_checksum(ours.log.store, version)
        assert (written.num_files, written.table_size_bytes) == (
            ours.snapshot.num_files, ours.snapshot.size_in_bytes)
        assert ours.verify_checksum().ok


@pytest.mark.parametrize("again", ["add", "remove"])
def test_a_file_of_others_that_may_be_there_already_is_counted(tmp_path, monkeypatch, again):
    path = lake(tmp_path / "t")
    ours, theirs, settled = beside(path, monkeypatch)
    forget(path, theirs.append({"id": [7]}).version)
    ours.append({"id": [9]})
    file = from_json((path / "_delta_log" / f"{ours.version:020}.json").read_text().splitlines()[1])
    theirs.log.update()
    txn = theirs.log.start_transaction()
    txn.commit([file.replace(tags={"seen": "yes"}) if again == "add" else file.remove()], "REORG")
    forget(path, txn.committed.version)
    settled.clear()
    version = ours.append({"id": [9]}).version
    assert settled
    assert read_checksum(ours.log.store, version).num_files == len(dn.open(str(path)).snapshot.files)
    assert ours.verify_checksum().ok


def test_tables_do_not_remember_each_others_files(tmp_path):
    tables = [dn.create(str(tmp_path / name), {"id": [1]}) for name in "ab"]
    assert EMPTY.files.tally.num_files == 0
    for table in tables:
        table.append({"id": [2]})
        table.delete()
        table.append({"id": [3]})
        assert table.snapshot._state.files.tally.num_files == 1
    assert EMPTY.files._named is None


def test_what_is_remembered_of_files_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr("deltanb.log.file_set.MAX_NAMED", 4)
    path = lake(tmp_path / "t")
    ours, theirs, _ = beside(path, monkeypatch)
    for _ in range(12):
        forget(path, theirs.append({"id": [7]}).version)
        ours.append({"id": [9]})
        assert len(ours.snapshot._state.files._named or ()) <= 2 * 4 + 1
        assert ours.verify_checksum().ok
    assert ours.snapshot._state.files._named is None


def test_every_field_that_spark_counts_is_counted_as_spark_does(shared):
    """Histograms and deletions of Delta Spark's own files, from the log that they stand beside."""
    histograms = deletions = 0
    for path in sorted((shared / "tables").rglob("_delta_log/*.crc")):
        match = re.fullmatch(r"(\d{20})\.crc", path.name)
        if match is None or path.parent.parent.name in EDITED:
            continue
        log, version = DeltaLog(LocalStore(str(path.parent.parent))), int(match[1])
        recorded, counted = read_tally(log.store, version), log.snapshot_at(version)._state.files.tally
        assert (recorded.num_files, recorded.size_in_bytes) == (counted.num_files,
                                                                counted.size_in_bytes), path
        if recorded.sizes is not None:
            assert_same(recorded.sizes, counted.sizes)
            histograms += 1
        if recorded.deletions is not None:
            assert_same(recorded.deletions, counted.deletions)
            deletions += 1
    assert histograms > 60 and deletions > 60


def assert_same(one, other):
    assert [list(v) if isinstance(v, list | tuple) else v for v in vars(one).values()] == [
        list(v) if isinstance(v, list | tuple) else v for v in vars(other).values()]


@pytest.mark.filterwarnings("error::deltanb.errors.ChecksumMismatchWarning")
@pytest.mark.parametrize("seed", range(4))
def test_what_is_carried_on_is_what_a_count_gives(tmp_path, seed):
    """Two writers by turns, and checkpoints: the checksum of every version is right in all of it."""
    chance = random.Random(seed)
    path = tmp_path / "t"
    dn.create(str(path), {"id": list(range(40))}, properties={"delta.enableDeletionVectors": True})
    writers = [DeltaTable(DeltaLog(LocalStore(path))) for _ in range(2)]
    for number in range(14):
        table = chance.choice(writers)
        some = sorted(chance.sample(range(60), 5))
        match chance.randrange(6):
            case 0 | 1:
                table.append({"id": some * chance.choice([1, 400])})
            case 2:
                table.delete(f"id IN ({some[0]}, {some[1]})")
            case 3:
                table.update({"id": "id + 1"}, f"id = {some[2]}")
            case 4:
                table.log.checkpoint()
            case _:
                table.set_properties({"seen": str(number)})
        DeltaLog.clear_cache()
        read = dn.open(str(path))
        assert read.verify_checksum().ok, (number, read.verify_checksum().differences)
        assert {"fileSizeHistogram", "numDeletedRecordsOpt", "numDeletionVectorsOpt",
                "deletedRecordCountsHistogramOpt"} <= fields(read.verify_checksum().compared)


def test_a_histogram_that_cannot_be_is_not_carried_on(tmp_path, monkeypatch):
    ours, theirs, _ = beside(lake(tmp_path / "t"), monkeypatch)
    version = theirs.delete("id = 3").version
    name = tmp_path / "t" / "_delta_log" / f"{version:020}.crc"
    value = json.loads(name.read_text())
    value["fileSizeHistogram"]["fileCounts"][0] += 1
    name.write_text(json.dumps(value))
    written = read_checksum(ours.log.store, ours.append({"id": [9]}).version)
    assert written.histogram is None and written.num_files == ours.snapshot.num_files


@pytest.mark.parametrize("change", [
    lambda value: value["fileSizeHistogram"]["sortedBinBoundaries"].__setitem__(1, 4096),
    lambda value: value["fileSizeHistogram"]["totalBytes"].pop(),
    lambda value: value.pop("fileSizeHistogram"),
])
def test_other_bins_and_no_bins_are_not_carried_on(change):
    store = MemoryStore()
    written = write_checksum(store, table_with_everything().log.snapshot)
    assert read_tally(store, 1).sizes.counts[0] == 2
    value = json.loads(written.to_json())
    change(value)
    store.put(checksum_name(1), json.dumps(value).encode())
    assert read_tally(store, 1).sizes is None and read_tally(store, 1).num_files == 2


def test_a_difference_in_a_histogram_is_found_when_all_is_compared(tmp_path):
    path = lake(tmp_path / "t", properties={"delta.enableDeletionVectors": True})
    name = path / "_delta_log" / f"{3:020}.crc"
    right = json.loads(name.read_text())
    for field, change in (
            ("fileSizeHistogram", lambda value: value["totalBytes"].__setitem__(0, 1)),
            ("deletedRecordCountsHistogramOpt", lambda v: v["deletedRecordCounts"].__setitem__(1, 1)),):
        value = json.loads(json.dumps(right))
        change(value[field])
        name.write_text(json.dumps(value))
        assert fields(dn.open(str(path)).verify_checksum().differences) == {field}


@pytest.mark.filterwarnings("default::deltanb.errors.ChecksumMismatchWarning")
def test_beside_a_difference_nothing_is_said_of_how_files_spread(tmp_path):
    path = edited(lake(tmp_path / "t"), 3, without_adds)
    with pytest.warns(ChecksumMismatchWarning):
        table = dn.open(str(path))
    with pytest.warns(ChecksumMismatchWarning):
        table.append({"id": [6]})
    assert read_checksum(table.log.store, 4).histogram is None


def test_a_new_table_has_no_checksum_to_go_on_from(tmp_path):
    store = ScriptedStore(MemoryStore())
    asked, read = [], store.read
    store.read = lambda name: (asked.append(name), read(name))[1]
    dn.create(store, {"id": [1]})
    assert [name for name in asked if name.endswith(".crc")] == []


@pytest.mark.parametrize("damage", [
    lambda path: path.unlink(),
    lambda path: path.write_text("{"),
    lambda path: path.write_text('{"numFiles":"many","tableSizeBytes":3}'),
    lambda path: path.write_text('{"numFiles":-1,"tableSizeBytes":3}'),
])
def test_without_a_checksum_that_can_be_read_the_files_are_counted(tmp_path, monkeypatch, damage):
    path = lake(tmp_path / "t")
    ours, theirs, settled = beside(path, monkeypatch)
    last = theirs.delete("id = 3").version
    damage(path / "_delta_log" / f"{last:020}.crc")
    settled.clear()
    ours.append({"id": [9]})
    assert settled and ours.verify_checksum().ok


def test_a_commit_that_takes_files_away_is_counted(tmp_path, monkeypatch):
    ours, theirs, settled = beside(lake(tmp_path / "t"), monkeypatch)
    theirs.append({"id": [7]})
    ours.delete("id = 7")
    assert ours.verify_checksum().ok
    theirs.append({"id": [8]})
    ours.append({"id": [9]})
    assert ours.verify_checksum().ok and settled


def test_a_commit_behind_others_has_its_own_checksum(tmp_path):
    """The snapshot after a commit is that of its version, though later ones may be there already."""
    path = lake(tmp_path / "t")
    ours, theirs = (DeltaTable(DeltaLog(LocalStore(path))) for _ in range(2))
    txn = ours.log.start_transaction()
    theirs.append({"id": [7]})
    theirs.append({"id": [8]})
    version = txn.commit([], "MANUAL UPDATE")
    assert read_checksum(ours.log.store, version).txn_id == txn.txn_id


# -- everything ---------------------------------------------------------------------------------


def test_verification_says_which_fields_differ_and_raises_only_when_asked_to(tmp_path):
    path = lake(tmp_path / "t")
    table = dn.open(str(path))
    verification = table.verify_checksum()
    assert verification.ok and not verification.differences and verification.raise_if_wrong() is None
    assert {"numFiles", "tableSizeBytes", "metadata", "protocol", "txnId"} <= fields(verification.compared)
    edited(path, 3, without_adds)
    verification = dn.open(str(path)).verify_checksum()
    assert not verification.ok and fields(verification.differences) == {
        "numFiles", "tableSizeBytes", "fileSizeHistogram"}
    with pytest.raises(InvalidTable, match="numFiles: the checksum says 4, the log gives 3") as raised:
        verification.raise_if_wrong()
    assert raised.value.fields == ("tableSizeBytes", "numFiles", "fileSizeHistogram")
    assert raised.value.version == 3


def test_what_cannot_be_verified_is_not_ok(tmp_path):
    path = lake(tmp_path / "t")
    name = path / "_delta_log" / f"{3:020}.crc"
    name.write_text("{")
    damaged = dn.open(str(path)).verify_checksum()
    assert not damaged.ok and damaged.problem.endswith("is damaged")
    name.unlink()
    absent = dn.open(str(path)).verify_checksum()
    assert not absent.ok and absent.problem.startswith("there is no ")
    with pytest.raises(InvalidTable, match="there is no"):
        absent.raise_if_wrong()


def test_the_commit_the_files_and_their_deletions_are_verified_too():
    vector = {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 40, "cardinality": 12}
    table = TableBuilder(MemoryStore()).create().commit(
        {"commitInfo": {"txnId": "t-1"}}, add("a", size=10, deletionVector=vector), add("b", size=2))
    right = {
        "tableSizeBytes": 12, "numFiles": 2, "numMetadata": 1, "numProtocol": 1, "txnId": "t-1",
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [1, 0, 1, 0, 0, 0, 0, 0, 0, 0]},
        "allFiles": [add("b", size=2)["add"], add("a", size=10, deletionVector=vector)["add"]],
    }  # fmt: skip
    wrong = {
        "numMetadata": 2, "numProtocol": 0, "txnId": "t-2",
        "deletedRecordCountsHistogramOpt": {"deletedRecordCounts": [2, 0, 0, 0, 0, 0, 0, 0, 0, 0]},
        "allFiles": [add("b", size=3)["add"], add("a", size=10)["add"]],
    }  # fmt: skip
    table.put(checksum_name(1), json.dumps(right))
    assert verify(table.log.snapshot).ok
    for field, value in wrong.items():
        table.put(checksum_name(1), json.dumps({**right, field: value}))
        assert fields(verify(table.log.snapshot).differences) == {field}
    assert "b (size 3)" in str(verify(table.log.snapshot).differences[0])


def test_real_tables_verify_as_their_authors_left_them(shared):
    seen = 0
    for path in sorted((shared / "tables").rglob("_delta_log")):
        if not any(path.glob("*.crc")):
            continue
        snapshot = DeltaLog(LocalStore(str(path.parent))).snapshot
        verification = verify(snapshot)
        if verification.problem is None:
            assert verification.ok or path.parent.name in EDITED, (path, verification)
            seen += 1
    assert seen > 10
