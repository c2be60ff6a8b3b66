"""Equalities of columns, as a merge has them, and names alone: read without the SQL parser.

What lives here: :func:`read`, :func:`pieces`, :func:`name` and :func:`names`. As :mod:`deltanb.sql.plain`
does, they answer for text of which every character is accounted for, with what the parser would say.
What it does not know: constants, functions, casts, brackets, OR.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as t

from deltanb.errors import DeltaError
from deltanb.schema.types import StructType
from deltanb.sql.constants import SPACE
from deltanb.sql.expressions import Column, Expression, joined
from deltanb.sql.members import folded
from deltanb.sql.names import resolve_column
from deltanb.sql.operands import Operands
from deltanb.sql.plain import RESERVED, constant

_NAME = r"(?:[a-z_][a-z_0-9]*|`[^`\\\ud800-\udfff]+`)"
_PATH = rf"{_NAME}(?:\.{_NAME})*"
_PARTS = re.compile(_NAME, re.I | re.ASCII)
_ALONE = re.compile(rf"{SPACE}*(?P<path>{_PATH}){SPACE}*", re.I | re.ASCII)
_EQUAL = re.compile(
    rf"{SPACE}*(?P<term>(?P<left>{_PATH}){SPACE}*(?P<sign><=>|=){SPACE}*(?P<right>{_PATH}))"
    rf"(?:{SPACE}+and(?={SPACE})|{SPACE}*(?P<end>\Z))", re.I | re.ASCII)


def read(sql: str, schema: StructType) -> Expression | None:
    """The condition, resolved over the columns of a schema; None where the parser has to say what it is.

    >>> from deltanb.schema.types import PrimitiveType, StructField
    >>> schema = StructType([StructField(name, PrimitiveType("integer")) for name in "ab"])
    >>> read("a = b", schema).op, read("a = b + 1", schema)
    ('eq', None)
    """
    equal = _equalities(sql)
    if equal is None:
        return None
    operands = Operands(sql)
    found = []
    for one in equal:
        left, right = (_column(sql, schema, one[side]) for side in ("left", "right"))
        if left is None or right is None:
            return None
        try:
            found.append(operands.compare("eq" if one["sign"] == "=" else "null_safe_eq", left, right))
        except DeltaError:  # told again by who knows the place
            return None
    return joined("and", folded("and", found))


def pieces(sql: str) -> list[str] | None:
    """The texts that AND joins; None where somebody else has to look.

    >>> pieces("t.a = s.a AND  t.b <=> s.b")
    ['t.a = s.a', 't.b <=> s.b']
    """
    equal = _equalities(sql)
    if equal is None:
        return None
    return [sql] if len(equal) == 1 else [one["term"] for one in equal]


def name(sql: str) -> list[str] | None:
    """The parts of the name that a whole text is; None where the parser has to say what it is.

    >>> name("s.`a b`"), name("s.a + 1")
    (['s', 'a b'], None)
    """
    found = _ALONE.fullmatch(sql)
    return None if found is None else _parts(found["path"])


def names(sql: str) -> list[tuple[list[str], int]] | None:
    """The names in equalities, in a name or in a constant: the parts of each, and where it begins.

    None where the parser has to say.

    >>> names("t.a = `b c`"), names("1"), names("a + 1")
    ([(['t', 'a'], 0), (['b c'], 6)], [], None)
    """
    if constant(sql) is not None:
        return []
    alone = _ALONE.fullmatch(sql)
    if alone is not None:
        parts = _parts(alone["path"])
        return None if parts is None else [(parts, alone.start("path"))]
    equal = _equalities(sql)
    if equal is None:
        return None
    return [(_parts(one[side]) or [], one.start(side)) for one in equal for side in ("left", "right")]


def _equalities(sql: str) -> list[re.Match[str]] | None:
    found: list[re.Match[str]] = []
    place = 0
    while not found or found[-1]["end"] is None:
        term = _EQUAL.match(sql, place)
        if term is None or _parts(term["left"]) is None or _parts(term["right"]) is None:
            return None
        found.append(term)
        place = term.end()
    return found


def _parts(path: str) -> list[str] | None:
    """The parts of a name; None where one is a word that may be more than a name."""
    parts: list[str] = _PARTS.findall(path)
    if any(part.lower() in RESERVED or part.lower().startswith("current_") for part in parts):
        return None
    return [part.strip("`") for part in parts]


def _column(sql: str, schema: StructType, path: str) -> Column | None:
    try:
        found = resolve_column(sql, schema, _parts(path) or [], "")
    except DeltaError:
        return None
    return None if t.is_nested(found.type) or isinstance(found.type, pa.BaseExtensionType) else found
