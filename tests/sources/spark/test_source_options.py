"""Options of the data source: each is known by its name and has a value of its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark.sql.datasource")

import deltanb as dn
from deltanb.engines.spark.columns import spark_schema
from deltanb.errors import InvalidArgument, InvalidTable, StreamSourceChanged
from deltanb.schema.types import from_arrow
from deltanb.sources.spark import options as options_module
from deltanb.sources.spark.option_table import (
    IMPOSSIBLE,
    OPTIONS,
    PROPERTIES,
    READ,
    STREAM_READ,
    STREAM_WRITE,
    USES,
    WRITE,
    as_markdown,
    names_of,
)
from deltanb.sources.spark.options import ReadOptions, SparkOptions, WriteOptions
from deltanb.sources.spark.source import DeltaDataSource
from deltanb.sources.spark.stream import _Read, stream_reader
from tests.pages import assert_part

PAGE = Path(__file__).resolve().parents[3] / "docs" / "spark-options.md"


@pytest.mark.parametrize(("options", "pattern"), [
    ({}, "needs the path of a table"),
    ({"path": "t", "startingVersion": "1"}, "'startingVersion' .* is for the change data feed"),
    ({"path": "t", "readChangeFeed": "yes"}, "'readChangeFeed' .* is true or false, found 'yes'"),
    ({"path": "t", "readChangeFeed": "true", "startingVersion": "1", "startingTimestamp": "2024"},
     "contradict"),
    ({"path": "t", "readChangeFeed": "true", "versionAsOf": "1"}, "contradict"),
    ({"path": "t", "readChangeFeed": "true"}, r'needs a beginning: give .option\("startingVersion", 0\)'),
    ({"path": "t", "readChangeFeed": "true", "endingVersion": "1"}, "needs a beginning"),
    ({"path": "t", "versionAsOf": "-1"}, "whole number"),
    ({"path": "t", "maxFilesPerTrigger": "1"}, "is one of reading a stream, not of reading"),
    ({"path": "t", "aws_region": "x"}, "no option 'aws_region' of reading"),
    ({"path": "s3://b/t", "aws_regoin": "x"}, "did you mean 'region'"),
])
def test_options_of_reading_are_checked(options, pattern):
    with pytest.raises(InvalidArgument, match=pattern):
        ReadOptions.of(options)


@pytest.mark.parametrize(("options", "overwrite", "pattern"), [
    ({"replaceWhere": "id > 1"}, False, r"'replaceWhere' .* is for \.mode\(\"overwrite\"\)"),
    ({"overwriteSchema": "true"}, False, "overwrite"),
    ({"partitionOverwriteMode": "sometimes"}, True, "one of static, dynamic, found 'sometimes'"),
    ({"partitionOverwriteMode": "dynamic"}, False, "overwrite"),
    ({"txnAppId": "x"}, False, "belong together"),
    ({"txnAppId": "x", "txnVersion": "one"}, False, "whole number"),
    ({"partitionBy": "[1]"}, False, "names of columns"), ({"partitionBy": "a,"}, False, "names of columns"),
    ({"targetFileSize": "0"}, False, "target_file_size=0"), ({"saveMode": "error"}, True, "for .mode"),
    ({"saveMode": "maybe"}, False, "one of append"),
    ({"versionAsOf": "1"}, False, "one of reading, not of writing"),
    ({"mergeShema": "true"}, False, "did you mean mergeSchema"),
])
def test_options_of_writing_are_checked(options, overwrite, pattern):
    with pytest.raises(InvalidArgument, match=pattern):
        WriteOptions.of({"path": "t", **options}, overwrite)


def test_options_know_no_case_and_hide_what_reaches_a_bucket():
    read = ReadOptions.of({"PATH": "s3://b/t", "READchangeFEED": "TRUE", "startingversion": "2",
                            "aws_secret_access_key": "hush"})
    assert (read.start, read.changes, "hush" in repr(read)) == (2, True, False)
    assert WriteOptions.of({"path": "t", "partitionBy": '["a,b", "c"]'}, False).partition_by == ("a,b", "c")


@pytest.mark.parametrize(("text", "size"), [
    ("1g", 1 << 30), ("1G", 1 << 30), ("512k", 512 << 10), ("2 mb", 2 << 20), ("7", 7), ("100b", 100),
    ("1t", 1 << 40), ("1p", 1 << 50)])
def test_sizes_are_written_as_spark_writes_them(text: str, size: int, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    read = _Read({"path": table.path, "maxBytesPerTrigger": text})
    assert (read.options.max_bytes, read.options.max_files) == (size, None)
    assert WriteOptions.of({"path": "t", "targetFileSize": text}, False).file_options.target_file_size == size


@pytest.mark.parametrize("text", ["1x", "g", "-1", "1.5g", ""])
def test_what_is_no_size_is_refused(text: str, tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    for make in (lambda: _Read({"path": table.path, "maxBytesPerTrigger": text}),
                 lambda: WriteOptions.of({"path": "t", "targetFileSize": text}, False)):
        with pytest.raises(InvalidArgument, match="a number of bytes such as 1073741824 or 1g"):
            make()


def test_a_stream_of_changes_needs_no_start_where_the_feed_is_younger_than_the_table(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [0]})
    table.set_properties({"delta.enableChangeDataFeed": True})
    table.append({"id": [1]})
    options = {"path": table.path, "readChangeFeed": "true"}
    columns = DeltaDataSource(options).schema()
    assert columns.names == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    reader = stream_reader(options, columns)
    start = reader.initialOffset()
    tasks = reader.partitions(start, reader.latestOffset(start, reader.getDefaultReadLimit()))
    make, arguments = reader.__reduce__()
    rows = [row for task in tasks for batch in make(*arguments).read(task) for row in batch.to_pylist()]
    assert sorted((row["id"], row["_change_type"], row["_commit_version"]) for row in rows) == [
        (0, "insert", 2), (1, "insert", 2)]
    with pytest.raises(InvalidArgument, match="needs a beginning"):
        DeltaDataSource(options).reader(columns)


def test_the_page_lists_every_option(update_golden: bool) -> None:
    assert_part(PAGE, "options", as_markdown(), update_golden)


@pytest.mark.parametrize("use", USES)
def test_every_option_is_known_to_who_takes_it_and_to_nobody_else(use: str) -> None:
    for option in OPTIONS.values():
        for spelling in (option.name.upper(), *option.aliases):
            if spelling.lower() in ("path", PROPERTIES + "…"):
                continue
            if use in option.uses:
                value = "false" if option.name in IMPOSSIBLE else "x"
                taken = SparkOptions({"path": "t", spelling: value}, use)
                assert taken.text(option.name) == value
                if value == "false":
                    with pytest.raises(InvalidArgument, match=f"{option.name!r} .* can be false alone"):
                        SparkOptions({"path": "t", spelling: "true"}, use)
            else:
                with pytest.raises(InvalidArgument, match=f"{option.name!r} .* is one of .*, not of {use}"):
                    SparkOptions({"path": "t", spelling: "x"}, use)
        misspelt = {"path": "t", option.name.replace(".", "") + "z": "x"}
        with pytest.raises(InvalidArgument, match="knows no option .*; "):
            SparkOptions(misspelt, use)


def test_an_option_by_two_names_has_one_value() -> None:
    options = {"path": "t", "readChangeFeed": "true", "readChangeData": "true", "startingVersion": "0"}
    assert ReadOptions.of(options).changes
    with pytest.raises(InvalidArgument, match="'readChangeFeed' .* has two values"):
        ReadOptions.of({**options, "readChangeData": "false"})


@pytest.mark.parametrize("use", USES)
def test_the_code_reads_each_option_it_takes(use: str) -> None:
    """Each name stands in the module that takes it: an option that nobody reads would change nothing."""
    modules = {READ: ["options"], WRITE: ["options", "write"], STREAM_READ: ["stream"],
               STREAM_WRITE: ["stream", "options"]}
    folder = Path(options_module.__file__).parent
    code = "".join((folder / f"{name}.py").read_text("utf-8") for name in modules[use])
    assert [name for name in names_of(use) if f'"{name}"' not in code
            and name not in ("path", PROPERTIES + "…", *IMPOSSIBLE)] == []


@pytest.mark.parametrize("use", [WRITE, STREAM_WRITE])
def test_properties_of_tables_are_spelled_as_delta_spells_them(use: str) -> None:
    properties = {"delta.appendonly": "true", "DELTA.COLUMNMAPPING.MODE": "name",
                  "delta.feature.rowtracking": "supported"}
    taken = SparkOptions({"path": "t", **properties}, use)
    assert taken.properties == {"delta.appendOnly": "true", "delta.columnMapping.mode": "name",
                                "delta.feature.rowtracking": "supported"}
    with pytest.raises(InvalidArgument, match=r"'delta\.apendOnly'; did you mean delta\.appendOnly"):
        SparkOptions({"path": "t", "delta.apendOnly": "true"}, use)
    for reader in (READ, STREAM_READ):
        with pytest.raises(InvalidArgument, match="knows no option 'delta.appendonly'"):
            SparkOptions({"path": "t", **properties}, reader)


@pytest.mark.parametrize("spelling", ["id", "ID", "s.x", "S.`x`", "`a b`", "`a.b`", '["`a.b`", "s.x"]'])
def test_the_clustering_of_a_table_may_be_given_again_as_it_was_spelled(
    spelling: str, tmp_path: Path
) -> None:
    rows = pa.table({"id": [1], "a b": [1], "a.b": [1], "s": [{"x": 1}]})
    for number in range(2):
        source = DeltaDataSource({
            "path": str(tmp_path / "t"), "clusterby": spelling, "delta.columnmapping.mode": "name"})
        writer = source.writer(spark_schema(from_arrow(rows.schema)), False)
        writer.commit([writer.write(iter(rows.to_batches()))])
        assert dn.open(tmp_path / "t").version == number
    other = DeltaDataSource({"path": str(tmp_path / "t"), "clusterby": "s"})
    with pytest.raises(InvalidArgument, match="is clustered by .*, not by s; leave it out"):
        other.writer(spark_schema(from_arrow(rows.schema)), False)


# --- columns that change under a stream ---------------------------------------------------------------

def followed(options: dict[str, str], at: dict[str, Any] | None) -> tuple[list[dict[str, Any]], Any, str]:
    """One run of a stream from an offset: its rows, the offset behind them, and what stopped it."""
    source = DeltaDataSource(options)
    reader = source.streamReader(source.schema())
    rows, start = [], reader.initialOffset() if at is None else at
    make, arguments = reader.__reduce__()
    while True:
        try:
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
        except StreamSourceChanged as error:
            return rows, start, str(error)
        if end == start:
            return rows, start, ""
        for task in reader.partitions(start, end):
            rows += [row for batch in make(*arguments).read(task) for row in batch.to_pylist()]
        start = end


@pytest.mark.parametrize("start", [{"startingVersion": "0"}, {"startingTimestamp": "2000-01-01"}], ids=str)
def test_a_stream_that_begins_before_a_change_of_columns_begins_with_those(
    start: dict[str, str], tmp_path: Path
) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = dn.create(tmp_path / "t", {"id": [1], "a": ["x"]}, properties=mapped)
    table.drop_columns("a")
    table.append({"id": [2]})
    options = {"path": table.path, "schemaTrackingLocation": str(tmp_path / "c"), **start}
    rows, at, stopped = followed(options, None)
    assert rows == [{"id": 1, "a": "x"}] and "- a" in stopped
    assert followed(options, at) == ([{"id": 2}], {**at, "version": 3, "index": 0}, "")


def test_a_record_of_columns_that_is_damaged_is_named(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    options = {"path": table.path, "schemaTrackingLocation": str(tmp_path / "c")}
    followed(options, None)
    (record,) = (tmp_path / "c").rglob("*.json")
    for text in ("", "{}", "[1]", '{"version": null}'):
        record.write_text(text)
        with pytest.raises(InvalidTable, match=f"{record.name} has no version: start the stream with"):
            DeltaDataSource(options).schema()


@pytest.mark.parametrize("start", [None, "0"])
def test_rows_from_before_a_change_of_columns_come_with_their_own(start: str | None, tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = dn.create(tmp_path / "t", {"id": [1], "a": ["x"]}, properties=mapped)
    options = {"path": table.path, "schemaTrackingLocation": str(tmp_path / "c" / "columns"),
               **({} if start is None else {"startingVersion": start})}
    rows, at, _ = followed(options, None)
    assert rows == [{"id": 1, "a": "x"}]
    table.append({"id": [2], "a": ["y"]})
    table.rename_column("a", "b")
    table.append({"id": [3], "b": ["z"]})
    table.drop_columns("b")
    table.append({"id": [4]})
    runs = []
    for stopped in ("- a", "- b", ""):
        rows, at, reason = followed(options, at)
        runs.append(rows)
        assert stopped in reason and bool(reason) == bool(stopped)
    assert runs == [[{"id": 2, "a": "y"}], [{"id": 3, "b": "z"}], [{"id": 4}]]
    # A stream that does not remember sees the rows of before without the columns that have gone.
    plain = {name: value for name, value in options.items() if name != "schemaTrackingLocation"}
    assert DeltaDataSource({**plain, "maxFilesPerTrigger": "1"}).schema().names == ["id"]


def test_two_sources_of_a_stream_remember_apart(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t", {"id": [1]})
    options = {"path": table.path, "schemaLocation": str(tmp_path / "c")}
    for name in ("one", "two"):
        followed({**options, "streamingSourceTrackingId": name}, None)
    folders = sorted(path.name for path in (tmp_path / "c").iterdir())
    assert folders == [f"_schema_log_{table.metadata.id}_{name}" for name in ("one", "two")]
    with pytest.raises(InvalidArgument, match="give one of them"):
        _Read({**options, "failOnDataLoss": "false"})
