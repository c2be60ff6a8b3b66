"""What a merge in the process reads, and that it finds what a join of all rows finds."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.actions import AddFile
from deltanb.commands.define import evolution
from deltanb.commands.merge import in_process, matching, reach, search
from deltanb.commands.merge.clauses import Names
from deltanb.commands.merge.matching import SourceKeys
from deltanb.commands.merge.merge import MergeBuilder
from deltanb.commands.merge.on import analyze
from deltanb.commands.merge.reach import Reach
from deltanb.engines.arrow import file_writer, row_groups
from deltanb.errors import ConcurrentAppendException, MultipleSourceRowsMatched
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction.reads import FileScan
from deltanb.transaction.transaction import OptimisticTransaction

VECTORS = {"delta.enableDeletionVectors": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
NAN = float("nan")


def merge(table: DeltaTable, source: Any, on: str = "t.k = s.k") -> MergeBuilder:
    return table.merge(source, on, target_alias="t", source_alias="s")


def table_of(data: pa.Table, cuts: list[int], **settings_: Any) -> DeltaTable:
    """The rows cut into files."""
    edges = sorted({0, *(min(cut, data.num_rows) for cut in cuts), data.num_rows})
    table = create(MemoryStore(), data.schema, **settings_)
    for start, stop in itertools.pairwise(edges):
        table.append(data.slice(start, stop - start))
    return table


# --- how much is read -------------------------------------------------------------------------------

@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """A column and a row group, each time one is decoded, in order."""
    groups: list[tuple[str, int]] = []
    plain = pq.ParquetFile.iter_batches

    def iter_batches(file: Any, *args: Any, **options: Any) -> Any:
        groups.extend((name, group) for name in options["columns"] for group in options["row_groups"])
        return plain(file, *args, **options)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    return groups


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of each data file that is opened."""
    from deltanb.engines.arrow import data_file

    paths: list[str] = []
    plain = data_file.opened
    monkeypatch.setattr(data_file, "opened", lambda store, path, *args: (
        paths.append(path), plain(store, path, *args))[1])
    return paths


@pytest.fixture
def ten() -> DeltaTable:
    """Ten files of ten rows: keys 0, 10, … 990."""
    keys = list(range(0, 1000, 10))
    data = pa.table({"k": keys, "v": [str(key) for key in keys], "w": keys})
    return table_of(data, list(range(0, 100, 10)), properties=VECTORS)


def test_only_files_that_a_key_can_meet_are_opened(
    ten: DeltaTable, opened: list[str], decoded: list[tuple[str, int]]
) -> None:
    """The bounds of the keys are those of the table; no file between them is opened."""
    keys = [0, 95, 195, 990, *range(1001, 3000)]  # more than an IN lists
    result = merge(ten, {"k": keys, "w": [0] * len(keys)}).when_matched_delete().execute()
    assert result.metrics["numTargetRowsDeleted"] == 2
    assert len(opened) == 2 and decoded == [("k", 0), ("k", 0)]


def test_no_file_is_opened_where_no_key_can_be(ten: DeltaTable, opened: list[str]) -> None:
    keys = [-5, 95, 995, *range(1001, 3000)]
    assert merge(ten, {"k": keys}).when_matched_delete().execute().version is None
    assert opened == []


def test_columns_beside_the_keys_are_decoded_where_keys_match(
    ten: DeltaTable, decoded: list[tuple[str, int]]
) -> None:
    source = {"k": [11, 200, 901], "w": [1, 1, 1]}  # two of the files hold no such key
    builder = merge(ten, source, "t.k = s.k AND t.w > s.w").when_matched_delete("t.v <> 'x'")
    assert builder.execute().metrics["numTargetRowsDeleted"] == 1
    assert sorted(decoded) == [("k", 0), ("k", 0), ("k", 0), ("v", 0), ("w", 0)]


