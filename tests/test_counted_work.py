"""What calls on a table ask of the disk, counted: files looked at and read, listings, syncs, bytes.

The table has a checkpoint at version 10 and three commits after it, and is opened anew for each call. A count
that changes is a change of speed on every machine: make it smaller, or say in the commit why it grows.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.log.checkpoint.names import parse_name
from deltanb.options import set_options
from deltanb.store.local import LocalStore
from deltanb.testing import TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from tests.faults.disk import Disk

CHECKPOINT, NEWEST = 10, 13
LOG = "_delta_log"
Call = Callable[[dn.DeltaTable], Any]


def has_drafts(folder: Path) -> bool:
    """Whether files without a name can be made here, as commits are."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))
    except (AttributeError, OSError):
        return False
    return True


class Watched(Disk):
    """Counts by what is done and to which kind of file, and the bytes of the log that are read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.bytes_of_log = 0
        self.through_arrow: list[str] = []

    def _read(self, handle: int, length: int) -> bytes:
        data = super()._read(handle, length)
        path = self._handles.get(handle, ("", False))[0]
        self.bytes_of_log += len(data) if LOG in path else 0
        return data

    @property
    def counts(self) -> dict[str, int]:
        """How often each thing was done; a file is open once, however many pieces it is written in."""
        done = [f"{one.kind} {kind_of(one.name)}" for one in self.done if one.kind not in ("write", "close")]
        return dict(Counter([*done, *(f"decode {kind_of(name)}" for name in self.through_arrow)]))


def kind_of(name: str) -> str:
    """What a file is to the table."""
    base = name.removeprefix(f"{LOG}/")
    if name in (".", LOG):
        return "table" if name == "." else "log"
    if not name.startswith(LOG):
        return "data"
    if base == "_last_checkpoint":
        return "hint"
    return "checkpoint" if parse_name(name) else base.rpartition(".")[2]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of fourteen versions, of which each test gets a copy."""
    path = tmp_path_factory.mktemp("counted") / "t"
    with set_options(checkpoints="inline", durability="none"):
        table = dn.create(path, pa.table({"id": [1, 2, 3]}),
                          properties={"delta.checkpointInterval": str(CHECKPOINT)})
        for number in range(NEWEST):
            table.append(pa.table({"id": [10 + number]}))
    return path


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Iterator[Path]:
    """The table; checkpoints are written before commits return, and all is synced."""
    with set_options(checkpoints="inline", durability="sync"):
        yield Path(shutil.copytree(template, tmp_path / "t"))


