"""Folders, memory and buckets keep the same promises; the scripted one breaks them as told."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

import deltanb as dn
from deltanb.errors import InvalidArgument, StorageError
from deltanb.options import set_options
from deltanb.store.base import LogStore
from deltanb.store.local import LocalStore, local_path_of
from deltanb.store.object import ObjectStore
from deltanb.store.open import store_for
from deltanb.testing import (
    AnswerExists,
    Fail,
    Lose,
    LoseResponse,
    MemoryStore,
    ScriptedStore,
    add,
)

COMMIT = "_delta_log/00000000000000000000.json"


@pytest.fixture(params=["local", "memory", "scripted", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LogStore:
    if request.param == "bucket":
        server = request.getfixturevalue("s3_server")
        return ObjectStore(f"{request.getfixturevalue('bucket')}/table", server.options)
    kinds = {"local": lambda: LocalStore(tmp_path / "table"), "memory": MemoryStore,
             "scripted": lambda: ScriptedStore(LocalStore(tmp_path / "table"))}
    return kinds[request.param]()


def test_every_store_has_the_protocols_methods(store: LogStore) -> None:
    assert isinstance(store, LogStore)


def test_the_first_put_wins_and_the_second_changes_nothing(store: LogStore) -> None:
    assert store.put_if_absent(COMMIT, b"one")
    assert not store.put_if_absent(COMMIT, b"two")
    assert store.read(COMMIT) == b"one"
    assert [status.name for status in store.list_all("")] == [COMMIT]


def test_put_replaces_and_the_tag_tells(store: LogStore) -> None:
    store.put("_delta_log/_last_checkpoint", b"1")
    before = store.status("_delta_log/_last_checkpoint")
    store.put("_delta_log/_last_checkpoint", b"2")
    after = store.status("_delta_log/_last_checkpoint")
    assert store.read("_delta_log/_last_checkpoint") == b"2"
    assert before is not None and after is not None
    assert before.size == after.size and before.tag != after.tag


def test_listing_starts_at_the_name_stays_in_the_folder_and_is_sorted(store: LogStore) -> None:
    for name in ("_delta_log/3", "_delta_log/1", "_delta_log/2", "_delta_log/_sidecars/4", "9"):
        store.put(name, b"x" * 3)
    assert store.list_names("_delta_log/2") == ["_delta_log/2", "_delta_log/3"]
    assert [(s.name, s.size) for s in store.list_from("_delta_log/2")] == [
        ("_delta_log/2", 3), ("_delta_log/3", 3)]
    assert store.list_names("nowhere/") == []
    assert {s.name for s in store.list_all("_delta_log")} == {
        "_delta_log/1", "_delta_log/2", "_delta_log/3", "_delta_log/_sidecars/4"}


def test_what_is_not_there(store: LogStore) -> None:
    assert store.status("a") is None
    store.delete("a")
    with pytest.raises(FileNotFoundError):
        store.read("a")
    with pytest.raises(FileNotFoundError):
        store.open_input("a")


@pytest.mark.parametrize("durability", ["sync", "none"])
def test_arrow_files_make_their_folders(store: LogStore, durability: str) -> None:
    with set_options(durability=durability):
        with store.open_output("part=1/deep/file") as out:
            out.write(b"hello ")
            out.write(b"world")
        with store.open_input("part=1/deep/file") as source:
            source.seek(6)
            assert source.read() == b"world"


def test_a_large_file_comes_back_whole(tmp_path: Path) -> None:
    data = os.urandom(1 << 20) * 3 + b"end"
    store = LocalStore(tmp_path)
    store.put("big", data)
    assert store.read("big") == data


def test_only_one_of_many_threads_wins(store: LogStore) -> None:
    answers: list[tuple[int, bool]] = []
    gate = threading.Barrier(8)

    def run(number: int) -> None:
        gate.wait()
        answers.append((number, store.put_if_absent(COMMIT, b"%d" % number)))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    winners = [number for number, won in answers if won]
    assert len(winners) == 1
    assert store.read(COMMIT) == b"%d" % winners[0]


@pytest.mark.parametrize("durability", ["sync", "none"])
def test_durability_decides_about_fsync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: str
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def count(handle: int) -> None:
        synced.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    (tmp_path / "_delta_log").mkdir()
    monkeypatch.setattr(os, "fsync", count)
    with set_options(durability=durability):
        LocalStore(tmp_path).put_if_absent(COMMIT, b"x")
    assert synced == (["file", "folder"] if durability == "sync" else [])
    LocalStore(tmp_path, durability="none").put("other", b"x")
    assert len(synced) == (2 if durability == "sync" else 0)


@pytest.mark.parametrize(("call", "nameless"), [
    *((call, True) for call in ("open", "write", "fsync", "link", "close")),
    *((call, False) for call in ("open", "write", "fsync", "link", "unlink"))])
def test_a_writer_killed_at_any_call_leaves_all_or_nothing(
    tmp_path: Path, call: str, nameless: bool
) -> None:
    """The process dies inside one system call of the put; what it leaves is whole or ignored."""
    if nameless and not hasattr(os, "O_TMPFILE"):
        pytest.skip("files without a name are Linux's")
    code = f"""
