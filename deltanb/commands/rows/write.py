"""WRITE: append and overwrite, with all of Delta's writer options.

What lives here: :func:`append` and :func:`overwrite`: schema evolution, partial overwrites by a
condition or by partition, idempotent writes, the operation's record; and :func:`write_batch`, which is
either of them for one micro-batch of a stream.
What it does not know: how rows become files (``engines/arrow/``, ``engines/spark/``), how a commit goes.

A write that is refused, or loses to another commit, leaves no file behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from deltanb.actions import Action, AddCDCFile, AddFile, DomainMetadata, RemoveFile, SetTransaction
from deltanb.commands.begin import begin, refuse_append_only
from deltanb.commands.define import evolution
from deltanb.commands.result import CommandResult
from deltanb.commands.rows.change_files import wants_changes, write_changes
from deltanb.commands.rows.match import Match, match_of
from deltanb.commands.session import through_session
from deltanb.engines.arrow import inputs
from deltanb.engines.arrow.constraints import Check, Within
from deltanb.engines.arrow.enforce import OVERWRITE_SCHEMA
from deltanb.engines.arrow.generated import refuse_explicit
from deltanb.engines.arrow.prewritten import PrewrittenFiles
from deltanb.engines.arrow.row_ids import preserved
from deltanb.errors import CommitOutcomeUnknown, InvalidArgument, SchemaMismatch
from deltanb.log.file_options import FileOptions
from deltanb.options import options
from deltanb.schema import properties
from deltanb.schema.protocol import check_writable
from deltanb.text.safe_text import get_logger
from deltanb.transaction import active
from deltanb.transaction.operations import NEW_SCHEMA, OFFSETS, Operation

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

logger = get_logger(__name__)
T = TypeVar("T")

STREAMING_UPDATE = "STREAMING UPDATE"
"""The operation of a micro-batch, as Delta Spark names it."""


@active.command
def append(
    log: DeltaLog,
    data: Any,
    *,
    merge_schema: bool = False,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
    data_change: bool = True,
) -> CommandResult:
    """Add rows to a table.

    Args:
        data: Arrow, pandas, polars, a dict of columns or a list of dicts, written in the process; or
            a Spark DataFrame, written by Spark. Columns are matched by name, without regard to case.
        merge_schema: add new columns (and new fields of structs) to the table's schema.
        txn: (application id, version): the write is skipped if the table has that version of the application,
            or a later one, so that it can be retried safely.
        user_metadata: text to record in the commit.
        target_file_size: the size of a data file in bytes.
        max_records_per_file: the most rows of a data file.
        compression: the codec of the data files, instead of ``delta.parquet.compression.codec``.
        data_change: False declares that the rows are in the table already, or take the place of equal ones:
            streams that read the table leave the commit out. Nothing checks it.

    Returns:
        A result whose ``version`` is None if nothing was committed: there were no rows and no new columns, or
        the table has ``txn`` already.

    Raises:
        TableNotFound: there is no table.
        SchemaMismatch, ConstraintViolation: rows do not fit; the difference, or the row, is named.
        UnsupportedProtocol: the table has a feature that this library cannot write.
    """
    plan = WriteOptions(
        "Append", merge_schema=merge_schema, txn=txn, user_metadata=user_metadata,
        file_options=FileOptions(target_file_size, max_records_per_file, compression),
        data_change=data_change)
    return _run(log, data, plan)


@active.command
def overwrite(
    log: DeltaLog,
    data: Any,
    *,
    where: str | None = None,
    replace_using: str | Sequence[str] | None = None,
    replace_on: str | None = None,
    target_alias: str = "target",
    source_alias: str = "source",
    partition_overwrite: str = "static",
    overwrite_schema: bool = False,
    partition_by: str | Sequence[str] | None = None,
    cluster_by: str | Sequence[str] = (),
    merge_schema: bool = False,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
    data_change: bool = True,
) -> CommandResult:
    """Replace rows of a table: all of them, those of a condition, those that match, or some partitions'.

    Args:
        where: replace only the rows for which this condition (SQL) is true. Every row of the data must
            satisfy it. Files whose partitions satisfy it are removed; others lose such rows as by DELETE.
        replace_using: replace only the rows whose values in these columns a row of the data has, too; NULL
            equals nothing. All rows of the data are added, also those that replace none or several.
        replace_on: the same by a condition (SQL) over a row of the table and one of the data.
        target_alias, source_alias: what ``replace_on`` calls the table and the data.
        partition_overwrite: ``"dynamic"`` replaces the partitions that the data has rows for and
            leaves the others alone; ``"static"`` replaces everything.
        overwrite_schema: give the table the schema of the data. A clustered table is clustered no longer, as
            in Delta Spark, unless ``cluster_by`` names columns.
        partition_by: with ``overwrite_schema``, the new partition columns; by default they stay.
        cluster_by: with ``overwrite_schema``, the new clustering columns, in place of partition columns.
        data, merge_schema, txn, user_metadata, target_file_size, max_records_per_file: as in :func:`append`.
        compression, data_change: as in :func:`append`.

    Returns:
        As for :func:`append`; nothing is committed if no rows are added and no files removed.

    Raises:
        ConstraintViolation: a row of the data lies outside ``where``, or breaks a constraint.
        AppendOnlyTable: the table has ``delta.appendOnly=true``.
        InvalidPredicate, UnsupportedPredicate: ``where`` or ``replace_on`` cannot be understood, or not run
            here.
        InvalidArgument: options that contradict each other.

    >>> import deltanb as dn
    >>> table = dn.create("stock", {"item": ["hat", "tie"], "count": [3, 1]})
    >>> result = overwrite(table.log, {"item": ["hat", "sock"], "count": [2, 8]}, replace_using="item")
    >>> table.to_arrow().sort_by("item").to_pylist()
    [{'item': 'hat', 'count': 2}, {'item': 'sock', 'count': 8}, {'item': 'tie', 'count': 1}]
    """
    plan = WriteOptions("Overwrite", merge_schema, overwrite_schema, where, partition_overwrite,
                        (partition_by,) if isinstance(partition_by, str) else partition_by,
                        txn, user_metadata,
                        FileOptions(target_file_size, max_records_per_file, compression),
                        match=match_of(replace_on, replace_using, target_alias, source_alias),
                        data_change=data_change,
                        cluster_by=(cluster_by,) if isinstance(cluster_by, str) else tuple(cluster_by))
    return _run(log, data, plan)


@dataclass(frozen=True)
class Batch:
    """A micro-batch of a stream.

    ``number`` is Spark's batch id, the same for a repeated batch. ``reads_table`` means that its rows were
    computed from the table they are written to. ``name`` is the query's, if it has one. ``offsets``
    distinguish the batch from another one of its number: a digest of Spark's offsets file. ``also`` is a
    second id under which it is recorded.
    """

    query_id: str
    number: int
    mode: str
    reads_table: bool = False
    name: str | None = None
    offsets: str | None = None
    also: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """The batch in a commit, under Delta's names, which has none for the query's name and the offsets."""
        parameters = {"queryId": self.query_id, "epochId": str(self.number), "queryName": self.name,
                OFFSETS: self.offsets}
        return {name: value for name, value in parameters.items() if value is not None}


@active.command_named("write_stream")
def write_batch(
    log: DeltaLog,
    data: Any,
    batch: Batch,
    *,
    merge_schema: bool = False,
    overwrite_schema: bool = False,
    cluster_by: Sequence[str] = (),
    user_metadata: str | None = None,
    target_file_size: int | None = None,
    max_records_per_file: int | None = None,
    compression: str | None = None,
) -> CommandResult:
    """Write a micro-batch once: appended, or replacing all rows in the mode ``complete``.

    The commit records (query id, batch id) as an application's version. A batch that the table has already is
    skipped, and an empty one is committed, so that the table has the stream's progress.

    Returns:
        As for :func:`append`; without a version if the table has the batch already.

    Raises:
        ConcurrentTransactionException: another writer committed under the query's id meanwhile.
        ConcurrentAppendException, ConcurrentDeleteReadException: the batch read the table, and its rows have
            changed meanwhile.
        Others: as :func:`append` and :func:`overwrite`.

    >>> import deltanb as dn
    >>> table = dn.create("batches", {"id": [1]})
    >>> batch = Batch("a query", 0, "append")
    >>> write_batch(table.log, {"id": [2]}, batch)
    <CommandResult STREAMING UPDATE, ✓ committed v1, in this process>
    >>> write_batch(table.log, {"id": [2]}, batch).version is None
    True
    """
    mode = "Overwrite" if batch.mode == "complete" else "Append"
    plan = WriteOptions(
        mode, merge_schema, overwrite_schema, txn=(batch.query_id, batch.number),
        user_metadata=user_metadata, batch=batch, cluster_by=tuple(cluster_by),
        file_options=FileOptions(target_file_size, max_records_per_file, compression))
    return _run(log, data, plan)


@dataclass(frozen=True)
class WriteOptions:
    """The options of one write, as given by the user."""

    mode: str
    merge_schema: bool = False
    overwrite_schema: bool = False
    where: str | None = None
    partition_overwrite: str = "static"
    partition_by: Sequence[str] | None = None
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    file_options: FileOptions = field(default_factory=FileOptions)
    batch: Batch | None = None
    match: Match | None = None
    data_change: bool = True
    cluster_by: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.partition_overwrite not in ("static", "dynamic"):
            raise InvalidArgument(
                f"partition_overwrite={self.partition_overwrite!r} is neither 'static' nor 'dynamic'")
        contradictions = [
            (self.where is not None and self.dynamic, "where", "partition_overwrite='dynamic'"),
            (self.where is not None and self.overwrite_schema, "where", "overwrite_schema=True"),
            (self.dynamic and self.overwrite_schema, "partition_overwrite='dynamic'",
             "overwrite_schema=True"),
            (self.merge_schema and self.overwrite_schema, "merge_schema=True",
             "overwrite_schema=True"),
            (bool(self.partition_by) and bool(self.cluster_by), "partition_by", "cluster_by"),
            (not self.data_change and self.overwrite_schema, "data_change=False", "overwrite_schema=True"),
        ]
        if self.match is not None:
            name = "replace_using" if self.match.on is None else "replace_on"
            contradictions += [
                (self.where is not None, name, "where"),
                (self.dynamic, name, "partition_overwrite='dynamic'"),
                (self.overwrite_schema, name, "overwrite_schema=True"),
                (not self.data_change, name, "data_change=False")]
        for both, one, other in contradictions:
            if both:
                raise InvalidArgument(f"{one} and {other} contradict each other; give one of them")
        if self.partition_by is not None and not self.overwrite_schema:
            raise InvalidArgument("partition_by changes the table only with overwrite_schema=True")
        if self.cluster_by and not self.overwrite_schema:
            raise InvalidArgument("cluster_by changes the table only with overwrite_schema=True")
        if self.txn is not None:
            app_id, version = self.txn if len(self.txn) == 2 else (None, None)
            if not isinstance(app_id, str) or type(version) is not int:
                raise InvalidArgument(
                    f"txn={self.txn!r} must be an application id (text) and a version (integer)")

    def filled(self, settings: Mapping[str, Any]) -> WriteOptions:
        """The options with unset ones taken from a session's settings."""
        more = dict(settings)
        if self.overwrite_schema:
            more.pop("merge_schema", None)
        if self.txn is not None:
            more.pop("txn", None)
        return replace(self, **more) if any(more.values()) else self

    @property
    def dynamic(self) -> bool:
        """Whether only the partitions that the data has rows for are replaced."""
        return self.partition_overwrite == "dynamic"


