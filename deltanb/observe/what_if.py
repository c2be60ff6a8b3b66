"""What if: recorded commits checked against other rules, and an open transaction against later commits.

What lives here: :func:`replay` (which commits would have conflicted under another isolation level, or
without some rules) and :func:`explain_conflict` (whether later commits conflict with an open transaction).
Both check winners one after the other, as a commit does, and write nothing.
What it does not know: how a commit becomes a transaction again (``recorded``), the rules, pictures.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.actions import Action
from deltanb.errors import (
    CommitOutcomeUnknown,
    ConcurrentWriteException,
    DeltaError,
    IllegalStateError,
    InvalidArgument,
    MaxCommitRetriesExceeded,
    VersionNotFound,
)
from deltanb.log.lines import whole_number
from deltanb.observe.recorded import Recorder, name_of, recorder_of
from deltanb.observe.verdicts import (
    LEVELS,
    LevelVerdict,
    reason_of,
    require_isolation,
    verdicts_of,
    window_limit,
)
from deltanb.schema import properties
from deltanb.text import formatting as units
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.conflict_rules import RULES, Rule, check
from deltanb.transaction.conflicts import Check, Conflict
from deltanb.transaction.current import (
    CurrentTransaction,
)
from deltanb.transaction.journal import Attempt
from deltanb.transaction.kept_journal import attempts_of
from deltanb.transaction.operations import Operation
from deltanb.transaction.row_levels import require_level
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    from deltanb.log.history import History, HistoryEntry
    from deltanb.log.reader import LogReader
    from deltanb.observe.finer_rules import FinerRules
    from deltanb.observe.timeline import CommitTimeline
    from deltanb.transaction.transaction import OptimisticTransaction

TOO_MUCH = "what it read and wrote was too large to keep"
ELSEWHERE = "it failed in another process, and what it read and wrote is not in the journal"
AS_RECORDED = "as recorded"
MAX_REASONS = 3  # rules named in a level's sentence; the grid has them all

UNNAMED_OPERATION = Operation("transaction")
"""The operation of one that has nothing to write yet and has not said what it will do."""

_NO_RULE = {None, ConcurrentWriteException.kind, MaxCommitRetriesExceeded.kind, CommitOutcomeUnknown.kind}
"""Reasons of failure that no rule decides, so that other rules would change nothing."""


@dataclass(frozen=True)
class Replayed:
    """One commit that had winners before it, or that failed in this session, and how it would have ended.

    ``version`` is None for a failed commit; ``attempted`` is then the version at which it failed, with
    ``failed`` as the reason (a stable code). ``winners`` counts the commits that landed since the version it
    read. ``verdicts`` has one entry per level. ``reads`` describes its reads, and ``is_assumed`` means that
    they are not recorded, so more may conflict here than did. ``is_elsewhere``: it failed in another process.
    """

    version: int | None
    attempted: int
    read_version: int | None
    operation: str
    writer: str | None
    winners: int
    verdicts: tuple[LevelVerdict, ...]
    failed: str | None = None
    reads: str = ""
    is_assumed: bool = False
    txn_id: str | None = None
    is_elsewhere: bool = False

    @property
    def changes(self) -> bool:
        """Whether some level would have ended differently from what happened."""
        return any(not a.unknown and a.passed is (self.version is None) for a in self.verdicts)


@dataclass(frozen=True)
class Outcome:
    """A level in numbers: the rules that would have failed commits, how many failed commits would have
    passed, how many verdicts are unknown, and for how many commits the reads are assumed."""

    fails: Mapping[str, int]
    passes: int
    unknown: int
    assumed: int
    doubtful: int = 0
    """How many of those that fail may have passed all the same."""

    @property
    def words(self) -> list[tuple[str, str]]:
        """The numbers in words, each with its kind: "fails", "passes", "same" or "unknown"."""
        parts = []
        if self.fails:
            names = sorted(self.fails, key=lambda rule: -self.fails[rule])
            more = f" and {len(names) - MAX_REASONS} more" if len(names) > MAX_REASONS else ""
            total = units.count(sum(self.fails.values()), "commit")
            parts.append(("fails", f"{total} would have failed ({', '.join(names[:MAX_REASONS])}{more})"))
        if self.doubtful:
            parts.append(("unknown", f"{units.number(self.doubtful)} of them perhaps not"))
        if self.passes:
            parts.append(("passes", f"{units.number(self.passes)} that failed would have passed"))
        if not parts:
            parts.append(("same", "all that can be answered would have ended as they did" if self.unknown
                         else "all would have ended as they did"))
        if self.unknown:
            parts.append(("unknown", f"{units.number(self.unknown)} cannot be answered"))
        return parts


def _outcome(rows: Sequence[Replayed], at: int) -> Outcome:
    verdicts = [(row, row.verdicts[at]) for row in rows]
    return Outcome(
        Counter(verdict.rule for row, verdict in verdicts if row.version is not None and verdict.rule),
        sum(row.version is None and verdict.passed for row, verdict in verdicts),
        sum(bool(verdict.unknown) for _, verdict in verdicts),
        sum(row.is_assumed for row in rows),
        sum(bool(verdict.doubts) for _, verdict in verdicts),
    )


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class Replay(Displayable):
    """A history under other rules: the commits that raced, for each level asked for.

    ``rows`` are in the order of their versions; a commit without winners has none, since no rule can fail it.
    ``levels`` are the columns; None stands for the level that each commit was made under. ``without`` names
    the rules that were left out, ``total`` counts the commits examined, ``versions`` are the first and last
    of them. ``row_level`` and ``partition_by`` are what else was supposed. ``cut_off`` are the versions whose
    commits met so many others that they were checked against the nearest ones alone, ``damaged`` those that
    the history left out because they cannot be read.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> _ = table.append({"id": [2]})
    >>> replay = table.history().replay(isolation=["Serializable", "WriteSerializable"])
    >>> replay.total, replay.levels
    (2, ('Serializable', 'WriteSerializable'))
    """

    table: str
    levels: tuple[str | None, ...]
    rows: tuple[Replayed, ...]
    total: int
    without: tuple[str, ...] = ()
    log: LogReader | None = field(default=None, compare=False)
    versions: tuple[int, int] = (0, 0)
    row_level: str | None = None
    partition_by: tuple[str, ...] = ()
    cut_off: tuple[int, ...] = ()
    damaged: tuple[int, ...] = ()

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The outcome in numbers, one per level.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> [outcome.passes for outcome in table.history().replay(isolation="Serializable").outcomes]
        [0]
        """
        return tuple(_outcome(self.rows, at) for at in range(len(self.levels)))

    @cached_property
    def by_interest(self) -> tuple[Replayed, ...]:
        """The rows, those that would have ended differently first.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).history().replay().by_interest
        ()
        """
        return tuple(sorted(self.rows, key=lambda row: not row.changes))

    def timeline(self, isolation: str | None = None) -> CommitTimeline:
        """The history as a timeline: ✕ and the rule where a commit would have failed, ✓ where a failed one
        would have passed. ``isolation`` is the level to draw, by default the first.

        Raises:
            InvalidArgument: not one of the levels that were asked for.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> timeline = dn.create(MemoryStore(), {"id": [1]}).history().replay().timeline()
        >>> [track.version for track in timeline.commits]
        [0]
        """
        from deltanb.observe.timeline import CommitTimeline
        from deltanb.observe.tracks import Mark

        if isolation is not None and isolation not in self.levels:
            raise InvalidArgument(
                f"isolation={isolation!r} was not replayed; there are {', '.join(map(str, self.levels))}")
        at = 0 if isolation is None else self.levels.index(isolation)
        title = f"had the table been {self.levels[at]}" if self.levels[at] else AS_RECORDED
        if self.without:
            title += f", without {', '.join(self.without)}"
        marks: dict[Any, Mark] = {}
        for row in self.rows:
            verdict = row.verdicts[at]
            if row.version is not None and verdict.rule:
                marks[row.version] = Mark(verdict.rule)
            elif row.version is None and verdict.passed:
                marks[row.txn_id] = Mark("would have passed", "✓")
        words = ", ".join(text for _, text in self.outcomes[at].words)
        assert self.log is not None, "replay() gives it"
        shown = CommitTimeline.of(self.log, start=self.versions[0], end=self.versions[1])
        return shown.marked(marks, f"{title}: {words}")

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """The conflicts that would have failed commits, by version and level.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).history().replay().conflicts
        ()
        """
        return tuple(verdict.conflict for row in self.rows if row.version is not None
                     for verdict in row.verdicts if verdict.conflict is not None)

    @property
    def unknown(self) -> tuple[Replayed, ...]:
        """The commits without an answer, because the log has too little about them.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).history().replay().unknown
        ()
        """
        return tuple(row for row in self.rows if any(verdict.unknown for verdict in row.verdicts))


