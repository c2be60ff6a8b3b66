"""Content without a name, and the turns in which writers of one host give it one."""

from __future__ import annotations

import errno
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from deltanb.errors import StorageError
from deltanb.options import StepClock, set_options
from deltanb.store import drafts
from deltanb.store.drafts import Draft, Turn
from deltanb.store.local import LocalStore, turn_in
from deltanb.testing import MemoryStore

pytestmark = pytest.mark.skipif(drafts.fcntl is None, reason="Windows has no such locks: no turns")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    (tmp_path / "log").mkdir()
    return LocalStore(tmp_path, durability="sync")


def names(store: LocalStore) -> list[str]:
    return sorted(os.listdir(store.local_path("log")))


def is_free(store: LocalStore) -> bool:
    """Whether nobody has the turn."""
    handle = os.open(store.local_path("log"), os.O_RDONLY)
    try:
        return drafts._locked(handle)
    finally:
        os.close(handle)


def test_a_turn_lasts_from_the_first_put_to_the_end_of_the_block(store: LocalStore) -> None:
    with Turn(store) as turn:
        assert is_free(store)
        assert store.put_if_absent("log/0", b"a", turn=turn)
        assert not is_free(store)
    assert is_free(store)
    assert store.read("log/0") == b"a" and names(store) == ["0"]


def test_who_waits_hears_of_each_name_that_is_taken_and_has_the_first_free_one(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Winners are read while others have their turns: in a turn of one's own all would wait for that."""
    outcomes: list[tuple[str, bool]] = []
    waits, locked = threading.Event(), drafts._locked

    def looked(handle: int) -> bool:
        is_mine = locked(handle)
        if not is_mine:
            waits.set()
        return is_mine

    def second() -> None:
        with Turn(store) as turn:
            for name in ("log/0", "log/1", "log/2"):
                outcomes.append((name, store.put_if_absent(name, b"b", turn=turn)))

    monkeypatch.setattr(drafts, "_locked", looked)
    with Turn(store) as turn:
        assert store.put_if_absent("log/0", b"a", turn=turn)
        thread = threading.Thread(target=second)
        thread.start()
        waits.wait()
        assert outcomes == [("log/0", False)]
        store.put("log/1", b"a")
        waits.clear()
        waits.wait()
        waits.clear()
        waits.wait()  # for the third name: the look at the second one may have begun before it was taken
        assert outcomes == [("log/0", False), ("log/1", False)] and names(store) == ["0", "1"]
    thread.join()
    assert outcomes[2] == ("log/2", True) and is_free(store)


def test_nobody_waits_for_ever(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "PATIENCE", -1.0)
    with Turn(store) as stopped, Turn(store) as turn:
        assert store.put_if_absent("log/0", b"a", turn=stopped)
        assert store.put_if_absent("log/1", b"b", turn=turn)
    assert names(store) == ["0", "1"] and is_free(store)


def test_a_process_that_dies_in_its_turn_leaves_nothing_and_blocks_nobody(store: LocalStore) -> None:
    code = """
import os, signal, sys
from deltanb.store.drafts import Turn
from deltanb.store.local import LocalStore
store = LocalStore(sys.argv[1])
with Turn(store) as turn:
    store.put_if_absent("log/0", b"a", turn=turn)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, store.root], cwd=ROOT)
    assert done.returncode == -signal.SIGKILL
    assert is_free(store) and names(store) == ["0"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_process_forked_in_a_turn_does_not_keep_it(store: LocalStore) -> None:
    reading, writing = os.pipe()
    with Turn(store) as turn:
        store.put_if_absent("log/0", b"a", turn=turn)
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)  # until the parent is through
            os._exit(0)
    try:
        assert is_free(store)
    finally:
        os.close(writing)
        os.waitpid(child, 0)
        os.close(reading)


def test_content_reaches_the_disk_before_the_turn_and_once(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that lost writes the same bytes under the next name: they are there already."""
    store.put("log/0", b"theirs")
    done: list[str] = []
    fsync, begins = os.fsync, Turn._begins

    def synced(handle: int) -> None:
        is_folder = os.path.isdir(f"/proc/self/fd/{handle}")
        done.append(f"folder {'free' if is_free(store) else 'taken'}" if is_folder else "file")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Turn, "_begins",
                        lambda turn, path: begins(turn, path) and (done.append("turn"), True)[1])
    with Turn(store) as turn:
        assert not store.put_if_absent("log/0", b"ours", turn=turn)
        assert store.put_if_absent("log/1", b"ours", turn=turn)
    assert done == ["file", "turn", "folder free"]
    done.clear()
    with Turn(store) as turn:
        assert not store.put_if_absent("log/1", b"ours", turn=turn)
        assert store.put_if_absent("log/2", b"rebased", turn=turn)
    assert done == ["file", "file", "turn", "folder free"]


