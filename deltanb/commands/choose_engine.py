"""The choice of an engine for a command, the process or Spark, and the message before a JVM is started.

What lives here: the choice for ``engine="auto"``. Spark does what the process cannot evaluate, and work on
more bytes than the process should handle. The log's sizes are trusted if they keep the work in the process,
and checked against the files before a JVM is started.
What it does not know: what the command does.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from deltanb.actions import decode_path
from deltanb.commands.session import through_session
from deltanb.engines.arrow.constraints import Checker
from deltanb.engines.arrow.data_file import Known, opened
from deltanb.engines.arrow.engine import PROCESS
from deltanb.engines.arrow.generated import checks_of
from deltanb.errors import DeltaError, InvalidArgument, InvalidPredicate, UnsupportedPredicate
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import safe

if TYPE_CHECKING:
    from deltanb.engines.contract import Engine
    from deltanb.store.base import LogStore
    from deltanb.transaction.reads import FileScan
    from deltanb.transaction.transaction import OptimisticTransaction

MAX_IN_PROCESS_BYTES = 1 << 30
"""Compressed bytes of data files that ``engine="auto"`` works on in the process; above it Spark does,
where it is installed. Rows are streamed, so it is time that counts: a minute or so on a laptop."""
ENGINES = ("auto", "arrow", "spark")
_SQL_ONLY = frozenset({"from_avro", "from_protobuf", "luhn_check", "schema_of_avro", "to_avro", "to_protobuf",
                       "vector_cosine_similarity", "vector_inner_product", "vector_l2_distance",
                       "vector_norm", "vector_normalize"})
"""Spark's functions of one row that pyspark.sql.functions does not have under their names."""


def choose_engine(
    txn: OptimisticTransaction, engine: str, files: FileScan, reason: UnsupportedPredicate | None,
    sql: Iterable[str | None] = (),
) -> str:
    """The engine for work on these files, ``arrow`` or ``spark``.

    Args:
        engine: ``auto``, or a particular one.
        files: the files that may have to be read.
        reason: why the command's SQL cannot run in the process, None if it can.
        sql: all SQL of the command.

    With ``auto``, Spark is chosen if the process cannot run the SQL, and for more than
    ``MAX_IN_PROCESS_BYTES`` if it is installed and can reach the files.

    Raises:
        InvalidArgument: an unknown engine.
        UnsupportedPredicate: ``engine="arrow"`` and SQL that cannot run there.
        InvalidPredicate: SQL that would need Spark and calls a function that Spark does not have.
    """
    check_engine(engine)
    if reason is None:
        reason = _unchecked_constraint(txn)
    if engine == "arrow" and reason is not None:
        raise reason.or_else('take engine="spark"')
    texts = [text for text in sql if text]
    if reason is not None and any(map(_may_have_query, texts)):
        txn._reads.has_queries = True
    if engine != "auto":
        return engine
    if reason is not None:
        if find_spec("pyspark") is None:
            raise reason.or_else("let PySpark run it: pip install 'deltanb[spark]'")
        for text in texts:
            refuse_unknown_functions(text)
        announce_spark(str(reason), 'With engine="arrow" it is refused instead')
        return "spark"
    return choose_by_size(txn.log.store, [files.table])


def _may_have_query(sql: str) -> bool:
    from deltanb.sql.syntax import has_query

    try:
        return has_query(sql)
    except DeltaError:  # SQL of Spark that is not understood here
        return True


def named(engine: str) -> Engine:
    """The engine that :func:`choose_engine` chose."""
    if engine == "spark":
        from deltanb.engines.spark.engine import SPARK

        through_session(engine)
        return SPARK
    return PROCESS


def choose_by_size(store: LogStore, files: Iterable[pa.Table]) -> str:
    """Like :func:`choose_engine`, for work that both can do: only by the size of the files."""
    if store.local_path("") is None or find_spec("pyspark") is None:
        return "arrow"
    size = bytes_to_read(store, files)
    if size <= MAX_IN_PROCESS_BYTES:
        return "arrow"
    from deltanb.text.formatting import size as shown

    announce_spark(
        f"{shown(size)} or more are to be read, and this process takes on {shown(MAX_IN_PROCESS_BYTES)} by "
        "itself", 'With engine="arrow" it does so anyway')
    return "spark"


