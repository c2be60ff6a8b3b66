"""Credentials that a catalog vends: when it is asked, what each operation of a store does with its answers,
and where they can be seen."""

from __future__ import annotations

import base64
import gc
import hashlib
import hmac
import inspect
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

import deltanb as dn
from deltanb.catalog.iceberg.file_io import file_io_properties
from deltanb.concurrency import parallel
from deltanb.errors import DeltaError, Forbidden, IllegalStateError, InvalidArgument, StorageError
from deltanb.options import StepClock
from deltanb.store import clients
from deltanb.store import storage_options as accesses
from deltanb.store import vending as vendings
from deltanb.store.base import LogStore
from deltanb.store.object import ObjectStore
from deltanb.store.object_files import PART_SIZE
from deltanb.store.storage_options import borrow, lend, write_temp_credentials
from deltanb.store.upload import MAX_RENEWALS
from deltanb.store.vended import Vended, vended_store
from deltanb.store.vending import MARGIN, MIN_AGE, NAMES, PAUSE, READ, READ_WRITE, Vending
from deltanb.testing.s3_server import ACCESS, Request, S3Server
from tests.examples import crossed
from tests.patience import WatchedLock
from tests.store.test_object_services import ACCOUNT, KEY, azurite

pytest.importorskip("obstore")

__all__ = ["azurite"]
HOUR = 3_600_000
SECRET, TOKEN = "hush-of-a-catalog", "short-lived"
OWN = ("aws_access_key_id", "aws_secret_access_key")


class Catalog:
    """One that vends a new credential at every question: ``READ-1``, ``READ_WRITE-2``, …"""

    def __init__(self, clock: StepClock, life: int | None = HOUR) -> None:
        self.clock, self.life = clock, life
        self.asked: list[str] = []
        self.refusal: Exception | None = None
        self.answer: Callable[[str], Mapping[str, Any]] = self._keys

    def _keys(self, name: str) -> Mapping[str, Any]:
        return {"s3.access-key-id": name, "s3.secret-access-key": SECRET, "s3.session-token": TOKEN,
                "azure.sas-token": None, "gcs.oauth-token": None}

    def vend(self, operation: str) -> Vended:
        self.asked.append(operation)
        if self.refusal is not None:
            raise self.refusal
        return Vended(self.answer(f"{operation}-{len(self.asked)}"),
                      None if self.life is None else self.clock.now + self.life)


@pytest.fixture
def clock() -> Iterator[StepClock]:
    stopped = StepClock(step=0)
    with dn.set_options(clock=stopped):
        yield stopped


@pytest.fixture
def catalog(clock: StepClock) -> Catalog:
    return Catalog(clock)


@pytest.fixture
def options(s3_server: S3Server) -> dict[str, str]:
    """Region and endpoint: a catalog says neither."""
    return {**{name: value for name, value in s3_server.options.items() if name not in OWN},
            "max_retries": "0"}


@pytest.fixture
def own(s3_server: S3Server, bucket: str) -> ObjectStore:
    """The same place as its owner sees it."""
    return ObjectStore(f"{bucket}/t", s3_server.options)


@pytest.fixture
def store(own: ObjectStore, catalog: Catalog, options: dict[str, str]) -> ObjectStore:
    own.put("a", b"1")
    own.bucket.must_put_conditionally(own.place.key)  # which is asked once for all tables of a service
    return vended_store(own.root, options, catalog.vend)


def keys(requests: list[Request]) -> list[str]:
    """What each request was signed by, in order, each once in a row."""
    signed = [match[1] for one in requests
              if (match := re.search(r"Credential=([^/]+)/", one.headers.get("authorization", "")))]
    assert len(signed) == len(requests), "a request without a signature"
    return [key for key, before in zip(signed, [None, *signed], strict=False) if key != before]


def refusing(*names: str, fault: str | None = "expired") -> Callable[[Request], str | None]:
    """For a server of S3: what is signed by these is refused."""
    return lambda request: fault if keys([request])[0] in names else None


# -- every operation of a store, whatever happens to its credentials --------------------------------


class Call(NamedTuple):
    """An operation of a store: how it is called, and what it asks a catalog for."""

    work: Callable[[ObjectStore], Any]
    operation: str | None


def written(store: ObjectStore, size: int = 1) -> None:
    with store.open_output("w") as file:
        file.write(bytes(size))