def _run(log: DeltaLog, data: Any, plan: WriteOptions) -> CommandResult:
    plan = plan.filled(through_session("arrow", data, ("merge_schema", "txn")))
    at = data.target.version if isinstance(data, PrewrittenFiles) and data.target is not None else None
    txn = begin(log, None, at=at)  # the metadata may change first
    if plan.batch is not None and plan.batch.reads_table:
        txn.read_whole_table()
    if plan.txn is not None and is_done(txn, plan.txn):
        return CommandResult(STREAMING_UPDATE if plan.batch else "WRITE", None, "log")
    if not inputs.is_spark(data):
        data = inputs.source(data)
    return commit_or_discard(txn, lambda: _write(txn, data, plan))


def is_done(txn: OptimisticTransaction, done: tuple[str, int]) -> bool:
    """Whether the table has a version of an application already, or a later one."""
    if txn.txn_version(done[0]) < done[1]:
        return False
    logger.info("Skipping write: application %s has written version %d to %s", *done, txn.log.path)
    return True


def commit_or_discard(
    txn: OptimisticTransaction, work: Callable[[], T], discard: Callable[[], object] | None = None
) -> T:
    """Run the writing part of a command; if it fails, its files are removed, or ``discard`` is called.

    If the outcome of the commit is unknown, the files stay, since they may belong to the table.
    """
    try:
        return work()
    except CommitOutcomeUnknown:
        raise
    except BaseException as error:
        if txn.has_surely_not_landed:
            (discard or txn.discard_written)()
        txn.note_outcome(error)
        raise


