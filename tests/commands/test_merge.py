"""MERGE in the process: what matches is changed, what does not is added, and nothing else is touched."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Collection
from datetime import date
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from deltanb.actions import AddCDCFile, AddFile, CommitInfo, Metadata, RemoveFile
from deltanb.commands.merge.merge import MergeBuilder
from deltanb.engines.arrow.read import read_data_file
from deltanb.errors import (
    AppendOnlyTable,
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConstraintViolation,
    IllegalStateError,
    InvalidArgument,
    InvalidPredicate,
    MultipleSourceRowsMatched,
    SchemaMismatch,
    UnsupportedPredicate,
)
from deltanb.options import options
from deltanb.schema.types import PrimitiveType, StructField, StructType
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from tests.helpers import files_of, last_commit, refused, rows

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}


def upsert(table: DeltaTable, source: Any, on: str = "t.id = s.id") -> MergeBuilder:
    return merge(table, source, on).when_matched_update_all().when_not_matched_insert_all()


def merge(table: DeltaTable, source: Any, on: str = "t.id = s.id") -> MergeBuilder:
    return table.merge(source, on, target_alias="t", source_alias="s")


def table_of(data: Any, files: int = 1, **settings: Any) -> DeltaTable:
    """A table of several files: the rows cut into as many appends."""
    whole = pa.table(data)
    size = -(-whole.num_rows // files)
    table = create(MemoryStore(), whole.slice(0, size), **settings)
    for start in range(size, whole.num_rows, size):
        table.append(whole.slice(start, size))
    return table


@pytest.fixture(params=["copy-on-write", "vectors"])
def table(request: pytest.FixtureRequest) -> DeltaTable:
    """Two files of two rows; changed either way."""
    properties = VECTORS if request.param == "vectors" else {}
    return table_of({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]}, 2, properties=properties)


# --- clauses ----------------------------------------------------------------------------------------

def test_an_upsert(table: DeltaTable) -> None:
    result = upsert(table, {"id": [2, 9], "v": ["B", "N"]}).execute(user_metadata="nightly")
    assert (result.operation, result.version, result.engine) == ("MERGE", 2, "arrow")
    assert rows(table) == [{"id": 1, "v": "a"}, {"id": 2, "v": "B"}, {"id": 3, "v": "c"},
                           {"id": 4, "v": "d"}, {"id": 9, "v": "N"}]
    assert table.history(1)[0].user_metadata == "nightly"


def test_the_first_clause_whose_condition_is_true_decides(table: DeltaTable) -> None:
    source = {"id": [1, 2, 3, 4, 5, 6], "v": ["u", "d", None, "x", "i", "-"]}
    result = (merge(table, source)
              .when_matched_update("s.v = 'u'", set={"v": "upper(t.v)"})
              .when_matched_delete("s.v < 'z' AND t.id < 4")
              .when_matched_update("s.v = 'never'", set={"v": "'wrong'"})
              .when_not_matched_insert("s.v = 'i'", values={"id": "s.id * 10", "v": "concat(v, '!')"})
              .when_not_matched_insert("s.v IS NULL", values={"id": "0"})
              .execute())
    assert rows(table) == [{"id": 1, "v": "A"}, {"id": 3, "v": "c"}, {"id": 4, "v": "d"},
                           {"id": 50, "v": "i!"}]
    assert result.metrics["numTargetRowsUpdated"] == result.metrics["numTargetRowsDeleted"] == 1


def test_rows_that_the_source_lacks(table: DeltaTable) -> None:
    result = (merge(table, {"id": [1, 2]})
              .when_not_matched_by_source_delete("t.id = 3")
              .when_not_matched_by_source_update(set={"v": "concat('old ', v)"})
              .execute())
    assert rows(table) == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 4, "v": "old d"}]
    metrics = result.metrics
    assert (metrics["numTargetRowsNotMatchedBySourceDeleted"],
            metrics["numTargetRowsNotMatchedBySourceUpdated"]) == (1, 1)
    (merge(table, {"id": []}).when_not_matched_by_source_delete().execute())
    assert rows(table) == []


def test_only_the_last_clause_of_a_kind_may_lack_a_condition(table: DeltaTable) -> None:
    builder = merge(table, {"id": [1]}).when_matched_delete()
    with pytest.raises(InvalidArgument, match=r"WHEN MATCHED THEN DELETE has no condition.*THEN UPDATE"):
        builder.when_matched_update(set={"v": "'x'"})
    builder.when_not_matched_insert_all().when_not_matched_by_source_delete()  # of other kinds: fine
    with pytest.raises(InvalidArgument, match="no clause"):
        merge(table, {"id": [1]}).execute()


def test_a_builder_is_a_value(table: DeltaTable) -> None:
    begun = merge(table, {"id": [1], "v": ["x"]})
    begun.when_matched_delete()
    assert begun.clauses == ()
    begun.when_matched_update_all().execute()
    assert len(rows(table)) == 4


def test_null_keys_match_nothing() -> None:
    table = table_of({"id": [1, None], "v": ["a", "null"]})
    upsert(table, {"id": [None, 1], "v": ["new null", "A"]}).execute()
    assert rows(table, "v") == [{"id": 1, "v": "A"}, {"id": None, "v": "new null"},
                                {"id": None, "v": "null"}]


@pytest.mark.parametrize("values", [
    pa.array([7, None]), pa.array(["", None]), pa.array([b"", None]), pa.array([False, None]),
    pa.array([0.0, None]), pa.array([Decimal("0.00"), None]), pa.array([date(1970, 1, 1), None]),
    pa.array([0, None], pa.timestamp("us", "UTC"))])
def test_a_null_safe_key_keeps_null_and_values_apart(values: pa.Array) -> None:
    table = table_of(pa.table({"k": values, "v": ["value", "null"]}), 2)
    (merge(table, pa.table({"k": values.slice(1), "v": ["NULL"]}), "t.k <=> s.k")
     .when_matched_update_all().when_not_matched_insert_all().execute(engine="arrow"))
    assert [row["v"] for row in rows(table, "v")] == ["NULL", "value"]
    merge(table, pa.table({"k": values.slice(0, 1)}), "s.k <=> t.k").when_matched_delete().execute()
    assert [row["v"] for row in rows(table, "v")] == ["NULL"]


def test_several_keys_and_a_further_condition() -> None:
    table = table_of({"a": [1, 1, 2], "b": ["x", "y", "x"], "n": [10, 20, 30]}, 2)
    source = {"a": [1, 1, 2], "b": ["x", "y", "x"], "n": [11, 5, 31]}
    (merge(table, source, "t.a = s.a AND s.b = t.b AND s.n > t.n AND t.n < 25 AND s.n > 0")
     .when_matched_update(set={"n": "s.n"}).execute())
    assert rows(table, "n") == [{"a": 1, "b": "x", "n": 11}, {"a": 1, "b": "y", "n": 20},
                                {"a": 2, "b": "x", "n": 30}]


@pytest.mark.parametrize(("target", "source"), [
    (pa.array([1, 2], pa.int32()), pa.array([2, 2**40], pa.int64())),
    (pa.array([1, 2], pa.int16()), pa.array([2.0, 1.5])),
    (pa.array([1.0, float("nan"), -0.0]), pa.array([float("nan"), 0.0])),
    (pa.array([Decimal("1.50"), Decimal("2.00")]), pa.array([2, 7])),
    (pa.array([date(2024, 1, 1), date(2024, 1, 2)]), pa.array(["2024-01-02", "2024-01-09"])),
    (pa.array([True, False]), pa.array([True])),
    (pa.array([b"\x00", b"\xff"]), pa.array([b"\xff"])),
    (pa.array(["é", "e"]), pa.array(["é"]).dictionary_encode()),
])
def test_keys_compare_as_in_spark(target: pa.Array, source: pa.Array) -> None:
    """Types that meet in a wider one; NaN is NaN, and -0.0 is 0.0."""
    data = pa.table({"k": target, "v": [str(value) for value in target.to_pylist()]})
    table = create(MemoryStore(), data.slice(0, 1))
    table.append(data.slice(1))
    hits = {"nan", "-0.0"} if target.type == pa.float64() else \
        {"True"} if target.type == pa.bool_() else {str(target[1].as_py())} \
        if not pa.types.is_string(target.type) else {"é"}
    merge(table, pa.table({"k": source}), "t.k = s.k").when_matched_delete().execute(engine="arrow")
    assert {row["v"] for row in rows(table, "v")} == set(data["v"].to_pylist()) - hits


def test_several_source_rows_for_one_are_refused(table: DeltaTable) -> None:
    source = {"id": [1, 1, 2], "v": ["x", "y", "z"]}
    error = refused(table, MultipleSourceRowsMatched, lambda: upsert(table, source).execute())
    assert error.kind == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    refused(table, MultipleSourceRowsMatched,
            lambda: merge(table, source).when_matched_delete("s.v = 'x'").execute())
    # What a row's fate does not depend on: all matches delete it, or none changes it.
    merge(table, source).when_not_matched_insert_all().execute()
    result = merge(table, source).when_matched_delete().execute()
    assert result.metrics["numTargetRowsDeleted"] == 2
    assert [row["id"] for row in rows(table)] == [3, 4]


def test_a_merge_that_changes_nothing_commits_nothing(table: DeltaTable) -> None:
    result = merge(table, {"id": [1, 7]}).when_matched_delete("t.v = 'none'").execute()
    assert (result.version, table.version) == (None, 1)
    assert str(result) == "MERGE  nothing committed  in this process\nno row matched"


@pytest.mark.parametrize("seed", range(24))
def test_any_merge_gives_the_rows_of_its_definition(seed: int) -> None:
    """Random tables, sources and clauses against the definition of MERGE, row by row."""
    chance = random.Random(seed)
    def some(count: int) -> dict[str, list[Any]]:
        return {"id": [chance.choice([None, *range(12)]) for _ in range(count)],
                "n": [chance.randrange(10) for _ in range(count)]}
    target = some(20)
    source = some(8)
    null_safe = seed >= 12
    source = {name: [values[i] for i in range(8) if source["id"].index(source["id"][i]) == i]
              for name, values in source.items()}
    table = table_of(target, 4, properties=VECTORS if seed % 2 else {})
    a, b, c, d = (chance.randrange(10) for _ in range(4))
    (merge(table, source, f"t.id {'<=>' if null_safe else '='} s.id")
     .when_matched_delete(f"t.n < {a} AND s.n > {b}")
     .when_matched_update(f"s.n <> {c}", set={"n": "s.n * 100 + t.n"})
     .when_not_matched_insert(f"s.n >= {d}", values={"n": "-s.n", "id": "s.id"})
     .when_not_matched_by_source_update(f"t.n = {a}", set={"n": "1000"})
     .when_not_matched_by_source_delete(f"t.n > {b}").execute(engine="arrow"))
    other = {key: n for key, n in zip(*source.values(), strict=True)
             if null_safe or key is not None}
    expected = []
    for key, n in zip(*target.values(), strict=True):
        if key in other:
            m = other[key]
            if n < a and m > b:
                continue
            expected.append((key, m * 100 + n if m != c else n))
        elif n == a:
            expected.append((key, 1000))
        elif n <= b:
            expected.append((key, n))
    expected += [(key, -n) for key, n in zip(*source.values(), strict=True)
                 if n >= d and ((key is None and not null_safe) or key not in target["id"])]
    assert sorted(((row["id"], row["n"]) for row in table.to_arrow().to_pylist()), key=str) == \
        sorted(expected, key=str)


# --- names and values -------------------------------------------------------------------------------

def test_names_without_an_alias_are_found_or_refused(table: DeltaTable) -> None:
    source = {"key": [1], "v": ["x"]}
    table.merge(source, "id = key").when_matched_update(set={"v": "source.v"}).execute()
    assert rows(table)[0] == {"id": 1, "v": "x"}
    for sql, says in [("id = key AND v = 'x'", r"'v'.*ambiguous.*t\.v and s\.v"),
                      ("t.id = s.kee", r"no column 's\.kee'.*did you mean s\.key"),
                      ("t.id = s.key AND nonsense", "no column 'nonsense'"),
                      ("t.id = ", "is not valid SQL")]:
        error = refused(table, InvalidPredicate,
                        lambda sql=sql: merge(table, source, sql).when_matched_delete().execute())
        assert re.search(says, str(error)), str(error)
    refused(table, InvalidPredicate, lambda: (
        merge(table, source, "id = key").when_not_matched_insert("t.id = 3", values={"id": "key"})
        .execute()))
    refused(table, InvalidPredicate, lambda: (
        merge(table, source, "id = key").when_matched_update(set={"w": "1"}).execute()))
    with pytest.raises(InvalidArgument, match="both 'x'"):
        table.merge(source, "1 = 1", target_alias="x", source_alias="X").when_matched_delete().execute()
    with pytest.raises(InvalidArgument, match="'v' twice"):
        upsert(table, pa.table([[1], ["a"], ["b"]], names=["id", "v", "V"])).execute()


def test_star_takes_columns_by_name(table: DeltaTable) -> None:
    source = {"V": ["B", "N"], "extra": [0, 0], "ID": [2, 9]}
    upsert(table, source).execute()
    assert rows(table)[1::3] == [{"id": 2, "v": "B"}, {"id": 9, "v": "N"}]
    error = refused(table, SchemaMismatch, lambda: upsert(table, {"id": [1]}).execute())
    assert error.differences == ["- v: missing from the source"]
    (merge(table, {"id": [1, 8], "v": [None, "x"]}).when_matched_update_all(except_cols=["v"])
     .when_not_matched_insert_all(except_cols=["V"]).execute())
    assert rows(table)[0] == {"id": 1, "v": "a"} and {"id": 8, "v": None} in rows(table)


def test_values_that_do_not_fit_are_refused() -> None:
    table = table_of({"id": [1, 2], "n": pa.array([1, 2], pa.int8())},
                     properties={"delta.constraints.small": "n < 100"})
    refused(table, SchemaMismatch, lambda: upsert(table, {"id": [1], "n": [500]}).execute())
    refused(table, SchemaMismatch, lambda: upsert(table, {"id": [1], "n": ["x"]}).execute())
    error = refused(table, ConstraintViolation, lambda: upsert(table, {"id": [9], "n": [101]}).execute())
    assert error.constraint == "small"
    refused(table, ConstraintViolation, lambda: (
        merge(table, {"id": [1]}).when_matched_update(set={"n": "120"}).execute()))
    refused(table, InvalidPredicate, lambda: (
        merge(table, {"id": [1]}).when_matched_update(set={"n": "DATE '2024-01-01'"}).execute()))


def test_structs_are_set_by_field_or_whole() -> None:
    whole = pa.table({"id": [1, 2], "s": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]})
    source = pa.table({"id": [1, 2], "s": [{"b": "X"}, {"b": "Y"}], "w": [{"b": "w", "a": 7}] * 2})
    table = table_of(whole)
    merge(table, source).when_matched_update("t.id = 1", set={"s.a": "t.s.a + 10"}).execute()
    assert rows(table)[0]["s"] == {"a": 11, "b": "x"}
    merge(table, source).when_matched_update_all("t.id = 1").execute()
    assert rows(table)[0]["s"] == {"a": 11, "b": "X"}  # * keeps fields that the source lacks
    merge(table, source).when_matched_update("t.id = 2", set={"t.s": "s.w"}).execute()
    assert rows(table)[1]["s"] == {"a": 7, "b": "w"}


PART, WHOLE = ({"a": 99}, {"a": 1, "c": 5})
NESTED: dict[str, tuple[Any, Any, str]] = {
    "st": (WHOLE, PART, "st.c"), "l": ([WHOLE], [PART], "l.element.c"),
    "m": ([("k", WHOLE)], [("k", PART)], "m.value.c"), "d": ({"i": WHOLE}, {"i": PART}, "d.i.c")}
"""Column -> its value, one whose struct lacks the field c, and the name of that field."""


def nested_table(which: int = 0, first: int = 1, columns: Collection[str] = tuple(NESTED)) -> pa.Table:
    struct = pa.struct([("a", pa.int64()), ("c", pa.int64())] if which == 0 else [("a", pa.int64())])
    types = {"st": struct, "l": pa.list_(struct), "m": pa.map_(pa.string(), struct),
             "d": pa.struct([("i", struct)])}
    return pa.table({"id": [first], **{name: pa.array([NESTED[name][which]], types[name])
                                       for name in columns}})


@pytest.mark.parametrize("name", NESTED)
def test_a_value_whose_struct_lacks_a_field_is_refused(name: str) -> None:
    *_, lost = NESTED[name]
    table, part = table_of(nested_table()), nested_table(1)
    new = nested_table(1, 2)
    builders = [
        merge(table, part).when_matched_update(set={name: f"s.{name}"}),
        merge(table, new).when_not_matched_insert(values={"id": "s.id", name: f"s.{name}"}),
        merge(table, nested_table(1, 2, [name])).when_not_matched_insert_all(
            except_cols=[other for other in NESTED if other != name]),
    ]
    if name in ("l", "m"):  # of a struct * sets the fields that are there
        builders.append(merge(table, nested_table(1, 1, [name])).when_matched_update_all(
            except_cols=[other for other in NESTED if other != name]))
    for builder in builders:
        error = refused(table, SchemaMismatch, builder.execute)
        assert error.differences == [f"- {lost}: long, missing from the value"]
        assert "with_schema_evolution()" in str(error)
    builders[1].with_schema_evolution().execute()
    builders[0].with_schema_evolution().execute()
    values = {row["id"]: row[name] for row in rows(table)}
    empty = {"a": 99, "c": None}
    assert values[1] == values[2] == {"st": empty, "l": [empty], "m": [("k", empty)], "d": {"i": empty}}[name]


def test_a_field_that_is_lacking_below_an_assigned_one_is_named() -> None:
    table = table_of(nested_table())
    error = refused(table, SchemaMismatch, lambda: merge(table, nested_table(1)).when_matched_update(
        set={"d.i": "s.st"}).execute())
    assert error.differences == ["- d.i.c: long, missing from the value"]
    merge(table, nested_table(1)).when_matched_update_all(except_cols=["l", "m"]).execute()
    assert rows(table)[0]["d"] == {"i": {"a": 99, "c": 5}} and rows(table)[0]["st"] == {"a": 99, "c": 5}


def test_a_struct_that_is_null_on_both_sides_stays_null() -> None:
    """Though the source's has fewer fields, and * sets those alone."""
    table = create(MemoryStore(), nested_table().select(["id", "st", "d"]).schema)
    table.append({"id": [1, 2, 3, 4], "st": [None, None, WHOLE, WHOLE],
                  "d": [None, {"i": None}, {"i": WHOLE}, {"i": None}]})
    part = nested_table(1).select(["id", "st", "d"]).schema
    source = pa.table({"id": [1, 2, 3, 4], "st": [None, PART, None, PART],
                       "d": [None, {"i": None}, {"i": None}, {"i": PART}]}, part)
    merge(table, source).with_schema_evolution().when_matched_update_all().execute()
    assert [(row["st"], row["d"]) for row in rows(table)] == [
        (None, None), ({"a": 99, "c": None}, {"i": None}),
        ({"a": None, "c": 5}, {"i": {"a": None, "c": 5}}), ({"a": 99, "c": 5}, {"i": {"a": 99, "c": None}})]


