"""The power fails while a command writes: what was not synced is lost in part or whole, in any order.

A usual run builds some of the states that the disk may come up in, chosen by a seed; ``--faults=all`` builds
many after each operation, ``--faults=7`` chooses others.
"""

from __future__ import annotations

import logging
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

import deltanb as dn
from deltanb.concurrency import background
from deltanb.options import set_options
from deltanb.transaction.delta_log import DeltaLog
from tests.faults import commands
from tests.faults.commands import TABLES, rows
from tests.faults.killed import Killer
from tests.faults.power import Journal, Recorder, Tree, build
from tests.faults.trial import BY_NAME, FIRST, Trials, difference, drawing, world

SAMPLE = 3
"""States of a command in a usual run, beside those in which all is lost that may be."""
BY_CHANCE = 6
"""States by chance after each operation."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="counts on files without a name"),
]


@dataclass
class Run:
    """A command that was recorded, up to a power cut that never came."""

    journal: Journal
    acknowledged: int
    """The place in the journal at which it returned; what follows is work in the background."""
    folder: Path
    """Where it was: a table may name files of another one by their whole paths."""
    times: dict[str, int]
    synced: list[str]
    """What was synced, in order."""


class Cuts:
    """Commands, recorded, and what is wrong in the states that a power cut would have left."""

    def __init__(self, base: Path) -> None:
        self.trials = Trials(base, Killer())

    def run(self, name: str, without: int | None = None) -> Run:
        """Record a command; ``without`` leaves one of its syncs out."""
        command = BY_NAME[name]
        folder = self.trials.folder(command)
        recorder = Recorder(folder, without)
        with recorder.inserted(), drawing(FIRST), set_options(checkpoints="background"):
            times = recorder.times
            with later() as work:
                command.work(folder)
            acknowledged, synced = len(recorder.journal.events), list(recorder.synced)
            for one in work:
                one()
        recorder.check()
        shutil.rmtree(folder)
        return Run(recorder.journal, acknowledged, folder, times, synced)

    def states(self, run: Run, chance: random.Random, more: int) -> Iterator[tuple[int, Tree]]:
        """All states, each after the last operation that may leave it: what is acknowledged counts most."""
        by_tree: dict[frozenset[tuple[str, bytes | None]], tuple[int, Tree]] = {}
        for place in range(run.journal.is_counted_from, len(run.journal.events) + 1):
            for tree in run.journal.states(place, chance, more):
                by_tree[frozenset(tree.items())] = place, tree
        yield from by_tree.values()

    def worst(self, run: Run) -> Iterator[tuple[int, Tree]]:
        """When it returned and when all was done: everything uncertain lost."""
        for place in {run.acknowledged, len(run.journal.events)}:
            yield place, next(run.journal.states(place, random.Random(0), 0))

    def complaints(self, name: str, run: Run, place: int, tree: Tree) -> list[str]:
        """What is wrong in one state; nothing, if all is well."""
        build(tree, run.folder, run.times)
        DeltaLog.clear_cache()
        try:
            problems = list(self._judged(name, run.folder, place >= run.acknowledged))
        except Exception as error:
            problems = [f"{type(error).__name__}: {error}"]
        shutil.rmtree(run.folder)
        return [f"{name}, power cut after operation {place}: {complaint}" for complaint in problems]

    def _judged(self, name: str, folder: Path, is_acknowledged: bool) -> Iterator[str]:
        reference = self.trials.reference(name)
        now = world(folder)
        if now not in reference.worlds:
            yield f"is none of its versions: {difference(reference.worlds, now)}"
            return
        if is_acknowledged and now != reference.worlds[-1]:
            yield "what was acknowledged is gone"
        yield from self.trials.goes_on(name, folder, reference.worlds.index(now))


@contextmanager
def later() -> Iterator[list[Callable[[], object]]]:
    """What commits would have a thread do is gathered here, to be done in order."""
    work: list[Callable[[], object]] = []
    with patch.object(background, "soon", lambda key, name, one, rank=0: work.append(one)):
        yield work


@pytest.fixture(scope="module")
def cuts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuts]:
    logging.disable(logging.CRITICAL)  # torn checksums and hints, each with a warning
    yield Cuts(tmp_path_factory.mktemp("cuts"))
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", [command.name for command in commands.COMMANDS])
def test_what_was_acknowledged_is_there(name: str, cuts: Cuts, request: pytest.FixtureRequest) -> None:
    choice = request.config.getoption("--faults")
    chance = random.Random(f"{choice} {name}")  # at other places in each command
    run = cuts.run(name)
    states = list(cuts.states(run, chance, BY_CHANCE))
    if choice != "all":
        states = [*cuts.worst(run), *chance.sample(states, min(SAMPLE, len(states)))]
    complaints = [complaint for state in states for complaint in cuts.complaints(name, run, *state)]
    assert not complaints, "\n".join([f"{len(complaints)} in {len(states)} states:", *complaints])


def test_what_an_append_waits_for(cuts: Cuts) -> None:
    """Its data file and the folder of that, then the commit and the log's: nothing twice, and no more."""
    waited = [os.path.split(path) for path in cuts.run("append, identity").synced]
    assert [os.path.join(folder, os.path.splitext(name)[1] or name) for folder, name in waited] == [
        "table/.parquet", "table", "table/_delta_log/?", "table/_delta_log"]


def test_a_checkpoint_and_a_checksum_are_waited_for_by_nobody(cuts: Cuts) -> None:
    for name in ("append, checkpoint", "append, V2 checkpoint"):
        run = cuts.run(name)
        assert len(run.synced) == 4, run.synced
        assert len(run.journal.events) > run.acknowledged


def test_a_commit_that_came_before_the_sync_of_another_writers_folder(cuts: Cuts, tmp_path: Path) -> None:
    """The next writer's turn begins before the folder is synced; its own sync counts for both.

    Until then neither is acknowledged, and the second one is never there without the first.
    """
    TABLES["flat"](tmp_path)
    first, second = dn.open(tmp_path / "table"), dn.open(tmp_path / "table")
    recorder = Recorder(tmp_path, without=3)  # the folder of the first one's commit
    with recorder.inserted():
        first.append(rows(7))
        begun = len(recorder.journal.events)
        second.append(rows(8))
    journal, outcomes = recorder.journal, set()
    for place in range(begun, len(journal.events) + 1):
        for tree in [*journal.in_order(place), next(journal.states(place, random.Random(0), 0))]:
            table = opened(tree, tmp_path / "after", recorder.times)
            outcomes.add((place == len(journal.events), table.version, table.to_arrow().num_rows))
            shutil.rmtree(tmp_path / "after")
    assert outcomes == {(False, 2, 6), (False, 3, 7), (False, 4, 8), (True, 4, 8)}


def opened(tree: Tree, folder: Path, times: dict[str, int]) -> dn.DeltaTable:
    """The table that comes up."""
    build(tree, folder, times)
    DeltaLog.clear_cache()
    return dn.open(folder / "table")


# -- controls: a sync that is left out must be missed -----------------------------------------------


@pytest.mark.parametrize("name", ["append", "delete by vector", "create, empty"])
def test_each_sync_is_needed(name: str, cuts: Cuts) -> None:
    for number, path in enumerate(cuts.run(name).synced):
        run = cuts.run(name, without=number)
        states = list(cuts.worst(run))
        assert any(cuts.complaints(name, run, *state) for state in states), f"{number}: {path}"
