"""Commands in a catalog, struck at one of their file operations or statements, and what is there afterwards.

What lives here: the commands and what they find; :class:`Place`, which counts and strikes the statements and
COMMITs of the catalog's database beside the file operations; :class:`CatalogTrials` and with it the law: all
tables are what they were, or what the command makes of them, for whoever asks the catalog; what was said of
it is true; no file is left by who lived to delete it; and the catalog goes on.
What it does not know: how file operations are struck (``tests/faults/disk``).
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import deltanb as dn
from deltanb.actions import CommitInfo
from deltanb.catalog.delta.tables import DeltaTables
from deltanb.catalog.store import database
from deltanb.catalog.store.tables import metadata, sa
from deltanb.catalog.store.upkeep import check
from deltanb.errors import CommitOutcomeUnknown, DeltaError
from deltanb.locks import LockManager
from deltanb.log.commits import STAGED_FOLDER
from deltanb.options import set_options
from deltanb.transaction.delta_log import DeltaLog
from tests.catalog.groups import SUPPORTED, disagreements
from tests.catalog.postgresql import end_connections
from tests.faults import disk as disks
from tests.faults.disk import Disk, Done, Fault, Moment, Strike
from tests.faults.killed import Killer
from tests.faults.tables import files, rows
from tests.faults.trial import LEFT_ON_PURPOSE, drawing, is_kept_by_disk, named

Work = Callable[[dn.Catalog], Any]
World = dict[str, dict[str, Any]]
FIRST, SECOND = 1, 2
"""Seeds of ids: of the run that is struck, like the one that is not, and of the run after it."""
OF_ONE_RUN = re.compile(r"TimestampEnablement|\.tableId$")
"""Properties whose values are times and ids."""
SAMPLE, MAX_AT_COMMITS = 5, 12
"""Strikes tried of each command in a usual run, beside those at its COMMITs."""


# -- what is found, and what is done -----------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """One command in a catalog that has the tables of :func:`shop`."""

    name: str
    work: Work
    properties: Mapping[str, str] = field(default_factory=dict)
    """What the two tables have."""


def shop(catalog: dn.Catalog, properties: Mapping[str, str]) -> None:
    """Two tables that belong together, and one in the warehouse that no catalog has."""
    catalog.create_namespace("shop")
    orders = catalog.create_table("shop.orders", {"id": [1, 2], "price": [10, 20]}, properties=properties)
    catalog.create_table("shop.totals", {"orders": [2], "sum": [30]}, properties=properties)
    orders.append({"id": [5], "price": [50]})
    dn.create(f"{catalog.warehouse.store.root}/old", {"id": [1]})


def order(txn: Any) -> None:
    """One more order, and with it the totals."""
    txn.table("shop.orders").append({"id": [3], "price": [30]})
    txn.table("shop.totals").update({"orders": "orders + 1", "sum": "sum + 30"})


def two_tables(catalog: dn.Catalog) -> Any:
    """Two tables, one commit."""
    with catalog.transaction() as txn:
        order(txn)
    return txn


def two_tables_of_which_one_lost(catalog: dn.Catalog) -> Any:
    """Another one's commit comes before it; it goes on behind that."""
    with catalog.transaction() as txn:
        order(txn)
        with Place.aside():
            if (mine := catalog.table("shop.orders")).version == 1:
                mine.append({"id": [9], "price": [0]})
    return txn


def one_read_one_written(catalog: dn.Catalog) -> Any:
    """What is written depends on a table that is only read; of several statements one takes files away."""
    with catalog.transaction() as txn:
        total = txn.table("shop.totals").to_arrow()["sum"][0].as_py()
        txn.table("shop.orders").append({"id": [3, 4], "price": [total, 0]})
        txn.table("shop.orders").delete("id = 4")
    return txn


def statements(catalog: dn.Catalog) -> None:
    """Several statements on one table."""
    with catalog.table("shop.orders").transaction() as txn:
        txn.append({"id": [3, 4], "price": [1, 1]})
        txn.delete("id = 3")


