"""Two ledgers besides the tables: answers to requests, and files that may belong to no table.

What lives here: answers by idempotency key, so that a repeated request is answered and not executed again;
paths of files by the time after which they may be deleted. Both are written in the transaction they belong
to.
What it does not know: requests and files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from deltanb.catalog.store.database import Database
from deltanb.catalog.store.tables import garbage, has_inserted, idempotency, insert, sa
from deltanb.errors import (
    CommitOutcomeUnknown,
    DataFileNotFound,
    IdempotencyKeyReused,
    InvalidArgument,
    StorageError,
)
from deltanb.options import options

__all__ = ["Answer", "Answers", "Garbage", "as_garbage", "keep", "note", "take_back", "take_back_folder"]

MAX_IN = 500  # values of one IN: SQLite takes 32,766 variables


@dataclass(frozen=True)
class Answer:
    """An answer to a request with an idempotency key."""

    key: str
    body_hash: str
    """Of the request: the same key with another body is another request, and refused."""
    status: int
    response: str
    expires: int
    """Epoch milliseconds from which on the key is a new one."""


class Answers:
    """The stored answers of a catalog to requests with a key."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, key: str, body_hash: str) -> Answer | None:
        """The stored answer to a repeated request, unless it has expired.

        Raises:
            IdempotencyKeyReused: the key was used with another body.
        """
        answer = self._database.read(lambda connection: _stored(connection, key))
        return None if answer is None or answer.expires <= options.clock() else _same(answer, body_hash)

    def keep(self, answer: Answer) -> Answer:
        """Store an answer; returns the one that counts, which is another one if that was first.

        Raises:
            IdempotencyKeyReused: the key was used with another body.
        """
        def landed(connection: sa.Connection) -> Answer | None:
            stored = _stored(connection, answer.key)
            return None if stored is None else _same(stored, answer.body_hash)

        return self._database.write(lambda connection: keep(connection, answer) or answer, landed)

    def forget(self, now: int) -> int:
        """Delete expired answers; returns their number."""
        gone = idempotency.delete().where(idempotency.c.expires <= now)
        return self._database.write(lambda connection: connection.execute(gone).rowcount)


def keep(connection: sa.Connection, answer: Answer) -> Answer | None:
    """Store an answer within a transaction; returns an existing one, or None.

    Waits for another transaction that is storing an answer for the same key.
    """
    _check_key(answer.key)
    row = insert(connection, idempotency).values(**vars(answer))
    replaced = {name: row.excluded[name] for name in ("body_hash", "status", "response", "expires")}
    row = row.on_conflict_do_update(
        index_elements=["key"], set_=replaced, where=idempotency.c.expires <= options.clock())
    if has_inserted(connection, row):
        return None
    stored = _stored(connection, answer.key)
    assert stored is not None, answer.key
    return _same(stored, answer.body_hash)


def _stored(connection: sa.Connection, key: str) -> Answer | None:
    row = connection.execute(idempotency.select().where(idempotency.c.key == key)).first()
    return None if row is None else Answer(**row._mapping)


def _same(answer: Answer, body_hash: str) -> Answer:
    if answer.body_hash != body_hash:
        raise IdempotencyKeyReused(
            f"the idempotency key {answer.key} came with another request before; give each request its own",
            key=answer.key)
    return answer


def _check_key(key: str) -> None:
    if not isinstance(key, str) or not key.isprintable() or not 0 < len(key) <= 255:
        raise InvalidArgument("an idempotency key is printable text of 1 to 255 characters")


