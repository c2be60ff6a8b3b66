"""Requests to a catalog's server, in three ways that differ in what happens when no answer comes.

What lives here: :class:`Connection`: JSON there and back, errors of the server as errors of this library.
What it does not know: any endpoint; a row of the table says how it is asked.

==============  ==================================================================================
way             without an answer
==============  ==================================================================================
``ask``         is sent once more, since it changes nothing; then it is a StorageError
``change``      is sent again with the same idempotency key; then it is a CommitOutcomeUnknown
``once``        is a CommitOutcomeUnknown at once: the caller asks for the outcome
==============  ==================================================================================

A 4xx is certain: nothing was changed. So is a 503 in which this library's server says what failed. Any other
5xx, a timeout, and an answer that is no JSON are no answer.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import quote

from deltanb import errors
from deltanb.catalog.iceberg.metadata.fields import Check, Json, to_json
from deltanb.catalog.rest.endpoint import Endpoint
from deltanb.catalog.rest.forms import SEPARATOR, namespace_of, nothing
from deltanb.catalog.rest.http import bearer, load_httpx
from deltanb.errors import CommitOutcomeUnknown, DeltaError, InvalidArgument, StorageError
from deltanb.store.read_only import check_writable
from deltanb.text.safe_text import shown

__all__ = ["Connection", "NoAnswer", "Refusal", "new_key"]

TIMEOUT = 60.0  # seconds for an answer: a server gives up a commit after 30
TRIES = 3  # of a request with an idempotency key: what fails three times fails for a reason
KIND_HEADER = "deltanb-error"

_KINDS = {kind.kind: kind for kind in vars(errors).values()
          if isinstance(kind, type) and issubclass(kind, DeltaError)}

# Of a refusal that says no kind: an answer that was kept, or another server's.
_TYPES: dict[str, type[DeltaError]] = {
    "NoSuchTableException": errors.TableNotFound, "NoSuchNamespaceException": errors.NamespaceNotFound,
    "AlreadyExistsException": errors.TableAlreadyExists, "CommitFailedException": errors.CommitFailed,
    "NamespaceNotEmptyException": errors.NamespaceNotEmpty, "NotAuthorizedException": errors.Unauthorized,
    "ForbiddenException": errors.Forbidden, "ValidationException": errors.InvalidTable,
    "UnsupportedOperationException": errors.UnsupportedProtocol,
    "RequestTimeoutException": StorageError}


class Refusal(Exception):
    """A refusal: ``error`` is the error it means, ``details`` the rest of its body."""

    def __init__(self, error: DeltaError, details: Json) -> None:
        super().__init__(str(error))
        self.error, self.details = error, details


class NoAnswer(Exception):
    """Whether the server did anything is unknown; ``is_certain`` where it surely did not."""

    def __init__(self, reason: object, is_certain: bool = False) -> None:
        super().__init__(str(reason))
        self.is_certain = is_certain


class Connection:
    """Connections to one server, made when they are needed.

    Raises:
        InvalidArgument: a URL that is neither ``http://…`` nor ``https://…``, or a token that none can be.
        MissingDependency: httpx is not installed.
    """

    def __init__(self, url: str, token: str | None = None, timeout: float = TIMEOUT) -> None:
        self._httpx = load_httpx()
        try:
            parsed = self._httpx.URL(url)
        except (self._httpx.InvalidURL, TypeError):
            parsed = self._httpx.URL()
        if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
            raise InvalidArgument(
                f"{shown(url)} is not the URL of a server; give one such as 'http://localhost:8181'")
        self._headers = {} if token is None else {"Authorization": bearer(token)}
        self.url = str(url).rstrip("/")
        self._timeout = timeout
        self._client: Any = None
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def __reduce__(self) -> NoReturn:
        raise errors.IllegalStateError(
            "connections to a catalog cannot be pickled or copied; in the other process, connect "
            "again: deltanb.connect(url)")

    def __repr__(self) -> str:
        return f"Connection({self.url!r})"

    def close(self) -> None:
        """Close all connections; a later request opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()

    def send(
        self, endpoint: Endpoint, values: Mapping[str, Any], *, key: str | None = None, fresh: bool = False
    ) -> Any:
        """The answer of an endpoint: by ``change`` if it takes idempotency keys, else by ``ask``.

        Args:
            values: the parts of the path, the parameters of the query and the fields of the body, by name.

        Raises:
            DeltaError: what it refuses.
            StorageError: it cannot be reached.
            CommitOutcomeUnknown: it does not say whether it has changed anything.
        """
        path = re.sub(r"{(\w+)}", lambda part: _in_url(part[1], values[part[1]]), endpoint.paths[0])
        query = "&".join(f"{name}={_in_url(name, values[name])}" for name in (
            each["name"] for each in endpoint.query) if values.get(name) is not None)
        path += f"?{query}" if query else ""
        body = None if endpoint.body is None else to_json(endpoint.body, values)
        answer = endpoint.answer or nothing
        if endpoint.is_keyed:
            return self.change(path, body, answer, endpoint.method, key)
        return self.ask(path, body, answer, endpoint.method, fresh)

    def ask(
        self, path: str, value: Any, answer: Check, method: str = "POST", fresh: bool = False
    ) -> Any:
        """The answer to a question; asked on a ``fresh`` connection on request.

        Raises:
            DeltaError: what it refuses.
            StorageError: it cannot be reached, or does not answer.
        """
        for last in (False, True):
            try:
                return self.sent(method, path, value, {}, answer, fresh or last)
            except Refusal as refusal:
                raise refusal.error from None
            except NoAnswer as error:
                if last or error.is_certain:
                    raise self.unreachable(error) from error
        raise AssertionError("unreachable")

    def change(
        self, path: str, value: Any, answer: Check, method: str = "POST", key: str | None = None
    ) -> Any:
        """The answer to a request that the server carries out once, however often it comes.

        Raises:
            DeltaError: what it refuses.
            StorageError: it cannot be reached; nothing was changed.
            CommitOutcomeUnknown: it does not say whether it has done it.
        """
        check_writable(f"the catalog at {self.url}")
        headers = {"Idempotency-Key": key or new_key()}
        unknown: NoAnswer | None = None
        for number in range(TRIES):
            try:
                return self.sent(method, path, value, headers, answer, fresh=number > 0)
            except Refusal as refusal:
                raise refusal.error from None
            except NoAnswer as error:
                if error.is_certain and unknown is None:
                    raise self.unreachable(error) from error
                unknown = error
        self.unknown(unknown)

    def once(self, endpoint: Endpoint, values: Mapping[str, Any]) -> Any:
        """The answer to a request that is sent once.

        Raises:
            Refusal: nothing was changed.
            StorageError: it cannot be reached; nothing was changed.
            CommitOutcomeUnknown: it does not say whether it has done it.
        """
        assert endpoint.body is not None and endpoint.answer is not None
        check_writable(f"the catalog at {self.url}")
        body = to_json(endpoint.body, values)
        try:
            return self.sent(endpoint.method, endpoint.paths[0], body, {}, endpoint.answer)
        except NoAnswer as error:
            if error.is_certain:
                raise self.unreachable(error) from error
            self.unknown(error)

    def headers(self) -> dict[str, str]:
        """What each request says of its sender."""
        return self._headers

    def refusal(self, reply: Any) -> Exception:
        """What an answer means that is no success: a :class:`Refusal`, or that nothing is known."""
        return _refusal(reply)

    def unknown(self, reason: object) -> NoReturn:
        """Say that nobody knows whether a request was carried out.

        Raises:
            CommitOutcomeUnknown: always.
        """
        raise CommitOutcomeUnknown(
            f"the catalog at {self.url} does not say whether it did what it was asked: "
            f"{str(reason).rstrip('.')}. Check before you repeat the request")

    def unreachable(self, reason: object) -> StorageError:
        """The error for a question that nobody answers."""
        return StorageError(f"the catalog at {self.url} cannot be asked: {reason}", path=self.url)

    def sent(
        self, method: str, path: str, value: Any, headers: dict[str, str], answer: Check,
        fresh: bool = False,
    ) -> Any:
        """The answer, checked.

        Raises:
            Refusal: a refusal.
            NoAnswer: there is none.
        """
        content: dict[str, Any] = {} if value is None else {
            "content": _as_json(value), "headers": {"Content-Type": "application/json"}}
        content["headers"] = {**self.headers(), **content.get("headers", {}), **headers}
        httpx = self._httpx
        try:
            with self._connected(fresh) as client:
                reply = client.request(method, f"{self.url}{path}", **content)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol) as e:
            raise NoAnswer(e, is_certain=True) from e
        except httpx.HTTPError as error:
            raise NoAnswer(str(error) or type(error).__name__) from error
        if not reply.is_success:
            raise self.refusal(reply)
        if answer is nothing and "html" not in reply.headers.get("Content-Type", ""):
            return None  # whatever a server has to say of it
        try:
            return answer(json.loads(reply.content) if reply.content else None, "the answer")
        except ValueError as error:  # InvalidArgument is one
            raise NoAnswer(f"its answer cannot be understood: {error}") from error

    def client(self) -> Any:
        """New connections."""
        return self._httpx.Client(timeout=self._timeout)

    @contextmanager
    def _connected(self, fresh: bool) -> Iterator[Any]:
        """The connections that all threads share, or one that nothing came over yet."""
        if fresh:
            with self.client() as client:
                yield client
            return
        with self._lock:
            if self._client is None or self._pid != os.getpid():  # no two processes on one connection
                self._client, self._pid = self.client(), os.getpid()
                # Whoever opened a table by its address has no catalog to close.
                weakref.finalize(self, self._client.close).atexit = False
            client = self._client
        yield client


