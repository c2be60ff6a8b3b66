"""The tables of names: each name is there, theirs in the installed library and ours here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.text.spelling_table import TABLE, names_at
from docs import coming_from
from docs.coming_from import PEERS, Row, parts_of
from tests.pages import assert_part

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to"
ROWS = [(peer, row) for peer, (_, groups) in PEERS.items() for group in groups for row in group.rows]


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """What our names begin with."""
    pytest.importorskip("sqlalchemy", reason="the catalog is an extra: pip install 'deltanb[catalog]'")
    table = dn.create(tmp_path / "table", {"id": [1]})
    with dn.Catalog(f"sqlite:///{tmp_path}/catalog.db", warehouse=tmp_path / "lake") as catalog:
        yield {"dn": dn, "errors": dn.errors, "table": table, "catalog": catalog,
               "merge": table.merge({"id": [1]}, "id")}


def delta_rs(folder: Path) -> dict[str, Any]:
    deltalake = pytest.importorskip("deltalake", reason="deltalake is not installed")
    dn.create(folder / "theirs", {"id": [1]})
    return {"deltalake": deltalake, "table": deltalake.DeltaTable(folder / "theirs"),
            "merge": deltalake.table.TableMerger, "exceptions": deltalake.exceptions}


def delta_spark(folder: Path) -> dict[str, Any]:
    tables = pytest.importorskip("delta.tables", reason="delta-spark is not installed")
    sql = import_module("pyspark.sql")
    return {"tables": tables, "table": tables.DeltaTable, "builder": tables.DeltaTableBuilder,
            "merge": tables.DeltaMergeBuilder, "optimize": tables.DeltaOptimizeBuilder,
            "exceptions": import_module("delta.exceptions"),
            "spark": sql.SparkSession, "frame": sql.DataFrame}


def pyiceberg(folder: Path) -> dict[str, Any]:
    table = pytest.importorskip("pyiceberg.table", reason="pyiceberg is not installed")
    catalog = import_module("pyiceberg.catalog")
    return {"pyiceberg": import_module("pyiceberg"), "catalog": catalog.Catalog, "table": table.Table,
            "txn": table.Transaction, "scan": table.DataScan,
            "exceptions": import_module("pyiceberg.exceptions"),
            "update": import_module("pyiceberg.table.update.schema").UpdateSchema,
            "inspect": import_module("pyiceberg.table.inspect").InspectTable,
            "maintenance": import_module("pyiceberg.table.maintenance").MaintenanceTable}


ROOTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "delta-rs": delta_rs, "delta-spark": delta_spark, "pyiceberg": pyiceberg}
"""A peer, and what its names begin with."""


def look_up(name: str, roots: dict[str, Any]) -> Any:
    first, *rest = parts_of(name)
    thing = roots[first]
    for part in rest:
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("peer", PEERS)
def test_each_name_of_ours_is_there(peer: str, ours: dict[str, Any]) -> None:
    names = [row.ours for name, row in ROWS if name == peer and row.ours]
    assert len(names) > 40
    for name in names:
        look_up(name, ours)


@pytest.mark.parametrize("peer", PEERS)
def test_each_name_of_theirs_is_there(peer: str, tmp_path: Path) -> None:
    roots = ROOTS[peer](tmp_path)
    for name in (row.theirs for other, row in ROWS if other == peer and row.theirs):
        look_up(name, roots)


@pytest.mark.parametrize(
    ("theirs", "peer"), [("table.to_parquet()", "delta-rs"), ("table.upsert()", "delta-spark")])
def test_a_name_that_is_none_is_seen(theirs: str, peer: str, tmp_path: Path) -> None:
    with pytest.raises(AttributeError):
        look_up(theirs, ROOTS[peer](tmp_path))


@pytest.mark.parametrize("peer", PEERS)
def test_the_page_has_the_table(peer: str, update_golden: bool) -> None:
    assert_part(HOW_TO / f"coming-from-{peer}.md", "names", coming_from.as_markdown(peer), update_golden)


def method_of(name: str) -> str:
    """A name without what it begins with."""
    return ".".join(parts_of(name)[1:])


SLIPS = [row for peer, row in ROWS if peer != "pyiceberg" and row.ours
         and row.theirs.startswith("table.") and method_of(row.theirs) in names_at(TABLE)]
"""Rows with a name of theirs that a table of ours answers with the one here."""


def test_there_are_names_that_are_answered() -> None:
    assert len(SLIPS) > 20


@pytest.mark.parametrize("row", SLIPS, ids=lambda row: row.theirs)
def test_who_makes_a_slip_is_told_what_the_page_says(row: Row) -> None:
    hint = names_at(TABLE)[method_of(row.theirs)]
    assert re.search(rf"\b{parts_of(row.ours)[-1]}\b", hint), hint


def test_every_error_of_a_conflict_in_delta_spark_has_a_row() -> None:
    exceptions = pytest.importorskip("delta.exceptions", reason="delta-spark is not installed")
    theirs = {name for name in vars(exceptions) if name.endswith("Exception")}
    assert theirs == {parts_of(row.theirs)[-1] for peer, row in ROWS
                      if peer == "delta-spark" and row.theirs.startswith("exceptions.")}
