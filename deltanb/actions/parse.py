"""From a line of JSON to its action.

What lives here: :func:`from_json` and :func:`from_dict`, and :class:`UnknownAction` for what has no class.
What it does not know: any other action; each class registers itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from deltanb.actions.base import BY_KEY, Action, as_json, extra_fields, wire_hash
from deltanb.actions.data_files import DeletionVector
from deltanb.actions.markers import Participant, TransactionGroup
from deltanb.errors import InvalidAction
from deltanb.text.damage import what_is_wrong

_PARTS = frozenset({DeletionVector, Participant})
"""Values within actions, which no line of a commit holds by themselves."""


@dataclass(frozen=True, repr=False)
class UnknownAction(Action):
    """An action this library does not know: kept, written back, otherwise ignored.

    >>> action = from_json('{"newThing":{"a":1}}')
    >>> action.name, action.to_json()
    ('newThing', '{"newThing":{"a":1}}')
    """

    name: str
    value: Any
    extra: dict[str, Any] = extra_fields()
    key = ""

    def to_dict(self) -> dict[str, Any]:
        """The action as it was read.

        >>> UnknownAction("newThing", {"a": 1}).to_dict()
        {'newThing': {'a': 1}}
        """
        return {self.name: self.value}

    def __hash__(self) -> int:
        return wire_hash(self)


def from_dict(wrapped: Mapping[str, Any]) -> Action:
    """The action in one line of a commit, already parsed.

    Raises:
        InvalidAction: not an object with one action, or a field of the wrong type.

    >>> from_dict({"txn": {"appId": "nightly", "version": 7}}).version
    7
    """
    if type(wrapped) is not dict and not isinstance(wrapped, Mapping):
        raise InvalidAction(f"an action is a JSON object, found {wrapped!r:.80}")
    present = [(key, value) for key, value in wrapped.items() if value is not None]
    if len(present) != 1:
        raise InvalidAction(
            f"an action is an object with one key, found {[key for key, _ in present]}"
        )
    key, value = present[0]
    cls = BY_KEY.get(key)
    if cls is None or not key or cls in _PARTS:
        return UnknownAction(key, value)
    if cls is TransactionGroup:  # readers may ignore it, also where it is not as it is proposed today
        with suppress(InvalidAction):
            return cls.from_value(value)
        return UnknownAction(key, value)
    return cls.from_value(value)


def from_json(line: str | bytes) -> Action:
    """The action in one line of a commit.

    Raises:
        InvalidAction: the text is not JSON, or no action.

    >>> from_json('{"add": {"path": "a", "size": "1"}}')
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidAction: add.size must be of type integer, found string: '1'
    """
    try:  # several times as fast, and stricter: what it refuses may still be JSON to others
        wrapped = _decoded(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        wrapped = _leniently(line)
    return from_dict(wrapped)


def _leniently(line: str | bytes) -> Any:
    try:
        wrapped = json.loads(line)
        if (b"\\ud" if isinstance(line, bytes) else "\\ud") in line.lower():  # type: ignore[operator]
            as_json(wrapped).encode()  # an unpaired surrogate, which no file of the table can hold
    except (ValueError, RecursionError) as error:
        raise InvalidAction(f"an action must be JSON: {what_is_wrong(error)}") from None
    return wrapped


_decoded = msgspec.json.Decoder().decode