CALLS = {
    "list_from": Call(lambda store: store.list_from("a"), READ),
    "list_names": Call(lambda store: store.list_names("a"), READ),
    "list_all": Call(lambda store: list(store.list_all("")), READ),
    "status": Call(lambda store: store.status("a"), READ),
    "read": Call(lambda store: store.read("a"), READ),
    "read_many": Call(lambda store: list(store.read_many(["a"])), READ),
    "open_input": Call(lambda store: store.open_input("a").read(), READ),
    "put_if_absent": Call(lambda store: store.put_if_absent("b", b"2"), READ_WRITE),
    "put": Call(lambda store: store.put("a", b"2"), READ_WRITE),
    "delete": Call(lambda store: store.delete("a"), READ_WRITE),
    "delete_many": Call(lambda store: store.delete_many(["a", "b"]), READ_WRITE),
    "open_output": Call(written, READ_WRITE),
    "resolve": Call(lambda store: store.resolve("a"), None),
    "local_path": Call(lambda store: store.local_path("a"), None),
}


def test_each_method_of_a_store_is_in_the_matrix() -> None:
    of_protocol = {name for name, _ in inspect.getmembers(LogStore, inspect.isfunction) if name[0] != "_"}
    assert set(CALLS) == of_protocol | {"read_many", "delete_many"}
    of_operations = {one.operation for one in CALLS.values()}
    assert of_operations == {READ, READ_WRITE, None}


class Fate(NamedTuple):
    """What becomes of the first credential before the operation is done again."""

    life: int | None
    passes: int
    fault: str | None
    used: tuple[int, ...]
    """The numbers of those that the requests are signed by then."""


FATES = {
    "valid": Fate(HOUR, HOUR - MARGIN - 1, None, (1,)),
    "without an end": Fate(None, 10_000 * HOUR, None, (1,)),
    "expiring soon": Fate(HOUR, HOUR - MARGIN, None, (2,)),
    "expired": Fate(HOUR, HOUR, None, (2,)),
    "expired before its time": Fate(HOUR, MIN_AGE, "expired", (1, 2)),
    "denied when old": Fate(HOUR, MIN_AGE, "403", (1, 2)),
}
OF_PARTS = Call(lambda store: written(store, 2 * PART_SIZE), READ_WRITE)
"""An upload; its requests are more than one."""
REQUESTING = {**{name: call for name, call in CALLS.items() if call.operation}, "upload": OF_PARTS}
ASKING = [name for name, call in CALLS.items() if call.operation]


@pytest.mark.parametrize(("name", "fate"), crossed(2, ASKING, list(FATES)))
def test_each_operation_is_signed_by_what_is_in_force(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, name: str, fate: str
) -> None:
    (work, operation), (catalog.life, passes, fault, used) = CALLS[name], FATES[fate]
    with s3_server.counted() as seen:
        work(store)
    assert keys(seen) == [f"{operation}-1"]
    catalog.clock.advance(passes)
    with s3_server.failing(refusing(f"{operation}-1", fault=fault)), s3_server.counted() as seen:
        work(store)
    assert keys(seen) == [f"{operation}-{number}" for number in used]
    assert catalog.asked == [operation] * used[-1]


@pytest.mark.parametrize("name", CALLS)
def test_what_the_catalog_refuses_is_its_own_error_and_asks_nothing_of_the_service(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, name: str
) -> None:
    call = CALLS[name]
    catalog.refusal = Forbidden("Donald may not read flights")
    with s3_server.counted() as seen:
        if call.operation is None:
            call.work(store)
            assert catalog.asked == []
        else:
            with pytest.raises(Forbidden) as caught:
                call.work(store)
            assert caught.value is catalog.refusal
            assert catalog.asked == [call.operation]
    assert seen == []


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize(("fault", "words"), [
    ("expired", "vended have expired"), ("403", "denies access .* that a catalog vended")])
def test_a_service_that_refuses_all_credentials_is_asked_twice(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, name: str, fault: str, words: str
) -> None:
    work, operation = CALLS[name]
    work(store)
    catalog.clock.advance(MIN_AGE)
    if (name, fault) == ("status", "expired"):
        words = "refused the request"  # an answer to HEAD says no more
    with s3_server.failing(lambda request: fault), s3_server.counted() as seen, \
            pytest.raises(StorageError, match=words) as caught:
        work(store)
    assert keys(seen) == [f"{operation}-1", f"{operation}-2"] and len(seen) == 2
    assert catalog.asked == [operation] * 2
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