def test_sources_of_every_kind(table: DeltaTable) -> None:
    other = create(MemoryStore(), {"id": [5], "v": ["table"]})
    sources = [pa.table({"id": [6], "v": ["arrow"]}), [{"id": 7, "v": "rows"}], other,
               pa.table({"id": [8], "v": ["reader"]}).to_reader(),
               pd.DataFrame({"id": [9], "v": ["pandas"]})]
    for source in sources:
        upsert(table, source).execute()
    assert [row["v"] for row in rows(table)[4:]] == ["table", "arrow", "rows", "reader", "pandas"]
    with pytest.raises(InvalidArgument, match="cannot be written"):
        upsert(table, object()).execute()


def test_the_time_of_a_merge_is_one_moment() -> None:
    table = table_of({"id": [1, 2], "at": pa.array([None, None], pa.timestamp("us", "UTC")),
                      "now": ["x", "y"]})
    before = options.clock()
    result = (merge(table, {"id": [1, 3]}, "t.id = s.id AND t.now <> 'now()'")
              .when_matched_update("t.at IS NULL OR t.at < current_timestamp()", set={"at": "now()"})
              .when_not_matched_insert(values={"id": "s.id", "at": "current_timestamp"}).execute())
    moments = [row["at"] for row in rows(table)]
    assert (result.engine, moments[1]) == ("arrow", None)
    assert moments[0] == moments[2] and before <= moments[0].timestamp() * 1000 <= options.clock()
    error = refused(table, InvalidPredicate, lambda: (
        merge(table, {"id": [1]}).when_matched_delete("rand() < 0.5").execute()))
    assert "another value at every call" in str(error)


