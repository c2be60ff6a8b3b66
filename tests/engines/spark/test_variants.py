"""Variants that Spark has stored in pieces: put together in the process as Spark does, byte by byte."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

from pyspark.sql import functions as F

from deltanb.engines.arrow.conform import Place, compile_conversion
from deltanb.engines.spark.session import settings
from deltanb.schema.types import PrimitiveType

pytestmark = pytest.mark.spark

ROWS = 300
SCALARS = ("null", "true", "1", "-200", "70000", "3000000000", "1.5", "1e300", "12345678901.25", '"text"',
           '"2024-01-02"', '"' + "long " * 20 + '"', '"ü\\u0000€"', "12345678901234567890123456789012345678")
# None from U+E000 to U+FFFF beside one beyond: Spark orders names by their UTF-16, the specification by
# their UTF-8, and so do we.
KEYS = ("a", "b", "c", "Z", "ü", "a b", "a.b", "\U0001f600")


def document(chance: random.Random, depth: int = 0) -> str:
    """JSON, with some keys more often than others and some types where others are expected."""
    kind = chance.random()
    if depth > 3 or kind < 0.4:
        return chance.choice(SCALARS)
    if kind < 0.55:
        return "[" + ",".join(document(chance, depth + 1) for _ in range(chance.randrange(5))) + "]"
    keys = chance.sample(KEYS, chance.randrange(len(KEYS)))
    fields = (f"{json.dumps(key, ensure_ascii=False)}:{document(chance, depth + 1)}" for key in keys)
    return "{" + ",".join(fields) + "}"


TYPED = """
to_variant_object(named_struct(
    'date', date_add(DATE'1900-01-01', int(id * 997)), 'at', timestamp_micros(id * 77777777777),
    'wall', cast(timestamp_micros(id * 12345) AS TIMESTAMP_NTZ), 'f', cast(id / 3 AS FLOAT),
    'd', IF(id % 5 = 0, double('NaN'), id / 7), 'bytes', cast(cast(id AS STRING) AS BINARY),
    'small', cast(id / 4 AS DECIMAL(9, 2)), 'wide', cast(id AS DECIMAL(38, 10)) * -1,
    'tiny', cast(id % 100 AS TINYINT), 'flag', id % 2 = 0,
    'list', array(named_struct('x', id), named_struct('x', NULL)), 'map', map('k', id, 'l', NULL)))
"""

SCHEMAS = [
    "a BIGINT, b STRING, c STRUCT<a DOUBLE, Z ARRAY<STRING>>, `ü` BOOLEAN",
    "a STRUCT<a STRUCT<a DECIMAL(38, 2)>>, `a b` ARRAY<STRUCT<a INT, b STRING>>, `a.b` DECIMAL(9, 1)",
    "BIGINT", "STRING", "ARRAY<ARRAY<BIGINT>>", "`\U0001f600` TINYINT, `ü` SMALLINT",
    "date DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, f FLOAT, d DOUBLE, bytes BINARY, small DECIMAL(9, 2), "
    "wide DECIMAL(38, 10), tiny TINYINT, flag BOOLEAN, list ARRAY<STRUCT<x BIGINT>>, map STRUCT<k BIGINT>",
]


@pytest.mark.parametrize("seed", range(len(SCHEMAS)))
def test_variants_at_random_are_what_spark_reads(spark: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    texts = spark.createDataFrame(
        [(n, document(chance) if n % 10 else None) for n in range(ROWS)], "id bigint, text string")
    texts = texts.withColumn("v", F.expr(f"IF(id % 4 = 1, {TYPED}, parse_json(text))")).drop("text")
    changed = {"spark.sql.variant.writeShredding.enabled": "true",
              "spark.sql.variant.inferShreddingSchema": "false",
              "spark.sql.variant.forceShreddingSchemaForTest": SCHEMAS[seed],
              "spark.sql.parquet.annotateVariantLogicalType": ("true", "false")[seed % 2]}
    with settings(spark, changed):
        texts.coalesce(1).write.parquet(f"file:{tmp_path}/t")
    (path,) = (tmp_path / "t").glob("*.parquet")
    stored = pq.ParquetFile(path).read().combine_chunks()
    convert = compile_conversion(stored.schema.field("v").type, PrimitiveType("variant"), "none",
                                 Place(str(path), "v"))
    assert convert is not None
    ours = convert(stored.column("v").chunk(0)).to_pylist()
    read = spark.read.schema("id bigint, v variant").parquet(f"file:{path}").collect()
    assert stored.column("id").to_pylist() == [row.id for row in read]
    theirs = [row.v and {"metadata": bytes(row.v.metadata), "value": bytes(row.v.value)} for row in read]
    assert len(ours) == ROWS and ours.count(None) == theirs.count(None) > 0
    different = [n for n, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other]
    assert different == []
    storage = stored.schema.field("v").type
    storage = getattr(storage, "storage_type", storage)
    assert "typed_value" in [field.name for field in storage], "it was in pieces"
