"""Arrow's kinds of types, in data files of others and in rows of users: each is read and stored as what it
means, whatever form Arrow has it in, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.engines.arrow import data_file, row_groups
from deltanb.errors import InvalidSchema, SchemaMismatch, UnsupportedProtocol
from deltanb.schema.types import from_arrow, from_arrow_type
from deltanb.table.table import DeltaTable
from tests.arrow_kinds import KINDS, WITHOUT_VALUES, array_of, file_of, stored_kinds
from tests.helpers import ids, table_of

ROWS = 4_000


def test_each_kind_of_this_pyarrow_is_tried() -> None:
    assert all(array_of(kind).type.id == getattr(pa.lib, f"Type_{kind}")
               for kind in KINDS if kind not in WITHOUT_VALUES)


# --- data files of others -------------------------------------------------------------------------

def _storable(kind: pa.DataType) -> bool:
    try:
        return not pa.types.is_null(kind) and bool(from_arrow_type(kind))
    except InvalidSchema:
        return False


PLAIN = stored_kinds()
STORED = {name: kind for name, (_, kind) in PLAIN.items() if _storable(kind)}


def _many(array: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(array.chunks * (ROWS // len(array)))


@pytest.fixture(scope="module")
def files() -> list[pa.Buffer]:
    """A data file with a column of each kind, twice: with Arrow's schema, and without it."""
    rows = pa.table({"id": pa.array(range(ROWS)), **{name: _many(PLAIN[name][0]) for name in STORED}})
    pages: dict[str, Any] = {"data_page_size": 1 << 8, "write_batch_size": 100}
    return [file_of(rows, pa.schema([("id", pa.int64()), *STORED.items()]), **pages), file_of(rows, **pages)]


@pytest.fixture
def pair(files: list[pa.Buffer], monkeypatch: pytest.MonkeyPatch) -> list[DeltaTable]:
    """The two tables whose data files these are; few rows are enough for row groups and pages to be looked at
    before they are decoded."""
    for module, name, value in ((row_groups, "CODED_ROWS", 1), (row_groups, "MIN_ROWS", 100),
                                (data_file, "PAGED_ROWS", 100)):
        monkeypatch.setattr(module, name, value)
    return [_table(content) for content in files]


def _table(content: pa.Buffer, place: Any = None, kinds: dict[str, pa.DataType] = STORED) -> DeltaTable:
    schema = from_arrow(pa.schema([("id", pa.int64()), *kinds.items()]))
    table = table_of(schema) if place is None else dn.create(place, schema)
    with table.log.store.open_output("theirs.parquet") as file:
        file.write(content)
    added = AddFile(path="theirs.parquet", partition_values={}, size=content.size, modification_time=0,
                    data_change=True)
    table.start_transaction().commit([added], "WRITE")
    return table


def test_a_file_says_of_which_kinds_it_is(files: list[pa.Buffer]) -> None:
    schema = pq.read_schema(pa.BufferReader(files[0]))
    same = [name for name, kind in STORED.items() if schema.field(name).type.id == kind.id]
    assert {"STRING_VIEW", "LIST_VIEW", "LARGE_STRING", "DICTIONARY"} <= set(same)


def _with_vectors(table: DeltaTable) -> None:
    table.set_properties({"delta.enableDeletionVectors": "true"})
    table.delete("id < 3 OR id > 3990")


def _purged(table: DeltaTable) -> None:
    _with_vectors(table)
    table.purge()


def _optimized(table: DeltaTable) -> None:
    _with_vectors(table)
    table.append(table.to_arrow(where="id < 9"))
    table.optimize()


def _merged(table: DeltaTable) -> None:
    source = table.to_arrow(where="id < 5")
    (table.merge(source, "target.id = source.id + 2").when_matched_update_all()
     .when_not_matched_insert_all().when_not_matched_by_source_delete("target.id > 3900").execute())


