"""The actions of the Delta log: small frozen values with JSON both ways.

What lives here: the names by which actions are imported. ``base`` has what all share: wire names and the
check of types; ``data_files``, ``metadata``, ``commit_info`` and ``markers`` have the actions, and ``parse``
reads them.
What it does not know: files, snapshots, transactions. A snapshot's files are an Arrow table; an action
object exists for the handful that a commit holds.

Fields that this library does not know are kept in ``extra`` and written back unchanged, as the protocol
asks of writers (PROTOCOL.md, "Actions"). Absent fields are ``None`` and are left out of the JSON.

>>> action = from_json('{"txn": {"appId": "etl", "version": 3, "shiny": true}}')
>>> action.app_id, action.version, action.extra
('etl', 3, {'shiny': True})
>>> action.to_json()
'{"txn":{"appId":"etl","version":3,"shiny":true}}'
"""

from __future__ import annotations

from deltanb.actions.base import Action
from deltanb.actions.commit_info import CommitInfo
from deltanb.actions.data_files import (
    AddCDCFile,
    AddFile,
    DeletionVector,
    FileAction,
    RemoveFile,
    decode_path,
    encode_path,
)
from deltanb.actions.markers import (
    CheckpointMetadata,
    DomainMetadata,
    Participant,
    SetTransaction,
    Sidecar,
    TransactionGroup,
)
from deltanb.actions.metadata import Metadata, Protocol
from deltanb.actions.parse import UnknownAction, from_dict, from_json
from deltanb.text.completion import offered

__all__ = [
    "Action", "AddCDCFile", "AddFile", "CheckpointMetadata", "CommitInfo", "DeletionVector",
    "DomainMetadata", "FileAction", "Metadata", "Participant", "Protocol", "RemoveFile", "SetTransaction",
    "Sidecar", "TransactionGroup", "UnknownAction", "decode_path", "encode_path", "from_dict", "from_json",
]

__dir__ = offered(globals())
