"""Where a table is in an object store: its URI, taken apart and told in one way.

What lives here: which schemes name which service, and :class:`Location`, what stands in a URI.
What it does not know: how to get there (options, credentials), and whether anything is there.

A key is taken as it is written: ``s3://lake/a%20b`` is a key with a percent sign, as for the services' own
tools and Hadoop. Only the paths inside a log are percent-encoded.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any, NamedTuple

from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import redacted, without_credentials

__all__ = ["SERVICES", "UNITY", "Location", "is_of_unity", "is_served", "parse"]

UNITY = "uc://"
"""Begins the address of what a Unity Catalog has: no store serves that, its catalog opens it."""

SERVICES = {"s3": "S3", "gs": "Google Cloud Storage", "az": "Azure Storage"}
"""The services by the short name that stands for each here."""

_KINDS = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://(?P<host>[^/]*)(?P<path>.*)", re.DOTALL)
_ACCOUNT = re.compile(
    r"(?P<container>[^@]+)@(?P<account>[a-z0-9]+)\.(?:dfs|blob)\.(?P<suffix>[a-z0-9.\-]+)")
_NO_PATHS = ("", ".", "..")


class Location(NamedTuple):
    """A place in a bucket (Azure's containers are buckets here).

    ``key`` has no slash at either end; "" is the bucket itself. ``account`` is Azure's, where the URI has it.
    """

    kind: str
    bucket: str
    key: str
    root: str
    """The URI in its one spelling."""
    account: str = ""
    endpoint: str = ""
    """Where Azure's account is reached, where the URI says so and it is not the usual cloud."""

    @property
    def service(self) -> str:
        """The service's name in messages."""
        return SERVICES[self.kind]

    def named(self, name: str) -> str:
        """The key of a name below it."""
        return f"{self.key}/{name}" if self.key else name

    def at(self, key: str) -> Location:
        """Another place in the same bucket."""
        key = _normal(key)
        start = self.root.removesuffix(self.key).rstrip("/") if self.key else self.root
        return self._replace(key=key, root=f"{start}/{key}" if key else start)


def is_of_unity(text: Any) -> bool:
    """Whether a text means an address of Unity Catalog, well formed or not.

    >>> is_of_unity("uc://localhost/main"), is_of_unity("s3://bucket/main"), is_of_unity(None)
    (True, False, False)
    """
    return isinstance(text, str) and text[:len(UNITY)].lower() == UNITY


def is_served(text: str) -> bool:
    """Whether it is a URI of an object store.

    >>> is_served("s3://lake/t"), is_served("S3A://lake/t"), is_served("file:///lake/t"), is_served("s3:/x")
    (True, True, False, False)
    """
    scheme, colon, _ = text.partition("://")
    return bool(colon) and scheme.lower() in _KINDS


def parse(text: str) -> Location:
    """The place that a URI names.

    Raises:
        InvalidArgument: credentials in the URI, no bucket, or a name that no bucket has.

    >>> parse("s3a://lake//flights/./2013/").root, parse("s3://lake").key
    ('s3://lake/flights/2013', '')
    >>> place = parse("abfss://lake@nyc.dfs.core.windows.net/flights")
    >>> place.bucket, place.account, place.key
    ('lake', 'nyc', 'flights')
    >>> parse("s3://me:secret@lake/t")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: s3://***@lake/t has credentials in it; give them as storage_options=...
    """
    match = _URI.fullmatch(text)
    if match is None or match["scheme"].lower() not in _KINDS:
        raise InvalidArgument(f"{redacted(text)} names no object store", path=redacted(text))
    scheme, host = match["scheme"].lower(), match["host"]
    if without_credentials(text) != text:
        raise InvalidArgument(
            f"{redacted(text)} has credentials in it; give them as storage_options={{...}} or in the "
            "environment: a table's path is shown and logged", path=redacted(text))
    kind, key = _KINDS[scheme], _normal(match["path"])
    account = endpoint = ""
    bucket = host
    if kind == "az" and "@" in host:
        named = _ACCOUNT.fullmatch(host)
        if named is None:
            raise InvalidArgument(f"{text} names no account; write it like "
                                  "abfss://container@account.dfs.core.windows.net/path", path=text)
        bucket, account = named["container"], named["account"]
        if named["suffix"] != "core.windows.net":
            endpoint = f"https://{account}.blob.{named['suffix']}"
    if not bucket or bucket in _NO_PATHS or "@" in bucket or any(sign in bucket for sign in "?#%: \\"):
        raise InvalidArgument(f"{redacted(text)} names no bucket; write it like {scheme}://bucket/path",
                              path=redacted(text))
    if kind == "s3" and bucket.endswith("--x-s3"):
        raise InvalidArgument(
            f"{text} is in a directory bucket (S3 Express), which lists objects in no order: versions of a "
            "table cannot be followed there. Keep it in a general purpose bucket", path=text)
    shown = {"s3": "s3", "gs": "gs"}.get(kind, scheme)
    root = f"{shown}://{host}" + (f"/{key}" if key else "")
    return Location(kind, bucket, key, root, account, endpoint)


def _normal(path: str) -> str:
    """Without ``.``, ``..``, empty parts and slashes at the ends; above the bucket there is nothing."""
    return posixpath.normpath("/" + path.lstrip("/")).strip("/")
