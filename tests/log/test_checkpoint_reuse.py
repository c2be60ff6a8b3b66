"""A checkpoint keeps what did not change: row groups are copied, sidecars linked again, none is decoded."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.actions import Sidecar
from deltanb.errors import InvalidTable
from deltanb.log import file_set
from deltanb.log.checkpoint import write
from deltanb.log.checkpoint.names import SIDECAR_FOLDER, classic_name, parse_name, sidecar_name
from deltanb.log.checkpoint.read import open_checkpoint
from deltanb.log.commits import commit_name
from deltanb.log.reader import LogReader
from deltanb.log.snapshot import Snapshot
from deltanb.options import set_options
from deltanb.parquet.splice import row_groups
from deltanb.schema.properties import DAY_MS
from deltanb.testing import MemoryStore, TableBuilder, add, remove
from tests.examples import few
from tests.helpers import note_decoded_columns

GROUP = 4
V2 = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["v2Checkpoint"],
      "writerFeatures": ["v2Checkpoint"]}


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: Any) -> Iterator[None]:
    """Four files a row group and a sidecar, however few there are."""
    for name, value in (("ROWS_PER_GROUP", GROUP), ("MAX_SIDECAR_ROWS", GROUP), ("SMALL_ROWS", 0)):
        monkeypatch.setattr(write, name, value)
    with set_options(clock=lambda: 10 * DAY_MS):
        yield


@pytest.fixture
def decoded(monkeypatch: Any) -> list[tuple[str, ...]]:
    """The columns of each read of a row group of files, small actions aside."""
    return note_decoded_columns(monkeypatch)


def stats(number: int) -> str:
    return json.dumps({"numRecords": 1, "minValues": {"id": number}, "maxValues": {"id": number},
                       "nullCount": {"id": 0}})


def files(first: int, last: int, **more: Any) -> list[Any]:
    return [add(f"f{n:03}", size=n, stats=stats(n), **more) for n in range(first, last)]


def table_of(count: int, **properties: str) -> TableBuilder:
    made = TableBuilder(MemoryStore()).create(
        "id long", protocol=V2 if "delta.checkpointPolicy" in properties else None, properties=properties)
    made.commit(*files(0, count))
    opened(made).checkpoint()
    return made


def opened(table: TableBuilder) -> LogReader:
    """The log as another process sees it, read from its newest checkpoint."""
    return LogReader(table.store)


def state(snapshot: Snapshot) -> dict[str, Any]:
    return {name: [{**row, "data_change": None} for row in rows.sort_by("path").to_pylist()]
            for name, rows in (("files", snapshot.files), ("tombstones", snapshot.tombstones))}


def without_checkpoints(table: TableBuilder) -> Snapshot:
    """The same version by its commits alone."""
    store = MemoryStore()
    for name in table.store.list_names("_delta_log/"):
        if ".checkpoint" not in name and "_last" not in name:
            store.put(name, table.store.read(name))
    return LogReader(store).snapshot


def groups(table: TableBuilder, version: int) -> list[bytes]:
    """The bytes of the row groups of a classic checkpoint, but for the first, which has the small actions."""
    data = table.store.read(classic_name(version))
    ranges = row_groups(footer_of(data))[1:]
    return [data[group.start:group.start + group.length] for group in ranges if group is not None]


def footer_of(data: bytes) -> bytes:
    (length,) = struct.unpack("<I", data[-8:-4])
    return data[-8 - length:-8]


def whole(table: TableBuilder) -> None:
    """The newest checkpoint says what the commits say."""
    snapshot = opened(table).snapshot
    assert snapshot.checkpoint_version == snapshot.version == table.version
    assert state(snapshot) == state(without_checkpoints(table))


# -- classic checkpoints -----------------------------------------------------------------------


def test_row_groups_of_which_all_files_stand_are_copied_and_not_decoded(decoded: list[Any]) -> None:
    table = table_of(12)
    table.commit(*files(12, 15))
    decoded.clear()
    hint = opened(table).checkpoint()
    assert set(decoded) == {("add.path",)}
    before, after = groups(table, 1), groups(table, 2)
    assert len(before) == 3 and set(before) < set(after) and len(after) == 4
    assert (hint.num_of_add_files, hint.size) == (15, 17)
    whole(table)


def test_a_writer_that_lives_on_keeps_what_is_in_its_last_checkpoint(decoded: list[Any]) -> None:
    """Its own state rests on the checkpoint it began with, or on none."""
    table = TableBuilder(MemoryStore()).create("id long")
    writer = opened(table)
    for version in range(1, 5):
        table.commit(*files(version * 8, version * 8 + 8))
        assert writer.update().checkpoint_version is None
        decoded.clear()
        writer.checkpoint()
        assert set(decoded) <= {("add.path",)}
        assert len(groups(table, version)) == 2 * version
        if version > 1:
            assert set(groups(table, version - 1)) < set(groups(table, version))
    whole(table)


def test_a_table_that_fills_no_row_group_is_written_from_memory(
    decoded: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "ROWS_PER_GROUP", 2 * GROUP)
    table = TableBuilder(MemoryStore()).create("id long")
    writer = opened(table)
    for version in range(1, 3):
        table.commit(add(f"f{version}"))
        writer.update()
        writer.checkpoint()
    assert decoded == []
    assert state(writer.snapshot) == state(without_checkpoints(table))


def test_where_the_last_checkpoint_is_damaged_a_writer_has_what_it_needs() -> None:
    table = TableBuilder(MemoryStore()).create("id long")
    writer = opened(table)
    for version in range(1, 4):
        table.commit(*files(version * 8, version * 8 + 8))
        writer.update()
        if version < 3:
            writer.checkpoint()
        if version > 1:
            table.store.put(classic_name(version - 1), b"PAR1 and nothing more PAR1")
    writer.checkpoint()
    whole(table)


def test_only_the_row_group_of_a_file_that_went_is_decoded(decoded: list[Any]) -> None:
    table = table_of(12)
    table.commit(remove("f005", deletionTimestamp=10 * DAY_MS))
    decoded.clear()
    opened(table).checkpoint()
    assert len([columns for columns in decoded if columns != ("add.path",)]) == 1
    assert len(set(groups(table, 1)) & set(groups(table, 2))) == 2
    whole(table)


@pytest.mark.parametrize("more", [{"tags": {"a": "b"}}, {"size": 99}, {"stats": stats(77)}])
def test_a_file_that_is_added_again_is_as_the_newest_commit_says(more: dict[str, Any]) -> None:
    table = table_of(12)
    table.commit(add("f001", **{"size": 1, "stats": stats(1), **more}))
    opened(table).checkpoint()
    assert len(set(groups(table, 1)) & set(groups(table, 2))) == 2
    whole(table)


def test_copies_are_copied_again_and_there_may_be_many() -> None:
    table = table_of(80)
    first = set(groups(table, 1))
    for version in range(2, 6):
        table.commit(*files(80 + version, 81 + version))
        opened(table).checkpoint()
        assert len(first & set(groups(table, version))) == 20
        whole(table)


def test_a_row_group_that_is_less_than_half_full_is_written_anew() -> None:
    table = table_of(GROUP + 1)
    table.commit(*files(20, 21))
    opened(table).checkpoint()
    sizes = [group.num_rows for group in row_groups(footer_of(table.store.read(classic_name(2)))) if group]
    assert sorted(sizes) == [2, 2, GROUP], "small actions; the two small groups as one; the copied one"
    whole(table)


@pytest.mark.parametrize("change", [
    {"delta.checkpoint.writeStatsAsStruct": "true"}, {"delta.checkpoint.writeStatsAsJson": "false"}])
def test_where_the_form_of_statistics_has_changed_all_is_written_anew(change: dict[str, str]) -> None:
    table = table_of(12)
    metadata = without_checkpoints(table).metadata.to_value()
    table.commit({"metaData": {**metadata, "configuration": change}})
    opened(table).checkpoint()
    assert not set(groups(table, 1)) & set(groups(table, 2))
    assert opened(table).snapshot.num_files == 12


def test_typed_statistics_are_kept_as_long_as_the_columns_are() -> None:
    table = table_of(12, **{"delta.checkpoint.writeStatsAsStruct": "true"})
    table.commit(*files(12, 13))
    opened(table).checkpoint()
    assert len(set(groups(table, 1)) & set(groups(table, 2))) == 3
    table.commit({"metaData": {**opened(table).snapshot.metadata.to_value(), "schemaString": json.dumps({
        "type": "struct", "fields": [
            {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "more")]})}})
    opened(table).checkpoint()
    assert not set(groups(table, 2)) & set(groups(table, 3))
    whole(table)


def test_a_checkpoint_that_was_cut_off_since_it_was_opened_is_passed_over() -> None:
    table = table_of(12)
    table.commit(*files(12, 13))
    log = opened(table)
    layer = log.snapshot.candidates.parts()[0].layer
    part = layer.pieces()[0].part
    part._file._handle = pa.BufferReader(b"PAR1")
    with pytest.raises(InvalidTable, match="cannot be read"):
        part.content_of(part.row_group(1))
    log.checkpoint()
    whole(table)


def test_peers_read_copies(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    from deltanb.store.local import LocalStore

    table = TableBuilder(LocalStore(str(tmp_path))).create("id long").commit(*files(0, 12))
    opened(table).checkpoint()
    table.commit(remove("f005", deletionTimestamp=10 * DAY_MS), *files(12, 14))
    opened(table).checkpoint()
    table.delete(0, 1, 2)
    peer = deltalake.DeltaTable(str(tmp_path))
    assert peer.version() == 2
    assert sorted(uri.rpartition("/")[2] for uri in peer.file_uris()) == [
        f"f{n:03}" for n in range(14) if n != 5]


@given(st.lists(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), min_size=1, max_size=6), max_size=6),
       st.sampled_from(["classic", "v2"]))
@few
def test_whatever_happens_in_between_a_checkpoint_says_what_the_commits_say(plan: Any, policy: str) -> None:
    table = table_of(20, **{"delta.checkpointPolicy": policy})
    for version, commit in enumerate(plan, 2):
        last = {path: is_add for is_add, path in commit}
        table.commit(*(
            add(f"f{path:03}", size=version) if is_add else
            remove(f"f{path:03}", deletionTimestamp=10 * DAY_MS) for path, is_add in last.items()))
        opened(table).checkpoint()
        whole(table)


# -- a checkpoint that is damaged, which is met while the next one is written ------------------


def damaged(table: TableBuilder, names: list[str], column: str = "add.stats") -> None:
    """Zeros in place of the pages of a column in the last row group that has them, of the last file."""
    data = bytearray(table.store.read(names[-1]))
    metadata = pq.ParquetFile(pa.BufferReader(bytes(data))).metadata
    for group in reversed(range(metadata.num_row_groups)):
        chunks = [metadata.row_group(group).column(i) for i in range(metadata.num_columns)]
        (chunk,) = [chunk for chunk in chunks if chunk.path_in_schema == column]
        if chunk.statistics.null_count < chunk.num_values:
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start:start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
            table.store.put(names[-1], bytes(data))
            return


def stored(table: TableBuilder) -> list[str]:
    """What of the newest checkpoint has its files, in their order."""
    names = opened(table).snapshot._state.checkpoint
    linked = open_checkpoint(table.store, names).sidecars
    return [sidecar_name(sidecar.path) for sidecar in linked] or list(names)


def with_typed_stats(table: TableBuilder) -> None:
    """All is written anew after this."""
    metadata = opened(table).snapshot.metadata.to_value()
    configuration = {**metadata["configuration"], "delta.checkpoint.writeStatsAsStruct": "true"}
    table.commit({"metaData": {**metadata, "configuration": configuration}})


@pytest.fixture(params=["classic", "v2"])
def policy(request: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Either kind of checkpoint; columns are read some rows at a time, as those of large tables are."""
    monkeypatch.setattr(file_set, "MAX_KEPT", 0)
    return {"delta.checkpointPolicy": "v2"} if request.param == "v2" else {}


