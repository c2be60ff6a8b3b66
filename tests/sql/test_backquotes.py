"""Columns named like words of SQL's grammar: their conditions are read, or say how they are written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import sqlglot

from deltanb.errors import DeltaError, InvalidPredicate
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.sql.predicates import parse
from deltanb.table.table import DeltaTable
from tests.helpers import refused, table_of

WORDS = sorted({word.lower() for word in sqlglot.Dialect.get_or_raise("spark").tokenizer_class.KEYWORDS
                if word.isidentifier()})
TEMPLATES = ["{} > 3", "{} IS NULL", "x = 1 AND {} = 2", "{} IN (1, 2)", "NOT {} = 1", "1 < {}"]
VALUES = {"true", "false", "null", "current_date", "current_timestamp", "current_user", "current_time",
          "current_catalog", "current_schema", "localtime", "localtimestamp", "session_user"}
"""Words that are values by themselves, to Spark, too: of them nothing can be known."""


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """sqlglot warns of statements that it does not parse."""
    caplog.set_level(logging.ERROR, "sqlglot")


@pytest.mark.parametrize("template", TEMPLATES)
def test_any_word_as_a_column_is_read_or_told_with_backquotes(template: str) -> None:
    hints = 0
    for word in WORDS:
        schema = StructType([StructField(name, PrimitiveType("long")) for name in (word, "x")])
        sql = template.format(word)
        right = template.format(f"`{word}`")
        assert (word,) in parse(right, schema).column_paths
        try:
            paths = parse(sql, schema).column_paths
        except DeltaError as error:
            if word not in VALUES:
                assert f"use backquotes: {right}" in str(error), (word, str(error))
                hints += 1
        else:
            assert (word,) in paths or word in VALUES, word
    assert hints > 10


@pytest.fixture
def table() -> DeltaTable:
    return table_of({"desc": [1, 2], "values": [1, 2], "when": [3, 4], "x": [1, 2]})


@pytest.mark.parametrize(("sql", "right"), [
    ("when > 3 AND (desc = 1 OR values IN (1))", "`when` > 3 AND (`desc` = 1 OR `values` IN (1))"),
    ("CASE WHEN when > 3 THEN x ELSE 0 END = 1", "CASE WHEN `when` > 3 THEN x ELSE 0 END = 1"),
    ("WHEN > 3", "`WHEN` > 3"), ("x = length('when') AND when = 1", "x = length('when') AND `when` = 1"),
    ("desc = 1 AND `desc` = 1", "`desc` = 1 AND `desc` = 1")])
def test_only_the_names_get_backquotes(table: DeltaTable, sql: str, right: str) -> None:
    with pytest.raises(InvalidPredicate, match="keywords? of SQL as") as caught:
        table.to_arrow(where=sql)
    assert str(caught.value).endswith(f"use backquotes: {right}") and caught.value.predicate == sql
    assert table.count(right) >= 0


def test_errors_of_another_kind_stay_what_they_are(table: DeltaTable) -> None:
    for sql in ("foo > 1", "x >", "x = 1 desc", "soundexx(x) = 'a' AND when = 1"):
        with pytest.raises(DeltaError) as caught:
            table.to_arrow(where=sql)
        assert "backquotes" not in str(caught.value), sql


WAYS: dict[str, Callable[[DeltaTable], Any]] = {
    "delete": lambda table: table.delete("when > 3"),
    "delete on spark's words": lambda table: table.delete("desc IN (1)"),
    "update": lambda table: table.update({"x": "when + 1"}),
    "overwrite": lambda table: table.overwrite({"x": [1]}, where="when > 3"),
    "constraint": lambda table: table.add_constraint("c", "when > 0"),
    "merge": lambda table: table.merge({"id": [3]}, "when = id").when_matched_delete().execute(),
    "clause": lambda table: table.merge(
        {"id": [3]}, "x = id").when_matched_delete("when > 3").execute(),
    "explain": lambda table: table.explain("when > 3"), "count": lambda table: table.count("when > 3"),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_command_says_it(table: DeltaTable, way: str) -> None:
    refused(table, DeltaError, lambda: WAYS[way](table), "use backquotes: .*`(when|desc)`")
