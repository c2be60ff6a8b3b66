"""What people call by the name ``deltanb.spark``: a session, and the data source ``deltanb``.

What lives here: names alone. ``deltanb.spark()`` is :func:`deltanb.engines.spark.session.spark`, and
``deltanb.spark.source`` has :func:`~deltanb.sources.spark.source.register`.
What it does not know: how Spark reads and writes tables (``engines/spark``, ``sources/spark``).
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from deltanb.text.completion import offered


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from deltanb.engines.spark.session import spark

        return spark(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
__dir__ = offered(globals(), "source")