def test_a_wider_type_of_the_source_widens_the_column() -> None:
    table = table_of({"id": [1, 2], "n": pa.array([1, 2], pa.int16())},
                     properties={"delta.enableTypeWidening": "true", **FEED})
    source = {"id": [2, 3], "n": [2**40, None]}
    refused(table, SchemaMismatch, lambda: upsert(table, source).execute())
    upsert(table, source).with_schema_evolution().execute()
    assert str(table.schema.field("n").type) == "long"
    assert [row["n"] for row in rows(table)] == [1, 2**40, None]
    upsert(table, {"id": [1], "n": [None]}).execute()  # a column of NULLs alone has no type
    assert [row["n"] for row in rows(table)] == [None, 2**40, None]


# --- schema evolution -------------------------------------------------------------------------------

def test_schema_evolution_brings_columns(table: DeltaTable) -> None:
    source = {"id": [1, 9], "new": ["x", "y"]}
    upsert(table, source).with_schema_evolution().execute()
    assert table.schema.names == ["id", "v", "new"]
    assert rows(table) == [
        {"id": 1, "v": "a", "new": "x"}, {"id": 2, "v": "b", "new": None},
        {"id": 3, "v": "c", "new": None}, {"id": 4, "v": "d", "new": None},
        {"id": 9, "v": None, "new": "y"}]
    wider = {"id": [2], "x": [1], "y": [2], "z": [3]}
    builder = merge(table, wider).when_matched_update(set={"x": "s.x + 1", "v": "'set'"})
    refused(table, InvalidPredicate, builder.execute)
    builder.with_schema_evolution().execute()
    assert table.schema.names == ["id", "v", "new", "x"]  # only what is assigned
    assert rows(table)[1] == {"id": 2, "v": "set", "new": None, "x": 2}


