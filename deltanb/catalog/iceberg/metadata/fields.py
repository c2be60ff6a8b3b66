"""Fields of a request: checked, each refusal with the path of the field.

What lives here: checks of JSON values, put together like the values themselves (``record`` of ``text``,
``array`` of ``whole(32)``). A check takes a value and its path and gives a copy that shares no list and no
object with the request; fields that may be left out may be null, and then are left out of the copy. A check
also knows the JSON schema of what it accepts, so that OpenAPI is derived from it (``described``).
What it does not know: any request, and Iceberg.
"""

from __future__ import annotations

import base64
import math
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn, TypeVar, cast

from deltanb.errors import BadRequest
from deltanb.text.safe_text import shown

__all__ = ["Check", "Json", "array", "base64_text", "choice", "deferred", "described", "flag", "mapping",
           "maybe", "named", "plain", "record", "refuse", "shaped", "tagged", "text", "texts", "to_json",
           "uuid_text", "whole"]

Json = dict[str, Any]
Check = Callable[[Any, str], Any]

MAX_DEPTH = 100  # of nested values: Python's own stack ends a few hundred levels further
_NAMES = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", dict: "an object",
          list: "an array", type(None): "null"}


def refuse(path: str, reason: str) -> NoReturn:
    """Refuse the field at a path, for a reason that goes on after its name.

    >>> refuse("updates[0].schema-id", "must be an integer")
    Traceback (most recent call last):
    deltanb.errors.BadRequest: updates[0].schema-id must be an integer

    Raises:
        BadRequest: always.
    """
    raise BadRequest(f"{path} {reason}", field=path)


def _refuse_type(value: Any, path: str, expected: str) -> NoReturn:
    type_name = _NAMES.get(type(value), type(value).__name__)
    detail = f": {shown(value)}" if isinstance(value, str | int | float) and value is not None else ""
    refuse(path, f"must be {expected}, found {type_name}{detail}")


# -- what a check accepts, as a JSON schema, and how a value is written -------------------------------


C = TypeVar("C", bound=Check)
Describe = Callable[[Check], Json]


def shaped(
    schema: Json | Check, *others: Check, write: Callable[[Any], Any] | None = None
) -> Callable[[C], C]:
    """Give a check its JSON schema, that of another check, or of one of several.

    ``write`` makes the JSON of a value that the check reads; without it, the check or the other one does.
    """
    checks = [each for each in (schema, *others) if callable(each)]
    if others:
        return _shaped(lambda of: {"oneOf": list(map(of, checks))}, write)
    if not checks:
        return _shaped(lambda of: cast(Json, schema), write)

    def give(check: C) -> C:
        its_own = vars(check).get("write", partial(to_json, checks[0]))
        return _shaped(lambda of: of(checks[0]), write or its_own)(check)

    return give


def _shaped(
    schema: Callable[[Describe], Json], write: Callable[[Any], Any] | None = None
) -> Callable[[C], C]:

    def give(check: C) -> C:
        vars(check).update({"schema": schema} | ({} if write is None else {"write": write}))
        return check

    return give


def to_json(check: Check, value: Any) -> Any:
    """The JSON of a value that a check reads: the value itself, unless the check says otherwise."""
    write: Callable[[Any], Any] | None = vars(check).get("write")
    return value if write is None else write(value)


def named(name: str, check: C) -> C:
    """Give a check's JSON schema a name, by which the schemas around it refer to it."""
    vars(check)["name"] = name
    return check


def described(check: Check, components: dict[str, Json]) -> Json:
    """The JSON schema of what a check accepts; schemas that have a name go into ``components``.

    >>> described(record({"id": whole(32, least=0)}, {"tags": array(text)}), {})["properties"]["tags"]
    {'type': 'array', 'items': {'type': 'string'}}
    """
    def of(each: Check) -> Json:
        schema, name = vars(each)["schema"], vars(each).get("name")
        if name is None:
            inline: Json = schema(of)
            return inline
        if name not in components:
            components[name] = {}
            components[name] = schema(of)
        return {"$ref": f"#/components/schemas/{name}"}

    return of(check)


# -- checks ------------------------------------------------------------------------------------------


@shaped({"type": "string"})
def text(value: Any, path: str) -> str:
    """A string that can be written as UTF-8."""
    if not isinstance(value, str):
        _refuse_type(value, path, "a string")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            refuse(path, "has half of a surrogate pair, which no file can hold")
    return value


@shaped({"type": "string", "format": "uuid"})
def uuid_text(value: Any, path: str) -> str:
    """A UUID, in its usual form whatever form it came in."""
    try:
        return str(uuid.UUID(text(value, path)))
    except ValueError:
        refuse(path, f"is not a UUID: {shown(value)}")


@shaped(text)
def base64_text(value: Any, path: str) -> str:
    """Bytes as base64."""
    try:
        base64.b64decode(text(value, path), validate=True)
    except ValueError:
        refuse(path, "is not base64")
    return str(value)


@shaped({"type": "boolean"})
def flag(value: Any, path: str) -> bool:
    """A boolean."""
    if not isinstance(value, bool):
        _refuse_type(value, path, "a boolean")
    return value


