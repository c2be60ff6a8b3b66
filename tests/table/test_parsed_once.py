"""A condition is parsed once for each call, and is a value from there on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import sqlglot

import deltanb as dn
from deltanb.commands.merge.clauses import Names
from deltanb.query.duck import DUCKDB
from deltanb.query.run import run
from deltanb.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltanb.sql import predicates
from deltanb.sql.syntax import columns, place_of, syntax
from deltanb.testing import MemoryStore

WHERE = "nephews + 0 > 1 AND pond = 'a'"
Call = Callable[[dn.DeltaTable], Any]


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text was parsed, by nobody who remembers it."""
    texts: Counter[str] = Counter()
    real = sqlglot.parser.Parser.parse

    def counted(self: Any, tokens: Any, sql: str | None = None) -> Any:
        texts[str(sql)] += 1
        return real(self, tokens, sql)

    monkeypatch.setattr(sqlglot.parser.Parser, "parse", counted)
    for name in ("_parse", "_parse_value"):
        monkeypatch.setattr(predicates, name, getattr(predicates, name).__wrapped__)
    return texts


@pytest.fixture
def table() -> dn.DeltaTable:
    return dn.create(MemoryStore(), {"name": ["Donald", "Daisy", "Gus"], "nephews": [3, 0, 2],
                                     "pond": ["a", "a", "b"]}, partition_by="pond",
                     properties={"delta.enableChangeDataFeed": "true"})


def in_transaction(table: dn.DeltaTable) -> Any:
    return table.log.with_new_transaction(lambda txn: table.to_arrow(where=WHERE))


