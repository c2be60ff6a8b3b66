"""What is kept of lists of files: for which snapshot, until when, how much."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from deltanb.engines.spark import file_lists as kept


class Context:
    """Of a ``sparkContext``, whether it is stopped."""

    _jsc: Any = object()


class Snapshot:
    pass


@pytest.fixture
def files(tmp_path) -> list[str]:
    return [str(tmp_path / name) for name in ("a", "b")]


def test_a_list_is_for_one_session_snapshot_and_key(files) -> None:
    one, two, snapshot, other = Context(), Context(), Snapshot(), Snapshot()
    kept.keep(one, snapshot, "key", "list", files)
    assert kept.find(one, snapshot, "key") == "list"
    assert kept.find(one, other, "key") is None
    assert kept.find(one, snapshot, "other key") is None
    assert kept.find(two, snapshot, "key") is None


def test_lists_of_a_stopped_session_are_dropped(files) -> None:
    stopped, running, snapshot = Context(), Context(), Snapshot()
    kept.keep(stopped, snapshot, "key", "list", files)
    stopped._jsc = None
    kept.find(running, snapshot, "key")
    assert stopped not in kept._sessions


def test_a_list_goes_with_its_snapshot(files) -> None:
    context, snapshot = Context(), Snapshot()
    kept.keep(context, snapshot, "key", "list", files)
    del snapshot
    gc.collect()
    assert not list(kept._sessions[context])


def test_the_lists_used_last_are_kept(files, monkeypatch) -> None:
    monkeypatch.setattr(kept, "MAX_SNAPSHOTS", 2)
    context, snapshots = Context(), [Snapshot() for _ in range(3)]
    kept.keep(context, snapshots[0], "key", 0, files)
    kept.keep(context, snapshots[1], "key", 1, files)
    kept.find(context, snapshots[0], "key")
    kept.keep(context, snapshots[2], "key", 2, files)
    assert [kept.find(context, snapshot, "key") for snapshot in snapshots] == [0, None, 2]


def test_no_more_files_are_kept_than_there_is_room_for(files, monkeypatch) -> None:
    monkeypatch.setattr(kept, "MAX_FILES", 3)
    context, one, two = Context(), Snapshot(), Snapshot()
    kept.keep(context, one, "key", 1, files)
    kept.keep(context, two, "key", 2, files)
    assert [kept.find(context, snapshot, "key") for snapshot in (one, two)] == [None, 2]
    kept.keep(context, two, "other key", 3, files)
    assert [kept.find(context, two, key) for key in ("key", "other key")] == [None, 3]
    kept.keep(context, one, "key", 4, [*files, *files])
    assert kept.find(context, one, "key") is None
    assert kept.find(context, two, "other key") == 3


def test_a_list_holds_until_a_folder_of_it_changes(tmp_path) -> None:
    context, snapshot, below = Context(), Snapshot(), tmp_path / "below"
    below.mkdir()
    paths = [str(tmp_path / "a"), str(below / "b")]
    kept.keep(context, snapshot, "key", "list", paths)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c").touch()
    os.utime(below, ns=(1, 1))
    assert kept.find(context, snapshot, "key") is None
    kept.keep(context, snapshot, "key", "list", paths)
    (tmp_path / "other" / "d").touch()
    assert kept.find(context, snapshot, "key") == "list", "this folder has none of its files"
    below.rmdir()
    assert kept.find(context, snapshot, "key") is None


def test_objects_hold_as_long_as_the_log_says_so() -> None:
    context, snapshot = Context(), Snapshot()
    kept.keep(context, snapshot, "key", "list", [f"s3a-1f://lake/t/p=a b/{i}.parquet" for i in range(3)])
    assert kept.find(context, snapshot, "key") == "list"
    kept.keep(context, snapshot, "key", "too long", ["s3a://lake/t/a.parquet"] * (kept.MAX_FILES + 1))
    assert kept.find(context, snapshot, "key") == "list"
