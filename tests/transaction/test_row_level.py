"""A commit that looks closer: whom it passes, what it writes then, and where it falls back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap64

import deltanb as dn
from deltanb import errors
from deltanb.actions import AddFile, CommitInfo, RemoveFile
from deltanb.catalog.iceberg.table import IcebergTable
from deltanb.catalog.rest.server import serve
from deltanb.commands.choose_engine import choose_engine
from deltanb.engines.arrow import behind as behind_winner
from deltanb.engines.arrow import closer_look, deletion_vectors
from deltanb.engines.arrow.read import read_table
from deltanb.options import ROW_LEVEL_NAMES
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction.committer import FolderCommitter
from deltanb.transaction.row_levels import MAX_LOOKS, PROPERTY, ROW_LEVELS, TAG
from deltanb.transaction.steps import Checked, LookCloser, Winner
from tests.table_kinds import HANDLES, Home

ROOT = Path(__file__).resolve().parents[2]
VECTORS = {"delta.enableDeletionVectors": True, "delta.isolationLevel": "Serializable"}
ROWS = {"id": [1, 2, 3, 4], "v": [10, 20, 30, 40]}
FEATURES: dict[str, dict[str, Any]] = {
    "none": {}, "row ids": {"delta.enableRowTracking": True}, "feed": {"delta.enableChangeDataFeed": True},
    "names": {"delta.columnMapping.mode": "name"}, "times": {"delta.enableInCommitTimestamps": True},
    "all of them": {"delta.enableRowTracking": True, "delta.enableChangeDataFeed": True,
                    "delta.columnMapping.mode": "id", "delta.enableInCommitTimestamps": True}}


def table_of(rows: Any = None, level: str = "all", **settings: Any) -> DeltaTable:
    properties = {**VECTORS, PROPERTY: level, **settings.pop("properties", {})}
    return dn.create(MemoryStore(), rows or ROWS, properties=properties, **settings)


def ids(table: DeltaTable) -> list[int]:
    return sorted(table.to_arrow().column("id").to_pylist())


def behind(table: DeltaTable, mine: Callable[[Any], object], *others: Callable[[DeltaTable], object]) -> None:
    """Do a statement, and commit it behind those of others."""
    with table.transaction() as txn:
        mine(txn)
        for other in others:
            other(dn.open(table.log.store))


def names_of_vectors(table: DeltaTable) -> set[str]:
    return {status.name for status in table.log.store.list_all("") if status.name.endswith(".bin")}


def delete(where: str) -> Callable[[Any], object]:
    return lambda table: table.delete(where)


# -- who decides -----------------------------------------------------------------------------------


@pytest.mark.parametrize("option", [None, *ROW_LEVELS])
@pytest.mark.parametrize("level", ROW_LEVELS)
def test_the_option_decides_and_without_it_the_property(level: str, option: Any) -> None:
    table = table_of(level=level)
    with dn.set_options(row_level=option):
        passes = "vectors" in ROW_LEVELS[option or level]
        if passes:
            behind(table, delete("id = 1"), delete("id = 2"))
        else:
            with pytest.raises(errors.ConcurrentAppendException):
                behind(table, delete("id = 1"), delete("id = 2"))
    assert ids(dn.open(table.log.store)) == ([3, 4] if passes else [1, 3, 4])


def test_levels_that_do_not_exist_are_refused_where_they_are_set() -> None:
    assert tuple(ROW_LEVELS) == ROW_LEVEL_NAMES
    with pytest.raises(errors.InvalidArgument, match="option row_level='rows' is not one of"):
        dn.set_options(row_level="rows")
    with pytest.raises(errors.InvalidArgument, match=f"table property {PROPERTY} = 'rows'.*off, statistics"):
        table_of(level="rows")


def test_where_it_is_off_nothing_more_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor where no file meets, nor where the objection is to something else."""
    table, asked = table_of(level="off"), []
    monkeypatch.setattr(FolderCommitter, "look_closer", lambda *_: asked.append(1))
    with pytest.raises(errors.ConcurrentAppendException):
        behind(table, delete("id = 1"), delete("id = 2"))
    table.set_properties({PROPERTY: "all"})
    behind(table, lambda txn: txn.append({"id": [5], "v": [50]}), delete("id = 3"))
    with pytest.raises(errors.MetadataChangedException):
        behind(table, delete("id = 1"), lambda t: t.set_properties({"mine": "1"}))
    assert not asked


