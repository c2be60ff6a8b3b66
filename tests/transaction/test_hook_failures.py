"""A hook that fails after a commit is an event: listeners, the journal and the timeline have it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb import errors
from deltanb.options import LISTENERS, options, set_options
from deltanb.testing import MemoryStore
from deltanb.transaction import hooks
from deltanb.transaction.journal import journal_of

ON = {"delta.checkpointInterval": 1, "delta.compatibility.symlinkFormatManifest.enabled": True}


def broken(*_: Any) -> None:
    raise errors.StorageError("the disk\x1b[2J is full", path="p")


@pytest.fixture
def table(tmp_path: Path) -> dn.DeltaTable:
    return dn.create(tmp_path / "t", {"id": [1]}, properties=ON)


def append(table: dn.DeltaTable, *more: hooks.PostCommitHook) -> Any:
    """An append by hand, and what listeners heard of its hooks."""
    heard: list[dn.HookFailure] = []
    with set_options(hook_failure_listeners=[heard.append]):
        txn = table.start_transaction()
        txn.write_files({"id": [2]})
        for hook in more:
            txn.register_post_commit_hook(hook)
        assert txn.commit(txn.written, "WRITE") == 1
        dn.flush()
    return txn, heard


@pytest.mark.parametrize("kind", [*hooks._Builtin.__subclasses__(), hooks.FunctionHook])
def test_each_kind_of_hook_that_fails_is_an_event(
    kind: type, table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kind, "run", broken)
    added = hooks.FunctionHook("mail", print) if kind is hooks.FunctionHook else kind()
    is_usual = any(isinstance(hook, kind) for hook in (hooks.ChecksumHook(), hooks.CheckpointHook(),
                                                       hooks.SymlinkManifestHook()))
    txn, heard = append(table, *() if is_usual else (added,))
    assert [(f.version, f.txn_id, f.hook, f.error) for f in heard] == [
        (1, txn.txn_id, added.name, "STORAGE_ERROR")]
    assert heard[0].table == table.path and heard[0].message == "the disk\\x1b[2J is full"
    assert txn.hook_failures == tuple(heard) == [*journal_of(table.log)][-1].hook_failures
    timeline = table.timeline()
    assert [track.hook_failures for track in timeline.tracks if track.version == 1] == [tuple(heard)]
    assert f"hook {added.name} failed: STORAGE_ERROR" in str(timeline._repr_mimebundle_()["text/html"])


def test_work_in_the_background_that_fails_is_one_too(
    table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(table.log), "checkpoint_behind", broken)
    with set_options(checkpoints="background"):
        txn, heard = append(table)
    assert [failure.hook for failure in heard] == ["Checkpoint"] and txn.hook_failures == tuple(heard)


def test_several_are_remembered_in_their_order(table: dn.DeltaTable) -> None:
    _, heard = append(table, *(hooks.FunctionHook(name, broken) for name in ("first", "second")))
    assert [failure.hook for failure in heard] == ["first", "second"]


def test_hooks_that_cannot_begin_are_an_event(table: dn.DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    txn = table.start_transaction()
    monkeypatch.setattr(type(table.log), "advance", broken)
    txn.commit([], "WRITE")
    assert [failure.hook for failure in txn.hook_failures] == [hooks.FOLLOWING]


def test_a_commit_whose_hooks_go_well_has_no_failures(table: dn.DeltaTable) -> None:
    txn, heard = append(table, hooks.FunctionHook("mail", lambda *_: None))
    assert heard == [] and txn.hook_failures == ()


@pytest.mark.parametrize("name", LISTENERS)
def test_a_listener_that_fails_is_logged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    table = dn.create(MemoryStore(), {"id": [1]})
    txn = table.start_transaction()
    txn.register_post_commit_hook(hooks.FunctionHook("mail", broken))
    with set_options(**{name: [broken]}), caplog.at_level(logging.ERROR, "deltanb.transaction"):
        assert txn.commit([], "WRITE") == 1
    assert "A commit listener failed" in caplog.text


@pytest.mark.parametrize("name", LISTENERS)
@pytest.mark.parametrize("value", [3, print, ["x"], None])
def test_listeners_are_lists_of_functions(name: str, value: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match=name):
        set_options(**{name: value})
    assert getattr(options, name) == ()
