"""ANALYZE: recompute the statistics of existing files.

What lives here: :func:`analyze`, which recomputes statistics (PROTOCOL.md, "Per-file Statistics") and commits
those that changed.
What it does not know: how statistics are computed (``engines/arrow/statistics.py``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from deltanb.actions import AddFile, decode_path
from deltanb.commands.begin import begin
from deltanb.commands.result import CommandResult
from deltanb.concurrency import parallel
from deltanb.engines.arrow import statistics
from deltanb.engines.arrow.data_file import Known, opened
from deltanb.errors import InvalidArgument
from deltanb.schema import column_mapping
from deltanb.schema.types import StructType
from deltanb.store.base import read_concurrency
from deltanb.text.damage import reading
from deltanb.transaction import active
from deltanb.transaction.operations import Operation
from deltanb.transaction.writing import clustering_columns

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_READERS = 8  # footers read at a time: more only wait for the same disk


@active.command
def analyze(log: DeltaLog, columns: Sequence[str] | None = None) -> CommandResult:
    """Recompute the statistics of the table's files: number of rows, bounds and NULLs of columns.

    The table's properties select the columns (``delta.dataSkippingNumIndexedCols``,
    ``delta.dataSkippingStatsColumns``); clustering columns are always included.

    Args:
        columns: further columns; dotted names reach into structs.

    Returns:
        A result whose ``version`` is None if all statistics were right.

    Raises:
        InvalidArgument: an unknown column.
        DataFileNotFound: a file of the table is gone.
        DeltaConcurrentModificationException: a file was removed meanwhile; nothing was changed.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"a": [1], "b": [2]}, properties={
    ...     "delta.dataSkippingNumIndexedCols": 1})
    >>> analyze(table.log, ["b"]).metrics
    {'numFiles': 1}
    >>> table.snapshot.files["stats"][0].as_py()
    '{"numRecords":1,"minValues":{"a":1,"b":2},"maxValues":{"a":1,"b":2},"nullCount":{"a":0,"b":0}}'
    """
    from deltanb.text.progress import progress

    txn = begin(log, "files")
    paths = clustering_columns(txn.snapshot)
    paths += [_physical(txn, name) for name in columns or ()]
    files = txn.filter_files()  # a file that goes meanwhile must not come back
    analyzed = []
    with progress("ANALYZE: files described", len(files)) as seen:
        for one in parallel.each(
                lambda file: (file, _described(txn, file, paths)), files,
                read_concurrency(log.store, MAX_READERS), "analyze"):
            seen()
            analyzed.append(one)
    changed = [file.replace(stats=stats, data_change=False) for file, stats in analyzed
               if _value(file.stats) != _value(stats)]
    metrics = {"numFiles": len(changed)}
    if not changed:
        return CommandResult("COMPUTE STATS", None, "arrow", metrics)
    version = txn.commit(changed, Operation("COMPUTE STATS", {"predicate": []}))
    return CommandResult("COMPUTE STATS", version, "arrow", metrics)


def _value(stats: str | None) -> Any:
    """The parsed statistics; None if they are absent or damaged, and have to be replaced."""
    try:
        return None if stats is None else json.loads(stats, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None


def _physical(txn: OptimisticTransaction, name: str) -> tuple[str, ...]:
    schema = txn.snapshot.schema
    mode = column_mapping.mode_of(txn.metadata, txn.protocol)
    parts: list[str] = []
    at: Any = schema
    for part in [name] if schema.get(name) is not None else name.split("."):
        field = at.get(part) if isinstance(at, StructType) else None
        if field is None:
            raise InvalidArgument(
                f"table {txn.table} has no column {name!r}; it has {', '.join(schema.names[:12])}",
                column=name)
        parts.append(column_mapping.physical_name(field, mode))
        at = field.type
    return tuple(parts)


def _described(txn: OptimisticTransaction, file: AddFile, paths: Sequence[tuple[str, ...]]) -> str:
    """The statistics of all rows of the file; rows hidden by a deletion vector make the bounds wide."""
    path = decode_path(file.path)
    known = Known(file.size, len(txn.snapshot.schema.fields))
    with opened(txn.log.store, path, txn.table, known=known) as parquet, reading("the data file", path):
        parquet.check_sound()

        def read(names: list[str]) -> pa.Table:
            return parquet.read([n for n in names if n in parquet.schema_arrow.names])

        stats = statistics.from_footer(
            parquet.metadata, txn.snapshot.schema, txn.metadata, read=read, protocol=txn.protocol,
            clustering=paths)
    if file.deletion_vector is not None:
        stats = stats.replace('"tightBounds":true', '"tightBounds":false')
    return stats
