"""Long lists of constants: they are read without the SQL parser, as it would read them."""

from __future__ import annotations

import itertools
import re
import sys
from datetime import date, datetime, timedelta
from typing import Any

import pytest

from deltanb.errors import DeltaError, InvalidPredicate
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.sql import constants, predicates
from deltanb.sql import expressions as ex
from deltanb.sql import syntax as sql_syntax
from deltanb.sql.constants import cut, values
from deltanb.sql.expressions import Expression
from deltanb.sql.names import resolve_column
from deltanb.sql.resolver import Resolver
from deltanb.sql.syntax import split, syntax

TYPES = {"i": "integer", "tiny": "byte", "l": "long", "d": "double", "f": "float", "dec": "decimal(10,2)",
         "s": "string", "b": "boolean", "day": "date", "ts": "timestamp", "bin": "binary",
         "a b": "integer", "date": "date", "tn": "timestamp_ntz"}
START = datetime(2020, 1, 1)
SCHEMA = StructType([*(StructField(name, PrimitiveType(kind)) for name, kind in TYPES.items()),
                     StructField("n", StructType([StructField("x", PrimitiveType("integer"))]))])


def parsed(sql: str, schema: StructType = SCHEMA) -> Expression:
    """What the parser says."""
    return Resolver(sql, schema).whole(syntax(sql), is_condition=True)


KINDS = {
    "i": ["1", "-1", "007", "NULL", "300"], "l": ["5000000000", "null", "-1"],
    "s": ["'a'", "''", "'x, y'", "NULL"],
    "dec": ["1", "1.5", "-1.50", "0.0", "-0.00", "9.25BD", "NULL", "12345678.91", "123456789.01", "1.005"],
    "d": ["1", "1.5", "-0", "-0.0", "1.5E0", "-2e-3", "2.5BD", "1e400", "NULL", "0.1"],
    "f": ["1", "1.5", "0.1", "1.5E0"],
    "day": ["'2024-01-02'", "DATE'2024-01-02'", "date '2023-12-31'", "NULL", "'2024-02-30'", "'2024-1-2'"],
    "ts": ["'2024-01-02 03:04:05'", "'2024-01-02T03:04:05.000001'", "TIMESTAMP '2024-01-02 03:04:05.120000Z'",
           "timestamp'1969-12-31 23:59:59Z'", "NULL", "DATE'2024-01-02'", "'2024-01-02 25:00:00'",
           "'2024-01-02'"],
    "tn": ["'2024-01-02 03:04:05'", "TIMESTAMP_NTZ'2024-01-02 03:04:05.120000'", "NULL",
           "TIMESTAMP'2024-01-02 03:04:05Z'"],
}
"""Constants by the column that they are compared with; some are no values of it."""


@pytest.mark.parametrize("column", KINDS)
@pytest.mark.parametrize("how", ["IN", "NOT IN"])
def test_constants_that_are_read_together_are_what_each_of_them_is(
    column: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "MANY", 1)
    monkeypatch.setattr(constants, "_LONG", re.compile(constants._LONG.pattern.replace("{1000}", "{1}"),
                                                       constants._LONG.flags))
    predicates._parse.cache_clear()
    together = 0
    for listed in [*itertools.permutations(KINDS[column], 2), KINDS[column], KINDS[column][:4]]:
        sql = f"{column} {how} ({', '.join(listed)})"
        try:
            expected = parsed(sql)
        except DeltaError as error:
            with pytest.raises(type(error), match=re.escape(str(error))):
                predicates.parse(sql, SCHEMA)
            continue
        assert predicates.parse(sql, SCHEMA).expression == expected, sql
        together += values(resolve_column("", SCHEMA, [column], "").type, ", ".join(listed)) is not None
    assert together or column == "f"


