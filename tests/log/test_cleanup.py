"""Log clean-up: what goes, what stays, and that every kept version still opens."""

import logging
import os

import pytest

from deltanb.errors import UnsupportedProtocol, VersionNotFound
from deltanb.log.checkpoint.names import SIDECAR_FOLDER, classic_name
from deltanb.log.checksum import checksum_name
from deltanb.log.cleanup import clean_up
from deltanb.log.commits import commit_name
from deltanb.log.compaction import compaction_name
from deltanb.options import set_options
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog

DAY = 86_400_000
NOON = DAY // 2
RETENTION = {"delta.logRetentionDuration": "interval 3 days"}

V2_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint"],
    "writerFeatures": ["v2Checkpoint"],
}


def at(day, offset=NOON):
    return set_options(clock=lambda: day * DAY + offset)


def daily(versions=10, checkpoints=(3, 6), properties=RETENTION, protocol=None):
    """Version v is committed at noon of day v, with a checksum; checkpoints at some versions."""
    store = MemoryStore()
    with at(0):
        table = TableBuilder(store).create(properties=properties, protocol=protocol)
        store.put(checksum_name(0), b"{}")
    for version in range(1, versions):
        with at(version):
            table.commit(add(f"f{version}"))
            store.put(checksum_name(version), b"{}")
            if version in checkpoints:
                DeltaLog(store).checkpoint()
    return table


def names(table):
    return set(table.store.list_names("_delta_log/"))


def readable(table, upto=9):
    log = DeltaLog(table.store)
    versions = []
    for version in range(upto + 1):
        try:
            if log.snapshot_at(version).num_files == version:
                versions.append(version)
        except VersionNotFound:
            continue
    return versions


def test_everything_below_the_base_goes_and_the_rest_stays():
    """Day 9, three days kept: midnight of day 6; commit 5 is retained, and builds on checkpoint 3."""
    table = daily()
    before = names(table)
    with at(9):
        deleted = table.log.clean_up()
    expected = {f(v) for v in range(3) for f in (commit_name, checksum_name)}
    assert set(deleted) == before - names(table) == expected
    assert readable(table) == [3, 4, 5, 6, 7, 8, 9]
    assert commit_name(3) in names(table)


def test_a_commit_exactly_at_midnight_is_retained_and_ends_the_search():
    table = daily(checkpoints=(3, 6))
    table.store.set_modification_time(commit_name(6), 6 * DAY)
    with at(9):
        clean_up(table.log)
    assert min(readable(table)) == 6
    assert commit_name(5) not in names(table) and classic_name(3) not in names(table)


def test_one_day_deletes_the_same_files_whenever_it_runs():
    first, last = daily(), daily()
    with at(9, 0):
        clean_up(first.log)
    with at(9, DAY - 1):
        clean_up(last.log)
    assert names(first) == names(last)
    with at(9, DAY - 1):
        assert clean_up(last.log) == []


def test_commits_go_before_the_checkpoints_that_cover_them():
    table = daily(checkpoints=(2, 5, 6))
    with at(10):
        deleted = clean_up(table.log)
    kinds = ["checkpoint" if "checkpoint" in name else "other" for name in deleted]
    assert kinds == sorted(kinds, reverse=True) and "checkpoint" in kinds
    commits = [name for name in deleted if name.endswith(".json")]
    assert deleted[: len(commits)] == sorted(commits)


def test_without_a_checkpoint_nothing_goes():
    table = daily(checkpoints=(7,))
    with at(9):
        assert clean_up(table.log) == []
    assert readable(table) == list(range(10))


def test_a_young_log_is_left_alone():
    table = daily(properties={})
    with at(20):
        assert clean_up(table.log) == []


def test_it_can_be_switched_off():
    table = daily(properties={**RETENTION, "delta.enableExpiredLogCleanup": "false"})
    with at(100):
        assert clean_up(table.log) == []


def test_a_checkpoint_that_cannot_be_read_is_no_base(caplog):
    table = daily(checkpoints=(2, 4))
    table.put(classic_name(4), b"not Parquet")
    with at(9), caplog.at_level(logging.WARNING, "deltanb"):
        deleted = clean_up(table.log)
    assert classic_name(4) in caplog.text
    assert {commit_name(0), commit_name(1)} <= set(deleted)
    assert commit_name(2) in names(table)
    assert readable(table) == [2, 3, 4, 5, 6, 7, 8, 9]


def test_parts_of_checkpoints_that_never_became_whole_go_too():
    table = daily()
    torn = "_delta_log/00000000000000000002.checkpoint.0000000001.0000000002.parquet"
    young = "_delta_log/00000000000000000008.checkpoint.0000000001.0000000002.parquet"
    table.put(torn, b"x").put(young, b"x")
    with at(9):
        deleted = clean_up(table.log)
    assert torn in deleted and young not in deleted


def test_compactions_that_start_at_or_below_the_base():
    table = daily()
    for start, end in ((0, 2), (2, 4), (3, 5), (4, 6)):
        table.put(compaction_name(start, end), b"{}")
    with at(9):
        deleted = clean_up(table.log)
    left = {name for name in names(table) if name.endswith("compacted.json")}
    assert left == {compaction_name(4, 6)}
    assert len([name for name in deleted if name.endswith("compacted.json")]) == 3


