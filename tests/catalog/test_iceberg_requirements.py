"""Requirements of Iceberg commits: every type, every failure, and the bodies of the Transactions API."""

from __future__ import annotations

import pytest

from deltanb.catalog.iceberg.metadata.document import apply
from deltanb.catalog.iceberg.metadata.requirements import check, commit_failed
from deltanb.errors import BadRequest, CommitFailed, DeltaError
from tests.catalog.iceberg_tables import (
    BY_DAY,
    NOW,
    OTHER_UUID,
    SCHEMA,
    SET_ORDER,
    SET_SCHEMA,
    SET_SPEC,
    UUID,
    Json,
    add,
    add_schema,
    add_spec,
    column,
    point,
    sort_by,
    struct,
    table,
    with_snapshots,
)


def everything() -> Json:
    """A table none of whose ids is the first one."""
    return apply([
        add_schema(struct(*SCHEMA["fields"], column(4, "amount"))), SET_SCHEMA, add_spec(BY_DAY), SET_SPEC,
        {"action": "add-sort-order", "sort-order": sort_by(1)}, SET_ORDER, point(1, "v1", "tag"),
    ], with_snapshots(2), NOW)


MET = [
    {"type": "assert-table-uuid", "uuid": UUID.upper()},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    {"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 1},
    {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "none"},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 4},
    {"type": "assert-current-schema-id", "current-schema-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
]
NOT_MET = [
    ({"type": "assert-create"}, {"uuid": UUID}, "table already exists"),
    ({"type": "assert-table-uuid", "uuid": OTHER_UUID}, {"uuid": UUID},
     f"UUID does not match: expected {UUID} != {OTHER_UUID}"),
    ({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1}, {"ref": "main", "snapshot-id": 2},
     "branch main has changed: expected id 1 != 2"),
    ({"type": "assert-ref-snapshot-id", "ref": "v1", "snapshot-id": 2}, {"ref": "v1", "snapshot-id": 1},
     "tag v1 has changed: expected id 2 != 1"),
    ({"type": "assert-ref-snapshot-id", "ref": "main"}, {"ref": "main", "snapshot-id": 2},
     "branch main was created concurrently"),
    ({"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": 1},
     {"ref": "none", "snapshot-id": None}, "branch or tag none is missing, expected 1"),
    ({"type": "assert-last-assigned-field-id", "last-assigned-field-id": 3}, {"last-assigned-field-id": 4},
     "last assigned field id changed: expected id 3 != 4"),
    ({"type": "assert-current-schema-id", "current-schema-id": 0}, {"current-schema-id": 1},
     "current schema changed: expected id 0 != 1"),
    ({"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
     {"last-assigned-partition-id": 1000}, "last assigned partition id changed: expected id 999 != 1000"),
    ({"type": "assert-default-spec-id", "default-spec-id": 0}, {"default-spec-id": 1},
     "default partition spec changed: expected id 0 != 1"),
    ({"type": "assert-default-sort-order-id", "default-sort-order-id": 0}, {"default-sort-order-id": 1},
     "default sort order changed: expected id 0 != 1"),
]


def test_what_holds_is_no_failure() -> None:
    assert check(MET, everything()) == []
    assert check([], everything()) == check([], None) == []


@pytest.mark.parametrize(("requirement", "actual", "message"), NOT_MET)
def test_what_does_not_hold_says_what_is_there(requirement: Json, actual: Json, message: str) -> None:
    (failed,) = check([requirement], everything())
    assert failed.to_value() == {"requirement": requirement, "actual": actual}
    assert failed.message == f"Requirement failed: {message}"


def test_every_failure_is_told_in_order() -> None:
    mixed = [each for pair in zip(MET, (each[0] for each in NOT_MET), strict=False) for each in pair]
    failed = check(mixed, everything())
    assert [each.requirement for each in failed] == [each[0] for each in NOT_MET[:len(MET)]]
    error = commit_failed(failed)
    assert isinstance(error, CommitFailed) and isinstance(error, DeltaError) and error.kind == "COMMIT_FAILED"
    assert error.failed_requirements == [each.to_value() for each in failed]
    assert all(each.message in str(error) for each in failed)


def test_where_there_is_no_table_only_three_hold() -> None:
    fine = [{"type": "assert-create"},
            {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
            {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1}]
    assert check(fine, None) == []
    others = [each for each in MET if each["type"] not in {one["type"] for one in fine}]
    failed = check(others, None)
    assert [each.requirement for each in failed] == others
    assert {each.message for each in failed} == {"Requirement failed: table does not exist"}


@pytest.mark.parametrize(("field", "requirement"), [
    ("requirements[1]", None),
    ("requirements[1].type", {}),
    ("requirements[1].type", {"type": "assert-view-uuid", "uuid": UUID}),
    ("requirements[1].type", {"type": ["assert-create"]}),
    ("requirements[1].uuid", {"type": "assert-table-uuid"}),
    ("requirements[1].uuid", {"type": "assert-table-uuid", "uuid": 5}),
    ("requirements[1].uid", {"type": "assert-create", "uid": 5}),
    ("requirements[1].ref", {"type": "assert-ref-snapshot-id", "snapshot-id": 1}),
    ("requirements[1].snapshot-id", {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": "1"}),
    ("requirements[1].current-schema-id", {"type": "assert-current-schema-id", "current-schema-id": True}),
    ("requirements[1].default-spec-id", {"type": "assert-default-spec-id", "default-spec-id": None}),
])
def test_a_malformed_requirement_is_refused_with_the_path_of_its_field(field: str, requirement: Json) -> None:
    for metadata in (table(), None):
        with pytest.raises(BadRequest) as caught:
            check([{"type": "assert-create"}, requirement], metadata)
        assert caught.value.field == field


def test_requirements_are_a_list() -> None:
    with pytest.raises(BadRequest, match=r"^table-changes\[0\]\.requirements must be an array"):
        check({}, table(), where="table-changes[0].requirements")  # type: ignore[arg-type]


def test_metadata_without_refs_has_its_current_snapshot_as_main() -> None:
    old = {name: item for name, item in with_snapshots(2).items() if name != "refs"}
    assert check([{"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2}], old) == []


# --- bodies of the Transactions API ---------------------------------------------------------------

def test_the_example_of_two_appends() -> None:
    requirements = [{"type": "assert-table-uuid", "uuid": UUID},
                    {"type": "assert-current-schema-id", "current-schema-id": 0}]
    snapshot = {
        "snapshot-id": 123456790, "parent-snapshot-id": 123456789, "timestamp-ms": 1705398600000,
        "summary": {"operation": "append", "added-data-files": "5", "added-records": "10000"},
        "manifest-list": "s3://bucket/metadata/snap-123456790.avro", "schema-id": 0}
    updates = [{"action": "add-snapshot", "snapshot": snapshot},
               {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch",
                "snapshot-id": 123456790}]
    base = apply([add(123456789, None, 1), point(123456789)], table(), NOW)
    assert check(requirements, base) == []
    after = apply(updates, base, NOW + 1)
    assert after["snapshots"][1] == {**snapshot, "sequence-number": 2}
    assert (after["current-snapshot-id"], after["last-sequence-number"]) == (123456790, 2)
    assert apply(updates, table(1), NOW)["snapshots"] == [snapshot]


def test_the_example_of_a_migration_and_its_failure() -> None:
    requirements = [{"type": "assert-current-schema-id", "current-schema-id": 0}]
    updates = [add_schema(struct(*SCHEMA["fields"], column(4, "email", "string"))),
               {"action": "set-current-schema", "schema-id": 1}]
    after = apply(updates, table(), NOW)
    assert after["current-schema-id"] == 1
    assert [each.to_value() for each in check(requirements, after)] == [{
        "requirement": {"type": "assert-current-schema-id", "current-schema-id": 0},
        "actual": {"current-schema-id": 1}}]


def test_the_example_of_a_property() -> None:
    updates = [{"action": "set-properties", "updates": {"last-modified-by": "etl-pipeline"}}]
    assert apply(updates, table(), NOW)["properties"] == {"last-modified-by": "etl-pipeline"}
