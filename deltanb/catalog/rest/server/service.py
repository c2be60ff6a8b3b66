"""What a server serves: one catalog, who may use it, and how a request becomes a reply.

What lives here: the steps of a request: its sender, its idempotency key, its permission, its endpoint, and
the refusal if one fails.
What it does not know: Starlette, sockets.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.rest.endpoint import Endpoint
from deltanb.catalog.rest.server.keyed import AlreadyAnswered, Keyed, replayed
from deltanb.catalog.rest.server.messages import NoSuchCatalog, Reply, Request
from deltanb.catalog.rest.server.refusals import MAY_BE_KEPT, refused
from deltanb.catalog.rest.server.tokens import EVERYONE, Principal, Tokens
from deltanb.errors import DeltaError, IdempotencyKeyReused
from deltanb.options import options
from deltanb.text.safe_text import get_logger, shown

__all__ = ["Service", "Settings"]

MINUTE = 60_000  # milliseconds

_log = get_logger("deltanb.catalog.rest.server")


@dataclass(frozen=True)
class Settings:
    """What an operator may choose."""

    max_body: int = 32 << 20
    """Bytes of a request's body."""
    key_lifetime: int = 30 * MINUTE
    """Milliseconds for which the answer to a request with an idempotency key is kept."""
    threads: int = 12
    """Requests that are worked on at a time; a pool of SQLAlchemy has 15 connections."""
    stop_seconds: int = 30
    """How long a stop waits for requests under way."""
    lax: bool = False
    """Whether clients of Unity Catalog are believed, and no file is read, as by its own server: for tests of
    such clients, which then have to hold by themselves what a table needs. A table can be lost that way."""


class Service:
    """One catalog, in one warehouse, for the principals of a server; None: for everyone."""

    def __init__(
        self, tables: IcebergTables, tokens: Tokens | None = None, settings: Settings | None = None
    ) -> None:
        self.tables, self.tokens, self.settings = tables, tokens, settings or Settings()
        self._forgotten = 0
        self._lock = threading.Lock()

    def sender(self, authorization: str | None) -> Principal:
        """Who sends a request with this ``Authorization`` header.

        Raises:
            Unauthorized, Expired: nobody who may.
        """
        return EVERYONE if self.tokens is None else self.tokens.principal(authorization)

    def require_prefix(self, prefix: str | None) -> None:
        """Refuse the prefix of another catalog.

        Raises:
            NoSuchCatalog: it is not this catalog's name.
        """
        if prefix is not None and prefix != self.tables.store.name:
            raise NoSuchCatalog(f"there is no catalog {shown(prefix)} here; leave the prefix out, or send "
                                f"{self.tables.store.name}")

    def require_warehouse(self, warehouse: str | None) -> None:
        """Refuse a warehouse that is another one.

        Raises:
            NoSuchCatalog: it is neither this one nor the catalog's name.
        """
        own = self.tables.warehouse
        if warehouse and warehouse.rstrip("/") not in (self.tables.store.name, own.uri, own.store.root):
            raise NoSuchCatalog(f"there is no warehouse {shown(warehouse)} here; leave it out")

    def is_healthy(self) -> bool:
        """Whether the database answers."""
        try:
            self.tables.store.namespaces.exists("healthz")
        except DeltaError:
            return False
        return True

    def respond(self, endpoint: Endpoint, request: Request, came: int | None = None) -> Reply:
        """The reply to a request, whatever happens; one that may change something has a commit's time, from
        the moment of the timer at which it ``came``."""
        if endpoint.method in ("GET", "HEAD"):
            return self._responded(endpoint, request)
        with self.tables.committer.limits.began(came):
            return self._responded(endpoint, request)

    def _responded(self, endpoint: Endpoint, request: Request) -> Reply:
        try:
            self.require_prefix(request.params.get("prefix"))
            request = replace(request, endpoint=endpoint, keyed=self._key(endpoint, request))
        except Exception as error:
            return endpoint.api.refusal(error)
        try:
            if request.keyed is not None:
                before = self.tables.store.answers.find(request.keyed.key, request.keyed.body_hash)
                if before is not None:
                    return replayed(before, self.tables.files)
            return self._done(endpoint, request)
        except AlreadyAnswered as repeated:
            return replayed(repeated.answer, self.tables.files)
        except Exception as error:
            if not isinstance(error, DeltaError):
                _log.exception("%s failed", endpoint.name)
            return self._refused(request, endpoint.api.refusal(error), error)

    def _done(self, endpoint: Endpoint, request: Request) -> Reply:
        endpoint.needs(request)
        reply = endpoint.call(request)
        staged = reply.table is not None and reply.table.metadata_location is None
        if request.keyed is not None and (staged or reply.status >= 400):
            return self._record_answer(request.keyed, reply)  # all others were kept with what they changed
        return reply

    def _refused(self, request: Request, reply: Reply, error: Exception) -> Reply:
        """The refusal, or for a key whose request was answered meanwhile, that answer."""
        if request.keyed is None or isinstance(error, IdempotencyKeyReused):
            return reply
        if reply.status not in MAY_BE_KEPT:
            return reply
        try:
            return self._record_answer(request.keyed, reply)
        except DeltaError as failure:
            assert request.endpoint is not None
            return request.endpoint.api.refusal(failure)

    def _record_answer(self, keyed: Keyed, reply: Reply) -> Reply:
        if reply.status >= 400 and reply.status not in MAY_BE_KEPT:
            return reply
        mine = keyed.answer(reply)
        counts = self.tables.store.answers.keep(mine)
        return reply if counts == mine else replayed(counts, self.tables.files)

    def _key(self, endpoint: Endpoint, request: Request) -> Keyed | None:
        header = request.headers.get("idempotency-key")
        if header is None or not endpoint.is_keyed:
            return None
        self.forget_answers()
        parts = {"": f"{endpoint.method} {endpoint.path}", **{f"path {name}": value for name, value in
                 request.params.items() if name != "prefix"}, **request.query}
        return Keyed.of(
            header, request.principal.name, parts, request.content, self.settings.key_lifetime)

    def forget_answers(self) -> None:
        """Delete the answers that have expired, now and then."""
        now = options.clock()
        with self._lock:
            if now < self._forgotten + self.settings.key_lifetime:
                return
            self._forgotten = now
        self.tables.store.answers.forget(now)

def not_found(path: str) -> Reply:
    """The answer where nothing is."""
    return refused(404, "NotFoundException", f"there is nothing at {path}")
