"""Trials: a command on a table of its own, one file operation of it struck, and what is there afterwards.

What lives here: :class:`Trials`, and with it the law (:meth:`Trials.complaints`). The table is what it was,
or what the command makes of it when nothing happens, and nothing between; what was said of it is true; no
file is left that no version names; and the table goes on.
What it does not know: which commands there are, and how operations are struck.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import deltanb as dn
from deltanb.actions import decode_path
from deltanb.engines.arrow.deletion_vectors import relative_path
from deltanb.engines.arrow.write import SPARK_FOLDER
from deltanb.errors import CommitOutcomeUnknown, DeltaError
from deltanb.options import SeededIds, set_options
from deltanb.transaction import ids
from deltanb.transaction.delta_log import DeltaLog
from tests.faults.commands import COMMANDS, ON_SPARK, TABLES, Command
from tests.faults.disk import CHANGING, Disk, Done, Strike
from tests.faults.killed import Killer
from tests.faults.tables import State, files, state

World = dict[str, State]
NAMES = ("table", "clone")
BY_NAME = {command.name: command for command in [*COMMANDS, *ON_SPARK]}
SAMPLE, SAMPLE_AT_COMMITS = 3, 4
"""Strikes tried of each command in a usual run: 16 take about a second. Of those at its commits each of the
80 commands has others, so that all that can happen there happens."""
FIRST, SECOND = 1, 2
"""Seeds of ids: of the run that is struck, like the one that is not, and of the run after it."""
LEFT_ON_PURPOSE = re.compile(
    r"_delta_log/(\d{20}(\.\d{20}\.compacted)?\.(json|crc)|\d{20}\.checkpoint.*\.(parquet|json)"
    r"|_sidecars/[^/.]+\.parquet|_last_checkpoint|_last_vacuum_info)|_symlink_format_manifest/(.*/)?manifest")
"""What VACUUM leaves beside the files of a version."""


@dataclass(frozen=True)
class Reference:
    """A command that nothing happened to."""

    done: list[Done]
    """Its file operations."""
    worlds: list[World]
    """What was before it, then after each of its commits."""
    before: set[str]
    after: set[str]
    """The files there were."""

    def strikes(self) -> list[Strike]:
        """Everything that can happen to it."""
        return [Strike(place, *happening) for place, operation in enumerate(self.done)
                for happening in operation.strikes]

    def some_strikes(self, seed: str) -> list[Strike]:
        """A few of those that can happen where a version comes to be, and of the others."""
        at_commit, others = [], []
        for strike in self.strikes():
            (at_commit if self.done[strike.place].is_commit else others).append(strike)
        chance = random.Random(seed)
        return (chance.sample(at_commit, min(SAMPLE_AT_COMMITS, len(at_commit)))
                + chance.sample(others, min(SAMPLE, len(others))))


@dataclass
class Outcome:
    """How a command ended."""

    value: Any = None
    error: BaseException | None = None
    is_killed: bool = False
    struck: Done | None = None
    fault: str = ""

    @property
    def has_returned(self) -> bool:
        return self.error is None and not self.is_killed


@dataclass
class Trials:
    """Trials in a folder of their own, with the tables and the references that they share."""

    base: Path
    killer: Killer
    references: dict[str, Reference] = field(default_factory=dict)
    count: int = 0

    def reference(self, name: str) -> Reference:
        """The command, undisturbed, on the table it finds; run once."""
        if name not in self.references:
            command = BY_NAME[name]
            folder = self.folder(command)
            before, files_before = world(folder), files(folder)
            disk = Disk(folder)
            with disk.inserted(), drawing(FIRST):
                command.work(folder)
            made = {operation.name for operation in disk.done if operation.kind in CHANGING}
            assert files(folder) - files_before <= made, "files came to be that no counted operation made"
            worlds = [before, *self._versions(command, folder, before)]
            self.references[name] = Reference(disk.done, worlds, files_before, files(folder))
            shutil.rmtree(folder)
        return self.references[name]

    def _versions(self, command: Command, folder: Path, before: World) -> Iterator[World]:
        """The world after each commit."""
        old, new = before[command.target], state(folder / command.target)
        first = -1 if old is None else old["version"]
        assert new is not None
        for version in range(first + 1, new["version"] + 1):
            yield {**before, command.target: state(folder / command.target, version)}

    def folder(self, command: Command) -> Path:
        """A fresh folder with the table that a command finds."""
        made = self.base / "made" / command.finds
        if not made.exists():
            made.mkdir(parents=True)
            with drawing(FIRST + SECOND):
                TABLES[command.finds](made)
        self.count += 1
        folder = self.base / str(self.count)
        shutil.copytree(made, folder)
        return folder

    # -- one trial -------------------------------------------------------------------------------

    def complaints(self, name: str, strike: Strike) -> list[str]:
        """What is wrong after a strike; nothing, if all is well."""
        command, reference = BY_NAME[name], self.reference(name)
        folder = self.folder(command)
        if strike.fault == "kill":
            code = self.killer.run(name, folder, strike)
            outcome = Outcome(is_killed=True, struck=reference.done[strike.place])
            problems = [] if code == -9 else [f"ended with exit code {code}, not killed"]
        else:
            outcome = run(name, folder, strike)
            problems = [] if outcome.struck else ["never got as far"]
        DeltaLog.clear_cache()
        try:
            problems += self._judged(command, reference, outcome, folder)
        except Exception as error:
            problems.append(f"afterwards {type(error).__name__}: {error}")
        shutil.rmtree(folder)
        struck = outcome.struck or reference.done[strike.place]
        return [f"{name}, {strike} ({struck.kind} {struck.name}): {complaint}" for complaint in problems]

    def _judged(
        self, command: Command, reference: Reference, outcome: Outcome, folder: Path
    ) -> Iterator[str]:
        now = world(folder)
        if now not in reference.worlds:
            yield f"is none of its versions: {difference(reference.worlds, now)}"
            return
        place, last = reference.worlds.index(now), len(reference.worlds) - 1
        yield from truth(outcome, place, last, now[command.target])
        on_disk = files(folder)
        gone = (reference.before & reference.after) - on_disk
        if gone:
            yield f"files are gone: {sorted(gone)}"
        if not outcome.is_killed:
            yield from strays(reference, outcome, place, on_disk)
        yield from self.goes_on(command.name, folder, place)

    def goes_on(self, name: str, folder: Path, place: int) -> Iterator[str]:
        """Run again what was not done, commit to what was, and sweep up."""
        command, reference = BY_NAME[name], self.reference(name)
        if place == 0:
            with drawing(SECOND):
                command.work(folder)
            again = world(folder)
            if again != reference.worlds[-1]:
                yield f"run again: {difference(reference.worlds[-1:], again)}"
        table = dn.open(folder / command.target)
        version, rows = table.version, table.to_arrow()
        if table.set_description("goes on") != version + 1:
            yield "the next commit is not the next version"
        table.vacuum(0, check=False)
        if DeltaLog(table.log.store).snapshot.num_files != table.snapshot.num_files or (
                table.to_arrow().num_rows != rows.num_rows):
            yield "a vacuum took files that are needed"
        left = files(folder / command.target) - named(table)
        left = {name for name in left if not LEFT_ON_PURPOSE.fullmatch(name)}
        if left:
            yield f"a vacuum leaves {sorted(left)}"


def truth(outcome: Outcome, place: int, last: int, state: State) -> Iterator[str]:
    """Whether what was said of the command is so; ``place`` is how many of its ``last`` commits are there."""
    error = outcome.error
    if outcome.has_returned:
        if place != last:
            yield f"returned, with {place} of {last} commits there"
        version = getattr(outcome.value, "version", outcome.value)
        if last and isinstance(version, int) and state is not None and version != state["version"]:
            yield f"returned version {version}, and version {state['version']} is there"
    elif isinstance(error, KeyboardInterrupt):
        notes = " ".join(getattr(error, "__notes__", ()))
        if last == 1 and place == 1 and not re.search(rf"version {state and state['version']}\b", notes):
            yield f"interrupted after its commit, without a word of it: {notes!r}"
        if last == 1 and place == 0 and "committed" in notes:
            yield f"interrupted before its commit, and says otherwise: {notes!r}"
    elif isinstance(error, CommitOutcomeUnknown):
        if not (outcome.struck and outcome.struck.is_commit):
            yield f"outcome unknown, where no version was asked for: {error}"
    elif isinstance(error, DeltaError):
        if last == 1 and place == 1:
            yield f"refused, and yet it is there: {type(error).__name__}: {error}"
    elif error is not None:
        yield f"raised {type(error).__name__}: {error}"


def strays(
    reference: Reference, outcome: Outcome, place: int, on_disk: set[str]
) -> Iterator[str]:
    """Files that a command left and no version names."""
    allowed = set(reference.before)
    if place > 0 or len(reference.worlds) == 1 or isinstance(outcome.error, CommitOutcomeUnknown):
        allowed |= reference.after
    if outcome.fault == "EROFS":  # nothing can be removed either
        return
    left = {name for name in on_disk - allowed if not is_kept_by_disk(name, outcome.struck)}
    if left:
        yield f"leaves {sorted(left)}"


def is_kept_by_disk(name: str, struck: Done | None) -> bool:
    """Whether a file is still there because it, or the folder it lies in, was struck as it was removed."""
    if struck is None:
        return False
    folder, spark, _ = struck.name.partition(f"/{SPARK_FOLDER}")
    if spark:
        return name.startswith(folder + spark)
    return struck.kind == "unlink" and name == struck.name


def named(table: Any) -> set[str]:
    """The files that the newest version names, below the table."""
    paths = set()
    for row in table.snapshot.files.select(["path", "deletion_vector"]).to_pylist():
        paths.add(decode_path(row["path"]))
        vector = row["deletion_vector"]
        if vector is not None and vector["storage_type"] == "u":
            paths.add(relative_path(vector["path_or_inline_dv"]))
    return paths


def difference(worlds: list[World], now: World) -> str:
    """In what a state is otherwise than the one closest to it."""

    def parts(world: World) -> Iterator[str]:
        for name in NAMES:
            one, other = world[name], now[name]
            if one is None or other is None:
                if one is not other:
                    yield f"{name} {'is missing' if other is None else 'is there'}"
                continue
            yield from (f"{key}: {str(other[key])[:200]} instead of {str(one[key])[:200]}"
                        for key in one if one[key] != other[key])

    return "; ".join(min((list(parts(one)) for one in worlds), key=len))


def world(folder: Path) -> World:
    """All tables of a folder."""
    return {name: state(folder / name) for name in NAMES}


def run(name: str, folder: Path, strike: Strike) -> Outcome:
    """Run a command in this process."""
    disk = Disk(folder, strike)
    outcome = Outcome()
    try:
        outcome.value = run_struck(name, folder, strike, disk)
    except (Exception, KeyboardInterrupt) as error:
        outcome.error = error
    outcome.struck, outcome.fault = disk.struck, strike.fault
    return outcome


@contextmanager
def drawing(seed: int) -> Iterator[None]:
    """A block whose files have the names that they have in every run, those that no option seeds included.

    No place is one that this process has made: a second run there would draw other ids.
    """
    with set_options(new_id=SeededIds(seed)), mock.patch.object(ids, "_places", OrderedDict()), \
            mock.patch.object(os, "urandom", random.Random(seed).randbytes):
        yield


def run_struck(name: str, folder: Path, strike: Strike, disk: Disk | None = None) -> Any:
    """Run a command, one of its operations struck."""
    with (disk or Disk(folder, strike)).inserted(), drawing(FIRST):
        return BY_NAME[name].work(folder)

