"""Whether rows really met: the winner's files by statistics, then the rows that it changed by their values.

What lives here: :func:`meet`. Rows that a winner copied from one file to another unchanged do not count: only
what it added, removed or changed can have met anything.
What it does not know: the rules, and what to do about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deltanb.actions import AddFile, FileAction, RemoveFile
from deltanb.errors import DeltaError
from deltanb.observe.post_mortem.evidence import Job
from deltanb.observe.post_mortem.judge import Judgement
from deltanb.observe.post_mortem.report import MetFile, RowsMet
from deltanb.transaction.current import SNAPSHOT_ISOLATION
from deltanb.transaction.reads import Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.diff import FileDiff
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Condition
    from deltanb.transaction.steps import Winner

FILE_RULES = ("append", "delete / read", "delete / delete")
"""The rules that are about files, and so about rows."""
MAX_FILES = 100  # of the winner that are listed, with what is known of each
MAX_FILES_READ = 20
"""Files of the winner whose rows are counted one by one."""
MAX_ROWS = 1_000_000
"""Rows that are compared to see which of them the winner changed: some seconds."""
ROWS_MET = "ROW_LEVEL_CHANGES"
"""What Databricks adds to the condition of an error where it has compared rows."""


def meet(job: Job, judged: Judgement) -> RowsMet:
    """Whether rows met; nothing that cannot be read is an error."""
    winner = None if judged.culprit is None else judged.commits.get(judged.culprit)
    if winner is None:
        return RowsMet("unknown", note="the winner's commit is not known, or cannot be read")
    if judged.rule is not None and not set(judged.rule.split(" or ")) & set(FILE_RULES):
        return RowsMet("not about rows", note=f"the rule {judged.rule!r} does not look at rows")
    if judged.rule is None:
        return RowsMet("unknown", note="no rule is known to have failed")
    files = _files(judged, winner)
    if judged.transaction is not None and judged.transaction.isolation == SNAPSHOT_ISOLATION:
        return RowsMet("not about rows", files=_listed(judged, files), num_files=len(files),
                       note="the job changes the layout alone: it asks for files, whatever rows they hold")
    met = RowsMet("possible", files=_listed(judged, files), num_files=len(files))
    actions = [action for action in winner.actions if isinstance(action, FileAction)]
    if actions and not any(action.data_change for action in actions):
        return replace(met, answer="no", by="the log", rows=0,
                       note="the winner changed the layout alone: its files are marked as no change of data")
    return _Look(job, judged, winner, files, met).run()


def _files(judged: Judgement, winner: Winner) -> list[AddFile | RemoveFile]:
    if judged.conflict is not None and judged.conflict.files:
        return list(judged.conflict.files)
    return list(winner.adds) if judged.rule == "append" else list(winner.removes)


def _listed(judged: Judgement, files: Sequence[AddFile | RemoveFile]) -> tuple[MetFile, ...]:
    """The first files, with their partitions by the names that people know."""
    fields = () if judged.transaction is None else judged.transaction.schema.fields
    names = {field.physical_name: field.name for field in fields}
    return tuple(MetFile(
        file.path, "add" if isinstance(file, AddFile) else "remove",
        {names.get(name, name): value for name, value in (file.partition_values or {}).items()},
    ) for file in files[:MAX_FILES])


class _Look:
    """One look at the rows."""

    def __init__(self, job: Job, judged: Judgement, winner: Winner,
                 files: Sequence[AddFile | RemoveFile], met: RowsMet) -> None:
        self.job, self.judged, self.winner = job, judged, winner
        self.files, self.met = files, met

    def run(self) -> RowsMet:
        version = self.winner.version
        try:
            before = self.judged.snapshot(version - 1)
            after = self.judged.snapshot(version)
            condition, note = self._condition(after)
            if condition is None:
                return self._without_condition(note)
            return self._with(condition, before, after, note)
        except (DeltaError, OSError) as error:
            return replace(self.met, answer="unknown", note="versions "
                           f"{version - 1} and {version} cannot be compared: {str(error).splitlines()[0]}")

    def _condition(self, at: Snapshot) -> tuple[Condition | None, str]:
        """The job's condition, and what of it is not understood."""
        from deltanb.sql.predicates import parse_condition

        current = self.judged.transaction
        if self.job.value("predicate") is not None:
            return self.job.condition(at.schema)
        reads = () if current is None else current.reads.scans
        has_all = current is not None and current.reads.whole_table
        if (has_all or any(scan == Scan() for scan in reads)) and not self.judged.is_assumed:
            return parse_condition("TRUE", at.schema), ""
        return self.job.condition(at.schema)

    def _without_condition(self, note: str) -> RowsMet:
        if self.job.parsed.facts.get("subclass") == ROWS_MET:
            return replace(self.met, answer="yes", by="the text", note="the writer has compared rows itself")
        return replace(self.met, answer="unknown", note=note)

    def _with(self, condition: Condition, before: Snapshot, after: Snapshot, note: str) -> RowsMet:
        may = {side: set(at.files_for_scan(*condition.parts, columns=["path"])["path"].to_pylist())
               for side, at in (("add", after), ("remove", before))}
        files = [replace(one, statistics=one.path in may[one.action],
                         rows=None if one.path in may[one.action] else 0) for one in self.met.files]
        met = replace(self.met, files=tuple(files))
        changed = {"add": {file.path for file in self.winner.adds if file.data_change},
                   "remove": {file.path for file in self.winner.removes if file.data_change}}
        if not any(changed[side] & may[side] for side in changed):
            columns = [*before.partition_columns, *after.partition_columns]
            by = "partition values" if condition.is_partition_only(columns) else "statistics"
            return replace(met, answer="no", by=by, rows=0, note=note)
        met = self._counted(met, condition, before, after)
        rows, bound = _changed_rows(condition, before, after, may)
        note = "; ".join(part for part in (note, bound) if part)
        if rows is None:
            return replace(met, answer="possible", by="statistics", note=note)
        if rows == 0:
            return replace(met, answer="no", by="values", rows=0, note=note)
        is_whole = not condition.left_out and condition.reason is None
        return replace(met, answer="yes" if is_whole else "possible", by="values", rows=rows, note=note)

    def _counted(self, met: RowsMet, condition: Condition, before: Snapshot, after: Snapshot) -> RowsMet:
        """The files with the rows of each that meet the condition, as far as the bound goes."""
        from deltanb.commands.read.count import count
        from deltanb.sql.predicates import Predicate, parse

        whole = " AND ".join(f"({part.sql})" for part in condition.parts)
        sides = {"add": after, "remove": before}
        predicates: dict[str, Predicate] = {}  # of each side: the schema may have changed between them
        files, left = [], MAX_FILES_READ
        for one in met.files:
            if one.statistics is False or left <= 0:
                files.append(one)
                continue
            left -= 1
            at = sides[one.action]
            if one.action not in predicates:
                predicates[one.action] = parse(whole, at.schema)
            try:
                rows = count(at, _only(at.files, one.path), predicates[one.action])
                files.append(replace(one, rows=rows))
            except (DeltaError, OSError):
                files.append(one)  # gone or damaged: its rows stay unknown
        return replace(met, files=tuple(files))


