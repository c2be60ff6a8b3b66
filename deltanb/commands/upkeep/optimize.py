"""OPTIMIZE and REORG: the same rows in fewer, larger or better ordered files.

What lives here: :func:`optimize` (compaction, Z-order, liquid clustering) and :func:`purge` (removing rows in
deletion vectors from files): which files are rewritten, into which new ones, and the operation's record.
What it does not know: how rows are rewritten and committed (``rewrite``), curves (``zorder``).

No row changes, so every file has ``dataChange=false``: readers of changes see nothing, and concurrent writers
do not conflict. Two OPTIMIZE runs cannot rewrite the same file; the second one fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import AddFile
from deltanb.commands.begin import begin
from deltanb.commands.choose_engine import bytes_to_read, check_engine, choose_by_size, named
from deltanb.commands.define import clustering
from deltanb.commands.result import CommandResult
from deltanb.commands.rows.write import commit_or_discard
from deltanb.commands.session import through_session
from deltanb.commands.upkeep.rewrite import Rewrite, commit_rewrite
from deltanb.concurrency import parallel
from deltanb.engines.arrow import zorder
from deltanb.engines.arrow.row_ids import preserved
from deltanb.errors import InvalidArgument
from deltanb.log.maintenance import REORGANIZE, check_maintenance
from deltanb.options import options
from deltanb.schema import column_mapping, properties
from deltanb.schema.types import PrimitiveType, StructType
from deltanb.sql import predicates
from deltanb.transaction import active
from deltanb.transaction.operations import Operation
from deltanb.transaction.reads import FileScan, partition_key
from deltanb.transaction.writing import clustering_columns

if TYPE_CHECKING:
    from deltanb.engines.contract import Engine
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_WORKERS = 4
"""Bins worked on at a time; each holds about a row group in memory."""


@active.command
def optimize(
    log: DeltaLog,
    *,
    where: str | None = None,
    zorder_by: str | Sequence[str] | None = None,
    target_size: int | None = None,
    full: bool = False,
    engine: str = "auto",
    user_metadata: str | None = None,
) -> CommandResult:
    """Combine small files, or order rows so that more files can be skipped.

    A table with clustering columns is clustered: unclustered files are ordered along a Hilbert curve. Others
    are compacted, or ordered along a Z-order curve, partition by partition. Compaction copies row groups that
    are large enough, and merges smaller ones (:mod:`deltanb.engines.arrow.copied`). It drops deleted rows; a
    file that is not combined with others keeps its deletion vector, as in Delta Spark, until :func:`purge`.

    Args:
        where: a condition (SQL) on partition columns, to select partitions.
        zorder_by: columns to order by; a dotted name reaches into structs.
        target_size: the size of a file in bytes, by default ``delta.targetFileSize`` or
            ``options.target_file_size``.
        full: cluster files again that were clustered before.
        engine: ``"arrow"`` in the process, ``"spark"``, or ``"auto"``: Spark for large data if it is
            installed.
        user_metadata: text to record in the commit.

    Returns:
        A result whose ``version`` is None if there was nothing to do.

    Raises:
        TableNotFound: there is no table.
        InvalidArgument, InvalidPredicate: unsuitable columns, or options that contradict each other.
        DeltaConcurrentModificationException: another commit changed the files; nothing was written.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"], "nephews": [3]})
    >>> _ = table.append({"name": ["Scrooge"], "nephews": [1]})
    >>> result = optimize(table.log)
    >>> result.version, result.metrics["numRemovedFiles"], result.metrics["numAddedFiles"]
    (2, 2, 1)
    """
    check_engine(engine)
    columns = [zorder_by] if isinstance(zorder_by, str) else list(zorder_by or ())
    txn = begin(log, "layout")
    check_maintenance(log, REORGANIZE, "OPTIMIZE")
    clustered = clustering.columns_to_order_by(txn.snapshot)
    _refuse_contradictions(txn, where, columns, full, clustered)
    files = _files_of(txn, where)
    size = _target(txn, target_size, through_session(engine, takes=["target_size"]).get("target_size"))
    if clustered:
        tasks = _tasks_of_curve(clustering.CURVE, clustered, clustering.to_cluster(files, full), size)
    elif columns:
        paths = [_path(txn, name) for name in columns]
        tasks = _tasks_of_curve("zorder", paths, files, size)
    else:
        tasks = _tasks_of_bins(files, size)
    parameters: dict[str, Any] = {
        "predicate": [] if where is None else [where], "zOrderBy": columns,
        "clusterBy": [".".join(path) for path in clustered], "auto": False,
        **({"isFull": full} if clustered else {})}
    operation = Operation("OPTIMIZE", parameters, user_metadata=user_metadata)
    return _run(txn, tasks, operation, engine)


@active.command
def purge(
    log: DeltaLog, *, where: str | None = None, engine: str = "auto",
    user_metadata: str | None = None,
) -> CommandResult:
    """Rewrite files with deletion vectors without the deleted rows (REORG … APPLY PURGE).

    Arguments, result and errors are as for :func:`optimize`. The old files have the deleted rows until they
    are vacuumed.
    """
    check_engine(engine)
    txn = begin(log, "layout")
    check_maintenance(log, REORGANIZE, "REORG")
    files = _files_of(txn, where)
    files = files.filter(pc.is_valid(files["deletion_vector"]))
    tasks = [_Task(files.slice(place, 1)) for place in range(files.num_rows)]
    operation = Operation(
        "REORG", {"predicate": [] if where is None else [where], "applyPurge": True},
        user_metadata=user_metadata)
    return _run(txn, tasks, operation, engine)


# --- arguments ------------------------------------------------------------------------------------

def _refuse_contradictions(
    txn: OptimisticTransaction, where: str | None, columns: Sequence[str], full: bool,
    clustered: Sequence[clustering.Path],
) -> None:
    if clustered and (columns or where is not None):
        names = ", ".join(".".join(path) for path in clustered)
        which = "zorder_by" if columns else "where"
        raise InvalidArgument(
            f"table {txn.table} is clustered by {names}; its files are ordered by these columns, so "
            f"{which} has no meaning. Leave it out, or change the clustering columns")
    if full and not clustered:
        raise InvalidArgument(
            f"full=True reclusters a table, but table {txn.table} has no clustering columns; leave "
            "it out, or give the table clustering columns first")


def _files_of(txn: OptimisticTransaction, where: str | None) -> pa.Table:
    """The files of the partitions that a condition names."""
    if where is None:
        return txn.snapshot.files_for_scan()
    condition = predicates.parse(where, txn.snapshot.schema)
    names = txn.snapshot.partition_columns
    if not condition.is_partition_only(names):
        others = sorted(path for path in condition.columns if path not in names)
        raise InvalidArgument(
            f"where={where!r} looks at {', '.join(others)}, but whole files are rewritten, so only "
            f"partition columns can choose ({', '.join(names) or 'this table has none'})",
            predicate=where)
    return txn.snapshot.files_for_scan(condition)


def _target(txn: OptimisticTransaction, target_size: int | None, usual: int | None = None) -> int:
    size = target_size
    if size is None:
        size = properties.get(txn.metadata.configuration, "delta.targetFileSize")
    if size is None:
        size = options.target_file_size if usual is None else usual
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidArgument(f"target_size={size!r} must be a number of bytes, at least 1")
    return size


def _path(txn: OptimisticTransaction, name: str) -> clustering.Path:
    """The path of a dotted name, as the schema spells it."""
    if name.lower() in {column.lower() for column in txn.snapshot.partition_columns}:
        raise InvalidArgument(
            f"{name!r} is a partition column: all rows of a file have the same value, so there is "
            "nothing to order by", column=name)
    names: list[str] = []
    at: Any = txn.snapshot.schema
    for part in [name] if at.get(name) is not None else name.split("."):
        field = at.get(part) if isinstance(at, StructType) else None
        if field is None:
            raise InvalidArgument(
                f"zorder_by names the column {name!r}, which table {txn.table} does not have; it has "
                f"{', '.join(txn.snapshot.schema.names[:12])}", column=name)
        names.append(field.name)
        at = field.type
    if not isinstance(at, PrimitiveType) or at.name in ("variant", "void"):
        raise InvalidArgument(f"rows cannot be ordered by {name!r}, which is {at}", column=name)
    return tuple(names)


# --- which files go together ----------------------------------------------------------------------

@dataclass(frozen=True)
class _Task:
    """Files to rewrite together: into one, or in the order of a curve into several."""

    files: pa.Table
    curve: str | None = None
    columns: Sequence[clustering.Path] = ()
    target: int = 0


def _tasks_of_curve(
    curve: str, columns: Sequence[clustering.Path], files: pa.Table, target: int
) -> list[_Task]:
    groups = _by_partition(files, range(files.num_rows))
    return [_Task(files.take(places), curve, columns, target) for places in groups]


def _tasks_of_bins(files: pa.Table, target: int) -> list[_Task]:
    """Bins of one partition's files to combine into one file each, packed in ascending size as in Delta. A
    file that is alone in its bin is not rewritten."""
    sizes = pc.fill_null(files["size"], 0).to_pylist()
    small = [place for place, size in enumerate(sizes) if size < target]
    return [_Task(files.take(sorted(group))) for places in _by_partition(files, small)
            for group in packed(sorted(places, key=lambda place: sizes[place]), sizes, target)
            if len(group) > 1]


def _by_partition(files: pa.Table, places: Sequence[int]) -> list[list[int]]:
    groups: dict[Any, list[int]] = {}
    values = files["partition_values"].to_pylist(maps_as_pydicts="lossy")
    for place in places:
        groups.setdefault(partition_key(values[place]), []).append(place)
    return list(groups.values())


def packed(places: Sequence[int], sizes: Sequence[int], target: int) -> Iterator[list[int]]:
    """Runs whose sizes add up to at most the target.

    >>> list(packed([0, 1, 2, 3], [1, 2, 2, 9], 4))
    [[0, 1], [2], [3]]
    """
    held: list[int] = []
    total = 0
    for place in places:
        if held and total + sizes[place] > target:
            yield held
            held, total = [], 0
        held.append(place)
        total += sizes[place]
    if held:
        yield held


# --- the work -------------------------------------------------------------------------------------

def _run(
    txn: OptimisticTransaction, tasks: Sequence[_Task], operation: Operation, engine: str
) -> CommandResult:
    from deltanb.text.progress import progress

    if not tasks:
        return CommandResult(operation.name, None, "log")
    worker = _chosen(txn, engine, [task.files for task in tasks])
    done: list[CommandResult] = []

    def work() -> int:
        files = sum(task.files.num_rows for task in tasks)
        with progress(f"{operation.name}: files written again", files) as seen:
            rewrites = _rewritten(txn, tasks, worker, seen)
        metrics = _metrics(rewrites)
        tags = preserved(txn.metadata, txn.protocol, copies=True)
        _, version = commit_rewrite(txn, rewrites, operation.replace(metrics=metrics, tags=tags))
        done.append(CommandResult(operation.name, version, worker.name, metrics))
        return version

    commit_or_discard(txn, work)
    return done[0]


def _chosen(txn: OptimisticTransaction, engine: str, files: Sequence[pa.Table]) -> Engine:
    """The engine: Spark for large data if it is installed and can reach the files."""
    return named(choose_by_size(txn.log.store, files) if engine == "auto" else engine)


def _rewritten(
    txn: OptimisticTransaction, tasks: Sequence[_Task], engine: Engine, seen: Callable[[], None]
) -> list[Rewrite]:
    """Run the tasks, several at a time; curves one by one, since each may fill the memory."""
    mode = column_mapping.mode_of(txn.metadata, txn.protocol)
    columns = clustering_columns(txn.snapshot)
    ordered_by = [column_mapping.physical_path(txn.snapshot.schema, path, mode) for path in tasks[0].columns]
    statistics_columns = list(dict.fromkeys([*columns, *ordered_by]))

    def write(task: _Task) -> list[AddFile]:
        curve = _fitted(txn, task) if task.curve else None
        if task.curve and curve is None:
            return []
        return engine.moved(txn, task.files, curve, task.target, statistics_columns)

    def work(task: _Task) -> Rewrite:
        added = write(task)
        if task.curve == clustering.CURVE:
            added = clustering.marked(added, columns)
        for _ in range(task.files.num_rows):
            seen()
        return Rewrite(list(FileScan(task.files)), added)

    workers = 1 if tasks[0].curve else parallel.threads(len(tasks), MAX_WORKERS)
    return list(parallel.each(work, tasks, workers, "optimize"))


def _fitted(txn: OptimisticTransaction, task: _Task) -> zorder.Curve | None:
    """The task's curve, from a sample of its columns; None if there are no rows."""
    from deltanb.engines.arrow.read import stream
    from deltanb.engines.arrow.touched import plan_in

    names = list(dict.fromkeys(path[0] for path in task.columns))
    batches = stream(plan_in(txn, names), task.files)
    rows = sum(file.num_records or 0 for file in FileScan(task.files))
    sample = zorder.sample_of(batches, rows)
    size = bytes_to_read(txn.log.store, [task.files], whole=True)
    parts = max(1, -(-size // task.target))
    return sample and zorder.Curve.fit(task.curve or "", list(task.columns), sample, parts)


def _metrics(rewrites: Sequence[Rewrite]) -> dict[str, int]:
    """The metrics of OPTIMIZE under Delta's names; sizes are those of the new files."""
    added = [file for rewrite in rewrites for file in rewrite.added]
    removed = [file for rewrite in rewrites for file in rewrite.removed]
    sizes = sorted(file.size for file in added) or [0]
    return {
        "numAddedFiles": len(added),
        "numRemovedFiles": len(removed),
        "numAddedBytes": sum(file.size for file in added),
        "numRemovedBytes": sum(file.size for file in removed),
        "minFileSize": sizes[0],
        "p25FileSize": sizes[len(sizes) // 4],
        "p50FileSize": sizes[len(sizes) // 2],
        "p75FileSize": sizes[len(sizes) * 3 // 4],
        "maxFileSize": sizes[-1],
        "numDeletionVectorsRemoved": sum(1 for f in removed if f.deletion_vector is not None),
    }
