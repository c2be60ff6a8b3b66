"""The catalog's database: names, tables, ratification, and what each of them refuses."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from deltanb.catalog.store.ledgers import Answer
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.ratification import Asserted, DeltaCommit, IcebergSwap, Ratified, Refused
from deltanb.catalog.store.store import CatalogStore, Replayed
from deltanb.catalog.store.tables import sa
from deltanb.errors import (
    DataFileNotFound,
    IdempotencyKeyReused,
    InvalidArgument,
    NamespaceAlreadyExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    StorageError,
    TableAlreadyExists,
    TableNotFound,
    VersionNotFound,
)
from deltanb.options import set_options

FAR = 4_102_444_800_000
"""Milliseconds after which nothing happens by itself."""


def answer(key: str, body: str = "body", response: str = "done", expires: int = 2**50) -> Answer:
    return Answer(key, body, 200, response, expires)


# Names


@pytest.mark.parametrize(
    "parts",
    [("",), ("a.b",), ("..",), (".",), ("a/b",), ("a\\b",), ("a\0b",), ("a\x1fb",), ("a\nb",), ("\ud800",),
     ("a" * 256,), ("a" * 200, "b" * 200), (1,), ("a", "")],
)
def test_names_that_no_folder_or_column_may_have_are_refused(store: CatalogStore, parts: tuple[Any]) -> None:
    with pytest.raises(InvalidArgument):
        store.namespaces.create(parts)
    with pytest.raises(InvalidArgument):
        store.tables.register_delta((parts, "t"), "lake/t", 0)
    if len(parts) == 1:
        with pytest.raises(InvalidArgument):
            store.tables.register_delta((("ns",), parts[0]), "lake/t", 0)
        with pytest.raises(InvalidArgument):
            store.tables.register_iceberg((("ns",), parts[0]), "t/0")
    assert store.namespaces.children().items == (("ns",),)


@pytest.mark.parametrize("name", ["t", "", (), ((), "t"), None, 3, "ns..t", ".t", "ns."])
def test_a_table_needs_a_namespace_and_a_name(store: CatalogStore, name: Any) -> None:
    with pytest.raises(InvalidArgument):
        store.tables.load(name)


def test_names_are_taken_as_they_are(store: CatalogStore) -> None:
    names = ["a_b", "axb", "A_b", "a%b", "a b", "ü", "'; --", 'q"q']
    for name in names:
        store.namespaces.create((name,))
        store.namespaces.create((name, "in"))
        store.tables.register_delta(((name,), name), f"lake/{name}", 0)
    assert {parts[0] for parts in store.namespaces.children().items} == {*names, "ns"}
    for name in names:
        assert store.namespaces.children((name,)).items == ((name, "in"),)
        assert [row.name.name for row in store.tables.page((name,)).items] == [name]


# Namespaces


def test_a_namespace_is_made_described_and_dropped(store: CatalogStore) -> None:
    store.namespaces.create("a.b", {"owner": "ada", "gone": "soon"})
    assert store.namespaces.exists("a.b") and store.namespaces.exists("a")
    assert store.namespaces.update("a.b", {"owner": "bob", "new": ""}, ["gone", "never"]) == ["gone"]
    assert store.namespaces.properties("a.b") == {"new": "", "owner": "bob"}
    assert store.namespaces.properties("a") == {}
    with pytest.raises(NamespaceNotEmpty, match="a has tables or namespaces"):
        store.namespaces.drop("a")
    store.namespaces.drop("a.b")
    assert not store.namespaces.exists("a.b") and not store.namespaces.exists("a")
    with pytest.raises(NamespaceNotFound):
        store.namespaces.drop("a.b")


def test_a_namespace_without_properties_stays(store: CatalogStore) -> None:
    store.namespaces.create("a", {"owner": "ada"})
    store.namespaces.update("a", removals=["owner"])
    assert store.namespaces.exists("a")


def test_a_namespace_with_a_table_is_not_dropped_and_changes_nothing(store: CatalogStore) -> None:
    store.namespaces.create("a", {"owner": "ada"})
    store.tables.register_iceberg("a.t", "t/0")
    with pytest.raises(NamespaceNotEmpty):
        store.namespaces.drop("a")
    assert store.namespaces.properties("a") == {"owner": "ada"}


def test_a_namespace_is_made_once(store: CatalogStore) -> None:
    for again in ("ns", ["ns"]):
        with pytest.raises(NamespaceAlreadyExists):
            store.namespaces.create(again, {"other": "property"})
    store.namespaces.create("x.y")
    with pytest.raises(NamespaceAlreadyExists):
        store.namespaces.create("x")
    assert store.namespaces.properties("ns") == store.namespaces.properties("x") == {}


def test_what_a_namespace_refuses(store: CatalogStore) -> None:
    for properties in ({"exists": "false"}, {"a": 1}, {"": "x"}, {"a": "x" * 1001}, {"a": "\0"}):
        with pytest.raises(InvalidArgument):
            store.namespaces.create("a", properties)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            store.namespaces.update("ns", properties)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="both set and removed"):
        store.namespaces.update("ns", {"a": "b"}, ["a"])
    with pytest.raises(InvalidArgument, match="own"):
        store.namespaces.update("ns", removals=["exists"])
    for use in (store.namespaces.properties, store.namespaces.children, store.namespaces.update,
                store.tables.page):
        with pytest.raises(NamespaceNotFound, match="no namespace a"):
            use("a")


# Pages


def test_pages_have_every_name_once_whatever_comes_or_goes_meanwhile(store: CatalogStore) -> None:
    for number in range(7):
        store.namespaces.create(f"ns.{number}")
        store.tables.register_delta(f"ns.t{number}", f"lake/t{number}", 0)
    pages, token = [], None
    while True:
        page = store.tables.page("ns", token, 3)
        pages.append([row.name.name for row in page.items])
        if len(pages) == 1:
            store.tables.drop("ns.t1")
            store.tables.drop("ns.t2")
            store.tables.register_delta("ns.t55", "lake/t55", 0)
        if (token := page.next_token) is None:
            break
    assert pages == [["t0", "t1", "t2"], ["t3", "t4", "t5"], ["t55", "t6"]]
    first = store.namespaces.children("ns", None, 4)
    second = store.namespaces.children("ns", first.next_token, 4)
    assert [parts[1] for parts in first.items + second.items] == list("0123456")
    assert second.next_token is None
    assert store.tables.page("ns", None, 6).next_token is None  # exactly full


@pytest.mark.parametrize("token", ["a", "####", "gA==", "ü"])
def test_a_page_refuses_what_is_no_token(store: CatalogStore, token: str) -> None:
    with pytest.raises(InvalidArgument, match="not the token of a page"):
        store.tables.page("ns", token)


@pytest.mark.parametrize("size", [0, -1, True, "3", None])
def test_a_page_refuses_what_is_no_size(store: CatalogStore, size: Any) -> None:
    with pytest.raises(InvalidArgument, match="size of a page"):
        store.namespaces.children(size=size)


@pytest.mark.slow
def test_pages_of_a_hundred_thousand_tables_take_the_memory_of_one(store: CatalogStore) -> None:
    rows = """
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)
        INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, dn_table_id)
        SELECT 'default', CASE WHEN i <= 50000 THEN 'ns' ELSE 'ns.' || (i % 1000) END, 't' || i, 'id' || i
        FROM n
    """
    store.database.write(lambda connection: connection.execute(sa.text(rows)) and None)
    store.tables.page("ns", None, 10)
    tracemalloc.start()
    seen, token = 0, None
    while True:
        page = store.tables.page("ns", token, 1000)
        seen += len(page.items)
        if (token := page.next_token) is None:
            break
    children = store.namespaces.children("ns", None, 10_000).items
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (seen, len(children)) == (50_000, 1000)
    assert peak < 6_000_000  # bytes; a page of a thousand rows is about two megabytes, all of them a hundred


# Tables


def test_a_table_is_registered_loaded_renamed_and_dropped(store: CatalogStore) -> None:
    ice = store.tables.register_iceberg("ns.i", "i/0")
    delta = store.tables.register_delta("ns.d", "lake/d", 4, ict=7, etag="e", protocol="{}", metadata="{}")
    assert store.tables.load_many(["ns.i", "ns.d"]) == {ice.name: ice, delta.name: delta}
    assert (delta.delta.latest, delta.delta.published, delta.pointer) == (4, 4, 4)  # type: ignore[union-attr]
    assert (ice.pointer, ice.delta) == ("i/0", None)
    store.namespaces.create("other")
    store.tables.rename("ns.d", "other.e")
    moved = store.tables.load("other.e")
    assert (moved.table_id, moved.delta) == (delta.table_id, delta.delta)
    with pytest.raises(TableNotFound, match=r"no table ns\.d"):
        store.tables.load("ns.d")
    assert store.tables.drop("other.e", "ada") == moved
    with pytest.raises(TableNotFound):
        store.tables.drop("other.e")
    with pytest.raises(TableNotFound):
        store.tails([str(delta.table_id)])
    again = store.tables.register_delta("other.e", "lake/d", 0)
    assert again.table_id != delta.table_id


def test_a_name_is_one_tables_whatever_its_kind(store: CatalogStore) -> None:
    store.tables.register_iceberg("ns.i", "i/0")
    store.tables.register_delta("ns.d", "lake/d", 0)
    for name in ("ns.i", "ns.d"):
        with pytest.raises(TableAlreadyExists, match=name):
            store.tables.register_iceberg(name, "x/0")
        with pytest.raises(TableAlreadyExists, match=name):
            store.tables.register_delta(name, "lake/x", 0)
    with pytest.raises(TableAlreadyExists, match=r"ns\.d"):
        store.tables.rename("ns.i", "ns.d")
    with pytest.raises(TableAlreadyExists, match="lake/d is registered"):
        store.tables.register_delta("ns.x", "lake/d", 0)
    assert [row.name.name for row in store.tables.page("ns").items] == ["d", "i"]


def test_what_a_table_refuses(store: CatalogStore) -> None:
    for name in ("no.t", "ns.in.t"):
        with pytest.raises(NamespaceNotFound):
            store.tables.register_delta(name, "lake/t", 0)
    store.tables.register_delta("ns.t", "lake/t", 0)
    with pytest.raises(NamespaceNotFound):
        store.tables.rename("ns.t", "no.t")
    with pytest.raises(TableNotFound):
        store.tables.rename("ns.u", "ns.v")
    for version in (-1, True, "0", None):
        with pytest.raises(InvalidArgument):
            store.tables.register_delta("ns.u", "lake/u", version)  # type: ignore[arg-type]
    for location in ("", None, "a\0", "x" * 1001):
        with pytest.raises(InvalidArgument):
            store.tables.register_iceberg("ns.u", location)  # type: ignore[arg-type]
    assert store.tables.page("ns").items[0].name == TableName(("ns",), "t")


def test_two_catalogs_in_one_database_do_not_see_each_other(store: CatalogStore, url: str) -> None:
    store.tables.register_delta("ns.t", "lake/t", 0)
    with CatalogStore(url, "other") as other:
        assert other.namespaces.children().items == ()
        other.namespaces.create("ns")
        other.tables.register_delta("ns.t", "lake/other", 3)
        assert other.tables.load("ns.t").pointer == 3
    assert store.tables.load("ns.t").pointer == 0


# Ratification


def test_tables_of_both_kinds_move_together(store: CatalogStore, tables: Any) -> None:
    tables.delta("a"), tables.iceberg("b"), tables.delta("c", 5)
    assertion = Asserted("c", TableName(("ns",), "c"), 5)
    new = IcebergSwap("n", TableName(("ns",), "n"), None, "n/0")
    proposals = [new, tables.step("b", "b/0"), replace(tables.step("a", 0), ict=4_102_444_799_000)]
    with set_options(clock=lambda: 4_102_444_800_000):
        result = store.ratify("txn", "ada", proposals, [assertion], summary="why")
    assert result == Ratified(4) == store.outcome("txn")
    assert tables.pointers("abcn") == {"a": 1, "b": "b/1", "c": 5, "n": "n/0"}
    assert store.tables.load("ns.b").previous_metadata_location == "b/0"
    (entry,) = store.history(3)
    assert (entry.seq, entry.txn_id, entry.time, entry.principal, entry.summary) == (
        4, "txn", 4_102_444_799_000, "ada", "why")
    assert entry.changes == {"a": ("0", "1"), "b": ("b/0", "b/1"), "n": (None, "n/0")}
    (commit,) = store.tails(["a"])["a"].commits
    assert (commit.version, commit.file_name, commit.txn_id) == (1, "1..json", "txn")


@pytest.mark.parametrize(("says", "recorded"), [(None, 30), (20, 20), (40, 30), (5, 10)])
def test_a_transaction_has_the_time_that_its_commits_say(
    store: CatalogStore, tables: Any, says: int | None, recorded: int
) -> None:
    """But not before the transaction before it, nor later than now."""
    tables.delta("a")
    with set_options(clock=lambda: FAR + 10):
        store.ratify("before", "ada", [replace(tables.step("a", 0), ict=None)])
    with set_options(clock=lambda: FAR + 30):
        store.ratify("txn", "ada", [replace(tables.step("a", 1), ict=None if says is None else FAR + says)])
    assert sorted((entry.seq, entry.time - FAR) for entry in store.history(1)) == [(2, 10), (3, recorded)]


def test_who_is_refused_hears_of_every_table_and_nothing_has_moved(store: CatalogStore, tables: Any) -> None:
    for letter in "acg":
        tables.delta(letter)
    for letter in "bdh":
        tables.iceberg(letter)
    tables.delta("e")
    proposals = [tables.step(letter, 0) for letter in "ae"] + [tables.step("b", "b/0")]
    fresh = IcebergSwap("f", TableName(("ns",), "d"), None, "f/0")  # its name is taken
    assertions = [Asserted(letter, TableName(("ns",), letter), pointer)
                  for letter, pointer in (("c", 0), ("d", "d/0"), ("g", 0), ("h", "h/7"))]
    for letter, before in (("a", 0), ("b", "b/0"), ("c", 0), ("d", "d/0")):
        assert isinstance(store.ratify(f"other-{letter}", None, [tables.step(letter, before)]), Ratified)
    last = store.history()[-1].seq
    result = store.ratify("txn", None, [*proposals, fresh], assertions)
    assert result == Refused({"a": 1, "b": "b/1", "c": 1, "d": "d/1", "f": "d/1", "h": "h/0"})
    assert tables.pointers("aeg") == {"a": 1, "e": 0, "g": 0}
    assert store.tails(["e"])["e"].commits == ()
    assert store.outcome("txn") is None and store.history(last) == []


def test_what_is_gone_is_refused_as_not_there(store: CatalogStore, tables: Any) -> None:
    tables.delta("a"), tables.iceberg("b"), tables.delta("c"), tables.iceberg("d")
    proposals = [tables.step("a", 0), tables.step("b", "b/0"), tables.step("c", 0), tables.step("d", "d/0")]
    pointers = {"a": 0, "b": "b/0", "c": 0, "d": "d/0"}
    asserted = [Asserted(p.table_id, p.name, pointers[p.table_id]) for p in proposals]
    store.tables.rename("ns.a", "ns.a2"), store.tables.rename("ns.b", "ns.b2")
    store.tables.drop("ns.c"), store.tables.drop("ns.d")
    tables.store.tables.register_delta("ns.c", "lake/c", 0, table_id="another")
    everything = dict.fromkeys("abcd")
    assert store.ratify("x", None, proposals) == store.ratify("y", None, [], asserted) == Refused(everything)


def test_the_same_transaction_again_is_told_that_it_is_ratified(store: CatalogStore, tables: Any) -> None:
    tables.delta("a")
    first = store.ratify("txn", None, [tables.step("a", 0)])
    assert store.ratify("txn", None, [tables.step("a", 0)]) == first
    read_only = store.ratify("r", None, [], [Asserted("a", TableName(("ns",), "a"), 1)])
    assert store.ratify("r", None, [], [Asserted("a", TableName(("ns",), "a"), 1)]) == read_only
    assert [entry.txn_id for entry in store.history(1)] == ["txn", "r"]


def test_what_a_ratification_refuses(store: CatalogStore, tables: Any) -> None:
    name = tables.delta("a").name
    with pytest.raises(InvalidArgument, match="no tables"):
        store.ratify("x", None, [])
    with pytest.raises(InvalidArgument, match="twice"):
        store.ratify("x", None, [tables.step("a", 0)], [Asserted("a", name, 0)])
    for both in ({}, {"file_name": "1.json", "inline": b""}):
        with pytest.raises(InvalidArgument, match="either a staged file or inline"):
            store.ratify("x", None, [DeltaCommit("a", name, 1, **both)])
    assert tables.pointers("a") == {"a": 0}


def test_what_a_commit_says_of_a_table_is_kept_until_another_says_otherwise(
    store: CatalogStore, tables: Any
) -> None:
    name = tables.delta("a").name
    store.ratify("1", None, [DeltaCommit("a", name, 1, inline=b"{}", ict=5, etag="e", protocol="p")])
    store.ratify("2", None, [DeltaCommit("a", name, 2, inline=b"{}", metadata="m")])
    state = store.tables.load("ns.a").delta
    assert state is not None
    assert (state.last_ict, state.etag, state.protocol, state.metadata) == (5, "e", "p", "m")


# Publishing


def test_what_is_published_does_not_wait_for_the_disk_and_the_next_commit_does(url: str) -> None:
    """SQLite says it of a connection, PostgreSQL of a transaction."""
    with CatalogStore(url, durability="sync") as store:
        store.namespaces.create("ns")
        table = store.tables.register_delta("ns.a", "lake/a", 0, table_id="a")
        statements: list[str] = []
        sa.event.listen(store.database.engine, "before_cursor_execute",
                        lambda *args: statements.append(args[2]))
        for version in (1, 2):
            store.ratify(f"{version}", None, [DeltaCommit("a", table.name, version, inline=b"1")])
            store.set_published("a", version)
    settings = [text for text in statements if "synchronous" in text]
    if url.startswith("sqlite"):
        assert settings == [f"PRAGMA synchronous={level}" for level in ("NORMAL", "FULL", "NORMAL")]
    else:
        assert settings == ["SET LOCAL synchronous_commit = off"] * 2


def test_commits_are_kept_until_they_are_published(store: CatalogStore, tables: Any) -> None:
    name = tables.delta("a").name
    tables.delta("b")
    for version in (1, 2, 3):
        store.ratify(f"{version}", None, [DeltaCommit("a", name, version, inline=b"\0\xff%d" % version)])
    tails = store.tails(["a", "b"])
    assert [commit.version for commit in tails["a"].commits] == [1, 2, 3]
    assert (tails["a"].latest, tails["a"].published, tails["b"].commits) == (3, 0, ())
    assert store.content("a", 2) == b"\0\xff2"
    store.set_published("a", 2)
    for earlier in (2, 1, 0):
        store.set_published("a", earlier)
    tail = store.tails(["a"])["a"]
    assert (tail.latest, tail.published, [commit.version for commit in tail.commits]) == (3, 2, [3])
    with pytest.raises(VersionNotFound):
        store.content("a", 2)
    with pytest.raises(InvalidArgument, match="the latest that is ratified is 3"):
        store.set_published("a", 4)
    with pytest.raises(TableNotFound):
        store.set_published("x", 0)
    assert isinstance(store.ratify("4", None, [DeltaCommit("a", name, 4, inline=b"")]), Ratified)
    assert store.content("a", 4) == b""


# Idempotency


def test_a_key_is_answered_once(store: CatalogStore, tables: Any) -> None:
    tables.delta("a")
    assert store.answers.find("k", "body") is None
    assert isinstance(store.ratify("1", None, [tables.step("a", 0)], answer=answer("k")), Ratified)
    again = store.ratify("2", None, [tables.step("a", 1)], answer=answer("k", response="other"))
    assert again == Replayed(answer("k")) and store.answers.find("k", "body") == answer("k")
    with pytest.raises(IdempotencyKeyReused, match="key k came with another request"):
        store.ratify("3", None, [tables.step("a", 1)], answer=answer("k", body="other"))
    with pytest.raises(IdempotencyKeyReused):
        store.answers.find("k", "other")
    with pytest.raises(IdempotencyKeyReused):
        store.answers.keep(answer("k", body="other"))
    assert tables.pointers("a") == {"a": 1}


def test_a_key_of_what_was_refused_is_free(store: CatalogStore, tables: Any) -> None:
    tables.delta("a")
    assert isinstance(store.ratify("1", None, [tables.step("a", 7)], answer=answer("k")), Refused)
    assert store.answers.find("k", "body") is None
    assert store.answers.keep(answer("k", response="409")).response == "409"
    assert store.answers.keep(answer("k", response="later")).response == "409"


def test_a_key_expires(store: CatalogStore) -> None:
    with set_options(clock=lambda: 100):
        store.answers.keep(answer("k", expires=200))
        store.answers.keep(answer("l", expires=300))
    with set_options(clock=lambda: 200):
        assert store.answers.find("k", "body") is None
        assert store.answers.keep(answer("k", body="other", expires=250)).body_hash == "other"
    assert store.answers.forget(250) == 1
    assert store.answers.forget(250) == 0


@pytest.mark.parametrize("key", ["", "a" * 256, "a\n", "\0", 3])
def test_what_no_key_is(store: CatalogStore, key: Any) -> None:
    with pytest.raises(InvalidArgument, match="idempotency key"):
        store.answers.keep(answer(key))


# Garbage


def test_files_are_garbage_until_a_commit_takes_them(store: CatalogStore, tables: Any) -> None:
    tables.delta("a")
    store.garbage.record(["f1", "f2", "f3"], "staged", not_before=100)
    store.garbage.record([], "nothing", not_before=100)
    assert store.garbage.due(99) == []
    assert store.garbage.due(100) == [(name, "staged") for name in ("f1", "f2", "f3")]
    assert isinstance(store.ratify("x", None, [tables.step("a", 7)], written=["f1"]), Refused)
    assert isinstance(store.ratify("1", None, [tables.step("a", 0)], written=["f1", "f2"]), Ratified)
    assert store.garbage.due(100) == [("f3", "staged")]
    assert store.garbage.claim(["f1", "f3"], 100) == ["f3"]
    store.garbage.forget(["f3"])
    assert store.garbage.due(2**40) == []


def test_what_is_claimed_cannot_become_a_tables(store: CatalogStore, tables: Any) -> None:
    tables.delta("a")
    store.garbage.record(["f1", "f2"], "staged", not_before=100)
    assert store.garbage.claim(["f1", "f2"], 99) == []
    assert store.garbage.claim(["f1"], 100) == ["f1"]
    store.garbage.record(["f1"], "written anew", not_before=900)
    for files in (["f1", "f2"], ["never"]):
        with pytest.raises(DataFileNotFound, match="write them again"):
            store.ratify("x", None, [tables.step("a", 0)], written=files)
    assert tables.pointers("a") == {"a": 0} and store.outcome("x") is None
    assert store.garbage.due(100) == [("f1", "staged"), ("f2", "staged")]  # the sweep goes on after a crash
    assert store.garbage.claim(["f1"], 100) == ["f1"]


def test_thousands_of_files_are_one_commits(store: CatalogStore, tables: Any) -> None:
    tables.delta("a")
    files = [f"lake/a/{number}.parquet" for number in range(1234)]
    store.garbage.record(files, "staged", not_before=0)
    assert isinstance(store.ratify("1", None, [tables.step("a", 0)], written=files), Ratified)
    assert store.garbage.due(1) == []


# Errors


@pytest.mark.parametrize("url", ["mysql://h/d", "sqlite://", "sqlite:///:memory:", "no url", ""])
def test_what_is_no_catalogs_database(url: str) -> None:
    with pytest.raises(InvalidArgument):
        CatalogStore(url)


def test_a_database_that_cannot_be_opened_is_named(tmp_path: Any) -> None:
    with pytest.raises(StorageError, match=r"the catalog at sqlite:.*no/such\.db cannot be read"):
        CatalogStore(f"sqlite:///{tmp_path}/no/such.db")
    (tmp_path / "text.db").write_text("this is no database, and long enough to be seen as none" * 20)
    with pytest.raises(StorageError, match="not a database"):
        CatalogStore(f"sqlite:///{tmp_path}/text.db")


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StorageError, match="cannot be read") as caught:
        CatalogStore("postgresql://ada:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
