"""How many statements a commit through a catalog takes: counted, and never timed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import deltanb as dn
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.store.tables import sa
from deltanb.options import set_options
from tests.catalog.conftest import url_of

COMMIT = (
    "begin", "hold iceberg_tables", "update dn_delta_tables", "insert dn_delta_commits",
    "delete dn_delta_commits", "lock", "insert dn_txns", "insert dn_txn_changes", "commit")
"""What ratifying costs, of any number of tables: the rows of all of them are held, moved and recorded by one
statement each, as is what was published since. PostgreSQL begins by itself, SQLite has one lock for all."""
LOOK = "read dn_delta_tables"
_WORDS = re.compile(r"(SELECT|INSERT|DELETE|BEGIN)\b.*?(?:(?:FROM|INTO) (\w+)|$)", re.DOTALL)


@pytest.fixture
def shop(new_url: Callable[[], str], tmp_path: Path) -> Iterator[dn.Catalog]:
    with set_options(durability="none"), dn.Catalog(new_url(), tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        for name in ("shop.a", "shop.b"):
            catalog.create_table(name, {"id": [1]})
        yield catalog


def word(text: str) -> str:
    """A statement in short."""
    if "pg_advisory_xact_lock" in text:
        return "lock"
    if text.startswith("UPDATE"):
        return f"update {text.split()[1]}"
    verb, table = _WORDS.match(text).groups()  # type: ignore[union-attr]
    if verb == "SELECT":
        return f"{'hold' if 'is_behind' in text else 'read'} {table}"
    return " ".join(filter(None, (verb.lower(), table)))


def statements(catalog: dn.Catalog, work: Callable[[], object]) -> list[str]:
    """Those of a piece of work, done for the third time: what is set up once does not count."""
    for _ in range(2):
        work()
    seen: list[str] = []
    engine = catalog.store.database.engine

    def executed(_: object, __: object, text: str, *___: object) -> None:
        seen.append(word(text))

    def committed(_: object) -> None:
        seen.append("commit")

    sa.event.listen(engine, "before_cursor_execute", executed)
    sa.event.listen(engine, "commit", committed)
    try:
        work()
    finally:
        sa.event.remove(engine, "before_cursor_execute", executed)
        sa.event.remove(engine, "commit", committed)
    return seen


def commit(catalog: dn.Catalog) -> list[str]:
    """The statements of a ratification in this database."""
    left_out = "begin" if url_of(catalog.store).startswith("postgresql") else "lock"
    return [each for each in COMMIT if each != left_out]


def test_a_commit_of_one_table(shop: dn.Catalog) -> None:
    table = shop.table("shop.a")
    assert statements(shop, lambda: table.append({"id": [2]})) == [LOOK, *commit(shop)]


@pytest.mark.parametrize("names", [("shop.a",), ("shop.a", "shop.b")], ids=["one table", "two tables"])
def test_a_transaction(shop: dn.Catalog, names: tuple[str, ...]) -> None:
    def work() -> None:
        with shop.transaction() as txn:
            for name in names:
                txn.table(name).append({"id": [2]})

    opened = ["read iceberg_tables", "read dn_txn_changes"]
    assert statements(shop, work) == ["read dn_txns", *len(names) * opened, *commit(shop)]


def test_a_table_that_was_only_read_is_looked_at_by_a_statement_of_its_own(shop: dn.Catalog) -> None:
    def work() -> None:
        with shop.transaction() as txn:
            txn.table("shop.a").append({"id": [txn.table("shop.b").count()]})

    seen = statements(shop, work)
    assert sorted(seen[5:]) == sorted([LOOK, *commit(shop)])


def test_a_look_at_a_table_and_at_the_newest_transaction(shop: dn.Catalog) -> None:
    table = shop.table("shop.a")
    assert statements(shop, lambda: table.version) == [LOOK]
    assert statements(shop, shop.store.instant) == ["read dn_txns"]


@pytest.mark.parametrize("ids", [1, 2])
def test_where_a_table_was_is_looked_up_and_the_history_not_read(shop: dn.Catalog, ids: int) -> None:
    """Also in a catalog that was made before there was an index for it."""
    database = shop.store.database
    if database.engine.dialect.name != "sqlite":
        pytest.skip("PostgreSQL reads a table of a few rows without any index")
    database.write(
        lambda connection: connection.exec_driver_sql("DROP INDEX dn_txn_changes_of_table") and None)
    texts: list[tuple[str, object]] = []
    with CatalogStore(url_of(shop.store)) as store:
        sa.event.listen(store.database.engine, "before_cursor_execute",
                        lambda _, __, text, values, *___: texts.append((text, values)))
        store.pointers_at(9, ["abc"[at] for at in range(ids)])
        ((text, values),) = texts
        plan = store.database.read(
            lambda connection: connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", values).all())
    steps = [step for *_, step in plan if "dn_txn_changes" in step]
    assert steps and all(step.startswith("SEARCH") for step in steps), steps
    assert "dn_txn_changes_of_table" in steps[0]
