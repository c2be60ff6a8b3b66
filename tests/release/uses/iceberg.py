"""With the extra ``iceberg``: what the rows of a catalog's Iceberg tables are read with."""

import pyiceberg

import deltanb as dn

assert pyiceberg.__version__.startswith("0.12")
assert dn.open
