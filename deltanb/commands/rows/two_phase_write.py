"""WRITE in two halves: planned here, and committed here once rows were written as files elsewhere.

What lives here: :func:`planned`, what files are to be written for, and :func:`commit_planned` and
:func:`commit_batch`, which make one transaction of them, by the command that writes rows in the process.
What it does not know: who writes the files.

The commit reads the version of the plan, so that whatever other writers do while the rows are written is
checked against it by the usual rules.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from deltanb.actions import decode_path
from deltanb.commands.begin import begin
from deltanb.commands.define.create import create, metadata_of
from deltanb.commands.define.evolution import fresh
from deltanb.commands.define.place import check_place
from deltanb.commands.result import CommandResult
from deltanb.commands.rows.match import Match
from deltanb.commands.rows.write import (
    STREAMING_UPDATE,
    Batch,
    WriteOptions,
    advising,
    append,
    is_done,
    overwrite,
    prepare,
    write_batch,
)
from deltanb.engines.arrow.constraints import Check, Within
from deltanb.engines.arrow.inputs import Source
from deltanb.engines.arrow.prewritten import PrewrittenFiles, Target
from deltanb.engines.arrow.write import TableWriter, delete_files
from deltanb.errors import (
    CommitOutcomeUnknown,
    MetadataChangedException,
    TableNotFound,
    UnsupportedProtocol,
)
from deltanb.schema.protocol import check_writable
from deltanb.schema.types import StructType
from deltanb.transaction.writing import clustering_columns

if TYPE_CHECKING:
    from deltanb.actions import AddFile
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

__all__ = ["PlannedWrite", "commit_batch", "commit_planned", "discard", "planned"]


@dataclass(frozen=True)
class PlannedWrite:
    """A write that has begun: its options, and what files are written for; None where it was done before."""

    options: WriteOptions
    schema: pa.Schema
    target: Target | None
    cluster_by: tuple[str, ...] = ()
    """Of a table that is created."""


def planned(
    log: DeltaLog, schema: StructType, options: WriteOptions, partition_by: Sequence[str] = (),
    properties: Mapping[str, str] | None = None, cluster_by: Sequence[str] = (),
) -> PlannedWrite:
    """Begin a write of rows with some columns; where there is no table, that is to be created.

    Args:
        schema: of the rows.
        options: as for any write. Their ``file_options`` are the writers' matter.
        partition_by, properties, cluster_by: of a table that is created.

    Raises:
        SchemaMismatch, InvalidPredicate, UnsupportedPredicate, AppendOnlyTable, …: as of a write.
        UnsupportedProtocol: the table gives values to a column that only one process can give.
    """
    data = Source(schema.to_arrow(), lambda: iter(()), 0, columns=schema)
    checks: list[Check] = []
    clustering: list[tuple[str, ...]]
    if log.update().version < 0:
        txn = _creating(log, schema, options, partition_by, properties or {})
        clustering = []  # clustering columns are among those with statistics
        if cluster_by:
            from deltanb.commands.define.alter_clustering import clustering_of

            clustering_of(txn, cluster_by)
        check_writable(txn.protocol, txn.metadata, txn.table)
    else:
        txn = begin(log, None)
        if options.txn is not None and is_done(txn, options.txn):
            return PlannedWrite(options, data.schema, None)
        prepare(txn, data, options)
        checks = _checks(txn, options)
        clustering = clustering_columns(txn.snapshot)
        if options.match is not None:
            from deltanb.commands.rows.replace import Matching  # late, as in the command

            Matching(txn, options.match, schema.names)
    target = Target(txn.read_version, txn.metadata, txn.protocol, tuple(checks), tuple(clustering),
                    options.file_options)
    with advising(options):
        _try(log, data.schema, target)
    return PlannedWrite(options, data.schema, target, tuple(cluster_by))


def _creating(
    log: DeltaLog, schema: StructType, options: WriteOptions, partition_by: Sequence[str],
    properties: Mapping[str, str],
) -> OptimisticTransaction:
    replaced = options.where if options.match is None else options.match.sql
    if replaced is not None:
        raise TableNotFound(
            f"there is no Delta table at {log.path} whose rows of {replaced!r} could be replaced; leave "
            "the condition out, and the table is created", path=log.path)
    if not options.data_change:
        raise TableNotFound(
            f"there is no Delta table at {log.path} whose rows data_change=False could only lie elsewhere; "
            "leave it out, and the table is created", path=log.path)
    check_place(log.store, partition_by)
    txn = log.start_transaction()
    columns = fresh(schema)
    assert isinstance(columns, StructType)
    txn.update_metadata_for_new_table(metadata_of(columns, tuple(partition_by), properties))
    return txn


def _checks(txn: OptimisticTransaction, options: WriteOptions) -> list[Check]:
    if options.where is None:
        return []
    from deltanb.sql.predicates import parse_condition  # late, as in the command

    condition = parse_condition(options.where, txn.snapshot.schema)
    if condition.reason is not None:
        raise condition.reason
    return [Within("where", options.where)]


def _try(log: DeltaLog, schema: pa.Schema, target: Target) -> None:
    """What a writer of such rows would refuse is refused now, before any is begun.

    Raises:
        UnsupportedProtocol: identity columns, whose values go on from one row to the next.
    """
    writer = TableWriter(log.store, target.metadata, target.protocol, schema, target.file_options,
                         target.checks, target.clustering, {})
    try:
        identities = list(writer.filler.plan.identities)
    finally:
        writer.encoders.end()
    if identities:
        raise UnsupportedProtocol(
            f"column {identities[0]!r} of {log.path} is an identity column: its values go on from one row to "
            "the next, so several processes cannot assign them at the same time. Write with table.append(df) "
            "or table.overwrite(df)", features=["identityColumns"], path=log.path)


def commit_planned(log: DeltaLog, plan: PlannedWrite, files: Sequence[AddFile]) -> CommandResult:
    """Commit the files of a write as one transaction on the version that was planned on.

    Where the commit surely has not landed the files are gone.

    Raises:
        DeltaConcurrentModificationException: what another writer did meanwhile contradicts it.
        CommitOutcomeUnknown: nobody knows whether it landed; the files stay.
    """
    target, options = plan.target, plan.options
    if target is None:
        return CommandResult("WRITE", None, "log")
    return _or_discarded(log, plan.schema, target, files, lambda written: _committed(
        log, written, options, plan.cluster_by))


def commit_batch(
    log: DeltaLog, plan: PlannedWrite, batch: Batch, files: Sequence[AddFile]
) -> CommandResult:
    """Commit the files of a micro-batch, unless the table has the batch: then they are removed.

    A stream plans once and commits many times, so the commit reads the newest version. It is refused where
    the table is no longer what the files were written for; a stream that is started again runs it again.

    Raises:
        MetadataChangedException: the table's columns or properties have changed since the stream began.
        TableNotFound: there was a table when the stream began, and there is none now.
        Others: as :func:`commit_planned`.
    """
    target, options = plan.target, plan.options
    assert target is not None
    newest = log.update()
    if newest.version < 0 and target.version < 0:
        return _or_discarded(log, plan.schema, target, files, lambda written: CommandResult(
            STREAMING_UPDATE, create(
                log, written, user_metadata=options.user_metadata, cluster_by=plan.cluster_by, batch=batch,
            ).snapshot.version, "spark"))
    if newest.set_transactions.get(batch.query_id, -1) >= batch.number:
        discard(log, files)
        return CommandResult(STREAMING_UPDATE, None, "log")
    if newest.version != target.version:
        try:
            _check_unchanged(log, target, newest)
        except BaseException:
            discard(log, files)
            raise
        target = replace(target, version=newest.version)
    return _or_discarded(log, plan.schema, target, files, lambda written: write_batch(
        log, written, batch, merge_schema=options.merge_schema, overwrite_schema=options.overwrite_schema,
        cluster_by=options.cluster_by, user_metadata=options.user_metadata))


def _check_unchanged(log: DeltaLog, target: Target, newest: Snapshot) -> None:
    """Refuse a table that is no longer what the files were written for.

    Raises:
        MetadataChangedException, TableNotFound: it has other columns or properties, or is gone.
    """
    # What merge_schema, or the creation of the table, made of it, once that is committed.
    known = [(target.metadata, target.protocol)]
    if target.version >= 0:
        before = log.snapshot_at(target.version)
        known.append((before.metadata, before.protocol))
    if (newest.metadata, newest.protocol) not in known:
        raise MetadataChangedException(
            f"the columns or properties of {log.path} have changed since the stream began (version "
            f"{target.version}), and its files were written for the former ones. Nothing was committed; "
            "start the stream again with the same checkpoint")


def discard(log: DeltaLog, files: Sequence[AddFile]) -> None:
    """Remove files that no version will name."""
    delete_files(log.store, [decode_path(file.path) for file in files])


def _or_discarded(
    log: DeltaLog, schema: pa.Schema, target: Target, files: Sequence[AddFile],
    commit: Callable[[PrewrittenFiles], CommandResult],
) -> CommandResult:
    """Commit the files; where that surely has not landed they are gone."""
    written = PrewrittenFiles(schema, lambda: iter(()), sum(file.num_records or 0 for file in files),
                      target=target, files=tuple(files))
    try:
        return commit(written)
    except CommitOutcomeUnknown:
        raise
    except BaseException:
        if not written.taken:  # else the transaction has removed them, if that was safe
            discard(log, files)
        raise


def _committed(
    log: DeltaLog, written: PrewrittenFiles, options: WriteOptions, cluster_by: Sequence[str]
) -> CommandResult:
    assert written.target is not None
    if written.target.version < 0:
        made = create(log, written, user_metadata=options.user_metadata, application=options.txn,
                      cluster_by=cluster_by)
        return CommandResult("CREATE TABLE AS SELECT", made.snapshot.version, "spark")
    if options.mode == "Append":
        return append(log, written, merge_schema=options.merge_schema, txn=options.txn,
                      user_metadata=options.user_metadata, data_change=options.data_change)
    match = options.match or Match()
    return overwrite(
        log, written, where=options.where, replace_on=match.on, replace_using=match.using,
        target_alias=match.target_alias, source_alias=match.source_alias,
        partition_overwrite=options.partition_overwrite,
        overwrite_schema=options.overwrite_schema, partition_by=options.partition_by,
        cluster_by=options.cluster_by, merge_schema=options.merge_schema, txn=options.txn,
        user_metadata=options.user_metadata, data_change=options.data_change)
