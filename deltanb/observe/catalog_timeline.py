"""The timeline of a catalog: which transaction moved which tables, and which transactions lost.

What lives here: :class:`CatalogTimeline`, and how it is read: from the catalog's history, the commits of its
Delta tables, and the attempts made through the catalog object.
What it does not know: how it is drawn (``notebook/drawing``), what a commit says (``tracks``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltanb.catalog.progress import GroupAttempt
from deltanb.catalog.store.names import TableName
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.observe import tracks
from deltanb.observe.timeline import CommitTimeline, Mark
from deltanb.observe.tracks import Track
from deltanb.text import formatting as units
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from deltanb.catalog.catalog import Catalog
    from deltanb.catalog.store.history import Entry

__all__ = ["CatalogTimeline", "CatalogTrack"]

NEWEST = 400  # transactions read unless bounds are given: as many as the strip has bars
MAX_TABLES = 50  # read for the timeline of a catalog without a history: some requests each
KEEP_ID = 8  # characters of the id of a table that was dropped

_ICEBERG = {"append": "append", "overwrite": "rewrite", "delete": "delete", "replace": "optimize"}


@dataclass(frozen=True)
class CatalogTrack(Track):
    """What one transaction of a catalog did to one table.

    ``version`` and ``read_version`` are numbers of the catalog's transactions, ``writer`` is the table, which
    is also its lane; ``pointer`` is the table's version, ``who`` the user.
    """

    pointer: str = ""
    who: str = ""


@answer_wrong_arguments()
class CatalogTimeline(CommitTimeline):
    """Transactions of a catalog in their order, with a lane per table and ties between a transaction's
    tables.

    Each line runs from the snapshot read to the commit. Lost races are known only for transactions made
    through this catalog object.

    >>> import deltanb as dn
    >>> with dn.teaching(seed=1, user_name="ada"):
    ...     catalog = dn.Catalog("sqlite:///lake.db", warehouse="lake")
    ...     catalog.create_namespace("shop")
    ...     for name in ("orders", "totals"):
    ...         _ = catalog.create_table(f"shop.{name}", {"id": [1]})
    ...     with catalog.transaction() as txn:
    ...         _ = txn.table("shop.orders").append({"id": [2]})
    ...         _ = txn.table("shop.totals").delete("id = 1")
    ...     print(catalog.timeline())
    Timeline default  1 to 3  3 transactions  2 tables
    * 3 ← 2  ada  shop.orders v1 WRITE, shop.totals v1 DELETE
    * 2      ada  shop.totals v0 CREATE TABLE AS SELECT
    * 1      ada  shop.orders v0 CREATE TABLE AS SELECT
    """

    @classmethod
    def of(  # type: ignore[override]
        cls, catalog: Catalog, start: Any = None, end: Any = None, **settings: Any
    ) -> CatalogTimeline:
        """The timeline of a catalog from one transaction to another, both included.

        Raises:
            InvalidArgument: neither a number nor a time.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///drawn.db", warehouse="drawn")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> len(CatalogTimeline.of(catalog).commits)
        1
        """
        newest = catalog.store.instant()
        last = min(newest, newest if end is None else _place(catalog, end))
        first = max(1, last - NEWEST + 1) if start is None else max(1, _place(catalog, start))
        reading = _Reading(catalog, _entries(catalog, first, last))
        titles = [settings.get("title", "")]
        if start is None and first > 1:
            titles.insert(0, f"from transaction {first}; timeline(start, end) shows others")
        settings["title"] = "; ".join(filter(None, titles))
        transactions = reading.tracks(first, last)
        settings.setdefault("writers", list(dict.fromkeys(
            track.writer for track in sorted(transactions, key=lambda track: track.version))))
        return cls(transactions, catalog.name, **settings)

    @classmethod
    def of_tables(
        cls, catalog: Catalog, start: Any = None, end: Any = None, **settings: Any
    ) -> CatalogTimeline:
        """The timeline of a catalog that keeps no history: the commits of its tables as these have them, in
        the order of their times, from one place in it or time to another.

        The newest :data:`NEWEST` commits are read, of at most :data:`MAX_TABLES` tables; the title says what
        was left out. A commit's number is its place among those read.

        Raises:
            InvalidArgument: neither a number nor a time.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///of_tables.db", warehouse="of_tables")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]}).append({"id": [2]})
        >>> [track.pointer for track in CatalogTimeline.of_tables(catalog).tracks]
        ['v0', 'v1']
        """
        commits, left_out = _commits_of_tables(catalog)
        some = commits[-NEWEST:]
        if len(commits) > NEWEST:
            left_out.insert(0, f"the newest {NEWEST} commits")
        first, last = (_place_among(some, moment) for moment in (start, end))
        seqs: dict[tuple[str, int | None], int] = {
            (name, track.version): seq for seq, (name, track) in enumerate(some, 1)}
        moved = [_as_catalogs(seq, name, track, seqs.get((name, track.read_version)))
                 for seq, (name, track) in enumerate(some, 1)
                 if (first is None or seq >= first) and (last is None or seq <= last)]
        settings["title"] = "; ".join(filter(None, [*left_out, settings.get("title", "")]))
        settings.setdefault("writers", list(dict.fromkeys(track.writer for track in moved)))
        return cls(moved, catalog.name, **settings)

    def marked(self, marks: Mapping[Any, Mark | str], title: str = "") -> CatalogTimeline:
        """The same timeline with remarks on transactions, by number, and on those that failed, by txnId.

        >>> import deltanb as dn
        >>> catalog = dn.Catalog("sqlite:///marked.db", warehouse="marked")
        >>> catalog.create_namespace("shop")
        >>> _ = catalog.create_table("shop.orders", {"id": [1]})
        >>> "the first order" in str(catalog.timeline().marked({1: "✓ the first order"}))
        True
        """
        return CatalogTimeline(self.tracks, self.table, {**self.marks, **marks}, title or self.title,
                               self.writers)


def _commits_of_tables(catalog: Catalog) -> tuple[list[tuple[str, Track]], list[str]]:
    """The newest commits of a catalog's tables, by their names, in the order of times; and what is not among
    them."""
    names = [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
    left_out = [] if len(names) <= MAX_TABLES else [f"the first {MAX_TABLES} of {len(names)} tables"]
    commits: list[tuple[str, Track]] = []
    for name in names[:MAX_TABLES]:
        try:
            log = catalog.table(name).log
            newest = log.snapshot.version
            commits += [(name, track) for track in tracks.read(log, max(0, newest - NEWEST), newest)]
        except (DeltaError, OSError) as error:
            left_out.append(f"without {name}: {type(error).__name__}")
    commits.sort(key=lambda commit: (commit[1].time or 0, commit[0], commit[1].version))
    return commits, left_out


def _place_among(commits: Sequence[tuple[str, Track]], moment: Any) -> int | None:
    """The number of a commit, or of the last one at a time; None where there is no bound."""
    from deltanb.log.commit_times import to_milliseconds

    if moment is None:
        return None
    if isinstance(moment, bool):
        raise InvalidArgument(f"a timeline's bounds are numbers of commits or times, not {moment!r}")
    if hasattr(moment, "__index__"):
        return int(moment)
    time = to_milliseconds(moment)
    return sum((track.time or 0) <= time for _, track in commits)


def _as_catalogs(seq: int, name: str, track: Track, read: int | None) -> CatalogTrack:
    """A table's commit as one of its catalog's."""
    return CatalogTrack(
        seq, read, track.operation, name, track.kind, time=track.time, txn_id=track.txn_id, added=track.added,
        removed=track.removed, written=track.written, gone=track.gone, is_counted=track.is_counted,
        pointer=_pointer(str(track.version)), who=track.writer)


def _place(catalog: Catalog, moment: Any) -> int:
    """The number of a transaction, or of the last one at a time."""
    from deltanb.log.commit_times import to_milliseconds

    if isinstance(moment, bool):
        raise InvalidArgument(f"a timeline's bounds are numbers of transactions or times, not {moment!r}")
    if hasattr(moment, "__index__"):
        return int(moment)
    return catalog.store.instant(to_milliseconds(moment))


def _entries(catalog: Catalog, first: int, last: int) -> list[Entry]:
    entries: list[Entry] = []
    after = first - 1
    while after < last:
        page = catalog.store.history(after, min(1000, last - after))
        if not page:
            break
        entries += page
        after = page[-1].seq
    return entries


class _Reading:
    """What is read for a timeline: the catalog's entries, and the tables' logs for each."""

    def __init__(self, catalog: Catalog, entries: Sequence[Entry]) -> None:
        self.catalog, self.entries = catalog, entries
        self.names = catalog.names_of(table_id for entry in entries for table_id in entry.changes)
        rows = catalog.store.tables.find_many(map(TableName.of, self.names.values()))
        self.rows = {row.table_id: row for row in rows.values()}
        self.names |= _names_of_gone(entries, self.names)
        self.seqs = {(table_id, after): entry.seq for entry in entries
                     for table_id, (_, after) in entry.changes.items() if after is not None}
        """(Table id, version) -> the transaction that made it."""
        self.commits = {table_id: self._commits(table_id) for table_id in self.names}
        self.tried = {attempt.grid.txn_id: attempt for attempt in catalog.attempts}

    def _commits(self, table_id: str) -> dict[int, Track]:
        """A Delta table's commits among the entries, by version, without those that were cleaned up."""
        row = self.rows.get(table_id)
        versions = [int(after) for entry in self.entries
                  if (after := entry.changes.get(table_id, (None, None))[1] or "").isdigit()]
        if row is None or row.delta is None or not versions:
            return {}
        log = self.catalog.delta.log(row)
        with suppress(DeltaError, OSError):
            return {track.version: track for track in tracks.read(log, min(versions), max(versions))}
        return {}

    def tracks(self, first: int, last: int) -> list[Track]:
        """A track for each table that transactions ``first`` to ``last`` moved or failed to move."""
        moved: list[Track] = []
        for entry in self.entries:
            moved += self._of(entry)
        landed = {entry.txn_id for entry in self.entries}
        for attempt in self.catalog.attempts:
            is_seen = first - 1 <= attempt.read_seq <= last
            if attempt.grid.txn_id not in landed and attempt.grid.state != "committed" and is_seen:
                moved += self._failed(attempt, last)
        return moved

    # -- what landed -----------------------------------------------------------------------------

    def _of(self, entry: Entry) -> list[Track]:
        moved = [self._moved(entry, table_id, *change) for table_id, change in entry.changes.items()]
        attempt = self.tried.get(entry.txn_id)
        if attempt is not None:
            read: int | None = attempt.read_seq
        else:
            known = [track.read_version for track in moved if track.read_version is not None]
            read = max(known, default=None)
        run = None if attempt is None else attempt.run
        return [replace(track, read_version=read, lost=self._lost(track, attempt), run=run)
                for track in moved]

    def _lost(self, track: CatalogTrack, attempt: GroupAttempt | None) -> tuple[int, ...] | None:
        """The transactions to which a table lost races."""
        rows = [] if attempt is None else [row for row in attempt.grid.rows if row.name == track.writer]
        if not rows:
            return None
        return tuple(self._met(rows[0].name, rows[0].met))

    def _met(self, name: str, versions: Iterable[int]) -> list[int]:
        ids = [table_id for table_id, known in self.names.items() if known == name]
        return [self.seqs[table_id, str(version)] for table_id in ids for version in versions
                if (table_id, str(version)) in self.seqs]

    def _moved(self, entry: Entry, table_id: str, before: str | None, after: str | None) -> CatalogTrack:
        name = self.names.get(table_id, f"table {table_id[:KEEP_ID]}…")
        operation = self._operation(entry, name)
        base = CatalogTrack(
            entry.seq, None, operation, name, tracks.kind_of(operation), time=entry.time,
            txn_id=entry.txn_id, is_counted=False, pointer=_pointer(after),
            who=units.fit_writer(units.clean(entry.principal or "unknown"), tracks.MAX_NAME))
        if after is None:
            return replace(base, operation="DROP TABLE", kind="delete")
        commit = self.commits.get(table_id, {}).get(int(after)) if after.isdigit() else None
        if commit is not None and (before is not None or after == "0"):
            read = self.seqs.get((table_id, str(commit.read_version)))
            return replace(base, read_version=read, operation=commit.operation, kind=commit.kind,
                           added=commit.added, removed=commit.removed, written=commit.written,
                           gone=commit.gone, is_counted=True)
        if before is None:
            return replace(base, operation="REGISTER TABLE")
        read = self.seqs.get((table_id, before))
        return replace(self._iceberg(base, after), read_version=read)

    def _operation(self, entry: Entry, name: str) -> str:
        operations = entry.operations
        if name in operations:
            return units.fit(units.clean(operations[name]), tracks.MAX_NAME)
        others = [what for what in operations.values() if what != "READ"]
        return others[0] if len(others) == 1 and len(entry.changes) == 1 else "not recorded"

    def _iceberg(self, track: CatalogTrack, location: str) -> CatalogTrack:
        """The track with the file counts of an Iceberg commit's snapshot, if its metadata still exists."""
        if location.isdigit():
            return track
        with suppress(DeltaError, OSError, ValueError, KeyError, TypeError):
            metadata = self.catalog.iceberg.files.read(location)
            newest = metadata["current-snapshot-id"]
            snapshot = next(s for s in reversed(metadata["snapshots"]) if s["snapshot-id"] == newest)
            if snapshot["timestamp-ms"] < metadata["last-updated-ms"]:
                return track  # a commit of metadata alone
            summary = snapshot["summary"]
            number = {key: int(summary.get(key, 0)) for key in (
                "added-data-files", "deleted-data-files", "added-files-size", "removed-files-size")}
            operation = summary["operation"]
            return replace(
                track, operation=operation.upper(), kind=_ICEBERG.get(operation, "rewrite"),
                added=number["added-data-files"], removed=number["deleted-data-files"],
                written=number["added-files-size"], gone=number["removed-files-size"], is_counted=True)
        return track

    # -- what failed -----------------------------------------------------------------------------

    def _failed(self, attempt: GroupAttempt, last: int) -> list[Track]:
        """All tables of a failed transaction, placed at the commit it failed against."""
        grid = attempt.grid
        met = {row.name: self._met(row.name, row.met) for row in grid.rows}
        places = [at for lost in met.values() for at in lost]
        end = max(places, default=min(attempt.read_seq + 1, max(last, 1)))
        who = units.fit_writer(units.clean(attempt.writer or "unknown"), tracks.MAX_NAME)
        return [CatalogTrack(
            end, attempt.read_seq, row.operation, row.name, tracks.kind_of(row.operation), txn_id=grid.txn_id,
            outcome=grid.state, lost=tuple(at for at in met[row.name] if at < end), is_counted=False,
            reason=attempt.reason if grid.culprit in (row.name, None) else None, run=attempt.run, pointer="",
            who=who)
            for row in grid.rows if row.operation != "READ" or row.name == grid.culprit]


def _names_of_gone(entries: Sequence[Entry], names: Mapping[str, str]) -> dict[str, str]:
    """Names of dropped tables, from transactions on them alone, unless another table has the name now."""
    gone: dict[str, str] = {}
    for entry in entries:
        (table_id, *others), written = [*entry.changes, ""], [
            name for name, what in entry.operations.items() if what != "READ"]
        is_alone = len(written) == 1 and others == [""]
        if is_alone and table_id not in names and written[0] not in names.values():
            gone[table_id] = written[0]
    return gone


def _pointer(where: str | None) -> str:
    """A version, or the number of a metadata file.

    >>> _pointer("4"), _pointer("file:///lake/t/metadata/00003-5ec0a000.metadata.json"), _pointer(None)
    ('v4', 'm3', '')
    """
    if where is None:
        return ""
    number = where if where.isdigit() else units.name_of(where).partition("-")[0]
    return f"{'v' if where.isdigit() else 'm'}{int(number)}" if number.isdigit() else "moved"
