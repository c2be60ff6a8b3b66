"""What a stream reads of a table: how far each batch goes, and what stops it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import decode_path
from deltanb.commands.read import stream
from deltanb.commands.read.changes import rows_of
from deltanb.commands.read.stream import Offset, Position, StreamOptions, TableStreamSource
from deltanb.errors import InvalidArgument, MissingChangeData, StreamSourceChanged, VersionNotFound


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "table", {"id": [0]})


def source(table: dn.DeltaTable, **options: Any) -> TableStreamSource:
    return TableStreamSource(table.log, StreamOptions(**options), table.log.update())


def ids(table: dn.DeltaTable, files: list[dict[str, Any]]) -> list[int]:
    """The rows of files, as a reader of the stream's finds them."""
    from deltanb.engines.arrow.data_file import plan, read_data_file

    scan = plan(table.log.update())
    return [n for file in files for batch in read_data_file(scan, file) for n in batch["id"].to_pylist()]


def batches(table: dn.DeltaTable, of: TableStreamSource, start: Offset | None = None) -> list[list[int]]:
    """The rows of each batch until there are none; each offset goes through JSON, as through a checkpoint."""
    at, read = start or of.initial(), []
    while (end := of.latest(at)) != at:
        end = Offset.of(json.loads(json.dumps(end.to_dict())))
        read.append(ids(table, of.files(at, end)))
        at = end
    return read


def test_a_snapshot_comes_first_and_then_each_commit(table: dn.DeltaTable) -> None:
    table.append({"id": [1]})
    reader = source(table)
    start = reader.initial()
    assert start.position == Position(1, False, 0)
    table.append({"id": [2]})
    assert batches(table, reader, start) == [[0, 1, 2]]
    at = reader.latest(start)
    assert reader.latest(at) == at
    table.append({"id": [3]})
    assert batches(table, reader, at) == [[3]]


def test_a_start_that_is_given_comes_first(table: dn.DeltaTable) -> None:
    for n in (1, 2, 3):
        table.append({"id": [n]})
    assert batches(table, source(table, start=2)) == [[2, 3]]
    assert batches(table, source(table, start=0)) == [[0, 1, 2, 3]]
    newest = source(table, start="latest")
    start = newest.initial()
    assert batches(table, newest, start) == []
    table.append({"id": [4]})
    assert batches(table, newest, start) == [[4]]


def test_a_time_is_the_first_version_at_or_after_it(tmp_path: Path) -> None:
    clock = iter(range(1_700_000_000_000, 1_800_000_000_000, 1_000))
    now = [next(clock)]
    with dn.options.set_options(clock=lambda: now[0]):
        on = {"delta.enableInCommitTimestamps": True}
        table = dn.create(tmp_path / "table", {"id": [0]}, properties=on)
        for n in (1, 2):
            now[0] = next(clock)
            table.append({"id": [n]})
    at = "2023-11-14T22:13:{:06.3f}Z".format
    assert batches(table, source(table, timestamp=at(20))) == [[0, 1, 2]]
    assert batches(table, source(table, timestamp=at(20.5))) == [[1, 2]]
    assert batches(table, source(table, timestamp=at(21))) == [[1, 2]]
    assert batches(table, source(table, timestamp="2020-01-01")) == [[0, 1, 2]]
    with pytest.raises(VersionNotFound):
        source(table, timestamp="2030-01-01").initial()


def test_limits_end_a_batch_and_let_one_file_pass(table: dn.DeltaTable) -> None:
    for n in (1, 2, 3, 4):
        table.append({"id": [n]})
    assert batches(table, source(table, max_files=2)) == [[0, 1], [2, 3], [4]]
    assert batches(table, source(table, max_files=2, start=1)) == [[1, 2], [3, 4]]
    assert batches(table, source(table, max_bytes=1)) == [[0], [1], [2], [3], [4]]
    size = table.log.update().files["size"][0].as_py()
    assert batches(table, source(table, max_bytes=2 * size + 1)) == [[0, 1], [2, 3], [4]]
    reader = source(table, max_files=1)
    end = reader.latest(reader.initial(), limited=False)
    assert ids(table, reader.files(reader.initial(), end)) == [0, 1, 2, 3, 4]


