"""What would have let the job pass: each change is tried by asking the rules again with it.

What lives here: :data:`CHANGES`, one function for each kind of change, and :func:`remedies`, which tries all.
A change is proved where the rules let the job pass with it, at the winner and at every commit that may have
landed by then, and nothing of the job is assumed.
What it does not know: how rows are compared (``rows_met``), which commit the winner is (``judge``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltanb.actions import AddFile
from deltanb.errors import DeltaError, InvalidPredicate
from deltanb.log.commit_times import time_of
from deltanb.observe.finer_rules import FinerRules
from deltanb.observe.post_mortem.evidence import CONDITIONAL, Job
from deltanb.observe.post_mortem.judge import MAX_WINNERS, Judgement
from deltanb.observe.post_mortem.report import POSSIBLE, PROVED, Remedy, RowsMet
from deltanb.observe.post_mortem.rows_met import FILE_RULES
from deltanb.schema import properties
from deltanb.schema.paths import backticked, quoted
from deltanb.sql.literals import text_literal
from deltanb.text import formatting as units
from deltanb.transaction.conflict_rules import RULES, Rule, check
from deltanb.transaction.current import WRITE_SERIALIZABLE, CurrentTransaction
from deltanb.transaction.reads import Reads, Scan, partition_key
from deltanb.transaction.row_levels import PROPERTY
from deltanb.transaction.steps import Winner

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.snapshot import Snapshot

MAX_PARTITIONS = 10  # that a remedy names one by one
MAX_FILES_GROUPED = 100_000
"""Files whose partitions are looked at."""

MAX_COLUMNS_TRIED = 5  # of a condition, as columns to partition by
ROW_LEVEL_REASONS = {
    "statistics": "the statistics of the files exclude every row that the job asked for",
    "values": "the files that were added hold no row that the job asked for",
    "vectors": "the deletion vectors of both take different rows",
}
"""Levels of row-level concurrency, the cheapest first, and why each lets a job pass."""

PartitionKey = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Passage:
    """That the job would have passed the winner, how certain that is, and what it may have met behind it."""

    certainty: str
    note: str = ""

    def remedy(self, change: str, why: str) -> Remedy:
        """The change that led to it."""
        return Remedy(change, self.certainty, f"{why}; {self.note}" if self.note else why)


@dataclass
class Case:
    """What the changes are tried on: the job as a transaction, its winner, and the rows that met."""

    job: Job
    judged: Judgement
    met: RowsMet
    current: CurrentTransaction
    winner: Winner
    asked: dict[tuple[str, tuple[str, ...]], tuple[Passage | None, list[str]]] = field(default_factory=dict)
    """What finer rules have answered: they may open files for it."""

    @property
    def certainty(self) -> str:
        """That of a change that passes, by what is known of the job."""
        knows = not self.judged.is_assumed and self.job.is_certain("operation", "read version")
        return PROVED if knows else POSSIBLE

    def passes(self, current: CurrentTransaction, rules: Sequence[Rule] = RULES) -> Passage | None:
        """How the rules let the job, as it would have been, pass the winner and those behind it.

        None where it fails, at the winner or at a commit that had landed before the job ended for certain.
        """
        verdict = check(current, self.winner, rules)
        if verdict.error is not None:
            return None
        version, last = self.winner.version, max(self.judged.names)
        landed = version if self.job.attempt is None else self.job.attempt.newest
        end = min(last, version + MAX_WINNERS)
        self.judged.read_ahead(version + 1, end)
        for later in range(version + 1, end + 1):
            try:
                verdict = check(verdict.transaction, self.judged.recorder.commit(later), rules)
            except (DeltaError, OSError):
                return Passage(POSSIBLE, f"version {later}, which may have landed by then, cannot be read")
            if verdict.error is not None:
                return None if later <= landed else Passage(
                    POSSIBLE, f"it would have met version {later}, too, if that had landed by then")
        if end < last:
            return Passage(POSSIBLE, f"only {units.count(end - version, 'later commit')} were checked")
        return Passage(self.certainty)

    def passes_finer(
        self, row_level: str, partition_by: Sequence[str] = ()
    ) -> tuple[Passage | None, list[str]]:
        """How finer rules let the job pass, and why it may have passed where they do not."""
        question = row_level, tuple(partition_by)
        if question not in self.asked:
            finer = FinerRules(self.judged.recorder, *question)
            self.asked[question] = self.passes(self.current, finer.of(RULES)), finer.doubts
        return self.asked[question]

    def snapshot(self) -> Snapshot:
        """The version that the job read."""
        return self.judged.snapshot(self.current.read_version)


def remedies(job: Job, judged: Judgement, met: RowsMet) -> tuple[Remedy, ...]:
    """What would have let the job pass, proved ones first."""
    winner = None if judged.culprit is None else judged.commits.get(judged.culprit)
    if winner is None or judged.transaction is None or job.is_taken:
        return tuple(_retries(job))
    case = Case(job, judged, met, judged.transaction, winner)
    changes: list[Remedy] = list(_retries(job))
    for kind, tried in CHANGES.items():
        try:
            changes += [Remedy(one.change, one.certainty, one.why, kind) for one in tried(case)]
        except (DeltaError, OSError) as error:
            job.remarks.append(f"whether {kind} would have helped is not known: {str(error).splitlines()[0]}")
    return tuple(sorted(changes, key=lambda one: one.certainty != PROVED))


def _retries(job: Job) -> Iterator[Remedy]:
    if job.is_taken:
        yield Remedy("Allow more attempts, or start the job when fewer others commit", POSSIBLE,
                     "no rule failed: it lost the race for a version each time", "attempts")


# -- the isolation level ------------------------------------------------------------------------------------


def _isolation(case: Case) -> Iterator[Remedy]:
    if case.current.isolation == WRITE_SERIALIZABLE or case.judged.rule != "append":
        return
    passage = case.passes(case.current.replace(isolation=WRITE_SERIALIZABLE))
    if passage is not None:
        yield passage.remedy(
            f"Set delta.isolationLevel to {WRITE_SERIALIZABLE}",
            f"version {case.winner.version} is a blind append, which that level lets pass")


# -- the condition ------------------------------------------------------------------------------------------


def _partition_predicate(case: Case) -> Iterator[Remedy]:
    """Naming the partitions in which, by statistics, all rows are that the condition names."""
    if not case.current.partition_columns or case.judged.rule not in FILE_RULES:
        return
    snapshot = case.snapshot()
    condition, _ = case.job.condition(snapshot.schema)
    if condition is None or condition.is_partition_only(snapshot.partition_columns):
        return
    needed = _partitions(snapshot.files_for_scan(*condition.parts, columns=["path", "partition_values"]))
    if needed is None or not needed or len(needed) > MAX_PARTITIONS or needed & _met_partitions(case):
        return
    passage = case.passes(_reading_only(case.current, needed))
    if passage is not None:
        where = " OR ".join(f"({_condition_of(case, key)})" if len(needed) > 1 else _condition_of(case, key)
                            for key in sorted(needed, key=str))
        yield passage.remedy(
            f"Add to the condition: {where}",
            f"by statistics of version {snapshot.version}, all rows that the condition names are there, and "
            f"version {case.winner.version} changed other partitions; only partition columns count")


def _splitting(case: Case) -> Iterator[Remedy]:
    """Running the job for each partition: those that the winner did not touch would have passed."""
    if not case.current.partition_columns or case.judged.rule not in FILE_RULES:
        return
    met, read = _met_partitions(case), set[PartitionKey]()
    for table in case.current.reads.files:
        keys = _partitions(table)
        if keys is None:
            return
        read |= keys
    rest = read - met
    if not rest or not met & read:
        return
    passage = case.passes(_reading_only(case.current, rest))
    if passage is not None:
        names = ", ".join(_named(case, key) for key in sorted(met, key=str)[:MAX_PARTITIONS])
        columns = ", ".join(case.current.partition_columns)
        yield passage.remedy(
            f"Split the job by partition ({columns})",
            f"{len(rest)} of {units.count(len(read), 'partition')} would have passed; only {names} would "
            "have to run again")


def _reading_only(current: CurrentTransaction, keys: set[PartitionKey]) -> CurrentTransaction:
    """The transaction had it read and removed nothing outside some partitions."""
    import pyarrow as pa

    def inside(table: pa.Table) -> pa.Table:
        values = table["partition_values"].to_pylist(maps_as_pydicts="lossy")
        return table.filter(pa.array([partition_key(one) in keys for one in values], pa.bool_()))

    files = tuple(inside(table) for table in current.reads.files)
    paths = {path for table in files for path in table["path"].to_pylist()}
    actions = [a for a in current.actions
               if isinstance(a, AddFile) or not hasattr(a, "path") or a.path in paths]
    reads = Reads((Scan(partitions=frozenset(keys)),), files, app_ids=current.reads.app_ids)
    return current.replace(reads=reads, actions=actions)


def _partitions(files: pa.Table) -> set[PartitionKey] | None:
    """The partitions of files; None where there are too many files to look at."""
    if files.num_rows > MAX_FILES_GROUPED:
        return None
    return {partition_key(values) for values in files["partition_values"].to_pylist(maps_as_pydicts="lossy")}


def _met_partitions(case: Case) -> set[PartitionKey]:
    files = [*case.winner.adds, *case.winner.removes]
    return {partition_key(file.partition_values) for file in files if file.data_change}


def _condition_of(case: Case, key: PartitionKey) -> str:
    parts = []
    for physical, value in key:
        name = _in_sql(_column(case, physical))
        parts.append(f"{name} IS NULL" if value is None else f"{name} = {text_literal(value)}")
    return " AND ".join(parts)


def _in_sql(column: str) -> str:
    """A column's name as a condition has it; words of SQL need backticks, too."""
    from sqlglot import exp

    from deltanb.sql.syntax import syntax

    name = quoted([column])
    try:
        return name if syntax(f"{name} IS NULL").find(exp.Column) is not None else backticked(column)
    except InvalidPredicate:
        return backticked(column)