import os, sys
from deltanb.store.local import LocalStore
real = os.{call}
def die(*args, **kwargs):
    if {call!r} in ("open", "unlink"):
        real(*args, **kwargs)
    os._exit(9)
os.makedirs(sys.argv[1] + "/_delta_log")
os.{call} = die
store = LocalStore(sys.argv[1])
store.has_nameless_files = {nameless}
store.put_if_absent({COMMIT!r}, b"whole")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2])
    assert done.returncode == 9
    store = LocalStore(tmp_path)
    status = store.status(COMMIT)
    assert (status is not None) == (call in ("unlink", "close"))
    hidden = [name for name in os.listdir(tmp_path / "_delta_log") if name.startswith(".")]
    assert len(hidden) == (not nameless and call != "unlink"), "what has no name is gone with its process"
    if status is not None:
        assert store.read(COMMIT) == b"whole"
    assert store.put_if_absent(COMMIT, b"next") == (status is None)


def test_a_failed_write_leaves_no_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(OSError, match="no space"):
        LocalStore(tmp_path, durability="sync").put_if_absent(COMMIT, b"x")
    assert list((tmp_path / "_delta_log").iterdir()) == []


@pytest.mark.parametrize("nameless", [True, False])
def test_a_repeated_link_that_meets_itself_is_a_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nameless: bool
) -> None:
    link = os.link

    def twice(source: str, target: str, **more: Any) -> None:
        link(source, target, **more)
        link(source, target, **more)

    monkeypatch.setattr(os, "link", twice)
    store = LocalStore(tmp_path)
    store.has_nameless_files &= nameless
    assert store.put_if_absent(COMMIT, b"x")
    monkeypatch.undo()
    assert not store.put_if_absent(COMMIT, b"y")


def test_a_file_gets_a_second_name_if_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path, durability="sync")
    store.put("staged/a", b"1")
    assert store.link_if_absent("staged/a", "b") is True
    assert store.link_if_absent("staged/a", "b") is False
    assert store.link_if_absent("staged/gone", "c") is None
    store.delete("staged/a")
    assert store.read("b") == b"1"
    for code, error in ((errno.EPERM, None), (errno.ENOSPC, StorageError)):
        def refuse(*_: object, code: int = code) -> None:
            raise OSError(code, "refused")

        monkeypatch.setattr(os, "link", refuse)
        if error is None:
            assert store.link_if_absent("b", "d") is None, "it is written as a file of its own"
            continue
        with pytest.raises(error):
            store.link_if_absent("b", "d")


