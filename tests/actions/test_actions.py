"""Actions: JSON both ways, unknown fields kept, wrong types named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb import actions, errors
from deltanb.actions import AddFile, DeletionVector, Metadata, RemoveFile

LINES = [
    {"add": {"path": "a%20b", "partitionValues": {"p": None, "q": "1"}, "size": 1,
             "modificationTime": 2, "dataChange": True, "stats": "{}", "tags": {"t": "1"},
             "deletionVector": {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 3,
                                "cardinality": 1, "offset": 4},
             "baseRowId": 5, "defaultRowCommitVersion": 6, "clusteringProvider": "liquid"}},
    {"remove": {"path": "a", "deletionTimestamp": 1, "dataChange": False,
                "extendedFileMetadata": True, "partitionValues": {}, "size": 1}},
    {"cdc": {"path": "_change_data/a", "partitionValues": {}, "size": 1, "dataChange": False}},
    {"metaData": {"id": "i", "schemaString": "{}", "partitionColumns": ["p"], "configuration":
                  {"k": "v"}, "name": "n", "description": "d",
                  "format": {"provider": "parquet", "options": {}}, "createdTime": 1}},
    {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["x"],
                  "writerFeatures": ["x", "y"]}},
    {"txn": {"appId": "a", "version": 1, "lastUpdated": 2}},
    {"domainMetadata": {"domain": "d", "configuration": "{}", "removed": False}},
    {"commitInfo": {"timestamp": 1, "operation": "WRITE", "operationParameters": {"a": [1, {}]},
                    "operationMetrics": {"num_added": 3}, "clientVersion": "x"}},
    {"transactionGroup": {"transactionId": "t", "coordinatingCatalog": "main", "participants": [
        {"tableId": "a", "proposedVersion": 4}, {"tableId": "b", "proposedVersion": 2, "role": "x"}]}},
    {"checkpointMetadata": {"version": 3}},
    {"sidecar": {"path": "s.parquet", "sizeInBytes": 1, "modificationTime": 2}},
    {"fromTheFuture": {"anything": [1, 2]}},
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: next(iter(line)))
def test_json_both_ways(line: dict[str, Any]) -> None:
    action = actions.from_json(json.dumps(line))
    assert json.loads(action.to_json()) == line
    assert actions.from_json(action.to_json()) == action
    assert len({action, actions.from_json(action.to_json())}) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(min_size=1, max_size=8).map(lambda k: "x-" + k), JSON, max_size=4))
def test_fields_we_do_not_know_are_written_back(extra: dict[str, Any]) -> None:
    for line in LINES[:-1]:
        key, value = next(iter(line.items()))
        both = {key: {**value, **extra}}
        assert json.loads(actions.from_dict(both).to_json()) == both


@pytest.mark.parametrize(("line", "message"), [
    ("{", "must be JSON"),
    ("[]", "is a JSON object"),
    ("{}", "one key"),
    ('{"add": {}, "remove": {}}', "one key"),
    ('{"add": {"size": 1}}', "add lacks path"),
    ('{"add": {"path": 7}}', "add.path must be of type string, found integer: 7"),
    ('{"add": {"path": "a", "size": true}}', "add.size must be of type integer, found boolean"),
    ('{"add": {"path": "a", "partitionValues": {"p": 1}}}', "partitionValues.p must be a string"),
    ('{"protocol": {"minReaderVersion": 1}}', "protocol lacks minWriterVersion"),
    ('{"txn": {"appId": "a"}}', "txn lacks version"),
    ('{"metaData": {"id": "i", "partitionColumns": "p"}}', "partitionColumns must be of type"),
    ('{"add": {"path": "a", "deletionVector": {}}}', "deletionVector lacks storageType"),
    ('{"remove": "x"}', "remove must be an object"),
])
def test_a_wrong_action_is_named(line: str, message: str) -> None:
    with pytest.raises(errors.InvalidAction, match=message):
        actions.from_json(line)


def test_a_removal_keeps_what_readers_of_it_need() -> None:
    vector = DeletionVector("u", "x", 3, 1, offset=4)
    add = AddFile(path="a", partition_values={"p": "1"}, size=9, deletion_vector=vector,
                  base_row_id=5, default_row_commit_version=2, tags={"t": "1"})
    remove = add.remove(deletion_timestamp=7)
    assert remove == RemoveFile(
        path="a", deletion_timestamp=7, data_change=True, extended_file_metadata=True,
        partition_values={"p": "1"}, size=9, tags={"t": "1"}, deletion_vector=vector,
        base_row_id=5, default_row_commit_version=2)
    assert remove.file_key == add.file_key == ("a", "ux@4")


def test_a_row_of_the_snapshot_is_an_action_again() -> None:
    from deltanb.testing import MemoryStore, TableBuilder

    line = LINES[0]
    log = TableBuilder(MemoryStore()).create("q long, p string, z long", partition_by=["p", "q"]) \
        .commit(line).log
    row = log.snapshot.files.to_pylist(maps_as_pydicts="lossy")[0]
    assert AddFile.from_row(row) == actions.from_dict(line)


@given(st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30))
def test_paths_survive_their_encoding(path: str) -> None:
    encoded = actions.encode_path(path)
    assert actions.decode_path(encoded) == path
    assert not set(encoded) & set(" #?%\"<>\\^`{|}") - {"%"}


@pytest.mark.parametrize(("stats", "expected"), [
    (None, None), ("", None), ("[]", None), ('{"numRecords":"3"}', None), ("{", None),
    ('{"numRecords":3}', 3)])
def test_num_records(stats: str | None, expected: int | None) -> None:
    assert AddFile(path="a", stats=stats).num_records == expected


def test_a_schema_that_is_none() -> None:
    with pytest.raises(errors.InvalidTable, match="schemaString is not a schema"):
        _ = Metadata("i", "{}").schema
    with pytest.raises(errors.InvalidTable, match="no schemaString"):
        _ = Metadata("i").schema


def test_replace_checks_what_it_sets_and_keeps_nothing_computed() -> None:
    schema = '{"type":"struct","fields":[{"name":"%s","type":"long","nullable":true,"metadata":{}}]}'
    metadata = Metadata("t", schema % "a", extra={"more": 1})
    assert metadata.schema.names == ["a"] and '\\"a\\"' in metadata.value_json
    other = metadata.replace(schema_string=schema % "b")
    assert other.schema.names == ["b"] and '\\"b\\"' in other.value_json and other.extra == {"more": 1}
    assert metadata.replace() == metadata
    with pytest.raises(TypeError, match="metaData has no field colour"):
        metadata.replace(colour="red")
    with pytest.raises(errors.InvalidAction, match="schemaString"):
        metadata.replace(schema_string=3)


@pytest.mark.parametrize("value", [
    "-0", "-0.0", "1" + "0" * 40, "9223372036854775808", "-9223372036854775809", "0.1", "1e5", "1e400", "NaN",
    "-Infinity", '"\\ud83d\\ude00"', '"\\u0000"', '{"a":1,"a":2}', '"\x7f"', "[1,]", "01", '"\t"', "1 x",
    "9" * 5000, "[" * 100_000,
], ids=lambda text: text[:12])
def test_a_line_is_what_a_lenient_reader_of_json_says(value: str) -> None:
    text = f'{{"new":{value}}}'
    for line in (text, text.encode(), text.encode("utf-16")):
        try:
            expected = json.loads(line)["new"]
        except (ValueError, RecursionError):
            with pytest.raises(errors.InvalidAction, match="must be JSON"):
                actions.from_json(line)
        else:
            action = actions.from_json(line)
            assert isinstance(action, actions.UnknownAction)
            assert repr(action.value) == repr(expected)  # NaN, -0.0 and 1 for 1.0 are told apart
