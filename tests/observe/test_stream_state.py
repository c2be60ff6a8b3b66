"""The state of a stream, from what Spark reports and what logs say; no Spark runs here."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.commands.read.stream import Offset, Position
from deltanb.commands.rows.stream import add_batch
from deltanb.commands.rows.write import Batch
from deltanb.errors import StreamSourceChanged
from deltanb.notebook import bundle
from deltanb.observe.stream_state import BatchState, SourceState, StreamState
from deltanb.options import set_options
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog
from tests.notebook.looks import assert_consistent, assert_golden
from tests.notebook.samples import TIME

QUERY = "4a812577-36cc-4dce-a4d2-12161abde8b9"


@pytest.fixture(autouse=True)
def _still() -> None:
    clock(0)


def clock(second: int) -> None:
    """Hold the clock: how often it is read is not what is tested."""
    set_options(clock=lambda: TIME + 1000 * second, user_name="Gyro")


def offset(table: dn.DeltaTable, version: int, after: bool = True, done: int = 0) -> dict[str, Any]:
    """Where a stream of the table stands, as Spark keeps it."""
    origin = Position(0, True, 0)
    return Offset(table.snapshot.metadata.id, origin, Position(version, after, done)).to_dict()


def report(number: int, rows: int, end: Any = None, latest: Any = None, took: int = 90) -> dict[str, Any]:
    """What Spark reports of a batch."""
    source = {"description": "org.apache.spark.PythonMicroBatchStream@4e29bc59", "endOffset": end,
              "latestOffset": latest}
    return {"batchId": number, "numInputRows": rows, "batchDuration": took,
            "sources": [source if end is not None else {"description": "RateStreamV2[rowsPerSecond=1]"}]}


def birds() -> dn.DeltaTable:
    """A table at version 3, a second between its commits."""
    table = dn.create(MemoryStore("memory:///lake/birds"), {"id": [0]})
    for number in range(3):
        clock(number + 1)
        table.append({"id": [number]})
    return table


def flights(batches: int = 2) -> dn.DeltaTable:
    """A table that a stream wrote some batches to, after somebody else."""
    table = dn.create(MemoryStore("memory:///lake/flights"), "id bigint")
    table.append({"id": [7]})
    for number in range(batches):
        clock(10 + number)
        add_batch(table.log, {"id": [1, 2]}, Batch(QUERY, number, "append", name="ducks"))
    return table


def running(table: dn.DeltaTable, *reports: dict[str, Any], **more: Any) -> StreamState:
    status = {"message": "Waiting for data to arrive", "isTriggerActive": False}
    return StreamState.of(table.log, QUERY, name="ducks", is_active=True, status=status, progress=reports,
                          **more)


# -- what it says --------------------------------------------------------------------------------------


def test_a_stream_that_is_behind(update_golden: bool) -> None:
    source, into = birds(), flights()
    ends = [offset(source, version) for version in (1, 2)]
    state = running(into, report(0, 2, ends[0]), report(1, 2, json.dumps(ends[1])))
    assert state.sources == (SourceState("birds", 1, 3, lag=2000),)
    assert state.sources[0].behind == 2
    assert [(each.number, each.rows_in, each.rows_out, each.version) for each in state.batches] == [
        (1, 2, 2, 3), (0, 2, 2, 2)]
    assert (state.num_batches, state.rows_in, state.rows_out) == (2, 4, 4)
    assert state.last_commit is not None and state.last_commit.time == into.history()[0].timestamp
    assert_consistent(state)
    assert_golden(state, "stream", update_golden)
    assert repr(state) == "<StreamState Stream ducks, waiting, into flights>"


def test_a_stream_that_has_everything_says_so() -> None:
    source = birds()
    state = running(flights(1), report(0, 4, offset(source, 4)))
    assert (state.sources[0].behind, state.sources[0].lag) == (0, 0)
    assert "birds  v3 of v3  ✓ has everything" in str(state)
    source.append({"id": [9]})
    assert state.sources[0].newest == 3, "a state is of its moment"
    assert running(flights(1), report(0, 4, offset(source, 4))).sources[0].behind == 1


def test_a_version_that_is_read_in_part_counts_as_behind() -> None:
    source = birds()
    part = running(flights(1), report(0, 1, offset(source, 3, done=2))).sources[0]
    assert (part.read_version, part.behind, part.is_in_snapshot) == (2, 1, False)
    state = running(flights(1), report(0, 1, offset(source, 3, after=False, done=2)))
    assert state.sources[0].is_in_snapshot and state.sources[0].lag is None
    assert "birds  a part of v3 of v3  1 version behind" in str(state)


def test_a_table_that_this_process_has_not_read_is_told_by_what_spark_reports() -> None:
    source = birds()
    end, latest = offset(source, 2), offset(source, 4)
    state = running(flights(1), report(0, 1, end, latest), known=lambda table_id: None)
    short = source.snapshot.metadata.id[:8]
    assert state.sources == (SourceState(f"table {short}", 1, 3),) and state.sources[0].behind == 2
    assert_consistent(state)


def test_of_other_sources_nothing_is_made_up() -> None:
    state = running(flights(1), report(0, 5))
    assert state.sources == (SourceState("RateStreamV2[rowsPerSecond=1]"),)
    assert state.sources[0].behind is None and "behind" not in str(state)
    foreign = running(flights(1), {**report(0, 5), "sources": [
        {"description": "KafkaV2[Subscribe[ducks]]", "endOffset": '{"ducks":{"0":5}}'}]})
    assert foreign.sources[0] == SourceState("KafkaV2[Subscribe[ducks]]")
    assert_consistent(foreign)


def test_a_commit_that_is_gone_leaves_the_time_open() -> None:
    source = birds()
    end = offset(source, 1)
    source.log.checkpoint()
    source.log.store.delete("_delta_log/00000000000000000000.json")
    [only_source] = running(flights(1), report(0, 1, end)).sources
    assert (only_source.behind, only_source.lag) == (3, None)


def test_only_the_batches_of_this_query_count() -> None:
    into = flights(1)
    add_batch(into.log, {"id": [1]}, Batch("adbae903-31f3-45dd-9113-153a1d433a1d", 5, "append"))
    into.append({"id": [1]})
    state = running(into)
    assert [batch.version for batch in state.batches] == [2] and state.num_batches == 1


def test_a_batch_in_the_mode_update_counts_the_rows_it_changed() -> None:
    into = dn.create(MemoryStore("memory:///lake/counts"), {"id": [1, 2], "n": [1, 1]})
    add_batch(into.log, {"id": [2, 3], "n": [5, 5]}, Batch(QUERY, 0, "update"), ["id"])
    assert running(into).batches[0].rows_out == 2


def test_a_report_without_rows_is_no_batch() -> None:
    state = running(flights(1), report(0, 2), report(1, 0))
    assert [batch.number for batch in state.batches] == [0]


def test_a_batch_that_is_not_committed_yet() -> None:
    state = running(flights(1), report(0, 2), report(1, 3))
    assert state.batches[0] == BatchState(1, 3, 90) and state.rows_in == 5 and state.rows_out == 2
    assert "not yet" in str(state)


# -- how it ended --------------------------------------------------------------------------------------


def test_a_stream_that_failed_says_why(update_golden: bool) -> None:
    error = StreamSourceChanged("version 3 of birds deletes rows\nand a second line")
    state = StreamState.of(flights(1).log, QUERY, error=error)
    assert (state.status, state.label) == ("failed", "4a812577")
    assert state.message == "StreamSourceChanged: version 3 of birds deletes rows"
    assert_consistent(state)
    assert_golden(state, "stream_failed", update_golden)


def test_a_stream_that_was_stopped_or_runs() -> None:
    into = flights(0)
    ended = StreamState.of(into.log, QUERY, name="ducks")
    assert str(ended).startswith("Stream ducks  stopped  into flights\nno batch in the table\n")
    active = StreamState.of(into.log, QUERY, is_active=True, status={"isTriggerActive": True, "message": "x"})
    assert (active.status, active.message, active.last_commit) == ("running", "x", None)
    assert_consistent(active)


def test_a_hundred_batches_keep_to_the_limits() -> None:
    into = flights(30)
    state = running(into, *(report(number, 2) for number in range(30)))
    assert "showing 20 of 30 batches" in assert_consistent(state).text
    assert "… " in str(state) and "more batches" in str(state)


def test_names_are_made_safe() -> None:
    state = StreamState.of(flights(1).log, QUERY, name="<b>\n\x1b[31m", is_active=True, progress=[
        {"batchId": 0, "numInputRows": 1, "sources": [{"description": "<script>"}]}])
    assert "<script>" not in bundle.mimebundle(state)["text/html"] and "\x1b" not in str(state)
    assert_consistent(state)


def test_a_table_whose_id_two_logs_have_is_not_guessed(tmp_path: Path) -> None:
    one = dn.create(tmp_path / "one", {"id": [1]})
    table_id = one.snapshot.metadata.id
    assert DeltaLog.known_by_id(table_id) is one.log
    shutil.copytree(tmp_path / "one", tmp_path / "copy")
    copy = dn.open(tmp_path / "copy")
    assert copy.version == 0 and DeltaLog.known_by_id(table_id) is None
