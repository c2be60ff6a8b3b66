"""What became of a commit that was interrupted, refused, or not answered: the transaction says the truth, and
nothing that may be part of the table is deleted."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.actions import AddFile
from deltanb.log.commits import commit_name
from deltanb.options import set_options
from deltanb.store.base import FileStatus, LogStore
from deltanb.store.local import LocalStore
from deltanb.testing import Fail, Lose, LoseResponse, MemoryStore, ScriptedStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.drive import answer, watching
from deltanb.transaction.journal import journal_of
from deltanb.transaction.steps import Backoff, Committed, PutIfAbsent, ReadWinner
from deltanb.transaction.transaction import OptimisticTransaction
from tests.helpers import tree

INTERRUPTS = [KeyboardInterrupt, SystemExit, RuntimeError]
RIVAL = ({"commitInfo": {"operation": "WRITE", "isBlindAppend": True, "txnId": "rival"}}, add("rival"))


def landed(error: BaseException) -> Callable[[LogStore, str, bytes], bool]:
    """The put goes through and is interrupted then."""
    def put(inner: LogStore, name: str, data: bytes) -> bool:
        inner.put_if_absent(name, data)
        raise error
    return put


def not_begun(error: BaseException) -> Callable[[LogStore, str, bytes], bool]:
    """The put is interrupted before it does anything."""
    def put(inner: LogStore, name: str, data: bytes) -> bool:
        raise error
    return put


def opened(*script: Any, store: ScriptedStore | None = None) -> tuple[DeltaLog, ScriptedStore]:
    store = ScriptedStore(MemoryStore()) if store is None else store
    log = TableBuilder(store).create("id long").log
    store.script.extend(script)
    return log, store


def written(log: DeltaLog) -> tuple[OptimisticTransaction, list[AddFile]]:
    txn = log.start_transaction()
    return txn, txn.write_files({"id": [1, 2]})


def notes(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ()))


def data_files(store: LogStore) -> list[str]:
    return [s.name for s in store.list_all("") if not s.name.startswith("_delta_log/")]


# -- interrupts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupted_put_that_landed_is_committed_and_keeps_its_files(kind: type[BaseException]) -> None:
    log, store = opened(landed(kind("stop")))
    txn, added = written(log)
    with pytest.raises(kind) as caught:
        txn.commit(added, "WRITE")
    assert (txn.status, txn.has_surely_not_landed, txn.error) == ("committed", False, None)
    assert txn.committed is not None and txn.committed.version == 1
    assert "version 1 was committed" in notes(caught.value) and txn.txn_id in notes(caught.value)
    with pytest.raises(errors.IllegalStateError, match="is committed; its files stay"):
        txn.discard_written()
    assert log.update().version == 1 and len(data_files(store)) == 1
    assert [a.outcome for a in journal_of(log)] == ["committed"]


@pytest.mark.parametrize("kind", INTERRUPTS)
def test_an_interrupted_put_that_did_not_land_is_abandoned(kind: type[BaseException]) -> None:
    log, store = opened(not_begun(kind("stop")))
    txn, added = written(log)
    with pytest.raises(kind) as caught:
        txn.commit(added, "WRITE")
    assert (txn.status, txn.has_surely_not_landed, notes(caught.value)) == ("abandoned", True, "")
    txn.discard_written()
    assert data_files(store) == [] and log.update().version == 0


class CtrlC:
    """Ctrl-C at the n-th line that runs in deltanb/transaction (from 1; 0 is never)."""

    def __init__(self, at: int) -> None:
        self.left, self.lines = at, 0

    def __enter__(self) -> CtrlC:
        sys.settrace(self._call)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, event: str, value: object) -> Any:
        return self._line if "/deltanb/transaction/" in frame.f_code.co_filename else None

    def _line(self, frame: FrameType, event: str, value: object) -> Any:
        if event == "line":
            self.lines += 1
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self._line


def test_ctrl_c_at_any_line_of_a_commit_deletes_nothing_that_is_committed_and_says_so() -> None:
    log, _ = opened()
    txn, added = written(log)
    with CtrlC(0) as never:
        txn.commit(added, "WRITE")
    outcomes = Counter[str]()
    for at in range(1, never.lines):
        log, store = opened()
        txn, added = written(log)
        with pytest.raises(KeyboardInterrupt) as caught, CtrlC(at):
            txn.commit(added, "WRITE")
        outcomes[txn.status] += 1
        if txn.has_surely_not_landed:
            txn.discard_written()
        is_there = DeltaLog(store).update().version == 1
        assert is_there == ("version 1 was committed" in notes(caught.value)), at
        assert not is_there or len(data_files(store)) == 1, at
    assert {"abandoned", "committed"} <= outcomes.keys()
    assert outcomes["unknown"] == 0


def test_an_interrupted_put_that_lost_the_race_is_abandoned() -> None:
    def put(inner: LogStore, name: str, data: bytes) -> bool:
        rivals = TableBuilder(inner)
        rivals.version = 0
        rivals.commit(*RIVAL)
        raise KeyboardInterrupt

    log, _ = opened(put)
    txn, added = written(log)
    with pytest.raises(KeyboardInterrupt):
        txn.commit(added, "WRITE")
    assert (txn.status, txn.has_surely_not_landed) == ("abandoned", True)


def test_a_put_that_may_still_land_is_unknown() -> None:
    """A store that sends requests: what was interrupted here can go on there."""
    log, store = opened(not_begun(KeyboardInterrupt()))
    store.is_final = False
    txn, added = written(log)
    with pytest.raises(KeyboardInterrupt) as caught:
        txn.commit(added, "WRITE")
    assert (txn.status, txn.has_surely_not_landed) == ("unknown", False)
    assert "it is unknown" in notes(caught.value) and txn.txn_id in notes(caught.value)
    assert [a.outcome for a in journal_of(log)] == ["unknown"]
    with pytest.raises(errors.IllegalStateError, match="may have landed; its files stay"):
        txn.discard_written()
    assert "outcome unknown" in str(txn) and txn.txn_id in str(txn)


class Unreadable(MemoryStore):
    """Reading the commit of ``bad`` raises what is left in ``raises``, one a call; then it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.raises: list[BaseException] = []
        self.bad = commit_name(1)

    def read(self, name: str) -> bytes:
        if name == self.bad and self.raises:
            raise self.raises.pop(0)
        return super().read(name)


