"""Paths in Spark's and Hadoop's spelling, local and in buckets, and names that they overlook.

What lives here: only spellings; no file is touched.
What it does not know: tables, which files to read.
"""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

GLOB = frozenset("?*[]{}\\")
"""Characters of a pattern. Told that a path is none, Spark reads the file; but where it looks for
partitions in folders, it then reads the files beside it once more."""

SIMPLE = r"^([A-Za-z0-9=][A-Za-z0-9_.=-]*/)*[A-Za-z0-9][A-Za-z0-9_.=-]*$"
"""Paths in a log that name a file of the table's folder letter by letter, none that Spark overlooks."""

IN_A_BUCKET = re.compile(r"[a-z][a-z0-9+.\-]+://[^/]+/")
"""How a path of Hadoop's in a bucket begins; what follows is the key, in which nothing is encoded."""

_LEGAL = "/_-!.~'()*,;:$&+=@"
_ESCAPED = ("Cc", "Zs", "Zl", "Zp")  # of the characters beyond ASCII


def is_overlooked(base: str) -> bool:
    """Whether Spark takes a name for hidden, or Hadoop cannot make its checksum file's name of it."""
    return base.startswith(("_", ".")) or ":" in base


def spark_path(local: str) -> str:
    """A path in Spark's spelling.

    >>> spark_path("/lake/t"), spark_path("s3a://lake/t")
    ('file:/lake/t', 's3a://lake/t')
    """
    return local if IN_A_BUCKET.match(local) else "file:" + local


def literal_pattern(local: str) -> str:
    """A pattern that matches exactly one local path.

    >>> literal_pattern("/lake/a[1]*.parquet")
    'file:/lake/a\\\\[1\\\\]\\\\*.parquet'
    """
    return spark_path("".join(f"\\{c}" if c in GLOB else c for c in local))


def file_path(local: str) -> str:
    """``_metadata.file_path`` of a file: a URI escaped by Java's rules.

    >>> file_path("/lake/a b/ü%.parquet"), file_path("s3a://lake/a b/1.parquet")
    ('file:/lake/a%20b/ü%25.parquet', 's3a://lake/a%20b/1.parquet')
    """
    bucket = IN_A_BUCKET.match(local)
    start, path = ("file:", local) if bucket is None else (bucket[0], local[bucket.end():])
    if path.isascii():
        return start + quote(path, safe=_LEGAL)
    return start + "".join(
        quote(c, safe=_LEGAL) if c.isascii() or unicodedata.category(c) in _ESCAPED else c
        for c in path)
