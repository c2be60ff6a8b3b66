"""A journal that outlives its process: what is written, and what is read of whatever is there."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.errors import ConcurrentAppendException, InvalidArgument, StorageError
from deltanb.observe.meetings import SPOTS
from deltanb.options import BESIDE, JOURNAL_VARIABLE, StepClock, journal_place, options, set_options
from deltanb.store.base import LogStore
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction import kept_journal
from deltanb.transaction.journal import Attempt, LostRace, journal_of
from deltanb.transaction.kept_journal import FOLDER, MAX_FILE, attempts_of
from tests.conftest import ROOT
from tests.patience import PATIENCE

SECRET = "hunter2hunter2"


def table_of(place: Any = None) -> DeltaTable:
    return dn.create(MemoryStore() if place is None else place, {"id": [1], "name": ["a"]},
                     properties={"delta.isolationLevel": "Serializable"})


def lose(table: DeltaTable, where: str = "id = 1") -> Attempt:
    """A DELETE that an append came before; the attempt as this process knows it."""
    with pytest.raises(ConcurrentAppendException), table.transaction() as txn:
        txn.delete(where)
        table.append({"id": [1], "name": ["b"]})
    return list(journal_of(table.log))[-1]


def as_others_see_it(table: DeltaTable) -> tuple[Attempt, ...]:
    """What a process knows that has made none of the attempts."""
    journal_of(table.log).clear()
    return attempts_of(table.log).attempts


def files(store: LogStore, prefix: str = FOLDER) -> list[str]:
    return sorted(status.name for status in store.list_all(f"{prefix}/"))


@pytest.fixture(params=["beside", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Each place that a journal can have."""
    chosen = BESIDE if request.param == "beside" else str(tmp_path / "journals")
    with set_options(journal=chosen):
        yield chosen


def test_a_loser_is_read_by_others_as_it_was(place: str) -> None:
    table = table_of()
    with set_options(user_name="ann"):
        mine = lose(table, "id = 1 AND name = 'a'")
    (theirs,) = as_others_see_it(table)
    for name in ("txn_id", "writer", "operation", "isolation", "is_blind_append", "read_version", "outcome",
                 "version", "lost", "kind", "rule", "time", "written", "reads", "read_whole_table"):
        assert getattr(theirs, name) == getattr(mine, name), name
    assert theirs.is_elsewhere and not mine.is_elsewhere and theirs.prepared is None
    assert theirs.lost == (LostRace(1, "WRITE", "ann"),)
    (meeting,) = table.history().conflicts().lost
    assert (meeting.loser.writer, meeting.loser.operation, meeting.rule) == ("ann", "DELETE", "append")
    assert meeting.wasted == mine.written
    (row,) = table.history().replay().rows
    assert row.is_elsewhere and "another process" in row.verdicts[0].unknown
    assert "1 failed in others" in str(table.history().replay())
    assert [track.is_elsewhere for track in table.timeline().failed] == [True]
    assert "kept in the journal" in str(table.timeline())


def test_an_attempt_is_known_once_though_it_is_in_both_journals(place: str) -> None:
    table = table_of()
    lose(table)
    failed = [one for one in attempts_of(table.log).attempts if one.outcome == "failed"]
    assert [one.is_elsewhere for one in failed] == [False]


def test_what_commits_writes_nothing_and_neither_does_a_journal_that_is_off(tmp_path: Path) -> None:
    table = table_of()
    lose(table)
    assert files(table.log.store) == []
    with set_options(journal=BESIDE):
        table.append({"id": [2], "name": ["c"]})
        with pytest.raises(dn.DeltaError):
            table.append({"nothing": [2]})
        assert files(table.log.store) == []
        with set_options(journal=False):
            lose(table)
    assert files(table.log.store) == []


def test_the_environment_says_where_unless_the_option_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(JOURNAL_VARIABLE, str(tmp_path))
    assert journal_place() == str(tmp_path)
    with set_options(journal=BESIDE):
        assert journal_place() == BESIDE
    with set_options(journal=False):
        assert journal_place() is None
    for wrong in ("s3://lake/journals", "", 3, True, "a\0b"):
        with pytest.raises(InvalidArgument, match="option journal="):
            set_options(journal=wrong)


def test_a_folder_keeps_the_journals_of_tables_apart(tmp_path: Path) -> None:
    with set_options(journal=tmp_path):
        one, other = table_of(), table_of()
        lose(one)
        lose(one)
        lose(other)
        assert len(as_others_see_it(one)) == 2 and len(as_others_see_it(other)) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        table.log.snapshot.metadata.id for table in (one, other))


