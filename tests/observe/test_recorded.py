"""Which commits a recorder holds: as many as it may, and those that it was asked to read ahead."""

from __future__ import annotations

from typing import Any

import pytest

from deltanb.observe import recorded
from deltanb.observe.recorded import Recorder
from deltanb.testing import MemoryStore, TableBuilder, add

MANY, FEW = 12, 5


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> tuple[Recorder, list[int], dict[int, str]]:
    """A recorder that holds few commits, the versions that it reads one by one, and the names of all."""
    table = TableBuilder(MemoryStore()).create("id long")
    for version in range(1, MANY + 1):
        table.commit(add(f"f{version}"))
    monkeypatch.setattr(recorded, "MAX_COMMITS", FEW)
    log, read = table.log, list[int]()
    one: Any = type(log).read_commit
    monkeypatch.setattr(type(log), "read_commit", lambda self, version: (
        read.append(version), one(self, version))[1])
    return Recorder(log), read, log.commits.names()


def test_what_was_read_ahead_is_held_and_no_more(asked: tuple[Recorder, list[int], dict[int, str]]) -> None:
    recorder, read, names = asked
    for version in range(3):
        recorder.commit(version)
    assert read == [0, 1, 2]
    recorder.read_ahead({version: names[version] for version in range(2, 7)})
    assert [recorder.commit(version).version for version in range(2, 7)] == [2, 3, 4, 5, 6]
    assert read == [0, 1, 2], "they are all held, and 2 was not read again"
    recorder.commit(0)
    assert read == [0, 1, 2, 0], "to hold them, others went"


def test_of_more_than_are_held_the_first_are_read_ahead(
    asked: tuple[Recorder, list[int], dict[int, str]]
) -> None:
    recorder, read, names = asked
    recorder.read_ahead(names)
    assert len(recorder._commits) == FEW
    for version in names:
        recorder.commit(version)
    assert read == list(range(FEW, MANY + 1)) and len(recorder._commits) == FEW
