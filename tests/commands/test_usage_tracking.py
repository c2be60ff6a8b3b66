"""columnMappingUsageTracking: whether a column ever lost its name, and which names files get by that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument
from deltanb.schema.column_mapping import NAME_KEY, USAGE_TRACKING, USED_KEY
from deltanb.testing import MemoryStore

FEATURE = f"delta.feature.{USAGE_TRACKING}"
MODE = "delta.columnMapping.mode"
ROWS = {"id": [1], "s": [{"a": 1, "b": 2}]}


def made(properties: dict[str, Any]) -> dn.DeltaTable:
    return dn.create(MemoryStore(), ROWS, properties=properties)


def used(table: dn.DeltaTable) -> str | None:
    return table.snapshot.metadata.configuration.get(USED_KEY)


def name_in_files(table: dn.DeltaTable, column: str) -> str:
    return str(table.schema.field(column).metadata[NAME_KEY])


def tracked() -> dn.DeltaTable:
    return made({FEATURE: "supported", MODE: "name"})


def test_a_new_table_begins_with_false_and_names_of_its_own() -> None:
    table = tracked()
    assert {USAGE_TRACKING, "columnMapping"} <= set(table.protocol.writer_features or ())
    assert used(table) == "false" and name_in_files(table, "id") == "id"
    table.add_columns("n long")
    assert used(table) == "false" and name_in_files(table, "n") == "n"
    table.append({"id": [2], "s": [{"a": 3, "b": 4}], "n": [5]})
    assert table.to_arrow().num_rows == 2


@pytest.mark.parametrize(("mode", "expected"), [(None, "false"), ("name", "true"), ("id", "true")])
@pytest.mark.parametrize("add", [
    lambda table: table.add_feature(USAGE_TRACKING),
    lambda table: table.set_properties({FEATURE: "supported"}),
])
def test_a_table_there_begins_by_whether_its_columns_are_mapped(
    mode: str | None, expected: str, add: Callable[[dn.DeltaTable], Any]
) -> None:
    table = made({} if mode is None else {MODE: mode})
    add(table)
    assert used(table) == expected and table.protocol.supports(USAGE_TRACKING)
    if mode is None:
        table.set_properties({MODE: "name"})
        assert used(table) == "false"
        table.add_columns("n long")
        assert name_in_files(table, "n") == "n"


LOSSES: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "rename": lambda table: table.rename_column("id", "number"),
    "rename a field": lambda table: table.rename_column("s.a", "c"),
    "drop": lambda table: table.drop_columns("s"),
    "drop a field": lambda table: table.drop_columns("s.b"),
    "overwrite the schema": lambda table: table.overwrite({"id": [1]}, overwrite_schema=True),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_it_turns_true_once_and_stays(loss: str) -> None:
    table = tracked()
    LOSSES[loss](table)
    assert used(table) == "true"
    table.add_columns("s2 long")
    assert used(table) == "true" and name_in_files(table, "s2").startswith("col-")
    table.restore(0)
    assert used(table) == "true"
    table.add_columns("n long")
    assert name_in_files(table, "n").startswith("col-")


@pytest.mark.parametrize("other", [
    lambda table: table.append(ROWS), lambda table: table.set_properties({"delta.appendOnly": True}),
    lambda table: table.delete("id = 1"), lambda table: table.add_columns("x long"),
    lambda table: table.set_properties({"delta.enableDeletionVectors": True}),
])
def test_other_commits_leave_it(other: Callable[[dn.DeltaTable], Any]) -> None:
    table = tracked()
    other(table)
    assert used(table) == "false"


def test_nobody_sets_it_by_hand_and_it_goes_with_the_feature() -> None:
    table = tracked()
    table.rename_column("id", "n")
    with pytest.raises(InvalidArgument, match=USED_KEY):
        table.set_properties({USED_KEY: "false"})
    with pytest.raises(InvalidArgument, match="required by columnMappingUsageTracking"):
        table.drop_feature("columnMapping")
    table.drop_feature(USAGE_TRACKING)
    assert used(table) is None and not table.protocol.supports(USAGE_TRACKING)


def test_other_tables_have_nothing_of_it() -> None:
    table = made({MODE: "name"})
    table.rename_column("id", "n")
    assert used(table) is None and name_in_files(table, "n").startswith("col-")