def _in_url(name: str, value: Any) -> str:
    """A value as a part of a path or of a query; the parts of a namespace are joined.

    >>> _in_url("namespace", "shop.eu"), _in_url("purgeRequested", True)
    ('shop%1Feu', 'true')
    """
    if name in ("namespace", "parent"):
        value = SEPARATOR.join(namespace_of(value))
    return quote(str(value).lower() if isinstance(value, bool) else str(value), safe="")


def _as_json(value: Any) -> str:
    """A request's body.

    Raises:
        InvalidArgument: something in it is no JSON; nothing is sent.
    """
    try:
        return json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"what the catalog was asked cannot be written as JSON: {error}") from None


def _refusal(reply: Any) -> Exception:
    """What an answer means that is no success: a :class:`Refusal`, or that nothing is known."""
    status = reply.status_code
    try:
        details = json.loads(reply.content)["error"]
        message = str(details["message"])
        fields = json.loads(reply.headers.get(KIND_HEADER, "{}"))
        kind = _KINDS.get(fields.pop("kind", None))
    except (ValueError, LookupError, TypeError, AttributeError):
        details, message, fields, kind = {}, f"it answers with the status {status}", {}, None
    if status >= 500 and (status != 503 or kind is None):
        return NoAnswer(message)
    if not 400 <= status < 500 and status != 503:
        return NoAnswer(message, is_certain=True)
    kind = kind or _TYPES.get(details.get("type", ""), InvalidArgument)
    if issubclass(kind, errors.CommitFailed):
        fields["failed_requirements"] = details.get("failed-requirements", [])
    return Refusal(kind(message, **fields), details)


def new_key() -> str:
    """A key that is unique even where ``options.new_id`` is fixed."""
    return str(uuid.uuid4())
