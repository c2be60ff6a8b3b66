"""Plain conditions: what is read without the SQL parser is what the parser would say, or is left to it."""

from __future__ import annotations

import subprocess
import sys

import pytest
import sqlglot
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from deltanb.errors import DeltaError
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.sql import expressions as ex
from deltanb.sql import plain, predicates
from deltanb.sql.expressions import Expression
from deltanb.sql.resolver import Resolver
from deltanb.sql.syntax import split, syntax

TYPES = {"i": "integer", "tiny": "byte", "l": "long", "d": "double", "f": "float", "dec": "decimal(10,2)",
         "s": "string", "b": "boolean", "day": "date", "ts": "timestamp", "bin": "binary",
         "a b": "integer", "date": "date", "tn": "timestamp_ntz"}
SCHEMA = StructType([*(StructField(name, PrimitiveType(kind)) for name, kind in TYPES.items()),
                     StructField("n", StructType([StructField("x", PrimitiveType("integer"))]))])


def parsed(sql: str, schema: StructType = SCHEMA) -> Expression:
    """What the parser says."""
    return Resolver(sql, schema).whole(syntax(sql), is_condition=True)


CONSTANTS = ["1", "-1", "0", "007", "300", "99999999999", "123456789012345678", "1234567890123456789", "1.5",
             "-0.0", "1.50", "'a'", "''", "'it''s'", "'1'", "'2024-01-02'", "'x AND y'", "'é'", "'\\n'",
             "TRUE", "false", "NULL", "1e3", "5L", "- 1", "--1", "DATE'2024-01-02'", "\"a\"", "'a' 'b'", "1.",
             ".5", "/*c*/1", "'2024-01-02 03:04:05'", "0x1F", "r'a'", "'\ud800'", "1 2", "(1)", "1_0",
             "'a;b'", "1;"]
NAMES = [*TYPES, "I", "`i`", "`a b`", "`Day`", "n", "n.x", "missing", "é", "i ", "`i``j`", "NOT i", "(i)",
         "current_date", "-i", "l\n", "\ts"]
SIGNS = ["=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>", " = ", "\n<\t", " =", "= ", "< >",
         "LIKE", " like "]
GAPS = [" ", "  ", "\n", "\t", "\r\n", "", "/**/", " -- c\n", "\x0b", "\xa0"]
PLAIN = {"names": ["i", "I", "`a b`", "s", "day", "dec", "d", "tiny", "b", "`i`"], "gaps": [" ", "\n", "  "],
         "signs": [" = ", "<", " >= ", "<> ", " != "],
         "constants": ["1", "300", "-1", "1.5", "'a'", "'1'", "NULL", "'x AND y'", "'2024-01-02'", "true"]}
WILD = {"names": NAMES, "gaps": GAPS, "signs": SIGNS, "constants": CONSTANTS}
Words = dict[str, list[str]]


@st.composite
def terms(draw: st.DrawFn, words: Words) -> str:
    """A comparison, a test for NULL or membership; perhaps none that is valid."""
    name, gap = draw(st.sampled_from(words["names"])), draw(st.sampled_from(words["gaps"]))
    kind = draw(st.sampled_from(["compare", "compare", "null", "in", "in"]))
    constant = st.sampled_from(words["constants"])
    if kind == "compare":
        return name + draw(st.sampled_from(words["signs"])) + draw(constant)
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
def conditions(draw: st.DrawFn) -> str:
    """Terms joined by AND, OR or both, at times with a character too many or too few."""
    words = draw(st.sampled_from([PLAIN, PLAIN, WILD]))
    text = draw(terms(words))
    junctions = draw(st.sampled_from([["AND"], ["or"], ["and", "OR", "XOR", "and not"]]))
    for _ in range(draw(st.integers(0, 3))):
        gaps = st.sampled_from(words["gaps"])
        text += draw(gaps) + draw(st.sampled_from(junctions)) + draw(gaps) + draw(terms(words))
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(text) - 1))
        text = text[:place] + draw(st.sampled_from(["", "'", ")", "(", "-", "`", ",", "1", "a", ";", "\\"])) \
            + text[place + 1:]
    return draw(st.sampled_from(["", "", " ", "\n"])) + text + draw(st.sampled_from(["", "", " ", ";", "\n"]))


@given(conditions())
@settings(max_examples=1500, deadline=None)
@example("i=1")
@example("idin (1)")
@example("i IN (1, 2) and")
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


def test_a_plain_condition_loads_no_parser() -> None:
    code = ("import sys; from deltanb.schema.types import *; from deltanb.sql import predicates; "
            "schema = StructType([StructField('i', PrimitiveType('integer'))]); "
            "predicates.parse('i = 1 OR i IN (2, 3)', schema).conjuncts(); print('sqlglot' in sys.modules); "
            "predicates.parse('abs(i) = 1', schema); print('sqlglot' in sys.modules)")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]
