"""One commit has one time in all views: in-commit if the table has that, else when its file was written."""

from __future__ import annotations

import datetime as dt
import itertools
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.errors import ConcurrentAppendException
from deltanb.observe import tracks
from deltanb.text import formatting as units

COPIED = 1_700_000_000  # seconds; a table that was copied has other file times than its writers' clocks
IN_COMMIT = {"delta.enableInCommitTimestamps": "true"}
LOST_TO = 2  # the version that the DELETE lost to


def as_it_is(table: dn.DeltaTable) -> None:
    """Nothing more."""


def switched_off(table: dn.DeltaTable) -> None:
    table.set_properties({"delta.enableInCommitTimestamps": "false"})


KINDS: dict[str, tuple[Mapping[str, str], Callable[[dn.DeltaTable], None]]] = {
    "plain": ({}, as_it_is), "in-commit": (IN_COMMIT, as_it_is), "switched off": (IN_COMMIT, switched_off)}
FILE_TIMES: dict[str, Callable[[int], int] | None] = {
    "as written": None, "copied": lambda version: COPIED + 100 * version,
    "copied backwards": lambda version: COPIED - 100 * version,
    "one later than all": lambda version: COPIED + (10_000 if version == 1 else version)}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "past table": lambda lost: lost.table.as_of(LOST_TO),
    "snapshot": lambda lost: lost.table.log.snapshot_at(LOST_TO),
    "history": lambda lost: lost.table.as_of(LOST_TO).history(1),
    "commit": lambda lost: lost.table.commit(LOST_TO),
    "conflict": lambda lost: lost.conflict,
    "time travel": lambda lost: lost.table.time_travel(LOST_TO),
    "diff": lambda lost: lost.table.diff(1, LOST_TO),
    "post-mortem": lambda lost: dn.post_mortem(lost.table, error=lost),
    "conflict of facts": lambda lost: dn.post_mortem(
        lost.table, read_version=1, operation="DELETE", predicate="id < 3").conflict,
    "conflict to come": lambda lost: dn.explain_conflict(lost.later).conflict,
    "bisection": lambda lost: dn.bisect(lost.table, "id < 3"),
    "blame": lambda lost: lost.table.as_of(LOST_TO).blame("id = 3"),
}
"""Views of the version that won."""
IN_MEMORY = ("past table", "snapshot")
"""Views that ask the store for nothing: of other files' times they know what was listed before."""


def lose(root: Path, kind: str, file_times: str) -> Any:
    """The error of a DELETE that lost to an append, with the table as it is in the end."""
    properties, act = KINDS[kind]
    table = dn.create(root / "orders", {"id": [1]}, properties=properties)
    table.append({"id": [2]})
    txn, later = table.start_transaction(), table.start_transaction()
    read = txn.filter_files()
    later.read_whole_table()
    table.append({"id": [3]})
    act(table)
    moved = FILE_TIMES[file_times]
    for version in range(table.version + 1) if moved is not None else ():
        name = root / "orders" / "_delta_log" / f"{version:020}.json"
        os.utime(name, (moved(version), moved(version)))
    with pytest.raises(ConcurrentAppendException) as caught:
        txn.commit([file.remove() for file in read], "DELETE")
    caught.value.table, caught.value.later = dn.open(root / "orders"), later  # type: ignore[attr-defined]
    return caught.value


def times(form: str) -> set[str]:
    return set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", form))