def test_where_the_last_row_group_is_damaged_the_checkpoint_is_written_from_the_commits(
    policy: dict[str, str], decoded: list[Any]
) -> None:
    table = table_of(12, **policy)
    first = sidecars(table)
    damaged(table, stored(table))
    with_typed_stats(table)
    decoded.clear()
    opened(table).checkpoint()
    tries = 2 if policy else 1  # a V2 checkpoint has a name for older clients, too
    assert len([columns for columns in decoded if "add.stats" in columns]) == 3 * tries
    assert set(table.store.list_names(SIDECAR_FOLDER)) == first | sidecars(table), "of the first try none"
    whole(table)


def test_where_the_last_row_group_is_damaged_the_checkpoint_is_written_from_an_older_one(
    policy: dict[str, str]
) -> None:
    table = table_of(12, **policy)
    expected = state(opened(table).snapshot)
    with_typed_stats(table)
    opened(table).checkpoint()
    damaged(table, stored(table))
    metadata = opened(table).snapshot.metadata.to_value()
    table.commit({"metaData": {**metadata, "configuration": policy}})
    for version in range(2):
        table.store.delete(commit_name(version))
    opened(table).checkpoint()
    assert opened(table).snapshot.checkpoint_version == 3
    assert state(opened(table).snapshot) == expected