@pytest.mark.parametrize("second", [KeyboardInterrupt(), OSError(errno.EIO, "input/output error")])
@pytest.mark.parametrize("put", [landed, not_begun])
def test_an_outcome_that_cannot_be_read_is_unknown_and_the_first_interrupt_is_raised(
    second: BaseException, put: Callable[[BaseException], Any]
) -> None:
    first, inner = KeyboardInterrupt(), Unreadable()
    log, store = opened(put(first), store=ScriptedStore(inner))
    inner.raises.append(second)
    txn, added = written(log)
    with pytest.raises(KeyboardInterrupt) as caught:
        txn.commit(added, "WRITE")
    assert caught.value is first
    assert (txn.status, txn.has_surely_not_landed) == ("unknown", False)
    assert "it is unknown whether version 1" in notes(first) and txn.txn_id in notes(first)
    assert len(data_files(store)) == 1


@pytest.mark.parametrize("script, at, status, files", [
    ([], PutIfAbsent, "abandoned", 0),
    ([LoseResponse()], ReadWinner, "committed", 1),
    ([Fail()], ReadWinner, "unknown", 1),
    ([Lose(RIVAL)], ReadWinner, "abandoned", 0),
    ([], Committed, "committed", 1),
])
@pytest.mark.parametrize("kind", INTERRUPTS)
def test_a_listener_that_raises_gives_the_commit_up_where_it_stands(
    script: list[Any], at: type, status: str, files: int, kind: type[BaseException]
) -> None:
    log, store = opened(*script)
    table = dn.DeltaTable(log)
    seen: list[OptimisticTransaction] = []

    def listen(txn: OptimisticTransaction, step: Any) -> None:
        if isinstance(step, at):
            seen.append(txn)
            raise kind("stop")

    token = watching.set(listen)
    try:
        with pytest.raises(kind) as caught:
            table.append({"id": [1, 2]})
    finally:
        watching.reset(token)
    assert (seen[0].status, len(data_files(store))) == (status, files)
    note = {"committed": "was committed", "unknown": "it is unknown", "abandoned": ""}[status]
    assert note in notes(caught.value)
    assert bool(notes(caught.value)) == bool(note)


def test_an_interrupt_in_the_hooks_says_that_the_version_is_committed() -> None:
    class Slow(MemoryStore):
        def put(self, name: str, data: bytes) -> None:
            if name.endswith(".checkpoint.parquet"):
                raise KeyboardInterrupt
            super().put(name, data)

        open_output = None  # type: ignore[assignment]

    log = TableBuilder(Slow()).create("id long", properties={"delta.checkpointInterval": "1"}).log
    txn = log.start_transaction()
    with pytest.raises(KeyboardInterrupt) as caught:
        txn.commit([], "WRITE")
    assert "version 1 was committed" in notes(caught.value) and txn.status == "committed"


