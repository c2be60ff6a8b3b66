"""Time travel: one version of a table looked at, or two compared with each other.

What lives here: :class:`TimeTravel`, which stands at one or two versions, and the frame it shows there.
What it does not know: the slider and the box (``notebook/widgets/time_travel.py``), how versions are
compared (``commands/read/diff.py``), how rows are read (``data/read.py``).

Rows are read when one moves, in the process; looking at what was read reads nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb import formatting as units
from deltanb.display import Displayable
from deltanb.errors import DataFileNotFound, DeltaError, InvalidTable, VersionNotFound
from deltanb.observe.availability import spans

if TYPE_CHECKING:
    import pyarrow as pa

    from deltanb.log.diff import TableDiff
    from deltanb.log.snapshot import Snapshot
    from deltanb.observe.availability import Versions
    from deltanb.table import DeltaTable

    Moment = int | str | dt.datetime

PREVIEW_ROWS = 20  # what one takes in at a glance
FILES_AT_A_TIME = 16
"""Files of a version listed for the preview at a time: mostly the first one has rows enough."""
MAX_FILES = 64  # files opened for a preview; more that are empty are not worth the wait
_LACKS = {"log": VersionNotFound, "damaged": InvalidTable, "files": DataFileNotFound}


@dataclass(frozen=True, repr=False)
class TimeFrame(Displayable):
    """What time travel shows at one place: a version with its first rows, or two and their ``diff``.

    ``preview`` has at most 20 rows of version ``version`` (of two, the second one), ``note`` says why it
    has none. ``commit`` is what the commit says of itself.
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


class TimeTravel(Displayable):
    """A place in the history of a table: one version, or two to compare. It can be moved.

    In a notebook it is shown with a slider over the versions that can be read and a box for a version or
    a time; elsewhere as the frame alone. In code it moves by :meth:`at` and :meth:`compare`.
    ``keys`` are columns that tell which row is which when two versions are compared, as of
    :func:`deltanb.commands.read.diff.diff`.

    Raises:
        InvalidArgument: ``keys`` that are not names of columns, or a moment as of :meth:`at`.

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
    ) -> None:
        from deltanb.commands.read.diff import key_names

        self._table = table
        self.keys = None if keys is None else key_names(keys)
        self._listeners: list[Callable[[], None]] = []
        self.panel: Any = None
        """Its slider, once a notebook has shown it."""
        self.versions: Versions = table.versions()
        """The versions there are, and which of them can be read."""
        self.frame: TimeFrame
        """What is shown now."""
        newest = max((run[-1] for run in self.versions.runs), default=None)
        if moment is None and newest is None:  # nothing has data: the newest state says so
            self._show(self._frame(table.snapshot))
        else:
            self.at(newest if moment is None else moment)  # type: ignore[arg-type]

    def at(self, moment: Moment) -> TimeFrame:
        """Go to a version (an integer) or a time (ISO 8601 text, a datetime), and show its first rows.

        Raises:
            VersionNotFound, DataFileNotFound, InvalidTable: it cannot be read; the message says why.
            InvalidArgument: neither a version nor a time.
        """
        snapshot = self._snapshot(moment)
        return self._show(self._frame(snapshot))

    def compare(self, start: Moment, end: Moment) -> TimeFrame:
        """Go to two versions or times, and show what differs; arguments and errors as of :meth:`at`.

        Raises:
            InvalidArgument: ``keys`` that are not columns at ``end``, or that several rows share.
        """
        from deltanb.commands.read.diff import diff as compared

        before, after = self._snapshot(start), self._snapshot(end)
        found = compared(self._table.log, before, after, keys=self.keys)
        return self._show(self._frame(after, before.version, found))

    @property
    def preview(self) -> pa.Table:
        """The first rows, at most 20, of the version looked at."""
        return self.frame.preview

    def refresh(self) -> TimeFrame:
        """Find out again which versions there are and can be read; the place stays the same."""
        self._look_again()
        return self._show(self.frame)

    def _look_again(self) -> None:
        self.versions = self._table.versions()
        if "frame" in vars(self):  # what it says of the versions must not contradict what is said now
            self.frame = replace(self.frame, versions=self.versions)

    def listen(self, listener: Callable[[], None]) -> None:
        """Call this function, without arguments, after every move."""
        self._listeners.append(listener)

    def _show(self, frame: TimeFrame) -> TimeFrame:
        self.frame = frame
        for listener in self._listeners:
            listener()
        return frame

    def _snapshot(self, moment: Moment) -> Snapshot:
        snapshot = None
        if isinstance(moment, str | dt.datetime):
            snapshot = self._table.as_of(moment).snapshot
            moment = snapshot.version
        if isinstance(moment, int) and not isinstance(moment, bool):
            if moment > self.versions.last:  # perhaps it was committed meanwhile
                self._look_again()
            self._check(moment)
        return snapshot or self._table.as_of(moment).snapshot

    def _check(self, version: int) -> None:
        reason = self.versions.reason(version)
        if reason is None:
            return
        gap = next((gap for gap in self.versions.gaps if gap.first <= version <= gap.last), None)
        kind = VersionNotFound if gap is None else _LACKS[gap.kind]
        about = f"version {version} cannot be read: {gap}" if gap else reason
        raise kind(f"{about}. Those that can be read: {spans(self.versions.runs)}", version=version,
                   earliest=None, latest=self.versions.last, files=() if gap is None else gap.files,
                   path=self._table.path)

    def _frame(
        self, snapshot: Snapshot, start: int | None = None, found: TableDiff | None = None
    ) -> TimeFrame:
        note = ""
        try:
            preview = _preview(snapshot)
        except DeltaError as error:
            import pyarrow as pa

            from deltanb.commands.read.diff import in_short

            words = in_short(error, snapshot.log.path)
            preview, note = pa.table({}), f"{type(error).__name__}: {words}"
        columns = len(snapshot.schema.fields)
        state = "  ".join([units.count(snapshot.num_files, "file"), units.size(snapshot.size_in_bytes),
                           units.count(columns, "column")])
        return TimeFrame(
            self._table.log.path if snapshot.metadata.name is None else snapshot.metadata.name,
            self.versions, snapshot.version, snapshot.timestamp,
            _commit(snapshot), state, preview, note, start, found)


def _commit(snapshot: Snapshot) -> str:
    """What the version's commit says of itself; of one that a checkpoint stands for it is looked up."""
    from deltanb.log import history

    info = snapshot.last_commit_info
    if not info:
        try:
            found = history.between(snapshot.log, snapshot.version, snapshot.version)
        except DeltaError:
            found = []
        info = {"operation": found[0].operation, "userName": found[0].user_name} if found else {}
    by = f" by {info['userName']}" if info.get("userName") else ""
    return f"{info.get('operation') or 'operation not recorded'}{by}"


def _preview(snapshot: Snapshot) -> pa.Table:
    """The first rows, from as few files as it takes."""
    import pyarrow as pa

    from deltanb.data.read import head

    total = min(snapshot.num_files, MAX_FILES)
    rows: pa.Table = snapshot.schema.to_arrow().empty_table()
    for start in range(0, total, FILES_AT_A_TIME):
        at = pa.array(range(start, min(start + FILES_AT_A_TIME, total)), pa.int64())
        files = snapshot.select_files(["path", "partition_values", "size", "deletion_vector"], at)
        rows = pa.concat_tables([rows, head(snapshot, files, PREVIEW_ROWS - rows.num_rows)])
        if rows.num_rows >= PREVIEW_ROWS:
            break
    return rows