def replay(
    history: History,
    isolation: str | Sequence[str] | None = None,
    rules: Sequence[str | Rule] | None = None,
    without: str | Sequence[str] = (),
    row_level: str | None = None,
    partition_by: str | Sequence[str] | None = None,
) -> Replay:
    """Check each commit of a history against its winners under other rules.

    Each commit is checked on its own, with the winners it met; further effects of a commit that would have
    failed are unknown. Commits that failed in this session are checked, too: they might have passed.

    Row-level concurrency and another partitioning let a commit pass where that is proved by the log or by
    the data files. Where it is not known, the verdict says why in ``doubts``.

    Args:
        isolation: ``Serializable``, ``WriteSerializable``, ``SnapshotIsolation``, or several of them, in
            place of the table's level; all three unless something else is asked for. A commit that changes
            only the layout keeps snapshot isolation, as it does when it commits.
        rules: the rules to check, by name or as :class:`Rule`; all by default.
        without: names of rules to leave out.
        row_level: ``off``, ``statistics`` (an added file is no conflict if its statistics exclude what was
            read), ``values`` (nor if none of its rows was read, for which files are opened, up to
            :data:`~deltanb.observe.finer_rules.MAX_FILES_READ`), ``vectors`` (nor is a file from which
            the winner took rows by a deletion vector, if the later one read none of them), or ``all``. A file
            that was only rewritten is no conflict at any of them, if its rows are left alone or found again.
        partition_by: columns by which the table would have been partitioned, in place of its own.

    Raises:
        InvalidArgument: a level, rule or column that does not exist, or a history without a log.

    >>> import deltanb as dn
    >>> table = dn.create("geese", {"name": ["Gus", "Daphne"], "nephews": [3, 0]},
    ...                   properties={"delta.isolationLevel": "WriteSerializable"})
    >>> txn = table.start_transaction()
    >>> removed = [file.remove() for file in txn.filter_files("nephews = 0")]
    >>> table.append({"name": ["Scrooge"], "nephews": [1]})
    <CommandResult WRITE, ✓ committed v1, in this process>
    >>> txn.commit(removed, "DELETE")
    2
    >>> [conflict.rule for conflict in table.history().replay("Serializable").conflicts]
    ['append']
    """
    log = history.log
    if log is None:
        raise InvalidArgument("this history was made by hand and knows no table; take table.history()")
    held, left_out = _rules(rules, without)
    is_plain = rules is None and not without and row_level is None and partition_by is None
    levels, columns = _levels(isolation, is_plain), _columns(partition_by, log)
    recorder, journal = recorder_of(log), attempts_of(log).attempts  # it brings the log up to date
    committed = {attempt.txn_id: attempt for attempt in journal
                 if attempt.outcome == "committed" and attempt.is_whole}
    from deltanb.observe.finer_rules import FinerRules  # it reads rows, which what shows a replay does not

    finer = FinerRules(recorder, require_level(row_level) or "off", columns)
    windows = [entry.version - read - 1 for entry in history
               if (read := whole_number(entry.read_version)) is not None]
    times = {entry.version: entry.timestamp for entry in history}
    asked = _Asked(recorder, levels, finer.of(held), finer, window_limit(windows), times)
    rows: list[Replayed] = []
    for entry in sorted(history, key=_read_version):
        row = asked.commit(entry, committed.get(str(entry.txn_id)))
        if row is not None:
            rows.append(row)
    rows += [asked.lost(attempt) for attempt in journal
             if attempt.outcome == "failed" and attempt.kind not in _NO_RULE and attempt.version in times]
    rows.sort(key=lambda row: (row.attempted, row.version is not None))
    bounds = (min(times, default=0), max(times, default=0))
    replayed = Replay(name_of(history), levels, tuple(rows), len(history), left_out, log, bounds, row_level,
                      columns, tuple(sorted(asked.cut_off)), tuple(sorted(history.damaged)))
    _ = replayed.outcomes, replayed.by_interest  # counted now, so that looking at it takes no time
    return replayed


