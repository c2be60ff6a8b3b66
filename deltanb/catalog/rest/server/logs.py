"""The log of a server's process: one line of JSON an event.

What lives here: the formatter for the records of all loggers.
What it does not know: what is logged.
"""

from __future__ import annotations

import json
import logging
from typing import TextIO

from deltanb.text.safe_text import get_logger, safe

__all__ = ["JsonLines", "log_to"]


class JsonLines(logging.Formatter):
    """A record as one line of JSON; one whose message is such a line already goes as it is.

    >>> record = logging.LogRecord("deltanb", logging.WARNING, "", 0, "low on %s", ("disk",), None)
    >>> JsonLines().format(record)
    '{"event": "log", "level": "WARNING", "logger": "deltanb", "message": "low on disk"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        message = record.getMessage()
        if message.startswith('{"event":') and not record.exc_info:
            return message
        line = {"event": "log", "level": record.levelname, "logger": record.name, "message": safe(message)}
        if record.exc_info:
            line["exception"] = safe(record.exc_text or self.formatException(record.exc_info))
        return json.dumps(line)


def log_to(stream: TextIO) -> None:
    """Write the log of this process to a stream; of other libraries, warnings and worse."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.root.addHandler(handler)
    get_logger("deltanb").setLevel(logging.INFO)