def bytes_to_read(store: LogStore, files: Iterable[pa.Table], whole: bool = False) -> int:
    """Compressed bytes of data files, given as a snapshot lists them.

    A ``size`` in the log may be wrong. If their sum exceeds ``MAX_IN_PROCESS_BYTES``, footers are read, those
    of the largest files first, until they exceed it, too; with ``whole``, all of them.
    """
    known = pa.concat_tables([table.select(["path", "size"]) for table in files])
    logged = int(pc.sum(known["size"]).as_py() or 0)
    if logged <= MAX_IN_PROCESS_BYTES:
        return logged
    total = 0
    for row in known.sort_by([("size", "descending")]).to_pylist():
        total += _stored_bytes(store, row["path"], row["size"] or 0)
        if total > MAX_IN_PROCESS_BYTES and not whole:
            break
    return total


def _stored_bytes(store: LogStore, path: str, logged: int) -> int:
    """The size by the file's footer, or by the log if it cannot be read, which a later step reports."""
    known = Known(logged)
    with suppress(DeltaError, OSError, ValueError), opened(store, decode_path(path), known=known) as parquet:
        parquet.check_sound()
        groups = map(parquet.metadata.row_group, range(parquet.metadata.num_row_groups))
        return sum(group.column(place).total_compressed_size
                   for group in groups for place in range(group.num_columns))
    return logged


def check_engine(engine: str) -> None:
    """Refuse an engine that does not exist.

    Raises:
        InvalidArgument: neither ``auto`` nor ``arrow`` nor ``spark``.
        MissingDependency: ``spark``, and PySpark is not installed.
    """
    if engine == "spark":
        from deltanb.engines.spark.session import require_pyspark

        require_pyspark()
    if engine not in ENGINES:
        raise InvalidArgument(f"engine={engine!r} is not one of {', '.join(map(repr, ENGINES))}")


def announce_spark(why: str, instead: str) -> None:
    """Print one line to stderr before Spark is started without an explicit request.

    Prints nothing if Spark runs already or is a server (``SPARK_REMOTE``).
    """
    if os.environ.get("SPARK_REMOTE") or sys.stderr is None:
        return
    from deltanb.engines.spark.session import running_session

    if running_session() is None:
        why = safe(why).splitlines()[0].rstrip(".")
        sys.stderr.write(f"deltanb starts Spark for this, which takes some seconds: {why}. {instead}.\n")
        sys.stderr.flush()


def refuse_unknown_functions(sql: str) -> None:
    """Refuse SQL that calls functions unknown to Spark, before a JVM is started in vain.

    A running session or a server may have its own functions, so the SQL is passed to it.

    Raises:
        InvalidPredicate: naming the function, with the closest names.
    """
    from deltanb.engines.spark.session import running_session
    from deltanb.sql.row_expressions import ROW_FUNCTIONS
    from deltanb.sql.syntax import anonymous_functions

    try:
        names = anonymous_functions(sql)
    except UnsupportedPredicate:  # nested too deeply for this process
        return
    if not names or os.environ.get("SPARK_REMOTE") or running_session() is not None:
        return
    try:
        from pyspark.sql import functions
    except ImportError:
        return
    known = {*ROW_FUNCTIONS, *_SQL_ONLY, *dir(functions)}
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        hint, close = did_you_mean(unknown, sorted(known), least=0.6, shown="{}()".format)
        raise InvalidPredicate(
            f"{sql!r} calls {unknown}(), which is not a function of Spark"
            f"{f'; {hint}' if close else ''}. If it is one of your own, start a session "
            'that has it first, or pass engine="spark"', predicate=sql)


def _unchecked_constraint(txn: OptimisticTransaction) -> UnsupportedPredicate | None:
    try:
        Checker(txn.metadata.schema, txn.metadata, checks_of(txn.metadata, txn.protocol))
    except UnsupportedPredicate as error:
        return error
    return None
