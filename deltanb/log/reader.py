"""The log of one table: opens it, follows it, reads its commits.

What lives here: :class:`LogReader`, which holds the newest known snapshot and updates it from new commits
only.
What it does not know: what a commit may contain, conflicts, transactions, data.
"""

from __future__ import annotations

import datetime as dt
import gc
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from deltanb.actions import Action, AddFile
from deltanb.concurrency.precedence import yield_to_commits
from deltanb.errors import (
    DeltaError,
    IllegalStateError,
    InvalidArgument,
    InvalidTable,
    TableNotFound,
    VersionNotFound,
)
from deltanb.log import segment as segments
from deltanb.log.bucket_commits import Begun, BucketCommits
from deltanb.log.commits import LOG_FOLDER, Commits, FolderCommits, commit_name
from deltanb.log.lines import parse_commit
from deltanb.log.replay import Delta, feed, feed_actions
from deltanb.log.segment import MAX_VERSION, LogSegment
from deltanb.log.snapshot import EMPTY, Snapshot, State, refuse_another
from deltanb.store.base import FileStatus, LogStore, is_remote
from deltanb.store.guard import guarded, unguarded
from deltanb.text.formatting import name_of
from deltanb.text.progress import progress
from deltanb.text.safe_text import shown
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.log.history import Damaged, History

__all__ = ["LogReader"]

MAX_VANISHED = 3
"""Listings begun anew because a commit was cleaned up between listing and reading."""