def test_roots_by_path_uri_and_pathlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spaced = tmp_path / "a b%20c"
    assert store_for(spaced).root == str(spaced)
    assert store_for(spaced.as_uri()).root == str(spaced)
    assert store_for(f"file:{tmp_path}").root == str(tmp_path)
    assert store_for(str(tmp_path) + "/").root == str(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert store_for("x/../y").root == str(tmp_path / "y")
    assert local_path_of("~") == os.path.expanduser("~")
    memory = MemoryStore()
    assert store_for(memory) is memory
    with pytest.raises(InvalidArgument, match="no store serves hdfs://"):
        store_for("hdfs://bucket/table")
    with pytest.raises(InvalidArgument, match="another machine"):
        store_for("file://nas/table")
    with pytest.raises(InvalidArgument, match="durability"):
        LocalStore(tmp_path, durability="maybe")  # type: ignore[arg-type]


def test_action_paths_resolve_inside_and_outside_the_table(tmp_path: Path) -> None:
    root = tmp_path / "table"
    store = LocalStore(root)
    outside = tmp_path / "other" / "file"
    outside.parent.mkdir()
    outside.write_bytes(b"far")
    assert store.resolve("part=1/a:b c%25") == (store, "part=1/a:b c%25")
    assert store.resolve(f"{root}/x/y") == (store, "x/y")
    assert store.resolve(f"file://{root}/x") == (store, "x")
    assert store.resolve(f"file:{root}/x") == (store, "x")
    for path in (str(outside), f"file:{outside}", outside.as_uri()):
        other, name = store.resolve(path)
        assert other is not store
        assert other.open_input(name).read() == b"far"
    with pytest.raises(InvalidArgument, match="no store serves"):
        store.resolve("hdfs://bucket/x")


def test_the_script_is_followed_step_by_step_and_calls_are_counted() -> None:
    store = ScriptedStore(MemoryStore(), [
        Lose((add("rival"),)), LoseResponse(), AnswerExists(), Fail(),
        lambda inner, name, data: inner.put_if_absent(name, data + b"!"),
    ])
    assert not store.put_if_absent("a", b"mine")
    assert b"rival" in store.read("a")
    with pytest.raises(OSError, match="connection reset"):
        store.put_if_absent("b", b"mine")
    assert not store.put_if_absent("c", b"mine")
    assert store.read("b") == store.read("c") == b"mine"
    with pytest.raises(OSError, match="no space"):
        store.put_if_absent("d", b"mine")
    assert store.status("d") is None
    assert store.put_if_absent("e", b"mine") and store.read("e") == b"mine!"
    assert store.put_if_absent("f", b"mine")
    assert store.puts == ["a", "b", "c", "d", "e", "f"]
    assert store.calls == {"put_if_absent": 6, "read": 4, "status": 1}


@pytest.mark.parametrize(("call", "ask", "what"), [
    ("open", lambda store: store.read("part=p0/a"), "part=p0/a cannot be read"),
    ("read", lambda store: store.read("part=p0/a"), "part=p0/a cannot be read"),
    ("stat", lambda store: store.status("part=p0/a"), "part=p0/a cannot be read"),
    ("scandir", lambda store: store.list_names("part=p0/"), "part=p0 cannot be listed"),
    ("scandir", lambda store: list(store.list_all("")), "part=p0 cannot be listed"),
], ids=["open", "read", "stat", "list", "walk"])
def test_what_cannot_be_read_is_not_taken_for_absent(
    call: str, ask: Callable[[LocalStore], object], what: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, real = LocalStore(tmp_path), getattr(os, call)
    store.put("part=p0/a", b"x")
    store.put("part=p1/b", b"x")

    def failing(of: Any, *args: Any, **more: Any) -> Any:
        if isinstance(of, int) or "part=p0" in os.fspath(of):
            raise OSError(errno.EIO, "Input/output error", of)
        return real(of, *args, **more)

    monkeypatch.setattr(os, call, failing)
    with pytest.raises(StorageError, match=what) as caught:
        ask(store)
    assert caught.value.errno == errno.EIO


def test_a_folder_that_goes_during_a_walk_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, real = LocalStore(tmp_path), os.scandir
    store.put("part=p0/a", b"x")
    store.put("part=p1/b", b"x")

    def gone(path: Any) -> Any:
        if "part=p0" in os.fspath(path):
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return real(path)

    monkeypatch.setattr(os, "scandir", gone)
    assert [status.name for status in store.list_all("")] == ["part=p1/b"]


def test_a_store_of_another_kind_is_another_store(tmp_path: Path) -> None:
    """A log is shared by path; a store that somebody hands over is used, and not the one that is known."""

    class Watched(LocalStore):
        names: ClassVar[list[str]] = []

        def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
            self.names.append(name)
            return super().put_if_absent(name, data, make_folders=make_folders)

    dn.create(tmp_path, {"n": [1]})
    dn.open(Watched(tmp_path)).append({"n": [2]})
    assert "_delta_log/00000000000000000001.json" in Watched.names