def test_row_groups_that_no_key_can_meet_are_not_decoded(
    monkeypatch: pytest.MonkeyPatch, decoded: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)
    data = pa.table({"k": list(range(0, 1000, 10)), "v": [1] * 100})
    table = table_of(data, [], properties=VECTORS)
    keys = [5, 350, 777, 990, *range(1001, 3000)]
    assert merge(table, {"k": keys}).when_matched_delete().execute().metrics["numTargetRowsDeleted"] == 2
    assert decoded == [("k", 0), ("k", 3), ("k", 7), ("k", 9)]


def test_a_target_of_its_own_condition_skips_row_groups(
    monkeypatch: pytest.MonkeyPatch, decoded: list[tuple[str, int]]
) -> None:
    monkeypatch.setattr(file_writer, "ROW_GROUP_ROWS", 10)
    monkeypatch.setattr(row_groups, "MIN_ROWS", 0)
    data = pa.table({"k": [n % 10 for n in range(100)], "v": list(range(100))})
    table = table_of(data, [], properties=VECTORS)
    done = merge(table, {"k": [3]}, "t.k = s.k AND t.v >= 85").when_matched_delete().execute()
    assert done.metrics["numTargetRowsDeleted"] == 1
    assert decoded == [("k", 8), ("k", 9), ("v", 8), ("v", 9)]


def test_rows_that_the_source_lacks_need_no_keys_of_files_that_none_can_meet(
    ten: DeltaTable, decoded: list[tuple[str, int]]
) -> None:
    result = (merge(ten, {"k": [10, 15]}).when_matched_update(set={"v": "'kept'"})
              .when_not_matched_by_source_delete("t.w < 500").execute())
    assert result.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 49
    keys = [one for one in decoded if one[0] == "k"]
    assert len(keys) == 2  # once to be found, once to be written again
    assert ten.to_arrow().num_rows == 51


def reachable(table: DeltaTable, source: pa.Table, on: str) -> list[bool]:
    """Whether a key can be in each file; the files in the order in which they came."""
    names = Names(table.snapshot.schema, evolution.schema_of(source), "t", "s")
    analyzed = analyze(names.qualified(on), names)
    values = [source[key.source.path[-1]].combine_chunks() for key in analyzed.keys]
    met = dict.fromkeys(table.snapshot.files["path"].to_pylist(), False)
    files = FileScan(table.snapshot.files)
    reached = Reach(table.snapshot, analyzed.keys, values).of_files(files)
    met.update(zip(files.paths, reached.tolist(), strict=True))
    came = [one.path for version in range(table.version + 1) for one in table.log.read_commit(version)
            if isinstance(one, AddFile)]
    return [met[path] for path in came]


D = Decimal
DAY = dt.date(2024, 1, 1)


@pytest.mark.parametrize(("files", "source", "equal", "met"), [
    ([[1, 3], [5, 7], [9, None]], [4, 8, None], "=", [False, False, False]),
    ([[1, 3], [5, 7], [9, 11]], [3, 5], "=", [True, True, False]),
    ([[1, 3], [5, None], [9, 11]], [None, 20], "=", [False, False, False]),
    ([[1, 3], [5, None], [9, 11]], [None, 20], "<=>", [False, True, False]),
    ([[1, 3], [None, None]], [20], "=", [False, True]),  # no bounds
    ([[1.0, NAN], [5.0, 7.0]], [2.0], "=", [True, False]),
    ([[1.0, NAN], [5.0, 7.0]], [NAN], "=", [True, True]),
    ([[-1.0, -0.0], [0.5, 1.0]], [0.0], "=", [True, False]),
    ([[0.0, 0.1], [0.5, 1.0]], [-0.0], "=", [True, False]),
    ([["a", "c"], ["d", "\uffff"], ["\U0001f986", "\U0001f987"]], ["b", "\U0001f986"], "=",
     [True, False, True]),
    ([["x" * 40, "x" * 41], ["y", "z"]], ["x" * 40 + "x", "zz"], "=", [True, False]),
    ([[b"a", b"c"], [b"d", b"e"]], [b"e"], "=", [True, True]),  # binary columns have no bounds
    ([[D("1.00"), D("2.00")], [D("3.00"), D("4.00")]], [D("2.50"), D("3.00")], "=", [False, True]),
    ([[DAY, DAY], [DAY.replace(day=3), DAY.replace(day=5)]], [DAY.replace(day=4)], "=", [False, True]),
    ([[False, False], [True, True]], [True], "=", [True, True]),  # nor have booleans
])
def test_files_that_a_key_can_meet(files: Any, source: Any, equal: str, met: list[bool]) -> None:
    flat = pa.array([value for file in files for value in file])
    table = table_of(pa.table({"k": flat}), [2, 4])
    assert reachable(table, pa.table({"k": pa.array(source, flat.type)}), f"t.k {equal} s.k") == met