@pytest.mark.parametrize("name", list(REQUESTING))
def test_an_answer_without_credentials_leaves_the_place_to_the_users_own(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for option in OWN:
        monkeypatch.setenv(option.upper(), ACCESS[option])
    catalog.answer = lambda _: {"s3.access-key-id": None}
    with s3_server.counted() as seen:
        REQUESTING[name].work(store)
    assert keys(seen) == [ACCESS["aws_access_key_id"]]
    with s3_server.failing(lambda request: "403"), pytest.raises(StorageError) as caught:
        REQUESTING[name].work(store)
    assert "catalog" not in str(caught.value), "it has nothing to do with this"
    assert set(catalog.asked) == {REQUESTING[name].operation}


# -- when a catalog is asked ----------------------------------------------------------------------


def test_only_a_write_asks_for_writing_and_reads_use_it_while_it_lasts(
    store: ObjectStore, catalog: Catalog, clock: StepClock, s3_server: S3Server
) -> None:
    assert catalog.asked == []
    store.read("a")
    store.put("b", b"1")
    with s3_server.counted() as seen:
        store.read("a")
    assert (catalog.asked, keys(seen)) == ([READ, READ_WRITE], ["READ_WRITE-2"])
    with s3_server.failing(refusing("READ_WRITE-2")), s3_server.counted() as seen:
        store.read("a")
    assert catalog.asked == [READ, READ_WRITE], "a read asks for none to write"
    assert keys(seen) == ["READ_WRITE-2", "READ-1"]
    clock.advance(HOUR)
    store.read("a")
    assert catalog.asked == [READ, READ_WRITE, READ]


def test_a_short_life_is_used_for_three_quarters(
    store: ObjectStore, catalog: Catalog, clock: StepClock
) -> None:
    catalog.life = 4000
    for moment, asked in ((0, 1), (2999, 1), (1, 2)):
        clock.advance(moment)
        store.read("a")
        assert len(catalog.asked) == asked


def test_one_thread_asks_for_all(store: ObjectStore, catalog: Catalog) -> None:
    begun = threading.Barrier(8)
    asking = threading.Semaphore(1)
    vend = catalog.vend

    def alone(operation: str) -> Vended:
        assert asking.acquire(blocking=False), "two ask at a time"
        try:
            return vend(operation)
        finally:
            asking.release()

    vending = Vending("s3://lake/t", "s3", alone)

    def one(_: int) -> str:
        begun.wait()
        return vending.credential(READ).values["access_key_id"]

    assert set(parallel.each(one, range(8), 8, "test")) == {"READ-1"}
    catalog.clock.advance(HOUR - MARGIN)
    assert set(parallel.each(one, range(8), 8, "test")) == {"READ-2"}


def test_one_thread_renews_for_all_whose_requests_were_refused(catalog: Catalog) -> None:
    vending = Vending("s3://lake/t", "s3", catalog.vend)
    used = vending.credential(READ)
    lock: Any = WatchedLock(8)

    def answer(name: str) -> Mapping[str, Any]:
        lock.come()
        lock.all_came()  # while one asks, the others wait, or ask too
        return catalog._keys(name)

    def one(_: int) -> bool:
        is_renewed = vending.renew(used, READ, is_expired=True)
        lock.come()  # nobody waits for who is through already
        return is_renewed

    catalog.answer, vending._locks[READ] = answer, lock
    assert all(parallel.each(one, range(8), 8, "test"))
    assert catalog.asked == [READ, READ]
    assert vending.credential(READ).values["access_key_id"] == "READ-2"


@pytest.mark.parametrize("name", list(REQUESTING))
@pytest.mark.parametrize("fault", ["expired", "403"])
def test_a_credential_that_is_vended_again_is_not_sent_again(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, name: str, fault: str
) -> None:
    work, operation = REQUESTING[name]
    assert operation is not None
    catalog.answer = lambda _: catalog._keys("same")
    work(store)
    for number in (2, 3):
        catalog.clock.advance(MIN_AGE)
        with s3_server.failing(lambda request: fault), s3_server.counted() as seen, \
                pytest.raises(StorageError, match="that a catalog vended|refused the request"):
            work(store)
        tries = 2 if name == "upload" else 1  # a file is closed, too, when its part was refused
        assert len(seen) == tries and keys(seen) == ["same"]
        assert catalog.asked == [operation] * number
    work(store)


def test_one_that_is_vended_again_near_its_end_is_used_until_then(
    own: ObjectStore, options: dict[str, str], catalog: Catalog, clock: StepClock, s3_server: S3Server
) -> None:
    end, step = clock.now + HOUR, MARGIN // 30

    def vend(operation: str) -> Vended:
        catalog.life = end - clock.now
        return catalog.vend(operation)

    own.put("a", b"1")
    store = vended_store(own.root, options, vend)
    catalog.answer = lambda _: catalog._keys("same")
    store.read("a")
    clock.advance(HOUR - MARGIN)
    with s3_server.counted() as seen:
        while clock.now < end:
            store.read("a")
            clock.advance(step)
    assert keys(seen) == ["same"] and len(seen) == 30
    assert catalog.asked == [READ] * 4, "again after three quarters of what was left"
    with pytest.raises(StorageError, match="have expired already"):
        store.read("a")


def test_what_the_environment_says_counts_for_stores_that_are_open(
    store: ObjectStore, own: ObjectStore, options: dict[str, str], catalog: Catalog, s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    make = clients._made

    def count(*arguments: Any) -> Any:
        made.extend(each for each in arguments if isinstance(each, clients._Provider))
        return make(*arguments)

    monkeypatch.setattr(clients, "_made", count)
    nowhere = {name: value for name, value in options.items() if name != "aws_endpoint_url"}
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    store = vended_store(own.root, nowhere, catalog.vend)
    with pytest.raises(StorageError):
        store.read("a")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_server.endpoint)
    assert store.read("a") == store.read("a") == b"1"
    store.put("a", b"2")
    assert store.read("a") == b"2"
    assert catalog.asked == [READ, READ_WRITE], "credentials are the same as before"
    assert len(made) == 3, "one for reads at each place, and one for writes"


def test_a_catalog_that_cannot_be_asked_is_not_needed_before_the_end(
    store: ObjectStore, catalog: Catalog, clock: StepClock, caplog: pytest.LogCaptureFixture
) -> None:
    store.read("a")
    catalog.refusal = StorageError("the catalog cannot be asked", path="http://catalog")
    clock.advance(HOUR - MARGIN)
    for moment, asked in ((0, 2), (PAUSE - 1, 2), (1, 3)):
        clock.advance(moment)
        assert store.read("a") == b"1"
        assert len(catalog.asked) == asked
    assert "used until they expire" in caplog.text
    clock.advance(MARGIN - PAUSE)
    with pytest.raises(StorageError) as caught:
        store.read("a")
    assert caught.value is catalog.refusal
    catalog.refusal = None
    assert store.read("a") == b"1"


def test_a_refusal_counts_from_the_next_question_on(
    store: ObjectStore, catalog: Catalog, clock: StepClock
) -> None:
    store.read("a")
    catalog.refusal = Forbidden("no longer")
    assert store.read("a") == b"1"
    clock.advance(HOUR - MARGIN)
    with pytest.raises(Forbidden, match="no longer"):
        store.read("a")


def test_a_denial_of_what_is_not_allowed_does_not_ask_again_and_again(
    store: ObjectStore, catalog: Catalog, clock: StepClock, s3_server: S3Server
) -> None:
    with s3_server.failing(lambda request: "403"):
        for _ in range(3):
            with pytest.raises(StorageError, match="denies access"):
                store.read("a")
        assert catalog.asked == [READ]
        clock.advance(MIN_AGE)
        catalog.refusal = StorageError("the catalog cannot be asked", path="http://catalog")
        with pytest.raises(StorageError, match="denies access"):  # which is nearer to the cause
            store.read("a")
        catalog.refusal = Forbidden("no longer")
        with pytest.raises(Forbidden):
            store.read("a")


def test_a_put_that_may_have_been_done_is_left_open(
    own: ObjectStore, catalog: Catalog, options: dict[str, str], s3_server: S3Server
) -> None:
    own.bucket.must_put_conditionally(own.place.key)
    store = vended_store(own.root, {**options, "max_retries": 1, "backoff_config.init_backoff": "1ms"},
                         catalog.vend)
    faults = iter(["late 500", "expired"])
    with s3_server.failing(lambda request: next(faults, None)), pytest.raises(OSError) as caught:
        store.put_if_absent("a", b"1")
    assert not isinstance(caught.value, StorageError)
    assert own.read("a") == b"1"


# -- listings and uploads that are under way --------------------------------------------------------


def test_a_listing_goes_on_with_the_next_credential(
    own: ObjectStore, store: ObjectStore, s3_server: S3Server, catalog: Catalog
) -> None:
    for number in range(1005):
        s3_server.store(own.place.bucket, f"{own.place.key}/n/{number:04}", b"")
    pages = 0

    def second_page(request: Request) -> str | None:
        nonlocal pages
        pages += "list-type" in request.query
        return refusing("READ-1")(request) if pages > 1 else None

    with s3_server.failing(second_page):
        names = [one.name for one in store.list_all("n")]
    assert names == [f"n/{number:04}" for number in range(1005)]
    assert catalog.asked == [READ, READ]


@pytest.mark.parametrize("step", ["begin", "part", "end"])
def test_an_upload_begins_again_where_its_credential_expires(
    store: ObjectStore, own: ObjectStore, catalog: Catalog, s3_server: S3Server, step: str
) -> None:
    data = os.urandom(2 * PART_SIZE + 5)

    def fault(request: Request) -> str | None:
        query = request.query
        at = "part" if "partNumber" in query else "begin" if "uploads" in query else "end"
        return "expired" if at == step and keys([request]) == ["READ_WRITE-1"] else None

    with s3_server.failing(fault), store.open_output("large") as file:
        for start in range(0, len(data), PART_SIZE):
            file.write(data[start:start + PART_SIZE])
    assert own.read("large") == data
    assert catalog.asked == [READ_WRITE] * 2


def test_a_part_is_signed_by_what_is_in_force_when_it_is_sent(
    store: ObjectStore, own: ObjectStore, catalog: Catalog, clock: StepClock, s3_server: S3Server
) -> None:
    with s3_server.counted() as seen, store.open_output("large") as file:
        file.write(bytes(PART_SIZE))
        clock.advance(HOUR - MARGIN)
        file.write(bytes(PART_SIZE))
    assert own.status("large").size == 2 * PART_SIZE  # type: ignore[union-attr]
    assert catalog.asked == [READ_WRITE] * 2
    assert keys(seen)[-1] == "READ_WRITE-2"


def test_an_upload_ends_where_no_credential_is_taken_or_vended(
    store: ObjectStore, own: ObjectStore, catalog: Catalog, s3_server: S3Server
) -> None:
    def write() -> None:
        with store.open_output("large") as file:
            file.write(bytes(PART_SIZE))
            file.write(bytes(PART_SIZE))

    with s3_server.failing(lambda request: "expired"), pytest.raises(StorageError, match="have expired"):
        write()
    assert len(catalog.asked) == 1 + MAX_RENEWALS

    def then_refuses(request: Request) -> str | None:
        catalog.refusal = Forbidden("no longer")
        return "expired"

    with s3_server.failing(then_refuses), pytest.raises(Forbidden) as caught:
        write()
    assert caught.value is catalog.refusal
    assert own.status("large") is None


def test_an_upload_that_cannot_be_remembered_goes_on_without(
    store: ObjectStore, own: ObjectStore, s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def write(self, data: bytes) -> None:
            raise OSError(28, "No space left on device")

        def _nothing(self, *_: object) -> bytes:
            return b""

        seek = read = close = _nothing

    full = SimpleNamespace(SpooledTemporaryFile=lambda *_, **__: Full())
    monkeypatch.setattr("deltanb.store.upload.tempfile", full)  # moto needs its own
    with store.open_output("large") as file:
        file.write(bytes(PART_SIZE))
        file.write(b"end")
    assert own.status("large").size == PART_SIZE + 3  # type: ignore[union-attr]


# -- answers of a catalog -----------------------------------------------------------------------------

NEEDED = {"s3.access-key-id": "AKIA", "s3.secret-access-key": SECRET}


@pytest.mark.parametrize(("config", "words"), [
    ({**NEEDED, "s3.region": "x"}, "'s3.region', which deltanb does not know"),
    ({**NEEDED, "gcs.oauth-token": SECRET}, "'gcs.oauth-token', which is not for S3"),
    ({"azure.sas-token": f"sig={SECRET}"}, "'azure.sas-token', which is not for S3"),
    ({"s3.access-key-id": "AKIA"}, "without 's3.secret-access-key'"),
    ({"s3.session-token": SECRET}, "without 's3.access-key-id'"),
    *(({**NEEDED, "s3.session-token": bad}, "'s3.session-token' that its catalog vends is malformed")
      for bad in (f"{SECRET}\n", f"two {SECRET}", "", f"{SECRET}ü", 7)),
])
def test_an_answer_that_is_not_for_the_place_is_refused_by_name(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, config: dict[str, Any], words: str
) -> None:
    catalog.answer = lambda _: config
    with s3_server.counted() as seen, pytest.raises(StorageError, match=words) as caught:
        store.read("a")
    assert seen == [] and caught.value.path == store.root
    assert SECRET not in str(caught.value) + str(vars(caught.value))


@pytest.mark.parametrize(("life", "words"), [(0, "have expired already"), (-HOUR, "Set the clock"),
                                             (0.5, "no number of milliseconds")])
def test_an_answer_that_is_over_is_refused(
    store: ObjectStore, catalog: Catalog, life: Any, words: str
) -> None:
    catalog.life = life
    with pytest.raises(StorageError, match=words):
        store.read("a")
    assert catalog.asked == [READ]


def test_what_a_catalog_does_not_raise_as_it_should_shows_nothing(
    store: ObjectStore, catalog: Catalog
) -> None:
    catalog.refusal = RuntimeError(SECRET)
    with pytest.raises(StorageError, match="failed with RuntimeError") as caught:
        store.read("a")
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


class Seen(BaseHTTPRequestHandler):
    """Has nothing, and remembers what it was asked."""

    asked: list[tuple[str, Any]]

    def log_message(self, *_: Any) -> None:
        """Nothing is written anywhere."""

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers))
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_HEAD = do_GET