def under_locks(work: Callable[[Any, Any, Any], object]) -> Work:
    """Work of a transaction under locks on both tables, and its commit."""

    def run(catalog: dn.Catalog) -> None:
        with LockManager().new_transaction() as txn:
            work(txn, catalog.table("shop.orders"), catalog.table("shop.totals"))
            txn.commit()

    return run


def locked_statements(txn: Any, orders: Any, totals: Any) -> None:
    """Statements, of which a scope is taken back."""
    txn.table(orders).append({"id": [3], "price": [30]})
    with txn.scope():
        txn.table(orders).delete("id = 3")
        txn.rollback()
    txn.table(totals).update({"orders": "orders + 1", "sum": "sum + 30"})


def locked_rows(txn: Any, orders: Any, totals: Any) -> None:
    """Rows stored by cursors."""
    cursor = txn.cursor(orders, key=["id"])
    cursor.find(1)
    cursor.store({"price": 11})
    cursor.find(3)
    cursor.store({"price": 30})
    sums = txn.cursor(totals, key=["orders"])
    sums.first()
    sums.delete()
    sums.find(3)
    sums.store({"sum": 61})


def locked_rows_of_which_some_lost(txn: Any, orders: Any, totals: Any) -> None:
    """The same, and between the last read and the commit another one adds an order."""
    locked_rows(txn, orders, totals)
    with Place.aside():
        if orders.version == 1:
            orders.append({"id": [9], "price": [0]})


def locked_read(txn: Any, orders: Any, totals: Any) -> None:
    """What is written depends on a row of another table."""
    cursor = txn.cursor(totals, key=["orders"])
    cursor.first()
    txn.table(orders).append({"id": [3], "price": [cursor.value()["sum"]]})


def on(name: str, work: Callable[[Any], Any]) -> Work:
    """Work on one of the tables."""
    return lambda catalog: work(catalog.table(name))


COMMANDS = [
    Command("two tables", two_tables),
    Command("two tables of which one lost", two_tables_of_which_one_lost),
    Command("a transaction group of which one lost", two_tables_of_which_one_lost, SUPPORTED),
    Command("one read, one written", one_read_one_written),
    Command("statements under locks", under_locks(locked_statements)),
    Command("rows under locks", under_locks(locked_rows)),
    Command("rows under locks of which some lost", under_locks(locked_rows_of_which_some_lost)),
    Command("a row read under locks", under_locks(locked_read)),
    Command("append", on("shop.orders", lambda t: t.append({"id": [3], "price": [30]}))),
    Command("update", on("shop.orders", lambda t: t.update({"price": "0"}, "id = 1"))),
    Command("statements", statements),
    Command("set properties", on("shop.orders", lambda t: t.set_properties({"delta.appendOnly": True}))),
    Command("optimize", on("shop.orders", lambda t: t.optimize())),
    Command("create", lambda c: c.create_table("shop.new", {"id": [1]})),
    Command("create, empty", lambda c: c.create_table("shop.new", "id bigint")),
    Command("register", lambda c: c.register_table("shop.old", f"{c.warehouse.store.root}/old")),
    Command("rename", lambda c: c.rename_table("shop.totals", "shop.sums")),
    Command("drop", lambda c: c.drop_table("shop.totals")),
    Command("purge", lambda c: c.drop_table("shop.totals", purge=True)),
]
BY_NAME = {command.name: command for command in COMMANDS}


# -- strikes -----------------------------------------------------------------------------------------

disks.LASTING["ENOSPC"] |= {"change", "COMMIT"}
disks.LASTING["down"] = frozenset({"ask", "change", "COMMIT", "connect"})
OF_THE_DATABASE = "database/"


