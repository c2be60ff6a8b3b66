"""Tables of Unity Catalog in buckets: which keys are asked for and when, and that none can be seen."""

from __future__ import annotations

import logging
import pickle
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")
pytest.importorskip("moto", reason="moto is not installed")
pytest.importorskip("obstore", reason="obstore is not installed")

import deltanb as dn
from deltanb import errors
from deltanb.catalog.store.names import TableName
from deltanb.options import StepClock
from deltanb.testing.s3_server import ACCESS, Request, S3Server
from tests.catalog.unity.clients import MAINTENANCE, catalog_of
from tests.catalog.unity.fake import Unity
from tests.catalog.unity.fake_faults import Answer, Asked, Does, Serve, older_refusal, refusal
from tests.helpers import ids
from tests.patience import PATIENCE

HOUR = 3_600_000
SECRETS = {"secret_access_key": "hush-of-unity", "session_token": "short-lived-of-unity"}
KEYS = {"access_key_id": "vended-id", **SECRETS}
TABLE_KEYS, STAGING_KEYS = "getTableCredentials", "getStagingTableCredentials"
PATH_KEYS = "older.generateTemporaryPathCredentials"


@pytest.fixture
def clock() -> Iterator[StepClock]:
    stopped = StepClock(step=0)
    with dn.set_options(clock=stopped):
        yield stopped


@pytest.fixture
def unity(bucket: str, tmp_path: Path, clock: StepClock) -> Unity:
    unity = Unity(tmp_path, "0.7", f"{bucket}/managed")
    unity.maintenance, unity.keys, unity.expires = MAINTENANCE, KEYS, clock.now + HOUR
    return unity


@pytest.fixture
def options(s3_server: S3Server) -> dict[str, str]:
    """Region and endpoint: a catalog says neither."""
    return {**{name: value for name, value in s3_server.options.items() if not name.startswith("aws_access")
               and not name.startswith("aws_secret")}, "max_retries": "0"}


@pytest.fixture
def shop(unity: Unity, options: dict[str, str]) -> dn.Catalog:
    catalog = catalog_of(unity, storage_options=options)
    catalog.create_namespace("shop")
    return catalog


def signers(requests: list[Request]) -> set[str]:
    """The keys that requests were signed with."""
    matches = [re.search(r"Credential=([^/]+)/", each.headers.get("authorization", "")) for each in requests]
    assert all(matches)
    return {each[1] for each in matches if each}


def keys_asked(unity: Unity) -> list[str]:
    """The operations that keys were asked for, in order."""
    return [asked.query.get("operation") or (asked.body or {}).get("operation") or "staging"
            for asked in unity.requests if asked.operation in (TABLE_KEYS, STAGING_KEYS, PATH_KEYS)]


def objects(s3_server: S3Server, uri: str) -> list[str]:
    from deltanb.store.object import ObjectStore

    return sorted(each.name for each in ObjectStore(uri, s3_server.options).list_all(""))


# -- which keys are asked for --------------------------------------------------------------------------


def test_a_table_is_made_with_the_keys_of_its_staging_table(
    unity: Unity, shop: dn.Catalog, s3_server: S3Server
) -> None:
    unity.clear()
    with s3_server.counted() as seen:
        table = shop.create_table("shop.orders", {"id": [1]})
    assert table.path.startswith(unity.root) and ids(table) == [1]
    assert signers(seen) == {"vended-id"}
    assert unity.counts["createStagingTable"] == unity.counts["createTable"] == 1
    assert unity.counts[STAGING_KEYS] == 0, "they came with the staging table"


def test_keys_of_a_staging_table_that_end_are_asked_for_by_its_id(
    unity: Unity, shop: dn.Catalog, clock: StepClock
) -> None:
    made = []

    def late(asked: Asked, serve: Serve) -> Answer:
        answer = serve()
        made.append(answer.body["table-id"])
        clock.advance(HOUR)
        unity.expires = clock.now + HOUR
        return answer

    unity.script("createStagingTable", late)
    table = shop.create_table("shop.orders", {"id": [1]})
    asked = [each.names["table_id"] for each in unity.requests if each.operation == STAGING_KEYS]
    assert set(asked) == set(made) and len(made) == 1 and ids(table) == [1]


