"""Row counts, with or without a condition, from as few data files as possible.

What lives here: :func:`count`, and :func:`count_version` for a whole version.
What it does not know: transactions, which version is read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import decode_path
from deltanb.concurrency import parallel
from deltanb.engines.arrow.data_file import Known, opened, plan
from deltanb.engines.arrow.read import stream
from deltanb.log.row_count import RowCount, of_files
from deltanb.log.skipping.stats import NUM_RECORDS, parse_stats
from deltanb.sql import predicates
from deltanb.store.base import read_concurrency

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.sql.predicates import Predicate

__all__ = ["count", "count_version", "live_rows"]

_NEEDED = ("path", "size", "deletion_vector")


def count(snapshot: Snapshot, files: pa.Table, where: str | Predicate | None = None) -> int:
    """The rows of ``files`` for which a condition is TRUE; all of them without one.

    Args:
        snapshot: the version they belong to.
        files: rows of ``snapshot.files``: those that may hold rows for the condition.
        where: a condition in SQL. If partition columns decide it, no data file is read.

    For files without a record count in their statistics, footers are read.

    Raises:
        DataFileNotFound: a file that had to be opened is gone.
        InvalidPredicate, UnsupportedPredicate: the condition is invalid, or cannot be evaluated here.

    >>> import deltanb as dn
    >>> snapshot = dn.create("pond", {"coins": [1, 2, 3]}).snapshot
    >>> count(snapshot, snapshot.files), count(snapshot, snapshot.files, "coins > 1")
    (3, 2)
    """
    snapshot.check_readable()
    if where is not None:
        condition = predicates.parse(where, snapshot.schema)
        if not condition.is_partition_only(snapshot.partition_columns):
            columns = sorted(condition.column_paths) or [(snapshot.schema.names[0],)]
            scan = plan(snapshot, [columns[0][0]], condition)
            return sum(batch.num_rows for batch in stream(scan, files))
    stated = of_files(files, snapshot.schema)
    return stated.known if stated.is_exact else stated.known + _of_footers(snapshot, files)


def count_version(snapshot: Snapshot) -> int:
    """All rows of a version, which caches the number; like :func:`count` without a condition."""
    snapshot.check_readable()
    stated = snapshot.row_count
    if not stated.is_exact:
        files = snapshot.select_files([*_NEEDED, "stats"])
        stated = snapshot._rows = RowCount(stated.known + _of_footers(snapshot, files))
    return stated.known


def live_rows(snapshot: Snapshot, files: pa.Table) -> list[int]:
    """The rows of each of ``files``, without the deleted ones; footers are read where statistics are silent.

    >>> import deltanb as dn
    >>> snapshot = dn.create("puddle", {"coins": [1, 2, 3]}).snapshot
    >>> live_rows(snapshot, snapshot.files)
    [3]
    """
    stats = parse_stats(files.column("stats"), snapshot.schema, needed=[NUM_RECORDS])
    stated = stats.column(NUM_RECORDS.name).to_pylist()
    named = _named(files).to_pylist()
    silent = iter(_each_of_footers(
        snapshot, [file for file, rows in zip(named, stated, strict=True) if rows is None]))
    return [next(silent) if rows is None else rows - _deleted(file)
            for file, rows in zip(named, stated, strict=True)]


def _of_footers(snapshot: Snapshot, files: pa.Table) -> int:
    """The live rows of files without a record count, by their footers."""
    stats = parse_stats(files.column("stats"), snapshot.schema, needed=[NUM_RECORDS])
    is_silent = pc.is_null(stats.column(NUM_RECORDS.name))
    return sum(_each_of_footers(snapshot, _named(files).filter(is_silent).to_pylist()))


def _named(files: pa.Table) -> pa.Table:
    """What is needed of files; their sizes, where they are there, spare a bucket some bytes."""
    return files.select([name for name in _NEEDED if name in files.schema.names])


def _each_of_footers(snapshot: Snapshot, files: Iterable[dict[str, Any]]) -> Iterable[int]:
    """The live rows of each of some files, by its footer."""

    def rows_of(file: dict[str, Any]) -> int:
        known = Known(file.get("size"), len(snapshot.schema.fields))
        with opened(snapshot.log.store, decode_path(file["path"]), str(snapshot.log.path),
                    snapshot.version, known=known) as parquet:
            return int(parquet.metadata.num_rows) - _deleted(file)

    return parallel.each(rows_of, files, read_concurrency(snapshot.log.store), name="count")


def _deleted(file: dict[str, Any]) -> int:
    vector = file["deletion_vector"]
    return 0 if vector is None else int(vector["cardinality"])
