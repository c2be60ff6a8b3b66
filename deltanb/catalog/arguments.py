"""Checks of a catalog's arguments; a refusal names the argument.

What lives here: the checks of mappings, lists of names, and places of tables.
What it does not know: which names and places a catalog allows (``names``, ``catalog/store/places``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.text.safe_text import shown

__all__ = ["as_list", "as_mapping", "as_place"]


def as_mapping(value: Any, argument: str) -> dict[str, Any]:
    """A mapping from text, or None for an empty one.

    >>> as_mapping({"owner": "Daisy"}, "properties"), as_mapping(None, "properties")
    ({'owner': 'Daisy'}, {})

    Raises:
        InvalidArgument: something else, or a key that is not text.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise InvalidArgument(f"{argument}={shown(value)} is not a mapping from names to values")
    return dict(value)


def as_list(value: Any, argument: str) -> list[Any]:
    """The members of a list or another iterable, except text: its letters are hardly meant.

    >>> as_list("owner", "removals")
    Traceback (most recent call last):
    deltanb.errors.InvalidArgument: removals='owner' is not a list of names

    Raises:
        InvalidArgument: something else.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidArgument(f"{argument}={shown(value)} is not a list of names")
    return list(value)


def as_place(value: Any, argument: str) -> str:
    """A path or a URI as text.

    Raises:
        InvalidArgument: something else.
    """
    place = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(place, str):
        raise InvalidArgument(f"{argument}={shown(value)} is neither a path nor a URI")
    return place