def test_what_was_kept_of_a_checkpoint_is_not_kept_once_it_is_damaged(policy: dict[str, str]) -> None:
    table = table_of(12, **policy)
    first, names = sidecars(table), stored(table)
    damaged(table, names)
    (last,) = open_checkpoint(table.store, names[-1:]).read_adds(["path"])["path"].to_pylist()[-1:]
    table.commit(remove(last, deletionTimestamp=10 * DAY_MS), *files(12, 14))
    hint = opened(table).checkpoint()
    assert hint.num_of_add_files == 13
    assert set(table.store.list_names(SIDECAR_FOLDER)) == first | sidecars(table)
    whole(table)


def test_where_nothing_else_tells_the_files_no_checkpoint_is_written(policy: dict[str, str]) -> None:
    table = table_of(12, **policy)
    (*_, name) = stored(table)
    damaged(table, [name])
    with_typed_stats(table)
    for version in range(2):
        table.store.delete(commit_name(version))
    before = set(table.store.list_names("_delta_log/")) | set(table.store.list_names(SIDECAR_FOLDER))
    with pytest.raises(InvalidTable) as caught:
        opened(table).checkpoint()
    assert caught.value.file == name
    after = set(table.store.list_names("_delta_log/")) | set(table.store.list_names(SIDECAR_FOLDER))
    assert after == before


