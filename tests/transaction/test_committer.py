"""A transaction commits through whatever committer its log has: here a dict of versions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from deltanb.actions import Action, AddFile, Metadata
from deltanb.errors import MetadataChangedException, StorageError
from deltanb.options import set_options
from deltanb.testing import MemoryStore, TableBuilder, add, to_lines
from deltanb.transaction.committer import FolderCommitter
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.steps import Winner
from deltanb.transaction.transaction import OptimisticTransaction

FILE = AddFile(path="a", partition_values={}, size=1, modification_time=1)
Reply = Callable[[dict[int, bytes], int, bytes], Any]


class Shelf:
    """A committer whose commits are a dict; ``script`` has what the next puts do, all others are honest."""

    is_final = True

    def __init__(self) -> None:
        self.commits: dict[int, bytes] = {}
        self.script: list[Reply] = []
        self.puts: list[tuple[int, Sequence[Action]]] = []
        self.asked: list[str] = []
        self.published: list[int] = []

    def put(self, version: int, body: bytes, actions: Sequence[Action]) -> Any:
        self.puts.append((version, actions))
        if self.script:
            return self.script.pop(0)(self.commits, version, body)
        return self.commits.setdefault(version, body) is body

    def read(self, version: int) -> Winner | None:
        self.asked.append("read")
        return Winner.of(version, self.commits.get(version))

    def publish(self, version: int) -> None:
        self.published.append(version)


def lost_answer(commits: dict[int, bytes], version: int, body: bytes) -> None:
    commits[version] = body
    raise OSError("connection reset")


def begin() -> tuple[OptimisticTransaction, Shelf]:
    """A transaction on version 0 of a table, and where it commits."""
    shelf = Shelf()

    def make(log: Any, snapshot: Any) -> Shelf:
        return shelf

    store = TableBuilder(MemoryStore()).create("id long").store
    return DeltaLog(store, committer=make).start_transaction(), shelf


def test_a_commit_is_put_and_published() -> None:
    txn, shelf = begin()
    assert txn.commit([FILE], "WRITE") == 1
    [(version, actions)] = shelf.puts
    assert shelf.commits == {1: to_lines(actions)} and version == 1 and actions[1] == FILE
    assert shelf.published == [1]
    assert txn.log.store.status("_delta_log/00000000000000000001.json") is None
    assert txn.log.snapshot.version == 1


def test_a_lost_race_is_judged_and_the_next_version_put() -> None:
    txn, shelf = begin()
    shelf.commits[1] = to_lines([add("b")])
    assert txn.commit([FILE], "WRITE") == 2
    assert [lost.winner.adds[0].path for lost in txn.attempts] == ["b"] and shelf.published == [2]


def test_a_winner_that_contradicts_ends_the_commit() -> None:
    txn, shelf = begin()
    shelf.commits[1] = to_lines([Metadata(id="x", schema_string='{"type":"struct","fields":[]}')])
    with pytest.raises(MetadataChangedException):
        txn.commit([FILE], "WRITE")
    assert list(shelf.commits) == [1] and shelf.published == [] and txn.status == "failed"


def test_a_put_whose_answer_was_lost_is_found() -> None:
    txn, shelf = begin()
    shelf.script = [lambda commits, version, body: commits.update({version: body})]
    assert txn.commit([FILE], "WRITE") == 1
    assert (len(shelf.puts), shelf.asked, shelf.published) == (1, ["read"], [1])


def test_a_winner_whose_texts_hold_separators_of_lines_is_read() -> None:
    """U+2028 ends a line to Python's str.splitlines, and none to JSON."""
    txn, shelf = begin()
    shelf.commits[1] = '{"add":{"path":"b\u2028c","partitionValues":{},"size":1}}\n'.encode()
    assert txn.commit([FILE], "WRITE") == 2
    assert [lost.winner.adds[0].path for lost in txn.attempts] == ["b\u2028c"]


def test_a_put_that_raises_after_it_has_landed_is_found() -> None:
    txn, shelf = begin()
    shelf.script = [lost_answer]
    assert txn.commit([FILE], "WRITE") == 1 and list(shelf.commits) == [1]


def test_a_put_that_nobody_knows_of_and_that_is_not_there_is_made_again() -> None:
    txn, shelf = begin()
    shelf.script = [lambda commits, version, body: None]
    with set_options(backoff=lambda attempt: 0.0):
        assert txn.commit([FILE], "WRITE") == 1
    assert [version for version, _ in shelf.puts] == [1, 1]


def test_a_refused_put_ends_the_commit() -> None:
    txn, shelf = begin()
    shelf.script = [lambda commits, version, body: StorageError("the catalog is read-only")]
    with pytest.raises(StorageError, match="read-only"):
        txn.commit([FILE], "WRITE")
    assert txn.status == "failed" and txn.has_surely_not_landed and shelf.commits == {}


@pytest.mark.parametrize("records", [True, False], ids=["by its id", "by its actions"])
@pytest.mark.parametrize(("lands", "status"), [
    ("this", "committed"), ("another", "abandoned"), ("none", "abandoned")])
def test_what_became_of_an_interrupted_put_is_asked_of_the_committer(
    records: bool, lands: str, status: str
) -> None:
    def interrupt(commits: dict[int, bytes], version: int, body: bytes) -> None:
        commits.update({"this": {version: body}, "another": {version: to_lines([add("b")])}}.get(lands, {}))
        raise KeyboardInterrupt

    with set_options(commit_info=records):
        txn, shelf = begin()
        shelf.script = [interrupt]
        with pytest.raises(KeyboardInterrupt):
            txn.commit([FILE], "WRITE")
    assert (txn.status, shelf.asked) == (status, ["read"])
    if lands == "this":
        assert txn.committed is not None and txn.committed.actions == shelf.puts[0][1]


def test_a_commit_stands_where_it_cannot_be_published(caplog: pytest.LogCaptureFixture) -> None:
    txn, shelf = begin()

    def fails(version: int) -> None:
        raise StorageError("the folder is read-only")

    shelf.publish = fails  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING):
        assert txn.commit([FILE], "WRITE") == 1
    assert "Version 1 is committed and not published yet: the folder is read-only" in caplog.text
    assert txn.status == "committed"


def test_a_log_may_say_itself_where_commits_go() -> None:
    class Counted(DeltaLog):
        made = 0

        def committer(self, snapshot: Any) -> Any:
            self.made += 1
            return super().committer(snapshot)

    log = Counted(TableBuilder(MemoryStore()).create("id long").store)
    assert log.start_transaction().commit([FILE], "WRITE") == 1
    assert log.made > 0 and isinstance(log.committer(log.snapshot), FolderCommitter)
