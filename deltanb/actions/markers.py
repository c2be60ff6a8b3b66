"""Small actions beside a table's files: applications, domains, and the parts of checkpoints.

What lives here: :class:`SetTransaction`, :class:`DomainMetadata`, :class:`CheckpointMetadata` and
:class:`Sidecar`.
What it does not know: what domains mean, what is in a sidecar.
"""

from __future__ import annotations

from typing import Any

from deltanb.actions.base import Action, action, extra_fields


@action
class SetTransaction(Action):
    """The latest version an application has written (PROTOCOL.md, "Transaction Identifiers").

    >>> SetTransaction("nightly", 7).to_json()
    '{"txn":{"appId":"nightly","version":7}}'
    """

    key = "txn"

    app_id: str
    version: int
    last_updated: int | None = None
    extra: dict[str, Any] = extra_fields()


@action
class DomainMetadata(Action):
    """A named configuration; ``removed`` makes it a tombstone (PROTOCOL.md, "Domain Metadata").

    >>> DomainMetadata("delta.clustering", '{"clusteringColumns":[["id"]]}').removed
    False
    """

    key = "domainMetadata"

    domain: str
    configuration: str = ""
    removed: bool = False
    extra: dict[str, Any] = extra_fields()


@action
class CheckpointMetadata(Action):
    """Version of a V2 checkpoint (PROTOCOL.md, "Checkpoint Metadata").

    >>> CheckpointMetadata(version=12).to_json()
    '{"checkpointMetadata":{"version":12}}'
    """

    key = "checkpointMetadata"

    version: int
    tags: dict[str, Any] | None = None
    extra: dict[str, Any] = extra_fields()


@action
class Sidecar(Action):
    """A file of a V2 checkpoint that holds file actions (PROTOCOL.md, "Sidecar File Information").

    >>> Sidecar("one.parquet", size_in_bytes=500, modification_time=1).to_value()["sizeInBytes"]
    500
    """

    key = "sidecar"

    path: str
    size_in_bytes: int
    modification_time: int
    tags: dict[str, Any] | None = None
    extra: dict[str, Any] = extra_fields()