@pytest.mark.parametrize("wrong", [11, 13])
def test_another_number_of_files_than_the_footers_say_is_damage(wrong: int, policy: dict[str, str]) -> None:
    table = table_of(12, **policy)
    with_typed_stats(table)
    log = opened(table)
    checkpoint = log.snapshot.candidates.parts()[0].layer._source
    checkpoint.__dict__["num_adds"] = wrong
    with pytest.raises(InvalidTable, match=f"it says that it has {wrong} files and has 12"):
        sum(adds.num_rows for adds in checkpoint.stream_adds(["stats"]))
    log.checkpoint()
    whole(table)


# -- V2 checkpoints ----------------------------------------------------------------------------


def checkpoints(table: TableBuilder) -> list[str]:
    return [name for name in table.store.list_names("_delta_log/") if parse_name(name)]


def sidecars(table: TableBuilder) -> set[str]:
    """Those that the newest checkpoint links."""
    segment = opened(table).snapshot._state.checkpoint
    return {sidecar_name(sidecar.path) for sidecar in open_checkpoint(table.store, segment).sidecars}


def test_sidecars_of_which_all_files_stand_are_linked_again(decoded: list[Any]) -> None:
    table = table_of(12, **{"delta.checkpointPolicy": "v2"})
    first = sidecars(table)
    table.commit(remove("f005", deletionTimestamp=10 * DAY_MS), *files(12, 15))
    decoded.clear()
    hint = opened(table).checkpoint()
    assert len([columns for columns in decoded if columns != ("add.path",)]) == 1
    second = sidecars(table)
    assert len(first) == 3 and len(first & second) == 2
    assert len(table.store.list_names(SIDECAR_FOLDER)) == len(first | second), "none was written for nothing"
    assert hint.num_of_add_files == 14
    whole(table)


