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
from functools import cached_property
from typing import Any

from deltanb.actions.base import MAX_LONG
from deltanb.errors import InvalidArgument, require
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown

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
REPLACE_USING, REPLACE_ON = MATCHED = ("replaceUsingCols", "replaceOnCond")
"""In the parameters of an overwrite: by what its rows replaced rows of the table, as Delta Spark names it."""
NEW_SCHEMA = "canOverwriteSchema"
"""The parameter of an overwrite with a new schema."""
OFFSETS = "offsetsDigest"
"""The parameter of a stream's batch that tells it from another one of its number."""
DROP_FEATURE = "DROP FEATURE"
BACKFILL = "ROW TRACKING BACKFILL"
UNBACKFILL = "ROW TRACKING UNBACKFILL"
TRANSACTION = "TRANSACTION"
"""A commit of several statements, each of which has been checked as the operation that it is."""
PRESERVED = "delta.rowTracking.preserved"
"""The tag of a commit that says whether all rows kept their ids."""
_OLD_FILES = frozenset({BACKFILL, UNBACKFILL, "COMPUTE STATS", "RESTORE", "CLONE"})
RECOMMITS_FILES = _OLD_FILES | {DROP_FEATURE, TRANSACTION}
"""Operations that may add files with the deletion vectors they have already."""
TAKES_FILES = _OLD_FILES | {"CONVERT"}
"""Operations whose commits name files that were written before, by others."""
UPGRADES = frozenset({"UPGRADE PROTOCOL", "ADD FEATURE", DROP_FEATURE})
DEFINES = UPGRADES | {
    "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "ADD COLUMNS", "DROP COLUMNS", "RENAME COLUMN",
    "CHANGE COLUMN", "CHANGE COLUMNS", "REPLACE COLUMNS", "ADD CONSTRAINT", "DROP CONSTRAINT",
    "UPDATE SCHEMA", "UPDATE COLUMN METADATA", "CLUSTER BY"}
"""Operations that read and write a table's definition alone."""
_MANUAL_UPDATE = "Manual Update"
OPERATIONS = CHANGES_DATA | REPLACE_TABLE | DEFINES | {
    "CREATE TABLE", "Deletion Vector Tombstones", "COMPUTE STATS", "ANALYZE", "OPTIMIZE", "REORG",
    "OPTIMIZE CHECKPOINT", "VACUUM START", "VACUUM END", BACKFILL, UNBACKFILL, "REMOVE COLUMN MAPPING",
    "DOMAIN METADATA CLEANUP", "REORG TABLE UPGRADE UNIFORM", "SYNC IDENTITY", TRANSACTION, _MANUAL_UPDATE,
    "Empty Commit", "DLT SETUP", "DLT REFRESH", "SHALLOW CLONE", "COPY INTO", "FSCK", "FSCK REPAIR TABLE",
    "ADD COLUMN", "UPDATE FIELD METADATA", "UPDATE TABLE METADATA", "DELETE COLUMN",
    "SET CLUSTERING COLUMNS", "UPDATE TABLE PROPERTIES"}
"""Operations that Delta Spark, delta-rs, Delta Kernel, Databricks or this library write."""


def replaces_definition(name: str, parameters: Mapping[str, Any]) -> bool:
    """Whether an operation gives the table another schema in place of its own, with all that belongs to it.

    >>> replaces_definition("WRITE", {"mode": "Overwrite", "canOverwriteSchema": True})
    True
    """
    return name in REPLACE_TABLE or parameters.get(NEW_SCHEMA) in (True, "true")


@dataclass(frozen=True, repr=False)
class Operation(Displayable):
    """What a commit does, for the record and for the isolation level.

    Args:
        name: e.g. ``WRITE``, ``DELETE``, ``Manual Update``.
        parameters: written as ``operationParameters``: text, numbers, bools and None as they are, lists
            and objects as JSON text.
        changes_data: whether rows change; by default what Delta says of the name.
        metrics: written as ``operationMetrics``, as text.
        user_metadata: written as ``userMetadata``.
        tags: written as ``tags``.

    >>> optimize = Operation("OPTIMIZE", {"predicate": ["month = 1"]})
    >>> optimize.changes_data, Operation("DELETE").changes_data
    (False, True)
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
        for part in ("parameters", "metrics", "tags"):
            _check_json(self.name, part, getattr(self, part))
        if self.changes_data is None:
            object.__setattr__(self, "changes_data", self.name in CHANGES_DATA)

    @cached_property
    def replaces_definition(self) -> bool:
        """Whether it gives the table another schema in place of its own; each winner's commit asks.

        >>> Operation("CREATE OR REPLACE TABLE").replaces_definition
        True
        >>> Operation("WRITE", {"mode": "Overwrite"}).replaces_definition
        False
        """
        return replaces_definition(self.name, self.parameters)

    def replace(self, **changes: Any) -> Operation:
        """A copy with some parts changed, e.g. with the metrics known at the end.

        >>> write = Operation("WRITE", {"mode": "Append"})
        >>> write.replace(metrics={"numFiles": 2}).encoded_metrics()
        {'numFiles': '2'}
        """
        return replace(self, **changes)

    def encoded_parameters(self) -> dict[str, Any]:
        """The parameters as ``commitInfo`` holds them: JSON text for lists and objects, as Delta Spark
        writes them, and everything else as the JSON value it is.

        >>> Operation("OPTIMIZE", {"predicate": [], "auto": False, "zOrderBy": None}).encoded_parameters()
        {'predicate': '[]', 'auto': False, 'zOrderBy': None}
        """
        return {k: v if _is_plain(v) or isinstance(v, str | int | float) else _to_json(v)
                for k, v in self.parameters.items()}

    def encoded_metrics(self) -> dict[str, str]:
        """The metrics as ``commitInfo`` holds them: text.

        >>> Operation("DELETE", metrics={"numDeletedRows": 3, "numCopiedRows": None}).encoded_metrics()
        {'numDeletedRows': '3'}
        """
        return {k: _encode(v) for k, v in self.metrics.items() if v is not None}


def _check_json(name: str, part: str, values: Any) -> None:
    """Refuse what ``commitInfo`` cannot hold where it is said, before anything is written for it."""
    if not isinstance(values, Mapping):
        raise InvalidArgument(
            f"operation {name}: {part} must be a mapping of names to values, found {shown(values)}")
    for key, value in values.items():
        if not isinstance(key, str):
            require(key, str, f"operation {name}", f"names (strings) in its {part}")
        if _is_plain(value):
            continue
        try:
            _to_json(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgument(
                f"operation {name}: {part}[{key!r}] = {shown(value)} cannot be written as JSON ({error}); "
                "give text, numbers, bools, None, or lists and dicts of these") from None


def _is_plain(value: Any) -> bool:
    """Whether it is a JSON value without a look inside: all but floats, long integers and containers."""
    kind = type(value)
    return kind is str or (kind is int and -MAX_LONG <= value < MAX_LONG) or value is None or kind is bool


def _encode(value: Any) -> str:
    if isinstance(value, str):
        return value
    return str(value) if type(value) is int else _to_json(value)


MANUAL_UPDATE = Operation(_MANUAL_UPDATE)
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
