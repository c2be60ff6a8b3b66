"""Time travel: a look at one version of a table, or a comparison of two.

What lives here: :class:`TimeTravel`, which is at one or two versions, and the frame it shows for them.
What it does not know: the slider and the box (``notebook/widgets/time_travel.py``), how versions are
compared (``commands/read/diff.py``), how rows are read (``engines/arrow/read.py``).

Rows are read in the process when the position changes; showing a frame reads nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.errors import DataFileNotFound, DeltaError, InvalidTable, VersionNotFound
from deltanb.observe.availability import spans
from deltanb.observe.next_step import NextStep, next_step
from deltanb.text import formatting as units
from deltanb.text.display import Displayable, Interactive
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.diff import TableDiff
    from deltanb.log.snapshot import Snapshot
    from deltanb.observe.availability import Gap, Versions
    from deltanb.observe.tracks import Track
    from deltanb.table.table import DeltaTable

    Moment = int | str | dt.datetime

PREVIEW_ROWS = 20  # what one takes in at a glance
FILES_AT_A_TIME = 16
"""Files of a version listed for the preview at a time: mostly the first one has rows enough."""
MAX_TRACKS = 400  # commits read for the small timeline; each is a file to open
MAX_FILES = 64  # files opened for a preview; more that are empty are not worth the wait
_LACKS = {"log": VersionNotFound, "damaged": InvalidTable, "files": DataFileNotFound}


@dataclass(frozen=True, repr=False)
class TimeFrame(Displayable):
    """What time travel shows: a version with its first rows, or two versions and their ``diff``.

    ``preview`` has at most 20 rows of version ``version`` (the second one of two), ``note`` says why it has
    none. ``commit`` names the version's operation and user.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> table = dn.create(MemoryStore(), {"id": [1]})
    >>> _ = table.append({"id": [2]})
    >>> frame = table.time_travel().at(0)
    >>> frame.version, frame.preview.num_rows, frame.start, frame.diff
    (0, 1, None, None)
    """

    table: str
    versions: Versions
    version: int
    timestamp: int
    commit: str
    state: str
    preview: pa.Table
    note: str = ""
    start: int | None = None
    diff: TableDiff | None = None
    parameters: Any = None
    """What the commit says of its operation, its conditions among them."""
    next_step: NextStep | None = None
    """What the next version that can be read does to the rows of the preview."""
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    """The columns to show, where somebody asked for some."""


@answer_wrong_arguments()
class TimeTravel(Interactive):
    """A movable position in the history of a table: one version, or two to compare.

    A notebook shows it with a slider over the versions that can be read and a box for a version or a time;
    elsewhere only the frame is shown. In code, :meth:`at` and :meth:`compare` move it. Rows that the next
    version changes or removes are marked. ``keys`` are columns that identify a row when two versions are
    compared, as in :func:`deltanb.commands.read.diff.diff`; ``columns`` are those to show. By default, keys,
    columns that differ and columns in the commit's condition come first.

    Raises:
        InvalidArgument: ``keys`` or ``columns`` that are not column names, or a moment that :meth:`at`
        refuses.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"id": [1], "name": ["Donald"]})
    >>> _ = table.append({"id": [2], "name": ["Scrooge"]})
    >>> travel = table.time_travel()
    >>> travel.at(0).preview["name"].to_pylist()
    ['Donald']
    >>> travel.compare(0, 1).diff.rows.num_added
    1
    """

    def __init__(
        self, table: DeltaTable, moment: Moment | None = None, keys: str | Sequence[str] | None = None,
        columns: str | Sequence[str] | None = None,
    ) -> None:
        from deltanb.commands.read.diff import key_names

        super().__init__()
        self._table = table
        self.keys = None if keys is None else key_names(keys)
        self.columns = None if columns is None else key_names(columns, "columns")
        self.versions: Versions = table.versions()
        """The versions there are, and which of them can be read."""
        self.tracks: tuple[Track, ...] = self._newest_tracks()
        """The newest commits, at most 400, as a timeline draws them."""
        self.frame: TimeFrame
        """What is shown now."""
        newest = max((run[-1] for run in self.versions.runs), default=None)
        if moment is None and newest is None:  # nothing has data: the newest state says so
            self._show(self._frame(table.snapshot))
        else:
            self.at(newest if moment is None else moment)  # type: ignore[arg-type]

    def at(self, moment: Moment) -> TimeFrame:
        """Go to a version (an integer) or a time (ISO 8601 text, a datetime), and show its first rows.

        A day without a time, like ``"2026-11-20"``, means its end.

        Raises:
            VersionNotFound, DataFileNotFound, InvalidTable: it cannot be read; the message says why.
            InvalidArgument: neither a version nor a time.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> table.time_travel().at(0).preview["id"].to_pylist()
        [1]
        """
        snapshot = self._snapshot(moment)
        return self._show(self._frame(snapshot))

    def compare(self, start: Moment, end: Moment) -> TimeFrame:
        """Go to two versions or times, and show what differs; arguments and errors as in :meth:`at`.

        Raises:
            InvalidArgument: ``keys`` that are not columns at ``end``, or that several rows share.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> _ = table.append({"id": [2]})
        >>> frame = table.time_travel().compare(0, 1)
        >>> frame.start, frame.version, frame.diff.num_commits
        (0, 1, 1)
        """
        from deltanb.commands.read.diff import diff as compared

        before, after = self._snapshot(start), self._snapshot(end)
        difference = compared(self._table.log, before, after, keys=self.keys, columns=self.columns)
        return self._show(self._frame(after, before.version, difference))

    def _newest_tracks(self) -> tuple[Track, ...]:
        from deltanb.observe.timeline import CommitTimeline

        last = self.versions.last
        try:
            first = max(self._table.log.earliest_version(), last - MAX_TRACKS + 1)
            return CommitTimeline.of(self._table.log, first, last, attempts=()).tracks
        except DeltaError:  # a damaged commit: the versions are travelled to without a picture of all
            return ()

    @property
    def preview(self) -> pa.Table:
        """The first rows, at most 20, of the current version.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> dn.create(MemoryStore(), {"id": range(99)}).time_travel().preview.num_rows
        20
        """
        return self.frame.preview

    def refresh(self) -> TimeFrame:
        """Find out again which versions can be read; the position stays the same.

        >>> import deltanb as dn
        >>> from deltanb.testing import MemoryStore
        >>> table = dn.create(MemoryStore(), {"id": [1]})
        >>> travel = table.time_travel()
        >>> _ = table.append({"id": [2]})
        >>> _ = travel.refresh()
        >>> travel.at(1).preview.num_rows
        2
        """
        self._look_again()
        return self._show(self.frame)

    def _look_again(self) -> None:
        self.versions = self._table.versions()
        self.tracks = self._newest_tracks()
        if "frame" in vars(self):  # what it says of the versions must not contradict what is said now
            self.frame = replace(self.frame, versions=self.versions)

    def _show(self, frame: TimeFrame) -> TimeFrame:
        self.frame = frame
        self._call_listeners()
        return frame

    def _snapshot(self, moment: Moment) -> Snapshot:
        snapshot = None
        if isinstance(moment, str) and (day := _day_of(moment)) is not None:
            moment = self._end_of(day)
        if isinstance(moment, str | dt.datetime):
            snapshot = self._table.as_of(moment).snapshot
            moment = snapshot.version
        if isinstance(moment, int) and not isinstance(moment, bool):
            if moment > self.versions.last:  # perhaps it was committed meanwhile
                self._look_again()
            self._check(moment)
        return snapshot or self._table.as_of(moment).snapshot

    def _end_of(self, day: dt.date) -> int | dt.datetime:
        """The end of a day; for the day of the newest commit, that commit."""
        end = dt.datetime.combine(day, dt.time.max, dt.timezone.utc)
        newest = self._table.snapshot
        last = dt.datetime.fromtimestamp(newest.timestamp / 1000, dt.timezone.utc)
        return newest.version if last.date() == day else end

    def _check(self, version: int) -> None:
        reason = self.versions.reason(version)
        if reason is None:
            return
        gap = next((gap for gap in self.versions.gaps if gap.first <= version <= gap.last), None)
        kind = VersionNotFound if gap is None else _LACKS[gap.kind]
        about = f"version {version} cannot be read: {_of_version(gap)}" if gap else reason
        raise kind(f"{about}. Those that can be read: {spans(self.versions.runs)}", version=version,
                   earliest=None, latest=self.versions.last, files=() if gap is None else gap.files,
                   path=self._table.path)

    def _frame(
        self, snapshot: Snapshot, start: int | None = None, difference: TableDiff | None = None
    ) -> TimeFrame:
        from deltanb.commands.read.diff import known_columns

        note, step = "", None
        columns = None if self.columns is None else known_columns(self.columns, snapshot)
        try:
            preview, paths = _preview(snapshot)
            if difference is None:
                step = self._next_step(snapshot, preview, paths)
        except DeltaError as error:
            import pyarrow as pa

            from deltanb.commands.read.diff import in_short

            words = in_short(error, snapshot.log.path)
            preview, note = pa.table({}), f"{type(error).__name__}: {words}"
        if columns is not None and not note:
            preview = preview.select(list(columns))
        width = len(snapshot.schema.fields)
        state = "  ".join([units.count(snapshot.num_files, "file"), units.size(snapshot.size_in_bytes),
                           units.count(width, "column")])
        commit, parameters = _commit(snapshot)
        return TimeFrame(
            self._table.log.path if snapshot.metadata.name is None else snapshot.metadata.name,
            self.versions, snapshot.version, snapshot.timestamp,
            commit, state, preview, note, start, difference, parameters, step, self.keys or (), columns)

    def _next_step(self, snapshot: Snapshot, preview: pa.Table, paths: Sequence[str]) -> NextStep | None:
        """What the next readable version does to the rows; None without such a version or rows."""
        later = [run for run in self.versions.runs if run[-1] > snapshot.version]
        if not later or not preview.num_rows:
            return None
        version = max(snapshot.version + 1, min(later, key=lambda run: run[0])[0])
        try:
            after = self._table.as_of(version).snapshot
        except DeltaError:  # it was deleted meanwhile; going there says so
            return None
        return next_step(snapshot, after, preview, paths, self.keys)


def _of_version(gap: Gap) -> str:
    """Why a version cannot be read, to follow its number; names the run of versions if there are several.

    >>> from deltanb.observe.availability import Gap
    >>> _of_version(Gap(4, 4, "files", 2)), _of_version(Gap(0, 2, "log"))
    ('2 of its files are gone (vacuumed)', 'v0 to v2: the log was cleaned up: no checkpoint before')
    """
    return gap.reason if gap.first == gap.last else str(gap)


def _day_of(text: str) -> dt.date | None:
    """The day that a text without a time means; None for anything else.

    >>> _day_of(" 2026-11-20 "), _day_of("2026-11-20T10:00:00Z")
    (datetime.date(2026, 11, 20), None)
    """
    try:
        return dt.date.fromisoformat(text.strip())
    except ValueError:
        return None


def _commit(snapshot: Snapshot) -> tuple[str, Any]:
    """The operation and user of the version's commit, and the operation's parameters; looked up in the
    history if the snapshot begins at a checkpoint."""
    from deltanb.log import history

    info = snapshot.last_commit_info
    if not info:
        try:
            entries = history.between(snapshot.log, snapshot.version, snapshot.version)
        except DeltaError:
            entries = []
        info = {"operation": entries[0].operation, "userName": entries[0].user_name,
                "operationParameters": entries[0].operation_parameters} if entries else {}
    by = f" by {info['userName']}" if info.get("userName") else ""
    return f"{info.get('operation') or 'operation not recorded'}{by}", info.get("operationParameters")


def _preview(snapshot: Snapshot) -> tuple[pa.Table, list[str]]:
    """The first rows, from as few files as possible, and the paths of these files."""
    import pyarrow as pa

    from deltanb.engines.arrow.read import head

    total = min(snapshot.num_files, MAX_FILES)
    rows: pa.Table = snapshot.schema.to_arrow().empty_table()
    paths: list[str] = []
    for start in range(0, total, FILES_AT_A_TIME):
        at = pa.array(range(start, min(start + FILES_AT_A_TIME, total)), pa.int64())
        files = snapshot.select_files(["path", "partition_values", "size", "deletion_vector", "stats"], at)
        paths += _opened(files, PREVIEW_ROWS - rows.num_rows)
        rows = pa.concat_tables([rows, head(snapshot, files, PREVIEW_ROWS - rows.num_rows)])
        if rows.num_rows >= PREVIEW_ROWS:
            break
    return rows, paths


def _opened(files: pa.Table, rows: int) -> list[str]:
    """The first files with ``rows`` rows by their statistics; all files if these are missing."""
    from deltanb.actions import AddFile
    from deltanb.log.commit_content import live_rows

    paths = []
    for row in files.to_pylist(maps_as_pydicts="lossy"):
        if rows <= 0:
            break
        paths.append(row["path"])
        rows -= live_rows(AddFile.from_row(row)) or 0
    return paths