def test_times_that_go_back_do_not_expire_what_follows():
    """A commit counts as younger than the one before it, as in time travel."""
    table = daily(checkpoints=(6,))
    table.store.set_modification_time(commit_name(5), 8 * DAY)
    table.store.set_modification_time(commit_name(6), 1 * DAY)
    with at(9):
        assert clean_up(table.log) == []


def test_other_files_are_never_touched():
    table = daily()
    others = ["_delta_log/notes.txt", "_delta_log/.tmp-1", "_delta_log/00000000000000000001.json.tmp",
            "_delta_log/_last_checkpoint"]  # fmt: skip
    for name in others[:3]:
        table.put(name, b"x")
    with at(9):
        clean_up(table.log)
    assert set(others) <= names(table)


@pytest.mark.parametrize(("boundary", "clean"), [(0, True), (3, True), (4, False), (6, False)])
def test_protected_checkpoints_go_all_at_once_or_not_at_all(boundary, clean):
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["checkpointProtection"]}
    properties = {**RETENTION, "delta.requireCheckpointProtectionBeforeVersion": str(boundary)}
    table = daily(properties=properties, protocol=protocol)
    with at(9):
        assert bool(clean_up(table.log)) is clean


def test_the_property_means_nothing_without_the_feature():
    table = daily(properties={**RETENTION, "delta.requireCheckpointProtectionBeforeVersion": "6"})
    with at(9):
        assert clean_up(table.log)


def test_unknown_writer_features_forbid_it():
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTomorrow"]}
    table = TableBuilder(MemoryStore()).create(protocol=protocol, properties=RETENTION)
    with at(30), pytest.raises(UnsupportedProtocol, match="fromTomorrow"):
        clean_up(table.log)


def test_a_place_without_a_table():
    assert clean_up(DeltaLog(MemoryStore())) == []


def test_what_killed_writers_leave_goes_after_a_day():
    table = daily(properties={})
    left = "_delta_log/.00000000000000000005.json.0123456789abcdef.tmp"
    now = "_delta_log/.00000000000000000009.json.0123456789abcdef.tmp"
    with at(8):
        table.put(left, b"{")
    with at(9):
        table.put(now, b"{")
        assert clean_up(table.log) == []
    with at(10, 0):
        assert clean_up(table.log) == [left]


# -- sidecars ----------------------------------------------------------------------------------


def with_sidecars():
    return daily(properties={**RETENTION, "delta.checkpointPolicy": "v2"}, protocol=V2_PROTOCOL)


def sidecars(table):
    return set(table.store.list_names(SIDECAR_FOLDER))


def test_sidecars_that_no_kept_checkpoint_links_go_after_a_day():
    table = with_sidecars()
    with at(7):
        table.put(SIDECAR_FOLDER + "left-over.parquet", b"x")
    with at(8, 0):
        table.put(SIDECAR_FOLDER + "in-progress.parquet", b"x")
    linked = sidecars(table)
    with at(10):
        deleted = clean_up(table.log)
    gone = {name for name in deleted if name.startswith(SIDECAR_FOLDER)}
    assert SIDECAR_FOLDER + "left-over.parquet" in gone
    assert SIDECAR_FOLDER + "in-progress.parquet" in gone
    # Checkpoint 6 became the base; the one sidecar of checkpoint 3 went with it.
    assert len(gone) == 3 and sidecars(table) == linked - gone and len(sidecars(table)) == 1
    assert readable(table) == [6, 7, 8, 9]


def test_a_sidecar_of_a_checkpoint_in_progress_stays():
    table = with_sidecars()
    with at(9, 1):
        table.put(SIDECAR_FOLDER + "in-progress.parquet", b"x")
    with at(10):
        clean_up(table.log)
    assert SIDECAR_FOLDER + "in-progress.parquet" in sidecars(table)


def test_all_sidecars_stay_while_a_kept_checkpoint_cannot_be_read(caplog):
    table = with_sidecars()
    with at(7):
        table.put(SIDECAR_FOLDER + "left-over.parquet", b"x")
    table.put("_delta_log/00000000000000000009.checkpoint.abcd.json", b"{")
    before = sidecars(table)
    with at(10), caplog.at_level(logging.WARNING, "deltanb"):
        clean_up(table.log)
    assert sidecars(table) == before
    assert "All sidecars are kept" in caplog.text




# -- in a peer's hands -------------------------------------------------------------------------


def test_a_peer_opens_what_is_left(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    pa = pytest.importorskip("pyarrow")
    root = str(tmp_path / "table")
    for i in range(8):
        deltalake.write_deltalake(root, pa.table({"id": [i]}), mode="append", configuration=RETENTION)
    log = DeltaLog(LocalStore(root))
    log.checkpoint(3)
    for version in range(8):
        seconds = (version + 0.5) * 86_400
        os.utime(f"{root}/{commit_name(version)}", (seconds, seconds))
    with at(8):
        deleted = log.clean_up()
    assert deleted == [commit_name(v) for v in range(3)]
    table = deltalake.DeltaTable(root)
    assert table.version() == 7 and len(table.file_uris()) == 8
    table.load_as_version(3)
    assert len(table.file_uris()) == 4