def test_a_commit_of_many_files_is_divided(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", "id bigint, p bigint", partition_by="p")
    table.append({"id": list(range(5)), "p": list(range(5))})
    divided = batches(table, source(table, max_files=2, start=1))
    assert [len(batch) for batch in divided] == [2, 2, 1]
    assert sorted(n for batch in divided for n in batch) == list(range(5))


def test_available_now_ends_at_what_is_there(table: dn.DeltaTable) -> None:
    table.append({"id": [1]})
    reader = source(table, max_files=1)
    start = reader.initial()
    reader.stop_at_newest()
    table.append({"id": [2]})
    assert batches(table, reader, start) == [[0], [1]]


def test_a_first_batch_that_is_run_again_reads_the_same_files(table: dn.DeltaTable) -> None:
    first = source(table)
    end = first.latest(first.initial())
    table.append({"id": [1]})
    again = source(table)
    assert again.initial() != first.initial()
    assert ids(table, again.files(again.initial(), end)) == [0]
    assert batches(table, again, end) == [[1]]


def test_commits_that_move_rows_bring_nothing(table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = source(table)
    at = reader.latest(reader.initial())
    table.append({"id": [1]})
    at = reader.latest(at)
    table.optimize()
    table.set_description("moved")
    assert reader.latest(at) == at, "no batch without rows"
    monkeypatch.setattr(stream, "MAX_IDLE_COMMITS", 2)
    assert reader.latest(at).position == Position(4, True, 0), "but it does not stand still for ever"
    table.append({"id": [2]})
    assert batches(table, reader, at) == [[2]]


def test_deletes_and_rewrites_stop_a_stream_unless_its_options_allow(table: dn.DeltaTable) -> None:
    table.append({"id": [1, 2]})
    start = source(table, start="latest").initial()
    table.delete("id = 0")
    table.append({"id": [3]})
    pattern = r"version 2 .*\(DELETE\) deletes rows.*ignoreDeletes"
    with pytest.raises(StreamSourceChanged, match=pattern) as caught:
        batches(table, source(table), start)
    assert caught.value.version == 2
    assert batches(table, source(table, ignore_deletes=True), start) == [[3]]
    assert batches(table, source(table, skip_change_commits=True), start) == [[3]]
    table.update({"id": "10"}, "id = 1")
    table.append({"id": [4]})
    for options in ({}, {"ignore_deletes": True}):
        with pytest.raises(StreamSourceChanged, match="rewrites|deletes"):
            batches(table, source(table, **options), start)
    assert batches(table, source(table, skip_change_commits=True), start) == [[3, 4]]


def test_a_row_deleted_by_a_vector_is_a_rewrite(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [0, 1, 2]}, properties={"delta.enableDeletionVectors": True})
    start = source(table, start="latest").initial()
    table.delete("id = 1")
    with pytest.raises(StreamSourceChanged, match="rewrites"):
        batches(table, source(table, ignore_deletes=True), start)
    assert batches(table, source(table)) == [[0, 2]], "a new stream begins with the rows that are left"


def test_new_columns_stop_a_stream_that_goes_on_when_it_is_started_again(table: dn.DeltaTable) -> None:
    reader = source(table)
    at = reader.latest(reader.initial())
    table.append({"id": [1], "more": [7]}, merge_schema=True)
    with pytest.raises(StreamSourceChanged, match=r"\+ more: .*\n.*same checkpoint"):
        reader.latest(at)
    assert batches(table, source(table), at) == [[1]]
    assert batches(table, source(table, start=0)) == [[0, 1]]


def test_columns_that_changed_their_type_are_told(table: dn.DeltaTable) -> None:
    table.overwrite({"id": ["x"]}, overwrite_schema=True)
    with pytest.raises(StreamSourceChanged, match=r"~ id: .*\n.*startingVersion=1"):
        batches(table, source(table, start=0, skip_change_commits=True))


def test_a_start_that_the_log_no_longer_has_is_told(table: dn.DeltaTable) -> None:
    reader = source(table)
    at = reader.latest(reader.initial())
    for n in range(1, 5):
        table.append({"id": [n]})
    table.log.checkpoint()
    for version in range(3):
        Path(table.path, "_delta_log", f"{version:020}.json").unlink()
    dn.DeltaLog.clear_cache()
    again = dn.open(table.path)
    for start in (source(again, start=1).initial, lambda: source(again).latest(at)):
        with pytest.raises(VersionNotFound, match="cleaned up.*startingVersion=3") as caught:
            start()
        assert caught.value.earliest == 3
    assert batches(again, source(again, start=3)) == [[3, 4]]
    with pytest.raises(VersionNotFound, match="startingVersion=latest"):
        source(again, start=9).initial()


def test_another_table_at_the_path_is_told(table: dn.DeltaTable, tmp_path: Path) -> None:
    reader = source(table)
    at = reader.latest(reader.initial())
    other = dn.create(tmp_path / "other", {"id": [0]})
    with pytest.raises(StreamSourceChanged, match="another table"):
        source(other).latest(at)


def test_the_change_feed_shows_whole_commits(tmp_path: Path) -> None:
    on = {"delta.enableChangeDataFeed": True}
    table = dn.create(tmp_path / "t", {"id": [0, 1], "p": [0, 1]}, partition_by="p", properties=on)
    reader = source(table, changes=True, max_files=1)
    at, changes = reader.initial(), []
    table.update({"id": "id + 10"})
    table.delete("id = 10")
    while (end := reader.latest(at)) != at:
        rows = [row for file in reader.files(at, end) for batch in rows_of(reader.scan, file)
                for row in batch.to_pylist()]
        changes.append(sorted((r["_commit_version"], r["_change_type"], r["id"]) for r in rows))
        at = end
    assert changes == [
        [(0, "insert", 0)], [(0, "insert", 1)],
        [(1, "update_postimage", 10), (1, "update_postimage", 11), (1, "update_preimage", 0),
         (1, "update_preimage", 1)],
        [(2, "delete", 10)]]
    plain = dn.create(tmp_path / "plain", {"id": [0]})
    plain.append({"id": [1]})
    with pytest.raises(MissingChangeData):
        followed = source(plain, changes=True, start=1)
        followed.latest(followed.initial())


@pytest.mark.parametrize(("offset", "pattern"), [
    ({}, "not an offset of a deltanb stream"),
    ({"format": 1, "table": "t"}, "not an offset of a deltanb stream"),
    ({"format": 2, "table": "t", "origin": {}}, "newer one has written it"),
])
def test_offsets_that_are_none_of_ours_are_refused(offset: dict[str, Any], pattern: str) -> None:
    with pytest.raises(InvalidArgument, match=pattern):
        Offset.of(offset)


def test_the_form_of_offsets_does_not_change() -> None:
    """Checkpoints outlive releases: this text is in some of them."""
    text = ('{"format": 1, "table": "t", "origin": {"version": 3, "snapshot": true}, "version": 5, '
            '"snapshot": false, "index": 2}')
    offset = Offset("t", Position(3, False, 0), Position(5, True, 2))
    assert json.dumps(offset.to_dict()) == text and Offset.of(json.loads(text)) == offset


@pytest.mark.parametrize("options", [
    {"start": 1, "timestamp": "2020-01-01"}, {"start": "first"}, {"max_files": 0}, {"max_bytes": 0}], ids=str)
def test_options_that_are_wrong_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        StreamOptions(**options)


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_limits_every_file_comes_once(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    table = dn.create(tmp_path / "t", "id bigint, p bigint", partition_by="p")
    reader = source(table, max_files=chance.randint(1, 3))
    at, seen, count = reader.initial(), [], 0
    for _ in range(12):
        if chance.random() < 0.6:
            number = chance.randint(1, 4)
            table.append({"id": list(range(count, count + number)), "p": list(range(number))})
            count += number
        elif chance.random() < 0.5:
            table.optimize()
        else:
            reader = source(table, max_files=chance.randint(1, 3))  # started again
            at = Offset.of(at.to_dict())
        end = reader.latest(at)
        assert reader.files(at, end) == source(table).files(at, end)
        seen += [decode_path(file["path"]) for file in reader.files(at, end)]
        at = end
    end = reader.latest(at, limited=False)
    seen += [decode_path(file["path"]) for file in reader.files(at, end)]
    assert len(seen) == len(set(seen)) == count


def test_files_of_commits_that_rewrite_are_read_again_where_changes_are_ignored(table: dn.DeltaTable) -> None:
    table.append({"id": [1, 2]})
    table.update({"id": "id + 10"}, where="id = 1")
    table.delete("id = 0")
    table.append({"id": [3]})
    reader = source(table, start=0, ignore_changes=True)
    assert sorted(ids(table, reader.files(reader.initial(), reader.latest(reader.initial())))) == [
        0, 1, 2, 2, 3, 11]


@pytest.mark.parametrize("lost", [(0,), (0, 1), (1,)])
def test_commits_that_the_log_lost_are_passed_over_where_that_is_no_failure(
    table: dn.DeltaTable, lost: tuple[int, ...]
) -> None:
    for n in (1, 2):
        table.append({"id": [n]})
    table.log.checkpoint()
    for version in lost:
        (Path(table.path) / "_delta_log" / f"{version:020}.json").unlink()
    table = dn.open(table.path)
    reader = TableStreamSource(table.log, StreamOptions(0, fail_on_data_loss=False), table.snapshot)
    start = Offset(table.snapshot.metadata.id, Position(0, True, 0), Position(0, True, 0))
    assert sorted(ids(table, reader.files(start, reader.latest(start)))) == [
        n for n in range(3) if n not in lost]
    strict = TableStreamSource(table.log, StreamOptions(0), table.snapshot)
    with pytest.raises(VersionNotFound):
        strict.latest(start)


def test_excluded_files_are_left_out_of_a_batch_whose_end_stays(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [0, 1], "p": ["a", "b"]}, "p")
    table.append({"id": [2], "p": ["a"]})
    for start in (None, 0):
        with_all, without = source(table, start=start), source(table, start=start, exclude="p=a/")
        end = without.latest(without.initial())
        assert end == with_all.latest(with_all.initial())
        assert ids(table, without.files(without.initial(), end)) == [1]
    with pytest.raises(InvalidArgument, match=r"excludeRegex='\(' is not a regular expression"):
        StreamOptions(exclude="(")
