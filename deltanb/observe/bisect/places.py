"""Where a statement can be asked: versions of a table, instants of several tables, a catalog's transactions.

What lives here: :func:`places_of`, and the three kinds of :class:`Places`: in order, each with what it shows
to a statement and the commits that made it.
What it does not know: statements, and which places are asked.

Tables of one catalog are seen after one of its transactions, so that a commit of several tables is never seen
in part. Other tables are seen as of the time of a commit, by the times that ``history`` gives; commits of
several tables with the same time are one instant.
"""

from __future__ import annotations

import datetime as dt
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, Any

from deltanb.catalog.snapshot import CatalogSnapshot
from deltanb.catalog.store.names import TableName
from deltanb.errors import DeltaError, InvalidArgument, InvalidTable, TableNotFound, VersionNotFound
from deltanb.log import commit_times, history
from deltanb.observe.availability import versions
from deltanb.table.contract import Askable
from deltanb.table.table import DeltaTable
from deltanb.text.safe_text import last_part, shown
from deltanb.transaction.delta_log import DeltaLog

if TYPE_CHECKING:
    from deltanb.catalog.catalog import Catalog
    from deltanb.catalog.store.history import Entry
    from deltanb.log.history import HistoryEntry

Moment = int | str | dt.datetime


@dataclass(frozen=True)
class Instant:
    """Several tables at one time: the version of each, and the catalog's transaction, if there is a catalog.

    ``versions`` has None for a table that did not exist, and is empty for a whole catalog.
    """

    time: dt.datetime
    versions: Mapping[str, int | str | None] = field(default_factory=dict)
    transaction: int | None = None

    def __str__(self) -> str:
        """As people say it.

        >>> str(Instant(dt.datetime(2026, 1, 2, tzinfo=dt.timezone.utc), {"orders": 3}))
        '2026-01-02T00:00:00.000Z (orders v3)'
        """
        tables = ", ".join(f"{name} v{version}" for name, version in self.versions.items())
        number = "" if self.transaction is None else f"transaction {self.transaction}, "
        time = self.time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return f"{number}{time}" + (f" ({tables})" if tables else "")


Place = int | Instant


class Places(ABC):
    """Places in order, numbered from 0."""

    names: tuple[str, ...]
    """What is bisected, in words: the tables, or the catalog."""
    notes: tuple[str, ...] = ()
    """Why places are left out."""
    begin_with_creation: bool
    """Whether nothing was before the first place: no version is left out or gone."""

    @abstractmethod
    def __len__(self) -> int:
        """How many there are."""

    @abstractmethod
    def label(self, number: int) -> Place:
        """What a place is called: a version, or an instant."""

    @abstractmethod
    def view(self, number: int) -> Any:
        """What a statement is asked of there."""

    @abstractmethod
    def commits(self, number: int) -> dict[str, HistoryEntry]:
        """The commits that made a place, by table."""

    @abstractmethod
    def unreadable(self) -> dict[int, str]:
        """The places that cannot be read, and why; goes through the whole log."""

    @property
    @abstractmethod
    def logs(self) -> Mapping[str, DeltaLog]:
        """The logs that a statement should not write to, by name."""

    def log_of(self, name: str) -> DeltaLog | None:
        """The log of a table that :meth:`commits` names."""
        return self.logs.get(name)

    @property
    def catalog(self) -> Catalog | None:
        """The catalog that a statement should not write to."""
        return None


def places_of(
    tables: Any, start: Moment | None, end: Moment | None, storage_options: Mapping[str, Any] | None = None,
) -> Places:
    """The places of what :func:`deltanb.bisect` was given; ``storage_options`` are for tables given by path.

    Raises:
        InvalidArgument: no tables, tables without a common history, or bounds that are none.
        TableNotFound: there is no table.
        VersionNotFound: bounds outside of the history.
    """
    if hasattr(tables, "table_at"):
        return CatalogPlaces(tables, start, end)
    if isinstance(tables, DeltaTable | str | os.PathLike):
        return Versions(_committed(tables, storage_options), start, end)
    named = _named(tables, storage_options)
    catalogs = {id(log.catalog): log.catalog for log in (table.log for table in named.values())}
    catalog = next(iter(catalogs.values()))
    if len(catalogs) == 1 and catalog is not None:
        return CatalogPlaces(catalog, start, end, {name: table.log.name for name, table in named.items()})
    return Instants(named, start, end)


