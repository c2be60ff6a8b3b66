"""The power fails while a command works in a catalog: what its database says counts, and the files are there.

The database keeps what it has committed, but for what it was told it may lose (``is_durable``); of the
warehouse what was not synced is lost.
"""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.catalog.store.database import Database
from deltanb.options import set_options
from deltanb.transaction.delta_log import DeltaLog
from tests.catalog.struck import BY_NAME, COMMANDS, FIRST, CatalogTrials, broken, opened, world
from tests.examples import crossed
from tests.faults.killed import Killer
from tests.faults.power import Recorder, Tree, build
from tests.faults.trial import drawing

SAMPLE = 5
"""States of a command in a usual run, beside those in which all is lost that may be."""

Rows = dict[str, list[dict[str, Any]]]
pytestmark = pytest.mark.slow


@pytest.fixture
def trials(new_url: Callable[[], str], tmp_path: Path) -> Iterator[CatalogTrials]:
    logging.disable(logging.CRITICAL)
    with set_options(durability="none"):  # but for the command that is recorded
        trials = CatalogTrials(tmp_path, Killer())
        trials.set_up(new_url())
        yield trials
    logging.disable(logging.NOTSET)


class Run:
    """A command that was recorded, and what the database had at each place of the journal."""

    def __init__(self, trials: CatalogTrials, name: str, without: int | None = None) -> None:
        self.trials = trials
        trials.put_back()
        self.recorder = Recorder(trials.folder / "lake", without)
        self.commits: list[tuple[int, bool, Rows]] = [(0, True, trials.rows())]
        write = Database.write

        def noted(database: Database, work: Any, *more: Any, is_durable: bool = True, **most: Any) -> Any:
            result = write(database, work, *more, is_durable=is_durable, **most)
            self.commits.append((len(self.recorder.journal.events), is_durable, trials.rows()))
            return result

        with pytest.MonkeyPatch.context() as patch, self.recorder.inserted():
            patch.setattr(Database, "write", noted)
            with drawing(FIRST), set_options(durability="sync"), opened(trials.folder) as catalog:
                BY_NAME[name].work(catalog)
                report(catalog)
        self.recorder.check()
        self.times = self.recorder.times

    def states(self, chance: random.Random) -> Iterator[tuple[int, Tree, Rows]]:
        """After each operation: some of what the disk may have, and what the database may."""
        journal = self.recorder.journal
        for place in range(journal.is_counted_from, len(journal.events) + 1):
            for tree in journal.states(place, chance, 2):
                yield place, tree, chance.choice(self._possible_states(place))

    def worst(self) -> Iterator[tuple[int, Tree, Rows]]:
        """After each COMMIT: everything uncertain lost."""
        end = len(self.recorder.journal.events), True, self.commits[-1][2]
        for place, _, rows in [*self.commits[1:], end]:
            yield place, next(self.recorder.journal.states(place, random.Random(0), 0)), rows

    def _possible_states(self, place: int) -> list[Rows]:
        """What the database may have by then: all since the last COMMIT that the disk was waited for."""
        states: list[Rows] = []
        for at, is_durable, rows in self.commits:
            if at <= place:
                states = [rows] if is_durable else [*states, rows]
        return states


def report(catalog: dn.Catalog) -> None:
    """Let the catalog know what the command has published, as the next commit of each table does: from then
    on the catalog relies on the folder."""
    for name in catalog.list_tables("shop"):
        row = catalog.store.tables.load(name)
        if row.delta is not None:
            catalog.delta.log(row).commits.published(row.delta.latest)


def complaints(name: str, run: Run, place: int, tree: Tree, rows: Rows) -> list[str]:
    """What is wrong in one state; nothing, if all is well."""
    trials, reference = run.trials, run.trials.reference(name)
    trials.put_back(rows)
    shutil.rmtree(trials.folder / "lake")
    build(tree, trials.folder / "lake", run.times)
    DeltaLog.clear_cache()
    try:
        now = world(trials.catalog)
        has_landed = now == reference.after
        problems = [] if has_landed or now == reference.before else [f"is neither: {now}"]
        if rows == run.commits[-1][2] and not has_landed:
            problems.append("what was acknowledged is gone")
        problems += broken(trials.catalog)
        if not problems:
            problems += trials.goes_on(name, has_landed)
    except Exception as error:
        problems = [f"{type(error).__name__}: {error}"]
    return [f"{name}, power cut after operation {place}: {complaint}" for complaint in problems]


# Others come first in some of them, and are no more recorded than what they find.
ALONE = [command.name for command in COMMANDS if "lost" not in command.name]


@pytest.mark.parametrize(
    ("new_url", "name"), crossed(2, ["sqlite", "postgresql"], ALONE), indirect=["new_url"])
def test_what_was_acknowledged_is_there(
    name: str, trials: CatalogTrials, request: pytest.FixtureRequest
) -> None:
    choice = request.config.getoption("--faults")
    chance = random.Random(0 if choice == "all" else int(choice))
    run = Run(trials, name)
    states = list(run.states(chance))
    if choice != "all":
        states = [*run.worst(), *chance.sample(states, min(SAMPLE, len(states)))]
    problems = [complaint for state in states for complaint in complaints(name, run, *state)]
    assert not problems, "\n".join([f"{len(problems)} in {len(states)} states:", *problems])


def test_each_sync_is_needed(trials: CatalogTrials) -> None:
    """A control: of the data file, of the staged commit, of their folders, and of the log's folder."""
    synced = Run(trials, "append").recorder.synced
    assert len(synced) == 5
    for number, path in enumerate(synced):
        run = Run(trials, "append", without=number)
        problems = [complaint for state in run.worst() for complaint in complaints("append", run, *state)]
        assert problems, f"{number}: {path}"
