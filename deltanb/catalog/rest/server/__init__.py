"""A catalog served over HTTP: the Iceberg REST catalog, with commits of many tables at once.

>>> from deltanb.catalog.rest.server import serve
>>> import httpx
>>> with serve("sqlite:///catalog.db", warehouse="lake") as server:
...     sorted(httpx.get(f"{server.url}/v1/config").json())
['defaults', 'endpoints', 'idempotency-key-lifetime', 'overrides']
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deltanb.catalog.rest.server.serving import Server, serve

__all__ = ["Server", "serve"]


def __getattr__(name: str) -> Any:
    """Loaded when it is asked for: a client needs the table of endpoints, and no Starlette."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.serving"), name)