def _committed(table: Any, storage_options: Mapping[str, Any] | None) -> DeltaTable:
    """A table as others see it, pinned where it was pinned."""
    if isinstance(table, str | os.PathLike) and not isinstance(table, DeltaTable):
        try:
            return DeltaTable.for_path(table, storage_options=storage_options)
        except InvalidTable:  # the newest version is damaged: earlier ones may be read
            return DeltaTable(DeltaLog.for_table(table, storage_options))
    if not isinstance(table, DeltaTable):
        raise InvalidArgument(
            f"bisect takes a table, several of them, or a catalog, found {type(table).__name__}: "
            f"{shown(table)}; an Iceberg table is bisected with its catalog: dn.bisect(catalog, …)")
    return DeltaTable(table.log.seen_by_others, table._pinned)  # type: ignore[arg-type]


def _name(table: DeltaTable) -> str:
    try:
        return table.name
    except InvalidTable:
        return last_part(table.path)


def _named(tables: Any, storage_options: Mapping[str, Any] | None) -> dict[str, DeltaTable]:
    if isinstance(tables, Mapping):
        named = {str(name): _committed(table, storage_options) for name, table in tables.items()}
    elif isinstance(tables, Iterable) and not isinstance(tables, Askable):
        several = [_committed(table, storage_options) for table in tables]
        named = {_name(table): table for table in several}
        if len(named) < len(several):
            raise InvalidArgument("two of the tables have the same name; give them as a mapping, names of "
                                  "your own to tables: dn.bisect({'a': one, 'b': other}, …)")
    else:
        _committed(tables, storage_options)
        raise AssertionError("unreachable")
    if not named:
        raise InvalidArgument("bisect was given no table; give one, several, or a catalog")
    return named


def _numbers(moment: Any) -> bool:
    return hasattr(moment, "__index__") and not isinstance(moment, bool)


def _check_moment(moment: Any, what: str, of: str) -> None:
    is_moment = _numbers(moment) or isinstance(moment, str | dt.datetime) or moment is None
    if not is_moment or isinstance(moment, bool):
        raise InvalidArgument(f"{what}={shown(moment)} is neither {of} nor a time")


def _check_order(first: Any, last: Any) -> None:
    if first > last:
        raise InvalidArgument(f"start ({first}) is after end ({last}); swap them")


# -- one table ---------------------------------------------------------------------------------------------


class Versions(Places):
    """The versions of one table."""

    def __init__(self, table: DeltaTable, start: Moment | None, end: Moment | None) -> None:
        self.table, self.log = table, table.log
        self.names = (_name(table),)
        newest = self.log.commits.newest() if table._version is None else table._version
        earliest = self.log.earliest_version()
        for moment, what in ((start, "start"), (end, "end")):
            _check_moment(moment, what, "a version")
        self.last = newest if end is None else self._version(end, newest)
        first = earliest if start is None else self._version(start, newest)
        _check_order(first, self.last)
        self.first = max(first, earliest)
        self.begin_with_creation = self.first == 0
        if earliest > (first if start is not None else 0):
            self.notes = (f"the log was cleaned up: v{earliest} is the first version that it still has",)
            _check_order(self.first, self.last)

    def _version(self, moment: Moment, newest: int) -> int:
        if _numbers(moment):
            version = index(moment)  # type: ignore[arg-type]
            if not 0 <= version <= newest:
                raise VersionNotFound(f"{self.names[0]} has no version {version}: the newest is {newest}",
                                      version=version, earliest=0, latest=newest)
            return version
        try:
            return min(commit_times.version_as_of(self.log, moment), newest)
        except VersionNotFound as error:
            known = error.data["earliest"], error.data["latest"]
            times = commit_times.commit_times(self.log, *known)
            is_later = commit_times.to_milliseconds(moment) > times.get(known[1], 0)
            return min(newest, known[1]) if is_later else int(known[0])

    def __len__(self) -> int:
        return self.last - self.first + 1

    def label(self, number: int) -> Place:
        return self.first + number

    def view(self, number: int) -> Any:
        return DeltaTable(self.log, self.log.snapshot_at(self.first + number))

    def commits(self, number: int) -> dict[str, HistoryEntry]:
        return {self.names[0]: history.commit(self.log, self.first + number)}

    def unreadable(self) -> dict[int, str]:
        return _gaps(self.log, {number: self.first + number for number in range(len(self))}, self.last)

    @property
    def logs(self) -> Mapping[str, DeltaLog]:
        return {self.names[0]: self.log}


def _gaps(log: DeltaLog, versions_by_place: Mapping[int, int | None], last: int) -> dict[int, str]:
    readable = versions(log, last)
    reasons = {}
    for gap in readable.gaps:
        for place, version in versions_by_place.items():
            if version is not None and gap.first <= version <= gap.last:
                reasons[place] = gap.reason
    return reasons


# -- several tables without a catalog ----------------------------------------------------------------------