def test_partitions_that_a_key_can_meet() -> None:
    data = pa.table({"k": [1, 2, None], "v": [1, 2, 3]})
    table = table_of(data, [], partition_by=["k"])
    for equal, met in {"=": [True, False, False], "<=>": [True, False, True]}.items():
        assert reachable(table, pa.table({"k": [1, 5, None]}), f"t.k {equal} s.k") == met
        assert reachable(table, pa.table({"k": [1, 5], "v": [3, 1]}),
                    f"t.k {equal} s.k AND t.v = s.v") == [True, False, False]


def test_many_values_are_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many that several of them share a range, or all do: never a file too few."""
    table = table_of(pa.table({"k": ["a", "c", "e", "g", "i"]}), [1, 2, 3, 4])
    source = pa.table({"k": ["h", "d", "c", "b"]})
    assert reachable(table, source, "t.k = s.k") == [False, True, False, False, False]
    monkeypatch.setattr(reach, "MAX_RANGES", 2)
    assert reachable(table, source, "t.k = s.k") == [False, True, True, True, False]
    monkeypatch.setattr(reach, "MAX_SORTED_OBJECTS", 2)
    assert reachable(table, source, "t.k = s.k") == [False, True, True, True, False]


def test_a_window_of_several_files_reads_of_each_what_it_needs() -> None:
    data = pa.table({"k": [1, 2, 3, 4, 5, 6], "v": list("abcdef")})
    table = table_of(data, [2, 4], properties=VECTORS)
    merge(table, {"k": [1, 4, 5]}).when_matched_delete("t.v <> 'd'").execute()
    assert sorted(table.to_arrow()["k"].to_pylist()) == [2, 3, 4, 6]


# --- what is recorded -------------------------------------------------------------------------------

def test_files_that_were_left_out_are_as_read_as_before(
    ten: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append that holds a key of the source's conflicts, though no file of that range was opened."""
    commit = OptimisticTransaction.commit

    def late(txn: Any, *args: Any, **kwargs: Any) -> int:
        monkeypatch.undo()
        ten.append({"k": [555], "v": ["new"], "w": [1]})
        return commit(txn, *args, **kwargs)

    monkeypatch.setattr(OptimisticTransaction, "commit", late)
    with pytest.raises(ConcurrentAppendException):
        merge(ten, {"k": [0, 555], "v": ["a", "b"], "w": [1, 2]}).when_matched_update_all(
        ).when_not_matched_insert_all().execute()


# --- the same as a join of all rows -----------------------------------------------------------------

def joined(here: list[pa.Array], theirs: list[pa.Array], able: Any) -> tuple[Any, Any]:
    """Pairs of rows with equal keys, by Arrow's hash join."""
    names = [f"k{i}" for i in range(len(here))]
    left = pa.table([*here, pa.array(np.arange(len(here[0])))], names=[*names, "here"])
    right = pa.table([*theirs, pa.array(np.arange(len(theirs[0])))], names=[*names, "there"])
    if able is not None:
        right = right.take(pa.array(able))
    both = left.join(right, names, join_type="inner")
    one, other = both.column("here").to_numpy(), both.column("there").to_numpy()
    order = np.lexsort((other, one))
    return one[order], other[order]


