"""Metadata of Iceberg tables: new tables, every update, every refusal."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from deltanb.catalog.iceberg.metadata.document import apply, new_metadata
from deltanb.errors import BadRequest, CommitFailed, InvalidTable, UnsupportedProtocol
from tests.catalog.iceberg_tables import (
    BY_BUCKET,
    BY_DAY,
    MINUTE,
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
    log_of,
    point,
    snapshot,
    sort_by,
    struct,
    table,
    with_snapshots,
)

# --- new tables -----------------------------------------------------------------------------------

def test_a_new_table_has_every_field() -> None:
    assert table() == {
        "format-version": 2, "table-uuid": UUID, "location": "s3://lake/t", "last-sequence-number": 0,
        "last-updated-ms": NOW, "last-column-id": 3, "current-schema-id": 0,
        "schemas": [{**SCHEMA, "schema-id": 0}], "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
        "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}], "properties": {},
        "current-snapshot-id": -1, "refs": {}, "snapshots": [], "statistics": [], "partition-statistics": [],
        "snapshot-log": [], "metadata-log": []}


def test_each_version_has_its_own_fields() -> None:
    first, third = table(1), table(3)
    assert "last-sequence-number" not in first and first["schema"] == first["schemas"][0]
    assert first["partition-spec"] == []
    assert (third["next-row-id"], third["current-snapshot-id"]) == (0, None)
    with pytest.raises(BadRequest, match="newest is v3"):
        table(4)


def test_columns_are_numbered_level_by_level_and_the_rest_follows() -> None:
    point_type = struct(column(30, "x", "double", True), column(31, "y", "double", True))
    tags = {"type": "map", "key-id": 50, "key": "string", "value-id": 51, "value": point_type,
            "value-required": True}
    marks = {"type": "list", "element-id": 60, "element": "int", "element-required": False}
    schema = struct(column(9, "place", struct(column(20, "zip", "string", True)), True),
                    column(8, "tags", tags), column(7, "marks", marks), column(6, "id", "long", True),
                    **{"schema-id": 5, "identifier-field-ids": [6, 20]})
    spec = {"spec-id": 4, "fields": [
        {"source-id": 20, "transform": "truncate[2]", "name": "z", "field-id": 7}]}
    order = {"order-id": 3, **sort_by(6, "desc")}
    made = new_metadata(schema, "s3://lake/t", spec, order, {}, 2, UUID, NOW)
    fields = made["schemas"][0]["fields"]
    assert [field["id"] for field in fields] == [1, 2, 3, 4]
    assert fields[0]["type"]["fields"][0]["id"] == 5
    assert (fields[1]["type"]["key-id"], fields[1]["type"]["value-id"]) == (6, 7)
    assert [field["id"] for field in fields[1]["type"]["value"]["fields"]] == [8, 9]
    assert fields[2]["type"]["element-id"] == 10
    assert made["schemas"][0]["identifier-field-ids"] == [4, 5] and made["schemas"][0]["schema-id"] == 0
    assert made["last-column-id"] == 10
    assert made["partition-specs"] == [{"spec-id": 0, "fields": [
        {"source-id": 5, "transform": "truncate[2]", "name": "z", "field-id": 1000}]}]
    assert made["last-partition-id"] == 1000
    assert made["default-sort-order-id"] == made["sort-orders"][0]["order-id"] == 1
    assert made["sort-orders"][0]["fields"][0]["source-id"] == 4


def test_reserved_properties_are_not_stored_and_new_tables_share_nothing() -> None:
    one, other = table(**{"format-version": "2", "owner": "etl"}), table()
    assert one["properties"] == {"owner": "etl"}
    other["refs"]["main"] = {}
    assert table()["refs"] == {}


@pytest.mark.parametrize(("field", "arguments"), [
    ("schema.fields[0].id", {"schema": struct(column("1", "a"))}),  # type: ignore[arg-type]
    ("schema", {"schema": struct(column(1, "a"), column(1, "b"))}),
    ("schema", {"schema": struct(column(1, "a"), column(2, "a"))}),
    ("schema", {"schema": struct(column(1, "a", "timestamp_ns"))}),
    ("schema", {"schema": struct(column(1, "a", **{"initial-default": 1}))}),
    ("schema.fields[0].type", {"schema": struct(column(1, "a", "integer"))}),
    ("schema.fields[0].type", {"schema": struct(column(1, "a", "decimal(39, 2)"))}),
    ("schema.fields[0].type.type", {"schema": struct(column(1, "a", {"type": "set"}))}),
    ("schema.identifier-field-ids", {"schema": struct(column(1, "a"), **{"identifier-field-ids": [1]})}),
    ("schema.identifier-field-ids", {"schema": struct(column(1, "a"), **{"identifier-field-ids": [2]})}),
    ("schema.identifier-field-ids",
     {"schema": struct(column(1, "a", "double", True), **{"identifier-field-ids": [1]})}),
    ("partition-spec.fields[0].source-id",
     {"partition_spec": {"fields": [{"source-id": 9, "transform": "day", "name": "d"}]}}),
    ("partition-spec.fields[0].transform",
     {"partition_spec": {"fields": [{"source-id": 1, "transform": "day", "name": "d"}]}}),
    ("partition-spec.fields[0].transform",
     {"partition_spec": {"fields": [{"source-id": 1, "transform": "identty", "name": "d"}]}}),
    ("partition-spec.fields[0].name",
     {"partition_spec": {"fields": [{"source-id": 2, "transform": "day", "name": "name"}]}}),
    ("sort-order.fields[0].null-order",
     {"sort_order": {"fields": [{**sort_by(1)["fields"][0], "null-order": "first"}]}}),
    ("sort-order.order-id", {"sort_order": {"order-id": 0, **sort_by(1)}}),
    ("properties.a", {"properties": {"a": 1}}),
    ("uuid", {"uuid": "no"}),
    ("location", {"location": None}),
    ("format-version", {"format_version": 0}),
])
def test_a_malformed_new_table_is_refused_with_its_field(field: str, arguments: Json) -> None:
    usual = {"schema": SCHEMA, "location": "s3://lake/t", "partition_spec": None, "sort_order": None,
             "properties": {}, "format_version": 2, "uuid": UUID, "now": NOW}
    with pytest.raises(BadRequest) as caught:
        new_metadata(**{**usual, **arguments})
    assert caught.value.field == field
    assert caught.value.kind == "BAD_REQUEST"


# --- what all updates have in common --------------------------------------------------------------

def test_nothing_changed_is_the_same_object() -> None:
    base = with_snapshots(1)
    nothing = [{"action": "assign-uuid", "uuid": UUID},
               {"action": "upgrade-format-version", "format-version": 2},
               add_schema(SCHEMA), {"action": "set-current-schema", "schema-id": 0},
               {"action": "add-spec", "spec": {"fields": []}}, {"action": "set-default-spec", "spec-id": 0},
               {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
               {"action": "set-default-sort-order", "sort-order-id": 0}, point(1),
               {"action": "remove-snapshots", "snapshot-ids": [99]},
               {"action": "remove-snapshot-ref", "ref-name": "none"},
               {"action": "set-location", "location": "s3://lake/t"},
               {"action": "set-properties", "updates": {}},
               {"action": "remove-properties", "removals": []},
               {"action": "remove-statistics", "snapshot-id": 1},
               {"action": "remove-partition-statistics", "snapshot-id": 1},
               {"action": "remove-encryption-key", "key-id": "k"}]
    assert apply(nothing, base, NOW + 5, previous_file="0.json") is base
    assert apply([], base, NOW) is base


def test_unknown_fields_survive_and_what_did_not_change_is_shared() -> None:
    base = {**with_snapshots(2), "x-ours": {"deep": [1]}}
    before = copy.deepcopy(base)
    after = apply([add(3, 2, 3), point(3)], base, NOW + 9)
    assert base == before
    assert after["x-ours"] is base["x-ours"] and after["schemas"] is base["schemas"]
    assert after["snapshots"][0] is base["snapshots"][0]


def test_the_request_is_not_shared_with_the_metadata() -> None:
    update = add(1, None, 1)
    after = apply([update], table(), NOW)
    update["snapshot"]["summary"]["operation"] = "delete"
    assert after["snapshots"][0]["summary"] == {"operation": "append"}


@pytest.mark.parametrize(("field", "update"), [
    ("updates[1]", "set-location"),
    ("updates[1].action", {}),
    ("updates[1].action", {"action": "set-loction", "location": "s3://lake/u"}),
    ("updates[1].action", {"action": 3}),
    ("updates[1].location", {"action": "set-location"}),
    ("updates[1].location", {"action": "set-location", "location": None}),
    ("updates[1].location", {"action": "set-location", "location": "\ud800"}),
    ("updates[1].loc", {"action": "set-location", "location": "s3://lake/u", "loc": 1}),
    ("updates[1].uuid", {"action": "assign-uuid", "uuid": "no"}),
    ("updates[1].format-version", {"action": "upgrade-format-version", "format-version": True}),
    ("updates[1].format-version", {"action": "upgrade-format-version", "format-version": 4}),
    ("updates[1].format-version", {"action": "upgrade-format-version", "format-version": 1}),
    ("updates[1].schema-id", {"action": "set-current-schema", "schema-id": 1.0}),
    ("updates[1].schema-id", {"action": "set-current-schema", "schema-id": 7}),
    ("updates[1].schema-id", SET_SCHEMA),
    ("updates[1].spec-id", {"action": "set-default-spec", "spec-id": 7}),
    ("updates[1].spec-id", SET_SPEC),
    ("updates[1].spec-id", {"action": "set-default-spec", "spec-id": 2**31}),
    ("updates[1].sort-order-id", {"action": "set-default-sort-order", "sort-order-id": 7}),
    ("updates[1].sort-order-id", SET_ORDER),
    ("updates[1].schema.fields[0].kind",
     {"action": "add-schema", "schema": struct({**column(1, "a"), "kind": 1})}),
    ("updates[1].spec.fields", {"action": "add-spec", "spec": {"spec-id": 1}}),
    ("updates[1].spec", {"action": "add-spec", "spec": {"fields": [
        {**BY_DAY["fields"][0], "field-id": 1000}, {**BY_BUCKET["fields"][0], "field-id": 1000}]}}),
    ("updates[1].snapshot.snapshot-id",
     {"action": "add-snapshot", "snapshot": {**snapshot(5), "snapshot-id": "5"}}),
    ("updates[1].snapshot.snapshot-id", add(1)),
    ("updates[1].snapshot.snapshot-id", add(2**63)),
    ("updates[1].snapshot.seq", add(5, seq=1)),
    ("updates[1].snapshot.manifest-list",
     {"action": "add-snapshot", "snapshot": {"snapshot-id": 5, "timestamp-ms": 1}}),
    ("updates[1].snapshot.manifest-list", add(5, manifests=["m"])),
    ("updates[1].snapshot.manifests", {"action": "add-snapshot", "snapshot": {
        "snapshot-id": 5, "timestamp-ms": 1, "manifests": ["m"]}}),
    ("updates[1].snapshot.summary.operation", add(5, summary={"added": "1"})),
    ("updates[1].snapshot.summary.n", add(5, summary={"operation": "append", "n": 1})),
    ("updates[1].snapshot.added-rows", add(5, **{"first-row-id": 0})),
    ("updates[1].snapshot-id", point(9)),
    ("updates[1].type", point(1, kind="tag")),
    ("updates[1].type", point(1, "b", "twig")),
    ("updates[1].min-snapshots-to-keep", point(1, "b", "branch", **{"min-snapshots-to-keep": 0})),
    ("updates[1].min-snapshots-to-keep", point(1, "b", "tag", **{"min-snapshots-to-keep": 1})),
    ("updates[1].max-snapshot-age-ms", point(1, "b", "tag", **{"max-snapshot-age-ms": 1})),
    ("updates[1].snapshot-ids[1]", {"action": "remove-snapshots", "snapshot-ids": [1, "2"]}),
    ("updates[1].updates.a", {"action": "set-properties", "updates": {"a": None}}),
    ("updates[1].updates.write.metadata.previous-versions-max",
     {"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "many"}}),
    ("updates[1].removals", {"action": "remove-properties", "removals": "a"}),
    ("updates[1].spec-ids", {"action": "remove-partition-specs", "spec-ids": [0]}),
    ("updates[1].schema-ids", {"action": "remove-schemas", "schema-ids": [0]}),
    ("updates[1].encryption-key.encrypted-key-metadata",
     {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "?"}}),
    ("updates[1].statistics.blob-metadata", {"action": "set-statistics", "statistics": {
        "snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}}),
])
def test_a_malformed_update_is_refused_with_the_path_of_its_field(field: str, update: Any) -> None:
    good = {"action": "set-properties", "updates": {"a": "b"}}
    with pytest.raises(BadRequest) as caught:
        apply([good, update], with_snapshots(1), NOW)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


def test_the_path_begins_where_the_caller_says() -> None:
    with pytest.raises(BadRequest, match=r"^table-changes\[2\]\.updates\[0\]\.action is missing"):
        apply([{}], table(), NOW, where="table-changes[2].updates")


def test_a_malformed_request_is_told_before_a_stale_one() -> None:
    with pytest.raises(BadRequest):
        apply([add(9, 2, 1), {"action": "set-location"}], with_snapshots(2), NOW)


# --- identity, version, properties ----------------------------------------------------------------

def test_uuid_location_and_properties() -> None:
    after = apply([{"action": "assign-uuid", "uuid": OTHER_UUID.upper()},
                   {"action": "set-location", "location": "s3://lake/u"},
                   {"action": "set-properties", "updates": {"a": "1", "b": "2"}},
                   {"action": "remove-properties", "removals": ["a", "never there"]}], table(), NOW + 1)
    assert after["table-uuid"] == OTHER_UUID and after["location"] == "s3://lake/u"
    assert after["properties"] == {"b": "2"} and after["last-updated-ms"] == NOW + 1


def test_the_old_names_of_property_updates_are_read() -> None:
    after = apply([{"action": "set-properties", "updated": {"a": "1"}},
                   {"action": "set-properties", "updated": {"a": "no"}, "updates": {"b": "2"}},
                   {"action": "remove-properties", "removed": ["a"]}], table(), NOW)
    assert after["properties"] == {"b": "2"}


def test_upgrades_bring_the_fields_of_the_version() -> None:
    first = table(1)
    second = apply([{"action": "upgrade-format-version", "format-version": 2}], first, NOW)
    assert second["last-sequence-number"] == 0 and not {"schema", "partition-spec"} & set(second)
    third = apply([{"action": "upgrade-format-version", "format-version": 3}], second, NOW)
    assert (third["next-row-id"], third["current-snapshot-id"]) == (0, None)
    assert first == table(1)


def test_tables_of_newer_formats_and_damaged_ones_are_told_apart() -> None:
    with pytest.raises(UnsupportedProtocol, match="v4"):
        apply([add(1)], {**table(), "format-version": 4}, NOW)
    damaged = table()
    del damaged["schemas"]
    with pytest.raises(InvalidTable, match="lacks schemas"):
        apply([add(1)], damaged, NOW)


# --- schemas, specs, orders -----------------------------------------------------------------------

WIDER = struct(*SCHEMA["fields"], column(4, "amount", "decimal(9, 2)"))


def test_a_new_schema_gets_the_next_id_and_minus_one_means_it() -> None:
    after = apply([{"action": "add-schema", "schema": {**WIDER, "schema-id": 77}},
                   SET_SCHEMA], table(), NOW)
    assert [each["schema-id"] for each in after["schemas"]] == [0, 1]
    assert (after["current-schema-id"], after["last-column-id"]) == (1, 4)


def test_an_equal_schema_is_reused_and_counts_as_the_last_added() -> None:
    base = apply([add_schema(WIDER), {"action": "set-current-schema", "schema-id": 1}],
                 table(), NOW)
    same = struct(*SCHEMA["fields"], column(4, "amount", "DECIMAL(9,2)"), **{"schema-id": 5})
    same["fields"][0] = {**same["fields"][0], "doc": None}
    assert apply([add_schema(same)], base, NOW) is base
    back = apply([add_schema(SCHEMA), SET_SCHEMA],
                 base, NOW)
    assert back["current-schema-id"] == 0 and len(back["schemas"]) == 2


@pytest.mark.parametrize("other", [
    struct(*SCHEMA["fields"][:2], column(3, "name", "binary")),
    struct(*SCHEMA["fields"][:2], column(3, "name", "string", doc="who")),
    struct(*SCHEMA["fields"][:2], column(3, "name", "string", True)),
    struct(*SCHEMA["fields"][:2], column(4, "name", "string")),
    struct(*SCHEMA["fields"], **{"identifier-field-ids": [1]}),
])
def test_a_schema_that_differs_in_anything_is_another_one(other: Json) -> None:
    assert len(apply([add_schema(other)], table(), NOW)["schemas"]) == 2


def test_last_column_id_never_falls() -> None:
    narrow = struct(SCHEMA["fields"][0])
    after = apply([{"action": "add-schema", "schema": narrow, "last-column-id": 0}], table(), NOW)
    assert after["last-column-id"] == 3
    assert apply([{"action": "add-schema", "schema": narrow, "last-column-id": 9}], after, NOW)[
        "last-column-id"] == 9


@pytest.mark.parametrize("action", ["add-spec", "add-partition-spec"])
def test_a_new_spec_gets_ids(action: str) -> None:
    after = apply([{"action": action, "spec": BY_DAY}, SET_SPEC],
                  table(), NOW)
    assert after["partition-specs"][1] == {
        "spec-id": 1, "fields": [{**BY_DAY["fields"][0], "field-id": 1000}]}
    assert (after["default-spec-id"], after["last-partition-id"]) == (1, 1000)


def test_equal_partition_fields_keep_their_id_in_later_specs() -> None:
    base = apply([add_spec(BY_DAY)], table(), NOW)
    both = {"fields": [*BY_BUCKET["fields"], {**BY_DAY["fields"][0], "name": "day"}]}
    after = apply([add_spec(both)], base, NOW)
    assert [field["field-id"] for field in after["partition-specs"][2]["fields"]] == [1001, 1000]
    spec = {"fields": [{**BY_BUCKET["fields"][0], "field-id": 1007}]}
    later = apply([add_spec(spec)], after, NOW)
    assert later["last-partition-id"] == 1007
    assert apply([add_spec(BY_BUCKET)], later, NOW) is later


def test_specs_of_v1_are_numbered_from_1000_on_and_mirrored() -> None:
    after = apply([add_spec(BY_DAY), SET_SPEC,
                   add_schema(WIDER), SET_SCHEMA],
                  table(1), NOW)
    assert after["partition-spec"] == [{**BY_DAY["fields"][0], "field-id": 1000}]
    assert after["schema"] == after["schemas"][1]
    with pytest.raises(BadRequest, match="sequential IDs"):
        apply([{"action": "add-spec", "spec": {"fields": [{**BY_BUCKET["fields"][0], "field-id": 1001}]}}],
              after, NOW)


def test_sort_orders_get_ids_from_1_and_none_is_0() -> None:
    after = apply([{"action": "add-sort-order", "sort-order": {"order-id": 8, **sort_by(1)}},
                   SET_ORDER,
                   {"action": "add-sort-order", "sort-order": sort_by(1, "desc")}], table(), NOW)
    assert [each["order-id"] for each in after["sort-orders"]] == [0, 1, 2]
    assert after["default-sort-order-id"] == 1
    back = apply([{"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
                  SET_ORDER], after, NOW)
    assert back["default-sort-order-id"] == 0 and len(back["sort-orders"]) == 3


def test_a_current_schema_that_the_default_spec_does_not_fit_is_refused() -> None:
    base = apply([add_spec(BY_DAY), SET_SPEC],
                 table(), NOW)
    narrow = [{"action": "add-schema", "schema": struct(SCHEMA["fields"][0])},
              SET_SCHEMA]
    with pytest.raises(BadRequest, match="does not fit its current schema.*no such column"):
        apply(narrow, base, NOW)
    assert apply([*narrow, {"action": "set-default-spec", "spec-id": 0}], base, NOW)["current-schema-id"] == 1


def test_partition_sources_lie_in_structs_and_have_no_parts() -> None:
    tags = {"type": "list", "element-id": 5, "element": "string", "element-required": True}
    schema = struct(column(1, "tags", tags), column(2, "place", struct(column(6, "zip", "string"))))
    base = new_metadata(schema, "s3://lake/t", None, None, {}, 2, UUID, NOW)
    for source, reason in ((1, "have parts"), (3, "list or map")):
        with pytest.raises(BadRequest, match=reason):
            apply([{"action": "add-spec", "spec": {"fields": [
                {"source-id": source, "transform": "identity", "name": "p"}]}}], base, NOW)
    after = apply([add_spec({"fields": [{"source-id": 4, "transform": "identity", "name": "place.zip"}]})],
                  base, NOW)
    assert after["last-partition-id"] == 1000


def test_a_request_may_add_hundreds_and_add_them_again() -> None:
    updates = [update for serial in range(300) for update in (
        add_schema(struct(*SCHEMA["fields"], column(4 + serial, f"c{serial}"))),
        add_spec({"fields": [{"source-id": 1, "transform": f"bucket[{serial + 1}]", "name": f"p{serial}"}]}))]
    after = apply([*updates, *updates, SET_SCHEMA, SET_SPEC], table(), NOW)
    for name, id_field in (("schemas", "schema-id"), ("partition-specs", "spec-id")):
        assert [each[id_field] for each in after[name]] == list(range(301))
    assert (after["last-column-id"], after["last-partition-id"]) == (303, 1299)
    assert (after["current-schema-id"], after["default-spec-id"]) == (300, 300)


def test_schemas_and_specs_are_removed() -> None:
    base = apply([add_schema(WIDER), SET_SCHEMA,
                  add_spec(BY_DAY)], table(), NOW)
    after = apply([{"action": "remove-schemas", "schema-ids": [0, 44]},
                   {"action": "remove-partition-specs", "spec-ids": [1]}], base, NOW)
    assert [each["schema-id"] for each in after["schemas"]] == [1]
    assert [each["spec-id"] for each in after["partition-specs"]] == [0]
    with pytest.raises(BadRequest, match="no spec has been added"):
        apply([add_spec(BY_BUCKET), {"action": "remove-partition-specs", "spec-ids": [2]},
               SET_SPEC], base, NOW)


# --- snapshots and refs ---------------------------------------------------------------------------

def test_a_snapshot_without_a_sequence_number_is_given_the_next_one() -> None:
    after = apply([add(3, 2), add(4, 3)], with_snapshots(2), NOW)
    assert [each["sequence-number"] for each in after["snapshots"]] == [1, 2, 3, 4]
    assert after["last-sequence-number"] == 4
    assert "sequence-number" not in apply([add(1)], table(1), NOW)["snapshots"][0]


def test_stale_sequence_numbers_are_a_conflict() -> None:
    for parent, number in ((2, 2), (2, 1), (None, 1)):
        with pytest.raises(CommitFailed, match=f"{number} older than last sequence number 2") as caught:
            apply([add(9, parent, number)], with_snapshots(2), NOW)
        assert (caught.value.kind, caught.value.failed_requirements) == ("COMMIT_FAILED", [])


def test_a_snapshot_without_a_parent_may_have_the_last_number_again() -> None:
    assert apply([add(9, None, 2)], with_snapshots(2), NOW)["last-sequence-number"] == 2


def test_v3_counts_rows() -> None:
    rows = {"first-row-id": 0, "added-rows": 10}
    base = apply([add(1, None, 1, **rows), point(1)], table(3), NOW)
    assert base["next-row-id"] == 10
    after = apply([add(2, 1, 2, **{"first-row-id": 12, "added-rows": 5})], base, NOW)
    assert after["next-row-id"] == 15
    with pytest.raises(CommitFailed, match="first-row-id is behind table next-row-id: 9 < 10"):
        apply([add(2, 1, 2, **{"first-row-id": 9, "added-rows": 5})], base, NOW)
    with pytest.raises(BadRequest) as caught:
        apply([add(2, 1, 2)], base, NOW)
    assert caught.value.field == "updates[0].snapshot.first-row-id"


def test_main_moves_the_current_snapshot_and_the_log() -> None:
    after = apply([add(1, None, 1, time=NOW + 4), point(1)], table(), NOW + 5)
    assert after["current-snapshot-id"] == 1
    assert after["snapshot-log"] == [{"timestamp-ms": NOW + 4, "snapshot-id": 1}]
    assert after["refs"] == {"main": {"snapshot-id": 1, "type": "branch"}}
    back = apply([point(1)], with_snapshots(2), NOW + 9)
    assert (back["current-snapshot-id"], log_of(back)) == (1, [1, 2, 1])
    assert back["snapshot-log"][-1]["timestamp-ms"] == NOW + 9, "going back is dated by the catalog"


def test_other_refs_leave_the_current_snapshot_alone() -> None:
    base = with_snapshots(2)
    after = apply([point(1, "audit", "branch", **{"min-snapshots-to-keep": 2}),
                   point(1, "v1", "tag", **{"max-ref-age-ms": 5})], base, NOW)
    assert after["current-snapshot-id"] == 2 and after["snapshot-log"] == base["snapshot-log"]
    assert after["refs"]["audit"] == {"snapshot-id": 1, "type": "branch", "min-snapshots-to-keep": 2}
    assert after["refs"]["v1"] == {"snapshot-id": 1, "type": "tag", "max-ref-age-ms": 5}
    gone = apply([{"action": "remove-snapshot-ref", "ref-name": "v1"},
                  {"action": "remove-snapshot-ref", "ref-name": "main"}], after, NOW)
    assert (set(gone["refs"]), gone["current-snapshot-id"]) == ({"audit"}, -1)


def test_what_was_current_within_one_commit_alone_is_not_in_the_log() -> None:
    after = apply([add(2, 1, 2), point(2), add(3, 2, 3), point(3)], with_snapshots(1), NOW)
    assert log_of(after) == [1, 3]


def test_removed_snapshots_take_their_refs_statistics_and_history_along() -> None:
    stats = {"snapshot-id": 2, "statistics-path": "p", "file-size-in-bytes": 1,
             "file-footer-size-in-bytes": 1, "blob-metadata": []}
    parts = {"snapshot-id": 2, "statistics-path": "q", "file-size-in-bytes": 1}
    base = apply([{"action": "set-statistics", "statistics": stats}, point(2, "v2", "tag"),
                  {"action": "set-partition-statistics", "partition-statistics": parts}],
                 with_snapshots(4), NOW)
    after = apply([{"action": "remove-snapshots", "snapshot-ids": [2, 99]}], base, NOW)
    assert [each["snapshot-id"] for each in after["snapshots"]] == [1, 3, 4]
    assert log_of(after) == [3, 4], "a gap would say that 1 had been current until 3"
    assert set(after["refs"]) == {"main"}
    assert after["statistics"] == after["partition-statistics"] == []
    empty = apply([{"action": "remove-snapshots", "snapshot-ids": [1, 3, 4]}], after, NOW)
    assert (empty["refs"], empty["current-snapshot-id"], empty["snapshot-log"]) == ({}, -1, [])


def test_clocks_of_writers_do_not_put_the_log_out_of_order() -> None:
    base = with_snapshots(1)
    late = apply([add(2, 1, 2, time=NOW - 10 * MINUTE), point(2)], base, NOW + 2)
    early = apply([add(2, 1, 2, time=NOW + 10 * MINUTE), point(2)], base, NOW + 2)
    assert late["snapshot-log"][-1]["timestamp-ms"] == base["snapshot-log"][-1]["timestamp-ms"]
    assert early["snapshot-log"][-1]["timestamp-ms"] == NOW + 2
    assert apply([point(1, "b")], base, 5)["last-updated-ms"] == base["last-updated-ms"]


def test_statistics_replace_those_of_the_same_snapshot() -> None:
    blob = {"type": "ndv", "snapshot-id": 1, "sequence-number": 1, "fields": [1], "properties": {"ndv": "3"}}

    def stats(path: str, **more: Any) -> Json:
        return {"action": "set-statistics", "statistics": {
            "snapshot-id": 1, "statistics-path": path, "file-size-in-bytes": 1,
            "file-footer-size-in-bytes": 1, "blob-metadata": [blob]}, **more}

    after = apply([stats("p"), stats("q", **{"snapshot-id": 1})], with_snapshots(1), NOW)
    assert [each["statistics-path"] for each in after["statistics"]] == ["q"]
    with pytest.raises(BadRequest, match=r"updates\[0\].snapshot-id must be that of the statistics"):
        apply([stats("p", **{"snapshot-id": 2})], after, NOW)
    assert apply([{"action": "remove-statistics", "snapshot-id": 1}], after, NOW)["statistics"] == []
    parts = {"snapshot-id": 1, "statistics-path": "q", "file-size-in-bytes": 1}
    after = apply([{"action": "set-partition-statistics", "partition-statistics": parts}], after, NOW)
    assert after["partition-statistics"] == [parts]
    after = apply([{"action": "remove-partition-statistics", "snapshot-id": 1}], after, NOW)
    assert after["partition-statistics"] == []


def test_encryption_keys_come_and_go() -> None:
    key = {"key-id": "k", "encrypted-key-metadata": "aGV5", "encrypted-by-id": "m", "properties": {"a": "b"}}
    after = apply([{"action": "add-encryption-key", "encryption-key": key}], table(3), NOW)
    assert after["encryption-keys"] == [key]
    again = {"key-id": "k", "encrypted-key-metadata": ""}
    assert apply([{"action": "add-encryption-key", "encryption-key": again}], after, NOW) is after
    assert apply([{"action": "remove-encryption-key", "key-id": "k"}], after, NOW)["encryption-keys"] == []


def test_files_of_the_past_are_logged_and_bounded() -> None:
    base = table(**{"write.metadata.previous-versions-max": "2"})
    for number in range(4):
        base = apply([{"action": "set-properties", "updates": {"n": str(number)}}], base, NOW + number + 1,
                     previous_file=f"{number}.json")
    assert base["metadata-log"] == [{"timestamp-ms": NOW + 2, "metadata-file": "2.json"},
                                    {"timestamp-ms": NOW + 3, "metadata-file": "3.json"}]
    one = apply([{"action": "set-properties", "updates": {"write.metadata.previous-versions-max": "-4"}}],
                base, NOW, previous_file="4.json")
    assert [each["metadata-file"] for each in one["metadata-log"]] == ["4.json"]


# --- tables made of updates alone, and old ones ---------------------------------------------------

CREATE = [{"action": "assign-uuid", "uuid": UUID}, {"action": "upgrade-format-version", "format-version": 1},
          {"action": "add-schema", "schema": {**SCHEMA, "schema-id": 0}},
          SET_SCHEMA,
          {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
          SET_SPEC,
          {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
          SET_ORDER,
          {"action": "set-location", "location": "s3://lake/t"}]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_updates_alone_make_the_same_table(version: int) -> None:
    updates = [{**each, "format-version": version} if "format-version" in each else each for each in CREATE]
    assert apply(updates, None, NOW) == table(version)


def test_a_new_table_that_lacks_parts_is_refused() -> None:
    for action in ("assign-uuid", "set-location", "add-schema"):
        updates = [each for each in CREATE if each["action"] != action]
        with pytest.raises(BadRequest, match=action.replace("add-schema", "no schema has been added")):
            apply(updates, None, NOW)
    few = [each for each in CREATE if "spec" not in each["action"] and "order" not in each["action"]]
    assert apply(few, None, NOW)["default-spec-id"] == 0


def test_metadata_of_old_writers_is_completed() -> None:
    spec = {"source-id": 2, "transform": "identity", "name": "day"}
    old = {"format-version": 1, "table-uuid": UUID, "location": "s3://lake/t", "last-updated-ms": NOW,
           "last-column-id": 3, "schema": SCHEMA, "partition-spec": [spec], "properties": {},
           "current-snapshot-id": 7, "snapshots": [snapshot(7)]}
    upgrade = {"action": "upgrade-format-version", "format-version": 2}
    after = apply([upgrade, add(8, 7, 1), point(8)], old, NOW)
    assert after["schemas"] == [{**SCHEMA, "schema-id": 0}] and after["current-schema-id"] == 0
    assert after["partition-specs"] == [{"spec-id": 0, "fields": [{**spec, "field-id": 1000}]}]
    assert after["last-partition-id"] == 1000 and after["refs"]["main"]["snapshot-id"] == 8
    assert after["sort-orders"] == [{"order-id": 0, "fields": []}]
    assert "schemas" not in old
