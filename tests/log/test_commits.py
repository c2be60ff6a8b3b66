"""A log learns its commits in one place: a tail of commits that are no files is seen by all who read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import Action
from deltanb.errors import ConcurrentDeleteReadException, InvalidArgument, VersionNotFound
from deltanb.log.cleanup import clean_up
from deltanb.log.commits import FolderCommits, commit_name
from deltanb.log.compaction import write_compaction
from deltanb.log.reader import LogReader
from deltanb.log.snapshot import Snapshot
from deltanb.options import options, set_options
from deltanb.store.base import FileStatus
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.steps import Winner

PUBLISHED, NEWEST = 3, 6
HOUR = 3_600_000


class TailCommits:
    """The commits of a folder up to ``last``, and after it those of a dict, as a catalog has them."""

    is_managed = True

    def __init__(self, store: MemoryStore, last: int) -> None:
        self.folder, self.last = FolderCommits(store), last
        self.tail: dict[int, tuple[bytes, FileStatus]] = {}

    def maintenance_refused(self, operation: str) -> None:
        return None

    def append(self, version: int, body: bytes, modification_time: int) -> None:
        name = f"_delta_log/_staged_commits/{version:020}.0.json"
        self.tail[version] = body, FileStatus(name, len(body), modification_time, f"staged {version}")

    def newest(self) -> int:
        return max(self.tail, default=self.last)

    def published(self, version: int) -> int:
        return min(version, self.last)

    def names(self, listed: Iterable[str] | None = None) -> dict[int, str]:
        files = {v: name for v, name in self.folder.names(listed).items() if v <= self.last}
        return files | {version: status.name for version, (_, status) in self.tail.items()}

    def listed(self, first: int = 0) -> list[tuple[int, FileStatus]]:
        files = [(v, status) for v, status in self.folder.listed(first) if v <= self.last]
        return files + [(v, status) for v, (_, status) in self.tail.items() if v >= first]

    def status(self, version: int) -> FileStatus | None:
        if version in self.tail:
            return self.tail[version][1]
        return self.folder.status(version) if version <= self.last else None

    def identity(self, version: int) -> object:
        return self.status(version)

    def read(self, version: int) -> bytes:
        if version in self.tail:
            return self.tail[version][0]
        if version > self.last:
            raise FileNotFoundError(commit_name(version))
        return self.folder.read(version)

    def read_many(self, names: Mapping[int, str]) -> Iterator[bytes | None]:
        for version in names:
            yield self.read(version) if self.status(version) is not None else None


class TailCommitter:
    """Commits go to the end of the tail; they are published when the test says so."""

    is_final = True

    def __init__(self, log: LogReader, snapshot: Snapshot) -> None:
        assert isinstance(log.commits, TailCommits)
        self.log, self.commits = log, log.commits

    def put(self, version: int, body: bytes, actions: Sequence[Action]) -> bool:
        if version != self.commits.newest() + 1:
            return False
        self.commits.append(version, body, options.clock())
        return True

    def read(self, version: int) -> Winner | None:
        try:
            return Winner(version, tuple(self.log.read_commit(version)))
        except VersionNotFound:
            return None

    def publish(self, version: int) -> None:
        """Nobody does, so that all later readers depend on the tail."""


def ducks() -> DeltaTable:
    """Seven versions an hour apart: of each file, one version or other adds, removes or changes it."""
    with set_options(clock=iter(range(0, 10**12, 1000)).__next__):
        table = dn.create(MemoryStore("memory:///ducks"), {"id": [1, 2], "name": ["Donald", "Daisy"]},
                          properties={"delta.enableChangeDataFeed": "true"})
        table.append({"id": [3], "name": ["Scrooge"]})
        table.update({"name": "'Della'"}, where="id = 2")
        table.append({"id": [4], "name": ["Huey"]})
        table.delete("id = 3")
        table.add_constraint("ids", "id > 0")
        table.append({"id": [5], "name": ["Dewey"]})
    assert table.version == NEWEST
    for version in range(NEWEST + 1):
        store_of(table).set_modification_time(commit_name(version), version * HOUR)
    return table


def store_of(table: DeltaTable) -> MemoryStore:
    store = table.log.store
    assert isinstance(store, MemoryStore)
    return store


def with_tail(table: DeltaTable) -> DeltaTable:
    """The same table, whose commits above ``PUBLISHED`` are in no file: the files of their names are not
    valid commits, nor is one above the newest, which nobody may look at."""
    store = MemoryStore(table.path)
    store.files = dict(store_of(table).files)
    commits = TailCommits(store, PUBLISHED)
    for version in range(PUBLISHED + 1, NEWEST + 1):
        data, status = store.files[commit_name(version)]
        commits.append(version, data, status.modification_time)
    for version in range(PUBLISHED + 1, NEWEST + 2):
        store.put(commit_name(version), b"not a commit of this table\n")
        store.delete(f"_delta_log/{version:020}.crc")
    return DeltaTable(DeltaLog(store, commits, TailCommitter))


def followed(table: DeltaTable) -> Any:
    """What a log that stood at the first version makes of the commits after it."""
    log = table.log
    log._held = log.snapshot_at(0), log.commits.status(0)
    assert log.snapshot.version == 0
    return log.update().files.sort_by("path")


READERS: dict[str, Callable[[DeltaTable], Any]] = {
    "snapshot": lambda t: (t.version, t.snapshot.files.sort_by("path"), t.metadata),
    "rows": lambda t: t.to_arrow().sort_by("id"),
    "update": followed,
    "snapshot_at": lambda t: [t.as_of(v).to_arrow().sort_by("id") for v in range(NEWEST + 1)],
    "time travel": lambda t: [t.as_of(f"1970-01-01T{h:02}:30:00Z").version for h in range(NEWEST)],
    "timestamp": lambda t: [t.as_of(v).snapshot.timestamp for v in range(NEWEST + 1)],
    "history": lambda t: list(t.history()),
    "timeline": lambda t: t.timeline().commits,
    "changes": lambda t: t.changes(0).sort_by([("_commit_version", "ascending"), ("id", "ascending")]),
    "changes since": lambda t: t.changes("1970-01-01T04:00:00Z").num_rows,
    "diff": lambda t: t.diff(1),
    "versions": lambda t: list(t.versions()),
    "detail": lambda t: t.detail(),
    "earliest": lambda t: t.log.earliest_version(),
    "newest": lambda t: t.log.commits.newest(),
    "vacuum": lambda t: t.vacuum(0, check=False, dry_run=True).files,
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_commits_that_are_no_files_are_read_like_files(read: Callable[[DeltaTable], Any]) -> None:
    table = ducks()
    with set_options(clock=lambda: 100 * HOUR):
        expected = read(DeltaTable(DeltaLog(table.log.store)))
        assert read(with_tail(table)) == expected


def test_a_reader_that_looks_for_files_sees_another_table() -> None:
    """What the test above rests on: without its tail the table is another one, or none."""
    store = store_of(with_tail(ducks()))
    with pytest.raises(dn.errors.InvalidTable, match=r"0004\.json"):
        DeltaTable(DeltaLog(store)).to_arrow()


def test_a_commit_that_was_cleaned_up_meanwhile_is_not_in_the_timeline() -> None:
    table = ducks()
    table.log.update()
    read_many = table.log.commits.read_many
    table.log.commits.read_many = lambda versions: (  # type: ignore[method-assign,assignment]
        None if version == 2 else data
        for version, data in zip(versions, read_many(versions), strict=True))
    assert [commit.version for commit in table.timeline().commits] == [0, 1, 3, 4, 5, 6]


def test_no_clean_up_goes_beyond_what_is_published() -> None:
    table = with_tail(ducks())
    table.log.checkpoint()
    with set_options(clock=lambda: 365 * 24 * HOUR):
        deleted = table.log.clean_up()
    assert sorted(v for v in range(NEWEST + 1) if commit_name(v) in deleted) == [0, 1, 2]
    assert DeltaTable(DeltaLog(table.log.store, table.log.commits)).to_arrow().num_rows == 4
    assert list(table.versions()) == [3, 4, 5, 6]


def test_the_age_of_a_commit_in_the_tail_counts_for_clean_up() -> None:
    """The last commit before the cutoff lies in the tail: all before its checkpoint may go, and no more."""
    table = with_tail(ducks())
    table.log.checkpoint(2)
    with set_options(clock=lambda: 10 * HOUR):
        deleted = clean_up(table.log, 5 * HOUR)
    assert [v for v in range(NEWEST + 1) if commit_name(v) in deleted] == [0, 1]


def test_checkpoints_and_compactions_end_at_what_is_published() -> None:
    log = with_tail(ducks()).log
    log.checkpoint()
    assert [n for n in log.store.list_names("_delta_log/") if "checkpoint.parquet" in n] == [
        f"_delta_log/{PUBLISHED:020}.checkpoint.parquet"]
    with pytest.raises(InvalidArgument, match=r"version 4 cannot be checkpointed.*up to version 3"):
        log.checkpoint(4)
    with pytest.raises(InvalidArgument, match=r"version 5 cannot be compacted.*not published"):
        write_compaction(log, 2, 5)
    write_compaction(log, 1, 3)
    assert DeltaLog(log.store, log.commits).snapshot.checkpoint_version == PUBLISHED


def test_a_version_above_the_newest_is_not_there() -> None:
    log = with_tail(ducks()).log
    for ask in (log.snapshot_at, log.read_commit):
        with pytest.raises(VersionNotFound):
            ask(NEWEST + 1)


def test_the_commits_of_a_folder() -> None:
    table = TableBuilder(MemoryStore()).create("id long").commit(add("a")).commit(add("b"))
    table.put("_delta_log/00000000000000000001.crc", b"{}").put("_delta_log/2.json", b"{}")
    commits = FolderCommits(table.store)
    assert commits.names() == {v: commit_name(v) for v in range(3)} == commits.names(
        table.store.list_names("_delta_log/"))
    assert [v for v, _ in commits.listed(1)] == [1, 2]
    assert commits.listed(2)[0][1] == commits.status(2) == table.store.status(commit_name(2))
    names = {v: commit_name(v) for v in (2, 7, 0)}
    assert list(commits.read_many(names)) == [commits.read(2), None, commits.read(0)]
    assert (commits.newest(), commits.published(2), commits.status(3)) == (2, 2, None)
    with pytest.raises(FileNotFoundError):
        commits.read(3)
    assert FolderCommits(MemoryStore()).newest() == -1


# -- writing behind a tail -----------------------------------------------------------------------


def log_files(table: DeltaTable) -> dict[str, Any]:
    return {name: content for name, content in store_of(table).files.items()
            if name.startswith("_delta_log/0")
            and name.endswith((".json", ".parquet"))}


WRITERS: dict[str, Callable[[DeltaTable], Any]] = {
    "append": lambda t: t.append({"id": [6], "name": ["Louie"]}),
    "delete": lambda t: t.delete("id = 4").metrics["numDeletedRows"],
    "update": lambda t: t.update({"name": "'Gus'"}, where="id >= 4").version,
    "vacuum": lambda t: t.vacuum(0, check=False).num_files,
    "lite vacuum": lambda t: t.vacuum(0, check=False, lite=True).num_files,
    "restore": lambda t: t.restore(4).metrics["numRestoredFiles"],
    "restore from before the tail": lambda t: t.restore(2).metrics["numRemovedFiles"],
    "optimize": lambda t: t.optimize().version,
    "drop constraint": lambda t: t.drop_constraint("ids"),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_commands_build_on_commits_that_are_no_files(write: Callable[[DeltaTable], Any]) -> None:
    with set_options(clock=lambda: 100 * HOUR):
        table, staged = ducks(), with_tail(ducks())
        before = log_files(staged)
        assert write(staged) == write(table)
        assert staged.version == table.version > NEWEST
        again = DeltaTable(DeltaLog(staged.log.store, staged.log.commits))
        for one in (staged, again):
            assert one.to_arrow().sort_by("id") == table.to_arrow().sort_by("id")
            assert [e.operation for e in one.history()] == [e.operation for e in table.history()]
    assert log_files(staged) == before, "all of it went to the tail, and nothing of the tail to the folder"


def test_a_winner_that_is_only_in_the_tail_is_read_and_judged() -> None:
    table = with_tail(ducks())
    txn = table.start_transaction()
    files = list(txn.filter_files("id = 4"))
    rival = table.start_transaction()
    rival.commit([file.remove() for file in rival.filter_files("id = 4")], "DELETE")
    with pytest.raises(ConcurrentDeleteReadException):
        txn.commit([file.remove() for file in files], "DELETE")
    assert [lost.version for lost in txn.attempts] == [NEWEST + 1]
    table.append({"id": [7], "name": ["Goofy"]})
    assert table.version == NEWEST + 2


def test_a_feature_that_the_tail_uses_is_not_dropped() -> None:
    table = with_tail(ducks())
    with pytest.raises(InvalidArgument, match="constraint ids"):
        table.drop_feature("checkConstraints")
    table.drop_constraint("ids")
    table.drop_feature("checkConstraints")
    assert not table.protocol.supports("checkConstraints") and table.version == NEWEST + 2


def test_a_feature_whose_history_needs_checkpoints_is_not_dropped_before_publication() -> None:
    table = with_tail(ducks())
    table.add_feature("typeWidening")
    with pytest.raises(InvalidArgument, match="version 7 cannot be checkpointed"):
        table.drop_feature("typeWidening")
    assert table.version == NEWEST + 1


def test_no_checkpoint_follows_a_commit_that_is_not_published(caplog: pytest.LogCaptureFixture) -> None:
    table = with_tail(ducks())
    table.set_properties({"delta.checkpointInterval": 1})
    before = log_files(table)
    table.append({"id": [8], "name": ["Gyro"]})
    assert log_files(table) == before and not caplog.records


def test_a_commit_that_its_committer_publishes_is_followed_by_its_checkpoint() -> None:
    table = with_tail(ducks())
    assert isinstance(table.log.commits, TailCommits)
    commits: TailCommits = table.log.commits

    class Publishing(TailCommitter):
        def publish(self, version: int) -> None:
            for at in range(commits.last + 1, version + 1):
                store_of(table).put(commit_name(at), commits.tail.pop(at)[0])
                commits.last = at

    log = DeltaLog(table.log.store, commits, Publishing)
    DeltaTable(log).set_properties({"delta.checkpointInterval": 1})
    DeltaTable(log).append({"id": [8], "name": ["Gyro"]})
    assert commits.tail == {} and log.commits.newest() == NEWEST + 2
    read = DeltaLog(table.log.store).snapshot
    assert (read.version, read.checkpoint_version) == (NEWEST + 2, NEWEST + 2)
