"""A condition is parsed once for each call, and is a value from there on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import sqlglot

import deltanb as dn
from deltanb.sql import predicates
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


def test_a_merge_parses_what_is_written_and_what_it_means_once_each(
    table: dn.DeltaTable, parsed: Counter[str]
) -> None:
    merge = table.merge({"name": ["Daisy", "Dewey"]}, "target.name = source.name AND nephews < 2")
    merge.when_matched_delete().execute()
    assert set(parsed.values()) == {1}
