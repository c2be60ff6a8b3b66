"""Plain conditions: what is read without the SQL parser is what the parser would say, or is left to it."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from datetime import date, datetime, timedelta
from typing import Any

import pytest
import sqlglot
from hypothesis import event, example, given
from hypothesis import strategies as st

from deltanb.errors import DeltaError, InvalidPredicate
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.sql import expressions as ex
from deltanb.sql import plain, predicates
from deltanb.sql import syntax as sql_syntax
from deltanb.sql.constants import cut, values
from deltanb.sql.expressions import Expression
from deltanb.sql.names import resolve_column
from deltanb.sql.resolver import Resolver
from deltanb.sql.syntax import split, syntax
from tests.examples import many

TYPES = {"i": "integer", "tiny": "byte", "l": "long", "d": "double", "f": "float", "dec": "decimal(10,2)",
         "s": "string", "b": "boolean", "day": "date", "ts": "timestamp", "bin": "binary",
         "a b": "integer", "date": "date", "tn": "timestamp_ntz"}
START = datetime(2020, 1, 1)
SCHEMA = StructType([*(StructField(name, PrimitiveType(kind)) for name, kind in TYPES.items()),
                     StructField("n", StructType([StructField("x", PrimitiveType("integer"))]))])


def parsed(sql: str, schema: StructType = SCHEMA) -> Expression:
    """What the parser says."""
    return Resolver(sql, schema).whole(syntax(sql), is_condition=True)


CONSTANTS = ["1", "-1", "0", "007", "300", "99999999999", "123456789012345678", "1234567890123456789", "1.5",
             "-0.0", "1.50", "'a'", "''", "'it''s'", "'1'", "'2024-01-02'", "'x AND y'", "'é'", "'\\n'",
             "'it\\'s'", "'a\\\\b'", "'\\''", "'\\\\'", "'\\%'", "'a\\", "'\\\\' OR 'x'",
             "TRUE", "false", "NULL", "1e3", "5L", "- 1", "--1", "DATE'2024-01-02'", "\"a\"", "'a' 'b'", "1.",
             ".5", "/*c*/1", "'2024-01-02 03:04:05'", "0x1F", "r'a'", "'\ud800'", "1 2", "(1)", "1_0",
             "'a;b'", "1;", "1.5BD", "-1.5bd", "5BD", "-007bd", "1.5E0", "-2e-3", "1E+20", "1e400", "5e",
             "5LL",
             "TIMESTAMP'2024-01-02 03:04:05'", "timestamp '2024-01-02 03:04:05.000001Z'", "DATE '2024-13-01'",
             "timestamp_ntz\n'2024-01-02T03:04'", "DATE'x'", "date '2024-1-2'", "TIMESTAMP '2024-01-02 03+01'"
             ]
NAMES = [*TYPES, "I", "`i`", "`a b`", "`Day`", "n", "n.x", "missing", "é", "i ", "`i``j`", "NOT i", "(i)",
         "current_date", "-i", "l\n", "\ts"]
SIGNS = ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", " = ", "\n<\t", " =", "= ", "< >",
         "LIKE", " like "]
GAPS = [" ", "  ", "\n", "\t", "\r\n", "", "/**/", " -- c\n", "\x0b", "\xa0"]
PLAIN = {"names": ["i", "I", "`a b`", "s", "day", "dec", "d", "tiny", "b", "`i`"], "gaps": [" ", "\n", "  "],
         "signs": [" = ", "<", " >= ", "<> ", " != "],
         "constants": ["DATE'2024-01-02'", "2.5BD", "1.5E0", "1", "300", "-1", "1.5", "'a'", "'1'", "NULL",
                       "'x AND y'", "'2024-01-02'", "true", "'it\\'s'", "'a\\\\b'"]}
WILD = {"names": NAMES, "gaps": GAPS, "signs": SIGNS, "constants": CONSTANTS}
Words = dict[str, list[str]]


@st.composite
def terms(draw: st.DrawFn, words: Words) -> str:
    """A comparison, a test for NULL or membership; perhaps none that is valid."""
    name, gap = draw(st.sampled_from(words["names"])), draw(st.sampled_from(words["gaps"]))
    kind = draw(st.sampled_from(["compare", "compare", "mirrored", "null", "in", "in"]))
    constant = st.sampled_from(words["constants"])
    if kind == "compare":
        return name + draw(st.sampled_from(words["signs"])) + draw(constant)
    if kind == "mirrored":
        return draw(constant) + draw(st.sampled_from(words["signs"])) + name
    if kind == "null":
        return name + gap + draw(st.sampled_from(["IS NULL", "is not null", "IS  NOT\nNULL", "IS TRUE"]))
    listed = draw(st.one_of(
        st.lists(constant, min_size=0, max_size=4),
        st.lists(st.integers(-2**70, 2**70).map(str), min_size=1, max_size=5),
        st.lists(st.integers(-200, 200).map(str), min_size=1, max_size=5),
        st.lists(st.text(max_size=3).map(lambda text: f"'{text}'"), min_size=1, max_size=5)))
    joined = draw(st.sampled_from([",", ", ", " , ", "\n,"])).join(listed)
    word = draw(st.sampled_from(["IN", "in", "NOT IN", "not\nin"]))
    return f"{name}{gap}{word}{draw(st.sampled_from(words['gaps']))}({joined})"


@st.composite
def bracketed(draw: st.DrawFn, words: Words, depth: int) -> str:
    """A term, or several in brackets, at times with NOT before them."""
    if not depth or draw(st.integers(0, 2)):
        return draw(st.sampled_from(["", "", "", "NOT ", "not\n"])) + draw(terms(words))
    gap, join = draw(st.sampled_from(words["gaps"])), draw(st.sampled_from([" AND ", " or ", "\nAND\n"]))
    inside = join.join(draw(st.lists(bracketed(words, depth - 1), min_size=1, max_size=3)))
    return draw(st.sampled_from(["", "", "NOT", "not ", "NOT NOT "])) + f"({gap}{inside})"


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Terms joined by AND, OR or both, at times with a character too many or too few."""
    words = draw(st.sampled_from([PLAIN, PLAIN, WILD]))
    text = draw(bracketed(words, 2))
    junctions = draw(st.sampled_from([["AND"], ["or"], ["and", "OR"], ["and", "OR", "XOR", "and not"]]))
    for _ in range(draw(st.integers(0, 3))):
        gaps = st.sampled_from(words["gaps"])
        text += draw(gaps) + draw(st.sampled_from(junctions)) + draw(gaps) + draw(bracketed(words, 2))
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(text) - 1))
        text = text[:place] + draw(st.sampled_from(["", "'", ")", "(", "-", "`", ",", "1", "a", ";", "\\"])) \
            + text[place + 1:]
    return draw(st.sampled_from(["", "", " ", "\n"])) + text + draw(st.sampled_from(["", "", " ", ";", "\n"]))


