"""DataFrames in and out of Delta tables, through PySpark's public API in all modules but one.

What lives here: the session (:mod:`~deltanb.spark.session`), a table's files as a DataFrame
(:mod:`~deltanb.spark.read`), a DataFrame as data files (:mod:`~deltanb.spark.write`). All of it works
on Spark Connect: what reaches into the JVM (:mod:`~deltanb.spark.listed`) only makes reading faster.
What it does not know: transactions. It hands out ``AddFile`` actions and DataFrames.

The package is callable, because ``deltanb.spark`` is both this package and the function that
starts a session: ``deltanb.spark()`` is :func:`deltanb.spark.session.spark`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from deltanb.text.completion import offered


class _CallablePackage(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from deltanb.spark.session import spark

        return spark(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
__dir__ = offered(globals())
