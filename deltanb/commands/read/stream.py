"""A table as the source of a stream: first the files of a version, then those of each commit.

What lives here: :class:`TableStreamSource`, which decides how far a batch goes and lists its files;
:class:`Offset`, a persistent position.
What it does not know: Spark; how a file is read.

A stream begins with a snapshot, whose files come in the order they were written, or with a version. Then it
follows the commits. It can show added rows, not removed ones: a commit that deletes or rewrites rows stops
it, unless its options allow such commits. Commits that only move rows (OPTIMIZE) add nothing. The change feed
shows everything, a whole commit at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow.compute as pc

from deltanb.actions import Action, AddFile, CommitInfo, Metadata, Protocol, RemoveFile
from deltanb.commands.read.changes import ChangedFile, as_inserted, changed_in, feed_scan
from deltanb.engines.arrow.data_file import Scan, plan
from deltanb.errors import InvalidArgument, StreamSourceChanged, VersionNotFound
from deltanb.log import commit_times
from deltanb.schema.types import StructType
from deltanb.schema.widening import is_widening

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.transaction.delta_log import DeltaLog

FORMAT = 1
"""Of offsets: a reader that meets a higher number does not guess."""
MAX_FILES = 1000
"""Files that one micro-batch reads unless told, as in Delta Spark."""
MAX_IDLE_COMMITS = 100
"""Commits that bring nothing, behind which a stream moves on though there are no rows: a batch of its own for
each would be work for nothing, and to wait for rows for ever would outlast what the log keeps."""
NEEDED = ("path", "partition_values", "size", "deletion_vector", "base_row_id", "default_row_commit_version")
SLICE = 4096  # files of a snapshot that are Python objects at a time


class Position(NamedTuple):
    """A position in a table's history: all files before it were read, and the first ``done`` files of
    ``version``.

    ``after`` is False within the snapshot of the version, and True within its commit; positions compare in
    the order in which a stream passes them.
    """

    version: int
    after: bool
    done: int


@dataclass(frozen=True)
class Offset:
    """A stream's position, its table, and its start.

    Spark does not store the start of the first batch: after a crash it asks again, when the table may have
    another version. So every offset includes the start of its stream.

    >>> offset = Offset("id of the table", Position(5, False, 0), Position(6, True, 2))
    >>> Offset.of(offset.to_dict()) == offset
    True
    """

    table: str
    origin: Position
    position: Position

    def to_dict(self) -> dict[str, Any]:
        """The offset as JSON values: texts, integers and booleans."""
        return {"format": FORMAT, "table": self.table,
                "origin": {"version": self.origin.version, "snapshot": not self.origin.after},
                "version": self.position.version, "snapshot": not self.position.after,
                "index": self.position.done}

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> Offset:
        """The offset from its JSON.

        Raises:
            InvalidArgument: not an offset of a table's stream, or one of a newer release.
        """
        try:
            number, origin = value["format"], value["origin"]
            if number == FORMAT:
                return cls(value["table"], Position(int(origin["version"]), not origin["snapshot"], 0),
                           Position(int(value["version"]), not value["snapshot"], int(value["index"])))
        except (KeyError, TypeError, ValueError):
            raise InvalidArgument(
                f"the checkpoint has the offset {dict(value)!r:.200}, which is not an offset of a deltanb "
                "stream: it belongs to another source. Start the stream with a new checkpoint") from None
        raise InvalidArgument(
            f"the checkpoint has an offset of format {number!r}, and this release of deltanb reads format "
            f"{FORMAT}: a newer one has written it. Update deltanb, or start with a new checkpoint")

    def at(self, position: Position) -> Offset:
        """The same stream at another position."""
        return Offset(self.table, self.origin, position)


@dataclass(frozen=True)
class StreamOptions:
    """How a table is streamed.

    ``start`` is a version, ``"latest"`` for new commits only, or None for the whole table first;
    ``timestamp`` (ISO 8601) means the first version at or after a time. A micro-batch ends when it reaches
    ``max_files`` or ``max_bytes``; it has at least one file.

    ``ignore_changes`` reads the files that a commit adds though it removes others, ``skip_change_commits``
    leaves such commits out. Without ``fail_on_data_loss``, commits that the log no longer has are passed
    over. Files in whose paths the regular expression ``exclude`` matches are left out.
    """

    start: int | str | None = None
    timestamp: str | None = None
    max_files: int | None = MAX_FILES
    max_bytes: int | None = None
    ignore_deletes: bool = False
    skip_change_commits: bool = False
    changes: bool = False
    ignore_changes: bool = False
    fail_on_data_loss: bool = True
    exclude: str | None = None

    def __post_init__(self) -> None:
        if self.start is not None and self.timestamp is not None:
            raise InvalidArgument(
                "startingVersion and startingTimestamp contradict each other; give one of them")
        if isinstance(self.start, str) and self.start != "latest":
            raise InvalidArgument(f"startingVersion is a version or 'latest', found {self.start!r}")
        if self.exclude is not None:
            try:
                re.compile(self.exclude)
            except re.error as error:
                raise InvalidArgument(
                    f"excludeRegex={self.exclude!r} is not a regular expression: {error}") from None
        for name, value in (("maxFilesPerTrigger", self.max_files), ("maxBytesPerTrigger", self.max_bytes)):
            if value is not None and value < 1:
                raise InvalidArgument(f"{name}={value} must be at least 1")


class Piece(NamedTuple):
    """An indivisible part of a batch: a file, or a whole commit of the change feed."""

    files: list[Any]
    behind: Position

    @property
    def size(self) -> int:
        """The size in bytes, as far as the log has it."""
        return sum(file["size"] or 0 for file in self.files if isinstance(file, dict))


class TableStreamSource:
    """A table as the source of a stream.

    Args:
        log: the table's log.
        options: how it is streamed.
        shown: the version whose columns the stream has; a later version with other columns stops it.
        note_columns: remembers the version of other columns that stops the stream, once all before it was
            read; a stream that is started again goes on with them. Without it, the stream stops as it sees
            that version.

    >>> import deltanb as dn
    >>> table = dn.create("followed", {"id": [1]})
    >>> source = TableStreamSource(table.log, StreamOptions(), table.snapshot)
    >>> start = source.initial()
    >>> _ = table.append({"id": [2]})
    >>> end = source.latest(start)
    >>> len(source.files(start, end)), end.position.version
    (2, 2)
    """

    def __init__(
        self, log: DeltaLog, options: StreamOptions, shown: Snapshot,
        note_columns: Callable[[int], None] | None = None,
    ) -> None:
        self.log, self.options, self.shown, self.note_columns = log, options, shown, note_columns
        self.last: int | None = None
        """The version behind which the stream does not go (``availableNow``)."""
        self._commits: dict[int, list[Any]] = {}
        self._sorted: tuple[int, Any] | None = None

    @cached_property
    def scan(self) -> Scan:
        """The scan of each file: all columns, and those of the change feed."""
        return feed_scan(self.shown) if self.options.changes else plan(self.shown)

    # -- where it stands -------------------------------------------------------------------------

    def initial(self) -> Offset:
        """The start of the stream, always the same for one source.

        Raises:
            VersionNotFound: the log does not have the version, or no longer.
        """
        return Offset(self._table, self._start, self._start)

    def stop_at_newest(self) -> None:
        """Go no further than the currently newest version."""
        self.last = self.log.update().version

    def latest(self, start: Offset, *, limited: bool = True) -> Offset:
        """The end of a micro-batch that begins at an offset; the same offset if there is nothing to read.

        Args:
            limited: whether the options' limits apply.

        Raises:
            StreamSourceChanged: a commit that the stream cannot follow.
            VersionNotFound: a commit, or the initial version, is no longer in the log.
        """
        self._check_table(start)
        newest = self.log.update().version
        until = newest if self.last is None else min(newest, self.last)
        files, size, at, idle = 0, 0, start.position, 0
        max_files = self.options.max_files if limited else None
        max_bytes = self.options.max_bytes if limited else None
        pieces = self._pieces(start.position, until)
        while (piece := self._next(pieces, is_behind=files > 0)) is not None:
            if files and ((max_files is not None and files + len(piece.files) > max_files) or (
                    max_bytes is not None and size + piece.size > max_bytes)):
                break
            files, size, at = files + len(piece.files), size + piece.size, piece.behind
            idle += not piece.files
        return start.at(at) if files or idle >= MAX_IDLE_COMMITS else start

    def _next(self, pieces: Iterator[Piece], *, is_behind: bool) -> Piece | None:
        """The next piece. Before a version with other columns there is none, if rows are to be read."""
        try:
            return next(pieces, None)
        except StreamSourceChanged as error:
            has_later_columns = "differences" in error.data and error.version > self.shown.version
            if self.note_columns is None or not has_later_columns:
                raise
            if is_behind:
                return None
            self.note_columns(error.version)
            raise

    def files(self, start: Offset, end: Offset) -> list[Any]:
        """The files between two offsets, in order: rows of a snapshot's files or, for the change feed,
        :class:`~deltanb.commands.read.changes.ChangedFile`.

        Raises:
            StreamSourceChanged, VersionNotFound: as :meth:`latest`.
        """
        begin, files, stop = self.between(start, end), [], end.position
        for piece in self._pieces(begin, stop.version if stop.done else stop.version - 1):
            if piece.behind > stop:
                break
            files += piece.files
        return files if self.options.exclude is None else self._included(files, self.options.exclude)

    def _included(self, files: Sequence[Any], pattern: str) -> list[Any]:
        # Only here: a batch's end is where it would be with them, as in Delta Spark.
        search = re.compile(pattern).search
        return [file for file in files
                if not search(file["path"] if isinstance(file, dict) else file.path)]

    def between(self, start: Offset, end: Offset) -> Position:
        """The start and end of a batch; a repeated first batch takes its start from ``end``."""
        self._check_table(end)
        if start.position == start.origin and start.origin != end.origin:
            return end.origin
        return start.position

    # -- the beginning ---------------------------------------------------------------------------

    @property
    def _table(self) -> str:
        return self.shown.metadata.id

    @cached_property
    def _start(self) -> Position:
        newest, start = self.log.update().version, self.options.start
        if self.options.timestamp is not None:
            start = self._at_or_after(self.options.timestamp)
        if start is None:
            return Position(newest, False, 0)
        if start == "latest":
            return Position(newest + 1, True, 0)
        version = int(start)
        if version > newest:
            raise VersionNotFound(
                f"the stream is to start at version {version}; the newest of {self.log.path} is {newest}. "
                "Give startingVersion=latest for what arrives from now on", version=version, latest=newest)
        self._check_available(version)
        return Position(version, True, 0)

    def _at_or_after(self, timestamp: str) -> int:
        time = commit_times.to_milliseconds(timestamp)
        earliest = self._earliest()
        first = commit_times.commit_times(self.log, earliest, earliest).get(earliest)
        if first is not None and time <= first:
            return earliest
        version = commit_times.version_as_of(self.log, timestamp)
        at = commit_times.commit_times(self.log, version, version).get(version, time)
        return version + (at < time)

    def _check_table(self, offset: Offset) -> None:
        if offset.table != self._table:
            raise StreamSourceChanged(
                f"the checkpoint is that of a stream which reads another table (id {offset.table}) than the "
                f"one at {self.log.path} (id {self._table}): the table was recreated, or the stream has "
                "another path now. Start it with a new checkpoint", path=self.log.path)

    def _check_available(self, version: int) -> None:
        earliest = self._earliest()
        if version < earliest:
            raise VersionNotFound(
                f"the stream reads version {version} of {self.log.path} next, and the log begins at version "
                f"{earliest}: it was cleaned up (delta.logRetentionDuration), and what the versions between "
                "brought is no longer known. Start with a new checkpoint: with the whole table, or with "
                f"startingVersion={earliest}", version=version, earliest=earliest)

    def _earliest(self) -> int:
        """The first version whose commit exists."""
        return min(self.log.commits.names(), default=0)

    # -- files -----------------------------------------------------------------------------------

    def _pieces(self, at: Position, until: int) -> Iterator[Piece]:
        """The pieces between a position and the end of a version."""
        if not at.after:
            yield from self._of_snapshot(at)
            at = Position(at.version + 1, True, 0)
        for version in self._versions(at.version, until):
            files = self._of_commit(version)
            behind = Position(version + 1, True, 0)
            if not files or self.options.changes:
                yield Piece(files, behind)
                continue
            for place in range(at.done if version == at.version else 0, len(files)):
                yield Piece([files[place]],
                            behind if place == len(files) - 1 else Position(version, True, place + 1))

    def _versions(self, first: int, last: int) -> Iterable[int]:
        """The versions whose commits are read.

        Raises:
            VersionNotFound: the first one is gone, and that is not ignored.
        """
        if self.options.fail_on_data_loss:
            if first <= last:
                self._check_available(first)
            return range(first, last + 1)
        return sorted(version for version in self.log.commits.names() if first <= version <= last)

    def _of_snapshot(self, at: Position) -> Iterator[Piece]:
        table = self._snapshot_files(at.version)
        count, behind = table.num_rows, Position(at.version + 1, True, 0)
        if not count:
            yield Piece([], behind)
        for first in range(at.done, count, SLICE):
            files: list[Any] = table.slice(first, SLICE).to_pylist()
            if self.options.changes:
                files = as_inserted(self.log, at.version, files)
            for place, file in enumerate(files, first):
                yield Piece([file], behind if place == count - 1 else Position(at.version, False, place + 1))

    def _snapshot_files(self, version: int) -> Any:
        """The files of a version, oldest first; cached for later batches."""
        if self._sorted is None or self._sorted[0] != version:
            try:
                snapshot = self.log.snapshot_at(version)
            except VersionNotFound as error:
                raise VersionNotFound(
                    f"the stream began with version {version} of {self.log.path} and has not read all of it, "
                    f"and that version cannot be read any more ({error}). Start with a new checkpoint",
                    version=version) from None
            files = snapshot.select_files([*NEEDED, "modification_time"])
            order = pc.sort_indices(files, [("modification_time", "ascending"), ("path", "ascending")])
            self._sorted = version, files.take(order).select(list(NEEDED))
        return self._sorted[1]

    def _of_commit(self, version: int) -> list[Any]:
        """The files that a commit adds to the stream; a commit is read once."""
        if version not in self._commits:
            if len(self._commits) > MAX_IDLE_COMMITS:
                self._commits.clear()
            actions = self._actions(version)
            self._check_columns(version, actions)
            self._commits[version] = self._changed(version) if self.options.changes else [
                {name: getattr(file, name) for name in NEEDED} for file in self._added(version, actions)]
        return self._commits[version]

    def _actions(self, version: int) -> list[Action]:
        try:
            return self.log.read_commit(version)
        except VersionNotFound:
            self._check_available(version)
            raise

    def _changed(self, version: int) -> list[ChangedFile]:
        return changed_in(self.log, version, self.shown, self.scan)

    def _added(self, version: int, actions: Sequence[Action]) -> list[AddFile]:
        added = [a for a in actions if isinstance(a, AddFile) and a.data_change]
        if any(isinstance(a, RemoveFile) and a.data_change for a in actions):
            if self.options.skip_change_commits:
                return []
            self._refuse_change(version, actions, rewrites=bool(added))
        return added

    def _refuse_change(self, version: int, actions: Sequence[Action], *, rewrites: bool) -> None:
        if self.options.ignore_changes or (self.options.ignore_deletes and not rewrites):
            return
        info = next((a for a in actions if isinstance(a, CommitInfo)), None)
        did = info.operation if info is not None and info.operation else "a commit"
        what = "rewrites" if rewrites else "deletes"
        also = "" if rewrites else "ignoreDeletes=true continues after deletions of whole files; "
        raise StreamSourceChanged(
            f"version {version} of {self.log.path} ({did}) {what} rows that the stream may have read, and a "
            f"stream shows only rows that come. {also}skipChangeCommits=true leaves out such commits, with "
            "the rows they add; ignoreChanges=true reads all rows of the files they add, also those that were"
            " only written again; readChangeFeed=true shows them as changes, where the table records its "
            "change feed; a new checkpoint reads the whole table again", version=version, path=self.log.path)

    # -- columns ---------------------------------------------------------------------------------

    @cached_property
    def _columns(self) -> StructType:
        return self.shown.schema

    def _check_columns(self, version: int, actions: Sequence[Action]) -> None:
        """Check that rows of a commit fit the stream's columns, and that a new protocol can be read."""
        if any(isinstance(a, Protocol) for a in actions):
            self.log.snapshot_at(version).check_readable()
        metadata = next((a for a in reversed(actions) if isinstance(a, Metadata)), None)
        if metadata is None:
            return
        is_later = version > self.shown.version
        lines = _differences(metadata.schema, self._columns, strict=is_later)
        if not lines:
            return
        way = ("Start the stream again with the same checkpoint and a new frame: it goes on from here "
               "with the new columns" if is_later else
               "Rows from before cannot be shown in the present columns. Start with a new checkpoint, and "
               f"with startingVersion={self.shown.version} or later")
        raise StreamSourceChanged(
            f"version {version} of {self.log.path} has other columns than the stream:\n"
            + "\n".join(f"  {line}" for line in lines) + f"\n{way}", version=version, differences=lines,
            path=self.log.path)


def _differences(current: StructType, shown: StructType, *, strict: bool) -> list[str]:
    """The differences of a version's columns from a stream's: all, or only those that cannot be read."""
    known = {field.name.lower(): field for field in shown.fields}
    lines = []
    for field in current.fields:
        other = known.pop(field.name.lower(), None)
        if other is None:
            lines += [f"+ {field.name}: {field.type}"] if strict else []
        elif field.type != other.type and (strict or not is_widening(field.type, other.type)):
            lines.append(f"~ {field.name}: {field.type}, in the stream {other.type}")
    return lines + ([f"- {name}" for name in (field.name for field in known.values())] if strict else [])