class Instants(Places):
    """The instants at which one of several tables was committed to, from the first at which all exist."""

    def __init__(self, tables: Mapping[str, DeltaTable], start: Moment | None, end: Moment | None) -> None:
        self.tables, self.names = tables, tuple(tables)
        for moment, what in ((start, "start"), (end, "end")):
            if _numbers(moment):
                raise InvalidArgument(f"{what}={moment!r}: several tables have no version in common; give a "
                                      "time, such as '2026-11-20T10:00:00Z'")
            _check_moment(moment, what, "a version")
        by_time: dict[int, dict[str, int]] = {}
        self.begin_with_creation = True
        for name, table in tables.items():
            earliest = table.log.earliest_version()
            self.begin_with_creation &= earliest == 0
            for version, time in commit_times.commit_times(table.log, earliest, table.version).items():
                by_time.setdefault(time, {})[name] = version
        self.instants, self.moved = self._instants(by_time)
        self._cut(start, end)

    def _instants(self, by_time: Mapping[int, dict[str, int]]) -> tuple[list[Instant], list[dict[str, int]]]:
        current: dict[str, int] = {}
        instants, moved, early = [], [], 0
        for time in sorted(by_time):
            current = {**current, **by_time[time]}
            if len(current) < len(self.tables):
                early += 1
                continue
            instants.append(Instant(_utc(time), {name: current[name] for name in self.names}))
            moved.append(by_time[time])
        if early:
            self.notes = ("begins with the first instant at which all tables can be read",)
        return instants, moved

    def _cut(self, start: Moment | None, end: Moment | None) -> None:
        if not self.instants:
            raise VersionNotFound(f"at no time can {', '.join(self.names)} all be read: their logs have no "
                                  "commits", version=None, earliest=None, latest=None)
        times = [instant.time for instant in self.instants]
        low = times[0] if start is None else _utc(commit_times.to_milliseconds(start))
        high = times[-1] if end is None else _utc(commit_times.to_milliseconds(end))
        _check_order(low, high)
        before = [number for number, time in enumerate(times) if time <= low]
        first = before[-1] if before else 0
        last = max((number for number, time in enumerate(times) if time <= high), default=-1)
        if last < first:
            raise VersionNotFound(f"all of {', '.join(self.names)} can be read from {self.instants[0]} on, "
                                  f"and end is {shown(end)}", version=None, earliest=None, latest=None)
        self.begin_with_creation &= first == 0
        self.instants, self.moved = self.instants[first:last + 1], self.moved[first:last + 1]

    def __len__(self) -> int:
        return len(self.instants)

    def label(self, number: int) -> Place:
        return self.instants[number]

    def view(self, number: int) -> Any:
        return {name: table.as_of(self.instants[number].versions[name])  # type: ignore[arg-type]
                for name, table in self.tables.items()}

    def commits(self, number: int) -> dict[str, HistoryEntry]:
        return {name: history.commit(self.tables[name].log, version)
                for name, version in self.moved[number].items()}

    def unreadable(self) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for name, table in self.tables.items():
            at = {number: int(instant.versions[name] or 0) for number, instant in enumerate(self.instants)}
            for number, reason in _gaps(table.log, at, table.version).items():
                reasons.setdefault(number, f"{name}: {reason}")
        return reasons

    @property
    def logs(self) -> Mapping[str, DeltaLog]:
        return {name: table.log for name, table in self.tables.items()}


def _has_past(pointer: str | None) -> bool:
    """Whether a table came into a catalog with versions before this one."""
    return pointer is not None and pointer.isdigit() and int(pointer) > 0


