"""Columns whose values the table generates: generated, identity and default ones, as the schema says them.

What lives here: the metadata of such columns both ways (PROTOCOL.md, "Generated Columns", "Identity
Columns", "Default Columns"), and the next value of an identity column.
What it does not know: rows, how an expression is computed (``engines/arrow/generated.py``), and what a new
table's must fulfil (``transaction/column_check.py``).

>>> from deltanb.schema.types import PrimitiveType
>>> field = StructField("id", PrimitiveType("long"), metadata=identity(start=10, step=5))
>>> Identity.of(field).next, Identity.of(field.replace(metadata={**field.metadata, MARK: 22})).next
(10, 25)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from deltanb.actions import Metadata, Protocol
from deltanb.errors import InvalidTable, UnsupportedProtocol
from deltanb.schema.paths import walk
from deltanb.schema.protocol import supports
from deltanb.schema.types import StructField, StructType

GENERATION = "delta.generationExpression"
DEFAULT = "CURRENT_DEFAULT"
START = "delta.identity.start"
STEP = "delta.identity.step"
MARK = "delta.identity.highWaterMark"
EXPLICIT = "delta.identity.allowExplicitInsert"
KEYS = (GENERATION, DEFAULT, START, STEP, MARK, EXPLICIT)
SCHEMA_UPDATE = {"delta.identity.schemaUpdate": "true"}
"""The tag of a commit whose metadata moves high-water marks and nothing else."""
LONG_MAX = 2**63 - 1
DEFAULTS_FEATURE = "allowColumnDefaults"
_FEATURES = (("generatedColumns", GENERATION), ("identityColumns", START), ("identityColumns", STEP),
             (DEFAULTS_FEATURE, DEFAULT))


def generated_as(sql: str) -> dict[str, Any]:
    """Metadata of a column that is computed from others of its row.

    >>> generated_as("CAST(ts AS DATE)")
    {'delta.generationExpression': 'CAST(ts AS DATE)'}
    """
    return {GENERATION: sql}


def default(sql: str) -> dict[str, Any]:
    """Metadata of a column with a value for rows that come without one."""
    return {DEFAULT: sql}


def identity(start: int = 1, step: int = 1, *, always: bool = True) -> dict[str, Any]:
    """Metadata of a column that numbers the rows; without ``always`` data may bring its own values."""
    return {START: start, STEP: step, EXPLICIT: not always}


@dataclass(frozen=True)
class Identity:
    """An identity column: its values are ``start + k * step``, beyond the high-water mark.

    ``mark`` is the last value given, None before the first. ``explicit``: data may bring values.
    """

    column: str
    start: int
    step: int
    mark: int | None = None
    explicit: bool = False

    @classmethod
    def of(cls, field: StructField) -> Identity | None:
        """What the field's metadata says; None where it is not an identity column.

        Raises:
            InvalidTable: start, step or mark are not integers, or the step is 0.
        """
        metadata = field.metadata
        if START not in metadata and STEP not in metadata:
            return None
        start, step, mark = metadata.get(START, 1), metadata.get(STEP, 1), metadata.get(MARK)
        numbers = [start, step] if mark is None else [start, step, mark]
        if any(type(n) is not int for n in numbers) or step == 0:
            raise InvalidTable(
                f"identity column {field.name!r} has start {start!r}, step {step!r} and high-water mark "
                f"{mark!r}; these must be integers, and the step not 0. Correct the table's schema",
                column=field.name)
        return cls(field.name, start, step, mark, bool(metadata.get(EXPLICIT, False)))

    @property
    def next(self) -> int:
        """The first value that may be given."""
        if self.mark is None:
            return self.start
        return self.start + max(0, (self.mark - self.start) // self.step + 1) * self.step

    def synced(self, extreme: int | None) -> int | None:
        """The mark once the column holds ``extreme`` (its largest value, or smallest for a step below 0).

        It is never moved back, and stays where no value was given yet and none lies beyond the start.
        """
        if extreme is None or (extreme - self.start) * self.step < 0:
            return self.mark
        reached = self.start + -(-(extreme - self.start) // self.step) * self.step
        return reached if self.mark is None else self.furthest(reached, self.mark)

    def furthest(self, one: int, other: int) -> int:
        """The one of two values that lies further along."""
        return max(one, other) if self.step > 0 else min(one, other)


def mentioned(metadata: Metadata) -> bool:
    """Whether the schema's text has any such metadata, or mentions it: cheaper than parsing."""
    return _mentions(metadata.schema_string or "")


@lru_cache(maxsize=64)
def _mentions(schema: str) -> bool:
    """Remembered for the schemas of the last tables: each append asks, however small it is."""
    return any(key in schema for key in KEYS)


def active(metadata: Metadata, protocol: Protocol) -> StructType:
    """The columns that have any such metadata which the protocol gives force to.

    Raises:
        UnsupportedProtocol: one of them is inside a struct, array or map, where no rules are known.
    """
    if not mentioned(metadata):
        return StructType(())
    schema = metadata.schema
    keys = {key: name for name, key in _FEATURES if supports(protocol, name)}
    for path, field in walk(schema):
        inside = [keys[key] for key in field.metadata if key in keys and len(path) > 1]
        if inside:
            name = ".".join(path)
            raise UnsupportedProtocol(
                f"column {name!r} is given its values by the table ({', '.join(inside)}) inside another "
                "column, which this library does not write. Give whole columns their values",
                features=tuple(inside), column=name)
    return StructType(f for f in schema.fields if not f.metadata.keys().isdisjoint(keys))


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with the high-water marks of some identity columns moved."""
    fields = [f.replace(metadata={**f.metadata, MARK: marks[f.name]}) if f.name in marks else f
              for f in metadata.schema.fields]
    return metadata.replace(schema_string=StructType(fields).to_json())


def preserve_marks(metadata: Metadata, now: Metadata) -> Metadata:
    """The old metadata with high-water marks not below the current ones: no value is generated twice."""
    marks = {}
    if START not in (metadata.schema_string or ""):
        return metadata
    for field in metadata.schema.fields:
        old, present = Identity.of(field), now.schema.get(field.name)
        new = None if present is None else Identity.of(present)
        if old is None or new is None or new.mark is None or (old.start, old.step) != (
                new.start, new.step):
            continue
        mark = new.mark if old.mark is None else old.furthest(old.mark, new.mark)
        if mark != old.mark:
            marks[field.name] = mark
    return with_marks(metadata, marks) if marks else metadata
