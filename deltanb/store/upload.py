"""Uploads in parts that begin again where a service refuses the credential that a catalog had vended.

What lives here: :class:`Upload`. Services take no part of an upload that another credential continues once a
request of it has failed in obstore, so the parts that were sent are sent again from this machine.
What it does not know: how a credential is replaced (``vending``).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TypeVar

from deltanb.store.answers import answer_of
from deltanb.store.vending import READ_WRITE, Credential, Vending

__all__ = ["MAX_RENEWALS", "Upload"]

MAX_RENEWALS = 3
"""Times that an upload begins again: a credential lasts longer than most of them take."""
HELD = 32 << 20
"""Bytes of an upload that are remembered in memory; what is more is in a nameless file of this machine."""

_R = TypeVar("_R")


class Upload:
    """A multipart upload: ``write(bytes)``, and it is an object from ``close()`` on.

    ``begin`` makes obstore's writer for a credential. What a broken upload has left in the bucket goes with
    the bucket's rule for unfinished uploads, as after any failed one.
    """

    def __init__(self, vending: Vending, begin: Callable[[Credential], Any], part_size: int) -> None:
        self._vending, self._begin, self._part_size = vending, begin, part_size
        self._sent: IO[bytes] | None = tempfile.SpooledTemporaryFile(  # noqa: SIM115  (until it is whole)
            HELD, prefix="deltanb-upload-")
        self._used: Credential | None = None
        self._file: Any = None
        self._renewals = 0

    def write(self, data: bytes) -> None:
        """Send some more."""
        self._go_on(lambda: self._file.write(data))
        if self._sent is not None:
            try:
                self._sent.write(data)
            except OSError:  # no room for it: the upload goes on, and does not begin again
                self._forget()

    def close(self) -> None:
        """Make it an object."""
        self._go_on(lambda: self._file.close())
        self._forget()

    def _go_on(self, work: Callable[[], _R]) -> _R:
        while True:
            current = self._vending.credential(READ_WRITE)  # one that ends soon is replaced before a part
            try:
                if self._file is None:
                    self._again(current)
                return work()
            except Exception as error:
                failed = error
            answer = answer_of(failed)
            if self._sent is None or self._used is None or self._renewals == MAX_RENEWALS \
                    or not answer.is_denial or not self._vending.renew(
                        self._used, READ_WRITE, is_expired=answer.is_expired):
                self._forget()
                raise failed
            self._renewals += 1
            self._file = None

    def _again(self, credential: Credential) -> None:
        """Begin, and send what was sent before."""
        self._used = credential
        self._file = self._begin(credential)
        if self._sent is not None:
            self._sent.seek(0)
            while data := self._sent.read(self._part_size):
                self._file.write(data)

    def _forget(self) -> None:
        if self._sent is not None:
            with suppress(OSError):
                self._sent.close()
            self._sent = None
