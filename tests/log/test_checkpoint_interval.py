"""How many versions lie between two checkpoints: what the table says, else by its size."""

from __future__ import annotations

import logging
from itertools import pairwise

import pytest

from deltanb.actions import AddFile
from deltanb.log.checkpoint.interval import BY_FILES, LARGEST, LEAST, PROPERTY, interval
from deltanb.log.reader import LogReader
from deltanb.options import set_options
from deltanb.schema import properties
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.commit_stats import CommitStats
from deltanb.transaction.delta_log import DeltaLog

MANY = 10_000_000
"""Versions of a table whose commits add a file or two each."""


@pytest.mark.parametrize(("files", "apart"), [
    (0, 50), (10_000, 50), (10_001, 100), (100_000, 100), (100_001, 500), (1_000_000, 500),
    (1_000_001, 1_000), (100_000_000, 1_000)])
def test_the_interval_follows_the_number_of_files(files: int, apart: int) -> None:
    assert interval({}, files, MANY) == apart


@pytest.mark.parametrize(("added", "apart"), [
    (1, 500), (19, 500), (20, 100), (99, 100), (100, 50), (1_000, 10)])
def test_commits_of_many_files_count_as_several(added: int, apart: int) -> None:
    files = 1_000_000
    assert interval({}, files, files // added - 1) == apart


def test_each_interval_is_a_multiple_of_the_one_before() -> None:
    steps = [LEAST, *(apart for _, apart in BY_FILES), LARGEST]
    assert all(after % before == 0 for before, after in pairwise(steps))


@pytest.mark.parametrize("name", ["delta.checkpointInterval", "DELTA.checkpointinterval"])
@pytest.mark.parametrize("files", [0, 50_000_000])
def test_what_the_table_says_wins(name: str, files: int) -> None:
    assert interval({name: "3"}, files, 1) == 3


def test_a_small_table_has_a_checkpoint_at_version_50_and_listeners_are_told_so() -> None:
    heard: list[CommitStats] = []
    log = DeltaLog(TableBuilder(MemoryStore()).create("id long").store)
    with set_options(commit_listeners=[heard.append]):
        for number in range(51):
            log.start_transaction().commit([AddFile(path=f"f{number}", partition_values={}, size=1)], "WRITE")
    assert [stats.commit_version for stats in heard if stats.checkpoint_attempt] == [50]
    names = log.store.list_names("_delta_log/")
    assert [name for name in names if "checkpoint." in name] == [f"_delta_log/{50:020d}.checkpoint.parquet"]
    assert LogReader(log.store).snapshot.checkpoint_version == 50


@pytest.mark.parametrize("configuration", [{}, {"delta.checkpointInterval": "7"}, {"mine": "1"}])
def test_the_number_that_is_shown_is_the_one_that_decides(configuration: dict[str, str]) -> None:
    """``properties.get`` has a number only where the table names one, and then it is that of the snapshot."""
    snapshot = TableBuilder(MemoryStore()).create("id long", properties=configuration).log.update()
    apart = snapshot.checkpoint_interval
    assert [version for version in range(2 * apart + 1) if snapshot.needs_checkpoint(version)] == [
        apart, 2 * apart]
    assert properties.get(configuration, PROPERTY) == (apart if PROPERTY in configuration else None)


def test_an_interval_that_cannot_be_read_fails_no_commit(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[CommitStats] = []
    table = TableBuilder(MemoryStore()).create("id long", properties={"delta.checkpointInterval": "1p00"})
    with set_options(commit_listeners=[heard.append]), caplog.at_level(logging.ERROR, "deltanb.transaction"):
        new = AddFile(path="f", partition_values={}, size=1)
        assert table.log.start_transaction().commit([new], "WRITE") == 1
    assert [(stats.outcome, stats.checkpoint_attempt) for stats in heard] == [("committed", False)]
    assert "table property delta.checkpointInterval = '1p00'" in caplog.text


def test_the_files_of_a_checkpoint_are_counted_without_a_look_at_them() -> None:
    table = TableBuilder(MemoryStore()).create("id long").commit(*(add(f"f{n}") for n in range(30)))
    table.log.checkpoint()
    snapshot = LogReader(table.commit(add("g")).store).snapshot
    layer = snapshot.candidates.parts()[0].layer
    assert snapshot.needs_checkpoint(50) and not snapshot.needs_checkpoint(20)
    assert snapshot.about_num_files == 31 and not layer._columns, "a column of the checkpoint was read"
