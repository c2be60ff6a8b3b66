"""Spark's refusals as errors of this library.

What lives here: the conversion of a Spark exception about SQL to ``InvalidPredicate``, with a readable
reason; and :func:`error_in`, which extracts from its text an error of ours that was raised in a Spark
process.
What it does not know: what the SQL is for; the caller says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    PythonException,
    SparkNoSuchElementException,
    SparkRuntimeException,
    SparkUpgradeException,
    UnsupportedOperationException,
)

from deltanb import errors
from deltanb.errors import DeltaError, InvalidPredicate

MARK = "deltanb:"  # begins our texts among the errors a query may raise
MAX_REASON = 400  # characters: Spark repeats the expression, however long it is
_OURS = re.compile(r"^deltanb\.errors\.(\w+): (.*?)(?=\n\s*\n|\n SQLSTATE|\nTraceback|\nJVM stacktrace|\Z)",
                   re.MULTILINE | re.DOTALL)
_CHAINED = re.compile(r"\s*(The above exception was the direct cause|During handling of the above exception)")
_OF_SQL = (
    AnalysisException, ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException,
    IllegalArgumentException, NumberFormatException, PythonException, SparkNoSuchElementException,
    SparkRuntimeException, SparkUpgradeException, UnsupportedOperationException,
)
"""What Spark raises for SQL and for its values (a syntax error is an ``AnalysisException``). A lost server or
a damaged file raises something else, and is nobody's SQL."""


@contextmanager
def refusals(
    doing: str, sql: str | None, advice: str = "", **details: Any
) -> Iterator[None]:
    """Turn Spark's refusals in the block into ``InvalidPredicate``: "Spark cannot ``doing``: its reason".

    Our own texts (:data:`MARK`) pass: ``checks.translated`` reads them.

    Raises:
        InvalidPredicate: ``.predicate`` is ``sql``; ``details`` are attributes, too.
    """
    try:
        yield
    except _OF_SQL as error:
        if MARK + "{" in str(error):
            raise
        raise InvalidPredicate(
            f"Spark cannot {doing}: {reason(error)}{advice}", predicate=sql, **details) from None


def reason(error: Exception) -> str:
    """The first meaningful line of an error, at most :data:`MAX_REASON` characters.

    >>> reason(ValueError("\\n[PARSE_SYNTAX_ERROR] Syntax error at 'x'.\\n== SQL =="))
    "[PARSE_SYNTAX_ERROR] Syntax error at 'x'."
    >>> reason(ValueError())
    'ValueError'
    """
    line_ = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return line_ if len(line_) <= MAX_REASON else line_[:MAX_REASON] + "…"


def error_in(error: Exception) -> DeltaError | None:
    """The error of this library in Spark's text, raised in a Spark process.

    It has only the message; its attributes are lost.

    >>> error_in(RuntimeError("Traceback ...\\ndeltanb.errors.TableNotFound: no table at lake/x\\n"))
    TableNotFound('no table at lake/x')
    >>> error_in(RuntimeError("no table at lake/x")) is None
    True
    """
    text, ours = str(error), None
    for match in _OURS.finditer(text):
        kind = getattr(errors, match[1], None)
        if isinstance(kind, type) and issubclass(kind, DeltaError):
            ours = kind(match[2].strip())
            if not _CHAINED.match(text, match.end()):  # else it is the cause of what comes next
                break
    return ours
