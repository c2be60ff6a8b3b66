"""SHOW CREATE TABLE: what it answers creates a table of the same definition, whatever the table has."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb import errors
from deltanb.commands.define.clustering import logical_columns
from deltanb.query.create_text import OF_ONE_TABLE, create_text, own_to_no_table
from deltanb.schema.features import FEATURES
from deltanb.schema.protocol import CATALOG_MANAGED
from deltanb.schema.types import (
    TYPES,
    ArrayType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from deltanb.testing import MemoryStore
from tests.peers.sql_tables import FOLDERS
from tests.shared_tables import names, path_of

pytestmark = pytest.mark.usefixtures("soon")
NO_TABLE = {"nothing", "parquet"}
COLUMNS = {
    "identity": "id bigint GENERATED ALWAYS AS IDENTITY (START WITH -5 INCREMENT BY -2), n int",
    "generated": "at timestamp, day date GENERATED ALWAYS AS (CAST(at AS DATE)) COMMENT 'of it'",
    "defaults": "a string DEFAULT 'it''s, a', b int DEFAULT (1 + 2) COMMENT 'three', c date",
    "lengths": "a char(3), b varchar(20) NOT NULL",
    "comments": r"a int COMMENT 'it\'s \\ one', s struct<`b-c`: string COMMENT 'in, side', d: int NOT NULL>",
    "types": ", ".join(f"c{at} {one.sql[0]}" for at, one in enumerate(TYPES.values())
                       if one.sql and one.delta in ("byte", "short", "integer", "long", "float", "double",
                                                    "string", "binary", "boolean", "date", "timestamp",
                                                    "timestamp_ntz", "variant")),
}


def definition(snapshot: Any) -> dict[str, Any]:
    """What a table is, without what each table gets for itself."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return {
        "columns": [own_to_no_table(field) for field in metadata.schema.fields],
        "partitioned by": metadata.partition_columns, "clustered by": logical_columns(snapshot),
        "description": metadata.description,
        "properties": {key: value for key, value in metadata.configuration.items()
                       if key not in OF_ONE_TABLE},
        "protocol": (protocol.min_reader_version, protocol.min_writer_version,
                     set(protocol.reader_features or ()), set(protocol.writer_features or ()))}


@pytest.fixture
def soon() -> Iterator[None]:
    """Files need not outlive the machine."""
    with dn.set_options(durability="none"):
        yield


def test_lists_are_not_empty() -> None:
    assert FOLDERS.keys() > NO_TABLE and len(COLUMNS["types"].split(",")) == 13


def needs_a_catalog(feature: str) -> bool:
    """Whether only a table that a catalog manages can have a feature."""
    return CATALOG_MANAGED in (feature, *FEATURES[feature].requires)


def is_writable(table: dn.DeltaTable) -> bool:
    """Whether a table with its features can be made here, in a folder."""
    return all(name in FEATURES and FEATURES[name].write == "yes" and not needs_a_catalog(name)
               for name in table.protocol.features)


def check(table: dn.DeltaTable, folder: Path) -> None:
    """The statement creates, in a place that is empty again, what was there."""
    text = dn.sql("SHOW CREATE TABLE table").rows["createtab_stmt"][0].as_py()
    assert not text.startswith("--"), text
    before = definition(table.snapshot)
    shutil.move(folder / "t", folder / "moved")
    made = dn.sql(text)
    assert Path(made.path) == folder / "t" and definition(made.snapshot) == before


@pytest.mark.parametrize("name", sorted(FOLDERS.keys() - NO_TABLE))
def test_a_table_of_every_kind_is_created_again(name: str, tmp_path: Path) -> None:
    FOLDERS[name](tmp_path)
    check(dn.open(tmp_path / "t"), tmp_path)


