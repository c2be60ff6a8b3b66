"""Processes of ours, of delta-rs and of Delta Spark on one table at once: no version is without anything.

A usual run has a few commits of each process, and leaves out the fifty that ``--thorough`` has.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.table.table import DeltaTable
from tests.commands.test_row_ids import FEED, TRACKED, VECTORS, ids_of
from tests.commands.transactions import check_feed
from tests.patience import PATIENCE
from tests.peers.delta_spark import DeltaSpark, table
from tests.peers.writer import MOVED, SCHEMA, of, pair, work

pytestmark = [pytest.mark.slow, pytest.mark.spark]

ROOT = Path(__file__).resolve().parents[2]
FEW, ALL = 3, 50
"""Commits of each process."""
TABLES: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "all": (FEED, ("ours", "ours", "deltalake", "deltalake")),
    "row ids": ({**FEED, **VECTORS, **TRACKED}, ("ours", "ours")),
}
"""Features of a table, and who writes to it beside Delta Spark; delta-rs does not write row ids."""


@pytest.mark.parametrize("name", TABLES)
def test_every_version_is_whole(
    delta_spark: DeltaSpark, tmp_path: Path, name: str, is_thorough: bool
) -> None:
    commits = ALL if is_thorough else FEW
    properties, libraries = TABLES[name]
    path, lock = tmp_path / "table", tmp_path / "lock"
    made = dn.create(path, SCHEMA, partition_by="who", properties=properties)
    running = [subprocess.Popen(
        [sys.executable, "-m", "tests.peers.writer", library, str(path), str(lock), f"{library}{place}",
         str(commits)], stderr=subprocess.PIPE, text=True, cwd=ROOT)
        for place, library in enumerate(libraries)]
    try:
        for n in range(commits):
            delta_spark.ask("sql_locked", text=statement(table(path), n), lock=str(lock))
        for process in running:
            _, errors = process.communicate(timeout=PATIENCE * commits)
            assert process.returncode == 0, errors
    finally:
        for process in running:
            process.kill()
    dn.DeltaLog.clear_cache()
    opened = dn.open(path)
    assert opened.version == made.version == commits * (len(libraries) + 1)
    theirs = sorted(tuple(row.values()) for row in delta_spark.rows(path, "id, who, amount"))
    assert theirs == sorted(tuple(row.values()) for row in opened.to_arrow().to_pylist())
    check_versions(opened)


def statement(name: str, n: int) -> str:
    """The commit that others make by :mod:`tests.peers.writer`."""
    what, number = work("spark", n)
    if what == "insert":
        rows = ", ".join(f"({row['id']}L, '{row['who']}', {row['amount']}L)"
                         for row in pair("spark", number).to_pylist())
        return f"INSERT INTO {name} VALUES {rows}"
    where = of("spark", number)
    return f"UPDATE {name} SET amount = {MOVED} WHERE {where}" if what == "update" else (
        f"DELETE FROM {name} WHERE {where}")


def check_versions(opened: DeltaTable) -> None:
    """Amounts, row ids, the feed and the checksum of each version."""
    is_tracked = TRACKED.items() <= opened.properties.items()
    before: dict[int, Any] = {}
    ids: dict[int, tuple[int, int]] = {}
    for version in range(1, opened.version + 1):
        at = opened.as_of(version)
        rows = {row["id"]: row for row in at.to_arrow().to_pylist()}
        assert sum(row["amount"] for row in rows.values()) == 0, version
        check_feed(opened, version)
        checked = at.snapshot.verify_checksum()
        engine = str(opened.commit(version).engine_info)
        assert checked.ok or ("delta-rs" in engine and checked.problem), (version, checked)
        if is_tracked:
            now = ids_of(at)
            for key, (number, seen) in now.items():
                assert key not in before or number == ids[key][0], (version, key)
                is_same = key in before and rows[key] == before[key]
                assert seen == (ids[key][1] if is_same else version), (version, key)
            ids = now
        before = rows
