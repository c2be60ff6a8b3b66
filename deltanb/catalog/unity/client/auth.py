"""How requests to a Unity Catalog show who sends them: by a token, or by those that a token URL gives.

What lives here: :func:`auth_of`, which chooses, and :class:`Auth`, what requests ask.
What it does not know: how a token URL is asked (``unity/client/client_credentials``), where profiles are
(``unity/client/profiles``), any other request.

Nothing here shows a secret: no repr and no error does, and there are no pickles. Secrets are sent over HTTPS,
or to this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from deltanb.catalog.rest.http import bearer
from deltanb.catalog.unity.client.address import is_safe
from deltanb.catalog.unity.client.client_credentials import (
    ALL_APIS,
    TOKEN_PATH,
    ClientCredentials,
    Unpicklable,
)
from deltanb.catalog.unity.client.profiles import fields_of
from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import shown

__all__ = ["Auth", "auth_of"]

_WAYS = (("token",), ("client_id", "client_secret", "token_url", "scope"), ("profile",))
"""Arguments that go together; those of two ways contradict each other."""


class Auth(Protocol):
    """What a request asks to show who sends it; any thread may ask."""

    def header(self) -> str | None:
        """The value of the header ``Authorization``; None: no header. It may ask a token URL.

        Raises:
            Unauthorized: the token URL refuses the client.
            StorageError: the token URL cannot be reached, or gives no token.
        """

    def renewed(self, refused: str | None = None) -> bool:
        """Whether, after a 401, another header is worth one more try.

        Args:
            refused: the header that was refused. Of several threads that sent the same one, the first has a
                new one made; without it, the newest is given up.
        """


def auth_of(
    address_url: str, token: str | None = None, client_id: str | None = None,
    client_secret: str | None = None, token_url: str | None = None, scope: str | None = None,
    profile: str | None = None,
) -> Auth:
    """Who sends the requests to a server: the owner of a token, a client with a secret, a profile; or nobody.

    Args:
        address_url: the server's, ``https://host``.
        token: a bearer token, such as a personal access token of Databricks.
        client_id: of an OAuth client (client credentials), such as a service principal of Databricks.
        client_secret: its secret.
        token_url: where it gets its tokens; by default ``/oidc/v1/token`` at the server, as at Databricks.
        scope: what they are for; by default ``all-apis``.
        profile: a section of Databricks' configuration file (``DATABRICKS_CONFIG_FILE``, else
            ``~/.databrickscfg``), whose host is the server's.

    Raises:
        InvalidArgument: arguments that contradict each other, are missing or malformed; plain HTTP to another
            machine; a profile that is not there, is of another host, or of a type that is not supported.
        StorageError: the configuration file cannot be read.
        MissingDependency: a token URL would be asked, and httpx is not installed.

    >>> auth_of("https://lake.example.com", token="dapi123").header()
    'Bearer dapi123'
    >>> auth_of("https://lake.example.com", client_id="duck", client_secret="quack")
    ClientCredentials('https://lake.example.com/oidc/v1/token')
    >>> auth_of("http://localhost:8080").header() is None
    True
    """
    arguments = {"token": token, "client_id": client_id, "client_secret": client_secret,
                 "token_url": token_url, "scope": scope, "profile": profile}
    passed = {name: value for name, value in arguments.items() if value is not None}
    if not passed:
        return _Anonymous()
    for name, value in passed.items():
        if not isinstance(value, str) or not value:  # never shown: it may be a secret
            what = "an empty one" if value == "" else type(value).__name__
            raise InvalidArgument(f"{name} is a text, found {what}")
    first, *others = (next(name for name in way if name in passed) for way in _WAYS if passed.keys() & {*way})
    if others:
        raise InvalidArgument(f"{first} and {others[0]} contradict each other; pass token=..., or "
                              "client_id=... and client_secret=..., or profile=...")
    if not is_safe(address_url):
        raise InvalidArgument(f"secrets are sent by HTTPS or to this machine, and {address_url} is neither")
    if profile is None:
        return _auth_by(passed, address_url)
    return _auth_by(fields_of(profile, address_url), address_url, f" of the profile {shown(profile)}")


def _auth_by(fields: Mapping[str, str], address_url: str, of: str = "") -> Auth:
    """By arguments of one way, or fields of a profile; ``of`` says in messages whose they are."""
    if "token" in fields:
        return _Bearer(bearer(fields["token"], f"the token{of}"))
    for name in ("client_id", "client_secret"):
        if name not in fields:
            raise InvalidArgument(f"the {next(iter(fields))}{of} comes without {name}; an OAuth client has "
                                  "client_id and client_secret")
    return ClientCredentials(fields.get("token_url", address_url + TOKEN_PATH), fields["client_id"],
                             fields["client_secret"], fields.get("scope", ALL_APIS))


class _Anonymous:
    """Nobody."""

    def header(self) -> str | None:
        return None

    def renewed(self, refused: str | None = None) -> bool:
        return False


class _Bearer(Unpicklable):
    """The owner of a token that nobody renews."""

    def __init__(self, header: str) -> None:
        self._header = header

    def header(self) -> str | None:
        return self._header

    def renewed(self, refused: str | None = None) -> bool:
        return False

    def __repr__(self) -> str:
        return "Bearer(***)"
