"""The timeline of a table: who committed what on which version, and who lost.

What lives here: :class:`CommitTimeline`, the transactions of a table with remarks on them.
What it does not know: how commits are read (``tracks.py``), how they are drawn (the views).

Lost races come from the journal of this process, and of others where it is kept: a Delta log does not record
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.observe import tracks as timeline_rows
from deltanb.observe.tracks import Mark, Track
from deltanb.text import formatting as units
from deltanb.text.display import Charted, views
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.kept_journal import attempts_of

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.transaction.journal import Attempt

__all__ = ["CommitTimeline", "Mark", "Track"]


@answer_wrong_arguments()
class CommitTimeline(Charted):
    """Transactions of a table, drawn over its versions.

    ``tracks`` are the commits and the failed attempts, by version. In a notebook it has a lane for each
    writer and each stream. Each line runs from the version read to the version committed: dotted up to a
    circle where it lost a race and went on, dashed up to ✕ where it failed. A long history has a strip of all
    commits above, and a click on it chooses versions. The text names the newest transactions. ``writers`` are
    those whose lanes come first, from top to bottom; the others follow in the order of their first commits.

    >>> from deltanb.testing import MemoryStore, TableBuilder, add
    >>> table = TableBuilder(MemoryStore("memory:///ducks")).create("id long")
    >>> _ = table.commit({"commitInfo": {"operation": "WRITE", "readVersion": 0, "userName": "Donald"}},
    ...                  add("a", size=5))
    >>> print(CommitTimeline.of(table.log))
    Timeline ducks  v0 to v1  2 commits  2 writers
    * v1 ← v0  WRITE         Donald          +1 −0  5 B
    * v0       not recorded  unknown writer  +0 −0  0 B
    """

    def __init__(
        self, tracks: Iterable[Track], table: str = "",
        marks: Mapping[Any, Mark | str] | None = None, title: str = "", writers: Iterable[str] = (),
        errors: Iterable[str] = (),
    ) -> None:
        known = {version: Mark.of(mark) for version, mark in (marks or {}).items()}
        order = sorted(tracks, key=lambda track: (track.version, track.is_committed))
        self.tracks: tuple[Track, ...] = tuple(order)
        self.table = units.fit(units.clean(table), timeline_rows.MAX_NAME)
        self.marks: dict[int | str | None, Mark] = known
        self.title = title
        self.errors = tuple(errors)
        """What went wrong beside the transactions, a sentence each."""
        self.writers = tuple(timeline_rows.writer_of(name, None) for name in writers)

    @classmethod
    def of(
        cls, log: LogReader, start: Any = None, end: Any = None, newest: int | None = None,
        attempts: Iterable[Attempt] | None = None, **settings: Any,
    ) -> CommitTimeline:
        """The timeline of a log from version ``start`` to version ``end``, both included.

        Args:
            log: the table's log; its commits in the range are read.
            start, end: versions, or times for the versions of these times; all by default.
            newest: the table's version, if it is pinned; later ones are left out.
            attempts: attempts to show instead of those in the journal.
            settings: ``marks`` and ``title``, as in :meth:`marked`.

        Raises:
            VersionNotFound: the table has no such versions.
            InvalidTable: a damaged commit, naming file and line.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create().commit(add("a")).commit(add("b"))
        >>> [track.version for track in CommitTimeline.of(builder.log, start=1).commits]
        [1, 2]
        """
        at = log.update().version if newest is None else newest
        name = units.name_of(log.path)
        if at < 0:
            return cls((), name, **settings)
        first, last = timeline_rows.bounds(log, start, end, at)
        commits = timeline_rows.read(log, first, last)
        if start is not None or not commits:
            titles = (timeline_rows.gone(log, first, last), settings.get("title"))
            settings["title"] = "; ".join(filter(None, titles))
        open_end = newest is None and last == at  # a failure without a winner aimed at the next version
        tried = [attempt for attempt in (attempts_of(log).attempts if attempts is None else attempts)
                 if first <= attempt.version <= last + open_end]
        return cls(timeline_rows.joined(commits, tried), log.snapshot.metadata.name or name, **settings)

    def marked(self, marks: Mapping[Any, Mark | str], title: str = "") -> CommitTimeline:
        """The same timeline with remarks on commits, by version, and on failed attempts, by ``txn_id``;
        ``title`` says what the remarks are about. A remark may begin with its sign, ``✓``, ``✕`` or ``…`` for
        what has not happened yet; without one it is ``✕``.

        >>> timeline = CommitTimeline([Track(1, 0, "DELETE", "Donald", "delete"),
        ...                            Track(2, 0, "MERGE", "Daisy", "rewrite")], "ducks")
        >>> print(timeline.marked({2: "delete / read"}, "had all been Serializable"))
        Timeline ducks  v1 to v2  2 commits  2 writers
        had all been Serializable
        * v2 ← v0  MERGE   Daisy   +0 −0  0 B  ✕ delete / read
        * v1 ← v0  DELETE  Donald  +0 −0  0 B
        """
        return CommitTimeline(self.tracks, self.table, {**self.marks, **marks}, title or self.title,
                              self.writers)

    @property
    def commits(self) -> list[Track]:
        """The commits, oldest first.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add
        >>> builder = TableBuilder(MemoryStore()).create().commit(add("a"))
        >>> [track.version for track in CommitTimeline.of(builder.log).commits]
        [0, 1]
        """
        return [track for track in self.tracks if track.is_committed]

    @property
    def failed(self) -> list[Track]:
        """The transactions that committed nothing: of this session, and of others where a journal is kept.

        >>> from deltanb.testing import MemoryStore, TableBuilder, add, remove
        >>> builder = TableBuilder(MemoryStore()).create().commit(add("a"))
        >>> txn = builder.log.start_transaction()
        >>> removed = [file.remove() for file in txn.filter_files()]
        >>> _ = builder.commit(remove("a"))
        >>> try:
        ...     txn.commit(removed, "DELETE")
        ... except Exception:
        ...     [attempt] = CommitTimeline.of(builder.log).failed
        >>> attempt.operation
        'DELETE'
        """
        return [track for track in self.tracks if not track.is_committed]

    @cached_property
    def scene(self) -> Any:
        """What the drawings show, and where: strip, lanes, window and words.

        >>> from deltanb.testing import MemoryStore, TableBuilder
        >>> scene = CommitTimeline.of(TableBuilder(MemoryStore()).create().log).scene
        >>> len(scene.lanes.lanes)
        1
        """
        return views().drawing(self, "scene")
