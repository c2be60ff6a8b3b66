"""Which commit ended the job, and by which rule: the job as a transaction, checked against its winners.

What lives here: what the job is taken to have read, which version, the winners in order, and the first of
them at which a rule fails. The rules are asked as a commit asks them; a text is believed before them.
What it does not know: whether rows met, what would have helped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.actions import CommitInfo, DomainMetadata
from deltanb.errors import DeltaError, VersionNotFound
from deltanb.log.commit_times import time_of, version_as_of
from deltanb.observe.post_mortem.evidence import CONDITIONAL, Job, partition_of_hint
from deltanb.observe.post_mortem.report import WinnerReport
from deltanb.observe.post_mortem.same_table import NEEDED, as_question, contradiction, other_name
from deltanb.observe.post_mortem.texts import DELTA_RS
from deltanb.observe.recorded import IN_PART, Recorder
from deltanb.observe.tracks import engine_of
from deltanb.text import formatting as units
from deltanb.text.safe_text import last_part
from deltanb.transaction.conflict_rules import RULES, Rule, Verdict, check
from deltanb.transaction.conflicts import Conflict, unchecked_conflict
from deltanb.transaction.current import CurrentTransaction
from deltanb.transaction.reads import Reads, Scan, partition_key

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.steps import Winner

MAX_WINNERS = 1_000
"""Winners that are checked: more than any job meets, and some seconds of a log in a bucket."""
MAX_SEARCHED = 1_000
"""Commits that are searched for the one that a text describes, the newest first."""
AT_A_TIME = 50
"""Commits that are read together in such a search: it ends with the first that fits."""
MAX_GUESSED = 100
"""Commits that are tried one by one as the winner where neither it nor the version read is known."""


@dataclass
class Judgement:
    """The job as a transaction, its winners, and the one that ended it.

    ``recorder`` has read the log, whose commits are the files ``names``. ``transaction`` is None where no
    version of the table can be read. ``reads`` says what it is taken to have
    read, ``is_assumed`` that this is not known. ``culprit`` is the version of the winner at which it failed.
    """

    recorder: Recorder
    names: Mapping[int, str]
    first: int = 0
    transaction: CurrentTransaction | None = None
    reads: str = ""
    is_assumed: bool = True
    winners: list[WinnerReport] = field(default_factory=list)
    commits: dict[int, Winner] = field(default_factory=dict)
    num_winners: int = 0
    culprit: int | None = None
    rule: str | None = None
    conflict: Conflict | None = None
    is_certain: bool = False
    candidates: list[int] = field(default_factory=list)

    snapshots: dict[int, Snapshot] = field(default_factory=dict)

    def snapshot(self, version: int) -> Snapshot:
        """The table at a version, read once.

        Raises:
            VersionNotFound: it cannot be read any more.
        """
        if version not in self.snapshots:
            self.snapshots[version] = self.recorder.snapshot(version, with_files=True)
        return self.snapshots[version]

    def read_ahead(self, first: int, last: int) -> None:
        """Read the commits of a range, several at a time where that is faster."""
        self.recorder.read_ahead(
            {version: self.names[version] for version in range(first, last + 1) if version in self.names})


def judge(log: LogReader, job: Job, names: Mapping[int, str]) -> Judgement:
    """Find the winner; ``names`` are the files of the log's commits, by version."""
    return _Judge(log, job, names).run()