CALLS: dict[str, Call] = {
    "delete": lambda table: table.delete(WHERE),
    "update": lambda table: table.update({"name": "upper(name)"}, WHERE),
    "overwrite": lambda table: table.overwrite(
        {"name": ["Dewey"], "nephews": [2], "pond": ["a"]}, where=WHERE),
    "to_arrow": lambda table: table.to_arrow(where=WHERE),
    "to_batches": lambda table: table.to_batches(where=WHERE).read_all(),
    "to_polars": lambda table: table.to_polars(where=WHERE).collect(),
    "to_dataset": lambda table: table.to_dataset(WHERE).to_table(),
    "count": lambda table: table.count(WHERE),
    "explain": lambda table: table.explain(WHERE),
    "changes": lambda table: table.changes(0, where=WHERE),
    "in a transaction": in_transaction,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_condition_is_parsed_once(name: str, table: dn.DeltaTable, parsed: Counter[str]) -> None:
    CALLS[name](table)
    assert parsed[WHERE] == 1


def test_optimize_parses_its_condition_once(table: dn.DeltaTable, parsed: Counter[str]) -> None:
    table.optimize(where="pond = 'a'")
    assert parsed == {"pond = 'a'": 1}


@pytest.mark.parametrize(("target", "source"), [("target.", "source."), ("t.", "s."), ("`t`.", "`s`.")])
def test_a_merge_parses_each_text_once_where_all_columns_have_an_alias(
    target: str, source: str, table: dn.DeltaTable, parsed: Counter[str]
) -> None:
    of_target = f"{target}nephews < 2"
    on, update = f"{target}name = {source}name AND {of_target}", f"{target}pond = 'a'"
    insert = f"{source}nephews > 1"
    values = {"name": f"{source}name", "nephews": f"{source}nephews + 1", "pond": "'a'"}
    merge = table.merge({"name": ["Daisy", "Dewey"], "nephews": [1, 2]}, on,
                        target_alias=target.strip("`."), source_alias=source.strip("`."))
    merge.when_matched_update(update, set=values).when_not_matched_insert(insert, values=values).execute()
    assert table.count() == 4
    assert parsed == Counter([on, update, insert, *values.values(), *values.values(), of_target]), (
        "the last one is what the files are asked")


def test_a_merge_parses_what_is_written_and_never_again_with_its_aliases(
    table: dn.DeltaTable, parsed: Counter[str]
) -> None:
    merge = table.merge({"name": ["Daisy", "Dewey"]}, "target.name = source.name AND nephews < 2")
    merge.when_matched_delete("nephews >= 0").execute()
    assert parsed == {"target.name = source.name AND nephews < 2": 1, "nephews >= 0": 1,
                      "`target`.nephews < 2": 1}, "the last one is what the files are asked"


def test_a_query_parses_each_condition_once(table: dn.DeltaTable, parsed: Counter[str]) -> None:
    sql = "SELECT name FROM ducks WHERE nephews > 1 AND pond = 'a' AND name BETWEEN 'A' AND 'E'"
    assert run(sql, {"ducks": table}, DUCKDB).to_arrow()["name"].to_pylist() == ["Donald"]
    assert {text: count for text, count in parsed.items() if text != sql} == {
        "`nephews` > 1": 1, "`pond` = 'a'": 1, "`name` BETWEEN 'A' AND 'E'": 1}


@pytest.mark.parametrize("expression", ["nephews >= 0", "nephews + 0 >= 0 AND name <> 'Gladstone' -- never"])
def test_a_constraint_is_parsed_by_its_command_and_by_the_check_of_the_metadata(
    expression: str, table: dn.DeltaTable, parsed: Counter[str]
) -> None:
    table.add_constraint("several", expression)
    assert parsed == {expression: 2}


@pytest.mark.parametrize("expression", [
    "a = 1", "a = 1 AND b > 2", "a IN (1, 2) OR b IS NULL", "NOT a > 1", "a", "a <=> b",
    "a BETWEEN 1 AND 2 -- both"])
def test_rows_that_violate_are_those_of_the_text_that_says_so(expression: str) -> None:
    schema = StructType([StructField("a", PrimitiveType("boolean" if expression == "a" else "long")),
                         StructField("b", PrimitiveType("long"))])
    violated = predicates.untrue(predicates.parse(expression, schema))
    assert violated == predicates.parse(violated.sql, schema)


def test_the_parts_of_all_conditions_are_theirs() -> None:
    schema = StructType([StructField(name, PrimitiveType("long")) for name in "ab"])
    parts = [predicates.parse(text, schema) for text in (
        "a = 1", "(a = 1 OR b = 2)", "b BETWEEN 1 AND 2", "(a > 0 AND NOT b > 4)")]
    whole = predicates.all_of(parts)
    assert whole is not None
    parsed = predicates.parse(whole.sql, schema)
    assert whole.conjuncts() == parsed.conjuncts()
    assert [part.sql for part in whole.conjuncts()] == [part.sql for part in parsed.conjuncts()]


LONG = PrimitiveType("long")
DEEP = StructField("a", StructType([StructField("b", StructType([StructField("c", StructType([
    StructField("d", StructType([StructField("e", LONG)]))]))]))]))
NAMES = Names(
    StructType([StructField("id", LONG), StructField("n", LONG), DEEP,
                StructField("arr", ArrayType(LONG, True)), StructField("odd `x", LONG)]),
    StructType([StructField("id", LONG), StructField("k", LONG)]), "t", "the s")


@pytest.mark.parametrize("sql", [
    "n = 1", "n", "n = n AND t.n = n", "t.id = `the s`.id AND n > k", "a.b = k", "a.b.c = k", "a.b.c.d = k",
    "a.b.c.d.e = k", "t.a.b.c.d.e + n = k", "a.b.c.d", "exists(arr, x -> x = n) OR k = 1",
    "arr[n] = k AND `odd ``x` > 1 AND t.`odd ``x` < 2", "arr[a.b.c.d.e].f.g",
    "CASE WHEN n = 1 THEN k ELSE n END = 1 -- n\n AND n = n"])
def test_the_tree_with_aliases_is_that_of_the_text_with_aliases(sql: str) -> None:
    qualified = NAMES.qualified(sql, is_condition=False)
    again = syntax(str(qualified))
    assert qualified.tree == again
    assert [(str(node), place_of(node)) for node in columns(qualified)] == [
        (str(node), place_of(node)) for node in again.find_all(type(next(columns(qualified))))]
