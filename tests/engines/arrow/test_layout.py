"""Layouts of writes: found out once for rows of one kind, anew where anything differs that they rest on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb.actions import Metadata, Protocol
from deltanb.engines.arrow import layout
from deltanb.engines.arrow.constraints import Within
from deltanb.engines.arrow.layout import MOST_KEPT, layout_of
from deltanb.schema.columns import generated_as
from deltanb.schema.types import PrimitiveType, StructField, StructType, from_arrow

ROWS = pa.schema([("id", pa.int64()), ("name", pa.string())])
PROTOCOL = Protocol(1, 4)


def metadata(**changes: Any) -> Metadata:
    return Metadata("t", from_arrow(ROWS).to_json(), **changes)


@pytest.fixture(autouse=True)
def none_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_recent", ())


def test_rows_of_the_same_kind_have_the_same_layout() -> None:
    table = metadata()
    first = layout_of(table, PROTOCOL, ROWS, clustering=[["id"]])
    again = pa.schema(list(ROWS))
    assert layout_of(table, PROTOCOL, again, clustering=[("id",)]) is first


def test_another_layout_where_anything_differs() -> None:
    table = metadata()
    first = layout_of(table, PROTOCOL, ROWS)
    others = [
        layout_of(table.replace(), PROTOCOL, ROWS),
        layout_of(table, PROTOCOL.replace(), ROWS),
        layout_of(table, PROTOCOL, pa.schema(list(ROWS), {"of": "pandas"})),
        layout_of(table, PROTOCOL, pa.schema([("id", pa.int32()), ("name", pa.string())])),
        layout_of(table, PROTOCOL, ROWS, clustering=[["id"]]),
        layout_of(table, PROTOCOL, ROWS, hidden=[StructField("row", PrimitiveType("long"))]),
        layout_of(table, PROTOCOL, ROWS, [Within("where", "id > 1")]),
    ]
    assert first not in others and len({id(one) for one in others}) == len(others)


@pytest.mark.parametrize("table", [
    metadata(configuration={"delta.constraints.small": "id < 5"}),
    Metadata("t", StructType([
        *from_arrow(ROWS).fields,
        StructField("twice", PrimitiveType("long"), metadata=generated_as("id * 2"))]).to_json()),
], ids=["a constraint", "a generated column"])
def test_none_is_kept_that_evaluates_an_expression(table: Metadata) -> None:
    """It may ask for the time."""
    assert layout_of(table, PROTOCOL, ROWS) is not layout_of(table, PROTOCOL, ROWS)


def test_only_the_last_ones_are_kept() -> None:
    tables = [metadata() for _ in range(MOST_KEPT + 1)]
    layouts = [layout_of(table, PROTOCOL, ROWS) for table in tables]
    assert layout_of(tables[1], PROTOCOL, ROWS) is layouts[1]
    assert layout_of(tables[0], PROTOCOL, ROWS) is not layouts[0]


def test_a_new_schema_or_property_is_seen_by_the_next_append(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    table.append({"id": [2]})
    table.set_properties({"delta.dataSkippingNumIndexedCols": "0"})
    table.append({"id": [3]})
    table.add_columns({"more": "string"})
    table.append({"id": [4]})
    table.add_constraint("small", "id < 5")
    with pytest.raises(dn.errors.ConstraintViolation):
        table.append({"id": [5]})
    assert sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"]) == [
        {"id": n, "more": None} for n in (1, 2, 3, 4)]
    described = [json.loads(text) for text in table.log.snapshot.files["stats"].to_pylist()]
    assert sum("maxValues" in one for one in described) == 2  # the files from before the property
