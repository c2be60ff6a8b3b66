"""Many tables, Delta and Iceberg: their names in a database, and how they move together."""