def _write(txn: OptimisticTransaction, data: Any, plan: WriteOptions) -> CommandResult:
    domains = prepare(txn, data, plan)
    is_append = plan.mode == "Append"
    change = _Change(_write_rows(txn, data, plan)) if is_append else _overwritten(txn, data, plan)
    marked = [action for add, remove in change.vectors for action in (remove, add)]
    actions: list[Action] = [*domains, *change.added, *change.removed, *marked, *change.changes]
    if not plan.data_change:
        actions = [action.replace(data_change=False) if isinstance(action, AddFile | RemoveFile) else action
                   for action in actions]
    if plan.batch is not None:
        actions[:0] = transactions(plan.batch)
    elif plan.txn is not None:
        actions.insert(0, SetTransaction(*plan.txn, last_updated=options.clock()))
    operation = _operation(txn, plan, change)
    version = txn.commit_if_needed(actions, operation)
    return CommandResult.of(operation, version, "spark" if inputs.is_spark(data) else "arrow")


def prepare(txn: OptimisticTransaction, data: Any, plan: WriteOptions) -> list[DomainMetadata]:
    """Set the metadata for the data in the transaction, and refuse data that may not be written.

    Returns:
        The metadata domains that are committed with the rows.
    """
    _evolve(txn, data, plan)
    domains = _clustering(txn, plan)
    check_writable(txn.protocol, txn.metadata, txn.table)
    refuse_explicit(_columns(data), txn.metadata, txn.protocol)
    if plan.mode != "Append":
        refuse_append_only(txn, "an overwrite")
    if not plan.data_change:
        _refuse_changes(txn, plan)
    return domains