class _Judge:
    """One judgement under way."""

    def __init__(self, log: LogReader, job: Job, names: Mapping[int, str]) -> None:
        self.log, self.job, self.newest, self.oldest = log, job, max(names), min(names)
        self.recorder = Recorder(log, num_files=0)  # which does not need the newest version to be sound
        self.result = Judgement(self.recorder, names)
        self.unreadable: dict[int, DeltaError | OSError] = {}

    def run(self) -> Judgement:
        """What the text says of the winner, then the version read, then the winners."""
        job, result = self.job, self.result
        self._locate()
        winner, read = job.value("winner"), self._read_version()
        if winner is not None and self._is_contradicted(winner):
            winner = None
            del job.facts["winner"]
            job.conflict = job.attempt = None
        self._doubt_version()
        if read is not None and read > self.newest and job.facts["read version"].source != "argument":
            self._question(f"the job is said to have read version {read}, and the newest version of this "
                           f"table is {self.newest}")
            read = None
            del job.facts["read version"]
        if read is None and winner is None:
            self._guess()
            return result
        if read is not None and read > self.newest:
            raise VersionNotFound(
                f"the job cannot have read version {read}: the newest version of the table at "
                f"{self.log.path} is {self.newest}", version=read, earliest=self.oldest, latest=self.newest)
        if read is None or (winner is not None and read >= winner):
            if read is not None:
                job.remarks.append(f"the job is said to have read version {read}, which the winner, version "
                                   f"{winner}, comes before")
                del job.facts["read version"]
            assert winner is not None
            read = winner - 1
            is_known = winner == 1 and bool(set(job.rules) & set(NEEDED))  # which fail only of what was read
            job.add("read version", read, "log" if is_known else "inferred",
                    "there was no table yet" if read < 0 else
                    "no other version came before the winner" if is_known else
                    f"no later than {read}: version {winner} came after it; winners before it are not known")
        result.first = read + 1
        self._transaction(read)
        self._doubt_name()
        self._winners(read, winner)
        return result

    # -- what is known -------------------------------------------------------------------------------------

    def _is_contradicted(self, version: int) -> bool:
        """Whether the log has another commit there than the text is about, or none yet."""
        if not 0 <= version <= self.newest:
            self._question(f"the winner is said to be version {version}, and the newest version of this "
                           f"table is {self.newest}")
            return True
        winner = self._commit(version)
        why = None if winner is None else contradiction(self.job, winner)
        if why is not None:
            self._question(f"the winner is said to be version {version}; in this log {why}")
        return why is not None

    def _doubt_version(self) -> None:
        tried = self.job.value("last tried")
        if tried is not None and tried > self.newest:
            self._question(f"the job is said to have met version {tried}, and the newest version of this "
                           f"table is {self.newest}")

    def _doubt_name(self) -> None:
        """Prove nothing by a text that has another name for the table."""
        current = self.result.transaction
        if self.job.conflict is None:
            names = () if current is None else (current.metadata.name, current.table)
            name = other_name(self.job.parsed.facts.get("table"), self.log.path, names)
            if name is not None:
                self._question(
                    f"the text is about a table {name}, and this one is {last_part(self.log.path)}")

    def _question(self, what: str) -> None:
        self.job.is_doubted = True
        self.job.remarks.append(as_question(what))

    def _locate(self) -> None:
        """The winner's version by what a text says of its commit: its id, its time or a file it removed."""
        job, facts = self.job, self.job.parsed.facts
        if job.value("winner") is not None or not job.parsed.rules:
            return
        mark = next((name for name in ("winner_txn", "winner_time", "file") if name in facts), None)
        if mark is None:
            return
        for version in self._backwards():
            winner = self._commit(version)
            if winner is not None and _has_mark(winner, mark, facts):
                job.add("winner", version, "text")
                return
        commits = units.count(min(MAX_SEARCHED, self.newest - self.oldest + 1), "commit")
        value = units.time(facts[mark]) if mark == "winner_time" else facts[mark]
        job.remarks.append(f"no commit with the {MARKS[mark]} {value}, which the text names, is among the "
                           f"last {commits} of this log")

    def _backwards(self) -> Iterator[int]:
        first = max(self.oldest, self.newest - MAX_SEARCHED + 1)
        for last in range(self.newest, first - 1, -AT_A_TIME):
            begin = max(first, last - AT_A_TIME + 1)
            self.result.read_ahead(begin, last)
            yield from range(last, begin - 1, -1)

    def _commit(self, version: int) -> Winner | None:
        """A commit, None where it cannot be read."""
        try:
            return self.recorder.commit(version)
        except (DeltaError, OSError) as error:
            self.unreadable[version] = error
            return None

    def _read_version(self) -> int | None:
        job = self.job
        read: int | None = job.value("read version")
        if read is not None or job.value("started") is None:
            return read
        moment = job.value("started")
        try:
            read = version_as_of(self.log, moment)
            why = f"the newest version when the job started, {units.time(moment)}"
        except VersionNotFound as error:
            if error.latest is not None and moment > self._time_of(error.latest):
                read, why = error.latest, "no version is newer than the job's start"
            else:
                read = max(self.oldest - 1, 0)
                why = f"the job started before the log's first commit, version {self.oldest}"
        except (DeltaError, OSError) as error:
            job.remarks.append(f"the version at the job's start cannot be determined: {_line(error)}")
            return None
        read = min(read, self.newest)
        job.add("read version", read, "inferred", why)
        return read

    def _time_of(self, version: int) -> int:
        winner = self._commit(version)
        return 0 if winner is None else time_of(self.log, version, winner.commit_info.to_value()) or 0

    # -- the job as a transaction --------------------------------------------------------------------------

    def _transaction(self, read: int) -> None:
        job, result = self.job, self.result
        if job.attempt is not None and job.attempt.prepared is not None:
            result.transaction = job.attempt.prepared
            result.reads, result.is_assumed = " OR ".join(job.attempt.reads) or "nothing", False
            return
        current = self._supposed(read)
        if current is not None and job.conflict is not None:
            result.is_assumed = False
            current = current.replace(
                actions=job.conflict.your_actions, isolation=job.conflict.isolation,
                commit_info=job.conflict.commit_info, operation=job.conflict.operation)
        result.transaction = current

    def _supposed(self, read: int) -> CurrentTransaction | None:
        job, result = self.job, self.result
        info = job.commit_info()
        versions = [read, max(read, self.oldest), self.newest]
        for version in dict.fromkeys(version for version in versions if version >= 0):
            try:
                _ = result.snapshot(version)
                recorded = self.recorder.supposed(info, version)
            except (DeltaError, OSError) as error:
                job.remarks.append(
                    f"version {version}, which the job may have read, cannot be read: {_line(error)}")
                continue
            break
        else:
            return None
        if version != read >= 0:
            job.remarks.append(f"version {read} cannot be read, so files are those of version {version}")
        result.reads, current = recorded.reads, recorded.current
        knows_reads = job.value("predicate") is not None or info.operation not in CONDITIONAL
        is_known = knows_reads and info.operation is not None and version == read
        result.is_assumed = recorded.is_assumed or not is_known
        if any(words in recorded.reads for words in IN_PART):
            job.remarks.append(f"the predicate {units.shortened(str(job.value('predicate')), 80)} is not "
                               f"understood as a whole; the job is taken to have read {recorded.reads}")
        if current.is_blind_append:
            result.reads = "nothing: an append"
        return self._with_hints(current.replace(read_version=read))

    def _with_hints(self, current: CurrentTransaction) -> CurrentTransaction:
        """The transaction with what the text tells of its reads, where nothing else does."""
        job, rules = self.job, self.job.rules
        if job.value("isolation") is not None:
            current = current.replace(isolation=job.value("isolation"))
        hint = job.value("partition met")
        if hint and current.partition_columns and self.result.is_assumed and job.value("predicate") is None:
            names = {column: _physical(current, column) for column in current.partition_columns}
            values = {names[column]: value for column, value in partition_of_hint(hint) if column in names}
            if len(values) == len(names):
                scan = Scan(partitions=frozenset({partition_key(values)}))
                self.result.reads = f"at least the partition {hint}, which the text names"
                reads = Reads((scan,), current.reads.files, app_ids=current.reads.app_ids)
                return current.replace(reads=reads, is_blind_append=False)
        if "application id" in rules and job.value("winner") is not None:
            winner = self._commit(job.value("winner"))
            if winner is not None:
                return current.replace(reads=Reads(current.reads.scans, current.reads.files,
                                                   current.reads.whole_table, winner.app_ids))
        domain = job.parsed.facts.get("domain")
        if domain:
            return current.replace(actions=[*current.actions, DomainMetadata(domain, "")])
        return current

    # -- the winners ---------------------------------------------------------------------------------------

    def _winners(self, read: int, culprit: int | None) -> None:
        result, job = self.result, self.job
        if job.is_unchecked and culprit is None and read < self.newest:
            culprit = read + 1  # any winner ends it, so the first one did
        last = min(job.value("last tried") or self.newest, self.newest) if culprit is None else culprit
        result.num_winners = max(0, last - read)
        first = max(read + 1, last - MAX_WINNERS + 1) if culprit is not None else read + 1
        if first > read + 1:
            job.remarks.append(f"{units.count(first - read - 1, 'earlier winner')} were not looked at")
        if last > first + MAX_WINNERS - 1:
            left = last - first - MAX_WINNERS + 1
            job.remarks.append(f"{units.count(left, 'later winner')} were not looked at")
            last -= left
        current, named = result.transaction, self._named()
        result.read_ahead(first, last)
        for version in range(first, last + 1):
            winner = self._commit(version)
            if winner is None:
                if version == culprit:
                    result.culprit, result.is_certain = version, job.is_certain("winner")
                    result.rule = " or ".join(job.rules) or None
                result.winners.append(WinnerReport(
                    version, "", None, None, 0, 0, "unreadable", self._why_unreadable(version),
                    (result.rule or "") if version == culprit else ""))
                continue
            result.commits[version] = winner
            verdict = self._asked(current, winner, named if culprit is None else RULES)
            if version == culprit and _failed(verdict) not in job.rules:
                verdict = self._asked(current, winner, named)
            ends = version == culprit if culprit is not None else (
                result.culprit is None and verdict is not None and verdict.error is not None)
            if ends:
                self._ended(version, winner, verdict, culprit is not None)
            elif verdict is not None and result.culprit is None:
                current = verdict.transaction
            shown = verdict if ends or result.culprit is None else None
            result.winners.append(self._report(version, winner, shown, ends))
        if result.culprit is None and job.rules:
            self._by_rule_alone()

    def _by_rule_alone(self) -> None:
        """The first winner at which the rule fails if the job read everything: more cannot be known of it."""
        for at, report in enumerate(self.result.winners):
            winner = self.result.commits.get(report.version)
            if winner is None:
                continue
            verdict = self._asked(self._whole(), winner, self._named())
            if verdict is not None and verdict.error is not None:
                self._ended(report.version, winner, verdict, is_named=False)
                self.result.winners[at] = self._report(report.version, winner, verdict, ends=True)
                return

    def _named(self) -> tuple[Rule, ...]:
        """The rules that the text stands for; all of them where it names none, and none where none failed."""
        if self.job.is_taken:
            return ()
        return tuple(rule for rule in RULES if rule.name in self.job.rules) or RULES

    def _asked(
        self, current: CurrentTransaction | None, winner: Winner, rules: Sequence[Rule]
    ) -> Verdict | None:
        if current is None:
            return None
        try:
            return check(current, winner, rules)
        except Exception as error:  # a commit that no rule can read says nothing about the others
            self.job.remarks.append(f"version {winner.version} cannot be checked: {_line(error)}")
            return None

    def _ended(self, version: int, winner: Winner, verdict: Verdict | None, is_named: bool) -> None:
        """Note the winner at which the job failed, with the conflict, as far as one can be made."""
        result, job = self.result, self.job
        result.culprit = version
        if job.conflict is not None:
            result.conflict, result.rule, result.is_certain = job.conflict, job.conflict.rule, True
            return
        if job.is_unchecked:
            if result.transaction is not None:
                result.conflict = unchecked_conflict(result.transaction, winner).dated(self.log)
            result.rule, result.is_certain = "version taken", is_named and job.is_certain("winner")
            return
        if verdict is None or verdict.error is None:
            verdict = self._asked(self._whole(), winner, self._named()) if job.rules else verdict
        conflict = None if verdict is None else verdict.conflict
        result.conflict = None if conflict is None else conflict.dated(self.log)
        failed = _failed(verdict)
        result.rule = failed or " or ".join(job.rules) or None
        if job.rules and not failed:
            job.remarks.append(
                f"by what is known of the job the rule {result.rule!r} finds nothing in version {version}"
                + (", which delta-rs judges by rules of its own" if job.value("client") == DELTA_RS else ""))
        certain_reads = job.is_certain("read version", "operation") and not result.is_assumed
        by_rules = not job.has_text and certain_reads and bool(failed)
        result.is_certain = by_rules or (is_named and bool(job.rules) and job.is_certain("winner"))

    def _whole(self) -> CurrentTransaction | None:
        """The transaction as if it had read everything, where its text says that it had read more."""
        current = self.result.transaction
        if current is None:
            return None
        self.result.is_assumed = True
        return current.replace(
            reads=Reads((Scan(),), current.reads.files, whole_table=True, app_ids=current.reads.app_ids),
            is_blind_append=False)

    def _report(self, version: int, winner: Winner, verdict: Verdict | None, ends: bool) -> WinnerReport:
        info, checks = winner.commit_info, () if verdict is None else verdict.checks
        if ends:
            outcome = "ended it" if self.result.is_certain else "would have ended it"
        else:
            outcome = "not checked" if verdict is None else "passed"  # for it met a later one
        time = time_of(self.log, version, info.to_value())
        return WinnerReport(
            version, winner.operation, _writer(info), time,
            len(winner.adds), len(winner.removes), outcome,
            "" if info.operation else "its commitInfo does not say what it did",
            (self.result.rule or "") if ends else "", checks)

    def _why_unreadable(self, version: int) -> str:
        error = self.unreadable[version]
        if not isinstance(error, VersionNotFound):
            return _line(error)
        return "the log does not have it: it was cleaned up, or it is missing" if version >= self.oldest \
            else "it was cleaned up"

    # -- neither a version read nor a winner ---------------------------------------------------------------

    def _guess(self) -> None:
        """Each of the last commits on its own as the winner; of those that the rule fails at, the newest."""
        result, job = self.result, self.job
        self._doubt_name()
        if not job.rules:
            return
        first = max(self.oldest, self.newest - MAX_GUESSED + 1, 1)
        result.read_ahead(first, self.newest)
        remarks, info = list(job.remarks), job.commit_info()
        could = [version for version in range(first, self.newest + 1) if self._could_end(version, info)]
        result.candidates = could[::-1]
        job.remarks = remarks  # what each of them lacks is of no interest
        if not result.candidates:
            return
        version = result.candidates[0]
        winner = self.recorder.commit(version)
        result.transaction, result.first, result.num_winners = self._supposed(version - 1), version, 1
        job.add("read version", version - 1, "inferred",
                "the version before the newest commit that the rule could have failed at")
        verdict = self._asked(result.transaction, winner, self._named())
        result.commits[version] = winner
        self._ended(version, winner, verdict, is_named=False)
        result.is_certain = False
        result.winners.append(self._report(version, winner, verdict, ends=True))
        if len(result.candidates) > 1:
            commits = units.count(len(result.candidates), "commit")
            job.remarks.append(
                f"{commits} of the last {self.newest - first + 1} could have been the winner, "
                f"{_versions(result.candidates)}; the newest is taken. The version read or the start of the "
                "job would tell which")

    def _could_end(self, version: int, info: CommitInfo) -> bool:
        """Whether the rule fails at a commit, had the job read the version before it."""
        winner = self._commit(version)
        if winner is None:
            return False
        removes = "delete / delete" in self.job.rules
        try:
            recorded = self.recorder.supposed(info, version - 1, removes)
        except (DeltaError, OSError):
            return False
        verdict = self._asked(self._with_hints(recorded.current), winner, self._named())
        return verdict is not None and verdict.error is not None


