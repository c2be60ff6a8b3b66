"""A table is defined anew between statements of a transaction; its rows and the feed of them follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deltanb.errors import DeltaError, IncompatibleSchemaChange, InvalidTransaction
from deltanb.table.contract import Does, declared
from deltanb.table.staged import StagedTable
from deltanb.table.table import DeltaTable
from tests.commands.test_row_ids import FEED, VECTORS
from tests.commands.transactions import KINDS, check_feed

MAPPED = {"delta.columnMapping.mode": "name"}
UNTRACKED = {"delta.enableRowTracking": "false"}
LAYOUTS = [FEED, {**FEED, **VECTORS}, {**FEED, **MAPPED}, {**FEED, **VECTORS, **UNTRACKED},
           {**VECTORS, **MAPPED}]

Work = Callable[[DeltaTable], Any]


def evolve(table: DeltaTable) -> None:
    (table.merge({"id": [0, 40], "p": ["a", "a"], "v": [3, 4], "w": [5, 6]}, "t.id = s.id",
                 target_alias="t", source_alias="s").with_schema_evolution()
     .when_matched_update_all().when_not_matched_insert_all().execute())


DEFINITIONS: dict[str, list[Work]] = {
    "add_columns": [lambda t: t.add_columns("w long")],
    "rename_column": [lambda t: t.rename_column("v", "u")],
    "drop_columns": [lambda t: t.drop_columns("v")],
    "replace_columns": [lambda t: t.replace_columns("id bigint, p string, v bigint, n int, w long"),
                        lambda t: t.replace_columns("id bigint, p string, n int")],
    "change_column": [lambda t: t.change_column("v", comment="changed"),
                      lambda t: t.change_column("n", type="long")],
    "change_columns": [lambda t: t.change_columns({"v": {"position": "first"}, "n": {"type": "long"}})],
    "set_properties": [lambda t: t.set_properties({"delta.columnMapping.mode": "name"}),
                       lambda t: t.set_properties({"delta.enableDeletionVectors": True}),
                       lambda t: t.set_properties({"delta.enableDeletionVectors": False}),
                       lambda t: t.set_properties({"delta.enableRowTracking": True}),
                       lambda t: t.set_properties({"delta.enableChangeDataFeed": True}),
                       lambda t: t.set_properties({"delta.enableChangeDataFeed": False})],
    "unset_properties": [lambda t: t.unset_properties("delta.enableChangeDataFeed")],
    "set_description": [lambda t: t.set_description("ducks")],
    "set_name": [lambda t: t.set_name("ducks")],
    "add_constraint": [lambda t: t.add_constraint("small", "id < 1000")],
    "drop_constraint": [lambda t: t.drop_constraint("positive")],
    "cluster_by": [lambda t: t.cluster_by(None)],
    "append": [lambda t: t.append({"id": [50], "p": ["a"], "v": [1], "w": [2]}, merge_schema=True)],
    "merge": [evolve],
    "overwrite": [lambda t: t.overwrite({"id": ["x", "y"], "p": ["a", "b"]}, overwrite_schema=True),
                  lambda t: t.overwrite({"id": [7, 8], "p": ["a", "b"]}, overwrite_schema=True,
                                        partition_by=[])],
}
"""By the method: statements that change what the table is."""
EACH = [(name, number) for name, works in DEFINITIONS.items() for number in range(len(works))]


def test_every_definition_is_tried() -> None:
    defining = {name for name, asked in declared(DeltaTable).items() if asked.does is Does.DEFINES}
    assert len(defining) > 5 and defining <= DEFINITIONS.keys()


def before(table: DeltaTable) -> None:
    table.append({"id": [20, 21], "p": ["a", "b"], "v": [0, 0]})
    table.update({"v": "v + 1"}, "id IN (1, 20)")


def after(table: DeltaTable) -> None:
    ids = table.to_arrow(columns=["id"])["id"].to_pylist()
    last = table.schema.names[-1]
    if last not in ("id", "p"):
        table.update({last: "7"}, f"id = {min(ids)!r}")
    table.delete(f"id = {max(ids)!r}")
    (table.merge({"id": [min(ids)], "p": ["a"]}, "t.id = s.id", target_alias="t", source_alias="s")
     .when_matched_update(set={"p": "'moved'"}).execute())


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_statements_around_a_definition(
    tmp_path: Path, kind: type[StagedTable], layout: dict[str, str]
) -> None:
    """Each definition between statements; a kind of transaction meets each of them on some of the layouts."""
    turn = LAYOUTS.index(layout) + list(KINDS).index(kind)
    for place, (name, number) in enumerate(EACH):
        if (place + turn) % 3 == 0:
            (folder := tmp_path / f"{name}-{number}").mkdir()
            with KINDS[kind](folder, layout) as home:
                around(home.table, home.begin, DEFINITIONS[name][number])


def around(table: DeltaTable, begin: Callable[[], Any], define: Work) -> None:
    table.set_properties({"delta.enableTypeWidening": True})
    table.add_constraint("positive", "id IS NOT NULL")
    table.add_columns("n int")
    base, names = table.version, table.schema.names
    refusal: DeltaError | None = None
    with begin() as txn:
        before(txn)
        try:
            define(txn)
        except DeltaError as error:
            refusal = error
        after(txn)
        expected = sorted(txn.to_arrow().to_pylist(), key=str)
    assert table.version == base + 1
    assert sorted(table.to_arrow().to_pylist(), key=str) == expected
    is_fed = FEED.items() <= table.properties.items()
    if refusal is not None:  # columns of a feed are renamed apart from rows, unmapped ones are not at all
        assert table.schema.names == names
        assert isinstance(refusal, InvalidTransaction) == is_fed or "columnMapping" in str(refusal)
    if is_fed and set(names) <= set(table.schema.names):
        check_feed(table, base + 1)
    elif is_fed:  # as after an overwrite alone: the rows that it removed had other columns
        with pytest.raises(IncompatibleSchemaChange):
            table.changes(base + 1)