def _refuse_changes(txn: OptimisticTransaction, plan: WriteOptions) -> None:
    """Refuse what a write that only arranges rows anew cannot do."""
    if txn.metadata != txn.snapshot.metadata:
        raise InvalidArgument(
            "data_change=False says that the rows only lie elsewhere, and the data has columns that "
            "merge_schema=True would add to the table; leave one of the two out")
    if plan.where is not None:
        from deltanb.sql.predicates import parse_condition

        condition = parse_condition(plan.where, txn.snapshot.schema)
        if not condition.is_partition_only(txn.snapshot.partition_columns):
            raise InvalidArgument(
                f"data_change=False with where={plan.where!r}: rows that only lie elsewhere are those of "
                "whole partitions; give a condition on partition columns alone, or leave data_change out")


def _columns(data: Any) -> list[str]:
    return list(data.columns) if inputs.is_spark(data) else data.schema.names


# --- schema ---------------------------------------------------------------------------------------

def _evolve(txn: OptimisticTransaction, data: Any, plan: WriteOptions) -> None:
    """Set the metadata that the data needs in the transaction, if the options allow it."""
    if not plan.merge_schema and not plan.overwrite_schema:
        return
    before = txn.metadata
    if isinstance(data, PrewrittenFiles) and data.target is not None:  # whose new columns have ids
        if data.target.metadata != before:
            txn.update_metadata(data.target.metadata)
        return
    source = evolution.schema_of(data)
    if plan.overwrite_schema:
        schema = evolution.fresh(source)
        assert not isinstance(schema, str)
        partition_by = () if plan.cluster_by else plan.partition_by
        after = evolution.with_schema(before, schema, partition_by)  # type: ignore[arg-type]
    else:
        widen = properties.get(before.configuration, "delta.enableTypeWidening") and any(
            txn.protocol.supports(name) for name in ("typeWidening", "typeWidening-preview"))
        merged = evolution.merge(before.schema, source, widen=bool(widen))
        if merged == before.schema:
            return
        after = evolution.with_schema(before, merged)
        evolution.check_retained_constraints(before, after)
    if (after.schema_string, after.partition_columns) != (
            before.schema_string, before.partition_columns):
        txn.update_metadata(after)


