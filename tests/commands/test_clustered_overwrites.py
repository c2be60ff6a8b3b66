"""A clustered table whose schema is replaced: the clustering goes with the old columns, as in Delta Spark."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.actions import DomainMetadata
from deltanb.errors import (
    ConcurrentTransactionException,
    DeltaError,
    InvalidArgument,
    InvalidTable,
)
from deltanb.table.table import DeltaTable
from deltanb.testing import Lose, MemoryStore, ScriptedStore
from tests.commands.transactions import KINDS
from tests.helpers import table_of

ROWS = {"id": [1, 2], "p": ["a", "b"], "v": [3, 4]}
SCHEMAS: dict[str, dict[str, Any]] = {
    "the same": ROWS, "without the column": {"p": ["a", "b"], "v": [3, 4]},
    "another type": {**ROWS, "id": ["x", "y"]}, "more": {**ROWS, "w": [1.5, 2.5]}}
COMMIT_NAME = "_delta_log/00000000000000000001.json"
LAYOUTS: dict[str, tuple[dict[str, Any], tuple[str, ...], list[str]]] = {
    "none": ({}, (), []), "partitions": ({"partition_by": "p"}, ("p",), []),
    "clustering": ({"cluster_by": ["v"]}, (), ["v"])}
"""By the name: the arguments, the partition and the clustering columns they make."""


def layout(table: DeltaTable) -> tuple[tuple[str, ...], list[str]]:
    return table.partition_columns, table.detail()["clusteringColumns"]


def goes_on(table: DeltaTable) -> None:
    """Later commands and readers take the table as it is."""
    table.append(table.to_arrow())
    table.optimize()
    table.analyze()
    assert table.count() == 4
    report = dn.verify(table.log.store, files="all")
    assert report.is_sound and not report.findings


@pytest.mark.parametrize(("mode", "schema", "new"), list(product(("none", "name"), SCHEMAS, LAYOUTS)))
def test_a_new_schema_has_the_layout_that_is_asked_for(mode: str, schema: str, new: str) -> None:
    table = table_of(ROWS, cluster_by="id", properties={"delta.columnMapping.mode": mode})
    arguments, partitions, clustering = LAYOUTS[new]
    table.overwrite(SCHEMAS[schema], overwrite_schema=True, **arguments)
    assert layout(table) == (partitions, clustering)
    goes_on(table)
    marks = set(table.snapshot.files["clustering_provider"].to_pylist())
    assert marks == ({"liquid"} if clustering else {None})


@pytest.mark.parametrize("overwrite", [
    lambda t: t.overwrite(ROWS), lambda t: t.overwrite(ROWS, where="id < 9"),
    lambda t: t.overwrite({**ROWS, "w": [0, 1]}, merge_schema=True),
    lambda t: t.overwrite(ROWS, partition_overwrite="dynamic"),
    lambda t: t.overwrite(ROWS, replace_using="v"),
], ids=["all", "where", "merge", "dynamic", "matches"])
def test_rows_alone_leave_the_clustering(overwrite: Callable[[DeltaTable], Any]) -> None:
    table = table_of(ROWS, cluster_by="id")
    overwrite(table)
    assert layout(table) == ((), ["id"])


def test_an_unclustered_table_gets_the_feature_with_its_columns() -> None:
    table = table_of(ROWS, partition_by="p")
    table.overwrite(ROWS, overwrite_schema=True)
    assert layout(table) == (("p",), []) and "delta.clustering" not in table.snapshot.domain_metadata
    table.overwrite(ROWS, overwrite_schema=True, cluster_by="id")
    assert layout(table) == ((), ["id"]) and table.protocol.supports("clustering")
    goes_on(table)


def test_a_renamed_column_is_no_other_one() -> None:
    table = table_of(ROWS, cluster_by="id", properties={"delta.columnMapping.mode": "name"})
    table.rename_column("id", "v2")
    table.overwrite({"id": [1, 2], "v2": [7, 8]}, overwrite_schema=True, cluster_by="id")
    assert layout(table) == ((), ["id"])
    goes_on(table)


def test_older_versions_have_their_clustering(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", ROWS, cluster_by="id")
    table.overwrite(SCHEMAS["without the column"], overwrite_schema=True, partition_by="p")
    assert layout(table.as_of(0)) == ((), ["id"])
    assert layout(table.clone(tmp_path / "clone")) == (("p",), [])
    table.restore(0)
    assert layout(table) == ((), ["id"])
    assert layout(table.clone(tmp_path / "clone", mode="overwrite")) == ((), ["id"])
    assert layout(dn.create(tmp_path / "t", {"v": [1, 2]}, mode="overwrite")) == ((), [])


@pytest.mark.parametrize("kind", KINDS)
def test_statements_of_a_transaction_see_it(kind: Any, tmp_path: Path) -> None:
    with KINDS[kind](tmp_path, {}) as home:
        home.table.overwrite(ROWS, overwrite_schema=True, cluster_by="id")
        with home.begin() as table:
            table.overwrite({"p": ["a"], "w": [1]}, overwrite_schema=True, partition_by="p")
            table.append({"p": ["b"], "w": [2]})
        assert layout(home.table) == (("p",), [])
        with home.begin() as table:
            table.overwrite(ROWS, overwrite_schema=True, partition_by=[])
            table.cluster_by("id")
            table.overwrite(SCHEMAS["another type"], overwrite_schema=True, cluster_by="id")
        assert layout(home.table) == ((), ["id"])


@pytest.mark.parametrize("before", ["id", None])
def test_a_winner_that_clusters_the_table_is_noticed(before: str | None) -> None:
    store = MemoryStore()
    dn.create(store, ROWS, cluster_by="id").cluster_by(before)
    rival = DomainMetadata("delta.clustering", '{"clusteringColumns":[["v"]]}')
    table = dn.open(ScriptedStore(store, [Lose((rival,))]))
    with pytest.raises(ConcurrentTransactionException, match=r"delta\.clustering"):
        table.overwrite(ROWS, overwrite_schema=True, partition_by="p")
    assert layout(table) == ((), ["v"])


@pytest.mark.parametrize("schema", SCHEMAS)
def test_the_clustering_of_a_winner_that_brings_the_feature_ends(schema: str) -> None:
    store, other = MemoryStore(), MemoryStore()
    dn.create(store, ROWS)
    rival = dn.create(other, ROWS)
    rival.cluster_by("id")
    lines = other.read(COMMIT_NAME).decode().splitlines()[1:]
    table = dn.open(ScriptedStore(store, [Lose(tuple(lines))]))
    table.overwrite(SCHEMAS[schema], overwrite_schema=True, partition_by="p")
    assert table.version == 2 and layout(table.as_of(1)) == ((), ["id"])
    assert layout(table) == (("p",), [])
    goes_on(table)


@pytest.mark.parametrize(("arguments", "match"), [
    ({"cluster_by": "id"}, "only with overwrite_schema=True"),
    ({"cluster_by": "id", "partition_by": "p", "overwrite_schema": True}, "contradict"),
    ({"cluster_by": "nothing", "overwrite_schema": True}, "no column nothing")])
def test_what_contradicts_is_refused(arguments: dict[str, Any], match: str) -> None:
    table = table_of(ROWS, cluster_by="v")
    with pytest.raises(DeltaError, match=match):
        table.overwrite(ROWS, **arguments)
    assert table.version == 0 and layout(table) == ((), ["v"])


def test_a_domain_that_names_a_column_of_before_has_a_way_out() -> None:
    """Other writers, and this library once, left it beside a new schema."""
    table = table_of(ROWS, partition_by="p", properties={"delta.feature.clustering": "supported"})
    txn = table.log.start_transaction()
    txn.commit([DomainMetadata("delta.clustering", '{"clusteringColumns":[["old"]]}')],
               dn.Operation("CLUSTER BY"))
    with pytest.raises(InvalidTable, match=r"names the column old.*cluster_by"):
        table.optimize()
    with pytest.raises(InvalidArgument, match="partitioned by p"):
        table.cluster_by("v")
    table.cluster_by(None)
    goes_on(table)
