"""What is in a commit: its actions sorted into what they do, and where they are read."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, InvalidTable, TableNotFound, VersionNotFound
from deltanb.log import history
from deltanb.log.commit_content import CommitContent
from deltanb.log.commits import commit_name
from deltanb.log.history import HistoryEntry, commit
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog


def ducks(**properties: str) -> Any:
    """Version 0 has two files of two rows each, version 1 loses a row, version 2 has one file for both."""
    table = dn.create(MemoryStore("memory:///lake/ducks"), {"id": [1, 2], "day": ["a", "a"]},
                      partition_by=["day"], properties=properties)
    table.append({"id": [3, 4], "day": ["b", "b"]})
    table.delete("id = 1")
    return table


def lines(*actions: dict[str, Any]) -> bytes:
    return b"\n".join(json.dumps(action).encode() for action in actions)


def test_files_are_sorted_into_what_came_and_what_went() -> None:
    table = ducks()
    entry = commit(table.log, 2)
    assert (entry.version, entry.operation) == (2, "DELETE")
    assert [action.key for action in entry.actions] == ["commitInfo", "remove", "add"]
    assert [file.num_records for file in entry.added] == [1]
    assert [file.partition_values for file in entry.removed] == [{"day": "a"}]
    assert entry.content.counts == {"commitInfo": 1, "remove": 1, "add": 1}
    assert (entry.content.sums["added"].files, entry.content.sums["added"].rows) == (1, 1)
    assert entry.content.masked == ()


def test_a_file_with_another_deletion_vector_came_and_went_in_place() -> None:
    content = commit(ducks(**{"delta.enableDeletionVectors": "true"}).log, 2).content
    assert (content.added, content.removed) == ((), ())
    [(was, now)] = content.masked
    assert was.path == now.path and was.deletion_vector is None and now.deletion_vector.cardinality == 1


def test_sums_are_unknown_where_one_file_does_not_say() -> None:
    add = {"path": "a", "partitionValues": {}, "size": 5, "modificationTime": 1, "dataChange": True}
    content = CommitContent(lines({"add": {**add, "stats": '{"numRecords":3}'}},
                                  {"add": {**add, "path": "b"}},
                                  {"remove": {"path": "c", "dataChange": True}}))
    assert (content.sums["added"].size, content.sums["added"].rows) == (10, None)
    assert (content.sums["removed"].files, content.sums["removed"].size) == (1, None)


def test_lines_are_those_of_the_log() -> None:
    table = ducks()
    written = table.log.store.read(commit_name(0))
    entry = commit(table.log, 0)
    assert b"\n".join(entry.content.lines) == written.strip()
    assert len(entry.content.lines) == len(entry.actions)
    assert {action.key for action in entry.content.others} == {"metaData", "protocol"}


@pytest.mark.parametrize("version", [-1, 3, 10**12])
def test_a_commit_that_is_not_there_is_refused_with_those_that_are(version: int) -> None:
    with pytest.raises(VersionNotFound, match=r"has no commit -?\d+: those in the log are 0 to 2") as caught:
        commit(ducks().log, version)
    assert (caught.value.earliest, caught.value.latest) == (0, 2)


def test_a_table_that_stands_at_a_version_has_no_later_commits() -> None:
    log = ducks().log
    assert commit(log, 1, newest=1).version == 1
    with pytest.raises(VersionNotFound, match="those in the log are 0 to 1"):
        commit(log, 2, newest=1)


@pytest.mark.parametrize("version", [True, "1", None, 1.0])
def test_what_is_no_version_is_refused(version: Any) -> None:
    with pytest.raises(InvalidArgument, match="commit takes a version"):
        commit(ducks().log, version)


def test_a_table_gives_its_commits_and_one_of_the_past_those_of_its_past() -> None:
    table = ducks()
    assert [action.key for action in table.commit(2).actions] == ["commitInfo", "remove", "add"]
    assert table.as_of(1).commit(1).operation == "WRITE"
    with pytest.raises(VersionNotFound, match="those in the log are 0 to 1"):
        table.as_of(1).commit(2)


def test_without_a_table_there_is_no_commit() -> None:
    with pytest.raises(TableNotFound):
        commit(DeltaLog.for_table(MemoryStore()), 0)


# -- out of a history ----------------------------------------------------------------------------


def test_one_commit_of_a_history_has_its_actions_and_a_walk_reads_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = ducks()
    entries = table.history()
    one = entries[0]
    assert one.known_content is not None and one.version == 2
    monkeypatch.setattr(table.log.store, "read", lambda *_: pytest.fail("something is read"))
    assert [entry.version for entry in entries] == [2, 1, 0]
    assert [entry.version for entry in reversed(entries)] == [0, 1, 2]
    assert all(entry.known_content is None for entry in entries)  # they keep no memory
    assert one == next(iter(entries))
    assert len(one.actions) == 3


def test_a_commit_of_a_walk_reads_its_actions_when_asked() -> None:
    oldest = list(ducks().history())[-1]
    assert [action.key for action in oldest.actions] == ["commitInfo", "metaData", "protocol", "add"]
    assert oldest.known_content is not None


def test_the_actions_of_a_large_commit_wait_until_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = ducks().history()
    monkeypatch.setattr(history, "MAX_AT_ONCE", 10)
    assert entries[0].known_content is None
    assert len(entries[0].actions) == 3


def test_a_commit_that_was_cleaned_up_or_damaged_says_so_when_asked() -> None:
    table = ducks()
    entries = table.history()
    table.log.store.delete(commit_name(2))
    gone = entries[0]
    assert gone.known_content is None
    with pytest.raises(VersionNotFound, match="no longer has commit 2"):
        _ = gone.actions
    table.log.store.put(commit_name(2), b'{"add":')
    with pytest.raises(InvalidTable, match="line 1"):
        _ = entries[0].actions


def test_a_commit_made_by_hand_has_no_log() -> None:
    with pytest.raises(VersionNotFound, match=r"Ask the table: table\.commit\(3\)"):
        _ = HistoryEntry(3, 0).actions


def test_a_commit_travels_without_its_log() -> None:
    entry = ducks().history()[0]
    back = pickle.loads(pickle.dumps(entry))
    assert back == entry and back.known_content is None
