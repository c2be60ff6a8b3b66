"""What the checks look at: a version, its files as arrays, its commits, its properties.

What lives here: :class:`TableState`, made once for a checkup, with what several checks ask: the target size
of a file, the columns that rows are ordered by, the columns worth ordering by.
What it does not know: what is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deltanb.commands.define.clustering import logical_columns
from deltanb.errors import DeltaError, InvalidArgument
from deltanb.log.commits import LOG_FOLDER
from deltanb.observe.checkup import kinds
from deltanb.observe.checkup.commits import MAX_SHOWN, Conditions, Records, ordered_by
from deltanb.observe.checkup.live_files import LiveFiles, Path, leaves, readable_schema
from deltanb.observe.checkup.report import BlindSpot
from deltanb.options import options
from deltanb.schema import properties

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot
    from deltanb.schema.types import StructType
    from deltanb.store.base import FileStatus

MAX_COLUMNS = 32
"""Columns of conditions whose statistics are read, those of most commits: as many as writers describe."""
TUNED = "delta.tuneFileSizesForRewrites"
MAX_ORDERED = 4
"""Columns to order by that are advised: the most that clustering takes."""


@dataclass
class TableState:
    """A table at a version, with what its commits say."""

    snapshot: Snapshot
    records: Records
    blind_spots: list[BlindSpot] = field(default_factory=list)

    @cached_property
    def schema(self) -> StructType:
        """The schema; without a column, and with a blind spot, where it cannot be read."""
        try:
            return self.snapshot.schema
        except DeltaError as error:
            self.blind_spots.append(kinds.blind_spot("schema", [self.snapshot.version], str(error)))
            return readable_schema(self.snapshot)

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions of its commits."""
        return self.records.conditions(self.schema)

    @cached_property
    def files(self) -> LiveFiles:
        """Its files, with bounds of the columns that any check asks for."""
        columns = [*self.clustered_by, *self.z_ordered_by, *self.condition_columns]
        files = LiveFiles.of(self.snapshot, list(dict.fromkeys(columns)))
        if files.problem:
            version = self.snapshot.version
            self.blind_spots.append(kinds.blind_spot("partition-value", [version], files.problem))
        return files

    @cached_property
    def log_files(self) -> dict[str, FileStatus]:
        """The files of the log's folder by name, from one listing."""
        return {status.name: status for status in self.snapshot.log.store.list_from(f"{LOG_FOLDER}/")}

    def setting(self, name: str) -> Any:
        """A property's value; its default, and a blind spot, where the text is no value of it."""
        try:
            return properties.get(self.snapshot.properties, name)
        except InvalidArgument as error:
            spot = kinds.blind_spot("property", (), str(error))
            if spot not in self.blind_spots:
                self.blind_spots.append(spot)
            return properties.get({}, name)

    @cached_property
    def target(self) -> tuple[int, bool]:
        """Bytes that a file is to have, and whether OPTIMIZE has to be asked for it."""
        size = self.setting("delta.targetFileSize")
        if size is not None:
            return max(1, size), False
        named = {name.lower(): text for name, text in self.snapshot.properties.items()}
        if named.get(TUNED.lower(), "").strip().lower() == "true":
            return kinds.REWRITE_TARGET, True
        return options.target_file_size, False

    @cached_property
    def clustered_by(self) -> list[Path]:
        """The clustering columns; none where the domain cannot be read."""
        try:
            return self._known(logical_columns(self.snapshot))
        except (DeltaError, ValueError, TypeError, AttributeError):
            return []

    @cached_property
    def z_ordered_by(self) -> list[Path]:
        """The columns of the last OPTIMIZE that ordered rows; none where the table is clustered."""
        last = self.records.last_optimize
        return [] if self.clustered_by or last is None else self._known(ordered_by(last))

    @cached_property
    def condition_columns(self) -> list[Path]:
        """The columns of the history's conditions that can have bounds, those of most commits first."""
        known = self._known([path for path, _ in self.conditions.commits.most_common()])
        partitions = {name.lower() for name in self.snapshot.partition_columns}
        columns = [path for path in known if path[0].lower() not in partitions]
        if len(columns) > MAX_COLUMNS:
            left_out = ", ".join(map(".".join, columns[MAX_COLUMNS:][:MAX_SHOWN]))
            self.blind_spots.append(kinds.blind_spot("columns", (), left_out))
        return columns[:MAX_COLUMNS]

    @property
    def worth_ordering_by(self) -> list[Path]:
        """The columns to order rows by: those they are ordered by, those of conditions, else the first."""
        first = self.files.columns_with_bounds()[:1]
        return (self.clustered_by or self.z_ordered_by or self.condition_columns or first)[:MAX_ORDERED]

    def _known(self, paths: Sequence[Path]) -> list[Path]:
        """Those of the paths that are columns with bounds, as the schema spells them."""
        by_name = {tuple(map(str.lower, path)): path for path in leaves(self.schema)}
        spelled = (by_name.get(tuple(map(str.lower, path))) for path in paths)
        return [path for path in spelled if path is not None]