def _several(argument: str, values: Any) -> list[Any]:
    if isinstance(values, str | Rule):
        return [values]
    if not isinstance(values, Iterable):
        raise InvalidArgument(f"{argument}={values!r} is neither a name nor a list of names")
    return list(values)


def _levels(isolation: Any, is_plain: bool) -> tuple[str | None, ...]:
    if isolation is None:
        return LEVELS if is_plain else (None,)
    chosen = _several("isolation", isolation)
    for level in chosen:
        require_isolation(level)
    if not chosen:
        raise InvalidArgument(f"isolation names no level; there are {', '.join(LEVELS)}")
    return tuple(dict.fromkeys(chosen))


def _columns(partition_by: Any, log: LogReader) -> tuple[str, ...]:
    """The columns as the table spells them."""
    if partition_by is None:
        return ()
    names = [partition_by] if isinstance(partition_by, str) else partition_by
    if not isinstance(names, Iterable):
        raise InvalidArgument(f"partition_by={shown(partition_by)} is neither a column nor a list of columns")
    schema, columns = log.update().schema, []
    for name in names:
        field = schema.get(name) if isinstance(name, str) else None
        if field is None:
            hint = units.did_you_mean(str(name), schema.names, "columns")[0]
            raise InvalidArgument(f"partition_by={shown(name)} is not a column of the table; {hint}")
        columns.append(field.name)
    if not columns:
        raise InvalidArgument("partition_by names no column; leave it out for the table's own partitions")
    return tuple(dict.fromkeys(columns))


