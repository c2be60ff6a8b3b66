"""Engines and places: who draws the same ids from a seed writes over no file of a run before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.engines.spark.folders import _move
from deltanb.sources.spark.source import register
from deltanb.store import new_files
from deltanb.store.local import LocalStore

pytestmark = [pytest.mark.slow, pytest.mark.spark,
              pytest.mark.classic("keys given to a table are not sent to a Connect server")]

RUNS = range(2)


def rows(run: int) -> dict[str, list[int]]:
    return {"p": [run % 2] * 2, "n": [10 * run, 10 * run + 1]}


def by_arrow(spark: Any, table: dn.DeltaTable, run: int) -> None:
    table.append(rows(run))
    table.update({"n": "n + 100"}, where=f"n = {10 * run}")


def frame(spark: Any, run: int) -> Any:
    return spark.range(10 * run, 10 * run + 2, 1, 1).selectExpr(f"{run % 2}L p", "id n")


def by_spark(spark: Any, table: dn.DeltaTable, run: int) -> None:
    table.append(frame(spark, run))
    table.update({"n": "n + 100"}, where=f"n = {10 * run}")


def by_tasks(spark: Any, table: dn.DeltaTable, run: int) -> None:
    register(spark)
    frame(spark, run).write.format("deltanb").mode("append").save(table.path)
    table.update({"n": "n + 100"}, where=f"n = {10 * run}")


def by_optimize(spark: Any, table: dn.DeltaTable, run: int) -> None:
    by_arrow(spark, table, run)
    table.optimize(engine="spark")


ENGINES: dict[str, Callable[[Any, dn.DeltaTable, int], None]] = {
    "Arrow": by_arrow, "Spark": by_spark, "tasks": by_tasks, "OPTIMIZE": by_optimize}


@pytest.fixture(params=["folder", "prefixes", "vectors", "catalog", "bucket"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], dn.DeltaTable]]:
    """What makes the table."""
    schema, settings = "p long, n long", {"partition_by": "p"}
    if request.param == "catalog":
        pytest.importorskip("sqlalchemy")
        with dn.Catalog(f"sqlite:///{tmp_path}/c.db", warehouse=tmp_path / "lake") as catalog:
            catalog.create_namespace("shop")
            yield lambda: catalog.create_table("shop.t", schema, **settings)
        return
    properties = {"prefixes": {"delta.randomizeFilePrefixes": "true", "delta.randomPrefixLength": "1"},
                  "vectors": {"delta.enableDeletionVectors": "true"}}.get(request.param, {})
    if request.param == "bucket":
        place, server = request.getfixturevalue("bucket"), request.getfixturevalue("s3_server")
        yield lambda: dn.create(f"{place}/t", schema, storage_options=server.options, **settings)
        return
    yield lambda: dn.create(tmp_path / "t", schema, properties=properties, **settings)


def contents(table: dn.DeltaTable) -> dict[str, bytes]:
    store = table.log.store
    return {status.name: store.read(status.name) for status in store.list_all("")
            if not status.name.startswith("_delta_log/_")}


@pytest.mark.parametrize("engine", ENGINES)
def test_two_runs_of_a_lesson_write_over_nothing(
    engine: str, make: Callable[[], dn.DeltaTable], spark: Any, request: pytest.FixtureRequest
) -> None:
    if engine == "tasks" and request.node.callspec.params["make"] in ("catalog", "bucket"):
        pytest.skip("the data source takes a path, and credentials of its own")
    table, before = None, {}
    for run in RUNS:
        with dn.teaching(seed=1):
            table = make() if table is None else table
            ENGINES[engine](spark, table, run)
        now = contents(table)
        assert before.items() <= now.items()
        before = now
    assert table is not None
    assert sorted(table.to_arrow()["n"].to_pylist()) == sorted(
        n for run in RUNS for n in (10 * run + 100, 10 * run + 1))
    ids = [table.commit(version).txn_id for version in range(table.version + 1)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("engine", ["Arrow", "Spark"])
def test_a_name_that_is_taken_after_the_look_is_left_alone(
    engine: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has drawn it, too, and is first."""
    real = new_files.names_for

    def names_for(store: Any, name_of: Callable[[str], str], drawn: str | None = None) -> Iterator[str]:
        yield name_of("the same")
        yield from real(store, name_of, drawn)

    monkeypatch.setattr(new_files, "names_for", names_for)
    table, before = dn.create(tmp_path / "t", "p long, n long"), {}
    for run in RUNS:
        table.append(frame(spark, run) if engine == "Spark" else rows(run))
        now = contents(table)
        assert before.items() <= now.items()
        before = now
    assert sum("the same" in name for name in before) == 1
    assert sorted(table.to_arrow()["n"].to_pylist()) == [n for run in RUNS for n in rows(run)["n"]]


def test_a_file_in_the_place_of_a_folder_takes_no_name_of_a_file(tmp_path: Path) -> None:
    """Another name would not help, and what is in the way is named."""
    (tmp_path / "p=1").write_text("no folder")
    source = tmp_path / "written.parquet"
    source.write_bytes(b"rows")
    begun: list[str] = []
    with pytest.raises(NotADirectoryError, match="p=1"):
        new_files.created(LocalStore(str(tmp_path)), "p=1/{}.parquet".format,
                          partial(_move, LocalStore(str(tmp_path)), str(source)), begun)
    assert len(begun) == 1 and source.read_bytes() == b"rows"
