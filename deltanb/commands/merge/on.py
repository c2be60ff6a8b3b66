"""The ON condition of a MERGE: its equalities, and which rows of the target can match at all.

What lives here: :func:`analyze`, which sorts the conjuncts of the condition by the tables they use, and
:meth:`On.reachable`, predicates on the target alone that every matching row satisfies. They come from the
condition's own conjuncts and, for ``t.a = s.a``, from the source's values: few distinct ones become an IN,
many a BETWEEN. They narrow the files and the conflicts.
What it does not know: clauses, files, how rows are joined (``in_process``, ``on_spark``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as t

from deltanb.commands.merge.clauses import Names
from deltanb.errors import UnsupportedPredicate
from deltanb.schema.types import backticked
from deltanb.sql import coercion as co
from deltanb.sql import expressions as ex
from deltanb.sql import failures, syntax
from deltanb.sql.literals import text_literal
from deltanb.sql.members import Members
from deltanb.sql.predicates import Predicate, parse_condition
from deltanb.sql.syntax import Parsed

MAX_LISTED_VALUES = 1000
"""Distinct values of the source that become an IN on a data column: beyond, its bounds say nearly as
much about a file's statistics, and are found at once."""
MAX_LISTED_PARTITIONS = 10_000
"""The same for a partition column, where a list is exact and decides what conflicts."""


@dataclass(frozen=True)
class Key:
    """An equality between the tables; both sides have one type.

    ``path`` is the target's column if the target's side is one, perhaps with a cast. ``null_safe`` means
    ``<=>``, for which NULL equals NULL.
    """

    target: ex.Expression
    source: ex.Expression
    path: tuple[str, ...] | None
    null_safe: bool = False

    @property
    def column_type(self) -> pa.DataType:
        """The type of the target's column, before a cast."""
        inner = self.target.args[0] if isinstance(self.target, ex.Call) else self.target
        return inner.type


@dataclass(frozen=True)
class On:
    """The condition, sorted. ``target_only`` and ``keys`` are those that the process can evaluate.

    ``rest`` are the other conjuncts over both tables, ``source_only`` those over the source; both are
    over :meth:`Names.schema`. ``reason`` says why the process cannot join by the condition.
    """

    sql: str
    keys: tuple[Key, ...] = ()
    target_only: tuple[Predicate, ...] = ()
    source_only: tuple[Predicate, ...] = ()
    rest: tuple[Predicate, ...] = ()
    reason: UnsupportedPredicate | None = None
    names: Names | None = field(default=None, repr=False)

    def reachable(
        self, partition_columns: Sequence[str], values: Sequence[Any]
    ) -> list[Predicate] | None:
        """Conjuncts over the target that hold for every matching row; None if none can match.

        Args:
            values: for each key, the source's values as an Arrow array of the key's type (with duplicates and
                NULLs, which matter for null-safe keys), a pair of bounds, or None if unknown.
        """
        conditions = list(self.target_only)
        for key, known in zip(self.keys, values, strict=True):
            if known is None:
                continue
            is_partition = key.path is not None and len(key.path) == 1 and key.path[0].lower() in {
                name.lower() for name in partition_columns}
            limit = MAX_LISTED_PARTITIONS if is_partition else MAX_LISTED_VALUES
            derived: Any
            if isinstance(known, tuple):
                derived, is_nullable = _bounded(key, *known), key.null_safe
            else:
                distinct = pc.unique(known)
                is_nullable = key.null_safe and distinct.null_count > 0
                distinct = distinct.drop_null()
                derived = _listed(key, distinct, limit) if len(distinct) else _NOTHING
            if is_nullable:
                derived = _or_null(key, derived)
            if derived is _NOTHING:
                return None
            if isinstance(derived, Predicate) and derived.sql not in [one.sql for one in conditions]:
                conditions.append(derived)
        return conditions


def analyze(sql: Parsed, names: Names) -> On:
    """Sort a condition whose columns all have an alias (:meth:`Names.qualified`).

    Raises:
        InvalidPredicate: invalid SQL.
    """
    schema = names.schema()
    condition = parse_condition(sql, schema)
    reason = condition.reason
    keys, target_only, source_only, rest = [], [], [], []
    for part in (part for predicate in condition.parts for part in predicate.conjuncts()):
        sides = _sides(part.expression, names)
        key = _key(part.expression, names)
        if key is not None:
            keys.append(key)
        elif sides == {"target"}:
            target_only.append(_of_target(part, sql))
        elif sides == {"source"}:
            source_only.append(part)
        else:
            rest.append(part)
    if reason is None and not keys:
        reason = UnsupportedPredicate(
            f"the ON condition {sql!r} has no equality between the tables, such as "
            f"{names.target_alias}.id = {names.source_alias}.id, and so cannot run without Spark",
            predicate=str(sql))
    return On(str(sql), tuple(keys), tuple(target_only), tuple(source_only), tuple(rest), reason, names)


