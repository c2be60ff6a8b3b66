"""A catalog whose writer is killed, whose database does not answer, or ends a transaction."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, Ratified, Refused
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from deltanb.errors import CommitOutcomeUnknown, MaxCommitRetriesExceeded, StorageError
from tests.catalog.conftest import Tables, step
from tests.catalog.postgresql import end_connections
from tests.catalog.script import Held, Running, at_commit, die, each_statement, in_child, until_blocked

on_postgresql = pytest.mark.parametrize("new_url", ["postgresql"], indirect=True)


def named(letter: str) -> TableName:
    return TableName(("ns",), letter)


def ratify(store: CatalogStore, txn_id: str, one: str, two: str, read: str) -> Any:
    """A transaction with everything one can have."""
    return store.ratify(
        txn_id, "ada", [step(one, named(one), 0), step(two, named(two), f"{two}/0")],
        [Asserted(read, named(read), 0)], Answer(txn_id, "body", 200, "done", 2**50), [f"file-{txn_id}"])


def state(store: CatalogStore, txn_id: str, one: str, two: str) -> dict[str, Any]:
    """Everything that the transaction moves."""
    return {
        "pointers": list(Tables(store).pointers(one + two).values()),
        "commits": len(store.tails([one])[one].commits),
        "answered": store.answers.find(txn_id, "body") is not None,
        "garbage": [path for path, _ in store.garbage.due(1) if path == f"file-{txn_id}"],
        "history": [dict(entry.changes) for entry in store.history() if entry.txn_id == txn_id],
    }


def test_a_writer_that_is_killed_at_any_statement_did_all_or_nothing(
    url: str, store: CatalogStore, tables: Tables
) -> None:
    letters = [chr(0x4E00 + number) for number in range(200)]  # each transaction has tables of its own
    read = "r"
    tables.delta(read)

    def killed(number: int, txn_id: str, one: str, two: str) -> Any:
        with CatalogStore(url, durability="none") as mine:
            each_statement(mine, lambda at: die() if at == number else None)
            return ratify(mine, txn_id, one, two, read)

    ends: list[str] = []
    while len(ends) < 60:
        number = len(ends)
        one, two, txn_id = letters[2 * number], letters[2 * number + 1], f"txn-{number}"
        tables.delta(one), tables.iceberg(two)
        store.garbage.record([f"file-{txn_id}"], "staged", 0)
        before = state(store, txn_id, one, two)
        end = in_child(lambda n=number, t=txn_id, a=one, b=two: killed(n, t, a, b))()
        landed = store.outcome(txn_id)
        after = {
            "pointers": [1, f"{two}/1"], "commits": 1, "answered": True, "garbage": [],
            "history": [{one: ("0", "1"), two: (f"{two}/0", f"{two}/1")}]}
        assert state(store, txn_id, one, two) == (before if landed is None else after)
        if end != signal.SIGKILL:
            assert end == landed
            ends.append("lived")
            break
        ends.append("old" if landed is None else "new")
        again = store.ratify(txn_id, "ada", [step(one, named(one), 0), step(two, named(two), f"{two}/0")])
        assert isinstance(again, Ratified)
        assert state(store, txn_id, one, two)["history"] == after["history"]
    assert ends[-2:] == ["new", "lived"] and set(ends[:-2]) == {"old"} and len(ends) > 10


# A COMMIT without an answer


def lost(store: CatalogStore) -> Exception:
    """The driver's error for a connection that is gone."""
    module = store.database.engine.dialect.loaded_dbapi
    error: Exception = module.OperationalError("server closed the connection unexpectedly")
    return error


