"""Options of the data source: each is known by its name and has a value of its kind."""

from __future__ import annotations

import pytest

from deltanb.errors import InvalidArgument
from deltanb.spark.source_options import ReadOptions, WriteOptions


@pytest.mark.parametrize(("options", "said"), [
    ({}, "needs the path of a table"),
    ({"path": "t", "startingVersion": "1"}, "'startingVersion' .* is for the change data feed"),
    ({"path": "t", "readChangeFeed": "yes"}, "'readChangeFeed' .* is true or false, found 'yes'"),
    ({"path": "t", "readChangeFeed": "true", "startingVersion": "1", "startingTimestamp": "2024"},
     "contradict"),
    ({"path": "t", "readChangeFeed": "true", "versionAsOf": "1"}, "contradict"),
    ({"path": "t", "versionAsOf": "-1"}, "whole number"),
    ({"path": "t", "maxFilesPerTrigger": "1"}, "is one of streams, not of reading"),
    ({"path": "t", "aws_region": "x"}, "no option 'aws_region' of reading"),
    ({"path": "s3://b/t", "aws_regoin": "x"}, "did you mean 'region'"),
])
def test_options_of_reading_are_checked(options, said):
    with pytest.raises(InvalidArgument, match=said):
        ReadOptions.of(options)


@pytest.mark.parametrize(("options", "overwrite", "said"), [
    ({"replaceWhere": "id > 1"}, False, r"'replaceWhere' .* is for \.mode\(\"overwrite\"\)"),
    ({"overwriteSchema": "true"}, False, "overwrite"),
    ({"partitionOverwriteMode": "sometimes"}, True, "one of static, dynamic, found 'sometimes'"),
    ({"partitionOverwriteMode": "dynamic"}, False, "overwrite"),
    ({"txnAppId": "x"}, False, "belong together"),
    ({"txnAppId": "x", "txnVersion": "one"}, False, "whole number"),
    ({"partitionBy": "[1]"}, False, "names of columns"), ({"partitionBy": "a,"}, False, "names of columns"),
    ({"targetFileSize": "0"}, False, "a number of bytes"), ({"saveMode": "error"}, True, "for .mode"),
    ({"saveMode": "maybe"}, False, "one of append"),
    ({"versionAsOf": "1"}, False, "one of reading, not of writing"),
    ({"mergeShema": "true"}, False, "did you mean mergeSchema"),
])
def test_options_of_writing_are_checked(options, overwrite, said):
    with pytest.raises(InvalidArgument, match=said):
        WriteOptions.of({"path": "t", **options}, overwrite)


def test_options_know_no_case_and_hide_what_reaches_a_bucket():
    found = ReadOptions.of({"PATH": "s3://b/t", "READchangeFEED": "TRUE", "startingversion": "2",
                            "aws_secret_access_key": "hush"})
    assert (found.start, found.changes, "hush" in repr(found)) == (2, True, False)
    assert WriteOptions.of({"path": "t", "partitionBy": '["a,b", "c"]'}, False).partition_by == ("a,b", "c")
