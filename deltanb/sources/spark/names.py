"""Names of Delta tables in Spark's SQL: by path, and by views of a session that follow their tables.

What lives here: :func:`add_catalog`, by which a session has ``deltanb.`path```, and :func:`add_views`.
What it does not know: how the data source reads and writes.

Spark's catalogs are classes of its JVM. Ours is compiled there (``TablesByPath.java``), without a JAR to
install; a session of Spark Connect has no JVM to reach, and does without.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltanb.engines.spark.compiled import is_everywhere
from deltanb.engines.spark.reachable import check_reachable
from deltanb.errors import IllegalStateError, InvalidArgument, shown
from deltanb.schema.types import backticked
from deltanb.table.table import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CATALOG", "add_catalog", "add_views"]

CATALOG = "deltanb"
CLASS = "TablesByPath"
SETTING = f"spark.sql.catalog.{CATALOG}"


def add_catalog(session: SparkSession) -> bool:
    """Let SQL of a session name tables by paths, as ``deltanb.`lake/flights```; whether that is possible.

    It sets ``spark.sql.catalog.deltanb``, unless the session has it.
    """
    if session.conf.get(SETTING, None) is not None:
        return True
    if not is_everywhere(session, CLASS):
        return False
    session.conf.set(SETTING, f"deltanb.{CLASS}")
    return True


def add_views(session: SparkSession, tables: Mapping[str, Any]) -> None:
    """Name tables by temporary views that read the newest version with each query.

    Args:
        tables: names, with the table or its path. A table that stands at a version is read at that version.

    Raises:
        InvalidArgument: a name that is none, or a table that Spark's processes cannot reach.
        IllegalStateError: a session that cannot have such views.
    """
    places = {name: _place(name, table) for name, table in tables.items()}
    if places and not add_catalog(session):
        raise IllegalStateError(
            "views that follow their tables need the JVM of a session, and this one has none in reach (Spark "
            "Connect). Name a version by table.to_df(session).createOrReplaceTempView(name), or run "
            "deltanb.spark.sql(session, …), which reads the newest")
    for name, place in places.items():
        session.sql(f"CREATE OR REPLACE TEMPORARY VIEW {backticked(name)} AS SELECT * FROM {place}")


def _place(name: Any, table: Any) -> str:
    """A table as SQL of the session names it."""
    if not isinstance(name, str) or not name.strip() or "." in name:
        raise InvalidArgument(f"{shown(name)} is not the name of a view: give a name without dots")
    if not isinstance(table, DeltaTable) and isinstance(table, str | os.PathLike):
        table = DeltaTable.for_path(table)
    if not isinstance(table, DeltaTable):
        raise InvalidArgument(f"{name}={shown(table)} is not a table; give a table or its path")
    check_reachable(table.log, "a name in Spark's SQL is read by processes of Spark", {
        "committer": "Name a version by table.to_df(session).createOrReplaceTempView(name), or run "
                     "deltanb.spark.sql(session, …), which reads the newest",
        "memory": "Keep the table in a folder or a bucket",
        "credentials": "Give them to the environment of those processes, and open the table without"})
    version = "" if table._pinned is None else f" VERSION AS OF {table.version}"
    return f"{CATALOG}.{backticked(table.path)}{version}"
