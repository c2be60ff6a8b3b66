"""What row-level concurrency and other partitions let pass, against the rows and against real tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

import deltanb as dn
from deltanb.engines.arrow import closer_look, deletion_vectors
from deltanb.errors import DeltaConcurrentModificationException, InvalidArgument
from deltanb.observe import finer_rules, verdicts, what_if
from deltanb.observe.what_if import Replayed
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.transaction.row_levels import ROW_LEVELS

DAYS = st.integers(0, 4)
ROWS = st.lists(st.tuples(DAYS, st.integers(0, 6)), min_size=1, max_size=4)
VECTORS = {"delta.enableDeletionVectors": "true"}


def table_of(
    rows: Sequence[tuple[int, int]], by: tuple[str, ...] = (), **properties: Any
) -> DeltaTable:
    columns = {"day": [day for day, _ in rows], "qty": [qty for _, qty in rows]}
    return dn.create(MemoryStore(), columns, partition_by=by, properties={
        "delta.isolationLevel": "Serializable", **properties})


def data(rows: Sequence[tuple[int, int]]) -> dict[str, list[int]]:
    return {"day": [day for day, _ in rows], "qty": [qty for _, qty in rows]}


def race(table: DeltaTable, mine: str, theirs: Any) -> bool:
    """Delete where ``mine`` says, on a version before ``theirs``: rows to append or data, or a condition to
    delete by. Whether it committed."""
    try:
        with table.transaction() as txn:
            txn.delete(mine)
            if isinstance(theirs, str):
                table.delete(theirs)
            else:
                table.append(theirs if isinstance(theirs, dict) else data(theirs))
    except DeltaConcurrentModificationException:
        return False
    return True


def lost(table: DeltaTable, **settings: Any) -> Replayed:
    (row,) = [row for row in table.history().replay(**settings).rows if row.version is None]
    return row


@given(before=ROWS, added=ROWS, level=st.sampled_from(list(ROW_LEVELS)), day=DAYS, qty=st.integers(0, 6))
def test_an_added_file_meets_what_was_read_of_its_statistics_or_rows(
    before: Any, added: Any, level: str, day: int, qty: int
) -> None:
    table = table_of([*before, (day, qty)])
    if race(table, f"day = {day} AND qty >= {qty}", added):
        return
    (verdict,) = lost(table, row_level=level).verdicts
    rows = any(d == day and q >= qty for d, q in added)
    days, most = [d for d, _ in added], max(q for _, q in added)
    bounds = min(days) <= day <= max(days) and most >= qty
    looks = ROW_LEVELS[level]
    assert verdict.passed is (("statistics" in looks and not bounds) or ("values" in looks and not rows))
    assert not verdict.doubts


@given(rows=st.lists(st.integers(0, 9), min_size=2, max_size=6, unique=True), mine=DAYS, theirs=DAYS,
       level=st.sampled_from(list(ROW_LEVELS)))
def test_vectors_that_take_different_rows_of_a_file_pass(
    rows: list[int], mine: int, theirs: int, level: str
) -> None:
    table = table_of([(row % 5, row) for row in rows], **VECTORS)
    if race(table, f"day = {mine}", f"day = {theirs}"):
        return
    (verdict,) = lost(table, row_level=level).verdicts
    days = {row % 5 for row in rows}
    has_both = len(days - {mine}) and len(days - {theirs}) and {mine, theirs} <= days
    assert verdict.passed is bool("vectors" in ROW_LEVELS[level] and has_both and mine != theirs)


SKEW = {"read one, deleted the other": ("qty = 2", "qty = 1"), "read all": (None, "qty = 1"),
        "read it twice": ("qty = 1", "qty = 1"), "read a row that is left": ("qty = 3", "qty = 1")}
"""What a transaction reads and then deletes by vectors, while another one deletes where qty = 2."""


@pytest.mark.parametrize("reads", SKEW)
@pytest.mark.parametrize("is_tidied_up", [True, False])
@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable", "SnapshotIsolation"])
def test_what_a_transaction_read_counts_and_not_only_the_rows_that_it_took(
    level: str, is_tidied_up: bool, reads: str
) -> None:
    """Two that each read the row which the other deletes can have no order."""
    where, mine = SKEW[reads]
    table = table_of([(1, qty) for qty in range(1, 5)], **VECTORS)
    store = table.log.store

    def skewed(own: DeltaTable) -> None:
        with own.transaction() as txn:
            txn.to_arrow(where=where)
            txn.delete(mine)
            vectors.update({one.name: store.read(one.name) for one in store.list_all("")
                            if one.name.endswith(".bin")})
            own.delete("qty = 2")

    vectors: dict[str, bytes] = {}
    with pytest.raises(DeltaConcurrentModificationException):
        skewed(table)
    for name in vectors if not is_tidied_up else ():
        store.put(name, vectors[name])
    meets = reads.split()[-1] in ("other", "all")
    for row_level in ("vectors", "all"):
        verdict = lost(table, isolation=level, row_level=row_level).verdicts[0]
        assert (verdict.passed, verdict.doubts) == (not meets, ())
        verdict = lost(table, rules=["delete / delete"], row_level=row_level).verdicts[0]
        assert verdict.passed or (is_tidied_up and verdict.doubts == (closer_look.GONE,))


def test_what_else_a_merge_read_is_a_doubt() -> None:
    """It asks for all rows and depends on some of them, of which the log does not say which."""
    table = table_of([(1, qty) for qty in range(1, 5)], **VECTORS)
    txn, other = table.start_transaction(), table.start_transaction()
    (file,) = txn.filter_files()
    stats = json.dumps({**json.loads(file.stats or ""), "tightBounds": False})
    mine, theirs = (file.replace(deletion_vector=deletion_vectors.inline(BitMap64([row])), stats=stats)
                    for row in (0, 1))
    other.commit([file.remove(), theirs], "DELETE")
    with pytest.raises(DeltaConcurrentModificationException):
        txn.commit([file.remove(), mine], "MERGE")
    (verdict,) = lost(table, row_level="vectors").verdicts
    assert verdict.rule and verdict.doubts == (closer_look.READ,)


@pytest.mark.slow
@given(before=ROWS, change=st.one_of(ROWS, DAYS.map("day = {}".format)), day=DAYS)
def test_other_partitions_let_pass_what_they_really_let_pass(before: Any, change: Any, day: int) -> None:
    """Where the replay is sure; where it is not, it says so."""
    table, other = table_of([*before, (day, 1)]), table_of([*before, (day, 1)], ("day",))
    passed, passes = race(table, f"day = {day}", change), race(other, f"day = {day}", change)
    if passed:
        return
    (verdict,) = lost(table, partition_by="day").verdicts
    assert not verdict.unknown
    if verdict.passed or not verdict.doubts:
        assert verdict.passed is passes


def test_a_file_of_one_partition_meets_for_sure_and_one_of_several_perhaps() -> None:
    for added, doubts in (([(1, 1)], ()), ([(1, 1), (2, 1)], (finer_rules.SPANS,))):
        table = table_of([(1, 5)])
        assert not race(table, "day = 1", added)
        (verdict,) = lost(table, partition_by=["DAY"]).verdicts
        assert (verdict.rule, verdict.doubts) == ("append", doubts)
    (outcome,) = table.history().replay(partition_by="day").outcomes
    assert outcome.doubtful == 1 and outcome.passes == 0


def test_files_that_are_gone_leave_a_doubt() -> None:
    store = MemoryStore()
    table = dn.create(store, data([(1, 5), (3, 5)]), properties={"delta.isolationLevel": "Serializable"})
    assert not race(table, "day = 3 AND qty = 5", [(3, 1), (3, 9)])
    (file,) = table.commit(1).added
    store.delete(file.path)
    (verdict,) = lost(table, row_level="values").verdicts
    assert verdict.rule == "append" and verdict.doubts == (closer_look.GONE,)
    page = str(table.history().replay(row_level="values"))
    for words in ("row-level concurrency by values", "✕\u00a0append\u00a0?", "perhaps not"):
        assert words in page


@pytest.mark.parametrize("bound", ["MAX_FILES_READ", "MAX_BYTES_READ", "FEW", "MAX_FINDINGS"])
def test_what_is_read_is_bounded_and_the_bound_is_given(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(closer_look if bound == "FEW" else finer_rules, bound, 0)
    table = table_of([(1, 5)])
    assert not race(table, "day = 1 AND qty = 5", [(1, 1), (1, 9)])
    (verdict,) = lost(table, row_level="all").verdicts
    assert verdict.doubts == (closer_look.BOUND,)


def test_a_file_without_statistics_stays_with_a_doubt_where_partitions_would_tell() -> None:
    builder = TableBuilder(MemoryStore()).create("day integer")
    info = {"operation": "DELETE", "readVersion": 0, "operationParameters": {"predicate": '["day = 1"]'}}
    builder.commit({"commitInfo": {"operation": "WRITE", "readVersion": 0}}, add("a"))
    builder.commit({"commitInfo": info}, add("b"))
    asked: list[Any] = [({"partition_by": "day"}, (finer_rules.SPANS,)), ({"row_level": "statistics"}, ())]
    for settings, doubts in asked:
        (row,) = builder.log.history().replay("Serializable", **settings).rows
        assert (row.verdicts[0].rule, row.verdicts[0].doubts) == ("append", doubts)


@pytest.mark.parametrize("texts", [["x" * 50 + "1"], ["x" * 50 + "1", "x" * 50 + "2"], ["\U0010ffff" * 40]])
def test_texts_beyond_what_statistics_hold_may_be_several(texts: list[str]) -> None:
    """Their upper bound is no text, and equal bounds say nothing of what was cut off."""
    table = dn.create(MemoryStore(), {"p": texts}, properties={"delta.isolationLevel": "Serializable"})
    where = f"p = '{texts[-1]}'"
    assert not race(table, where, {"p": texts})
    (verdict,) = lost(table, partition_by="p").verdicts
    assert (verdict.rule, verdict.doubts) == ("append", (finer_rules.SPANS,))
    assert dn.post_mortem(table, read_version=0, operation="DELETE", predicate=where).would_have_passed


def test_recorded_commits_are_judged_by_their_recorded_conditions() -> None:
    """In another process, without a journal: a commit that would have failed under a stricter level."""
    stats = '{{"numRecords":2,"minValues":{{"day":{0}}},"maxValues":{{"day":{0}}},"nullCount":{{"day":0}}}}'
    info = {"operation": "DELETE", "readVersion": 0, "operationParameters": {"predicate": '["day = 1"]'}}
    for day, rule in ((1, "append"), (2, "")):
        builder = TableBuilder(MemoryStore()).create("day integer")
        builder.commit({"commitInfo": {"operation": "WRITE", "readVersion": 0, "isBlindAppend": True}},
                       add("a", stats=stats.format(day)))
        builder.commit({"commitInfo": info}, add("b"))
        history = builder.log.history()
        assert history.replay("Serializable").rows[0].verdicts[0].rule == "append"
        asked: list[dict[str, Any]] = [{"row_level": "statistics"}, {"partition_by": "day"}]
        for settings in asked:
            assert history.replay("Serializable", **settings).rows[0].verdicts[0].rule == rule
            assert history.replay(**settings).levels == (None,)


@pytest.mark.parametrize(("settings", "message"), [
    ({"row_level": "rows"}, "row_level='rows' is not one of off, statistics, values, vectors, all"),
    ({"row_level": True}, "row_level=True is not one of"),
    ({"partition_by": "dya"}, "partition_by='dya' is not a column of the table.*day"),
    ({"partition_by": 3}, "partition_by=3 is neither a column nor a list"),
    ({"partition_by": [3]}, "partition_by=3 is not a column"),
    ({"partition_by": []}, "partition_by names no column"),
])
def test_bad_arguments_are_refused_by_name(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        table_of([(1, 1)]).history().replay(**settings)


def test_off_is_what_happened() -> None:
    table = table_of([(1, 5)])
    assert not race(table, "day = 1", [(2, 1)])
    off = table.history().replay(row_level="off")
    assert [verdict.rule for verdict in off.rows[0].verdicts] == ["append"]
    plain = table.history().replay(rules=[rule.name for rule in what_if.RULES])
    assert plain.rows[0].verdicts[0].version == off.rows[0].verdicts[0].version == 1


def test_a_replay_of_wide_windows_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "MAX_CHECKS", 30)
    monkeypatch.setattr(verdicts, "MIN_WINDOW", 2)
    builder = TableBuilder(MemoryStore()).create("id long")
    for version in range(1, 16):
        builder.commit({"commitInfo": {"operation": "WRITE", "readVersion": 0}}, add(f"f{version}"))
    replay = builder.log.history().replay("Serializable")
    assert replay.cut_off == tuple(range(4, 16)) and "12 commits met so many others" in str(replay)
    assert all(row.verdicts[0].version == row.attempted - 2 for row in replay.rows if row.attempted > 3)