def _clustering(txn: OptimisticTransaction, plan: WriteOptions) -> list[DomainMetadata]:
    """The clustering of a table whose schema is replaced: the old one names columns that may be gone."""
    # Of a stream's batches only the one that changes the schema says something new.
    if not plan.overwrite_schema or (plan.batch and txn.metadata == txn.snapshot.metadata):
        return []
    from deltanb.commands.define.alter_clustering import clustering_of_new_schema

    return clustering_of_new_schema(txn, plan.cluster_by)


# --- rows -----------------------------------------------------------------------------------------

@dataclass
class _Change:
    """What a write does to the table's files."""

    added: list[AddFile]
    removed: list[RemoveFile] = field(default_factory=list)
    changes: list[AddCDCFile] = field(default_factory=list)
    rows_deleted: int | None = None
    rows_copied: int | None = None
    copied: list[AddFile] = field(default_factory=list)
    vectors: list[tuple[AddFile, RemoveFile]] = field(default_factory=list)


def _write_rows(
    txn: OptimisticTransaction, data: Any, plan: WriteOptions, checks: Sequence[Check] = ()
) -> list[AddFile]:
    with advising(plan):
        return txn.write_files(data, plan.file_options, checks=checks, data_change=plan.data_change)


@contextmanager
def advising(plan: WriteOptions) -> Iterator[None]:
    """A block whose errors about unfit data suggest only what the write's other options allow."""
    try:
        yield
    except SchemaMismatch as error:
        other = "where" if plan.where is not None else "partition_overwrite" if plan.dynamic else None
        if other is None or OVERWRITE_SCHEMA not in error.message:
            raise
        raise SchemaMismatch(error.message.replace(
            " replaces the table's schema", f", without {other}, replaces all rows and the table's schema"),
            **error.data) from None


def _overwritten(txn: OptimisticTransaction, data: Any, plan: WriteOptions) -> _Change:
    if plan.where is not None:
        return _replaced(txn, data, plan, plan.where)
    if plan.match is not None:
        return _replaced_by_match(txn, data, plan, plan.match)
    added = _write_rows(txn, data, plan)
    if plan.dynamic and txn.metadata.partition_columns:
        replaced = txn.filter_files_in_partitions_of(added)
    else:
        replaced = txn.filter_files()
    return _Change(added, [file.remove() for file in replaced])


def _replaced(txn: OptimisticTransaction, data: Any, plan: WriteOptions, where: str) -> _Change:
    """Rows of a condition replaced: first those of the table are taken out, then the data written."""
    # Late: they bring both engines' ways to find rows, which other writes do without.
    from deltanb.commands.choose_engine import choose_by_size, named
    from deltanb.commands.rows.find_and_change import find, remove_rows
    from deltanb.engines.arrow.touched import rows_of, written_rows
    from deltanb.sql.predicates import parse_condition

    condition = parse_condition(where, txn.snapshot.schema)
    if condition.reason is not None:  # refused now, before anything is written
        raise condition.reason
    checks = [Within("where", where, condition.predicate)]
    files = txn.filter_files(*condition.parts)
    if condition.is_partition_only(txn.snapshot.partition_columns):
        replaced = list(files)
        return _Change(_write_rows(txn, data, plan, checks), [file.remove() for file in replaced],
                       rows_deleted=_num_rows(replaced))
    # What was written elsewhere is committed in a process that must not start a session of its own.
    is_written = isinstance(data, PrewrittenFiles)
    engine = named("arrow" if is_written else choose_by_size(txn.log.store, [files.table]))
    touched = find(txn, files, condition, engine)
    out = remove_rows(txn, condition, touched, engine)
    added = _write_rows(txn, data, plan, checks)
    change = _Change([*added, *out.written], out.removed, rows_deleted=sum(len(f.rows) for f in touched),
                     rows_copied=out.copied, copied=out.written, vectors=out.vectors)
    if wants_changes(txn) and not all(file.is_whole for file in touched):  # else whole files say it
        change.changes = write_changes(txn, [
            ("delete", rows_of(txn, touched, "touched")), ("insert", written_rows(txn, added))])
    return change