def happenings(done: Done) -> Iterator[tuple[Moment, Fault]]:
    """What can happen to an operation. The end of a statement is the beginning of the next one."""
    if not done.name.startswith(OF_THE_DATABASE):
        yield from done.strikes
    elif done.kind == "COMMIT":
        yield from ((moment, fault) for moment in ("before", "after")
                    for fault in ("kill", "EIO", "interrupt", "down"))
        yield "before", "ENOSPC"
    else:
        yield from (("before", fault) for fault in ("EIO", "interrupt", "down"))
        if done.kind == "change":
            yield from (("before", fault) for fault in ("kill", "ENOSPC"))


class Place(Disk):
    """The warehouse and the database of a catalog: the operations of both, one of which may be struck."""

    active: Place | None = None
    of_others: set[str] = frozenset()
    """Files that somebody else has made meanwhile."""
    _has_changes = False  # in the transaction that is under way: a full disk fails no other COMMIT

    @contextmanager
    def inserted(self) -> Iterator[Place]:
        """Stand in for ``os``, and for what SQLAlchemy asks of the driver."""
        make = database.engine_of
        with super().inserted(), patch.object(
                database, "engine_of", lambda url, sync: self._watched(make(url, False))):
            Place.active = self
            try:
                yield self
            finally:
                Place.active = None

    @staticmethod
    @contextmanager
    def aside() -> Iterator[None]:
        """Within it somebody else works, to whom nothing happens."""
        place, Place.active = Place.active, None
        before = files(Path(place.root)) if place else set()
        try:
            yield
        finally:
            if place:
                Place.of_others = files(Path(place.root)) - before
            Place.active = place

    def _operate(self, kind: str, path: str | None, *work: Any) -> Any:
        if Place.active is not self:
            return work[0]()
        strike = self.strike
        if strike is None or strike.fault != "restart" or len(self.done) != strike.place:
            return super()._operate(kind, path, *work)
        self.struck = Done(kind, str(self._below(path)))
        self.done.append(self.struck)
        end_connections(url_of(Path(self.root).parent))
        return work[0]()

    def _watched(self, engine: Any) -> Any:
        dialect = engine.dialect
        connect, commit, rollback = dialect.connect, dialect.do_commit, dialect.do_rollback
        dialect.connect = lambda *a, **k: self._asked(dialect, "connect", "", lambda: connect(*a, **k))
        dialect.do_commit = lambda at: self._asked(
            dialect, "COMMIT" if self._has_changes else "ask", "COMMIT", lambda: commit(at))
        dialect.do_rollback = lambda at: self._rolled_back(lambda: rollback(at))
        for name in ("do_execute", "do_executemany", "do_execute_no_params"):
            setattr(dialect, name, self._statement(dialect, getattr(dialect, name)))
        return engine

    def _statement(self, dialect: Any, execute: Any) -> Any:
        def struck(cursor: Any, text: str, *more: Any) -> Any:
            verb = text.split(None, 1)[0]
            kind = "change" if verb in ("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER") else "ask"
            what = re.sub(r"\W+", " ", text)[:30].strip()
            return self._asked(dialect, kind, what, lambda: execute(cursor, text, *more))
        return struck

    def _asked(self, dialect: Any, kind: str, what: str, work: Callable[[], Any]) -> Any:
        if kind == "connect" and kind not in self.refused:
            return work()
        self._has_changes = kind == "change" or (self._has_changes and what not in ("BEGIN", "COMMIT"))
        path = os.path.join(self.root, OF_THE_DATABASE, f"{kind} {what}".strip())
        try:
            return self._operate(kind, path, work)
        except OSError as error:
            raise dialect.loaded_dbapi.OperationalError(f"struck: {error}") from error

    def _rolled_back(self, rollback: Callable[[], None]) -> None:
        self._has_changes = False
        rollback()

    def _error(self, path: str) -> OSError:
        return OSError("no answer") if self.strike.fault == "down" else super()._error(path)


def url_of(folder: Path) -> str:
    """The database of a catalog, which lies beside its warehouse or on a server."""
    return (folder / "url").read_text("utf-8")


def opened(folder: Path) -> dn.Catalog:
    """The catalog, as somebody opens it who knows nothing yet."""
    return dn.Catalog(url_of(folder), folder / "lake")


