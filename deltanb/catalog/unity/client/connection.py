"""Requests to a Unity Catalog, and what its refusals mean.

What lives here: :class:`UnityConnection`. Refusals are told apart by their ``type``, never by the status
alone: two of them share 409, two share 429.
What it does not know: any endpoint, and who may ask (``auth``).

=====================  =================================================================================
answer                 what is done
=====================  =================================================================================
429, 503               the request is sent again after the time that the answer names, a few times;
                       ``ResourceExhaustedException`` alone is a refusal, which publishing ends
401                    sent once more if the sender has another token to show by now
5xx, time-outs         no answer: what was asked may have happened
3xx                    refused: a token is not carried to another address
=====================  =================================================================================
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from deltanb import errors
from deltanb.catalog.iceberg.metadata.fields import Check, Json
from deltanb.catalog.rest.client.connection import TIMEOUT, Connection, NoAnswer, Refusal
from deltanb.catalog.rest.endpoint import Endpoint
from deltanb.catalog.unity.client.auth import Auth
from deltanb.errors import DeltaError, InvalidArgument, StorageError
from deltanb.store.read_only import check_writable

__all__ = ["BACKLOG", "GAP", "REQUIREMENT", "TAKEN", "UnityConnection", "UnityRefusal"]

MAX_WAITS = 5  # of one request that the server is too busy for
MAX_WAIT = 30.0  # seconds of one of them, whatever the server says
FIRST_WAIT = 0.5  # where it says nothing; each further one is twice as long

TAKEN, REQUIREMENT = "CommitVersionConflictException", "UpdateRequirementConflictException"
BACKLOG, GAP = "ResourceExhaustedException", "InvalidParameterValueException"

_TYPES: Mapping[str, type[DeltaError]] = {
    "NotAuthorizedException": errors.Unauthorized, "PermissionDeniedException": errors.Forbidden,
    "NoSuchTableException": errors.TableNotFound, "NoSuchSchemaException": errors.NamespaceNotFound,
    "NoSuchCatalogException": errors.NamespaceNotFound, "NotFoundException": errors.TableNotFound,
    "AlreadyExistsException": errors.TableAlreadyExists, TAKEN: errors.CommitFailed,
    REQUIREMENT: errors.CommitFailed, "UnsupportedTableFormatException": errors.UnsupportedProtocol,
    BACKLOG: errors.CommitFailed}
"""What a type means; any other is a request that the server does not take."""

_OLDER: Mapping[str, str] = {
    "UNAUTHENTICATED": "NotAuthorizedException", "PERMISSION_DENIED": "PermissionDeniedException",
    "NOT_FOUND": "NotFoundException", "TABLE_NOT_FOUND": "NoSuchTableException",
    "SCHEMA_NOT_FOUND": "NoSuchSchemaException", "CATALOG_NOT_FOUND": "NoSuchCatalogException",
    "ALREADY_EXISTS": "AlreadyExistsException", "RESOURCE_ALREADY_EXISTS": "AlreadyExistsException",
    "TABLE_ALREADY_EXISTS": "AlreadyExistsException", "SCHEMA_ALREADY_EXISTS": "AlreadyExistsException"}
"""The older API's codes, by the other one's types."""


class UnityRefusal(Refusal):
    """A refusal of a type; ``busy`` are the seconds after which it is to be asked again, None if never."""

    def __init__(self, error: DeltaError, kind: str, status: int, busy: float | None = None) -> None:
        super().__init__(error, {"type": kind})
        self.kind, self.status, self.busy = kind, status, busy


class UnityConnection(Connection):
    """Connections to one Unity Catalog.

    Args:
        url: its server, ``https://host``.
        auth: who asks.
        wait: how long waits are waited.
    """

    def __init__(
        self, url: str, auth: Auth, timeout: float = TIMEOUT, wait: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(url, None, timeout)
        self.auth, self.wait = auth, wait

    def headers(self) -> dict[str, str]:
        """Who asks, as of now."""
        header = self.auth.header()
        return {} if header is None else {"Authorization": header}

    def question(self, endpoint: Endpoint, values: Mapping[str, Any], answer: Check, body: Any = None) -> Any:
        """The answer to what may be asked twice, on a fresh connection the second time.

        Raises:
            DeltaError: what the server refuses.
            StorageError: it cannot be reached, or does not answer.
        """
        for last in (False, True):
            try:
                return self._patiently(endpoint, values, answer, body, last)
            except UnityRefusal as refusal:
                raise refusal.error from None
            except NoAnswer as error:
                if last or error.is_certain:
                    raise self.unreachable(error) from error
        raise AssertionError("unreachable")

    def request(self, endpoint: Endpoint, values: Mapping[str, Any], answer: Check, body: Any = None) -> Any:
        """The answer to what changes something.

        Raises:
            UnityRefusal: nothing was changed.
            StorageError: the server cannot be reached; nothing was changed.
            CommitOutcomeUnknown: it does not say whether it has done it.
        """
        check_writable(f"the catalog at {self.url}")
        try:
            return self._patiently(endpoint, values, answer, body)
        except NoAnswer as error:
            if error.is_certain:
                raise self.unreachable(error) from error
            self.unknown(error)

    def _patiently(
        self, endpoint: Endpoint, values: Mapping[str, Any], answer: Check, body: Any, fresh: bool = False
    ) -> Any:
        """The answer, asked for again where the server says later, or the token has ended.

        Raises:
            UnityRefusal: a refusal.
            NoAnswer: there is none. Where a 503 came before it, what was asked may have happened.
        """
        path, is_open = _path_of(endpoint, values), False
        waits, is_renewed = 0, False
        while True:
            try:
                return self.sent(endpoint.method, path, body, {}, answer, fresh)
            except UnityRefusal as refusal:
                if refusal.busy is not None:
                    is_open |= refusal.status == 503
                    if waits < MAX_WAITS:
                        self.wait(min(refusal.busy or FIRST_WAIT * 2**waits, MAX_WAIT))
                        waits += 1
                        continue
                    raise NoAnswer(f"it was too busy {waits + 1} times: {refusal}", not is_open) from None
                if refusal.kind == "NotAuthorizedException" and not is_open and not is_renewed \
                        and self.auth.renewed():
                    is_renewed = True
                    continue
                if is_open and refusal.kind != TAKEN:
                    raise NoAnswer(refusal) from None
                raise
            except NoAnswer as error:
                raise NoAnswer(error, error.is_certain and not is_open) from error
            except DeltaError as error:  # there is no token to ask with any more
                if is_open:  # which says nothing of what may have happened
                    raise NoAnswer(error) from error
                raise

    def refusal(self, reply: Any) -> Exception:
        """What an answer means that is no success."""
        status, (kind, message) = reply.status_code, _type_and_message(reply)
        text = message or (f"its release does not serve this request (status {status})"
                           if status in (404, 405, 501) else f"it answers with the status {status}")
        if 300 <= status < 400:
            return UnityRefusal(InvalidArgument(
                f"{self.url} sends its clients to another address, which is not followed with a token: the "
                "address names no Unity Catalog, or lacks what tells its workspaces apart"), kind, status)
        if kind == BACKLOG:
            return UnityRefusal(_TYPES[kind](text), kind, status)
        if status in (429, 503):
            return UnityRefusal(StorageError(text, path=self.url), kind, status, _after(reply))
        if status >= 500 and status != 501:
            return NoAnswer(text)
        if not kind and status == 401:
            kind = "NotAuthorizedException"  # a gate before the server: whoever it is, it wants a token
        return UnityRefusal(_TYPES.get(kind, InvalidArgument)(text), kind, status)


def _path_of(endpoint: Endpoint, values: Mapping[str, Any]) -> str:
    """The path of a request below a Unity Catalog's own root, with its query."""
    path = re.sub(r"{(\w+)}", lambda part: quote(str(values[part[1]]), safe=""), endpoint.paths[-1])
    query = "&".join(f"{name}={quote(str(values[name]), safe='')}" for name in (
        each["name"] for each in endpoint.query) if values.get(name) is not None)
    return f"{path}?{query}" if query else path


def _type_and_message(reply: Any) -> tuple[str, str]:
    """The type and the message of a refusal, in either API's form; empty where it is in none."""
    try:
        value: Json = json.loads(reply.content)
        if "error_code" in value:
            code = str(value["error_code"])
            return _OLDER.get(code, code), str(value.get("message") or "")
        return str(value["error"].get("type") or ""), str(value["error"].get("message") or "")
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""


def _after(reply: Any) -> float:
    """After how many seconds a request may be sent again; 0 where the answer does not say it."""
    text = reply.headers.get("Retry-After", "")
    return float(text) if re.fullmatch(r"\d{1,6}(\.\d+)?", text) else 0.0
