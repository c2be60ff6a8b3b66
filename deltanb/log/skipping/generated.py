"""What a condition on a column implies for partition columns that are generated from it.

What lives here: the supported functions (a cast to DATE, the parts of a time, DATE_TRUNC and TRUNC,
DATE_FORMAT, a leading SUBSTRING, the column itself), and :func:`implied`, the conditions over partition
columns that hold for every row that satisfies a condition.
What it does not know: versions and files; ``skipping`` evaluates these conditions.

No implied condition may exclude a file with a matching row, whoever wrote it. So bounds are never strict, a
partition value of NULL is always accepted (an empty text is stored as one), and if a value depends on the
writer's time zone, bounds are as wide as zones can differ. Dates are taken to lie within
the years 1 to 9999, Spark's range; texts of later years are kept.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.types as t

from deltanb.errors import DeltaError
from deltanb.schema.columns import GENERATION
from deltanb.schema.protocol import supports
from deltanb.schema.types import StructType, arrow_type, backticked
from deltanb.sql import expressions as ex
from deltanb.sql.expressions import Call, Column, Expression, Literal, boolean
from deltanb.sql.literals import text_literal

if TYPE_CHECKING:
    from deltanb.actions import Metadata, Protocol
    from deltanb.sql.predicates import Predicate

MAX_ZONE_OFFSET = dt.timedelta(hours=18)
"""The farthest a time zone lies from UTC, for Java and so for Spark."""
MAX_LISTED = 64  # members of an IN that are looked at one by one
_PARTS = ("year", "month", "day", "hour")
_FIELDS = ("year", "month", "day", "hour", "minute", "second", "microsecond")
_UNITS = (*_FIELDS[:-1], "quarter", "week")
_DATE_FORMAT = re.compile(r"(?i)\s*date_format\s*\(\s*(`?)([\w.]+)\1\s*,\s*'([^'\\]*)'\s*\)\s*")
_FORMAT_PARTS = re.compile(r"yyyy(\W*)(?:MM(\W*)(?:dd(\W*)(?:HH)?)?)?")


@dataclass(frozen=True)
class _Function:
    """A partition column as a function of a base column.

    ``apply`` gives the value for one of the base. It never falls as the base rises, except for the
    ``part`` of a time (``year``, ``month``, …). ``before`` and ``after`` are how far a writer's time
    zone may have moved the base's value and the result.
    """

    column: Column
    base: Column
    apply: Callable[[Any], Any]
    part: str | None = None
    before: dt.timedelta = dt.timedelta(0)
    after: dt.timedelta = dt.timedelta(0)

    def at(self, value: Any, direction: int) -> Any:
        """The least (``-1``) or greatest (``+1``) result that the value may have; None: no bound."""
        try:
            moved = value + direction * self.before if self.before else value
            result = self.apply(moved)
            return result + direction * self.after if self.after else result
        except (OverflowError, ValueError):
            return None


def implied(
    metadata: Metadata, protocol: Protocol, conditions: Sequence[Expression]
) -> list[Expression]:
    """Conditions over partition columns that every row of all ``conditions`` satisfies."""
    if not metadata.partition_columns or GENERATION not in (metadata.schema_string or ""):
        return []
    if not supports(protocol, "generatedColumns"):
        return []
    functions = _functions(metadata.schema, metadata.partition_columns)
    if not functions:
        return []
    deriver = _Deriver(functions)
    return [derived for condition in conditions if (derived := deriver.derive(condition)) is not None]


def implied_predicates(
    metadata: Metadata, protocol: Protocol, predicates: Sequence[Predicate]
) -> tuple[Predicate, ...]:
    """Like :func:`implied`, as predicates with SQL texts, which a scan also reads by."""
    from deltanb.sql import predicates as language

    conditions = [part for p in predicates for part in ex.conjuncts(p.expression)]
    return tuple(language.Predicate(_sql(each), each) for each in implied(metadata, protocol, conditions))


_SIGNS = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _sql(node: Expression) -> str:
    """The SQL text of an implied condition."""
    if isinstance(node, Column):
        return ".".join(map(backticked, node.path))
    if isinstance(node, Literal):
        return _literal(node.value)
    texts = [_sql(arg) for arg in node.args]
    if node.op == "is_null":
        return f"{texts[0]} IS NULL"
    if node.op in ("and", "or"):
        return "(" + f" {node.op.upper()} ".join(texts) + ")"
    return f"{texts[0]} {_SIGNS[node.op]} {texts[1]}"


def _literal(value: Any) -> str:
    if isinstance(value, dt.datetime):
        return f"TIMESTAMP'{value.isoformat(' ')}'"
    if isinstance(value, dt.date):
        return f"DATE'{value}'"
    if isinstance(value, str):
        return text_literal(value)
    return str(value)


class _Deriver:
    def __init__(self, functions: Iterable[_Function]) -> None:
        self._by_base: dict[Column, list[_Function]] = {}
        for function in functions:
            self._by_base.setdefault(function.base, []).append(function)

    def derive(self, node: Expression) -> Expression | None:
        """A condition that is TRUE wherever the node is; None if nothing is known."""
        if not isinstance(node, Call):
            return None
        op, args = node.op, node.args
        if op in ("and", "or"):
            parts = [self.derive(arg) for arg in args]
            known = [part for part in parts if part is not None]
            if not known or (op == "or" and len(known) < len(parts)):
                return None
            return boolean(op, *known)
        if op == "is_true":
            return self.derive(args[0])
        if op in ("eq", "lt", "le", "gt", "ge", "null_safe_eq") and len(args) == 2:
            left, right = args
            if isinstance(left, Literal):
                left, right, op = right, left, ex.MIRRORED.get(op, op)
            if isinstance(left, Column) and isinstance(right, Literal):
                return self._compared(op, left, right)
        if op == "in" and isinstance(args[0], Column):
            return self._member(args[0], node.extra)
        if op == "is_null" and isinstance(args[0], Column):
            return self._null(args[0])
        return None

    def _member(self, base: Column, members: Any) -> Expression | None:
        """Few constants imply one condition each, many only their minimum and maximum."""
        if not members.values or base not in self._by_base:
            return None
        if len(members.values) <= MAX_LISTED:
            listed = (Literal(value, base.type) for value in members.values)
            return self.derive(boolean("or", *(boolean("eq", base, item) for item in listed)))
        if members.has_nan:
            return None
        low, high = (Literal(end, base.type) for end in members.ends())
        return self.derive(boolean("and", boolean("ge", base, low), boolean("le", base, high)))

    def _null(self, base: Column) -> Expression | None:
        return _all(boolean("is_null", f.column) for f in self._by_base.get(base, ()))

    def _compared(self, op: str, base: Column, literal: Literal) -> Expression | None:
        value = literal.value
        if value is None:
            return self._null(base) if op == "null_safe_eq" else None
        if base not in self._by_base or literal.type != base.type:
            return None
        low = value if op in ("eq", "null_safe_eq", "gt", "ge") else None
        high = value if op in ("eq", "null_safe_eq", "lt", "le") else None
        functions = self._by_base[base]
        whole = [f for f in functions if f.part is None]
        bounds = [bound for f in whole for bound in _bounds([f], low, high)]
        parts = {f.part: f for f in functions if f.part is not None}
        chain = []
        for part in _PARTS:
            if part not in parts:
                break
            chain.append(parts[part])
        if chain:
            bounds += _bounds(chain, low, high)
        elif low is not None and high is not None:
            bounds += [_one_of(parts[part], value) for part in ("month", "day") if part in parts]
        return _all(bounds)


def _bounds(chain: Sequence[_Function], low: Any, high: Any) -> list[Expression]:
    """Bounds of columns that are compared one after the other, as the digits of a number."""
    bounds = []
    for op, value, direction in (("gt", low, -1), ("lt", high, 1)):
        if value is None:
            continue
        ends = [function.at(value, direction) for function in chain]
        if None not in ends:
            bounds.append(_or_null(_beyond(op, chain, ends), chain, op))
    return bounds


def _beyond(op: str, chain: Sequence[_Function], ends: Sequence[Any]) -> Expression:
    column, end = chain[0].column, Literal(ends[0], chain[0].column.type)
    if len(chain) == 1:
        return boolean("ge" if op == "gt" else "le", column, end)
    rest = boolean("and", boolean("eq", column, end), _beyond(op, chain[1:], ends[1:]))
    return boolean("or", boolean(op, column, end), rest)


def _one_of(function: _Function, value: Any) -> Expression:
    """The months or days that a value may have in any time zone."""
    ends = {function.at(value, direction) for direction in (-1, 0, 1)}
    if None in ends:
        return ex.TRUE
    equal = [boolean("eq", function.column, Literal(end, function.column.type)) for end in sorted(ends)]
    return _or_null(boolean("or", *equal) if len(equal) > 1 else equal[0], [function], "eq")


def _or_null(condition: Expression, chain: Sequence[_Function], op: str) -> Expression:
    nulls = [boolean("is_null", function.column) for function in chain]
    if op == "gt" and t.is_string(chain[0].column.type):  # '+10000-01' sorts before '2024-01'
        nulls.append(boolean("lt", chain[0].column, Literal("0", pa.string())))
    return boolean("or", condition, *nulls)


def _all(conditions: Iterable[Expression]) -> Expression | None:
    parts = list(conditions)
    if not parts:
        return None
    return boolean("and", *parts) if len(parts) > 1 else parts[0]


# --- functions ------------------------------------------------------------------------------------

@lru_cache(maxsize=64)
def _functions(schema: StructType, partition_columns: tuple[str, ...]) -> tuple[_Function, ...]:
    functions = []
    for name in partition_columns:
        field = schema.field(name)
        if GENERATION not in field.metadata:
            continue
        try:
            column = Column((field.name,), arrow_type(field.type, field.name))
            function = _function(str(field.metadata[GENERATION]), schema, column)
        except DeltaError:  # an expression that only Spark understands
            continue
        if function is not None:
            functions.append(function)
    return tuple(functions)


def _function(sql: str, schema: StructType, column: Column) -> _Function | None:
    from deltanb.sql import predicates

    formatted = _DATE_FORMAT.fullmatch(sql)
    if formatted is not None:
        if not _FORMAT_PARTS.fullmatch(formatted[3]) or not t.is_string(column.type):
            return None
        base = predicates.parse_value(formatted[2], schema, _type_of(schema, formatted[2])).expression
        if not isinstance(base, Column):
            return None
        return _of_time(column, base, _formatting(formatted[3]))
    tree = predicates.parse_value(sql, schema, column.type).expression
    if isinstance(tree, Column):
        plain = tree.type == column.type and not t.is_floating(tree.type)
        return _Function(column, tree, lambda value: value) if plain else None
    if not isinstance(tree, Call) or not tree.args:
        return None
    base, op = tree.args[0], tree.op
    if op == "date_trunc":
        if isinstance(base, Call) and base.op == "cast" and t.is_date(base.args[0].type):
            base = base.args[0]  # a date is cast to a time first
        if isinstance(base, Column) and tree.extra in _UNITS and t.is_temporal(column.type):
            return _of_time(column, base, _truncating(tree.extra, column.type))
        return None
    if not isinstance(base, Column):
        return None
    if op == "cast" and t.is_date(column.type) and t.is_timestamp(base.type):
        return _of_time(column, base, lambda value: value.date())
    if op in _PARTS and t.is_integer(column.type) and tree.type == column.type:
        return _of_time(column, base, lambda value: getattr(value, op), part=op)
    if op == "substring" and t.is_string(column.type) and tree.extra[0] in (0, 1) and tree.extra[1]:
        end = tree.extra[1]
        return _Function(column, base, lambda value: value[:end]) if end > 0 else None
    return None


def _type_of(schema: StructType, path: str) -> Any:
    current: Any = schema
    for name in path.split("."):
        current = current.field(name).type
    return current


def _of_time(
    column: Column, base: Column, apply: Callable[[Any], Any], part: str | None = None
) -> _Function | None:
    if not (t.is_date(base.type) or t.is_timestamp(base.type)) or (
            part == "hour" and t.is_date(base.type)):
        return None
    zoned = t.is_timestamp(base.type) and base.type.tz is not None
    nothing = dt.timedelta(0)
    return _Function(column, base, apply, part, MAX_ZONE_OFFSET if zoned else nothing,
                     MAX_ZONE_OFFSET if t.is_timestamp(column.type) else nothing)


def _formatting(pattern: str) -> Callable[[Any], str]:
    def apply(value: Any) -> str:
        texts = {"yyyy": f"{value.year:04}", "MM": f"{value.month:02}", "dd": f"{value.day:02}",
                 "HH": f"{getattr(value, 'hour', 0):02}"}
        return re.sub("yyyy|MM|dd|HH", lambda match: texts[match[0]], pattern)

    return apply


def _truncating(unit: str, target: pa.DataType) -> Callable[[Any], Any]:
    def apply(value: Any) -> Any:
        if not isinstance(value, dt.datetime):
            value = dt.datetime(value.year, value.month, value.day)
        truncated = _truncated(value, unit)
        if t.is_date(target):
            return truncated.date()
        return truncated.replace(tzinfo=None if target.tz is None else dt.timezone.utc)

    return apply


def _truncated(value: dt.datetime, unit: str) -> dt.datetime:
    if unit == "week":
        value, unit = value - dt.timedelta(days=value.weekday()), "day"
    if unit == "quarter":
        value, unit = value.replace(month=(value.month - 1) // 3 * 3 + 1, day=1), "month"
    below = _FIELDS[_FIELDS.index(unit) + 1:]
    lowest: dict[str, Any] = {name: 1 if name in ("month", "day") else 0 for name in below}
    return value.replace(**lowest)
