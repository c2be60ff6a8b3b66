"""Requirements: what a commit takes an Iceberg table to be (REST catalog, ``TableRequirement``).

What lives here: the check of all requirements of a request against a table's metadata, every failure with
what the table has instead, in the words of Iceberg's Java implementation.
What it does not know: updates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from deltanb.catalog.iceberg.metadata.draft import completed
from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    maybe,
    named,
    record,
    tagged,
    text,
    whole,
)
from deltanb.errors import CommitFailed

__all__ = ["FailedRequirement", "check", "commit_failed", "parsed", "requirement_field"]


@dataclass(frozen=True)
class FailedRequirement:
    """A requirement that is not met: as it was stated, what the table has instead, and a sentence."""

    requirement: Json
    actual: Json
    message: str

    def to_value(self) -> Json:
        """As a response says it: ``{"requirement": {…}, "actual": {…}}``."""
        return {"requirement": self.requirement, "actual": self.actual}


def check(
    requirements: Sequence[Json], metadata: Json | None, *, where: str = "requirements"
) -> list[FailedRequirement]:
    """All requirements that a table does not meet, in their order; none is the empty list.

    Args:
        requirements: as in a commit request.
        metadata: the table as it is; None where there is no table.
        where: the path of the requirements in the request, for messages.

    Raises:
        BadRequest: a requirement is malformed; ``.field`` is its path (``requirements[0].uuid``).

    >>> from deltanb.catalog.iceberg.metadata.document import apply, new_metadata
    >>> table = new_metadata({"type": "struct", "fields": []}, "s3://lake/t", None, None, {}, 2,
    ...                      "9c12d441-03fe-4693-9a96-a0705ddf69c1", now=0)
    >>> column = {"id": 1, "name": "a", "type": "long", "required": False}
    >>> table = apply([{"action": "add-schema", "schema": {"type": "struct", "fields": [column]}},
    ...                {"action": "set-current-schema", "schema-id": -1}], table, now=1)
    >>> failed, = check([{"type": "assert-current-schema-id", "current-schema-id": 0}], table)
    >>> failed.message
    'Requirement failed: current schema changed: expected id 0 != 1'
    >>> failed.to_value()["actual"]
    {'current-schema-id': 1}
    """
    stated = parsed(requirements, where)
    table = None if metadata is None else completed(metadata)
    failures = (_TYPES[each["type"]][0](each, table) for each in stated)
    return [FailedRequirement(requirement, actual, f"Requirement failed: {message}")
            for requirement, failure in zip(requirements, failures, strict=True) if failure is not None
            for actual, message in [failure]]


def parsed(requirements: Any, where: str = "requirements") -> list[Json]:
    """Requirements of a request, checked and copied.

    Raises:
        BadRequest: a value is malformed; nothing unknown is accepted.
    """
    stated: list[Json] = array(requirement_field)(requirements, where)
    return stated


def commit_failed(failed: Sequence[FailedRequirement]) -> CommitFailed:
    """The error that tells of all failures; ``.failed_requirements`` has each as a response says it.

    >>> error = commit_failed([FailedRequirement({"type": "assert-create"}, {"uuid": "a"},
    ...                                          "Requirement failed: table already exists")])
    >>> error.kind, str(error), error.failed_requirements
    ('COMMIT_FAILED', 'Requirement failed: table already exists',
     [{'requirement': {'type': 'assert-create'}, 'actual': {'uuid': 'a'}}])
    """
    return CommitFailed("; ".join(each.message for each in failed),
                        failed_requirements=[each.to_value() for each in failed])


Failure = tuple[Json, str]  # what the table has, and a message


def _is_new(stated: Json, table: Json | None) -> Failure | None:
    return None if table is None else ({"uuid": table.get("table-uuid")}, "table already exists")


def _is_same_table(stated: Json, table: Json | None) -> Failure | None:
    if table is None:
        return {"uuid": None}, "table does not exist"
    actual = table.get("table-uuid")
    if str(actual).lower() == stated["uuid"].lower():
        return None
    return {"uuid": actual}, f"UUID does not match: expected {actual} != {stated['uuid']}"


def _ref_is_at(stated: Json, table: Json | None) -> Failure | None:
    name, expected = stated["ref"], stated.get("snapshot-id")
    if table is None:
        return {"ref": name, "snapshot-id": None}, "table does not exist"
    ref = (table.get("refs") or {}).get(name)
    if ref is None:
        if expected is None:
            return None
        return {"ref": name, "snapshot-id": None}, f"branch or tag {name} is missing, expected {expected}"
    if ref["snapshot-id"] == expected:
        return None
    message = "was created concurrently" if expected is None else (
        f"has changed: expected id {expected} != {ref['snapshot-id']}")
    return {"ref": name, "snapshot-id": ref["snapshot-id"]}, f"{ref['type']} {name} {message}"


def _equals(field: str, name: str, what: str, *, absent_is_fine: bool = False) -> (
        Callable[[Json, Json | None], Failure | None]):
    """The check that a number of the table is the stated one."""

    def compare(stated: Json, table: Json | None) -> Failure | None:
        if table is None:
            return None if absent_is_fine else ({field: None}, "table does not exist")
        actual = table[name]
        if actual == stated[field]:
            return None
        return {field: actual}, f"{what} changed: expected id {stated[field]} != {actual}"

    return compare


def _number(field: str, name: str, what: str, *, absent_is_fine: bool = False) -> (
        tuple[Callable[[Json, Json | None], Failure | None], Check]):
    return (_equals(field, name, what, absent_is_fine=absent_is_fine),
            record({"type": text, field: whole(32)}))


_TYPES: dict[str, tuple[Callable[[Json, Json | None], Failure | None], Check]] = {
    "assert-create": (_is_new, record({"type": text})),
    "assert-table-uuid": (_is_same_table, record({"type": text, "uuid": text})),
    "assert-ref-snapshot-id": (
        _ref_is_at, record({"type": text, "ref": text}, {"snapshot-id": maybe(whole(64))})),
    "assert-last-assigned-field-id": _number(
        "last-assigned-field-id", "last-column-id", "last assigned field id", absent_is_fine=True),
    "assert-current-schema-id": _number("current-schema-id", "current-schema-id", "current schema"),
    "assert-last-assigned-partition-id": _number(
        "last-assigned-partition-id", "last-partition-id", "last assigned partition id", absent_is_fine=True),
    "assert-default-spec-id": _number("default-spec-id", "default-spec-id", "default partition spec"),
    "assert-default-sort-order-id": _number(
        "default-sort-order-id", "default-sort-order-id", "default sort order"),
}
"""What each type asks, and the fields it has. The two about last ids hold where there is no table."""

requirement_field = named("Requirement", tagged(
    "type", "requirement of tables", {name: check for name, (_, check) in _TYPES.items()}))
"""The check of a requirement in a request."""
