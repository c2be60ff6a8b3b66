"""Spark DataFrames in and out of a catalog's tables, alone and in a transaction of several."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[dn.Catalog]:
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as catalog:
        catalog.create_namespace("shop")
        catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]})
        catalog.create_table("shop.totals", {"orders": [2]})
        yield catalog


def ids(rows: Any) -> list[int]:
    return sorted(row["id"] for row in rows.collect())


def test_a_table_is_written_and_read_by_spark(spark: Any, shop: dn.Catalog) -> None:
    table = shop.create_table("shop.made", spark.range(3))
    table.append(spark.range(3, 5))
    table.delete("id = 0", engine="spark")
    assert ids(table.to_df()) == [1, 2, 3, 4] and ids(table.as_of(0).to_df()) == [0, 1, 2]
    table.merge(spark.range(4, 6), "t.id = s.id", target_alias="t", source_alias="s") \
        .when_not_matched_insert_all().execute()
    assert ids(shop.table("shop.made").to_df()) == [1, 2, 3, 4, 5]
    with pytest.raises(errors.UnsupportedProtocol, match="catalogManaged"):
        dn.open(table.path)


def test_a_stream_reads_what_is_published(spark: Any, shop: dn.Catalog, tmp_path: Path) -> None:
    orders = shop.table("shop.orders")
    copy = dn.create(tmp_path / "copy", orders.schema)
    for number in (3, 4):
        orders.append({"id": [number], "price": [0]})
        copy.write_stream(orders.read_stream(spark), checkpoint=tmp_path / "stream",
                          trigger="availableNow").awaitTermination()
        assert ids(copy.to_df()) == list(range(1, number + 1))


def test_a_transaction_takes_dataframes_and_gives_them(spark: Any, shop: dn.Catalog) -> None:
    with shop.transaction() as txn:
        orders = txn.table("shop.orders")
        orders.append(spark.createDataFrame([(3, 30)], "id bigint, price bigint"))
        orders.delete("id = 1", engine="spark")
        assert ids(orders.to_df()) == [2, 3]
        count = orders.to_df().count()
        txn.table("shop.totals").overwrite(spark.createDataFrame([(count,)], "orders bigint"))
        assert ids(shop.table("shop.orders").to_df()) == [1, 2]
    assert ids(shop.table("shop.orders").to_df()) == [2, 3]
    assert [row["orders"] for row in shop.table("shop.totals").to_df().collect()] == [2]
    assert shop.table("shop.orders").version == shop.table("shop.totals").version == 1


def test_what_spark_has_read_counts(spark: Any, shop: dn.Catalog, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*.parquet"))
    txn = shop.transaction()
    count = txn.table("shop.orders").to_df().count()
    txn.table("shop.totals").overwrite(spark.createDataFrame([(count,)], "orders bigint"))
    shop.table("shop.orders").append({"id": [3], "price": [30]})
    with pytest.raises(errors.ConcurrentAppendException) as caught:
        txn.commit()
    assert caught.value.conflict.table == "shop.orders"
    assert shop.table("shop.totals").version == 0
    assert len(sorted(tmp_path.rglob("*.parquet"))) == len(before) + 1  # the winner's