def run_struck(name: str, folder: Path, strike: Strike, place: Place | None = None) -> Any:
    """Run a command, one of its operations struck."""
    at = folder / "lake"
    with drawing(FIRST), set_options(durability="sync"), (place or Place(at, strike)).inserted(), \
            opened(folder) as catalog:
        return BY_NAME[name].work(catalog)


# -- one trial ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reference:
    """A command that nothing happened to."""

    done: list[Done]
    before: World
    after: World
    files_before: set[str]
    files_after: set[str]

    def strikes(self) -> list[Strike]:
        """Everything that can happen to it."""
        return [Strike(at, *what) for at, done in enumerate(self.done) for what in happenings(done)]

    def some_strikes(self, seed: int) -> list[Strike]:
        """Everything that can happen at its last COMMITs, and a few of the others."""
        at_commit, others = [], []
        for strike in reversed(self.strikes()):
            here = self.done[strike.place].kind == "COMMIT" and len(at_commit) < MAX_AT_COMMITS
            (at_commit if here else others).append(strike)
        return at_commit + random.Random(seed).sample(others, min(SAMPLE, len(others)))


@dataclass
class CatalogTrials:
    """Trials in one folder and one database, both of which are put back after each."""

    folder: Path
    killer: Killer
    references: dict[str, Reference] = field(default_factory=dict)
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _watcher: Any = None

    def set_up(self, url: str, properties: Mapping[str, str] | None = None) -> None:
        """Make what commands find, and remember it."""
        (self.folder / "url").write_text(url, "utf-8")
        with drawing(FIRST + SECOND):
            self._watcher = opened(self.folder)
            shop(self._watcher, properties or {})
        self._rows = self.rows()
        shutil.copytree(self.folder / "lake", self.folder / "made")

    @property
    def catalog(self) -> dn.Catalog:
        """The catalog, as somebody sees it who has read no table yet."""
        watcher = self._watcher
        watcher.delta = DeltaTables(watcher.store, watcher.warehouse, watcher)
        return watcher

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """All that the database has now."""
        tables: dict[str, list[dict[str, Any]]] = self._watcher.store.database.read(lambda connection: {
            table.name: [dict(row._mapping) for row in connection.execute(table.select())]
            for table in metadata.sorted_tables})
        return tables

    def put_back(self, rows: dict[str, list[dict[str, Any]]] | None = None) -> None:
        """Have folder and database as commands find them, or other rows in the database."""
        rows = self._rows if rows is None else rows

        def rows_as_found(connection: sa.Connection) -> None:
            for table in metadata.sorted_tables:
                connection.execute(table.delete())
                if rows[table.name]:
                    connection.execute(table.insert(), rows[table.name])

        self._watcher.store.database.write(rows_as_found)
        shutil.rmtree(self.folder / "lake")
        shutil.copytree(self.folder / "made", self.folder / "lake")
        Place.of_others = set()
        DeltaLog.clear_cache()

    def reference(self, name: str) -> Reference:
        """The command, undisturbed; run once."""
        if name not in self.references:
            self.put_back()
            lake, place = self.folder / "lake", Place(self.folder / "lake")
            before, files_before = world(self.catalog), files(lake)
            run_struck(name, self.folder, Strike(-1, "before", "EIO"), place)
            assert not list(broken(self.catalog))
            self.references[name] = Reference(place.done, before, world(self.catalog), files_before,
                                              files(lake))
        return self.references[name]

    def complaints(self, name: str, strike: Strike) -> list[str]:
        """What is wrong after a strike; nothing, if all is well."""
        reference = self.reference(name)
        self.put_back()
        error, struck, complaints_list = None, reference.done[strike.place], []
        if strike.fault == "kill":
            code = self.killer.run(name, self.folder, strike)
            complaints_list += [] if code == -9 else [f"ended with exit code {code}, not killed"]
        else:
            place = Place(self.folder / "lake", strike)
            try:
                run_struck(name, self.folder, strike, place)
            except (Exception, KeyboardInterrupt) as raised:
                error = raised
            complaints_list += [] if place.struck else ["never got as far"]
            struck = place.struck or struck
        DeltaLog.clear_cache()
        try:
            complaints_list += self._judged(name, strike, struck, error)
        except Exception as raised:
            complaints_list.append(f"afterwards {type(raised).__name__}: {raised}")
        return [f"{name}, {strike} ({struck.kind} {struck.name}): "
                f"{complaint}" for complaint in complaints_list]

    def _judged(self, name: str, strike: Strike, struck: Done, error: BaseException | None) -> Iterator[str]:
        reference, now = self.references[name], world(self.catalog)
        has_landed = now == reference.after
        if not has_landed and now != reference.before and not is_rival_only(now, reference):
            yield f"is neither: {now}"
            return
        if strike.fault != "kill":
            yield from truth(error, has_landed, strike)
            yield from self._strays(reference, strike, struck, has_landed, error)
        yield from broken(self.catalog)
        yield from self.goes_on(name, has_landed)

    def _strays(
        self, reference: Reference, strike: Strike, struck: Done, has_landed: bool,
        error: BaseException | None,
    ) -> Iterator[str]:
        """Files that are left by who could have deleted them."""
        if strike.fault == "EROFS" or isinstance(error, CommitOutcomeUnknown):
            return
        on_disk = files(self.folder / "lake")
        allowed = reference.files_before | Place.of_others | (reference.files_after if has_landed else set())
        allowed |= {file for file in on_disk if file.startswith("old/_delta_log/0")}  # not yet registered
        left = {name for name in on_disk - allowed if not is_kept_by_disk(name, struck)}
        noted = [path for path, _ in self.catalog.store.garbage.due(2**50)]
        left = {file for file in left if not any(f"{self.folder}/lake/{file}".startswith(p) for p in noted)}
        if left:
            yield f"leaves {sorted(left)}"

    def goes_on(self, name: str, has_landed: bool) -> Iterator[str]:
        """Run again what was not done, commit to every table, and sweep up."""
        reference = self.references[name]
        if not has_landed:
            with drawing(SECOND):
                BY_NAME[name].work(self.catalog)
            if world(self.catalog) != reference.after:
                yield f"run again it is {world(self.catalog)}"
        catalog = self.catalog
        for full_name in catalog.list_tables("shop"):
            table = catalog.table(full_name)
            before, rows_before = table.version, rows(table.to_arrow())
            if table.set_description("goes on") != before + 1:
                yield f"{full_name}: the next commit is not the next version"
            in_folder = {version for version, _ in table.log.commits.folder.listed()}
            if in_folder != set(range(before + 2)):
                yield f"{full_name}: version {before + 1} is committed, published are {sorted(in_folder)}"
            reported = table.log.commits.published(before + 1)
            state = catalog.store.tables.load(full_name).delta
            if (state.latest, state.published) != (before + 1, reported):
                yield f"{full_name}: version {before + 1} is not published for the catalog"
            if full_name == "shop.orders":
                yield from self._swept(table, rows_before)

    def _swept(self, table: Any, rows_before: list[str]) -> Iterator[str]:
        """Whether a vacuum takes what is left of commands that were killed, and nothing else."""
        table.vacuum(0, check=False)
        if rows(self.catalog.table(table.name).to_arrow()) != rows_before:
            yield f"{table.name}: other rows after a vacuum"
        left = {file for file in files(Path(table.path)) - named(table)
                if not LEFT_ON_PURPOSE.fullmatch(file) and not file.startswith(STAGED_FOLDER)}
        if left:
            yield f"a vacuum leaves {sorted(left)}"