@pytest.mark.parametrize("columns", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_every_kind_are_created_again(columns: str, tmp_path: Path) -> None:
    check(dn.create(tmp_path / "t", columns, name="ducks", cluster_by=columns.split()[0]), tmp_path)


@pytest.mark.parametrize("feature", FEATURES)
def test_a_table_with_every_feature_is_created_again(feature: str, tmp_path: Path) -> None:
    try:
        table = dn.create(tmp_path / "t", "id bigint",
                          properties={f"delta.feature.{feature}": "supported"})
    except errors.DeltaError:
        assert FEATURES[feature].write != "yes" or needs_a_catalog(feature)
        return
    check(table, tmp_path)


@pytest.mark.shared
@pytest.mark.filterwarnings("ignore::deltanb.errors.ChecksumMismatchWarning")
@pytest.mark.parametrize("name", names("rows"))
def test_tables_of_others_are_created_again_or_have_a_remark(name: str, tmp_path: Path) -> None:
    table = dn.open(path_of(name))
    text = create_text(table.snapshot, f"delta.`{tmp_path}/t`")
    assert "CREATE TABLE delta" in text
    if not is_writable(table):
        return
    made = dn.sql(text)
    assert set(made.protocol.features) >= set(table.protocol.features)  # what a new table has, besides
    after, before = definition(made.snapshot), definition(table.snapshot)
    assert ({**after, "protocol": before["protocol"]} == before) is not text.startswith("--"), text


# -- any schema ----------------------------------------------------------------------------------------------

def fields(types: st.SearchStrategy[Any]) -> st.SearchStrategy[StructType]:
    field = st.builds(
        StructField, st.sampled_from(["a", "B c", "d`e", "f.g", "ü", "select"]), types, st.booleans(),
        st.one_of(st.just({}), st.builds(lambda text: {"comment": text}, st.text(max_size=6))))
    return st.lists(field, min_size=1, max_size=3, unique_by=lambda one: one.name).map(StructType)


PRIMITIVES = st.sampled_from([PrimitiveType(name) for name in (
    "long", "string", "decimal(10,2)", "timestamp_ntz", "interval year to month")])
SCHEMAS = fields(st.recursive(
    PRIMITIVES, lambda inner: st.one_of(
        st.builds(ArrayType, inner, st.booleans()), st.builds(MapType, PRIMITIVES, inner, st.booleans()),
        fields(inner)), max_leaves=5))


def loose(data_type: Any) -> Iterator[Any]:
    """Whether lists and maps may hold NULL, in each place of a type."""
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield from loose(field.type)
        case ArrayType():
            yield data_type.contains_null
            yield from loose(data_type.element_type)
        case MapType():
            yield data_type.value_contains_null
            yield from loose(data_type.key_type)
            yield from loose(data_type.value_type)


@given(SCHEMAS)
def test_any_schema_is_written_or_has_a_remark(schema: StructType) -> None:
    table = dn.create(MemoryStore(), schema, properties={"delta.columnMapping.mode": "name"})
    text = create_text(table.snapshot, "delta.`memory:///again`")
    assert text.startswith("--") is not all(loose(schema))
    if all(loose(schema)):
        columns = text[text.index("(\n  ") + 1:text.index(")\nUSING")]
        made = dn.create(MemoryStore(), columns, properties={"delta.columnMapping.mode": "name"})
        assert [own_to_no_table(field) for field in made.schema.fields] == list(schema.fields)


# -- names ---------------------------------------------------------------------------------------------------

def test_the_statement_has_the_tables_name(tmp_path: Path) -> None:
    def head(sql: str, **tables: dn.DeltaTable) -> str:
        text = dn.sql(sql, **tables).rows["createtab_stmt"][0].as_py()
        return " ".join(line for line in text.splitlines() if line.startswith(("CREATE", "LOCATION")))

    pond = dn.create(tmp_path / "a b", "id bigint", name="pond")
    assert head("SHOW CREATE TABLE pond", pond=pond) == f"CREATE TABLE pond ( LOCATION '{pond.path}'"
    path = dn.create(tmp_path / "c", "id bigint").path
    assert head(f"SHOW CREATE TABLE '{path}'") == f"CREATE TABLE delta.`{path}` ("
    with dn.Catalog(f"sqlite:///{tmp_path}/c.db", tmp_path / "lake") as catalog:
        catalog.sql("CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigint) CLUSTER BY (id)")
        held = catalog.table("shop.orders")
        text = dn.sql("SHOW CREATE TABLE held").rows["createtab_stmt"][0].as_py()
        assert text.startswith("CREATE TABLE shop.orders (") and "LOCATION" not in text
        made = catalog.sql(text.replace("shop.orders", "shop.more"))
        assert definition(made.snapshot) == definition(held.snapshot)


def test_the_statement_is_shown_as_it_is_written() -> None:
    table = dn.create(MemoryStore(), "id bigint COMMENT 'a'", properties={"owner": "x" * 90})
    shown = dn.sql("SHOW CREATE TABLE table")
    assert str(shown).splitlines()[2:5] == [
        f"CREATE TABLE delta.`{table.path}` (", "  id bigint COMMENT 'a')", "USING delta"]
    assert "x" * 90 in shown._repr_mimebundle_()["text/html"] and table.version == 0