def test_schema_evolution_reaches_into_structs() -> None:
    table = table_of(pa.table({"id": [1, 2], "s": [{"a": 1}, {"a": 2}]}), properties=FEED)
    source = pa.table({"id": [1, 3], "s": [{"b": True}, {"b": False}]})
    upsert(table, source).with_schema_evolution().execute()
    assert str(table.schema.field("s").type) == "struct<a: long, b: boolean>"
    assert [row["s"] for row in rows(table)] == [
        {"a": 1, "b": True}, {"a": 2, "b": None}, {"a": None, "b": False}]


def test_schema_evolution_alone_is_a_commit(table: DeltaTable) -> None:
    result = merge(table, {"id": [99], "new": [1]}).when_matched_update_all().with_schema_evolution() \
        .execute()
    assert result.version == 2 and table.schema.names == ["id", "v", "new"]
    assert len(last_commit(table, Metadata)) == 1 and last_commit(table, AddFile) == []


def test_column_mapping_and_partitions() -> None:
    table = create(MemoryStore(), {"id": [1, 2], "p": ["a", "b"], "v": [1, 2]}, partition_by="p",
                   properties={"delta.columnMapping.mode": "name", **FEED})
    source = {"id": [1, 5], "p": ["b", "c"], "v": [10, 50], "w": [1.5, None]}
    upsert(table, source).with_schema_evolution().execute()
    assert rows(table) == [{"id": 1, "p": "b", "v": 10, "w": 1.5}, {"id": 2, "p": "b", "v": 2, "w": None},
                           {"id": 5, "p": "c", "v": 50, "w": None}]


