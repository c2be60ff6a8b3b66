"""How each table feature is switched on and used: a small table for each, made by us or by somebody else.

What lives here: :data:`USES`, one entry for each feature of ``deltanb.schema.features.FEATURES``, and
:func:`make`, which makes such a table with this library.
What it does not know: how a peer makes or reads a table (``matrix_peers``), what comes of it (``matrix``).
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltanb as dn
from deltanb.schema.ddl import parse_schema
from deltanb.schema.features import GROUPS
from deltanb.schema.types import StructType
from deltanb.table.table import DeltaTable
from tests.peers.delta_spark import table as named

IDS, NAMES = (1, 2, 3), ("a", "b", "c")
GEOMETRY = "GEOMETRY(4326)"
MAPPED = {"delta.columnMapping.mode": "name"}
Check = Callable[[DeltaTable], bool]


def _nothing_more(_: DeltaTable) -> bool:
    """The protocol and the metadata say it all."""
    return True


@dataclass(frozen=True)
class Use:
    """A table with ``id``, ``name`` and, where the feature is about a column, ``v``.

    Delta Spark makes it with the same columns, properties and statements as this library; delta-rs with the
    same schema and properties, and with ``rust`` in place of the statements.
    """

    properties: dict[str, str] = field(default_factory=dict)
    column: str = ""
    """``v`` in SQL."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Of the field ``id``, for what SQL has no words for."""
    values: pa.Array | None = None
    """Of ``v``, where it does not come by itself."""
    literals: tuple[str, ...] = ()
    """The same in SQL."""
    clause: str = ""
    """What CREATE TABLE has after the columns."""
    settings: dict[str, Any] = field(default_factory=dict)
    """The same for :func:`deltanb.create`."""
    statements: tuple[str, ...] = ()
    """In SQL, after the rows are there; ``{t}`` is the table."""
    rust: Callable[[Any], Any] | None = None
    """The same for a ``deltalake.DeltaTable``."""
    checkpoint: bool = False
    """Whether its state is written as a checkpoint in the end."""
    in_use: Check = _nothing_more
    """What a table has besides the protocol and the metadata."""
    is_right: Callable[..., bool] = lambda number, *values: True
    """Whether a row, by its ``id``, has the ``v`` that the feature gives it."""
    managed: bool = False
    """Whether only a catalog can have such a table."""
    append_only: bool = False

    @property
    def names(self) -> list[str]:
        """The columns that rows are written with."""
        return ["id", "name"] if self.values is None else ["id", "name", "v"]

    def rows(self, ids: tuple[int, ...] = IDS, names: tuple[str, ...] = NAMES) -> pa.Table:
        """Rows to be written."""
        columns = {"id": pa.array(ids, pa.int64()), "name": pa.array(names)}
        if self.values is not None:
            columns["v"] = self.values[:len(ids)]
        return pa.table(columns)

    @property
    def remaining(self) -> dict[int, str]:
        """What the table has, once it is made."""
        rows = dict(zip(IDS, NAMES, strict=True))
        if DELETE in self.statements:
            del rows[3]
        if UPDATE in self.statements:
            rows[2] = "new"
        return rows

    @property
    def columns(self) -> str:
        """All columns in SQL."""
        return "id BIGINT, name STRING" + (f", v {self.column}" if self.column else "")

    @property
    def schema(self) -> dict[str, Any]:
        """All columns as the log has them."""
        schema = parse_schema(self.columns.replace(GEOMETRY, "BINARY")).to_dict()
        schema["fields"][0]["metadata"].update(self.metadata)
        if self.column == GEOMETRY:
            schema["fields"][-1]["type"] = GEOMETRY.lower()
        return schema


def on(key: str, value: str = "true", **more: Any) -> Use:
    """A feature that a property switches on."""
    return Use({key: value}, **more)


def supported(feature: str, **more: Any) -> Use:
    """A feature that the protocol has by name alone."""
    properties = {**more.pop("properties", {}), f"delta.feature.{feature}": "supported"}
    return Use(properties, **more)


