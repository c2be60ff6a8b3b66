"""What a session with S3A does in tests: functions of it, with values that JSON has.

What lives here: the work; ``tests/engines/spark/test_s3a.py`` says what must have come of it.
"""

from __future__ import annotations

from typing import Any

import deltanb as dn
from deltanb.engines.spark import buckets
from deltanb.engines.spark.connectors import connector_for
from deltanb.engines.spark.stream_sink import reads
from deltanb.errors import DeltaError
from tests.engines.spark.driver import Session

Options = dict[str, str]


def rows(session: Session, path: str, options: Options, where: str | None = None,
        **unused: Any) -> list[Any]:
    """The rows that Spark reads, sorted."""
    _refuse_executors()
    frame = dn.open(path, storage_options=options).to_df(session.spark, where=where)
    return sorted((list(row) for row in frame.collect()), key=repr)


def run(session: Session, path: str, options: Options, call: str, *arguments: Any) -> Any:
    """Call a method of the table by name; DataFrames are given as SQL, as ``{"sql": ...}``."""
    _refuse_executors()
    session.spark  # noqa: B018
    table = dn.open(path, storage_options=options)
    data = [session.spark.sql(one["sql"]) if isinstance(one, dict) and "sql" in one else one
             for one in arguments]
    engine = {} if call == "append" else {"engine": "spark"}
    try:
        result = getattr(table, call)(*data, **engine)
    except Exception as error:
        return {"error": type(error).__name__, "is_ours": isinstance(error, DeltaError),
                "text": str(error)[:2000]}
    return {"version": result.version}


def settled(session: Session) -> None:
    """Wait until no task is at work."""
    session.settle()


def plans(session: Session, path: str, options: Options) -> dict[str, Any]:
    """All that Spark tells of a read: its plan in every mode, and the paths."""
    frame = dn.open(path, storage_options=options).to_df(session.spark)
    execution = frame._jdf.queryExecution()
    explain = frame._sc._jvm.PythonSQLUtils.explainString
    texts = [explain(execution, mode) for mode in ("extended", "formatted", "codegen", "cost")]
    other = session.spark.range(1)
    log = dn.open(path, storage_options=options).log
    return {"plans": [*texts, execution.toString()], "files": frame.inputFiles(),
            "reads": [reads(frame, log), reads(other, log)]}


def settings(session: Session) -> dict[str, str]:
    """The settings of the session, and Hadoop's."""
    hadoop = session.spark.sparkContext._jsc.hadoopConfiguration()
    return {**session.spark.conf.getAll, **{entry.getKey(): entry.getValue() for entry in hadoop.iterator()}}


def event_log(session: Session) -> str:
    """The event log up to now."""
    session.spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    [log] = (session.folder / "events").glob("*")
    return log.read_text()


def connector(session: Session, path: str, options: Options) -> Any:
    """The scheme and the options by which a table is reached; None where executors go."""
    connector_here = connector_for(dn.open(path, storage_options=options).log.store, session.spark)
    return None if connector_here is None else [connector_here.scheme, dict(connector_here.options)]


def _refuse_executors() -> None:
    """The ways of a session without S3A fail from here on."""
    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("executors read or write the files themselves")

    buckets.rows_of = buckets.written = refuse