# --- files and the record ---------------------------------------------------------------------------

def test_an_insert_only_merge_rewrites_nothing(table: DeltaTable) -> None:
    result = merge(table, {"id": [1, 8], "v": ["x", "y"]}).when_not_matched_insert_all().execute()
    assert last_commit(table, RemoveFile) == [] and len(last_commit(table, AddFile)) == 1
    assert result.metrics["numTargetRowsInserted"] == 1 and len(rows(table)) == 5
    fixed = table_of({"id": [1], "v": ["a"]}, properties={"delta.appendOnly": "true"})
    merge(fixed, {"id": [1, 2], "v": ["x", "y"]}).when_not_matched_insert_all().execute()
    assert len(rows(fixed)) == 2
    refused(fixed, AppendOnlyTable, lambda: upsert(fixed, {"id": [1], "v": ["x"]}).execute())


def test_files_without_a_changed_row_stay(table: DeltaTable) -> None:
    before = set(table.snapshot.files["path"].to_pylist())
    merge(table, {"id": [1, 3], "v": ["x", "y"]}).when_matched_update_all("t.id = 3").execute()
    (gone,) = last_commit(table, RemoveFile)
    assert {gone.path} < before and len(before & set(table.snapshot.files["path"].to_pylist())) >= 1


def test_deletion_vectors_grow_and_files_go_when_they_are_empty() -> None:
    table = table_of({"id": [1, 2, 3], "v": ["a", "b", "c"]}, properties=VECTORS)
    path = table.snapshot.files["path"][0].as_py()
    first = upsert(table, {"id": [1], "v": ["A"]}).execute().metrics
    assert (first["numTargetDeletionVectorsAdded"], first["numTargetRowsCopied"]) == (1, 0)
    second = merge(table, {"id": [2]}).when_matched_delete().execute().metrics
    assert second["numTargetDeletionVectorsUpdated"] == 1 and second["numTargetFilesAdded"] == 0
    assert path in table.snapshot.files["path"].to_pylist()
    third = merge(table, {"id": [3]}).when_matched_delete().execute().metrics
    assert (third["numTargetFilesRemoved"], third["numTargetDeletionVectorsRemoved"]) == (1, 1)
    assert path not in table.snapshot.files["path"].to_pylist()
    assert rows(table) == [{"id": 1, "v": "A"}]