def test_a_clean_up_keeps_a_sidecar_that_a_kept_checkpoint_links() -> None:
    table = table_of(12, **{"delta.checkpointPolicy": "v2", "delta.logRetentionDuration": "interval 1 days"})
    for version in range(2, 5):
        table.commit(*files(10 + version, 11 + version))
        opened(table).checkpoint()
    written = set(table.store.list_names(SIDECAR_FOLDER))
    with set_options(clock=lambda: 10**15):
        table.commit(*files(40, 41))
        gone = set(opened(table).clean_up())
    assert gone & written == written - sidecars(table) and len(written - gone) >= 3
    assert classic_name(1)[:31] not in {name[:31] for name in table.store.list_names("_delta_log/")}
    assert opened(table).snapshot.files.num_rows == 16


def test_a_sidecar_that_the_newest_checkpoint_does_not_link_is_not_linked_again() -> None:
    table = table_of(12, **{"delta.checkpointPolicy": "v2"})
    first = sidecars(table)
    log = opened(table)
    assert log.snapshot.num_files == 12
    old = checkpoints(table)
    write.write_checkpoint(table.store, without_checkpoints(table))  # another writer's, which keeps nothing
    for name in old:
        table.store.delete(name)
    assert not first & sidecars(table)
    table.commit(*files(12, 13))
    log.checkpoint()
    assert not first & sidecars(table)
    whole(table)


def test_where_a_sidecar_went_while_it_was_linked_the_checkpoint_is_written_anew() -> None:
    class Cleaned(MemoryStore):
        victim = ""

        def put(self, name: str, data: bytes) -> None:
            super().put(name, data)
            if self.victim and name.endswith(".json") and ".checkpoint." in name:
                self.delete(self.victim)

    store = Cleaned()
    table = TableBuilder(store).create("id long", protocol=V2, properties={"delta.checkpointPolicy": "v2"})
    table.commit(*files(0, 12))
    opened(table).checkpoint()
    old = checkpoints(table)
    store.victim = sorted(sidecars(table))[0]
    table.commit(*files(12, 13))
    opened(table).checkpoint()
    for name in old:
        store.delete(name)
    assert store.victim not in sidecars(table)
    tops = [name for name in checkpoints(table) if name.endswith(".json")]
    assert len(tops) == 1, "the one that linked it is gone"
    whole(table)


def test_the_size_and_time_of_a_linked_sidecar_are_those_it_was_written_with() -> None:
    table = table_of(12, **{"delta.checkpointPolicy": "v2"})

    def linked() -> set[Sidecar]:
        checkpoint = opened(table).snapshot._state.checkpoint
        return {(s.path, s.size_in_bytes, s.modification_time)  # type: ignore[misc]
                for s in open_checkpoint(table.store, checkpoint).sidecars}

    before = linked()
    table.commit(*files(12, 13))
    with set_options(clock=lambda: 11 * DAY_MS):
        opened(table).checkpoint()
    assert before < linked()