@pytest.fixture
def service() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    handler = type("Handler", (Seen,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", handler.asked  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


SERVICES = {
    "s3": ("s3://lake/t", lambda url: {"aws_endpoint_url": url, "aws_region": "eu-west-1"}, NEEDED,
           lambda path, headers: "Credential=AKIA/" in headers["authorization"]),
    "az": ("az://lake/t", lambda url: {"azure_storage_endpoint": url, "azure_storage_account_name": "nyc"},
           {"azure.sas-token": f"?sv=2022-11-02&sig={SECRET}"},
           lambda path, headers: f"&sig={SECRET}" in path),
    "gs": ("gs://lake/t", lambda url: {"google_base_url": url, "allow_http": "true"},
           {"gcs.oauth-token": SECRET}, lambda path, headers: headers["authorization"] == f"Bearer {SECRET}"),
}


@pytest.mark.parametrize("kind", sorted({one.kind for one in NAMES.values()}))
@pytest.mark.parametrize("is_set", [False, True])
def test_each_service_has_what_is_vended_for_it_whatever_the_environment_has(
    service: tuple[str, list[tuple[str, Any]]], kind: str, is_set: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, options_of, config, is_signed = SERVICES[kind]
    if is_set:
        for name, value in {"AWS_ACCESS_KEY_ID": "mine", "AWS_SECRET_ACCESS_KEY": "mine",
                            "AWS_SESSION_TOKEN": "mine", "AZURE_STORAGE_ACCOUNT_KEY": "bWluZQ==",
                            "AWS_SKIP_SIGNATURE": "true", "AZURE_SKIP_SIGNATURE": "true",
                            "GOOGLE_SKIP_SIGNATURE": "true", "AWS_PROFILE": "none"}.items():
            monkeypatch.setenv(name, value)
    url, asked = service
    store = vended_store(uri, options_of(url), lambda operation: Vended(config, None))
    assert store.status("a") is None
    assert len(asked) == 1 and is_signed(*asked[0])


def test_sas_tokens_that_are_none_are_not_shown(service: tuple[str, list[tuple[str, Any]]]) -> None:
    uri, options_of, _, _ = SERVICES["az"]
    store = vended_store(uri, options_of(service[0]), lambda _: Vended({"azure.sas-token": SECRET}, None))
    with pytest.raises(StorageError, match="'azure.sas-token' that its catalog vends is malformed") as caught:
        store.status("a")
    assert SECRET not in str(caught.value)


@pytest.mark.slow
def test_azure_takes_a_token_that_allows_what_it_says(azurite: dict[str, str]) -> None:
    def token(operation: str) -> str:
        allowed = {READ: "rl", READ_WRITE: "rwdlc"}[operation]
        fields = [ACCOUNT, allowed, "b", "co", "", "2099-01-01T00:00:00Z", "", "https,http", "2020-12-06",
                  "", ""]
        digest = hmac.new(base64.b64decode(KEY), "\n".join(fields).encode(), hashlib.sha256).digest()
        return (f"sv=2020-12-06&ss=b&srt=co&sp={allowed}&se=2099-01-01T00%3A00%3A00Z&spr=https,http"
                f"&sig={quote(base64.b64encode(digest).decode(), safe='')}")

    asked = []

    def vend(operation: str) -> Vended:
        asked.append(operation)
        return Vended({"azure.sas-token": token(operation)}, None)

    plain = {name: value for name, value in azurite.items() if name != "azure_storage_account_key"}
    store = vended_store("az://lake/vended", plain, vend)
    assert store.status("a") is None
    assert store.put_if_absent("a", b"1") and not store.put_if_absent("a", b"2")
    with store.open_output("large") as file:
        file.write(bytes(2 * PART_SIZE))
    assert store.list_names("") == ["a", "large"]
    assert asked == [READ, READ_WRITE]
    reading = vended_store("az://lake/vended", plain, lambda _: vend(READ))
    with pytest.raises(StorageError, match="denies access .* that a catalog vended"):
        reading.put("a", b"1")


# -- whose they are -----------------------------------------------------------------------------------


def test_two_tables_of_a_bucket_have_each_its_own(
    bucket: str, options: dict[str, str], clock: StepClock, s3_server: S3Server
) -> None:
    catalogs = [Catalog(clock), Catalog(clock)]
    for catalog, name in zip(catalogs, ("one", "two"), strict=True):
        catalog.answer = lambda key, name=name: {**NEEDED, "s3.access-key-id": f"{name}.{key}"}  # type: ignore[misc]
    stores = [vended_store(f"{bucket}/{name}", options, catalog.vend)
              for catalog, name in zip(catalogs, ("one", "two"), strict=True)]
    assert stores[0] != stores[1]
    for _ in range(2):
        for store, name in zip(stores, ("one", "two"), strict=True):
            with s3_server.counted() as seen:
                store.status("a")
            assert keys(seen) == [f"{name}.READ-1"]
    same = [vended_store(f"{bucket}/one", options, catalog.vend) for catalog in catalogs]
    assert same[0] != same[1], "nor do two who open one table share them"


def test_they_go_with_the_last_that_reads_or_writes_the_table(
    own: ObjectStore, options: dict[str, str], catalog: Catalog
) -> None:
    own.put("a", b"1")
    store = vended_store(own.root, options, catalog.vend)
    store.read("a")
    own.put("large", bytes(2 << 20))
    token, beside, file = store.access.vending, store.sibling(f"{store.root}/p"), store.open_input("large")
    del store
    gc.collect()
    assert beside is not None and beside.status("a") is None
    del beside
    gc.collect()
    assert len(file.read()) == 2 << 20
    file.close()
    del file
    gc.collect()
    assert vendings.vending_of(token) is None


def test_beside_their_place_they_do_not_count(
    store: ObjectStore, catalog: Catalog, own: ObjectStore, s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for option in OWN:
        monkeypatch.setenv(option.upper(), ACCESS[option])
    bucket = own.root.removesuffix("/t")
    for address, key in ((f"{own.root}/deep/er", "READ-1"), (f"s3a://{own.place.bucket}/t", "READ-1"),
                         (f"{bucket}/t2", "tester"), (bucket, "tester"), (f"{own.root}/../u", "tester")):
        sibling = store.sibling(address)
        assert sibling is not None
        with s3_server.counted() as seen:
            sibling.status("a")
        assert keys(seen) == [key], address
        assert sibling.access.get("region") == "us-east-1", "what is no credential counts everywhere"
    home, name = store.resolve(f"{own.root}/p/a")
    assert (home, name) == (store, "p/a")
    home, name = store.resolve(f"{bucket}/t2/a")
    assert isinstance(home, ObjectStore) and home == ObjectStore(f"{bucket}/t2", {
        "aws_endpoint_url": s3_server.endpoint, "aws_allow_http": "true", "aws_region": "us-east-1",
        "max_retries": "0"})
    assert catalog.asked == [READ]


@pytest.mark.parametrize(("uri", "more", "is_own"), [
    ("s3://lake/t", {"aws_access_key_id": "me", "aws_secret_access_key": "mine"}, True),
    ("s3://lake/t", {"skip_signature": True}, True), ("s3://lake/t", {"skip_signature": False}, False),
    ("s3://lake/t", {"aws_role_arn": "arn:aws:iam::1:role/x"}, True),
    ("s3://lake/t", {"aws_region": "x", "timeout": "10s", "proxy_url": "http://127.0.0.1:3"}, False),
    ("s3://lake/t", {"aws_sse_kms_key_id": "x"}, False),
    ("gs://lake/t", {"google_bearer_token": "mine"}, True),
    ("gs://lake/t", {"google_base_url": "https://x"}, False),
    ("abfss://c@nyc.dfs.core.windows.net/t", {"azure_storage_account_key": "bWluZQ=="}, True),
    ("abfss://c@nyc.dfs.core.windows.net/t", {"azure_storage_account_name": "nyc"}, False),
])
def test_credentials_of_the_user_win_and_no_catalog_is_asked(uri: str, more: Any, is_own: bool) -> None:
    store = vended_store(uri, more, lambda operation: Vended({}, None))
    assert bool(store.access.vending) is not is_own
    if is_own:
        assert store == ObjectStore(uri, more)


def test_each_option_is_a_credential_or_is_none() -> None:
    for kind, names in accesses._CREDENTIALS.items():
        assert set(names) <= {*accesses._PUBLIC[kind], *accesses._SECRET[kind]}
        of_encryption = {"sse_kms_key_id", "sse_customer_key_base64", "encryption_key"}
        assert set(accesses._SECRET[kind]) - set(names) <= of_encryption


def test_what_is_no_bucket_or_no_option_is_refused() -> None:
    for uri, more in (("/lake/t", {}), ("file:///lake/t", {}), ("s3://lake/t", {"aws_regoin": "x"})):
        with pytest.raises(InvalidArgument):
            vended_store(uri, more, lambda operation: Vended({}, None))


# -- where they can be seen, and other processes ------------------------------------------------------


def test_they_are_nowhere_to_be_seen(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    table = dn.create(store, {"id": [1]}, allow_files=True)
    table.append({"id": [2]})
    assert table.count() == 2
    denied: list[DeltaError] = []
    for fault in ("403", "expired", "500"):
        with s3_server.failing(lambda request, fault=fault: fault), pytest.raises(DeltaError) as caught:  # type: ignore[misc]
            table.append({"id": [3]})
        denied.append(caught.value)
    vending = store.bucket._vending
    assert vending is not None and vending._credentials
    answer = catalog.vend(READ)
    seen = [repr(store), repr(table), str(table.history()), repr(store.access), caplog.text, str(vars(store)),
            str(vars(store.bucket)), str(vars(vending)), repr(answer), *map(str, denied),
            *(str(vars(error)) for error in denied), str(pickle.dumps(store)), str(pickle.dumps(table))]
    for status in store.list_all(""):
        if status.name.endswith((".json", ".crc")):
            seen.append(store.read(status.name).decode())
    assert not [text for text in seen if SECRET in text or TOKEN in text]
    assert "Credentials for" in caplog.text
    with pytest.raises(IllegalStateError, match="cannot be pickled"):
        pickle.dumps(answer)


def test_a_pickle_has_them_again_here_and_says_so_in_another_process(
    store: ObjectStore, catalog: Catalog, s3_server: S3Server, tmp_path: Path
) -> None:
    again = pickle.loads(pickle.dumps(store))
    assert again == store and again.read("a") == b"1" and catalog.asked == [READ]
    (tmp_path / "store").write_bytes(pickle.dumps(store))
    script = ("import pickle, sys, deltanb\n"
              "store = pickle.load(open(sys.argv[1], 'rb'))\n"
              "for work in (lambda: store.read('a'), lambda: store.put('a', b'2'),\n"
              "             lambda: store.delete('a'), lambda: store.open_output('w'),\n"
              "             lambda: list(store.list_all(''))):\n"
              "    try: print('done', work())\n"
              "    except deltanb.errors.StorageError as error: print(error)")
    of_environment = {name.upper(): value for name, value in s3_server.options.items()}
    with s3_server.counted() as seen:
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "store")], text=True, check=True,
            capture_output=True, env={**os.environ, **of_environment})
    lines = done.stdout.splitlines()
    assert len(lines) == 5 and all("Open the table here, through its catalog" in line for line in lines)
    assert seen == [], "those of the environment are not the catalog's"


def test_processes_of_this_machine_are_lent_what_is_in_force(
    store: ObjectStore, catalog: Catalog, clock: StepClock, s3_server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = lend(store.access)
    assert lend(store.access) == path and catalog.asked == [READ]
    clock.advance(HOUR // 2)
    newer = lend(store.access)
    assert newer != path and catalog.asked == [READ, READ], "at least half of its life is before it"
    for_writes = lend(store.access, READ_WRITE)
    assert json.loads(Path(for_writes).read_text())["vended"]["credential"]["operation"] == READ_WRITE
    pickled = pickle.dumps(store)
    monkeypatch.setattr(vendings, "_vendings", type(vendings._vendings)())  # as another process has it
    monkeypatch.setattr(vendings, "_borrowed", {})
    elsewhere = pickle.loads(pickled)
    for order in ((newer, path), (path,)):
        for one in order:
            borrow(one)
        with s3_server.counted() as seen:
            assert elsewhere.read("a") == b"1"
        assert keys(seen) == ["READ-2"], "the one that lasts longer"
    with pytest.raises(StorageError, match="none for READ_WRITE were lent"):
        elsewhere.put("b", b"1")
    with s3_server.failing(lambda request: "expired"), pytest.raises(StorageError, match="have expired"):
        elsewhere.read("a")
    borrow(for_writes)
    elsewhere.put("b", b"1")
    clock.advance(HOUR - MARGIN)
    monkeypatch.delitem(vendings._borrowed[store.access.vending]._credentials, READ)
    assert elsewhere.read("a") == b"1", "until its very end: no other can be had"
    clock.advance(MARGIN)
    with pytest.raises(StorageError, match="Run the command again"):
        elsewhere.read("a")
    assert catalog.asked == [READ, READ, READ_WRITE]


def test_what_is_lent_here_does_not_replace_the_catalog(
    store: ObjectStore, catalog: Catalog, clock: StepClock
) -> None:
    borrow(lend(store.access))
    clock.advance(HOUR)
    assert store.read("a") == b"1" and catalog.asked == [READ, READ]


def test_a_file_of_amazons_has_those_of_an_operation(
    store: ObjectStore, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "mine")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "mine")
    files = [write_temp_credentials(store.access, operation) for operation in (READ, READ_WRITE)]
    assert [Path(str(file)).read_text().splitlines() for file in files] == [
        ["[deltanb]", f"aws_access_key_id = {key}", f"aws_secret_access_key = {SECRET}",
         f"aws_session_token = {TOKEN}"] for key in ("READ-1", "READ_WRITE-2")]
    assert store.access.has_secrets and not ObjectStore(store.root).access.has_secrets


def test_pyiceberg_does_not_look_for_others_instead(store: ObjectStore) -> None:
    with pytest.raises(InvalidArgument, match="a catalog vends its credentials"):
        file_io_properties(store)
