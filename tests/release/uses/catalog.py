"""With the extra ``catalog``: two tables in one commit, in the process and over HTTP."""

import tempfile
from pathlib import Path

import deltanb as dn

folder = Path(tempfile.mkdtemp())
with dn.Catalog(f"sqlite:///{folder}/catalog.db", warehouse=folder / "lake") as catalog:
    catalog.create_namespace("shop")
    for name in ("orders", "totals"):
        catalog.create_table(f"shop.{name}", {"id": [1]})
    with catalog.transaction() as txn:
        txn.table("shop.orders").append({"id": [2]})
        txn.table("shop.totals").append({"id": [2]})
    server = catalog.serve()
    try:
        with dn.connect(server.url) as other:
            assert other.table("shop.totals").count() == 2
    finally:
        server.stop()
