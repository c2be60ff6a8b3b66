"""Tables of a Unity Catalog on Spark: frames, streams, statements, and keys that nobody sees."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
pytest.importorskip("httpx")
pytest.importorskip("moto", reason="moto is not installed")
pytest.importorskip("obstore", reason="obstore is not installed")

import deltanb as dn
from deltanb import errors
from deltanb.testing.s3_server import S3Server
from tests.catalog.unity.clients import MAINTENANCE, catalog_of
from tests.catalog.unity.fake import Unity

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECRETS = {"secret_access_key": "hush-of-unity", "session_token": "short-lived-of-unity"}
KEYS = {"access_key_id": "vended-id", **SECRETS}


def ids(frame: Any) -> list[int]:
    return sorted(row["id"] for row in frame.collect())


def unity_at(path: Path, location: str = "file") -> Unity:
    unity = Unity(path / "unity", "0.7", location)
    unity.maintenance = MAINTENANCE
    return unity


def in_folder(path: Path, server: S3Server, bucket: str) -> dn.DeltaTable:
    catalog = catalog_of(unity_at(path))
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]})


def external(path: Path, server: S3Server, bucket: str) -> dn.DeltaTable:
    catalog = catalog_of(unity_at(path))
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]}, location=path / "orders")


def in_bucket(path: Path, server: S3Server, bucket: str) -> dn.DeltaTable:
    unity = unity_at(path, f"{bucket}/managed")
    unity.keys = KEYS
    own = {name: value for name, value in server.options.items() if "access_key" not in name}
    catalog = catalog_of(unity, storage_options={**own, "max_retries": "0"})
    catalog.create_namespace("shop")
    return catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]})


PLACES: dict[str, Callable[[Path, S3Server, str], dn.DeltaTable]] = {
    "managed": in_folder, "external": external, "keys of a bucket": in_bucket}


@pytest.fixture(params=[
    pytest.param(name, marks=pytest.mark.thorough if name == "external" else ())  # to Spark it is any folder
    for name in PLACES])
def orders(request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server, bucket: str) -> dn.DeltaTable:
    return PLACES[request.param](tmp_path, s3_server, bucket)


def test_frames_come_out_and_go_in(spark: Any, orders: dn.DeltaTable) -> None:
    orders.append(spark.createDataFrame([(3, 30)], "id bigint, price bigint"))
    assert ids(orders.to_df()) == [1, 2, 3] and ids(orders.to_df().where("price > 10")) == [2, 3]
    assert ids(orders.as_of(0).to_df()) == [1, 2]
    orders.delete("id = 1", engine="spark")
    orders.merge(spark.createDataFrame([(2, 25), (4, 40)], "id bigint, price bigint"), "t.id = s.id",
                 target_alias="t", source_alias="s") \
        .when_matched_update_all().when_not_matched_insert_all().execute()
    assert {(row["id"], row["price"]) for row in orders.to_df().collect()} == {(2, 25), (3, 30), (4, 40)}
    assert not orders.verify(files="all").proved


def test_streams_end_in_it(spark: Any, orders: dn.DeltaTable, tmp_path: Path) -> None:
    source = dn.create(tmp_path / "source", {"id": [7, 8], "price": [70, 80]})
    stream = orders.write_stream(
        source.read_stream(spark), checkpoint=tmp_path / "in", trigger="availableNow")
    stream.awaitTermination()
    assert ids(orders.to_df()) == [1, 2, 7, 8]
    assert not orders.verify(files="all").proved


def test_a_stream_begins_in_it(
    spark: Any, orders: dn.DeltaTable, tmp_path: Path, s3_server: S3Server
) -> None:
    """The processes that read a stream know a path and no catalog, and have no keys but their own."""
    own: dict[str, Any] = {}
    if orders.path.startswith("s3:"):
        with pytest.raises(errors.InvalidArgument, match=r"read_stream\(storage_options=\.\.\.\)"):
            orders.read_stream(spark)
        own = {"storage_options": s3_server.options}
    copy = dn.create(tmp_path / "copy", orders.schema)
    for number in (3, 4):
        orders.append({"id": [number], "price": [0]})
        copy.write_stream(orders.read_stream(spark, **own), checkpoint=tmp_path / "out",
                          trigger="availableNow").awaitTermination()
        assert ids(copy.to_df()) == list(range(1, number + 1))


def test_keys_are_in_no_plan_and_no_setting(
    spark: Any, tmp_path: Path, s3_server: S3Server, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = in_bucket(tmp_path, s3_server, bucket).to_df()
    assert ids(frame) == [1, 2]
    frame.explain("extended")
    printed = capfd.readouterr()
    assert "Physical Plan" in printed.out
    for secret in SECRETS.values():
        assert not any(secret in text for text in (*printed, str(frame), str(spark.conf.getAll)))


def test_the_format_says_how_a_table_of_a_catalog_is_reached(spark: Any, tmp_path: Path) -> None:
    address = "uc://localhost:8080/main.shop.orders"
    frame = spark.createDataFrame([(3, 30)], "id bigint, price bigint")
    for work in (lambda: spark.read.format("deltanb").load(address).count(),
                 lambda: frame.write.format("deltanb").mode("append").save(address)):
        with pytest.raises(Exception, match=r"deltanb\.open\(address\)"):
            work()
    for work in (lambda: spark.read.format("deltanb").load("main.shop.orders").count(),
                 lambda: frame.write.format("deltanb").mode("append").save("main.shop.orders")):
        with pytest.raises(Exception, match=r"a folder of this name is '\./main\.shop\.orders'"):
            work()
    assert not Path("main.shop.orders").exists()
    with pytest.raises(errors.InvalidArgument, match=r"is the address of a table in a Unity Catalog"):
        dn.DeltaLog.for_table(address)