def test_a_table_that_was_here_before_is_another(place: str) -> None:
    store = MemoryStore()
    table = table_of(store)
    lose(table)
    name = next(iter(files(store)), None)
    if name is not None:  # in a folder each has its own
        data = json.loads(store.read(name))
        store.put(name, json.dumps({**data, "table": "another"}).encode())
        assert as_others_see_it(table) == ()


# -- no secrets ---------------------------------------------------------------------------------


def test_no_secret_is_written(tmp_path: Path) -> None:
    planted = [
        f"name <> 's3://AKIA:{SECRET}@lake/t'", f"name <> 'https://host/t?sig={SECRET}'",
        f"name <> 'Authorization: Bearer {SECRET}'", f"name <> 'AccountName=lake;AccountKey={SECRET}=='",
        f"name <> 'fs.azure.account.key.lake.dfs.core.windows.net={SECRET}'", f"name <> 'password={SECRET}'"]
    with set_options(journal=tmp_path, user_name=f"s3://AKIA:{SECRET}@lake", user_metadata=SECRET):
        for where in planted:
            lose(table_of(), where)
    written = "".join(path.read_text() for path in tmp_path.rglob("*.json"))
    assert len(list(tmp_path.rglob("*.json"))) == len(planted) and '"operation":"DELETE"' in written
    assert SECRET not in written and SECRET not in "".join(str(path) for path in tmp_path.rglob("*"))


def test_no_file_is_named_and_long_conditions_are_cut(place: str) -> None:
    table = table_of()
    lose(table, " OR ".join(f"id = {n}" for n in range(3_000)))
    (theirs,) = as_others_see_it(table)
    assert all(len(text) <= kept_journal.MAX_TEXT for text in theirs.reads)
    data = json.dumps([theirs.reads, theirs.operation])
    assert ".parquet" not in data and len(data) < MAX_FILE


# -- nothing fails, and nothing grows without bound -----------------------------------------------


class Refusing(MemoryStore):
    """A store in which no journal can be written."""

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        if name.startswith(FOLDER):
            raise StorageError(f"{self.root} is not writable", path=self.root)
        return super().put_if_absent(name, data, make_folders=make_folders)


def test_a_journal_that_cannot_be_written_is_a_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    table = table_of(Refusing())
    with set_options(journal=BESIDE), caplog.at_level(logging.WARNING, "deltanb.transaction"):
        lose(table)
        lose(table)
    (record,) = [one for one in caplog.records if "journal" in one.getMessage()]
    assert "not writable" in record.getMessage()


class Closed(MemoryStore):
    """A store whose journal cannot be listed, or none of its files read."""

    closed = ""

    def list_all(self, prefix: str) -> Iterator[Any]:
        if self.closed == "list" and prefix.startswith(FOLDER):
            raise StorageError("may not be listed", path=self.root)
        return super().list_all(prefix)

    def read(self, name: str) -> bytes:
        if self.closed == "read" and name.startswith(FOLDER):
            raise StorageError("may not be read", path=self.root)
        return super().read(name)


@pytest.mark.parametrize("closed", ["list", "read"])
def test_a_journal_that_cannot_be_read_is_a_blind_spot_and_the_rest_is_answered(closed: str) -> None:
    table = table_of(store := Closed())
    with set_options(journal=BESIDE):
        lose(table)
        store.closed = closed
        conflicts = table.history().conflicts()
    assert len(conflicts.lost) == 1
    (spot,) = [spot for spot in conflicts.blind_spots if spot.kind == "journal-damaged"]
    assert f"may not be {'listed' if closed == 'list' else 'read'}" in spot.evidence
    assert FOLDER in spot.missing


class Far(MemoryStore):
    """A store that a network is before; its journal's files wait for a sign."""

    is_remote = True

    def __init__(self) -> None:
        super().__init__()
        self.may_go = threading.Event()

    def put_if_absent(self, name: str, data: bytes, *, make_folders: bool = True) -> bool:
        if name.startswith(FOLDER):
            assert self.may_go.wait(PATIENCE)
        return super().put_if_absent(name, data, make_folders=make_folders)


def test_nobody_waits_for_a_journal_in_a_bucket_and_few_files_wait_for_it(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_journal, "MAX_WAITING", 3)
    table = table_of(store := Far())
    with set_options(journal=BESIDE):
        for _ in range(5):
            lose(table)
        assert files(store) == []
        store.may_go.set()
        assert dn.flush(PATIENCE)
        assert len(files(store)) == 3
        lose(table)
        assert dn.flush(PATIENCE) and len(files(store)) == 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no process")
