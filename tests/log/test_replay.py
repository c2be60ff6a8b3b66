"""From commits to files: reconciliation against a plain dict, and damaged commits named."""

from __future__ import annotations

import json

import pytest

from deltanb import actions
from deltanb.errors import InvalidTable
from deltanb.log.file_set import FileSet
from deltanb.log.lines import parse_commit
from deltanb.log.replay import (
    FILES_SCHEMA,
    TOMBSTONES_SCHEMA,
    Delta,
    canonical_path,
    feed,
    feed_actions,
    files_table,
    key_array,
)
from deltanb.testing import add, remove, to_lines
from tests.helpers import delta_of

DV = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "sizeInBytes": 40,
      "cardinality": 2}
NAME = "_delta_log/00000000000000000007.json"


def test_every_field_of_an_add_reaches_the_table() -> None:
    delta = delta_of(add(
        "part=1/a%20b", {"part": "1", "other": None}, size=5, modificationTime=6, dataChange=False,
        stats='{"numRecords":3}', tags={"k": "v", "n": 1}, deletionVector={**DV, "offset": 4},
        baseRowId=7, defaultRowCommitVersion=8, clusteringProvider="liquid", shiny=True))
    table = files_table(delta.adds.values())
    assert table.schema == FILES_SCHEMA
    assert table.to_pylist() == [{
        "path": "part=1/a%20b", "partition_values": [("part", "1"), ("other", None)], "size": 5,
        "modification_time": 6, "data_change": False, "stats": '{"numRecords":3}',
        "tags": [("k", "v"), ("n", "1")],
        "deletion_vector": {"storage_type": "u", "path_or_inline_dv": DV["pathOrInlineDv"],
                            "offset": 4, "size_in_bytes": 40, "cardinality": 2},
        "base_row_id": 7, "default_row_commit_version": 8, "clustering_provider": "liquid"}]


def test_rows_from_json_and_from_action_values_are_the_same() -> None:
    lines = [add("a", {"p": None}, deletionVector=DV, stats="{}"), add("b"), remove("c", size=3)]
    from_json, from_values = delta_of(*lines), Delta()
    feed_actions(from_values, [actions.from_dict(line) for line in lines])
    assert from_json.adds.keys() == from_values.adds.keys()
    assert from_json.removes.keys() == from_values.removes.keys()
    one, other = FileSet().extended(from_json), FileSet().extended(from_values)
    assert one.read(FILES_SCHEMA.names) == other.read(FILES_SCHEMA.names)
    assert one.tombstones() == other.tombstones()
    assert one.tombstones().schema == TOMBSTONES_SCHEMA


def test_spellings_of_one_absolute_path_are_one_file() -> None:
    for spelling in ("/lake/a%20b", "file:/lake/a%20b", "file:///lake/a%20b"):
        assert canonical_path(spelling) == "/lake/a%20b"
        files = FileSet().extended(delta_of(add("/lake/a%20b"))).extended(delta_of(remove(spelling)))
        assert files.num_files == 0
        files = FileSet().extended(delta_of(add(spelling), remove("/lake/a%20b")))
        assert files.num_files == 0
    for other in ("lake/a", "s3://lake/a", "file://nas/lake/a", "file:a"):
        assert canonical_path(other) == other


def test_a_deletion_vector_makes_another_logical_file() -> None:
    before = FileSet().extended(delta_of(add("a")))
    after = before.extended(delta_of(remove("a"), add("a", deletionVector=DV)))
    assert after.num_files == 1
    assert after.read(["deletion_vector"]).column(0)[0]["cardinality"].as_py() == 2
    assert after.tombstones().column("deletion_vector").null_count == 1
    moved = {**DV, "offset": 1}
    unrelated = after.extended(delta_of(remove("a", deletionVector=moved)))
    assert unrelated.num_files == 1
    assert after.extended(delta_of(remove("a", deletionVector=DV))).num_files == 0


