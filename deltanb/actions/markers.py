"""Small actions beside a table's files: applications, domains, transaction groups, the parts of checkpoints.

What lives here: :class:`SetTransaction`, :class:`DomainMetadata`, :class:`TransactionGroup`,
:class:`CheckpointMetadata` and :class:`Sidecar`.
What it does not know: what domains mean, how a group is committed, what is in a sidecar.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deltanb.actions.base import Action, action, extra_fields
from deltanb.errors import InvalidAction


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


GROUP_TAG = "delta.multiTableTransaction.transactionId"
"""The tag of a commitInfo that names the transaction group of its commit."""


@action
class Participant(Action):
    """A table of a transaction group: its id in the catalog, and the version of it that the group commits.

    >>> Participant("orders-id", 512).to_value()
    {'tableId': 'orders-id', 'proposedVersion': 512}
    """

    key = "participant"

    table_id: str
    proposed_version: int
    extra: dict[str, Any] = extra_fields()


@action
class TransactionGroup(Action):
    """The transaction of several tables that a commit is part of, equal in the commits of all of them.

    From the proposed table feature ``multiTableTransaction-dev`` (delta-io/delta#7438). Readers may ignore
    it; it is in commits and never in checkpoints.

    >>> tables = Participant("orders-id", 512), Participant("totals-id", 77)
    >>> group = TransactionGroup("b6c0", tables, coordinating_catalog="main")
    >>> from deltanb.actions import from_json
    >>> from_json(group.to_json()) == group
    True
    >>> group.versions
    {'orders-id': 512, 'totals-id': 77}
    """

    key = "transactionGroup"

    transaction_id: str
    participants: tuple[Participant, ...]
    coordinating_catalog: str
    extra: dict[str, Any] = extra_fields()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "participants", tuple(map(_participant, self.participants)))

    @property
    def versions(self) -> dict[str, int]:
        """The version of each table, by its id in the catalog.

        >>> TransactionGroup("b6c0", (Participant("orders-id", 512),), "main").versions
        {'orders-id': 512}
        """
        return {one.table_id: one.proposed_version for one in self.participants}


def _participant(value: Any) -> Participant:
    if isinstance(value, Participant):
        return value
    if not isinstance(value, Mapping):
        raise InvalidAction(f"transactionGroup.participants holds objects, found {value!r:.80}",
                            field="participants")
    return Participant.from_value(value)


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
