"""The cache of logs on the local disk: it spares requests, and is never seen otherwise."""

from __future__ import annotations

import doctest
import errno
import logging
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.concurrency.parallel import MAX_SMALL, MAX_WAITING
from deltanb.errors import InvalidArgument, StorageError
from deltanb.log import listed_files
from deltanb.log.listed_files import ListedFiles
from deltanb.options import set_options
from deltanb.store import disk_cache
from deltanb.store.disk_cache import FOLDER, PAGE, ROOM, DiskCache
from deltanb.store.object import ObjectStore
from deltanb.store.recent import ObjectKey
from deltanb.testing import TableBuilder
from deltanb.testing.s3_server import ACCESS, Request, S3Server
from tests.bucket_logs import KINDS, LAST, built, put, remove_all

pytest.importorskip("obstore")

State = dict[str, Any]
SIZES = {"small": listed_files.WHOLE, "large": 1}
"""Bytes up to which a file of Arrow's is read in memory: with 1, checkpoints are read from the disk as large
ones are."""


@dataclass
class Place:
    """A table in a bucket, and a folder for the cache."""

    server: S3Server
    uri: str
    builder: TableBuilder
    cache: Path
    kind: str

    @property
    def entries(self) -> list[Path]:
        return sorted((self.cache / FOLDER).iterdir()) if (self.cache / FOLDER).is_dir() else []

    def read(self, version: int | None = None, **settings: Any) -> tuple[State, list[Request]]:
        """The table as a process sees it that has read nothing before, and what that has asked for."""
        dn.DeltaLog.clear_cache()
        with set_options(**{"log_cache": self.cache, **settings}), self.server.counted() as requests:
            log = dn.DeltaLog.for_table(ObjectStore(self.uri, self.server.options))
            state = state_of(log.snapshot if version is None else log.snapshot_at(version))
        return state, requests


def state_of(snapshot: Any) -> State:
    return {"version": snapshot.version, "files": sorted(snapshot.files["path"].to_pylist()),
            "protocol": snapshot.protocol, "metadata": snapshot.metadata}