class Old(KeyboardInterrupt):
    """As exceptions were before PEP 678."""

    @property
    def add_note(self) -> Any:
        raise AttributeError("add_note")


def test_before_python_3_11_the_note_is_in_the_list_and_in_the_message() -> None:
    error = Old()
    errors.add_note(error, "one")
    errors.add_note(error, "two")
    assert error.__notes__ == ["one", "two"] and str(error) == "one"
    errors.add_note(error, "to s3://key:secret@lake/\x1b[2J")
    assert error.__notes__[-1] == "to s3://***@lake/\\x1b[2J"
    noted = Old("mine")
    errors.add_note(noted, "one")
    assert str(noted) == "mine"


COMMANDS: dict[str, Callable[[dn.DeltaTable], Any]] = {
    "append": lambda t: t.append({"id": [9]}),
    "overwrite": lambda t: t.overwrite({"id": [9]}),
    "delete": lambda t: t.delete("id = 1"),
    "update": lambda t: t.update({"id": "id + 10"}, where="id = 1"),
    "merge": lambda t: t.merge({"id": [1, 9]}, "t.id = s.id", target_alias="t", source_alias="s")
                        .when_matched_update_all().when_not_matched_insert_all().execute(),
    "optimize": lambda t: t.optimize(),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("put", [landed, not_begun])
@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["", "vectors"])
def test_an_interrupted_command_is_there_as_a_whole_or_not_at_all(
    name: str, put: Callable[[BaseException], Any], properties: dict[str, str]
) -> None:
    store = ScriptedStore(MemoryStore())
    table = dn.create(store, {"id": [1, 2]}, properties=properties)
    table.append({"id": [3]})
    before, files = table.version, data_files(store)
    store.script.append(put(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt) as caught:
        COMMANDS[name](table)
    is_there = put is landed
    assert table.version == before + is_there
    assert bool(notes(caught.value)) == is_there
    assert (data_files(store) == files) == (not is_there)
    DeltaLog.clear_cache()
    assert dn.open(store).to_arrow().num_rows in ({3, 2, 1, 4} if is_there else {3})


# -- the store fails after the put, or while it is asked ------------------------------------------------


class Failing(LocalStore):
    """Raises at the calls whose name and file are in ``bad``, as often as is given there."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.bad: dict[tuple[str, str], int] = {}

    def _check(self, call: str, name: str) -> None:
        for (bad, part), left in self.bad.items():
            if bad == call and part in name and left:
                self.bad[bad, part] = left - 1
                raise OSError(errno.EIO, "input/output error")

    def read(self, name: str) -> bytes:
        self._check("read", name)
        return super().read(name)

    def status(self, name: str) -> FileStatus | None:
        self._check("status", name)
        return super().status(name)

    def put(self, name: str, data: bytes) -> None:
        self._check("put", name)
        super().put(name, data)


MANY = 100


def failing(path: Path, **properties: str) -> tuple[dn.DeltaTable, Failing]:
    dn.create(path, {"id": [1, 2]}, properties=properties)
    DeltaLog.clear_cache()
    store = Failing(path)
    return dn.DeltaTable(DeltaLog.for_table(store)), store


@pytest.mark.parametrize("bad", [
    ("status", commit_name(1)), ("put", "checkpoint"), ("put", "_last_checkpoint")])
def test_an_error_after_the_put_does_not_hide_the_commit(tmp_path: Path, bad: tuple[str, str]) -> None:
    table, store = failing(tmp_path / "t", **{"delta.checkpointInterval": "1"})
    store.bad[bad] = MANY
    assert table.append({"id": [3]}) == 1
    store.bad.clear()
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3]
    assert table.append({"id": [4]}) == 2


def test_an_error_in_the_checkpoint_of_a_large_commit_does_not_hide_it(tmp_path: Path) -> None:
    table, store = failing(tmp_path / "t")
    table.append({"id": [3]})
    store.bad["put", "checkpoint"] = MANY
    assert table.restore(0).version == 2
    assert table.to_arrow()["id"].to_pylist() == [1, 2]


def test_a_table_that_cannot_be_read_after_the_commit_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another handle has moved on meanwhile, so the log is looked at again, and cannot be."""
    table, store = failing(tmp_path / "t")
    txn = table.start_transaction()
    txn.register_post_commit_hook(dn.transaction.hooks.FunctionHook("never", lambda *_: 1 / 0))
    dn.DeltaTable(DeltaLog(LocalStore(store.root))).append({"id": [7]})
    store.bad["read", commit_name(2)] = 0

    def rivals_commit(txn: Any, step: Any) -> None:
        if isinstance(step, Committed):
            store.bad["status", commit_name(0)] = MANY

    token = watching.set(rivals_commit)
    try:
        assert txn.commit([], "WRITE") == 2
    finally:
        watching.reset(token)
    assert "Version 2 is committed; its hooks do not run" in caplog.text
    store.bad.clear()
    assert table.version == 2


def test_a_winner_that_cannot_be_read_at_first_is_read_again(tmp_path: Path) -> None:
    table, store = failing(tmp_path / "t")
    txn, added = written(table.log)
    dn.DeltaTable(DeltaLog(LocalStore(store.root))).append({"id": [7]})
    store.bad["read", commit_name(1)] = 2
    assert txn.commit(added, "WRITE") == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 1, 2, 2, 7]