def test_keys_of_a_staging_table_that_have_always_ended_are_refused(
    unity: Unity, shop: dn.Catalog, clock: StepClock
) -> None:
    unity.expires = clock.now - 1
    with pytest.raises(errors.StorageError, match="have expired already"):
        shop.create_table("shop.orders", {"id": [1]})
    assert unity.counts["createTable"] == 0


def test_opening_asks_for_keys_to_read_and_the_first_write_for_those_to_write(
    unity: Unity, shop: dn.Catalog, options: dict[str, str]
) -> None:
    shop.create_table("shop.orders", {"id": [1]})
    unity.clear()
    table = catalog_of(unity, storage_options=options).table("shop.orders")
    assert ids(table) == [1]
    assert unity.counts.pop("loadTable") == 2  # opened, and read as it is now
    assert dict(unity.counts) == {"getConfig": 1, TABLE_KEYS: 1} and keys_asked(unity) == ["READ"]
    for number in (2, 3):
        table.append({"id": [number]})
    assert keys_asked(unity) == ["READ", "READ_WRITE"] and ids(table) == [1, 2, 3]


def test_a_log_that_was_read_with_vended_keys_is_read_again_from_the_disk(
    unity: Unity, shop: dn.Catalog, options: dict[str, str], s3_server: S3Server, tmp_path: Path
) -> None:
    """By whoever the catalog vends keys to that the bucket takes."""
    shop.create_table("shop.orders", {"id": [1]}).append({"id": [2]})
    with dn.set_options(log_cache=tmp_path / "cache"):
        for most in (9, 0):
            dn.DeltaLog.clear_cache()
            with s3_server.counted() as requests:
                table = catalog_of(unity, storage_options=options).table("shop.orders")
                assert table.snapshot.num_files == 2
            contents = [one.key for one in requests  # staged commits are named by the catalog, and not listed
                        if re.search(r"\.(json|crc|parquet)$", one.key) and "_staged" not in one.key]
            assert bool(contents) == bool(most) and len(contents) <= most
        dn.DeltaLog.clear_cache()
        with s3_server.failing(lambda request: "403"), pytest.raises(errors.DeltaError):
            catalog_of(unity, storage_options=options).table("shop.orders").snapshot.version  # noqa: B018
    content = b"".join(file.read_bytes() for file in (tmp_path / "cache").rglob("*") if file.is_file())
    assert content and not [value for value in KEYS.values() if value.encode() in content]


COMMANDS: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "append": lambda t: t.append({"id": [9]}), "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"id": "id + 10"}, where="id = 1"),
    "overwrite": lambda t: t.overwrite({"id": [9]}),
    "add columns": lambda t: t.add_columns("name string"), "optimize": lambda t: t.optimize(),
    "vacuum": lambda t: t.vacuum(), "restore": lambda t: t.restore(0),
    "checkpoint": lambda t: t.log.checkpoint(),
}


@pytest.fixture(params=["managed", "external"])
def place(request: pytest.FixtureRequest, bucket: str) -> str | None:
    """Where a table is made: None where the catalog says it."""
    return None if request.param == "managed" else f"{bucket}/ours/orders"


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(unity: Unity, shop: dn.Catalog, options: dict[str, str], tmp_path: Path, name: str,
                  place: str | None) -> None:
    if place is not None:
        unity.maintenance = ()  # what may be done to an external table is not the catalog's to say
    table, folder = (shop.create_table("shop.orders", {"id": [1, 2]}, location=place),
                     dn.create(tmp_path / "folder", {"id": [1, 2]}))
    for each in (table, folder):
        each.append({"id": [3]})
        COMMANDS[name](each)
    again = catalog_of(unity, storage_options=options).table("shop.orders")
    assert ids(again) == ids(folder) and again.version == table.version == folder.version
    assert again.verify(files="all").is_sound