def _has_vectors(table: DeltaTable) -> bool:
    return any(row is not None for row in table.snapshot.files["deletion_vector"].to_pylist())


def _has_v2_checkpoint(table: DeltaTable) -> bool:
    """One with a unique name, or one whose content says so; a classic one has no such row."""
    return any(len(path.name.split(".")) > 3 for path in Path(table.path, "_delta_log").glob("*checkpoint*"))


def _has_changes(table: DeltaTable) -> bool:
    return any(Path(table.path, "_change_data").glob("*"))


def _has_domain(table: DeltaTable) -> bool:
    return bool(table.snapshot.domain_metadata)


def _has_widened(table: DeltaTable) -> bool:
    return "delta.typeChanges" in json.dumps(table.schema.to_dict())


def _variants(*numbers: int) -> pa.Array:
    return pa.array(
        [{"metadata": b"\x01\x00\x00", "value": bytes([12, number])} for number in numbers],
        pa.struct([pa.field(part, pa.binary(), nullable=False) for part in ("metadata", "value")]))


DELETE, UPDATE = "DELETE FROM {t} WHERE id = 3", "UPDATE {t} SET name = 'new' WHERE id = 2"
VARIANT: dict[str, Any] = {
    "column": "VARIANT", "values": _variants(1, 2, 3),
    "literals": ("parse_json('1')", "parse_json('2')", "parse_json('3')")}
WIDENED: dict[str, Any] = {
    "column": "INT", "values": pa.array([1, 2, 3], pa.int32()), "literals": ("1", "2", "3"),
    "statements": ("ALTER TABLE {t} ALTER COLUMN v TYPE BIGINT",), "in_use": _has_widened}
WALL: dict[str, Any] = {
    "values": pa.array([dt.datetime(2024, 1, day) for day in IDS], pa.timestamp("us")),
    "literals": tuple(f"TIMESTAMP_NTZ '2024-01-0{day} 00:00:00'" for day in IDS)}