def test_the_version_after_a_winner_is_put_where_it_cannot_be_read(tmp_path: Path) -> None:
    table, store = failing(tmp_path / "t")
    txn, added = written(table.log)
    dn.DeltaTable(DeltaLog(LocalStore(store.root))).append({"id": [7]})
    store.bad["read", commit_name(2)] = 1
    assert txn.commit(added, "WRITE") == 2


def test_a_winner_that_stays_unreadable_fails_the_commit_and_its_files_go(tmp_path: Path) -> None:
    table, store = failing(tmp_path / "t")
    before = data_files(store)
    seen: list[OptimisticTransaction] = []

    def rival(txn: Any, step: Any) -> None:
        if isinstance(step, PutIfAbsent) and not seen:
            seen.append(txn)
            dn.DeltaTable(DeltaLog(LocalStore(store.root))).delete("id = 9")
            (Path(store.root) / commit_name(1)).write_bytes(b"")
            store.bad["read", commit_name(1)] = MANY

    token = watching.set(rival)
    try:
        with pytest.raises(errors.StorageError, match="version 1 exists and cannot be read") as caught:
            table.append({"id": [3]})
    finally:
        watching.reset(token)
    assert (caught.value.errno, caught.value.version) == (errno.EIO, 1)
    assert (seen[0].status, data_files(store)) == ("failed", before)


def test_where_exists_may_be_our_own_an_unreadable_winner_leaves_the_outcome_unknown() -> None:
    inner = Unreadable()
    log, store = opened(landed(OSError("connection reset")), store=ScriptedStore(inner))
    store.is_final = False
    inner.raises = [OSError(errno.EIO, "input/output error")] * MANY
    txn, added = written(log)
    with pytest.raises(errors.CommitOutcomeUnknown, match=f"cannot be read .* {txn.txn_id}"):
        txn.commit(added, "WRITE")
    assert (txn.status, len(data_files(store))) == ("unknown", 1)
    inner.raises = []
    assert log.update().version == 1, "it had landed"


def test_an_unanswered_put_is_tried_again_after_a_pause() -> None:
    log, _ = opened(Fail(), Fail())
    txn = log.start_transaction()
    waited: list[float] = []
    with set_options(backoff=lambda attempt: attempt / 8):
        steps, reply = txn.commit_steps([], "WRITE"), None
        seen = []
        while not isinstance(step := steps.send(reply), Committed):
            seen.append(step)
            reply = answer(step, txn.committer, waited.append) if not isinstance(step, PutIfAbsent) else (
                txn.committer.put(step.version, step.body, step.actions))
    assert waited == [0.125, 0.25]
    assert [type(s) for s in seen].count(Backoff) == 2


# -- nothing can have been written ----------------------------------------------------------------------


def disk_that(monkeypatch: pytest.MonkeyPatch, call: str, code: int, *, after: bool) -> None:
    """From now on a system call fails for files of commits, before or after it did its work."""
    real = getattr(os, call)

    def is_of_a_commit(path: Any, *args: Any) -> bool:
        if call == "link":  # to the name of a version
            return str(args[0]).endswith(".json")
        hidden = ".json" in str(path) and str(path).endswith(".tmp")
        nameless = str(path).endswith("_delta_log") and bool(args[0] & os.O_WRONLY)
        return hidden or nameless

    def fail(path: Any, *args: Any, **settings: Any) -> Any:
        if not is_of_a_commit(path, *args):
            return real(path, *args, **settings)
        if after:
            real(path, *args, **settings)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)