COMMANDS: dict[str, Callable[[DeltaTable], Any]] = {
    "nothing": lambda table: None,
    "delete": lambda table: table.delete("id % 7 = 3"),
    "delete by a text": lambda table: table.delete("STRING = 'a' AND id > 5"),
    "vectors": _with_vectors, "purge": _purged, "optimize": _optimized,
    "update": lambda table: table.update({"id": "-id"}, "id < 40"),
    "merge": _merged,
    "replaceWhere": lambda table: table.overwrite(table.to_arrow(where="id = 4"), where="id < 10"),
    "z-order": lambda table: table.optimize(zorder_by=["STRING", "id"]),
    "append": lambda table: table.append(table.to_arrow(where="id > 3998")),
}


def _sorted(rows: pa.Table) -> pa.Table:
    return rows.sort_by("id").combine_chunks()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_does_to_a_file_of_any_kinds_what_it_does_to_a_plain_one(
    command: str, pair: list[DeltaTable]
) -> None:
    for table in pair:
        COMMANDS[command](table)
    theirs, plain = (_sorted(table.to_arrow()) for table in pair)
    assert theirs.schema == plain.schema and theirs.equals(plain)


@pytest.mark.parametrize("where", [
    "id = 7", "id % 1000 = 1", "id > 3900", "STRING = 'a'", "STRING_VIEW = 'a' AND id < 9", "DECIMAL128 < 0"])
def test_a_condition_finds_the_same_rows_in_a_file_of_any_kinds(where: str, pair: list[DeltaTable]) -> None:
    theirs, plain = (table.to_arrow(where=where) for table in pair)
    assert theirs.num_rows and theirs.equals(plain)


@pytest.mark.parametrize("column", STORED)
def test_each_kind_of_a_file_is_read_alone_and_asked_for(column: str, pair: list[DeltaTable]) -> None:
    for where in (f"{column} IS NULL AND id < 9", f"{column} IS NOT NULL AND id > 3990"):
        theirs, plain = (table.to_arrow([column], where) for table in pair)
        assert theirs.num_rows and theirs.equals(plain), where


def _by_duckdb(table: DeltaTable) -> list[Any]:
    pytest.importorskip("duckdb")
    return sorted(table.to_duckdb().filter("STRING_VIEW = 'a' AND id < 90").project("id").fetchall())


def _by_polars(table: DeltaTable) -> Any:
    polars = pytest.importorskip("polars")
    return table.to_polars().filter(polars.col("STRING_VIEW") == "a").select("id").collect()["id"].to_list()


LAZY: dict[str, Callable[[DeltaTable], Any]] = {
    "a dataset": lambda table: table.to_dataset().to_table(
        columns=["id"], filter=pc.field("STRING_VIEW") == "a").sort_by("id"),
    "a narrow dataset": lambda table: table.to_dataset("STRING_VIEW = 'a'").to_table(["id", "LIST_VIEW"]),
    "a frame of polars": _by_polars, "a relation of DuckDB": _by_duckdb,
    "a stream": lambda table: [batch.num_rows for batch in table.to_batches()],
    "a frame of pandas": lambda table: table.to_pandas(where="STRING_VIEW = 'a'", columns=["id"]).to_dict(),
    "a count": lambda table: table.count("STRING_VIEW = 'a'"),
}


OF_DATASETS = {name: kind for name, kind in STORED.items() if not pa.types.is_duration(kind)}
"""Without intervals, which Arrow's datasets do not read from the numbers that files have."""


@pytest.mark.parametrize("place", ["a folder", "memory"])
@pytest.mark.parametrize("form", LAZY)
def test_every_form_of_the_rows_compares_views(
    form: str, place: str, files: list[pa.Buffer], tmp_path: Path
) -> None:
    kinds = OF_DATASETS if "dataset" in form else STORED
    places = [tmp_path / "0", tmp_path / "1"] if place == "a folder" else [None, None]
    theirs, plain = (LAZY[form](_table(content, path, kinds))
                     for content, path in zip(files, places, strict=True))
    assert theirs == plain and len(str(plain)) > 2


