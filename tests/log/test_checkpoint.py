"""Checkpoints read and written: real ones, damaged ones, and ours in the hands of a peer."""

import json
import logging
import os
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.actions import decode_path, encode_path
from deltanb.errors import InvalidTable, UnsupportedProtocol
from deltanb.log.checkpoint.hint import (
    LAST_CHECKPOINT,
    LastCheckpoint,
    canonical,
    checksum,
    parse_last_checkpoint,
    read_last_checkpoint,
    write_last_checkpoint,
)
from deltanb.log.checkpoint.names import SIDECAR_FOLDER, classic_name, complete_checkpoints
from deltanb.log.checkpoint.read import open_checkpoint
from deltanb.log.replay import CODED_SCHEMA, FILES_SCHEMA, TOMBSTONES_SCHEMA
from deltanb.options import set_options
from deltanb.schema.properties import DAY_MS
from deltanb.store.local import LocalStore
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from deltanb.transaction.delta_log import DeltaLog
from tests.examples import few
from tests.helpers import lines_of

V2_PROTOCOL = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint", "deletionVectors"],
    "writerFeatures": ["v2Checkpoint", "deletionVectors", "domainMetadata", "rowTracking"],
}


def reopened(builder):
    """The table as another process sees it."""
    return DeltaLog(builder.store).snapshot