def test_a_commit_that_landed_without_an_answer_is_found(store: CatalogStore, tables: Tables) -> None:
    tables.delta("a")

    def landed(commit: Callable[[], None]) -> None:
        commit()
        raise lost(store)

    with at_commit(store, landed):
        assert store.ratify("txn", None, [step("a", named("a"), 0)]) == Ratified(2)
    assert tables.pointers("a") == {"a": 1}
    with at_commit(store, landed):
        assert store.tables.register_delta("ns.b", "lake/b", 0) == store.tables.load("ns.b")
    answer = Answer("k", "body", 200, "done", 2**50)
    with at_commit(store, landed):
        assert store.answers.keep(answer) == answer
    with at_commit(store, landed), pytest.raises(CommitOutcomeUnknown, match="check whether it took effect"):
        store.namespaces.create("x")
    assert store.namespaces.exists("x")


def test_a_commit_that_did_not_land_is_known_not_to(store: CatalogStore, tables: Tables) -> None:
    tables.delta("a")

    def gone(commit: Callable[[], None]) -> None:
        raise lost(store)

    with at_commit(store, gone), pytest.raises(StorageError, match="transaction txn did not land"):
        store.ratify("txn", None, [step("a", named("a"), 0)])
    assert tables.pointers("a") == {"a": 0} and store.outcome("txn") is None
    assert store.ratify("txn", None, [step("a", named("a"), 0)]) == Ratified(2)


@pytest.mark.parametrize("lands", [True, False])
def test_where_nobody_can_be_asked_the_outcome_is_unknown(
    store: CatalogStore, tables: Tables, lands: bool
) -> None:
    tables.delta("a")
    is_down = []

    def refused(*_: Any) -> None:
        if is_down:
            raise lost(store)

    sa.event.listen(store.database.engine, "do_connect", refused)

    def commit_and_leave(commit: Callable[[], None]) -> None:
        if lands:
            commit()
        is_down.append(True)
        raise lost(store)

    unknown = pytest.raises(CommitOutcomeUnknown, match="delete none")
    with at_commit(store, commit_and_leave), unknown as caught:
        store.ratify("txn", None, [step("a", named("a"), 0)])
    assert caught.value.txn_id == "txn"
    with pytest.raises(StorageError):
        store.outcome("txn")
    is_down.clear()
    assert store.outcome("txn") == (Ratified(2) if lands else None)


def test_who_asks_waits_for_a_commit_that_is_under_way(
    url: str, store: CatalogStore, tables: Tables
) -> None:
    tables.delta("a")
    held = Held(store, "COMMIT")
    running = Running(lambda: store.ratify("txn", None, [step("a", named("a"), 0)]))
    held.wait()
    with CatalogStore(url, durability="none") as other:
        asked = Running(lambda: other.outcome("txn"))
        with CatalogStore(url, durability="none") as watcher:
            until_blocked(watcher, asked)
        held.let_on()
        assert asked.result() == running.result() == Ratified(2)


def test_an_interrupt_in_a_commit_says_what_to_ask(store: CatalogStore, tables: Tables) -> None:
    tables.delta("a")

    def interrupted(commit: Callable[[], None]) -> None:
        commit()
        raise KeyboardInterrupt

    with at_commit(store, interrupted), pytest.raises(KeyboardInterrupt) as caught:
        store.ratify("txn", None, [step("a", named("a"), 0)])
    assert "ask for the outcome" in str(caught.value.__notes__)  # type: ignore[attr-defined]
    assert store.outcome("txn") == Ratified(2)


def test_an_interrupt_before_the_commit_leaves_nothing(store: CatalogStore, tables: Tables) -> None:
    tables.delta("a")
    interrupts = [True]

    def interrupt(connection: Any, cursor: Any, text: str, *_: Any) -> None:
        if "INSERT INTO dn_txns" in text and interrupts:
            interrupts.clear()
            raise KeyboardInterrupt

    sa.event.listen(store.database.engine, "before_cursor_execute", interrupt)
    with pytest.raises(KeyboardInterrupt):
        store.ratify("txn", None, [step("a", named("a"), 0)])
    assert tables.pointers("a") == {"a": 0}
    assert store.ratify("txn", None, [step("a", named("a"), 0)]) == Ratified(2)


