"""The settings of the Spark session that a command goes through.

What lives here: :func:`through_session`. What it does not know: the meaning of each setting
(``engines/spark/``), and the choice of the engine.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from deltanb.engines.arrow import inputs

__all__ = ["through_session"]


def through_session(engine: str, data: Any = None, takes: Collection[str] = ()) -> dict[str, Any]:
    """Apply the settings of the command's session, if it has one, until the command ends.

    Args:
        engine: the requested or chosen engine.
        data: the command's rows; a DataFrame has a session.
        takes: the arguments of the command that settings may provide.

    Returns:
        The arguments that settings provide.
    """
    session = getattr(data, "sparkSession", None) if inputs.is_spark(data) else None
    if session is None and engine != "spark":
        return {}
    from deltanb.engines.spark.session import spark
    from deltanb.engines.spark.session_settings import through

    return through(spark() if session is None else session, takes)
