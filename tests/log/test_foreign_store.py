"""Stores that others wrote: what they raise is an error of our tree with store, file and cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import CommitOutcomeUnknown, DeltaError, StorageError
from deltanb.store.base import FileStatus, read_range
from deltanb.store.guard import guarded, unguarded
from deltanb.store.local import LocalStore
from deltanb.store.object import ObjectStore
from deltanb.testing import MemoryStore
from deltanb.transaction.delta_log import DeltaLog


class Refused(Exception):
    """What an SDK raises that knows no OSError."""


class Cloud(MemoryStore):
    """A store of somebody's that raises ``error`` at the calls in ``bad``."""

    def __init__(self) -> None:
        super().__init__("cloud://lake/t")
        self.bad: set[str] = set()
        self.error: Exception = Refused("503 slow down")

    def _check(self, call: str) -> None:
        if call in self.bad:
            raise self.error

    def list_names(self, name: str) -> list[str]:
        self._check("list_names")
        return super().list_names(name)

    def list_from(self, name: str) -> list[FileStatus]:
        self._check("list_from")
        return super().list_from(name)

    def list_all(self, prefix: str) -> Iterator[FileStatus]:
        for status in super().list_all(prefix):
            yield status
            self._check("list_all")

    def status(self, name: str) -> FileStatus | None:
        self._check("status")
        return super().status(name)

    def read(self, name: str) -> bytes:
        self._check("read")
        return super().read(name)

    def put(self, name: str, data: bytes) -> None:
        self._check("put")
        super().put(name, data)

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        self._check("put_if_absent")
        return super().put_if_absent(name, data, make_folders=make_folders)

    def delete(self, name: str) -> None:
        self._check("delete")
        super().delete(name)

    def open_input(self, name: str) -> Any:
        self._check("open_input")
        return super().open_input(name)

    def open_output(self, name: str) -> Any:
        self._check("open_output")
        return super().open_output(name)


class Ranged(Cloud):
    """One that reads ranges, too."""

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        self._check("read_range")
        return super().read(name)[start:stop]


def opened_anew(store: Cloud) -> dn.DeltaTable:
    DeltaLog.clear_cache()
    return dn.open(store)


WORK: list[tuple[str, Callable[[dn.DeltaTable], Any]]] = [
    ("list_names", lambda t: opened_anew(t.log.store.inner)),
    ("read", lambda t: opened_anew(t.log.store.inner)),
    ("status", lambda t: t.log.update()), ("open_input", lambda t: t.to_arrow()),
    ("open_output", lambda t: t.append({"id": [3]})), ("open_input", lambda t: t.delete("id = 1")),
    ("list_all", lambda t: t.vacuum(0, check=False)), ("delete", lambda t: t.vacuum(0, check=False)),
    ("put", lambda t: t.log.checkpoint()),
]


@pytest.mark.parametrize("error", [Refused("503 slow down"), OSError(5, "slow down"), KeyError("slow down")])
@pytest.mark.parametrize(("call", "work"), WORK)
def test_every_call_of_a_foreign_store_fails_within_the_tree(
    call: str, work: Callable[[dn.DeltaTable], Any], error: Exception
) -> None:
    store = Cloud()
    table = dn.create(store, {"id": [1, 2]})
    table.delete("id = 2")
    store.bad, store.error = {call}, error
    with pytest.raises(StorageError, match=r"cloud://lake/t.*slow down.*in Cloud") as caught:
        work(table)
    assert caught.value.__cause__ is error and caught.value.errno == getattr(error, "errno", None)
    assert caught.value.path.startswith("cloud://lake/t")
    store.bad.clear()
    assert opened_anew(store).to_arrow()["id"].to_pylist() in ([1], [])


@pytest.mark.parametrize("error", [Refused("503 slow down"), OSError("slow down")])
def test_a_put_whose_answer_nobody_knows_is_read_back(error: Exception) -> None:
    store = Cloud()
    table = dn.create(store, {"id": [1]})
    store.bad, store.error = {"put_if_absent"}, error
    with pytest.raises(CommitOutcomeUnknown) as caught:
        table.append({"id": [2]})
    cause = caught.value.__cause__
    assert cause is not None and error in (cause, cause.__cause__)


def test_what_is_absent_is_absent_and_an_error_of_the_tree_passes() -> None:
    store = Cloud()
    with pytest.raises(FileNotFoundError) as absent:
        guarded(store).read("nothing")
    assert not isinstance(absent.value, DeltaError)
    store.bad, store.error = {"read"}, StorageError("mine")
    with pytest.raises(StorageError, match="^mine$"):
        guarded(store).read("nothing")


def test_a_guarded_store_is_that_store() -> None:
    store = Cloud()
    log = DeltaLog.for_table(store)
    assert log.store == store and hash(log.store) == hash(store) and unguarded(log.store) is store
    assert DeltaLog.for_table(store) is log and DeltaLog.for_table(log.store) is log
    assert repr(log.store) == repr(store) and log.store.bad is store.bad
    assert guarded(log.store) is log.store and log.store.resolve("a")[0] is log.store
    for ours in (MemoryStore(), LocalStore("/lake")):
        assert guarded(ours) is ours


def test_the_callers_own_exception_is_not_the_stores() -> None:
    store = Cloud()
    store.put("a", b"")
    with pytest.raises(ZeroDivisionError):
        for _ in guarded(store).list_all(""):
            1 // 0  # noqa: B018


class Relay:
    """A store of somebody's that asks one of ours, and changes nothing of what it can do."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._store, name)


@pytest.mark.parametrize("place", ["memory", "folder", "bucket"])
def test_a_store_that_asks_one_of_ours_can_do_what_that_can(
    place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def in_bucket() -> ObjectStore:
        uri: str = request.getfixturevalue("bucket")
        return ObjectStore(f"{uri}/t", request.getfixturevalue("s3_server").options)

    places: dict[str, Callable[[], Any]] = {
        "memory": MemoryStore, "folder": lambda: LocalStore(str(tmp_path)), "bucket": in_bucket}
    ours = places[place]()
    table = dn.create(Relay(ours), {"id": [1, 2]})
    table.delete("id = 2")
    table.log.checkpoint()
    table.append({"id": [3]})
    DeltaLog.clear_cache()
    again = dn.open(Relay(ours))
    assert sorted(again.to_arrow()["id"].to_pylist()) == [1, 3]
    assert again.as_of(0).count() == 2 and len(again.history()) == 3
    assert again.vacuum(0, check=False).num_files == 1


@pytest.mark.parametrize("kind", [Cloud, Ranged])
def test_ranges_of_a_foreign_store_are_read_or_it_is_said_why_not(kind: type[Cloud]) -> None:
    store = kind()
    store.put("a", b"0123456789")
    seen = guarded(store)
    assert [read_range(seen, "a", *some) for some in ((2, 5), (8, 20), (10, 12), (50, 60))] == [
        b"234", b"89", b"", b""]
    with pytest.raises(FileNotFoundError):
        read_range(seen, "b", 0, 1)
    store.bad = {"read_range", "open_input"}
    with pytest.raises(StorageError, match=r"cloud://lake/t/a cannot be read: 503 slow down"):
        read_range(seen, "a", 2, 5)
