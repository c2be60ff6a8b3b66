"""What Unity Catalog requires of a table that it manages, and what it suggests.

What lives here: the protocol and the properties that the answer to a new staging table has, and the checks of
them.
What it does not know: where a protocol is from: a table's first version, or a request that is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltanb.errors import InvalidArgument

__all__ = ["PROPERTIES", "PROTOCOL", "SUGGESTED", "require_domains", "require_features", "require_properties"]

_FEATURES = ("catalogManaged", "v2Checkpoint", "vacuumProtocolCheck", "deletionVectors")
PROTOCOL: Mapping[str, Any] = {
    "min-reader-version": 3, "min-writer-version": 7, "reader-features": [*_FEATURES],
    "writer-features": [*_FEATURES, "inCommitTimestamp"]}
PROPERTIES = {
    "delta.enableInCommitTimestamps": "true", "delta.enableDeletionVectors": "true",
    "delta.checkpointPolicy": "v2", "delta.checkpoint.writeStatsAsJson": "true",
    "delta.checkpoint.writeStatsAsStruct": "true"}
"""What the first commit of a table has to ask for: what Unity Catalog's own server requires."""

SUGGESTED: Mapping[str, Mapping[str, Any]] = {
    "suggested-protocol": {"reader-features": ["columnMapping"],
                           "writer-features": ["columnMapping", "domainMetadata", "rowTracking"]},
    "suggested-properties": {
        "delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": None,
        "delta.enableRowTracking": "true", "delta.rowTracking.materializedRowIdColumnName": None,
        "delta.rowTracking.materializedRowCommitVersionColumnName": None,
        "delta.randomizeFilePrefixes": "true", "delta.parquet.compression.codec": "zstd"}}
"""What Unity Catalog's own server suggests beside it; of null, clients make the value."""

_OF_DOMAINS = {"delta.clustering": "clustering", "delta.rowTracking": "rowTracking"}


def require_features(protocol: Mapping[str, Any]) -> None:
    """Refuse a protocol, in the log's form, that lacks a feature of those required.

    Raises:
        InvalidArgument: naming the first that is missing.
    """
    for kind in ("reader", "writer"):
        for feature in PROTOCOL[f"{kind}-features"]:
            if feature not in (protocol.get(f"{kind}Features") or ()):
                raise InvalidArgument(
                    f"protocol: it lacks the {kind} feature {feature}, which the staging table requires")


def require_properties(configuration: Mapping[str, str]) -> None:
    """Refuse properties without one of those required.

    Raises:
        InvalidArgument: naming the first that is missing, or has another value.
    """
    for name, value in PROPERTIES.items():
        if configuration.get(name) != value:
            raise InvalidArgument(
                f"properties: it lacks {name}={value}, which the staging table requires")


def require_domains(protocol: Mapping[str, Any], domains: Iterable[str]) -> None:
    """Refuse domains whose feature a protocol lacks.

    >>> require_domains({"writerFeatures": ["clustering"]}, ["delta.clustering"])

    Raises:
        InvalidArgument: naming the first.
    """
    for domain in domains:
        if _OF_DOMAINS[domain] not in (protocol.get("writerFeatures") or ()):
            raise InvalidArgument(
                f"set-domain-metadata: {domain} takes the writer feature {_OF_DOMAINS[domain]}")
