"""The columns of a stream's source, remembered from one start of the stream to the next.

What lives here: :class:`TrackedColumns`, the record behind the option ``schemaTrackingLocation``: the version
whose columns the stream has. Each change of columns that the stream reaches is one more file of the record.
What it does not know: how a stream reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from deltanb.errors import InvalidTable
from deltanb.store.base import LogStore
from deltanb.store.open import store_for

__all__ = ["TrackedColumns"]

_DIGITS = 20


class TrackedColumns:
    """The record of one source of one stream.

    Args:
        location: a folder, or a place in a bucket, of this stream alone; below its checkpoint is a good one.
        table: the id of the table.
        source: where a stream reads one table twice, a name for each.

    >>> from tempfile import mkdtemp
    >>> tracked = TrackedColumns(mkdtemp(), "an id")
    >>> tracked.version is None
    True
    >>> tracked.note(7)
    >>> tracked.version
    7
    """

    def __init__(
        self, location: str, table: str, source: str | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.location = location
        self._store: LogStore = store_for(location, storage_options or None)
        self._folder = "_".join(filter(None, ("_schema_log", table, source))) + "/"

    @property
    def version(self) -> int | None:
        """The version whose columns the stream has; None before its first start.

        Raises:
            InvalidTable: the record cannot be read.
        """
        return self._newest()[1]

    def note(self, version: int) -> None:
        """Remember that the stream has the columns of a version from now on."""
        number, known = self._newest()
        if version != known:
            self._store.put_if_absent(f"{self._folder}{number + 1:0{_DIGITS}}.json", json.dumps(
                {"version": version}).encode())

    def _newest(self) -> tuple[int, int | None]:
        """The number of the newest file of the record, and the version in it; -1 and None without one."""
        names = [name for name in self._store.list_names(self._folder) if name.endswith(".json")]
        if not names:
            return -1, None
        text = self._store.read(names[-1])
        try:
            return int(names[-1].rpartition("/")[2].partition(".")[0]), int(json.loads(text)["version"])
        except (ValueError, KeyError, TypeError):
            raise InvalidTable(
                f"the record of columns {self.location}/{names[-1]} has no version: "
                "start the stream with a new checkpoint and schemaTrackingLocation",
                path=self.location) from None
