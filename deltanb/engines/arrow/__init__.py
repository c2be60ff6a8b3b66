"""Parquet data in and out of a table, with Arrow only: no JVM, no engine, no notebook.

Modules are imported one by one (``deltanb.engines.arrow.read``); this package itself imports nothing, so
that ``import deltanb`` stays light.
"""
