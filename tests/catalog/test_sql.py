"""SQL over a catalog, wherever it is: what statements do in the process, over HTTP, on PostgreSQL and in a
bucket, and what becomes of those of somebody who may not write.

That each does what its method does is in ``tests/query/statements``; here the outcome on a catalog of SQLite
in the process is that of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.store import CatalogStore
from deltanb.catalog.transaction import CatalogTransaction
from deltanb.query.result import StatementResult
from deltanb.query.statements.kinds import KINDS
from deltanb.testing.s3_server import S3Server
from tests.examples import every
from tests.helpers import tree
from tests.query.statements.test_matrix import FLIGHTS, LATE, plain_result

STATEMENTS = [
    *(kind.example for kind in KINDS), "ALTER TABLE flights RENAME TO trips", "DROP SCHEMA catalog.stock",
    "CREATE OR REPLACE TABLE flights AS SELECT month, delay + 1 AS delay FROM flights",
    "DROP TABLE flights PURGE", "CREATE TABLE catalog.shop.more (id int)", "DELETE FROM flights@v0",
    "SHOW CREATE TABLE catalog.shop.orders", "SELECT * FROM flights@v0, catalog.shop.orders"]
READING = ("SELECT", "DESCRIBE", "SHOW", "EXPLAIN")
TOKENS = Tokens.of({"tokens": [
    {"name": "owner", "token": "o", "permissions": {"*": "write"}},
    {"name": "reader", "token": "r", "permissions": {"*": "read"}}]})


class Outcome(NamedTuple):
    """What came of a statement."""

    answer: Any
    """What it answered, or the class of the error."""
    before: dict[str, Any]
    after: dict[str, Any]
    """What the catalog had, and has."""

    @property
    def is_change(self) -> bool:
        return self.before != self.after


def furnish(catalog: dn.Catalog, folder: Path) -> None:
    """Make the tables that the statements are about, in the catalog and in the folder in which they run."""
    folder.mkdir()
    catalog.create_namespace("stock")
    catalog.create_table("shop.orders", {"id": [1]})
    catalog.create_table("shop.flights", FLIGHTS, partition_by="month")
    (folder / "rain").mkdir()
    pq.write_table(pa.table({"mm": [1.0]}), folder / "rain" / "a.parquet")


def outcome(sql: str, catalog: dn.Catalog, folder: Path) -> Outcome:
    """Run a statement in a folder, and see what came of it."""
    before = state(catalog)
    names = {"flights": catalog.table("shop.flights"), "late": pa.table(LATE), "catalog": catalog}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        try:
            answer = plain(dn.sql(sql, **names))
        except errors.DeltaError as error:
            answer = type(error)
    return Outcome(answer, before, state(catalog))


def plain(result: Any) -> Any:
    """What a result says, for comparison."""
    match result:
        case StatementResult():
            return str(result)
        case CatalogTransaction():
            return result.status, result.committed and result.committed.versions
    return plain_result(result)


def state(catalog: dn.Catalog) -> dict[str, Any]:
    """What the catalog has: of each table its rows, and what its commits say of themselves."""
    spaces = catalog.list_namespaces()
    tables = {name: catalog.table(name) for space in spaces for name in catalog.list_tables(space)}
    return {"schemas": spaces, **{name: (
        sorted(map(str, table.to_arrow().to_pylist())),
        [(one.operation, one.is_blind_append) for one in table.history()]) for name, table in tables.items()}}


@pytest.fixture(autouse=True)
def unsynced() -> Iterator[None]:
    """No test here is about the disk."""
    with dn.set_options(durability="none"):
        yield


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Outcome]:
    """What comes of a statement on a catalog of SQLite in the process."""
    outcomes: dict[str, Outcome] = {}

    def of(sql: str) -> Outcome:
        if sql not in outcomes:
            folder = tmp_path_factory.mktemp("reference")
            with dn.Catalog(f"sqlite:///{folder}/catalog.db", folder / "lake") as catalog:
                catalog.create_namespace("shop")
                furnish(catalog, folder / "here")
                outcomes[sql] = outcome(sql, catalog, folder / "here")
        return outcomes[sql]
    return of


@pytest.mark.parametrize("sql", every(5, STATEMENTS))
def test_a_statement_does_on_every_catalog_what_it_does_on_one_in_the_process(
    sql: str, catalog: dn.Catalog, reference: Callable[[str], Outcome], tmp_path: Path
) -> None:
    furnish(catalog, tmp_path / "here")
    assert outcome(sql, catalog, tmp_path / "here") == reference(sql)


@pytest.mark.parametrize("sql", every(7, [sql for sql in STATEMENTS if "CLONE" not in sql]))
def test_so_it_does_where_the_warehouse_is_a_bucket(
    sql: str, reference: Callable[[str], Outcome], s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    # A clone in a folder needs an access of its own to the bucket.
    url = f"sqlite:///{tmp_path}/catalog.db"
    with dn.Catalog(url, f"{bucket}/lake", storage_options=s3_server.options) as catalog:
        catalog.create_namespace("shop")
        furnish(catalog, tmp_path / "here")
        assert outcome(sql, catalog, tmp_path / "here") == reference(sql)


@pytest.mark.parametrize("sql", every(5, STATEMENTS))
def test_who_may_not_write_changes_nothing(
    sql: str, reference: Callable[[str], Outcome], tmp_path: Path
) -> None:
    pytest.importorskip("uvicorn", reason="the server is an extra: pip install 'deltanb[catalog]'")
    from deltanb.catalog.rest.server import serve

    expected = reference(sql)
    with CatalogStore(f"sqlite:///{tmp_path}/catalog.db", durability="none") as store, serve(
            store, tmp_path / "lake", tokens=TOKENS) as server, dn.connect(server.url, "o") as owner:
        owner.create_namespace("shop")
        furnish(owner, tmp_path / "here")
        files = tree(tmp_path / "lake")
        if sql.startswith("GENERATE"):  # it commits nothing: who may write its lists, the storage says
            place = Path(owner.table("shop.flights").path).relative_to(tmp_path / "lake")
            files |= {f"{place}/_symlink_format_manifest/month={month}/manifest" for month in (1, 2)}
        with dn.connect(server.url, "r") as catalog:
            seen = outcome(sql, catalog, tmp_path / "here")
        assert seen.after == seen.before == expected.before == state(owner)
        may_be = {errors.Forbidden} if expected.is_change else {str(expected.answer)}
        if not sql.startswith(READING):  # the server need not look whether there is anything to do
            may_be.add(errors.Forbidden)
        assert (seen.answer if seen.answer is errors.Forbidden else str(seen.answer)) in may_be
        assert tree(tmp_path / "lake") == files