MANY_MEMBERS = 100_000
LONG = {
    "i": (str(n) for n in range(MANY_MEMBERS)), "s": (f"'k{n}'" for n in range(MANY_MEMBERS)),
    "dec": (f"{n}.25" for n in range(MANY_MEMBERS)), "d": (f"{n}.5E0" for n in range(MANY_MEMBERS)),
    "day": (f"DATE '{date.fromordinal(700_000 + n)}'" for n in range(MANY_MEMBERS)),
    "ts": (f"TIMESTAMP '{START + timedelta(minutes=n)}Z'" for n in range(MANY_MEMBERS)),
    "tn": (f"'{START + timedelta(minutes=n)}'" for n in range(MANY_MEMBERS)),
}


@pytest.mark.parametrize("column", LONG)
def test_a_hundred_thousand_members_take_a_call_or_two_each(column: str) -> None:
    texts = list(LONG[column])
    sql = f"({column} IN ({', '.join(texts)}) OR i = 5) AND NOT b IS NULL"
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        predicate = predicates.parse(sql, SCHEMA)
    finally:
        sys.setprofile(None)
    assert calls <= 1.1 * MANY_MEMBERS
    [members] = [node.extra for node in ex.walk(predicate.expression)
                 if isinstance(node, ex.Call) and node.op == "in"]
    assert len(members.values) in (MANY_MEMBERS, MANY_MEMBERS + 1) and not members.has_null


class Counted:
    """How many tokens the parser is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens = 0
        inner = sql_syntax.spark_tokens

        def counted(sql: str, tokens: list[Any]) -> list[Any]:
            self.tokens += len(tokens)
            return inner(sql, tokens)

        monkeypatch.setattr(sql_syntax, "spark_tokens", counted)


LISTS = {"numbers": ", ".join(map(str, range(500))), "texts": ",".join(f"'k, {n}'" for n in range(500))}


@pytest.mark.parametrize(("sql", "tokens", "parts"), [
    ("abs(i) > 2 AND i IN ({numbers})", 12, 2),
    ("i BETWEEN 1 AND 5 OR s LIKE 'a%' AND s NOT IN ({texts})", 16, 1),
    ("abs(i) IN ({numbers}) AND (s IN ({texts})) AND l > 1 + 1", 22, 3),
    ("i + 1 in({numbers}) AND s = 'in ({numbers})' AND `a b` = 1 -- in ({numbers})", 15, 3),
    ("s = \"in ({numbers})\" /* i IN ({numbers}) */ AND l NOT IN ({numbers}) AND upper(s) = 'A'", 17, 3),
])
def test_the_parser_is_spared_long_lists(
    sql: str, tokens: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = sql.format(**LISTS)
    counted = Counted(monkeypatch)
    predicate = predicates.parse(sql, SCHEMA)
    assert counted.tokens == tokens
    assert predicate.expression == parsed(sql)
    assert [one.sql for one in predicate.conjuncts()] == split(sql) and len(predicate.conjuncts()) == parts


@pytest.mark.parametrize("sql", [
    "abs(i) > 2 AND i IN ({numbers}, 'x')", "abs(i) > 2 AND day IN ('2024-13-01', {numbers})",
    "abs(i) > > 2 AND i IN ({numbers})", "nope(i) > 2 AND i IN ({numbers})",
    "abs(i) > 2 AND i IN ({numbers}"])
def test_what_is_refused_beside_a_long_list_is_told_of_the_whole_text(sql: str) -> None:
    sql = sql.format(**LISTS)
    with pytest.raises(DeltaError) as expected:
        parsed(sql)
    with pytest.raises(type(expected.value)) as caught:
        predicates.parse(sql, SCHEMA)
    assert str(caught.value) == str(expected.value)
    if "not valid SQL" in str(caught.value):
        with pytest.raises(InvalidPredicate, match=re.escape(str(expected.value))):
            predicates.parse_condition(sql, SCHEMA)


def test_a_list_beside_a_backslash_is_the_parser_s() -> None:
    sql = f"s = r'\\' AND s <> ' in ({LISTS['numbers']}) ' AND abs(i) IN ({LISTS['numbers']})"
    assert cut(sql) == (sql, {})
    assert predicates.parse(sql, SCHEMA).expression == parsed(sql)
