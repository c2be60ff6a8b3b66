"""Which columns come first if not all fit: those that a commit's conditions name.

What lives here: names of columns found in the parameters of an operation, and the order of columns.
What it does not know: commits, tables, rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from deltanb.text import formatting as units
from deltanb.transaction.operations import MATCHED

CONDITIONS = (
    "predicate", *MATCHED, "matchedPredicates", "notMatchedPredicates", "notMatchedBySourcePredicates")
"""Parameters of commits that hold conditions."""
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
_NAME = re.compile(r"`([^`]+)`|([^\W\d]\w*)")


def named(parameters: Any, names: Iterable[str]) -> list[str]:
    """The columns of ``names`` that the conditions of a commit name, in the order of the conditions.

    >>> said = {"predicate": '["carrier = \\'month\\' AND `dep delay` > 1"]'}
    >>> named(said, ["month", "dep delay", "Carrier"])
    ['Carrier', 'dep delay']
    """
    if not isinstance(parameters, Mapping):
        return []
    known = {name.lower(): name for name in names}
    words = [word.lower() for key in CONDITIONS for text in _texts(units.parsed(parameters.get(key)))
             for match in _NAME.finditer(_QUOTED.sub("", text)) if (word := match[1] or match[2])]
    return list(dict.fromkeys(known[word] for word in words if word in known))


def ordered(names: Iterable[str], *first: Iterable[str]) -> list[str]:
    """The names, those of ``first`` ahead of the others.

    >>> ordered(["a", "b", "c"], ["c"], ["x", "b"])
    ['c', 'b', 'a']
    """
    names = list(names)
    ahead = dict.fromkeys(name for some in first for name in some if name in names)
    return [*ahead, *(name for name in names if name not in ahead)]


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(value.get("predicate"))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
