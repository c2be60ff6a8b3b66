"""What is kept of lists of files: for which snapshot, until when, how much."""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest

from deltanb.engines.spark import file_lists


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
    file_lists.keep(one, snapshot, "key", "list", files)
    assert file_lists.find(one, snapshot, "key") == "list"
    assert file_lists.find(one, other, "key") is None
    assert file_lists.find(one, snapshot, "other key") is None
    assert file_lists.find(two, snapshot, "key") is None


def test_lists_of_a_stopped_session_are_dropped(files) -> None:
    stopped, running, snapshot = Context(), Context(), Snapshot()
    file_lists.keep(stopped, snapshot, "key", "list", files)
    stopped._jsc = None
    file_lists.find(running, snapshot, "key")
    assert stopped not in file_lists._sessions


def test_a_list_goes_with_its_snapshot(files) -> None:
    context, snapshot = Context(), Snapshot()
    file_lists.keep(context, snapshot, "key", "list", files)
    del snapshot
    gc.collect()
    assert not list(file_lists._sessions[context])


def test_the_lists_used_last_are_kept(files, monkeypatch) -> None:
    monkeypatch.setattr(file_lists, "MAX_SNAPSHOTS", 2)
    context, snapshots = Context(), [Snapshot() for _ in range(3)]
    file_lists.keep(context, snapshots[0], "key", 0, files)
    file_lists.keep(context, snapshots[1], "key", 1, files)
    file_lists.find(context, snapshots[0], "key")
    file_lists.keep(context, snapshots[2], "key", 2, files)
    assert [file_lists.find(context, snapshot, "key") for snapshot in snapshots] == [0, None, 2]


def test_no_more_files_are_kept_than_there_is_room_for(files, monkeypatch) -> None:
    monkeypatch.setattr(file_lists, "MAX_FILES", 3)
    context, one, two = Context(), Snapshot(), Snapshot()
    file_lists.keep(context, one, "key", 1, files)
    file_lists.keep(context, two, "key", 2, files)
    assert [file_lists.find(context, snapshot, "key") for snapshot in (one, two)] == [None, 2]
    file_lists.keep(context, two, "other key", 3, files)
    assert [file_lists.find(context, two, key) for key in ("key", "other key")] == [None, 3]
    file_lists.keep(context, one, "key", 4, [*files, *files])
    assert file_lists.find(context, one, "key") is None
    assert file_lists.find(context, two, "other key") == 3


def test_a_list_holds_until_a_folder_of_it_changes(tmp_path) -> None:
    context, snapshot, below = Context(), Snapshot(), tmp_path / "below"
    below.mkdir()
    paths = [str(tmp_path / "a"), str(below / "b")]
    file_lists.keep(context, snapshot, "key", "list", paths)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "c").touch()
    os.utime(below, ns=(1, 1))
    assert file_lists.find(context, snapshot, "key") is None
    file_lists.keep(context, snapshot, "key", "list", paths)
    (tmp_path / "other" / "d").touch()
    assert file_lists.find(context, snapshot, "key") == "list", "this folder has none of its files"
    below.rmdir()
    assert file_lists.find(context, snapshot, "key") is None


def test_objects_hold_as_long_as_the_log_says_so() -> None:
    context, snapshot = Context(), Snapshot()
    file_lists.keep(context, snapshot, "key", "list", ["s3a-1f://lake/t/p=a "
                                                       f"b/{i}.parquet" for i in range(3)])
    assert file_lists.find(context, snapshot, "key") == "list"
    file_lists.keep(context, snapshot, "key", "too long", ["s3a://lake/t/a.parquet"] * (
        file_lists.MAX_FILES + 1))
    assert file_lists.find(context, snapshot, "key") == "list"