def sample(store=None, **properties):
    """A table with one action of every kind that a checkpoint keeps; not all columns have values."""
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4,
              "sizeInBytes": 40, "cardinality": 6}  # fmt: skip
    bounds = {"minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    stats = json.dumps({"numRecords": 10, **bounds})
    return (
        TableBuilder(store or MemoryStore())
        .create("id long, part string", partition_by=["part"], properties=properties, protocol=V2_PROTOCOL)
        .commit(
            add("part=1/a", {"part": "1"}, size=11, modificationTime=1111, stats=stats, tags={"k": "v"}),
            add("part=2/b", {"part": None}, size=22, modificationTime=2222, deletionVector=vector,
                baseRowId=10, defaultRowCommitVersion=1, clusteringProvider="liquid"),
            add("part=3/c", {"part": "3"}, size=33, modificationTime=3333),
        )
        .commit(
            remove("part=3/c", deletionTimestamp=5 * DAY_MS, partitionValues={"part": "3"}, size=33,
                   extendedFileMetadata=True),
            {"txn": {"appId": "etl", "version": 7, "lastUpdated": 99}},
            {"domainMetadata": {"domain": "team", "configuration": "{}", "removed": False}},
            {"domainMetadata": {"domain": "gone", "configuration": "", "removed": True}},
        )
    )  # fmt: skip


def state_of(snapshot):
    """Everything a snapshot says, comparable: rows sorted by path."""
    return {
        "files": snapshot.files.sort_by("path").to_pylist(),
        "tombstones": snapshot.tombstones.sort_by("path").to_pylist(),
        "txns": dict(snapshot.txns),
        "domains": snapshot.domain_metadata,
        "protocol": snapshot.protocol,
        "metadata": snapshot.metadata,
    }


def as_checkpointed(state):
    """A checkpoint is a state: none of its rows is a change."""
    rows = {
        name: [{**row, "data_change": False} for row in state[name]]
        for name in ("files", "tombstones")
    }
    return {**state, **rows}


def only_checkpoint_left(builder):
    builder.delete(*range(builder.version + 1))
    return builder


# -- names -------------------------------------------------------------------------------------


def test_whole_checkpoints_newest_first_and_the_better_kind_first():
    names = [
        "_delta_log/00000000000000000003.checkpoint.parquet",
        "_delta_log/00000000000000000007.checkpoint.0000000001.0000000002.parquet",
        "_delta_log/00000000000000000005.checkpoint.0000000002.0000000002.parquet",
        "_delta_log/00000000000000000005.checkpoint.0000000001.0000000002.parquet",
        "_delta_log/00000000000000000005.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json",
        "_delta_log/00000000000000000009.checkpoint.parquet",
        "_delta_log/00000000000000000009.checkpoint.json",
        "_delta_log/00000000000000000009.json",
        "_delta_log/_last_checkpoint",
    ]
    checkpoints = complete_checkpoints(names, 8)
    assert [(c.version, c.kind, len(c.names)) for c in checkpoints] == [
        (5, "v2", 1),
        (5, "multi-part", 2),
        (3, "classic", 1),
    ]
    assert checkpoints[1].names == (names[3], names[2])
    assert complete_checkpoints(names)[0].version == 9


# -- real tables -------------------------------------------------------------------------------


def checkpoints_in(folder):
    for log_folder in sorted(folder.rglob("_delta_log")):
        store = LocalStore(str(log_folder.parent))
        for checkpoint in complete_checkpoints(store.list_names("_delta_log/")):
            yield store, checkpoint


def test_every_real_checkpoint_opens_with_whole_and_pruned_columns(shared):
    seen = 0
    for store, checkpoint in checkpoints_in(shared / "tables"):
        parts = open_checkpoint(store, checkpoint.names)
        files = parts.read_adds(FILES_SCHEMA.names)
        files.validate(full=True)
        assert files.schema.equals(FILES_SCHEMA), store.root
        assert parts.read_removes().schema.equals(TOMBSTONES_SCHEMA), store.root
        assert parts.num_adds == files.num_rows
        assert parts.read_adds(["size"]).column("size").equals(files.column("size"))
        assert parts.protocol is not None and parts.metadata is not None
        assert files.column("path").null_count == files.column("partition_values").null_count == 0
        seen += 1
    assert seen > 25


@pytest.mark.parametrize(
    "table",
    [
        "golden/multi-part-checkpoint",
        "golden/v2-checkpoint-json",
        "golden/v2-checkpoint-parquet",
        "golden/only-checkpoint-files",
        "golden/corrupted-last-checkpoint",
        "kernel_rs/v2-checkpoints-json-with-last-checkpoint",
        "kernel_rs/v1-multi-part-partitioned-struct-stats-only",
        "kernel_rs/app-txn-checkpoint",
        "delta_resources/kernel/kernel-pagination-multi-part-checkpoints",
        "delta_rs_data/delta-checkpoint-stats-optional",
        "delta_rs_data/table_with_deletion_logs",
    ],
)
def test_the_state_of_real_tables_with_checkpoints(shared, table):
    expected = json.loads((shared / "tables/expected" / f"{table.replace('/', '__')}.json").read_text())
    snapshot = DeltaLog(LocalStore(str(shared / "tables" / table))).snapshot
    state = expected["log_state"]
    assert snapshot.version == expected["version"]
    files = sorted(decode_path(path) for path in snapshot.files.column("path").to_pylist())
    assert files == sorted(state["active_files"])
    assert snapshot.size_in_bytes == state["total_bytes"]
    assert snapshot.set_transactions == state["set_transactions"]


def test_statistics_kept_only_as_columns_come_back_as_json(shared):
    root = shared / "tables/kernel_rs/v1-multi-part-partitioned-struct-stats-only"
    store = LocalStore(str(root))
    (checkpoint,) = complete_checkpoints(store.list_names("_delta_log/"))
    parts = open_checkpoint(store, checkpoint.names)
    rebuilt = sorted(parts.read_adds(["stats"]).column(0).to_pylist())
    assert json.loads(rebuilt[0]) == {
        "numRecords": 1,
        "minValues": {"id": 1, "value": "value_1"},
        "maxValues": {"id": 1, "value": "value_1"},
        "nullCount": {"id": 0, "value": 0},
        "tightBounds": True,
    }
    assert parts.has_stats_parsed
    pruned = parts.read_adds(["path", "stats_parsed.minValues.id", "stats_parsed.numRecords"])
    assert parts.read_adds(["path", "size", "path"]).column_names == ["path", "size"]
    assert pruned.column("stats_parsed").type == pa.struct(
        {"numRecords": pa.int64(), "minValues": pa.struct({"id": pa.int64()})}
    )
    rows = pruned.column("stats_parsed").to_pylist()
    assert sorted(row["minValues"]["id"] for row in rows) == [1, 2, 3, 4, 5]


def test_asking_for_typed_statistics_that_are_not_there(shared):
    store = LocalStore(str(shared / "tables/golden/multi-part-checkpoint"))
    (checkpoint,) = complete_checkpoints(store.list_names("_delta_log/"))
    parts = open_checkpoint(store, checkpoint.names)
    assert not parts.has_stats_parsed
    assert parts.read_adds(["path", "stats_parsed"]).column_names == ["path"]


# -- damage ------------------------------------------------------------------------------------


def test_a_missing_part_is_named_and_an_older_checkpoint_serves():
    table = sample()
    expected = state_of(table.log.snapshot)
    DeltaLog(table.store).checkpoint(1)
    DeltaLog(table.store).checkpoint(2)
    table.store.put(classic_name(2), b"PAR1 but no more")
    with pytest.raises(InvalidTable, match=r"0002\.checkpoint\.parquet of .* cannot be read") as caught:
        open_checkpoint(table.store, [classic_name(2)])
    assert caught.value.file == classic_name(2)
    table.delete(0)
    snapshot = reopened(table)
    assert snapshot.checkpoint_version == 1
    assert as_checkpointed(state_of(snapshot)) == as_checkpointed(expected)
    with pytest.raises(InvalidTable, match="is missing"):
        open_checkpoint(table.store, [classic_name(9)])


def test_a_missing_sidecar_is_named():
    table = sample(**{"delta.checkpointPolicy": "v2"})
    table.log.checkpoint()
    (sidecar,) = table.store.list_names(SIDECAR_FOLDER)
    table.store.delete(sidecar)
    (checkpoint, *_) = complete_checkpoints(table.store.list_names("_delta_log/"))
    with pytest.raises(InvalidTable, match="is missing") as caught:
        open_checkpoint(table.store, checkpoint.names)
    assert caught.value.file == sidecar
    assert reopened(table).num_files == 2  # the commits are still there
    table.delete(0)
    with pytest.raises(InvalidTable, match="is missing"):
        reopened(table)


def test_damage_in_a_page_is_found_at_reading():
    table = sample()
    table.log.checkpoint()
    data = bytearray(table.store.read(classic_name(2)))
    footer = pq.ParquetFile(pa.BufferReader(data)).metadata
    group = footer.row_group(footer.num_row_groups - 1)
    chunks = [group.column(i) for i in range(group.num_columns)]
    (chunk,) = [chunk for chunk in chunks if chunk.path_in_schema == "add.path"]
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    data[start : start + 40] = b"\xff" * 40
    table.store.put(classic_name(2), bytes(data))
    parts = open_checkpoint(table.store, [classic_name(2)])
    with pytest.raises(InvalidTable, match="cannot be read") as caught:
        parts.read_adds(["path"])
    assert caught.value.file == classic_name(2)


@pytest.mark.parametrize(
    ("line", "reason"),
    [('{"sidecar":{"path":5}}', "sidecar"), ('{"sidecar":', "line 2"), ("\xff", "line 2")],
)
def test_a_json_top_level_names_the_line(line, reason):
    store = MemoryStore()
    name = "_delta_log/00000000000000000002.checkpoint.aaaa.json"
    store.put(name, b'{"checkpointMetadata":{"version":2}}\n' + line.encode("latin-1"))
    with pytest.raises(InvalidTable, match=reason) as caught:
        open_checkpoint(store, [name])
    assert (caught.value.file, caught.value.line) == (name, 2)


def test_a_small_row_of_the_wrong_kind_is_named():
    store = MemoryStore()
    kind = pa.struct({"appId": pa.string(), "version": pa.string()})
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"txn": pa.array([{"appId": "a", "version": "one"}], kind)}), sink)
    store.put(classic_name(0), sink.getvalue().to_pybytes())
    with pytest.raises(InvalidTable, match=r"txn row.*version.*integer"):
        open_checkpoint(store, [classic_name(0)])


