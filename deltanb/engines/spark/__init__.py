"""DataFrames in and out of Delta tables, through PySpark's public API in all modules but two.

What lives here: the session (:mod:`~deltanb.engines.spark.session`), a table's files as a DataFrame
(:mod:`~deltanb.engines.spark.read`), a DataFrame as data files (:mod:`~deltanb.engines.spark.write`). All of
it works on Spark Connect: what uses the JVM (:mod:`~deltanb.engines.spark.listed`) only makes reading faster.
What it does not know: transactions. It returns ``AddFile`` actions and DataFrames.
"""
