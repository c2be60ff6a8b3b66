"""Every Delta table feature, and what this library does with it.

Lives here: one table, :data:`FEATURES`, read by the protocol gates, by views and by documentation.
Names from PROTOCOL.md ("Valid Feature Names in Table Features"), its RFCs and Delta Spark.

Does not know: how a protocol is checked or changed (:mod:`deltanb.schema.protocol`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from deltanb.actions import Metadata
from deltanb.actions.metadata import LEGACY_FEATURES, TABLE_FEATURES_READER, TABLE_FEATURES_WRITER

Write = Literal["yes", "while inactive", "no"]


@dataclass(frozen=True)
class Feature:
    """One table feature.

    ``min_reader`` and ``min_writer`` are the versions that first support it: legacy features are
    implied by versions below 3 and 7, all others must be listed. ``reader`` is true for features
    that readers must know too. ``active`` tells from the metadata whether the feature is switched
    on (None: supported means active); ``automatic`` features are added to the protocol by metadata
    that switches them on. ``write`` is "yes", "no", or "while inactive": then log-only commits are
    fine, and so is data as long as the feature is not switched on.
    """

    name: str
    min_reader: int
    min_writer: int
    reader: bool
    read: bool
    write: Write
    active: Callable[[Metadata], bool] | None = None
    automatic: bool = False
    requires: tuple[str, ...] = ()
    stands_in: str | None = None
    note: str = ""

    @property
    def legacy(self) -> bool:
        """Whether version numbers alone can stand for the feature."""
        return self.min_writer < TABLE_FEATURES_WRITER

    def is_active_in(self, metadata: Metadata) -> bool:
        """Whether the metadata switches the feature on, given that it is supported."""
        return self.active is None or self.active(metadata)


# -- what metadata can say ---------------------------------------------------------------------


def _on(key: str) -> Callable[[Metadata], bool]:
    return lambda metadata: _text(metadata, key) == "true"


def _text(metadata: Metadata, key: str) -> str:
    return str(metadata.configuration.get(key, "")).strip().lower()


def _has(key: str) -> Callable[[Metadata], bool]:
    return lambda metadata: bool(_text(metadata, key))


def _field_says(key: str) -> Callable[[Metadata], bool]:
    return lambda metadata: key in _schema_facts(metadata.schema_string)[1]


def _uses_type(*names: str) -> Callable[[Metadata], bool]:
    return lambda metadata: not _schema_facts(metadata.schema_string)[0].isdisjoint(names)


def _any_of(*tests: Callable[[Metadata], bool]) -> Callable[[Metadata], bool]:
    return lambda metadata: any(test(metadata) for test in tests)


def _has_constraints(metadata: Metadata) -> bool:
    return any(key.lower().startswith("delta.constraints.") for key in metadata.configuration)


def _maps_columns(metadata: Metadata) -> bool:
    return _text(metadata, "delta.columnMapping.mode") in ("name", "id")


def _wants_v2_checkpoints(metadata: Metadata) -> bool:
    return _text(metadata, "delta.checkpointPolicy") == "v2"


@lru_cache(maxsize=256)
def _schema_facts(schema_string: str | None) -> tuple[frozenset[str], frozenset[str]]:
    """The primitive type names (without parameters) and the field metadata keys of a schema."""
    types: set[str] = set()
    keys: set[str] = set()
    pending: list[Any] = [json.loads(schema_string)] if schema_string else []
    while pending:
        node = pending.pop()
        if isinstance(node, str):
            types.add(node.split("(")[0])
        elif isinstance(node, dict):
            keys.update(node.get("metadata") or ())
            pending.extend(node.get("fields") or ())
            parts = ("type", "elementType", "keyType", "valueType")
            pending.extend(node[part] for part in parts if part in node)
    return frozenset(types), frozenset(keys)


# -- the features ------------------------------------------------------------------------------


def _legacy(name: str, active: Callable[[Metadata], bool], **more: Any) -> Feature:
    reader, writer = LEGACY_FEATURES[name]
    return Feature(name, reader, writer, reader > 1, True, "yes", active, automatic=True, **more)


def _writer(name: str, **more: Any) -> Feature:
    more = {"read": True, "write": "yes", **more}
    return Feature(name, 1, TABLE_FEATURES_WRITER, reader=False, **more)


def _both(name: str, **more: Any) -> Feature:
    more = {"read": True, "write": "yes", **more}
    return Feature(name, TABLE_FEATURES_READER, TABLE_FEATURES_WRITER, reader=True, **more)


GROUPS = "multiTableTransaction-dev"
"""Proposed in delta-io/delta#7438: the commits of a transaction of several tables name all of its tables."""
_AS_BINARY = "geometries are read, as well-known binary, and not written"
_MANIFESTS = "its log is a tree of manifests"
_COMPAT = "its files must satisfy Iceberg's rules, which this library does not check when writing"

FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        _legacy("appendOnly", _on("delta.appendOnly")),
        _legacy("invariants", _field_says("delta.invariants")),
        _legacy("checkConstraints", _has_constraints),
        _legacy(
            "changeDataFeed",
            _on("delta.enableChangeDataFeed"),
            note="appends and removals of whole files need no change files; rewriting rows does",
        ),
        _legacy("generatedColumns", _field_says("delta.generationExpression")),
        _legacy("columnMapping", _maps_columns),
        _legacy(
            "identityColumns",
            _any_of(_field_says("delta.identity.start"), _field_says("delta.identity.step")),
        ),
        _writer(
            "allowColumnDefaults",
            active=_field_says("CURRENT_DEFAULT"),
        ),
        _writer("columnMappingUsageTracking", requires=("columnMapping",)),
        _both("deletionVectors", active=_on("delta.enableDeletionVectors"), automatic=True),
        _writer(
            "rowTracking",
            active=_on("delta.enableRowTracking"),
            automatic=True,
            requires=("domainMetadata",),
        ),
        _both("timestampNtz", active=_uses_type("timestamp_ntz"), automatic=True),
        _writer("domainMetadata"),
        _both("v2Checkpoint", active=_wants_v2_checkpoints, automatic=True),
        _both(
            "typeWidening",
            active=_any_of(_on("delta.enableTypeWidening"), _field_says("delta.typeChanges")),
            automatic=True,
            stands_in="typeWidening-preview",
        ),
        _both(
            "typeWidening-preview",
            active=_any_of(_on("delta.enableTypeWidening"), _field_says("delta.typeChanges")),
        ),
        _both(
            "variantType",
            active=_uses_type("variant"),
            automatic=True,
            stands_in="variantType-preview",
        ),
        _both("variantType-preview", active=_uses_type("variant")),
        _both(
            "variantShredding",
            active=_on("delta.enableVariantShredding"),
            automatic=True,
            requires=("variantType",),
            stands_in="variantShredding-preview",
        ),
        _both("variantShredding-preview", active=_on("delta.enableVariantShredding")),
        _writer("inCommitTimestamp", active=_on("delta.enableInCommitTimestamps"), automatic=True),
        _both("vacuumProtocolCheck"),
        _writer("clustering", requires=("domainMetadata",)),
        _writer("checkpointProtection"),
        _writer(
            "icebergCompatV1",
            active=_on("delta.enableIcebergCompatV1"),
            automatic=True,
            write="while inactive",
            requires=("columnMapping",),
            note=_COMPAT,
        ),
        _writer(
            "icebergCompatV2",
            active=_on("delta.enableIcebergCompatV2"),
            automatic=True,
            write="while inactive",
            requires=("columnMapping",),
            note=_COMPAT,
        ),
        _writer(
            "icebergCompatV3",
            active=_on("delta.enableIcebergCompatV3"),
            automatic=True,
            write="while inactive",
            requires=("columnMapping", "rowTracking"),
            note=_COMPAT,
        ),
        _writer(
            "icebergWriterCompatV1",
            active=_on("delta.enableIcebergWriterCompatV1"),
            write="while inactive",
            requires=("icebergCompatV2",),
            note=_COMPAT,
        ),
        _writer(
            "icebergWriterCompatV3",
            active=_on("delta.enableIcebergWriterCompatV3"),
            write="while inactive",
            requires=("icebergCompatV3",),
            note=_COMPAT,
        ),
        _writer(
            "materializePartitionColumns",
            # Whoever has the feature, with the property or without it, writes the columns.
            active=_on("delta.enableMaterializePartitionColumnsFeature"),
            automatic=True,
        ),
        _both(
            "catalogManaged",
            requires=("inCommitTimestamp", "vacuumProtocolCheck"),
        ),
        _writer(
            GROUPS,
            requires=("catalogManaged",),
            note="its commits may name the transaction of several tables that they are part of; Delta Spark, "
            "Delta Kernel and delta-rs do not write a table with it",
        ),
        _writer(
            "coordinatedCommits-preview",
            active=_has("delta.coordinatedCommits.commitCoordinator-preview"),
            write="no",
            requires=("inCommitTimestamp", "vacuumProtocolCheck"),
            note="its commits go through a coordinator",
        ),
        _both(
            "redirectReaderWriter-preview",
            read=False,
            write="no",
            note="the table lives in another place",
        ),
        _writer(
            "redirectWriterOnly-preview", write="no", note="the table is written in another place"
        ),
        _both("adaptiveMetadata-preview", read=False, write="no", note=_MANIFESTS),
        _both("adaptiveMetadata", read=False, write="no", note=_MANIFESTS),
        _both(
            "geospatial",
            active=_uses_type("geometry", "geography"),
            automatic=True,
            write="while inactive",
            stands_in="geospatial-dev",
            note=_AS_BINARY,
        ),
        _both(
            "geospatial-dev",
            active=_uses_type("geometry", "geography"),
            write="while inactive",
            note=_AS_BINARY,
        ),
        _both(
            "timestampNanos",
            active=_uses_type("timestamp_nanos", "timestamp_nanos_ntz"),
            automatic=True,
            requires=("timestampNtz",),
        ),
        _writer(
            "collations",
            active=_field_says("__COLLATIONS"),
            write="while inactive",
            requires=("domainMetadata",),
            note="statistics by collation are not written",
        ),
        _writer(
            "collations-preview",
            active=_field_says("__COLLATIONS"),
            write="while inactive",
            requires=("domainMetadata",),
            note="statistics by collation are not written",
        ),
    )
}
"""Every table feature, in the order in which new ones are added to a protocol's lists."""
