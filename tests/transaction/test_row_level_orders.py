"""Row-level concurrency against serial execution: every order of statements of every kind on the same rows.

The oracle knows rows and nothing of files: at Serializable a table has the rows that its commits give one
after the other in the order of the log, at WriteSerializable in some order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations
from typing import Any

import pytest

import deltanb as dn
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.examples import every

Rows = list[tuple[int, int]]
BEFORE: Rows = [(1, 10), (2, 20), (3, 30), (4, 40)]
LAYOUTS: dict[str, Callable[[DeltaTable], object]] = {
    "one file": lambda table: table.append(_columns(BEFORE)),
    "two files": lambda table: (table.append(_columns(BEFORE[:2])), table.append(_columns(BEFORE[2:]))),
    "a vector": lambda table: (table.append(_columns([(0, 0), *BEFORE])), table.delete("id = 0")),
}


@dataclass(frozen=True)
class Kind:
    """A statement, and what it does to rows where it is alone."""

    run: Callable[[Any], object]
    rows: Callable[[Rows], Rows]


def _merged(table: Any) -> object:
    return table.merge({"id": [1, 5], "v": [100, 500]}, "target.id = source.id").when_matched_update_all() \
        .when_not_matched_insert_all().execute()


def _merged_rows(rows: Rows) -> Rows:
    new = [(i, {1: 100, 5: 500}.get(i, v)) for i, v in rows]
    return new + [(i, v) for i, v in ((1, 100), (5, 500)) if i not in dict(rows)]


def _skew(table: DeltaTable) -> None:
    with table.transaction() as txn:
        if txn.to_arrow(where="id = 2").num_rows:
            txn.delete("id = 1")


KINDS = {
    "delete 1": Kind(lambda t: t.delete("id = 1"), lambda rows: [r for r in rows if r[0] != 1]),
    "delete 2": Kind(lambda t: t.delete("id = 2"), lambda rows: [r for r in rows if r[0] != 2]),
    "delete large": Kind(lambda t: t.delete("v > 35"), lambda rows: [r for r in rows if r[1] <= 35]),
    "delete all": Kind(lambda t: t.delete(), lambda rows: []),
    "update 1": Kind(lambda t: t.update({"v": "v + 1"}, "id = 1"),
                     lambda rows: [(i, v + (i == 1)) for i, v in rows]),
    "update 2": Kind(lambda t: t.update({"v": "v + 1"}, "id = 2"),
                     lambda rows: [(i, v + (i == 2)) for i, v in rows]),
    "rename 2 to 1": Kind(lambda t: t.update({"id": "1"}, "id = 2"),
                          lambda rows: [(1 if i == 2 else i, v) for i, v in rows]),
    "upsert 1 and 5": Kind(_merged, _merged_rows),
    "merge away 2": Kind(
        lambda t: t.merge({"id": [2]}, "target.id = source.id").when_matched_delete().execute(),
        lambda rows: [r for r in rows if r[0] != 2]),
    "merge away others": Kind(
        lambda t: t.merge({"id": [1, 2, 3]}, "target.id = source.id")
        .when_not_matched_by_source_delete().execute(),
        lambda rows: [r for r in rows if r[0] in (1, 2, 3)]),
    "append 1": Kind(lambda t: t.append({"id": [1], "v": [0]}), lambda rows: [*rows, (1, 0)]),
    "append 7": Kind(lambda t: t.append({"id": [7], "v": [70]}), lambda rows: [*rows, (7, 70)]),
    "copy 1": Kind(lambda t: dn.sql("INSERT INTO t SELECT id + 10, v FROM t WHERE id = 1", t=t),
                   lambda rows: [*rows, *((i + 10, v) for i, v in rows if i == 1)]),
    "replace 1": Kind(lambda t: t.overwrite({"id": [1], "v": [9]}, where="id = 1"),
                      lambda rows: [*(r for r in rows if r[0] != 1), (1, 9)]),
    "delete 1 if there is 2": Kind(_skew, lambda rows: [r for r in rows if r[0] != 1 or 2 not in dict(rows)]),
    "optimize": Kind(lambda t: t.optimize(), lambda rows: rows),
    "restore": Kind(lambda t: t.restore(_root(t)), lambda rows: BEFORE),
}
CASES = [(*kinds, layout, isolation) for kinds in combinations_with_replacement(KINDS, 2)
         for layout in LAYOUTS for isolation in ("Serializable", "WriteSerializable")]


def table_of(layout: str, **properties: Any) -> DeltaTable:
    table = dn.create(MemoryStore(), "id long, v long", properties={
        "delta.enableDeletionVectors": True, "delta.isolationLevel": "Serializable", **properties})
    LAYOUTS[layout](table)
    return table


def _root(table: DeltaTable) -> int:
    """The version with which an exploration begins."""
    return max(entry.version for entry in table.history() if entry.user_metadata is None)


def _columns(rows: Rows) -> dict[str, list[int]]:
    return {"id": [i for i, _ in rows], "v": [v for _, v in rows]}


def _named(kind: str) -> Callable[[Any], None]:
    def work(table: Any) -> None:
        with dn.set_options(user_metadata=kind):
            KINDS[kind].run(table)

    return work


def is_serial(table: DeltaTable, root: int) -> bool:
    """Whether the rows are those that the commits give one after the other."""
    history = sorted(table.history(), key=lambda entry: entry.version)[root + 1:]
    committed = [KINDS[entry.user_metadata].rows for entry in history]
    in_any = table.properties.get("delta.isolationLevel") == "WriteSerializable"
    present = sorted((row["id"], row["v"]) for row in table.to_arrow().to_pylist())
    orders = permutations(committed) if in_any else [committed]
    return any(present == sorted(_applied(order)) for order in orders)


def _applied(order: Sequence[Callable[[Rows], Rows]]) -> Rows:
    rows = list(BEFORE)
    for does in order:
        rows = does(rows)
    return rows


@pytest.mark.parametrize(("first", "second", "layout", "isolation"), every(185, CASES))
def test_every_order_of_three_statements_is_a_serial_one(
    first: str, second: str, layout: str, isolation: str
) -> None:
    """With each third one that comes after both in the table of kinds, or is the second."""
    table = table_of(layout, **{"delta.isolationLevel": isolation, "deltanb.rowLevelConcurrency": "all"})
    names = list(KINDS)
    for third in names[names.index(second):]:
        writers = {f"{place} {kind}": _named(kind) for place, kind in enumerate((first, second, third))}
        explored = dn.explore(table, writers, invariant=lambda one: is_serial(one, table.version))
        assert explored.holds, str(explored)
