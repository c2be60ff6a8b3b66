"""The verification of a table: one walk through its log, then its files.

What lives here: :func:`verify`, where the walk begins, what is asked at each commit, and the bound of what is
listed.
What it does not know: what any finding means (``kinds``).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from deltanb.commands.define.place import no_table
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log.commits import LOG_FOLDER, STAGED_FOLDER, commit_name
from deltanb.log.lines import explain
from deltanb.observe.verify import kinds, storage
from deltanb.observe.verify.derived import Derived
from deltanb.observe.verify.files import apply_files
from deltanb.observe.verify.isolation import Isolation
from deltanb.observe.verify.metadata import check_commit
from deltanb.observe.verify.report import BlindSpot, Cycle, Finding, Verification
from deltanb.observe.verify.state import Commit, LogState
from deltanb.text.progress import progress
from deltanb.text.safe_text import last_part
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.store.base import LogStore

FILES = ("none", "sample", "all")
MAX_OF_KIND = 100
"""Findings of one kind that are listed; of more only the number is given."""


@answer_wrong_arguments()
def verify(
    path: str | os.PathLike[str] | LogStore, start: int | None = None, end: int | None = None,
    files: str = "sample", *, storage_options: Mapping[str, Any] | None = None,
) -> Verification:
    """Go through the log of the table at a path and say what is wrong with it; nothing is written.

    Unlike ``dn.open(path).verify()`` it takes a table that is too damaged to be opened.

    Args:
        path: a folder, a URI, or a store, whoever writes the table there.
        start, end: the first and the last version to look at; all that the log has unless given.
        files: ``none`` looks at the log alone; ``sample`` lists the folder and reads the footers of some data
            files; ``all`` reads every data file of the last version.
        storage_options: access to a bucket, as in :func:`deltanb.open`.

    Returns:
        Findings, each proved or possible, cycles of commits that no order explains, and what cannot be told.

    Raises:
        InvalidArgument: ``files`` is another word, or the versions are no range.
        TableNotFound: the place has no log.
        StorageError: the log cannot be listed.

    >>> import deltanb as dn
    >>> _ = dn.create("ducks", {"name": ["Donald"]})
    >>> dn.verify("ducks").is_sound
    True
    """
    return verify_log(DeltaLog.for_table(path, storage_options), start, end, files)


def verify_log(
    log: LogReader, start: int | None = None, end: int | None = None, files: str = "sample"
) -> Verification:
    """:func:`verify` of a log that is open; arguments and errors are those.

    Args:
        log: the table's.
        start, end, files: as there.
    """
    if files not in FILES:
        raise InvalidArgument(f"files={files!r} is not one of {', '.join(FILES)}")
    return _Verification(log, start, end, files).run()


class _Verification:
    """One verification under way."""

    def __init__(self, log: LogReader, start: int | None, end: int | None, files: str) -> None:
        self.log, self.files = log, files
        listed = dict(log.commits.listed(0))
        self.statuses: Mapping[int, Any] = listed
        if not listed:
            raise no_table(log.store)
        self.first = min(listed) if start is None else start
        self.last = max(listed) if end is None else min(end, max(listed))
        if self.first > self.last or self.first < 0:
            raise InvalidArgument(f"start={start!r} and end={end!r} are not a range of versions; the log has "
                                  f"{min(listed)} to {max(listed)}")
        self.findings: list[Finding] = []
        self.counts: Counter[str] = Counter()
        self.blind_spots: list[BlindSpot] = []
        self.isolation = Isolation()
        self.num_commits = 0

    def run(self) -> Verification:
        """Walk, look at the files, judge."""
        names = self.log.store.list_names(f"{LOG_FOLDER}/")
        names += self.log.store.list_names(STAGED_FOLDER + "/")
        derived = Derived(self.log, names, self.first, self.last)
        state = self._begin(derived)
        self._walk(state, derived)
        self._take(derived.beside())
        self.isolation.judge(self.log, len(state.live))
        self._take(self.isolation.findings)
        self._files(state)
        self.blind_spots += [*derived.blind_spots(), *self.isolation.blind_spots()]
        return Verification(
            last_part(self.log.path), (self.first, self.last), self.num_commits, self.files,
            tuple(self.findings), tuple(self.blind_spots), _distinct(self.isolation.cycles),
            tuple((kind, n - MAX_OF_KIND) for kind, n in sorted(self.counts.items()) if n > MAX_OF_KIND),
            self.log).with_drawing()

    def _take(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            self.counts[finding.kind] += 1
            if self.counts[finding.kind] <= MAX_OF_KIND:
                self.findings.append(finding)

    def _begin(self, derived: Derived) -> LogState:
        """The state before the first commit that is looked at."""
        if self.first == 0:
            return LogState()
        before = self.first - 1
        earliest = min(self.statuses)
        if before < earliest:  # what came before is known from a checkpoint alone
            known = [files.version for files in derived.complete if files.version >= earliest - 1]
            if not known:
                self.blind_spots.append(kinds.blind_spot("commits-gone", (earliest,), commit_name(0)))
                return LogState(self.first - 1)
            before = min(known)
        if before > 0 and earliest > 0:
            self.blind_spots.append(kinds.blind_spot("commits-gone", (before,), commit_name(earliest - 1)))
        try:
            state = LogState.of(self.log.snapshot_at(before))
        except (DeltaError, OSError) as error:
            self._take([kinds.COMMIT_UNREADABLE(f"version {before} cannot be read: {error}", before)])
            return LogState(before)
        self.first = before + 1 if before >= self.first else self.first
        return state

    def _walk(self, state: LogState, derived: Derived) -> None:
        if state.version >= 0:
            self._take(derived.at(state))
        names = {version: status.name for version, status in sorted(self.statuses.items())
                 if self.first <= version <= self.last}
        for version in range(self.first, self.last + 1):
            if version not in names:
                self._take([kinds.VERSION_MISSING(f"{commit_name(version)} is not in the log", version)])
        bodies = self.log.commits.read_many(names)
        with progress("verify: commits", len(names)) as seen:
            for (version, name), data in zip(names.items(), bodies, strict=True):
                self._commit(state, version, name, data, derived)
                seen()

    def _commit(self, state: LogState, version: int, name: str, data: bytes | None, derived: Derived) -> None:
        if data is None:
            self._take([kinds.VERSION_MISSING(f"{name} went while the log was read", version)])
            return
        try:
            commit = Commit.of(version, name, self.statuses[version].modification_time, data)
        except Exception as error:
            reason = explain(data, name, "", error)
            self._take([kinds.COMMIT_UNREADABLE(str(reason), version, name)])
            state.version = version
            return
        self.num_commits += 1
        self._take(check_commit(state, commit))
        self._take(apply_files(state, commit))
        state.apply(commit)
        self.isolation.note(commit, state.live.values())
        self._take(derived.at(state))

    def _files(self, state: LogState) -> None:
        if self.files == "none":
            self.blind_spots.append(kinds.blind_spot("data-files"))
            return
        try:
            snapshot = self.log.snapshot_at(self.last)
            self._take(storage.check_listing(snapshot, state))
            self._take(storage.check_files(snapshot, state, self.files == "all"))
        except (DeltaError, OSError) as error:
            self.blind_spots.append(BlindSpot(
                "data-files", (self.last,), "", f"the table cannot be read: {error}"))
            return
        if self.files == "sample":
            self.blind_spots.append(kinds.blind_spot("data-files"))


def _distinct(cycles: Iterable[Cycle]) -> tuple[Cycle, ...]:
    """One of each kind between the same commits, proved before possible; the last one was judged."""
    seen: dict[Any, Cycle] = {}
    for cycle in sorted(cycles, key=lambda one: (one.certainty == "proved", one.versions)):
        seen[cycle.kind, cycle.versions] = cycle
    return tuple(sorted(seen.values(), key=lambda one: (one.certainty != "proved", one.versions)))