def _named(case: Case, key: PartitionKey) -> str:
    shown = (f"{_column(case, name)}={'null' if value is None else value}" for name, value in key)
    return f"[{', '.join(shown)}]"


def _column(case: Case, physical: str) -> str:
    """A column's name where the log has the one in data files."""
    return next((f.name for f in case.current.schema.fields if f.physical_name == physical), physical)


# -- finer rules -----------------------------------------------------------------------------------------


def _row_level(case: Case) -> Iterator[Remedy]:
    """The weakest of the finer rules that lets it pass; else those by which it may have passed."""
    if case.judged.rule not in FILE_RULES:
        return
    for level, reason in ROW_LEVEL_REASONS.items():
        passage, doubts = case.passes_finer(level)
        if passage is not None or doubts:
            why = reason if passage is not None else f"not known: {doubts[0]}"
            change = f"Set {PROPERTY} to {level}, for jobs of deltanb"
            yield (passage or Passage(POSSIBLE)).remedy(change, why)
            return


def _partitioning(case: Case) -> Iterator[Remedy]:
    """Partitioning a table that is not by a column of the condition that tells the two apart."""
    condition, _ = case.job.condition(case.current.schema)
    if condition is None or case.judged.rule not in FILE_RULES or case.current.partition_columns:
        return
    columns = sorted({path[0] for part in condition.parts for path in part.column_paths})
    for column in columns[:MAX_COLUMNS_TRIED]:
        passage, _ = case.passes_finer("off", (column,))
        if passage is not None:
            yield passage.remedy(f"Partition the table by {column}",
                                 f"the files of version {case.winner.version} have other values of {column}")
            return


