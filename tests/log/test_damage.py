"""Damaged files of a table: what else tells the same is read instead, the rest is refused by name."""

import json
import warnings
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb.actions import DeletionVector
from deltanb.engines.arrow import deletion_vectors
from deltanb.errors import InvalidTable
from deltanb.log.checkpoint.hint import LAST_CHECKPOINT, read_last_checkpoint
from deltanb.log.checkpoint.names import classic_name
from deltanb.log.checksum import checksum_name, read_checksum
from deltanb.log.commits import commit_name
from deltanb.log.file_set import FileSet
from deltanb.log.snapshot import State
from deltanb.observe import tracks as timeline_rows
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from tests.helpers import lines_of

DEEP = "[" * 100_000 + "]" * 100_000
ROWS = [{"id": n} for n in range(6)]


def lake(*checkpoints):
    """Six commits of a row each, with checkpoints."""
    store = MemoryStore()
    table = dn.create(store, {"id": [0]}, properties={"delta.checkpointInterval": "100"})
    for number in range(1, 6):
        table.append({"id": [number]})
    for version in checkpoints:
        DeltaLog(store).checkpoint(version)
    DeltaLog.clear_cache()  # what is asked then reads the files
    return store


def zeroed(store, name, column):
    """A Parquet file whose footer is whole and whose pages of a column are zeros."""
    data = bytearray(store.read(name))
    metadata = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata
    for group in range(metadata.num_row_groups):
        chunks = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
        (chunk,) = [chunk for chunk in chunks if chunk.path_in_schema == column]
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        data[start: start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    store.put(name, bytes(data))


ASKED = {
    "rows": lambda table: table.to_arrow().sort_by("id").to_pylist() == ROWS,
    "where": lambda table: table.to_arrow(where="id > 3").num_rows == 2,
    "count": lambda table: table.snapshot.num_files == 6,
    "size": lambda table: table.snapshot.size_in_bytes > 0,
    "tombstones": lambda table: table.snapshot.tombstones.num_rows == 0,
    "delete": lambda table: table.delete("id = 2", engine="arrow").version == 6,
}


@pytest.mark.parametrize("question", ASKED)
@pytest.mark.parametrize("column", ["add.path", "add.stats", "add.size"])
def test_a_damaged_page_of_a_checkpoint_is_met_later_and_the_commits_serve(column, question):
    store = lake(2, 4)
    for version in (2, 4):
        zeroed(store, classic_name(version), column)
    assert ASKED[question](dn.open(store))


def test_a_damaged_page_of_a_checkpoint_is_met_later_and_the_older_one_serves():
    store = lake(2, 4)
    zeroed(store, classic_name(4), "add.path")
    for version in (0, 1, 2):
        store.delete(commit_name(version))
    assert all(answer(dn.open(store)) for answer in ASKED.values())


def test_a_checkpoint_in_json_of_which_the_end_is_gone_is_none():
    store = MemoryStore()
    table = dn.create(store, {"id": [1, 2]}, properties={"delta.checkpointPolicy": "v2"})
    table.log.checkpoint()
    (name,) = (name for name in store.files if name.endswith(".json") and ".checkpoint." in name)
    if classic_name(0) in store.files:
        store.delete(classic_name(0))
    whole, put_at = store.files[name]
    lines = whole.splitlines(keepends=True)
    assert len(lines) > 3
    for count in range(len(lines)):
        DeltaLog.clear_cache()
        store.files[name] = b"".join(lines[:count]), put_at
        table = dn.open(store)
        assert table.to_arrow()["id"].to_pylist() == [1, 2] and table.snapshot.checkpoint_version is None
    DeltaLog.clear_cache()
    store.files[name] = whole, put_at
    assert dn.open(store).snapshot.checkpoint_version == 0


def test_where_nothing_else_tells_it_the_damaged_checkpoint_is_named():
    store = lake(4)
    for version in range(5):
        store.delete(commit_name(version))
    zeroed(store, classic_name(4), "add.path")
    with pytest.raises(InvalidTable) as caught:
        dn.open(store).to_arrow()
    assert caught.value.file == classic_name(4)


@pytest.mark.parametrize(
    "content",
    [DEEP, '{"a":' * 100_000 + "1" + "}" * 100_000, "\ud800", '{"version":"\\ud800"}', '{"version":1e400}',
     '{"version":' + "9" * 5000 + "}", '{"version":4,"checksum":"\\ud800"}', '{"version":4,"size":[{}]}',
     '{"version":4,"\\ud800":1,"checksum":"x"}', "null", "[]", "4", "\x00", ""],
)  # fmt: skip
def test_a_damaged_hint_or_checksum_is_ignored(content):
    store, data = lake(4), content.encode("utf-8", "surrogatepass")
    store.put(LAST_CHECKPOINT, data)
    store.put(checksum_name(5), data)
    hint = read_last_checkpoint(store)
    assert hint is None or hint.version == 4
    assert read_checksum(store, 5) is None
    assert dn.open(store).to_arrow().sort_by("id").to_pylist() == ROWS


@pytest.mark.parametrize("line", [
    '{"add":' + DEEP + "}", '{"txn":{"appId":"\\ud800","version":1}}', '{"commitInfo":' + DEEP + "}",
    '{"txn":{"appId":"a","version":9223372036854775808}}', '{"protocol":' + "1" * 5000 + "}",
    '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[{}]}}',
    '{"metaData":{"id":"a","partitionColumns":[1]}}', '{"metaData":{"id":"a","configuration":{"a":1}}}',
    '{"metaData":{"id":"a","format":{"provider":1}}}', '{"metaData":{"id":"a","format":{"options":3}}}',
])  # fmt: skip
def test_a_damaged_commit_names_its_file_and_line(line):
    store = lake()
    store.put(commit_name(5), store.read(commit_name(5)) + line.encode() + b"\n")
    lines = store.read(commit_name(5)).count(b"\n")
    with pytest.raises(InvalidTable) as caught:
        dn.open(store)
        DeltaLog(store).read_commit(5)
    assert (caught.value.file, caught.value.line) == (commit_name(5), lines)


@pytest.mark.parametrize("schema", [
    DEEP, '{"type":"struct","fields":[{"name":"id","type":"long","nullable":"x"}]}', "[]", '"long"', "1",
    '{"type":"struct","fields":[{"name":"x","type":{"type":"array","elementType":"long","containsNull":2}}]}',
])  # fmt: skip
def test_a_damaged_schema_is_an_invalid_table(schema):
    store = lake()
    line = json.dumps({"metaData": {"id": "a", "schemaString": schema}})
    store.put(commit_name(6), line.encode())
    with pytest.raises(InvalidTable, match="schemaString"):
        dn.open(store).to_arrow()


def with_vector(vector):
    store = lake()
    lines = lines_of(store, commit_name(5))
    for line in lines:
        if "add" in line:
            line["add"]["deletionVector"] = vector.to_value()
    store.put(commit_name(5), "".join(json.dumps(line) + "\n" for line in lines).encode())
    return store


@pytest.mark.parametrize("vector", [
    deletion_vectors.inline(BitMap64([1])),  # the file has one row
    deletion_vectors.inline(BitMap64([0])).replace(size_in_bytes=2**31 - 1),
    deletion_vectors.inline(BitMap64([0])).replace(cardinality=-1),
    DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", -5, 1, offset=1),
    DeletionVector("p", "x" * 70_000, 5, 1, offset=1), DeletionVector("p", "\0", 5, 1, offset=1),
    DeletionVector("i", "0" * 65, 50, 1),
])  # fmt: skip
def test_a_damaged_deletion_vector_is_refused(vector):
    with pytest.raises(dn.errors.DeltaError):
        dn.open(with_vector(vector)).to_arrow()


def test_a_vector_whose_offset_lies_is_refused():
    store = lake()
    (vector,) = deletion_vectors.write_file(store, [BitMap64([0])])
    for offset in (-1, 5, 2**31 - 1):
        with pytest.raises(InvalidTable):
            deletion_vectors.load(store, vector.replace(offset=offset))


def test_a_turned_bit_in_a_data_page_is_noticed():
    store = MemoryStore()
    table = dn.create(store, {"id": list(range(1000))})
    (path,) = table.snapshot.files["path"].to_pylist()
    whole = store.read(path)
    for at in (200, len(whole) // 2):
        data = bytearray(whole)
        data[at] ^= 1
        store.put(path, bytes(data))
        with pytest.raises(InvalidTable, match="part-") as caught:
            table.to_arrow()
        assert caught.value.file == path


def builder(info=None, **add_fields):
    schema = {"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    made = TableBuilder(MemoryStore()).create(schema)
    return made.commit(*([] if info is None else [info]), add("a", **add_fields)).commit(add("b"))


def test_statistics_that_are_not_json_are_taken_anew():
    store = lake()
    name = commit_name(1)
    lines = lines_of(store, name)
    for damaged in ('{"numRecords":x}', '{"numRecords":1', DEEP, '{"minValues":"\x1b"}'):
        for line in lines:
            if "add" in line:
                line["add"]["stats"] = damaged
        store.put(name, "".join(json.dumps(line) + "\n" for line in lines).encode())
        DeltaLog.clear_cache()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = dn.open(store)
            assert table.analyze().metrics["numFiles"] == 1 and table.analyze().metrics["numFiles"] == 0
        assert sorted(table.to_arrow(where="id >= 0")["id"].to_pylist()) == list(range(6))
        store.delete(commit_name(table.version))


def test_a_line_that_is_nested_too_deeply_is_refused_by_name_wherever_commits_are_read():
    table = builder()
    table.damage(1, '{"add":{"path":"a","partitionValues":' + DEEP + ',"size":1,"dataChange":true}}')
    log = DeltaLog(table.store)
    with pytest.raises(InvalidTable, match=f"{1:020}.json"):
        timeline_rows.read(log)
    whole = builder()
    handle = dn.DeltaTable(whole.log)
    whole.damage(1, '{"commitInfo":{"operationParameters":' + DEEP + "}}")
    assert "damaged" in str(handle.versions())
    with pytest.raises(InvalidTable, match=f"{1:020}.json"):
        handle.timeline()


def test_a_commit_info_that_is_damaged_is_refused_by_name():
    for damaged in (b'{"operation":"\xff"}', b'{"a":' + DEEP.encode() + b"}"):
        state = State(3, FileSet(), commit_info=damaged)
        with pytest.raises(InvalidTable, match=f"{3:020}.json.* cannot be read"):
            _ = state.info


def test_rows_are_not_appended_to_a_table_whose_partition_column_is_gone():
    store = MemoryStore()
    dn.create(store, {"id": [1], "p": [1]}, partition_by="p")
    name = commit_name(0)
    store.put(name, store.read(name).replace(b'"partitionColumns":["p"]', b'"partitionColumns":["void"]'))
    store.delete(checksum_name(0))
    DeltaLog.clear_cache()
    with pytest.raises(InvalidTable, match="partitioned by 'void', which is not a column"):
        dn.open(store).append({"id": [2], "p": [2]})


def test_a_field_that_json_cannot_hold_is_refused_where_the_checkpoint_is_read():
    store = lake(3)
    name = classic_name(3)
    rows = pq.read_table(store.open_input(name))
    metadata = rows.column("metaData").combine_chunks()
    fields = [*metadata.type, pa.field("odd", pa.binary())]
    odd = pa.array([b"x"] * rows.num_rows, pa.binary())
    wider = pa.StructArray.from_arrays([*metadata.flatten(), odd], fields=fields, mask=metadata.is_null())
    store.delete(name)
    with store.open_output(name) as sink:
        pq.write_table(rows.set_column(rows.schema.get_field_index("metaData"), "metaData", wider), sink)
    for version in range(4):
        store.delete(commit_name(version))
    with pytest.raises(InvalidTable, match="a metaData row is not valid"):
        dn.open(store)


@pytest.mark.parametrize("has_commits", [True, False])
def test_a_file_row_of_a_checkpoint_without_a_path_is_damage(tmp_path: Any, has_commits: bool) -> None:
    """The commits stand in for it; where they are gone the file is named, and nothing is made of it."""
    table = dn.create(tmp_path, {"n": [0]})
    for n in (1, 2):
        table.append({"n": [n]})
    table.log.checkpoint()
    (name,) = tmp_path.glob("_delta_log/*.checkpoint.parquet")
    read = pq.read_table(name)
    rows = read.to_pylist()
    next(row for row in rows if row["add"])["add"]["path"] = None
    pq.write_table(pa.Table.from_pylist(rows, schema=read.schema), name)
    gone = [*tmp_path.glob("_delta_log/*.crc"), *([] if has_commits else tmp_path.glob("_delta_log/*.json"))]
    for file in gone:
        if file.name != "00000000000000000002.json":
            file.unlink()
    dn.DeltaLog.clear_cache()
    works = (lambda: dn.open(tmp_path).to_arrow().num_rows, lambda: bool(dn.open(tmp_path).log.checkpoint()),
             lambda: dn.open(tmp_path).vacuum(0, check=False).num_files)
    if has_commits:
        assert [work() for work in works] == [3, True, 0]
        return
    before = name.read_bytes()
    for work in works:
        with pytest.raises(dn.errors.InvalidTable, match="an add row has no path"):
            work()
    assert name.read_bytes() == before
