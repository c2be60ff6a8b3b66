"""A history as columns: one row per commit, with the columns of ``DESCRIBE HISTORY``.

What lives here: the columns' types, and the conversion of all writers' values: some write metrics and flags
as text, others as numbers.
What it does not know: where commits are read, how a history is shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltanb.errors import MissingDependency
from deltanb.log.history import History, HistoryEntry
from deltanb.log.lines import whole_number
from deltanb.text.formatting import value_of

if TYPE_CHECKING:
    import pandas
    import pyarrow as pa

TEXTS = {"userId": "user_id", "userName": "user_name", "operation": "operation", "job": "job",
         "notebook": "notebook", "clusterId": "cluster_id", "isolationLevel": "isolation_level",
         "userMetadata": "user_metadata", "engineInfo": "engine_info", "txnId": "txn_id"}  # fmt: skip
MAPS = {"operationParameters": "operation_parameters", "operationMetrics": "operation_metrics",
        "tags": "tags"}  # fmt: skip
ORDER = ("version", "timestamp", "userId", "userName", "operation", "operationParameters", "job", "notebook",
         "clusterId", "readVersion", "isolationLevel", "isBlindAppend", "operationMetrics", "userMetadata",
         "engineInfo", "txnId", "tags")  # fmt: skip


def to_arrow(history: History) -> pa.Table:
    """The commits of a history, in its order.

    ``version`` and ``readVersion`` are int64, ``timestamp`` is in UTC with milliseconds, ``isBlindAppend``
    is boolean; ``operationParameters``, ``operationMetrics`` and ``tags`` are maps of texts. The others are
    texts; other values, such as a job, become JSON. Null stands for missing fields.

    >>> entry = HistoryEntry(3, 0, operation_metrics={"numOutputRows": 18}, is_blind_append="true")
    >>> row = to_arrow(History([entry])).to_pylist()[0]
    >>> row["operationMetrics"], row["isBlindAppend"], row["userName"]
    ([('numOutputRows', '18')], True, None)
    """
    import pyarrow as pa

    text_map = pa.map_(pa.string(), pa.string())
    types = {"version": pa.int64(), "timestamp": pa.timestamp("ms", "UTC"), "readVersion": pa.int64(),
             "isBlindAppend": pa.bool_()}
    types |= dict.fromkeys(TEXTS, pa.string()) | dict.fromkeys(MAPS, text_map)
    rows = [_row(entry) for entry in history]
    return pa.table({name: pa.array([row[name] for row in rows], types[name]) for name in ORDER})


def to_pandas(history: History) -> pandas.DataFrame:
    """The same as a DataFrame; maps are dicts.

    Raises:
        MissingDependency: pandas is not installed.
    """
    try:
        import pandas  # noqa: F401
    except ImportError:
        raise MissingDependency(
            "history.to_pandas() needs pandas: pip install pandas; history.to_arrow() has the same columns",
            extra="notebook") from None
    return to_arrow(history).to_pandas(maps_as_pydicts="lossy")


def _row(entry: HistoryEntry) -> dict[str, Any]:
    return {
        "version": entry.version, "timestamp": entry.timestamp,
        "readVersion": whole_number(entry.read_version), "isBlindAppend": _flag(entry.is_blind_append),
        **{name: _text(getattr(entry, field)) for name, field in TEXTS.items()},
        **{name: _map(getattr(entry, field)) for name, field in MAPS.items()},
    }


def _text(value: Any) -> str | None:
    return None if value is None else value_of(value)


def _flag(value: Any) -> bool | None:
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None


def _map(value: Any) -> list[tuple[str, str | None]] | None:
    if isinstance(value, str):  # some writers set the whole as text
        try:
            value = json.loads(value)
        except ValueError:
            return None
    return [(str(key), _text(each)) for key, each in value.items()] if isinstance(value, Mapping) else None
