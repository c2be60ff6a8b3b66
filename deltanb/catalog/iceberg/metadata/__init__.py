"""Metadata of Iceberg tables: checked and changed as plain JSON."""
