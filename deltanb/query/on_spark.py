"""Queries on Spark: tables are views over the files that may hold what is asked for.

What lives here: :data:`SPARK`, the engine.
What it does not know: which files may be left out (``pushed``), how Spark reads them
(``engines/spark/read``).

The session is the running one, or a local one is begun. Its views are dropped when the rows are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import pyarrow as pa

from deltanb.errors import InvalidArgument, InvalidPredicate, InvalidQuery, shown
from deltanb.query.run import Answer, Engine, Source


def run(sql: str, sources: list[Source], values: Mapping[str, Any], session: Any = None) -> Answer:
    """The rows of a query, in a session of the caller's or in the running one.

    Raises:
        MissingDependency: there is no PySpark or no Java.
        InvalidQuery: Spark refuses the query; its reason is in the message.
        DeltaError: a table cannot be read.
    """
    session = _session() if session is None else session
    from deltanb.engines.spark.columns import arrow_rows
    from deltanb.engines.spark.jobs import followed
    from deltanb.engines.spark.refusals import refusals

    try:
        for source in sources:
            _frame(session, source).createOrReplaceTempView(source.name)
        with refusals("run the query", sql), followed(session, "Spark runs the query"):
            frame = session.sql(sql, args=dict(values)) if values else session.sql(sql)
            return Answer(arrow_rows(frame))
    except InvalidPredicate as reason:
        raise InvalidQuery(reason.message, query=sql) from None
    finally:
        for source in sources:
            session.catalog.dropTempView(source.name)


def _frame(session: Any, source: Source) -> Any:
    from deltanb.engines.spark.columns import arrow_frame
    from deltanb.engines.spark.read import read_table

    if source.snapshot is None:
        return arrow_frame(session, pa.table(source.rows))
    return read_table(source.snapshot, source.files, session, columns=source.columns)


def _session() -> Any:
    from deltanb.engines.spark.session import spark

    return spark()


def _is_utc(session: Any = None) -> bool:
    zone = (_session() if session is None else session).conf.get("spark.sql.session.timeZone")
    return zone in ("UTC", "Etc/UTC", "GMT", "Z")


SPARK = Engine("Spark", "spark", run, is_utc=_is_utc)


def in_session(session: Any) -> Engine:
    """The engine that runs queries in one session.

    Raises:
        InvalidArgument: it is no session.
    """
    if not hasattr(session, "sql") or not hasattr(session, "catalog"):
        raise InvalidArgument(f"spark={shown(session)} is not a Spark session: give one, or True")
    return Engine("Spark", "spark", partial(run, session=session), is_utc=partial(_is_utc, session))
