"""Rows that are files already: written for a version to come by whoever was told what it will be.

What lives here: :class:`PrewrittenFiles`, which a write takes as it takes rows, and checks against what it
would have written itself.
What it does not know: who wrote the files (executors of Spark's do), and commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltanb.engines.arrow.inputs import Source
from deltanb.errors import MetadataChangedException
from deltanb.log.file_options import FileOptions

if TYPE_CHECKING:
    from deltanb.actions import AddFile, Metadata, Protocol
    from deltanb.engines.arrow.constraints import Check

__all__ = ["Target", "PrewrittenFiles"]


@dataclass(frozen=True)
class Target:
    """What files are written for: a table as it will be when they are committed.

    ``version`` is the one that the commit reads, -1 where it creates the table. ``checks`` are conditions
    beside the table's own, ``clustering`` physical paths of the columns that it is clustered by.
    """

    version: int
    metadata: Metadata
    protocol: Protocol
    checks: tuple[Check, ...] = ()
    clustering: tuple[tuple[str, ...], ...] = ()
    file_options: FileOptions = field(default_factory=FileOptions)


@dataclass(frozen=True)
class PrewrittenFiles(Source):
    """Files in their final place, described; ``schema`` is that of the rows before they were shaped."""

    target: Target | None = None
    files: tuple[AddFile, ...] = ()
    taken: list[bool] = field(default_factory=list)
    """Has an entry once a transaction has the files, which then removes them where it fails."""

    def for_table(
        self, metadata: Metadata, protocol: Protocol, checks: Sequence[Check], data_change: bool, table: str
    ) -> list[AddFile]:
        """The files, where the table is to be what they were written for.

        Raises:
            MetadataChangedException: it is to be something else.
        """
        target = self.target
        assert target is not None
        if (metadata, protocol, tuple(checks)) != (target.metadata, target.protocol, target.checks):
            raise MetadataChangedException(
                f"the files were written for {table} as it was to be after version {target.version}, which "
                "has other columns, properties or features than what is committed now. Write them again")
        self.taken.append(True)
        return [file if file.data_change == data_change else file.replace(data_change=data_change)
                for file in self.files]
