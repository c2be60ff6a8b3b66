"""A catalog whose warehouse is in a bucket: tables made, changed together, and struck between their puts."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytest.importorskip("obstore")

import deltanb as dn
from deltanb.catalog.iceberg.file_io import file_io_properties
from deltanb.errors import CommitFailed, DeltaError, InvalidArgument, StorageError
from deltanb.store.object import ObjectStore
from deltanb.testing.s3_server import ACCESS, Request, S3Server
from tests.examples import every
from tests.helpers import ids
from tests.patience import PATIENCE


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/catalog.db"


@pytest.fixture
def catalog(s3_server: S3Server, bucket: str, url: str) -> Iterator[dn.Catalog]:
    with dn.Catalog(url, f"{bucket}/lake", storage_options=s3_server.options) as catalog:
        catalog.create_namespace("shop")
        yield catalog


def both(catalog: dn.Catalog) -> tuple[list[int], list[int]]:
    return ids(catalog.table("shop.orders")), ids(catalog.table("shop.totals"))


@pytest.fixture
def shop(catalog: dn.Catalog) -> dn.Catalog:
    for name in ("orders", "totals"):
        catalog.create_table(f"shop.{name}", {"id": [1]})
    return catalog


def test_tables_are_made_changed_renamed_and_dropped(catalog: dn.Catalog, bucket: str) -> None:
    table = catalog.create_table("shop.orders", {"id": [1, 2]})
    assert table.path.startswith(f"{bucket}/lake/shop/orders-")
    table.append({"id": [3]})
    table.delete("id = 1")
    assert ids(catalog.table("shop.orders")) == [2, 3]
    assert catalog.table("shop.orders").version == 2
    catalog.rename_table("shop.orders", "shop.sold")
    assert ids(catalog.table("shop.sold")) == [2, 3]
    store = catalog.warehouse.store
    assert [one for one in store.list_all("") if one.name.startswith("shop/orders-")]
    catalog.drop_table("shop.sold", purge=True)
    assert list(store.list_all("")) == []


def test_a_table_that_is_there_is_taken_over(catalog: dn.Catalog, bucket: str, s3_server: S3Server) -> None:
    dn.create(f"{bucket}/lake/old", {"id": [1]}, storage_options=s3_server.options)
    table = catalog.register_table("shop.old", f"{bucket}/lake/old")
    table.append({"id": [2]})
    assert ids(catalog.table("shop.old")) == [1, 2]


def test_tables_are_committed_together_or_not_at_all(shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        txn.table("shop.orders").append({"id": [2]})
        txn.table("shop.totals").overwrite({"id": [2]})
    assert both(shop) == ([1, 2], [2])
    with pytest.raises(DeltaError), shop.transaction() as txn:
        txn.table("shop.orders").append({"id": [3]})
        txn.table("shop.totals").update({"id": "id + 1"})
        shop.table("shop.totals").delete("id = 2")
    assert both(shop) == ([1, 2], [])


def test_tables_under_locks_are_committed_together(shop: dn.Catalog) -> None:
    orders, totals = shop.table("shop.orders"), shop.table("shop.totals")
    with dn.locks.LockManager().new_transaction() as txn:
        txn.table(orders).append({"id": [2]})
        txn.table(totals).append({"id": [2]})
        txn.commit()
    assert both(shop) == ([1, 2], [1, 2])


@pytest.mark.parametrize("fault", ["403", "lost", "late 500"])
def test_an_answer_that_fails_at_any_put_leaves_all_tables_or_none_changed(
    s3_server: S3Server, shop: dn.Catalog, fault: str
) -> None:
    """Each put of a commit of both in turn; an answer that is lost is no failure, where the put is there."""
    expected = [1]
    for strike in range(1, 30):
        seen = 0

        def fails(request: Request, strike: int = strike) -> str | None:
            nonlocal seen
            seen += request.method == "PUT"
            return fault if request.method == "PUT" and seen == strike else None

        new = strike + 1
        try:
            with s3_server.failing(fails), shop.transaction() as txn:
                txn.table("shop.orders").append({"id": [new]})
                txn.table("shop.totals").append({"id": [new]})
        except (DeltaError, OSError):
            assert fault == "403"
        else:
            expected.append(new)
        assert both(shop) == (expected, expected), f"struck at put {strike}"
        if seen < strike:
            break
    assert 5 < strike < 29, "data, staged commits and published ones of both"


SCRIPT = """
import sys
import deltanb as dn
catalog = dn.Catalog(sys.argv[1], sys.argv[2], storage_options=dict(p.split("=", 1) for p in sys.argv[3:]))
with catalog.transaction() as txn:
    txn.table("shop.orders").append({"id": [2]})
    txn.table("shop.totals").append({"id": [2]})