# Transactions that PostgreSQL ends


@on_postgresql
def test_connections_that_were_closed_meanwhile_are_made_anew(
    url: str, store: CatalogStore, tables: Tables
) -> None:
    tables.delta("a")
    end_connections(url)
    assert store.ratify("1", None, [step("a", named("a"), 0)]) == Ratified(2)
    end_connections(url)
    assert tables.pointers("a") == {"a": 1}


@on_postgresql
def test_a_connection_that_is_closed_at_the_commit_leaves_nothing(
    url: str, store: CatalogStore, tables: Tables
) -> None:
    tables.delta("a")

    def end_and_commit(commit: Callable[[], None]) -> None:
        end_connections(url)
        commit()

    with at_commit(store, end_and_commit), pytest.raises(StorageError, match="did not land"):
        store.ratify("txn", None, [step("a", named("a"), 0)])
    assert tables.pointers("a") == {"a": 0}


def with_setting(store: CatalogStore, setting: str) -> None:
    """Let each new connection of a store have a setting of PostgreSQL."""
    def connected(raw: Any, _: object) -> None:
        raw.execute(f"SET {setting}")
        raw.commit()

    sa.event.listen(store.database.engine, "connect", connected)
    store.close()


@on_postgresql
def test_a_transaction_that_the_database_ends_is_tried_again(
    store: CatalogStore, tables: Tables
) -> None:
    from psycopg import errors

    tables.delta("a")

    def ended(commit: Callable[[], None]) -> None:
        raise errors.SerializationFailure("could not serialize access")

    with at_commit(store, ended):
        assert store.ratify("1", None, [step("a", named("a"), 0)]) == Ratified(2)
    always = store.database.engine.dialect
    always.do_commit = lambda connection: ended(lambda: None)  # type: ignore[method-assign]
    with pytest.raises(MaxCommitRetriesExceeded, match="10 times"):
        store.ratify("2", None, [step("a", named("a"), 1)])
    del always.do_commit
    assert tables.pointers("a") == {"a": 1}


@on_postgresql
def test_a_deadlock_with_a_stranger_is_tried_again(url: str, store: CatalogStore, tables: Tables) -> None:
    import psycopg

    tables.delta("a"), tables.iceberg("b")
    with psycopg.connect(url) as stranger:
        stranger.execute("SET deadlock_timeout = '60s'")  # who waits last finds it, and is ended
        stranger.execute("SELECT 1 FROM iceberg_tables WHERE dn_table_id = 'b' FOR UPDATE")
        with_setting(store, "deadlock_timeout = '1ms'")
        held = Held(store, "UPDATE iceberg_tables")
        proposals = [step("a", named("a"), 0), step("b", named("b"), "b/0")]
        running = Running(lambda: store.ratify("1", None, proposals))
        held.wait()
        theirs = Running(
            lambda: stranger.execute("UPDATE dn_delta_tables SET etag = 'stranger' WHERE table_id = 'a'"))
        with CatalogStore(url, durability="none") as watcher:
            until_blocked(watcher, theirs)
        held.let_on()
        theirs.result()
        stranger.commit()
    assert running.result() == Ratified(3)
    assert store.tables.load("ns.a").delta.etag == "stranger"  # type: ignore[union-attr]


@on_postgresql
def test_who_waits_too_long_is_told_so(url: str, store: CatalogStore, tables: Tables) -> None:
    import psycopg

    tables.delta("a")
    with_setting(store, "lock_timeout = '1ms'")
    with psycopg.connect(url) as stranger:
        stranger.execute("SELECT 1 FROM iceberg_tables FOR UPDATE")
        with pytest.raises(StorageError, match="lock timeout"):
            store.ratify("1", None, [step("a", named("a"), 0)])
    assert store.ratify("1", None, [step("a", named("a"), 1)]) == Refused({"a": 0})
