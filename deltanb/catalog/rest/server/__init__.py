"""A catalog served over HTTP: the Iceberg REST catalog, with commits of many tables at once.

>>> from deltanb.catalog.rest.server import serve
>>> import httpx
>>> with serve("sqlite:///catalog.db", warehouse="lake") as server:
...     sorted(httpx.get(f"{server.url}/v1/config").json())
['defaults', 'endpoints', 'idempotency-key-lifetime', 'overrides']
"""

from deltanb.catalog.rest.server.serving import Server, serve

__all__ = ["Server", "serve"]
