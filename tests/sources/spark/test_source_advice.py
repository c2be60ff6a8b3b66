"""What a refused write of the data source advises can be written as it is said, and works."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource")

import deltanb as dn
from deltanb.engines.spark.columns import spark_schema
from deltanb.errors import DeltaError, InvalidArgument, SchemaMismatch
from deltanb.schema.ddl import parse_schema
from deltanb.schema.types import from_arrow
from deltanb.sources.spark.source import DeltaDataSource

OPTION = re.compile(r'\.option\("(\w+)", "([^"]*)"\)')
COLUMNS = {"other type": "id string, p string", "no partition column": "id bigint, x bigint",
           "new column": "id bigint, p string, x bigint"}
OPTIONS: dict[str, dict[str, str]] = {
    "append": {}, "overwrite": {}, "of a condition": {"replaceWhere": "p = 'a'"},
    "of partitions": {"partitionOverwriteMode": "dynamic"}}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("options", OPTIONS)
def test_the_schema_is_overwritten_as_the_advice_says(columns: str, options: str, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["a"]}, "p")
    schema, options_used = spark_schema(parse_schema(COLUMNS[columns])), OPTIONS[options]
    with pytest.raises(SchemaMismatch) as caught:
        DeltaDataSource({"path": table.path, **options_used}).writer(schema, options != "append")
    advice = str(caught.value).rpartition("; ")[2]
    assert '.mode("overwrite")' in advice and "schema=" not in advice and "partition_by" not in advice
    for name in options_used:
        assert f"without {name}," in advice
    advised = dict(OPTION.findall(advice))
    if "partitionBy" in advised:
        advised["partitionBy"] = advised["partitionBy"].replace("[...]", '["x"]')
    written = DeltaDataSource({"path": table.path, **advised}).writer(schema, True)
    assert written.planned is not None and written.planned.target is not None
    assert written.planned.target.metadata.schema.names == schema.names
    written.abort([None])


@pytest.mark.parametrize(("options_used", "match"), [
    ({"overwriteSchema": "true", "replaceWhere": "p = 'a'"},
     r'\.option\("replaceWhere", …\) and \.option\("overwriteSchema", "true"\) contradict each other'),
    ({"overwriteSchema": "true", "partitionOverwriteMode": "dynamic"},
     r'\.option\("partitionOverwriteMode", "dynamic"\) and \.option\("overwriteSchema", "true"\) contradict'),
    ({"partitionBy": "x"}, r'\.option\("overwriteSchema", "true"\)\.option\("partitionBy", .*x'),
])
def test_refusals_are_in_the_words_of_spark_s_writers(
    options_used: dict[str, str], match: str, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["a"]}, "p")
    with pytest.raises(DeltaError, match=match):
        DeltaDataSource({"path": table.path, **options_used}).writer(
            spark_schema(parse_schema("id bigint, x bigint")), True)


@pytest.mark.parametrize(("arguments", "without"), [
    ({"where": "p = 'a'"}, "without where,"),
    ({"partition_overwrite": "dynamic"}, "without partition_overwrite,"),
    ({}, "overwrite_schema=True, partition_by=[...]) replaces the table's schema")])
def test_the_advice_of_an_overwrite_does_not_contradict_it(
    arguments: dict[str, str], without: str, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["a"]}, "p")
    with pytest.raises(SchemaMismatch) as caught:
        table.overwrite({"id": [1], "x": [1]}, **arguments)
    assert without in str(caught.value)
    table.overwrite({"id": [1], "x": [1]}, overwrite_schema=True, partition_by=["x"])


@pytest.mark.parametrize(("options", "match"), [
    ({"dataChange": "false"}, r'rows \.option\("dataChange", "false"\) could only lie elsewhere'),
    ({"partitionBy": "p", "clusterBy": "id"},
     r'not both.*\.option\("overwriteSchema", "true"\)\.option\("partitionBy", "\[\]"\)')])
def test_refusals_of_a_new_table_are_in_the_words_of_spark_s_writers(
    options: dict[str, str], match: str, tmp_path: Path
) -> None:
    with pytest.raises(DeltaError, match=match):
        DeltaDataSource({"path": str(tmp_path / "t"), **options}).writer(
            spark_schema(parse_schema("id bigint, p string")), False)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("columns", "options", "complete", "match"), [
    ("id bigint, p string, x bigint", {}, False,
     r'\.option\("mergeSchema", "true"\) adds .* '
     r'\.outputMode\("complete"\)\.option\("overwriteSchema", "true"'),
    ("id bigint, x bigint", {"partitionBy": "x"}, True,
     r'\.outputMode\("complete"\)\.option\("overwriteSchema", "true"\)\.option\("partitionBy", .*x'),
    ("id bigint, p string", {"overwriteSchema": "true", "mergeSchema": "true"}, True,
     r'\.option\("mergeSchema", "true"\) and \.option\("overwriteSchema", "true"\) contradict'),
])
def test_refusals_of_a_stream_are_in_the_words_of_its_writer(
    columns: str, options: dict[str, str], complete: bool, match: str, tmp_path: Path
) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["a"]}, "p")
    source = DeltaDataSource({"path": table.path, "txnAppId": "s", **options})
    with pytest.raises(DeltaError, match=match) as caught:
        source.streamWriter(spark_schema(parse_schema(columns)), complete)
    assert ".mode(" not in str(caught.value) and "_schema=" not in str(caught.value)


def test_a_stream_that_appends_does_not_overwrite_the_schema(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["a"]})
    source = DeltaDataSource({"path": table.path, "txnappid": "s", "overwriteschema": "true"})
    with pytest.raises(InvalidArgument, match=r'is for \.outputMode\("complete"\)'):
        source.streamWriter(spark_schema(parse_schema("id bigint")), False)
    assert table.schema.names == ["id", "p"]


def test_a_stream_that_replaces_all_rows_gives_the_table_its_columns_and_partitions(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1], "p": ["a"]}, "p")
    rows = pa.record_batch({"p": ["b"], "v": [7]})
    for number, partition_by in enumerate(("", "p")):
        options = {"path": table.path, "txnappid": "s", "overwriteschema": "true",
                   **({"partitionby": partition_by} if partition_by else {})}
        writer = DeltaDataSource(options).streamWriter(spark_schema(from_arrow(rows.schema)), True)
        sent = pickle.loads(pickle.dumps(writer))
        writer.commit([sent.write(iter([rows]))], number)
        assert table.to_arrow().to_pylist() == [{"p": "b", "v": 7}]
        assert table.partition_columns == tuple(filter(None, [partition_by]))