def test_keys_are_renewed_before_they_end(
    unity: Unity, shop: dn.Catalog, clock: StepClock, s3_server: S3Server
) -> None:
    table = shop.create_table("shop.orders", {"id": [1]})
    table.append({"id": [2]})
    unity.clear()
    for number in range(3, 6):
        clock.advance(HOUR)
        unity.expires = clock.now + HOUR
        unity.keys = {**KEYS, "access_key_id": f"vended-id-{number}"}
        with s3_server.counted() as seen:
            table.append({"id": [number]})
        assert signers(seen) == {f"vended-id-{number}"}
    assert ids(table) == [1, 2, 3, 4, 5]
    assert keys_asked(unity) == ["READ_WRITE"] * 3, "who writes reads with the same keys"


@pytest.mark.parametrize("expires", [None, HOUR])
def test_keys_that_a_service_calls_expired_are_replaced(
    unity: Unity, shop: dn.Catalog, clock: StepClock, s3_server: S3Server, expires: int | None
) -> None:
    unity.expires = None if expires is None else clock.now + expires
    table = shop.create_table("shop.orders", {"id": [1]})
    unity.keys = {**KEYS, "access_key_id": "second"}
    with s3_server.failing(lambda request: None if signers([request]) == {"second"} else "expired"):
        table.append({"id": [2]})
    assert ids(table) == [1, 2] and table.version == 1


# -- what is refused -----------------------------------------------------------------------------------


def test_who_may_not_write_writes_nothing(
    unity: Unity, shop: dn.Catalog, options: dict[str, str], s3_server: S3Server, bucket: str,
    place: str | None,
) -> None:
    table = shop.create_table("shop.orders", {"id": [1]}, location=place)
    table.append({"id": [2]})  # so that OPTIMIZE and RESTORE write
    reader = catalog_of(unity, storage_options=options).table("shop.orders")
    unity.script(lambda asked: asked.query.get("operation") == "READ_WRITE",
                 refusal(403, "PermissionDeniedException", "MODIFY is needed"), forever=True)
    before = objects(s3_server, bucket)
    for work in COMMANDS.values():
        with pytest.raises(errors.Forbidden, match="MODIFY is needed"):
            work(reader)
    assert ids(reader) == [1, 2] and objects(s3_server, bucket) == before


def test_the_keys_of_the_longest_prefix_are_used(
    unity: Unity, shop: dn.Catalog, options: dict[str, str], s3_server: S3Server
) -> None:
    location = shop.create_table("shop.orders", {"id": [1]}).path

    def credential(prefix: str, key: str, operation: str) -> dict[str, Any]:
        names = {"s3.access-key-id": key, "s3.secret-access-key": "hush-of-unity"}
        return {"prefix": prefix, "operation": operation, "config": names, "expiration-time-ms": None}

    def several(asked: Asked, serve: Serve) -> Answer:
        operation = asked.query["operation"]
        return Answer(200, {"storage-credentials": [credential(prefix, key, operation) for prefix, key in (
            (unity.root, "of-all"), (f"{location}/", "of-the-table"), (f"{location}/deep", "of-a-part"),
            (f"{location}x", "of-another"))]})

    unity.script(TABLE_KEYS, several, forever=True)
    table = catalog_of(unity, storage_options=options).table("shop.orders")
    with s3_server.counted() as seen:
        table.append({"id": [2]})
    assert signers(seen) == {"of-the-table"}
    unity.clear()
    unity.script(TABLE_KEYS, Answer(200, {"storage-credentials": [
        credential(f"{location}x", "of-another", "READ")]}), forever=True)
    with pytest.raises(errors.Forbidden, match=f"no keys to READ at {location}"):
        catalog_of(unity, storage_options=options).table("shop.orders").count()