@given(conditions())
@many
@example("i=1")
@example("idin (1)")
@example("i IN (1, 2) and")
@example("(i IN (1, 2)) OR i = 3 AND NOT (s = 'a' OR (s = 'b'))")
@example("((i = 1 AND s = 'a'))")
@example("(i = 1) and (i = 2 OR s = 'x') AND b IS NULL")
@example("not i = 1")
@example("not(i = 1)")
@example("(i = 1")
@example("i = 1)")
@example("(i) = 1")
@example("()")
@example("i = -5BD AND d = -1.5E0 AND l = -5BD")
def test_what_is_read_plainly_is_what_the_parser_says(sql: str) -> None:
    found = plain.read(sql, SCHEMA)
    event(f"read plainly: {found is not None}")
    if found is not None:
        assert found == parsed(sql)
    pieces = plain.pieces(sql)
    if pieces is not None:
        assert pieces == split(sql)


@pytest.mark.parametrize("sql", [
    "i = 1", "I = -1", "`a b` <= 3", "s = 'a'", "dec > 1.5", "day = '2024-01-02'", "b = true",
    "i IS NULL", "s is not null AND i <> 4", "i IN (1,2,3)", "s NOT IN ('a', 'b')", "i IN (1, NULL)", "d < 2",
    "i = 1 OR i = 2 OR s = 'x'", "tiny IN (1, 300)", "i = NULL", "f IN (0.0, 1.5)", "l in (1.5, 2)",
    "5 = i", "-1 <= i AND not 'a' <> s", "DATE '2024-01-02' < `day`", "2.5 > dec or true = b", "NULL = i",
    r"s IN ('it\'s', 'a\\b', '')", r"s = 'it\'s'", r"'\\' = s",
])
def test_plain_conditions_are_read_without_the_parser(sql: str) -> None:
    found = plain.read(sql, SCHEMA)
    assert found is not None
    assert found == parsed(sql)


@given(st.one_of(st.sampled_from(CONSTANTS), st.text(max_size=4).map(lambda text: f"'{text}'"),
                 st.decimals(allow_nan=False, allow_infinity=False).map(str),
                 st.text("-.0123e'", max_size=6)))
def test_a_constant_is_what_the_parser_says(sql: str) -> None:
    found = plain.constant(sql)
    event(f"read plainly: {found is not None}")
    if found is not None:
        assert str(found) == str(Resolver(sql, SCHEMA).whole(syntax(sql), is_condition=False))


def words() -> list[str]:
    """Every word that the tokenizer and the parser know, and functions that are called without brackets."""
    dialect = sqlglot.Dialect.get_or_raise("spark")
    known = {word.lower() for word in dialect.tokenizer_class.KEYWORDS}
    known |= {getattr(kind, "name", str(kind)).lower() for kind in dialect.parser_class.NO_PAREN_FUNCTIONS}
    known |= {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "sysdate"}
    known |= {word.lower() for word in dialect.parser_class.NO_PAREN_FUNCTION_PARSERS}
    return sorted(word for word in known if word.replace("_", "").isalnum() and word.isascii())