@pytest.mark.parametrize("call, code", [
    ("open", errno.EROFS), ("open", errno.EACCES), ("open", errno.ENOSPC), ("link", errno.ENOSPC),
    ("link", errno.EROFS)])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_disk_that_takes_no_commit_fails_the_command_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, call: str, code: int
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2]}, properties={"delta.enableDeletionVectors": "true"})
    table.append({"id": [3]})
    before = sorted(p.name for p in (tmp_path / "t").rglob("*"))
    with monkeypatch.context() as patch:
        disk_that(patch, call, code, after=False)
        with pytest.raises(errors.StorageError, match=r"0002\.json cannot be written: ") as caught:
            COMMANDS[name](table)
    assert caught.value.errno == code and isinstance(caught.value, OSError)
    assert sorted(p.name for p in (tmp_path / "t").rglob("*")) == before
    assert journal_of(table.log)[-1].outcome == "failed"
    assert COMMANDS[name](table) is not None and table.version == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EPERM])
def test_a_link_that_was_made_is_a_commit_whatever_was_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    with monkeypatch.context() as patch:
        disk_that(patch, "link", code, after=True)
        assert table.append({"id": [2]}) == 1
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_refusal_after_an_unanswered_put_leaves_the_outcome_open() -> None:
    def refused(inner: LogStore, name: str, data: bytes) -> bool:
        raise errors.StorageError("disk full")

    log, store = opened(Fail(), refused, refused, refused)
    txn, added = written(log)
    with pytest.raises(errors.CommitOutcomeUnknown, match="disk full"):
        txn.commit(added, "WRITE")
    assert (txn.status, len(data_files(store))) == ("unknown", 1)


# -- the table is gone ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["", "_delta_log"])
def test_a_commit_to_a_table_that_was_removed_fails(tmp_path: Path, what: str) -> None:
    path = tmp_path / "t"
    table = dn.create(path, {"id": [1]})
    table.append({"id": [2]})
    txn, added = written(table.log)
    shutil.rmtree(path / what)
    with pytest.raises(errors.TableNotFound, match=r"was removed after version 1 .* nothing was committed"):
        txn.commit(added, "WRITE")
    assert (txn.status, txn.has_surely_not_landed) == ("failed", True)
    txn.discard_written()
    assert not (path / "_delta_log").exists() and (what or not path.exists())