def whole(bits: int, least: int | None = None) -> Check:
    """The check of an integer of so many bits, and of no less than ``least``.

    Its schema says how wide the integer is, and of a wide one whether it may be negative.

    >>> whole(32, least=0)(7, "spec-id")
    7
    """
    lowest, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    low = lowest if least is None else least
    described_low = lowest if least is None or bits < 64 else 0

    @shaped({"type": "integer", "minimum": described_low, "maximum": high})
    def check(value: Any, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            _refuse_type(value, path, "an integer")
        if not low <= value <= high:
            refuse(path, f"must lie between {low} and {high}, found {shown(value)}")
        return value

    return check


def choice(*allowed: str) -> Check:
    """The check of one of a few strings."""

    @shaped({"enum": list(allowed)} if len(allowed) > 1 else {"const": allowed[0]})
    def check(value: Any, path: str) -> str:
        if text(value, path) not in allowed:
            refuse(path, f"must be {' or '.join(allowed)}, found {shown(value)}")
        return str(value)

    return check


def mapping(item: Check) -> Check:
    """The check of an object, every value of which passes a check."""

    @_shaped(lambda of: {"type": "object", "additionalProperties": of(item)},
             lambda values: {name: to_json(item, each) for name, each in values.items()})
    def check(value: Any, path: str) -> Json:
        if not isinstance(value, dict):
            _refuse_type(value, path, "an object")
        return {text(name, f"a name in {path}"): item(each, f"{path}.{name}") for name, each in value.items()}

    return check


texts = mapping(text)
"""An object whose values are strings."""


def maybe(item: Check) -> Check:
    """The check of a value that may be null."""

    @_shaped(lambda of: {**of(item), "type": [of(item)["type"], "null"]},
             lambda value: None if value is None else to_json(item, value))
    def check(value: Any, path: str) -> Any:
        return None if value is None else item(value, path)

    return check


def array(item: Check, **schema: Any) -> Check:
    """The check of an array, every item of which passes a check; ``schema`` is what its description adds."""

    @_shaped(lambda of: {"type": "array", "items": of(item), **schema},
             lambda values: [to_json(item, each) for each in values])
    def check(value: Any, path: str) -> list[Any]:
        if not isinstance(value, list):
            _refuse_type(value, path, "an array")
        return [item(each, f"{path}[{at}]") for at, each in enumerate(value)]

    return check


def record(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """The check of an object that has the required fields, may have the optional ones, and has no other.

    >>> record({"uuid": text})({"uuid": "a", "uid": "b"}, "requirements[0]")
    Traceback (most recent call last):
    deltanb.errors.BadRequest: requirements[0].uid is not a known field: there is uuid
    """
    maybe = dict(optional or {})
    known = {**required, **maybe}

    def write(values: Mapping[str, Any]) -> Json:
        return {name: to_json(item, values[name]) for name, item in known.items()
                if name in required or values.get(name) is not None}

    @_shaped(lambda of: {
        "type": "object", "properties": {name: of(each) for name, each in known.items()},
        "required": list(required), "additionalProperties": False}, write)
    def check(value: Any, path: str) -> Json:
        if not isinstance(value, dict):
            _refuse_type(value, path, "an object")
        out: Json = {}
        for name, item in value.items():
            if name not in known:
                refuse(f"{path}.{name}", f"is not a known field: there is {', '.join(known)}")
            if item is not None or name not in maybe:
                out[name] = known[name](item, f"{path}.{name}")
        for name in required:
            if name not in out:
                refuse(f"{path}.{name}", "is missing")
        return out

    return check


def tagged(tag: str, what: str, kinds: Mapping[str, Check]) -> Check:
    """The check of an object whose field ``tag`` says by which of several checks it has to pass.

    >>> tagged("type", "kind of shape", {"circle": record({"type": text})})({"type": "square"}, "shapes[0]")
    Traceback (most recent call last):
    deltanb.errors.BadRequest: shapes[0].type is no kind of shape: square
    """
    def kind_of(of: Describe, kind: str) -> Json:
        schema = of(kinds[kind])
        return {**schema, "properties": {**schema["properties"], tag: {"const": kind}}}

    @_shaped(lambda of: {"oneOf": [kind_of(of, kind) for kind in kinds]})
    def check(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            refuse(path, "must be an object")
        if tag not in value:
            refuse(f"{path}.{tag}", "is missing")
        kind = text(value[tag], f"{path}.{tag}")
        if kind not in kinds:
            refuse(f"{path}.{tag}", f"is no {what}: {kind:.80}")
        return kinds[kind](value, path)

    return check


def deferred(kind: type, like: Check) -> Check:
    """The check that a value is a ``list`` or a ``dict``: others check what is inside, as ``like`` does."""

    @shaped(like)
    def check(value: Any, path: str) -> Any:
        if not isinstance(value, kind):
            refuse(path, f"must be {_NAMES[kind]}")
        return value

    return check


@shaped({"type": "object"})
def plain(value: Any, path: str, depth: int = 0) -> Any:
    """Any JSON value: no number that JSON lacks, nested no deeper than 100 levels."""
    if depth > MAX_DEPTH:
        refuse(path, f"is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        return text(value, path)
    if isinstance(value, list):
        return [plain(item, path, depth + 1) for item in value]
    if isinstance(value, dict):
        return {text(name, path): plain(item, path, depth + 1) for name, item in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        refuse(path, "is not a JSON number")
    if value is None or isinstance(value, bool | int | float):
        return value
    _refuse_type(value, path, "a JSON value")