def answered(**values: Any) -> Does:
    """The usual answer, with its keys replaced."""
    def do(asked: Asked, serve: Serve) -> Answer:
        body = serve().body
        one = {**body["storage-credentials"][0], **values}
        return Answer(200, {"storage-credentials": [one]})

    return do


SAS = "sv=2022&sig=hush-of-unity"
STRANGE: dict[str, tuple[Does, str]] = {
    "of another service": (
        answered(config={"azure.sas-token": SAS}), "'azure.sas-token', which is not for"),
    "of two services": (answered(config={"gcs.oauth-token": "hush-of-unity", "s3.access-key-id": "i"}),
                      "'gcs.oauth-token', which is not for"),
    "half of one": (answered(config={"s3.access-key-id": "i"}), "without 's3.secret-access-key'"),
    "no text": (answered(config={"s3.secret-access-key": ["hush-of-unity"]}),
                "secret-access-key.* is malformed"),
    "no object": (answered(config="hush-of-unity"), "config is malformed"),
    "no operation": (answered(operation="WRITE"), "operation is malformed"),
    "ended": (answered(**{"expiration-time-ms": 1}), "have expired already"),
    "refused": (refusal(403, "PermissionDeniedException", "SELECT is needed"), "SELECT is needed"),
}


@pytest.mark.parametrize("case", STRANGE)
def test_keys_that_cannot_be_used_are_refused_by_name(
    unity: Unity, shop: dn.Catalog, options: dict[str, str], case: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shop.create_table("shop.orders", {"id": [1]})
    does, message = STRANGE[case]
    unity.script(TABLE_KEYS, does, forever=True)
    with pytest.raises(errors.DeltaError, match=message) as caught:
        catalog_of(unity, storage_options=options).table("shop.orders").count()
    shows_no_secret(caught.value, caplog.text)


# -- where they can be seen ----------------------------------------------------------------------------


def shows_no_secret(*things: Any) -> None:
    """No text of things, of what they have or of what caused them has a key."""
    for thing in things:
        texts = [str(thing), repr(thing)]
        while isinstance(thing, BaseException):
            texts += [str(thing), str(vars(thing)), *getattr(thing, "__notes__", ())]
            thing = thing.__cause__ or thing.__context__
        shown = [text for text in texts for secret in (*SECRETS.values(), *ACCESS.values())
                 if secret in text and secret not in ("tester", "us-east-1")]
        assert not shown


def test_no_key_can_be_seen(
    unity: Unity, shop: dn.Catalog, s3_server: S3Server, options: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    unity.token = "hush-token"
    with unity.serving() as url:
        address = url.replace("http:", "uc:") + "/main"
        with dn.connect(address, token="hush-token", storage_options=options) as catalog:
            look_for_keys(catalog, s3_server, caplog)


def look_for_keys(catalog: Any, s3_server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    table = catalog.create_table("shop.orders", {"id": [1]})
    table.append({"id": [2]})
    seen: list[Any] = []
    for fault in ("403", "expired", "500"):
        with s3_server.failing(lambda _, fault=fault: fault), pytest.raises(  # type: ignore[misc]
                errors.DeltaError) as caught:
            table.append({"id": [3]})
        seen.append(caught.value)
    with pytest.raises(errors.DeltaError) as caught, table.transaction() as txn:
        txn.delete("id = 1")
        catalog.table("shop.orders").delete("id = 1")
    seen.append(caught.value)
    store, access = table.log.store, catalog.delta.access
    seen += [catalog, catalog.store, catalog.store.connection, access, table, table.log, store, store.access,
             store.bucket, store.bucket._vending, table.snapshot, table.history(), table.explain(),
             catalog.store.credentials(TableName.of("shop.orders"), "READ"),
             *(vars(each) for each in (access, store, store.bucket, store.bucket._vending, table.log)),
             table.timeline(), caplog.text]
    for thing in (table, store, table.snapshot):
        try:
            seen.append(pickle.dumps(thing))
        except errors.IllegalStateError as error:
            seen.append(error)
    for name in objects(s3_server, table.path):
        if name.endswith((".json", ".crc")):
            seen.append(store.read(name))
    shows_no_secret(*seen)
    assert not [thing for thing in seen if "hush-token" in str(thing)]
    assert "Credentials for" in caplog.text


# -- external tables -----------------------------------------------------------------------------------


def test_an_external_table_in_a_bucket(
    unity: Unity, shop: dn.Catalog, bucket: str, options: dict[str, str], s3_server: S3Server
) -> None:
    location = f"{bucket}/ours/orders"
    unity.clear()
    with s3_server.counted() as seen:
        table = shop.create_table("shop.orders", {"id": [1]}, location=location)
    assert set(keys_asked(unity)) == {"PATH_CREATE_TABLE"} and signers(seen) == {"vended-id"}
    unity.clear()
    with s3_server.counted() as seen:
        table.append({"id": [2]})
        assert ids(catalog_of(unity, storage_options=options).table("shop.orders")) == [1, 2]
    assert keys_asked(unity) == ["READ", "READ_WRITE", "READ"] and signers(seen) == {"vended-id"}
    shop.drop_table("shop.orders")
    unity.clear()
    again = shop.register_table("shop.again", location)
    assert keys_asked(unity)[0] == "PATH_READ" and ids(again) == [1, 2]


def test_a_drop_keeps_what_an_external_table_has_in_its_bucket(
    unity: Unity, shop: dn.Catalog, bucket: str, s3_server: S3Server
) -> None:
    location = f"{bucket}/ours/orders"
    shop.create_table("shop.orders", {"id": [1]}, location=location).append({"id": [2]})
    before = objects(s3_server, bucket)
    with pytest.raises(errors.InvalidArgument, match="without purge"):
        shop.drop_table("shop.orders", purge=True)
    assert shop.list_tables("shop") == ["shop.orders"]
    shop.drop_table("shop.orders")
    assert objects(s3_server, bucket) == before and shop.list_tables("shop") == []
    with pytest.raises(errors.TableAlreadyExists, match="register_table"):
        shop.create_table("shop.orders", {"id": [3]}, location=location)
    assert objects(s3_server, bucket) == before


def test_writers_race_in_a_bucket(
    unity: Unity, shop: dn.Catalog, options: dict[str, str], s3_server: S3Server, place: str | None
) -> None:
    table = shop.create_table("shop.orders", {"id": [0]}, location=place)
    start = threading.Barrier(3)

    def append(first: int) -> None:
        own = catalog_of(unity, storage_options=options).table("shop.orders")
        start.wait(PATIENCE)
        for number in range(first, first + 3):
            own.append({"id": [number]})

    with (dn.set_options(max_commit_attempts=1000), s3_server.counted() as seen,
          ThreadPoolExecutor(3) as pool):
        for done in [pool.submit(copy_context().run, append, first) for first in (1, 4, 7)]:
            done.result(PATIENCE)
    assert ids(table) == list(range(10)) and table.version == 9
    assert signers(seen) == {"vended-id"} and not table.verify(files="all").proved


def test_an_external_place_without_keys_is_refused(
    unity: Unity, shop: dn.Catalog, bucket: str, s3_server: S3Server
) -> None:
    unity.script(PATH_KEYS, older_refusal(403, "PERMISSION_DENIED", "no external location"), forever=True)
    for work in (lambda: shop.create_table("shop.t", {"id": [1]}, location=f"{bucket}/ours/t"),
                 lambda: shop.register_table("shop.t", f"{bucket}/ours/t")):
        with pytest.raises(errors.Forbidden, match="no external location"):
            work()
    assert objects(s3_server, bucket) == [] and shop.list_tables("shop") == []