def _vectors(case: Case) -> Iterator[Remedy]:
    """Deletion vectors on both sides, with rules that compare rows: other rows of one file do not meet."""
    operation = case.current.operation.name
    both = operation in CONDITIONAL and case.winner.operation in CONDITIONAL
    if not both or not case.winner.removes or case.judged.rule not in FILE_RULES:
        return
    if case.met.answer not in ("no", "unknown") or case.passes_finer("vectors")[0] is not None:
        return  # rows met, or they both have vectors already
    enabled = properties.get(case.current.metadata.configuration, "delta.enableDeletionVectors")
    change = f"Set {PROPERTY} to vectors, for jobs of deltanb" if enabled else (
        f"Set delta.enableDeletionVectors to true, and {PROPERTY} to vectors, for jobs of deltanb")
    why = "both changed rows of the same files, and no row is the same" if case.met.answer == "no" else (
        "both may have changed other rows of the same files")
    yield Remedy(change, POSSIBLE, f"{why}; both writers must write vectors and judge by rows")


# -- another time --------------------------------------------------------------------------------------------


def _another_time(case: Case) -> Iterator[Remedy]:
    """Beginning behind the winner, and what would have met it then."""
    version, newest = case.winner.version, max(case.judged.names)
    recorder = case.judged.recorder
    if case.job.commit_info().operation == "ADD CONSTRAINT" and case.met.answer == "yes":
        return  # the winner's rows break the constraint: it would be refused whenever it began
    if case.job.conflict is not None and case.judged.is_assumed is False and not case.job.value("predicate"):
        info = case.current.commit_info
    else:
        info = case.job.commit_info()
    current = recorder.supposed(info, version).current.replace(isolation=case.current.isolation)
    last, met = min(newest, version + MAX_WINNERS), []
    case.judged.read_ahead(version + 1, last)
    for later in range(version + 1, last + 1):
        try:
            if check(current, recorder.commit(later)).error is not None:
                met.append(later)
        except DeltaError:
            met.append(later)  # whether it would have met is not known, which is no proof
    time = time_of(recorder.log, version, case.winner.commit_info.to_value())
    when = "" if time is None else f" ({units.time(time)})"
    change = f"Start it after version {version} has landed{when}"
    if last == version:
        why = "nothing has landed since, so it would have met no other commit"
    elif met:
        more = f" and {len(met) - 3} more" if len(met) > 3 else ""
        named = ", ".join(f"v{one}" for one in met[:3])
        commits = units.count(last - version, "later commit")
        why = f"of {commits}, {named}{more} would have met it, had it run as long"
    else:
        why = f"none of {units.count(last - version, 'later commit')} would have met it"
    yield Remedy(change, POSSIBLE if met else case.certainty, why)


CHANGES: Mapping[str, Callable[[Case], Iterator[Remedy]]] = {
    "isolation level": _isolation,
    "partition predicate": _partition_predicate,
    "row-level rules": _row_level,
    "deletion vectors": _vectors,
    "splitting": _splitting,
    "another time": _another_time,
    "partitioning": _partitioning,
}
"""The kinds of change, in the order in which they are tried."""