def test_a_word_that_is_more_than_a_name_is_left_to_the_parser() -> None:
    found = words()
    assert len(found) > 200
    kept = []
    for word in found:
        schema = StructType([StructField(name, PrimitiveType("integer")) for name in (word, "ok")])
        for sql in (f"{word} = 1", f"{word} IN (1, 2)", f"{word} IS NULL", f"ok = 1 AND {word} = 1"):
            plainly = plain.read(sql, schema)
            if plainly is not None:
                kept.append(word)
                assert plainly == parsed(sql, schema), sql
    assert {"date", "timestamp", "format"} <= set(kept)


@pytest.mark.parametrize("sql", ["missing = 1", "i = 'x'", "b = 1.5", "bin = 1", "i IN (1, 'x')", "n = 1"])
def test_what_is_refused_is_refused_by_the_parser_with_the_place(sql: str) -> None:
    assert plain.read(sql, SCHEMA) is None
    with pytest.raises(DeltaError):
        predicates.parse(sql, SCHEMA)


def test_a_hundred_thousand_constants_are_one_set_and_need_no_parser() -> None:
    numbers = range(0, 300_000, 3)
    texts = ",".join(f"'k{number}'" for number in numbers)
    sql = f"i IN ({', '.join(map(str, numbers))}) AND s IN ({texts})"
    found = plain.read(sql, SCHEMA)
    assert found is not None
    assert sum(1 for _ in ex.walk(found)) == 5
    sets = [part.extra for part in ex.conjuncts(found)]
    assert [len(one.values) for one in sets] == [100_000, 100_000]
    assert sets[0].values == tuple(numbers)
    assert predicates.Predicate(sql, found).conjuncts()[1].sql.startswith("s IN ('k0','k3'")


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
def test_constants_that_are_read_together_are_what_each_of_them_is(column: str, how: str) -> None:
    together = 0
    for listed in [*itertools.permutations(KINDS[column], 2), KINDS[column], KINDS[column][:4]]:
        sql = f"{column} {how} ({', '.join(listed)})"
        found = plain.read(sql, SCHEMA)
        if found is None:
            with pytest.raises(DeltaError):
                parsed(sql)
            continue
        assert found == parsed(sql), sql
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
        found = plain.read(sql, SCHEMA)
    finally:
        sys.setprofile(None)
    assert found is not None and calls <= 1.1 * MANY_MEMBERS
    [members] = [node.extra for node in ex.walk(found) if isinstance(node, ex.Call) and node.op == "in"]
    assert len(members.values) in (MANY_MEMBERS, MANY_MEMBERS + 1) and not members.has_null


class Counted:
    """How many tokens the parser is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tokens = 0
        inner = sql_syntax._spark_tokens

        def counted(sql: str, tokens: list[Any]) -> list[Any]:
            self.tokens += len(tokens)
            return inner(sql, tokens)

        monkeypatch.setattr(sql_syntax, "_spark_tokens", counted)


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
    found = predicates.parse(sql, SCHEMA)
    assert counted.tokens == tokens
    assert found.expression == parsed(sql)
    assert [one.sql for one in found.conjuncts()] == split(sql) and len(found.conjuncts()) == parts
    assert [one.sql for one in predicates.parse_parts(sql, SCHEMA)[0]] == split(sql)


@pytest.mark.parametrize("sql", [
    "abs(i) > 2 AND i IN ({numbers}, 'x')", "abs(i) > 2 AND day IN ('2024-13-01', {numbers})",
    "abs(i) > > 2 AND i IN ({numbers})", "nope(i) > 2 AND i IN ({numbers})",
    "abs(i) > 2 AND i IN ({numbers}"])
def test_what_is_refused_beside_a_long_list_is_told_of_the_whole_text(sql: str) -> None:
    sql = sql.format(**LISTS)
    with pytest.raises(DeltaError) as expected:
        parsed(sql)
    with pytest.raises(type(expected.value)) as found:
        predicates.parse(sql, SCHEMA)
    assert str(found.value) == str(expected.value)
    if "not valid SQL" in str(found.value):
        with pytest.raises(InvalidPredicate, match=re.escape(str(expected.value))):
            predicates.parse_parts(sql, SCHEMA)


def test_a_list_beside_a_backslash_is_the_parser_s() -> None:
    sql = f"s = r'\\' AND s <> ' in ({LISTS['numbers']}) ' AND abs(i) IN ({LISTS['numbers']})"
    assert cut(sql) == (sql, {})
    assert predicates.parse(sql, SCHEMA).expression == parsed(sql)


def test_a_plain_condition_loads_no_parser() -> None:
    code = ("import sys; from deltanb.schema.types import *; from deltanb.sql import predicates; "
            "schema = StructType([StructField('i', PrimitiveType('integer'))]); "
            "predicates.parse('(i = 1 OR i IN (2, 3)) AND NOT i = 4', schema).conjuncts(); "
            "print('sqlglot' in sys.modules); "
            "predicates.parse('abs(i) = 1', schema); print('sqlglot' in sys.modules)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]
