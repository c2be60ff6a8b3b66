"""What runs in the environment of its own: Spark 4.1 with Iceberg's runtime, on a catalog that is served.

    python iceberg_spark.py URL JARS

It prints the rows it reads as JSON, one object a line.
"""

import json
import sys

from pyspark.sql import SparkSession

url, jars = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").appName("iceberg")
    .config("spark.jars", jars).config("spark.ui.enabled", "false")
    .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1").config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "rest").config("spark.sql.catalog.lake.uri", url)
    .getOrCreate())
spark.sql("CREATE NAMESPACE lake.bank")
spark.sql("""CREATE TABLE lake.bank.accounts (id BIGINT, sum BIGINT)
             USING iceberg PARTITIONED BY (bucket(4, id))""")
spark.sql("INSERT INTO lake.bank.accounts VALUES (1, 10), (2, 20)")
spark.sql("""MERGE INTO lake.bank.accounts t USING (SELECT 2 AS id, 5 AS sum UNION ALL SELECT 3, 30) s
             ON t.id = s.id WHEN MATCHED THEN UPDATE SET sum = t.sum + s.sum
             WHEN NOT MATCHED THEN INSERT *""")
spark.sql("ALTER TABLE lake.bank.accounts ADD COLUMN owner STRING")
spark.sql("ALTER TABLE lake.bank.accounts RENAME TO bank.books")
for row in spark.sql("SELECT * FROM lake.bank.books ORDER BY id").collect():
    print("row " + json.dumps(row.asDict()))
print("tables " + json.dumps([row.tableName for row in spark.sql("SHOW TABLES IN lake.bank").collect()]))
print("snapshots " + str(spark.sql("SELECT * FROM lake.bank.books.snapshots").count()))
spark.stop()