@pytest.mark.parametrize("is_nameless", [True, False])
@pytest.mark.parametrize("held", [False, True])
def test_who_lost_a_name_is_not_older_than_who_took_it(
    store: LocalStore, is_nameless: bool, held: bool
) -> None:
    """Its bytes were on the disk first, and a table's versions are told apart by the times of their files."""
    store.has_nameless_files &= is_nameless
    clock = StepClock(step=0)
    with set_options(clock=clock) if held else nullcontext(), Turn(store) as turn:
        store.put_if_absent("log/0", b"a")
        assert not store.put_if_absent("log/0", b"b", turn=turn)
        draft = turn._draft
        assert draft is not None
        os.utime(draft._hidden if draft._handle is None else draft._handle, (0, 0))  # type: ignore[arg-type]
        clock.advance(1000)
        store.put_if_absent("log/1", b"a")
        assert not store.put_if_absent("log/1", b"b", turn=turn)
        assert store.put_if_absent("log/2", b"b", turn=turn)
    times = [os.stat(store.local_path(f"log/{name}")).st_mtime_ns // 1_000_000 for name in range(3)]
    assert times == sorted(times) and store.read("log/2") == b"b"
    assert not held or times[2] == clock.last


def test_a_turn_in_vain_leaves_nothing(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("log/0", b"theirs")
    with Turn(store) as turn:
        assert not store.put_if_absent("log/0", b"ours", turn=turn)
    assert names(store) == ["0"]

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with Turn(store) as turn, pytest.raises(StorageError, match="no space"):
        store.put_if_absent("log/1", b"ours", turn=turn)
    assert names(store) == ["0"] and is_free(store)
    with Turn(store) as turn, pytest.raises(StorageError):
        store.put_if_absent("gone/0", b"ours", turn=turn)
    assert not os.path.exists(store.local_path("gone")), "what was removed meanwhile is not made again"


def test_a_folder_that_cannot_be_synced_is_told_and_the_file_stands(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fsync = os.fsync

    def broken(handle: int) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}"):
            raise OSError(errno.EIO, "input/output error")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", broken)
    with caplog.at_level(logging.WARNING, "deltanb.transaction"), Turn(store) as turn:
        assert store.put_if_absent("log/0", b"a", turn=turn)
    assert "was not synced" in caplog.text and names(store) == ["0"]


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_where_files_must_have_names_they_have_hidden_ones(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    if not store.has_nameless_files:
        pytest.skip("files without a name are Linux's")
    real = os.open

    def refuses(path: Any, flags: int, *args: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(code, "no such kind of file")
        return real(path, flags, *args, **more)

    monkeypatch.setattr(os, "open", refuses)
    with Draft(store, store.local_path("log/0"), b"a") as draft:
        [hidden] = names(store)
        assert hidden.startswith(".0.")
        assert draft.link(store.local_path("log/0"))
    assert names(store) == ["0"] and not store.has_nameless_files


def test_without_proc_a_name_is_given_all_the_same(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not store.has_nameless_files:
        pytest.skip("files without a name are Linux's")
    link, exists = os.link, os.path.exists

    def without_proc(source: str, target: str, **more: Any) -> None:
        if source.startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, "there is no /proc")
        link(source, target, **more)

    monkeypatch.setattr(os, "link", without_proc)
    monkeypatch.setattr(os.path, "exists", lambda path: path != "/proc/self/fd" and exists(path))
    with Draft(store, store.local_path("log/0"), b"a") as draft:
        assert draft.link(store.local_path("log/0"))
    assert names(store) == ["0"] and not store.has_nameless_files


def test_only_folders_of_our_own_have_turns(store: LocalStore) -> None:
    class Watched(LocalStore):
        """A store of somebody else's: its own put is asked."""

    assert isinstance(turn_in(store), Turn)
    assert turn_in(MemoryStore()) is None and turn_in(Watched(store.root)) is None


def test_a_file_is_written_as_a_whole_or_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "page.html"
    drafts.write_whole(place, b"old")
    drafts.write_whole(place, b"new")
    assert place.read_bytes() == b"new"

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        drafts.write_whole(place, b"newest")
    assert place.read_bytes() == b"new" and os.listdir(tmp_path) == ["page.html"]


def test_pieces_are_written_as_they_come_and_are_no_file_before_the_last_one(store: LocalStore) -> None:
    seen: list[int] = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"a", b"b", b"c"):
            (hidden,) = [name for name in names(store) if name != "0"]
            seen.append(os.path.getsize(store.local_path(f"log/{hidden}")))
            assert store.read("log/0") == b"old"
            yield piece

    store.put("log/0", b"old")
    store.put("log/0", pieces())
    assert store.read("log/0") == b"abc" and names(store) == ["0"]
    assert seen == [0, 1, 2]


def test_where_a_piece_cannot_be_made_nothing_is_changed(store: LocalStore) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a"
        raise ValueError("there is no more")

    store.put("log/0", b"old")
    with pytest.raises(ValueError, match="no more"):
        store.put("log/0", pieces())
    assert store.read("log/0") == b"old" and names(store) == ["0"]
