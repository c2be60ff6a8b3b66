"""A condition is compiled once for a command, whoever asks for it on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import deltanb as dn
from deltanb.sql import expressions as ex
from deltanb.sql import predicates

WHERE = "a > 1 AND b = 'x'"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[ex.Expression, bool]]]:
    """The expressions that were compiled, not those inside of them, and whether as a filter."""
    expressions: list[tuple[ex.Expression, bool]] = []
    running: list[ex.Expression] = []
    compile_expression = ex.compile_expression

    def counting(expression: ex.Expression, *args: Any, **options: Any) -> Any:
        if not running:
            expressions.append((expression, options.get("as_filter", False)))
        running.append(expression)
        try:
            return compile_expression(expression, *args, **options)
        finally:
            running.pop()

    monkeypatch.setattr(ex, "compile_expression", counting)
    predicates._parse.cache_clear()
    predicates._parse_value.cache_clear()
    yield expressions


def merged(table: Any) -> None:
    table.merge({"a": [1, 9], "b": ["p", "q"]}, "target.a = source.a AND target.b = 'x'") \
        .when_matched_update_all("source.a > 0").when_not_matched_insert_all().execute()


@pytest.mark.parametrize(("command", "times"), [
    (lambda table: table.delete(WHERE), 1),
    (lambda table: table.update({"b": "upper(b)"}, WHERE), 2),  # and the new value
    (lambda table: table.to_arrow(where=WHERE), 1),
    (lambda table: table.overwrite({"a": [9], "b": ["x"]}, where=WHERE), 2),  # found by; checked by
    (lambda table: table.snapshot.files_for_scan(WHERE), 0),  # the log alone answers
    (merged, 3),  # the ON condition; that of the clause, which has to run in the process, and as a filter
], ids=["delete", "update", "to_arrow", "overwrite", "files_for_scan", "merge"])
def test_a_condition_is_compiled_once(
    tmp_path: Any, compiled: list[tuple[ex.Expression, bool]], command: Callable[[Any], object], times: int
) -> None:
    table = dn.create(tmp_path / "t", {"a": [1, 2, 3], "b": ["x", "x", "y"]})
    table.append({"a": [5, 6], "b": ["x", "z"]})
    compiled.clear()
    command(table)
    assert len(compiled) == times
    assert len(set(compiled)) == times


def test_the_same_condition_over_other_types_is_compiled_for_these(compiled: list[ex.Expression]) -> None:
    import pyarrow as pa

    from deltanb.schema.ddl import parse_schema

    predicate = predicates.parse("a > 1", parse_schema("a long"))
    schemas = [pa.schema([("a", pa.int64())]), pa.schema([("a", pa.int32())])]
    first, second = (predicate.to_expression(schema) for schema in schemas)
    assert str(first) != str(second)
    assert predicate.to_expression() is predicate.to_expression(schemas[0]) is first
    assert predicate.to_expression(as_filter=True) is not first
    assert len(compiled) == 3