# -- what is written -------------------------------------------------------------------------------


def test_rows_of_both_are_gone_and_the_commit_says_how_it_passed() -> None:
    table = table_of()
    behind(table, delete("id = 1"), delete("id = 2"))
    mine = table.log.read_commit(2)
    removed, added = (next(a for a in mine if isinstance(a, kind)) for kind in (RemoveFile, AddFile))
    (theirs,) = (a for a in table.log.read_commit(1) if isinstance(a, AddFile))
    assert removed.deletion_vector == theirs.deletion_vector
    rows = deletion_vectors.load(table.log.store, added.deletion_vector)
    assert (len(rows), added.num_records, added.has_tight_bounds) == (2, 4, False)
    (info,) = (a for a in mine if isinstance(a, CommitInfo))
    assert info.tags == {TAG: "all"}


def test_a_vector_that_another_took_the_place_of_is_deleted() -> None:
    table = table_of()
    behind(table, delete("id = 1"), delete("id = 2"), delete("id = 3"))
    named = {deletion_vectors.relative_path(a.deletion_vector.path_or_inline_dv)
             for version in range(1, 4) for a in table.log.read_commit(version)
             if isinstance(a, AddFile) and a.deletion_vector}
    assert names_of_vectors(table) == named and len(named) == 3


def test_a_commit_that_is_refused_in_the_end_leaves_nothing() -> None:
    table = table_of()
    with pytest.raises(errors.ConcurrentDeleteReadException):
        behind(table, delete("id = 1"), delete("id = 2"), delete("id = 1"))
    assert len(names_of_vectors(table)) == 2 and ids(dn.open(table.log.store)) == [3, 4]