@pytest.mark.parametrize(
    ("rows", "reason"),
    [({"add": [{"size": 1}]}, "add has no path"), ({"add": [{"path": "a", "size": "big"}]}, "big")],
)
def test_columns_that_are_not_the_protocols(rows, reason):
    with pytest.raises(InvalidTable, match=reason) as caught:
        put_checkpoint(rows).read_adds(["path", "size"])
    assert caught.value.file == classic_name(0) and caught.value.path.startswith("memory:")


# -- reading shapes that other writers leave ---------------------------------------------------


def put_checkpoint(rows, **options):
    """A classic checkpoint of {column: [struct or None, …]} with the types Arrow infers."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(rows), sink, **options)
    store = MemoryStore()
    store.put(classic_name(0), sink.getvalue().to_pybytes())
    return open_checkpoint(store, [classic_name(0)])


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_partition_values_are_dictionaries_however_their_pages_are_encoded(encoding):
    kind = pa.struct({"path": pa.string(), "partitionValues": pa.map_(pa.string(), pa.string())})
    values = [[("p", "a")], [], [("p", None)], [("p", "a")]]
    files = [{"path": f"{n}.parquet", "partitionValues": value} for n, value in enumerate(values)]
    leaf = "add.partitionValues.key_value."
    coded = put_checkpoint({"add": pa.array(files, kind)}, use_dictionary=False, column_encoding={
        leaf + "key": encoding, leaf + "value": encoding, "add.path": "PLAIN"}).read_partition_values()
    assert coded.type == CODED_SCHEMA.field("partition_values").type
    assert coded.to_pylist() == values


def test_columns_that_a_checkpoint_lacks_are_null_and_maps_empty():
    parts = put_checkpoint({"add": [None, {"path": "a", "size": 1}, None, {"path": "b", "size": 2}]})
    table = parts.read_adds(FILES_SCHEMA.names)
    assert table.schema.equals(FILES_SCHEMA)
    assert table.column("path").to_pylist() == ["a", "b"]
    assert table.column("partition_values").to_pylist() == [[], []]
    assert table.column("deletion_vector").null_count == table.column("base_row_id").null_count == 2
    assert parts.read_removes().num_rows == 0


@pytest.mark.parametrize("gaps", [1, 3, 500])
def test_rows_of_files_scattered_among_others(gaps):
    """Few runs are sliced, many are filtered; the rows are the same."""
    rows = [
        {"path": f"f{i}", "size": i} if i % (1000 // gaps) else None for i in range(1000)
    ]
    parts = put_checkpoint({"add": rows}, row_group_size=300)
    expected = [row["path"] for row in rows if row]
    assert parts.read_adds(["path"]).column(0).to_pylist() == expected
    assert parts.num_adds == len(expected)


@pytest.mark.parametrize("rows_per_group", [1, 10])
def test_times_that_old_writers_stored_in_nanoseconds(rows_per_group):
    """INT96 is read as microseconds, whatever the number of row groups: year 9999 fits."""
    at = pa.array([datetime(9999, 12, 31), datetime(2024, 1, 1)], pa.timestamp("us"))
    stats = pa.StructArray.from_arrays(
        [pa.StructArray.from_arrays([at], names=["at"])], names=["maxValues"]
    )
    files = pa.StructArray.from_arrays([pa.array(["a", "b"]), stats], names=["path", "stats_parsed"])
    parts = put_checkpoint(
        {"add": files}, use_deprecated_int96_timestamps=True, row_group_size=rows_per_group
    )
    adds = parts.read_adds(["stats_parsed.maxValues.at"]).column(0).to_pylist()
    assert [row["maxValues"]["at"].year for row in adds] == [9999, 2024]


@pytest.mark.parametrize("rows_per_group", [2, 1000])
def test_columns_too_large_for_one_piece_are_read_in_batches(monkeypatch, rows_per_group):
    rows = [{"path": f"f{i}", "size": i} for i in range(5)]
    parts = put_checkpoint({"add": rows}, row_group_size=rows_per_group)

    def refuse(*_, **__):
        raise pa.ArrowNotImplementedError("Nested data conversions not implemented for chunked array outputs")

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", refuse)
    assert parts.read_adds(["path"]).column(0).to_pylist() == [row["path"] for row in rows]


def test_without_footer_statistics_everything_is_still_found():
    rows = {
        "add": [None, {"path": "a", "size": 1}],
        "protocol": [{"minReaderVersion": 1, "minWriterVersion": 2}, None],
        "txn": [None, {"appId": "x", "version": 3}],
    }
    parts = put_checkpoint(rows, write_statistics=False, row_group_size=1)
    assert parts.num_adds == 1
    assert parts.read_adds(["size"]).column(0).to_pylist() == [1]
    assert parts.protocol is not None and parts.protocol.min_writer_version == 2
    assert parts.txns["x"].version == 3


# -- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.checkpoint.writeStatsAsStruct": "true"},
        {"delta.checkpointPolicy": "v2"},
        {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "2"},
        {"delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsStruct": "true"},
        {"delta.parquet.compression.codec": "SNAPPY"},
    ],
)
def test_a_checkpoint_holds_the_whole_state(properties):
    with set_options(clock=lambda: 6 * DAY_MS):
        table = sample(**properties)
        before = state_of(table.log.snapshot)
        hint = table.log.checkpoint()
    after = reopened(only_checkpoint_left(table))
    assert state_of(after) == as_checkpointed(before)
    assert len(before["tombstones"]) == 1
    assert (hint.version, hint.num_of_add_files) == (2, 2)
    assert read_last_checkpoint(table.store) == hint


def test_a_v2_checkpoint_has_sidecars_and_metadata_and_now_and_then_a_classic_name():
    table = sample(**{"delta.checkpointPolicy": "v2"})
    hint = table.log.checkpoint()
    names = table.store.list_names("_delta_log/")
    (top,) = [name for name in names if name.endswith(".json") and ".checkpoint." in name]
    lines = lines_of(table.store, top)
    (sidecar,) = table.store.list_from(SIDECAR_FOLDER)
    assert lines[-1] == {
        "checkpointMetadata": {
            "version": 2,
            "tags": {
                "sidecarNumActions": "2",
                "sidecarSizeInBytes": str(sidecar.size),
                "numOfAddFiles": "2",
            },
        }
    }
    assert lines[0]["sidecar"]["sizeInBytes"] == sidecar.size
    assert sidecar.name == SIDECAR_FOLDER + lines[0]["sidecar"]["path"]
    assert hint.size == len(lines) + 2
    # Version 2 of interval 10 is the first of ten: clients without V2 checkpoints find it.
    twin = open_checkpoint(table.store, [classic_name(2)])
    assert twin.protocol == table.log.snapshot.protocol
    assert twin.num_adds == 2 and len(twin.sidecars) == 1


def test_large_states_are_split(monkeypatch):
    monkeypatch.setattr("deltanb.log.checkpoint.write.MAX_SIDECAR_ROWS", 10)
    monkeypatch.setattr("deltanb.log.checkpoint.write.ROWS_PER_GROUP", 4)
    table = TableBuilder(MemoryStore()).create(
        protocol=V2_PROTOCOL, properties={"delta.checkpointPolicy": "v2"}
    )
    table.commit(*(add(f"f{i:02}") for i in range(27)))
    now = table.log.snapshot
    table.commit(*(remove(f"f{i:02}", deletionTimestamp=5 * DAY_MS) for i in range(6)))
    with set_options(clock=lambda: 6 * DAY_MS):
        table.log.checkpoint()
    assert len(table.store.list_names(SIDECAR_FOLDER)) == 4, "one of tombstones, three of files"
    after = reopened(only_checkpoint_left(table))
    assert sorted(after.files.column("path").to_pylist()) == [f"f{i:02}" for i in range(6, 27)]
    assert after.tombstones.num_rows == 6 and now.num_files == 27


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_a_failure_at_any_write_leaves_a_table_that_opens(policy):
    """Sidecars, then the checkpoint, then the hint: each may be the last thing that happens."""

    class Failing(MemoryStore):
        left = 1_000

        def put(self, name, data):
            if self.left == 0:
                raise OSError("no space left")
            self.left -= 1
            super().put(name, data)

    outcomes = []
    for puts in range(6):
        table = sample(Failing(), **{"delta.checkpointPolicy": policy})
        expected = as_checkpointed(state_of(table.log.snapshot))["files"]
        table.store.left = puts
        try:
            table.log.checkpoint()
            outcomes.append("written")
        except OSError:
            outcomes.append("failed")
        assert as_checkpointed(state_of(reopened(table)))["files"] == expected
    needed = 2 if policy == "classic" else 4
    assert outcomes == ["failed"] * needed + ["written"] * (6 - needed)


def test_old_tombstones_and_transactions_expire():
    properties = {
        "delta.deletedFileRetentionDuration": "interval 3 days",
        "delta.setTransactionRetentionDuration": "interval 1 days",
    }
    table = TableBuilder(MemoryStore()).create(properties=properties)
    table.commit(*(add(name) for name in "abcd"))
    table.commit(
        remove("a", deletionTimestamp=7 * DAY_MS),
        remove("b", deletionTimestamp=7 * DAY_MS + 1),
        {"remove": {"path": "c", "dataChange": True}},
        {"txn": {"appId": "old", "version": 1, "lastUpdated": 9 * DAY_MS}},
        {"txn": {"appId": "young", "version": 2, "lastUpdated": 9 * DAY_MS + 1}},
        {"txn": {"appId": "ageless", "version": 3}},
    )
    with set_options(clock=lambda: 10 * DAY_MS):
        table.log.checkpoint()
    after = reopened(only_checkpoint_left(table))
    assert after.tombstones.column("path").to_pylist() == ["b"]
    assert after.set_transactions == {"young": 2, "ageless": 3}


def test_statistics_only_as_columns():
    properties = {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.checkpoint.writeStatsAsJson": "false",
    }
    schema = "id long, price decimal(10,2), at timestamp, day date, name string, ok boolean, raw binary"
    bounds = {"id": -5, "price": 1.25, "at": "2024-02-03T04:05:06.789Z", "day": "2024-02-03",
              "name": "ä", "ok": False}  # fmt: skip
    odd = {"id": "not a number", "price": 7, "at": "later", "day": "2024-02-30", "name": 5, "ok": "yes"}
    table = TableBuilder(MemoryStore()).create(schema, properties=properties)
    table.commit(
        add("a", stats=json.dumps({"numRecords": 3, "minValues": bounds, "nullCount": {"raw": 2}})),
        add("b"),
        add("c", stats='{"numRecords": 4}'),
    )
    table.log.checkpoint()
    parts = open_checkpoint(table.store, [classic_name(1)])
    rows = parts.read_adds(["path", "stats_parsed"]).sort_by("path").column(1).to_pylist()
    assert rows[0]["minValues"] == {
        "id": -5,
        "price": Decimal("1.25"),
        "at": datetime(2024, 2, 3, 4, 5, 6, 789000, timezone.utc),
        "day": date(2024, 2, 3),
        "name": "ä",
        "ok": False,
    }
    assert rows[1] is None and rows[2]["numRecords"] == 4
    texts = parts.read_adds(["path", "stats"]).sort_by("path").column(1).to_pylist()
    bounds["at"] = "2024-02-03T04:05:06.789000Z"
    assert json.loads(texts[0]) == {"numRecords": 3, "minValues": bounds, "nullCount": {"raw": 2}}
    assert texts[1] is None and json.loads(texts[2]) == {"numRecords": 4}

    # One odd file costs its own bounds only, and only those that are odd.
    table.commit(add("d", stats=json.dumps({"numRecords": 5, "minValues": odd})), add("e", stats="{not json"))
    table.log.checkpoint()
    parts = open_checkpoint(table.store, [classic_name(2)])
    rows = parts.read_adds(["path", "stats_parsed"]).sort_by("path").column(1).to_pylist()
    assert rows[0]["minValues"]["id"] == -5
    assert {k: v for k, v in rows[3]["minValues"].items() if v is not None} == {"price": 7, "name": "5"}
    assert rows[3]["numRecords"] == 5


def test_times_beyond_pythons_come_back_as_text():
    day, at = 10**8, 300_000_000_000_000_000
    bounds = {"day": pa.array([day, None], pa.date32()), "at": pa.array([at, -1], pa.timestamp("us", "UTC"))}
    stats = pa.StructArray.from_arrays(
        [pa.array([3, 4]), pa.StructArray.from_arrays(list(bounds.values()), names=list(bounds))],
        names=["numRecords", "maxValues"],
    )
    files = pa.StructArray.from_arrays([pa.array(["a", "b"]), stats], names=["path", "stats_parsed"])
    texts = put_checkpoint({"add": files}).read_adds(["stats"]).column(0).to_pylist()
    assert [json.loads(text)["numRecords"] for text in texts] == [3, 4]
    assert json.loads(texts[0])["maxValues"]["at"] == "11476-08-15T05:20:00.000000Z"
    assert json.loads(texts[1])["maxValues"] == {"at": "1969-12-31T23:59:59.999999Z"}


def test_typed_partition_values_and_the_columns_that_statistics_cover():
    properties = {
        "delta.checkpoint.writeStatsAsStruct": "true",
        "delta.dataSkippingNumIndexedCols": "2",
    }
    schema = "a long, b long, c long, day date, n integer"
    table = TableBuilder(MemoryStore()).create(schema, partition_by=["day", "n"], properties=properties)
    table.commit(add("x", {"day": "2024-01-02", "n": "7"}), add("y", {"day": "", "n": None}))
    table.log.checkpoint()
    file = pq.ParquetFile(pa.BufferReader(table.store.read(classic_name(1))))
    rows = file.read(columns=["add.path", "add.partitionValues_parsed"]).column("add").drop_null()
    values = {row["path"]: row["partitionValues_parsed"] for row in rows.to_pylist()}
    assert values == {"x": {"day": date(2024, 1, 2), "n": 7}, "y": {"day": None, "n": None}}
    kind = file.schema_arrow.field("add").type.field("stats_parsed").type
    assert [f.name for f in kind.field("minValues").type] == ["a", "b"]


def test_lists_of_features_are_never_null_where_versions_ask_for_them():
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    for versions in (protocol, {"minReaderVersion": 1, "minWriterVersion": 2}):
        table = TableBuilder(MemoryStore()).create(protocol=versions).commit(add("a"))
        table.log.checkpoint()
        file = pq.ParquetFile(pa.BufferReader(table.store.read(classic_name(1))))
        (row,) = file.read(columns=["protocol"]).column(0).drop_null().to_pylist()
        expected = [] if versions is protocol else None
        assert row["readerFeatures"] == row["writerFeatures"] == expected


texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
vectors = st.none() | st.fixed_dictionaries(
    {"storageType": st.sampled_from("uip"), "pathOrInlineDv": texts, "sizeInBytes": st.integers(0, 99),
     "cardinality": st.integers(0, 2**40)},
    optional={"offset": st.integers(0, 2**31 - 1)},
)  # fmt: skip
file_actions = st.fixed_dictionaries(
    {
        "partitionValues": st.dictionaries(st.just("part"), st.none() | texts),
        "size": st.integers(0, 2**50),
        "deletionVector": vectors,
    },
    optional={
        "tags": st.dictionaries(texts, texts, min_size=1),
        "baseRowId": st.integers(0, 2**62),
        "stats": st.sampled_from(['{"numRecords":3}', "", "no JSON", '{"minValues":{"id":7}}']),
    },
)


@few
@given(
    files=st.dictionaries(texts.map(encode_path), file_actions, max_size=12),
    gone=st.integers(0, 3),
    txns=st.dictionaries(texts, st.integers(0, 2**60)),
    configuration=st.sampled_from(
        [{}, {"delta.checkpointPolicy": "v2"}, {"delta.checkpoint.writeStatsAsStruct": "true"}]
    ),
)
def test_any_state_survives_a_checkpoint(files, gone, txns, configuration):
    table = TableBuilder(MemoryStore()).create(
        "id long, part string", partition_by=["part"], properties=configuration, protocol=V2_PROTOCOL
    )
    table.commit({"commitInfo": {}}, *(add(path, **action) for path, action in files.items()))
    table.commit({"commitInfo": {}}, *({"txn": {"appId": a, "version": v}} for a, v in txns.items()))
    removed = [
        remove(path, deletionTimestamp=5 * DAY_MS, deletionVector=files[path]["deletionVector"])
        for path in sorted(files)[:gone]
    ]
    table.commit({"commitInfo": {}}, *removed)
    with set_options(clock=lambda: 6 * DAY_MS):
        before = as_checkpointed(state_of(reopened(table)))
        DeltaLog(table.store).checkpoint()
    after = state_of(reopened(only_checkpoint_left(table)))
    for state in (before, after):
        for name in ("files", "tombstones"):
            state[name].sort(key=str)
    assert after == before
    assert len(after["files"]) == len(files) - len(removed)


def test_unknown_writer_features_forbid_checkpoints():
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["fromTomorrow"]}
    table = TableBuilder(MemoryStore()).create(protocol=protocol)
    with pytest.raises(UnsupportedProtocol, match="fromTomorrow"):
        table.log.checkpoint()
    assert table.store.list_names("_delta_log/") == ["_delta_log/00000000000000000000.json"]


# -- the hint ----------------------------------------------------------------------------------


def test_checksum_of_the_protocols_sample():
    text = (
        '{"k0":"\'v 0\'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], '
        '{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}'
    )
    value = json.loads(text)
    assert checksum(value) == "6a92d155a59bf2eecbd4b4ec7fd1f875"
    assert canonical({"t": True, "ß+": [None, 1]}) == '"%C3%9F%2B"+0=null,"%C3%9F%2B"+1=1,"t"=true'


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"size": 3}', '{"version": "2"}', '{"version": true}', '{"version": -1}',
     '{"version": 1, "version": 2}', '{"version": 2, "size": 1, "checksum": "0000"}'],
)  # fmt: skip
def test_a_hint_that_is_no_hint(text, caplog):
    with caplog.at_level(logging.WARNING, "deltanb"):
        assert parse_last_checkpoint(text) is None
    assert "_last_checkpoint is ignored" in caplog.text


def test_a_hint_survives_odd_sizes_and_unknown_fields():
    hint = parse_last_checkpoint('{"version": 2, "size": null, "parts": "x", "more": {"a": 1.50}}')
    assert hint == LastCheckpoint(2, 0)


def test_real_hints_pass_their_checksums(shared):
    hints = sorted((shared / "tables").rglob("_last_checkpoint"))
    assert sum('"checksum"' in path.read_text() for path in hints) > 5
    for path in hints:
        assert parse_last_checkpoint(path.read_text()) is not None, path


def test_a_hint_never_goes_back():
    store = MemoryStore()
    write_last_checkpoint(store, LastCheckpoint(5, 1))
    write_last_checkpoint(store, LastCheckpoint(3, 1))
    assert read_last_checkpoint(store) == LastCheckpoint(5, 1)
    store.put(LAST_CHECKPOINT, b"torn")
    write_last_checkpoint(store, LastCheckpoint(3, 1))
    assert read_last_checkpoint(store) == LastCheckpoint(3, 1)


# -- in a peer's hands -------------------------------------------------------------------------


def all_types(rows, start=0):
    n = range(start, start + rows)
    return pa.table(
        {
            "id": pa.array(n, pa.int64()),
            "text": [f"v{i}" for i in n],
            "day": [date(2024, 1, 1 + i % 20) for i in n],
            "at": pa.array(
                [datetime(2024, 1, 1, i % 24, tzinfo=timezone.utc) for i in n], pa.timestamp("us", "UTC")
            ),
            "price": pa.array([Decimal(i) / 4 for i in n], pa.decimal128(10, 2)),
            "ok": [i % 2 == 0 for i in n],
            "raw": [b"x"] * rows,
            "list": [[i] for i in n],
            "map": pa.array([[("k", i)] for i in n], pa.map_(pa.string(), pa.int64())),
            "struct": [{"q": i, "z": "y"} for i in n],
            "part": [f"p {i % 3}" for i in n],
            "when": [date(2024, 5, 1 + i % 2) for i in n],
        }
    )


def peer_table(root, policy, configuration):
    deltalake = pytest.importorskip("deltalake")
    partitions = ["part", "when"]
    deltalake.write_deltalake(root, all_types(10), partition_by=partitions, configuration=configuration)
    deltalake.write_deltalake(root, all_types(10, 100), mode="append")
    table = deltalake.DeltaTable(root)
    table.delete("id = 3")
    if policy == "v2":
        feature = deltalake.TableFeatures.V2Checkpoint
        table.alter.add_feature(feature, allow_protocol_versions_increase=True)
        table.alter.set_table_properties({"delta.checkpointPolicy": "v2"})
    return deltalake


@pytest.mark.parametrize(
    ("policy", "configuration"),
    [
        ("classic", {}),
        ("classic", {"delta.checkpoint.writeStatsAsStruct": "true"}),
        ("classic", {"delta.checkpoint.writeStatsAsStruct": "true",
                     "delta.checkpoint.writeStatsAsJson": "false"}),
        ("v2", {}),
    ],
)  # fmt: skip
def test_a_peer_reads_our_checkpoint(tmp_path: Path, policy, configuration):
    root = str(tmp_path / "table")
    deltalake = peer_table(root, policy, configuration)
    rows = "SELECT * FROM t ORDER BY id"

    def query(table, sql):
        return pa.table(deltalake.QueryBuilder().register("t", table).execute(sql))

    table = deltalake.DeltaTable(root)
    expected, actions = query(table, rows), pa.table(table.get_add_actions(flatten=True))
    log = DeltaLog(LocalStore(root))
    log.checkpoint()
    for version in range(log.snapshot.version):
        os.remove(f"{root}/_delta_log/{version:020}.json")
    table = deltalake.DeltaTable(root)
    assert table.version() == log.snapshot.version
    assert query(table, rows).equals(expected)
    assert query(table, "SELECT id FROM t WHERE id > 105 AND part = 'p 0'").num_rows == 1
    after = pa.table(table.get_add_actions(flatten=True))
    # The peer takes the bounds of a boolean from JSON only.
    shared_columns = [n for n in after.column_names if n in actions.column_names and not n.endswith(".ok")]
    assert {"min.price", "max.at", "null_count.struct.q", "partition.when"} <= set(shared_columns)
    for name in shared_columns:
        assert after.sort_by("path").column(name).equals(actions.sort_by("path").column(name)), name
    deltalake.write_deltalake(root, all_types(1, 1000), mode="append")
    assert DeltaLog(LocalStore(root)).snapshot.num_files == log.snapshot.num_files + 1


def test_spark_finds_the_columns_that_delta_spark_looks_for(shared, spark, tmp_path: Path):
    """Spark's Parquet reader, with the schema that Delta Spark reads its own checkpoints by."""
    from pyspark.sql.types import StructType

    root = str(tmp_path / "table")
    table = sample(LocalStore(root), **{"delta.checkpoint.writeStatsAsStruct": "true"})
    with set_options(clock=lambda: 6 * DAY_MS):
        table.log.checkpoint()
    theirs = shared / "tables/golden/v2-checkpoint-parquet/_delta_log/_last_checkpoint"
    schema = StructType.fromJson(json.loads(theirs.read_text())["checkpointSchema"])
    frame = spark.read.schema(schema).parquet(f"{root}/{classic_name(2)}")
    rows = [row.asDict(True) for row in frame.collect()]
    actions_read = [(kind, value) for row in rows for kind, value in row.items() if value is not None]
    adds = {value["path"]: value for kind, value in actions_read if kind == "add"}
    assert sorted(kind for kind, _ in actions_read) == [
        "add", "add", "domainMetadata", "metaData", "protocol", "remove", "txn",
    ]  # fmt: skip
    assert adds["part=1/a"]["partitionValues"] == {"part": "1"}
    assert adds["part=1/a"]["tags"] == {"k": "v"}
    assert adds["part=2/b"]["deletionVector"]["cardinality"] == 6
    assert adds["part=2/b"]["baseRowId"] == 10
    (metadata,) = [value for kind, value in actions_read if kind == "metaData"]
    assert metadata["format"] == {"provider": "parquet", "options": {}}
    assert metadata["partitionColumns"] == ["part"]


def test_we_read_a_peers_checkpoint(tmp_path: Path):
    root = str(tmp_path / "table")
    deltalake = peer_table(root, "classic", {})
    before = state_of(DeltaLog(LocalStore(root)).snapshot)
    deltalake.DeltaTable(root).create_checkpoint()
    for version in range(3):
        os.remove(f"{root}/_delta_log/{version:020}.json")
    after = state_of(DeltaLog(LocalStore(root)).snapshot)
    for row in before["files"] + after["files"]:
        row["stats"] = json.loads(row["stats"])
        row["partition_values"] = dict(row["partition_values"])
        row.pop("data_change"), row.pop("tags")
    assert after["files"] == before["files"]
    assert [r["path"] for r in after["tombstones"]] == [r["path"] for r in before["tombstones"]]