def watched(folder: Path, call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Watched:
    """What a call did."""
    disk, real = Watched(folder), LocalStore.open_input

    def noted(self: LocalStore, name: str) -> Any:
        disk.through_arrow.append(name)
        return real(self, name)

    with monkeypatch.context() as patch, disk.inserted():
        patch.setattr(LocalStore, "open_input", noted)
        call()
    return disk


def fresh(folder: Path) -> dn.DeltaTable:
    """The table as a process meets it that has read nothing of it."""
    DeltaLog.clear_cache()
    return dn.open(folder)


def commits(first: int, last: int) -> list[str]:
    return [f"{version:020}.json" for version in range(first, last + 1)]


def sizes(folder: Path, *names: str) -> int:
    return sum((folder / LOG / name).stat().st_size for name in names)


OPENING = {"look hint": 1, "read hint": 1, "scandir log": 1, "stat checkpoint": 1, "decode checkpoint": 1,
           "look json": 3, "read json": 3, "look crc": 1, "read crc": 1, "stat json": 1}
"""One listing, the commits after the checkpoint, the newest checksum; and the age of the newest commit."""
REFRESH = {"stat json": 1, "look json": 1}
"""Whether the newest commit is still the same, and whether there is one after it."""
COMMIT = {"stat json": 3, "look json": 1, "open log": 2, "look log": 2, "fsync log": 2, "link json": 1,
          "link crc": 1, "unlink crc": 2}
"""A refresh; the body without a name, synced; its name, and the folder synced; the checksum, which is not. Of
each new name, the checksum that Hadoop may have kept."""
DATA = {"open data": 1, "fsync data": 1, "look table": 1, "fsync table": 1}
"""A file of rows, synced, and the folder that names it."""
ROW = {"id": [99]}


def read(files: int) -> dict[str, int]:
    """Files of rows, each of which is looked for and opened once."""
    return {"stat data": files, "decode data": files}


CALLS: dict[str, tuple[Call, dict[str, int]]] = {
    "refresh": (lambda table: table.log.update(), REFRESH),
    "repr": (repr, {}),
    "to_arrow": (lambda table: table.to_arrow(), REFRESH | read(NEWEST + 1)),
    "to_arrow of one file": (lambda table: table.to_arrow(where="id = 11"), REFRESH | read(1)),
    "head": (lambda table: table.head(), REFRESH | read(3)),
    "append": (lambda table: table.append(pa.table(ROW)), COMMIT | DATA),
    "delete of a whole file": (lambda table: table.delete("id = 11"), COMMIT | read(1)),
    "delete of a row": (lambda table: table.delete("id = 2"), COMMIT | DATA | read(2)),
    "update": (lambda table: table.update({"id": "7"}, "id = 2"), COMMIT | DATA | read(2)),
    "merge without a match": (
        lambda table: table.merge(pa.table(ROW), "target.id = source.id").when_matched_delete()
        .when_not_matched_insert_all().execute(), COMMIT | DATA),
    "optimize": (lambda table: table.optimize(), COMMIT | DATA | read(NEWEST + 1)),
    "commit without rows": (lambda table: table.set_properties({"delta.appendOnly": "true"}), COMMIT),
}
"""What a call does to an open table. The file of a row that goes is searched, then read to be written."""


def test_opening_reads_what_came_after_the_checkpoint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = watched(folder, lambda: fresh(folder), monkeypatch)
    assert disk.counts == OPENING
    assert disk.bytes_of_log == sizes(
        folder, "_last_checkpoint", f"{NEWEST:020}.crc", *commits(CHECKPOINT + 1, NEWEST))


@pytest.mark.parametrize("name", CALLS)
def test_each_call_asks_for_so_much_and_reads_no_log_again(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "link json" in CALLS[name][1] and not has_drafts(folder):
        pytest.skip("no files without a name here: commits are written in another way")
    call, expected = CALLS[name]
    table = fresh(folder)
    disk = watched(folder, lambda: call(table), monkeypatch)
    assert (disk.counts, disk.bytes_of_log) == (expected, 0)


def test_a_second_append_costs_what_the_first_did(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = fresh(folder)
    first, second = (watched(folder, lambda: table.append(pa.table(ROW)), monkeypatch) for _ in range(2))
    assert first.counts == second.counts and second.bytes_of_log == 0


@pytest.mark.parametrize("others", [1, 4])
def test_a_refresh_reads_the_commits_of_others_and_nothing_else(
    others: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fresh(folder)
    DeltaLog.clear_cache()
    other = dn.open(folder)
    for _ in range(others):
        other.append(pa.table(ROW))
    disk = watched(folder, table.log.update, monkeypatch)
    assert table.version == NEWEST + others
    assert disk.bytes_of_log == sizes(folder, *commits(NEWEST + 1, NEWEST + others))
    assert disk.counts == {"stat json": 2, "look json": others + 1, "read json": others}


def test_history_lists_once_and_reads_each_commit_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, versions in ((None, commits(0, NEWEST)), (2, commits(NEWEST - 1, NEWEST))):
        table = fresh(folder)
        disk = watched(folder, lambda table=table, limit=limit: table.history(limit), monkeypatch)
        counts = {name: count for name, count in disk.counts.items() if not name.startswith("stat")}
        assert counts == {"scandir log": 1, "look json": len(versions), "read json": len(versions)}
        assert disk.bytes_of_log == sizes(folder, *versions)


@pytest.mark.parametrize(("version", "first", "decoded"), [(12, CHECKPOINT + 1, 1), (5, 0, 0)])
def test_a_past_version_begins_at_the_checkpoint_before_it(
    version: int, first: int, decoded: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fresh(folder)
    disk = watched(folder, lambda: table.as_of(version), monkeypatch)
    assert disk.bytes_of_log == sizes(
        folder, "_last_checkpoint", f"{version:020}.crc", *commits(first, version))
    assert disk.counts.get("decode checkpoint", 0) == decoded and disk.counts["scandir log"] == 1
    assert "decode data" not in disk.counts


def test_a_commit_asks_for_as_much_of_a_table_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second_append(files: int) -> Watched:
        path = tmp_path / f"{files}"
        builder = TableBuilder(str(path)).create("id long")
        builder.commit(*(add(f"f{number}", size=1) for number in range(files)))
        table = fresh(path)
        table.append(pa.table(ROW))
        return watched(path, lambda: table.append(pa.table(ROW)), monkeypatch)

    with set_options(checkpoints="inline", durability="sync"):
        few, many = second_append(1), second_append(500)
    assert few.counts == many.counts and few.bytes_of_log == many.bytes_of_log == 0


def test_every_commit_is_synced_once_and_its_folder_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fresh(folder)
    disk = watched(folder, lambda: [table.append(pa.table(ROW)) for _ in range(3)], monkeypatch)
    assert {name: count for name, count in disk.counts.items() if name.startswith("fsync")} == {
        "fsync data": 3, "fsync table": 3, "fsync log": 6}
    with set_options(durability="none"):
        disk = watched(folder, lambda: fresh(folder).append(pa.table(ROW)), monkeypatch)
    assert not [one for one in disk.done if one.kind == "fsync"]


def test_a_commit_reads_each_winner_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To hold the rules against it; the snapshot after the commit is made of what was read then."""
    table = fresh(folder)
    txn = table.start_transaction()
    new = AddFile(path="new", partition_values={}, size=1, modification_time=1)
    DeltaLog.clear_cache()
    other = dn.open(folder)
    for _ in range(3):
        other.append(pa.table(ROW))
    disk = watched(folder, lambda: txn.commit([new], "WRITE"), monkeypatch)
    assert disk.counts["read json"] == 3
    assert disk.bytes_of_log == sizes(folder, *commits(NEWEST + 1, NEWEST + 3))
    assert table.log.snapshot.version == NEWEST + 4 and table.log.snapshot.num_files == NEWEST + 5


OUR_CALLS = 672
"""Functions of this package that run for an append of one row through a handle that has made some."""


def test_a_small_append_finds_nothing_out_again_that_stays_the_same(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its layout is that of the last one. The functions that run are counted: they are what it costs."""
    from deltanb.engines.arrow import layout

    table, row = fresh(folder), pa.table(ROW)
    for _ in range(2):
        table.append(row)
    monkeypatch.setattr(layout, "Layout", lambda *_: pytest.fail("another layout"))
    with set_options(durability="none"):
        assert 0 < own_calls(lambda: table.append(row)) <= OUR_CALLS


def own_calls(work: Callable[[], Any]) -> int:
    """How many functions of this package run for it."""
    package, calls = str(Path(dn.__file__).parent), 0

    def count(frame: Any, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.startswith(package)

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


CALLS_A_WINNER = 129
"""Functions of this package that run for each commit of others that a blind append meets."""


def test_each_winner_costs_the_same_few_functions(folder: Path) -> None:
    """With many writers on a table nearly all of what a commit costs is to read and judge those before it."""
    def met(winners: int) -> int:
        table = fresh(folder)
        txn = table.start_transaction()
        new = AddFile(path=f"new{winners}", partition_values={}, size=1, modification_time=1)
        DeltaLog.clear_cache()
        other = dn.open(folder)
        for _ in range(winners):
            other.append(pa.table(ROW))
        calls = own_calls(lambda: txn.commit([new], "WRITE"))
        assert table.version % CHECKPOINT, "its checkpoint would be counted, too"
        return calls

    with set_options(durability="none"):
        met(1)  # what runs at a first call
        few, many = met(3), met(7)
    assert 0 < many - few <= 4 * CALLS_A_WINNER, (few, many)