USES: dict[str, Use] = {
    "appendOnly": on("delta.appendOnly", append_only=True),
    "invariants": Use(metadata={"delta.invariants": json.dumps({"expression": {"expression": "id > 0"}})}),
    "checkConstraints": Use(
        statements=("ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 1000)",),
        rust=lambda table: table.alter.add_constraint({"small": "id < 1000"})),
    "changeDataFeed": on(
        "delta.enableChangeDataFeed", statements=(UPDATE,), in_use=_has_changes,
        rust=lambda table: table.update(new_values={"name": "new"}, predicate="id = 2")),
    "generatedColumns": Use(column="BIGINT GENERATED ALWAYS AS (id * 2)",
                            is_right=lambda number, value: value == 2 * number),
    "columnMapping": Use(MAPPED),
    "identityColumns": Use(column="BIGINT GENERATED ALWAYS AS IDENTITY",
                           is_right=lambda number, value: value is not None),
    "allowColumnDefaults": supported("allowColumnDefaults", column="STRING DEFAULT 'new'",
                                     is_right=lambda number, value: value == "new"),
    "columnMappingUsageTracking": supported("columnMappingUsageTracking", properties=MAPPED),
    "deletionVectors": on("delta.enableDeletionVectors", statements=(DELETE,), in_use=_has_vectors,
                          rust=lambda table: table.delete("id = 3")),
    "rowTracking": on("delta.enableRowTracking"),
    "timestampNtz": Use(column="TIMESTAMP_NTZ", **WALL),
    "domainMetadata": supported("domainMetadata"),
    "v2Checkpoint": on("delta.checkpointPolicy", "v2", checkpoint=True, in_use=_has_v2_checkpoint),
    "typeWidening": on("delta.enableTypeWidening", **WIDENED),
    "typeWidening-preview": supported(
        "typeWidening-preview", properties={"delta.enableTypeWidening": "true"}, **WIDENED),
    "variantType": Use(**VARIANT),
    "variantType-preview": supported("variantType-preview", **VARIANT),
    "variantShredding": supported(
        "variantShredding", properties={"delta.enableVariantShredding": "true"}, **VARIANT),
    "variantShredding-preview": supported(
        "variantShredding-preview", properties={"delta.enableVariantShredding": "true"}, **VARIANT),
    "inCommitTimestamp": on("delta.enableInCommitTimestamps"),
    "vacuumProtocolCheck": supported("vacuumProtocolCheck"),
    "clustering": Use(clause="CLUSTER BY (id)", settings={"cluster_by": ["id"]}, in_use=_has_domain),
    "checkpointProtection": supported("checkpointProtection"),
    "icebergCompatV1": on("delta.enableIcebergCompatV1"),
    "icebergCompatV2": on("delta.enableIcebergCompatV2"),
    "icebergCompatV3": on("delta.enableIcebergCompatV3"),
    "icebergWriterCompatV1": supported(
        "icebergWriterCompatV1", properties={"delta.enableIcebergWriterCompatV1": "true"}),
    "icebergWriterCompatV3": supported(
        "icebergWriterCompatV3", properties={"delta.enableIcebergWriterCompatV3": "true"}),
    "materializePartitionColumns": on(
        "delta.enableMaterializePartitionColumnsFeature", clause="PARTITIONED BY (name)",
        settings={"partition_by": "name"}),
    "catalogManaged": supported("catalogManaged", managed=True),
    GROUPS: supported(GROUPS, managed=True),
    "coordinatedCommits-preview": supported(
        "coordinatedCommits-preview",
        properties={"delta.coordinatedCommits.commitCoordinator-preview": "dynamodb"}),
    "redirectReaderWriter-preview": supported("redirectReaderWriter-preview"),
    "redirectWriterOnly-preview": supported("redirectWriterOnly-preview"),
    "adaptiveMetadata-preview": supported("adaptiveMetadata-preview"),
    "adaptiveMetadata": supported("adaptiveMetadata"),
    "geospatial": Use(column=GEOMETRY, values=pa.array([None] * 3, pa.binary()),
                      literals=("NULL",) * 3),
    "geospatial-dev": supported("geospatial-dev", column=GEOMETRY,
                                values=pa.array([None] * 3, pa.binary()), literals=("NULL",) * 3),
    "timestampNanos": Use(
        column="TIMESTAMP_NANOS", literals=tuple(f"TIMESTAMP '2024-01-0{day} 00:00:00'" for day in IDS),
        values=pa.array([dt.datetime(2024, 1, day) for day in IDS], pa.timestamp("ns", "UTC"))),
    "collations": supported("collations"),
    "collations-preview": supported("collations-preview"),
}
"""For each table feature, the table that is tried."""

INACTIVE = {
    "icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "icebergWriterCompatV1", "icebergWriterCompatV3",
    "geospatial", "geospatial-dev", "collations", "collations-preview",
}
"""Features that this library writes only while they are not switched on: its own table has them by name."""


def use_of(feature: str, ours: bool) -> Use:
    """The table of a feature, as this library or somebody else makes it."""
    return supported(feature) if ours and feature in INACTIVE else USES[feature]


def make(feature: str, folder: Path) -> Callable[[], DeltaTable]:
    """A table of ours in a folder; what opens it, since some are opened through a catalog."""
    use, path = use_of(feature, True), folder / "ours"
    schema = StructType.from_json(json.dumps(use.schema)) if use.metadata else use.columns
    if use.managed:
        catalog = dn.Catalog(f"sqlite:///{folder}/catalog.db", warehouse=folder / "lake")
        catalog.create_namespace("ns")
        created = catalog.create_table("ns.ours", schema)
        if feature == GROUPS:
            created.add_feature(GROUPS)
    else:
        created = dn.create(path, schema, properties=use.properties, **use.settings)
    created.append(use.rows())
    for text in use.statements:
        dn.sql(text.format(t=named(path)))
    if use.checkpoint:
        created.log.checkpoint()
    return (lambda: catalog.table("ns.ours")) if use.managed else (lambda: dn.open(path))
