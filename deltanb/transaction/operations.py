"""Operations: the name and parameters a commit is recorded under.

What lives here: the vocabulary of ``commitInfo.operation`` as Delta Spark writes it, with whether the
operation changes data. What it does not know: how any operation is carried out.

>>> Operation("WRITE", {"mode": "Append", "partitionBy": ["month"]}).encoded_parameters()
{'mode': 'Append', 'partitionBy': '["month"]'}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltanb.display import Displayable
from deltanb.errors import InvalidArgument

CHANGES_DATA = frozenset({
    "WRITE", "STREAMING UPDATE", "DELETE", "TRUNCATE", "UPDATE", "MERGE", "CONVERT", "RESTORE",
    "CLONE", "CREATE TABLE AS SELECT", "REPLACE TABLE AS SELECT",
    "CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE", "CREATE OR REPLACE TABLE",
})
"""Operations that change rows; every other name, known or made up, does not unless it says so."""

_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode

REPLACE_TABLE = frozenset({
    "REPLACE TABLE", "CREATE OR REPLACE TABLE", "REPLACE TABLE AS SELECT",
    "CREATE OR REPLACE TABLE AS SELECT",
})
DROP_FEATURE = "DROP FEATURE"
BACKFILL = "ROW TRACKING BACKFILL"
UNBACKFILL = "ROW TRACKING UNBACKFILL"


@dataclass(frozen=True, repr=False)
class Operation(Displayable):
    """What a commit does, for the record and for the isolation level.

    Args:
        name: e.g. ``WRITE``, ``DELETE``, ``Manual Update``.
        parameters: written as ``operationParameters``; lists and objects as JSON text.
        changes_data: whether rows change; by default what Delta says of the name.
        metrics: written as ``operationMetrics``, as text.
        user_metadata: written as ``userMetadata``.
        tags: written as ``tags``.
    """

    name: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    changes_data: bool | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    user_metadata: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidArgument(f"an operation needs a name, found {self.name!r}")
        if self.changes_data is None:
            object.__setattr__(self, "changes_data", self.name in CHANGES_DATA)

    def replace(self, **changes: Any) -> Operation:
        """A copy with some parts changed, e.g. with the metrics known at the end."""
        return replace(self, **changes)

    def encoded_parameters(self) -> dict[str, str]:
        """The parameters as ``commitInfo`` holds them: text, or JSON text; absent ones left out."""
        return {k: _encode(v) for k, v in self.parameters.items() if v is not None}

    def encoded_metrics(self) -> dict[str, str]:
        """The metrics as ``commitInfo`` holds them: text."""
        return {k: _encode(v) for k, v in self.metrics.items() if v is not None}


def _encode(value: Any) -> str:
    if isinstance(value, str):
        return value
    return _to_json(value)


MANUAL_UPDATE = Operation("Manual Update")
"""The operation of a transaction that does not say what it does."""


def as_operation(operation: Operation | str | None) -> Operation:
    """An operation from itself, from its name, or the manual update.

    Raises:
        InvalidArgument: neither.
    """
    if operation is None:
        return MANUAL_UPDATE
    if isinstance(operation, str):
        return Operation(operation)
    if isinstance(operation, Operation):
        return operation
    raise InvalidArgument(
        f"operation must be an Operation or its name, found {type(operation).__name__}"
    )
