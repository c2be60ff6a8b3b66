"""What a MERGE on Spark costs, counted: jobs, tasks, rows that are read, rows that move between tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from deltanb.commands.merge.merge import MergeBuilder
from deltanb.engines.spark.session_request import is_remote
from deltanb.table.entry import create
from deltanb.table.table import DeltaTable

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS, FILES, SOURCE = 4_000, 4, 60
VECTORS = {"delta.enableDeletionVectors": "true"}


class Work(NamedTuple):
    """What Spark did: jobs, tasks, rows read from files and ranges, rows that tasks handed on to others."""

    jobs: int
    tasks: int
    read: int
    moved: int
    plans: str


@pytest.fixture
def work(spark: Any) -> Callable[[Callable[[], Any]], Work]:
    """Runs something and says what it cost."""
    if is_remote(spark):
        pytest.skip("a server's jobs are not counted")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    context = spark.sparkContext._jsc.sc()
    queries = spark._jsparkSession.sharedState().statusStore()

    def known() -> tuple[dict[int, Any], dict[int, Any]]:
        context.listenerBus().waitUntilEmpty()
        jobs, plans = context.statusStore().jobsList(None), queries.executionsList()
        return ({job.jobId(): job for job in map(jobs.apply, range(jobs.size()))},
                {one.executionId(): one for one in map(plans.apply, range(plans.size()))})

    def counted(run: Callable[[], Any]) -> Work:
        jobs, plans = known()
        run()
        after, plans_after = known()
        new = [job for number, job in after.items() if number not in jobs]
        ids = sorted({ids.apply(place) for job in new for ids in [job.stageIds()]
                      for place in range(ids.size())})
        stages = [context.statusStore().lastStageAttempt(one) for one in ids]
        return Work(len(new), sum(stage.numCompleteTasks() for stage in stages),
                    sum(stage.inputRecords() for stage in stages if "cached" not in stage.name()),
                    sum(stage.shuffleWriteRecords() for stage in stages),
                    "\n".join(one.physicalPlanDescription() for number, one in plans_after.items()
                              if number not in plans))

    return counted


def table_at(path: Path, **settings: Any) -> DeltaTable:
    rows = pa.table({"id": list(range(ROWS)), "v": ["old"] * ROWS})
    each = ROWS // FILES
    table = create(path, rows.slice(0, each), **settings)
    for start in range(each, ROWS, each):
        table.append(rows.slice(start, each))
    return table


UPSERT, UPDATE, INSERT, SYNC = "upsert", "update", "insert", "sync"
BUILDERS: dict[str, Callable[[MergeBuilder], MergeBuilder]] = {
    UPSERT: lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
    UPDATE: lambda merge: merge.when_matched_update_all(),
    INSERT: lambda merge: merge.when_not_matched_insert_all(),
    SYNC: lambda merge: merge.when_matched_delete().when_not_matched_by_source_update(
        "t.id < 9", set={"v": "'x'"})}


@pytest.mark.parametrize(("what", "properties", "jobs", "scans"), [
    (UPSERT, {}, 10, 2), (UPSERT, VECTORS, 11, 2), (UPDATE, {}, 8, 2), (INSERT, {}, 9, 1), (SYNC, {}, 7, 2)])
def test_a_small_source_moves_no_row_of_the_table(
    tmp_path: Path, spark: Any, work: Any, what: str, properties: dict[str, str], jobs: int, scans: int
) -> None:
    table = table_at(tmp_path / "t", properties=properties)
    source = spark.range(0, ROWS * 2, ROWS * 2 // SOURCE, 2).selectExpr("id", "'new' v")
    merge = table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
    done = work(BUILDERS[what](merge).execute)
    assert done.jobs <= jobs
    assert done.read - ROWS * scans < 10 * SOURCE, "each scan of the table reads a row once"
    assert done.moved < 10 * SOURCE
    assert "Arrow" not in done.plans and "Python" not in done.plans, "executors need no Python"
    files = table.snapshot.num_files
    assert files < FILES or properties or what == INSERT, "a task that reads writes one file"


def test_a_large_source_is_joined_once(tmp_path: Path, spark: Any, work: Any) -> None:
    """Neither side goes to all tasks: both move, once to find rows and once to write them."""
    table = table_at(tmp_path / "t")
    before = spark.conf.get("spark.sql.autoBroadcastJoinThreshold")
    spark.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    try:
        source = spark.range(0, ROWS * 2, 2, 2).selectExpr("id", "'new' v")
        merge = table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
        done = work(BUILDERS[UPSERT](merge).execute)
    finally:
        spark.conf.set("spark.sql.autoBroadcastJoinThreshold", before)
    assert done.read <= 2 * ROWS + 3 * ROWS, "the source is counted first"
    assert done.moved < ROWS * 5, "both sides of two joins, and what was found"
    assert "Arrow" not in done.plans and "Python" not in done.plans


def test_rows_of_arrow_need_no_query_to_be_counted(tmp_path: Path, work: Any) -> None:
    table = table_at(tmp_path / "t")
    source = pa.table({"id": list(range(ROWS - 30, ROWS + 30)), "v": ["new"] * 60})
    merge = table.merge(source, "t.id = s.id", target_alias="t", source_alias="s")
    done = work(lambda: BUILDERS[UPSERT](merge).execute(engine="spark"))
    assert done.jobs <= 7
    assert done.read < ROWS // FILES * 2 + 10 * SOURCE, "one file alone has the source's keys"
    assert done.moved < 10 * SOURCE
