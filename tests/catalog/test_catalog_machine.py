"""Whatever is done to the tables of a catalog, by itself and in transactions, it is as good as one after
another: what a catalog says is what dicts say on which the same was done in the order of its commits."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import deltanb as dn
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.upkeep import check
from deltanb.errors import DeltaConcurrentModificationException, TableAlreadyExists, TableNotFound
from deltanb.options import set_options
from tests.catalog.groups import SUPPORTED, disagreements
from tests.examples import few

NAMES = ["s.a", "s.b", "s.c"]
names = st.sampled_from(NAMES)
keys = st.integers(0, 2)
statements = st.tuples(
    st.sampled_from([*NAMES[:2], *NAMES]), st.sampled_from(["append", "delete", "read"]), keys)
RARELY = ["rename", "rename", "drop", "purge", "crash", "wait", "set back", "give up"]
MAX_OPEN = 3
EPOCH = 1_800_000_000_000
PROPERTIES = {"delta.isolationLevel": "Serializable", "delta.enableExpiredLogCleanup": False}


@dataclass
class Model:
    """A table: its rows, of which each has a key, and how often it was committed to."""

    table_id: str
    rows: list[int]
    version: int = 0


@dataclass
class Open:
    """A transaction that goes on: what it has seen, and what it has read and done."""

    txn: dn.catalog.transaction.CatalogTransaction  # type: ignore[name-defined]
    tables: dict[str, Model]
    read: set[str] = field(default_factory=set)
    done: list[tuple[str, str, int]] = field(default_factory=list)

    @property
    def involved(self) -> set[str]:
        return self.read | {name for name, *_ in self.done}


def do(tables: dict[str, Model], name: str, what: str, key: int) -> bool:
    """Do a statement on the model; whether it changes anything."""
    rows = tables[name].rows
    if what == "append":
        rows.append(key)
        return True
    others = [row for row in rows if row != key]
    changes, rows[:] = len(others) < len(rows), others
    return changes


def run(table: Any, what: str, key: int) -> None:
    """Do a statement on a table."""
    if what == "append":
        table.append({"k": [key]})
    else:
        table.delete(f"k = {key}")


def rows_of(table: Any) -> list[int]:
    return sorted(table.to_arrow()["k"].to_pylist())


def machine(new_url: Callable[[], str], folder: Path) -> type[RuleBasedStateMachine]:
    """The rules, each example on a database and a warehouse of its own."""

    class Tables(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.url = new_url()
            self.lake = folder / str(len(list(folder.iterdir())))
            self.lake.mkdir()
            is_grouped = int(self.lake.name) % 2 == 1
            self.properties = {**PROPERTIES, **SUPPORTED} if is_grouped else PROPERTIES
            self.now, self.last = EPOCH, 0
            self._options = set_options(durability="none", clock=lambda: self.now)
            self._options.__enter__()
            self.catalog = dn.Catalog(self.url, self.lake)
            self.catalog.create_namespace("s")
            self.tables: dict[str, Model] = {}
            self.past: list[tuple[int, dict[str, Model]]] = []  # (time, tables by id) after each change
            self.open: list[Open] = []
            self.has_crashed = False
            for name in NAMES[:2]:
                self.make(name, [0, 1, 2])

        def teardown(self) -> None:
            try:
                for going in self.open:
                    going.txn.give_up()
                self.is_in_order()
            finally:
                self.catalog.close()
                self._options.__exit__(None, None, None)

        def changed(self) -> None:
            """Note what the catalog is from now on; its times never go back."""
            self.last = max(self.last, self.now)
            self.past.append((self.last, {t.table_id: copy.deepcopy(t) for t in self.tables.values()}))

        # -- one thing at a time -------------------------------------------------------------------

        @rule(name=names, rows=st.lists(keys, max_size=3))
        def create(self, name: str, rows: list[int]) -> None:
            self.make(name, rows)

        def make(self, name: str, rows: list[int]) -> None:
            try:
                table = self.catalog.create_table(
                    name, {"k": rows} if rows else "k bigint",
                    properties=self.properties)
            except TableAlreadyExists:
                assert name in self.tables
                return
            assert name not in self.tables
            assert table.version == 0
            table_id = str(self.catalog.store.tables.load(name).table_id)
            self.tables[name] = Model(table_id, list(rows))
            self.changed()

        @rule(name=names, what=st.sampled_from(["append", "delete"]), key=keys)
        def alone(self, name: str, what: str, key: int) -> None:
            try:
                run(self.catalog.table(name), what, key)
            except TableNotFound:
                assert name not in self.tables
                return
            if do(self.tables, name, what, key):
                self.tables[name].version += 1
                self.changed()

        @rule(what=st.sampled_from(RARELY), name=names, new=names)
        def rarely(self, what: str, name: str, new: str) -> None:
            """What would end most transactions if it came as often as the rest."""
            if what == "rename":
                self.rename(name, new)
            elif what in ("drop", "purge"):
                self.drop(name, what == "purge")
            elif what == "crash":
                self.crash()
            elif what == "give up" and self.open:
                self.forget(self.open[0])
            else:
                self.now += -5000 if what == "set back" else 1000

        def rename(self, old: str, new: str) -> None:
            if old == new:
                return
            try:
                self.catalog.rename_table(old, new)
            except (TableNotFound, TableAlreadyExists) as error:
                assert (old not in self.tables) if isinstance(error, TableNotFound) else (new in self.tables)
                return
            self.tables[new] = self.tables.pop(old)

        def drop(self, name: str, purge: bool) -> None:
            try:
                self.catalog.drop_table(name, purge=purge)
            except TableNotFound:
                assert name not in self.tables
                return
            del self.tables[name]
            self.changed()

        def crash(self) -> None:
            """Nothing of what this process knew is there any more; its open transactions end in silence."""
            self.catalog.close()
            self.has_crashed |= bool(self.open)
            self.open.clear()
            self.catalog = dn.Catalog(self.url, self.lake)

        # -- transactions --------------------------------------------------------------------------

        @precondition(lambda self: self.tables and len(self.open) < MAX_OPEN)
        @rule(statements=st.lists(statements, min_size=1, max_size=3))
        def begin(self, statements: list[tuple[str, str, int]]) -> None:
            self.open.append(Open(self.catalog.transaction(), copy.deepcopy(self.tables)))
            for statement in statements:
                self.do(self.open[-1], *statement)

        @precondition(lambda self: self.open)
        @rule(data=st.data(), statement=statements)
        def statement(self, data: st.DataObject, statement: tuple[str, str, int]) -> None:
            self.do(data.draw(st.sampled_from(self.open)), *statement)

        def do(self, going: Open, name: str, what: str, key: int) -> None:
            """A statement of a transaction."""
            if going not in self.open:
                return
            mine, theirs = going.tables.get(name), self.tables.get(name)
            try:
                table = going.txn.table(name)
            except TableNotFound:  # it was made, or given its name, later; or it is gone
                assert mine is None or theirs is None or mine.table_id != theirs.table_id
                return
            if mine is None or table.log.below.commits.table_id != mine.table_id:
                self.forget(going)  # renamed since: the transaction sees it by a name that it had not then
                return
            if what == "read":
                assert rows_of(table) == sorted(mine.rows)
                going.read.add(name)
                return
            try:
                run(table, what, key)
            except FileNotFoundError:
                raise
            except dn.errors.DeltaError:  # its files were purged meanwhile
                assert theirs is None or theirs.table_id != mine.table_id
                self.forget(going)
                return
            do(going.tables, name, what, key)
            going.done.append((name, what, key))

        def forget(self, going: Open) -> None:
            going.txn.give_up()
            self.open.remove(going)

        @precondition(lambda self: self.tables and len(self.open) < MAX_OPEN)
        @rule(first=st.lists(statements, min_size=1, max_size=3),
              second=st.lists(statements, min_size=1, max_size=3))
        def race(self, first: list[tuple[str, str, int]], second: list[tuple[str, str, int]]) -> None:
            """Two transactions at once: the second commits first."""
            self.begin(first)
            self.begin(second)
            for going in reversed(self.open[-2:]):
                self.end(going)

        @precondition(lambda self: self.open)
        @rule(data=st.data())
        def commit(self, data: st.DataObject) -> None:
            self.end(data.draw(st.sampled_from(self.open)))

        def end(self, going: Open) -> None:
            """Commit a transaction."""
            self.open.remove(going)
            base = self.base(going)
            moved = {name for name in going.involved
                     if self.tables.get(name) is None or self.tables[name].table_id != base[name].table_id
                     or self.tables[name].version != base[name].version}
            try:
                done = going.txn.commit()
            except (DeltaConcurrentModificationException, TableNotFound):
                assert moved, "refused, and nothing was in its way"
                assert going.txn.status == "failed"
                return
            changed = self.replay(going)
            if done is None:
                assert not changed
                return
            assert dict(done.versions) == {name: self.tables[name].version for name in changed}
            self.changed()

        def base(self, going: Open) -> dict[str, Model]:
            """The tables as the transaction found them."""
            return {name: copy.deepcopy(model) for name, model in going.tables.items()}

        def replay(self, going: Open) -> set[str]:
            """Do what the transaction did, now; what it has read is still so."""
            written = {name for name, *_ in going.done}
            before = copy.deepcopy(self.tables)
            changed = {name for name, what, key in going.done if do(self.tables, name, what, key)}
            for name in changed:
                self.tables[name].version += 1
            for name in (going.read if changed else ()):
                now = before if name not in written else self.tables
                assert sorted(now[name].rows) == sorted(going.tables[name].rows), "it was read otherwise"
            return changed

        # -- what everybody sees -------------------------------------------------------------------

        @rule(back=st.integers(0, 10_000))
        def at_one_instant(self, back: int) -> None:
            seen = self.catalog.snapshot(sorted(self.tables))
            assert {name: rows_of(table) for name, table in seen.items()} == {
                name: sorted(model.rows) for name, model in self.tables.items()}
            moment = self.last - back
            then = next((tables for time, tables in reversed(self.past) if time <= moment), {})
            past = self.catalog.as_of(moment)
            for name, model in self.tables.items():
                if model.table_id in then:
                    assert rows_of(past[name]) == sorted(then[model.table_id].rows)
                else:
                    with pytest.raises(TableNotFound):
                        past[name]

        @invariant()
        def says_which_tables_there_are(self) -> None:
            rows = self.catalog.page("s").items
            assert {str(row.name): (row.table_id, row.pointer) for row in rows} == {
                name: (model.table_id, model.version) for name, model in self.tables.items()}

        def is_in_order(self) -> None:
            assert [str(finding) for finding in check(self.catalog.store) if finding.is_fault] == []
            assert list(disagreements(self.catalog, "s")) == []
            for name, model in self.tables.items():
                table = self.catalog.table(name)
                assert rows_of(table) == sorted(model.rows)
                stamps = [table.log.read_commit(v)[0].in_commit_timestamp for v in range(model.version + 1)]
                assert stamps == sorted(set(stamps))
                if not self.has_crashed:
                    named = {path for version in range(model.version + 1)
                             for path in table.as_of(version).snapshot.files["path"].to_pylist()}
                    assert {file.name for file in Path(table.path).glob("*.parquet")} == named

    return Tables


def try_out(new_url: Callable[[], str], folder: Path) -> None:
    folder.mkdir()
    run_state_machine_as_test(machine(new_url, folder), settings=settings(few, phases=[Phase.generate]))


@pytest.mark.slow
def test_tables_of_a_catalog_are_dicts(new_url: Callable[[], str], tmp_path: Path) -> None:
    try_out(new_url, tmp_path / "lakes")


_ratify = CatalogStore.ratify


def without_assertions(
    store: Any, txn_id: str, who: Any, proposals: Any, stands: Any = (), **more: Any
) -> Any:
    """A control: tables that were only read may change meanwhile."""
    return _ratify(store, txn_id, who, proposals, **more)


@pytest.mark.slow
@pytest.mark.parametrize("new_url", ["sqlite"], indirect=True)
def test_a_catalog_that_does_not_assert_what_was_read_is_found_out(
    new_url: Callable[[], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CatalogStore, "ratify", without_assertions)
    with pytest.raises(AssertionError, match="read otherwise"):
        try_out(new_url, tmp_path / "lakes")