def test_a_forked_process_begins_anew_though_the_lock_was_taken() -> None:
    with kept_journal._process._lock:
        if (child := os.fork()) == 0:  # pragma: no cover
            os._exit(0 if kept_journal._process.take_turn() else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_folder_that_is_a_file_costs_a_warning_and_no_commit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    table = table_of()
    with set_options(journal=tmp_path / "file"):
        lose(table)
        assert len(table.history().conflicts().lost) == 1
    assert "cannot be kept" in caplog.text


@pytest.mark.parametrize(("bound", "value", "left"), [
    ("MAX_FILES", 3, 3), ("MAX_BYTES", 1, 0), ("MAX_AGE_MS", -10**15, 0)])
def test_files_beyond_a_bound_go_the_oldest_first(
    bound: str, value: int, left: int, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(kept_journal, bound, value)
    monkeypatch.setattr(kept_journal, "PRUNE_EVERY", 1)  # each time
    with set_options(clock=StepClock()):
        table = table_of()
        ids = [lose(table).txn_id for _ in range(6)]
    assert [one.txn_id for one in as_others_see_it(table)] == ids[6 - left:]


def test_pruning_leaves_what_is_none_of_the_journals() -> None:
    table = table_of()
    store = table.log.store
    store.put(f"{FOLDER}/notes.json", b"mine")
    for number in range(4):
        store.put(f"{FOLDER}/{number:013}-{options.new_id()}.json", b"{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kept_journal, "MAX_FILES", 0)
        kept_journal._prune(store, f"{FOLDER}/")
    assert files(store) == [f"{FOLDER}/notes.json"]


def test_of_a_journal_with_too_many_files_the_newest_are_read(
    monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    table = table_of()
    ids = [lose(table).txn_id for _ in range(4)]
    monkeypatch.setattr(kept_journal, "MAX_FILES", 2)
    journal_of(table.log).clear()
    known = attempts_of(table.log)
    assert [one.txn_id for one in known.attempts] == ids[2:] and known.left_out == 2
    assert "journal-bound" in {spot.kind for spot in table.history().conflicts().blind_spots}


# -- damage ---------------------------------------------------------------------------------------


DAMAGE = {
    "empty": b"", "no JSON": b"garbage", "cut off": b'{"format":1,"table":"', "a list": b"[]",
    "null": b"null", "a later format": b'{"format":2}', "not UTF-8": b'{"format":1,"table":"\xff"}',
    "wrong types": b'{"format":1,"table":"t","txnId":5}', "deep": b"[" * 5_000 + b"]" * 5_000,
    "large": b" " * (MAX_FILE + 1), "no fields": b'{"format":1}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_named_and_the_rest_is_read(damage: str) -> None:
    table = table_of()
    with set_options(journal=BESIDE):
        mine = lose(table)
        bad = f"{FOLDER}/{0:013}-{options.new_id()}.json"
        table.log.store.put(bad, DAMAGE[damage])
        journal_of(table.log).clear()
        known = attempts_of(table.log)
        assert [one.txn_id for one in known.attempts] == [mine.txn_id]
        assert [name for name, _ in known.problems] == [bad] and known.problems[0][1]
        conflicts = table.history().conflicts()
    (spot,) = [spot for spot in conflicts.blind_spots if spot.kind == "journal-damaged"]
    assert bad in spot.evidence and len(conflicts.lost) == 1


NUMBERS = ("readVersion", "version", "time", "written")
BEYOND = [-1, 2**63, 2**200]


def planted(table: DeltaTable, **changes: Any) -> None:
    """A loser's file, changed in some fields, and nothing of it in this process."""
    lose(table)
    (name,) = files(table.log.store)
    data = {**json.loads(table.log.store.read(name)), **changes}
    table.log.store.put(name, json.dumps(data).encode())
    journal_of(table.log).clear()


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("name", [*NUMBERS, "lost"])
def test_a_number_out_of_its_range_is_damage(name: str, number: int) -> None:
    with set_options(journal=BESIDE):
        table = table_of()
        race = {"version": number, "operation": "WRITE"}
        planted(table, **{name: [race] if name == "lost" else number})
        conflicts = table.history().conflicts()
        assert len(attempts_of(table.log).problems) == 1
        assert len(conflicts.to_pandas()) == len(conflicts.meetings) and str(conflicts)


def test_the_greatest_numbers_are_read() -> None:
    with set_options(journal=BESIDE):
        table = table_of()
        planted(table, written=kept_journal.MOST_WRITTEN, time=kept_journal.LAST_TIME)
        assert attempts_of(table.log).problems == ()
        assert kept_journal.MOST_WRITTEN * kept_journal.MAX_FILES < 2**63
        assert len(table.history().conflicts().to_pandas()) == 1 and str(table.history().conflicts())


@pytest.mark.parametrize("name", [
    "rule", "kind", "isolation", "operation", "writer", "txnId", "reads", "lost", "stream"])
def test_no_text_of_a_file_moves_a_cursor_or_tells_a_secret(name: str) -> None:
    evil = f"\x1b[2J\u202eappend password={SECRET}"
    forms = {"reads": [evil], "lost": [{"version": 1, "operation": evil, "writer": evil}],
             "stream": {evil: evil}}
    with set_options(journal=BESIDE):
        table = table_of()
        planted(table, **{name: forms.get(name, evil)})
        known = attempts_of(table.log)
        assert known.problems == () and len(known.attempts) == 1
        for text in (repr(known), table.history().conflicts().to_pandas().to_csv()):
            assert SECRET not in text and "\x1b" not in text and "\u202e" not in text


@given(data=st.binary(max_size=60) | st.dictionaries(
    st.sampled_from(["format", "table", "txnId", "operation", "version", "readVersion", "lost", "reads",
                     "time", "stream", "rule"]),
    st.none() | st.integers(-2, 2**70) | st.text(max_size=4) | st.lists(st.integers(), max_size=2) |
    st.just(1)).map(lambda value: json.dumps({"format": 1, **value}).encode()))
def test_whatever_is_there_nothing_raises(data: bytes) -> None:
    table = table_of()
    with set_options(journal=BESIDE):
        lose(table)
        table.log.store.put(f"{FOLDER}/{0:013}-{options.new_id()}.json", data)
        journal_of(table.log).clear()
        assert len(table.history().conflicts().lost) >= 1
        str(table.timeline()), str(table.history().replay())


def test_every_blind_spot_of_journals_has_a_word() -> None:
    assert {"journal", "others", "journal-damaged", "journal-bound"} <= set(SPOTS)


# -- other processes, other engines ----------------------------------------------------------------

WORK = """\
import sys
import deltanb as dn
from deltanb.errors import ConcurrentAppendException
dn.set_options(journal=sys.argv[2], user_name=sys.argv[3])
table = dn.open(sys.argv[1])
print("open", flush=True)
number = 0
while number < int(sys.argv[4]):
    try:
        with table.transaction() as txn:
            txn.delete("id = 1")
            table.append({"id": [1], "name": [sys.argv[3]]})
    except ConcurrentAppendException:
        number += 1
        print(number, flush=True)
"""


def work(table: Path, journal: str, name: str, turns: int) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORK, str(table), journal, name, str(turns)],
                            stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


@pytest.mark.slow
def test_two_processes_write_side_by_side_and_one_is_killed_midway(place: str, tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = table_of(path)
    whole, killed = work(path, place, "whole", 8), work(path, place, "killed", 10_000)
    assert killed.stdout is not None
    seen = [killed.stdout.readline() for _ in range(4)]
    killed.send_signal(signal.SIGKILL)
    killed.wait(PATIENCE)
    assert whole.wait(PATIENCE) == 0 and seen[-1] == "3\n"
    known = attempts_of(table.log)
    assert known.problems == ()
    by = {name: [one for one in known.attempts if one.writer == name] for name in ("whole", "killed")}
    assert len(by["whole"]) == 8 and len(by["killed"]) >= 3
    conflicts = table.history().conflicts()
    assert len([one for one in conflicts.lost if one.loser.writer == "whole"]) == 8
    assert conflicts.total.lost == sum(one.is_elsewhere for one in known.attempts)


def test_other_engines_do_not_see_the_journal(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    path = tmp_path / "table"
    table = table_of(path)
    with set_options(journal=BESIDE):
        lose(table)
        lose(table)
    assert len(files(table.log.store)) == 2
    peer = deltalake.DeltaTable(str(path))
    assert peer.to_pyarrow_table().num_rows == table.count() == 3
    assert peer.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True) == []
    peer.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True)
    assert len(files(table.log.store)) == 2
    assert peer.file_uris() and not any(FOLDER in name for name in peer.file_uris())


def test_our_own_upkeep_passes_over_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "table"
    table = table_of(path)
    with set_options(journal=BESIDE):
        lose(table)
    before = files(table.log.store)
    assert table.verify(files="all").findings == ()
    table.vacuum(0, check=False)
    assert files(table.log.store) == before
    assert dn.open(path).count() == 2 and table.checkup() is not None