def test_the_keys_of_columns_are_those_of_rows() -> None:
    rows = [add("a"), add("file:///b"), add("c", deletionVector=DV),
            add("d", deletionVector={**DV, "offset": 0}), add("/e", deletionVector=DV)]
    delta = delta_of(*rows)
    table = files_table(delta.adds.values())
    keys = key_array(table.column("path"), table.column("deletion_vector"))
    assert keys.to_pylist() == list(delta.adds)


def test_the_latest_small_action_wins() -> None:
    delta = Delta()
    for version in (1, 2):
        feed(delta, to_lines([
            {"txn": {"appId": "a", "version": version}},
            {"domainMetadata": {"domain": "d", "configuration": str(version), "removed": False}},
            {"metaData": {"id": str(version), "format": {}, "partitionColumns": [],
                          "configuration": {}}},
            {"protocol": {"minReaderVersion": version, "minWriterVersion": 2}},
            {"commitInfo": {"anything": [version, {"at": "all"}]}},
            {"somethingNew": {"x": 1}}, {"cdc": {"path": "c", "partitionValues": {}, "size": 1}},
            {"add": None, "txn": None}]), NAME)
    assert delta.txns["a"].version == 2 and delta.domains["d"].configuration == "2"
    assert delta.metadata is not None and delta.metadata.id == "2"
    assert delta.protocol is not None and delta.protocol.min_reader_version == 2
    assert json.loads(delta.commit_info or b"") == {"anything": [2, {"at": "all"}]}
    assert not delta.adds and not delta.removes


@pytest.mark.parametrize(("data", "line", "says"), [
    (b'{"add":{"path":"a","size":1', 1, "line begins"),
    (b'{"commitInfo":{}}\n\n{"add":{"path":"a"}}\n{"rem', 4, "line begins"),
    (b'{"commitInfo":{}}\n\x00\x00\x00\x00', 2, "line begins"),
    (b'{"add":{"path":"a","size":"1"}}', 1, "size"),
    (b'{"add":{"path":"a","partitionValues":{"p":1}}}', 1, "partitionValues"),
    (b'{"add":{"size":1}}', 1, "path"),
    (b'{"remove":{"path":7}}', 1, "path"),
    (b'{"add":{"path":"a","size":9223372036854775808}}', 1, "9223372036854775807"),
    (b'{"add":{"path":"a","deletionVector":{"storageType":"u"}}}', 1, "pathOrInlineDv"),
    (b'{"txn":{"appId":"a"}}', 1, "version"),
    (b'{"protocol":{"minReaderVersion":"1","minWriterVersion":2}}', 1, "minReaderVersion"),
    (b'{"metaData":{"id":"1","partitionColumns":"p"}}', 1, "partitionColumns"),
    (b'["add"]', 1, "object"),
    (b'"\xff\xfe"', 1, "line begins"),
    (b"", None, "the file is empty"),
    (b" \n ", None, "the file is empty"),
])
def test_a_damaged_commit_names_file_line_fault_and_way_out(
    data: bytes, line: int | None, says: str
) -> None:
    with pytest.raises(InvalidTable) as caught:
        feed(Delta(), data, NAME, "/lake/t")
    error = caught.value
    assert (error.file, error.line, error.path) == (NAME, line, "/lake/t")
    assert NAME in error.message and "/lake/t" in error.message and says in error.message
    assert "snapshot_at(6)" in error.message
    if line is not None:
        assert f"line {line}" in error.message


def test_the_value_parser_refuses_what_replay_refuses_and_keeps_the_unknown() -> None:
    with pytest.raises(InvalidTable, match="line 2"):
        parse_commit(b'{"commitInfo":{}}\n{"add":', NAME, "t")
    with pytest.raises(InvalidTable, match="empty"):
        parse_commit(b"", NAME, "t")
    lines = ['{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,'
             '"dataChange":true,"shiny":{"x":1}}}', '{"somethingNew":{"y":2}}']
    assert [action.to_json() for action in parse_commit("\n".join(lines).encode(), NAME)] == lines
