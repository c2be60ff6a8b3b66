"""The Spark session that a command is done through, and what its settings say to the command.

What lives here: :func:`through_session`. What it does not know: what each setting means (``engines/spark/``),
and who chooses the engine.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from deltanb.engines.arrow import inputs

__all__ = ["through_session"]


def through_session(engine: str, data: Any = None, takes: Collection[str] = ()) -> dict[str, Any]:
    """Let the session that a command is done through, if any, say what counts until the command ends.

    Args:
        engine: as it was asked for, or chosen.
        data: the rows that the command was given; a DataFrame has a session.
        takes: the arguments of the command that settings may give.

    Returns:
        Those that settings give.
    """
    session = getattr(data, "sparkSession", None) if inputs.is_spark(data) else None
    if session is None and engine != "spark":
        return {}
    from deltanb.engines.spark.session import spark
    from deltanb.engines.spark.session_settings import through

    return through(spark() if session is None else session, takes)
