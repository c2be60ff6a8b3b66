"""Queries: SQL over tables that are named by Python variables or paths, run by DuckDB or Spark."""
