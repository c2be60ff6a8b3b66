"""What people call by the name ``deltanb.spark``: a session, SQL on it, and the data source ``deltanb``.

What lives here: names alone. ``deltanb.spark()`` is :func:`deltanb.engines.spark.session.spark`,
``deltanb.spark.sql(session, text)`` is :func:`deltanb.sql` on that session, and ``deltanb.spark.register`` is
:func:`~deltanb.sources.spark.source.register`, which ``deltanb.spark.source`` has, too.
What it does not know: how Spark reads and writes tables (``engines/spark``, ``sources/spark``).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from deltanb.text.completion import offered


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from deltanb.engines.spark.session import spark

        return spark(*args, **kwargs)


def sql(session: Any, text: str, /, **parameters: Any) -> Any:
    """Run SQL over Delta tables with a session of Spark's: :func:`deltanb.sql` with ``spark=session``.

    Queries run on Spark. What changes or describes tables is a call of our methods, as there; names are the
    caller's variables, paths, and tables of catalogs.

    >>> import deltanb as dn
    >>> dn.spark.sql(session, "DELETE FROM flights WHERE delay > :most", most=60)       # doctest: +SKIP
    """
    from deltanb.text import upper

    return upper.run_sql(text, None, session, parameters)


def register(session: Any = None, tables: Mapping[str, Any] | None = None) -> None:
    """Let a session read and write Delta tables, and name them in its SQL; see
    :func:`deltanb.sources.spark.source.register`.

    >>> import deltanb as dn
    >>> dn.spark.register(session, {"flights": "lake/flights"})                         # doctest: +SKIP
    """
    from deltanb.sources.spark.source import register

    register(session, tables)


sys.modules[__name__].__class__ = _CallablePackage
__dir__ = offered(globals(), "source")
