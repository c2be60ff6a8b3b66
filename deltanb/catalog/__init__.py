"""Catalogs of Delta and Iceberg tables: their names in a database, and commits of several tables."""