def _rules(rules: Any, without: Any) -> tuple[tuple[Rule, ...], tuple[str, ...]]:
    """The rules to check, and the names of those left out."""
    names = {rule.name: rule for rule in RULES}

    def known(name: Any) -> Rule:
        if isinstance(name, Rule):
            return name
        if not isinstance(name, str) or name not in names:
            raise InvalidArgument(f"there is no rule {name!r}; there are {', '.join(names)}")
        return names[name]

    chosen = RULES if rules is None else tuple(map(known, _several("rules", rules)))
    left = {known(name).name for name in _several("without", without)}
    held = tuple(rule for rule in chosen if rule.name not in left)
    return held, tuple(name for name in names if name not in {rule.name for rule in held})


def _read_version(entry: HistoryEntry) -> int:
    read = whole_number(entry.read_version)
    return -1 if read is None else read


class _Asked:
    """One replay under way: what is asked of each commit."""

    def __init__(
        self, recorder: Recorder, levels: Sequence[str | None], rules: Sequence[Rule], finer: FinerRules,
        limit: int, times: Mapping[int, int],
    ) -> None:
        self.recorder, self.levels, self.rules, self.finer, self.limit = recorder, levels, rules, finer, limit
        self.times = times
        """When versions were committed, in epoch milliseconds, as the history has it."""
        self.cut_off: set[int] = set()

    def commit(self, entry: HistoryEntry, attempt: Attempt | None) -> Replayed | None:
        """One recorded commit; None if it had no winners."""
        read, version = whole_number(entry.read_version), entry.version
        if version == 0 or (read is not None and read >= version - 1):
            return None
        about = {"version": version, "attempted": version, "operation": str(entry.operation or "TRANSACTION"),
                 "writer": entry.user_name, "txn_id": entry.txn_id}
        if read is None:
            verdicts = self._unknown("the version it read is not recorded")
            return Replayed(**about, read_version=None, winners=0, verdicts=verdicts)
        winners = range(read + 1, version)
        about |= {"read_version": read, "winners": len(winners)}
        near = self._nearest(winners, version)
        try:
            recorded = self.recorder.transaction(version, near[0] - 1, attempt)
            return Replayed(**about, verdicts=self._verdicts(recorded.current, near), reads=recorded.reads,
                            is_assumed=recorded.is_assumed)
        except DeltaError as error:
            return Replayed(**about, verdicts=self._unknown(reason_of(error)))

    def lost(self, attempt: Attempt) -> Replayed:
        """A commit that failed in this session, checked against the winner it met and those known by then."""
        winners = range(attempt.read_version + 1, max(attempt.version, attempt.newest) + 1)
        if attempt.prepared is None:
            verdicts = self._unknown(ELSEWHERE if attempt.is_elsewhere else TOO_MUCH)
        else:
            try:
                verdicts = self._verdicts(attempt.prepared, self._nearest(winners, attempt.version))
            except DeltaError as error:
                verdicts = self._unknown(reason_of(error))
        return Replayed(None, attempt.version, attempt.read_version, attempt.operation, attempt.writer,
                        len(winners), verdicts, attempt.kind, " OR ".join(attempt.reads) or "nothing",
                        txn_id=attempt.txn_id, is_elsewhere=attempt.is_elsewhere)

    def _nearest(self, winners: range, version: int) -> range:
        """The last of the winners, as many as are checked."""
        if len(winners) > self.limit:
            self.cut_off.add(version)
        return winners[-self.limit:]

    def _verdicts(self, current: CurrentTransaction, winners: Sequence[int]) -> tuple[LevelVerdict, ...]:
        verdicts = verdicts_of(self.recorder, current, winners, self.levels, self.rules, self.finer)
        return tuple(verdict if verdict.conflict is None else replace(verdict, conflict=replace(
            verdict.conflict, committed_at=self.times.get(verdict.conflict.version))) for verdict in verdicts)

    def _unknown(self, reason: str) -> tuple[LevelVerdict, ...]:
        return (LevelVerdict(unknown=reason),) * len(self.levels)


