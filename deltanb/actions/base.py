"""What all actions have in common: their names in the log, the check of their types, JSON both ways.

What lives here: the base class, and the decorator that makes a frozen value of a class with annotations.
What it does not know: any action.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from deltanb.errors import InvalidAction
from deltanb.text.display import Displayable

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: object) -> object:
        """Only type checkers ask for it; in the standard library it is from Python 3.11 on."""
        return lambda decorator: decorator


__all__ = ["BY_KEY", "Action", "action", "as_json", "camel", "check_texts", "extra_fields", "wire_hash"]

_JSON_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object",
               list: "array", type(None): "null"}
_PLAIN = frozenset({str, int, bool, float, dict})  # are in the JSON as they are in Python
MAX_LONG = 2**63  # numbers of the log are longs, in every implementation
_A = TypeVar("_A", bound="Action")
as_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode  # dumps makes one a call


def camel(name: str) -> str:
    """A field's name in the log.

    >>> camel("modification_time")
    'modificationTime'
    """
    head, *tail = name.split("_")
    return head + "".join(word.capitalize() for word in tail)


def _json_value(value: Any) -> Any:
    if isinstance(value, Action):
        return value.to_value()
    if isinstance(value, tuple):
        return [_json_value(item) for item in value]
    return value


class Action(Displayable):
    """Base of all actions. ``key`` is the name the log wraps the action in.

    >>> from deltanb.actions import RemoveFile, from_json
    >>> removed = from_json('{"remove":{"path":"a","dataChange":true,"reason":"theirs"}}')
    >>> isinstance(removed, RemoveFile), removed.path, removed.extra
    (True, 'a', {'reason': 'theirs'})
    """

    key: ClassVar[str]
    _checks: ClassVar[tuple[tuple[str, str, tuple[type, ...], bool], ...]] = ()
    _wire: ClassVar[dict[str, str]] = {}
    _by_wire: ClassVar[dict[str, str]] = {}
    _names: ClassVar[tuple[str, ...]] = ()
    _blank: ClassVar[dict[str, Any]] = {}
    """Each field with its default, MISSING where it has none or where one is made each time."""
    _required: ClassVar[tuple[str, ...]] = ()
    _makes: ClassVar[tuple[tuple[str, Callable[[], Any]], ...]] = ()
    extra: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        BY_KEY[cls.__dict__.get("key", "")] = cls

    def __post_init__(self) -> None:
        own = self.__dict__
        for name, wire, types, required in self._checks:
            value = own[name]
            if value is None and not required:
                continue
            kind = type(value)
            if kind is types[0] and (kind is not int or -MAX_LONG <= value < MAX_LONG):
                continue  # as nearly all are
            if not isinstance(value, types) or (bool not in types and isinstance(value, bool)):
                expected = " or ".join(_JSON_NAMES.get(t, t.__name__) for t in types[:1])
                actual = _JSON_NAMES.get(type(value), type(value).__name__)
                raise InvalidAction(
                    f"{self.key}.{wire} must be of type {expected}, found {actual}: {value!r:.80}",
                    field=wire,
                )
            if type(value) is int and not -MAX_LONG <= value < MAX_LONG:
                raise InvalidAction(
                    f"{self.key}.{wire} must lie between {-MAX_LONG} and {MAX_LONG - 1}", field=wire)

    def to_value(self) -> dict[str, Any]:
        """The JSON object inside the wrapper, without absent fields.

        >>> from deltanb.actions import SetTransaction
        >>> SetTransaction(app_id="nightly", version=7).to_value()
        {'appId': 'nightly', 'version': 7}
        """
        out = {}
        for name, wire in self._wire.items():
            value = getattr(self, name)
            if value is not None:
                out[wire] = value if type(value) in _PLAIN else _json_value(value)
        out.update(self.extra)
        return out

    def to_dict(self) -> dict[str, Any]:
        """``{key: {...}}`` as one line of a commit holds it.

        >>> from deltanb.actions import SetTransaction
        >>> SetTransaction(app_id="nightly", version=7).to_dict()
        {'txn': {'appId': 'nightly', 'version': 7}}
        """
        return {self.key: self.to_value()}

    @cached_property
    def value_json(self) -> str:
        """:meth:`to_value` as JSON, kept: metadata and protocol go into the checksum of every version.

        >>> from deltanb.actions import Protocol
        >>> Protocol(1, 2).value_json
        '{"minReaderVersion":1,"minWriterVersion":2}'
        """
        return as_json(self.to_value())

    def to_json(self) -> str:
        """One line of a commit file.

        >>> from deltanb.actions import Protocol, from_json
        >>> line = Protocol(1, 2).to_json()
        >>> line
        '{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}'
        >>> from_json(line) == Protocol(1, 2)
        True
        """
        return as_json(self.to_dict())

    @classmethod
    def from_value(cls: type[_A], value: Mapping[str, Any]) -> _A:
        """Build from the JSON object inside the wrapper.

        Raises:
            InvalidAction: a required field is absent or a field has the wrong type.

        >>> from deltanb.actions import SetTransaction
        >>> SetTransaction.from_value({"appId": "nightly", "version": 7}).app_id
        'nightly'
        >>> SetTransaction.from_value({"appId": "nightly"})
        Traceback (most recent call last):
            ...
        deltanb.errors.InvalidAction: txn lacks version
        """
        if type(value) is not dict and not isinstance(value, Mapping):
            raise InvalidAction(f"{cls.key} must be an object, found {value!r:.80}")
        names, extra, made = cls._by_wire, {}, object.__new__(cls)
        own = made.__dict__
        own.update(cls._blank)
        for wire, item in value.items():
            if (name := names.get(wire)) is None:
                extra[wire] = item
            elif item is not None:
                own[name] = tuple(item) if isinstance(item, list) else item
        own["extra"] = extra
        absent = [cls._wire[name] for name in cls._required if own[name] is MISSING]
        if absent:
            raise InvalidAction(f"{cls.key} lacks {', '.join(absent)}")
        for name, make in cls._makes:
            if own[name] is MISSING:
                own[name] = make()
        try:
            made.__post_init__()
        except TypeError as error:
            raise InvalidAction(f"{cls.key} is not valid: {error}") from None
        return made

    def replace(self: _A, **changes: Any) -> _A:
        """A copy with some fields changed.

        >>> from deltanb.actions import AddFile
        >>> AddFile("a", {}, 5, 0).replace(data_change=False).to_value()["dataChange"]
        False
        """
        own, made = self.__dict__, object.__new__(type(self))
        values = {name: own[name] for name in self._names}  # and nothing that was computed from them
        values.update(changes)
        if len(values) > len(self._names):
            raise TypeError(f"{self.key} has no field {', '.join(sorted(changes.keys() - set(self._names)))}")
        made.__dict__.update(values)
        made.__post_init__()
        return made


BY_KEY: dict[str, type[Action]] = {}


def check_texts(where: str, values: Iterable[Any]) -> None:
    """Refuse values among those of a list or map that are not strings: InvalidAction."""
    for value in values:
        if not isinstance(value, str):
            raise InvalidAction(f"{where} holds strings, found {value!r:.80}")


def _is_required(f: Field[Any]) -> bool:
    return f.default is MISSING and f.default_factory is MISSING


_CHECKED: dict[str, tuple[type, ...]] = {
    "str": (str,), "int": (int,), "bool": (bool,), "dict": (dict,), "Mapping": (dict,),
    "tuple": (tuple, list), "Sequence": (tuple, list),
}


def extra_fields() -> Any:
    """The field for what this library does not know: kept and written back."""
    return field(default_factory=dict)


@dataclass_transform(frozen_default=True, field_specifiers=(field, extra_fields))
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def action(cls: type[_A]) -> type[_A]:
    """Make a frozen value of the class and compile its wire names and type checks."""
    made = dataclass(frozen=True, repr=False)(cls)
    made.__hash__ = wire_hash  # type: ignore[method-assign, assignment]
    wire: dict[str, str] = {}
    checks = []
    for f in fields(made):  # type: ignore[arg-type]
        if f.name == "extra":
            continue
        wire[f.name] = f.metadata.get("wire", camel(f.name))
        base = str(f.type).split("|")[0].split("[")[0].strip()
        if base in _CHECKED:
            optional = "None" in str(f.type)
            checks.append((f.name, wire[f.name], _CHECKED[base], not optional))
    made._wire, made._by_wire = wire, {key: name for name, key in wire.items()}
    made._names = tuple(f.name for f in fields(made))  # type: ignore[arg-type]
    made._checks = tuple(checks)
    made._blank = {f.name: f.default for f in fields(made)}  # type: ignore[arg-type]
    made._required = tuple(f.name for f in fields(made) if _is_required(f))  # type: ignore[arg-type]
    made._makes = tuple((f.name, f.default_factory) for f in fields(made)  # type: ignore[arg-type]
                        if f.default_factory is not MISSING and f.name != "extra")
    return made


def wire_hash(self: Action) -> int:
    """Of the JSON: fields may hold dicts."""
    return hash(self.to_json())
