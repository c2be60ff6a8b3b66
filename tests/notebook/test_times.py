"""One commit has one time in all views: in-commit if the table has that, else when its file was written."""

from __future__ import annotations

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
KINDS: dict[str, Mapping[str, str]] = {
    "plain": {}, "in-commit": {"delta.enableInCommitTimestamps": "true"}}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "table": lambda lost: lost.table,
    "snapshot": lambda lost: lost.table.log.snapshot,
    "history": lambda lost: lost.table.history(1),
    "commit": lambda lost: lost.table.commit(1),
    "conflict": lambda lost: lost.conflict,
    "time travel": lambda lost: lost.table.time_travel(),
    "diff": lambda lost: lost.table.diff(0, 1),
    "post-mortem": lambda lost: dn.post_mortem(lost.table, error=lost),
    "conflict of facts": lambda lost: dn.post_mortem(
        lost.table, read_version=0, operation="DELETE", predicate="id < 3").conflict,
    "conflict to come": lambda lost: dn.explain_conflict(lost.later).conflict,
    "bisection": lambda lost: dn.bisect(lost.table, "id < 3"),
}


def lose(root: Path, properties: Mapping[str, str], is_copied: bool) -> Any:
    """The error of a DELETE that lost to an append, with the table as it is then."""
    table = dn.create(root / "orders", {"id": [1, 2]}, properties=properties)
    txn, later = table.start_transaction(), table.start_transaction()
    read = txn.filter_files()
    later.read_whole_table()
    table.append({"id": [3]})
    for version in (0, 1) if is_copied else ():
        name = root / "orders" / "_delta_log" / f"{version:020}.json"
        os.utime(name, (COPIED + 100 * version, COPIED + 100 * version))
    with pytest.raises(ConcurrentAppendException) as caught:
        txn.commit([file.remove() for file in read], "DELETE")
    caught.value.table, caught.value.later = dn.open(root / "orders"), later  # type: ignore[attr-defined]
    return caught.value


def times(form: str) -> set[str]:
    return set(re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", form))


@pytest.mark.parametrize("is_copied", [False, True], ids=["written", "copied"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_view_has_the_time_of_history(kind: str, is_copied: bool, tmp_path: Path) -> None:
    lost = lose(tmp_path, KINDS[kind], is_copied)
    entry = lost.table.history(1)[0]
    if is_copied:
        assert (entry.timestamp == (COPIED + 100) * 1000) == (kind == "plain")
    for name, view in VIEWS.items():
        forms = view(lost)._repr_mimebundle_()
        for form in ("text/plain", "text/html"):
            if "conflict" not in name or form != "text/plain":  # which has no room for it
                shown = times(forms[form])
                assert shown <= {units.time(entry.timestamp, zone=False)}, (name, shown)
        assert times(forms["text/html"]), name
    assert [track.time for track in tracks.read(lost.table.log)][1] == entry.timestamp
    assert lost.table.log.snapshot.timestamp == entry.timestamp


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


def test_a_catalog_shows_the_times_of_its_tables(tmp_path: Path) -> None:
    with dn.teaching(seed=1), dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "w") as catalog:
        catalog.create_namespace("shop")
        table = catalog.create_table("shop.orders", {"id": [1, 2]})
        table.append({"id": [3]})
        time = units.time(table.history(1)[0].timestamp, zone=False)
        for shown in (table, table.log.snapshot, table.commit(1), catalog.snapshot(["shop.orders"])):
            forms = shown._repr_mimebundle_()
            assert times(forms["text/html"]) == {time}, forms["text/plain"]
