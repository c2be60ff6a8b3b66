"""Tables that the data source creates or overwrites × properties × layouts × ways: those of our methods.

A property that is added to the table of properties is tried by itself. No JVM: what Spark asks of a data
source is asked here.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource")

import deltanb as dn
from deltanb.commands.define.create import create
from deltanb.engines.spark.columns import spark_schema
from deltanb.errors import DeltaError
from deltanb.schema.properties import PROPERTIES
from deltanb.schema.types import from_arrow
from deltanb.sources.spark.source import DeltaDataSource
from tests.examples import every

ROWS = pa.record_batch({"id": [5, 6], "p": ["x", "y"]})
BATCHES = 2


def _takes(name: str, text: str) -> bool:
    try:
        return PROPERTIES[name][0](text) is not None
    except ValueError:
        return False


SWITCHES: list[dict[str, str]] = [
    {}, *({name: "true"} for name in PROPERTIES if _takes(name, "true") and not _takes(name, "x")),
    *({"delta.columnMapping.mode": mode} for mode in ("name", "id")), {"delta.checkpointPolicy": "v2"},
    {"delta.feature.rowTracking": "supported"}]
LAYOUTS: list[dict[str, str]] = [{}, {"partitionBy": "p"}, {"clusterBy": "id"}]


def written(path: Path, options: dict[str, str], overwrite: bool) -> None:
    """By ``df.write``."""
    writer = DeltaDataSource({"path": str(path), **options}).writer(
        spark_schema(from_arrow(ROWS.schema)), overwrite)
    writer.commit([writer.write(iter([ROWS]))])


def streamed(path: Path, options: dict[str, str], overwrite: bool) -> None:
    """By ``df.writeStream``: the batch that is next."""
    number = dn.open(path).version + 1 if dn.DeltaTable.is_delta_table(path) else 0
    writer = DeltaDataSource({"path": str(path), "txnappid": "a stream", **options}).streamWriter(
        spark_schema(from_arrow(ROWS.schema)), overwrite)
    writer.commit([pickle.loads(pickle.dumps(writer)).write(iter([ROWS]))], number)


def called(path: Path, options: dict[str, str], overwrite: bool) -> None:
    """By our methods."""
    if dn.DeltaTable.is_delta_table(path):
        table = dn.open(path)
        (table.overwrite if overwrite else table.append)(ROWS)
    else:
        properties = {name: text for name, text in options.items() if name.startswith("delta.")}
        create(path, ROWS, options.get("partitionBy", ()), properties,
               cluster_by=options.get("clusterBy", ()))


WAYS: list[Callable[[Path, dict[str, str], bool], None]] = [written, streamed]


def outcome(path: Path, write: Callable[[], None]) -> Sequence[Any]:
    """What the writes leave: the state of a sound table, and whether each was refused."""
    refused = []
    for _ in range(BATCHES):
        try:
            write()
        except DeltaError as error:
            refused.append(type(error))
    if not dn.DeltaTable.is_delta_table(path):
        return refused
    table = dn.open(path)
    report = dn.verify(path, files="all")
    assert report.is_sound and not report.findings
    properties = {name: text for name, text in table.properties.items() if "materialized" not in name}
    features = [getattr(table.protocol, kind) for kind in ("reader_features", "writer_features")]
    return (refused, table.version, sorted(map(repr, table.to_arrow().to_pylist())), properties,
            [sorted(each or ()) for each in features], table.partition_columns,
            table.detail()["clusteringColumns"])


@pytest.mark.parametrize(
    ("properties", "layout", "way", "overwrite"),
    every(13, list(product(SWITCHES, LAYOUTS, WAYS, [False, True]))),
    ids=lambda one: getattr(one, "__name__", str(one)))
def test_a_table_of_the_data_source_is_that_of_our_methods(
    properties: dict[str, str], layout: dict[str, str], way: Callable[..., None], overwrite: bool,
    tmp_path: Path,
) -> None:
    options = {**properties, **layout}
    lowered = {name.lower(): text for name, text in options.items()}  # as Spark hands them over
    ours = outcome(tmp_path / "ours", lambda: called(tmp_path / "ours", options, overwrite))
    assert outcome(tmp_path / "t", lambda: way(tmp_path / "t", lowered, overwrite)) == ours


OVERWRITES: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"replaceUsing": "id"}, {"replace_using": "id"}),
    ({"replaceOn": "t.id = s.id AND s.v > 0", "targetAlias": "t"},
     {"replace_on": "t.id = s.id AND s.v > 0", "target_alias": "t", "source_alias": "s"}),
    ({"replaceWhere": "t.id >= 2", "targetAlias": "T"}, {"where": "id >= 2"}),
    ({"partitionOverwriteMode": "dynamic"}, {"partition_overwrite": "dynamic"}),
    ({"overwriteSchema": "true", "partitionBy": "v"}, {"overwrite_schema": True, "partition_by": ["v"]}),
    ({"overwriteSchema": "true", "clusterBy": "v"}, {"overwrite_schema": True, "cluster_by": "v"}),
    ({"maxRecordsPerFile": "1", "userMetadata": "why"}, {"max_records_per_file": 1, "user_metadata": "why"})]
STOCK = pa.table({"id": [0, 2, 3], "p": ["a", "a", "b"], "v": [1, 1, 1]})
NEW = pa.record_batch({"id": [2, 9], "p": ["a", "c"], "v": [7, 0]})


@pytest.mark.parametrize(
    ("properties", "layout", "options", "arguments"),
    every(13, [(*case, *each) for case in product(SWITCHES, LAYOUTS) for each in OVERWRITES]), ids=str)
def test_an_overwrite_by_the_data_source_is_that_of_our_methods(
    properties: dict[str, str], layout: dict[str, str], options: dict[str, str], arguments: dict[str, Any],
    tmp_path: Path,
) -> None:
    def made(path: Path) -> Path:
        create(path, STOCK, layout.get("partitionBy", ()), properties, cluster_by=layout.get("clusterBy", ()))
        return path

    def by_the_source() -> None:
        lowered = {name.lower(): text for name, text in options.items()}
        writer = DeltaDataSource({"path": str(tmp_path / "t"), **lowered}).writer(
            spark_schema(from_arrow(NEW.schema)), True)
        writer.commit([writer.write(iter([NEW]))])

    try:
        ours = made(tmp_path / "ours")
    except DeltaError:  # no such table can be written
        return
    assert outcome(made(tmp_path / "t"), by_the_source) == outcome(
        ours, lambda: dn.open(ours).overwrite(NEW, **arguments))
