"""Local paths as Spark and Hadoop spell them, and names that they overlook.

What lives here: spellings alone; no file is touched.
What it does not know: tables, which files to read.
"""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

GLOB = frozenset("?*[]{}\\")
"""Characters of a pattern. Told that a path is none, Spark reads the file; but where it looks for
partitions in folders, it then reads the files beside it once more."""

SIMPLE = r"^([A-Za-z0-9=][A-Za-z0-9_.=-]*/)*[A-Za-z0-9][A-Za-z0-9_.=-]*$"
"""Paths in a log that name a file of the table's folder letter by letter, none that Spark overlooks."""

_LEGAL = "/_-!.~'()*,;:$&+=@"
_ESCAPED = ("Cc", "Zs", "Zl", "Zp")  # of the characters beyond ASCII


def is_overlooked(base: str) -> bool:
    """Names that Spark takes for hidden, and names Hadoop's checksum files cannot be made of."""
    return base.startswith(("_", ".")) or ":" in base


def spark_path(local: str) -> str:
    """A local path as Spark is given it."""
    return "file:" + local


def literal_pattern(local: str) -> str:
    """A pattern that stands for one local path alone.

    >>> literal_pattern("/lake/a[1]*.parquet")
    'file:/lake/a\\\\[1\\\\]\\\\*.parquet'
    """
    return spark_path("".join(f"\\{c}" if c in GLOB else c for c in local))


def file_path(local: str) -> str:
    """``_metadata.file_path`` of a local file: a URI by Java's rules of what must be escaped.

    >>> file_path("/lake/a b/ü%.parquet")
    'file:/lake/a%20b/ü%25.parquet'
    """
    if local.isascii():
        return "file:" + quote(local, safe=_LEGAL)
    return "file:" + "".join(
        quote(c, safe=_LEGAL) if c.isascii() or unicodedata.category(c) in _ESCAPED else c
        for c in local)
