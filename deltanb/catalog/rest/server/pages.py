"""Lists over HTTP: a page for a client that asks for pages, else the whole list, sent page by page.

What lives here: both forms of a list, neither of which holds more than a page of rows.
What it does not know: what is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from deltanb.catalog.rest.server.messages import PAGE, Reply, Request
from deltanb.catalog.store.names import Page

__all__ = ["listed", "values_of"]

T = TypeVar("T")


def listed(
    request: Request, field: str, page: Callable[[str | None, int], Page[T]], value: Callable[[T], Any]
) -> Reply:
    """The answer to a request for a list.

    Args:
        request: with the parameters ``pageToken`` and ``pageSize``.
        field: the list's name in the answer.
        page: reads the page that begins at a token.
        value: the JSON of a row; None leaves it out.
    """
    token, size = request.page
    first = page(token, size or PAGE)
    if size is None and first.next_token is not None:
        return Reply(parts=_all(field, first, page, value))
    return Reply(value={field: values_of(first, value), "next-page-token": first.next_token})


def values_of(page: Page[T], value: Callable[[T], Any]) -> list[Any]:
    """The JSON of a page's rows, without those that have none."""
    return [each for each in map(value, page.items) if each is not None]


def _all(
    field: str, page: Page[T], more: Callable[[str | None, int], Page[T]], value: Callable[[T], Any]
) -> Iterator[bytes]:
    yield b'{"%s":[' % field.encode()
    is_first = True
    while True:
        rows = msgspec.json.encode(values_of(page, value))[1:-1]
        if rows:
            yield rows if is_first else b"," + rows
            is_first = False
        if page.next_token is None:
            break
        page = more(page.next_token, PAGE)
    yield b'],"next-page-token":null}'
