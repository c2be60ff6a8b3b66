"""Who met whom: transactions that ran at the same time, each pair with its outcome.

What lives here: :func:`meet`, which goes through a history and the journal of this process. A commit of
version v that read version r met the commits r+1 to v-1; one that failed met those up to its winner.
What it does not know: how a recorded commit becomes a transaction again (``recorded``), the rules, how
meetings are counted or drawn.
"""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from deltanb.errors import ConcurrentWriteException, DeltaError, InvalidArgument, MaxCommitRetriesExceeded
from deltanb.log.commits import commit_name
from deltanb.log.lines import whole_number
from deltanb.observe.recorded import MAX_COMMITS, MAX_WALK, name_of, recorder_of
from deltanb.observe.tracks import name_writer, operation_of
from deltanb.observe.verdicts import (
    LevelVerdict,
    reason_of,
    require_isolation,
    verdicts_of,
    window_limit,
)
from deltanb.observe.verify.kinds import BLIND_SPOTS
from deltanb.observe.verify.report import BlindSpot
from deltanb.sql.coercion import read_zone
from deltanb.store.base import is_remote
from deltanb.text import formatting as units
from deltanb.text.safe_text import shown
from deltanb.transaction.conflict_rules import RULES
from deltanb.transaction.journal import Attempt
from deltanb.transaction.kept_journal import MAX_FILES, Attempts, attempts_of

if TYPE_CHECKING:
    from deltanb.log.history import History, HistoryEntry

MAX_PROBLEMS = 5  # damaged files of a journal that are named

OUTCOMES = {
    "failed": "the later one failed: the rule ended it at this commit",
    "would fail": "the later one landed, but the rule ends it at this commit",
    "passed": "no rule objects: the later one went on behind this commit",
    "not reached": "the later one had failed before, or would have",
    "unknown": "what the later one read or wrote cannot be restored",
}
"""How meetings end, and what that means."""

SPOTS = {
    **{kind: BLIND_SPOTS[kind] for kind in ("read-version", "reads", "windows")},
    "gone": "these commits are no longer in the log, or not in this history: who met them is not counted",
    "unreadable": "these cannot be restored from the log, so no rule was asked about them",
    "impossible-window": "the version they say they read is not before their own",
    "journal": "only this process knows its failed commits: no log records those of others; the option "
               "journal keeps them",
    "others": "failed commits are known of processes that keep a journal in the same place, of others not",
    "journal-damaged": "these files of the journal cannot be read, so what failed there is not counted",
    "journal-bound": f"the journal has more than {MAX_FILES} files: the oldest are not read",
}
"""What is not known of meetings, by the stable code of the blind spot."""

LOSSES = {rule.exception.kind for rule in RULES if rule.exception is not None} | {
    ConcurrentWriteException.kind, MaxCommitRetriesExceeded.kind}