def _only(files: pa.Table, path: str) -> pa.Table:
    import pyarrow.compute as pc

    return files.filter(pc.equal(files["path"], path))


def _changed_rows(
    condition: Condition, before: Snapshot, after: Snapshot, may: dict[str, set[str]]
) -> tuple[int | None, str]:
    """How many rows the winner added, removed or changed that meet the condition, before or after; None and
    the reason where they were not read."""
    from deltanb.commands.read.diff import rows_of
    from deltanb.log.diff import compare
    from deltanb.sql.predicates import filter_table

    rows = rows_of(before, after, _those(compare(before, after).files, may), None, MAX_ROWS)
    if not rows.is_exact or rows.note:
        return None, f"rows were not compared: {rows.note}"

    def matching(table: pa.Table) -> Any:
        for part in condition.parts:
            table = filter_table(table, part)
        return table.num_rows

    changed = max(matching(rows.before), matching(rows.after))
    return matching(rows.added) + matching(rows.removed) + changed, ""


def _those(files: FileDiff, may: dict[str, set[str]]) -> FileDiff:
    """The differing files in which a row may meet the condition: rows of all others cannot."""
    import pyarrow as pa
    import pyarrow.compute as pc

    def within(table: pa.Table, *sides: str) -> pa.Array:
        paths = pa.array(sorted(set().union(*(may[side] for side in sides))), pa.string())
        return pc.is_in(table["path"], value_set=paths)

    in_place = within(files.remasked_after, "add", "remove")
    return replace(
        files, added=files.added.filter(within(files.added, "add")),
        removed=files.removed.filter(within(files.removed, "remove")),
        remasked_before=files.remasked_before.filter(in_place),
        remasked_after=files.remasked_after.filter(in_place))
