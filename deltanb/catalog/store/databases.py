"""The databases of catalogs: how SQLite and PostgreSQL are opened.

What lives here: the settings by which a write is one transaction that waits for others and reaches the disk.
SQLite: the driver's autocommit with our own ``BEGIN IMMEDIATE``, because a transaction that begins by reading
cannot always continue by writing. PostgreSQL: READ COMMITTED, for conditional updates and row locks.
What it does not know: what is read or written.
"""

from __future__ import annotations

import math
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from deltanb.catalog.store.tables import sa
from deltanb.errors import InvalidArgument, MissingDependency

BUSY_SECONDS = 30  # how long a transaction waits for another one that holds what it needs
_BUSY = BUSY_SECONDS * 1000
LOST_CLIENT_SECONDS = 60  # after which PostgreSQL ends a transaction whose client has vanished


def engine_of(text: str, sync: bool) -> sa.Engine:
    """The engine of a database, from its URL; with ``sync`` each COMMIT waits for the disk.

    Raises:
        InvalidArgument: neither ``sqlite:///FILE`` nor ``postgresql://…``.
        MissingDependency: the driver is not installed.
    """
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # the latter: a port that is no number
        raise InvalidArgument(
            "the catalog's address is not a URL; give sqlite:///FILE or postgresql://…") from None
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return _postgresql(url.set(drivername="postgresql+psycopg"), sync)
    if url.drivername not in ("sqlite", "sqlite+pysqlite"):
        if url.drivername in ("http", "https"):
            raise InvalidArgument("a catalog behind a server is opened by deltanb.connect(url)")
        raise InvalidArgument(
            f"a catalog cannot be kept in {url.drivername}; give sqlite:///FILE or postgresql://…")
    if url.host:
        raise InvalidArgument("a file of SQLite is given with three slashes: sqlite:///FILE")
    if url.database in (None, "", ":memory:") or "mode=memory" in str(url.database):
        raise InvalidArgument("each connection would have a catalog of its own in memory; name a file")
    return _sqlite(url, sync)


def _sqlite(url: sa.URL, sync: bool) -> sa.Engine:
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_SECONDS, "isolation_level": None})

    @sa.event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        write_ahead(connection)
        connection.execute(f"PRAGMA synchronous={'FULL' if sync else 'OFF'}")

    return engine


def begin(connection: sa.Connection, sync: bool, is_durable: bool, seconds: float) -> sa.RootTransaction:
    """Begin a transaction that writes, and waits at most this long for locks, to a tenth of a second.

    Not a listener of the engine: with one, SQLAlchemy takes a third longer for each statement.
    """
    transaction, wait, info = connection.begin(), _milliseconds(seconds), connection.info
    syncs = is_durable or not sync
    if connection.dialect.name == "postgresql":
        if not syncs:
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
        if wait != _BUSY:
            connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_postgresql_time(wait)}")
        return transaction
    if info.get("dn_syncs", True) != syncs:  # of the connection, whoever has it next
        connection.exec_driver_sql(f"PRAGMA synchronous={'FULL' if syncs else 'NORMAL'}")
        info["dn_syncs"] = syncs
    if info.get("dn_wait", _BUSY) != wait:
        connection.exec_driver_sql(f"PRAGMA busy_timeout={wait}")
        info["dn_wait"] = wait
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    return transaction


@contextmanager
def waiting(connection: sa.Connection, seconds: float) -> Iterator[sa.Connection]:
    """A connection on which statements that read wait at most this long for locks, to a tenth of a second.

    If that is the default, nothing is sent to the database for it.
    """
    wait = _milliseconds(seconds)
    if connection.dialect.name == "sqlite" or wait == _BUSY:  # readers of SQLite never wait
        yield connection
        return
    connection.exec_driver_sql(f"SET lock_timeout = {_postgresql_time(wait)}")
    try:
        yield connection
    finally:
        with suppress(sa.exc.DBAPIError):  # the connection is gone, and what was set with it
            connection.exec_driver_sql("RESET lock_timeout")


def _milliseconds(seconds: float) -> int:
    return math.ceil(seconds * 10) * 100


def _postgresql_time(wait: int) -> int:
    """Milliseconds for PostgreSQL, where 0 means no limit."""
    return max(1, wait)


def write_ahead(connection: Any) -> None:
    """Switch a database to a write-ahead log, waiting for others that do the same on a new file.

    Two that change the mode at once would deadlock, so SQLite reports "locked" to one of them without
    waiting.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0.001, 0.01))


def _postgresql(url: sa.URL, sync: bool) -> sa.Engine:
    settings = [
        url.query.get("options", ""), f"-c lock_timeout={BUSY_SECONDS}s",
        f"-c idle_in_transaction_session_timeout={LOST_CLIENT_SECONDS}s",
        "" if sync else "-c synchronous_commit=off"]
    try:
        engine = sa.create_engine(
            url, isolation_level="READ COMMITTED",
            connect_args={"options": " ".join(map(str, settings)).strip(), "connect_timeout": BUSY_SECONDS})
    except ImportError:
        raise MissingDependency(
            "a catalog in PostgreSQL needs psycopg, which is not installed: pip install 'deltanb[catalog]'",
            extra="catalog") from None
    return engine
