"""CLUSTER BY: the columns by which OPTIMIZE orders rows (PROTOCOL.md, "Clustered Table").

What lives here: the command that sets or ends a table's clustering.
What it does not know: how files are clustered (``clustering.py``, ``optimize.py``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltanb.actions import DomainMetadata
from deltanb.commands.begin import begin
from deltanb.commands.define.alter import refuse_unwritable
from deltanb.commands.define.clustering import logical_columns
from deltanb.commands.result import CommandResult
from deltanb.engines.arrow.statistics import indexed_leaves
from deltanb.errors import InvalidArgument
from deltanb.schema.column_mapping import mode_of, physical_path
from deltanb.schema.paths import field_at, find, parse_path, quoted, type_at
from deltanb.schema.protocol import supports, upgraded
from deltanb.schema.types import StructType
from deltanb.transaction import active
from deltanb.transaction.operations import Operation
from deltanb.transaction.writing import CLUSTERING_DOMAIN

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog
    from deltanb.transaction.transaction import OptimisticTransaction

FEATURE = "clustering"
MAX_COLUMNS = 4  # Delta's limit: with more, no column is clustered well


@active.command
def cluster_by(log: DeltaLog, columns: str | Sequence[str] | None) -> CommandResult:
    """Set the columns by which OPTIMIZE clusters the table; only OPTIMIZE rewrites files.

    Args:
        columns: at most four paths (``a.b`` reaches into structs); None or empty for none.

    Returns:
        The version committed in its ``version``; None there if there was no clustering to end.

    Raises:
        InvalidArgument: the table is partitioned; a column that cannot be clustered by, or has no
            statistics; more than four.
        InvalidSchema: no such column.

    >>> import deltanb as dn
    >>> table = dn.create("flights", {"month": [1, 2], "carrier": ["UA", "AA"]})
    >>> table.cluster_by(["carrier"]).version
    1
    >>> table.snapshot.domain_metadata["delta.clustering"].configuration
    '{"clusteringColumns":[["carrier"]]}'
    """
    named = [columns] if isinstance(columns, str) else list(columns or ())
    txn = begin(log)
    if not named and not supports(txn.protocol, FEATURE):
        return CommandResult("CLUSTER BY", None, "log")
    before = logical_columns(txn.snapshot)
    domain, paths = clustering_of(txn, named)
    operation = Operation("CLUSTER BY", {
        "oldClusteringColumns": ",".join(quoted(path) for path in before),
        "newClusteringColumns": ",".join(quoted(path) for path in paths)})
    return CommandResult.of(operation, txn.commit([domain], operation))


def clustering_of(
    txn: OptimisticTransaction, named: Sequence[str]
) -> tuple[DomainMetadata, list[tuple[str, ...]]]:
    """The domain that says by which columns a table is clustered, and the columns; the transaction's protocol
    gets the feature.

    Raises:
        InvalidArgument, InvalidSchema: as of :func:`cluster_by`.
    """
    if named and txn.metadata.partition_columns:
        raise InvalidArgument(
            f"table {txn.table} is partitioned by {', '.join(txn.metadata.partition_columns)}; a table is "
            "partitioned or clustered, not both. Overwrite it with overwrite_schema=True, partition_by=[]")
    if len(named) > MAX_COLUMNS:
        raise InvalidArgument(
            f"table {txn.table}: clustering takes at most {MAX_COLUMNS} columns, found {len(named)}; name "
            "those that filters use most")
    paths = [find(txn.metadata.schema, parse_path(name), txn.table) for name in named]
    for path in paths:
        if paths.count(path) > 1:
            raise InvalidArgument(f"table {txn.table}: clustering column {quoted(path)} is named twice",
                                  column=quoted(path))
    physical = [_physical_path(txn, path) for path in paths]
    _require_statistics(txn, paths, physical)
    if not supports(txn.protocol, FEATURE):
        asked = txn.metadata.replace(configuration={
            **txn.metadata.configuration, f"delta.feature.{FEATURE}": "supported"})
        txn.update_protocol(upgraded(txn.protocol, asked))
        if txn.read_version >= 0:  # of a new table CREATE itself looks
            refuse_unwritable(txn, txn.metadata, txn.protocol)
    return _domain(physical), paths


def clustering_of_new_schema(txn: OptimisticTransaction, named: Sequence[str]) -> list[DomainMetadata]:
    """The domain that goes with a schema that replaces the table's: with no columns, if none are named.

    Without the feature there is none to end, and whoever adds it meanwhile changes the protocol.

    Raises:
        InvalidArgument, InvalidSchema: as of :func:`cluster_by`.
    """
    if named:
        return [clustering_of(txn, named)[0]]
    return [_domain(())] if supports(txn.protocol, FEATURE) else []


def _domain(physical: Sequence[Sequence[str]]) -> DomainMetadata:
    return DomainMetadata(CLUSTERING_DOMAIN, json.dumps(
        {"clusteringColumns": [list(path) for path in physical]}, separators=(",", ":")))


def _physical_path(txn: OptimisticTransaction, path: Sequence[str]) -> tuple[str, ...]:
    schema, mode = txn.metadata.schema, mode_of(txn.metadata, txn.protocol)
    if not all(isinstance(type_at(schema, path[:end]), StructType) for end in range(len(path))):
        raise InvalidArgument(
            f"table {txn.table}: cannot cluster by {quoted(path)}, a part of an array or a map",
            column=quoted(path))
    return physical_path(schema, path, mode)


def _require_statistics(
    txn: OptimisticTransaction, paths: Sequence[tuple[str, ...]],
    physical: Sequence[tuple[str, ...]],
) -> None:
    """Refuse a clustering column without minimum and maximum, since files are chosen by their statistics."""
    schema = txn.metadata.schema
    with_statistics = {leaf.path for leaf in indexed_leaves(schema, txn.metadata, (), txn.protocol)}
    bounded = {leaf.path: leaf.bounds
               for leaf in indexed_leaves(schema, txn.metadata, physical, txn.protocol)}
    for path, stored in zip(paths, physical, strict=True):
        name = quoted(path)
        if not bounded.get(stored):
            raise InvalidArgument(
                f"table {txn.table}: cannot cluster by {name}: statistics keep no minimum and maximum of "
                f"the type {field_at(schema, path).type}", column=name)
        if stored not in with_statistics:
            raise InvalidArgument(
                f"table {txn.table}: cannot cluster by {name}: no statistics are kept of it. Name it in "
                "delta.dataSkippingStatsColumns, or raise delta.dataSkippingNumIndexedCols", column=name)