def _replaced_by_match(
    txn: OptimisticTransaction, data: Any, plan: WriteOptions, match: Match
) -> _Change:
    """Rows replaced by those that match them: the data is written first, and then compared."""
    # Late: it brings the joins of a MERGE.
    from deltanb.commands.rows.replace import Matching

    matching = Matching(txn, match, _columns(data))
    added = _write_rows(txn, data, plan)
    # What was written elsewhere is committed in a process that must not start a session of its own.
    touched, out = matching.remove(added, "arrow" if isinstance(data, PrewrittenFiles) else "auto")
    change = _Change([*added, *out.written], out.removed, rows_deleted=sum(len(f.rows) for f in touched),
                     rows_copied=out.copied, copied=out.written, vectors=out.vectors)
    if touched and wants_changes(txn):
        from deltanb.engines.arrow.touched import rows_of, written_rows

        if not all(file.is_whole for file in touched):  # else whole files say it
            change.changes = write_changes(txn, [
                ("delete", rows_of(txn, touched, "touched")), ("insert", written_rows(txn, added))])
    return change


def _num_rows(files: Sequence[AddFile]) -> int | None:
    """The number of rows of some files; None if the statistics lack it."""
    total = 0
    for file in files:
        if file.num_records is None:
            return None
        total += file.num_records
        total -= file.deletion_vector.cardinality if file.deletion_vector is not None else 0
    return total


# --- the record -----------------------------------------------------------------------------------

def _operation(txn: OptimisticTransaction, plan: WriteOptions, change: _Change) -> Operation:
    if plan.batch is not None:
        return streaming_update(plan.batch, change.added, change.removed, plan.user_metadata)
    parameters: dict[str, Any] = {
        "mode": plan.mode,
        "partitionBy": list(plan.partition_by or ()),  # what the writer asked for, as Delta Spark has it
        **({} if plan.where is None else {"predicate": plan.where}),
        **({} if plan.match is None else plan.match.parameters),
    }
    flags = {"isDynamicPartitionOverwrite": plan.dynamic, NEW_SCHEMA: plan.overwrite_schema,
             "canMergeSchema": plan.merge_schema}
    parameters.update({name: True for name, is_on in flags.items() if is_on})
    metrics = metrics_of(change.added)
    if plan.mode == "Overwrite":
        metrics |= removed_metrics(change.removed)
    if change.rows_deleted is not None:
        metrics["numDeletedRows"] = change.rows_deleted
        metrics["numCopiedRows"] = change.rows_copied or 0
        metrics["numAddedChangeFiles"] = len(change.changes)
    tags = preserved(txn.metadata, txn.protocol, copies=bool(change.copied))
    return Operation("WRITE", parameters, metrics=metrics, user_metadata=plan.user_metadata,
                     tags=tags)


def streaming_update(
    batch: Batch, added: Sequence[AddFile], removed: Sequence[Action], user_metadata: str | None
) -> Operation:
    """The operation of a micro-batch."""
    written = metrics_of(added)
    metrics = {"numAddedFiles": written.pop("numFiles"), "numRemovedFiles": len(removed), **written}
    parameters = {"outputMode": batch.mode.capitalize(), **batch.named}
    return Operation(STREAMING_UPDATE, parameters, metrics=metrics, user_metadata=user_metadata)


def transactions(batch: Batch) -> list[Action]:
    """What records in a commit that the table has a batch."""
    ids = [batch.query_id, *(() if batch.also is None else (batch.also,))]
    return [SetTransaction(one, batch.number, last_updated=options.clock()) for one in ids]


def metrics_of(added: Sequence[AddFile]) -> dict[str, int]:
    """The metrics of written files, under Delta's names."""
    return {
        "numFiles": len(added),
        "numOutputBytes": sum(file.size for file in added),
        "numOutputRows": sum(file.num_records or 0 for file in added),
    }


def removed_metrics(actions: Iterable[Action]) -> dict[str, int]:
    """The metrics of removed files, under Delta's names."""
    removed = [action for action in actions if isinstance(action, RemoveFile)]
    return {"numRemovedFiles": len(removed),
            "numRemovedBytes": sum(file.size or 0 for file in removed)}