MARKS = {"winner_txn": "txnId", "winner_time": "time", "file": "removal of"}
"""What a text may name of a commit in place of its version."""


def _has_mark(winner: Winner, mark: str, facts: Mapping[str, Any]) -> bool:
    """Whether a commit is the one that a text describes."""
    info = winner.commit_info
    if mark == "winner_txn":
        return bool(info.txn_id == facts[mark])
    if mark == "winner_time":
        return info.timestamp == facts[mark] and facts.get("winner_operation") in (None, info.operation)
    return any(one.path.endswith(str(facts[mark])) for one in winner.removes)


def _failed(verdict: Verdict | None) -> str:
    """The rule that failed, empty where none did."""
    return "" if verdict is None else next((one.name for one in verdict.checks if one.state == "failed"), "")


def _versions(versions: Sequence[int], limit: int = 5) -> str:
    more = f" and {len(versions) - limit} more" if len(versions) > limit else ""
    return ", ".join(f"v{version}" for version in versions[:limit]) + more


def _physical(current: CurrentTransaction, column: str) -> str:
    known = current.schema.get(column)
    return known.physical_name if known else column


def _writer(info: Any) -> str | None:
    user, engine = info.user_name, info.engine_info
    if isinstance(user, str) and user:
        return user
    return engine if isinstance(engine, str) and engine_of(engine) else None


def _line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0] or type(error).__name__

