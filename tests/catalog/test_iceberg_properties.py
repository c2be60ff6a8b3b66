"""Iceberg tables under random updates: what always holds, and what PyIceberg makes of the same.

Left out of the comparison with PyIceberg, as faults of its 0.12 or as habits that Java does not share:

* v3 tables, encryption keys, and fields it does not know, which it loses;
* a schema, spec or order that is there already, which it stores twice, and ids that are taken;
* removing properties, statistics or snapshots that are not there, which it refuses;
* ``assert-ref-snapshot-id`` null for a new branch of a table without snapshots, which it says has failed;
* removed snapshots that others or the log name: it rewrites parents, and leaves gaps in the log;
* partition statistics of removed snapshots, which it keeps;
* commits that change nothing, some of which are changes to it;
* two moves of main in one commit, or a move and its removal: all stay in its log;
* ``last-updated-ms`` (in the log of files, too) and the time of a move back: its clock's or the snapshot's;
* the ``schema`` and ``partition-spec`` of v1, which stay those of the table's first day.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.catalog.iceberg.metadata.document import apply
from deltanb.catalog.iceberg.metadata.requirements import check
from deltanb.errors import BadRequest, CommitFailed
from tests.catalog.iceberg_tables import (
    BY_BUCKET,
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
    snapshot,
    sort_by,
    struct,
    table,
    with_snapshots,
)
from tests.examples import many

PLACE = struct(column(10, "zip", "string", True), column(11, "tags", {
    "type": "list", "element-id": 12, "element": "string", "element-required": True}))
TYPES = ["int", "decimal(9, 2)", "timestamptz", "fixed[4]", "uuid", PLACE]
STATISTICS = {"statistics-path": "s3://lake/t/stats", "file-size-in-bytes": 9, "file-footer-size-in-bytes": 3,
              "blob-metadata": []}


# --- one random commit of what both engines mean alike --------------------------------------------

@st.composite
def commits(draw: st.DrawFn, base: Json, step: int) -> list[Json]:
    """Updates for a table, each valid after those before."""
    state, updates = base, []
    has_moved_main = False
    for at in range(draw(st.integers(1, 4))):
        kinds = ["properties", "location", "uuid", "schema", "spec", "order", "snapshot", "tag", "statistics"]
        kind = draw(st.sampled_from([*kinds, "main", "unref", "unproperty", "unstatistics", "unsnapshot",
                                     "unschema", "unspec", "upgrade"]))
        if kind in ("snapshot", "main", "unref") and has_moved_main:
            continue
        more = draw(_of_kind(kind, state, 10 * step + at))
        has_moved_main |= any(each.get("ref-name") == "main" for each in more)
        updates += more
        state = apply(updates, base, NOW + step)
    return updates


@st.composite
def _of_kind(draw: st.DrawFn, kind: str, state: Json, serial: int) -> list[Json]:
    ids = [each["snapshot-id"] for each in state["snapshots"]]
    words = st.sampled_from(["a", "b", "ü"])
    if kind == "properties":
        return [{"action": "set-properties", "updates": draw(st.dictionaries(words, words))}]
    if kind == "unproperty":
        held = sorted(state["properties"])
        removals = draw(st.lists(st.sampled_from(held), unique=True)) if held else []
        return [{"action": "remove-properties", "removals": removals}]
    if kind == "location":
        return [{"action": "set-location", "location": f"s3://lake/{draw(words)}"}]
    if kind == "uuid":
        return [{"action": "assign-uuid", "uuid": draw(st.sampled_from([UUID, OTHER_UUID]))}]
    if kind == "upgrade":
        return [{"action": "upgrade-format-version", "format-version": 2}]
    if kind == "schema":
        its_id = max(each["schema-id"] for each in state["schemas"]) + 1
        extra = column(20 + serial, f"c{serial}", draw(st.sampled_from(TYPES)), doc=draw(words))
        schema = struct(*SCHEMA["fields"], extra, **{"schema-id": its_id, "identifier-field-ids": [1]})
        return [add_schema(schema), *([SET_SCHEMA] if draw(st.booleans()) else [])]
    if kind == "spec":
        last = state["last-partition-id"]
        fields = [{"source-id": 1, "transform": f"bucket[{serial + 2}]", "name": f"p{serial}",
                   "field-id": last + 1}]
        if state["format-version"] == 1:
            fields[0]["field-id"] = 1000
        its_id = max(each["spec-id"] for each in state["partition-specs"]) + 1
        new = add_spec({"spec-id": its_id, "fields": fields})
        return [new, *([SET_SPEC] if draw(st.booleans()) else [])]
    if kind == "order":
        order_id = max(each["order-id"] for each in state["sort-orders"]) + 1
        field = {**sort_by(1)["fields"][0], "transform": f"bucket[{serial + 2}]"}
        new = {"action": "add-sort-order", "sort-order": {"order-id": order_id, "fields": [field]}}
        return [new, *([SET_ORDER] if draw(st.booleans()) else [])]
    if kind == "snapshot":
        current = state["current-snapshot-id"]
        number = state.get("last-sequence-number", 0) + draw(st.integers(1, 3))
        parent = None if current == -1 else current
        new = add(100 + serial, parent, number if state["format-version"] > 1 else None, time=NOW + serial)
        name = draw(st.sampled_from(["main", "audit", None]))
        return [new, *([point(100 + serial, name)] if name else [])]
    if kind == "unref":
        name = draw(st.sampled_from(["main", "audit", "v1", "no"]))
        return [{"action": "remove-snapshot-ref", "ref-name": name}]
    if kind == "unschema":
        gone = {each["schema-id"] for each in state["schemas"]} - {state["current-schema-id"]}
        return [{"action": "remove-schemas", "schema-ids": sorted(gone)[:1]}] if gone else []
    if kind == "unspec":
        gone = {each["spec-id"] for each in state["partition-specs"]} - {state["default-spec-id"]}
        return [{"action": "remove-partition-specs", "spec-ids": sorted(gone)[:1]}] if gone else []
    if not ids:
        return []
    its_id = draw(st.sampled_from(ids))
    if kind == "main":
        return [point(its_id, **{"max-ref-age-ms": draw(st.integers(1, 9))})]
    if kind == "tag":
        return [point(its_id, "v1", "tag"), point(its_id, "audit", **{"min-snapshots-to-keep": 1})]
    if kind == "statistics":
        partition = {name: STATISTICS[name] for name in ("statistics-path", "file-size-in-bytes")}
        return [{"action": "set-statistics", "statistics": {"snapshot-id": its_id, **STATISTICS}},
                {"action": "set-partition-statistics",
                 "partition-statistics": {"snapshot-id": its_id, **partition}}]
    if kind == "unstatistics":
        return [{"action": f"remove-{name}", "snapshot-id": each["snapshot-id"]}
                for name in ("statistics", "partition-statistics") for each in state[name][:1]]
    named = {each.get("parent-snapshot-id") for each in state["snapshots"]}
    named |= {each["snapshot-id"] for each in [*state["snapshot-log"], *state["partition-statistics"]]}
    return [] if its_id in named else [{"action": "remove-snapshots", "snapshot-ids": [its_id]}]


def comparable(metadata: Any) -> Json:
    """What PyIceberg holds of a table, without what is left out above."""
    out: Json = json.loads(metadata.model_dump_json())
    for name in ("last-updated-ms", "last-partition-id", "schema", "partition-spec"):
        out.pop(name, None)
    times = {each["snapshot-id"]: each["timestamp-ms"] for each in out["snapshots"]}
    out["metadata-log"] = [entry["metadata-file"] for entry in out["metadata-log"]]
    out["snapshot-log"] = [(entry["snapshot-id"], entry["timestamp-ms"] == times.get(entry["snapshot-id"]))
                           for entry in out["snapshot-log"]]
    return out


@pytest.mark.slow
@given(st.data())
def test_random_updates_give_what_pyiceberg_gives(data: st.DataObject) -> None:
    update_module = pytest.importorskip("pyiceberg.table.update")
    from pydantic import TypeAdapter
    from pyiceberg.table.metadata import TableMetadataUtil

    updates_of = TypeAdapter(list[update_module.TableUpdate])  # type: ignore[name-defined]
    ours = table(data.draw(st.sampled_from([1, 2])))
    theirs = TableMetadataUtil.parse_obj(ours)
    for step in range(data.draw(st.integers(1, 3))):
        updates = data.draw(commits(ours, step))
        before, ours = ours, apply(updates, ours, NOW + 500 + step, previous_file=f"{step}.json")
        if ours is before:
            continue
        theirs = update_module.update_table_metadata(
            theirs, tuple(updates_of.validate_python(copy.deepcopy(updates))),
            metadata_location=f"{step}.json")
        assert comparable(TableMetadataUtil.parse_obj(ours)) == comparable(theirs)
        assert ours["last-partition-id"] == theirs.last_partition_id  # parsing v1 computes it anew


@pytest.mark.slow
@given(st.data())
def test_requirements_hold_where_they_do_for_pyiceberg(data: st.DataObject) -> None:
    update_module = pytest.importorskip("pyiceberg.table.update")
    from pydantic import TypeAdapter
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table.metadata import TableMetadataUtil

    base = data.draw(st.sampled_from([table(), with_snapshots(2)]))
    base = apply(data.draw(commits(base, 7)), base, NOW)
    kind, field = data.draw(st.sampled_from([
        ("assert-create", None), ("assert-table-uuid", "uuid"), ("assert-ref-snapshot-id", "snapshot-id"),
        ("assert-last-assigned-field-id", "last-assigned-field-id"),
        ("assert-current-schema-id", "current-schema-id"),
        ("assert-last-assigned-partition-id", "last-assigned-partition-id"),
        ("assert-default-spec-id", "default-spec-id"),
        ("assert-default-sort-order-id", "default-sort-order-id")]))
    requirement: Json = {"type": kind}
    if field == "uuid":
        requirement["uuid"] = data.draw(st.sampled_from([UUID, OTHER_UUID]))
    elif field is not None:
        requirement[field] = data.draw(st.sampled_from([0, 1, 2, 3, 70, 90, 999, 1000, 1001, 170]))
    if field == "snapshot-id":
        requirement["ref"] = data.draw(st.sampled_from(["main", "audit", "v1"]))
        if base["snapshots"] and data.draw(st.booleans()):
            requirement["snapshot-id"] = None
    exists = data.draw(st.booleans()) or field is not None
    theirs = TypeAdapter(update_module.TableRequirement).validate_python(requirement)
    try:
        theirs.validate(TableMetadataUtil.parse_obj(base) if exists else None)
        holds = True
    except CommitFailedException:
        holds = False
    assert (check([requirement], base if exists else None) == []) == holds


# --- what always holds ----------------------------------------------------------------------------

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from([2**31, 2**63, -1, 1e300, "main", "identity", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.text(max_size=5) | st.sampled_from(["action", "type", "schema", "fields", "snapshot"]), inner,
        max_size=3),
    max_leaves=8)
ONE_OF_EACH: list[Json] = [
    {"action": "assign-uuid", "uuid": OTHER_UUID}, {"action": "upgrade-format-version", "format-version": 3},
    add_schema(struct(*SCHEMA["fields"], column(9, "place", PLACE))), SET_SCHEMA,
    add_spec(BY_DAY), {"action": "add-partition-spec", "spec": BY_BUCKET}, SET_SPEC,
    {"action": "add-sort-order", "sort-order": sort_by(1)}, SET_ORDER,
    {"action": "add-snapshot", "snapshot": snapshot(9, 2, 3, **{"first-row-id": 0, "added-rows": 1})},
    point(1, "b", **{"min-snapshots-to-keep": 1, "max-snapshot-age-ms": 1, "max-ref-age-ms": 1}),
    {"action": "remove-snapshots", "snapshot-ids": [1]},
    {"action": "remove-snapshot-ref", "ref-name": "main"},
    {"action": "set-location", "location": "s3://lake/u"},
    {"action": "set-properties", "updates": {"a": "b"}}, {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-statistics", "statistics": {"snapshot-id": 1, **STATISTICS}},
    {"action": "remove-statistics", "snapshot-id": 1},
    {"action": "set-partition-statistics", "partition-statistics": {
        "snapshot-id": 1, "statistics-path": "p", "file-size-in-bytes": 1}},
    {"action": "remove-partition-statistics", "snapshot-id": 1},
    {"action": "remove-partition-specs", "spec-ids": [5]}, {"action": "remove-schemas", "schema-ids": [5]},
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "aGV5"}},
    {"action": "remove-encryption-key", "key-id": "k"},
]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every container and key inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    pairs = []
    for key, item in items:
        pairs += [(value, key), *places(item)]
    return pairs


@st.composite
def damaged(draw: st.DrawFn, originals: list[Json]) -> list[Any]:
    """A few good bodies, one of them with one value replaced, taken away or added."""
    bodies = copy.deepcopy(draw(st.lists(st.sampled_from(originals), min_size=1, max_size=3)))
    holder, key = draw(st.sampled_from(places(bodies)))
    change = draw(st.sampled_from(["replace", "remove", "add"]))
    if change == "replace":
        holder[key] = draw(VALUES)
    elif change == "remove":
        del holder[key]
    elif isinstance(holder, dict):
        holder[draw(st.text(min_size=1, max_size=9))] = draw(VALUES)
    else:
        holder.append(draw(VALUES))
    return bodies


def base_of_all() -> Json:
    return {**with_snapshots(2), "x-ours": {"deep": [1]}}


def test_one_of_each_is_good() -> None:
    good = [each for each in ONE_OF_EACH if each["action"] != "upgrade-format-version"]
    for update in good:
        apply([add_schema(SCHEMA), add_spec(BY_DAY), {"action": "add-sort-order", "sort-order": sort_by(1)},
               update], base_of_all(), NOW)
    after = apply(ONE_OF_EACH, base_of_all(), NOW)
    assert after["format-version"] == 3 and after["x-ours"] == {"deep": [1]}


@pytest.mark.slow
@many
@given(damaged(ONE_OF_EACH))
def test_damaged_updates_are_refused_or_understood_and_the_base_stays(updates: list[Any]) -> None:
    base = base_of_all()
    before = copy.deepcopy(base)
    try:
        after = apply(updates, base, NOW)
    except BadRequest as error:
        assert error.kind == "BAD_REQUEST" and error.field.startswith("updates")
    except CommitFailed as error:
        assert "older than last sequence number" in str(error)
    else:
        json.dumps(after, allow_nan=False).encode()
        assert after["x-ours"] is base["x-ours"]
    assert base == before


@pytest.mark.slow
@given(VALUES)
def test_random_values_are_no_updates_and_no_requirements(value: Any) -> None:
    if value == []:
        return
    for call in (lambda: apply(value, table(), NOW), lambda: check(value, table()),
                 lambda: check(value, None)):
        with pytest.raises(BadRequest):
            call()


REQUIREMENTS: list[Json] = [
    {"type": "assert-create"}, {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 1},
    *({"type": f"assert-{name}", name: 1} for name in (
        "last-assigned-field-id", "current-schema-id", "last-assigned-partition-id", "default-spec-id",
        "default-sort-order-id"))]


@pytest.mark.slow
@given(damaged(REQUIREMENTS), st.booleans())
def test_damaged_requirements_are_refused_or_understood(requirements: list[Any], exists: bool) -> None:
    try:
        failed = check(requirements, table() if exists else None)
    except BadRequest as error:
        assert error.field.startswith("requirements")
    else:
        assert all(each.requirement in requirements for each in failed)


def test_deep_nesting_is_refused_and_does_not_end_the_stack() -> None:
    deep: Any = "string"
    for its_id in range(2, 900):
        deep = {"type": "list", "element-id": its_id, "element": deep, "element-required": True}
    default: Any = 1
    for _ in range(900):
        default = [default]
    for schema in (struct(column(1, "a", deep)), struct(column(1, "a", **{"initial-default": default}))):
        with pytest.raises(BadRequest, match="nested deeper than 100 levels"):
            apply([add_schema(schema)], table(3), NOW)