def test_the_record_is_deltas() -> None:
    table = table_of({"id": [1, 2, 3, 4], "v": ["a", "b", "c", "d"]}, 2)
    removed = int(table.snapshot.files["size"][0].as_py())
    (merge(table, {"id": [1, 2, 9], "v": ["x", "y", "z"]})
     .when_matched_update("t.id = 1", set={"v": "s.v"}).when_matched_delete("t.id = 7")
     .when_not_matched_insert_all().when_not_matched_by_source_delete("t.v = 'zz'").execute())
    entry = table.history(1)[0]
    assert entry.operation == "MERGE"
    assert {k: json.loads(v) for k, v in entry.operation_parameters.items()} == {
        "predicate": ["t.id = s.id"],
        "matchedPredicates": [{"predicate": "t.id = 1", "actionType": "update"},
                              {"predicate": "t.id = 7", "actionType": "delete"}],
        "notMatchedPredicates": [{"actionType": "insert"}],
        "notMatchedBySourcePredicates": [{"predicate": "t.v = 'zz'", "actionType": "delete"}]}
    metrics = {k: int(v) for k, v in entry.operation_metrics.items()}
    times = {name for name in metrics if name.endswith("TimeMs")}
    assert times == {"executionTimeMs", "materializeSourceTimeMs", "scanTimeMs", "rewriteTimeMs"}
    (file,) = last_commit(table, AddFile)
    assert {k: v for k, v in metrics.items() if v and k not in times} == {
        "numSourceRows": 3, "numTargetRowsInserted": 1, "numTargetRowsUpdated": 1,
        "numTargetRowsMatchedUpdated": 1, "numTargetRowsCopied": 1, "numOutputRows": 3,
        "numTargetFilesAdded": 1, "numTargetFilesRemoved": 1, "numTargetBytesAdded": file.size,
        "numTargetBytesRemoved": removed}
    (info,) = last_commit(table, CommitInfo)
    assert info.is_blind_append is False


@pytest.mark.parametrize("properties", [FEED, {**FEED, **VECTORS}])
def test_the_change_data_feed(properties: dict[str, str]) -> None:
    table = table_of({"id": [1, 2, 3], "v": ["a", "b", "c"]}, 2, properties=properties)
    (merge(table, {"id": [1, 2, 9], "v": ["A", "-", "N"]}).when_matched_delete("s.v = '-'")
     .when_matched_update_all().when_not_matched_insert_all().execute())
    assert changes_of(table) == [
        ("delete", 2, "b"), ("insert", 9, "N"), ("update_postimage", 1, "A"), ("update_preimage", 1, "a")]
    merge(table, {"id": [10], "v": ["only"]}).when_not_matched_insert_all().execute()
    assert last_commit(table, AddCDCFile) == []  # the files that are added say it


