"""SQL beside another process: it sees what statements did here, they see what it did, and no row is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltanb as dn
from deltanb import errors
from deltanb.query.sql import run_sql
from deltanb.query.statements.kinds import KINDS, Kind
from tests.examples import every
from tests.query.statements.test_matrix import FLIGHTS, LATE, of_flights, seen
from tests.table_kinds import (
    NAME,
    Home,
    Maker,
    in_catalog_transaction,
    in_transaction,
    plain,
    under_locks,
)

SCRIPT = """
import json, sys
import deltanb as dn

dn.set_options(durability="none")
for line in sys.stdin:
    sql, catalog = json.loads(line)
    if catalog is None:
        result = dn.sql(sql)
    else:
        with dn.Catalog(*catalog) as opened:
            result = opened.sql(sql)
    rows = result.rows.to_pylist() if hasattr(result, "rows") else None
    print(json.dumps(rows), flush=True)
"""
KINDS_OF_FLIGHTS = [kind for kind in KINDS if of_flights(kind)]
ROW = {"month": 9, "delay": 9, "carrier": "OO"}
"""What the other process inserts; no statement of the examples is about it alone."""
INSERT = "INSERT INTO {} VALUES (9, 9, 'OO')"


class Other:
    """Another process, which runs one statement after another."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def sql(self, text: str, catalog: tuple[str, str] | None = None) -> Any:
        """The rows of the statement's answer; None of one that has none."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([text, catalog]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """End it, and hold that nothing went wrong in it."""
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    process = Other()
    yield process
    process.end()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where clones are made; no test here is about the disk."""
    monkeypatch.chdir(tmp_path)
    with dn.set_options(durability="none"):
        yield tmp_path


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(map(str, rows))


def run(kind: Kind, home: Home) -> Any:
    return run_sql(kind.example, {"flights": home.table, "late": pa.table(LATE)})


@pytest.mark.parametrize("kind", every(3, KINDS_OF_FLIGHTS), ids=lambda kind: kind.name)
def test_a_statement_follows_the_commits_of_another_process(kind: Kind, other: Other, folder: Path) -> None:
    outcomes = []
    for name in ("other", "same"):
        path = folder / name
        path.mkdir()
        with pytest.MonkeyPatch.context() as patch, plain(path, FLIGHTS, partition_by="month") as home:
            patch.chdir(path)
            assert home.table.count() == 3
            insert, place = INSERT.format(f"'{home.table.path}'"), f"'{home.table.path}'"
            other.sql(insert) if name == "other" else run_sql(insert, {})
            outcomes.append(seen(home, lambda home=home: run(kind, home), path))
            rows = in_order(home.table.to_arrow().to_pylist())
            assert in_order(other.sql(f"SELECT * FROM {place}")) == rows
            assert len(other.sql(f"SELECT * FROM {place} VERSION AS OF {home.table.version}")) == len(rows)
    assert outcomes[0] == outcomes[1]


def insert_there(other: Other, home: Home, path: Path) -> None:
    """Have the other process insert its row into the table of a home."""
    if isinstance(home.itself, dn.DeltaTable) and home.itself.log.catalog is not None:
        other.sql(INSERT.format(NAME), (f"sqlite:///{path}/catalog.db", str(path / "warehouse")))
    else:
        other.sql(INSERT.format(f"'{home.itself.path}'"))


STAGED = (in_transaction, under_locks, in_catalog_transaction)


@pytest.mark.parametrize(
    ("kind", "make"), every(4, [(kind, make) for kind in KINDS_OF_FLIGHTS for make in STAGED]),
    ids=lambda one: getattr(one, "name", "") or one.__name__)
def test_what_another_process_commits_before_a_transaction_does_is_not_lost(
    kind: Kind, make: Maker, other: Other, folder: Path
) -> None:
    results: list[list[str]] = []
    for name in ("alone", "overtaken"):
        path = folder / name
        path.mkdir()
        is_committed = True
        with make(path, FLIGHTS, partition_by="month") as home:
            with suppress(errors.IllegalStateError, errors.InvalidQuery):
                run(kind, home)
            if name == "overtaken":
                insert_there(other, home, path)
            try:
                home.end()
            except errors.DeltaConcurrentModificationException:
                is_committed = False
            rows = home.itself.to_arrow().to_pylist()
        if name == "overtaken":
            assert [row["carrier"] for row in rows].count(ROW["carrier"]) == 1
            rows = [row for row in rows if not row.items() >= ROW.items()]
        results.append(in_order(rows))
    before = in_order(pa.table(FLIGHTS).to_pylist())
    assert results[1] == (results[0] if is_committed else before)