"""


@pytest.mark.slow
@pytest.mark.parametrize("done", every(2, [False, True]))
def test_a_writer_killed_between_puts_leaves_all_tables_or_none_changed(
    s3_server: S3Server, shop: dn.Catalog, url: str, bucket: str, done: bool
) -> None:
    """At each put in turn; ``done``: it reaches the bucket, else it does not."""
    options = [f"{name}={value}" for name, value in s3_server.options.items()]
    results = []
    for strike in range(1, 30):
        writer: list[subprocess.Popen[bytes]] = []
        seen = 0

        def kills(
            request: Request, strike: int = strike, writer: list[subprocess.Popen[bytes]] = writer
        ) -> str | None:
            nonlocal seen
            seen += request.method == "PUT"
            if request.method != "PUT" or seen != strike:
                return None
            writer[0].kill()
            writer[0].wait()
            return None if done else "500"

        with s3_server.failing(kills):
            writer.append(subprocess.Popen([sys.executable, "-c", SCRIPT, url, f"{bucket}/lake", *options]))
            code = writer[0].wait(PATIENCE)
            while any(not request.ended for request in s3_server.requests):
                pass
        orders, totals = both(shop)
        assert orders == totals, f"killed at put {strike}"
        results.append(len(orders))
        if code == 0:
            break
        assert code == -9
        with shop.transaction() as txn:
            for name in ("orders", "totals"):
                txn.table(f"shop.{name}").overwrite({"id": [1]})
    assert results[0] == 1, "before the first file nothing is committed"
    assert results[-1] == 2
    assert len(results) > 5


def test_no_secret_is_told_or_kept(catalog: dn.Catalog, s3_server: S3Server, tmp_path: Path) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    secret = ACCESS["aws_secret_access_key"]
    shown = f"{catalog!r} {catalog.warehouse!r} {table!r} {table.detail()}".encode()
    shown += pickle.dumps(table.log.store)
    assert secret.encode() not in shown
    assert all(secret.encode() not in file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())


# -- Iceberg ------------------------------------------------------------------------------------


@pytest.fixture
def iceberg() -> Any:
    return pytest.importorskip("pyiceberg", reason="an extra: pip install 'deltanb[iceberg]'")


def test_rows_of_iceberg_tables_are_reached_by_the_same_credentials(
    iceberg: Any, catalog: dn.Catalog, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    table = catalog.create_table("shop.events", "id bigint", format="iceberg")
    assert table.location.startswith(f"{bucket}/lake/shop/events-")
    table.append({"id": [1, 2]})
    table.delete("id = 1")
    assert ids(catalog.table("shop.events")) == [2]
    orders = catalog.create_table("shop.orders", {"id": [1]})
    with catalog.transaction() as txn:
        txn.table("shop.events").append({"id": [3]})
        txn.table("shop.orders").append({"id": [3]})
    assert (ids(catalog.table("shop.events")), ids(orders)) == ([2, 3], [1, 3])
    with pytest.raises(CommitFailed), catalog.transaction() as txn:
        txn.table("shop.events").append({"id": [4]})
        catalog.table("shop.events").append({"id": [5]})
    assert ids(catalog.table("shop.events")) == [2, 3, 5]


def test_a_bucket_that_refuses_pyiceberg_is_told_as_such(
    iceberg: Any, catalog: dn.Catalog, s3_server: S3Server
) -> None:
    table = catalog.create_table("shop.events", "id bigint", format="iceberg")
    with s3_server.failing(lambda r: "403" if r.key.endswith(".parquet") else None), \
            pytest.raises(StorageError, match=r"files of shop\.events.*storage_options") as caught:
        table.append({"id": [1]})
    assert ACCESS["aws_secret_access_key"] not in str(caught.value)
    assert table.snapshot_id is None


@pytest.mark.parametrize("uri, options, expected", [
    ("s3://lake/t", {"aws_region": "x", "aws_session_token": "t", "timeout": "3s"},
     {"s3.region": "x", "s3.session-token": "t"}),
    ("abfss://c@a.dfs.core.windows.net/t", {"account_key": "a2V5"},
     {"adls.account-name": "a", "adls.account-key": "a2V5"}),
    ("gs://lake/t", {"bearer_token": "t"}, {"gcs.oauth2.token": "t"}),
])
def test_options_have_pyicebergs_names(
    uri: str, options: dict[str, str], expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    assert file_io_properties(ObjectStore(uri, options)) == expected


@pytest.mark.parametrize("uri, options, pattern", [
    ("s3://lake/t", {"sse_kms_key_id": "k"}, "no property for the storage option 'sse_kms_key_id'"),
    ("az://c/t", {"account_name": "a"}, "PyIceberg does not support az://.*abfss://c@ACCOUNT"),
])
def test_what_pyiceberg_cannot_be_told_is_refused(uri: str, options: dict[str, str], pattern: str) -> None:
    with pytest.raises(InvalidArgument, match=pattern):
        file_io_properties(ObjectStore(uri, options))