def truth(error: BaseException | None, has_landed: bool, strike: Strike) -> Iterator[str]:
    """Whether what was said of the command is so."""
    if error is None:
        if not has_landed:
            yield "returned, and is not there"
    elif isinstance(error, KeyboardInterrupt):
        notes = " ".join(getattr(error, "__notes__", ()))
        if has_landed and not re.search(r"despite the interruption|ask for the outcome", notes):
            yield f"interrupted after its commit, without a word of it: {notes!r}"
        if not has_landed and "despite" in re.sub(r".*(was not created|register it again).*", "", notes):
            yield f"interrupted before its commit, and says otherwise: {notes!r}"
    elif isinstance(error, CommitOutcomeUnknown):
        if strike.fault not in ("down", "EIO"):
            yield f"outcome unknown, where the catalog could say it: {error}"
    elif isinstance(error, DeltaError):
        if has_landed:
            yield f"refused, and yet it is there: {type(error).__name__}: {error}"
    else:
        yield f"raised {type(error).__name__}: {error}"


def world(catalog: dn.Catalog) -> World:
    """All tables of a catalog at one instant, as somebody sees them who asks it."""
    return {name: {
        "version": table.version, "rows": rows(table.to_arrow()),
        "properties": {k: v for k, v in table.properties.items() if not OF_ONE_RUN.search(k)},
        "description": table.metadata.description,
        "operations": [entry.operation for entry in table.history()],
    } for name, table in catalog.snapshot(catalog.list_tables("shop")).items()}