@pytest.fixture
def place(
    request: pytest.FixtureRequest, s3_server: S3Server, bucket: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    kind, size = request.param
    monkeypatch.setattr(listed_files, "WHOLE", SIZES[size])
    if size == "large":
        monkeypatch.setattr(disk_cache, "BLOCK", 1000)
    builder = of_kind(kind)
    put(builder, s3_server, f"{bucket}/t")
    yield Place(s3_server, f"{bucket}/t", builder, tmp_path / "cache", kind)
    dn.DeltaLog.clear_cache()


of_kind = lru_cache(built)  # which nobody changes
CASES = [(kind, size) for kind in KINDS for size in SIZES if (kind, size) != ("commits", "large")]
FEW = [("V2", "large")]
"""What a usual run tries of those, where what befalls an entry is the same for all: it has commits in memory,
and a checkpoint that is read from the disk."""
every = pytest.mark.parametrize("place", CASES, indirect=True, ids="-".join)
some = pytest.mark.parametrize("place", [
    case if case in FEW else pytest.param(case, marks=pytest.mark.thorough) for case in CASES
], indirect=True, ids="-".join)


# -- what may befall the entries ------------------------------------------------------------------


def each_entry(change: Callable[[Path], object]) -> Callable[[Place], None]:
    def befall(place: Place) -> None:
        for entry in place.entries:
            change(entry)

    return befall


def flip(entry: Path) -> None:
    data = bytearray(entry.read_bytes())
    data[len(data) // 3] ^= 1
    entry.write_bytes(data)


def swap(place: Place) -> None:
    """Each has the content of another one, of the same length where there is one."""
    entries = sorted(place.entries, key=lambda one: one.stat().st_size)
    contents = [entry.read_bytes() for entry in entries]
    for entry, data in zip(entries, contents[1:] + contents[:1], strict=True):
        entry.write_bytes(data)


DAMAGE: dict[str, Callable[[Place], None]] = {
    "a bit": each_entry(flip),
    "cut": each_entry(lambda entry: entry.write_bytes(entry.read_bytes()[:-1])),
    "half": each_entry(lambda entry: entry.write_bytes(entry.read_bytes()[:entry.stat().st_size // 2])),
    "empty": each_entry(lambda entry: entry.write_bytes(b"")),
    "longer": each_entry(lambda entry: entry.write_bytes(entry.read_bytes() + b"x")),
    "another's": swap,
    "gone": each_entry(Path.unlink),
    "the folder is gone": lambda place: shutil.rmtree(place.cache),
}


@some
@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_damaged_is_fetched_again(damage: str, place: Place) -> None:
    state, cold = place.read(log_cache=False)
    assert place.read()[0] == state
    DAMAGE[damage](place)
    again, requests = place.read()
    assert again == state and len(requests) >= len(cold), list(map(str, requests))
    again, requests = place.read()
    assert again == state and len(requests) == 2, list(map(str, requests))


@some
def test_without_the_option_there_is_no_folder(place: Place) -> None:
    state, cold = place.read(log_cache=None)
    assert place.read(log_cache=False)[0] == state and not place.cache.exists() and len(cold) > 2


@every
def test_a_second_open_costs_the_hint_and_a_listing(place: Place) -> None:
    state, cold = place.read(log_cache=False)
    first, requests = place.read()
    assert first == state and (len(requests) <= len(cold) or disk_cache.BLOCK == 1000)
    second, requests = place.read()
    assert second == state
    assert [(one.method, one.key.endswith("_last_checkpoint")) for one in requests] == [
        ("GET", True), ("GET", False)]
    for version in (3, 24):  # of which some files are known
        past, _ = place.read(version, log_cache=False)
        assert place.read(version)[0] == past
        again, requests = place.read(version)
        listings = 1 + (place.kind == "V2" and version > 20)  # one is of the sidecars
        assert again == past and len(requests) == listings, list(map(str, requests))
        assert all("list-type" in request.query for request in requests)


@every
def test_what_the_listing_does_not_show_as_it_was_is_fetched(place: Place) -> None:
    """A file replaced by one of the same length, and a table made anew with the same names."""
    state, _ = place.read()
    name = f"_delta_log/{LAST:020}.json"
    bucket = place.uri.removeprefix("s3://").partition("/")[0]
    data = place.builder.store.read(name).replace(b"f-26", b"g-26")
    place.server.store(bucket, f"t/{name}", data)
    replaced, requests = place.read()
    assert len(requests) == 3 and set(replaced["files"]) ^ set(state["files"]) == {"f-26", "g-26"}
    remove_all(place.server, place.uri)
    other = built(place.kind, file="h")
    put(other, place.server, place.uri)
    anew, _ = place.read()
    assert anew == place.read(log_cache=False)[0] == place.read()[0]
    assert all(path.startswith("h-") for path in anew["files"])


@some
def test_a_file_that_is_replaced_after_the_listing_is_not_kept_as_what_was_listed(
    place: Place
) -> None:
    bucket = place.uri.removeprefix("s3://").partition("/")[0]
    names = [name for name in place.builder.store.files  # type: ignore[attr-defined]
             if name != "_delta_log/_last_checkpoint"]
    contents = {name: place.builder.store.read(name) for name in names}

    def swap_after_listing(request: Request) -> str | None:
        if "list-type" not in request.query and request.key.endswith(f"{LAST:020}.json"):
            name = f"_delta_log/{LAST:020}.json"
            place.server.store(bucket, f"t/{name}", contents[name].replace(b"f-26", b"g-26"))
        return None

    with place.server.failing(swap_after_listing):
        assert "g-26" in place.read()[0]["files"]
    put(place.builder, place.server, place.uri)
    assert "f-26" in place.read()[0]["files"] and "f-26" in place.read()[0]["files"]


def test_a_large_file_that_is_replaced_while_it_is_fetched_is_not_kept(
    s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listed_files, "WHOLE", 1)
    monkeypatch.setattr(disk_cache, "BLOCK", 1000)
    monkeypatch.setattr(disk_cache, "AT_ONCE", 1)
    store, name = ObjectStore(f"{bucket}/t", s3_server.options), "_delta_log/x.checkpoint.parquet"
    store.put(name, b"a" * 2500)

    def replace(request: Request) -> str | None:
        if request.headers.get("range") == "bytes=1000-1999":
            s3_server.store(bucket.removeprefix("s3://"), f"t/{name}", b"b" * 2500)
        return None

    with set_options(log_cache=tmp_path):
        files = ListedFiles(store)
        files.list_names("_delta_log/")
        with s3_server.failing(replace):
            assert files.open_input(name).read() == b"b" * 2500
        assert list((tmp_path / FOLDER).iterdir()) == []
        files = ListedFiles(store)
        files.list_names("_delta_log/")
        for _ in range(2):
            with s3_server.counted() as requests:
                assert files.open_input(name).read() == b"b" * 2500
        assert requests == []


def test_of_large_files_fewer_are_asked_for_at_a_time(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ObjectStore(f"{bucket}/t", s3_server.options)
    store.put("_delta_log/small", b"a")
    store.put("_delta_log/large", b"a" * 101)
    monkeypatch.setattr(listed_files, "WHOLE", 100)
    files = ListedFiles(store)
    files.list_names("_delta_log/")
    small, large = ["_delta_log/small", "_delta_log/unknown"], ["_delta_log/small", "_delta_log/large"]
    assert (files.at_once(small), files.at_once(large)) == (MAX_SMALL, MAX_WAITING)


def test_sidecars_are_listed_with_the_log_where_there_is_no_hint(
    s3_server: S3Server, bucket: str, tmp_path: Path
) -> None:
    place = Place(s3_server, f"{bucket}/t", of_kind("V2"), tmp_path / "cache", "V2")
    put(place.builder, s3_server, place.uri)
    ObjectStore(place.uri, s3_server.options).delete("_delta_log/_last_checkpoint")
    state, _ = place.read()
    again, requests = place.read()
    assert again == state and len(requests) == 2, list(map(str, requests))


# -- the folder -----------------------------------------------------------------------------------


def used(cache: Path) -> int:
    return sum(-(-file.stat().st_size // PAGE) * PAGE for file in (cache / FOLDER).iterdir())


@some
def test_the_folder_is_bounded_and_the_least_recently_used_go(place: Place) -> None:
    state, _ = place.read(log_cache=False)
    limit = 8 * PAGE
    for _ in range(2):
        assert place.read(log_cache_size=limit)[0] == state
        assert used(place.cache) <= limit + limit // ROOM + PAGE
    assert len(place.entries) > 2


@some
def test_entries_are_the_users_alone_and_have_no_secrets(place: Place) -> None:
    place.read()
    folder = place.cache / FOLDER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(entry.stat().st_mode) for entry in place.entries} == {0o600}
    content = b"".join(entry.read_bytes() for entry in place.entries)
    assert not any(secret.encode() in content for secret in list(ACCESS.values())[:2])


def a_file(place: Place) -> None:
    place.cache.write_text("a file")


def others_can_write(place: Place) -> None:
    (place.cache / FOLDER).mkdir(parents=True)
    (place.cache / FOLDER).chmod(0o777)


def a_link(place: Place) -> None:
    elsewhere = place.cache.parent / "elsewhere"
    elsewhere.mkdir()
    place.cache.mkdir()
    (place.cache / FOLDER).symlink_to(elsewhere)


UNUSABLE = {"a file": a_file, "others can write to it": others_can_write, "a link": a_link}


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "deltanb.store"
            and record.levelno >= logging.WARNING]


@some
@pytest.mark.parametrize("what", UNUSABLE)
def test_a_folder_that_cannot_be_used_fails_no_read_and_is_named_once(
    what: str, place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    state, cold = place.read(log_cache=False)
    UNUSABLE[what](place)
    for _ in range(2):
        again, requests = place.read()
        assert again == state and len(requests) == len(cold)
    assert place.entries == [] and [str(place.cache) in line for line in logged(caplog)] == [True]


@some
@pytest.mark.parametrize("step, code", [
    ("open", errno.EROFS), ("write", errno.ENOSPC), ("replace", errno.EACCES)])
def test_a_disk_that_takes_nothing_fails_no_read(
    step: str, code: int, place: Place, caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, cold = place.read(log_cache=False)

    def fails(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        if step == "write":
            patch.setattr(disk_cache, "_copied", fails)
        else:
            patch.setattr(disk_cache.os, step, fails)
        again, requests = place.read()
    assert again == state and len(requests) >= len(cold)
    assert place.entries == [], "nothing is left of it"
    assert len(logged(caplog)) == 1 and os.strerror(code) in logged(caplog)[0]


@some
def test_what_is_there_is_served_where_nothing_can_be_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, _ = place.read()

    def fails(*_: Any, **__: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("utime", "unlink", "replace"):
        monkeypatch.setattr(disk_cache.os, name, fails)
    again, requests = place.read()
    assert again == state and len(requests) == 2


@some
def test_what_takes_too_much_of_the_bound_is_named(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    state, _ = place.read(log_cache=False)
    again, _ = place.read(log_cache_size=PAGE)
    assert again == state and place.entries == []
    assert any("log_cache_size=4096" in line and f"{LAST:020}.json" in line for line in logged(caplog))


# -- who is served --------------------------------------------------------------------------------


@some
def test_whoever_may_not_list_is_served_nothing(place: Place) -> None:
    place.read()
    with place.server.failing(lambda request: "403"), pytest.raises(StorageError, match="403"):
        place.read()
    with place.server.failing(lambda request: "403" if "list-type" in request.query else None), \
            pytest.raises(StorageError, match="403"):
        place.read(24)


def test_another_process_is_served(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    """By what the environment says."""
    place = Place(s3_server, f"{bucket}/t", built("commits"), tmp_path / "cache", "commits")
    put(place.builder, s3_server, place.uri)
    place.read()
    code = "import sys, deltanb as dn\nprint(dn.open(sys.argv[1], storage_options=eval(sys.argv[2])).version)"
    variables = {"DELTANB_LOG_CACHE": str(place.cache), "DELTANB_LOG_CACHE_SIZE": str(1 << 20)}
    with s3_server.counted() as requests:
        done = subprocess.run([sys.executable, "-c", code, place.uri, repr(s3_server.options)], text=True,
                              capture_output=True, env={**os.environ, **variables})
    assert done.stdout == f"{LAST}\n", done.stderr
    assert len(requests) == 3, "the hint, a listing, and another one for the newest version"


def test_a_long_log_without_a_checkpoint_costs_two_requests(
    s3_server: S3Server, bucket: str, tmp_path: Path, is_thorough: bool
) -> None:
    number = 1000 if is_thorough else 200
    place = Place(s3_server, f"{bucket}/t", built("commits", last=number - 1), tmp_path / "cache", "commits")
    put(place.builder, s3_server, place.uri)
    state, requests = place.read()
    assert len(requests) == 2 + number
    again, requests = place.read()
    assert again == state and len(requests) == 2


def test_processes_that_make_room_at_once_do_no_harm(tmp_path: Path) -> None:
    """Each has a cache of its own on the same folder, as another process has."""
    limit = 16 * PAGE
    keys = [ObjectKey("s3|lake|t", f"{n}.json", "tag", 100 + n) for n in range(64)]
    content = {key: bytes([number]) * key.size for number, key in enumerate(keys)}

    def work(number: int) -> None:
        cache = DiskCache(str(tmp_path), limit)
        for at in range(200):
            key = keys[(at * (2 * number + 1) + number) % len(keys)]
            data = cache.content(key)
            assert data in (None, content[key])
            if data is None:
                cache.keep(key, content[key])  # or not: another one may have made room with it

    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert used(tmp_path) <= limit + 4 * (limit // ROOM + PAGE)
    assert not list((tmp_path / FOLDER).glob("*.tmp"))


def test_the_example_of_the_documentation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "log-cache.md").read_text("utf-8")
    failures: list[str] = []
    example = doctest.DocTestParser().get_doctest(text, {}, "log-cache.md", "log-cache.md", 0)
    doctest.DocTestRunner().run(example, out=failures.append)
    assert len(example.examples) == 4 and failures == []


@pytest.mark.parametrize("settings", [{"log_cache": 3}, {"log_cache": "s3://lake/cache"}, {"log_cache": ""},
                                      {"log_cache_size": 0}, {"log_cache_size": "1 GB"},
                                      {"log_cache_size": True}], ids=str)
def test_what_the_options_cannot_be(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(settings))):
        set_options(**settings)


def test_a_size_in_the_environment_that_is_none_is_named(
    s3_server: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DELTANB_LOG_CACHE_SIZE", "much")
    with set_options(log_cache=tmp_path), pytest.raises(InvalidArgument, match="LOG_CACHE_SIZE='much'"):
        dn.open(f"{bucket}/t", storage_options=s3_server.options)
