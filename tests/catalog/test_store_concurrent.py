"""Many writers at once: in every order that a script can force, and in those that come about."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from deltanb.catalog.store.databases import write_ahead
from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, Ratified, Refused
from deltanb.catalog.store.store import CatalogStore, Replayed
from deltanb.catalog.store.tables import sa
from deltanb.errors import NamespaceNotEmpty, NamespaceNotFound
from tests.catalog.conftest import Tables, step
from tests.catalog.script import Held, Running, in_child, until_blocked


@pytest.fixture
def other(url: str, store: CatalogStore) -> Any:
    """The same catalog, as another writer has it."""
    with CatalogStore(url, durability="none") as other:
        yield other


def named(letter: str) -> TableName:
    return TableName(("ns",), letter)


# Write skew: x reads a and writes b, y reads b and writes a; in no serial order do both succeed.


def skew(store: CatalogStore, tables: Tables, me: str, writes: str, reads: str | None) -> Any:
    assertions = [Asserted(reads, named(reads), 0)] if reads else []
    return store.ratify(me, me, [step(writes, named(writes), 0)], assertions)


def test_write_skew_does_not_happen_where_reads_are_asserted(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a"), tables.delta("b")
    held = Held(store, "UPDATE dn_delta_tables")  # x has seen a, and not moved b
    x = Running(lambda: skew(store, tables, "x", "b", "a"))
    held.wait()
    y = Running(lambda: skew(other, tables, "y", "a", "b"))
    until_blocked(other, y)
    held.let_on()
    assert isinstance(x.result(), Ratified)
    assert y.result() == Refused({"b": 1})
    assert tables.pointers("ab") == {"a": 0, "b": 1}


def test_write_skew_happens_where_reads_are_not_asserted(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a"), tables.delta("b")
    assert isinstance(skew(store, tables, "x", "b", None), Ratified)
    assert isinstance(skew(other, tables, "y", "a", None), Ratified)


@pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)  # SQLite has one writer, and no such lock
def test_write_skew_happens_where_asserted_rows_are_not_held(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    for writer in (store, other):
        sa.event.listen(
            writer.database.engine, "before_cursor_execute", retval=True,
            fn=lambda connection, cursor, text, values, *_: (
                re.sub(r" FOR SHARE( OF \w+)?", "", text), values))
    tables.delta("a"), tables.delta("b")
    held = Held(store, "UPDATE dn_delta_tables")
    x = Running(lambda: skew(store, tables, "x", "b", "a"))
    held.wait()
    assert isinstance(skew(other, tables, "y", "a", "b"), Ratified)
    held.let_on()
    assert isinstance(x.result(), Ratified)
    assert tables.pointers("ab") == {"a": 1, "b": 1}


# Two at once


def test_of_two_that_move_one_table_the_second_is_refused(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a"), tables.iceberg("b")
    proposals = [tables.step("a", 0, "x"), tables.step("b", "b/0", "x")]
    held = Held(store, "COMMIT")
    x = Running(lambda: store.ratify("x", None, proposals))
    held.wait()
    theirs = [step("a", named("a"), 0, "y"), step("b", named("b"), "b/0", "y")]
    y = Running(lambda: other.ratify("y", None, theirs))
    until_blocked(other, y)
    held.let_on()
    assert isinstance(x.result(), Ratified)
    assert y.result() == Refused({"a": 1, "b": "b/1/x"})
    assert store.tails("a")["a"].commits[0].file_name == "1.x.json"


def test_of_two_that_have_looked_the_second_looks_again(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    """In PostgreSQL both may have looked before either of them moves a table."""
    tables.delta("a"), tables.delta("b")
    held = Held(store, "UPDATE dn_delta_tables")
    x = Running(lambda: store.ratify("x", None, [step("a", named("a"), 0), step("b", named("b"), 0)]))
    held.wait()
    y = Running(lambda: other.ratify("y", None, [step("b", named("b"), 0, "y")]))
    if store.database.engine.dialect.name == "postgresql":
        assert y.result() == Ratified(3)
    held.let_on()
    assert {type(x.result()), type(y.result())} == {Ratified, Refused}
    assert sum(tables.pointers("ab").values()) == (1 if isinstance(x.result(), Refused) else 2)


def test_no_number_is_seen_before_a_smaller_one(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a"), tables.delta("b")
    held = Held(store, "COMMIT")
    x = Running(lambda: store.ratify("x", None, [step("a", named("a"), 0)]))
    held.wait()
    y = Running(lambda: other.ratify("y", None, [step("b", named("b"), 0)]))
    until_blocked(other, y)
    assert [entry.txn_id for entry in other.history(2)] == []
    held.let_on()
    assert (x.result(), y.result()) == (Ratified(3), Ratified(4))


def test_equal_keys_at_once_are_done_once(store: CatalogStore, other: CatalogStore, tables: Tables) -> None:
    tables.delta("a")
    answer = Answer("k", "body", 200, "x did it", 2**50)
    held = Held(store, "COMMIT")
    x = Running(lambda: store.ratify("x", None, [step("a", named("a"), 0)], answer=answer))
    held.wait()
    mine = Answer("k", "body", 200, "y did it", 2**50)
    y = Running(lambda: other.ratify("y", None, [step("a", named("a"), 0)], answer=mine))
    until_blocked(other, y)
    held.let_on()
    assert isinstance(x.result(), Ratified)
    assert y.result() == Replayed(answer)
    assert tables.pointers("a") == {"a": 1}


def test_the_key_of_one_that_is_refused_is_the_next_ones(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a")
    answer = Answer("k", "body", 200, "done", 2**50)
    held = Held(store, "is_behind")
    x = Running(lambda: store.ratify("x", None, [step("a", named("a"), 5)], answer=answer))
    held.wait()
    y = Running(lambda: other.ratify("y", None, [step("a", named("a"), 0)], answer=answer))
    until_blocked(other, y)
    held.let_on()
    assert x.result() == Refused({"a": 0})
    assert isinstance(y.result(), Ratified)


def test_the_same_transaction_twice_at_once_is_ratified_once(
    store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a")
    for txn_id, proposals in (("x", [step("a", named("a"), 0)]), ("y", [])):
        asserted = [] if proposals else [Asserted("a", named("a"), 1)]
        held = Held(store, "COMMIT")
        one = Running(lambda t=txn_id, p=proposals, s=asserted: store.ratify(t, None, p, s))
        held.wait()
        two = Running(lambda t=txn_id, p=proposals, s=asserted: other.ratify(t, None, p, s))
        until_blocked(other, two)
        held.let_on()
        assert one.result() == two.result()
    assert [entry.txn_id for entry in store.history(1)] == ["x", "y"]


# Renamed and dropped meanwhile


def go(store: CatalogStore, how: str) -> Any:
    return store.tables.rename("ns.a", "ns.z") if how == "rename" else store.tables.drop("ns.a")


@pytest.mark.parametrize("how", ["rename", "drop"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
@pytest.mark.parametrize("asserts", [False, True], ids=["moved", "asserted"])
def test_a_table_that_goes_first_is_refused(
    store: CatalogStore, other: CatalogStore, tables: Tables, how: str, kind: str, asserts: bool
) -> None:
    before = getattr(tables, kind)("a").pointer
    tables.delta("b")
    mine = [] if asserts else [step("a", named("a"), before)]
    theirs = [Asserted("a", named("a"), before)] if asserts else []
    held = Held(store, "COMMIT")
    goes = Running(lambda: go(store, how))
    held.wait()
    y = Running(lambda: other.ratify("y", None, [step("b", named("b"), 0), *mine], theirs))
    until_blocked(other, y)
    held.let_on()
    goes.result()
    assert y.result() == Refused({"a": None})
    assert tables.pointers("b") == {"b": 0}
    if how == "rename":
        assert store.tables.load("ns.z").pointer == before


@pytest.mark.parametrize("how", ["rename", "drop"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_that_goes_later_goes_with_what_was_ratified(
    store: CatalogStore, other: CatalogStore, tables: Tables, how: str, kind: str
) -> None:
    proposal = step("a", named("a"), getattr(tables, kind)("a").pointer)
    held = Held(store, "COMMIT")
    x = Running(lambda: store.ratify("x", None, [proposal]))
    held.wait()
    goes = Running(lambda: go(other, how))
    until_blocked(other, goes)
    held.let_on()
    assert isinstance(x.result(), Ratified)
    row = goes.result() or store.tables.load("ns.z")
    assert row.pointer in (1, "a/1")
    if how == "drop":
        assert store.history()[-1].changes == {"a": (str(row.pointer), None)}


def test_a_namespace_is_not_dropped_under_a_new_table(store: CatalogStore, other: CatalogStore) -> None:
    store.namespaces.create("x")
    held = Held(store, "COMMIT")
    made = Running(lambda: store.tables.register_delta("x.t", "lake/t", 0))
    held.wait()
    dropped = Running(lambda: other.namespaces.drop("x"))
    until_blocked(other, dropped)
    held.let_on()
    made.result()
    with pytest.raises(NamespaceNotEmpty):
        dropped.result()


def test_no_table_is_made_in_a_namespace_that_is_dropped(store: CatalogStore, other: CatalogStore) -> None:
    store.namespaces.create("x")
    held = Held(store, "COMMIT")
    dropped = Running(lambda: store.namespaces.drop("x"))
    held.wait()
    made = Running(lambda: other.tables.register_delta("x.t", "lake/t", 0))
    until_blocked(other, made)
    held.let_on()
    dropped.result()
    with pytest.raises(NamespaceNotFound):
        made.result()


def test_a_new_database_is_opened_by_many_at_once(new_url: Callable[[], str]) -> None:
    url = new_url()
    opened = [Running(lambda: CatalogStore(url, durability="none")) for _ in range(4)]
    for store in [running.result() for running in opened]:
        assert store.history() == []
        store.close()


def test_a_new_file_waits_for_another_connection_that_holds_it(tmp_path: Path) -> None:
    # Between reading and the write-ahead log SQLite answers "locked" at once, however long it may wait.
    holder = sqlite3.connect(tmp_path / "c.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    refused = []

    class Connection:
        """A connection that lets the other one go once it has been refused."""

        def __init__(self) -> None:
            self.connection = sqlite3.connect(tmp_path / "c.db", timeout=0, isolation_level=None)

        def execute(self, text: str) -> sqlite3.Cursor:
            try:
                return self.connection.execute(text)
            except sqlite3.OperationalError as error:
                refused.append(str(error))
                holder.execute("ROLLBACK")
                raise

    waiting = Connection()
    write_ahead(waiting)
    assert refused == ["database is locked"]
    assert waiting.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    waiting.connection.close()
    holder.close()


# Many at once


def work(url: str, seed: int, letters: str, commits: int) -> list[str]:
    """Move random sets of tables until so many transactions are ratified; returns their ids."""
    random, done = Random(seed), []
    with CatalogStore(url, durability="none") as store:
        while len(done) < commits:
            chosen = random.sample(letters, random.randint(1, 3))
            random.shuffle(chosen)
            rows = store.tables.load_many(f"ns.{letter}" for letter in chosen)
            *moved, last = rows.values()
            proposals = [step(row.name.name, row.name, row.pointer, f"{seed}") for row in moved or [last]]
            asserted = [Asserted(last.name.name, last.name, last.pointer)] if moved else []
            txn_id = f"{seed}-{len(done)}"
            result = store.ratify(txn_id, str(seed), proposals, asserted)
            if isinstance(result, Ratified):
                done.append(txn_id)
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    "letters", [["abcdef"] * 4, ["abc", "def", "ghi", "jkl"]], ids=["overlapping", "disjoint"])
@pytest.mark.parametrize("processes", [False, True], ids=["threads", "processes"])
def test_nothing_is_torn_lost_or_left_out(
    url: str, store: CatalogStore, tables: Tables, letters: list[str], processes: bool
) -> None:
    every = sorted(set("".join(letters)))
    for number, letter in enumerate(every):
        (tables.delta if number % 2 else tables.iceberg)(letter)
    if processes:
        store.close()
        ends = [in_child(lambda n=n: work(url, n, letters[n], 25)) for n in range(2)]
        done = [end() for end in ends]
    else:
        threads = [Running(lambda n=n: work(url, n, letters[n], 25)) for n in range(4)]
        done = [thread.result() for thread in threads]
    entries = store.history()
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    acknowledged = sorted(txn_id for ids in done for txn_id in ids)
    assert sorted(e.txn_id for e in entries if e.summary != "register") == acknowledged
    at: dict[str, str | None] = {}
    for entry in entries:
        for letter, (before, after) in entry.changes.items():
            assert at.get(letter) == before  # one after the other: no version twice, and none left out
            at[letter] = after
    assert at == {letter: str(pointer) for letter, pointer in tables.pointers("".join(every)).items()}
    for letter, tail in store.tails([letter for letter in every if every.index(letter) % 2]).items():
        assert [commit.version for commit in tail.commits] == list(range(1, tail.latest + 1))
        owners = [entry.txn_id for entry in entries[len(every):] if letter in entry.changes]
        assert [commit.txn_id for commit in tail.commits] == owners


def test_tables_that_move_together_are_read_together(
    url: str, store: CatalogStore, other: CatalogStore, tables: Tables
) -> None:
    tables.delta("a"), tables.delta("b")

    def move() -> None:
        for version in range(60):
            assert isinstance(other.ratify(f"{version}", None, [
                step("a", named("a"), version), step("b", named("b"), version)]), Ratified)

    running, seen = Running(move), []
    while not running.is_over:
        seen.append(tables.pointers("ab"))
    running.result()
    assert seen and all(pair["a"] == pair["b"] for pair in seen)


def test_a_store_has_connections_of_its_own_after_a_fork(store: CatalogStore, tables: Tables) -> None:
    tables.delta("a")
    parents = store.database.read(lambda connection: connection.connection.dbapi_connection)

    def child() -> Any:
        mine = store.database.read(lambda connection: connection.connection.dbapi_connection)
        return mine is not parents, store.ratify("child", None, [step("a", named("a"), 0)])

    assert in_child(child)() == (True, Ratified(2))
    assert store.database.read(lambda connection: connection.connection.dbapi_connection) is parents
    assert store.ratify("parent", None, [step("a", named("a"), 1)]) == Ratified(3)
