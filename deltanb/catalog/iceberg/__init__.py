"""Iceberg tables in a warehouse: created, loaded, and changed together."""