def is_rival_only(now: World, reference: Reference) -> bool:
    """Whether nothing but another one's append to the orders is there, where the command has such a rival."""
    expected = {name: dict(table) for name, table in reference.before.items()}
    expected["shop.orders"] = now.get("shop.orders", {})
    return now == expected and len(reference.after["shop.orders"]["rows"]) == 5 \
        and len(now["shop.orders"]["rows"]) == 4


def broken(catalog: dn.Catalog) -> Iterator[str]:
    """What no catalog may be, however it came to be so."""
    pointers: dict[str, str | None] = {}
    entries = catalog.history()[::-1]
    if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
        yield f"its history has gaps: {[entry.seq for entry in entries]}"
    if any(one.time > other.time for one, other in pairwise(entries)):
        yield "its history goes back in time"
    for entry in entries:
        for table_id, (before, after) in entry.changes.items():
            if pointers.get(table_id) != before:
                yield f"transaction {entry.seq} begins where its table was not: {before}"
            pointers[table_id] = after
    for name in catalog.list_tables("shop"):
        row = catalog.store.tables.load(name)
        yield from _broken_log(catalog.table(name), row, pointers)
    yield from _doomed(catalog)
    yield from (str(finding) for finding in check(catalog.store) if finding.is_fault)
    yield from disagreements(catalog, "shop")


def _broken_log(table: Any, row: Any, pointers: dict[str, str | None]) -> Iterator[str]:
    """Versions without gaps, each younger than the one before, and the files that say so in the folder."""
    state, name = row.delta, str(row.name)
    if pointers.get(row.table_id) != str(state.latest):
        yield f"{name}: is at {state.latest}, and its history at {pointers.get(row.table_id)}"
    stamps = []
    for version in range(state.latest + 1):
        info = table.log.read_commit(version)[0]
        if version > 0 or isinstance(info, CommitInfo):
            stamps.append(info.in_commit_timestamp)
    stamps = [stamp for stamp in stamps if stamp is not None]  # a table that was taken over began without
    if stamps != sorted(set(stamps)):
        yield f"{name}: in-commit timestamps do not rise: {stamps}"
    if state.last_ict != stamps[-1]:
        yield f"{name}: the catalog's last timestamp is {state.last_ict}, its newest version's {stamps[-1]}"
    in_folder = {v for v, _ in table.log.commits.folder.listed()}
    if not in_folder >= set(range(state.published + 1)) or in_folder - set(range(state.latest + 1)):
        yield f"{name}: {sorted(in_folder)} are in the folder, published is {state.published}"


def _doomed(catalog: dn.Catalog) -> Iterator[str]:
    """Files of tables that a sweep would delete."""
    for path, reason in catalog.store.garbage.due(2**50):
        for name in catalog.list_tables("shop"):
            if f"{catalog.table(name).path}/".startswith(f"{path}/"):
                yield f"{name} is noted as garbage: {reason}"
