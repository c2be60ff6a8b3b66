"""What a commit changes of what Unity Catalog keeps of a table, as updates of its API.

What lives here: the difference between the table before a commit and its actions. The catalog reads no
file: whatever the log says of columns, protocol, properties and domains, it knows from these.
What it does not know: requests, and how a commit is ratified.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from deltanb.actions import Action, DomainMetadata, Metadata, Protocol
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import DeltaCommit
from deltanb.catalog.unity.forms import columns_value, is_derived
from deltanb.catalog.unity.infos import columns_info

__all__ = ["DOMAINS", "add_commit", "domains_value", "external_table", "new_table", "protocol_value",
           "published", "updates_of"]

DOMAINS: Mapping[str, str] = {"delta.clustering": "clusteringColumns",
                              "delta.rowTracking": "rowIdHighWaterMark"}
"""The domains that the catalog keeps, each with the field that it keeps of it."""

_PROTOCOL = {"minReaderVersion": "min-reader-version", "minWriterVersion": "min-writer-version",
             "readerFeatures": "reader-features", "writerFeatures": "writer-features"}


def updates_of(
    protocol: Protocol | None, metadata: Metadata | None, actions: Iterable[Action]
) -> list[Json]:
    """The updates that a commit's actions are, of a table with a protocol and metadata.

    >>> before = Metadata("t", configuration={"owner": "ada"}, schema_string='{"type":"struct","fields":[]}')
    >>> after = before.replace(configuration={"delta.appendOnly": "true"}, description="all sales")
    >>> removed = DomainMetadata("delta.clustering", "{}", removed=True)
    >>> for update in updates_of(Protocol(1, 2), before, [after, removed]):
    ...     print(update)
    {'action': 'set-properties', 'updates': {'delta.appendOnly': 'true'}}
    {'action': 'remove-properties', 'removals': ['owner']}
    {'action': 'set-table-comment', 'comment': 'all sales'}
    {'action': 'remove-domain-metadata', 'domains': ['delta.clustering']}
    """
    updates: list[Json] = []
    domains: list[DomainMetadata] = []
    for action in actions:
        if isinstance(action, Protocol) and action != protocol:
            updates.append({"action": "set-protocol", "protocol": protocol_value(action)})
        elif isinstance(action, Metadata):
            updates += _of_metadata(metadata, action)
        elif isinstance(action, DomainMetadata):
            domains.append(action)
    return updates + _of_domains(domains)


def _of_metadata(before: Metadata | None, after: Metadata) -> list[Json]:
    updates: list[Json] = []
    old = {} if before is None else _properties_of(before)
    new = _properties_of(after)
    changed = {name: value for name, value in new.items() if old.get(name) != value}
    if changed:
        updates.append({"action": "set-properties", "updates": changed})
    if old.keys() - new.keys():
        updates.append({"action": "remove-properties", "removals": sorted(old.keys() - new.keys())})
    if before is None or _schema_of(before) != _schema_of(after):
        updates.append({"action": "set-columns", "columns": columns_value(_schema_of(after))})
    if before is None or before.partition_columns != after.partition_columns:
        updates.append({"action": "set-partition-columns", "partition-columns": [*after.partition_columns]})
    if (None if before is None else before.description) != after.description:
        updates.append({"action": "set-table-comment", "comment": after.description or ""})
    return updates


def _schema_of(metadata: Metadata) -> Json:
    schema: Json = json.loads(metadata.schema_string or "{}")
    return schema


def _properties_of(metadata: Metadata) -> dict[str, str]:
    """The properties that are not the catalog's own to derive."""
    return {name: value for name, value in metadata.configuration.items() if not is_derived(name)}


def _of_domains(domains: Iterable[DomainMetadata]) -> list[Json]:
    domains = list(domains)
    updates = []
    values = domains_value(domains)
    if values:
        updates.append({"action": "set-domain-metadata", "updates": values})
    removed = [each.domain for each in domains if each.removed and each.domain in DOMAINS]
    if removed:
        updates.append({"action": "remove-domain-metadata", "domains": removed})
    return updates


def domains_value(domains: Iterable[DomainMetadata]) -> Json:
    """What the catalog keeps of domains that are set."""
    values: Json = {}
    for each in domains:
        if each.domain in DOMAINS and not each.removed:
            field = DOMAINS[each.domain]
            values[each.domain] = {field: json.loads(each.configuration)[field]}
    return values


def protocol_value(protocol: Protocol) -> Json:
    """A protocol as the catalog writes it.

    >>> protocol_value(Protocol(1, 2))
    {'min-reader-version': 1, 'min-writer-version': 2}
    """
    return {_PROTOCOL[name]: value for name, value in protocol.to_value().items() if value is not None}


def add_commit(proposal: DeltaCommit) -> Json:
    """The update that proposes a commit."""
    return {"action": "add-commit", "commit": {
        "version": proposal.version, "timestamp": proposal.ict, "file-name": proposal.file_name,
        "file-size": proposal.file_size, "file-modification-timestamp": proposal.mtime}}


def published(version: int) -> Json:
    """The update that says up to which version the folder has all commits."""
    return {"action": "set-latest-backfilled-version", "latest-published-version": version}


def new_table(
    name: str, location: str, protocol: Protocol, metadata: Metadata, domains: Iterable[DomainMetadata],
    time: Any,
) -> Json:
    """What is said of a new managed table: all that its first version has."""
    body: Json = {
        "name": name, "location": location, "table-type": "MANAGED",
        "columns": columns_value(_schema_of(metadata)),
        "partition-columns": [*metadata.partition_columns], "protocol": protocol_value(protocol),
        "properties": _properties_of(metadata), "last-commit-timestamp-ms": time}
    if metadata.description:
        body["comment"] = metadata.description
    values = domains_value(domains)
    return {**body, "domain-metadata": values} if values else body


def external_table(catalog: str, name: TableName, location: str, metadata: Metadata) -> Json:
    """What is said of a table that keeps its commits in its folder, to the older API."""
    body: Json = {
        "name": name.name, "catalog_name": catalog, "schema_name": ".".join(name.namespace),
        "table_type": "EXTERNAL", "data_source_format": "DELTA", "storage_location": location,
        "columns": columns_info(metadata.to_value()), "properties": _properties_of(metadata)}
    return {**body, "comment": metadata.description} if metadata.description else body