def test_a_commit_that_is_interrupted_after_a_look_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is noted of what the look has shown."""
    def interrupted(winner: Winner, reply: Any) -> Winner:
        assert reply.instead
        raise KeyboardInterrupt

    table = table_of()
    monkeypatch.setattr(Winner, "seen_as", interrupted)
    with pytest.raises(KeyboardInterrupt):
        behind(table, delete("id = 1"), delete("id = 2"))
    assert len(names_of_vectors(table)) == 1


def test_a_file_whose_last_rows_are_taken_is_removed() -> None:
    table = table_of()
    behind(table, delete("id <= 2"), delete("id > 2"))
    assert dn.open(table.log.store).snapshot.num_files == 0


# -- crossings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_every_feature_of_a_table_goes_with_it(feature: str, partition_by: Any) -> None:
    """One that updates, behind one that deletes, one that appends and one that moves all rows."""
    rows = {**ROWS, "part": [1, 1, 1, 1]}
    table = table_of(rows, properties=FEATURES[feature], partition_by=partition_by)
    before = row_ids(table)
    behind(table, lambda txn: txn.update({"v": "v + 1"}, "id = 1"), delete("id = 2"),
           lambda t: t.append({"id": [5], "v": [50], "part": [1]}), lambda t: t.optimize(),
           lambda t: t.update({"v": "v + 2"}, "id = 3"))
    after = dn.open(table.log.store)
    assert sorted((row["id"], row["v"]) for row in after.to_arrow().to_pylist()) == [
        (1, 11), (3, 32), (4, 40), (5, 50)]
    assert not dn.verify(table.log.store).findings
    if "delta.enableRowTracking" in FEATURES[feature]:
        now = row_ids(after)
        assert {i: now[i] for i in (1, 3, 4)} == {i: before[i] for i in (1, 3, 4)}
        assert len(set(now.values())) == 4
    if "delta.enableChangeDataFeed" in FEATURES[feature]:
        changes = after.changes(5, 5).to_arrow().to_pylist()
        assert sorted((row["_change_type"], row["id"], row["v"]) for row in changes) == [
            ("update_postimage", 1, 11), ("update_preimage", 1, 10)]


def row_ids(table: DeltaTable) -> dict[int, Any]:
    rows = read_table(table.snapshot, table.snapshot.files, ["id"], row_ids=True)
    return dict(zip(rows[0].to_pylist(), rows[1].to_pylist(), strict=True)) if rows.num_columns > 1 else {}


@pytest.mark.parametrize("maker", HANDLES, ids=lambda maker: maker.__name__)
def test_every_kind_of_table_that_commits_later_passes(maker: Any, tmp_path: Path) -> None:
    with maker(tmp_path, ROWS, properties={**VECTORS, PROPERTY: "all"}) as home:
        if home.end is Home.end or isinstance(home.table, IcebergTable):
            pytest.skip("it commits at once, or by other rules")
        home.table.delete("id = 1")
        home.itself.delete("id = 2")
        home.end()
        assert sorted(home.itself.to_arrow().column("id").to_pylist()) == [3, 4]


def test_over_http_several_tables_pass_with_one_commit(tmp_path: Path) -> None:
    with serve(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake") as server, \
            dn.connect(server.url) as catalog:
        catalog.create_namespace("shop")
        names = ("shop.orders", "shop.stock")
        for name in names:
            catalog.create_table(name, ROWS, properties={**VECTORS, PROPERTY: "all"})
        with catalog.transaction() as txn:
            for name in names:
                txn.table(name).delete("id = 1")
            for name in names:
                catalog.table(name).delete("id = 2")
        assert [ids(catalog.table(name)) for name in names] == [[3, 4], [3, 4]]


def test_in_a_bucket_and_behind_another_process(bucket: str, s3_server: Any, tmp_path: Path) -> None:
    for place, options in ((str(tmp_path / "table"), None), (f"{bucket}/table", s3_server.options)):
        table = dn.create(place, ROWS, storage_options=options, properties={**VECTORS, PROPERTY: "all"})
        program = (f"import deltanb as dn; dn.open({place!r}, storage_options={options!r}).delete('id = 2'); "
                   f"dn.open({place!r}, storage_options={options!r}).optimize()")
        with table.transaction() as txn:
            txn.delete("id = 1")
            subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
        assert ids(dn.open(place, storage_options=options)) == [3, 4]


def test_behind_a_blind_append_that_it_did_not_see_files_decide() -> None:
    """A copy of its rows and of those appended comes after the append, which at WriteSerializable comes after
    the delete; so the delete cannot come after the copy."""
    copy = "INSERT INTO t SELECT id + 10, v FROM t WHERE id <= 2"
    for added, passes in ((5, True), (1, False)):
        table = table_of(properties={"delta.isolationLevel": "WriteSerializable"})
        others = (lambda t, added=added: t.append({"id": [added], "v": [0]}), lambda t: dn.sql(copy, t=t))
        if passes:
            behind(table, delete("id = 1"), *others)
            continue
        with pytest.raises(errors.ConcurrentAppendException) as raised:
            behind(table, delete("id = 1"), *others)
        assert closer_look.UNSEEN in raised.value.conflict.advice[-1]


# -- rewritten files -------------------------------------------------------------------------------


def test_rows_that_were_moved_are_found_by_their_values_and_each_once() -> None:
    twins = {"id": [1, 1, 2, 3], "v": [7, 7, 8, float("nan")]}
    table = table_of(twins)
    table.append({"id": [1, 9], "v": [7.5, 9]})
    behind(table, delete("v = 7 OR isnan(v)"), lambda t: t.optimize())
    assert sorted(zip(*dn.open(table.log.store).to_arrow().to_pydict().values(), strict=True)) == [
        (1, 7.5), (2, 8), (9, 9)]


def test_what_was_read_is_followed_into_the_new_files() -> None:
    """A row that was read and moved, and then changed, is a conflict."""
    table = table_of()
    table.append({"id": [8], "v": [80]})
    with pytest.raises(errors.DeltaConcurrentModificationException) as raised:
        behind(table, lambda txn: (txn.to_arrow(where="id = 8"), txn.delete("id = 1")),
               lambda t: t.optimize(), delete("id = 8"))
    assert raised.value.conflict.version == 3
    behind(table, lambda txn: (txn.to_arrow(where="id = 3"), txn.delete("id = 1")),
           lambda t: (t.append({"id": [9], "v": [90]}), t.optimize()), delete("id = 9"))
    assert ids(dn.open(table.log.store)) == [2, 3, 4]


def test_rows_that_are_not_found_again_are_a_conflict_that_says_so() -> None:
    table = table_of()
    other = dn.open(table.log.store).start_transaction()
    (file,) = other.filter_files()
    (new,) = other.write_files({"id": [2, 3, 4], "v": [20, 30, 40]}, data_change=False)
    with pytest.raises(errors.ConcurrentDeleteReadException) as raised:
        behind(table, delete("id = 1"),
               lambda t: other.commit([file.remove(data_change=False), new], "OPTIMIZE"))
    assert closer_look.NOT_FOUND_AGAIN in raised.value.conflict.advice[-1]


# -- rows that come back, or are not counted ---------------------------------------------------------


@pytest.mark.parametrize("mine", ["id = 4", "id IN (2, 4)"])
def test_rows_that_a_winner_brings_back_are_a_conflict(mine: str) -> None:
    """RESTORE leaves the file a vector with fewer rows; a union of vectors would take them again."""
    table = table_of()
    table.delete("id = 1")
    table.delete("id = 2")
    with pytest.raises(errors.DeltaConcurrentModificationException):
        behind(table, delete(mine), lambda t: t.restore(1))
    assert ids(dn.open(table.log.store)) == [2, 3, 4]


def test_files_whose_rows_nobody_counted_are_a_conflict() -> None:
    """A vector that takes all rows removes the file; whether it does is not known of this one."""
    def optimize(t: DeltaTable) -> None:
        txn = t.start_transaction()
        files = list(txn.filter_files())
        (new,) = txn.write_files(t.to_arrow(), data_change=False)
        txn.commit([*(file.remove(data_change=False) for file in files), new.replace(stats=None)], "OPTIMIZE")

    table = table_of()
    with pytest.raises(errors.ConcurrentDeleteReadException) as raised:
        behind(table, delete("id = 1"), optimize)
    assert closer_look.NOT_COUNTED in raised.value.conflict.advice[-1]
    assert ids(dn.open(table.log.store)) == [1, 2, 3, 4]


def test_values_that_python_does_not_have_are_a_conflict() -> None:
    rows = {"id": pa.array([1, 2]), "at": pa.array([2**58, 0], pa.timestamp("us", "UTC"))}
    table = table_of(pa.table(rows))
    table.append(pa.table({"id": [3], "at": pa.array([1], pa.timestamp("us", "UTC"))}))
    with pytest.raises(errors.ConcurrentDeleteReadException) as raised:
        behind(table, delete("id = 1"), lambda t: t.optimize())
    assert closer_look.UNREADABLE in raised.value.conflict.advice[-1]


@pytest.mark.parametrize(("value", "passes"), [
    ("(SELECT max(v) FROM a_view)", False), ("a_function(v)", True)])
def test_where_a_query_within_sql_has_read_files_decide(value: str, passes: bool) -> None:
    """Spark runs it; it may have read rows that the winner added."""
    table = table_of()
    txn = table.start_transaction()
    files = txn.filter_files("id = 1")
    chosen = choose_engine(txn, "spark", files, errors.UnsupportedPredicate("of Spark"), ["id = 1", value])
    assert (chosen, txn.reads.has_queries) == ("spark", not passes)
    dn.open(table.log.store).append({"id": [5], "v": [1000]})
    if passes:
        assert txn.commit(txn.write_files({"id": [6], "v": [0]}), "UPDATE") == 2
        return
    with pytest.raises(errors.ConcurrentAppendException) as raised:
        txn.commit(txn.write_files({"id": [6], "v": [0]}), "UPDATE")
    assert closer_look.QUERIES in raised.value.conflict.advice[-1]


# -- bounds, and what cannot be read ---------------------------------------------------------------


def test_a_vector_that_is_gone_leaves_the_conflict_and_says_so() -> None:
    table = table_of()

    def loses(t: DeltaTable) -> None:
        t.delete("id = 2")
        (name,) = (name for name in names_of_vectors(t) if name not in before)
        t.log.store.delete(name)

    with pytest.raises(errors.ConcurrentAppendException) as raised, table.transaction() as txn:
        txn.delete("id = 1")
        before = names_of_vectors(table)
        loses(dn.open(table.log.store))
    assert closer_look.GONE in raised.value.conflict.advice[-1]


def test_no_more_is_looked_at_than_the_bound_and_the_conflict_says_so() -> None:
    for count, passes in ((MAX_LOOKS, True), (MAX_LOOKS + 1, False)):
        table = table_of(level="statistics")
        winner = dn.open(table.log.store).start_transaction()
        files = [winner.write_files({"id": [100 + number], "v": [0]})[0] for number in range(count)]
        with table.transaction() as txn:
            txn.delete("id = 1")
            winner.commit(files, "WRITE")
            if not passes:
                with pytest.raises(errors.ConcurrentAppendException) as raised:
                    txn.commit()
                assert closer_look.BOUND in raised.value.conflict.advice[-1]


def test_a_file_is_opened_only_if_it_is_no_larger_than_the_transaction_itself(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(behind_winner, "LITTLE", 0)
    for size, passes in ((2, True), (20_000, False)):
        table = table_of(level="values")
        rows = {"id": list(range(0, 2 * size, 2)), "v": list(range(size))}
        rows["id"] = [i * 7 % 100_003 * 2 for i in rows["id"]]

        def mine(txn: Any) -> None:
            txn.delete("id = 3")

        if passes:
            behind(table, mine, lambda t, rows=rows: t.append(rows))
            continue
        with pytest.raises(errors.ConcurrentAppendException) as raised:
            behind(table, mine, lambda t, rows=rows: t.append(rows))
        assert closer_look.BOUND in raised.value.conflict.advice[-1]


# -- what people see -------------------------------------------------------------------------------


def test_the_checklist_and_the_steps_say_that_the_rows_differ() -> None:
    table = table_of()
    txn = table.start_transaction()
    (file,) = txn.filter_files("id = 1")
    (vector,) = deletion_vectors.write_file(table.log.store, [BitMap64([0])], begun=txn.written)
    dn.open(table.log.store).delete("id = 2")
    stepper = txn.stepper([file.remove(), file.with_deletion_vector(vector)], "DELETE")
    steps, lines = [], []
    while not stepper.is_done:
        lines.append(stepper.advance())
        steps.append(txn.step)
    (checked,) = (step for step in steps if isinstance(step, Checked))
    assert any(isinstance(step, LookCloser) for step in steps)
    notes = {check.name: check.note for check in checked.checks if check.note and check.state == "passed"}
    assert notes == {
        "append": "at row level this passes: the rows differ (1 file, by vectors)",
        "delete / read": "at row level this passes: the rows differ (1 file, by vectors)",
        "delete / delete": "at row level this passes: the rows differ (1 file, by vectors)"}
    assert "5 look closer: do the rows of v1 meet yours?" in lines
    assert "6 check: no conflict with v1, the rows differ" in lines
    (row,) = [row for row in table.history().replay().rows if row.version == 2]
    assert row.verdicts[0].passed