class JoinedKeys(SourceKeys):
    """Keys that are looked up by a join."""

    def __init__(self, columns: Any, able: Any = None) -> None:
        super().__init__(columns, able)
        self.columns, self.able = columns, able

    def pairs(self, columns: Any) -> tuple[Any, Any]:
        return joined(columns, self.columns, self.able)


class Everywhere(Reach):
    """Keys that can be anywhere."""

    def holds(self, table: pa.Table) -> list[bool]:
        return [True] * table.num_rows

    def of_files(self, files: Any) -> Any:
        return np.ones(len(files), bool)


UTC = dt.timezone.utc
POOLS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "long": (pa.int64(), [None, -(2**63), -1, 0, 1, 2, 7, 2**63 - 1]),
    "byte": (pa.int8(), [None, -128, -1, 0, 5, 127]),
    "double": (pa.float64(), [None, NAN, -0.0, 0.0, 1.5, -1.5, float("inf"), -float("inf")]),
    "float": (pa.float32(), [None, NAN, -0.0, 0.0, 0.1, 1.5]),
    "string": (pa.string(), [None, "", "a", "a ", "é", "\U0001f986", "x" * 40, "x" * 40 + "y", "\uffff"]),
    "binary": (pa.binary(), [None, b"", b"\x00", b"\xff", b"a"]),
    "decimal": (pa.decimal128(20, 2), [None, Decimal("-1.00"), Decimal("0.00"), Decimal("0.01"),
                                       Decimal("999999999999999999.99")]),
    "date": (pa.date32(), [None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us", "UTC"), [
        None, dt.datetime(1900, 1, 1, 0, 0, 0, 1, UTC), dt.datetime(2024, 1, 1, 0, 0, 0, 999_999, UTC),
        dt.datetime(2024, 1, 1, 0, 0, 0, 999_001, UTC), dt.datetime(2024, 1, 1, 0, 0, 1, 0, UTC)]),
    "boolean": (pa.bool_(), [None, True, False]),
}


@st.composite
def merges(draw: Any) -> dict[str, Any]:
    """A table, a source, and what is merged how."""
    kinds = draw(st.sampled_from([1, 1, 1, 2, 3]).flatmap(
        lambda number: st.lists(st.sampled_from(sorted(POOLS)), min_size=number, max_size=number)))
    rows = draw(st.integers(0, 24))
    count = draw(st.integers(0, 8))

    def of(number: int) -> dict[str, pa.Array]:
        made = {}
        for place, kind in enumerate(kinds):
            type_, pool = POOLS[kind]
            values = draw(st.lists(st.sampled_from(pool), min_size=number, max_size=number))
            made[f"k{place}"] = pa.array(values, type_)
        made["n"] = pa.array(draw(st.lists(st.integers(0, 9), min_size=number, max_size=number)), pa.int64())
        return made

    return {
        "target": pa.table(of(rows)), "source": pa.table(of(count)),
        "cuts": draw(st.lists(st.integers(1, 24), max_size=4)),
        "equal": [draw(st.sampled_from(["=", "<=>"])) for _ in kinds],
        "more": draw(st.sampled_from(["", " AND t.n > 2", " AND s.n <> t.n", " AND s.n < 7 AND t.n < 8"])),
        "clauses": draw(st.sampled_from(["upsert", "delete", "conditions", "insert", "by source", "all"])),
        "properties": draw(st.sampled_from([{}, VECTORS, MAPPED])),
        "partition_by": ["k0"] if kinds[0] in ("long", "string", "date", "boolean") and
        draw(st.booleans()) else [],
        "deleted": draw(st.booleans()), "window": draw(st.sampled_from([4, 100])),
    }