def changes_of(table: DeltaTable) -> list[tuple[Any, ...]]:
    from dataclasses import replace

    from deltanb.engines.arrow.data_file import plan

    fields = (*table.schema.fields, StructField("_change_type", PrimitiveType("string")))
    scan = replace(plan(table.snapshot), columns=fields, fields=fields)
    feed = [row for file in last_commit(table, AddCDCFile)
             for batch in read_data_file(scan, AddFile(file.path, file.partition_values, file.size, 0))
             for row in batch.to_pylist()]
    return sorted((row["_change_type"], row["id"], row["v"]) for row in feed)


# --- what is read, and conflicts --------------------------------------------------------------------

def reads_of(table: DeltaTable, builder: MergeBuilder, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The scans that the merge records, as SQL, with how many files each found."""
    from deltanb.transaction.transaction import OptimisticTransaction

    reads = []
    filter_files = OptimisticTransaction.filter_files

    def spied(txn: Any, *conjuncts: Any) -> Any:
        files = filter_files(txn, *conjuncts)
        reads.append(f"{txn.reads.scans[-1].text} [{txn.reads.scans[-1].partition_text}]: {len(files)}")
        return files

    monkeypatch.setattr(OptimisticTransaction, "filter_files", spied)
    builder.execute()
    monkeypatch.undo()
    return reads


def test_the_target_is_pruned_by_the_sources_values(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": list(range(8)), "p": list("aabbccdd")}, 4, partition_by="p")
    def reads(builder: MergeBuilder) -> list[str]:
        return reads_of(table, builder, monkeypatch)

    one = merge(table, {"id": [3, 2], "p": ["b", "b"]}, "t.id = s.id AND t.p = s.p")
    assert reads(one.when_matched_update_all()) == [
        "id IN (2, 3) AND p = 'b' [p = 'b']: 1"]
    few = merge(table, {"id": [0, 7]})
    assert reads(few.when_matched_update(set={"id": "t.id"})) == ["id IN (0, 7) [TRUE]: 2"]
    by_hand = merge(table, {"id": [0, 7]}, "t.id = s.id AND t.p IN ('c', 'd')")
    assert reads(by_hand.when_matched_update(set={"id": "t.id"})) == [
        "p IN ('c', 'd') AND id IN (0, 7) [p IN ('c', 'd')]: 1"]
    assert reads(merge(table, {"id": [None]}).when_matched_delete()) == []
    assert reads(merge(table, {"id": [5]}).when_not_matched_by_source_update(set={"id": "id"})) == [
        "TRUE [TRUE]: 4"]
    safe = merge(table, {"id": [3, None], "p": ["b", None]}, "t.id <=> s.id AND t.p <=> s.p")
    assert reads(safe.when_matched_delete()) == [
        "(id = 3 OR id IS NULL) AND (p = 'b' OR p IS NULL) [(p = 'b' OR p IS NULL)]: 1"]
    nulls = merge(table, pa.table({"id": pa.array([None], pa.int64())}), "t.id <=> s.id")
    assert reads(nulls.when_matched_delete()) == ["id IS NULL [TRUE]: 0"]
    from deltanb.commands.merge import on as merge_on

    monkeypatch.setattr(merge_on, "MAX_LISTED_VALUES", 2)
    many = merge(table, {"id": [4, 1, 3]}).when_matched_update(set={"id": "t.id"})
    assert reads(many) == ["id BETWEEN 1 AND 4 [TRUE]: 3"]


def test_a_source_wider_than_the_column_prunes_what_cannot_match(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": pa.array([1, 2], pa.int8())}, 2)
    wide = merge(table, {"id": [1, 5000]}).when_matched_update(set={"id": "t.id"})
    assert reads_of(table, wide, monkeypatch) == ["id = 1 [TRUE]: 1"]
    none = merge(table, {"id": [5000]}).when_matched_delete()
    assert reads_of(table, none, monkeypatch) == []


class Meanwhile:
    """A commit by somebody else, between what a merge reads and its own commit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], Any]) -> None:
        from deltanb.transaction.transaction import OptimisticTransaction

        commit = OptimisticTransaction.commit

        def late(txn: Any, *args: Any, **kwargs: Any) -> int:
            monkeypatch.undo()
            act()
            return commit(txn, *args, **kwargs)

        monkeypatch.setattr(OptimisticTransaction, "commit", late)


@pytest.fixture
def parts() -> DeltaTable:
    return table_of({"id": [1, 2, 3, 4], "p": ["a", "a", "b", "b"], "n": [0, 0, 0, 0]}, 2,
                    partition_by="p")