"""The codes of errors by which a transaction fails because of another one."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One side of a meeting.

    ``version`` is the version it committed, None if it failed; ``time`` its commit in epoch milliseconds, or
    when the failed one was prepared, None if that is not recorded.
    """

    writer: str
    operation: str
    version: int | None = None
    time: int | None = None
    txn_id: str | None = None


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two transactions that ran at the same time: ``winner`` landed while ``loser`` was under way.

    ``outcome`` is one of :data:`OUTCOMES`. ``rule`` is the conflict rule that ended the loser or would have;
    the error's code where it failed by no rule. ``hour`` is the hour of the day (0 to 23) of the loser's
    time, None if that is unknown. ``wasted`` counts the bytes that a failed one had written, None where the
    journal does not know.
    """

    winner: Contender
    loser: Contender
    outcome: str
    rule: str = ""
    hour: int | None = None
    wasted: int | None = None

    @property
    def is_lost(self) -> bool:
        """Whether the later one failed at this meeting."""
        return self.outcome == "failed"


@dataclass(frozen=True)
class Meetings(Sequence[Meeting]):
    """The meetings of a history, by the later one's time of arrival.

    ``isolation`` is the level the rules were asked at, None for the level of each commit. ``num_commits``
    counts the commits looked at, ``num_raced`` those of them that met others, ``num_failed`` the failed
    transactions known. ``blind_spots`` say what is not known, and of which versions.
    """

    table: str
    meetings: tuple[Meeting, ...]
    num_commits: int
    num_raced: int
    num_failed: int
    isolation: str | None = None
    zone: str = "UTC"
    blind_spots: tuple[BlindSpot, ...] = ()

    def __len__(self) -> int:
        return len(self.meetings)

    def __iter__(self) -> Iterator[Meeting]:
        return iter(self.meetings)

    def __getitem__(self, at: Any) -> Any:
        return self.meetings[at]


def meet(
    history: History, isolation: str | None = None, zone: str | dt.tzinfo = "UTC", check: bool = True,
) -> Meetings:
    """The meetings in a history, and those of transactions that failed in this process.

    Args:
        history: of a table; commits left out of it are met by nobody.
        isolation: the level at which rules are asked, in place of each commit's own.
        zone: the time zone of ``hour``: a name like ``Europe/Berlin``, an offset like ``+01:00``, or a
            ``tzinfo``.
        check: whether rules are asked about commits that landed; if not, these have ``passed``.

    Raises:
        InvalidArgument: a history without a log, a level that does not exist, or no time zone.

    >>> from contextlib import suppress
    >>> import deltanb as dn
    >>> table = dn.create("swans", {"name": ["Leda"], "age": [3]})
    >>> txn = table.start_transaction()
    >>> removed = [file.remove() for file in txn.filter_files("age = 3")]
    >>> table.append({"name": ["Zeus"], "age": [1]})
    <CommandResult WRITE, ✓ committed v1, in this process>
    >>> with suppress(dn.errors.ConcurrentAppendException):
    ...     _ = txn.commit(removed, "DELETE")
    >>> [(one.winner.operation, one.loser.operation, one.outcome, one.rule) for one in meet(table.history())]
    [('WRITE', 'DELETE', 'failed', 'append')]
    """
    if history.log is None:
        raise InvalidArgument("this history was made by hand and knows no table; take table.history()")
    if isolation is not None:
        require_isolation(isolation)
    return _Walk(history, isolation, zone_of(zone), check).run()


def zone_of(zone: str | dt.tzinfo) -> dt.tzinfo:
    """A time zone from its name or offset.

    Raises:
        InvalidArgument: none.

    >>> zone_of("+02:00")
    datetime.timezone(datetime.timedelta(seconds=7200))
    """
    if isinstance(zone, dt.tzinfo):
        return zone
    try:
        known: dt.tzinfo = read_zone(zone)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"zone={shown(zone)} is not a time zone; write it like 'Europe/Berlin' or '+01:00'") from None
    return known


class _Walk:
    """One way through a history, from old read versions to new ones, as the recorder is fastest."""

    def __init__(self, history: History, isolation: str | None, zone: dt.tzinfo, check: bool) -> None:
        assert history.log is not None
        self.history, self.isolation, self.zone, self.check = history, isolation, zone, check
        self.entries = {entry.version: entry for entry in history}
        self.recorder = recorder_of(history.log)
        self.known = attempts_of(history.log)
        self.attempts = self.known.attempts
        self.contenders: dict[int, Contender] = {}
        self.spots: dict[str, set[int]] = {kind: set() for kind in SPOTS}
        self.reasons: dict[str, str] = {}

    def run(self) -> Meetings:
        """All meetings, those of commits and those of failed transactions."""
        windows = sorted(self._windows())
        failed = [attempt for attempt in self.attempts
                  if attempt.outcome == "failed" and attempt.version in self.entries
                  and (attempt.rule is not None or attempt.kind in LOSSES)]
        limit = window_limit([version - read - 1 for read, version in windows]
                             + [attempt.version - attempt.read_version for attempt in failed])
        landed = {attempt.txn_id: attempt for attempt in self.attempts
                  if attempt.outcome == "committed" and attempt.is_whole}
        self.spots["unreadable"].update(self.history.damaged)
        for error in self.history.damaged.values():
            self.reasons.setdefault("unreadable", reason_of(error))
        rows: list[tuple[int, bool, list[Meeting]]] = []
        for read, version in self._with_commits(windows, limit):
            known = landed.get(str(self.entries[version].txn_id))
            rows.append((version, True, self._committed(read, version, limit, known)))
        rows += [(attempt.version, False, self._failed(attempt, limit)) for attempt in failed]
        rows.sort(key=lambda row: row[:2])
        return Meetings(
            name_of(self.history), tuple(one for *_, some in rows for one in some), len(self.entries),
            len(windows), len(failed), self.isolation, str(self.zone), tuple(self._blind_spots()))

    def _windows(self) -> Iterator[tuple[int, int]]:
        """The version read and the version committed, of each commit that others came before."""
        for version, entry in self.entries.items():
            read = whole_number(entry.read_version)
            if version == 0:  # the first commit meets nobody
                continue
            if read is None:
                self.spots["read-version"].add(version)
            elif read >= version:
                self.spots["impossible-window"].add(version)
            elif version - read > 1:
                yield read, version

    def _with_commits(
        self, windows: Sequence[tuple[int, int]], limit: int
    ) -> Iterable[tuple[int, int]]:
        """The windows; over a network, as many commits as are held are read before the first of them."""
        if not windows or not is_remote(self.recorder.log.store):
            yield from windows
            return
        bases = [max(read, version - limit - 1) for read, version in windows]
        asked = _asked_for(windows, bases)
        behind, end = bases[0], -1
        for (read, version), base in zip(windows, bases, strict=True):
            if version > end:
                at = bisect_right(asked, min(behind, base))
                some = asked[at:at + MAX_COMMITS]
                self.recorder.read_ahead({one: commit_name(one) for one in some})
                end = some[-1]
            yield read, version
            behind = base

    def _range(self, read: int, end: int, limit: int, version: int) -> Sequence[int]:
        """The versions behind ``read`` and before ``end`` that count, at most ``limit`` of them."""
        first = max(read + 1, end - limit)
        if first > read + 1:
            self.spots["windows"].add(version)
        return range(first, end)

    def _committed(self, read: int, version: int, limit: int, attempt: Attempt | None) -> list[Meeting]:
        loser = self._contender(version)
        assert loser is not None
        winners = self._range(read, version, limit, version)
        base = winners[0] - 1  # what it read, but for a window that is cut off
        verdict = self._verdict(base, version, winners, attempt) if self.check else LevelVerdict()
        return list(self._pairs(loser, winners, verdict, "would fail"))

    def _verdict(
        self, read: int, version: int, winners: Sequence[int], attempt: Attempt | None
    ) -> LevelVerdict:
        try:
            recorded = self.recorder.transaction(version, read, attempt)
            if recorded.is_assumed:
                self.spots["reads"].add(version)
            return verdicts_of(self.recorder, recorded.current, winners, (self.isolation,), RULES)[0]
        except (DeltaError, OSError) as error:
            self.spots["unreadable"].add(version)
            self.reasons.setdefault("unreadable", reason_of(error))
            return LevelVerdict(unknown=reason_of(error))

    def _failed(self, attempt: Attempt, limit: int) -> list[Meeting]:
        loser = Contender(writer_of_attempt(attempt), operation_of(attempt.operation), None, attempt.time,
                          attempt.txn_id)
        winners = self._range(attempt.read_version, attempt.version + 1, limit, attempt.version)
        verdict = LevelVerdict(rule=attempt.rule or str(attempt.kind), version=attempt.version)
        return list(self._pairs(loser, winners, verdict, "failed", attempt.written))

    def _pairs(
        self, loser: Contender, winners: Iterable[int], verdict: LevelVerdict, ended: str,
        wasted: int | None = None,
    ) -> Iterator[Meeting]:
        hour = _hour(loser.time, self.zone)
        has_ended = False
        for version in winners:
            winner = self._contender(version)
            if winner is None and version not in self.history.damaged:
                self.spots["gone"].add(version)
            if verdict.unknown:
                outcome = "unknown"
            elif verdict.version == version:
                outcome, has_ended = ended, True
            else:
                outcome = "not reached" if has_ended else "passed"
            is_end = outcome == ended
            if winner is not None:
                yield Meeting(winner, loser, outcome, verdict.rule if is_end else "", hour,
                              wasted if is_end else None)

    def _contender(self, version: int) -> Contender | None:
        """The side of a commit; None if the history does not have it."""
        known = self.contenders.get(version)
        if known is None and (entry := self.entries.get(version)) is not None:
            known = self.contenders[version] = contender_of(entry)
        return known

    def _blind_spots(self) -> Iterator[BlindSpot]:
        missing: Mapping[str, str] = {
            "read-version": "commitInfo.readVersion", "reads": "commitInfo.operationParameters.predicate"}
        for kind, versions in self.spots.items():
            if versions:
                why = f": {self.reasons[kind]}" if kind in self.reasons else ""
                yield BlindSpot(kind, tuple(sorted(versions)), missing.get(kind, ""), SPOTS[kind] + why)
        yield from _journal_spots(self.known)


def _asked_for(windows: Iterable[tuple[int, int]], bases: Sequence[int]) -> list[int]:
    """The versions whose commits are asked for: those of the windows, and those from what one of them read to
    what the next one did, as far as the recorder goes through them."""
    asked = {one for (_, version), base in zip(windows, bases, strict=True)
             for one in range(base + 1, version + 1)}
    for base, following in pairwise(bases):
        if following - base <= MAX_WALK:
            asked.update(range(base + 1, following + 1))
    return sorted(asked)


def _journal_spots(known: Attempts) -> Iterator[BlindSpot]:
    if known.place is None:
        yield BlindSpot("journal", (), "", SPOTS["journal"])
        return
    yield BlindSpot("others", (), known.place, SPOTS["others"])
    if known.problems:
        some = "; ".join(f"{name}: {reason}" for name, reason in known.problems[:MAX_PROBLEMS])
        more = len(known.problems) - MAX_PROBLEMS
        yield BlindSpot("journal-damaged", (), known.place, f"{SPOTS['journal-damaged']}: {some}"
                        + (f"; and {units.number(more)} more" if more > 0 else ""))
    if known.left_out:
        yield BlindSpot("journal-bound", (), known.place, SPOTS["journal-bound"])


def contender_of(entry: HistoryEntry) -> Contender:
    """The side of a commit of a history."""
    return Contender(writer_of_entry(entry), operation_of(entry.operation), entry.version, entry.timestamp,
                     None if entry.txn_id is None else str(entry.txn_id))


def writer_of_entry(entry: HistoryEntry) -> str:
    """Who wrote a commit of a history, by the name that all views give."""
    return name_writer({
        "userName": entry.user_name, "engineInfo": entry.engine_info,
        "operationParameters": entry.operation_parameters, "clientVersion": entry.extra.get("clientVersion")})


def writer_of_attempt(attempt: Attempt) -> str:
    """Who tried to commit, by the same name."""
    return name_writer({"userName": attempt.writer, "operationParameters": attempt.stream})


def _hour(time: Any, zone: dt.tzinfo) -> int | None:
    """The hour of the day of a time in epoch milliseconds; None for what is no time."""
    if not isinstance(time, int) or isinstance(time, bool):
        return None
    try:
        return dt.datetime.fromtimestamp(time / 1000, zone).hour
    except (OverflowError, OSError, ValueError):
        return None


def as_markdown() -> str:
    """The outcomes and the blind spots as the documentation prints them.

    >>> print("\\n".join(as_markdown().splitlines()[:3]))
    ## How a meeting ends
    <BLANKLINE>
    | outcome | meaning |
    """
    lines = ["## How a meeting ends", "", "| outcome | meaning |", "|---|---|"]
    lines += [f"| {outcome} | {meaning} |" for outcome, meaning in OUTCOMES.items()]
    lines += ["", "## Blind spots", "", "| kind | what follows |", "|---|---|"]
    lines += [f"| `{kind}` | {meaning} |" for kind, meaning in SPOTS.items()]
    return "\n".join(lines) + "\n"
