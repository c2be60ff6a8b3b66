"""Rows keep their ids and commit versions, whatever writes them again (PROTOCOL.md, "Row Tracking")."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.engines.arrow import row_ids
from deltanb.engines.arrow.read import read_table
from deltanb.errors import ConstraintViolation, InvalidSchema, SchemaMismatch
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction.new_table import MATERIALIZED_NAMES
from tests.examples import few

TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MODES = [{}, {"delta.columnMapping.mode": "name"}, {"delta.columnMapping.mode": "id"}]
LAYOUTS = [{**mode, **more} for mode in MODES for more in ({}, VECTORS)] + [{**FEED}, {**FEED, **VECTORS}]


def ids_of(table: DeltaTable, key: str = "id") -> dict[Any, tuple[int, int]]:
    """Row id and commit version by the key."""
    rows = read_table(table.snapshot, table.snapshot.files, row_ids=True)
    keys, ids, versions = (rows[name].to_pylist() for name in (key, *rows.schema.names[-2:]))
    assert len(set(ids)) == len(ids) and None not in (*ids, *versions)
    return dict(zip(keys, zip(ids, versions, strict=True), strict=True))


def made(
    properties: dict[str, str] | None = None, where: Any = None, *, tracked: bool = True
) -> DeltaTable:
    """Rows 0 to 5 in one file, with row ids from 0, and rows 6 to 8 in another, of partition b."""
    table = dn.create(MemoryStore() if where is None else where, {
        "id": [0, 1, 2, 3, 4, 5], "p": ["a"] * 6, "v": [0, 10, 20, 30, 40, 50]}, ["p"],
        properties={**TRACKED, **(properties or {})})
    table.append({"id": [6, 7, 8], "p": ["b"] * 3, "v": [60, 70, 80]})
    if tracked:
        assert ids_of(table) == BEFORE
    return table


BEFORE = {**{n: (n, 0) for n in range(6)}, **{n: (n, 1) for n in (6, 7, 8)}}


def merged(table: DeltaTable, engine: str = "auto") -> None:
    source = {"id": [1, 2, 7, 40], "p": ["a", "a", "c", "a"], "v": [-1, -2, -7, -40]}
    (table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
     .when_matched_delete("s.v = -2").when_matched_update_all().when_not_matched_insert_all()
     .when_not_matched_by_source_update("t.id = 4", set={"v": "0"}).execute(engine))


CHANGES: dict[str, tuple[Callable[[DeltaTable, str], Any], dict[int, int], set[int]]] = {
    "delete": (lambda t, e: t.delete("id IN (1, 7) OR v = 30", engine=e), {}, {1, 3, 7}),
    "update": (lambda t, e: t.update({"v": "v + 1"}, "id IN (0, 4, 8)", engine=e),
               {0: 2, 4: 2, 8: 2}, set()),
    "update, moved to another partition": (
        lambda t, e: t.update({"p": "'z'"}, "id IN (0, 8)", engine=e), {0: 2, 8: 2}, set()),
    "update, all": (lambda t, e: t.update({"v": "0"}, engine=e), dict.fromkeys(range(9), 2), set()),
    "merge": (merged, {1: 2, 7: 2, 4: 2}, {2}),
}
"""What is done, which rows get which version by it, and which rows go."""


@pytest.mark.parametrize("properties", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", CHANGES)
def test_changed_rows_keep_their_ids_and_others_their_versions_too(
    name: str, properties: dict[str, str]
) -> None:
    change, versions, gone = CHANGES[name]
    table = made(properties)
    change(table, "arrow")
    check(table, name, versions, gone)


def check(table: DeltaTable, name: str, versions: dict[int, int], gone: set[int]) -> None:
    ids = ids_of(table)
    if name == "merge":
        fresh = ids.pop(40)
        assert fresh[1] == 2 and fresh[0] > 8  # an inserted row is a new one
    assert ids == {key: (number, versions.get(key, version))
                     for key, (number, version) in BEFORE.items() if key not in gone}
    assert table.history(1)[0].tags["delta.rowTracking.preserved"] == "true"
    assert table.to_arrow().schema.names == table.schema.names == ["id", "p", "v"]
    for file in table.snapshot.files.to_pylist():
        assert "row-id" not in file["stats"] and "row-commit" not in file["stats"]


@pytest.mark.parametrize("properties", LAYOUTS, ids=str)
def test_a_partial_overwrite_keeps_the_ids_of_rows_it_leaves(properties: dict[str, str]) -> None:
    table = made(properties)
    table.overwrite({"id": [3, 9], "p": ["a", "a"], "v": [300, 900]}, where="id = 3 OR id > 8")
    ids = ids_of(table)
    assert ids.pop(3)[0] > 8 and ids.pop(9)[0] > 8
    assert ids == {key: of for key, of in BEFORE.items() if key != 3}
    assert table.history(1)[0].tags["delta.rowTracking.preserved"] == "true"


@pytest.mark.parametrize("properties", LAYOUTS, ids=str)
def test_rows_that_only_move_keep_both(properties: dict[str, str]) -> None:
    table = made(properties)
    table.update({"v": "v + 1"}, "id IN (0, 8)")
    table.append({"id": [9, 10], "p": ["a", "b"], "v": [9, 10]})
    table.delete("id = 5")
    before = ids_of(table)
    assert {key: before[key][1] for key in (0, 8, 1, 6, 9)} == {0: 2, 8: 2, 1: 0, 6: 1, 9: 3}
    moves: list[Callable[[], Any]] = [
        table.optimize, lambda: table.optimize(zorder_by=["id", "v"]), table.purge, table.analyze]
    for move in moves:
        move()
        assert ids_of(table) == before
    assert table.history(1, )[0].operation in ("OPTIMIZE", "COMPUTE STATS")


def test_clustering_keeps_both() -> None:
    table = dn.create(MemoryStore(), {"id": list(range(5)), "v": [3, 1, 4, 1, 5]}, properties=TRACKED)
    table.cluster_by("v")
    table.update({"v": "9"}, "id = 2")
    before = ids_of(table)
    assert table.optimize().version == table.version and ids_of(table) == before
    assert before[2] == (2, 2)


def test_rows_that_come_back_bring_theirs() -> None:
    table = made(FEED)
    table.update({"v": "-1"}, "id = 4")
    table.delete("id = 0")
    table.restore(1)
    assert ids_of(table) == BEFORE
    table.append({"id": [99], "p": ["a"], "v": [99]})
    assert min(number for key, (number, _) in ids_of(table).items() if key == 99) > 11


def test_clones_keep_them(tmp_path: Path) -> None:
    table = made({"delta.columnMapping.mode": "id"}, tmp_path / "t")
    table.update({"v": "-1"}, "id IN (4, 7)")
    copy = table.clone(tmp_path / "copy")
    assert ids_of(copy) == ids_of(table)
    copy.update({"v": "-2"}, "id = 4")
    assert ids_of(copy)[4] == (4, 1) and ids_of(table)[4] == (4, 2)


def test_a_clone_over_a_tracked_table_gives_ids_that_it_never_gave(tmp_path: Path) -> None:
    table = made(None, tmp_path / "t")
    other = dn.create(tmp_path / "other", {"id": list(range(100, 130))}, properties=TRACKED)
    mark = max(number for number, _ in ids_of(other).values())
    copy = table.clone(tmp_path / "other", mode="overwrite")
    assert min(number for number, _ in ids_of(copy).values()) > mark
    copy.restore(0)
    copy.append({"id": [200]})
    assert len(ids_of(copy)) == 31
    plain = dn.create(tmp_path / "plain", {"id": [1, 2]})
    copy = plain.clone(tmp_path / "t", mode="overwrite")
    assert copy.snapshot.files["base_row_id"].to_pylist() == [9]  # the protocol has row tracking still


# --- the columns ------------------------------------------------------------------------------------

def test_the_columns_have_no_field_id_and_files_of_new_rows_lack_them(tmp_path: Path) -> None:
    table = made({"delta.columnMapping.mode": "id"}, tmp_path)
    (first, second) = row_ids.columns_of(table.metadata, table.protocol)
    names = {first.name, second.name}
    for file in table.snapshot.files["path"].to_pylist():
        assert names.isdisjoint(pq.read_schema(tmp_path / file).names)
    table.update({"v": "1"}, "id = 0")
    table.add_columns("more long")  # takes the next id, which a hidden column must not have
    table.append({"id": [50], "p": ["a"], "v": [1], "more": [7]})
    stored = [pq.read_schema(tmp_path / file) for file in table.snapshot.files["path"].to_pylist()]
    (rewritten,) = (schema for schema in stored if first.name in schema.names)
    assert all(rewritten.field(name).metadata is None for name in names)
    assert set(table.to_arrow()["more"].to_pylist()) == {None, 7}
    assert ids_of(table)[0] == (0, 2)


def test_the_feed_reads_its_own_column_by_name_when_columns_are_added() -> None:
    table = made({**FEED, "delta.columnMapping.mode": "id"})
    table.update({"v": "1"}, "id = 0")
    table.add_columns("more string")
    rows = table.changes(2).to_pylist()
    assert [(row["_change_type"], row["more"]) for row in rows] == [
        ("update_preimage", None), ("update_postimage", None)]


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_names_of_the_columns_are_taken(mode: dict[str, str]) -> None:
    table = made(mode)
    for column in row_ids.columns_of(table.metadata, table.protocol):
        for name in (column.name, column.name.upper()):
            with pytest.raises(InvalidSchema, match=r"row tracking keeps .* in its data files") as raised:
                table.add_columns({name: "long"})
            assert raised.value.column == name
            with pytest.raises(SchemaMismatch, match="not in the table"):  # nobody sets ids by hand
                table.append({"id": [1], "p": ["a"], "v": [1], name: [7]})
            with pytest.raises(InvalidSchema):
                table.append({"id": [1], "p": ["a"], "v": [1], name: [7]}, merge_schema=True)
        if mode:
            with pytest.raises(InvalidSchema):
                table.rename_column("v", column.name)
    both = dict.fromkeys(MATERIALIZED_NAMES, "same")
    with pytest.raises(InvalidSchema, match="same"):
        dn.create(MemoryStore(), {"id": [1]}, properties={**TRACKED, **mode, **both})
    assert ids_of(table) == BEFORE


def test_a_violation_shows_the_tables_columns_alone() -> None:
    table = made({"delta.constraints.small": "v < 100"})
    with pytest.raises(ConstraintViolation) as raised:
        table.update({"v": "v + 100"}, "id = 3")
    assert set(raised.value.row) == {"id", "p", "v"}


def test_a_table_that_names_no_columns_says_that_ids_are_lost() -> None:
    """As older writers may have left it."""
    table = made()
    stripped = {key: value for key, value in table.properties.items() if key not in MATERIALIZED_NAMES}
    table.start_transaction().commit([table.metadata.replace(configuration=stripped)])
    table.update({"v": "0"}, "id = 0")
    assert table.history(1)[0].tags == {"delta.rowTracking.preserved": "false"}
    table.delete("p = 'b'")
    assert table.history(1)[0].tags == {"delta.rowTracking.preserved": "true"}


def test_rows_without_tracking_are_written_as_ever(tmp_path: Path) -> None:
    table = dn.create(tmp_path, {"id": [1, 2, 3]}, properties={"delta.feature.rowTracking": "supported"})
    table.update({"id": "9"}, "id = 1")
    (file,) = table.snapshot.files["path"].to_pylist()
    assert pq.read_schema(tmp_path / file).names == ["id"]
    assert table.history(1)[0].tags in (None, {})


def test_a_change_that_loses_a_race_takes_the_version_it_gets(tmp_path: Path) -> None:
    table = made(None, tmp_path)
    txn_table = dn.DeltaTable.for_path(str(tmp_path))
    original = txn_table.log.start_transaction
    raced: list[int] = []

    def start(snapshot: Any = None) -> Any:
        txn = original(snapshot)
        if not raced:
            raced.append(1)
            table.append({"id": [50], "p": ["z"], "v": [5]})
        return txn

    txn_table.log.start_transaction = start  # type: ignore[method-assign]
    try:
        assert txn_table.update({"v": "0"}, "p = 'a' AND id = 0").version == 3
    finally:
        del txn_table.log.start_transaction  # type: ignore[method-assign]
    ids = ids_of(table)
    assert ids[0] == (0, 3) and ids[1] == (1, 0) and ids[50][1] == 2


# --- any history ------------------------------------------------------------------------------------

Row = tuple[int, int, str]  # id, v, p
Model = dict[int, tuple[int, int, Row]]
"""Row id -> id, commit version and row."""


class History:
    """A table beside a dict of what it must hold; each command says what becomes of the rows."""

    def __init__(self, properties: dict[str, str], engine: str = "arrow", where: Any = None) -> None:
        self.table = dn.create(MemoryStore() if where is None else where, "id long, v long, p string", ["p"],
                               properties={**TRACKED, **properties})
        self.engine = engine
        self.model: Model = {}
        self.past: list[Model] = [{}]
        self.seen = -1
        self.next = 0
        self.inserted: dict[int, Row] = {}

    def run(self, step: tuple[Any, ...]) -> None:
        name, *arguments = step
        before = self.table.version
        getattr(self, name)(*arguments)
        self.check(before)

    def check(self, before: int) -> None:
        version = self.table.version
        rows = read_table(self.table.snapshot, self.table.snapshot.files, row_ids=True)
        by_id = {number: (number, at, (key, v, p)) for key, v, p, number, at in zip(
            *(column.to_pylist() for column in rows.columns), strict=True)}
        assert len(by_id) == rows.num_rows
        fresh = {number: of for number, of in by_id.items() if of[2][0] in self.inserted}
        assert all(number > self.seen and at == version for number, at, _ in fresh.values())
        assert sorted(of[2] for of in fresh.values()) == sorted(self.inserted.values())
        expected = {number: (number, version if at < 0 else at, row)
                    for number, (_, at, row) in self.model.items()}
        assert {number: of for number, of in by_id.items() if number not in fresh} == expected
        self.model, self.inserted = by_id, {}
        self.seen = max([self.seen, *by_id])
        while len(self.past) <= version:
            self.past.append(self.model if len(self.past) == version else self.past[-1])
        if version > before:
            tags = self.table.history(1)[0].tags or {}
            assert tags.get("delta.rowTracking.preserved", "true") == "true"

    def new(self, values: list[tuple[int, str]]) -> dict[str, list[Any]]:
        self.inserted = {self.next + n: (self.next + n, v, p) for n, (v, p) in enumerate(values)}
        self.next += len(values)
        return columns(self.inserted.values())

    def meant(self, test: Callable[[Row], bool]) -> list[int]:
        return [number for number, (_, _, row) in self.model.items() if test(row)]

    def changed(self, numbers: list[int], change: Callable[[Row], Row]) -> None:
        self.model = {number: (number, -1, change(of[2])) if number in numbers else of
                      for number, of in self.model.items()}

    def without(self, numbers: list[int]) -> None:
        self.model = {number: of for number, of in self.model.items() if number not in numbers}

    def append(self, values: list[tuple[int, str]]) -> None:
        self.table.append(self.new(values))

    def delete(self, low: int) -> None:
        self.table.delete(f"v < {low}", engine=self.engine)
        self.without(self.meant(lambda row: row[1] < low))

    def update(self, low: int, moves: bool) -> None:
        values = {"v": "v + 1", "p": "'c'"} if moves else {"v": "v + 1"}
        self.table.update(values, f"v >= {low}", engine=self.engine)
        self.changed(self.meant(lambda row: row[1] >= low),
                     lambda row: (row[0], row[1] + 1, "c" if moves else row[2]))

    def merge(self, keys: list[int], deletes: bool, lonely: int, values: list[tuple[int, str]]) -> None:
        known = [key for key in dict.fromkeys(keys) if key < self.next]
        new = self.new(values)
        source = {"id": known + new["id"], "v": [-1] * len(known) + new["v"],
                  "p": ["b"] * len(known) + new["p"]}
        schema = pa.schema({"id": pa.int64(), "v": pa.int64(), "p": pa.string()})
        merge = self.table.merge(pa.table(source, schema), "t.id = s.id", target_alias="t", source_alias="s")
        merge = merge.when_matched_delete() if deletes else merge.when_matched_update(
            set={"v": "s.v", "p": "s.p"})
        gone = [key for key in known if not any(of[2][0] == key for of in self.model.values())]
        again = {key: (key, -1, "b") for key in gone}
        (merge.when_not_matched_insert_all().when_not_matched_by_source_update(
            f"t.v = {lonely}", set={"v": "100"}).execute(self.engine))
        matched = self.meant(lambda row: row[0] in known)
        others = [number for number in self.meant(lambda row: row[1] == lonely) if number not in matched]
        self.changed(others, lambda row: (row[0], 100, row[2]))
        if deletes:
            self.without(matched)
        else:
            self.changed(matched, lambda row: (row[0], -1, "b"))
        self.inserted = {**self.inserted, **again}

    def overwrite(self, low: int, count: int) -> None:
        rows = self.new([(low, "a")] * count)
        data = pa.table(rows, pa.schema({"id": pa.int64(), "v": pa.int64(), "p": pa.string()}))
        self.without(self.meant(lambda row: row[1] == low))
        self.table.overwrite(data, where=f"v = {low}")

    def optimize(self, by: list[str]) -> None:
        self.table.optimize(zorder_by=by, engine=self.engine)

    def purge(self) -> None:
        self.table.purge(engine=self.engine)

    def restore(self, back: int) -> None:
        version = max(0, self.table.version - back)
        self.table.restore(version)
        self.model = self.past[version]


def columns(rows: Any) -> dict[str, list[Any]]:
    rows = list(rows)
    return {name: [row[n] for row in rows] for n, name in enumerate(("id", "v", "p"))}


small = st.integers(-1, 4)
new_rows = st.lists(st.tuples(small, st.sampled_from("ab")), min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("append"), new_rows), st.tuples(st.just("delete"), small),
    st.tuples(st.just("update"), small, st.booleans()),
    st.tuples(st.just("merge"), st.lists(st.integers(0, 12), max_size=4), st.booleans(), small, new_rows),
    st.tuples(st.just("overwrite"), small, st.integers(1, 3)),
    st.tuples(st.just("optimize"), st.sampled_from([[], ["v", "id"]])),
    st.tuples(st.just("purge")), st.tuples(st.just("restore"), st.integers(0, 4)))


@pytest.mark.slow
@few
@given(properties=st.sampled_from(LAYOUTS), first=new_rows, steps=st.lists(STEPS, max_size=8))
def test_any_history_keeps_ids(properties: dict[str, str], first: Any, steps: Any) -> None:
    history = History(properties)
    for step in [("append", first), *steps]:
        history.run(step)


# --- on Spark ---------------------------------------------------------------------------------------

@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("properties", [{}, {**MODES[2], **VECTORS}], ids=str)
def test_spark_keeps_the_same_ids(properties: dict[str, str], tmp_path: Path) -> None:
    for number, (name, (change, versions, gone)) in enumerate(CHANGES.items()):
        table = made(properties, tmp_path / str(number))
        change(table, "spark")
        check(table, name, versions, gone)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("mode", MODES, ids=str)
def test_spark_keeps_ids_of_a_history(mode: dict[str, str], tmp_path: Path) -> None:
    history = History({**mode, **VECTORS}, "spark", tmp_path)
    for step in [
        ("append", [(0, "a"), (1, "b"), (2, "a"), (3, "b")]), ("update", 1, True), ("optimize", []),
        ("append", [(5, "a")]), ("merge", [0, 3], False, 3, [(7, "a")]), ("optimize", ["v", "id"]),
        ("delete", 0), ("purge",), ("overwrite", 5, 2), ("restore", 3),
    ]:
        history.run(step)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_spark_names_the_same_rows_again(tmp_path: Path) -> None:
    """A condition that may give other rows when it is evaluated again is carried out by positions."""
    table = made({}, tmp_path)
    table.update({"v": "0"}, "id = 3 AND current_timestamp() > '2020-01-01'", engine="spark")
    table.delete("id = 4 AND current_timestamp() > '2020-01-01'", engine="spark")
    assert ids_of(table) == {**{key: of for key, of in BEFORE.items() if key != 4}, 3: (3, 2)}


# --- the feed and the diff --------------------------------------------------------------------------

def feed_of(table: DeltaTable, version: int, **options: Any) -> list[tuple[int, int, str]]:
    rows = table.changes(version, version, **options).to_pylist()
    return sorted((row["id"], row["v"], row["_change_type"]) for row in rows)


@pytest.mark.parametrize("properties", [mode | more for mode in MODES for more in ({}, VECTORS)], ids=str)
def test_the_feed_of_a_restore_holds_the_rows_that_change_and_no_others(properties: dict[str, str]) -> None:
    table = made({**FEED, **properties})
    table.update({"v": "-1"}, "id = 4")
    table.delete("id = 0")
    table.append({"id": [9], "p": ["a"], "v": [90]})
    table.optimize()
    version = table.restore(1).version
    assert version is not None
    expected = [(0, 0, "insert"), (4, -1, "update_preimage"), (4, 40, "update_postimage"), (9, 90, "delete")]
    assert feed_of(table, version) == expected
    assert feed_of(table, version, where="_change_type = 'update_postimage'") == [expected[2]]
    assert feed_of(table, version, where="v = -1") == [expected[1]]  # the row matches before alone
    plain = made({**FEED, **properties, "delta.enableRowTracking": "false"}, tracked=False)
    plain.delete("id = 0")
    assert len(feed_of(plain, plain.restore(1).version or 0)) == (1 if VECTORS.items() <= properties.items()
                                                                  else 11)


def test_the_feed_of_rows_with_new_ids_is_told_by_files() -> None:
    table = made(FEED)
    table.overwrite(table.to_arrow())
    assert len(feed_of(table, 2)) == 18


def test_rows_of_another_table_are_not_taken_for_those_that_were_there(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1, 2], "v": [1, 2]}, properties={**TRACKED, **FEED})
    other = dn.create(tmp_path / "other", {"id": [8, 9], "v": [1, 2]}, properties={**TRACKED, **FEED})
    copy = other.clone(tmp_path / "t", mode="overwrite")
    assert feed_of(copy, 1) == [(1, 1, "delete"), (2, 2, "delete"), (8, 1, "insert"), (9, 2, "insert")]
    assert copy.diff(0, 1).rows.matched_by != "row ids"
    assert table.log.path == copy.log.path


@pytest.mark.parametrize("properties", LAYOUTS, ids=str)
def test_the_diff_matches_rows_by_their_ids(properties: dict[str, str]) -> None:
    """Though nothing in the rows says which is which."""
    table = dn.create(MemoryStore(), {"v": [1, 1, 1, 2], "p": ["a"] * 4}, ["p"],
                      properties={**TRACKED, **properties})
    table.update({"v": "5"}, "v = 2")
    table.optimize()
    table.append({"v": [1], "p": ["b"]})
    rows = table.diff(0).rows
    assert (rows.matched_by, rows.num_changed, rows.num_added, rows.num_removed) == ("row ids", 1, 1, 0)
    assert (rows.before["v"].to_pylist(), rows.after["v"].to_pylist()) == ([2], [5])


@pytest.mark.slow
@few
@given(properties=st.sampled_from([{**FEED}, {**FEED, **VECTORS}]), first=new_rows,
       steps=st.lists(STEPS, max_size=6))
def test_the_feed_of_any_history_leads_from_version_to_version(
    properties: dict[str, str], first: Any, steps: Any
) -> None:
    history = History(properties)
    for step in [("append", first), *steps]:
        history.run(step)
    table = history.table
    for version in range(1, table.version + 1):
        rows = {number: of[2] for number, of in history.past[version - 1].items()}
        state = sorted(rows.values())
        feed = [(row["_change_type"], (row["id"], row["v"], row["p"]))
                for row in table.changes(version, version).to_pylist()]
        for kind, row in feed:
            if kind in ("delete", "update_preimage"):
                state.remove(row)
        state += [row for kind, row in feed if kind in ("insert", "update_postimage")]
        assert sorted(state) == sorted(of[2] for of in history.past[version].values())