def run(case: dict[str, Any]) -> tuple[Any, ...]:
    """What becomes of a table: its rows, the metrics, what was read."""
    table = table_of(case["target"], case["cuts"], properties=case["properties"],
                     partition_by=case["partition_by"])
    if case["deleted"]:
        table.delete("n = 4")
    on = " AND ".join(f"t.k{i} {equal} s.k{i}" for i, equal in enumerate(case["equal"])) + case["more"]
    builder = merge(table, case["source"], on)
    kind = case["clauses"]
    if kind == "delete":
        builder = builder.when_matched_delete()
    if kind in ("conditions", "all"):
        builder = builder.when_matched_delete("t.n = 1").when_matched_update(
            "s.n > t.n", set={"n": "s.n * 100 + t.n"})
    if kind == "upsert":
        builder = builder.when_matched_update_all()
    if kind in ("upsert", "insert", "all"):
        builder = builder.when_not_matched_insert_all("s.n <> 5" if kind == "all" else None)
    if kind == "by source":
        builder = builder.when_not_matched_by_source_delete()
    if kind == "all":
        builder = builder.when_not_matched_by_source_update("t.n > 6", set={"n": "-t.n"})
    try:
        result = builder.execute(engine="arrow")
    except MultipleSourceRowsMatched:
        return "several", sorted(map(repr, table.to_arrow().to_pylist()))
    metrics = {name: value for name, value in result.metrics.items() if "Bytes" not in name
               and "Ms" not in name}
    return result.version, metrics, sorted(map(repr, table.to_arrow().to_pylist()))


@given(merges())
def test_any_merge_is_that_of_a_join_of_all_rows(case: dict[str, Any]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_writer, "ROW_GROUP_ROWS", 3)
        patch.setattr(row_groups, "MIN_ROWS", 0)
        patch.setattr(search, "WINDOW_ROWS", case["window"])
        result = run(case)
        patch.setattr(in_process, "SourceKeys", JoinedKeys)
        patch.setattr(in_process, "Reach", Everywhere)
        assert result == run(case)


def keys(*further: int | None) -> st.SearchStrategy[list[Any]]:
    numbers = st.integers(-3, 3) | st.sampled_from(further)
    return st.lists(st.tuples(numbers, st.sampled_from(["a", "b", None])), max_size=30)


@given(keys(None, 2**63 - 1, -(2**63)), keys(None, 2**40), st.booleans())
def test_pairs_are_those_of_a_join(here: list[Any], theirs: list[Any], every: bool) -> None:
    types = [pa.int64(), pa.string()]
    left, right = ([pa.array([row[i] for row in rows], types[i]) for i in range(2)] for rows
                   in (here, theirs))
    able = None if every else np.arange(0, len(theirs), 2)
    pairs = SourceKeys(right, able).pairs(left)
    assert [side.tolist() for side in pairs] == [side.tolist() for side in joined(left, right, able)]


EDGES = st.sampled_from([2**63 - 1, 2**63 - 2, -(2**63)])


@given(st.sets(st.integers(-30, 30) | EDGES), st.lists(st.none() | st.integers(-30, 30) | EDGES))
def test_pairs_of_ascending_integers_are_those_of_a_join(here: set[int], theirs: list[Any]) -> None:
    left, right = [pa.array(sorted(here), pa.int64())], [pa.array(theirs, pa.int64())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matching, "MIN_ROWS_FOR_EACH", 0)
        pairs = SourceKeys(right).pairs(left)
    assert [side.tolist() for side in pairs] == [side.tolist() for side in joined(left, right, None)]


def test_of_a_sorted_file_not_every_key_is_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = SourceKeys([pa.array([10**9, 7, 40, 7])])
    monkeypatch.setattr(matching.pc, "index_in", lambda *args, **options: pytest.fail("hashed"))
    assert [side.tolist() for side in keys.pairs([pa.array(range(100))])] == [[7, 7, 40], [1, 3, 2]]