class Garbage:
    """Files that are garbage unless a commit takes them back, recorded before they are written.

    They are claimed before they are deleted, and from then on no commit can take them back. So no file of a
    table is ever deleted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(self, paths: Iterable[str], reason: str, not_before: int) -> None:
        """Record files that are about to be written; they may be deleted from ``not_before`` (epoch ms) on.

        A path that is recorded already gets the new time, unless it is being deleted.

        Raises:
            StorageError: they may not be recorded; write nothing.
        """
        rows = [as_garbage(path, reason, not_before) for path in dict.fromkeys(paths)]

        try:
            self._database.write(lambda connection: note(connection, rows))
        except CommitOutcomeUnknown as error:  # a note too many does no harm
            raise StorageError(str(error)) from error

    def due(self, now: int, size: int = 1000) -> list[tuple[str, str]]:
        """The (path, reason) of records up to ``now``, oldest first.

        Only reads; paths have to be claimed before deleting.
        """
        query = sa.select(garbage.c.path, garbage.c.reason).where(garbage.c.not_before <= now).order_by(
            garbage.c.not_before, garbage.c.path).limit(size)
        return [(path, reason) for path, reason in
                self._database.read(lambda connection: connection.execute(query).all())]

    def claim(self, paths: Iterable[str], now: int) -> list[str]:
        """Claim paths for deletion; returns those that no commit can take back any more.

        After an interruption they are due again.
        """
        paths = sorted(set(paths))

        def work(connection: sa.Connection) -> list[str]:
            mine: list[str] = []
            for some in _chunks(paths):
                here = garbage.c.path.in_(some), garbage.c.not_before <= now
                connection.execute(garbage.update().where(*here).values(swept=True))
                claimed = sa.select(garbage.c.path).where(*here, garbage.c.swept)
                mine += connection.execute(claimed.order_by(garbage.c.path)).scalars()
            return mine

        return self._database.write(work)

    def forget(self, paths: Iterable[str], reasons: Iterable[str] | None = None) -> None:
        """Take files out that are deleted; with ``reasons``, those alone that were recorded for one of them.
        """
        paths = sorted(set(paths))
        also = () if reasons is None else (garbage.c.reason.in_(list(reasons)),)

        def work(connection: sa.Connection) -> None:
            for some in _chunks(paths):
                connection.execute(garbage.delete().where(garbage.c.path.in_(some), *also))

        self._database.write(work)


def as_garbage(path: str, reason: str, not_before: int) -> dict[str, Any]:
    """A row for a file, or all files below a folder, that may be deleted from a time on."""
    return {"path": path, "reason": reason, "not_before": not_before, "swept": False}


def note(connection: sa.Connection, rows: list[dict[str, Any]]) -> None:
    """Within a transaction: note files; see :meth:`Garbage.record`."""
    if rows:
        connection.execute(_NOTE, rows)


def take_back(connection: sa.Connection, paths: Iterable[str]) -> None:
    """Within the transaction that makes files a table's: they are no garbage any more.

    Raises:
        DataFileNotFound: one of them was claimed to be deleted, or was never recorded.
    """
    for some in _chunks(sorted(set(paths))):
        gone = connection.execute(_TAKE_BACK, {"paths": some})
        if gone.rowcount != len(some):
            raise DataFileNotFound(
                f"{len(some) - gone.rowcount} of the files of this commit, {some[0]} or others, were not "
                "recorded, or are being deleted because the commit took too long; write them again",
                path=some[0])


def take_back_folder(connection: sa.Connection, path: str) -> None:
    """Within the transaction that makes a folder a table's: it is no garbage any more, if it was noted.

    Raises:
        DataFileNotFound: it was claimed to be deleted.
    """
    connection.execute(garbage.delete().where(garbage.c.path == path, sa.not_(garbage.c.swept)))
    if connection.execute(sa.select(garbage.c.path).where(garbage.c.path == path)).first() is not None:
        raise DataFileNotFound(
            f"the files below {path} are being deleted: they belonged to no table for too long. Write them "
            "again",
            path=path)


# Made once: SQLAlchemy takes longer to make a statement than the database to run it.
_TAKE_BACK = garbage.delete().where(
    garbage.c.path.in_(sa.bindparam("paths", expanding=True)), sa.not_(garbage.c.swept))
# As text: SQLAlchemy compiles an insert with ON CONFLICT anew each time, and both databases read this.
_NOTE = sa.text(
    "INSERT INTO dn_garbage (path, reason, not_before, swept) VALUES (:path, :reason, :not_before, :swept) "
    "ON CONFLICT (path) DO UPDATE SET reason = excluded.reason, not_before = excluded.not_before "
    "WHERE NOT dn_garbage.swept")


def _chunks(paths: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(paths), MAX_IN):
        yield paths[start : start + MAX_IN]
