"""The address of what a Unity Catalog serves: ``uc://host[:port]/catalog[.schema[.table]]``.

What lives here: :class:`Address`, what is one and what is none, and which URL the server has by it: plain
HTTP to this machine alone, HTTPS to all others.
What it does not know: any request.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

from deltanb.catalog.rest.http import is_loopback
from deltanb.catalog.store.names import check_part
from deltanb.errors import InvalidArgument
from deltanb.schema.types import backticked
from deltanb.store.uris import UNITY, is_of_unity
from deltanb.text.safe_text import shown

__all__ = ["Address", "is_safe", "origin_of", "parse_address"]

FORM = "uc://host[:port]/catalog[.schema[.table]]"
MAX_PARTS = 3  # of a full name: catalog, schema, table

_PLAIN = re.compile(r"[\w-]+")
_PART = re.compile(r"`((?:[^`]|``)+)`|([\w-]+)")
_AUTHORITY = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.]*)\]|(?P<host>[^:\[\]]*))(?::(?P<port>[^:]*))?")
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_URL = re.compile(r"[!-\[\]-~]*")  # no spaces and backslashes, which libraries read each in its way
_PORT = re.compile(r"[0-9]{1,5}")
_DEFAULT_PORTS = {"http": 80, "https": 443}

_ENDINGS = {
    "": "has an empty part; every part needs a name",
    ".": "has an empty part; every part needs a name",
    "/": "has a slash in its name; parts are joined by dots, as in uc://host/catalog.schema.table",
    "?": "has a query; leave it out. Of Databricks, give the host of the workspace itself (such as "
         "adb-….azuredatabricks.net), which needs no ?o=",
    "#": "has a fragment; leave it out",
    "%": "has an escape; write names as they are, in backticks where they have other signs than letters, "
         "digits, _ and -",
    "`": "has a backtick that does not quote a part; write `a part` whole, and a backtick in it twice",
}
"""What a name has where a part or a dot is due -> what is said of the address."""


@dataclass(frozen=True)
class Address:
    """What an address names; its text is the address again.

    ``url`` is the server's, ``catalog`` the catalog's name, ``name`` what is named in it: nothing, a schema,
    or a schema and a table.

    >>> parse_address("uc://localhost:8080/main.shop.orders")
    Address(url='http://localhost:8080', catalog='main', name=('shop', 'orders'))
    >>> str(parse_address("UC://Lake.Example.com:443/`main`"))
    'uc://lake.example.com/main'
    """

    url: str
    catalog: str
    name: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = (part if _PLAIN.fullmatch(part) else backticked(part) for part in (self.catalog, *self.name))
        return f"{UNITY}{self.url.partition('://')[2]}/{'.'.join(parts)}"


def parse_address(text: Any) -> Address:
    """The address that a text is.

    A part with other signs than letters, digits, ``_`` and ``-`` is in backticks, as in SQL.

    Raises:
        InvalidArgument: it is none; the message names what is wrong and what to write.

    >>> parse_address("uc://adb-1.2.azuredatabricks.net/main.`my schema`.t").name
    ('my schema', 't')
    >>> parse_address("uc://localhost/main/shop")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: the address 'uc://localhost/main/shop' has a slash in its name; parts ...
    """
    if not is_of_unity(text):
        raise InvalidArgument(f"{shown(text)} is not an address of Unity Catalog; give {FORM}")
    rest = text[len(UNITY):]
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in authority or "@" in rest.partition("`")[0]:
        raise InvalidArgument(  # without the text, since a password may be in it
            "an address of Unity Catalog has no user, password or token in it; pass token=..., client_id=... "
            "or profile=... beside it (a name with '@' goes into backticks)")
    url = _url_of(authority)
    mark, path = rest[len(authority):][:1], rest[len(authority) + 1:]
    if mark in ("?", "#"):
        _refuse(text, mark)
    if not path:
        raise InvalidArgument(f"the address {shown(text)} names no catalog; give {FORM}")
    catalog, *name = _parts_of(path, text)
    return Address(url, catalog, tuple(name))


def origin_of(url: str) -> str:
    """The beginning of a URL, scheme, host and port alone, in the form of :attr:`Address.url`.

    >>> origin_of("https://Lake.example.com:443/oidc/v1/token")
    'https://lake.example.com'

    Raises:
        InvalidArgument: it is no URL of a server, or has a user in it.
    """
    scheme, _, rest = url.partition("://")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if "@" in authority:
        raise InvalidArgument("the URL of a server has no user and no password in it; leave them out")
    if scheme.lower() not in _DEFAULT_PORTS or not _URL.fullmatch(rest):
        raise InvalidArgument(f"{shown(url)} is not the URL of a server; give one such as https://host")
    return _url_of(authority, scheme.lower())


def is_safe(url: str) -> bool:
    """Whether secrets may be sent to a URL: by HTTPS, or to this machine.

    >>> is_safe("https://lake.example.com"), is_safe("http://lake.example.com"), is_safe("http://[::1]:80/token")
    (True, False, True)

    Raises:
        InvalidArgument: it is no URL of a server, or has a user in it.
    """
    scheme, _, authority = origin_of(url).partition("://")
    return scheme == "https" or is_loopback(str(urlsplit(f"//{authority}").hostname))


def _url_of(authority: str, scheme: str | None = None) -> str:
    """The URL of a server by its host and port; without a scheme that which is safe there.

    Raises:
        InvalidArgument: no host, a host or a port that none can be.
    """
    match = _AUTHORITY.fullmatch(authority)
    if match is None:  # what is there instead is not shown: a password may be in it
        raise InvalidArgument("the address of a server begins with its host and a port, as in localhost:80; "
                              "an IPv6 address is in brackets, as in [::1]:80")
    host = _host_of(match)
    scheme = scheme or ("http" if is_loopback(host) else "https")
    if match["port"] is None:
        return f"{scheme}://{host}"
    if not _PORT.fullmatch(match["port"]) or not 0 < int(match["port"]) < 2**16:
        # the port is not shown: it may be a password
        raise InvalidArgument(f"the port of the host {shown(host)} is not a number from 1 to 65535")
    port = int(match["port"])
    return f"{scheme}://{host}" + ("" if port == _DEFAULT_PORTS[scheme] else f":{port}")


def _host_of(match: re.Match[str]) -> str:
    """The host, in lower case; an IPv6 address in its short form."""
    if match["six"] is not None:
        try:
            return f"[{ipaddress.IPv6Address(match['six'])}]"
        except ValueError:
            raise InvalidArgument(f"{shown(match['six'])} is not an IPv6 address") from None
    if not match["host"]:
        raise InvalidArgument(f"the address of a server names a host, as in {FORM}")
    if not _HOST.fullmatch(match["host"]):
        raise InvalidArgument(f"{shown(match['host'])} is not the name of a host: it has ASCII letters, "
                              "digits, dots and hyphens; write others as xn--...")
    return str(match["host"]).lower()


def _parts_of(path: str, text: str) -> list[str]:
    """The parts of a full name, out of their quotes and checked."""
    parts: list[str] = []
    at = 0
    while True:
        match = _PART.match(path, at)
        if match is None:
            _refuse(text, path[at:at + 1])
        quoted, plain = match.groups()
        parts.append(plain if quoted is None else quoted.replace("``", "`"))
        check_part(parts[-1], text)
        at = match.end()
        if at == len(path):
            break
        if path[at] != ".":
            _refuse(text, path[at])
        at += 1
    if len(parts) > MAX_PARTS:
        raise InvalidArgument(f"the name in the address {shown(text)} has {len(parts)} parts, and at most "
                              f"{MAX_PARTS} are allowed: catalog, schema and table")
    return parts


def _refuse(text: str, sign: str) -> NoReturn:
    problem = _ENDINGS.get(sign) or f"has {sign!r} in a part; put the part into backticks, as in `my part`"
    raise InvalidArgument(f"the address {shown(text)} {problem}")