def _utc(milliseconds: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(milliseconds=milliseconds)


# -- a catalog ---------------------------------------------------------------------------------------------


class CatalogPlaces(Places):
    """The transactions of a catalog; of those that moved some tables, where it is about these alone.

    ``tables`` are names for a statement -> names in the catalog; None for the whole catalog.
    """

    def __init__(
        self, catalog: Catalog, start: Moment | None, end: Moment | None,
        tables: Mapping[str, str | None] | None = None,
    ) -> None:
        catalog.require_for("bisect")
        self._catalog = catalog
        self.tables = None if tables is None else {name: str(known) for name, known in tables.items()}
        self.names = (f"catalog {catalog.name}",) if self.tables is None else tuple(self.tables)
        for moment, what in ((start, "start"), (end, "end")):
            _check_moment(moment, what, "the number of a transaction")
        entries = list(reversed(catalog.history()))
        newest = entries[-1].seq if entries else 0
        low = 0 if start is None else self._seq(start)
        high = newest if end is None else self._seq(end)
        _check_order(low, high)
        self.ids = self._ids()
        moved = set(self.ids.values())
        known = [entry for entry in entries if entry.seq <= high
                 and (self.tables is None or not moved.isdisjoint(entry.changes))]
        self.entries = self._from_all_exist(known)
        first = max((number for number, entry in enumerate(self.entries) if entry.seq <= low), default=0)
        self.begin_with_creation = first == 0 and not any(
            before is None and _has_past(after) for entry in known
            for table_id, (before, after) in entry.changes.items()
            if self.tables is None or table_id in moved)
        self.entries = self.entries[first:]
        if not self.entries:
            raise VersionNotFound(
                f"no transaction of catalog {catalog.name} up to {high} has {', '.join(self.names)}; give a "
                "later end", version=None, earliest=None, latest=newest)

    def _seq(self, moment: Moment) -> int:
        if _numbers(moment):
            return index(moment)  # type: ignore[arg-type]
        return int(self._catalog.store.instant(commit_times.to_milliseconds(moment)))

    def _ids(self) -> dict[str, str]:
        if self.tables is None:
            return {}
        rows = self._catalog.store.tables.find_many(map(TableName.of, self.tables.values()))
        ids = {str(row.name): str(row.table_id) for row in rows.values()}
        absent = [name for name in self.tables.values() if name not in ids]
        if absent:
            raise TableNotFound(f"there is no table {absent[0]} in the catalog", path=absent[0])
        return {name: ids[known] for name, known in self.tables.items()}

    def _from_all_exist(self, entries: Sequence[Entry]) -> list[Entry]:
        """The transactions from the first after which all tables exist."""
        missing = set(self.ids.values())
        for number, entry in enumerate(entries):
            missing.difference_update(entry.changes)
            if not missing:
                if number:
                    self.notes = (f"begins with transaction {entry.seq}, the first after which all tables "
                                  "exist",)
                return list(entries[number:])
        return [] if missing else list(entries)

    def __len__(self) -> int:
        return len(self.entries)

    @cached_property
    def _versions(self) -> list[dict[str, int | str | None]]:
        current: dict[str, int | str | None] = dict.fromkeys(self.ids)
        pointers: dict[str, str | None] = {}
        rows = []
        if self.ids:
            pointers = self._catalog.store.pointers_at(self.entries[0].seq, list(self.ids.values()))
        for entry in self.entries:
            pointers |= {table_id: after for table_id, (_, after) in entry.changes.items()}
            for name, table_id in self.ids.items():
                after = pointers.get(table_id)
                current[name] = int(after) if after is not None and after.isdigit() else after
            rows.append(dict(current))
        return rows

    def label(self, number: int) -> Place:
        entry = self.entries[number]
        return Instant(_utc(entry.time), self._versions[number], entry.seq)

    def view(self, number: int) -> Any:
        snapshot = CatalogSnapshot(self._catalog, self.entries[number].seq)
        if self.tables is None:
            return snapshot
        return {name: snapshot.table(known) for name, known in self.tables.items()}

    def commits(self, number: int) -> dict[str, HistoryEntry]:
        from deltanb.log.history import HistoryEntry

        entry = self.entries[number]
        names = self._catalog.names_of(entry.changes)
        own = {table_id: name for name, table_id in self.ids.items()}
        commits = {}
        for table_id, (_, after) in entry.changes.items():
            name = names.get(table_id, table_id)
            made = HistoryEntry(entry.seq, entry.time, entry.operations.get(name), user_name=entry.principal,
                                txn_id=entry.txn_id)
            log = self._log(name)
            if log is not None and after is not None and after.isdigit():
                with suppress(DeltaError, OSError):  # what the catalog says of it is left
                    made = history.commit(log, int(after))
            commits[own.get(table_id, name)] = made
        return commits

    def log_of(self, name: str) -> DeltaLog | None:
        return self.logs.get(name) or self._log(name)

    def _log(self, name: str) -> DeltaLog | None:
        with suppress(DeltaError):
            table = self._catalog.table(name)
            return table.log if isinstance(table, DeltaTable) else None
        return None

    def unreadable(self) -> dict[int, str]:
        reasons: dict[int, str] = {}
        for name, log in self.logs.items():
            at = {number: version if isinstance(version, int) else None
                  for number, row in enumerate(self._versions) for version in [row.get(name)]}
            for number, reason in _gaps(log, at, log.update().version).items():
                reasons.setdefault(number, f"{name}: {reason}")
        return reasons

    @cached_property
    def logs(self) -> Mapping[str, DeltaLog]:  # type: ignore[override]
        known = {name: self._log(table) for name, table in (self.tables or {}).items()}
        return {name: log for name, log in known.items() if log is not None}

    @property
    def catalog(self) -> Catalog | None:
        return self._catalog
