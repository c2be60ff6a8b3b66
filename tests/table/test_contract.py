"""Kinds of tables by what can be asked of them: each method does on each kind what is declared of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.catalog.iceberg.table import IcebergTable, PinnedIcebergTable, StagedIcebergTable
from deltanb.catalog.transaction import CatalogTable
from deltanb.commands.result import CommandResult
from deltanb.locks import LockMode
from deltanb.locks.tables.table import LockedTable
from deltanb.query.duck import DUCKDB
from deltanb.query.run import run as query
from deltanb.table.contract import Askable, Does, declared, method_of
from deltanb.table.frame import Frame
from deltanb.table.staged import StagedTable, TableTransaction
from deltanb.table.table import DeltaTable
from tests.helpers import tree
from tests.table_kinds import MAKERS, Home, created

ROWS = {"id": [1, 2], "v": ["a", "b"]}
MORE = {"id": [3], "v": ["c"]}
PROPERTIES = {"delta.constraints.v": "id < 100", "delta.dataSkippingNumIndexedCols": "1", "v": "any"}
NEEDED = {Does.READS_VERSIONS: {"delta.enableChangeDataFeed": True},
          Does.DEFINES: {"delta.columnMapping.mode": "name"},
          Does.READS_LOG: {"delta.enableRowTracking": True, "delta.enableInCommitTimestamps": True}}


# -- the kinds -------------------------------------------------------------------------------------------


def properties_for(does: Does) -> dict[str, Any]:
    """Those with which a method has something to do."""
    return {**PROPERTIES, **NEEDED.get(does, {})}


def kinds(base: type[Any] = Askable) -> Iterator[type[Any]]:
    for kind in base.__subclasses__():
        if kind is not StagedTable and kind.__module__.startswith("deltanb."):
            yield kind
        yield from kinds(kind)


def test_every_kind_is_tried() -> None:
    assert set(kinds()) == MAKERS.keys()


EACH = [pytest.param(kind, name, asked.does, id=f"{kind.__name__}-{name}",
                     marks=[pytest.mark.spark] if name.endswith("_df") else [])
        for kind in MAKERS for name, asked in declared(kind).items()
        if issubclass(kind, StagedTable) or not asked.does.is_alone]  # there each has tests of its own


def names(kind: type[Any], *those: Does) -> list[str]:
    """The methods of a kind that do one of some things."""
    return [name for name, asked in declared(kind).items() if asked.does in those]


@pytest.fixture
def home(kind: type[Any], tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    name = request.node.callspec.params.get("name")
    does = declared(kind)[name].does if name else Does.READS
    with MAKERS[kind](tmp_path, ROWS, properties=properties_for(does)) as made:
        assert type(made.table) is kind
        yield made


# -- a call of any method --------------------------------------------------------------------------------

ARGUMENTS: dict[str, Any] = {
    "data": MORE, "source": {"id": [4], "v": ["d"]}, "on": "target.id = source.id", "where": "id = 1",
    "moment": 0, "version": 0, "start": 0, "path": None, "assignments": {"v": "'z'"}, "column": "id",
    "columns": "w long", "name": "v", "new_name": "w", "names": "v",
    "values": {"any": "thing"}, "description": "ducks", "comment": "ducks",
    "expression": "id > 0", "reader_version": 1, "writer_version": 4, "frame": None, "checkpoint": "stream",
    "key": ["id", "v"], "changes": {"v": {"comment": "ducks"}},
}
"""By the name of the parameter."""
OF_METHOD = {("cluster_by", "columns"): ["id"], ("analyze", "columns"): ["v"],
             ("add_constraint", "name"): "w", ("upsert", "on"): "id",
             ("sample", "n"): 99,
             ("replace_columns", "columns"): "id bigint, v string, w long"}
OPTIONS = {"change_column": ("comment",), "delete": ("where",), "analyze": ("columns",), "sample": ("n",)}
"""Parameters that a call is nothing without, though they have a default."""


def call(table: Any, name: str, path: Path) -> Any:
    """Ask a method of a table, and execute what it describes."""
    if isinstance(inspect.getattr_static(type(table), name), property):
        return getattr(table, name)
    method = getattr(table, name)
    needed = [parameter.name for parameter in inspect.signature(method).parameters.values()
              if parameter.default is parameter.empty or parameter.name in OPTIONS.get(name, ())]
    arguments = {one: OF_METHOD[name, one] if (name, one) in OF_METHOD else ARGUMENTS[one] for one in needed}
    if "path" in arguments:
        arguments["path"] = path / name
        if name == "convert":
            arguments["path"].mkdir()
            pq.write_table(pa.table(ROWS), arguments["path"] / "a.parquet")
    made = method(**arguments)
    return made.when_not_matched_insert_all().execute() if hasattr(made, "when_matched_delete") else made


def rows(made: Any) -> Any:
    """The rows that a read gave, in whatever form."""
    if isinstance(made, int):
        return made
    if isinstance(made, tuple) and isinstance(made[1], int):
        return made  # a shape
    if isinstance(made, tuple):
        return made[1].num_rows  # files
    if type(made).__name__ == "PyCapsule":
        made = pa.RecordBatchReader._import_from_c_capsule(made)
    for way in ("toArrow", "to_arrow_table", "to_table", "collect"):  # Spark, DuckDB, a dataset, polars
        if hasattr(made, way):
            made = getattr(made, way)()
            break
    if type(made).__module__.startswith("pandas"):
        if list(made.index[:1]) == ["count"]:
            return made.to_dict()  # a description
        made = pa.Table.from_pandas(made)
    return sorted(map(str, pa.table(made).select(["id", "v"]).to_pylist()))


def operations(home: Home) -> int:
    return len(home.table.operations) if hasattr(home.table, "operations") else 0


@pytest.mark.parametrize(("kind", "name", "does"), EACH)
def test_a_method_does_what_is_declared(
    kind: type[Any], name: str, does: Does, home: Home, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if name.endswith("_df"):
        request.getfixturevalue("spark")
    is_staged = hasattr(home.table, "operations")
    is_past = kind is PinnedIcebergTable
    if not is_past:
        home.table.append(MORE)
    before, staged, files = home.version, operations(home), tree(tmp_path)

    if (is_past and not does.is_read) or (is_staged and does.is_alone):
        with pytest.raises(errors.IllegalStateError, match=REFUSED[does] if is_staged else "read only"):
            call(home.table, name, tmp_path)
        assert (home.version, operations(home)) == (before, staged)
        assert {path for path in tree(tmp_path) if not path.startswith("convert")} == set(files)
        return
    if does is Does.ENDS:
        call(home.table, name, tmp_path)
        assert home.version != before
        return
    made = call(home.table, name, tmp_path)
    if isinstance(made, CommandResult):
        assert made.is_staged is is_staged and ("✓ committed" in repr(made)) is not is_staged, (
            "only what is there is committed")

    if does is Does.READS:
        other = dn.create(tmp_path / "other", ROWS)
        if not is_past:
            other.append(MORE)
        assert rows(made) == rows(call(other, name, tmp_path)), "it sees what is staged"
    if does.is_read:
        assert (home.version, operations(home)) == (before, staged)
    elif is_staged:
        assert home.version == before and operations(home) > staged
        home.end()
        assert home.version != before
    else:
        assert home.version != before


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, "verify") for kind in MAKERS if "verify" in declared(kind)])
def test_a_verification_is_of_what_is_committed(kind: type[Any], name: str, home: Home) -> None:
    """Statements get row ids and times when they are committed: before, they are no fault of the log."""
    home.table.append(MORE)
    home.table.delete("id = 1")
    for files in ("none", "sample", "all"):
        report = home.table.verify(files=files)
        assert report.proved == () and report.versions == (0, home.version)
    home.end()
    assert home.itself.verify(files="all").is_sound


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, "checkup") for kind in MAKERS if "checkup" in declared(kind)])
def test_a_checkup_is_of_what_is_committed(kind: type[Any], name: str, home: Home) -> None:
    """What is staged can still go, and no command can mend it before."""
    before = home.table.checkup()
    for _ in range(12):
        home.table.append(MORE)
    staged = home.table.checkup()
    is_plain = home.table is home.itself
    assert staged.version == home.version and (staged.num_files == before.num_files) is not is_plain
    home.end()
    assert home.itself.checkup().num_files == 13
    assert (home.itself.checkup().kinds == ("small-files",)) and (staged.kinds == ()) is not is_plain


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, "blame") for kind in MAKERS if "blame" in declared(kind)])
def test_a_blame_and_a_bisection_are_of_what_is_committed(kind: type[Any], name: str, home: Home) -> None:
    """A statement has no version before its commit, so nothing can be blamed on it."""
    home.table.append(MORE)
    before = home.itself.version
    blame = home.table.blame(columns="v")
    assert {row["id"]: row["_version"] for row in blame.to_arrow().to_pylist()} == {
        number: max(0, number - 2) for number in range(1, 3 + before)}
    bisection = dn.bisect(home.table, "id < 3")
    assert (bisection.end, bisection.first_bad) == (before, 1 if before else None)
    home.end()
    assert dn.bisect(home.itself, "id < 3").first_bad == 1
    assert home.itself.blame().to_arrow().num_rows == 3


REFUSED = {
    Does.COMMITS_ALONE: "commits by itself, so it cannot be a part of a transaction on table",
    Does.COPIES: "commits by itself, so it cannot be a part of a transaction on table",
    Does.READS_COMMITS: "reads what is committed, .* stream from the table itself, before or after",
}


@pytest.mark.parametrize(
    "name", names(DeltaTable, *set(Does) - {Does.READS_LOG, Does.READS_VERSIONS}))
def test_a_past_version_is_read_and_copied_only(name: str, tmp_path: Path) -> None:
    does = declared(DeltaTable)[name].does
    table = created(tmp_path, ROWS, properties=properties_for(Does.READS))
    past = table.as_of(0)
    table.append(MORE)
    before = tree(tmp_path)
    if does is Does.COPIES:
        call(past, name, tmp_path)
    elif does is Does.READS:
        if name != "to_df":  # of Spark's plans there are tests of their own
            other = dn.create(tmp_path / "other", ROWS)
            assert rows(call(past, name, tmp_path)) == rows(call(other, name, tmp_path))
    else:
        with pytest.raises(errors.IllegalStateError, match=rf"^{name}: this is .* as of version 0, .*open\("):
            call(past, name, tmp_path)
        assert tree(tmp_path) == before
    assert table.version == 1


@pytest.mark.parametrize("kind", [LockedTable])
@pytest.mark.parametrize("name", names(
    LockedTable, Does.READS, Does.READS_VERSIONS, Does.WRITES, Does.ADDS, Does.REPLACES, Does.DEFINES))
def test_under_locks_a_method_is_a_call_of_the_transaction(name: str, home: Home, tmp_path: Path) -> None:
    """It is one where it is executed: no other thread is in the transaction meanwhile."""
    txn = home.more["txn"]
    with txn.operation(), ThreadPoolExecutor(1) as other, pytest.raises(
            errors.IllegalStateError, match="two calls at once"):
        other.submit(call, home.table, name, tmp_path).result()
    assert operations(home) == 0


@pytest.mark.parametrize("kind", [LockedTable])
@pytest.mark.parametrize("name", names(
    LockedTable, Does.COPIES, Does.WRITES, Does.ADDS, Does.REPLACES, Does.DEFINES))
def test_unsafe_is_done_to_the_table_itself(name: str, home: Home, tmp_path: Path) -> None:
    does = declared(LockedTable)[name].does
    home.more["txn"].lock_mode = LockMode.UNSAFE
    call(home.table, name, tmp_path)
    assert (home.version == 1) == does.is_staged and operations(home) == 0


@pytest.mark.parametrize("kind", MAKERS)
def test_which_rows_a_table_shows_is_declared(kind: type[Any], home: Home) -> None:
    assert home.itself._reads_at == "newest"
    try:
        home.table.append(MORE)
    except errors.IllegalStateError:
        shows = "past"
    else:
        shows = "newest" if home.itself.count() == 3 else "transaction"
    assert home.table._reads_at == shows


# -- declarations ----------------------------------------------------------------------------------------


def test_every_public_method_is_declared() -> None:
    assert not [name for kind in (DeltaTable, Frame) for name, method in vars(kind).items()
                if inspect.isfunction(method) and name[0] != "_" and not hasattr(method, "asked")]
    assert {"__len__", "__getitem__", "columns", "shape", "dtypes"} <= declared(Frame).keys()
    assert {asked.does for asked in declared(DeltaTable).values()} == set(Does) - {Does.ENDS}


@pytest.mark.parametrize("kind", MAKERS)
def test_signatures_are_equal_wherever_the_name_is(kind: type[Any]) -> None:
    first, own = declared(DeltaTable), declared(kind)
    common = [name for name in first if hasattr(kind, name)]
    assert len(common) >= 4 and set(common) <= own.keys(), "none is overridden without a declaration"
    for name in common:
        if own[name].does is Does.ENDS:
            continue
        assert own[name] == first[name]
        mine, theirs = (method_of(each, name) for each in (kind, DeltaTable))
        if mine is theirs:
            continue
        assert inspect.signature(getattr(kind, name)) == inspect.signature(getattr(DeltaTable, name)), name


@pytest.mark.parametrize("kind", MAKERS)
def test_what_a_refusal_names_as_the_way_out_is_there(home: Home) -> None:
    for misuse in (list, lambda table: table[0], lambda table: table[:1], lambda table: table[None]):
        with pytest.raises(errors.DeltaError) as caught:
            misuse(home.table)
        methods = re.findall(r"(?<![.\w])(\w+)\(", str(caught.value))
        assert "to_arrow" in methods and not [name for name in methods if not hasattr(home.table, name)]
        if "pyarrow take the table itself" in str(caught.value):
            assert pa.table(home.table).num_rows == 2


# -- what the declarations have mended ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TableTransaction, CatalogTable])
def test_a_merge_is_not_executed_behind_the_end(home: Home) -> None:
    late = home.table.merge(MORE, "target.id = source.id").when_not_matched_insert_all()
    home.table.delete("id = 1")
    home.end()
    with pytest.raises(errors.IllegalStateError, match="^merge: the transaction on table .* was committed"):
        late.execute()
    assert (home.version, operations(home)) == (1, 1)


@pytest.mark.parametrize("kind", [LockedTable])
def test_a_query_reads_under_locks_as_any_read_does(home: Home) -> None:
    pytest.importorskip("duckdb")
    txn, ducks = home.more["txn"], home.table
    ducks.append(MORE)
    with txn.operation(), ThreadPoolExecutor(1) as other, pytest.raises(
            errors.IllegalStateError, match="two calls at once"):
        other.submit(query, "SELECT count(*) AS n FROM ducks", {"ducks": ducks}, DUCKDB).result()
    assert query("SELECT count(*) AS n FROM ducks", {"ducks": ducks}, DUCKDB).rows.to_pylist() == [{"n": 3}]


@pytest.mark.parametrize("kind", [IcebergTable])
def test_iceberg_refuses_what_it_does_not_take(home: Home) -> None:
    before = home.version
    with pytest.raises(errors.InvalidArgument, match=r"^append: .* takes no merge_schema and no txn;"):
        home.table.append(MORE, merge_schema=True, txn=("a", 1))
    with pytest.raises(TypeError, match=r"^append\(\) has no .*; did you mean merge_schema="):
        home.table.append(MORE, merge_shema=True)
    assert home.version == before
    assert home.table.append(MORE, merge_schema=False, compression=None).version == home.version != before
    assert home.table.to_arrow(["v"], "id > 1", limit=1).num_rows == 1
    home.table.delete()
    assert home.table.to_arrow().num_rows == 0


@pytest.mark.parametrize("kind", [IcebergTable, StagedIcebergTable])
def test_iceberg_is_upserted_as_delta_is(home: Home, tmp_path: Path) -> None:
    other = dn.create(tmp_path / "other", ROWS)
    for source in ({"id": [2, None, 9, None], "v": ["B", "n", "Z", "n"]}, {"id": [None], "v": ["n"]},
                   {"v": ["one", "two"], "id": [1, 2]}):
        assert home.table.upsert(source, on="id").operation == other.upsert(source, on=["ID"]).operation
        assert rows(home.table.to_arrow()) == rows(other.to_arrow())
    before = operations(home)
    for source, on, error, match in (
        ({"id": [5, 5], "v": ["x", "y"]}, "id", errors.MultipleSourceRowsMatched, "2 rows with id=5"),
        (MORE, "idd", errors.InvalidArgument, "has no column 'idd'; did you mean id"),
        (MORE, "target.id = source.id", errors.InvalidArgument, "is a condition"),
    ):
        with pytest.raises(error, match=match):
            home.table.upsert(source, on=on)
    assert operations(home) == before
