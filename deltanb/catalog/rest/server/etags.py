"""ETags of tables: which state of a table an answer shows, and in which form.

What lives here: the tag, and its comparison with what a client sends.
What it does not know: tables. A metadata file never changes, so its location identifies its content.
"""

from __future__ import annotations

import hashlib

__all__ = ["etag_of", "is_same"]


def etag_of(metadata_location: str, snapshots: str) -> str:
    """The tag of a table whose metadata is at a place, shown with ``all`` of its snapshots or ``refs``.

    >>> etag_of("s3://lake/t/1.json", "all") == etag_of("s3://lake/t/1.json", "refs")
    False
    """
    return f'"{hashlib.sha256(metadata_location.encode()).hexdigest()[:32]}-{snapshots}"'


def is_same(header: str, etag: str) -> bool:
    """Whether an ``If-None-Match`` header has a tag (RFC 9110, 13.1.2).

    >>> is_same('"a", W/"b"', '"b"'), is_same("*", '"b"'), is_same('"a"', '"b"')
    (True, True, False)
    """
    known = [tag.strip().removeprefix("W/") for tag in header.split(",")]
    return etag in known or header.strip() == "*"
