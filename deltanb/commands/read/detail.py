"""DESCRIBE DETAIL: a table's description as one row.

What lives here: :func:`detail`, from a snapshot alone.
What it does not know: data files.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from deltanb.commands.define.clustering import logical_columns
from deltanb.schema.protocol import features_of
from deltanb.text.display import Displayable
from deltanb.text.safe_text import redacted

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


class TableDetail(Displayable, dict[str, Any]):
    """The row of DESCRIBE DETAIL, a dict with its own picture.

    >>> import deltanb as dn
    >>> from deltanb.testing import MemoryStore
    >>> detail = dn.create(MemoryStore(), {"id": [1]}).detail()
    >>> detail["numFiles"], detail["partitionColumns"]
    (1, [])
    """


def detail(snapshot: Snapshot) -> TableDetail:
    """The columns of Delta's DESCRIBE DETAIL with their values; times are datetimes in UTC.

    >>> from deltanb.testing import MemoryStore, TableBuilder
    >>> found = detail(TableBuilder(MemoryStore()).create("id long").log.update())
    >>> found["format"], found["numFiles"], found["partitionColumns"]
    ('delta', 0, [])
    """
    metadata, protocol = snapshot.metadata, snapshot.protocol
    return TableDetail({
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name,
        "description": metadata.description,
        "location": redacted(snapshot.log.path),
        "createdAt": _time(metadata.created_time),
        "lastModified": _time(snapshot.timestamp),
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": [".".join(path) for path in logical_columns(snapshot)],
        "numFiles": snapshot.num_files,
        "sizeInBytes": snapshot.size_in_bytes,
        "properties": dict(metadata.configuration),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(features_of(protocol)),
    })


def _time(milliseconds: int | None) -> dt.datetime | None:
    return None if milliseconds is None else _EPOCH + dt.timedelta(milliseconds=milliseconds)