@pytest.mark.parametrize("file_times", FILE_TIMES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_view_has_the_time_of_history(kind: str, file_times: str, tmp_path: Path) -> None:
    lost = lose(tmp_path, kind, file_times)
    history = {entry.version: entry.timestamp for entry in lost.table.history()}
    stamps = {action.in_commit_timestamp for action in lost.table.commit(LOST_TO).actions
              if action.key == "commitInfo"}
    if kind == "in-commit" or FILE_TIMES[file_times] is not None:  # else both may be of one millisecond
        assert (history[LOST_TO] in stamps) == (kind == "in-commit")
    assert sorted(history.values()) == [history[version] for version in sorted(history)]
    expected = units.time(history[LOST_TO], zone=False)
    seen = lost.table
    for name, view in VIEWS.items():
        lost.table = seen if name in IN_MEMORY else dn.DeltaTable(dn.DeltaLog(seen.log.store))
        forms = view(lost)._repr_mimebundle_()
        assert times(forms["text/html"]) == {expected}, name
        if "conflict" not in name:  # whose text has no room for it
            assert times(forms["text/plain"]) <= {expected}, name
    log = dn.DeltaLog(seen.log.store)
    assert {track.version: track.time for track in tracks.read(log)} == history
    for version, time in history.items():
        assert log.snapshot_at(version).timestamp == time
        assert seen.as_of(dt.datetime.fromtimestamp(time / 1000, dt.timezone.utc)).version == version
    assert times(str(seen)) == {units.time(history[max(history)], zone=False)}


def test_a_conflict_of_a_replay_has_the_time_of_history(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "orders", {"id": [1, 2]}, properties={
        "delta.isolationLevel": "WriteSerializable"})
    txn = table.start_transaction()
    read = txn.filter_files()
    table.append({"id": [3]})
    assert txn.commit([file.remove() for file in read], "DELETE") == 2
    for version in range(3):
        os.utime(tmp_path / "orders" / "_delta_log" / f"{version:020}.json", (COPIED + version,) * 2)
    (conflict,) = dn.open(tmp_path / "orders").history().replay("Serializable").conflicts
    assert conflict.version == 1
    assert times(conflict._repr_mimebundle_()["text/html"]) == {units.time(1000 * (COPIED + 1), zone=False)}


def test_a_table_in_a_bucket_has_the_buckets_time_or_none(s3_server: Any, bucket: str) -> None:
    """The bucket's clock is not the writer's; of a commit of our own it has not said its time yet."""
    options = s3_server.options
    with dn.set_options(clock=lambda: 1000 * COPIED):
        table = dn.create(f"{bucket}/orders", {"id": [1]}, storage_options=options)
        table.append({"id": [2]})
    assert times(str(table)) == set()
    expected = {units.time(table.history(1)[0].timestamp, zone=False)}
    assert times(str(table)) == expected  # the history has asked the bucket
    dn.DeltaLog.clear_cache()
    again = dn.open(f"{bucket}/orders", storage_options=options)
    assert times(str(again)) == times(str(again.snapshot)) == times(str(again.commit(1))) == expected
    assert units.time(1000 * COPIED, zone=False) not in expected


def test_a_catalog_shows_the_times_of_its_tables(tmp_path: Path) -> None:
    with dn.teaching(seed=1), dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "w") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", {"id": [1, 2]})
        table.append({"id": [3]})
        time = units.time(table.history(1)[0].timestamp, zone=False)
        for shown in (table, table.log.snapshot, table.commit(1), catalog.snapshot(["shop.orders"])):
            forms = shown._repr_mimebundle_()
            assert times(forms["text/html"]) == {time}, forms["text/plain"]


def test_tables_of_one_transaction_have_one_time_in_every_view(tmp_path: Path) -> None:
    """However long it takes from the first table to the last: here a second for each look at the clock."""
    seconds = itertools.count(COPIED)
    with dn.set_options(clock=lambda: 1000 * next(seconds)), dn.Catalog(
            f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "w") as catalog:
        catalog.create_namespace("shop")
        orders, totals = (catalog.create_table(f"shop.{name}", {"id": [1]}) for name in ("orders", "totals"))
        late = catalog.transaction()
        late.table("shop.orders").delete("id = 1")
        orders.append({"id": [2]})
        with catalog.transaction() as txn:
            txn.table("shop.orders").append({"id": [3]})
            txn.table("shop.totals").append({"id": [3]})
        with pytest.raises(ConcurrentAppendException) as lost:
            late.commit()
        both, alone, *_ = (entry.timestamp for entry in orders.history())
        assert both == totals.history()[0].timestamp
        shown = {units.time(both, zone=False)}
        for view in (orders, orders.log.snapshot, totals.commit(1), catalog.snapshot(["shop.totals"]),
                     orders.time_travel(2)):
            assert times(view._repr_mimebundle_()["text/html"]) == shown, view
        assert lost.value.conflict.committed_at == alone
        assert [entry.time for entry in catalog.history(limit=2)] == [both, alone]
