"""A running server: in a thread of this process, or as the process of ``deltanb serve``.

What lives here: starting and stopping, and the rule that a server without tokens listens on loopback only.
What it does not know: requests.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deltanb.catalog.iceberg.tables import IcebergTables
from deltanb.catalog.limits import Limits
from deltanb.catalog.rest.http import is_loopback
from deltanb.catalog.rest.server.app import application
from deltanb.catalog.rest.server.service import Service, Settings
from deltanb.catalog.rest.server.slow_headers import bounded
from deltanb.catalog.rest.server.tokens import Tokens
from deltanb.catalog.store.places import Warehouse
from deltanb.catalog.store.store import CatalogStore
from deltanb.concurrency import stacks
from deltanb.errors import (
    IllegalStateError,
    InvalidArgument,
    MissingDependency,
    NoThreads,
    StorageError,
)
from deltanb.store.base import LogStore
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown

if TYPE_CHECKING:
    import uvicorn

__all__ = ["Server", "run", "serve", "service_of"]

START_SECONDS = 30
KEEP_ALIVE_SECONDS = 60  # for which an idle connection stays open: clients have pools of them
BACKLOG = 128


class Server:
    """A server in a thread of this process, from the moment it is made until :meth:`stop`.

    As a context manager it stops at the end of the block.
    """

    def __init__(self, service: Service, host: str, port: int) -> None:
        self.service = service
        sock = _bound(host, port)
        self.url = _url(sock)
        """Where it answers."""
        started = threading.Event()
        self._server = _uvicorn(service, started.set)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [sock]}, name="deltanb-server", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            sock.close()
            if not stacks.is_refusal(error):
                raise
            raise NoThreads(
                "a catalog is served by a thread, and this Python starts none: use the catalog without a "
                "server, or serve it from another machine by: deltanb serve") from error
        while not started.wait(0.05):
            if not self._thread.is_alive():
                raise StorageError(f"the server at {self.url} did not start; the log says why", path=self.url)

    def __repr__(self) -> str:
        return f"catalog server at {self.url}{'' if self.is_running else ' (stopped)'}"

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def is_running(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Take no more requests, end those under way, close the catalog; again is fine.

        Raises:
            IllegalStateError: requests did not end in time.
        """
        self._server.should_exit = True
        self._thread.join(self.service.settings.stop_seconds + START_SECONDS)
        if self._thread.is_alive():
            raise IllegalStateError(f"the server at {self.url} has requests that do not finish; try again")


def serve(
    store: CatalogStore | str, warehouse: str | os.PathLike[str] | LogStore | Warehouse,
    host: str = "127.0.0.1", port: int = 0, tokens: Tokens | str | os.PathLike[str] | None = None,
    limits: Limits | None = None, settings: Settings | None = None,
) -> Server:
    """Begin to serve a catalog, in a thread of this process.

    Args:
        store: the catalog, or the URL of its database; stopping closes its connections.
        warehouse: the folder below which all tables lie.
        port: 0 takes any that is free; ``.url`` says which.
        tokens: who may do what, or the file that says so; None lets everyone in, on loopback only.
        limits: what one commit may ask for; see :class:`~deltanb.catalog.limits.Limits`.
        settings: how large a request may be, how long its answer is kept, and more.

    Raises:
        InvalidArgument: no tokens and another host than loopback; or an argument is malformed.
        StorageError: the database or the port cannot be had.
        NoThreads: on a machine that starts none, as a browser.

    >>> server = serve("sqlite:///catalog.db", warehouse="lake")
    >>> server.url.startswith("http://127.0.0.1:"), server.is_running
    (True, True)
    >>> server.stop()
    >>> server.is_running
    False
    """
    return Server(service_of(store, warehouse, host, tokens, limits, settings), host, port)


def service_of(
    store: CatalogStore | str, warehouse: str | os.PathLike[str] | LogStore | Warehouse, host: str,
    tokens: Tokens | str | os.PathLike[str] | None = None, limits: Limits | None = None,
    settings: Settings | None = None,
) -> Service:
    """What to serve, checked before anything is opened; see :func:`serve`."""
    if tokens is None and not is_loopback(host):
        raise InvalidArgument(
            f"without tokens a server listens on loopback only, and {shown(host)} is not; give a token file")
    if tokens is not None and not isinstance(tokens, Tokens):
        tokens = Tokens.read(tokens)
    limits = Limits.of(limits)
    place = warehouse if isinstance(warehouse, Warehouse) else Warehouse(warehouse)
    opened = CatalogStore(store) if isinstance(store, str) else store
    if isinstance(opened, Displayable):
        raise InvalidArgument(
            f"a {type(opened).__name__} is not a catalog's database; give its URL, or .store")
    return Service(IcebergTables(opened, place, limits), tokens, settings)


def run(service: Service, host: str, port: int, ready: Callable[[str], object]) -> None:
    """Serve until SIGINT or SIGTERM, in this thread, which is the main one; ``ready`` is told the URL."""
    sock = _bound(host, port)
    server = _uvicorn(service, lambda: ready(_url(sock)))
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)  # uvicorn raises them again when it has ended
    server.run(sockets=[sock])


def _uvicorn(service: Service, started: Callable[[], object]) -> uvicorn.Server:
    try:
        import uvicorn
        from uvicorn.protocols.http.auto import AutoHTTPProtocol
    except ImportError:
        raise MissingDependency(
            "serving a catalog needs uvicorn, which is not installed: pip install 'deltanb[catalog]'",
            extra="catalog") from None

    class AnnouncedServer(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets=sockets)
            if self.started:
                started()

    return AnnouncedServer(uvicorn.Config(
        application(service), log_config=None, access_log=False, server_header=False, lifespan="on",
        loop="asyncio", http=bounded(AutoHTTPProtocol), ws="none", timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=service.settings.stop_seconds))


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens, so that the port is known and taken before anything starts."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        sock = socket.socket(family, kind, proto)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InvalidArgument(f"{shown(host)}, port {port}, is not an address to listen on: "
                              f"{error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.listen(BACKLOG)
    except OSError as error:
        sock.close()
        raise StorageError(f"nothing can listen on {host}, port {port}: {error.strerror}",
                           path=f"{host}:{port}", errno=error.errno) from error
    return sock


def _url(sock: socket.socket) -> str:
    host, port = sock.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
