"""Columns whose names are words of SQL's grammar, such as ``desc``, ``values`` and ``when``.

What lives here: :func:`with_hint`, the error for SQL that fails for such a name, with the SQL in backquotes.
What it does not know: what the SQL means; whoever asks says whether a text can be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from itertools import combinations

from deltanb.errors import DeltaError, InvalidArgument, InvalidPredicate
from deltanb.schema.types import backticked
from deltanb.sql.arrow_conditions import name_of
from deltanb.text.safe_text import with_cut

__all__ = ["with_hint"]

MAX_WORDS = 8
"""Words that may be names up to which all ways of quoting them are tried: 255 at most."""
_WORD = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`|(?P<word>\b[^\W\d]\w*\b)", re.S)


def with_hint(
    sql: str, names: Collection[str], error: InvalidArgument, read: Callable[[str], object]
) -> InvalidArgument:
    """The error; where the SQL can be read with columns in backquotes, it says so, and how.

    Args:
        sql: what could not be read.
        names: of the columns.
        error: why.
        read: raises an error of this library for SQL that cannot be read.

    >>> from deltanb.schema.types import PrimitiveType, StructField, StructType
    >>> from deltanb.sql.predicates import parse
    >>> columns = StructType([StructField(name, PrimitiveType("long")) for name in ("when", "x")])
    >>> parse("when > 3 AND x = 1", columns)
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidPredicate: 'when > 3 AND x = 1' has a keyword of SQL as the name of a column, \
when; use backquotes: `when` > 3 AND x = 1
    """
    for quoted, words in _quoted(sql, names):
        try:
            read(quoted)
        except DeltaError:
            continue
        many = len(words) > 1
        return InvalidPredicate(
            f"{sql!r} has {'keywords' if many else 'a keyword'} of SQL as the name{'s' if many else ''} of "
            f"{'columns' if many else 'a column'}, {', '.join(words)}; use backquotes: "
            f"{with_cut(quoted, quoted)}", **error.data)
    return error


def _quoted(sql: str, names: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """The SQL with some of the words in backquotes that may be names, and these words; as many as possible
    first, since a word may be in its place for another reason: ``CASE WHEN when > 3``."""
    columns = {name.lower() for name in names}
    words = [match for match in _WORD.finditer(sql) if match["word"] and match["word"].lower() in columns]
    places = [(match.start(), match.end(), match["word"]) for match in words
              if name_of(match["word"]) != match["word"]]
    if len(places) > MAX_WORDS:
        places = []
    for size in range(len(places), 0, -1):
        for chosen in combinations(places, size):
            text = sql
            for start, end, word in reversed(chosen):
                text = text[:start] + backticked(word) + text[end:]
            yield text, list(dict.fromkeys(word for _, _, word in chosen))
