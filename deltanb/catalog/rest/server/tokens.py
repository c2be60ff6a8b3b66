"""Who may do what: bearer tokens from a file, with permissions for namespaces.

What lives here: the file's format, the principal behind a token, and whether a principal may read or write
in a namespace. The most specific entry counts: one for ``sales.eu`` before one for ``sales`` before ``*``.
What it does not know: HTTP. Tokens are kept as hashes, and never logged.

The file is JSON; in place of ``token`` an entry may have ``sha256``, the token's hash in hexadecimal::

    {"tokens": [{"name": "etl", "token": "…", "permissions": {"sales": "write", "*": "read"},
                 "expires": "2027-01-01T00:00:00Z"}]}
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from deltanb.catalog.iceberg.metadata.fields import Json, array, choice, record, refuse, text
from deltanb.catalog.store.names import parts_of
from deltanb.errors import Expired, Forbidden, InvalidArgument, Unauthorized
from deltanb.options import options
from deltanb.text.safe_text import get_logger

__all__ = ["EVERYONE", "Expired", "Forbidden", "Principal", "Tokens", "Unauthorized"]

EVERYWHERE = "*"
LEVELS = ("none", "read", "write")
MAX_PRINCIPAL = 100  # characters: it is a part of the keys of answers

_log = get_logger("deltanb.catalog.rest.server")
_NAME = re.compile(r"[A-Za-z0-9._@-]+")


@dataclass(frozen=True)
class Principal:
    """Who sends requests: a name, and what it may do where.

    >>> etl = Principal("etl", {("sales",): "write", ("sales", "pay"): "none", (): "read"})
    >>> etl.may("write", ("sales", "eu")), etl.may("read", ("sales", "pay")), etl.may("write", ("hr",))
    (True, False, False)
    """

    name: str | None
    permissions: Mapping[tuple[str, ...], str]
    expires: int | None = None
    """Epoch milliseconds."""

    def may(self, what: str, namespace: tuple[str, ...]) -> bool:
        """Whether it may ``read`` or ``write`` in a namespace."""
        for size in range(len(namespace), -1, -1):
            level = self.permissions.get(namespace[:size])
            if level is not None:
                return LEVELS.index(level) >= LEVELS.index(what)
        return False

    def sees(self, namespace: tuple[str, ...]) -> bool:
        """Whether it may read in a namespace, or in one that is inside of it."""
        return self.may("read", namespace) or any(
            parts[:len(namespace)] == namespace and level != "none"
            for parts, level in self.permissions.items())

    @property
    def sees_all(self) -> bool:
        """Whether there is no namespace in which it may not read."""
        return self.may("read", ()) and "none" not in self.permissions.values()

    @property
    def may_write_somewhere(self) -> bool:
        """Whether there is a namespace in which it may write."""
        return "write" in self.permissions.values()

    def require(self, what: str, namespace: tuple[str, ...]) -> None:
        """Refuse what it may not do.

        Raises:
            Forbidden: it may not.
        """
        if not self.may(what, namespace):
            raise Forbidden(f"{self.name} may not {what} in the namespace {'.'.join(namespace)}")


EVERYONE = Principal(None, {(): "write"})
"""Who sends requests to a server without tokens."""


class Tokens:
    """The principals of a server by the hashes of their tokens.

    >>> tokens = Tokens.of({"tokens": [{"name": "ada", "token": "s3cret", "permissions": {"*": "write"}}]})
    >>> tokens.principal("Bearer s3cret").name
    'ada'
    >>> tokens.principal("Bearer other")
    Traceback (most recent call last):
    deltanb.errors.Unauthorized: the token is not known
    """

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self._principals = dict(principals)

    def __repr__(self) -> str:
        return f"Tokens of {', '.join(sorted(str(each.name) for each in self._principals.values()))}"

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Tokens:
        """The tokens of a file.

        Raises:
            InvalidArgument: it cannot be read, or is malformed; the message names the field.
        """
        try:
            content = Path(path).read_bytes()
            if os.name == "posix" and os.stat(path).st_mode & 0o007:
                _log.warning("%s can be read by everyone on this machine; chmod o-rwx it", path)
            return cls.of(msgspec.json.decode(content))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InvalidArgument(f"the tokens in {path} cannot be read: {error}") from error
        except InvalidArgument as error:
            raise InvalidArgument(f"the tokens in {path}: {error}") from error

    @classmethod
    def of(cls, content: Any) -> Tokens:
        """The tokens of what such a file says.

        Raises:
            InvalidArgument: it is malformed.
        """
        principals: dict[str, Principal] = {}
        for at, entry in enumerate(record({"tokens": array(_ENTRY)})(content, "it")["tokens"]):
            path = f"tokens[{at}]"
            its_hash = _hash_of(entry, path)
            if its_hash in principals:
                refuse(path, "has the token of another entry")
            principals[its_hash] = _principal(entry, path)
        if not principals:
            refuse("tokens", "is empty: nobody could send a request")
        return cls(principals)

    def principal(self, header: str | None) -> Principal:
        """Who sends an ``Authorization`` header.

        Raises:
            Unauthorized: no bearer token, or an unknown one.
            Expired: a token whose time is over.
        """
        scheme, _, token = (header or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthorized("a bearer token is required: send the header 'Authorization: Bearer TOKEN'")
        principal = self._principals.get(_sha256(token.strip()))
        if principal is None:
            raise Unauthorized("the token is not known")
        if principal.expires is not None and principal.expires <= options.clock():
            raise Expired(f"the token of {principal.name} has expired")
        return principal


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()


def _hash_of(entry: Json, path: str) -> str:
    if ("token" in entry) == ("sha256" in entry):
        refuse(path, "needs either token or sha256")
    if "token" in entry:
        if not entry["token"] or entry["token"] != entry["token"].strip():
            refuse(f"{path}.token", "is empty, or begins or ends with a space")
        return _sha256(entry["token"])
    if not re.fullmatch("[0-9a-fA-F]{64}", entry["sha256"]):
        refuse(f"{path}.sha256", "is not a hash of 64 hexadecimal digits")
    return str(entry["sha256"]).lower()


def _principal(entry: Json, path: str) -> Principal:
    if not _NAME.fullmatch(entry["name"]) or len(entry["name"]) > MAX_PRINCIPAL:
        refuse(f"{path}.name", f"has other characters than letters, digits and ._@-, or over {MAX_PRINCIPAL}")
    return Principal(entry["name"], dict(_permissions(entry["permissions"], f"{path}.permissions")),
                     _time(entry.get("expires"), f"{path}.expires"))


def _permissions(permissions: Mapping[str, str], path: str) -> Iterable[tuple[tuple[str, ...], str]]:
    for namespace, level in permissions.items():
        choice(*LEVELS)(level, f"{path}.{namespace}")
        yield () if namespace == EVERYWHERE else parts_of(namespace), level


def _time(text_: str | None, path: str) -> int | None:
    if text_ is None:
        return None
    try:
        time = datetime.fromisoformat(text_.replace("Z", "+00:00"))
    except ValueError:
        refuse(path, f"is not a time such as 2027-01-01T00:00:00Z: {text_!r:.40}")
    if time.tzinfo is None:
        refuse(path, "has no time zone; end it with Z")
    return int(time.timestamp() * 1000)


def _object(value: Any, path: str) -> Json:
    if not isinstance(value, dict):
        refuse(path, "must be an object of namespaces and permissions")
    return value


_ENTRY = record({"name": text, "permissions": _object}, {"token": text, "sha256": text, "expires": text})
