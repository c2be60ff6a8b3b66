"""Idempotency keys: a repeated request gets the first answer and is not carried out again.

What lives here: a request's key with a hash of the request; its answer as it is stored; and a database that
keeps an answer in the transaction of the change that it answers.
What it does not know: any endpoint.

An answer that shows a table is stored as the place of its metadata file, which never changes.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from deltanb.catalog.iceberg.commit import AnswerFor, Committed, IcebergTable
from deltanb.catalog.iceberg.metadata_files import MetadataFiles
from deltanb.catalog.rest.server.messages import Reply, Request
from deltanb.catalog.store.database import Database, Undo
from deltanb.catalog.store.ledgers import Answer, keep
from deltanb.catalog.store.names import TableName
from deltanb.catalog.store.store import Replayed
from deltanb.catalog.store.tables import idempotency, sa
from deltanb.errors import InvalidArgument
from deltanb.options import options
from deltanb.text.safe_text import shown

__all__ = [
    "AlreadyAnswered", "KeepingDatabase", "Keyed", "answer_for", "replayed", "unless_answered", "writing"]

T = TypeVar("T")


class AlreadyAnswered(Exception):
    """The request came before; the change is rolled back."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.key)
        self.answer = answer


@dataclass(frozen=True)
class Keyed:
    """The key of a request, and the hash of the rest of it."""

    key: str
    body_hash: str
    expires: int

    @classmethod
    def of(
        cls, header: str, principal: str | None, parts: Mapping[str, str], content: bytes, lifetime: int
    ) -> Keyed:
        """The key of a request: each principal has keys of its own.

        Raises:
            InvalidArgument: the header is not a UUID.
        """
        try:
            key = str(uuid.UUID(header.strip())) if len(header.strip()) == 36 else None
        except ValueError:
            key = None
        if key is None:
            raise InvalidArgument(f"the header Idempotency-Key is a UUID, found {shown(header)}")
        digest = hashlib.sha256(msgspec.json.encode(sorted(parts.items())))
        digest.update(content)
        return cls(f"{principal or ''}/{key}", digest.hexdigest(), options.clock() + lifetime)

    def answer(self, reply: Reply) -> Answer:
        """A reply as it is stored."""
        stored: dict[str, Any] = {"value": reply.value}
        if reply.table is not None:
            name = reply.table.name
            stored = {"table": [*name.namespace, name.name], "at": reply.table.metadata_location}
            if reply.table.metadata_location is None:
                stored["metadata"] = reply.table.metadata
        text = msgspec.json.encode(stored).decode()
        return Answer(self.key, self.body_hash, reply.status, text, self.expires)


def replayed(answer: Answer, files: MetadataFiles) -> Reply:
    """The reply that an answer was stored of."""
    stored = msgspec.json.decode(answer.response)
    if "table" not in stored:
        return Reply(answer.status, stored["value"])
    *namespace, name = stored["table"]
    metadata = stored.get("metadata") or files.read(stored["at"])
    table = IcebergTable(TableName(tuple(namespace), name), None, stored["at"], metadata)
    return Reply(answer.status, table=table)


def answer_for(request: Request, reply: Callable[[Committed], Reply]) -> AnswerFor | None:
    """What makes the answer of a commit that is to be kept; None where the request has no key."""
    keyed = request.keyed
    return None if keyed is None else lambda done: keyed.answer(reply(done))


def unless_answered(result: T | Replayed) -> T:
    """What a commit did.

    Raises:
        AlreadyAnswered: it did nothing, because another request with its key was first.
    """
    if isinstance(result, Replayed):
        raise AlreadyAnswered(result.answer)
    return result


def writing(request: Request, reply: Callable[[Any], Reply]) -> Database:
    """The database to change for a request: one that keeps the answer too where the request has a key."""
    database, keyed = request.service.tables.store.database, request.keyed
    return database if keyed is None else KeepingDatabase(database, lambda done: keyed.answer(reply(done)))


class KeepingDatabase(Database):
    """A database whose writes keep an answer as well, or do nothing where there is one for the key."""

    def __init__(self, database: Database, answer_of: Callable[[Any], Answer]) -> None:
        self._inner, self._answer_of = database, answer_of

    def read(self, work: Callable[[sa.Connection], Any]) -> Any:
        """As the database itself."""
        return self._inner.read(work)

    def ask(self, landed: Callable[[sa.Connection], Any]) -> Any:
        """As the database itself."""
        return self._inner.ask(landed)

    def write(
        self, work: Callable[[sa.Connection], Any],
        landed: Callable[[sa.Connection], Any] | None = None, txn_id: str | None = None,
        is_durable: bool = True,
    ) -> Any:
        """What ``work`` returns, its answer kept; an answer always reaches the disk.

        Raises:
            AlreadyAnswered: an answer was there; nothing was written.
        """
        done: list[tuple[Any, Answer | None]] = []

        def both(connection: sa.Connection) -> Any:
            try:
                result = work(connection)
            except Undo as undo:  # nothing is done, so nothing is answered
                raise Undo([(undo.result, None)]) from None
            answer = self._answer_of(result)
            done[:] = [(result, answer)]
            before = keep(connection, answer)
            if before is not None:
                raise AlreadyAnswered(before)
            return done

        def has_landed(connection: sa.Connection) -> Any:
            ((_, answer),) = done
            assert answer is not None
            stored_hash = sa.select(idempotency.c.body_hash).where(idempotency.c.key == answer.key)
            return done if connection.execute(stored_hash).scalar() == answer.body_hash else None

        ((result, _),) = self._inner.write(both, has_landed, txn_id)
        return result
