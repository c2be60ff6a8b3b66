"""Expressions that metadata holds: SQL whose value one row decides, at any time and in any engine.

What lives here: :func:`inspect`, which says what such an expression reads and gives, and refuses what no
row decides alone: aggregates, windows, queries, functions whose value changes from one call to the next.
What it does not know: which columns are generated, what a constraint is (``schema/columns.py``,
``transaction/metadata_check``).

Source: the expressions that Delta Spark lets generated columns have, by the names of their functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from deltanb.errors import InvalidPredicate, InvalidSchema, UnsupportedPredicate
from deltanb.schema.types import StructType
from deltanb.sql.syntax import function_names, syntax, too_deep
from deltanb.text.formatting import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

_QUERIES = (exp.Query, exp.Subquery)
# The oldest sqlglot has no class for LOCALTIMESTAMP: it is a function there, and none that is known.
_NOW = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentUser,
        getattr(exp, "Localtimestamp", exp.CurrentTimestamp))
_AGGREGATES = frozenset({"any", "some", "every", "bool_and", "bool_or", "count", "sum", "avg", "mean", "min",
                         "max", "first", "last", "collect_list", "collect_set", "approx_count_distinct"})
_GENERATORS = frozenset({"explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack",
                         "inline_outer", "json_tuple"})
_NAMES = """
abs acos acosh add_months array array_append array_compact array_contains array_distinct array_except
array_insert array_intersect array_join array_max array_min array_position array_prepend array_remove
array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan atan2 atanh
base64 bigint bin binary bit_count bit_length boolean bround cardinality cbrt ceil ceiling char
char_length character_length charindex chr coalesce concat concat_ws contains conv cos cosh cot crc32 date
date_add date_diff date_format date_part date_sub date_trunc dateadd datediff day dayofmonth dayofweek
dayofyear decimal decode degrees double e element_at elt encode endswith exp expm1 extract factorial
find_in_set flatten float floor format_number format_string from_csv from_json from_unixtime
from_utc_timestamp get_json_object greatest hash hex hour hypot if ifnull initcap instr int isnan
isnotnull isnull json_tuple last_day lcase least left len length levenshtein ln locate log log10 log1p
log2 lower lpad ltrim make_date make_interval make_timestamp map map_concat map_entries map_from_arrays
map_from_entries map_keys map_values md5 minute mod month months_between named_struct nanvl negative
next_day nullif nvl nvl2 octet_length overlay parse_url pi pmod position positive pow power printf quarter
radians regexp_extract regexp_like regexp_replace repeat replace reverse right rint round rpad rtrim
schema_of_csv schema_of_json second sentences sequence sha sha1 sha2 shiftleft shiftright
shiftrightunsigned sign signum sin sinh size slice smallint sort_array soundex space split sqrt startswith
str_to_map string struct substr substring substring_index tan tanh time timestamp timestampadd
timestampdiff tinyint to_csv to_date to_json to_number to_timestamp to_unix_timestamp to_utc_timestamp
translate trim trunc try_add try_divide try_multiply try_subtract try_to_binary try_to_number typeof ucase
unbase64 unhex unix_timestamp upper weekday weekofyear when xpath xpath_boolean xpath_double xpath_float
xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year
"""
ROW_FUNCTIONS = frozenset(_NAMES.split())
"""Functions of one row: the same arguments give the same value, whenever and wherever."""

_CHANGING = frozenset({"input_file_block_length", "input_file_block_start", "input_file_name",
                       "monotonically_increasing_id", "rand", "randn", "random", "randstr", "shuffle",
                       "spark_partition_id", "uniform", "uuid"})
"""Functions of which each call gives another value, or one of the file that is read."""


@dataclass(frozen=True)
class Inspected:
    """What an expression reads (each path as the tuple of its names), and its type where that is known."""

    columns: frozenset[tuple[str, ...]]
    type: pa.DataType | None


def inspect(
    sql: object, schema: StructType, functions: frozenset[str] | None = ROW_FUNCTIONS
) -> Inspected:
    """Look into an expression over the columns of ``schema``.

    Args:
        functions: those that it may call; None is all that one row decides.

    Raises:
        InvalidPredicate: no SQL, a column that is not there, or what one row does not decide.
    """
    from deltanb.sql.resolver import Resolver

    if not isinstance(sql, str):
        raise InvalidPredicate(f"{sql!r:.80} is not SQL text", predicate=str(sql))
    tree = syntax(sql)
    try:
        _of_one_row(sql, tree, functions)
        expression = Resolver(sql, schema).whole(tree, is_condition=False)
    except UnsupportedPredicate:
        return Inspected(frozenset(_columns(sql, tree, schema)), _type_of(sql, tree))
    except RecursionError:
        raise too_deep(sql) from None
    from deltanb.sql import expressions as ex

    read = frozenset(node.path for node in ex.walk(expression) if isinstance(node, ex.Column))
    return Inspected(read, expression.type)


def refuse_changing(sql: str) -> None:
    """Refuse a condition that may hold for a row now and not a moment later.

    >>> refuse_changing("rand() < 0.5")
    Traceback (most recent call last):
    deltanb.errors.InvalidPredicate: 'rand() < 0.5' calls rand(), whose value differs from call to call

    Raises:
        InvalidPredicate: naming the function.
    """
    for name in function_names(sql):
        if name in _CHANGING:
            raise InvalidPredicate(
                f"{sql!r} calls {name}(), whose value differs from call to call", predicate=sql)


def has_aggregate(sql: str) -> bool:
    """Whether an expression is about several rows together.

    >>> has_aggregate("sum(n) > 0"), has_aggregate("size(letters) > 0 AND name = 'sum(n)'")
    (True, False)

    Raises:
        InvalidPredicate: no SQL.
    """
    return not _AGGREGATES.isdisjoint(function_names(sql)) or any(
        isinstance(node, exp.AggFunc) and not _is_of_row(node, None) for node in syntax(sql).walk())


def _of_one_row(sql: str, tree: exp.Expression, functions: frozenset[str] | None) -> None:
    for node in tree.walk():
        what = None
        if isinstance(node, exp.Window):
            what = "a window function"
        elif isinstance(node, _QUERIES):
            what = "a query"
        elif isinstance(node, exp.AggFunc) and not _is_of_row(node, functions):
            what = "an aggregate"
        elif isinstance(node, exp.Star):
            what = "a star"
        elif isinstance(node, _NOW) and functions is not None:
            what = "a value that changes with time or user"
        if what is not None:
            raise InvalidPredicate(
                f"{sql!r} uses {what} ({node.sql(dialect='spark')}); the value must be computable from "
                "a single row alone",
                predicate=sql)
    for name in function_names(sql):
        known = ROW_FUNCTIONS if functions is None else functions
        if name in known:
            continue
        if name in _AGGREGATES | _GENERATORS:
            raise InvalidPredicate(
                f"{sql!r} calls {name}(), which does not return one value per row", predicate=sql)
        if functions is not None:
            raise InvalidPredicate(
                f"{sql!r} calls {name}(), which is not known to be deterministic", predicate=sql)


def _is_of_row(node: exp.Expression, functions: frozenset[str] | None) -> bool:
    """sqlglot has some functions of arrays among the aggregates."""
    return any(name.lower() in (functions or ROW_FUNCTIONS) for name in type(node).sql_names())


def _columns(sql: str, tree: exp.Expression, schema: StructType) -> Iterator[tuple[str, ...]]:
    """The columns an expression outside the subset of the process names, top-level name first."""
    variables = {name.name.lower() for node in tree.find_all(exp.Lambda) for name in node.expressions}
    for column in tree.find_all(exp.Column):
        names = [part.name for part in column.parts]
        field = schema.get(names[0])
        if field is None and names[0].lower() not in variables:
            hint = did_you_mean(names[0], schema.names)[0] if schema.names else "a constant names none"
            raise InvalidPredicate(f"{sql!r} names the column {names[0]!r}, which does not exist; {hint}",
                                   predicate=sql)
        if field is not None:
            yield (field.name, *names[1:])


_RESULTS = {
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekofyear",
                     "hour", "minute", "second", "length", "datediff", "weekday", "ascii", "instr", "locate",
                     "hash"), "integer"),
    **dict.fromkeys(("xxhash64", "crc32"), "long"),
    **dict.fromkeys(("date_format", "md5", "sha", "sha1", "sha2", "to_json", "initcap", "from_unixtime"),
                    "string"),
    **dict.fromkeys(("to_date", "date_add", "date_sub", "last_day", "make_date", "add_months", "next_day"),
                    "date"),
}
"""Functions outside the subset that give one type, whatever they are called with."""


def _type_of(sql: str, tree: exp.Expression) -> pa.DataType | None:
    """The type of an expression outside the subset, where its outermost part alone says it."""
    from deltanb.schema.ddl import parse_type
    from deltanb.schema.types import PrimitiveType, arrow_type

    called = re.match(r"\s*(\w+)\s*\(", sql)
    if called is not None and isinstance(tree, exp.Func) and not isinstance(tree, exp.Binary):
        result = _RESULTS.get(called[1].lower())
        if result is not None:
            return arrow_type(PrimitiveType(result))
    if isinstance(tree, exp.Cast | exp.TryCast):
        try:
            return arrow_type(parse_type(tree.args["to"].sql(dialect="spark")))
        except InvalidSchema:
            return None
    return None