# ---------------------------------------------------------------------------- before the commit


@dataclass(frozen=True)
class Landed:
    """A commit that landed since, and its checks; no checks after the first conflict."""

    version: int
    operation: str
    writer: str | None
    actions: tuple[Action, ...]
    checks: tuple[Check, ...] = ()
    rule: str = ""

    @property
    def is_checked(self) -> bool:
        """Whether it was checked against the rules."""
        return bool(self.checks)


@dataclass(frozen=True, repr=False)
class Explanation(Displayable):
    """Whether commits that landed since conflict with a transaction that has not committed yet.

    ``rows`` are the commits since the version it read, oldest first. ``conflict`` is the first conflict;
    ``error`` is what its commit would raise, None if it would succeed. ``newest`` is the last version
    examined, ``is_empty`` means that the transaction has nothing to write yet and is checked by its reads.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> txn = table.start_transaction()
    >>> _ = txn.filter_files("id = 1")
    >>> _ = table.append({"id": [1]})
    >>> explanation = dn.explain_conflict(txn)
    >>> explanation.ok, explanation.newest, [row.version for row in explanation.rows]
    (False, 1, [1])
    """

    table: str
    read_version: int
    newest: int
    operation: str
    isolation: str
    rows: tuple[Landed, ...]
    error: DeltaError | None = None
    is_empty: bool = False

    @property
    def ok(self) -> bool:
        """Whether it would commit.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.start_transaction()
        >>> _ = txn.filter_files("id = 1")
        >>> _ = table.append({"id": [1]})
        >>> explanation = dn.explain_conflict(txn)
        >>> explanation.ok
        False
        """
        return self.error is None

    @property
    def conflict(self) -> Conflict | None:
        """Why it would not commit; None if it would.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.start_transaction()
        >>> _ = txn.filter_files("id = 1")
        >>> _ = table.append({"id": [1]})
        >>> explanation = dn.explain_conflict(txn)
        >>> explanation.conflict.rule
        'append'
        """
        return getattr(self.error, "conflict", None)

    @property
    def checks(self) -> tuple[Check, ...]:
        """The checks against the last version examined, in order.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.start_transaction()
        >>> _ = txn.filter_files("id = 1")
        >>> _ = table.append({"id": [1]})
        >>> explanation = dn.explain_conflict(txn)
        >>> [check.name for check in explanation.checks if check.state == "failed"]
        ['append']
        """
        return next((row.checks for row in reversed(self.rows) if row.is_checked), ())

    @property
    def version(self) -> int:
        """The version it would commit as, or that of the winner it would fail at.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> txn = table.start_transaction()
        >>> _ = txn.filter_files("id = 1")
        >>> _ = table.append({"id": [1]})
        >>> explanation = dn.explain_conflict(txn)
        >>> explanation.version
        1
        """
        return next((row.version for row in self.rows if row.rule), self.newest + 1)


