"""SQL as people of Delta write it: ``deltanb.sql(…)`` and ``catalog.sql(…)``.

What lives here: :func:`run_sql`, which chooses the engine and looks names up among a caller's variables.
What it does not know: notebooks, statements.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Mapping
from types import FrameType
from typing import Any

from deltanb.errors import InvalidQuery
from deltanb.query.names import Scope
from deltanb.query.run import Engine
from deltanb.query.script import run_script

_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


def run_sql(
    text: str, variables: Mapping[str, Any] | None = None, spark: Any = None,
    parameters: Mapping[str, Any] | None = None, catalog: Any = None,
    created: dict[str, Any] | None = None,
) -> Any:
    """Run statements; what they mean, and the errors, are those of :func:`deltanb.sql`.

    Args:
        variables: by name; None for those of whoever called this library.
        spark: a session that runs queries, or True for the running one; by default DuckDB does.
        parameters: variables that come before the others.
        catalog: the catalog whose tables come first.
        created: gets the tables that are created under a name of their own.
    """
    if not isinstance(text, str):
        raise InvalidQuery(f"SQL is text, found {type(text).__name__}", query=str(text))
    if variables is None:
        variables = variables_of_caller()
    names = ChainMap(dict(parameters or {}), variables)  # type: ignore[arg-type]
    scope = Scope(names, catalog, {} if created is None else created)
    return run_script(text, scope, engine_of(spark))


def variables_of_caller() -> Mapping[str, Any]:
    """The variables of who called this library, by name; its own frames are passed over, since a method may
    be wrapped."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return {} if frame is None else ChainMap(dict(frame.f_locals), frame.f_globals)


def engine_of(spark: Any = None) -> Engine:
    """Who runs queries: DuckDB, or Spark in a session or in the running one."""
    if spark is None or spark is False:
        from deltanb.query.duck import DUCKDB

        return DUCKDB
    from deltanb.query.on_spark import SPARK, in_session

    return SPARK if spark is True else in_session(spark)
