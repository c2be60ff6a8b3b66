"""The action that says where a commit came from: who, when, by which operation, on which version.

What lives here: :class:`CommitInfo`. A field that is to be written, too, is set in ``transaction/prepare``.
What it does not know: what operations are there (``transaction/operations``).
"""

from __future__ import annotations

from typing import Any

from deltanb.actions.base import Action, action, extra_fields


@action
class CommitInfo(Action):
    """Where a commit came from (PROTOCOL.md, "Commit Provenance Information").

    The protocol leaves its content free, so nothing in it is checked; writers disagree on types.

    >>> info = CommitInfo.from_value({"operation": "WRITE", "operationMetrics": {"numFiles": "1"}, "mine": 3})
    >>> info.operation, info.operation_metrics["numFiles"], info.extra
    ('WRITE', '1', {'mine': 3})
    """

    key = "commitInfo"

    in_commit_timestamp: Any = None
    timestamp: Any = None
    user_id: Any = None
    user_name: Any = None
    operation: Any = None
    operation_parameters: Any = None
    job: Any = None
    notebook: Any = None
    cluster_id: Any = None
    read_version: Any = None
    isolation_level: Any = None
    is_blind_append: Any = None
    operation_metrics: Any = None
    user_metadata: Any = None
    tags: Any = None
    engine_info: Any = None
    txn_id: Any = None
    extra: dict[str, Any] = extra_fields()
