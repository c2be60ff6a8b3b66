"""Rows keep their ids and commit versions through transactions of several statements, whatever their kind."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from deltanb.actions import AddFile
from deltanb.locks import LockManager
from deltanb.table.contract import Does, declared
from deltanb.table.staged import StagedTable
from deltanb.table.table import DeltaTable
from deltanb.transaction.operations import PRESERVED
from deltanb.transaction.rebase import ROW_TRACKING_DOMAIN, parse_high_water_mark
from tests.commands.test_row_ids import FEED, VECTORS, ids_of
from tests.commands.transactions import KINDS, Home, check_feed, of_table, under_locks, untried
from tests.examples import crossed

LAYOUTS = [{}, VECTORS, FEED, {**FEED, **VECTORS}, {**VECTORS, "delta.columnMapping.mode": "id"}]


def test_every_kind_of_transaction_is_tried() -> None:
    assert not untried()


# -- statements, and what becomes of the rows ------------------------------------------------------------

ROWS_OF = "p = 'a'"
"""What statements read, so that a rival beside them is no conflict."""


@dataclass
class Model:
    """The rows by key: value, and whether the transaction has changed (True) or brought (None) a row."""

    values: dict[int, int]
    fate: dict[int, bool | None] = field(default_factory=dict)
    next: int = 100

    def new(self, count: int) -> dict[str, list[Any]]:
        keys = list(range(self.next, self.next + count))
        self.next += count
        for key in keys:
            self.values[key], self.fate[key] = 0, None
        return {"id": keys, "p": ["a"] * count, "v": [0] * count}

    def change(self, keys: list[int]) -> None:
        for key in keys:
            self.values[key] += 1
            self.fate.setdefault(key, True)

    def drop(self, keys: list[int]) -> None:
        for key in keys:
            del self.values[key]
            self.fate.pop(key, None)

    def every(self, step: int, start: int = 0) -> list[int]:
        return sorted(self.values)[start::step]


def listed(keys: list[int]) -> str:
    return f"{ROWS_OF} AND id IN ({', '.join(map(str, keys)) or 'NULL'})"


def append(table: DeltaTable, model: Model) -> None:
    table.append(model.new(4))


def update(table: DeltaTable, model: Model) -> None:
    keys = model.every(3)
    table.update({"v": "v + 1"}, listed(keys))
    model.change(keys)


def delete(table: DeltaTable, model: Model) -> None:
    keys = model.every(4, 1)
    table.delete(listed(keys))
    model.drop(keys)


def truncate(table: DeltaTable, model: Model) -> None:
    table.truncate()
    model.drop(model.every(1))


def overwrite(table: DeltaTable, model: Model) -> None:
    keys = model.every(5, 1)
    model.drop(keys)
    new = model.new(2)
    table.overwrite(new, where=listed([*keys, *new["id"]]))


def merge(table: DeltaTable, model: Model) -> None:
    changed, gone = model.every(4), model.every(4, 2)
    keys = [*changed, *gone]
    (table.merge({"id": keys, "p": ["a"] * len(keys), "v": [1] * len(changed) + [-1] * len(gone)},
                 "t.p = 'a' AND t.id = s.id", target_alias="t", source_alias="s")
     .when_matched_delete("s.v < 0").when_matched_update(set={"v": "t.v + 1"}).execute())
    model.change(changed)
    model.drop(gone)


def insert(table: DeltaTable, model: Model) -> None:
    (table.merge(model.new(2), "t.p = 'a' AND t.id = s.id", target_alias="t", source_alias="s")
     .when_not_matched_insert_all().execute())


def upsert(table: DeltaTable, model: Model) -> None:
    table.upsert(model.new(2), on="id")


def analyze(table: DeltaTable, model: Model) -> None:
    table.analyze(["v"])  # which the table does not describe of its own accord


STATEMENTS = {
    "append": [append], "update": [update], "delete": [delete], "truncate": [truncate],
    "overwrite": [overwrite],
    "merge": [merge, insert], "upsert": [upsert], "analyze": [analyze]}
"""By the method that runs them."""
PAIRS = list(itertools.product(itertools.chain.from_iterable(STATEMENTS.values()), repeat=2))


def test_every_statement_is_tried() -> None:
    assert STATEMENTS.keys() == {name for name, asked in declared(DeltaTable).items()
                                 if asked.does.is_staged and asked.does is not Does.DEFINES}


# -- the rules -------------------------------------------------------------------------------------------


def mark_of(table: DeltaTable) -> int:
    return parse_high_water_mark(table.snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN))


def run(home: Home, statements: list[Any], rival: Callable[[], Any] | None = None) -> None:
    """Statements in one transaction; a rival commits behind the first of them, in a partition of its own."""
    table = home.table
    before, mark = ids_of(table), mark_of(table)
    rows = {row["id"]: row["v"] for row in table.to_arrow(where=ROWS_OF).to_pylist()}
    model = Model(dict(rows), next=max([100, *(key + 1 for key in before)]))
    if rival is not None:
        model.next += 1000
    with home.begin() as txn:
        for number, statement in enumerate(statements):
            statement(txn, model)
            if number == 0 and rival is not None:
                rival()
                mark = mark_of(table)
    check(table, model, before, rows, mark)


def check(table: DeltaTable, model: Model, before: dict[int, tuple[int, int]], was: Any, mark: int) -> None:
    now, version = ids_of(table), table.version
    rows = {row["id"]: row["v"] for row in table.to_arrow(where=ROWS_OF).to_pylist()}
    assert rows == model.values
    for key in rows:
        number, at = now[key]
        fate = model.fate.get(key, False)
        if fate is None:
            assert number > mark and at == version, f"new row {key}: {number}@{at}, mark {mark}, v{version}"
        else:
            known = before[key]
            assert (number, at) == (known[0], version if fate else known[1]), f"row {key} was {known}"
    files = table.snapshot.files.to_pylist()
    assert mark_of(table) == max([mark, *(
        file["base_row_id"] + json.loads(file["stats"])["numRecords"] - 1 for file in files)])
    tags = table.history(1)[0].tags or {}
    assert tags.get(PRESERVED, "true") == "true" and (PRESERVED in tags or rows == was)
    if FEED.items() <= table.properties.items():
        check_feed(table, version)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_untouched_rows_keep_both_and_changed_ones_their_ids(
    tmp_path: Path, kind: type[StagedTable], layout: dict[str, str], is_thorough: bool
) -> None:
    """Each statement followed by each other one, on one table, whose rows so have come in every way. A kind
    of transaction meets each pair on one of the layouts; in a usual run each pair meets one of the kinds."""
    number = list(KINDS).index(kind)
    turn = (LAYOUTS.index(layout) + number) % len(LAYOUTS)
    pairs = PAIRS[turn::len(LAYOUTS)]
    with KINDS[kind](tmp_path, layout) as home:
        for pair in pairs if is_thorough else pairs[number::len(KINDS)]:
            run(home, list(pair))
            few = max(12 - len(ids_of(home.table)), 0)
            if few:
                first = max(ids_of(home.table), default=0) + 1
                home.table.append({"id": [*range(first, first + few)], "p": ["a"] * few, "v": [0] * few})


@pytest.mark.parametrize(("kind", "layout"), crossed(2, list(KINDS), LAYOUTS),
                         ids=lambda value: getattr(value, "__name__", str(value)))
def test_behind_a_winner_too(tmp_path: Path, kind: type[StagedTable], layout: dict[str, str]) -> None:
    with KINDS[kind](tmp_path, layout) as home:
        rival = home.table
        rivals = [
            lambda: rival.append({"id": [50, 51, 52], "p": ["z"] * 3, "v": [0] * 3}),
            lambda: rival.update({"v": "v + 1"}, "p = 'z' AND id = 50"),
            lambda: rival.delete("p = 'z' AND id = 51")]
        for number, statements in enumerate([
                [append, update, delete], [update, update, merge], [delete, overwrite, insert]]):
            run(home, statements, rivals[number])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_ids_that_a_winner_fills_in_are_the_rows_own(tmp_path: Path, kind: type[StagedTable]) -> None:
    """The winner switches row tracking on, for files that a statement has met without ids."""
    layout = {**VECTORS, "delta.enableRowTracking": "false"}
    with KINDS[kind](tmp_path, layout) as home, home.begin() as txn:
        txn.delete("p = 'a' AND id = 1")
        home.table.set_properties({"delta.enableRowTracking": True})
        before = ids_of(home.table)
        txn.append({"id": [100], "p": ["a"], "v": [0]})
    now = ids_of(home.table)
    assert now.pop(100)[0] > max(number for number, _ in before.values())
    assert now == {key: known for key, known in before.items() if key != 1}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_row_tracking_begins_within_a_transaction(tmp_path: Path, kind: type[StagedTable]) -> None:
    layout = {**VECTORS, **FEED, "delta.enableRowTracking": "false"}
    with KINDS[kind](tmp_path, layout) as home:
        table = home.table
        with home.begin() as txn:
            append(txn, Model({}))
            txn.set_properties({"delta.enableRowTracking": True})
            txn.update({"v": "v + 1"}, "id IN (1, 100)")
        version = table.version
        ids = ids_of(table)
        assert len(ids) == 12 and {at for _, at in ids.values()} == {version}
        assert mark_of(table) >= max(number for number, _ in ids.values())
        check_feed(table, version)
        run(home, [update, merge, append, delete])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_rows_are_new_though_their_files_are_described_anew(tmp_path: Path, kind: type[StagedTable]) -> None:
    with KINDS[kind](tmp_path, {}) as home:
        with home.begin() as txn:
            append(txn, Model({}))
            analyze(txn, Model({}))
        files = [a for a in home.table.log.read_commit(home.table.version) if isinstance(a, AddFile)]
    assert sorted(file.data_change for file in files) == [False, False, True]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_rows_that_a_cursor_stores_keep_their_ids(layout: dict[str, str]) -> None:
    with under_locks(None, layout) as home:
        table = home.table
        before, manager = ids_of(table), LockManager()
        with manager.new_transaction() as txn:
            cursor = txn.cursor(table, key=["id"])
            cursor.find(1)
            cursor.store({"v": 7})
            txn.table(table).update({"v": "v + 1"}, "p = 'a' AND id IN (1, 2)")
            cursor.find(3)
            cursor.delete()
            cursor.find(90)
            cursor.store({"p": "a", "v": 9})
            txn.commit()
    now = ids_of(table)
    fresh = now.pop(90)
    assert fresh[0] > max(number for number, _ in before.values()) and fresh[1] == table.version
    assert now == {key: (number, table.version if key in (1, 2) else at)
                   for key, (number, at) in before.items() if key != 3}
    assert table.to_arrow(where="id = 1")["v"].to_pylist() == [8]


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("layout", LAYOUTS[1:4], ids=str)
def test_statements_that_spark_runs_keep_them_too(tmp_path: Path, layout: dict[str, str]) -> None:
    with of_table(tmp_path, layout) as home:
        before = ids_of(home.table)
        with home.begin() as txn:
            txn.append({"id": [100, 101], "p": ["a", "a"], "v": [0, 0]})
            txn.update({"v": "v + 1"}, "id IN (1, 100)", engine="spark")
            txn.delete("id IN (2, 101)", engine="spark")
            (txn.merge({"id": [1, 3, 4], "p": ["a"] * 3, "v": [1, 1, -1]}, "t.id = s.id", target_alias="t",
                       source_alias="s")
             .when_matched_delete("s.v < 0").when_matched_update(set={"v": "t.v + 1"}).execute("spark"))
        now, version = ids_of(home.table), home.table.version
        fresh = now.pop(100)
        assert fresh[0] > max(number for number, _ in before.values()) and fresh[1] == version
        assert now == {key: (number, version if key in (1, 3) else at)
                       for key, (number, at) in before.items() if key not in (2, 4)}
        if FEED.items() <= layout.items():
            check_feed(home.table, version)