def _sides(expression: ex.Expression, names: Names) -> set[str]:
    aliases = {names.target_alias: "target", names.source_alias: "source"}
    return {aliases[node.path[0]] for node in ex.walk(expression) if isinstance(node, ex.Column)}


def _key(expression: ex.Expression, names: Names) -> Key | None:
    if not (isinstance(expression, ex.Call) and expression.op in ("eq", "null_safe_eq")):
        return None
    left, right = expression.args
    if _sides(left, names) == {"source"}:
        left, right = right, left
    if _sides(left, names) != {"target"} or _sides(right, names) != {"source"}:
        return None
    if t.is_nested(left.type) or failures.can_fail(expression):
        return None
    inner = left
    if isinstance(inner, ex.Call) and inner.op == "cast" and _widens(inner.args[0].type, inner.type):
        inner = inner.args[0]
    path = inner.path[1:] if isinstance(inner, ex.Column) else None
    return Key(left, right, path, expression.op == "null_safe_eq")


def _widens(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast is strictly monotonic."""
    if t.is_integer(source) and t.is_integer(target):
        return co.INTEGER_BOUNDS[source] <= co.INTEGER_BOUNDS[target]
    return co.is_number(source) and t.is_decimal(target) and not t.is_floating(source)


def _of_target(part: Predicate, whole: str) -> Predicate:
    """A conjunct over the target's own columns, written without the alias."""
    columns: dict[tuple[str, ...], ex.Expression] = {
        node.path: ex.Column(node.path[1:], node.type)
        for node in ex.walk(part.expression) if isinstance(node, ex.Column)}
    sql = whole if part.sql == whole else part.sql
    places = [place for column in syntax.columns(sql) if (place := syntax.place_of(column)) is not None]
    for place in sorted(places, reverse=True):
        sql = sql[:place] + sql[sql.index(".", place) + 1:]
    return Predicate(sql, ex.substitute(part.expression, columns))


# --- the source's values --------------------------------------------------------------------------

_NOTHING = object()  # no value of the source can be in the column


def _listed(key: Key, distinct: pa.Array, limit: int) -> Any:
    """The predicate on the target's column for these values (at least one, none NULL)."""
    if key.path is None:
        return None
    if t.is_floating(key.target.type):
        if pc.any(pc.is_nan(distinct)).as_py():
            return None
        limit = 0
    if len(distinct) > limit:
        if t.is_boolean(distinct.type):
            return None
        low, high = pc.min_max(distinct).as_py().values()
        return _bounded(key, low, high)
    literals = []
    for value in sorted(distinct.to_pylist()):  # so that it is told alike every time
        exact, converted = _in_column(key, value)
        if exact:
            literals.append(ex.Literal(converted, key.column_type))
    if not literals:
        return _NOTHING
    column = ex.Column(key.path, key.column_type)
    texts = ", ".join(_text(literal.value) for literal in literals)
    members = Members.of((literal.value for literal in literals), key.column_type)
    if len(literals) == 1:
        return Predicate(f"{_name(key)} = {texts}", ex.boolean("eq", column, literals[0]))
    return Predicate(f"{_name(key)} IN ({texts})", ex.boolean("in", column, extra=members))


def _bounded(key: Key, low: Any, high: Any) -> Predicate | None:
    if key.path is None or low is None or high is None or any(
            isinstance(value, float) and math.isnan(value) for value in (low, high)):
        return None
    bounds = []
    for value in (low, high):
        exact, converted = _in_column(key, value)
        if not exact:
            return None
        bounds.append(ex.Literal(converted, key.column_type))
    column = ex.Column(key.path, key.column_type)
    return Predicate(
        f"{_name(key)} BETWEEN {_text(bounds[0].value)} AND {_text(bounds[1].value)}",
        ex.boolean("and", ex.boolean("ge", column, bounds[0]), ex.boolean("le", column, bounds[1]),
                   extra="between"))


def _or_null(key: Key, derived: Any) -> Predicate | None:
    """The predicate for a null-safe key if the source also has NULL."""
    if key.path is None or derived is None:
        return None
    is_null = Predicate(f"{_name(key)} IS NULL", ex.boolean("is_null", ex.Column(key.path, key.column_type)))
    if derived is _NOTHING:
        return is_null
    return Predicate(f"({derived.sql} OR {is_null.sql})",
                     ex.boolean("or", derived.expression, is_null.expression))


def _in_column(key: Key, value: Any) -> tuple[bool, Any]:
    """The value in the type of the column, and whether it is one of that type."""
    if key.column_type == key.target.type:
        return True, value
    return co.exact_literal(value, key.target.type, key.column_type)


def _name(key: Key) -> str:
    assert key.path is not None
    return ".".join(name if name.isidentifier() else backticked(name) for name in key.path)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float) or type(value).__name__ == "Decimal":
        return str(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    return text_literal(str(value))