@pytest.mark.parametrize("versions", [1, 2, 5])
def test_a_commit_to_a_table_that_was_replaced_fails(tmp_path: Path, versions: int) -> None:
    """The other table has fewer, as many and more versions than the one that was read."""
    path = tmp_path / "t"
    table = dn.create(path, {"id": [1]})
    table.append({"id": [2]})
    txn, added = written(table.log)
    shutil.rmtree(path)
    DeltaLog.clear_cache()
    other = dn.create(path, {"id": [7]})
    for number in range(versions - 1):
        other.append({"id": [number]})
    before = tree(path)
    with pytest.raises(errors.TableReplaced, match="was replaced by another one") as caught:
        txn.commit(added, "WRITE")
    assert caught.value.table_id == other.snapshot.metadata.id
    txn.discard_written()
    assert tree(path) == before and other.version == versions - 1


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_on_a_table_that_goes_meanwhile_fail_and_leave_nothing(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    table = dn.create(path, {"id": [1, 2]})
    table.append({"id": [3]})

    def remove(txn: Any, step: Any) -> None:
        if isinstance(step, PutIfAbsent):
            shutil.rmtree(path)

    token = watching.set(remove)
    try:
        with pytest.raises(errors.TableNotFound):
            COMMANDS[name](table)
    finally:
        watching.reset(token)
    assert not path.exists()
    with pytest.raises(errors.TableNotFound):
        COMMANDS[name](table)
    assert not path.exists()


def test_the_folder_is_not_made_again_between_the_look_and_the_put(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dn.create(path, {"id": [1]})
    store = LocalStore(path)
    assert store.put_if_absent(commit_name(1), b"{}", make_folders=False)
    shutil.rmtree(path)
    with pytest.raises(errors.StorageError, match="cannot be written"):
        store.put_if_absent(commit_name(2), b"{}", make_folders=False)
    assert not path.exists()


def test_a_table_without_folders_is_missed_too() -> None:
    log, store = opened()
    txn = log.start_transaction()
    store.inner.files.clear()  # type: ignore[attr-defined]
    with pytest.raises(errors.TableNotFound):
        txn.commit([], "WRITE")
    assert store.inner.files == {}  # type: ignore[attr-defined]


def test_an_older_copy_of_the_table_is_not_built_upon(tmp_path: Path) -> None:
    path, copy = tmp_path / "t", tmp_path / "copy"
    table = dn.create(path, {"id": [1]})
    shutil.copytree(path, copy)
    table.append({"id": [2]})
    txn = table.log.start_transaction()
    shutil.rmtree(path)
    copy.rename(path)
    with pytest.raises(errors.VersionNotFound, match="version 1 was there when the transaction began"):
        txn.commit([], "WRITE")
    assert dn.open(path).version == 0


def test_a_commit_that_was_only_touched_or_cleaned_up_around_is_built_upon(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = dn.create(path, {"id": [1]})
    table.append({"id": [2]})
    txn = table.log.start_transaction()
    os.utime(path / commit_name(1), (1, 1))
    assert txn.commit([], "WRITE") == 2
    table.log.checkpoint()
    for version in range(3):  # the checkpoint stands for them
        (path / commit_name(version)).unlink()
    DeltaLog.clear_cache()
    assert dn.open(path).append({"id": [3]}) == 3


def test_a_version_that_was_cleaned_up_meanwhile_is_not_written_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = dn.create(path, {"id": [1]})
    txn = table.log.start_transaction()
    for number in range(3):
        table.append({"id": [number]})
    table.log.checkpoint()
    for version in range(3):
        (path / commit_name(version)).unlink()
    with pytest.raises(errors.VersionNotFound, match="version 1 was cleaned up"):
        txn.commit([], "WRITE")
    assert not (path / commit_name(1)).exists()


@pytest.mark.parametrize("command", ["append", "delete", "optimize"])
def test_ctrl_c_between_two_lines_leaves_no_file_that_nobody_names(
    tmp_path: Path, command: str
) -> None:
    """Between what a write has done and what the transaction knows of it, at every line."""
    from deltanb.engines.arrow import write as in_process
    from deltanb.transaction.writing import TransactionalWrite

    codes = {in_process.write_files.__code__, TransactionalWrite.write_files.__code__}
    for place in itertools.count():
        table = dn.create(tmp_path / f"{place}", {"id": [1, 2, 3]})
        table.append({"id": [4]})
        before, lines = sorted(p.name for p in (tmp_path / f"{place}").rglob("*.parquet")), itertools.count()

        def trace(frame: Any, event: str, argument: Any, at: int = place, lines: Any = lines) -> Any:
            if event == "line" and next(lines) == at:
                raise KeyboardInterrupt
            return trace if frame.f_code in codes else None

        sys.settrace(trace)
        try:
            COMMANDS[command](table)
        except KeyboardInterrupt:
            pass
        else:
            break
        finally:
            sys.settrace(None)
        assert sorted(p.name for p in (tmp_path / f"{place}").rglob("*.parquet")) == before
    assert place > 10


def test_ctrl_c_in_a_statement_of_a_transaction_leaves_no_file_and_nothing_staged(tmp_path: Path) -> None:
    """At every line between what is staged and the statement that it becomes; the transaction goes on."""
    from deltanb.transaction.staging import StagedCommits, StagedTransaction
    from deltanb.transaction.transaction import OptimisticTransaction

    codes = {work.__code__ for work in (StagedCommits.stage, StagedTransaction.run_post_commit_hooks,
                                        OptimisticTransaction._steps, OptimisticTransaction._note)}
    for place in itertools.count():
        table, lines = dn.create(tmp_path / f"{place}", {"id": [1]}), itertools.count()
        before = sorted((tmp_path / f"{place}").rglob("*.parquet"))

        def trace(frame: Any, event: str, argument: Any, at: int = place, lines: Any = lines) -> Any:
            if frame.f_code in codes and event == "line" and next(lines) == at:
                raise KeyboardInterrupt
            return trace if frame.f_code in codes else None

        with table.transaction() as txn:
            sys.settrace(trace)
            try:
                txn.append({"id": [2]})
            except KeyboardInterrupt:
                pass
            else:
                break
            finally:
                sys.settrace(None)
            assert sorted((tmp_path / f"{place}").rglob("*.parquet")) == before
            txn.append({"id": [3]})
        assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 3]
    assert place > 40
