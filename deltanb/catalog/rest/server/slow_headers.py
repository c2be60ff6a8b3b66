"""A time limit for the headers of a request, as there is one for its body.

What lives here: :func:`bounded`, which adds the limit to one of uvicorn's protocols.
What it does not know: requests whose headers are there (``app``), and idle connections, which uvicorn closes.

Uvicorn itself waits for headers forever: a client that sends one line and then nothing would hold a
connection for as long as it likes.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from deltanb.catalog.rest.server.refusals import refused

__all__ = ["HEADER_SECONDS", "bounded"]

HEADER_SECONDS = 30
"""For which a client may take to send the headers of a request; as long as for its body."""


def bounded(protocol: type[Any]) -> type[Any]:
    """A protocol of uvicorn's that answers 408 where headers do not come in time, and hangs up."""

    class Bounded(protocol):  # type: ignore[misc]
        """One connection."""

        _late: asyncio.TimerHandle | None = None
        _has_begun = False

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            self._wait(self.timeout_keep_alive)  # as for a connection that is idle after a request

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            if not self._has_begun and (before is None or before.response_complete):
                self._wait(HEADER_SECONDS)
                self._has_begun = True
            super().data_received(data)
            if self.cycle is not before:  # the headers are there
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait(self, seconds: float) -> None:
            self._stop_waiting()
            self._late = self.loop.call_later(seconds, self._hang_up)

        def _stop_waiting(self) -> None:
            self._has_begun = False
            if self._late is not None:
                self._late.cancel()
                self._late = None

        def _hang_up(self) -> None:
            if self._has_begun and not self.transport.is_closing():
                self.transport.write(_TOO_LATE)
            self.transport.close()

    return Bounded


def _answer() -> bytes:
    value: Any = refused(408, "RequestTimeoutException", "the headers did not arrive in time").value
    body = msgspec.json.encode(value)
    return (f"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


_TOO_LATE = _answer()