@answer_wrong_arguments(only=("history", "snapshot_at", "snapshot_as_of"))
class LogReader:
    """The log of one table, read and kept up to date.

    A place without a table has a log, too, whose snapshot has version -1; tables are created on it.

    >>> from deltanb.testing import MemoryStore
    >>> log = LogReader(MemoryStore())
    >>> log.exists, log.snapshot.version
    (False, -1)
    """

    def __init__(self, store: LogStore, commits: Commits | None = None) -> None:
        self.store = guarded(store)
        kind = BucketCommits if hasattr(self.store, "tag_of") else FolderCommits
        self.commits: Commits = kind(self.store) if commits is None else commits
        """Where its commits are; the files of its folder unless given."""
        self._lock = threading.Lock()
        self.commit_lock = threading.RLock()
        """Held during a commit where a reader could see it half written."""
        # The newest snapshot, and the identity of its commit: as long as that is the same,
        # the log behind the snapshot is still the one that was read.
        self._held: tuple[Snapshot, object] | None = None
        self._versions: weakref.WeakValueDictionary[int, Snapshot] = weakref.WeakValueDictionary()
        self.known_times: dict[int, tuple[FileStatus, int]] = {}
        """Of the newest commits that were listed: their files, and their times by :mod:`commit_times`."""

    def __reduce__(self) -> tuple[Any, ...]:
        """The log of a folder can be pickled; other logs belong to this process.

        Raises:
            IllegalStateError: the log of a catalog or a transaction.
        """
        if type(self.commits) not in (FolderCommits, BucketCommits):
            raise IllegalStateError(
                f"the log of {self.path} cannot be pickled or copied: its commits are those of a catalog or "
                "of a transaction, which this process alone is connected to. In the other process, open the "
                "catalog and take catalog.table(name)")
        return self._again, (unguarded(self.store),)

    @classmethod
    def _again(cls, store: LogStore) -> LogReader:
        """The log of a store, in whatever process."""
        return cls(store)

    @property
    def path(self) -> str:
        """The table's root as the store names it.

        >>> import deltanb as dn
        >>> dn.DeltaLog.for_table("lake/ducks").path
        '/.../lake/ducks'
        """
        return self.store.root

    @property
    def exists(self) -> bool:
        """Whether there is a table, according to the store.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> LogReader(MemoryStore()).exists, LogReader(TableBuilder(MemoryStore()).create().store).exists
        (False, True)
        """
        return self.update().version >= 0

    @property
    def seen_by_others(self) -> LogReader:
        """The log without the statements of an open transaction: itself, but where there are some.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> with table.transaction() as txn:
        ...     _ = txn.append({"id": [2]})
        ...     txn.log.update().version, txn.log.seen_by_others.update().version
        (1, 0)
        """
        return self

    @property
    def staged_behind(self) -> int | None:
        """The version behind which it has statements that no commit has yet; None where there are none.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> with table.transaction() as txn:
        ...     txn.log.staged_behind, table.log.staged_behind
        (0, None)
        """
        return None

    # -- snapshots ------------------------------------------------------------------------------

    @property
    def snapshot(self) -> Snapshot:
        """The newest snapshot this process knows; read at first use, moved by :meth:`update`.

        Raises:
            InvalidTable: the log contradicts the protocol.
            UnsupportedProtocol: the table needs a newer reader.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long")
        >>> log = LogReader(builder.store)
        >>> log.snapshot.version
        0
        >>> _ = builder.commit(add("a"))
        >>> log.snapshot.version, log.update().version, log.snapshot.version
        (0, 1, 1)
        """
        held = self._held
        return self.update() if held is None else held[0]

    def update(self) -> Snapshot:
        """The newest snapshot, from the one held and the commits after it.

        Raises:
            InvalidTable: the log contradicts the protocol.
            UnsupportedProtocol: the table needs a newer reader.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long")
        >>> log = LogReader(builder.store)
        >>> before = log.update()
        >>> log.update() is before
        True
        >>> _ = builder.commit(add("a"))
        >>> log.update().version, before.version
        (1, 0)
        """
        held = self._held
        if held is not None and held[0].version >= 0 and isinstance(self.commits, BucketCommits):
            state = self._followed(held)
        else:
            state = self._follow(held[0]._state) if held is not None and self._is_current(held) else None
        if held is None or state is None:
            return self._install(self._load(None), replacing=held)
        return held[0] if state is held[0]._state else self._install(state)

    def advance(
        self, version: int, actions: Sequence[Action], written: Iterable[AddFile] = (),
        known: Mapping[int, Sequence[Action]] = MappingProxyType({}),
    ) -> Snapshot:
        """Install the snapshot after a commit of our own, without reading it back.

        Falls back to :meth:`update` if the commit does not follow the snapshot held. ``written`` are files
        created for this commit, which no earlier version has. ``known`` are the winners before it that were
        read.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long")
        >>> log = LogReader(builder.store)
        >>> log.update().num_files
        0
        >>> _ = builder.commit(add("a"))
        >>> log.advance(1, log.read_commit(1)).num_files
        1
        """
        held = self._held
        if held is not None and held[0].version >= version:
            return held[0]
        if held is None or (held[0].version < version - 1 and not self._is_current(held)):
            return self.update()
        before = self._follow(held[0]._state, version - 1, known)
        if before.version != version - 1:
            return self.update()
        delta = Delta()
        feed_actions(delta, actions)
        all_new = not delta.removes and delta.adds.keys() <= {file.path for file in written}
        if all_new and (before.tally or before.files.known_tally) is None:
            before = self._tallied(before)
        return self._install(before.after(delta, version, all_new))

    def _tallied(self, state: State) -> State:
        """The state with the tally from its version's checksum, which its committer wrote.

        Not for the version a table was opened at, nor if the checksum is known to differ from the log: then
        the files are counted.
        """
        recorded = state.recorded
        if state.version < 0:
            return state
        if recorded is not None and (recorded.version == state.version or recorded.differences):
            return state
        from deltanb.log.checksum import read_tally

        may_have_vectors = state.protocol is None or state.protocol.supports("deletionVectors")
        return replace(state, tally=read_tally(self.store, state.version, may_have_vectors))

    def snapshot_at(self, version: int) -> Snapshot:
        """The table as it was at a version.

        Raises:
            VersionNotFound: before the first or after the last version that can be read.
            InvalidArgument: no version.
            InvalidTable: the log contradicts the protocol.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> log = LogReader(TableBuilder(MemoryStore()).create("id long").commit(add("a")).store)
        >>> log.snapshot_at(0).num_files, log.snapshot_at(1).num_files
        (0, 1)
        """
        version = as_version(version, "a snapshot")
        held = self._held
        if version >= 0 and held is not None:
            known = held[0] if held[0].version == version else self._versions.get(version)
            if known is not None and self._is_current(held):
                return known
        seen = self._glance(version)
        state = self._load(version)
        if state.version < 0:
            raise TableNotFound(f"there is no Delta table at {self.path}", path=self.path)
        snapshot = Snapshot(self, state, seen)
        self._versions[version] = snapshot
        return snapshot

    def _glance(self, version: int) -> object:
        """The identity of a commit, if it is available without a catalog or a network."""
        if self.commits.is_managed or is_remote(self.store):
            return None
        with suppress(OSError):
            return self.commits.identity(version)
        return None

    def refuse_replaced(self, read: Snapshot) -> None:
        """Refuse a version that was read earlier if the path now has another table, whose files may have the
        same names.

        Tables of a catalog or in a bucket are not checked, since there no two files have the same name.

        Raises:
            TableReplaced: another table is at the path.

        >>> import shutil
        >>> import deltanb as dn
        >>> table = dn.create("replaced", {"id": [1]})
        >>> before = table.snapshot
        >>> table.log.refuse_replaced(before)
        >>> shutil.rmtree("replaced")
        >>> _ = dn.create("replaced", {"id": [2]})
        >>> table.log.refuse_replaced(before)
        Traceback (most recent call last):
            ...
        deltanb.errors.TableReplaced: version 0 of /.../replaced was read, and another table is there ...
        """
        seen, now = read.commit_identity, self._glance(read.version)
        if seen is None or now == seen:
            return
        try:
            current = self.update() if now is None else self.snapshot_at(read.version)
        except DeltaError:  # what is there is damaged: reading says how far that matters
            return
        if current.version >= 0:
            refuse_another(current, "read", read.version, read.metadata.id)
        if now is not None:  # the same table: somebody copied it, or put it back
            read.commit_identity = now

    def snapshot_as_of(self, timestamp: int | str | dt.datetime) -> Snapshot:
        """The last version committed at or before a time: epoch ms, a datetime, or ISO 8601 text.

        Text and datetimes without a zone are taken as UTC.

        Raises:
            VersionNotFound: before the first or after the last commit that can be read.
            InvalidArgument: a time that cannot be understood.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> table.log.snapshot_as_of(table.snapshot.timestamp).version
        0
        """

        from deltanb.log import commit_times

        return self.snapshot_at(commit_times.version_as_of(self, timestamp))

    def earliest_version(self) -> int:
        """The first version that can be read: 0, or that of the oldest checkpoint.

        Raises:
            TableNotFound: there is no table.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": [1]}).log.earliest_version()
        0
        """
        names = self.store.list_names(LOG_FOLDER + "/")
        earliest = segments.earliest_version(names, self.commits)
        if earliest is None:
            raise TableNotFound(f"there is no Delta table at {self.path}", path=self.path)
        return earliest

    # -- commits --------------------------------------------------------------------------------

    def read_commit(self, version: int) -> list[Action]:
        """The actions of one commit, in their order.

        Raises:
            VersionNotFound: no such commit in the log.
            InvalidArgument: no version.
            InvalidTable: a line that is not an action, naming file and line.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> log = LogReader(TableBuilder(MemoryStore()).create("id long").commit(add("a", size=3)).store)
        >>> [(action.path, action.size) for action in log.read_commit(1)]
        [('a', 3)]
        """
        version = as_version(version, "read_commit")
        name = commit_name(version)
        try:
            data = self.commits.read(version)
        except FileNotFoundError:
            raise VersionNotFound(
                f"{self.path} has no commit {name}: version {version} was never written, or its "
                "file was cleaned up",
                version=version, earliest=None, latest=None,
            ) from None
        return parse_commit(data, name, self.path)

    def history(self, limit: int | None = None, damaged: Damaged = "refuse") -> History:
        """The commits, newest first: who did what when; at most ``limit`` of them. With ``damaged="skip"``
        those that cannot be read are left out, and named in the history's ``damaged``.

        Raises:
            TableNotFound: there is no table.
            InvalidTable: a damaged commit, naming file and line.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]}, user_metadata="night run")
        >>> [(entry.version, entry.operation, entry.user_metadata) for entry in table.log.history(limit=1)]
        [(1, 'WRITE', 'night run')]
        """
        from deltanb.log import history

        return history.read(self, limit, damaged)

    # -- upkeep ----------------------------------------------------------------------------------

    def checkpoint(self, version: int | None = None) -> Any:
        """Write a checkpoint of a version, the newest published one by default.

        Raises:
            TableNotFound: there is no table.
            VersionNotFound, InvalidArgument: no such version, or none at all; one that is not published.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long").commit(add("a"))
        >>> _ = LogReader(builder.store).checkpoint()
        >>> LogReader(builder.store).snapshot.checkpoint_version
        1
        """
        from deltanb.log.checkpoint.write import write_checkpoint

        snapshot = self.update() if version is None else self.snapshot_at(as_version(version, "checkpoint"))
        if snapshot.version < 0:
            raise TableNotFound(f"there is no Delta table at {self.path}", path=self.path)
        if version is None and (last := self.commits.published(snapshot.version)) != snapshot.version:
            snapshot = self.snapshot_at(last)
        self.must_be_published(snapshot.version, "checkpointed")
        return write_checkpoint(self.store, self._on_newest_checkpoint(snapshot))

    def checkpoint_behind(self, snapshot: Snapshot, version: int) -> Any:
        """Write the checkpoint of a version some time after its commit, which made ``snapshot``.

        Before each file is written, it is checked that the table was not removed or replaced meanwhile.

        Raises:
            TableNotFound: the table was removed or replaced.
            InvalidArgument: the version is not published.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long").commit(add("a"))
        >>> log = LogReader(builder.store)
        >>> _ = log.checkpoint_behind(log.update(), version=0)
        >>> LogReader(builder.store).snapshot.checkpoint_version
        0
        """
        yield_to_commits()
        from deltanb.log.checkpoint.write import write_checkpoint

        check_same_table = self.same_table_check(snapshot)
        check_same_table()
        self.must_be_published(version, "checkpointed")
        base = snapshot if snapshot.version == version else self.snapshot_at(version)
        return write_checkpoint(self.store, self._on_newest_checkpoint(base), check_same_table)

    def same_table_check(self, snapshot: Snapshot) -> Callable[[], None]:
        """What raises TableNotFound when the table of a snapshot was removed or replaced meanwhile.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> builder = TableBuilder(MemoryStore()).create("id long")
        >>> check = builder.log.same_table_check(builder.log.snapshot)
        >>> check()
        >>> _ = builder.delete(0)
        >>> check()
        Traceback (most recent call last):
            ...
        deltanb.errors.TableNotFound: ... no longer has the table that version 0 was committed to: it was ...
        """
        seen = snapshot.commit_identity

        def check_same_table() -> None:
            is_same = seen is not None and self.commits.identity(snapshot.version) == seen
            if not is_same or (self.commits.is_managed and self.commits.status(snapshot.version) is None):
                raise TableNotFound(
                    f"{self.path} no longer has the table that version {snapshot.version} was committed to: "
                    "it was removed or replaced since", path=self.path)

        return check_same_table

    def _on_newest_checkpoint(self, snapshot: Snapshot) -> Snapshot:
        """The same version, read from the newest checkpoint before it and the commits since.

        The state in memory rests on the checkpoint it began with, or on none, so the next checkpoint could
        reuse little of it. A table of few files is written from memory.
        """
        from deltanb.log.checkpoint.write import ROWS_PER_GROUP

        hint = self._hint()
        known = -1 if snapshot.checkpoint_version is None else snapshot.checkpoint_version
        if hint is None or not known < hint < snapshot.version or (
                2 * snapshot.about_num_files < ROWS_PER_GROUP):
            return snapshot
        try:
            return Snapshot(self, self._load(snapshot.version, keeps=False))
        except (DeltaError, OSError):  # cleaned up or damaged meanwhile; memory still has it
            return snapshot

    def must_be_published(self, version: int, what: str) -> None:
        """Refuse to replace commits that are not yet files of the folder (PROTOCOL.md, "Catalog-managed
        tables").

        Raises:
            InvalidArgument: the version is not published.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> log = LogReader(TableBuilder(MemoryStore()).create("id long").store)
        >>> log.must_be_published(0, "checkpointed")  # without a catalog all commits are files of the folder
        """
        last = self.commits.published(version)
        if last < version:
            raise InvalidArgument(
                f"{self.path}: version {version} cannot be {what}, its commit is not published yet: the "
                f"folder has commits up to version {last}. Publish it first, or end there", version=version)

    def forget_versions(self) -> None:
        """Forget past versions, since their commits may have been cleaned up.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> log = LogReader(TableBuilder(MemoryStore()).create("id long").commit(add("a")).store)
        >>> _, old = log.update(), log.snapshot_at(0)
        >>> log.snapshot_at(0) is old
        True
        >>> log.forget_versions()
        >>> log.snapshot_at(0) is old
        False
        """
        with self._lock:
            self._versions.clear()

    def clean_up(self) -> Any:
        """Delete log files older than ``delta.logRetentionDuration`` that no retained version needs.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> _ = table.log.checkpoint()
        >>> with dn.set_options(clock=lambda: 4_000_000_000_000):
        ...     sorted(table.log.clean_up())
        ['_delta_log/00000000000000000000.crc', '_delta_log/00000000000000000000.json']
        """
        from deltanb.log import cleanup
        from deltanb.log.maintenance import CLEAN_LOG, check_maintenance

        yield_to_commits()
        check_maintenance(self, CLEAN_LOG, "Cleaning up the log")
        return cleanup.clean_up(self)

    # -- loading --------------------------------------------------------------------------------

    def _install(
        self, state: State, replacing: tuple[Snapshot, object] | None = None
    ) -> Snapshot:
        """Make a state the newest one, unless another thread installed a newer one meanwhile.

        ``replacing`` is a state that turned out to be of another log; any version replaces it.
        """
        seen = None
        if state.version >= 0:
            with suppress(OSError):  # what was read stands; not knowing the file costs reading it anew
                seen = getattr(self.commits, "seen", self.commits.identity)(state.version)
        snapshot = Snapshot(self, state, seen)
        with self._lock:
            held = self._held
            if held is not None and held is not replacing and held[0].version >= state.version:
                return held[0]
            if replacing is not None:
                self._versions.clear()
            self._held = snapshot, seen
            self._versions[state.version] = snapshot
            return snapshot

    def _is_current(self, held: tuple[Snapshot, object]) -> bool:
        """Whether the log that a snapshot was read from still exists, possibly with more commits."""
        snapshot, seen = held
        version = snapshot.version
        return version >= 0 and seen is not None and self.commits.identity(version) == seen

    def _follow(
        self, state: State, last: int | None = None,
        known: Mapping[int, Sequence[Action]] = MappingProxyType({}),
    ) -> State:
        """The state after the new commits, up to ``last``; the first missing commit ends the search, where no
        catalog says at once which is the newest.

        Versions have no gaps (PROTOCOL.md, "Delta Log Entries"), so there is nothing to list.
        """
        delta: Delta | None = None
        if last is None and self.commits.is_managed:
            last = self.commits.newest()
        version = state.version
        while last is None or version < last:
            if (actions := known.get(version + 1)) is not None:
                version += 1
                delta = delta or Delta()
                feed_actions(delta, actions)
                continue
            try:
                data = self.commits.read(version + 1)
            except FileNotFoundError:
                break
            version += 1
            delta = delta or Delta()
            feed(delta, data, commit_name(version), self.path)
        return state if delta is None else state.after(delta, version, state.files.lacks_all(delta))

    def _followed(self, held: tuple[Snapshot, object]) -> State | None:
        """The same with one listing and parallel reads of the new commits; None if the log was replaced."""
        commits = self.as_listed()[1]
        assert isinstance(commits, BucketCommits)
        state = held[0]._state
        identity, newer = commits.since(state.version)
        if identity is None or identity != held[1]:
            return None
        delta = Delta()
        version = state.version
        for (at, name), data in zip(newer.items(), commits.read_many(newer), strict=True):
            if at != version + 1 or data is None:
                break
            feed(delta, data, name, self.path)
            version = at
        return state if version == state.version else state.after(delta, version)

    def state_without(self, version: int, checkpoint: Iterable[str]) -> State:
        """The state of a version, read without the files of a checkpoint that turned out to be damaged.

        Raises:
            InvalidTable, VersionNotFound: the state cannot be read from other files.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create("id long").commit(add("a"))
        >>> _ = LogReader(builder.store).checkpoint()
        >>> log = LogReader(builder.store)
        >>> [name] = log.snapshot._state.checkpoint
        >>> log.state_without(1, [name]).checkpoint_version is None
        True
        """
        return self._load(version, frozenset(checkpoint))

    def _load(
        self, version: int | None, skip: frozenset[str] = frozenset(), keeps: bool = True
    ) -> State:
        """The state of a version from the files alone; ``keeps`` as in :class:`FileSet`."""
        failure: DeltaError | None = None
        vanished = 0
        while True:
            store, commits = self.as_listed()
            is_near = version is not None and isinstance(commits, BucketCommits)  # one listing reaches it
            try:
                hint = None if skip or is_near else self._hint()
                segment = segments.find(store, version, hint, skip, commits)
            except (InvalidTable, VersionNotFound):
                if failure is not None:
                    raise failure from None
                raise
            if segment is None:
                if failure is not None:
                    raise failure
                return EMPTY
            ahead = self._begun(segment, store)
            yield_to_commits()
            try:
                base = self._read_checkpoint(segment, store, keeps)
            except InvalidTable as error:  # damaged: an older one, or all commits, may serve
                failure, skip = failure or error, skip | frozenset(segment.checkpoint)
                continue
            try:
                state = self._replay(base, segment, ahead or store, commits)
                return self._compared(state, segment, ahead or store)
            except FileNotFoundError:  # cleaned up since it was listed
                vanished += 1
                if vanished > MAX_VANISHED:
                    raise

    def as_listed(self) -> tuple[LogStore, Commits]:
        """The store and the commits, for one piece of work: in a bucket they fetch nothing that its listings
        show and that was fetched before.

        >>> from deltanb.testing import MemoryStore
        >>> log = LogReader(MemoryStore())
        >>> log.as_listed() == (log.store, log.commits)
        True
        """
        if not hasattr(self.store, "fetch"):
            return self.store, self.commits
        from deltanb.log.listed_files import ListedFiles

        store: Any = ListedFiles(self.store)
        return store, self.commits.through(store)

    def _begun(self, segment: LogSegment, store: Any) -> Begun | None:
        """In a bucket: the checksum and the first commits, requested while the checkpoint is read."""
        if not isinstance(self.commits, BucketCommits):
            return None
        names = [name for first, last, name in segment.files if first == last]
        return Begun(store, [segments.checksum_name(segment.version)] * segment.has_checksum + names)

    def _compared(self, state: State, segment: LogSegment, store: Any) -> State:
        """The state with the checksum of its version."""
        if not segment.has_checksum:
            return state
        yield_to_commits()
        from deltanb.log import verification

        return replace(state, recorded=verification.read(store, state))

    def _hint(self) -> int | None:
        from deltanb.log.checkpoint.hint import read_last_checkpoint

        last = read_last_checkpoint(self.store)
        return None if last is None else last.version

    def _read_checkpoint(self, segment: LogSegment, store: Any, keeps: bool) -> State:
        if segment.checkpoint_version is None:
            return EMPTY
        from deltanb.log.checkpoint.read import open_checkpoint

        only = getattr(store, "only", None)
        parts = open_checkpoint(store if only is None else only(segment.checkpoint), list(segment.checkpoint))
        return State.of_checkpoint(segment.checkpoint_version, parts, keeps)

    def _replay(self, base: State, segment: LogSegment, store: Any, commits: Commits) -> State:
        delta, files = Delta(), segment.files
        compactions = [at for at, (first, last, _) in enumerate(files) if first != last]
        done = 0
        with _gc_paused(), progress(f"{name_of(self.path)}: commits read", len(files)) as seen:
            for at in compactions:
                self._replay_commits(delta, files[done:at], seen, store, commits)
                self._replay_compaction(delta, segment, store, commits, files[at])
                seen()
                done = at + 1
            self._replay_commits(delta, files[done:], seen, store, commits)
        return base.after(delta, segment.version)

    def _replay_commits(
        self, delta: Delta, files: Sequence[tuple[int, int, str]], seen: Callable[[], None],
        store: Any, commits: Commits,
    ) -> None:
        root, names = self.path, {version: name for version, _, name in files}
        is_begun = isinstance(store, Begun)
        contents = store.read_many(names.values()) if is_begun else commits.read_many(names)
        for name, data in zip(names.values(), contents, strict=True):
            if data is None:
                raise FileNotFoundError(name)
            feed(delta, data, name, root)
            seen()

    def _replay_compaction(
        self, delta: Delta, segment: LogSegment, store: Any, commits: Commits, file: tuple[int, int, str]
    ) -> None:
        """Replay a compaction, or the commits it replaces if it is damaged and all of them exist."""
        first, last, name = file
        data = store.read(name)
        one = Delta()
        try:
            feed(one, data, name, self.path, newest_first=True)
        except InvalidTable:
            versions = range(first, last + 1)
            if not segment.commits.keys() >= set(versions):
                raise
            one = Delta()
            for version in versions:
                feed(one, commits.read(version), segment.commits[version], self.path)
        delta.extend(one)


def as_version(value: Any, where: str) -> int:
    """A version as an integer; NumPy's integers count.

    Raises:
        InvalidArgument: not an integer; names the call and the value.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise InvalidArgument(
            f"{where} takes a version (an integer), found {type(value).__name__}: {value!r:.80}")
    version = index(value)
    if not -MAX_VERSION <= version <= MAX_VERSION:  # before the first is VersionNotFound, which says more
        raise InvalidArgument(
            f"{where} takes a version from 0 to {MAX_VERSION}, found {shown(version)}")
    return version


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause garbage collection while a long log is read: its rows have no cycles, and walks over a growing
    heap would take as long as the parsing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
