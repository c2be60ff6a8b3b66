"""Columns as people name them: those by which rows are found, compared or shown.

What lives here: one reading of such an argument, and its names as a side spells them.
What it does not know: paths into structs (``paths``), conditions (``sql/``).

A text is one name, or one in SQL's backquotes; the names of a list are as they are, so that those of a frame
can be handed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

__all__ = ["column_names", "quoted_name", "spelled"]

_QUOTED = re.compile(r"`((?:[^`]|``)+)`")


def quoted_name(text: str) -> str | None:
    """The name that a text in backquotes stands for; None without them.

    >>> quoted_name("`the day`"), quoted_name("`a``b`"), quoted_name("day")
    ('the day', 'a`b', None)
    """
    match = _QUOTED.fullmatch(text.strip())
    return None if match is None else match[1].replace("``", "`")


def column_names(value: Any, what: str, *, may_be_empty: bool = False) -> tuple[str, ...]:
    """The names in an argument, not yet compared with columns.

    Raises:
        InvalidArgument: neither a name nor a list of names; ``what`` is the name of the argument.

    >>> column_names("id", "on"), column_names("`the day`", "on"), column_names(["day", "`id`"], "on")
    (('id',), ('the day',), ('day', '`id`'))
    """
    if isinstance(value, str):
        name = quoted_name(value)
        names: tuple[Any, ...] = (value if name is None else name,)
    else:
        is_list = isinstance(value, Iterable) and not isinstance(value, Mapping | bytes)
        names = tuple(value) if is_list else (value,)
    if not all(isinstance(name, str) and name for name in names) or not (names or may_be_empty):
        raise InvalidArgument(f"{what}={shown(value)} is neither a column's name nor a list of them")
    return names


def spelled(names: Iterable[str], columns: Iterable[str], side: str, more: str = "") -> list[str]:
    """The names as a side spells them: the exact one, or else without case.

    Args:
        side: the argument and whose columns they are, as the beginning of the error.
        more: a sentence on what else can be done, for its end.

    Raises:
        InvalidArgument: which column the side does not have.

    >>> spelled(["ID"], ["Id", "day"], "on: the source")
    ['Id']
    >>> spelled(["pond.name"], ["id", "pond"], "on: the source")
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: on: the source has no column 'pond.name'; did you mean pond? Whole ...
    """
    present = list(columns)
    lowered = {name.lower(): name for name in reversed(present)}
    for name in names:
        if name.lower() not in lowered:
            head, dot, _ = name.partition(".")
            text = f"{side} has no column {name!r}; {did_you_mean(name, present)[0]}"
            is_path = bool(dot) and head.lower() in lowered
            inside = f"Whole columns are named, not a field of {head!r}" if is_path else ""
            for sentence in filter(None, (inside, more)):
                text += f"{'' if text.endswith('?') else '.'} {sentence}"
            raise InvalidArgument(text, column=name)
    return [name if name in present else lowered[name.lower()] for name in names]