@pytest.mark.parametrize("name", [name for name in STORED if name not in OF_DATASETS])
def test_a_kind_that_is_no_dataset_is_refused_by_name(name: str, files: list[pa.Buffer]) -> None:
    for content in files:
        table = _table(content, kinds={name: STORED[name]})
        with pytest.raises(UnsupportedProtocol, match=f"column {name} is of type interval.*to_batches"):
            table.to_dataset()
        assert table.to_arrow()[name].to_pylist() == OF_USERS[name].to_pylist() * (ROWS // 4)


def test_a_folder_of_files_with_views_becomes_a_table(files: list[pa.Buffer], tmp_path: Path) -> None:
    tables = []
    for name, content in zip(("theirs", "plain"), files, strict=True):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.parquet").write_bytes(content)
        tables.append(dn.convert(tmp_path / name))
    theirs, plain = tables
    assert theirs.to_arrow(where="id < 9").equals(plain.to_arrow(where="id < 9"))
    assert theirs.snapshot.files["stats"].to_pylist() == plain.snapshot.files["stats"].to_pylist()


def _views(kind: pa.DataType) -> pa.DataType:
    """The type with views of its texts."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _views(f.type), f.nullable) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(_views(kind.key_type), _views(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_views(kind.value_type))
    return pa.string_view() if pa.types.is_string(kind) else kind


def test_a_checkpoint_may_say_that_its_texts_are_views(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "p": ["a", "b"]}, partition_by="p",
                      properties={"delta.checkpointInterval": "2"})
    table.append({"id": [3], "p": ["c"]})
    table.append({"id": [4], "p": ["c"]})
    (path,) = (tmp_path / "t" / "_delta_log").glob("*.checkpoint.parquet")
    rows = pq.read_table(path)
    views = pa.schema([pa.field(f.name, _views(f.type)) for f in rows.schema])
    path.write_bytes(file_of(rows, views))
    again = dn.open(tmp_path / "t")
    assert again.to_arrow(where="p = 'c'").num_rows == 2 and again.snapshot.files.num_rows == 4
    again.delete("id = 1")
    again.append({"id": [5], "p": ["d"]})  # a checkpoint that takes what it can from the last one
    assert ids(dn.open(tmp_path / "t")) == [2, 3, 4, 5]


def test_what_deltalake_updates_is_read_and_changed_here_and_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    monkeypatch.setattr(data_file, "PAGED_ROWS", 100)
    monkeypatch.setattr(row_groups, "MIN_ROWS", 100)
    path = str(tmp_path / "t")
    names = [f"x{number % 100}" for number in range(ROWS)]
    deltalake.write_deltalake(path, pa.table({
        "id": range(ROWS), "s": names, "l": [[name] for name in names], "b": list(map(str.encode, names))}))
    deltalake.DeltaTable(path).update({"s": "'new'"}, predicate="id < 10")
    table = dn.open(path)
    assert ids(table, "s = 'new' AND l[0] <> 'x3'") == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    table.delete("s = 'x50'")
    table.optimize()
    theirs = deltalake.DeltaTable(path).to_pyarrow_table()
    assert theirs.sort_by("id").cast(table.to_arrow().schema).equals(table.to_arrow().sort_by("id"))
    assert theirs.num_rows == ROWS - 40


# --- rows of users --------------------------------------------------------------------------------

OF_USERS = {kind: array_of(kind) for kind in KINDS if kind not in WITHOUT_VALUES}
NESTS: dict[str, Callable[[pa.Array], pa.Array]] = {
    "LIST": lambda array: pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), array),
    "LIST_VIEW": lambda array: pa.ListViewArray.from_arrays(
        pa.array([0, 1, 3, 3], pa.int32()), pa.array([1, 2, 0, 1], pa.int32()), array),
    "STRUCT": lambda array: pa.StructArray.from_arrays([array], names=["f"]),
    "MAP": lambda array: pa.MapArray.from_arrays(
        pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(["x", "y", "z", "x"]), array),
    "DICTIONARY": lambda array: pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 1], pa.int32()), array),
    "RUN_END_ENCODED": lambda array: pa.RunEndEncodedArray.from_arrays(
        pa.array([1, 2, 3, 4], pa.int32()), array),
}
OF_USERS |= {f"{nest}_of_{kind}": made(OF_USERS[kind]) for nest, made in NESTS.items()
             for kind in ("STRING_VIEW", "RUN_END_ENCODED", "DICTIONARY") if nest != kind}


def _appended(rows: pa.Table) -> DeltaTable:
    table = table_of(rows.schema)
    table.append(rows.slice(0, 1))
    table.append(rows.slice(1).to_reader())
    return table


def _merged_in(rows: pa.Table) -> DeltaTable:
    table = _appended(rows.slice(0, 2))
    merge = table.merge(rows, "target.id = source.id").when_matched_update_all()
    merge.when_not_matched_insert_all().execute()
    return table


def _overwritten(rows: pa.Table) -> DeltaTable:
    table = _appended(rows)
    table.overwrite(rows, where="id >= 0")
    return table


def _widened(rows: pa.Table) -> DeltaTable:
    table = table_of({"id": pa.array([], pa.int64())})
    table.append(rows, merge_schema=True)
    return table


WAYS: dict[str, Callable[[pa.Table], DeltaTable]] = {
    "created": table_of,
    "columns": lambda rows: table_of(dict(zip(rows.schema.names, rows.columns, strict=True))),
    "appended": _appended, "merged": _merged_in, "overwritten": _overwritten, "widened": _widened,
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_any_kind_are_stored_or_refused_by_name(way: str) -> None:
    for name, array in OF_USERS.items():
        rows = pa.table({"id": pa.array([0, 1, 2, 3]), "c": array})
        try:
            from_arrow(rows.schema)
        except InvalidSchema as error:
            assert "'c" in str(error) and str(array.type) in str(error), name
            with pytest.raises(InvalidSchema):
                WAYS[way](rows)
            continue
        table = WAYS[way](rows)
        stored = table.to_arrow(where="id >= 0").sort_by("id")["c"].to_pylist()
        assert stored == ([None] * 4 if name == "NA" else array.to_pylist()), name


LOST: dict[str, tuple[pa.Array, str]] = {
    "days beside months": (
        pa.array([pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([1, 2, 0])]), "beside its months"),
    "a time beside months": (
        pa.array([pa.MonthDayNano([1, 0, 0]), pa.MonthDayNano([1, 0, 3])]), "beside its months"),
    "a part of a microsecond": (pa.array([1000, 1001], pa.duration("ns")), "does not fit"),
    "more than 64 bits": (pa.array([1, 2**62], pa.duration("s")), "does not fit"),
}
"""Intervals of which a part has no place in the column that is made of their type."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", LOST)
def test_an_interval_is_stored_whole_or_refused(case: str, way: str) -> None:
    array, why = LOST[case]
    rows = pa.table({"id": pa.array([0, 1]), "c": array})
    with pytest.raises(SchemaMismatch, match=f"'c' is interval.*{why}") as caught:
        WAYS[way](rows)
    assert caught.value.column == "c"
    stored = WAYS[way](rows.slice(0, 1)).to_arrow()["c"].combine_chunks()
    assert stored.equals(array.slice(0, 1).cast(stored.type))


REFUSED = {"TIME32", "TIME64", "UINT64", "DENSE_UNION", "SPARSE_UNION"}
"""Kinds of values for which Delta has no type that holds them all."""


def test_only_what_delta_has_no_type_for_is_refused() -> None:
    def is_refused(kind: pa.DataType) -> bool:
        try:
            return not from_arrow_type(kind)
        except InvalidSchema:
            return True

    assert {name for name, array in OF_USERS.items() if is_refused(array.type)} == REFUSED & OF_USERS.keys()
