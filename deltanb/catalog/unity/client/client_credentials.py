"""Tokens of an OAuth client, by its id and its secret (the client-credentials grant).

What lives here: asking the token URL, one thread at a time, whenever a token is about to end or was refused.
What it does not know: what the tokens are used for.

Neither the secret nor a token is in a repr, an error, a log line or a pickle. No redirect is followed, since
it would take the secret elsewhere.
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
import threading
import weakref
from typing import Any, NamedTuple, NoReturn
from urllib.parse import urlsplit

from deltanb.catalog.rest.http import bearer, is_loopback, load_httpx
from deltanb.catalog.unity.client.address import is_safe, origin_of
from deltanb.errors import IllegalStateError, InvalidArgument, StorageError, Unauthorized
from deltanb.options import options
from deltanb.text.safe_text import shown

__all__ = ["TOKEN_PATH", "ClientCredentials", "Unpicklable"]

TOKEN_PATH = "/oidc/v1/token"  # Databricks', at the host of the workspace
ALL_APIS = "all-apis"  # the scope that Databricks' tokens have
MARGIN = 60.0  # seconds before its end that a token is renewed: requests with it may be under way as long
TIMEOUT = 60.0  # seconds for a token
MAX_DESCRIPTION = 300  # characters of a refusal that are shown

_PRINTABLE = re.compile(r"[ -~]+")
_REFUSALS = (400, 401, 403)  # as OAuth has them: the client, its secret or its scope


class _Token(NamedTuple):
    header: str
    renewal: float  # when it is time for the next, in epoch milliseconds


class Unpicklable:
    """What holds secrets: neither pickled nor copied."""

    def __reduce__(self) -> NoReturn:
        raise IllegalStateError(
            "what shows a catalog who asks holds secrets, and cannot be pickled or copied; in the other "
            "process, connect again: deltanb.connect(address, ...)")


class ClientCredentials(Unpicklable):
    """An OAuth client: headers with tokens that a token URL gives for its id and its secret.

    A token is used until a minute before its end, or for half of its life if that is shorter than two.

    Raises:
        InvalidArgument: a token URL that is none, or not safe; an id or a secret that none can be.
        MissingDependency: httpx is not installed.
    """

    def __init__(self, token_url: str, client_id: str, client_secret: str, scope: str = ALL_APIS) -> None:
        self._httpx = load_httpx()
        if "?" in token_url or "#" in token_url:  # httpx logs URLs, and a secret may be in a query
            raise InvalidArgument(f"the token URL at {origin_of(token_url)} has no query and no fragment; "
                                  "leave out what begins with ? or #")
        if not is_safe(token_url):
            raise InvalidArgument(f"the token URL {shown(token_url)} takes a secret, which is sent by HTTPS "
                                  "or to this machine; pass an https:// URL")
        try:
            self._httpx.URL(token_url)
        except self._httpx.InvalidURL as error:
            raise InvalidArgument(f"the token URL {shown(token_url)} is malformed: {error}") from None
        for name, value in {"client_id": client_id, "client_secret": client_secret, "scope": scope}.items():
            if not _PRINTABLE.fullmatch(value):
                raise InvalidArgument(f"{name} has printable ASCII characters")
        if ":" in client_id:
            raise InvalidArgument("client_id has no colon: where it is sent, one ends it")
        self.token_url = token_url
        self._client = client_id, client_secret
        self._form = {"grant_type": "client_credentials", "scope": scope}
        self._token: _Token | None = None
        self._lock = threading.Lock()  # of who asks for a token
        _clients.add(self)

    def __repr__(self) -> str:
        return f"ClientCredentials({self.token_url!r})"

    def header(self) -> str | None:
        """The header with a token that is good for a while; see :class:`~.auth.Auth`."""
        token = self._token
        if token is None or token.renewal <= options.clock():
            with self._lock:
                token = self._token
                if token is None or token.renewal <= options.clock():  # no other thread was quicker
                    token = self._token = self._requested()
        return token.header

    def renewed(self, refused: str | None = None) -> bool:
        """True: the next header has another token."""
        with self._lock:
            if self._token is not None and refused in (None, self._token.header):
                self._token = None
        return True

    def _requested(self) -> _Token:
        """A new token; a request that is not answered is sent once more.

        Raises:
            Unauthorized: the client is refused.
            InvalidArgument: there is nothing that gives tokens.
            StorageError: no answer, or none that is a token.
        """
        now = options.clock()  # before it is asked: the token's life may begin at once
        reason: object = None
        for _ in range(2):
            try:
                reply = self._sent()
            except self._httpx.HTTPError as error:
                reason = str(error) or type(error).__name__
                continue
            if reply.status_code < 500:
                return self._token_of(reply, now)
            reason = f"it answers with the status {reply.status_code}"
        raise self._error(f"cannot be asked: {reason}")

    def _sent(self) -> Any:
        is_here = is_loopback(urlsplit(self.token_url).hostname or "")
        with self._httpx.Client(timeout=TIMEOUT, trust_env=not is_here) as client:  # no proxy to this machine
            return client.post(self.token_url, data=self._form, auth=self._client, follow_redirects=False,
                               headers={"Accept": "application/json"})

    def _token_of(self, reply: Any, now: int) -> _Token:
        """The token of an answer, which counts from ``now``, in epoch milliseconds."""
        status = reply.status_code
        try:
            fields = json.loads(reply.content)
        except (ValueError, RecursionError):
            fields = None
        if status in _REFUSALS:
            raise Unauthorized(f"the token URL {self.token_url} refuses the client: "
                               f"{self._without_secrets(_reason(fields)) or f'status {status}'}")
        if reply.is_redirect:
            raise self._error("redirects, and no redirect is followed with a secret; pass another token_url")
        if status == 429:
            raise self._error("has too many requests; try again later")
        if not reply.is_success:
            raise InvalidArgument(f"nothing gives tokens at {self.token_url} (status {status}); pass another "
                                  "token_url")
        if not isinstance(fields, dict):
            raise self._error("does not answer with a JSON object; pass another token_url")
        if str(fields.get("token_type", "Bearer")).lower() != "bearer":
            raise self._error("gives no bearer token: its token_type is another")
        try:
            header = bearer(fields.get("access_token"), "access_token")
            life = _life(fields.get("expires_in"))
        except ValueError as error:  # InvalidArgument is one
            raise self._error(f"gives no token: {error}") from None
        return _Token(header, now + 1000 * (life - min(MARGIN, life / 2)))

    def _without_secrets(self, text: str) -> str:
        """Somebody else's text, in case it repeats what it was asked with."""
        basic = base64.b64encode(":".join(self._client).encode()).decode()
        for secret in (basic, self._client[1]):
            text = text.replace(secret, "***")
        return text[:MAX_DESCRIPTION]

    def _error(self, what: str) -> StorageError:
        return StorageError(f"the token URL {self.token_url} {what}", path=self.token_url)


def _reason(fields: Any) -> str:
    """Why a client is refused, as OAuth has it."""
    texts = [fields.get(name) for name in ("error", "error_description")] if isinstance(fields, dict) else []
    return ": ".join(text for text in texts if isinstance(text, str) and text)


def _life(value: Any) -> float:
    """The seconds that a token lives; infinite where nothing says how many.

    >>> _life(3600), _life("3600"), _life(None)
    (3600.0, 3600.0, inf)
    """
    if value is None:
        return math.inf
    try:
        life = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        life = -1.0
    if not 0 <= life < math.inf:
        raise InvalidArgument("expires_in is a number of seconds")
    return life


_clients: weakref.WeakSet[ClientCredentials] = weakref.WeakSet()


def _after_fork() -> None:
    """A thread of the parent that asks for a token has no part in the child, which must not wait for it."""
    for client in _clients:
        client._lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
