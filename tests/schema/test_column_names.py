"""Names of columns are read in one way by all that finds, compares or shows rows by them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

from deltanb.errors import InvalidArgument
from deltanb.table.table import DeltaTable
from tests.helpers import table_of

ODD = ("the day", "a.b", "a`b", "ö", "desc", "`quoted`")
DATA = {**{name: [1, 2] for name in ODD}, "v": [1, 2]}
NEW = {**DATA, "v": [1, 7]}


def diffed(table: DeltaTable, key: Any) -> None:
    table.overwrite(NEW)
    rows = table.diff(0, 1, keys=key).rows
    assert rows is not None and rows.num_changed == 1


WAYS: dict[str, Callable[[DeltaTable, Any], Any]] = {
    "merge": lambda t, key: t.merge(NEW, on=key).when_matched_update_all().execute(),
    "upsert": lambda t, key: t.upsert(NEW, on=key),
    "overwrite": lambda t, key: t.overwrite(NEW, replace_using=key),
    "diff": diffed,
    "time travel": lambda t, key: t.time_travel(keys=key, columns=key),
    "blame": lambda t, key: t.blame(columns=key, keys=key),
}
CHANGES = ("merge", "upsert", "overwrite", "diff")


def odd_table() -> DeltaTable:
    return table_of(DATA, properties={"delta.columnMapping.mode": "name"})


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("way", WAYS)
def test_a_name_may_be_in_a_list_or_in_backquotes(way: str, name: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    for key in ([name], (name,), pd.Index([name]), quoted, f" {quoted} "):
        table = odd_table()
        WAYS[way](table, key)
        if way in CHANGES:
            assert sorted(table.to_arrow()["v"].to_pylist()) == [1, 7]


@pytest.mark.parametrize("key", [5, [], ["v", 5], "", [""], None])
@pytest.mark.parametrize("way", ["merge", "upsert", "overwrite"])
def test_what_is_no_name_is_refused(way: str, key: Any) -> None:
    if way == "overwrite" and key is None:
        return  # all rows
    with pytest.raises(InvalidArgument):
        WAYS[way](odd_table(), key)


@pytest.mark.parametrize("way", WAYS)
def test_a_missing_column_is_named_with_those_that_are_like_it(way: str) -> None:
    with pytest.raises(InvalidArgument, match="has no column 'w'; the columns are .*the day|did you mean"):
        WAYS[way](odd_table(), ["w"])


@pytest.mark.parametrize("way", CHANGES)
def test_a_field_of_a_struct_is_no_key(way: str) -> None:
    with pytest.raises(InvalidArgument, match=r"no column 'v\.x'.*Whole columns .* not a field of 'v'"):
        WAYS[way](odd_table(), ["v.x"])