@answer_wrong_arguments()
def explain_conflict(
    txn: OptimisticTransaction,
    version: int | None = None,
    actions: Iterable[Action] = (),
    operation: Operation | str | None = None,
) -> Explanation:
    """Check the conflict rules against what has landed since the transaction began; nothing changes.

    Args:
        txn: open, or in the middle of its steps.
        version: the last version to examine, by default the newest.
        actions, operation: as for ``commit``. Without actions, those of the files it has written; without
            these, its reads are checked as if it changed data.

    Raises:
        InvalidArgument: no transaction, a version that is not after the one read, or actions that are not
            a list.
        VersionNotFound: no such version, or a commit on the way is gone.
        IllegalStateError: the transaction has ended, or has landed without knowing it.
        InvalidTransaction: actions that may not be committed.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
    >>> txn = table.start_transaction()
    >>> files = txn.filter_files("nephews = 0")
    >>> explain_conflict(txn).ok
    True
    >>> table.append({"name": ["Scrooge"], "nephews": [1]})
    <CommandResult WRITE, ✓ committed v1, in this process>
    >>> explain_conflict(txn).conflict.rule, txn.status
    ('append', 'open')
    """
    if not hasattr(txn, "read_version"):
        raise InvalidArgument(
            f"explain_conflict takes a transaction, found {type(txn).__name__}; write it like "
            "dn.explain_conflict(table.start_transaction())")
    if txn.status not in ("open", "committing"):
        raise IllegalStateError(
            f"the transaction on table {txn.table} is {txn.status}; there is nothing left to explain"
            + ("" if txn.conflict is None else ", its .conflict says why"))
    if not isinstance(actions, Iterable):
        raise InvalidArgument(f"actions={actions!r} must be a list of actions")
    current, is_empty = _as_it_stands(txn, tuple(actions), operation)
    newest = _last_version(txn, version)
    rows, error = [], None
    for winner in _winners(txn, newest):
        about = (winner.version, winner.operation, winner.commit_info.user_name, winner.actions)
        if error is not None:
            rows.append(Landed(*about))
            continue
        verdict = check(current, winner)
        error, current = verdict.error, verdict.transaction
        if verdict.conflict is not None:
            error = verdict.conflict.dated(txn.log).error()
        rule = next((one.name for one in verdict.checks if one.state == "failed"), "")
        rows.append(Landed(*about, verdict.checks, rule))
    return Explanation(current.table, txn.read_version, newest, current.operation.name,
                       current.isolation, tuple(rows), error, is_empty)


def _as_it_stands(
    txn: OptimisticTransaction, actions: tuple[Action, ...], operation: Operation | str | None
) -> tuple[CurrentTransaction, bool]:
    """The transaction as its commit would begin, and whether it has nothing to write yet."""
    if txn.status == "committing":
        assert txn.prepared is not None
        return txn.prepared, False
    current = txn.prepare(actions or tuple(txn.written), operation)
    if current.actions:
        return current, False
    level = properties.get(current.metadata.configuration, "delta.isolationLevel")
    if operation is None:
        current = current.replace(operation=UNNAMED_OPERATION)
    return current.replace(isolation=str(level)), True


def _last_version(txn: OptimisticTransaction, version: int | None) -> int:
    newest = txn.log.update().version
    if version is None:
        return newest
    if not isinstance(version, int) or isinstance(version, bool) or version <= txn.read_version:
        raise InvalidArgument(
            f"version={version!r} is not after version {txn.read_version}, which the transaction read; "
            "what landed before it is in what it read")
    if version > newest:
        raise VersionNotFound(
            f"table {txn.table} has no version {version} yet; the newest is {newest}",
            version=version, earliest=txn.read_version, latest=newest)
    return version


def _winners(txn: OptimisticTransaction, newest: int) -> Iterator[Winner]:
    for version in range(txn.read_version + 1, newest + 1):
        winner = txn.committer.read(version)
        if winner is None:
            raise VersionNotFound(
                f"table {txn.table}: the commit of version {version} was cleaned up, so it cannot be said "
                "whether it matters; start a new transaction",
                version=version, earliest=None, latest=newest)
        if winner.commit_info.txn_id == txn.txn_id:  # the answer to its put was lost
            raise IllegalStateError(
                f"the transaction on table {txn.table} has landed as version {version}; there is nothing "
                "left to explain")
        yield winner
