"""The source of a MERGE, as people give it.

What lives here: :class:`Source`, which knows the schema of the rows, and converts them when an engine asks.
What it does not know: the table, conditions, clauses.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import pyarrow as pa

from deltanb.commands.choose_engine import choose_by_size
from deltanb.commands.define import evolution
from deltanb.engines.arrow import inputs
from deltanb.engines.arrow.enforce import Enforcer, nullable
from deltanb.errors import InvalidArgument
from deltanb.log.snapshot import Snapshot
from deltanb.schema.types import StructType, to_arrow


class Source:
    """The source of a merge in its original form, until an engine converts it.

    Raises:
        InvalidArgument: data of an unsupported kind, or with two columns of the same name.
    """

    def __init__(self, data: Any) -> None:
        snapshot = getattr(data, "snapshot", None)  # a table's
        self.snapshot = snapshot if isinstance(snapshot, Snapshot) else None
        self.frame = data if inputs.is_spark(data) else None
        self._data: inputs.Source | None = None
        if self.snapshot is not None:
            self.schema: StructType = self.snapshot.schema
        else:
            if self.frame is None:
                data = self._data = inputs.source(data)
            self.schema = evolution.schema_of(data)
        lowered = [name.lower() for name in self.schema.names]
        twice = next((name for name in self.schema.names if lowered.count(name.lower()) > 1), None)
        if twice is not None:
            raise InvalidArgument(f"the source has the column {twice!r} twice (names differ in case at "
                                  "most); rename one", column=twice)

    @property
    def is_large(self) -> bool:
        """Whether it is larger than the process should hold, and Spark is available."""
        return self.snapshot is not None and choose_by_size(
            self.snapshot.log.store, [self.snapshot.files]) == "spark"

    @cached_property
    def table(self) -> pa.Table:
        """The rows in the Arrow types of the schema."""
        schema = nullable(self.schema)
        if self.snapshot is not None:
            from deltanb.engines.arrow.read import iter_batches

            rows = iter_batches(self.snapshot, self.snapshot.files)
            data = inputs.Source(to_arrow(self.schema), lambda: rows)
        elif self.frame is not None:
            from deltanb.engines.spark.columns import arrow_rows

            data = inputs.source(arrow_rows(self.frame))
        else:
            assert self._data is not None
            data = self._data
        enforcer = Enforcer(data.schema, schema)
        batches = [enforcer.apply(batch) for batch in data.batches()]
        return pa.Table.from_batches(batches, to_arrow(schema))
