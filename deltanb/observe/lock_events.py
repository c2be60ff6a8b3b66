"""Recorded events of locks as an Arrow table, to count, group and join them.

What lives here: the columns of that table.
What it does not know: how events are recorded and drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from deltanb.locks.core.record import LockEvent

SCHEMA = pa.schema([
    pa.field("number", pa.int64(), nullable=False), pa.field("at", pa.duration("ns"), nullable=False),
    pa.field("transaction", pa.int64(), nullable=False), pa.field("name", pa.string()),
    pa.field("what", pa.string(), nullable=False),
    pa.field("index", pa.int64()), pa.field("key", pa.binary()), pa.field("lock", pa.string()),
    pa.field("mode", pa.string()), pa.field("held", pa.string()), pa.field("level", pa.int32()),
])
"""A row is an event; ``at`` is the time since the manager was made, ``lock`` is what messages call it."""


def lock_events(events: Sequence[LockEvent]) -> pa.Table:
    """The events as a table, the oldest first.

    >>> lock_events([LockEvent(0, 5, 1, "granted", 1, b"k", "shared", "shared")]).to_pylist()[0]["lock"]
    '1:k'
    """
    def column(name: str) -> list[Any]:
        return [getattr(event, name) for event in events]

    values = {
        "number": column("number"), "at": column("at_ns"),
        "transaction": [int(event.transaction) for event in events],
        "name": [event.name or None for event in events], "what": column("what"),
        "index": [None if event.index_id is None else int(event.index_id) for event in events],
        "key": column("key"), "lock": [event.lock or None for event in events],
        "mode": column("mode"), "held": column("held"), "level": column("level"),
    }
    return pa.table(values, schema=SCHEMA)
