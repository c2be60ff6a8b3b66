"""Liquid clustering: which columns a table is clustered by, and which of its files are.

What lives here: the columns of the domain ``delta.clustering`` by their logical names, the mark of clustered
files (PROTOCOL.md, "Clustered Table"), and the choice of files to cluster.
What it does not know: how rows are ordered (``zorder``), the commit (``optimize``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import AddFile
from deltanb.errors import InvalidSchema, InvalidTable
from deltanb.options import random_id
from deltanb.schema import column_mapping
from deltanb.schema.paths import find, quoted
from deltanb.schema.types import StructType
from deltanb.transaction.writing import CLUSTERING_DOMAIN, clustering_columns

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

PROVIDER = "liquid"
"""The name of the implementation, in ``clusteringProvider``; Delta Spark's, whose tags we set too."""
CURVE = "hilbert"

Path = tuple[str, ...]


def columns_to_order_by(snapshot: Snapshot) -> list[Path]:
    """The columns that a table is clustered by, by their names in the schema.

    Raises:
        InvalidTable: the schema lacks one.
    """
    paths = logical_columns(snapshot)
    for path in paths:
        try:
            find(snapshot.schema, path, snapshot.log.path)
        except InvalidSchema:
            raise InvalidTable(
                f"table {snapshot.log.path}: the domain {CLUSTERING_DOMAIN} names the column {quoted(path)}, "
                f"and the columns are {', '.join(snapshot.schema.names)}. Name others, or none: "
                "cluster_by([...])", path=snapshot.log.path) from None
    return paths


def logical_columns(snapshot: Snapshot) -> list[Path]:
    """The same columns, also those that the schema lacks."""
    mode = column_mapping.mode_of(snapshot.metadata, snapshot.protocol)
    return [_logical(path, snapshot.schema, mode) for path in clustering_columns(snapshot)]


def _logical(path: Path, schema: StructType, mode: str) -> Path:
    names: list[str] = []
    struct: StructType | None = schema
    for part in path:
        field = next((f for f in struct.fields if column_mapping.physical_name(f, mode) == part),
                     None) if struct is not None else None
        names.append(part if field is None else field.name)
        struct = field.type if field is not None and isinstance(field.type, StructType) else None
    return tuple(names)


def to_cluster(files: pa.Table, full: bool) -> pa.Table:
    """The files to cluster: those without a provider's mark, or also all with ours.

    Files that another implementation clustered are left alone.
    """
    provider = files["clustering_provider"]
    unclustered = pc.is_null(provider)
    if full:
        unclustered = pc.or_(unclustered, pc.fill_null(pc.equal(provider, PROVIDER), False))
    return files.filter(unclustered)


def marked(files: Sequence[AddFile], columns: Sequence[Path]) -> list[AddFile]:
    """The files with the mark of one clustering run."""
    names = [".".join(path) for path in columns]
    tags = {"ZCUBE_ID": random_id(),
            "ZCUBE_ZORDER_BY": json.dumps(names, separators=(",", ":"))}
    return [file.replace(clustering_provider=PROVIDER, tags={**(file.tags or {}), **tags})
            for file in files]
