"""Without hard links: in each way of giving a name one writer wins, and what a kill leaves is as stated."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.store import naming
from deltanb.store.drafts import Turn
from deltanb.store.local import LocalStore
from deltanb.store.naming import CLAIMED, LOOKED, RENAMED, Way

ROOT = Path(__file__).resolve().parents[2]
COMMIT = "_delta_log/00000000000000000000.json"
WAYS: tuple[Way, ...] = (RENAMED, LOOKED, CLAIMED)
REFUSALS = ("none", "ENOSYS", "EPERM")


def refuses_links(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Take hard links away: Python has no such call, or the system answers so."""
    if why == "none":
        monkeypatch.delattr(os, "link", raising=False)  # it may be absent
        return

    def refused(source: str, target: str, **more: Any) -> None:
        raise OSError(getattr(errno, why), "not here", target)

    monkeypatch.setattr(os, "link", refused, raising=False)


def has_only(monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    monkeypatch.setattr(naming, "is_alone", way == LOOKED)
    if way == CLAIMED:
        monkeypatch.setattr(naming, "_call", lambda: None)
    elif way == RENAMED and not (sys.platform == "win32" or naming._call()):
        pytest.skip("this system has no rename that replaces nothing")


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Way:
    refuses_links(monkeypatch, "none")
    has_only(monkeypatch, request.param)
    return request.param  # type: ignore[no-any-return]


def files(root: Path) -> list[str]:
    return sorted(os.listdir(root / "_delta_log"))


@pytest.mark.parametrize("why", REFUSALS)
@pytest.mark.parametrize("kind", WAYS)
def test_the_first_put_wins_and_the_store_says_how(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: Way, why: str
) -> None:
    refuses_links(monkeypatch, why)
    has_only(monkeypatch, kind)
    store = LocalStore(tmp_path)
    assert "hard links" not in repr(store) and not store.is_partial_write_visible
    with caplog.at_level(logging.INFO, "deltanb.transaction"):
        assert store.put_if_absent(COMMIT, b"one")
        assert not store.put_if_absent(COMMIT, b"two")
    assert store.read(COMMIT) == b"one" and files(tmp_path) == [Path(COMMIT).name]
    assert repr(store) == f"LocalStore({str(tmp_path)!r}, without hard links: {kind})"
    assert store.is_partial_write_visible == (kind == CLAIMED)
    [line] = [record for record in caplog.records if "hard links" in record.getMessage()]
    assert naming.WORDS[kind] in line.getMessage()
    assert line.levelno == (logging.WARNING if kind == CLAIMED else logging.INFO)


def test_of_many_writers_one_has_the_name(tmp_path: Path, way: Way) -> None:
    """Of threads; with `LOOKED` no other process is there."""
    winners: list[int] = []
    together = threading.Barrier(8)

    def put(n: int) -> None:
        store = LocalStore(tmp_path)
        together.wait()
        if store.put_if_absent(COMMIT, b"%d" % n * 10_000):
            winners.append(n)

    writers = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    [winner] = winners
    assert LocalStore(tmp_path).read(COMMIT) == b"%d" % winner * 10_000
    assert files(tmp_path) == [Path(COMMIT).name]


def test_who_lost_a_name_has_the_next_one_in_the_same_turn(tmp_path: Path, way: Way) -> None:
    store = LocalStore(tmp_path)
    store.put("log/0", b"theirs")
    with Turn(store) as turn:
        assert not store.put_if_absent("log/0", b"ours", turn=turn)
        assert store.put_if_absent("log/1", b"ours", turn=turn)
    assert sorted(os.listdir(tmp_path / "log")) == ["0", "1"]
    assert (store.read("log/0"), store.read("log/1")) == (b"theirs", b"ours")


CALLS = {RENAMED: "naming._call", LOOKED: "os.replace", CLAIMED: "os.replace"}


@pytest.mark.parametrize("call", ["os.open", "os.write", "os.fsync", "the naming"])
def test_a_writer_killed_at_any_call_leaves_no_half_of_a_file(tmp_path: Path, call: str, way: Way) -> None:
    """What it leaves is hidden; only where a name is claimed there may be an empty file."""
    code = f"""
import os, sys
from deltanb.store import naming
from deltanb.store.local import LocalStore
del os.link
naming.is_alone = {way == LOOKED}
if {way == CLAIMED}:
    naming._call = lambda: None
def die(*args, **kwargs):
    os._exit(9)
os.makedirs(sys.argv[1] + "/_delta_log")
{CALLS[way] if call == "the naming" else call} = die
store = LocalStore(sys.argv[1], durability="sync")
store.has_nameless_files = False
store.put_if_absent({COMMIT!r}, b"whole")
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=ROOT)
    assert done.returncode == 9
    seen = [name for name in files(tmp_path) if not name.startswith(".")]
    if way == CLAIMED and call == "the naming":
        assert LocalStore(tmp_path).read(COMMIT) == b""
    else:
        assert seen == [] and LocalStore(tmp_path).put_if_absent(COMMIT, b"next")


@pytest.mark.parametrize("raised", [OSError(errno.ENOSPC, "no space"), KeyboardInterrupt()])
def test_a_claim_that_comes_to_nothing_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    refuses_links(monkeypatch, "ENOSYS")
    has_only(monkeypatch, CLAIMED)

    def fail(*_: Any) -> None:
        raise raised

    replace = os.replace
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(raised)):
        LocalStore(tmp_path).put_if_absent(COMMIT, b"one")
    assert files(tmp_path) == []

    def late(source: str, target: str) -> None:
        replace(source, target)
        raise raised

    monkeypatch.setattr(os, "replace", late)
    with pytest.raises(type(raised)):
        LocalStore(tmp_path).put_if_absent(COMMIT, b"one")
    assert LocalStore(tmp_path).read(COMMIT) == b"one", "a reader may have seen it"


@pytest.mark.parametrize("answer", [errno.ENOSPC, errno.EIO, errno.ENOENT])
def test_an_error_of_the_rename_is_the_puts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    """Whether an I/O error did anything is open, and whether the file is gone because it was renamed, too."""
    refuses_links(monkeypatch, "none")
    monkeypatch.setattr(naming, "is_alone", False)
    monkeypatch.setattr(naming, "_call", lambda: lambda source, target: answer)
    with pytest.raises(OSError) as caught:
        LocalStore(tmp_path).put_if_absent(COMMIT, b"one")
    is_certain = isinstance(caught.value, dn.errors.StorageError)
    assert caught.value.errno == answer and is_certain == (answer == errno.ENOSPC)


@pytest.mark.parametrize("answer", [errno.EINVAL, errno.ENOSYS])
def test_a_file_system_without_such_a_rename_has_claims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    refuses_links(monkeypatch, "none")
    monkeypatch.setattr(naming, "is_alone", False)
    monkeypatch.setattr(naming, "_call", lambda: lambda source, target: answer)
    store = LocalStore(tmp_path)
    assert store.put_if_absent(COMMIT, b"one") and not store.put_if_absent(COMMIT, b"two")
    assert store.naming == CLAIMED and store.read(COMMIT) == b"one"


def test_a_second_name_is_not_to_be_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses_links(monkeypatch, "none")
    store = LocalStore(tmp_path)
    store.put("staged/a", b"1")
    assert store.link_if_absent("staged/a", "b") is None, "it is written as a file of its own"


WORK: dict[str, Callable[[dn.DeltaTable], object]] = {
    "append": lambda table: table.append({"n": [3], "part": ["b"]}),
    "delete": lambda table: table.delete("n = 1"),
    "update": lambda table: table.update({"n": "n + 1"}),
    "optimize": lambda table: table.optimize(),
    "property": lambda table: table.set_properties({"a": "b"}),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
def test_commands_commit_as_ever(tmp_path: Path, way: Way, work: Callable[[dn.DeltaTable], object]) -> None:
    table = dn.create(tmp_path / "t", {"n": [1, 2], "part": ["a", "b"]}, partition_by=["part"])
    table.append({"n": [5], "part": ["a"]})
    work(table)
    assert table.version == 2 and table.log.store.naming == way  # type: ignore[attr-defined]
    assert dn.open(tmp_path / "t").verify().is_sound
    assert not [name for name in files(tmp_path / "t") if name.startswith(".") and not name.endswith(".crc")]
