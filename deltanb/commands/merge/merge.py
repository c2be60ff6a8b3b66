"""MERGE: rows of a source update, delete and extend those of a table, in one commit.

What lives here: :class:`MergeBuilder`, the clauses as people write them, and the command: schema
evolution, the files that may hold matching rows, their changes, the operation's record.
What it does not know: names and clauses (``clauses``), the ON condition (``on``), how rows are joined and
made (``in_process`` in the process, ``on_spark`` on Spark).

The reads are the files that may hold a matching row, by the partition conjuncts of the condition and the
source's values; so two merges whose sources are in different partitions do not conflict. A merge that only
inserts rewrites nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.actions import AddFile, SetTransaction
from deltanb.commands.begin import begin
from deltanb.commands.choose_engine import check_engine, choose_engine
from deltanb.commands.define import evolution
from deltanb.commands.merge import keys
from deltanb.commands.merge.clauses import (
    DELETE,
    INSERT,
    MATCHED,
    NOT_MATCHED,
    NOT_MATCHED_BY_SOURCE,
    UPDATE,
    Clause,
    Names,
    Resolved,
    check_order,
    evolved,
    resolve,
)
from deltanb.commands.merge.in_process import ArrowMerge
from deltanb.commands.merge.on import On, analyze
from deltanb.commands.merge.source import Source
from deltanb.commands.result import CommandResult, Stopwatch
from deltanb.commands.rows.change_files import wants_changes, write_changes
from deltanb.commands.rows.find_and_change import FileChanges, mark_deleted, uses_vectors
from deltanb.commands.rows.write import commit_or_discard, is_done
from deltanb.commands.session import through_session
from deltanb.engines.arrow.assignments import texts
from deltanb.engines.arrow.enforce import Enforcer, nullable
from deltanb.engines.arrow.touched import live_count, rows_of, written_rows
from deltanb.engines.contract import FileRows, JoinedRows, MergeEngine, TouchedFile
from deltanb.errors import (
    IllegalStateError,
    InvalidArgument,
    MultipleSourceRowsMatched,
    SourceRowsLost,
    UnsupportedPredicate,
)
from deltanb.log.replay import files_table
from deltanb.log.snapshot import Snapshot
from deltanb.options import options
from deltanb.schema import columns as column_values
from deltanb.schema import properties
from deltanb.schema.protocol import check_writable
from deltanb.schema.types import StructType, to_arrow
from deltanb.text.display import Displayable
from deltanb.text.spellings import SpeltClass, answer_wrong_arguments
from deltanb.transaction import active
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import FileScan

if TYPE_CHECKING:
    from deltanb.sql.predicates import Predicate
    from deltanb.transaction.delta_log import DeltaLog

Narrow = Callable[[Snapshot, FileScan], FileScan]
"""Of the files that may hold rows which match those that do, where somebody knows better than statistics."""

Within = Callable[["MergeBuilder", Callable[["MergeBuilder"], CommandResult]], CommandResult]

TARGET_ALIAS, SOURCE_ALIAS = "target", "source"
MAX_ATTEMPTS = 3  # where Spark loses executors that hold the source
_NOTHING = -1  # in place of a version: no row changed


@answer_wrong_arguments()
@dataclass(frozen=True, repr=False)
class MergeBuilder(Displayable, SpeltClass, place="merge"):
    """The description of a merge; each call returns a builder with a further clause. Nothing is read or
    written before :meth:`execute`; until then it is shown as what it would do.

    For a target row that matches a source row, and for a row of either side without a match, the first clause
    of its kind whose condition is TRUE applies. Only the last clause of a kind may omit the condition.
    Conditions and values use the tables' aliases; names that only one of them has need no alias. Values see
    the old rows.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, 3]})
    >>> result = (table.merge({"name": ["Donald", "Gladstone"], "nephews": [4, 0]}, "t.name = s.name",
    ...                       target_alias="t", source_alias="s")
    ...           .when_matched_update_all().when_not_matched_insert_all().execute())
    >>> result.metrics["numTargetRowsUpdated"], result.metrics["numTargetRowsInserted"]
    (1, 1)
    >>> table.to_arrow().sort_by("name").to_pydict()
    {'name': ['Daisy', 'Donald', 'Gladstone'], 'nephews': [3, 4, 0]}
    """

    log: DeltaLog = field(repr=False)
    source: Any = field(repr=False)
    on: str
    target_alias: str = TARGET_ALIAS
    source_alias: str = SOURCE_ALIAS
    clauses: tuple[Clause, ...] = ()
    evolves: bool = False
    keys: tuple[str, ...] = ()
    """The columns that ``on`` compares, where it was given by their names."""
    refuses_repeated: bool = False
    """Whether a key that several rows of the source have is an error even if no row of the table has it."""
    narrow: Narrow | None = field(default=None, repr=False)
    recorded: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the commit says beside the parameters of any merge: of which stream it is a batch."""
    within: Within | None = field(default=None, repr=False, compare=False)
    """As which table's call it is run: it gets the merge, and what runs one, which can be done again."""
    results: list[CommandResult] = field(default_factory=list, init=False, repr=False, compare=False)
    """What it did, each time that it was executed."""

    def when_matched_update(
        self, condition: str | None = None, *, set: Mapping[str, Any]
    ) -> MergeBuilder:
        """Update a matching row, by column of the table (``a.b`` is a field of a struct).

        A text is SQL; another Python value means itself: ``{"n": "s.n + 1", "seen": True}``.

        Raises:
            InvalidArgument: an earlier clause for matching rows has no condition.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2], "n": [10, 20]})
        >>> merge = table.merge({"id": [1, 2], "n": [5, 0]}, "target.id = source.id")
        >>> merge = merge.when_matched_update("source.n > 0", set={"n": "target.n + source.n"})
        >>> _ = merge.when_matched_update(set={"n": -1}).execute()
        >>> table.to_arrow()["n"].to_pylist()
        [15, -1]
        """
        return self._with(Clause(MATCHED, UPDATE, condition, _mapping(set, "set")))

    def when_matched_update_all(
        self, condition: str | None = None, *, except_cols: Sequence[str] = ()
    ) -> MergeBuilder:
        """Update a matching row with the source's columns of the same names.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1], "name": ["Huey"], "seen": [1]})
        >>> merge = table.merge({"id": [1], "name": ["Dewey"], "seen": [2]}, on="id")
        >>> _ = merge.when_matched_update_all(except_cols=["name"]).execute()
        >>> table.to_arrow().to_pylist()
        [{'id': 1, 'name': 'Huey', 'seen': 2}]
        """
        return self._with(Clause(MATCHED, UPDATE, condition, None, _names(except_cols)))

    def when_matched_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete a matching row.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2, 3]})
        >>> merge = table.merge({"id": [2, 3], "keep": [True, False]}, on="id")
        >>> _ = merge.when_matched_delete("NOT keep").execute()
        >>> table.to_arrow()["id"].to_pylist()
        [1, 2]
        """
        return self._with(Clause(MATCHED, DELETE, condition))

    def when_not_matched_insert(
        self, condition: str | None = None, *, values: Mapping[str, Any]
    ) -> MergeBuilder:
        """Insert a source row without a match; columns without a value are NULL.

        Values are SQL or Python values, as in :meth:`when_matched_update`.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1], "name": ["Huey"], "seen": [1]})
        >>> merge = table.merge({"id": [1, 2], "name": ["x", "dewey"]}, on="id")
        >>> values = {"id": "source.id", "name": "upper(source.name)"}
        >>> _ = merge.when_not_matched_insert(values=values).execute()
        >>> table.to_arrow(where="id = 2").to_pylist()
        [{'id': 2, 'name': 'DEWEY', 'seen': None}]
        """
        return self._with(Clause(NOT_MATCHED, INSERT, condition, _mapping(values, "values")))

    def when_not_matched_insert_all(
        self, condition: str | None = None, *, except_cols: Sequence[str] = ()
    ) -> MergeBuilder:
        """Insert a source row without a match, with the columns of the same names.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.merge({"id": [1, 2]}, on="id").when_not_matched_insert_all().execute()
        >>> sorted(table.to_arrow()["id"].to_pylist())
        [1, 2]
        """
        return self._with(Clause(NOT_MATCHED, INSERT, condition, None, _names(except_cols)))

    def when_not_matched_by_source_update(
        self, condition: str | None = None, *, set: Mapping[str, Any]
    ) -> MergeBuilder:
        """Update a target row without a match in the source.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2], "active": [True, True]})
        >>> merge = table.merge({"id": [1]}, on="id")
        >>> _ = merge.when_not_matched_by_source_update(set={"active": False}).execute()
        >>> table.to_arrow()["active"].to_pylist()
        [True, False]
        """
        return self._with(Clause(NOT_MATCHED_BY_SOURCE, UPDATE, condition, _mapping(set, "set")))

    def when_not_matched_by_source_delete(self, condition: str | None = None) -> MergeBuilder:
        """Delete a target row without a match in the source.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1, 2, 30]})
        >>> merge = table.merge({"id": [1]}, on="id")
        >>> _ = merge.when_not_matched_by_source_delete("target.id < 10").execute()
        >>> table.to_arrow()["id"].to_pylist()
        [1, 30]
        """
        return self._with(Clause(NOT_MATCHED_BY_SOURCE, DELETE, condition))

    def with_schema_evolution(self) -> MergeBuilder:
        """Add columns of the source that clauses assign and the table lacks.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> merge = table.merge({"id": [1], "name": ["Huey"]}, on="id").with_schema_evolution()
        >>> _ = merge.when_matched_update_all().execute()
        >>> table.to_arrow().to_pylist()
        [{'id': 1, 'name': 'Huey'}]
        """
        return replace(self, evolves=True)

    def _with(self, clause: Clause) -> MergeBuilder:
        if clause.condition is not None and not isinstance(clause.condition, str):
            raise InvalidArgument(
                f"the condition of {clause.words} is {clause.condition!r:.80}, not SQL text")
        check_order(self.clauses, clause)
        return replace(self, clauses=(*self.clauses, clause))

    @active.command_named("merge")
    def execute(
        self, engine: str = "auto", user_metadata: str | None = None,
        txn: tuple[str, int] | None = None,
    ) -> CommandResult:
        """Run the merge.

        Args:
            engine: ``"auto"`` joins equalities (``t.a = s.a AND t.b <=> s.b``) in the process, and uses Spark
                for other conditions, for SQL that the process cannot evaluate, for a Spark DataFrame as the
                source, and for data beyond notebook size; ``"arrow"`` and ``"spark"`` force one. Both give
                the same rows.
            user_metadata: text to record in the commit.
            txn: (application id, version): the merge is skipped if the table has that version of the
                application, or a later one. With it, a merge that changes no row is committed, too.

        Returns:
            The version (None if nothing was committed), engine, and Delta's metrics.

        Raises:
            MultipleSourceRowsMatched: several rows of the source match one of the target.
            InvalidPredicate: invalid SQL, or an unknown column.
            UnsupportedPredicate: SQL that needs Spark, which ``engine`` or the installation excludes.
            SchemaMismatch, ConstraintViolation: a row does not fit; nothing was written.
            AppendOnlyTable: rows would be removed, and the table has ``delta.appendOnly=true``.
            InvalidArgument: no clause, or an unknown engine.
            SourceRowsLost: a cluster repeatedly lost the executors that held the source.
            DeltaConcurrentModificationException: another commit changed what was read.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> merge = table.merge({"id": [1, 2]}, on="id").when_not_matched_insert_all()
        >>> result = merge.execute(user_metadata="night run")
        >>> result.version, result.metrics["numTargetRowsInserted"], table.history()[0].user_metadata
        (1, 1, 'night run')
        """
        check_engine(engine)
        if not self.clauses:
            raise InvalidArgument("the merge has no clause; add when_matched_…() or when_not_matched_…()")
        settings = through_session(engine, self.source, ("merge_schema", "txn"))
        builder = self.with_schema_evolution() if settings.get("merge_schema") else self
        txn = settings.get("txn") if txn is None else txn

        def run(merge: MergeBuilder) -> CommandResult:
            for _ in range(MAX_ATTEMPTS - 1):
                with suppress(SourceRowsLost):
                    return _Merge(merge, engine, user_metadata, txn).run()
            return _Merge(merge, engine, user_metadata, txn).run()

        self.results.append(run(builder) if self.within is None else self.within(builder, run))
        return self.results[-1]


def merge(
    log: DeltaLog, source: Any, on: str | Sequence[str], *, target_alias: str = TARGET_ALIAS,
    source_alias: str = SOURCE_ALIAS, merge_schema: bool = False,
) -> MergeBuilder:
    """Begin the description of a merge into a table; its ``.execute()`` runs it.

    Args:
        source: Arrow, pandas, polars, a dict of columns or a list of dicts; another
            :class:`~deltanb.table.table.DeltaTable`; or a Spark DataFrame.
        on: a column that both sides have, several (``["id", "day"]``), or SQL that is TRUE for a row of the
            table and a row of the source that match. A comparison with NULL never is, so NULL in a key
            matches nothing, except by ``<=>`` in SQL.
        target_alias, source_alias: the names of table and source in SQL.
        merge_schema: add columns of the source that clauses assign and the table lacks, as
            :meth:`MergeBuilder.with_schema_evolution`.

    Raises:
        InvalidArgument: ``on`` is neither; when it is executed, a side lacks a column that it names.

    >>> import deltanb as dn
    >>> table = dn.create("uncles", {"name": ["Donald"], "nephews": [3]})
    >>> table.merge({"name": ["Donald"], "nephews": [4]}, on="name").when_matched_update_all()
    <MergeBuilder MERGE uncles, not executed: call .execute()>
    """
    sql, names = keys.condition_of(on, target_alias, source_alias)
    return MergeBuilder(log, source, sql, target_alias, source_alias, evolves=merge_schema, keys=names)


def upsert(
    log: DeltaLog, source: Any, on: str | Sequence[str], *, merge_schema: bool = False, engine: str = "auto",
    user_metadata: str | None = None, txn: tuple[str, int] | None = None,
) -> CommandResult:
    """Update the rows whose keys the source has, with all columns of their names, and insert its other rows.

    It is the merge ``on`` these columns with ``when_matched_update_all()`` and
    ``when_not_matched_insert_all()``, executed at once. A source row with NULL in a key matches nothing, and
    is inserted. Columns that only the source has are left out, except with ``merge_schema``.

    Args:
        source: as of :func:`merge`.
        on: a column that both sides have, or several.
        merge_schema: add columns that the source has and the table lacks; the table's other columns stay as
            they are in updated rows, and are NULL in new ones.
        engine, user_metadata, txn: as of :meth:`MergeBuilder.execute`.

    Returns:
        The version (None if nothing was committed), engine, and Delta's metrics.

    Raises:
        MultipleSourceRowsMatched: several rows of the source have one key, whether the table has it or not.
        InvalidArgument: the table or the source lacks a column of ``on``, which is by name.
        SchemaMismatch, ConstraintViolation, AppendOnlyTable, DeltaConcurrentModificationException: as of
            :meth:`MergeBuilder.execute`.
    """
    builder = merge(log, source, keys.columns_of(on, "upsert"), merge_schema=merge_schema)
    builder = builder.when_matched_update_all().when_not_matched_insert_all()
    return replace(builder, refuses_repeated=True).execute(engine, user_metadata, txn)


def _mapping(values: Any, name: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        raise InvalidArgument(f"{name}={values!r:.80} must be columns and their values, as SQL or as Python "
                              "values, such as {'name': 'upper(s.name)', 'age': 7}")
    return dict(values)


def _names(names: Any) -> tuple[str, ...]:
    if isinstance(names, str):
        raise InvalidArgument(f"except_cols={names!r} is a string; write except_cols=[{names!r}]")
    return tuple(names)


# --- the command ------------------------------------------------------------------------------------

def _rows_in(files: Iterable[AddFile]) -> int:
    return sum(file.num_records or 0 for file in files)


class _Merge:
    """One run of a merge."""

    def __init__(
        self, builder: MergeBuilder, engine: str, user_metadata: str | None, done: tuple[str, int] | None
    ) -> None:
        self.builder, self.engine, self.user_metadata = builder, engine, user_metadata
        self.done = done
        self.watch = Stopwatch()
        kinds = {clause.kind for clause in builder.clauses}
        self.is_insert_only = kinds == {NOT_MATCHED}
        self.needs_all_rows = NOT_MATCHED_BY_SOURCE in kinds
        self.txn = begin(
            builder.log, "rows", removes=None if self.is_insert_only else "MERGE")
        self.source = Source(builder.source)
        self.names = Names(self.txn.snapshot.schema, self.source.schema, builder.target_alias,
                           builder.source_alias, options.clock())
        self.keys = keys.check(
            builder.keys, self.txn.table, self.names.target.names, self.names.source.names)
        self.on: On = analyze(self.names.qualified(builder.on), self.names)
        schema = self._evolve()
        self.clauses: list[Resolved] = [
            resolve(self.names, clause, schema, evolves=builder.evolves) for clause in builder.clauses]
        self.schema = schema

    def _evolve(self) -> StructType:
        """The table's schema after the merge; a new one is set in the transaction."""
        txn = self.txn
        before = txn.metadata
        if not self.builder.evolves:
            return before.schema
        widen = properties.get(before.configuration, "delta.enableTypeWidening") and any(
            txn.protocol.supports(name) for name in ("typeWidening", "typeWidening-preview"))
        schema = evolved(self.names, self.builder.clauses, widen=bool(widen))
        if schema == before.schema:
            return schema
        after = evolution.with_schema(before, schema)
        evolution.check_retained_constraints(before, after)
        txn.update_metadata(after)
        check_writable(txn.protocol, txn.metadata, txn.table)
        return after.schema

    def run(self) -> CommandResult:
        """Find the changes, write them, commit."""
        from deltanb.text.progress import progress

        txn = self.txn
        if self.done is not None and is_done(txn, self.done):
            return CommandResult("MERGE", None, "log")
        work, engine, files = self._begun()
        if self.builder.refuses_repeated:
            self._refuse_repeated(work)
        with progress("MERGE: looking for rows", len(files)) as seen:
            matches = work.find(files, seen)
        self.watch.lap("scanTimeMs")
        if matches.several and not self.is_insert_only and not self._deletes_alone():
            raise MultipleSourceRowsMatched(
                f"several rows of the source match one row of table {txn.table} by "
                f"{self.builder.on!r}, so what the row becomes is ambiguous. Make the source's keys unique "
                "first (one row for each), or make the condition narrower; nothing was written",
                table=txn.table)
        metrics: dict[str, int] = {}

        def commit() -> int:
            with progress("MERGE: writing files"):
                changes = self._write(work, matches)
            marks = [] if self.done is None else [
                SetTransaction(*self.done, last_updated=options.clock())]
            if not changes.actions and not marks and txn.metadata == txn.snapshot.metadata:
                return _NOTHING
            self.watch.lap("rewriteTimeMs")
            metrics.update(self._metrics(changes, matches.counts, work.num_source_rows))
            return txn.commit([*marks, *changes.actions], self._operation(metrics, changes))

        version = commit_or_discard(txn, commit)
        return CommandResult("MERGE", None if version == _NOTHING else version, engine, metrics)

    def _refuse_repeated(self, work: MergeEngine) -> None:
        """Refuse keys that several rows of the source have: those that the table lacks would be inserted as
        often, and nothing would tell them apart later."""
        key = work.repeated(self.keys)
        if key is not None:
            raise keys.refusal(self.txn.table, *key)

    def _deletes_alone(self) -> bool:
        """Whether the only clause for matching rows deletes all of them, so that several matches do not
        matter."""
        matched = [clause for clause in self.clauses if clause.kind == MATCHED]
        return len(matched) == 1 and matched[0].action == DELETE and matched[0].condition is None

    # -- who, and which files ------------------------------------------------------------------------

    def _begun(self) -> tuple[MergeEngine, str, FileScan]:
        """The engine with the source, its name, and the files to search."""
        nothing = FileScan(files_table([]))
        requested = self.engine
        reason = None
        try:
            self.here = ArrowMerge(self.txn, self.names, self.on, self.clauses, self.schema)
        except UnsupportedPredicate as error:
            reason = error
        if requested == "auto" and (self.source.frame is not None or self.source.is_large):
            requested = "spark"
        engine = choose_engine(self.txn, requested, nothing, reason, self._sql())
        work = self._work(engine)
        self.watch.lap("materializeSourceTimeMs")
        where: list[Predicate] | None = []
        if not self.needs_all_rows:
            where = self.on.reachable(self.txn.snapshot.partition_columns, work.key_values())
        files = nothing if where is None else self.txn.filter_files(*where)
        if self.builder.narrow is not None and not self.needs_all_rows:
            files = self.builder.narrow(self.txn.snapshot, files)
        if engine == "arrow" and not self.needs_all_rows:
            files = self.here.narrowed(files)
        if engine == "arrow" and choose_engine(self.txn, requested, files, reason) == "spark":
            engine, work = "spark", self._work("spark")
        return work, engine, files

    def _sql(self) -> Iterator[str | None]:
        """The SQL of the condition and the clauses."""
        yield self.on.sql
        for clause in self.clauses:
            yield clause.condition
            yield from texts(clause.tree)

    def _work(self, engine: str) -> MergeEngine:
        if engine == "spark":
            from deltanb.commands.merge.on_spark import SparkMerge

            if self.engine != "spark" and self.source.frame is None:  # else it was asked when the merge began
                through_session(engine)
            return SparkMerge(self.txn, self.names, self.on, self.clauses, self.schema, self.source)
        self.here.take_source(self.source.table)
        return self.here

    # -- what becomes of them ------------------------------------------------------------------------

    def _places(self, *actions: str) -> list[int]:
        return [place for place, clause in enumerate(self.clauses) if clause.action in actions]

    def _write(self, work: MergeEngine, matches: JoinedRows) -> FileChanges:
        """Write the files, and those of the change data feed from the new files.

        Inserted rows are written separately if the table computes values for them: defaults, identity values.
        """
        txn, changes = self.txn, FileChanges()
        inserts = self._places(INSERT)
        groups = [action for action in (UPDATE, INSERT)
                  if any(matches.counts.get(place) for place in self._places(action))]
        if inserts and not matches.inserts_are_counted:
            groups.append(INSERT)
        touched = self._touched(matches.changed, UPDATE, DELETE)
        if uses_vectors(txn):
            mark_deleted(txn, touched, changes)
        else:
            changes.removed = [one.file.remove() for one in touched]
            changes.copied = sum(one.others for one in touched)
            groups += ["copy"] if changes.copied else []
        feed = bool(touched) and wants_changes(txn)
        lacking = {place: self._lacking(place) for place in inserts}
        apart = [[group] for group in groups] if feed else [groups]
        if any(lacking.values()) and INSERT in groups:
            apart = [[group for group in together if group != INSERT] for together in apart]
        new: dict[str, list[AddFile]] = {}
        for together in filter(None, apart):
            new.setdefault(together[0], []).extend(
                work.write(matches.changed, together))
        if any(lacking.values()) and INSERT in groups:
            for place in inserts:
                inserted = work.write(matches.changed, [INSERT], [place], lacking[place])
                new.setdefault(INSERT, []).extend(inserted)
        changes.written = [file for files in new.values() for file in files]
        self._count(matches, changes)
        if not feed:
            return changes
        changes.changes = write_changes(txn, [
            ("delete", self._before(self._touched(matches.changed, DELETE))),
            ("update_preimage", self._before(self._touched(matches.changed, UPDATE))),
            ("update_postimage", written_rows(txn, new.get(UPDATE, []))),
            ("insert", written_rows(txn, new.get(INSERT, []))),
        ])
        return changes

    def _count(self, matches: JoinedRows, changes: FileChanges) -> None:
        """Count inserted rows by the written files if the engine did not count them, and check that the files
        hold the rows that were found.

        Raises:
            IllegalStateError: a user's function returned other values when it was called again.
        """
        known = (UPDATE, INSERT) if matches.inserts_are_counted else (UPDATE,)
        expected = changes.copied + sum(matches.counts.get(place, 0) for place in self._places(*known))
        more = _rows_in(changes.written) - expected
        inserts = self._places(INSERT)
        if more < 0 or (more and (matches.inserts_are_counted or not inserts)):
            raise IllegalStateError(
                f"the merge on {self.builder.on!r} found {expected} rows to write and wrote "
                f"{expected + more}: its conditions are not the same each time they are evaluated; "
                "nothing was committed. Put values that change into columns of the source first")
        if not matches.inserts_are_counted:
            matches.counts[inserts[0]] = more

    def _lacking(self, place: int) -> frozenset[str]:
        """The columns that the table computes for a clause's inserted rows, which are written without
        them."""
        computed = column_values.active(self.txn.metadata, self.txn.protocol).fields
        return frozenset(column.name for column in computed) - set(self.clauses[place].tree)

    def _touched(self, changed: Iterable[FileRows], *actions: str) -> list[TouchedFile]:
        places = self._places(*actions)
        rows_by_file = ((one.file, one.of(places)) for one in changed)
        return [TouchedFile(file, rows, live_count(self.txn, file)) for file, rows in rows_by_file if rows]

    def _before(self, touched: Sequence[TouchedFile]) -> Iterator[pa.RecordBatch]:
        """The old rows in the new schema."""
        widen = Enforcer(to_arrow(self.txn.snapshot.schema), nullable(self.schema))
        for batch in rows_of(self.txn, touched, "touched"):
            yield widen.apply(batch)

    # -- the record ----------------------------------------------------------------------------------

    def _metrics(
        self, changes: FileChanges, counts: Mapping[int, int], num_source_rows: int
    ) -> dict[str, int]:
        files = changes.metrics()

        def rows(kind: str, action: str) -> int:
            return sum(counts.get(place, 0) for place, clause in enumerate(self.clauses)
                       if (clause.kind, clause.action) == (kind, action))

        updated, deleted = rows(MATCHED, UPDATE), rows(MATCHED, DELETE)
        lonely_updated = rows(NOT_MATCHED_BY_SOURCE, UPDATE)
        lonely_deleted = rows(NOT_MATCHED_BY_SOURCE, DELETE)
        inserted, copied = rows(NOT_MATCHED, INSERT), changes.copied
        return {
            "numSourceRows": num_source_rows,
            "numTargetRowsInserted": inserted,
            "numTargetRowsUpdated": updated + lonely_updated,
            "numTargetRowsMatchedUpdated": updated,
            "numTargetRowsNotMatchedBySourceUpdated": lonely_updated,
            "numTargetRowsDeleted": deleted + lonely_deleted,
            "numTargetRowsMatchedDeleted": deleted,
            "numTargetRowsNotMatchedBySourceDeleted": lonely_deleted,
            "numTargetRowsCopied": copied,
            "numOutputRows": inserted + updated + lonely_updated + copied,
            "numTargetFilesAdded": files["numAddedFiles"],
            "numTargetFilesRemoved": files["numRemovedFiles"],
            "numTargetBytesAdded": files["numAddedBytes"],
            "numTargetBytesRemoved": files["numRemovedBytes"],
            "numTargetChangeFilesAdded": files["numAddedChangeFiles"],
            "numTargetDeletionVectorsAdded": files["numDeletionVectorsAdded"],
            "numTargetDeletionVectorsRemoved": files["numDeletionVectorsRemoved"],
            "numTargetDeletionVectorsUpdated": files["numDeletionVectorsUpdated"],
            **self.watch.metrics(),
        }

    def _operation(self, metrics: dict[str, int], changes: FileChanges) -> Operation:
        def predicates(kind: str) -> list[dict[str, str]]:
            return [{**({} if clause.condition is None else {"predicate": clause.condition}),
                     "actionType": clause.action}
                    for clause in self.builder.clauses if clause.kind == kind]

        parameters = {
            "predicate": [self.builder.on],
            "matchedPredicates": predicates(MATCHED),
            "notMatchedPredicates": predicates(NOT_MATCHED),
            "notMatchedBySourcePredicates": predicates(NOT_MATCHED_BY_SOURCE),
            **self.builder.recorded,
        }
        return Operation("MERGE", parameters, metrics=metrics, tags=changes.tags(self.txn),
                         user_metadata=self.user_metadata)
