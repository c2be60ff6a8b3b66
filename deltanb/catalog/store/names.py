"""Names in a catalog: namespaces, tables, and the pages in which they are listed.

What lives here: which names a catalog allows, how a namespace is stored (its parts joined by dots, as in
PyIceberg's and Java's catalogs in a database), and the tokens of pages.
What it does not know: the database.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from deltanb.errors import InvalidArgument
from deltanb.text.display import Displayable
from deltanb.text.safe_text import shown

__all__ = ["Page", "TableName", "check_part", "joined", "parts_of", "token_after"]

MAX_NAME = 255  # characters: what a column of the shared schema holds
MAX_PAGE = 10_000  # rows of one page: about a megabyte of names

T = TypeVar("T")


class TableName(NamedTuple):
    """A table's full name: the parts of its namespace, at least one, and its own name.

    >>> str(TableName.of("sales.eu.orders"))
    'sales.eu.orders'
    >>> TableName.of("sales..orders")
    Traceback (most recent call last):
    deltanb.errors.InvalidArgument: the name 'sales..orders' has an empty part; every part needs a name
    """

    namespace: tuple[str, ...]
    name: str

    def __str__(self) -> str:
        return ".".join((*self.namespace, self.name))

    @classmethod
    def of(cls, name: Any) -> TableName:
        """A name from text with dots, or from (namespace, name), its parts checked.

        Raises:
            InvalidArgument: a part that is not allowed, or no namespace.
        """
        if isinstance(name, str):
            *namespace, last = name.split(".")
            name = (tuple(namespace), last)
        try:
            namespace, last = name
            levels = namespace.split(".") if isinstance(namespace, str) else [*namespace]
        except (TypeError, ValueError):
            what = f"a {type(name).__name__}" if isinstance(name, Displayable) else shown(name)
            raise InvalidArgument(f"{what} is not a table's name; give 'namespace.table'") from None
        whole = ".".join(map(str, [*levels, last]))
        parts = parts_of(levels, whole)
        joined(parts)
        check_part(last, whole)
        return cls(parts, last)


def parts_of(namespace: Any, whole: str | None = None) -> tuple[str, ...]:
    """The parts of a namespace, from text with dots or a sequence of parts, each checked.

    >>> parts_of("sales.eu"), parts_of(["sales", "eu"])
    (('sales', 'eu'), ('sales', 'eu'))

    Raises:
        InvalidArgument: no parts, or one that is not allowed.
    """
    if not isinstance(namespace, Iterable):
        raise InvalidArgument(f"{shown(namespace)} is not a namespace's name; give 'namespace'")
    parts = tuple(namespace.split(".")) if isinstance(namespace, str) else tuple(namespace)
    if not parts:
        raise InvalidArgument(f"the name {shown(whole or '')} has no namespace; give 'namespace.table'")
    for part in parts:
        check_part(part, whole or ".".join(map(str, parts)))
    return parts


def check_part(part: Any, whole: str) -> None:
    """Refuse an invalid part of a name: it becomes a folder's name, and dots join parts.

    Raises:
        InvalidArgument: not text, empty, with a dot or a slash, unprintable, or longer than 255 characters.
    """
    if not isinstance(part, str):
        raise InvalidArgument(f"the name {shown(whole)} has a part that is not text: {shown(part)}")
    if not part:
        raise InvalidArgument(f"the name {shown(whole)} has an empty part; every part needs a name")
    for sign, what in ((".", "a dot, which joins parts"), ("/", "a slash"), ("\\", "a backslash")):
        if sign in part:
            raise InvalidArgument(f"the part {shown(part)} of a name has {what}; leave it out")
    if not part.isprintable():
        raise InvalidArgument(f"the part {shown(part)} of a name has characters that cannot be printed")
    if len(part) > MAX_NAME:
        raise InvalidArgument(f"the part {shown(part)} of a name is longer than {MAX_NAME} characters")


def joined(parts: tuple[str, ...]) -> str:
    """A namespace as it is stored.

    Raises:
        InvalidArgument: longer than the column.
    """
    text = ".".join(parts)
    if len(text) > MAX_NAME:
        raise InvalidArgument(f"the namespace {shown(text)} is longer than {MAX_NAME} characters")
    return text


class Page(NamedTuple, Generic[T]):
    """Some rows of a list, in the order of the database, and the token of the next page (None: the last)."""

    items: tuple[T, ...]
    next_token: str | None

    @classmethod
    def of(cls, keys: list[str], items: list[T], size: int) -> Page[T]:
        """A page of ``size`` rows out of up to ``size + 1``; an extra row means that there are more."""
        return cls(tuple(items[:size]), token_after(keys[size - 1]) if len(items) > size else None)


def all_rows(page: Callable[[str | None], Page[T]]) -> Iterator[T]:
    """The rows of all pages, each of which is asked for when it is reached."""
    token: str | None = None
    while True:
        items, token = page(token)
        yield from items
        if token is None:
            return


def token_after(key: str) -> str:
    """The token of the page that begins after a name.

    >>> key_of(token_after("orders"))
    'orders'
    """
    return base64.urlsafe_b64encode(key.encode()).decode()


def key_of(token: str | None) -> str:
    """The name after which a page begins; without a token the empty one, which precedes all others.

    Raises:
        InvalidArgument: not a token of a page.
    """
    try:
        return base64.b64decode((token or "").encode("ascii"), b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError, AttributeError):
        raise InvalidArgument(
            f"{shown(token)} is not the token of a page; give next_token of the page before") from None


def check_size(size: Any) -> int:
    """The checked size of a page.

    Raises:
        InvalidArgument: not an integer of at least 1; more than 10,000 is 10,000.
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise InvalidArgument(f"the size of a page is an integer of at least 1, found {shown(size)}")
    return min(size, MAX_PAGE)