def part_merge(table: DeltaTable, p: str, ids: list[int]) -> MergeBuilder:
    return upsert(table, {"id": ids, "p": [p] * len(ids), "n": [9] * len(ids)},
                  "t.p = s.p AND t.id = s.id")


def test_merges_on_disjoint_partitions_commit_side_by_side(
    parts: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DeltaTable.for_path(parts.log.store)
    Meanwhile(monkeypatch, lambda: part_merge(other, "b", [3, 30]).execute())
    assert part_merge(parts, "a", [1, 10]).execute().version == 3
    assert [(row["id"], row["n"]) for row in rows(parts, "id")] == [
        (1, 9), (10, 9), (2, 0), (3, 9), (30, 9), (4, 0)]


def test_a_blind_append_conflicts_only_where_the_merge_looked(
    parts: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: parts.append({"id": [40], "p": ["b"], "n": [1]}))
    part_merge(parts, "a", [1]).execute()
    before = files_of(parts)
    Meanwhile(monkeypatch, lambda: parts.append({"id": [41], "p": ["a"], "n": [1]}))
    with pytest.raises(ConcurrentAppendException) as caught:
        part_merge(parts, "a", [1]).execute()
    assert "p = 'a'" in str(caught.value.conflict.predicate)
    assert len(files_of(parts)) == len(before) + 1  # the append's; the merge left none


def test_a_delete_of_a_row_that_was_read_conflicts(
    parts: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    Meanwhile(monkeypatch, lambda: parts.delete("id = 2"))
    with pytest.raises((ConcurrentDeleteReadException, ConcurrentAppendException)):
        part_merge(parts, "a", [1]).execute()


# --- engines ----------------------------------------------------------------------------------------

def test_what_the_process_cannot_do_is_named(table: DeltaTable) -> None:
    source = {"id": [1], "v": ["x"]}
    cases = [merge(table, source, "t.id > s.id").when_matched_delete(),
             merge(table, source).when_matched_delete("sha(t.v) = 'x'"),
             merge(table, source).when_matched_update(set={"v": "reverse(s.v)"})]
    for builder, says in zip(cases, ["no equality", "sha", "reverse"], strict=True):
        error = refused(table, UnsupportedPredicate, lambda b=builder: b.execute(engine="arrow"))
        assert says in str(error)
    with pytest.raises(InvalidArgument, match="'duckdb' is not one of"):
        cases[0].execute(engine="duckdb")


def test_a_table_without_files_and_a_source_without_rows() -> None:
    empty = create(MemoryStore(), StructType([StructField("id", PrimitiveType("long"))]))
    upsert(empty, {"id": [1, 1]}).execute()
    assert rows(empty) == [{"id": 1}, {"id": 1}]
    assert upsert(empty, {"id": pa.array([], pa.int64())}).execute().version is None


def test_windows_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    from deltanb.commands.merge import search

    monkeypatch.setattr(search, "WINDOW_ROWS", 3)
    table = table_of({"id": list(range(20)), "n": [0] * 20}, 10)
    upsert(table, {"id": list(range(5, 25)), "n": [1] * 20}).execute()
    assert [row["n"] for row in sorted(rows(table), key=lambda row: row["id"])] == [0] * 5 + [1] * 20


# --- columns whose values the table generates -----------------------------------------------------------

def test_the_table_gives_values_to_inserted_rows() -> None:
    from deltanb.schema import columns as builders

    long = PrimitiveType("long")
    table = create(MemoryStore(), StructType([
        StructField("id", long), StructField("v", long, metadata=builders.default("7")),
        StructField("number", long, metadata=builders.identity()),
        StructField("twice", long, metadata=builders.generated_as("v * 2"))]), properties={
            "delta.feature.allowColumnDefaults": "supported", **FEED})
    table.append({"id": [1, 2], "v": [10, 20]})
    (merge(table, {"id": [2, 3, 4]}).when_matched_update(set={"v": "t.v + 1"})
     .when_not_matched_insert("s.id = 3", values={"id": "s.id", "v": "1"})
     .when_not_matched_insert_all().execute())
    assert [(row["id"], row["v"], row["twice"]) for row in rows(table)] == [
        (1, 10, 20), (2, 21, 42), (3, 1, 2), (4, 7, 14)]
    assert sorted(row["number"] for row in rows(table)) == [1, 2, 3, 4]
    refused(table, SchemaMismatch, lambda: (
        merge(table, {"id": [9], "number": [9], "v": [1]}).when_not_matched_insert_all().execute()))


def test_rows_that_were_found_must_be_written(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conditions that Spark evaluates again may name other rows; then nothing is committed."""
    from deltanb.engines.arrow.engine import ProcessEngine

    write = ProcessEngine.write
    monkeypatch.setattr(ProcessEngine, "write", lambda self, txn, rows: write(self, txn, rows)[:-1])
    error = refused(table, IllegalStateError, lambda: upsert(table, {"id": [1], "v": ["x"]}).execute())
    assert "not the same each time" in str(error)
